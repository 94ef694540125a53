"""Whatever people bring goes through every door in the same way: right, or refused in one sentence."""

import json
import re
import warnings
from types import SimpleNamespace

import gymnasium
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import srlviz
from gymnasium import spaces
from srlviz.core.metrics import questions
from srlviz.core.recordings import Episode, Factor, Recording
from srlviz.data.importers import from_rollout, load_csv, load_lerobot, load_minari
from srlviz.evaluate.questions.linear_probe import LinearProbe
from srlviz.encoders.custom import as_encoder
from srlviz.evaluate.questions.regression import Regression
from srlviz.studies.load import load, read_recording
from srlviz.studies.matrix.cross_evaluation import better_columns
from srlviz.studies.matrix.matrix_results import open_matrix
from srlviz.studies.run import run_study
from torch import nn

COLUMNS = dict(episode='run', time='when', factors={'room': 'class', 'life': 'number'})
QUICK = dict(baselines=(), norms=('standardize',), probing=dict(epochs=1), progress=False)
CARD = dict(questions=['rank'], references=(), progress=False)


def walks(n_runs=120, n_rows=30):
    "Runs of rows at 10 Hz: a word, and a number that counts down"
    rng = np.random.default_rng(0)
    n = n_runs * n_rows
    table = pd.DataFrame({'run': np.repeat([f'r{i}' for i in range(n_runs)], n_rows)})
    table['when'] = np.tile(np.arange(n_rows) * 0.1, n_runs)
    table[['a', 'b']] = rng.normal(size=(n, 2)).round(3)
    return table.assign(room=np.where(table['a'] > 0, 'hall', 'attic'), life=np.tile(np.arange(n_rows)[::-1], n_runs))


def brought(kind, folder):
    "Something of a kind, and the keywords with which it is read"
    table = walks()
    if kind in ('csv', 'tsv', 'txt', 'csv.gz'):
        path = folder / f'walks.{kind}'
        table.to_csv(path, index=False, sep='\t' if kind in ('tsv', 'txt') else ',')
        return path, COLUMNS
    if kind == 'parquet':
        table.to_parquet(folder / 'walks.parquet')
        return folder / 'walks.parquet', COLUMNS
    if kind == 'several':
        half = len(table) // 2
        table[:half].to_csv(folder / 'a.csv', index=False)
        table[half:].to_csv(folder / 'b.csv', index=False)
        return [folder / 'a.csv', folder / 'b.csv'], COLUMNS
    if kind == 'table':
        return table, COLUMNS
    factors = {'room': table['room'].to_numpy(), 'life': table['life'].to_numpy()}
    arrays = dict(episode=table['run'].to_numpy(), factors=factors, hz=10.0, about=[Factor('life', kind='continuous')])
    if kind == 'arrays':
        return dict(sensors=table[['a', 'b']].to_numpy()), arrays
    recording = Recording.from_table(table, **COLUMNS)
    return (recording.save(folder / 'saved') if kind == 'saved' else recording), {}


KINDS = [
    'csv',
    'several',
    'table',
    'arrays',
    'recording',
    'saved',
    'tsv',
    'txt',
    'csv.gz',
    'parquet',
]


def is_right(recording):
    "Whether a recording has the runs, the rate, the words and the numbers of `walks`"
    room, life = recording.factors
    assert len(recording) == 120 and recording.hz == pytest.approx(10)
    assert room.names == ('attic', 'hall') and life.kind == 'continuous'
    assert recording[0].factors['room'].tolist() == (walks()['a'][:30] > 0).astype(int).tolist()
    return True


def rooms_of(recording):
    "The words of the factor `room`"
    return next(f.names for f in recording.factors if f.name == 'room')


@pytest.mark.parametrize('kind', KINDS)
def test_the_reader_takes_it(kind, tmp_path):
    data, columns = brought(kind, tmp_path)
    assert is_right(read_recording(data, **columns))


@pytest.mark.parametrize('kind', KINDS)
def test_probe_takes_it(kind, tmp_path):
    data, columns = brought(kind, tmp_path)
    found = srlviz.probe({'mine': nn.Identity()}, data, **columns, **QUICK)
    assert [*found.labelled('f1')] == ['mine · standardized'] and [*found.targets('r2_linear').index] == ['life']
    assert rooms_of(found.recording) == ('attic', 'hall')


@pytest.mark.parametrize('kind', KINDS)
def test_explore_takes_it(kind, tmp_path):
    data, columns = brought(kind, tmp_path)
    if kind == 'arrays':
        with pytest.raises(ValueError, match='recording'):  # arrays are codes
            srlviz.explore(data, **columns)
        return
    widget = srlviz.explore(data, **columns)
    assert type(widget).__name__ == 'SensorBrowser' and is_right(widget.recording)


