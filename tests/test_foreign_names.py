"""Files cannot name code to import: a name that a file holds is looked up in the catalogue and nowhere else.

Each string in a specimen of each format is replaced by `os:getcwd`, `builtins:print`, `this:s` or `this` (a module
whose import prints); then every reader of that format reads the file.
"""

import builtins, csv, gzip, importlib, io, json, os, re, shutil, sys, zipfile
from contextlib import suppress
from functools import partial
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

from fuzz import readers

import srlviz
from srlviz.core import saving
from srlviz.core.files import sample_path

NAMES = 'os:getcwd', 'builtins:print', 'this:s', 'this'
MODULES = {n.partition(':')[0] for n in NAMES}


EVENTS = []  # imports by name, and prints


def record_print(*values, **options):
    if 'file' not in options:  # numba writes its listings to a buffer
        EVENTS.append(f'print of {values!r:.200}')


@pytest.fixture
def recorded_events(monkeypatch):
    "Record imports by name and prints; give a function that returns them, and whether `this` was imported"
    original = importlib.import_module

    def import_module(name, package=None):
        if name.partition('.')[0] in MODULES:
            EVENTS.append(f'import of {name}')
        return original(name, package)

    EVENTS.clear()
    monkeypatch.setattr(importlib, 'import_module', import_module)
    monkeypatch.setattr(builtins, 'print', record_print)
    yield lambda: EVENTS + [m for m in sys.modules if m == 'this']
    sys.modules.pop('this', None)


# ---- the strings of a file: field -> a function from a word to the bytes of the file with that word in the field


def json_fields(data, wrap=lambda text: text.encode()):
    "Each string and the first key of each object; only the first of equal fields in a list"
    fields = {}

    def walk(value, path, rebuild):
        if isinstance(value, str):
            fields.setdefault(path, rebuild)
        elif isinstance(value, list):
            for i, v in enumerate(value[:3]):
                walk(v, f'{path}[]', lambda new, i=i: rebuild([*value[:i], new, *value[i + 1 :]]))
        elif isinstance(value, dict):
            for k, v in value.items():
                walk(v, f'{path}.{k}', lambda new, k=k: rebuild(value | {k: new}))
            for key in list(value)[:1]:

                def rename(word, key=key):
                    return rebuild({word if k == key else k: v for k, v in value.items()})

                fields.setdefault(f'{path}, its first name', rename)

    walk(json.loads(data), '', lambda new: wrap(json.dumps(new)))
    return fields


def csv_fields(data):
    "The names of the columns, and the cells of the first row"
    rows = list(csv.reader(io.StringIO(data.decode())))

    def replaced(r, c, word):
        new_rows = [[*row[:c], word, *row[c + 1 :]] if i == r else row for i, row in enumerate(rows)]
        out = io.StringIO()
        csv.writer(out, lineterminator='\n').writerows(new_rows)
        return out.getvalue().encode()

    return {
        f'line {r + 1}, {name}': lambda word, r=r, c=c: replaced(r, c, word)
        for c, name in enumerate(rows[0])
        for r in (0, 1)
    }


def parquet_fields(data):
    "The first value of each column of strings, and the name of the first column"
    table = pq.read_table(io.BytesIO(data))

    def to_bytes(t):
        out = io.BytesIO()
        pq.write_table(t, out)
        return out.getvalue()

    def replaced(c, word):
        first, *rest = table.column(c).to_pylist()
        new = [word] * len(first) if isinstance(first, list) else word
        return to_bytes(table.set_column(c, table.field(c), pa.array([new, *rest], table.field(c).type)))

    def renamed(word):
        return to_bytes(table.rename_columns([word, *table.column_names[1:]]))

    def is_text(kind):
        return pa.types.is_string(kind) or pa.types.is_list(kind) and pa.types.is_string(kind.value_type)

    texts = [c for c in range(table.num_columns) if len(table) and is_text(table.field(c).type)]
    fields = {f'column {table.column_names[c]}': lambda word, c=c: replaced(c, word) for c in texts}
    return fields | {'name of the first column': renamed}


