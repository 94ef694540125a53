"""Test wrong calls: each is refused at the door, in one sentence that names the argument and what came."""

import dataclasses, linecache

import numpy as np
import pandas as pd
import pytest, torch

import srlviz
from srlviz import Episode, Factor, ProbeCallback, Recording
from srlviz.core.metrics import questions
from srlviz.data.importers import add_video, load_csv, load_lerobot, load_minari
from srlviz.encoders.frames.cnn import fit_splits
from srlviz.evaluate.probe import linear_probe
from srlviz.evaluate.questions.linear_probe import LinearProbe
from srlviz.evaluate.questions.regression import Regression
from srlviz.core.files import sample_path
from srlviz.core.scores import load_scores
from srlviz.widgets.probe_heatmap import ProbeHeatmap
from srlviz.widgets.workbench import Workbench

X = np.zeros((4, 2), np.float32)


@pytest.fixture(scope='module')
def recording():
    "Twelve episodes of noise with a factor of two classes"
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(30, 3)).astype(np.float32) for _ in range(12)]
    episodes = [Episode({'x': rows}, rewards=rows[:, 1] > 0, factors={'up': rows[:, 0] > 0}) for rows in x]
    return Recording(episodes, 'noise', factors=[Factor('up')]).with_split(probe=0.6, valid=0.2, test=0.2)


def codes(recording, **change):
    "Codes by split, of which some are others"
    found, factors = srlviz.align([e.obs['x'] for e in recording], recording)
    return {split: change.get(split, rows) for split, rows in found.items()}, factors


