"""Make the shipped returns data_samples/popgym_mmer.csv, and the agents in data_samples/agents.

    make tables TABLES=mmer                       train what is missing, by priority
    python benchmarks/measure_mmer.py OUT         write what a folder has, of an earlier run
    python benchmarks/measure_mmer.py OUT --agents RepeatFirst-medium_LRU PATH    train an agent that does not ship

Preset `fast`, 1.5 million steps; half a minute to three minutes of a core per trial, several for DNC and GTrXL. A
killed run resumes. Shipped results are not trained again until `TRAINER_VERSION` of srlviz.agents.recurrent_ppo grows:
data_samples/popgym_mmer.json states the version of the table, and rows of an older one are dropped. The agents are
those of seed 0 that learned their task, as far as MAX_BYTES reaches.
"""

import argparse
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pandas as pd
from measure_tables import Part, measure

from srlviz.agents.player import load_agents
from srlviz.agents.recurrent_ppo import TRAINER_VERSION
from srlviz.core.files import COUNT, check_fields, read_json, sample_path, write_json
from srlviz.core.names import catalog
from srlviz.core.scores import check_scores, load_scores, paper_name, paper_scores, save_scores, srlviz_name
from srlviz.studies.papers.mmer_trial import LINES, POPGYM_MMER, paper_tasks
from srlviz.studies.sweep import sweep

FIVE = ['GRU', 'LSTM', 'Elman', 'MLP', 'S6']
SLOWEST = ['DNC', 'GTrXL']  # several minutes of a core per trial; trained after the others
KEPT = ['GRU', 'LSTM', 'Elman', 'IndRNN', 'LRU']  # memories whose agents ship
ALSO = [('RepeatPrevious-easy', 'MLP'), ('LabyrinthExplore-easy', 'MLP')]  # agents without memory, for lessons
MAX_BYTES = 6_000_000  # of all agents
SAMPLES = sample_path('paper_scores.csv').parent
TABLE, METADATA, AGENTS = SAMPLES / 'popgym_mmer.csv', SAMPLES / 'popgym_mmer.json', SAMPLES / 'agents'
KEY = ['task', 'method', 'inputs', 'seed']
SECONDS = dict(DNC=500, GTrXL=400)  # of a core, for a trial of a memory of which none ships


def trainer_of_table() -> int | None:
    "`TRAINER_VERSION` of the shipped table"
    return check_fields(read_json(METADATA), dict(trainer=COUNT), METADATA)['trainer'] if METADATA.exists() else None


def shipped() -> pd.DataFrame:
    "The shipped table; only the reference lines if an older trainer made its returns"
    table = load_scores(TABLE)
    return table if trainer_of_table() == TRAINER_VERSION else table[table['method'].isin(LINES)]


def learned(table: pd.DataFrame) -> list[tuple[str, str]]:
    "Tasks and memories, of `KEPT`, whose return of seed 0 is above half of the oracle's, or above the paper's"
    rows = table[(table['metric'] == 'mmer') & (table['inputs'] == '') & (table['seed'] == 0)]
    oracle = table[(table['metric'] == 'return') & (table['method'] == 'oracle')].groupby('task')['value'].mean()
    paper = paper_scores('popgym')
    paper = paper[paper['metric'] == 'mmer'].groupby(['task', 'method'])['value'].mean()
    found = []
    for r in rows[rows['method'].isin(KEPT)].itertuples():
        printed = paper.get((paper_name(r.task), paper_name(r.method)), float('inf'))
        if r.value > 0.5 * oracle.get(r.task, float('inf')) or r.value > printed:
            found.append((srlviz_name(r.task), r.method))
    return sorted(found, key=lambda pair: (KEPT.index(pair[1]), pair[0]))


def agent_file(task: str, method: str) -> Path:
    return AGENTS / f'{task}_{method}.safetensors'


def fitting_agents(table: pd.DataFrame) -> list[tuple[str, str]]:
    "Tasks and memories of the agents that ship: the first that learned, as far as MAX_BYTES reaches"
    kept, total = [], 0
    for pair in (*ALSO, *learned(table)):
        file = agent_file(*pair)
        size = file.stat().st_size if file.exists() else 180_000
        if total + size <= MAX_BYTES:
            kept.append(pair)
            total += size
    return kept


def trials_of(table: pd.DataFrame) -> set[tuple]:
    "The trials of a table: (task, method, inputs, seed)"
    returns = table[table['metric'].isin(['mmer', 'return'])]
    return {(srlviz_name(task), *key) for task, *key in returns[KEY].itertuples(index=False, name=None)}


def grids(keys: list[tuple]) -> list[dict]:
    "Arrange trials as grids: one for each method, inputs and seed"
    found = {}
    for task, *key in keys:
        found.setdefault(tuple(key), []).append(task)
    return [dict(task=tasks, method=[m], inputs=[i], seed=[seed]) for (m, i, seed), tasks in found.items()]


