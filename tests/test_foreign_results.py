"""Test forged agents, answers and trials: errors name the file and the wrong value."""

import json, shutil

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import save_file

import srlviz
from srlviz.agents.player import load_policy
from srlviz.core import saving
from srlviz.core.files import checksum, sample_path
from srlviz.core.scores import check_scores, load_scores, score_row
from srlviz.core.questions import FORMAT, Answer
from srlviz.core.recordings import Recording
from srlviz.core.results import results_of
from srlviz.core.results_0_2 import load_matrix
from srlviz.core.results import load_results
from srlviz.evaluate.qedr import qedr
from srlviz.evaluate.questions.linear_probe import LinearProbe
from srlviz.evaluate.questions.regression import Regression
from srlviz.figures.agents.mmer import plot_return_curves, plot_return_ranking
from srlviz.studies.matrix import representations
from srlviz.studies.matrix import matrix_results as matrix
from srlviz.studies.matrix.settings import find_setting
from srlviz.studies.papers.landing import headline, trial_files
from srlviz.agents.player import load_agents
from srlviz.studies.sweeps.store import Tables, request_trials, open_store
from srlviz.studies.trials import Study, parameters_hash

# ---- agents

WRONG_TYPES = dict(greedy='no', task=5, n_in='10', width=64.5, head_layers=True, arguments=[], acts='Discrete')


@pytest.mark.parametrize('name', WRONG_TYPES)
@pytest.mark.variants
def test_arguments_of_an_agent_with_wrong_types_are_refused(name, tmp_path):
    about, tensors = saving._read(sample_path('agents') / 'RepeatPrevious-easy_MLP.safetensors')
    about['arguments'][name] = saving.pack(WRONG_TYPES[name], name, {})
    about['checksum'] = saving._checksum(about, tensors)
    save_file(tensors, path := tmp_path / 'agent.safetensors', metadata={'srlviz': json.dumps(about)})
    with pytest.raises(ValueError) as error:
        load_policy(path)
    assert str(path) in str(error.value) and f'{name}={WRONG_TYPES[name]!r}' in str(error.value)


# ---- answers


def forge_qedr(path, **change):
    "Save an answer of QEDR with other fields in its header"
    rng = np.random.default_rng(0)
    x = {s: rng.normal(size=(30, 2)) for s in ('probe', 'test')}
    qedr(x, x).save(path)
    arrays = dict(np.load(path))
    header = json.loads(str(arrays['0/header']))
    for name, value in change.items():
        part = header if name in header else next(header[k] for k in ('arguments', 'about') if name in header[k])
        part[name] = value
    np.savez(path, **arrays | {'0/header': np.array(json.dumps(header))})


@pytest.mark.parametrize(
    'name, value',
    [
        ('constant', [1, 2]),
        ('constant', 'height'),
        ('categories', 'abc'),
        ('categories', None),
        ('seed', 'x'),
        ('seed', -1),
        ('seed', 1.5),
        ('tol', 'small'),
        ('n_estimators', True),
        ('question', 'os.system'),
        ('question', 5),
        ('tables', []),
        ('baseline', 'ab'),
    ],
)
@pytest.mark.variants
def test_fields_of_a_qedr_answer_with_wrong_values_are_refused(name, value, tmp_path):
    forge_qedr(path := tmp_path / 'qedr.npz')
    Answer.load(path)
    forge_qedr(path, **{name: value})
    with pytest.raises(ValueError) as error:
        Answer.load(path)
    assert str(path) in str(error.value) and name in str(error.value)


@pytest.mark.parametrize('table', ['importance', 'weights', 'errors'])
@pytest.mark.parametrize('value', [-np.inf, 'x', 1j])
@pytest.mark.variants
def test_invalid_numbers_in_a_qedr_answer_are_refused(table, value, tmp_path):
    forge_qedr(path := tmp_path / 'qedr.npz')
    arrays = dict(np.load(path))
    name = f'0/{table}/'
    np.savez(path, **arrays | {name: np.full(arrays[name].shape, value)})
    with pytest.raises(ValueError) as error:
        Answer.load(path)
    assert str(path) in str(error.value)


def test_negative_errors_in_a_qedr_answer_are_refused(tmp_path):
    forge_qedr(path := tmp_path / 'qedr.npz')
    arrays = dict(np.load(path))
    np.savez(path, **arrays | {'0/errors/': -arrays['0/errors/']})
    with pytest.raises(ValueError, match='errors has values below 0'):
        Answer.load(path)