def npz_fields(data):
    "The strings of text arrays and of JSON in arrays, and the name of the first array"
    arrays = dict(np.load(io.BytesIO(data), allow_pickle=False))

    def to_bytes(new_arrays):
        out = io.BytesIO()
        np.savez(out, **new_arrays)
        return out.getvalue()

    fields = {}
    for name, a in arrays.items():

        def put(new, name=name):
            return to_bytes(arrays | {name: new})

        if a.dtype.kind == 'U' and not a.ndim and str(a)[:1] == '{':
            parts = json_fields(str(a), lambda text, put=put: put(np.array(text)))
        elif a.dtype == np.uint8 and bytes(a[:1].tobytes()) == b'{':
            parts = json_fields(a.tobytes(), lambda text, put=put: put(np.frombuffer(text.encode(), np.uint8)))
        elif a.dtype.kind == 'U' and a.size:
            parts = {'': lambda word, a=a, put=put: put(np.array([word, *a.ravel()[1:]]).reshape(a.shape))}
        else:
            parts = {}
        fields |= {f'{name} {part}': change for part, change in parts.items()}
    first = next(iter(arrays))
    renamed = {f'name of {first}': lambda word: to_bytes({word if k == first else k: a for k, a in arrays.items()})}
    return fields | renamed


def zip_fields(data):
    "The strings of the JSON files in an archive"
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        members = {m.filename: (z.read(m), m.compress_type) for m in z.infolist()}

    def replaced(name, text):
        out = io.BytesIO()
        with zipfile.ZipFile(out, 'w') as z:
            for n, (content, compression) in members.items():
                z.writestr(zipfile.ZipInfo(n), text if n == name else content, compression)
        return out.getvalue()

    fields = {}
    for name in members:
        if name.endswith('.json'):
            parts = json_fields(members[name][0], lambda text, name=name: replaced(name, text))
            fields |= {f'{name} {part}': change for part, change in parts.items()}
    return fields


def strings_only(value):
    "Keep dictionaries and strings; replace everything else by 0"
    if isinstance(value, dict):
        return {k: strings_only(v) for k, v in value.items()}
    return value if isinstance(value, str) else 0


def weights_fields(data):
    "The strings and keys of a file of torch, and those of the JSON in its `config`"
    content = torch.load(io.BytesIO(data), weights_only=True)

    def to_bytes(new_content):
        out = io.BytesIO()
        torch.save(new_content, out)
        return out.getvalue()

    def put(value, new):
        "Take tensors and numbers from `value`, strings and keys from `new`"
        if not isinstance(value, dict):
            return new if isinstance(value, str) else value
        return {k: put(v, n) for v, (k, n) in zip(value.values(), new.items())}

    fields = json_fields(json.dumps(strings_only(content)), lambda text: to_bytes(put(content, json.loads(text))))
    if isinstance(content, dict) and isinstance(content.get('config'), str):
        config = json_fields(content['config'], lambda text: to_bytes(content | {'config': text}))
        fields |= {f'config {part}': change for part, change in config.items()}
    return fields


def safetensors_fields(path):
    "The strings of the metadata; the changed files have a correct checksum"
    metadata, tensors = saving._read(path)

    def replaced(text):
        new = json.loads(text)
        if 'checksum' in new:
            new['checksum'] = saving._checksum(new, tensors)
        save_file(tensors, path, metadata={'srlviz': json.dumps(new)})
        return path.read_bytes()

    return json_fields(json.dumps(metadata), replaced)


def gzip_fields(data):
    "The strings of a packed CSV table"
    fields = csv_fields(gzip.decompress(data))
    return {k: lambda word, change=change: gzip.compress(change(word)) for k, change in fields.items()}


