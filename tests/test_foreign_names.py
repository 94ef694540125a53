"""A name that a file holds is looked up in the catalogue and nowhere else, whatever text of whatever file it stands in.

Every text of a specimen of every format becomes `os:getcwd`, `builtins:print`, `this:s` or `this`, a module whose
import prints; then every reader of that format reads it.
"""

import builtins, csv, importlib, io, json, os, re, shutil, sys, zipfile
from contextlib import suppress
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parent))
from fuzz import readers  # noqa: E402

import srlviz  # noqa: E402
from srlviz.core import saving  # noqa: E402
from srlviz.core.files import sample_path  # noqa: E402

NAMES = 'os:getcwd', 'builtins:print', 'this:s', 'this'
PLANTED = {n.partition(':')[0] for n in NAMES}


SEEN = []  # what was imported by name or printed


def printed(*words, **how):
    if 'file' not in how:  # numba writes its listings to a buffer
        SEEN.append(f'print of {words!r:.200}')


@pytest.fixture
def watched(monkeypatch):
    "Import by name and print are noted; gives what was noted since, and whether `this` was imported"
    real = importlib.import_module

    def import_module(name, package=None):
        if name.partition('.')[0] in PLANTED:
            SEEN.append(f'import of {name}')
        return real(name, package)

    SEEN.clear()
    monkeypatch.setattr(importlib, 'import_module', import_module)
    monkeypatch.setattr(builtins, 'print', printed)
    yield lambda: SEEN + [m for m in sys.modules if m == 'this']
    sys.modules.pop('this', None)


# ---- the texts of a file: field -> a function from a word to the bytes of the file with that word in the field


def in_json(data, wrap=lambda text: text.encode()):
    "Each text and each first name of an object; of equal fields in a list the first"
    found = {}

    def walk(x, path, rebuild):
        if isinstance(x, str):
            found.setdefault(path, rebuild)
        elif isinstance(x, list):
            for i, v in enumerate(x[:3]):
                walk(v, f'{path}[]', lambda new, i=i: rebuild([*x[:i], new, *x[i + 1 :]]))
        elif isinstance(x, dict):
            for k, v in x.items():
                walk(v, f'{path}.{k}', lambda new, k=k: rebuild(x | {k: new}))
            for k in list(x)[:1]:
                renamed = lambda word, k=k: rebuild({word if n == k else n: v for n, v in x.items()})
                found.setdefault(f'{path}, its first name', renamed)

    content = json.loads(data)
    walk(content, '', lambda new: wrap(json.dumps(new)))
    return found


def in_csv(data):
    rows = list(csv.reader(io.StringIO(data.decode())))

    def changed(r, c, word):
        again = [[*row[:c], word, *row[c + 1 :]] if i == r else row for i, row in enumerate(rows)]
        csv.writer(out := io.StringIO(), lineterminator='\n').writerows(again)
        return out.getvalue().encode()

    return {
        f'line {r + 1}, {name}': lambda word, r=r, c=c: changed(r, c, word)
        for c, name in enumerate(rows[0])
        for r in (0, 1)
    }


def in_parquet(data):
    table = pq.read_table(io.BytesIO(data))

    def written(t):
        pq.write_table(t, out := io.BytesIO())
        return out.getvalue()

    def value(c, word):
        first, *rest = table.column(c).to_pylist()
        new = [word] * len(first) if isinstance(first, list) else word
        return written(table.set_column(c, table.field(c), pa.array([new, *rest], table.field(c).type)))

    def is_text(kind):
        return pa.types.is_string(kind) or pa.types.is_list(kind) and pa.types.is_string(kind.value_type)

    texts = [c for c in range(table.num_columns) if len(table) and is_text(table.field(c).type)]
    found = {f'column {table.column_names[c]}': lambda word, c=c: value(c, word) for c in texts}
    renamed = lambda word: written(table.rename_columns([word, *table.column_names[1:]]))
    return found | {'name of the first column': renamed}


