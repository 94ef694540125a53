"""Growth of CPU seconds and memory of our code with its input size, and the exponent at the largest sizes.

A quantity is a function and an entry of `QUANTITIES`: `make(size)` prepares and returns the function to measure. Every
measurement is a fresh process of one thread: it calls the smallest size (imports, compilers), prepares the size, then
measures the CPU seconds of one call and the increase of the memory of the process. The minimum of a few such processes
is used, so that noise does not change the exponent. The exponent is the slope of log cost against log size between the
last two sizes; times count from 50 ms, memory from 64 MB. Exits with 1 if an exponent is above 1.15.

The kernel charges the first use of memory in steps: a small size reuses the memory that the first call has left in the
process, a large one does not (0, 26 and 82 MB of steps() for 200,000, 400,000 and 800,000 steps, and an
exponent of 1.6 for code of 1.0); and NumPy requests huge pages only for arrays of 4 MiB or more. So free memory is
returned before the measured call, arrays of a megabyte are mapped individually, and huge pages are off. For a quantity
with `calls` above 1, which does the same work at each call, memory is measured on the first call, and the seconds are
the minimum of the following ones, which reuse the memory.

    python benchmarks/growth.py [--only NAME ...] [--sizes small|full] [--repeat N] [--smoke]
"""

import argparse
import ctypes
import functools
import gc
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

MAX_EXPONENT = 1.15
MIN_COST = dict(seconds=0.05, memory=64e6)  # an exponent of smaller costs is not meaningful
_FOLDERS = []


class Quantity(NamedTuple):
    make: Callable  # size -> function to measure
    unit: str  # of the size
    small: tuple[int, ...]
    full: tuple[int, ...]
    calls: int = 1


def folder() -> Path:
    "An empty folder that exists until the process ends"
    _FOLDERS.append(tempfile.TemporaryDirectory(prefix='srlviz-growth-'))
    return Path(_FOLDERS[-1].name)