def recall_arrays():
    "Return the header and the arrays of an answer to `Recall` with three items"
    delays = dict(delay=[1, 2], accuracy=[1.0, 1.0], chance=[0.25, 0.25], target=['delay 1', 'delay 2'])
    items = dict(columns=delays['target'], levels=['episode', 't'], rows=3)
    header = dict(format=FORMAT, question='recall', arguments={}, about={}, arrays=[], items=True)
    values = dict(
        metric=['recall'] * 3 + ['recall_above_chance'] * 3,
        target=['delay 1', 'delay 2', 'mean'] * 2,
        value=[1.0] * 6,
    )
    header['tables'] = dict(delays=dict(columns=[*delays], levels=[], rows=2), truth=items, predicted=items)
    header['tables']['values'] = dict(columns=[*values], levels=[], rows=6)
    arrays = {f'delays/{i}': np.array(column) for i, column in enumerate(delays.values())}
    arrays |= {f'values/{i}': np.array(column) for i, column in enumerate(values.values())}
    for name in ('truth', 'predicted'):
        arrays |= {f'{name}/': np.ones((3, 2), int), f'{name}@episode': np.arange(3), f'{name}@t': np.arange(3)}
    return header, arrays


def save_forged(path, header, arrays):
    np.savez_compressed(path, **{'0/header': np.array(json.dumps(header))}, **{f'0/{k}': v for k, v in arrays.items()})


def test_recall_items_that_differ_from_its_delays_are_refused(tmp_path):
    header, arrays = recall_arrays()
    save_forged(path := tmp_path / 'recall.npz', header, arrays)
    assert len(Answer.load(path).truth) == 3
    for name in ('truth', 'predicted'):
        header['tables'][name] = header['tables'][name] | dict(columns=['delay 1', 'delay 3'])
    save_forged(path, header, arrays)
    with pytest.raises(ValueError, match='recall.npz .* the table \'delays\' is of other targets'):
        Answer.load(path)


def test_values_outside_the_range_of_their_metric_are_refused(tmp_path):
    header, arrays = recall_arrays()
    forged = np.array([18.0, 0.5, 1, 1, 1, 1])
    save_forged(path := tmp_path / 'recall.npz', header, arrays | {'values/2': forged})
    with pytest.raises(ValueError, match='recall.npz .* its recall is from 0.5 to 18, not within 0 to 1'):
        Answer.load(path)


def test_values_that_differ_from_the_items_are_refused(tmp_path):
    header, arrays = recall_arrays()
    forged = arrays | {'values/2': np.array([0.5, 1, 1, 1, 1, 1])}
    save_forged(path := tmp_path / 'recall.npz', header, forged)
    with pytest.raises(ValueError, match='recall.npz .* its recall differs from that of its items'):
        Answer.load(path)
    save_forged(path, header | dict(items=False), forged)
    with pytest.raises(ValueError, match='recall.npz .* has items, although it says that it has none'):
        Answer.load(path)


def test_texts_of_an_answer_are_counted_before_they_become_a_table(tmp_path):
    header, arrays = recall_arrays()
    header['arrays'] = ['words']
    save_forged(path := tmp_path / 'recall.npz', header, arrays | dict(words=np.full(10**7, '\u0100')))
    with pytest.raises(ValueError, match='recall.npz .* 10,000,0.. texts'):
        Answer.load(path)


@pytest.mark.parametrize('name, value', [('categories', 'abc'), ('seed', 'x'), ('seed', -1), ('tol', 0), ('tol', 'x')])
@pytest.mark.variants
def test_invalid_arguments_of_qedr_are_refused(name, value):
    x = {s: np.random.default_rng(0).normal(size=(30, 2)) for s in ('probe', 'test')}
    with pytest.raises(ValueError) as error:
        qedr(x, x, **{name: value})
    assert repr(value) in str(error.value)


# ---- trials of a sweep


def trial(x: int = 0):
    return [score_row(study='toy', task='copy', method='GRU', metric='accuracy', value=0.5)]


