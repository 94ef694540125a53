"""Overhead of a trial of a sweep on loky and on Dask, and of four workers on two cores.

python benchmarks/sweeps.py [overhead] [profile] [dask] [threads] [thousand] [arithmetic] [--smoke]; all but profile by
default

`overhead`: 200 tiny trials against a plain joblib loop over the same function, interleaved; medians.
`arithmetic`: the rates in nbs/09_studies/sweeps/03_cluster: the inner loops of a GRU trained by PPO at the sizes of the
POPGym paper, and of an LSTM autoencoder over 1,089 sensors at those of the landing paper.
"""

import argparse
import contextlib
import cProfile
import os
import pstats
import statistics
import tempfile
import time
from dataclasses import dataclass, field

import joblib

from srlviz.core.jobs.runs import RunFolder
from srlviz.core.scores import score_row
from srlviz.studies.sweeps.commands import status_text
from srlviz.studies.sweeps.report import plan
from srlviz.studies.sweep import sweep


@dataclass
class Sizes:
    "Numbers of tiny trials and rounds; arguments of `ppo_rate` and of `autoencoder_seconds`"

    trials: int = 200
    rounds: int = 3
    ppo: dict = field(default_factory=dict)
    windows: dict = field(default_factory=dict)

    @property
    def busy(self) -> int:
        "CPU-bound trials"
        return self.trials // 5


SMALLEST = Sizes(5, 1, dict(hidden=8, piece=8, minibatch=16, envs=2), dict(sensors=8, window=5, batch=2))


def row(x, value):
    return [score_row(study='tiny', task=f'x{x}', method='exact', metric='square', value=value)]


def tiny(x: int):
    return row(x, float(x * x))


def cpu_bound(x: int, n: int = 200):
    import torch

    a, w = torch.ones(256, 256), torch.full((256, 256), 1 / 256)
    for _ in range(n):
        a = a @ w
    return row(x, a.mean().item())


def sweep_seconds(trial, n, workers=1, address=None):
    "Wall seconds of a sweep in a new folder"
    with tempfile.TemporaryDirectory() as folder:
        start = time.perf_counter()
        sweep(trial, {'x': [*range(n)]}, folder, workers=workers, address=address, progress=False)
        return time.perf_counter() - start


def loop_seconds(trial, n, workers):
    "Wall seconds of joblib's loop"
    start = time.perf_counter()
    joblib.Parallel(workers)(joblib.delayed(trial)(x) for x in range(n))
    return time.perf_counter() - start


def overhead(sizes):
    for workers in 1, 2:
        sweep_seconds(tiny, 4, workers), loop_seconds(tiny, 4, workers)  # starts processes and loads modules
        pairs, cpu = [], -time.process_time()
        for _ in range(sizes.rounds):
            pairs.append((sweep_seconds(tiny, sizes.trials, workers), loop_seconds(tiny, sizes.trials, workers)))
        cpu = 1e3 * (cpu + time.process_time()) / sizes.rounds / sizes.trials
        ours, loop = map(statistics.median, zip(*pairs))
        difference = statistics.median(1e3 * (a - b) / sizes.trials for a, b in pairs)
        text = f'sweep {ours:.2f} s, joblib {loop:.2f} s: {difference:.1f} ms a trial'
        print(f"{sizes.trials} tiny trials, {workers} workers: {text}; CPU of this process {cpu:.1f} ms", flush=True)


def profile(sizes):
    sweep_seconds(tiny, 4)
    with cProfile.Profile() as p:
        sweep_seconds(tiny, sizes.trials)
    pstats.Stats(p).sort_stats('cumulative').print_stats(r'srlviz|posix|io\.', 45)


@contextlib.contextmanager
def local_cluster(workers):
    from distributed import LocalCluster

    with LocalCluster(
        workers, threads_per_worker=1, dashboard_address=None, host='127.0.0.1', silence_logs=50, memory_limit=0
    ) as cluster:
        yield cluster.scheduler_address


def dask(sizes):
    with local_cluster(2) as address:
        sweep_seconds(tiny, 4, address=address), sweep_seconds(tiny, 4, 2)
        for name, trial, n in ('tiny', tiny, sizes.trials), ('CPU-bound', cpu_bound, sizes.busy):
            pairs = [
                (sweep_seconds(trial, n, 2), sweep_seconds(trial, n, address=address)) for _ in range(sizes.rounds)
            ]
            loky, cluster = map(statistics.median, zip(*pairs))
            print(f"{n} {name} trials, two processes: loky {loky:.2f} s, Dask {cluster:.2f} s")


def shares(sizes):
    "Four workers against as many workers as cores"
    cores, n = os.cpu_count(), sizes.busy
    for workers in cores, 2 * cores:
        sweep_seconds(cpu_bound, 2 * workers, workers)
    pairs = [(sweep_seconds(cpu_bound, n, cores), sweep_seconds(cpu_bound, n, 2 * cores)) for _ in range(sizes.rounds)]
    few, many = map(statistics.median, zip(*pairs))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"{n} CPU-bound trials: {cores} workers {few:.2f} s, {2 * cores} workers {many:.2f} s: {ratio:.2f} times")