@pytest.mark.parametrize('kind', KINDS)
def test_explore_takes_it_as_the_recording_of_codes(kind, tmp_path):
    data, columns = brought(kind, tmp_path)
    if kind == 'arrays':
        data, columns = Recording.from_arrays(data, **columns), {}
    codes = walks()[['a', 'b']].to_numpy(np.float32).reshape(120, 30, 2)
    widget = srlviz.explore({'mine': [*codes]}, data, **columns)
    assert type(widget).__name__ == 'CodesExplorer' and is_right(widget.recording)


@pytest.mark.parametrize('kind', KINDS)
def test_scorecard_takes_it(kind, tmp_path):
    data, columns = brought(kind, tmp_path)
    card = srlviz.scorecard({'mine': nn.Identity()}, [data], **CARD, **columns)
    assert card.own == ['mine'] and len(card.scores)
    assert rooms_of(next(iter(card.recordings.values()))) == ('attic', 'hall')


def test_single_readers_give_the_same(tmp_path):
    path, columns = brought('csv', tmp_path)
    arrays, about = brought('arrays', tmp_path)
    for recording in (
        load(path, **columns),
        load_csv(path, **columns),
        load_csv(brought('several', tmp_path)[0], **columns),
        Recording.from_table(walks(), **columns),
        Recording.from_arrays(arrays, **about),
        load(brought('saved', tmp_path)[0]),
    ):
        assert is_right(recording)


@pytest.mark.parametrize('reader', [Recording.from_table, Recording.from_arrays, load_csv])
@pytest.mark.parametrize('keyword', ['epsiode', 'tiem'])
def test_a_misspelled_keyword_is_a_type_error(reader, keyword, tmp_path):
    path, _ = brought('csv', tmp_path)
    data = {'from_table': walks(), 'from_arrays': np.zeros((3, 2)), 'load_csv': path}[reader.__name__]
    with pytest.raises(TypeError, match=keyword):
        reader(data, **{keyword: 'run'})


@pytest.mark.parametrize('keyword, nearest', [('epsiode', 'episode'), ('tiem', 'time'), ('decimals', 'decimal')])
def test_doors_name_the_nearest_keyword(keyword, nearest, tmp_path):
    path, _ = brought('csv', tmp_path)
    for door in (
        lambda more: read_recording(path, **more),
        lambda more: srlviz.probe(nn.Identity(), path, **QUICK, **more),
        lambda more: srlviz.scorecard('raw', [path], **CARD, **more),
        lambda more: srlviz.scorecard('raw', 'pong', **CARD, **more),
    ):
        with pytest.raises(TypeError, match=f'{keyword}.*did you mean .{nearest}'):
            door({keyword: 'run'})


def test_a_keyword_that_the_data_do_not_have_is_refused(tmp_path):
    recording = brought('recording', tmp_path)[0]
    saved = brought('saved', tmp_path)[0]
    wrong = [(walks(), dict(sep=';')), (recording, dict(episode='run')), (saved, dict(time='when'))]
    for data, more in wrong:
        for door in (
            lambda: read_recording(data, **more),
            lambda: srlviz.probe(nn.Identity(), data, **QUICK, **more),
            lambda: srlviz.scorecard('raw', [data], **CARD, **more),
        ):
            with pytest.raises(ValueError, match=f'{next(iter(more))}='):
                door()
    with pytest.raises(ValueError, match='time='):
        srlviz.scorecard('raw', 'pong', **CARD, time='when')
    with pytest.raises(ValueError, match='there is none'):
        srlviz.probe(nn.Identity(), game='pong', time='when', **QUICK)


def test_what_has_no_rows_in_time_is_refused(tmp_path):
    for door in (
        read_recording,
        lambda path: srlviz.probe(nn.Identity(), path, **QUICK),
        lambda path: srlviz.scorecard('raw', [path], **CARD),
    ):
        with pytest.raises(FileNotFoundError, match='nothing.csv'):
            door(tmp_path / 'nothing.csv')
        (tmp_path / 'forged.npz').write_bytes(b'PK\x03\x04' + bytes(40))
        with pytest.raises(ValueError, match='forged.npz'):
            door(tmp_path / 'forged.npz')


@pytest.mark.parametrize('kind', ['class', 'number', Factor('life', kind='continuous')])
def test_the_kind_of_a_factor_is_stated_at_every_door(kind, tmp_path):
    path, columns = brought('csv', tmp_path)
    columns = columns | dict(factors={'life': kind})
    expected = 'categorical' if kind == 'class' else 'continuous'
    found = srlviz.probe('raw', path, **columns, **QUICK)
    assert bool(found.labelled('r2_linear')) == (kind != 'class')
    card = srlviz.scorecard('raw', path, **CARD, **columns)
    for recording in srlviz.explore(path, **columns).recording, *card.recordings.values():
        assert [f.kind for f in recording.factors] == [expected]


def told():
    "Episodes of someone's own, whose factor is text"
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(120):
        x = rng.normal(size=(30, 2)).astype(np.float32)
        episodes.append(Episode(dict(sensors=x), factors=dict(task=np.where(x[:, 0] > 0, 'pull', 'push'))))
    return Recording(episodes, name='told', factors=[Factor('task')])