def text_fields(path):
    "The strings of a file: field -> a function from a word to the changed bytes"
    data, kind = path.read_bytes(), path.suffix
    if kind in ('.json', '.ipynb'):
        return json_fields(data)
    if kind == '.safetensors':
        return safetensors_fields(path)
    if kind == '.md':
        return {'all': lambda word: word.encode()}
    functions = {
        '.csv': csv_fields,
        '.gz': gzip_fields,
        '.parquet': parquet_fields,
        '.npz': npz_fields,
        '.zip': zip_fields,
        '.pt': weights_fields,
    }
    return functions[kind](data) if kind in functions else {}


# ---- formats that the fuzzer does not have


def agent(folder):
    "An agent whose file has the sizes of its memory, and one whose file does not"
    from gymnasium import spaces
    from srlviz.agents.actor_critic import memory_network
    from srlviz.agents.player import MemoryAgent, space_config

    for task, sizes in ('RepeatFirst-easy', dict(n_in=4, n_hidden=64)), ('RepeatPrevious-easy', None):
        new_agent = MemoryAgent('GRU', sizes, 10, space_config(spaces.Discrete(4)), {}, 4, 0, task)
        new_agent.network_ = memory_network(10, 'GRU', new_agent.acting.kind, width=4, n_hidden=64, head_layers=0)
        new_agent.save(folder / f'{task}_GRU.safetensors')


def read_agent(folder):
    from srlviz.agents.player import MemoryAgent, load_policy
    from srlviz.agents.player import load_agents
    from srlviz.widgets.agents.mmer_dashboard import Agents

    for path in folder.glob('*.safetensors'):
        for read in load_policy, MemoryAgent.load, lambda p: saving.load_encoder(p, MemoryAgent), saving.load_encoder:
            with suppress(Exception):
                read(path)
    with suppress(Exception):
        load_agents(folder)
    agents = Agents(folder)  # as MMERDashboard reads them
    for task in 'RepeatFirst-easy', 'RepeatPrevious-easy':
        with suppress(Exception):
            agents.of(task, 'GRU')


def results(folder):
    shutil.copy(sample_path('qedr/popgym_RepeatFirst-easy_GRU.npz'), folder / 'qedr.npz')


def read_results(folder):
    from srlviz.core.questions import Answer, load_answers

    with suppress(Exception):
        repr(Answer.load(folder / 'qedr.npz'))
    repr(load_answers(folder / 'qedr.npz'))


def targets(folder):
    from srlviz.data.landing import read_flights
    from srlviz.evaluate.prediction.target_table import save_targets
    from srlviz.evaluate.targets import landing_targets, score_targets

    flight_targets = landing_targets(read_flights(sample_path('landings')), 50, progress=False)
    save_targets(flight_targets, folder / 'targets')
    codes = [np.float32([i % 7, i % 3]) for i in range(len(flight_targets))]
    score_targets(codes, flight_targets, head='linear', progress=False).save(folder / 'linear.npz', states=False)


def read_targets(folder):
    from srlviz.evaluate.prediction.target_scores import TargetScores
    from srlviz.evaluate.prediction.target_table import load_targets

    with suppress(Exception):
        load_targets(folder / 'targets')
    repr(TargetScores.load(folder / 'linear.npz').scores(data='a', method='b', inputs='c', n_codes=2))


def table(folder):
    from srlviz.core.scores import paper_scores, save_scores

    rows = paper_scores('popgym')
    save_scores(rows[rows['task'].isin(rows['task'].unique()[:2])], folder / 'scores.csv')


def read_table(folder):
    "Read a score table, also through the widgets that need tasks and methods"
    from srlviz.core.scores import load_scores
    from srlviz.widgets.agents.memory_explorer import MemoryExplorer
    from srlviz.widgets.agents.play import PlayWidget
    from srlviz.widgets.agents.environment_explorer import EnvironmentExplorer
    from srlviz.widgets.agents.mmer_dashboard import MMERDashboard

    first = load_scores(folder / 'scores.csv').iloc[0]
    with suppress(Exception):
        dashboard = MMERDashboard(load_scores(folder / 'scores.csv'), sample_path('agents'))
        dashboard.task, dashboard.method = first['task'], first['method']
        dashboard.playing = True
    for widget in (MemoryExplorer, EnvironmentExplorer, PlayWidget) if first['task'] in NAMES else ():
        with suppress(Exception):
            widget(first['task'])


