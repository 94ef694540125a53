"""CPU time of our memories and of popgym's modules with the same weights, and peak memory of the linear models.

Forward and backward on one thread, in one process and interleaved; medians of the ratios of pairs. The peak memory is
measured for several lengths. The pairs come from the comparisons in the tests (tests/reference/popgym_memories_*.py;
tests/reference/plain_dnc.py, our plain form).

`--starts`: the recurrent networks with episodes that start inside a rollout, against torch's kernel cut at every start
and on episodes padded to the longest; and the growth of a GRU with the number of steps.
"""

import argparse
import importlib
import logging
import sys
import time
from pathlib import Path

import numpy as np
import torch

from srlviz.core.names import catalog
from srlviz.core.training import seeded, threads
from srlviz.evaluate.memories.cost import peak_memory
from srlviz.memories.memory import leaves

TESTS = Path(__file__).parents[1] / 'tests'
SIZES = (8, 256), (16, 1024)
LENGTHS = 1024, 2048, 4096
BARS = dict(FART=2, FWP=2, IndRNN=5, S4D=1.2, LMU=1.2, DNC=1)  # all others: .95
LINEAR = 'FART', 'FWP', 'S4D', 'LRU', 'FFM', 'S6', 'DeltaNet'


def comparisons():
    "name -> n_in -> (our memory, our x -> y, popgym's x -> y, popgym's module, pairs of gradients)"
    sys.path.insert(0, str(TESTS))
    logging.disable(logging.WARNING)  # popgym warns about missing packages
    models = {}
    for name in 'plain_dnc', *sorted(p.stem for p in TESTS.glob('reference/popgym_memories_*.py')):
        models |= importlib.import_module(f'reference.{name}').MODELS
    return models


def relative_difference(a, b):
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-12)).item()


def race(make, batch, length, runs, budget):
    "Times of both in ms, the median of their ratios, and the largest difference of outputs and gradients"
    with seeded(0):
        our_model, our_forward, reference_forward, reference_model, pairs = make()
    x = torch.randn(batch, length, 128, generator=torch.Generator().manual_seed(1))

    def run(forward):
        for m in (our_model, reference_model):
            m.zero_grad(set_to_none=True)
        start = time.process_time()
        y = forward(x)
        y.square().mean().backward()
        return (time.process_time() - start) * 1e3, y.detach()

    _, y = run(our_forward)
    grads = [g().clone() for g, _ in pairs]
    _, z = run(reference_forward)
    error = relative_difference(y, z), max(relative_difference(a, b()) for a, (_, b) in zip(grads, pairs))
    times = []
    start = time.perf_counter()
    while len(times) < runs and (len(times) < 2 or time.perf_counter() - start < budget):
        pair = [0.0, 0.0]
        for i in (0, 1) if len(times) % 2 else (1, 0):
            pair[i], _ = run((reference_forward, our_forward)[i])  # the first one alternates
        times.append(pair)
    times = np.array(times)
    return *np.median(times, 0), np.median(times[:, 0] / times[:, 1]), *error, len(times)


def speed(names, runs, budget, sizes=SIZES):
    print(
        '| model | B x T | popgym ms | ours ms | ratio | bar | y difference | gradient difference | runs '
        '|\n|---|---|---|---|---|---|---|---|---|'
    )
    for name, make in comparisons().items():
        if names and name not in names:
            continue
        for batch, length in sizes:
            popgym_ms, ours_ms, ratio, y, g, n = race(make, batch, length, runs, budget)
            bar = BARS.get(name, 0.95)
            print(
                f"| {name} | {batch} x {length} | {popgym_ms:.1f} | {ours_ms:.1f} | "
                f"{ratio:.2f}{'' if ratio >= bar else ' BELOW'} | {bar} | {y:.0e} | {g:.0e} | {n} |",
                flush=True,
            )


def memory(names, batch=8, lengths=LENGTHS):
    "Peak memory of one forward and backward of the linear models, which grows with the length"
    print(
        '\n| model | ' + ' | '.join(f'T={T} MB' for T in lengths) + ' | growth |\n|---|' + '---|' * (len(lengths) + 1)
    )
    for name in LINEAR:
        if name not in catalog('memories') or names and name not in names:
            continue
        peaks = []
        for T in lengths:
            with seeded(0):
                model = catalog('memories')[name](128)
            x = torch.randn(batch, T, 128)

            def train():
                model.zero_grad(set_to_none=True)
                model(x)[0].square().mean().backward()

            train()
            model.zero_grad(set_to_none=True)
            peaks.append(peak_memory(train, torch.device('cpu')) / 2**20)
        print(
            f"| {name} | {' | '.join(f'{p:.1f}' for p in peaks)} | "
            f"{' '.join(f'x{b / a:.2f}' for a, b in zip(peaks, peaks[1:]))} |",
            flush=True,
        )