def test_words_in_episodes_are_classes_at_every_door():
    recording = told()
    found = srlviz.probe('raw', recording, **QUICK)
    card = srlviz.scorecard('raw', recording, **CARD | dict(questions=['selectivity']))
    opened = [read_recording(recording), found.recording, srlviz.explore(recording).recording]
    opened += [srlviz.explore(recording[0]).recording, *card.recordings.values()]
    for coded in opened:
        assert coded.factors[0].names == ('pull', 'push') and coded[0].factors['task'].dtype.kind == 'i'
    assert {*card.scores['target']} >= {'task'}


METHODS = ['raw', 'window_statistics', 'constant', 'clock', 'random', 'majority']


@pytest.mark.parametrize('name', METHODS)
def test_a_name_works_at_every_door(name):
    recording = Recording.from_table(walks(), **COLUMNS)
    found = srlviz.probe(name, recording, **QUICK)
    assert {*found.scores['method']} == {name}
    assert srlviz.scorecard(name, recording, **CARD).own == [name]
    assert len(srlviz.explore(name, recording).recording) == 120


@pytest.mark.parametrize(
    'name, words', [('rawr', "did you mean 'raw'"), ('pca', 'reads frames'), ('belief', 'belief|a question')]
)
def test_a_name_that_cannot_work_has_a_reason_at_every_door(name, words):
    recording = Recording.from_table(walks(), **COLUMNS)
    for door in (
        lambda: srlviz.probe(name, recording, **QUICK),
        lambda: srlviz.scorecard(name, recording, **CARD),
        lambda: srlviz.explore(name, recording),
    ):
        with pytest.raises(ValueError, match=words):
            door()


def test_a_card_of_few_rows_says_whole_how_many_it_needs():
    recording = Recording.from_table(walks(110), **COLUMNS)
    card = srlviz.scorecard('raw', [recording], **CARD)
    assert '990 test rows; a score needs 1,000: give a recording of about 3,334 rows instead of 3,300' in repr(card)
    assert '[...]' not in repr(card)


def test_several_networks_have_a_card_each():
    with pytest.raises(ValueError, match='joins two'):
        srlviz.scorecard({'a': nn.Identity(), 'b': nn.Flatten()}, 'pong', **CARD)


@pytest.mark.parametrize('kind', ['csv', 'table', 'arrays'])
def test_a_question_says_how_to_make_a_recording_and_answers_then(kind, tmp_path):
    data, columns = brought(kind, tmp_path)
    maker = {'csv': 'srlviz.load', 'table': 'srlviz.Recording.from_table', 'arrays': 'srlviz.Recording.from_arrays'}[
        kind
    ]
    with pytest.raises(ValueError, match=f"the recording of the question 'regression'.*got .*{re.escape(maker)}[(]"):
        Regression().ask([], data)
    make = {'csv': srlviz.load, 'table': Recording.from_table, 'arrays': Recording.from_arrays}[kind]
    recording = make(data, **columns).with_split(probe=0.6, valid=0.2, test=0.2)
    codes = as_encoder(nn.Identity()).encode(recording)
    answer = Regression().ask(codes, recording, progress=False)
    assert [*answer.truth] == ['life'] and len(answer.truth) == 24 * 30
    for no_codes in nn.Identity(), 'm.csv', recording:
        with pytest.raises(ValueError, match='codes, one array per episode; got .*as_encoder'):
            Regression().ask(no_codes, recording)


@pytest.mark.parametrize('name', sorted(questions()))
def test_no_question_takes_a_path_for_a_recording(name):
    for data, found in ('m.csv', 'str'), (walks(2), 'DataFrame'), ({'a': np.zeros((4, 2))}, 'dict'):
        with pytest.raises(ValueError, match=f"question '{name}' is a Recording, got {found}"):
            questions()[name]().ask([np.zeros((2, 2))], data)


def test_data_sets_of_others_are_no_tables(tmp_path):
    for reader in load_lerobot, load_minari:
        with pytest.raises(TypeError, match='time'):
            reader(tmp_path, time='when')
    (tmp_path / 'meta').mkdir()
    (tmp_path / 'meta' / 'info.json').write_text(json.dumps(dict(codebase_version='v3.0')))
    with pytest.raises(ValueError, match='time= .*LeRobot'):
        read_recording(tmp_path, time='when')


NET = """
from torch import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.rows = nn.Flatten()
    def forward(self, x):
        return self.rows(x)
"""