CALLS = {
    'Episode of an array': (lambda r: Episode(X), 'obs|observations'),
    'Episode of None': (lambda r: Episode(None), 'obs|observations'),
    'Recording of an array': (lambda r: Recording([X]), 'Episode'),
    'Recording of a number': (lambda r: Recording(3), 'episodes'),
    'align without codes': (lambda r: srlviz.align(None, r), 'codes'),
    'align without a recording': (lambda r: srlviz.align([X], None), 'recording'),
    'link of None': (lambda r: srlviz.link(None), 'explorer'),
    'ProbeCallback of None': (lambda r: ProbeCallback(None), 'recording'),
    'ProbeCallback with encode of a number': (lambda r: ProbeCallback(r, encode=3), 'encode'),
    'ProbeCallback with layer of a number': (lambda r: ProbeCallback(r, layer=3), 'layer'),
    'warn of a number': (lambda r: LinearProbe(epochs=1).answer(*codes(r), progress=False).warn(3), 'warnings'),
    'warn of words': (lambda r: LinearProbe(epochs=1).answer(*codes(r), progress=False).warn(['x']), 'kind and words'),
    'Workbench of a table': (lambda r: Workbench(pd.DataFrame({'a': [1]})), 'scores|score table|column'),
    'load_csv of nothing': (lambda r: load_csv([]), 'path'),
    'probe of a recording with frames': (lambda r: srlviz.probe('raw', r, frames=100), 'frames .* no game'),
    'probe of a recording with a policy': (lambda r: srlviz.probe('raw', r, policy='random'), 'policy .* no game'),
    'probe of an environment with a version': (lambda r: srlviz.probe('raw', 'CartPole-v1', version='raw'), 'version'),
    'codes of a world that is recorded anew': (lambda r: srlviz.scorecard([X], ['pong']), 'give the recording'),
    'a heat map beside a number': (
        lambda r: ProbeHeatmap(load_scores(sample_path('atari_scores.csv')), paper=3),
        'paper is a list of methods',
    ),
    'load of None': (lambda r: srlviz.load(None), 'path'),
    'scorecard of no rows': (lambda r: srlviz.scorecard(lambda x: x, worlds=[r], n=0), "n "),
    'text codes': (lambda r: LinearProbe().answer(*codes(r, test=np.array([['a']] * 60))), 'codes of split'),
    'another width': (lambda r: LinearProbe().answer(*codes(r, test=np.zeros((60, 2)))), 'columns'),
    'no codes': (lambda r: Regression().answer(*codes(r, test=np.zeros((60, 0)))), 'columns|codes'),
    'linear_probe of another width': (lambda r: linear_probe(*codes(r, test=np.zeros((60, 2)))), 'columns'),
    'three dimensions': (lambda r: LinearProbe().answer(*codes(r, test=np.zeros((60, 2, 2)))), 'N, n_codes'),
    'complex codes': (lambda r: LinearProbe().answer(*codes(r, test=np.zeros((60, 3), complex))), 'real numbers'),
    'a network for codes': (lambda r: LinearProbe().ask(torch.nn.Linear(3, 2), r), 'as_encoder'),
    'a path for a recording': (lambda r: LinearProbe().ask([X], 'm.csv'), 'srlviz.load'),
    'None for a recording': (lambda r: LinearProbe().ask([X], None), 'is a Recording, got NoneType'),
    'a seed of text': (lambda r: LinearProbe().ask([e.obs['x'] for e in r], r, seed='a'), 'seed'),
    'a kind that is none': (lambda r: LinearProbe().answer(*codes(r), kinds={'up': 'colour'}), 'kind'),
    'an unknown question': (lambda r: srlviz.scorecard(lambda x: x, worlds=[r], questions=['nope']), 'nope'),
    'probe of a number': (lambda r: srlviz.probe(3, r), 'encoder|network|net'),
    'probe of data None': (lambda r: srlviz.probe(torch.nn.Linear(3, 2), None), 'data|game'),
    'probe of no network': (lambda r: srlviz.probe({}, r), 'net is an empty mapping'),
    'probe with a seed of text': (lambda r: srlviz.probe(lambda x: x, r, seed='x'), 'seed'),
    'probe with norms of a number': (lambda r: srlviz.probe(lambda x: x, r, norms=3), 'norms'),
    'probe with factors of a number': (lambda r: srlviz.probe(lambda x: x, r, factors=3), 'factors'),
    'probe with probing of a number': (lambda r: srlviz.probe(lambda x: x, r, probing=3), 'probing'),
    'explore of a number': (lambda r: srlviz.explore(3), 'explore'),
    'join_results of nothing': (lambda r: srlviz.join_results(), 'several'),
    'merge_scores of None': (lambda r: srlviz.merge_scores(None), 'table'),
    'record of None': (lambda r: srlviz.record(None), 'world|environment|name'),
    'sample of a number': (lambda r: srlviz.sample(3), 'sample|world'),
    'qedr of arrays': (lambda r: srlviz.qedr(X, X), 'split'),
    'check of None': (lambda r: srlviz.check(None), 'protocol'),
}


@pytest.mark.parametrize('call', CALLS)
def test_a_wrong_call_is_refused_in_one_sentence(call, recording):
    make, words = CALLS[call]
    with pytest.raises((ValueError, TypeError), match=words) as error:
        make(recording)
    message = str(error.value)
    assert '\n' not in message.strip() and len(message) < 2000  # of which most is a list of choices


def test_a_workbench_with_too_few_codes_is_refused(recording):
    result = srlviz.probe(lambda x: x, recording, epochs=1, progress=False)
    with pytest.raises(ValueError, match='codes'):
        srlviz.explore(result, widget='Workbench', codes={'net': result.codes['net'][:3]})


