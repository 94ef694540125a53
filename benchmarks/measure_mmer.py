"""Make the shipped returns data_samples/popgym_mmer.csv and six small agents.

    nice -n 19 python benchmarks/measure_mmer.py       train what is missing, by priority
    python benchmarks/measure_mmer.py --collect        only collect the results so far

Preset `fast`, 1.5 million steps; about a minute of one core per trial, more for DNC, IndRNN and GTrXL. A killed run
resumes. Shipped results are not trained again until `TRAINER_VERSION` of srlviz.agents.recurrent grows:
data_samples/popgym_mmer.json states the version of the table, and rows of an older one are dropped.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from srlviz.agents.player import load_agents
from srlviz.agents.recurrent import TRAINER_VERSION
from srlviz.core.files import read_json, sample_path, write_json
from srlviz.core.names import catalog
from srlviz.core.scores import check_scores, load_scores, srlviz_name, save_scores
from srlviz.studies.papers.returns import LINES, POPGYM_MMER, paper_tasks
from srlviz.studies.sweep import sweep

FIVE = ['GRU', 'LSTM', 'Elman', 'MLP', 'S6']
SLOWEST = ['DNC', 'GTrXL', 'IndRNN']  # several minutes of a core per trial; trained after the others
AGENTS = [
    ('RepeatFirst-easy', 'GRU'),
    ('RepeatPrevious-easy', 'GRU'),
    ('RepeatPrevious-easy', 'Elman'),
    ('RepeatPrevious-easy', 'MLP'),
    ('PositionOnlyCartPole-easy', 'GRU'),
    ('LabyrinthExplore-easy', 'MLP'),
]
MAX_BYTES = 200_000  # of an agent that ships
SAMPLES = sample_path('paper_scores.csv').parent
TABLE, METADATA = SAMPLES / 'popgym_mmer.csv', SAMPLES / 'popgym_mmer.json'
KEY = ['task', 'method', 'inputs', 'seed']


def shipped() -> pd.DataFrame:
    "The shipped table; only the reference lines if an older trainer made its returns"
    table = load_scores(TABLE)
    metadata = read_json(METADATA) if METADATA.exists() else {}
    return table if metadata.get('trainer') == TRAINER_VERSION else table[table['method'].isin(LINES)]


def wanted() -> Iterator[list[tuple[str, str, str, int]]]:
    "The trials in order of priority, one memory at a time: (task, method, inputs, seed)"
    easy, others = paper_tasks(difficulties=['easy']), paper_tasks(difficulties=['medium', 'hard'])
    rest = sorted((name for name in catalog('memories') if name not in FIVE), key=SLOWEST.count)
    yield [(task, line, '', 0) for task in paper_tasks() for line in LINES]
    yield [(*pair, '', 0) for pair in AGENTS]
    yield [(task, 'GRU', '', 0) for task in easy]
    yield [(task, 'GRU', 'state', 0) for task in easy]
    for method in (*FIVE[1:], *rest):
        yield [(task, method, '', 0) for task in easy]
    yield [(task, 'MLP', 'state', 0) for task in easy]  # memory bias compares the fully observable GRU with it
    for seed in (1, 2):
        for method in FIVE:
            yield [(task, method, '', seed) for task in easy]
    for methods in (FIVE, rest):
        for method in methods:
            yield [(task, method, '', 0) for task in others]


def missing(part: list[tuple]) -> list[dict]:
    "The grids of the trials that are missing from the table"
    table = shipped()
    returns = table[table['metric'].isin(['mmer', 'return'])]
    done = {(srlviz_name(task), *key) for task, *key in returns[KEY].itertuples(index=False, name=None)}
    grids = {}
    for task, *key in part:
        if (task, *key) not in done:
            grids.setdefault(tuple(key), []).append(task)
    return [dict(task=tasks, method=[m], inputs=[i], seed=[seed]) for (m, i, seed), tasks in grids.items()]


def collect(folder: Path):
    "Collect the scores of a sweep, and the agents"
    scores = load_scores(folder / 'scores.csv')
    table = pd.concat([shipped(), scores[scores['source'] == 'srlviz']], ignore_index=True)
    table = table.drop_duplicates([c for c in table if c != 'value'], keep='last')
    save_scores(check_scores(table), TABLE)
    write_json(METADATA, dict(trainer=TRAINER_VERSION, preset='fast'))
    agents, directory = load_agents(folder), SAMPLES / 'agents'
    directory.mkdir(exist_ok=True)
    for task, memory in AGENTS:
        if agent := agents.get((task, memory)):
            file = directory / f'{task}_{memory}.safetensors'
            agent.save(file)
            if file.stat().st_size > MAX_BYTES:
                raise SystemExit(f'{file.name} has {file.stat().st_size:,} bytes, more than {MAX_BYTES:,}')
    learned = table[table['metric'] == 'mmer']
    print(f"{len(table):,} rows; {len(learned)} returns of {learned['method'].nunique()} memories", end=' ')
    print(f"on {learned['task'].map(srlviz_name).nunique()} tasks; {len(list(directory.iterdir()))} agents", flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--out', default='runs/mmer', help='folder of the sweep')
    parser.add_argument('--workers', type=int, default=1)
    parser.add_argument('--collect', action='store_true')
    args = parser.parse_args()
    for part in () if args.collect else wanted():
        for grid in missing(part):
            sweep(POPGYM_MMER, grid, args.out, workers=args.workers)
            collect(Path(args.out))
    if args.collect:
        collect(Path(args.out))