@pytest.mark.parametrize(
    'kind', ['csv.gz', *(pytest.param(k, marks=pytest.mark.slow) for k in ('csv', 'txt', 'saved'))]
)
def test_a_study_by_papermill_reads_it(kind, tmp_path):
    path, columns = brought(kind, tmp_path)
    (tmp_path / 'doors_net.py').write_text(NET)
    named = ['raw', f'{tmp_path}/doors_net.py:Net']
    parameters = dict(data=str(path), representations=named, norm=['standardize'], out=str(tmp_path / 'out'))
    if columns:
        stated = dict(room='class', life='number')
        parameters |= dict(episode='run', time='when', factors=['room', 'life'], kinds=stated)
    run_study('own_table', parameters, tmp_path / 'out', progress=False)
    if kind == 'csv':  # a second run replaces the result
        run_study('own_table', parameters, tmp_path / 'out', progress=False)
    result = srlviz.load(tmp_path / 'out' / 'probe')
    f1 = result.targets('f1').loc['room']
    assert f1.shape == (2,) and (f1 > 0.9).all() and result.targets('r2_linear').index.tolist() == ['life']


@pytest.mark.slow  # a kernel, and a worker
def test_the_matrix_takes_a_table_as_a_world(tmp_path):
    path, _ = brought('csv', tmp_path)
    path = path.rename(tmp_path / 'walks of mine')  # its content decides what it is
    (tmp_path / 'matrix_net.py').write_text(NET)
    named = ['raw', 'constant', f'{tmp_path}/matrix_net.py:Net']
    parameters = dict(data=[str(path)], representations=named, questions=['probe', 'regression'])
    parameters |= dict(episode='run', factors=['room', 'life'], kinds=dict(life='number'), time='when')
    run_study('cross_evaluation', parameters, tmp_path / 'out', progress=False)
    matrix = open_matrix(tmp_path / 'out')
    scores = better_columns(matrix.scores)['walks of mine']
    assert scores.loc['raw', 'probe'] > 0.9 > scores.loc['constant', 'probe'] and scores.loc['net', 'probe'] > 0.9
    assert {*matrix.scores['target']} == {'room', 'life', 'mean'} and not matrix.reasons


def space_of(x):
    "The Gymnasium space of rows (T, ...)"
    if x.dtype == np.uint8:
        return spaces.Box(0, 255, x.shape[1:], np.uint8)
    return spaces.Box(-np.inf, np.inf, x.shape[1:], x.dtype)


class Replay(gymnasium.Env):
    """An environment that replays rows of observations and factors, in one buffer each."""

    action_space = spaces.Discrete(2)

    def __init__(self, obs, factors):
        self.rows, self.values = obs, factors
        self.observation_space = space_of(obs)
        self.buffer = obs[0].copy()

    def factors(self):
        return {k: v[self.t] for k, v in self.values.items()}

    def observe(self):
        self.buffer[:] = self.rows[self.t]
        return self.buffer

    def reset(self, seed=None, options=None):
        self.t = 0
        return self.observe(), {}

    def step(self, action):
        self.t += 1
        is_end = self.t == len(self.rows) - 1
        return self.observe(), 0.0, False, is_end, {}


def by_rollout(obs, factors, folder):
    ends = np.arange(len(obs))[:, None] == len(obs) - 1
    return from_rollout(obs[:, None], truncated=ends, factors={k: np.array(v)[:, None] for k, v in factors.items()})


def by_record(obs, factors, folder):
    obs = np.append(obs, obs[-1:], 0)  # the last one has no action
    factors = {k: [*v, v[-1]] for k, v in factors.items()}
    return srlviz.record(Replay(obs, factors), 1, progress=False)


def by_minari(obs, factors, folder):
    n = len(obs)
    longer = {k: np.append(v, v[-1:], 0) for k, v in dict(factors, obs=obs).items()}
    episode = SimpleNamespace(
        id=0,
        observations=longer.pop('obs'),
        actions=np.zeros(n, int),
        rewards=np.zeros(n),
        terminations=np.zeros(n, bool),
        infos=longer,
    )
    facts = dict(
        observation_space=space_of(obs),
        action_space=spaces.Discrete(2),
        episode_indices=np.arange(1),
        spec=SimpleNamespace(dataset_id='replay-v0', env_spec=None),
        storage=SimpleNamespace(get_episode_metadata=lambda which: [dict(total_steps=n)]),
    )
    return load_minari(type('Set', (SimpleNamespace,), {'__getitem__': lambda self, i: episode})(**facts))


def by_lerobot(obs, factors, folder):
    n = len(obs)
    columns = {'observation.image' if obs.ndim > 2 else 'observation.state': obs, 'index': np.arange(n)}
    columns |= {f'factor.{k}': np.array(v) for k, v in factors.items()}
    features = {}
    for k, x in columns.items():
        features[k] = dict(dtype='string' if x.dtype.kind == 'U' else str(x.dtype), shape=[*(x.shape[1:] or [1])])
    for name in ('data/chunk-000', 'meta/episodes/chunk-000'):
        (folder / name).mkdir(parents=True)
    info = dict(codebase_version='v3.0', fps=10, features=features, total_episodes=1, total_frames=n)
    (folder / 'meta/info.json').write_text(json.dumps(info))
    rows = {k: [*x.reshape(n, -1)] if x.ndim > 1 else x for k, x in columns.items()}
    pq.write_table(pa.table(rows), folder / 'data/chunk-000/file-000.parquet')
    place = {'data/chunk_index': [0], 'data/file_index': [0]}
    episodes = dict(episode_index=[0], length=[n], dataset_from_index=[0], **place)
    pq.write_table(pa.table(episodes), folder / 'meta/episodes/chunk-000/file-000.parquet')
    return load_lerobot(folder)


