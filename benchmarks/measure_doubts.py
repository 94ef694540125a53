"""Measure which broken assumptions `Answer.doubts()` names on planted data, and how often it names one on clean data.

benchmarks/measure_doubts.py [--n 200] [--seed 1000] [--show]
A violation is a dial at level 3 to 5 that moves a metric by a tenth in the shipped table of the study stress, and that
leaves a sign that can be measured (`srlviz.core.doubts.SIGNS`). All others are counted, not tried. The seeds are others
than those of the table (0, 1, 2).
"""

import argparse, time
from collections import Counter

import numpy as np

from srlviz.core.doubts import MATTERS, SIGNS, find_doubts, measure_signs, stress_table
from srlviz.core.metrics import questions
from srlviz.core.recordings import align
from srlviz.data.planted import DIALS, planted
from srlviz.studies.matrix.stress import CLAIMS, stress_plan


def violations() -> list[tuple[str, int]]:
    "Dials and levels that matter and can be seen"
    table = stress_table()
    table = table[(table['level'] >= 3) & (table['bias'].abs() >= MATTERS) & table['dial'].isin(SIGNS)]
    return [*dict.fromkeys(zip(table['dial'], table['level']))]


def named(dial: str, level: int, seed: int) -> set[str]:
    "The dials that an answer to some question of the study would name"
    recording = planted(stress_plan(dial, level), seed)
    codes = [episode.obs['codes'] for episode in recording]
    signs = measure_signs(*align(codes, recording))
    return {doubt.dial for question in CLAIMS for doubt in find_doubts(signs, question)}


def time_share(seed: int) -> dict[str, float]:
    "Time of measuring the signs as a share of asking each question, as boards ask it, about clean data"
    recording = planted(stress_plan('clean', 0), seed)
    codes = [episode.obs['codes'] for episode in recording]
    parts = align(codes, recording)
    shares = {}
    for name in CLAIMS:
        question = questions()[name](**questions()[name].defaults)
        question.ask(codes, recording, seed=seed, progress=False)  # imports
        start = time.process_time()
        question.ask(codes, recording, seed=seed, progress=False)
        asking = time.process_time() - start
        start = time.process_time()
        for _ in range(10):
            measure_signs(*parts)
        shares[name] = (time.process_time() - start) / 10 / asking
    return shares


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--n', type=int, default=200)
    parser.add_argument('--seed', type=int, default=1000)
    parser.add_argument('--show', action='store_true', help='print every violation that is not named')
    args = parser.parse_args()
    cells = violations()
    n_other = sum((dial, level) not in cells for dial in DIALS for level in (3, 4, 5))
    print(f'{len(cells)} cells of a dial and a level of 3 to 5 matter and can be seen, {n_other} do not')
    rng = np.random.default_rng(args.seed)
    found, tried, others = Counter(), Counter(), 0
    for i in range(args.n):
        dial, level = cells[rng.integers(len(cells))]
        names = named(dial, level, args.seed + i)
        tried[dial] += 1
        found[dial] += dial in names
        others += bool(names - {dial})
        if args.show and dial not in names:
            print(f'not named: {dial}, level {level}, seed {args.seed + i}; named: {", ".join(names)}')
    for dial in tried:
        print(f'  {dial}: {found[dial]} of {tried[dial]} named')
    print(f'named: {found.total()} of {args.n}; {others} also name another dial')
    alarms = [named('clean', 0, args.seed + args.n + i) for i in range(args.n)]
    print(f'alarms on clean data: {sum(map(bool, alarms))} of {args.n}: {dict(Counter(d for a in alarms for d in a))}')
    for name, share in time_share(args.seed).items():
        print(f'  time of the signs: {share:.1%} of asking {name}')