@cache
def seconds_of_trials() -> dict[str, float]:
    "Seconds of a core that a trial of each memory takes: the median of the shipped ones"
    table = load_scores(TABLE)
    return SECONDS | table[table['metric'] == 'seconds'].groupby('method')['value'].median().to_dict()


def part(place: int, name: str, keys: list[tuple], todo: list[tuple], out: Path) -> Part:
    "A part of the trials `keys`, of which `todo` have to be run"
    seconds = seconds_of_trials()
    folder = out / f'mmer-{TRAINER_VERSION}'

    def run(workers):
        for grid in grids(todo):
            measure(POPGYM_MMER, grid, folder, workers)
            collect(folder)

    hours = sum(seconds.get(method, 60) for _, method, _, _ in todo) / 3600
    return Part(place, 'mmer', name, len(keys), len(todo), hours, run)


def parts(out: Path) -> Iterator[Part]:
    "The parts by priority"
    table = shipped()
    there = trials_of(table)
    easy, others = paper_tasks(difficulties=['easy']), paper_tasks(difficulties=['medium', 'hard'])
    rest = sorted((name for name in catalog('memories') if name not in FIVE), key=SLOWEST.count)

    def of(place, name, tasks, methods, seeds=(0,), inputs=''):
        keys = [(task, method, inputs, seed) for seed in seeds for method in methods for task in tasks]
        return part(place, name, keys, [key for key in keys if key not in there], out)

    yield of(2, 'random play and the oracle', paper_tasks(), LINES)
    yield of(2, 'easy tasks, seed 0', easy, [*FIVE, *rest])
    yield of(2, 'easy tasks, sighted, seed 0', easy, ['GRU', 'MLP'], inputs='state')
    yield of(2, 'easy tasks, seeds 1 and 2, five', easy, FIVE, (1, 2))
    yield of(2, 'easy tasks, sighted, seeds 1 and 2', easy, ['GRU', 'MLP'], (1, 2), 'state')
    kept = [(task, method, '', 0) for task, method in fitting_agents(table) if task in easy]
    todo = [key for key in kept if not agent_file(*key[:2]).exists()]
    yield part(2, 'agents of easy tasks', kept, todo, out)
    yield of(2, 'medium and hard tasks, seed 0, five', others, FIVE)
    yield of(2, 'medium and hard tasks, sighted, seed 0', others, ['GRU', 'MLP'], inputs='state')
    yield of(7, 'medium and hard tasks, seed 0, others', others, rest)
    yield of(7, 'easy tasks, seeds 1 and 2, others', easy, rest, (1, 2))
    yield of(7, 'medium and hard tasks, seeds 1 and 2', others, [*FIVE, *rest], (1, 2))


def collect(folder: Path):
    "Write the scores of a sweep beside those that ship, and its agents"
    scores = load_scores(folder / 'scores.csv')
    is_ours = (scores['source'] == 'srlviz') & (scores['study'] == 'popgym') & scores['protocol'].isin(['', 'fast'])
    table = pd.concat(
        [shipped(), scores[is_ours & scores['task'].isin(map(paper_name, paper_tasks()))]], ignore_index=True
    )
    table = check_scores(table.drop_duplicates([c for c in table if c != 'value'], keep='last'))
    is_older = trainer_of_table() != TRAINER_VERSION
    save_scores(table, TABLE)
    for file in AGENTS.glob('*.safetensors') if is_older else ():
        file.unlink()
    write_json(METADATA, dict(trainer=TRAINER_VERSION, preset='fast'))
    agents = load_agents(folder)
    AGENTS.mkdir(exist_ok=True)
    candidates = [*ALSO, *learned(table)]
    for pair in candidates:
        if pair in agents:
            agents[pair].save(agent_file(*pair))
            agent_file(*pair).chmod(0o644)
    kept, left_out = fitting_agents(table), []
    for pair in candidates:
        if pair not in kept:
            agent_file(*pair).unlink(missing_ok=True)
        if not agent_file(*pair).exists():
            left_out.append(agent_file(*pair).stem)
    found = table[table['metric'] == 'mmer']
    print(f"{len(table):,} rows; {len(found)} returns of {found['method'].nunique()} memories", end=' ')
    print(f"on {found['task'].map(srlviz_name).nunique()} tasks; {len(list(AGENTS.iterdir()))} agents", flush=True)
    if left_out:
        print(f'agents that are not there, or do not fit into {MAX_BYTES:,} bytes: {", ".join(left_out)}')


def train_agent(name: str, folder: Path, path: Path):
    "Train the agent TASK_MEMORY of seed 0, and save it"
    task, _, memory = name.rpartition('_')
    sweep(POPGYM_MMER, dict(task=[task], method=[memory], inputs=[''], seed=[0]), folder, workers=1, retry=True)
    load_agents(folder)[task, memory].save(path)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=Path, help='folder of a sweep')
    parser.add_argument('--agents', nargs=2, metavar=('TASK_MEMORY', 'PATH'))
    args = parser.parse_args()
    if args.agents:
        train_agent(args.agents[0], args.out, Path(args.agents[1]))
    else:
        collect(args.out)