DOORS = {'from_rollout': by_rollout, 'record': by_record, 'load_minari': by_minari, 'load_lerobot': by_lerobot}
ROWS = np.random.default_rng(0).normal(size=(200, 2)).astype(np.float32)


@pytest.fixture(params=DOORS)
def door(request, tmp_path):
    "A function that gives rows of observations and factors to a door, and reads the recording"
    made = DOORS[request.param]

    def read(obs=ROWS, **factors):
        recording = read_recording(made(np.asarray(obs), factors, tmp_path))
        (episode,) = recording
        return recording, {k: np.asarray(v) for k, v in episode.obs.items()}, dict(episode.factors)

    read.name = request.param
    return read


def numbers_of(obs):
    "The rows of numbers, under whatever name"
    return obs['sensors'] if 'sensors' in obs else obs['vector']


def test_rows_are_the_same_at_every_door(door):
    recording, obs, factors = door(x=ROWS[:, 0])
    assert np.array_equal(numbers_of(obs), ROWS) and np.array_equal(factors['x'], ROWS[:, 0])
    assert recording.lengths.tolist() == [200]


def test_the_kind_of_a_factor_follows_from_its_values_at_every_door(door):
    life = np.arange(200)[::-1].copy()
    recording, _, factors = door(life=life, room=life % 7, lit=(life % 2).astype(float), heat=ROWS[:, 0])
    kinds = {f.name: f.kind for f in recording.factors}
    assert kinds == dict(life='continuous', room='categorical', lit='categorical', heat='continuous')
    assert factors['life'].tolist() == life.tolist()


def test_words_are_classes_at_every_door(door):
    words = np.array(['hall', 'attic'] * 100)
    recording, _, factors = door(room=words, x=ROWS[:, 0])
    if door.name == 'load_minari':  # an info of text is no factor
        assert [*factors] == ['x']
        return
    assert rooms_of(recording) == ('attic', 'hall') and factors['room'].tolist() == [1, 0] * 100


@pytest.mark.parametrize('rows', ['lossy', 'large'])
def test_what_float32_loses_is_named_at_every_door(rows, door):
    if rows == 'lossy':
        with pytest.warns(UserWarning, match='loses precision as float32.*such as 5812345'):
            door(5_812_345.05 + 0.2 * (np.arange(200.0)[:, None] % 2))
    else:
        with pytest.raises(ValueError, match='holds 1e[+]39 in row 7.*float32'):
            door(np.where(np.arange(200)[:, None] == 7, 1e39, 1.0))


@pytest.mark.parametrize('shape', [(12, 9, 3), (3, 12, 9), (12, 9), (4, 12, 9)])
def test_a_picture_is_in_one_layout_at_every_door(shape, door):
    pictures = np.random.default_rng(0).integers(0, 255, (20, *shape), np.uint8)
    _, obs, _ = door(pictures, x=ROWS[:20, 0])
    expected = pictures if len(shape) == 3 else pictures[..., None]
    expected = expected.transpose(0, 2, 3, 1) if shape[0] < 5 else expected
    (found,) = obs.values()
    assert found.dtype == np.uint8 and np.array_equal(found, expected)


def test_an_absent_float_is_nan_or_refused_at_every_door(door):
    x = np.where(np.arange(200) == 3, np.nan, ROWS[:, 0])
    if door.name == 'from_rollout':
        with pytest.raises(ValueError, match="'x' is absent in row 3"):
            door(x=x)
        return
    _, _, factors = door(x=x)
    assert np.flatnonzero(np.isnan(factors['x'])).tolist() == [3]


@pytest.mark.parametrize('name', ['t', 'episode', 'mean'])
def test_reserved_names_are_refused_at_every_door(name, door):
    with pytest.raises(ValueError, match=f'{name!r}'):
        door(**{name: ROWS[:, 0]})


def graded():
    "Runs of two numbers, with a class in halves (grade), and a number and a class that are missing in some rows"
    rng = np.random.default_rng(0)
    about = [Factor('grade'), Factor('speed', kind='continuous'), Factor('lamp')]
    episodes = []
    for _ in range(12):
        x = rng.normal(size=(40, 2)).astype(np.float32)
        grade = np.where(x[:, 0] < -0.5, 0.5, np.where(x[:, 0] < 0.5, 1.0, 2.5))
        speed, lamp = x[:, 1] * 2.0, (x[:, 1] > 0) * 1.0
        speed[::10] = lamp[::10] = np.nan
        episodes.append(Episode(dict(vector=x), factors=dict(grade=grade, speed=speed, lamp=lamp)))
    return Recording(episodes, factors=about).with_split(probe=0.7, valid=0.1, test=0.2)