SWEEP_GRID = dict(task=['RepeatFirst-easy'], episodes=[2], oracle_episodes=[2], fps_seconds=[0.0])


def sweep_folder(folder):
    from srlviz.studies.papers.pomdps import POPGYM_TASKS
    from srlviz.studies.sweep import sweep

    sweep(POPGYM_TASKS, SWEEP_GRID, folder, progress=False)
    (trial,) = (folder / 'trials').iterdir()
    (trial / 'curve.csv').write_text('step,total,name,value,time\n1,2,loss,0.5,1700000000.0\n')
    (trial / 'claim.json').write_text(json.dumps(dict(host='far', pid=1, sweep='a', started=1.0)))
    agent(trial)
    (trial / 'RepeatPrevious-easy_GRU.safetensors').rename(trial / 'agent.safetensors')
    for path in trial / 'RepeatFirst-easy_GRU.safetensors', folder / 'runs.csv', folder / 'scores.csv':
        path.unlink()  # the last two are only written, never read


def read_sweep(folder):
    from srlviz.core.jobs.runs import RunFolder
    from srlviz.studies.sweeps import report
    from srlviz.studies.sweeps.commands import status_text
    from srlviz.studies.papers.landing import trial_files
    from srlviz.studies.notebooks import studies_folder
    from srlviz.studies.papers.pomdps import POPGYM_TASKS
    from srlviz.agents.player import load_agents
    from srlviz.studies.sweep import sweep

    def run(path, parameters, *_, **__):
        "Stand in for `run_study`: import a module where a kernel would run foreign code"
        if Path(path).parent != studies_folder() or ':' in json.dumps(list(parameters.values())):
            importlib.import_module('os')  # as the study would

    def read_runs():
        runs = RunFolder(folder)
        runs.refresh()
        keys = list(runs.runs['key'])
        return runs.curves(keys), [runs.traceback(k) for k in keys]

    read_functions = [
        read_runs,
        lambda: status_text(folder),
        lambda: report.plan(POPGYM_TASKS, SWEEP_GRID, folder),
        lambda: trial_files(folder),
        lambda: load_agents(folder),
        lambda: report.report(folder, progress=False),
    ]
    read_functions += [
        partial(sweep, POPGYM_TASKS, SWEEP_GRID, folder, compute=compute, progress=False) for compute in (False, True)
    ]
    for claim in folder.glob('trials/*/claim.json'):
        os.utime(claim, (0, 0))  # too old to wait for
    with mock.patch.object(report, 'run_study', run):
        for read in read_functions:
            with suppress(Exception):
                read()


def checkpoint(folder):
    recurrent_learner(folder).learn(progress=False)


def read_checkpoint(folder):
    recurrent_learner(folder, 2).learn(progress=False)


def recurrent_learner(folder, updates=1):
    from srlviz.agents.recurrent_ppo import recurrent_ppo

    return recurrent_ppo(
        'RepeatFirst-easy',
        'MLP',
        num_envs=2,
        num_steps=8,
        num_minibatches=1,
        update_epochs=1,
        total_steps=16 * updates,
        width=4,
        n_hidden=4,
        head_layers=0,
        device='cpu',
        checkpoint=folder / 'checkpoint.pt',
    )


def lerobot(folder):
    from srlviz.core.recordings import Episode, Factor, Recording
    from srlviz.data.landing import export_lerobot

    def episode(i):
        x = np.random.default_rng(i).normal(size=(6, 2)).astype(np.float32)
        return Episode({'sensors': x}, np.arange(6), np.ones(6, np.float32), {'room': np.arange(6) % 2}, name=f'e{i}')

    rooms = [Factor('room', 'place', 'categorical')]
    export_lerobot(
        Recording([episode(0), episode(1)], 'rooms', 5, rooms, meta=dict(columns=['a', 'b'])),
        folder / 'set',
        progress=False,
    )