def write_sweep(folder):
    "Write the folder of a sweep with one trial; return the path of its result"
    study = Study(trial)
    open_store(folder, study)
    parameters = dict(x=0)
    key = f'{parameters_hash(parameters)[:10]}-0123456789'
    request_trials(folder, {key: parameters})
    path = folder / 'trials' / key / 'result.json'
    path.parent.mkdir()
    rows = trial()
    result = dict(key=key, status='done', error='', started=1.0, ended=2.0, seconds=1.0, parameters=parameters)
    path.write_text(json.dumps(result | dict(scores={k: [r[k] for r in rows] for k in rows[0]})))
    return path


DAMAGED = {
    'columns of different lengths': dict(task=['copy', 'copy']),
    'a list for a number': dict(value=[[0.5]]),
    'text for a number': dict(value=['high']),
    'an object for a text': dict(task=[{'a': 1}]),
    'a fractional seed': dict(seed=[0.5]),
    'a share above 1': dict(value=[18.0]),
}


@pytest.mark.parametrize('name', DAMAGED)
@pytest.mark.variants
def test_a_damaged_result_of_a_trial_is_refused(name, tmp_path):
    path = write_sweep(tmp_path / 'sweep')
    assert len(Tables(tmp_path / 'sweep').scores()) == 1
    result = json.loads(path.read_text())
    path.write_text(json.dumps(result | dict(scores=result['scores'] | DAMAGED[name])))
    with pytest.raises(ValueError) as error:
        Tables(tmp_path / 'sweep').scores()
    assert str(path) in str(error.value)


@pytest.mark.parametrize('content', [[], dict(parameters=[]), dict(parameters=dict(preset='paper', seed='x'))])
def test_errors_and_warnings_name_the_damaged_result_of_a_sweep(content, tmp_path):
    folder = tmp_path / 'trials' / 'a-b'
    folder.mkdir(parents=True)
    for name in 'encoder.safetensors', 'agent.safetensors':
        (folder / name).touch()
    (folder / 'result.json').write_text(json.dumps(content))
    with pytest.raises(ValueError) as error:
        trial_files(tmp_path)
    assert str(folder / 'result.json') in str(error.value)
    with pytest.warns(UserWarning, match=str(folder / 'result.json')):
        assert load_agents(tmp_path, preset='paper') == {}


def test_valid_agents_are_loaded_despite_a_damaged_one_and_no_link_is_followed(tmp_path):
    shipped = next(sample_path('agents').glob('RepeatPrevious*GRU*.safetensors'))
    for name, content in dict(a=dict(parameters=dict(preset='fast')), b=[]).items():
        folder = tmp_path / 'trials' / name
        folder.mkdir(parents=True)
        (folder / 'result.json').write_text(json.dumps(content))
        shutil.copy(shipped, folder / 'agent.safetensors')
    (tmp_path / 'elsewhere').mkdir()
    shutil.move(tmp_path / 'trials' / 'a' / 'agent.safetensors', tmp_path / 'elsewhere')
    (tmp_path / 'trials' / 'a' / 'agent.safetensors').symlink_to(tmp_path / 'elsewhere' / 'agent.safetensors')
    with pytest.warns(UserWarning) as warnings:
        assert load_agents(tmp_path) == {}
    assert len(warnings) == 2
    (tmp_path / 'trials' / 'a' / 'agent.safetensors').unlink()
    shutil.copy(shipped, tmp_path / 'trials' / 'a' / 'agent.safetensors')
    with pytest.warns(UserWarning):
        assert len(load_agents(tmp_path)) == 1


# ---- matrices

REASON = ['raw', 'pong', 'mig', 'one code']


def forge_matrix(folder, reasons, **columns):
    "Save a matrix of one score, with other reasons and columns"
    row = score_row(
        study='cross', task='pong', method='raw', group='rank', metric='dead_codes', target='mean', value=0.5
    )
    path = folder / 'matrix.csv'
    text = check_scores(pd.DataFrame([row])).assign(**columns).to_csv(index=False, quoting=1)
    path.write_text(text, encoding='utf-8')
    header = dict(format='srlviz cross evaluation', about={}, scores=checksum(path), reasons=reasons)
    (folder / 'matrix.json').write_text(json.dumps(header))
    return path