@pytest.fixture(scope='module')
def probed_grades():
    return srlviz.probe({'mine': nn.Identity()}, graded(), **QUICK)


def test_rows_with_gaps_are_left_out_by_a_probe_as_by_a_question(probed_grades, tmp_path):
    recording, found = graded(), probed_grades
    assert (
        not found.left_out
        and [*found.targets('f1').index[:2]] == ['grade', 'lamp']
        and [*found.targets('r2_linear').index] == ['speed']
    )
    codes = [e.obs['vector'] for e in recording]
    asked = {name: question(codes, recording) for name, question in QUESTIONS_OF_PROBE.items()}
    n_test = (recording.split == 'test').sum()
    (classes,), (numbers,) = found.labelled('f1').values(), found.labelled('r2_linear').values()
    for answer, name in (classes, 'classes'), (numbers, 'numbers'):
        rows = {k: n for k, n in asked[name].about['left_out'].items() if k.startswith('rows')}
        assert {k: n for k, n in answer.about['left_out'].items() if k in rows} == rows
        assert rows['rows of test'] == 4 * n_test == 40 * n_test - len(answer.truth)
        assert (answer.truth == asked[name].truth).all(axis=None)
    assert f'{4 * n_test} rows of test' in repr(found) and 'NaN' in repr(found)
    assert repr(srlviz.load(found.save(tmp_path / 'probe'))) == repr(found)


QUESTIONS_OF_PROBE = dict(
    classes=lambda codes, recording: LinearProbe(**LinearProbe.defaults).ask(codes, recording, progress=False),
    numbers=lambda codes, recording: Regression(epochs=0).ask(codes, recording, progress=False),
)


def test_classes_with_fractions_are_classes_for_a_probe_and_for_a_question(probed_grades):
    recording = graded()
    answer = QUESTIONS_OF_PROBE['classes']([e.obs['vector'] for e in recording], recording)
    assert {*answer.truth['grade']} == {0, 1, 2} and answer.values('f1')['grade'] > 0.9
    assert next(f.names for f in probed_grades.recording.factors if f.name == 'grade') == ('0.5', '1.0', '2.5')


def test_fractions_that_do_not_recur_are_a_number_for_a_probe_and_for_a_question():
    recording = graded()
    recording = recording.replace(factors=[Factor('speed'), Factor('grade')])
    found = srlviz.probe({'mine': nn.Identity()}, recording, **QUICK)
    assert [*found.targets('r2_linear').index] == ['speed'] and found.targets('f1').index[0] == 'grade'
    codes = [e.obs['vector'] for e in recording]
    assert [*QUESTIONS_OF_PROBE['numbers'](codes, recording).truth] == ['speed']
    answer = QUESTIONS_OF_PROBE['classes'](codes, recording)
    assert [*answer.truth] == ['grade'] and 'factor speed' in answer.about['left_out']


def test_a_factor_without_a_value_in_a_split_is_named_by_a_probe():
    recording = graded()
    for e, split in zip(recording, recording.split):
        if split == 'test':
            e.factors['lamp'][:] = np.nan
    found = srlviz.probe({'mine': nn.Identity()}, recording, **QUICK)
    assert found.left_out == {('own', 'lamp'): "no value in the split 'test'"}


@pytest.mark.parametrize('data', ['CartPole-v1', 'made', 'RepeatPreviousEasy-v0', 'RepeatPrevious-easy'])
def test_a_probe_plays_an_environment_or_says_what_to_call(data):
    if data == 'RepeatPreviousEasy-v0':
        with pytest.raises(FileNotFoundError, match='RepeatPreviousEasy'):
            srlviz.probe('raw', data, **QUICK)
        return
    found = srlviz.probe('raw', gymnasium.make('CartPole-v1') if data == 'made' else data, **QUICK)
    assert len(found.recording) == 50 and max(found.recording.lengths) <= 200
    is_pole = data != 'RepeatPrevious-easy'
    assert ('numbers of the observation itself' in repr(found)) == is_pole
    assert not is_pole or found.targets('r2_linear').to_numpy().min() > 0.99


def test_names_of_worlds_and_columns_of_environments_are_refused_with_the_call_to_make():
    with pytest.raises(ValueError, match=r"srlviz.record\('approach'\)"):
        srlviz.probe('raw', 'approach', **QUICK)
    with pytest.raises(ValueError, match='factors name columns of a table; CartPole-v1 is an environment'):
        srlviz.probe('raw', 'CartPole-v1', factors=['angle'], **QUICK)