STARTS = {  # B, T, width, whether an episode starts at a row and step
    'in phase': (16, 128, 64, lambda b, t: t % 51 == 0),
    'staggered': (16, 128, 64, lambda b, t: (t + 19 * b) % 51 == 0),
    'uneven': (64, 128, 128, lambda b, t: torch.rand(t.shape, generator=torch.Generator().manual_seed(2)) < 0.04),
    'none': (64, 128, 128, lambda b, t: t < 0),
}


def start_mask(B, T, when):
    "Where episodes start: (B, T)"
    b, t = torch.meshgrid(torch.arange(B), torch.arange(T), indexing='ij')
    return when(b, t)


def padded(layer, x, starts):
    "Torch's kernel on the episodes, padded to the longest, without initial states"
    starts = starts.index_fill(1, torch.tensor([0]), True)
    first = starts.flatten().nonzero()[:, 0]
    lengths = torch.diff(first, append=torch.tensor([starts.numel()]))
    k = torch.arange(int(lengths.max()))
    mask = k < lengths[:, None]
    y, _ = layer(x.flatten(0, 1)[torch.where(mask, first[:, None] + k, 0)])
    return y[mask].view(*x.shape[:2], -1)


def interleaved(jobs, model, runs):
    "Median CPU ms of forward and backward of each job, interleaved"
    times = {k: [] for k in jobs}
    for i in range(runs + 1):
        for k, job in jobs.items():
            model.zero_grad(set_to_none=True)
            start = time.process_time()
            job().square().mean().backward()
            if i:
                times[k].append((time.process_time() - start) * 1e3)
    return {k: np.median(t) for k, t in times.items()}


def starts_inside(names, runs):
    print('| starts | B x T x width | model | cut ms | padded ms | ours ms | cut / ours | padded / ours |')
    print('|---|---|---|---|---|---|---|---|')
    for pattern, (B, T, width, when) in STARTS.items():
        for name in [n for n in ('GRU', 'LSTM', 'Elman') if not names or n in names]:
            with seeded(0):
                model, x = catalog('memories')[name](width, width), torch.randn(B, T, width)
                starts = start_mask(B, T, when)
            zeros = leaves(model.initial_state(B))
            jobs = dict(
                cut=lambda: model._cut(x, zeros, starts)[0],
                padded=lambda: padded(model.layer, x, starts),
                ours=lambda: model(x, None, starts)[0],
            )
            t = interleaved(jobs, model, runs)
            columns = ' | '.join(f'{v:.1f}' for v in t.values())
            ratios = f"{t['cut'] / t['ours']:.2f} | {t['padded'] / t['ours']:.2f}"
            print(f"| {pattern} | {B} x {T} x {width} | {name} | {columns} | {ratios} |", flush=True)


def growth(runs, width=64, B=16, lengths=(256, 1024, 4096)):
    "A GRU with 51-step episodes, staggered: forward and backward."
    print('\n| steps | cut ms | ours ms | torch alone, no starts, ms |\n|---|---|---|---|')
    for T in lengths:
        with seeded(0):
            model, x = catalog('memories')['GRU'](width, width), torch.randn(B, T, width)
        starts, zeros = start_mask(B, T, STARTS['staggered'][3]), leaves(model.initial_state(B))
        jobs = dict(
            cut=lambda: model._cut(x, zeros, starts)[0],
            ours=lambda: model(x, None, starts)[0],
            torch=lambda: model.layer(x)[0],
        )
        t = interleaved(jobs, model, runs)
        print(f"| {B * T} | {' | '.join(f'{v:.0f}' for v in t.values())} |", flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('names', nargs='*', help='models; all if none')
    parser.add_argument('--runs', type=int, default=7)
    parser.add_argument('--budget', type=float, default=20, help='seconds for one model and size, after two runs')
    parser.add_argument('--starts', action='store_true', help='episodes that start inside a rollout, and growth')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    with threads(1):
        if args.smoke:
            speed(args.names, 1, 0, [(1, 8)])
            memory(args.names, 1, (8, 16))
            starts_inside(args.names, 1)
            growth(1, 4, 2, (8,))
        elif args.starts:
            starts_inside(args.names, args.runs)
            growth(min(args.runs, 3))
        else:
            speed(args.names, args.runs, args.budget)
            memory(args.names)