def in_npz(data):
    arrays = dict(np.load(io.BytesIO(data), allow_pickle=False))

    def written(changed):
        np.savez(out := io.BytesIO(), **changed)
        return out.getvalue()

    found = {}
    for name, a in arrays.items():
        put = lambda new, name=name: written(arrays | {name: new})
        if a.dtype.kind == 'U' and not a.ndim and str(a)[:1] == '{':
            parts = in_json(str(a), lambda text, put=put: put(np.array(text)))
        elif a.dtype == np.uint8 and bytes(a[:1].tobytes()) == b'{':
            parts = in_json(a.tobytes(), lambda text, put=put: put(np.frombuffer(text.encode(), np.uint8)))
        elif a.dtype.kind == 'U' and a.size:
            parts = {'': lambda word, a=a, put=put: put(np.array([word, *a.ravel()[1:]]).reshape(a.shape))}
        else:
            parts = {}
        found |= {f'{name} {part}': change for part, change in parts.items()}
    first = next(iter(arrays))
    return found | {f'name of {first}': lambda word: written({word if k == first else k: a for k, a in arrays.items()})}


def in_zip(data):
    "The JSON in an archive"
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        members = {m.filename: (z.read(m), m.compress_type) for m in z.infolist()}

    def written(name, text):
        with zipfile.ZipFile(out := io.BytesIO(), 'w') as z:
            for n, (content, how) in members.items():
                z.writestr(zipfile.ZipInfo(n), text if n == name else content, how)
        return out.getvalue()

    jsons = [n for n in members if n.endswith('.json')]
    return {f'{n} {k}': f for n in jsons for k, f in in_json(members[n][0], lambda text, n=n: written(n, text)).items()}


def in_weights(data):
    content = torch.load(io.BytesIO(data), weights_only=True)
    told = lambda x: {k: told(v) for k, v in x.items()} if isinstance(x, dict) else x if isinstance(x, str) else 0

    def written(new):
        torch.save(new, out := io.BytesIO())
        return out.getvalue()

    def put(x, new):
        "The tensors and numbers of x, with the texts and the names of `new`"
        if not isinstance(x, dict):
            return new if isinstance(x, str) else x
        return {k: put(v, n) for v, (k, n) in zip(x.values(), new.items())}

    found = in_json(json.dumps(told(content)), lambda text: written(put(content, json.loads(text))))
    if isinstance(content, dict) and isinstance(content.get('config'), str):
        config = in_json(content['config'], lambda text: written(content | dict(config=text)))
        found |= {f'config {k}': f for k, f in config.items()}
    return found


def in_safetensors(path):
    about, tensors = saving._read(path)

    def written(text):
        "Under a checksum that is right"
        new = json.loads(text)
        if 'checksum' in new:
            new['checksum'] = saving._checksum(new, tensors)
        save_file(tensors, path, metadata={'srlviz': json.dumps(new)})
        return path.read_bytes()

    return in_json(json.dumps(about), written)


def texts_of(path):
    "The texts of a file: field -> a function from a word to the changed bytes"
    data, kind = path.read_bytes(), path.suffix
    if kind in ('.json', '.ipynb'):
        return in_json(data)
    of = {'.csv': in_csv, '.parquet': in_parquet, '.npz': in_npz, '.zip': in_zip, '.pt': in_weights}
    if kind == '.safetensors':
        return in_safetensors(path)
    if kind == '.md':
        return {'all': lambda word: word.encode()}
    return of[kind](data) if kind in of else {}


# ---- formats that the fuzzer does not have


def agent(place):
    "One whose file says how large its memory is, and one whose file does not"
    from gymnasium import spaces
    from srlviz.agents.actor_critic import memory_network
    from srlviz.agents.player import MemoryAgent, space_config

    for task, sizes in ('RepeatFirst-easy', dict(n_in=4, n_hidden=64)), ('RepeatPrevious-easy', None):
        made = MemoryAgent('GRU', sizes, 10, space_config(spaces.Discrete(4)), {}, 4, 0, task)
        made.network_ = memory_network(10, 'GRU', made.acting.kind, width=4, n_hidden=64, head_layers=0)
        made.save(place / f'{task}_GRU.safetensors')


def read_agent(place):
    from srlviz.agents.player import MemoryAgent, load_policy
    from srlviz.agents.player import load_agents
    from srlviz.widgets.agents.returns import Agents

    for path in place.glob('*.safetensors'):
        for read in load_policy, MemoryAgent.load, lambda p: saving.load_encoder(p, MemoryAgent), saving.load_encoder:
            with suppress(Exception):
                read(path)
    with suppress(Exception):
        load_agents(place)
    agents = Agents(place)  # as MMERDashboard asks them
    for task in 'RepeatFirst-easy', 'RepeatPrevious-easy':
        with suppress(Exception):
            agents.of(task, 'GRU')