def test_a_recording_says_that_its_factors_are_the_observation(tmp_path):
    pole = srlviz.record('CartPole-v1', 3, progress=False)
    assert pole.observed == [f'observation_{i}' for i in range(4)] and 'observation itself' in repr(pole)
    assert pole.replace(meta=dict(observed='text')).observed == []
    saved = load(pole.save(tmp_path / 'pole'))
    assert saved.observed == pole.observed

    def angle(env):
        return dict(angle=env.unwrapped.state[2])

    known = srlviz.data.worlds.gym.GymWorld('CartPole-v1', factors=angle).record(3, progress=False)
    assert known.observed == [] and 'observation itself' not in repr(known)


def test_a_factor_that_is_an_observed_column_under_another_name_is_said(tmp_path):
    rng = np.random.default_rng(0)
    walks = pd.DataFrame(
        dict(walk=np.repeat(np.arange(12), 30), speed=rng.normal(size=360), foot=rng.integers(0, 2, 360))
    )
    walks['slips'] = walks['foot'].astype(float)
    walks.to_csv(tmp_path / 'walks.csv', index=False)
    with pytest.warns(UserWarning, match="the factor 'foot' is the observed column 'slips' under another name"):
        found = srlviz.probe('raw', tmp_path / 'walks.csv', episode='walk', factors=['foot'], **QUICK)
    assert 'foot: numbers of the observation itself' in repr(found)
    plain = srlviz.Recording.from_table(walks, episode='walk', obs=['speed'], factors=['foot'])
    assert plain.observed == []


def test_predictions_of_a_table_with_classes_and_numbers_are_shown():
    rng = np.random.default_rng(0)
    walks = pd.DataFrame(
        dict(walk=np.repeat(np.arange(12), 30), speed=rng.normal(size=360), foot=rng.integers(0, 2, 360))
    )
    walks['height'] = 2 * walks['speed'] + rng.normal(size=360)
    heatmap = srlviz.explore(srlviz.probe('raw', walks, episode='walk', factors=['foot', 'height'], **QUICK))
    shown = heatmap.side.predictions.shown
    assert (shown.factor, shown.method) == ('foot', 'raw · standardized') and len(shown.worst)


@pytest.mark.parametrize('given', ['model', 'policy', 'named', 'its environment'])
def test_a_probe_takes_a_model_of_stable_baselines3(given):
    sb3 = pytest.importorskip('stable_baselines3', reason='stable-baselines3 is not installed')
    model = sb3.PPO('MlpPolicy', 'CartPole-v1', seed=0, device='cpu', n_steps=64)
    net = {'model': model, 'policy': model.policy, 'named': {'actor': model}, 'its environment': model}[given]
    found = srlviz.probe(net, None if given == 'its environment' else 'CartPole-v1', **QUICK)
    ((name, codes),) = found.codes.items()
    assert name == ('actor' if given == 'named' else 'net') and codes[0].shape[1] == 64
    for a, b in zip(codes, srlviz.studies.probe_callback.default_codes(model, found.recording), strict=True):
        np.testing.assert_array_equal(a, b)
    recording = srlviz.record('CartPole-v1', 5, progress=False)
    layer = srlviz.probe(net, recording, layer='action_net', **QUICK)
    assert [*layer.codes.values()][0][0].shape[1] == 2
    with pytest.raises(ValueError, match='stack= is for networks'):
        srlviz.probe(net, recording, stack=4, **QUICK)


def test_a_model_without_an_environment_to_copy_says_what_to_give():
    sb3 = pytest.importorskip('stable_baselines3', reason='stable-baselines3 is not installed')
    model = sb3.PPO('MlpPolicy', 'CartPole-v1', device='cpu', n_steps=64)
    model.env = None
    with pytest.raises(ValueError, match='give it as data'):
        srlviz.probe(model, **QUICK)
    with pytest.raises(ValueError, match='give it as data'):
        srlviz.probe(model.policy, **QUICK)


def test_a_callback_makes_the_split_of_a_probe():
    recording = graded().replace(split=None)
    callback = srlviz.ProbeCallback(recording)
    assert (callback.recording.split == srlviz.probe('raw', recording, **QUICK).recording.split).all()
    for door in srlviz.ProbeCallback, lambda short: srlviz.probe('raw', short, **QUICK):
        with pytest.raises(ValueError, match='at least 3 episodes.*got 2'):
            door(recording[:2])


class Heads(nn.Module):
    "A network with codes, a value and a policy"

    def __init__(self):
        super().__init__()
        self.body = nn.Linear(2, 8)
        self.value = nn.Linear(8, 1)

    def forward(self, x):
        codes = self.body(x)
        return self.value(codes).reshape(-1), self.value(codes), codes


