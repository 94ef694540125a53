"""Notebooks of the repository by papermill's own command: once a test run, however many tests read the results.

The parameters are the smallest with which every cell still has something to do.
"""

import json, os, re, shutil, subprocess, sys, time
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from pathlib import Path

import nbformat, psutil
from filelock import FileLock

from srlviz.encoders.frames.ppo_features import read_agent

ROOT = Path(__file__).parents[2]
SHIPPED = read_agent()[0]['game']  # the game of the agent that comes with the package
GAMES = dict(encoder_frames=300, probe_frames=900, epochs=1, probe_epochs=2)
PAPERMILL = [sys.executable, '-m', 'papermill']
# a value {NAME} is the folder of another notebook's results
SMALL = {
    'course/01_truth': {},
    'course/02_splits': {},
    'course/03_probes': {},
    'course/04_contrast': {},
    'course/05_pomdps': {},
    'course/06_memories': {},
    'course/07_agents': {},
    'course/08_flights': {},
    'course/09_factors': {},
    'course/10_use': {},
    'studies/atari_ablations': GAMES | dict(games='pong', methods='static_dim,global_t_dim'),
    'studies/atari_conditioning': dict(scores='{studies/atari_tables}/scores.csv', games=f'pong,{SHIPPED}'),
    'studies/atari_probe': GAMES
    | dict(game='breakout', methods='majority,random_cnn,st_dim', epochs=4, curve='100,300'),
    'studies/atari_tables': GAMES
    | dict(games=f'pong,{SHIPPED}', methods='majority,random_cnn', agents='shipped', n_jobs=2),
    'studies/cross_evaluation': dict(
        representations='clock,raw,random,agent', questions='selectivity,rank,description_length', n=40, epochs=1
    ),
    'studies/landing_benchmark': dict(
        flights=40,
        methods='lstm_ae_1layer,pca_statistics',
        inputs='sensors',
        widths=8,
        epochs=1,
        heads='mlp,linear',
        n_jobs=1,
    ),
    'studies/landing_dataset': dict(flights=3, size=16, workers=1, clean=2),
    'studies/own_table': dict(epochs=2),
    'studies/popgym_memories': dict(
        methods='MLP,GRU', tasks='first', delays='1,4', steps=60, length=16, runs=3, n_jobs=1
    ),
    'studies/popgym_mmer': dict(tasks='RepeatFirst-easy', methods='MLP,Elman', budget=74_000, sight=True, n_jobs=1),
    'studies/stress': dict(dials='correlated,rotated', levels='1,5', questions='qedr,mig', seeds=1),
    'studies/use': dict(tasks='RepeatPrevious-easy', methods='GRU,Elman', episodes=60),
    'studies/popgym_tasks': dict(
        tasks='RepeatFirst-easy,Battleship-easy', episodes=200, oracle_episodes=3, fps_seconds=0.06
    ),
    'tutorials/01_quickstart': dict(steps=1000, epochs=1),
    'tutorials/02_atari': dict(steps=850, epochs=1),
    'tutorials/03_pomdps': dict(episodes=3),
    'tutorials/04_memories': dict(steps=2, episodes=8),
    'tutorials/05_landings': dict(size=16),
    'tutorials/06_qedr': dict(stride=10),
}


@cache
def can_draw() -> bool:
    "Whether kaleido and Chromium are here, as `make test` has them"
    return bool(find_spec('kaleido') and shutil.which(os.environ.get('CHROMIUM') or 'chromium'))


def notebooks() -> list[str]:
    "Every study, tutorial and lesson, as it is named in SMALL"
    kinds = dict(studies='*.ipynb', tutorials='*.ipynb', course='[0-9][0-9]_*.ipynb')
    found = [p for folder, names in kinds.items() for p in sorted((ROOT / 'nbs' / folder).glob(names))]
    return [p.relative_to(ROOT / 'nbs').with_suffix('').as_posix() for p in found]