def read_lerobot(folder):
    from srlviz.data.importers import load_lerobot

    readers.of_recording(load_lerobot(folder / 'set'))


def own_csv(folder):
    (folder / 'own.csv').write_text('episode,x,room\na,1,hall\na,2,cave\nb,3,hall\n')


def read_own_csv(folder):
    from srlviz.data.importers import load_csv

    readers.of_recording(load_csv(folder / 'own.csv', episode='episode', obs=['x']))


EXTRA_FORMATS = dict(
    memory_agent=(agent, read_agent),
    qedr=(results, read_results),
    prediction_targets=(targets, read_targets),
    score_table=(table, read_table),
    sweep_folder=(sweep_folder, read_sweep),
    recurrent_checkpoint=(checkpoint, read_checkpoint),
    lerobot_export=(lerobot, read_lerobot),
    csv=(own_csv, read_own_csv),
)
FORMATS = {r.make.__name__: (r.make, r.touch, r.sign) for r in readers.READERS}
assert not FORMATS.keys() & EXTRA_FORMATS.keys()
FORMATS |= {name: (make, touch, None) for name, (make, touch) in EXTRA_FORMATS.items()}
# 4 to 240 s for one name in each string
LONG = {'flights', 'old_flights', 'sweep_folder', 'qedr', 'score_table', 'saved_probe', 'two_cards', 'workbench'}
assert LONG <= FORMATS.keys()
CASES = [(name, 1, 10 if name in LONG else 1) for name in FORMATS]
CASES += [pytest.param(name, 2 if name in LONG else len(NAMES), 1, marks=pytest.mark.slow) for name in FORMATS]


@pytest.mark.parametrize('name, n_words, stride', CASES)
def test_names_in_files_import_nothing(name, n_words, stride, recorded_events, tmp_path):
    """Each string is replaced by one of the four names, in turn.

    Of long formats every tenth string; in `make slow` every string, by two names, of which one has a colon. In the
    strings of other formats `make slow` tries each of the four names.
    """
    make, touch, sign = FORMATS[name]
    specimen = tmp_path / 'specimen'
    specimen.mkdir()
    make(specimen)
    files = [p.relative_to(specimen) for p in sorted(specimen.rglob('*')) if p.is_file()]
    cases = [(f, part, change) for f in files for part, change in text_fields(specimen / f).items()]
    for i, (file, part, change) in enumerate(cases[::stride]):
        for word in (NAMES * 2)[i % 4 : i % 4 + n_words]:
            folder = tmp_path / 'place'
            shutil.copytree(specimen, folder)
            (folder / file).write_bytes(change(word))
            if sign is not None and file.as_posix() in json.loads((folder / 'meta/info.json').read_text())['files']:
                sign(folder, file.as_posix())
            with suppress(Exception):
                touch(folder)
            assert not recorded_events(), f'{word!r} as {part} of {file}'
            shutil.rmtree(folder)
    assert cases


def test_only_these_modules_import_by_name():
    "Names are resolved by `named_class`, or by `imported` if the caller gives them"
    root = Path(srlviz.__file__).parent
    pattern = re.compile(r'import_module\(|__import__\(|resolve_name\(|\bpoint\.load\(')
    sources = {p.relative_to(root).as_posix(): p.read_text(encoding='utf-8') for p in root.rglob('*.py')}
    found = {name for name, source in sources.items() if pattern.search(source)}
    ours = {'__init__.py', 'envs/pomdp/__init__.py', 'agents/recurrent_ppo.py', 'studies/load.py', 'studies/trials.py'}
    ours |= {'evaluate/questions/belief_skill.py'}  # evaluations do not import environments, but for their own module
    assert found == ours | {'core/names.py', 'studies/methods.py'}