EPISODE = {
    'obs': [None, 3, 'x', [1], X, {'x': [[1, 2], [3]]}, {'x': [None]}, {'x': X + 1j}, {3: X}, {'x': 3}],
    'factors': [3, 'x', X, ['a'], {'a': None}, {'a': np.zeros((4, 2))}, {'a': 1j}],
    'actions': [3, 'x', [1], [None] * 4],
    'rewards': [3, ['a'] * 4, np.zeros((4, 2))],
    'about': [None, 3, 'x', [1], ['a'], Factor('a')],
    'ended': [None, 'done'],
    'name': [None, 3],
}
RECORDING = {
    'episodes': [None, 3, 'x', X, {}, [X], [None], [[]], iter([]), pd.DataFrame({'a': [1]})],
    'factors': [3, 'a', ['a'], [None], X],
    'split': ['test', 3, {}, ['train'], ['test', 'test']],
    'meta': [3, 'x', [1], X],
    'name': [None, 3],
    'hz': ['x', -1, 0],
}
ARRAYS = {
    'obs': [None, 3, [], {}, {'vector': 'a'}, np.zeros((0, 3)), X + 1j],
    'factors': [3, 'x', X, ['a'], {'a': X}],
    'episode': [3, 'run', [1], pd.DataFrame({'a': range(4)})],
    'ended': [None, 3, 'x', []],
    'about': [None, 3, ['a']],
    'split': [3, 'test'],
    'meta': [3],
}
TABLE = {
    'episode': [3, ['run'], X],
    'factors': [None, 3, [['a']], X],
    'obs': [3, X, {'a': 3}],
    'actions': [3, X],
    'time': [3, ['t']],
    'about': [3, ['a']],
    'meta': [3],
}


def cases(arguments):
    "Each argument with each of its wrong values"
    return [pytest.param(k, value, id=f'{k}-{i}') for k, values in arguments.items() for i, value in enumerate(values)]


@pytest.mark.parametrize('name, value', cases(EPISODE))
def test_an_episode_names_what_it_cannot_take(name, value):
    with pytest.raises(ValueError) as error:
        Episode(**{'obs': {'x': X}, name: value})
    assert is_ours(error)


@pytest.mark.parametrize('name, value', cases(RECORDING))
def test_a_recording_names_what_it_cannot_take(name, value):
    with pytest.raises(ValueError) as error:
        Recording(**{'episodes': [Episode({'x': X})], name: value})
    assert is_ours(error)


@pytest.mark.parametrize('name, value', cases(ARRAYS))
def test_arrays_that_are_no_recording_are_named(name, value):
    with pytest.raises(ValueError) as error:
        Recording.from_arrays(**{'obs': X, name: value})
    assert is_ours(error)


@pytest.mark.parametrize('name, value', cases(TABLE))
def test_columns_that_a_table_does_not_have_are_named(name, value):
    table = pd.DataFrame({'run': [0, 0, 1, 1], 'a': [0.1, 0.5, 0.2, 0.7], 't': [0, 1, 0, 1]})
    with pytest.raises(ValueError) as error:
        Recording.from_table(table, **{name: value})
    assert is_ours(error)


@pytest.mark.parametrize('index', [None, 1.5, True, {}, (1, 2), [99], ['test'], X, 99, 'train'], ids=repr)
def test_a_recording_says_what_it_is_indexed_by(index, recording):
    with pytest.raises((TypeError, IndexError, KeyError)) as error:
        recording[index]
    assert is_ours(error)


def is_ours(error) -> bool:
    "Whether an error is raised by a statement of srlviz, with words"
    last = error.tb
    while last.tb_next:
        last = last.tb_next
    path = last.tb_frame.f_code.co_filename
    statement = linecache.getline(path, last.tb_lineno)
    return '/srlviz/' in path and 'raise ' in statement and len(str(error.value)) > 10