def score_rows(n: int):
    "A score table of n rows: 200 tasks, 10 methods, and as many seeds as it takes."
    import numpy as np
    import pandas as pd
    from srlviz.core.scores import SCORE_COLUMNS, score_row

    i = np.arange(n)
    row = score_row(study='atari', task='', method='', metric='f1', value=0.5)
    df = pd.DataFrame({c: np.full(n, v) if not isinstance(v, str) else [v] * n for c, v in row.items()})
    df['task'] = np.array([f'task{k}' for k in range(200)], object)[i % 200]
    df['method'] = np.array([f'method{k}' for k in range(10)], object)[i // 200 % 10]
    df['seed'] = i // 2000
    df['value'] = np.random.default_rng(0).random(n)
    return df[list(SCORE_COLUMNS)]


def summarize(n: int):
    from srlviz.core.scores import summarize_scores

    df = score_rows(n)
    return lambda: summarize_scores(df)


def saved_recording(n: int) -> Path:
    "Save a recording and return its folder: n steps in episodes of 500, with ten factors per step and two per episode"
    import numpy as np
    from srlviz.core.recordings import Recording

    rng, m = np.random.default_rng(0), n // 500
    factors = {f'f{k}': rng.integers(0, 9, n) if k % 2 else rng.random(n, np.float32) for k in range(10)}
    factors |= {'wind': rng.random(m), 'place': [f'place {k % 7}' for k in range(m)]}
    episode = np.repeat(np.arange(m), 500)
    recording = Recording.from_arrays({'vector': rng.random((n, 2), np.float32)}, episode=episode, factors=factors)
    return recording.with_split(probe=0.7, test=0.3).save(folder() / 'recording')


def steps(n: int):
    "Open the recording at each call: an open one caches 64 MiB of its data"
    from srlviz.core.recordings import load_recording

    path = saved_recording(n)
    return lambda: load_recording(path).steps(['f0', 'f1', 'wind', 'place'])


def align_codes(n: int):
    import numpy as np
    from srlviz.core.recordings import align, load_recording

    path = saved_recording(n)
    codes = [np.zeros((500, 8), np.float32) for _ in range(n // 500)]
    return lambda: align(codes, load_recording(path), columns=['f0', 'f1', 'wind'])


def game_rows(n: int):
    "A score table of n rows of 22 games: seven methods, two conditionings, 25 targets, and as many seeds as it takes."
    import numpy as np
    from srlviz.envs.atari import CATEGORIES, GAMES

    df, i = score_rows(n), np.arange(n)

    def pick(names, every):
        return np.array(names, object)[i // every % len(names)]

    methods = ['majority', 'random_cnn', 'vae', 'pixel_pred', 'cpc', 'st_dim', 'supervised']
    groups = ['all', *CATEGORIES]
    targets = [*['mean'] * len(groups), *(f'variable {k}' for k in range(19))]
    df['target'], df['group'] = pick(targets, 1), pick(groups + [groups[1 + k % 5] for k in range(19)], 1)
    df['metric'], df['norm'] = pick(['f1', 'accuracy'], 25), pick(['none', 'standardize'], 50)
    df['method'], df['task'], df['seed'] = pick(methods, 100), pick(list(GAMES), 700), i // 15_400
    return df.assign(data='random')


def menu(n: int):
    "Choose options in the menus of an open dashboard"
    from srlviz.widgets.atari.dashboard import AtariDashboard

    board = AtariDashboard(game_rows(n), interactive=True)

    def choose():
        board.metric, board.task, board.conditioning = 'accuracy', 'berzerk', 'raw'

    return choose


QUANTITIES = {
    'steps': Quantity(steps, 'steps', (200_000, 1_000_000, 2_000_000), (500_000, 2_000_000, 8_000_000), 6),
    'align': Quantity(align_codes, 'steps', (200_000, 1_000_000, 2_000_000), (500_000, 2_000_000, 8_000_000), 6),
    'dashboard_menu': Quantity(menu, 'rows', (15_400, 77_000, 308_000), (15_400, 308_000, 1_848_000)),
    'summarize_scores': Quantity(summarize, 'rows', (10_000, 40_000, 160_000), (30_000, 300_000, 3_000_000)),
}


def process_memory(field: str) -> int:
    "Memory of this process according to /proc, in bytes: VmRSS now, VmHWM at most"
    for line in Path('/proc/self/status').read_text().splitlines():
        if line.startswith(field + ':'):
            return int(line.split()[1]) * 1024
    raise KeyError(field)


def release_free_memory() -> None:
    "Return free memory of this process to the kernel"
    import pyarrow

    gc.collect()
    pyarrow.default_memory_pool().release_unused()
    ctypes.CDLL(None).malloc_trim(0)


def keep_free_memory() -> None:
    "From now on, keep memory that becomes free in this process"
    trim_threshold, max_maps = -1, -4
    ctypes.CDLL(None).mallopt(trim_threshold, 2**31 - 1)
    ctypes.CDLL(None).mallopt(max_maps, 0)


def seconds_of(work: Callable) -> float:
    "CPU seconds of a call, without freeing its result"
    start = time.process_time()
    result = work()
    seconds = time.process_time() - start
    del result
    return seconds


def measure(name: str, size: int, smallest: int) -> dict:
    "CPU seconds of one call, and the increase of the peak memory in bytes; for a new process"
    quantity = QUANTITIES[name]
    quantity.make(smallest)()
    work = quantity.make(size)
    release_free_memory()
    Path('/proc/self/clear_refs').write_text('5')  # reset the peak
    before = process_memory('VmRSS')
    seconds = [seconds_of(work)]
    memory = max(0, process_memory('VmHWM') - before)
    if quantity.calls > 1:
        keep_free_memory()
        seconds = [seconds_of(work) for _ in range(quantity.calls - 1)]
    return dict(seconds=min(seconds), memory=memory)


def measure_in_new_process(name: str, size: int, smallest: int) -> dict:
    "Run `measure` in a new process"
    env = os.environ | {f'{v}_NUM_THREADS': '1' for v in ('OMP', 'MKL', 'OPENBLAS', 'NUMBA')}
    env |= dict(NUMPY_MADVISE_HUGEPAGE='0', ARROW_DEFAULT_MEMORY_POOL='system', MALLOC_MMAP_THRESHOLD_='1000000')
    process = subprocess.run(
        [sys.executable, __file__, '--measure', name, str(size), str(smallest)],
        env=env,
        stdout=subprocess.PIPE,
        text=True,
    )
    if process.returncode:
        raise SystemExit(f"{name} of {size:,} ended with {process.returncode}")
    return json.loads(process.stdout.splitlines()[-1])


def slope(costs: dict, cost_name: str) -> float:
    "The exponent between the last two sizes; NaN if it is not meaningful"
    (a, low), (b, high) = list(costs.items())[-2:]
    if min(low[cost_name], high[cost_name]) < MIN_COST[cost_name]:
        return math.nan
    return math.log(high[cost_name] / low[cost_name]) / math.log(b / a)


def grow(name: str, sizes: tuple[int, ...], repeat: int) -> bool:
    "Measure and print a quantity; return whether it grows no faster than its work"
    costs = {n: dict(seconds=math.inf, memory=math.inf) for n in sizes}

    def measure_sizes(sizes):
        for n in sizes:
            cost = measure_in_new_process(name, n, min(costs))
            costs[n] = {k: min(v, cost[k]) for k, v in costs[n].items()}
        return [slope(costs, cost_name) for cost_name in MIN_COST]

    for _ in range(repeat):
        exponents = measure_sizes(sizes)
    for _ in range(repeat):  # noise, or growth?
        if max((x for x in exponents if not math.isnan(x)), default=0.0) > MAX_EXPONENT:
            exponents = measure_sizes(sizes[-2:])
    texts = [f'{x:.2f}' if not math.isnan(x) else '-' for x in exponents]
    for n, cost in costs.items():
        ends = texts if n == sizes[-1] else ['', '']
        line = f"{name:24} {n:>12,} {QUANTITIES[name].unit:12} {cost['seconds']:>9.3f} {cost['memory'] / 1e6:>9.1f}"
        print(f"{line} {ends[0]:>7} {ends[1]:>7}", flush=True)
    return not any(x > MAX_EXPONENT for x in exponents)


def memory(name: str, n: int, width: int = 128):
    "Forward and backward of a memory over n steps of one row, after a first short sequence."
    import torch
    from srlviz.core.names import catalog
    from srlviz.core.training import seeded

    with seeded(0):
        model, x = catalog('memories')[name](width, n_hidden=width), torch.randn(1, n, width)
    return lambda: model(x)[0].square().mean().backward()


def other_memories(n: int):
    "All memories except torch's three and the DNC, whose step takes as long as those of the others together"
    from srlviz.core.names import catalog

    jobs = [memory(name, n) for name in catalog('memories') if name not in ('Elman', 'GRU', 'LSTM', 'DNC')]
    return lambda: [job() for job in jobs] and None


def pomdp_steps(n: int):
    "Ten steps of n environments."
    from srlviz.envs.pomdp.base import make_tasks

    envs = make_tasks('RepeatPrevious-easy', n, flat=True, copy=False, autoreset_mode='SameStep')
    envs.reset(seed=0)
    actions = envs.action_space.sample()
    return lambda: [envs.step(actions) for _ in range(10)] and None


def pomdp_resets(n: int):
    from srlviz.envs.pomdp.base import make_tasks

    envs = make_tasks('RepeatPrevious-easy', n)
    return lambda: envs.reset(seed=0)


def pomdp_recording(n: int):
    "Random play; an episode has 51 steps."
    from srlviz.data.popgym import record_pomdp

    return lambda: record_pomdp('RepeatPrevious-easy', n // 51, progress=False)


def atari_recording(n: int):
    from srlviz.data.atari import record_atari

    return lambda: record_atari('pong', n, n_jobs=1, out=folder() / 'pong', progress=False)


def frame_map(n: int):
    "The memory map of the frames of a recording."
    recording = atari_recording(n)()
    return recording.cached


def probe_epoch(n: int):
    "256 codes, 40 variables of 16 values, one epoch; as many rows for validation"
    import numpy as np
    import pandas as pd
    from srlviz.evaluate.probe import linear_probe

    rng = np.random.default_rng(0)
    splits = {'probe': n, 'valid': n, 'test': n // 10}
    codes = {k: rng.standard_normal((m, 256), np.float32) for k, m in splits.items()}
    factors = {k: pd.DataFrame(rng.integers(16, size=(m, 40))).add_prefix('v') for k, m in splits.items()}
    return lambda: linear_probe(codes, factors, epochs=1, progress=False)


LONG, LONGER = (4096, 16384, 32768), (4096, 16384, 65536)  # from 16k on no cache holds them
QUANTITIES |= {
    name: Quantity(functools.partial(memory, name), 'steps', LONG, LONGER, 3) for name in ('GRU', 'LSTM', 'Elman')
}
QUANTITIES |= {
    'other memories': Quantity(other_memories, 'steps', LONG, LONGER),
    'make_vec, ten steps': Quantity(pomdp_steps, 'environments', (8192, 32768, 131072), (16384, 131072, 1048576)),
    'make_vec, reset': Quantity(pomdp_resets, 'environments', (8192, 32768, 131072), (16384, 131072, 1048576)),
    'record_pomdp': Quantity(pomdp_recording, 'steps', (5100, 20400, 81600), (51000, 204000, 816000)),
    'record_atari': Quantity(atari_recording, 'frames', (1000, 2000, 4000), (10000, 30000, 100000)),
    '.cached()': Quantity(frame_map, 'frames', (1000, 2000, 4000), (10000, 30000, 100000)),
    'probe epoch': Quantity(probe_epoch, 'rows', (2000, 4000, 8000), (10000, 30000, 100000)),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', nargs='+', choices=QUANTITIES, default=list(QUANTITIES), metavar='NAME')
    parser.add_argument('--sizes', choices=['small', 'full'], default='small')
    parser.add_argument('--repeat', type=int, default=3)
    parser.add_argument('--measure', nargs=3, help=argparse.SUPPRESS)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.measure:
        name, *sizes = args.measure
        return print(json.dumps(measure(name, *map(int, sizes))))
    print(f"{'quantity':24} {'size':>12} {'':12} {'CPU s':>9} {'MB':>9} {'CPU ^':>7} {'MB ^':>7}")
    if args.smoke:
        for name in args.only:
            n = QUANTITIES[name].small[0] // 10
            print(f'{name:24} {n:>12,} {QUANTITIES[name].unit:12} {measure_in_new_process(name, n, n)}', flush=True)
        return
    too_steep = [n for n in args.only if not grow(n, getattr(QUANTITIES[n], args.sizes), args.repeat)]
    if too_steep:
        sys.exit(f"grows faster than its work (exponent above {MAX_EXPONENT}): {', '.join(too_steep)}")


if __name__ == '__main__':
    main()