@pytest.mark.parametrize(
    'reason, columns, field',
    [
        (['raw', 'pong', 'no question', 'why'], {}, "matrix.json.*reasons: unknown question 'no question'"),
        (['raw', 'pong', 'mig', '\ud800'], {}, "matrix.json.*reasons.0.3"),
        (['\udfff', 'pong', 'mig', 'why'], {}, "matrix.json.*reasons.0.0"),
        (['raw\x1b[2J', 'pong', 'mig', 'why'], {}, 'matrix.json.*reasons.*x1b'),
        (['', 'pong', 'mig', 'why'], {}, "matrix.json.*reasons.*''"),
        (['raw', 'pong', 'mig', True], {}, 'matrix.json.*reasons.*True'),
        (REASON, dict(group='no question'), "matrix.csv.*group: unknown question 'no question'"),
        (REASON, dict(seed='True'), 'matrix.csv, line 2, column seed.*True'),
        (REASON, dict(value='NaN'), 'matrix.csv, line 2, column value.*NaN'),
    ],
)
@pytest.mark.variants
def test_a_forged_matrix_is_refused_by_file_and_field(reason, columns, field, tmp_path):
    with pytest.raises(ValueError, match=field):
        load_matrix(forge_matrix(tmp_path, [reason], **columns))


@pytest.mark.parametrize(
    'name', ['n' * 200, '\u202eabc', '<img src=x onerror=alert(1)>', '%{x}', '__proto__', 'a\u2028b']
)
def test_a_matrix_with_odd_names_that_can_be_read_can_be_drawn(name, tmp_path):
    loaded = load_matrix(forge_matrix(tmp_path, [[name, name, 'mig', name]], method=name, task=name))
    board = loaded.explore(widget='CrossMatrix', interactive=False)
    assert loaded.questions
    for question in board.offers('question'):
        board.set_cell(question=question)
        assert board.to_html(tmp_path / 'board.html').stat().st_size
    assert '\u202e' not in repr(loaded) and '<img src' not in (tmp_path / 'board.html').read_text(encoding='utf-8')