def results(place):
    shutil.copy(sample_path('qedr/popgym_RepeatFirst-easy_GRU.npz'), place / 'qedr.npz')


def read_results(place):
    from srlviz.core.questions import Answer, load_answers

    with suppress(Exception):
        repr(Answer.load(place / 'qedr.npz'))
    repr(load_answers(place / 'qedr.npz'))


def targets(place):
    from srlviz.data.landing import read_flights
    from srlviz.evaluate.prediction.target_table import save_targets
    from srlviz.evaluate.targets import landing_targets, score_targets

    asked = landing_targets(read_flights(sample_path('landings')), 50, progress=False)
    save_targets(asked, place / 'targets')
    codes = [np.float32([i % 7, i % 3]) for i in range(len(asked))]
    score_targets(codes, asked, head='linear', progress=False).save(place / 'linear.npz', states=False)


def read_targets(place):
    from srlviz.evaluate.prediction.target_scores import TargetScores
    from srlviz.evaluate.prediction.target_table import load_targets

    with suppress(Exception):
        load_targets(place / 'targets')
    repr(TargetScores.load(place / 'linear.npz').scores(data='a', method='b', inputs='c', n_codes=2))


def table(place):
    from srlviz.core.scores import paper_scores, save_scores

    rows = paper_scores('popgym')
    save_scores(rows[rows['task'].isin(rows['task'].unique()[:2])], place / 'scores.csv')


def read_table(place):
    "Also as the widgets that ask for tasks and methods"
    from srlviz.core.scores import load_scores
    from srlviz.widgets.agents.memories import MemoryExplorer
    from srlviz.widgets.agents.play import PlayWidget
    from srlviz.widgets.agents.pomdp import EnvironmentExplorer
    from srlviz.widgets.agents.returns import MMERDashboard

    first = load_scores(place / 'scores.csv').iloc[0]
    with suppress(Exception):
        board = MMERDashboard(load_scores(place / 'scores.csv'), sample_path('agents'))
        board.task, board.method = first['task'], first['method']
        board.playing = True
    for widget in (MemoryExplorer, EnvironmentExplorer, PlayWidget) if first['task'] in NAMES else ():
        with suppress(Exception):
            widget(first['task'])


def swept(place):
    from srlviz.studies.papers.pomdps import POPGYM_TASKS
    from srlviz.studies.sweep import sweep

    short = dict(task=['RepeatFirst-easy'], episodes=[2], oracle_episodes=[2], fps_seconds=[0.0])
    sweep(POPGYM_TASKS, short, place, progress=False)
    (trial,) = (place / 'trials').iterdir()
    (trial / 'curve.csv').write_text('step,total,name,value,time\n1,2,loss,0.5,1700000000.0\n')
    (trial / 'claim.json').write_text(json.dumps(dict(host='far', pid=1, sweep='a', started=1.0)))
    agent(trial)
    (trial / 'RepeatPrevious-easy_GRU.safetensors').rename(trial / 'agent.safetensors')
    for path in trial / 'RepeatFirst-easy_GRU.safetensors', place / 'runs.csv', place / 'scores.csv':
        path.unlink()  # the last two are written, and never read


def read_swept(place):
    from srlviz.core.jobs.runs import RunFolder
    from srlviz.studies.sweeps import report
    from srlviz.studies.sweeps.commands import status_text
    from srlviz.studies.papers.landing import trial_files
    from srlviz.studies.notebooks import studies_folder
    from srlviz.studies.papers.pomdps import POPGYM_TASKS
    from srlviz.agents.player import load_agents
    from srlviz.studies.sweep import sweep

    def run(path, parameters, *_, **__):
        "What a kernel would be told to run"
        if Path(path).parent != studies_folder() or ':' in json.dumps(list(parameters.values())):
            importlib.import_module('os')  # as the study would

    def folder():
        runs = RunFolder(place)
        runs.refresh()
        keys = list(runs.runs['key'])
        return runs.curves(keys), [runs.traceback(k) for k in keys]

    grid = dict(task=['RepeatFirst-easy'], episodes=[2], oracle_episodes=[2], fps_seconds=[0.0])
    looks = [folder, lambda: status_text(place), lambda: report.plan(POPGYM_TASKS, grid, place)]
    looks += [lambda: trial_files(place), lambda: load_agents(place), lambda: report.report(place, progress=False)]
    looks += [lambda: sweep(POPGYM_TASKS, grid, place, compute=again, progress=False) for again in (False, True)]
    for claim in place.glob('trials/*/claim.json'):
        os.utime(claim, (0, 0))  # nobody waits for it
    with mock.patch.object(report, 'run_study', run):
        for look in looks:
            with suppress(Exception):
                look()