WRONG_CODES = {
    'None': lambda c: None,
    'a number': lambda c: 3,
    'text': lambda c: 'codes',
    'a set': lambda c: {1, 2},
    'a table': lambda c: pd.DataFrame(np.concatenate(c)),
    'an empty list': lambda c: [],
    'too few': lambda c: c[:3],
    'one array of all rows': lambda c: np.concatenate(c),
    'lists without arrays': lambda c: [None] * len(c),
    'one number an episode': lambda c: [1.0] * len(c),
    'words': lambda c: [rows.astype(str) for rows in c],
    'complex numbers': lambda c: [rows + 1j for rows in c],
    'no columns': lambda c: [rows[:, :0] for rows in c],
    'no rows': lambda c: [rows[:0] for rows in c],
    'three dimensions': lambda c: [rows[:, None] for rows in c],
    'another width': lambda c: [rows[:, : 2 + i % 2] for i, rows in enumerate(c)],
    'infinite': lambda c: [rows * np.inf for rows in c],
}
ABOUT_CODES = [name for name, cls in questions().items() if cls.needs == 'codes' and name not in ('targets', 'belief')]


@pytest.mark.parametrize('question', ABOUT_CODES)
def test_every_question_refuses_wrong_codes_and_recordings(question, recording):
    ask = questions()[question]().ask
    right = [e.obs['x'] for e in recording]
    for name, change in WRONG_CODES.items():
        with pytest.raises(ValueError, match='codes') as error:
            ask(change(right), recording, progress=False)
        assert is_ours(error), name
    for wrong in (None, 3, [], X, recording[0]):
        with pytest.raises(ValueError, match='(?i)recording') as error:
            ask(right, wrong, progress=False)
        assert is_ours(error), wrong


@pytest.mark.parametrize('question', ABOUT_CODES)
def test_every_question_refuses_wrong_codes_and_factors_by_split(question, recording):
    answer = questions()[question]().answer
    X_, Y = codes(recording)
    wrong_codes = [None, 3, {**X_, 'test': X_['test'][:, :2]}, {**X_, 'test': X_['test'][:5]}, {s: None for s in X_}]
    for change in (lambda x: x.astype(str), lambda x: x + 1j, lambda x: x[:, 0], lambda x: x[:, :0], lambda x: x[:0]):
        wrong_codes.append({s: change(x) for s, x in X_.items()})
    for wrong in wrong_codes:
        with pytest.raises(ValueError) as error:
            answer(wrong, Y, progress=False)
        assert is_ours(error)
    for wrong in (None, 3, {}, {s: None for s in Y}, {**Y, 'test': Y['test'].set_axis(['other'], axis=1)}):
        with pytest.raises(ValueError) as error:
            answer(X_, wrong, progress=False)
        assert is_ours(error)


@pytest.mark.parametrize('name', sorted(questions()))
def test_every_question_checks_the_types_of_its_arguments(name):
    cls = questions()[name]
    for field in cls.__dataclass_fields__:
        with pytest.raises(ValueError, match=field):
            cls(**{field: object()})


FREE_NUMBERS = {'gap': {'blind', 'fully_observable'}}  # returns, which may be any number
NAMES_ELSEWHERE = {'task', 'device', 'categories'}  # looked up when the question is asked


@pytest.mark.parametrize('name', sorted(questions()))
def test_every_question_refuses_arguments_out_of_range(name):
    cls = questions()[name]
    for field in dataclasses.fields(cls):
        if field.name in NAMES_ELSEWHERE and not field.metadata or field.name in FREE_NUMBERS.get(name, ()):
            continue
        wrong = 'nope' if 'str' in str(field.type) else (-1,) if 'tuple' in str(field.type) else -1
        with pytest.raises(ValueError, match=field.name) as error:
            cls(**{field.name: wrong})
        assert is_ours(error)
        cls(**{field.name: field.default})


def test_a_question_refuses_nought_where_it_says_nothing():
    wrong = [
        ('neighbours', 'k'),
        ('mig', 'bins'),
        ('dci', 'bins'),
        ('probe', 'lr'),
        ('probe', 'epochs'),
        ('cost', 'runs'),
    ]
    for name, argument in wrong:
        with pytest.raises(ValueError, match=argument):
            questions()[name](**{argument: 0})
    questions()['regression'](epochs=0)  # no network