def milliseconds(f):
    start = time.perf_counter()
    f()
    return 1e3 * (time.perf_counter() - start)


def thousand(sizes):
    n = 5 * sizes.trials
    with tempfile.TemporaryDirectory() as folder:
        grid = {'x': [*range(n)]}
        elapsed = milliseconds(lambda: sweep(tiny, grid, folder, progress=False))
        print(f"{n} trials in one process: {elapsed / n:.1f} ms each; then")
        runs = RunFolder(folder)
        forms = {
            'RunFolder, first refresh': lambda: RunFolder(folder).refresh(),
            'RunFolder, second refresh': runs.refresh,
            'srlviz status': lambda: status_text(folder),
            'srlviz sweep --dry-run, all done': lambda: plan(tiny, grid, folder),
            'srlviz sweep --dry-run, one left': lambda: plan(tiny, {'x': [*range(n + 1)]}, folder),
            'sweep, all done': lambda: sweep(tiny, grid, folder, progress=False),
        }
        runs.refresh()
        for name, f in forms.items():
            print(f"  {name:34} {statistics.median(milliseconds(f) for _ in range(3)):7.0f} ms")


def min_cpu_seconds(f, runs=5):
    "CPU seconds of a call on one thread, the minimum of several, since the machine is shared"
    f()
    seconds = []
    for _ in range(runs):
        start = time.process_time()
        f()
        seconds.append(time.process_time() - start)
    return min(seconds)


def ppo_rate(n_in=128, hidden=256, epochs=30, piece=1024, minibatch=8192, envs=64):
    "CPU microseconds of PPO with a GRU per environment step: rollout, and `epochs` of training"
    import torch

    from srlviz.memories.recurrent import GRU

    memory, head = GRU(n_in, hidden), torch.nn.Linear(hidden, 5)
    adam = torch.optim.Adam([*memory.parameters(), *head.parameters()], 5e-5)
    x, one = torch.randn(minibatch // piece, piece, n_in), torch.randn(envs, 1, n_in)
    state = memory.initial_state(envs)

    def train():
        adam.zero_grad()
        head(memory(x)[0]).square().mean().backward()
        adam.step()

    def roll():
        with torch.no_grad():
            for _ in range(20):
                head(memory(one, state)[0])

    return 1e6 * min_cpu_seconds(roll) / 20 / envs, 1e6 * epochs * min_cpu_seconds(train, 3) / minibatch


def autoencoder_seconds(width, sensors=1089, window=75, batch=32, layers=1, both=False):
    "CPU seconds of a batch of the LSTM autoencoder: (a training step, encoding)"
    import torch
    from torch import nn

    options = dict(num_layers=layers, bidirectional=both, batch_first=True)
    ends = width * (2 if both else 1)
    encoder, decoder = nn.LSTM(sensors, width, **options), nn.LSTM(width, width, **options)
    embed, read = nn.Linear(2 * layers * ends, width), nn.Linear(ends, sensors)
    parts = nn.ModuleList([encoder, decoder, embed, read])
    adam, x = torch.optim.Adam(parts.parameters(), 1e-3), torch.randn(batch, window, sensors)

    def encode():
        h, c = encoder(x)[1]
        return embed(torch.cat([h, c]).transpose(0, 1).reshape(batch, -1))

    def train():
        adam.zero_grad()
        reconstruction = read(decoder(encode()[:, None].expand(-1, window, -1))[0])
        (reconstruction - x).square().mean().backward()
        adam.step()

    with torch.no_grad():
        encoding = min_cpu_seconds(encode)
    return min_cpu_seconds(train), encoding


def arithmetic(sizes, flights=8011, epochs=15, batch=32):
    import torch

    torch.set_num_threads(1)
    print(f"one thread of {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name, options in {'paper': {}, 'fast': dict(hidden=64, epochs=4)}.items():
        roll, train = ppo_rate(**options | sizes.ppo)
        hours = 15e6 * (roll + train) / 3.6e9
        print(
            f"PPO over a GRU, {name} sizes: rollout {roll:.1f} us, training {train:.0f} us a step: 15M in {hours:.1f} h"
        )
    for layers, both in (1, False), (2, True):
        for width in 16, 32, 64, 128:
            step, encoding = autoencoder_seconds(width, layers=layers, both=both, **sizes.windows)
            total = flights / batch * (epochs * step + encoding)
            name = f"{layers} layers{', both ways' if both else ''}, {width} codes"
            print(
                f"LSTM autoencoder, {name}: {1e3 * step:.0f} ms a batch, {1e3 * encoding:.0f} to encode: {total:.0f} s"
            )


PARTS = dict(overhead=overhead, profile=profile, dask=dask, threads=shares, thousand=thousand, arithmetic=arithmetic)

if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('parts', nargs='*', metavar='part', help=', '.join(PARTS))
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    for part in args.parts or [p for p in PARTS if p != 'profile' or args.smoke]:
        PARTS[part](SMALLEST if args.smoke else Sizes())
