"""Every question over codes, asked about odd data: its values change by at most .05, or there is a warning."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from srlviz.core.metrics import questions
from srlviz.core.odd_data import constant_factors, odd_data
from srlviz.core.recordings import Episode, Recording, align
from srlviz.evaluate.disentanglement.disagreement import compare_metrics
from srlviz.evaluate.disentanglement.inputs import check_inputs
from srlviz.evaluate.disentanglement.mig_sap import mutual_information_gap
from srlviz.evaluate.prediction.linear import varying
from srlviz.evaluate.questions.factor_regression import MutualInformationGap
from srlviz.evaluate.questions.regression import Regression
from srlviz.studies.matrix.settings import varying_factors
from srlviz.studies.quick import probe

SIZES = dict(probe=600, valid=200, test=400, shifted=200)
QUICK = dict(
    probe=dict(n_classes=None, lr=0.05, epochs=8), dci=dict(bins=2, n_train=200), explicitness=dict(n_features=32)
)  # else the defaults
SLOW = {'dci', 'qedr forest', 'disagreement'}  # are asked about the oddest data only
# tables that only a task, windows, or twins give; their heads are those of others
OTHER_DATA = {'belief', 'targets', 'response', 'interventional'}
LARGEST = 0.05
# the strength of its penalty is one of a few, chosen on 'valid': one changed row may choose the next
LARGEST_OF = {'description_length': 0.07}


def ordinary():
    "Codes (n, 4) and three factors of each split: the codes are the factors and noise"
    rng = np.random.default_rng(0)
    codes, factors = {}, {}
    for split, n in SIZES.items():
        index = pd.MultiIndex.from_product([range(n // 20), range(20)], names=['episode', 't'])
        z = rng.normal(size=(n, 3)).clip(-2.5, 2.5)
        columns = dict(height=z[:, 0], speed=z[:, 1], stage=np.digitize(z[:, 2], [-0.4, 0.4]))
        factors[split] = pd.DataFrame(columns, index)
        codes[split] = np.column_stack([z + 0.3 * rng.normal(size=(n, 3)), rng.normal(size=n)])
    return codes, factors


def with_first_code(codes, change):
    "The codes with `change(split, first code)` as the first code"
    return {s: np.column_stack([change(s, x[:, 0]), x[:, 1:]]) for s, x in codes.items()}


def outlier(codes, split, size):
    return with_first_code(codes, lambda s, c: np.where((np.arange(len(c)) == 33) & (s == split), size, c))


def heavy_tail(codes, strength):
    scale = codes['probe'][:, 0].std() / np.sinh(strength * codes['probe'][:, 0]).std()
    return with_first_code(codes, lambda s, c: scale * np.sinh(strength * c))


def oddities():
    "Name -> codes, factors, and the kinds of a warning that would say so; the last of each kind is the oddest"
    codes, factors = ordinary()
    found = {}
    for split in 'test', 'probe':
        for size in 3, 8, 1e4:  # standard deviations
            found[f'outlier of {size:g} in {split}'] = outlier(codes, split, size), factors, {'outlier'}
    for strength in 0.5, 1, 2:
        found[f'tail of sinh({strength} x)'] = heavy_tail(codes, strength), factors, {'heavy tail', 'outlier'}
    constant = {s: t.assign(gravity=9.81) for s, t in factors.items()}
    found['constant factor'] = codes, constant, {'constant factor'}
    only_in_test = {s: t.assign(ice=0.0 if s == 'test' else t['height'] ** 2) for s, t in factors.items()}
    found['factor that is constant in test'] = codes, only_in_test, {'constant factor'}
    twice = {s: t.assign(feet=3.28 * t['height'] - 1) for s, t in factors.items()}
    found['duplicate factor'] = codes, twice, {'duplicate factor'}
    return found


def values_of(question, codes, factors):
    "Values of all metrics: (metric, target) -> value"
    answer = question.answer(codes, factors, progress=False, permuted=False)
    return pd.concat({name: answer.values(name) for name in answer.metrics})


def compared(codes, factors):
    table = compare_metrics(codes, factors, boosting=False, sap=False, progress=False)
    return table.set_index(['metric', 'by', 'factor'])['value']


def asked(name):
    "Function of codes and factors that returns the values of a question, or of the table of metrics"
    if name == 'disagreement':
        return compared
    if name == 'qedr forest':
        return lambda codes, factors: values_of(questions()['qedr']('forest', max_depth=4), codes, factors)
    question = questions()[name](**QUICK.get(name, {}))
    return lambda codes, factors: values_of(question, codes, factors)


@cache
def largest_changes(name):
    "Oddity -> the largest change of a value, of values above 1 as a share of it"
    ask = asked(name)
    before = ask(*ordinary())
    changes = {}
    kinds = {tuple(sorted(kinds)): what for what, (_, _, kinds) in oddities().items()}
    for what, (codes, factors, _) in oddities().items():
        if name in SLOW and what not in kinds.values():
            continue
        after = ask(codes, factors).reindex(before.index)
        changes[what] = ((after - before).abs() / before.abs().clip(lower=1)).max()
    return pd.Series(changes)


NAMES = sorted(n for n, q in questions().items() if q.needs == 'codes' and n not in OTHER_DATA)


@pytest.mark.filterwarnings('ignore')  # of the table of metrics, which has no answer to keep them
@pytest.mark.parametrize('name', [*NAMES, 'qedr forest', 'disagreement'])
def test_odd_data_changes_a_value_by_at_most_a_twentieth_or_there_is_a_warning(name):
    for what, change in largest_changes(name).items():
        codes, factors, kinds = oddities()[what]
        warned = {w['kind'] for w in odd_data(codes, factors)}  # as `Question.answer` adds to every answer
        assert change <= LARGEST_OF.get(name, LARGEST) or warned & kinds, (
            f'{what} changes {name} by {change:.3f}; warnings: {warned or "none"}'
        )


def test_ordinary_data_give_no_warning():
    codes, factors = ordinary()
    assert odd_data(codes, factors) == []
    assert odd_data({s: np.float32(x) + 100 for s, x in codes.items()}, factors) == []
    few = {s: x[:60] for s, x in codes.items()}, {s: t[:60] for s, t in factors.items()}
    assert odd_data(*few) == []


def test_mig_does_not_see_an_outlier_or_a_heavy_tail():
    codes, factors = ordinary()
    gap = mutual_information_gap(codes, factors).overall
    for changed in outlier(codes, 'probe', 1e4), heavy_tail(codes, 2), {s: np.exp(5 * x) for s, x in codes.items()}:
        assert abs(mutual_information_gap(changed, factors).overall - gap) < 0.01
    published = mutual_information_gap(outlier(codes, 'probe', 1e4), factors, binning='width')
    assert published.per_factor['height'] < 0.02


def test_a_warning_is_a_plain_dict_of_one_sentence():
    codes, factors = ordinary()
    factors = {s: t.assign(gravity=9.81, ice=0.0, feet=3.28 * t['height']) for s, t in factors.items()}
    found = {w['kind']: w for w in odd_data(outlier(codes, 'test', 1e4), factors)}
    assert set(found) == {'outlier', 'one bin', 'constant factor', 'duplicate factor'}
    assert found['outlier']['names'] == ['code 0'] and found['outlier']['share'] == 1 / 4
    assert found['constant factor']['names'] == ['gravity', 'ice'] and found['constant factor']['share'] == 2 / 6
    assert found['duplicate factor']['names'] == ['height', 'feet']
    for warning in found.values():
        words = warning['words']
        assert words[0].isupper() and words.endswith('.') and '. ' not in words
        assert all(type(value) in (str, float, list) for value in warning.values())


def test_a_factor_with_an_outlier_is_named():
    codes, factors = ordinary()
    factors['test'] = factors['test'].assign(speed=np.where(np.arange(400) == 3, 1e3, factors['test']['speed']))
    assert {w['kind']: w['names'] for w in odd_data(codes, factors)}['outlier'] == ['factor speed']


def test_a_constant_factor_has_one_definition_at_every_door():
    rng = np.random.default_rng(0)
    sizes = dict(probe=60, valid=20, test=40)
    episodes, split = [], []
    for name, n in sizes.items():
        for _ in range(n // 20):
            height = rng.normal(size=20)
            factors = dict(height=height, gravity=np.full(20, 9.81), rounded=0.3 + 1e-17 * np.arange(20))
            factors['third'] = np.where(np.arange(20) % 2, 0.1 + 0.2, 0.3)  # one number, up to rounding
            factors['lives'] = np.full(20, 3)
            vector = np.stack([height, rng.normal(size=20)], 1).astype(np.float32)
            episodes.append(Episode(dict(vector=vector), factors=factors))
            split.append(name)
    recording = Recording(episodes, split=split, name='fall')
    codes = [e.obs['vector'] for e in episodes]
    constant = ['gravity', 'rounded', 'third', 'lives']
    rows, factors = align(codes, recording)
    assert constant_factors(factors['probe']) == constant
    assert list(varying(factors, ('probe', 'test'))[0]['test']) == ['height']
    assert check_inputs(rows, factors).constant == (*constant,)
    assert [f.name for f in varying_factors(recording)] == ['height']
    found = probe(lambda x: x, recording, inputs='vector', baselines=(), progress=False)
    assert found.left_out == {('fall', name): 'constant' for name in constant} and list(
        found.targets('r2_linear').index
    ) == ['height']
    alone = recording.replace(factors=[f for f in recording.factors if f.name == 'height'])
    for question in (Regression(epochs=0), MutualInformationGap()):
        answers = [question.ask(codes, r, progress=False) for r in (recording, alone)]
        values = [answer.value_table() for answer in answers]
        assert values[0].equals(values[1]), values