@pytest.mark.parametrize('name', sorted(srlviz.catalog('widgets')))
@pytest.mark.parametrize('wrong', [3, X, [None], object()], ids=['number', 'array', 'list', 'object'])
def test_every_explorer_names_what_it_cannot_show(name, wrong, recording):
    second = [recording] if name in ('CodesExplorer', 'NearestFrames', 'InfoNCEMap') else []
    second = [{}] if name == 'ReconstructionBrowser' else second
    with pytest.raises(ValueError) as error:
        srlviz.catalog('widgets')[name](wrong, *second)
    assert is_ours(error)


NO_PATHS = [load_csv, srlviz.load, load_lerobot, load_minari]


@pytest.mark.parametrize('read', NO_PATHS, ids=lambda f: f.__name__)
def test_readers_say_that_something_is_no_path(read):
    for wrong in (None, 3, [], {}, object(), True):
        with pytest.raises(ValueError, match='path') as error:
            read(wrong)
        assert is_ours(error)


def test_films_and_folders_are_paths_too(recording):
    for call in (
        lambda: add_video(recording, [3] * 12),
        lambda: add_video(None, 'a.mp4'),
        lambda: recording.save(None),
    ):
        with pytest.raises(ValueError, match='path|Recording') as error:
            call()
        assert is_ours(error)


@pytest.mark.parametrize('wrong', [None, 3, {1}, b'x', int, 'nope'], ids=repr)
def test_a_scorecard_looks_at_its_representation_before_it_records(wrong):
    with pytest.raises(ValueError) as error:
        srlviz.scorecard(wrong, ['pong'], progress=False)
    assert is_ours(error)


@pytest.mark.parametrize(
    'options', [dict(n=0), dict(n='x'), dict(refit='x'), dict(questions=3), dict(references='raw')]
)
def test_a_scorecard_names_a_wrong_argument(options, recording):
    with pytest.raises(ValueError, match=[*options][0]):
        srlviz.scorecard([e.obs['x'] for e in recording], recording, progress=False, **options)


def test_a_small_recording_hides_no_wrong_codes(recording):
    for change in WRONG_CODES.values():
        with pytest.raises(ValueError) as error:
            srlviz.scorecard(change([e.obs['x'] for e in recording]), recording, progress=False, questions=['rank'])
        assert is_ours(error)


def test_links_and_sweeps_say_what_they_take():
    for call in (
        lambda: srlviz.link(3),
        lambda: srlviz.link([Workbench]),
        lambda: srlviz.link(traits='t'),
        lambda: srlviz.sweep([], dict(a=[1]), 'out'),
        lambda: srlviz.sweep(max, dict(a=[1]), 'out'),
        lambda: srlviz.catalog(X),
        lambda: srlviz.paper_scores(X),
        lambda: srlviz.join_results(None),
        lambda: srlviz.explore('pca', 3),
    ):
        with pytest.raises(ValueError) as error:
            call()
        assert is_ours(error)


def test_a_scorecard_of_codes_takes_the_split_of_the_guide_and_refuses_one_array_of_all_rows():
    x = np.random.default_rng(0).normal(size=(6000, 3)).astype(np.float32)
    factors = dict(sign=(x[:, 0] > 0).astype(int))
    data = srlviz.Recording.from_arrays(x, episode=np.arange(6000) // 100, factors=factors)
    data = data.with_split(probe=0.6, valid=0.2, test=0.2)  # no 'fit': encoders of reference rows are fitted on 'probe'
    options = dict(references=['random', 'raw'], questions=['rank'], progress=False)
    card = srlviz.scorecard({'mine': np.split(x, 60)}, data, **options)
    assert {'mine', 'random', 'raw'} <= set(card.scores['method'])
    with pytest.raises(ValueError, match='one array of all rows. Split it'):
        srlviz.scorecard({'mine': x}, data, **options)
    with pytest.raises(ValueError, match="fitted on the split 'fit' or 'probe'; this recording has 'test'"):
        fit_splits(data.replace(split=['test'] * len(data)))
