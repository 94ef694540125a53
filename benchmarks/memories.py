"""Memories: forward and backward of ours and of popgym's modules with the same weights, and the peak memory of the
linear models against the length.

One thread, CPU time, in one process and interleaved; medians of the ratios of pairs. The pairs are built by the
comparisons of the tests (tests/popgym_memories_*.py; tests/plain_dnc.py, a plain form of our own).
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
from srlviz.evaluate.cost import peak_memory

TESTS = Path(__file__).parents[1] / 'tests'
SIZES = (8, 256), (16, 1024)
BARS = dict(FART=2, FWP=2, IndRNN=5, S4D=1.2, LMU=1.2, DNC=1)  # all others: .95
LINEAR = 'FART', 'FWP', 'S4D', 'LRU', 'FFM'


def comparisons():
    "name -> n_in -> (our memory, x -> y of ours, of theirs, their module, pairs of gradients)"
    sys.path.insert(0, str(TESTS))
    logging.disable(logging.WARNING)  # popgym says what it lacks
    found = {}
    for name in 'plain_dnc', *sorted(p.stem for p in TESTS.glob('popgym_memories_*.py')):
        found |= importlib.import_module(name).MODELS
    return found


def apart(a, b):
    return ((a - b).abs().max() / b.abs().max().clamp(min=1e-12)).item()


def race(make, batch, length, runs, budget):
    "Times of both in ms, the median of their ratios, and how far outputs and gradients are apart."
    with seeded(0):
        ours, mine, other, theirs, pairs = make()
    x = torch.randn(batch, length, 128, generator=torch.Generator().manual_seed(1))

    def once(f):
        for m in (ours, theirs):
            m.zero_grad(set_to_none=True)
        begin = time.process_time()
        y = f(x)
        y.square().mean().backward()
        return (time.process_time() - begin) * 1e3, y.detach()

    _, y = once(mine)
    grads = [g().clone() for g, _ in pairs]
    _, z = once(other)
    error = apart(y, z), max(apart(a, b()) for a, (_, b) in zip(grads, pairs))
    times, begin = [], time.perf_counter()
    while len(times) < runs and (len(times) < 2 or time.perf_counter() - begin < budget):
        pair = [0.0, 0.0]
        for i in (0, 1) if len(times) % 2 else (1, 0):
            pair[i], _ = once((other, mine)[i])  # each goes first in turn
        times.append(pair)
    times = np.array(times)
    return *np.median(times, 0), np.median(times[:, 0] / times[:, 1]), *error, len(times)


def speed(names, runs, budget):
    print(
        '| model | B x T | popgym ms | ours ms | ratio | bar | y apart | gradients apart | runs '
        '|\n|---|---|---|---|---|---|---|---|---|'
    )
    for name, make in comparisons().items():
        if names and name not in names:
            continue
        for batch, length in SIZES:
            theirs, ours, ratio, y, g, n = race(make, batch, length, runs, budget)
            bar = BARS.get(name, 0.95)
            print(
                f"| {name} | {batch} x {length} | {theirs:.1f} | {ours:.1f} | "
                f"{ratio:.2f}{'' if ratio >= bar else ' BELOW'} | {bar} | {y:.0e} | {g:.0e} | {n} |",
                flush=True,
            )


def memory(names, batch=8):
    "Peak of one forward and backward of the linear models: it grows as the length does."
    lengths = 1024, 2048, 4096
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


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('names', nargs='*', help='models; all if none')
    parser.add_argument('--runs', type=int, default=7)
    parser.add_argument('--budget', type=float, default=20, help='seconds for one model and size, after two runs')
    args = parser.parse_args()
    with threads(1):
        speed(args.names, args.runs, args.budget)
        memory(args.names)