HINTS = {  # a network that cannot be probed -> what its error says, and what it must not say
    'stacked': (lambda: nn.Linear(8, 4), 'it runs with stack=4', 'inputs='),
    'no cure': (lambda: nn.Linear(7, 4), 'Linear fails', 'stack=|inputs=|it runs with'),
    'heads': (Heads, r'net\(x\)\[part\].* 1, 2 have this form', r'net\(x\)\[\d\]'),
    'lstm': (lambda: nn.LSTM(2, 4), 'srlviz.memories.memory.Memory', r'net\(x\)\[|stack='),
    'frames': (
        lambda: nn.Sequential(nn.Conv2d(12, 4, 8, 4), nn.Flatten(), nn.Linear(1600, 3)),
        'size=.84, 84., stack=4',
        'NHWC',
    ),
    'last': (
        lambda: nn.Sequential(nn.Flatten(2), nn.Linear(48, 4), nn.Flatten(), nn.Linear(64, 3)),
        "it runs with layout='NHWC'",
        'stack=|size=',
    ),
    'no cure for frames': (lambda: nn.Sequential(nn.Flatten(), nn.Linear(7, 3)), 'say how it reads', 'it runs with'),
}


@pytest.mark.parametrize('kind', HINTS)
def test_the_hint_of_a_network_that_cannot_be_probed_is_true(kind):
    make, words, never = HINTS[kind]
    frames = kind in ('frames', 'last', 'no cure for frames')
    pictures = np.random.default_rng(0).integers(0, 255, (60, 16, 16, 3), np.uint8)
    x = pictures if frames else walks(2)[['a', 'b']].to_numpy()
    recording = Recording.from_arrays(x, episode=np.arange(60) // 10, factors=dict(door=np.arange(60) // 3 % 2))
    with pytest.raises(ValueError, match=words) as caught:
        srlviz.probe(make(), recording, **QUICK)
    assert not re.search(never, str(caught.value).split('RuntimeError')[0])
    if kind == 'stacked':
        assert len(srlviz.probe(make(), recording, stack=4, **QUICK).codes['net']) == 6


def test_stacks_of_pictures_with_channels_are_named_at_the_door():
    pair = np.zeros((20, 2, 16, 12, 3), np.uint8)
    with pytest.warns(UserWarning, match='stacks of 2 pictures, oldest first.*6 channels.*cameras'):
        recording = Recording.from_arrays(pair)
    assert recording[0].obs['frame'].shape == (20, 16, 12, 6)
    with pytest.warns(UserWarning, match='cameras'):
        read_recording(dict(frame=pair), factors=dict(door=np.arange(20) % 2))
    with warnings.catch_warnings(action='error'):
        Recording.from_arrays(pair[:, 0])
        Recording.from_arrays(dict(left=pair[:, 0], right=pair[:, 1]))


class Coins(gymnasium.Env):
    "A stranger's task: guess the coin, which is shown"

    action_space, observation_space = spaces.Discrete(2), spaces.Box(0, 1, (1,), np.float32)
    metadata = dict(render_modes=['rgb_array'])

    def __init__(self, render_mode=None):
        self.render_mode, self.coin = render_mode, 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.left, self.coin = 5, int(self.np_random.integers(2))
        return np.float32([self.coin]), dict(factors=dict(coin=self.coin))

    def step(self, action):
        reward, self.coin = float(action == self.coin), int(self.np_random.integers(2))
        self.left -= 1
        return np.float32([self.coin]), reward, self.left == 0, False, dict(factors=dict(coin=self.coin))

    def render(self):
        return np.full((40, 40, 3), 255 * self.coin, np.uint8)


@pytest.mark.parametrize('mode', [None, 'rgb_array'])
def test_an_environment_is_watched_and_played(mode):
    watched = srlviz.explore(Coins(mode), interactive=True)
    assert type(watched).__name__ == 'EnvironmentExplorer' and watched.policy == 'random'
    assert len(watched.rollout.episode) == 5 and ('frame' in watched.rollout.episode.obs) == (mode is not None)
    if mode:
        played = srlviz.explore(Coins(mode), widget='PlayWidget', interactive=True)
        played.act(1)
        assert played.recorder.steps == 1


def test_the_explorers_of_a_world_are_those_that_it_offers():
    "A world of a third party, of which the kit knows nothing but what it says"

    class Bank:
        name, unit, kind = 'bank', 'episodes', 'till'
        explorers = 'EnvironmentExplorer', 'PlayWidget'
        conditions = {}
        play = Coins('rgb_array')

        def record(self, n=10, **options):
            return srlviz.record(self.play, n, **options)

        def sample(self):
            return self.record(4, progress=False)

    assert type(srlviz.explore(Bank(), interactive=True)).__name__ == 'EnvironmentExplorer'
    frames = srlviz.explore(Bank(), widget='SensorBrowser', interactive=True)
    assert len(frames.recording) == 4
    with pytest.raises(ValueError, match='EnvironmentExplorer, PlayWidget, '):
        srlviz.explore(Bank(), widget='RAMExplorer')
    Bank.explorers = ()
    assert type(srlviz.explore(Bank(), interactive=True)).__name__ == 'SensorBrowser'
    Bank.explorers, Bank.play = ('EnvironmentExplorer',), None
    with pytest.raises(ValueError, match='bank has no environment to play'):
        srlviz.explore(Bank())