@dataclass
class PapermillRun:
    "The results of a notebook that papermill executed, and the resources it used"

    name: str
    folder: str
    log: str
    code: int
    seconds: float
    cpu_seconds: float  # of the kernel, its children and papermill
    memory: int  # bytes, of the kernel and its children together, at their peak

    @property
    def out(self) -> Path:
        return Path(self.folder)

    @cached_property
    def notebook(self):
        return nbformat.read(self.out / 'done.ipynb', 4)

    @property
    def metadata(self):
        return self.notebook.metadata

    @property
    def cells(self):
        return [c for c in self.notebook.cells if c.cell_type == 'code']

    @property
    def usage(self) -> dict:
        return {k: getattr(self, k) for k in ('name', 'seconds', 'cpu_seconds', 'memory')}

    @property
    def shown(self) -> list[dict]:
        "The displayed outputs of all cells, MIME type -> content"
        return [o.data for c in self.cells for o in c.outputs if 'data' in o]

    @property
    def printed(self) -> str:
        "All readable text of the notebook: printed lines, tables, headings"
        texts = [o.text for c in self.cells for o in c.outputs if o.output_type == 'stream' and o.name == 'stdout']
        kinds = 'text/plain', 'text/markdown', 'text/html'
        return '\n'.join(texts + [d[k] for d in self.shown for k in kinds if k in d])


def user_environment(**environment) -> dict[str, str]:
    "The environment of a program that a user starts: it finds this package and does not know that it is tested"
    away = {k: v for k, v in os.environ.items() if k not in ('IN_TEST', 'SRLVIZ_STATIC', 'PLOTLY_RENDERER')}
    here = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH', '')]))
    return away | dict(PYTHONPATH=here, OMP_NUM_THREADS='1') | environment


def resident(process: psutil.Process) -> int:
    "Resident memory of all descendants of a process, in bytes"
    total = 0
    for child in process.children(recursive=True):
        try:
            total += child.memory_info().rss
        except psutil.Error:  # it has ended
            pass
    return total


def run_measured(command, log: Path, **options) -> dict[str, float]:
    "Run a command with its output in a file; return its status, time, CPU time with its children, and peak memory"
    start, memory = time.time(), 0
    with open(log, 'wb') as file:
        process = psutil.Popen(command, stdout=file, stderr=subprocess.STDOUT, **options)
    while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
        memory = max(memory, resident(process))
        time.sleep(0.2)
    _, status, used = ended
    times = dict(seconds=time.time() - start, cpu_seconds=used.ru_utime + used.ru_stime)
    return times | dict(code=os.waitstatus_to_exitcode(status), memory=memory)


def papermill(name: str, folder: Path, others) -> PapermillRun:
    "Run a notebook in a new folder by papermill's own command; `others` gives the folder of another's results"
    options = []
    for parameter, value in SMALL[name].items():
        filled = re.sub(r'\{([^}]+)\}', lambda m: str(others(m[1])), str(value))
        options += ['-p', parameter, filled]
    command = [*PAPERMILL, str(ROOT / f'nbs/{name}.ipynb'), 'done.ipynb', *options]
    folder.mkdir(parents=True)
    log = folder.with_suffix('.txt')
    environment = user_environment(SRLVIZ_SOLVED='1')  # lessons and tutorials: a wrong solution fails
    usage = run_measured(command, log, cwd=folder, env=environment)
    return PapermillRun(name=name, folder=str(folder), log=log.read_text(errors='replace'), **usage)


def run_once(name: str, base: Path) -> PapermillRun:
    """Run a notebook, or return its results if any process of this test run has run it before.

    Parameters
    ----------
    name : as in SMALL
    base : folder of the test run, which its processes share

    Raises
    ------
    AssertionError : if it failed, with the end of papermill's output
    """
    assert name in SMALL, f'{name}: add its parameters to SMALL of tests/support/papermill_runs.py'
    folder = base / 'papermill' / name.replace('/', '-')
    folder.parent.mkdir(exist_ok=True)
    kept = folder.with_suffix('.json')
    with FileLock(folder.with_suffix('.lock')):
        if not kept.exists():
            ran = papermill(name, folder, lambda other: run_once(other, base).folder)
            kept.write_text(json.dumps(asdict(ran)))
    ran = PapermillRun(**json.loads(kept.read_text()))
    assert ran.code == 0, f'papermill ended {name} with {ran.code}:\n{ran.log[-6000:]}'
    return ran


def table(rows: list[dict]) -> str:
    "Time and memory of each notebook, the longest first"
    line = '{:28} {:>8} {:>8} {:>10}'.format
    lines = [line('notebook', 'time, s', 'CPU, s', 'memory, MB')]
    for r in sorted(rows, key=lambda r: -r['seconds']):
        lines.append(line(r['name'], f'{r["seconds"]:.1f}', f'{r["cpu_seconds"]:.1f}', f'{r["memory"] / 1e6:,.0f}'))
    total = [sum(r[k] for r in rows) for k in ('seconds', 'cpu_seconds')]
    peak = max(r['memory'] for r in rows)
    return '\n'.join([*lines, line('all', *(f'{t:.1f}' for t in total), f'{peak / 1e6:,.0f}')])