def course(place):
    _learner(place).learn(progress=False)


def read_course(place):
    _learner(place, 2).learn(progress=False)


def _learner(place, updates=1):
    from srlviz.agents.recurrent import recurrent_ppo

    sizes = dict(num_envs=2, num_steps=8, num_minibatches=1, update_epochs=1, total_steps=16 * updates)
    small = dict(width=4, n_hidden=4, head_layers=0, device='cpu', checkpoint=place / 'checkpoint.pt')
    return recurrent_ppo('RepeatFirst-easy', 'MLP', **sizes, **small)


def lerobot(place):
    from srlviz.core.recordings import Episode, Factor, Recording
    from srlviz.data.landing import export_lerobot

    def episode(i):
        x = np.random.default_rng(i).normal(size=(6, 2)).astype(np.float32)
        return Episode({'sensors': x}, np.arange(6), np.ones(6, np.float32), {'room': np.arange(6) % 2}, name=f'e{i}')

    rooms = [Factor('room', 'place', 'categorical')]
    export_lerobot(
        Recording([episode(0), episode(1)], 'rooms', 5, rooms, meta=dict(columns=['a', 'b'])),
        place / 'set',
        progress=False,
    )


def read_lerobot(place):
    from srlviz.data.importers import load_lerobot

    readers.of_recording(load_lerobot(place / 'set'))


def own_csv(place):
    (place / 'own.csv').write_text('episode,x,room\na,1,hall\na,2,cave\nb,3,hall\n')


def read_own_csv(place):
    from srlviz.data.importers import load_csv

    readers.of_recording(load_csv(place / 'own.csv', episode='episode', obs=['x']))


MORE = dict(
    memory_agent=(agent, read_agent),
    qedr=(results, read_results),
    targets=(targets, read_targets),
    scores=(table, read_table),
    sweep=(swept, read_swept),
    course=(course, read_course),
    lerobot=(lerobot, read_lerobot),
    csv=(own_csv, read_own_csv),
)
FORMATS = {r.make.__name__: (r.make, r.touch, r.sign) for r in readers.READERS}
FORMATS |= {name: (make, touch, None) for name, (make, touch) in MORE.items()}


@pytest.mark.parametrize('name', FORMATS)
@pytest.mark.parametrize('every', [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_name_of_a_file_runs_nothing(name, every, watched, tmp_path):
    "Each text is one of the four names, and each of them in `make slow`"
    make, touch, sign = FORMATS[name]
    (specimen := tmp_path / 'specimen').mkdir()
    make(specimen)
    files = [p.relative_to(specimen) for p in sorted(specimen.rglob('*')) if p.is_file()]
    cases = [(f, part, change) for f in files for part, change in texts_of(specimen / f).items()]
    for i, (file, part, change) in enumerate(cases):
        for word in NAMES if every else [NAMES[i % 4]]:
            place = tmp_path / 'place'
            shutil.copytree(specimen, place)
            (place / file).write_bytes(change(word))
            if sign is not None and file.as_posix() in json.loads((place / 'meta/info.json').read_text())['files']:
                sign(place, file.as_posix())
            with suppress(Exception):
                touch(place)
            assert not watched(), f'{word!r} as {part} of {file}'
            shutil.rmtree(place)
    assert cases


def test_only_these_modules_import_by_name():
    "Whoever resolves a name uses `named_class`, or for one of the caller's `imported`"
    root, asks = (
        Path(srlviz.__file__).parent,
        re.compile(r'import_module\(|__import__\(|resolve_name\(|\bpoint\.load\('),
    )
    found = {p.relative_to(root).as_posix() for p in root.rglob('*.py') if asks.search(p.read_text(encoding='utf-8'))}
    ours = {'__init__.py', 'envs/pomdp/__init__.py', 'agents/recurrent.py', 'studies/load.py', 'studies/trials.py'}
    ours |= {'evaluate/questions/belief.py'}  # evaluations do not import environments, but for their own module
    assert found == ours | {'core/names.py', 'studies/methods.py'}
