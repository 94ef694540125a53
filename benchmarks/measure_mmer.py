"""The returns that ship: data_samples/popgym_mmer.csv, and six small agents.

    python benchmarks/measure_mmer.py --workers 2      trains what is missing, the most wanted first
    python benchmarks/measure_mmer.py --collect        only takes over what a sweep has found so far

Preset `fast`, 1.5 million steps, one seed; about a minute of a core for each of 45 tasks x 19 memories, more for DNC,
IndRNN and GTrXL. It can be killed at any moment and goes on. Rows that were shipped before stay, unless they were
measured again.
"""

import argparse
from pathlib import Path

import pandas as pd

from srlviz.core.files import sample_path
from srlviz.core.scores import check_scores, load_scores, our_name, save_scores
from srlviz.studies.returns import LINES, POPGYM_MMER, left_agents, paper_tasks
from srlviz.studies.sweep import sweep

FIRST = ['GRU', 'MLP', 'LSTM', 'Elman']
THEN = ['FART', 'PosMLP', 'LRU', 'FrameStack', 'TCN', 'FWP', 'FFM', 'S4D', 'LMU', 'IndRNN', 'GTrXL', 'DNC']
THEN += ['DeltaNet', 'S6', 'RoPEAttention']
AGENTS = [
    ('RepeatFirst-easy', 'GRU'),
    ('RepeatPrevious-easy', 'GRU'),
    ('RepeatPrevious-easy', 'Elman'),
    ('RepeatPrevious-easy', 'MLP'),
    ('PositionOnlyCartPole-easy', 'GRU'),
    ('LabyrinthExplore-easy', 'MLP'),
]
MOST = 200_000  # bytes of an agent that ships


def grids() -> list[dict]:
    "What is trained, in order: the lines, the agents that ship, then easy tasks before hard ones"
    wanted = [dict(task=paper_tasks(), method=list(LINES))]
    wanted += [dict(task=[task], method=[memory]) for task, memory in AGENTS]
    wanted.append(dict(task=paper_tasks(difficulties=['easy']), method=['MLP'], inputs=['state']))
    for methods in (FIRST, THEN):
        for difficulty in ('easy', 'medium', 'hard'):
            wanted += [dict(task=paper_tasks(difficulties=[difficulty]), method=[m]) for m in methods]
    return wanted


def collect(folder: Path):
    "Take over the scores of a sweep, and the agents"
    found = load_scores(folder / 'scores.csv')
    found = found[found['source'] == 'srlviz']
    place = sample_path('paper_scores.csv').parent / 'popgym_mmer.csv'
    parts = [load_scores(place), found] if place.exists() else [found]
    table = pd.concat(parts, ignore_index=True)
    table = table.drop_duplicates([c for c in table if c != 'value'], keep='last')
    save_scores(check_scores(table), place)
    agents, shelf = left_agents(folder), place.parent / 'agents'
    shelf.mkdir(exist_ok=True)
    for task, memory in AGENTS:
        if agent := agents.get((task, memory)):
            file = shelf / f'{task}_{memory}.safetensors'
            agent.save(file)
            if file.stat().st_size > MOST:
                raise SystemExit(f'{file.name} has {file.stat().st_size:,} bytes, more than {MOST:,}')
    learned = table[table['metric'] == 'mmer']
    print(f"{len(table):,} rows; {len(learned)} returns of {learned['method'].nunique()} memories", end=' ')
    print(f"on {learned['task'].map(our_name).nunique()} tasks; {len(list(shelf.iterdir()))} agents")


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/mmer', help='folder of the sweep')
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--collect', action='store_true')
    a = parser.parse_args()
    for grid in () if a.collect else grids():
        sweep(POPGYM_MMER, grid, a.out, workers=a.workers)
        collect(Path(a.out))
    collect(Path(a.out))