@pytest.fixture(scope='module')
def saved_walk(tmp_path_factory):
    "A folder of results of two questions about codes that know a walk"
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(240, 2)).astype(np.float32)
    factors = dict(side=(rows[:, 0] > 0).astype(int), height=rows[:, 1])
    walk = Recording.from_arrays(rows, episode=np.arange(240) // 20, factors=factors, name='walk')
    walk = walk.with_split(probe=0.5, valid=0.25, test=0.25)
    questions = [LinearProbe(epochs=2), Regression()]
    results = srlviz.ask({'all': np.split(rows, 12)}, walk, questions, progress=False)
    return results.save(tmp_path_factory.mktemp('saved') / 'walk')


def renamed_results(saved, folder, old, name):
    "Copy saved results, with another name or text in the table and the header"
    shutil.copytree(saved, folder)
    for file in 'scores.csv', 'results.json':
        text = (folder / file).read_text()
        quoted = [json.dumps(name), json.dumps(old)] if file.endswith('json') else [f',"{name}",', f',{old},']
        text = text.replace(f',"{old}",', quoted[0]).replace(quoted[1], quoted[0])
        (folder / file).write_text(text)
    header = json.loads((folder / 'results.json').read_text())
    header |= dict(scores=checksum(folder / 'scores.csv'), notes={header['recordings'][0]: [name]})
    header |= dict(warnings=[[header['answers'][0][0], header['answers'][0][1], 'probe', name]])
    header |= dict(left_out=[[header['recordings'][0], name, name]], baseline=name)
    header['about']['versions'] |= {name: name}
    (folder / 'results.json').write_text(json.dumps(header))
    return folder


@pytest.mark.parametrize('old', ['all', 'walk'])
@pytest.mark.parametrize('name', ['n' * 200, '\u202eabc', '<img src=x onerror=alert(1)>', '%{x}', '__proto__', '=1+1'])
@pytest.mark.variants
def test_results_with_odd_names_that_can_be_read_can_be_drawn(old, name, saved_walk, tmp_path):
    results = load_results(renamed_results(saved_walk, tmp_path / 'forged', old, name))
    assert name in [*results.methods, *results.tasks] and '\u202e' not in repr(results)
    for widget in '', 'CrossMatrix', 'ProbeHeatmap':
        srlviz.explore(results, widget=widget).to_html(tmp_path / 'page.html')
        assert '<img src=x' not in (tmp_path / 'page.html').read_text(encoding='utf-8')
    results.to_html(tmp_path / 'page.html')
    assert '<img src=x' not in (tmp_path / 'page.html').read_text(encoding='utf-8')
    cells = pd.read_csv(results.to_csv(tmp_path / 'table.csv'), header=None, dtype=str).to_numpy().ravel()
    assert '=1+1' not in cells
    assert '| <img' not in results.to_markdown() and '<img' not in results.to_latex()


def test_moments_that_the_recording_does_not_have_are_refused(saved_walk, tmp_path):
    shutil.copytree(saved_walk, tmp_path / 'forged')
    path = tmp_path / 'forged' / 'results.json'
    header = json.loads(path.read_text())
    header['moments']['t'][0] = 10**6
    path.write_text(json.dumps(header))
    with pytest.raises(ValueError, match='results.json: moments: .*a step 1000000'):
        load_results(tmp_path / 'forged').recordings['walk']


def test_a_boolean_is_no_number_of_a_score_table():
    row = score_row(
        study='cross', task='pong', method='raw', group='rank', metric='dead_codes', target='mean', value=0.5
    )
    for column in ('n_codes', 'seed', 'budget', 'value'):
        with pytest.raises(ValueError, match=f'{column} must be a'):
            check_scores(pd.DataFrame([row | {column: True}]))


def test_half_of_a_character_is_refused_in_arrays_of_text(tmp_path):
    def answer(name):
        path = tmp_path / 'answer.npz'
        codes = {split: np.eye(4, 2, dtype=np.float32)[[0, 1, 2, 3] * 4] for split in ('probe', 'test')}
        index = pd.MultiIndex.from_product([range(2), range(8)], names=['episode', 't'])
        factors = {split: pd.DataFrame(x, index, ['x', 'y']) for split, x in codes.items()}
        qedr(codes, factors, progress=False).save(path)
        with np.load(path) as z:
            arrays = dict(z)
        key = next(k for k, v in arrays.items() if v.dtype.kind == 'U' and v.ndim and 'x' in v.tolist())
        arrays[key] = np.where(arrays[key] == 'x', name, arrays[key])
        np.savez(path, **arrays)
        return path

    with pytest.raises(ValueError, match='answer.npz.*half of a character'):
        Answer.load(answer('\ud800'))


def test_returns_after_two_budgets_are_not_averaged():
    table = load_scores(sample_path('popgym_mmer.csv'))
    shorter = table[(table['method'] == 'GRU') & (table['metric'] == 'mmer')].assign(budget=262_144)
    with pytest.raises(ValueError, match='GRU on .* has returns of several budgets, 262,144 and 1,499,136 steps'):
        plot_return_ranking(pd.concat([table, shorter]))
    with pytest.raises(ValueError, match='no epoch_return; the table holds'):
        plot_return_curves(shorter, ['RepeatFirst-easy'])


def test_a_matrix_of_references_alone_has_no_order():
    "Nor has one whose representations are all alike"
    scores = matrix.shipped_matrix().scores
    fixed = results_of(scores[scores['method'].isin(['constant', 'true_state'])])
    alike = results_of(scores[scores['method'].isin(['constant', 'raw', 'GRU'])].assign(value=0.0))
    for results in (fixed, alike):
        assert not any('agree by' in line for line in matrix.headline(results))
        for compare in (matrix.between_questions, matrix.between_worlds, matrix.between_seeds):
            assert compare(results)['value'].isna().all()


def test_the_headline_of_landing_refuses_two_errors_of_one_encoder():
    table = load_scores(sample_path('landing_benchmark.csv')).query("data == '2000 flights'")
    with pytest.raises(ValueError, match='several errors of one seed'):
        headline(pd.concat([table, table[table['metric'] == 'mse'].assign(budget=17)]))
    assert headline(table[table['metric'] != 'auroc']) == ''


def test_an_agent_under_the_name_of_another_task_is_refused(monkeypatch, tmp_path):
    shutil.copy(
        sample_path('agents') / 'RepeatFirst-easy_GRU.safetensors', tmp_path / 'RepeatPrevious-easy_GRU.safetensors'
    )
    monkeypatch.setattr(representations, 'sample_path', lambda name: tmp_path)
    with pytest.raises(ValueError, match='an agent of RepeatFirst-easy, not of RepeatPrevious-easy'):
        representations.shipped_agent(find_setting('RepeatPrevious-easy'))
