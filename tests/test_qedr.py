"""QEDR and its rivals against numbers that others' code gave, and what must not change them.

qedr_vectors.npz: four worlds of codes C and factors Z, `<world>/<regressor>/...` by scikit-learn and the formulas of
Eastwood & Williams (2018), matrices `entropy_<n>/...` of no regressor; `<world>/dislib/...` by the functions of
disentanglement_lib itself (commit 86a644d, scikit-learn 1.9.1) on factors in five bins (`y_train`, `y_test`).
"""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import sklearn

from srlviz.evaluate.disentanglement.dci import boosted_importance, dislib_completeness, dislib_disentanglement
from srlviz.evaluate.disentanglement.mig_sap import mutual_information_gap, separated_attribute_predictability
from srlviz.evaluate.qedr import completeness, disentanglement, qedr

HERE = Path(__file__).parent
VECTORS = np.load(HERE / 'reference/qedr_vectors.npz')
WORLDS = ['perfect', 'perm_scaled', 'entangled', 'deadcode']
LASSOS = {'lasso0.02': 0.02, 'lasso0.1': 0.1}
LOCKED = re.search(r'^scikit-learn==(\S+)', (HERE.parent / 'requirements-lock.txt').read_text(), re.M)[1]
locked = pytest.mark.skipif(
    sklearn.__version__ != LOCKED, reason=f'trees are those of scikit-learn {LOCKED}, here is {sklearn.__version__}'
)


def world(name):
    part = lambda kind: dict(probe=VECTORS[f'{name}/{kind}_train'], test=VECTORS[f'{name}/{kind}_test'])
    return part('C'), part('Z')


def differences(result, name, by):
    "How far importance, D, C and I are from the vectors, the largest of each"
    told = lambda k: VECTORS[f'{name}/{by}/{k}']
    D, C, I = result.disentanglement, result.completeness, result.informativeness
    used = ~np.isnan(told('D_per_code'))  # NaN where a code has no importance; so is the reference's D then
    return dict(
        R=np.abs(result.importance - told('R')).to_numpy().max(),
        D_per_code=np.abs(D.per_code.to_numpy() - told('D_per_code'))[used].max(),
        dead=np.abs(D.per_code.to_numpy()[~used]).sum() + D.share.to_numpy()[~used].sum(),
        D=abs(D.overall - told('D' if used.all() else 'dislib_D')),
        C_per_factor=np.abs(C.per_factor.to_numpy() - told('C_per_factor')).max(),
        C=abs(C.overall - told('C')),
        I_per_factor=np.abs(I.per_factor.to_numpy() - told('I_test')).max(),
        I=abs(I.overall - told('I')),
    )


def test_the_scores_of_a_matrix_are_those_of_the_formulas():
    cases = sorted({k.split('/')[0] for k in VECTORS if k.startswith('entropy_')})
    assert len(cases) == 10
    for case in cases:
        R, told = VECTORS[f'{case}/R'], lambda k: VECTORS[f'{case}/{k}']
        D, C = disentanglement(R), completeness(R)
        used = R.sum(1) > 0
        np.testing.assert_allclose(D.per_code[used], told('D_per_code')[used], atol=1e-9)
        np.testing.assert_allclose(C.per_factor, told('C_per_factor'), atol=1e-9)
        np.testing.assert_allclose([D.overall, C.overall], [told('D_nansum'), told('C_mean')], atol=1e-9)
        dislib = [dislib_disentanglement(R).overall, dislib_completeness(R).overall]
        np.testing.assert_allclose(dislib, [told('dislib_D'), told('dislib_C')], atol=1e-9)


@pytest.mark.parametrize('by', LASSOS)
@pytest.mark.parametrize('name', WORLDS)
def test_lassos_say_what_the_reference_says(name, by):
    found = differences(qedr(*world(name), 'lasso', LASSOS[by]), name, by)
    assert max(found.values()) < 1e-6, found


@locked
@pytest.mark.parametrize('name', WORLDS)
def test_forests_say_what_the_reference_says(name):
    result = qedr(*world(name), 'forest', max_depth=8, seed=123, progress=False)
    found = differences(result, name, 'rf10_depth8_seed123')
    assert max(found.values()) < 1e-6, found


def binned(name):
    told = lambda k: VECTORS[f'{name}/dislib/{k}']
    y = dict(probe=told('y_train').astype(int), test=told('y_test').astype(int))
    return world(name)[0], y, told


@locked
def test_boosted_trees_are_those_of_disentanglement_lib():
    x, y, told = binned('deadcode')
    first = {s: a[:, :1] for s, a in y.items()}  # a factor's trees know of no other factor
    asked = x['probe'], first['probe'], x['test'], first['test']
    R, learned, tested, said = boosted_importance(*asked, progress=False)
    assert (tested == (said == first['test']).mean(0)).all()
    # between equal splits the library's trees draw by NumPy's global seed: two of its own runs are this far apart
    np.testing.assert_allclose(R[:, 0], told('R')[:, 0], atol=0.01)
    np.testing.assert_allclose([learned[0], tested[0]], told('accuracy'), atol=0.01)


@pytest.mark.parametrize('name', ['entangled', 'deadcode'])
def test_d_and_c_of_boosted_trees_are_those_of_disentanglement_lib(name):
    told = binned(name)[2]
    assert dislib_disentanglement(told('R')).overall == pytest.approx(told('D'), abs=1e-12)
    assert dislib_completeness(told('R')).overall == pytest.approx(told('C'), abs=1e-12)


@pytest.mark.parametrize('name', ['entangled', 'deadcode'])
def test_mig_and_sap_are_those_of_disentanglement_lib(name):
    x, y, told = binned(name)
    names = [f'factor {j}' for j in range(y['probe'].shape[1])]
    tables = {s: pd.DataFrame(a, columns=names) for s, a in y.items()}
    mig = mutual_information_gap(x, tables, categories=names)
    assert abs(mig.overall - told('MIG')) < 1e-9
    # numbers in as many bins as there are classes are these classes
    np.testing.assert_allclose(mutual_information_gap(x, y).by_code, mig.by_code, atol=1e-12)
    by_class = separated_attribute_predictability(x, tables, categories=names)
    np.testing.assert_allclose(by_class.by_code, told('sap_discrete'), atol=2 / len(x['test']))
    by_number = separated_attribute_predictability(*world(name))
    np.testing.assert_allclose(by_number.by_code, told('sap_continuous'), atol=1e-9)
    assert abs(by_number.overall - told('SAP_continuous')) < 1e-9


@pytest.fixture(scope='module')
def flights():
    "Correlated codes as an encoder's tanh gives them, 64 of 12 factors"
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2000, 30))
    hidden[:, :6] *= rng.random((2000, 6)) < 0.2
    mixing = rng.normal(size=(30, 64)) * (rng.random((30, 64)) < 0.3)
    codes = np.tanh(0.4 * hidden @ mixing + 0.2 * rng.normal(size=(2000, 64)))
    split = lambda a: dict(probe=a[:1400], valid=a[1400:1600], test=a[1600:])
    return split(codes), split(pd.DataFrame(hidden[:, :12], columns=[f'factor {j}' for j in range(12)]))


def overall(result):
    return np.array([getattr(result, k).overall for k in ('disentanglement', 'completeness', 'informativeness')])


def test_the_order_and_the_scale_of_codes_do_not_matter_to_the_lasso(flights):
    (codes, factors), rng = flights, np.random.default_rng(1)
    straight = overall(qedr(codes, factors))
    order, scale = rng.permutation(64), 10 ** rng.uniform(-3, 3, 64) * rng.choice([-1, 1], 64)
    permuted = overall(qedr({s: x[:, order] for s, x in codes.items()}, factors))
    scaled = overall(qedr({s: x * scale + 5 for s, x in codes.items()}, factors))
    np.testing.assert_allclose([permuted, scaled], [straight, straight], atol=1e-4)


def test_a_rotation_lowers_d_and_c_and_leaves_least_squares():
    rng = np.random.default_rng(0)
    z = pd.DataFrame(rng.normal(size=(900, 6)), columns=list('abcdef'))
    split = lambda a: dict(probe=a[:600], test=a[600:])
    codes = z.to_numpy() @ np.diag([1, 2, 3, 1, 2, 3.0]) + 0.3 * rng.normal(size=(900, 6))
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    for alpha in 0.02, 0:
        plain, turned = (qedr(split(c), split(z), alpha=alpha) for c in (codes, codes @ turn))
        assert plain.disentanglement.overall > turned.disentanglement.overall + 0.4
        assert plain.completeness.overall > turned.completeness.overall + 0.4
    assert abs(plain.informativeness.overall - turned.informativeness.overall) < 1e-9
    assert 0.1 < plain.informativeness.overall < 0.5


def small(n_codes=3, n_factors=2, n=40):
    rng = np.random.default_rng(0)
    codes = {s: rng.normal(size=(n, n_codes)) for s in ('probe', 'valid', 'test')}
    return codes, {s: pd.DataFrame(x[:, :1] + rng.normal(size=(n, n_factors))) for s, x in codes.items()}


def with_value(parts, split, value):
    changed = {s: np.array(a, float) for s, a in parts.items()}
    changed[split][1, 0] = value
    return changed


ASKED = [
    *[lambda *a, r=r: qedr(*a, r, progress=False) for r in ('lasso', 'forest', 'boosting')],
    mutual_information_gap,
    separated_attribute_predictability,
]


@pytest.mark.parametrize('ask', ASKED, ids=['lasso', 'forest', 'boosting', 'mig', 'sap'])
def test_bad_codes_and_factors_are_refused_in_words(ask):
    codes, factors = small()
    for split in 'probe', 'test':
        with pytest.raises(ValueError, match=f"'{split}' has 39 codes and 40 rows"):
            ask(codes | {split: codes[split][1:]}, factors)
        for value in np.inf, -np.inf:
            with pytest.raises(ValueError, match=f"codes of split '{split}' hold 1 value"):
                ask(with_value(codes, split, value), factors)
            with pytest.raises(ValueError, match=f"1 value.* in split '{split}'"):
                ask(codes, with_value(factors, split, value))
        with pytest.raises(ValueError, match=f"split '{split}' is"):
            ask({s: x for s, x in codes.items() if s != split}, factors)
    with pytest.raises(ValueError, match='39.*40'):
        ask(*small(n_codes=40, n=39))
    with pytest.raises(ValueError):
        ask(codes, {s: 0 * z for s, z in factors.items()})


@pytest.mark.parametrize('ask', ASKED, ids=['lasso', 'forest', 'boosting', 'mig', 'sap'])
def test_rows_with_nan_are_left_out_and_counted(ask):
    codes, factors = small()
    answer = ask(with_value(codes, 'probe', np.nan), as_tables(with_value(factors, 'test', np.nan)))
    assert answer.about['left_out'] == {'rows of probe': 1, 'rows of test': 1}
    with pytest.raises(ValueError, match='probe'):
        ask({s: x * np.nan for s, x in codes.items()}, as_tables(factors))


def as_tables(factors):
    return {s: pd.DataFrame(z, columns=['a', 'b']) for s, z in factors.items()}


def test_a_constant_factor_is_left_out_and_counted():
    codes, factors = small()
    still = {s: z.set_axis(['a', 'b'], axis=1).assign(gravity=9.81, name='x') for s, z in factors.items()}
    rows = {
        s: np.arange(len(z)) for s, z in still.items()
    }  # one changes where it is learned only, one where it is asked
    still = {s: z.assign(late=rows[s] * (s == 'test'), early=rows[s] * (s != 'test')) for s, z in still.items()}
    for regressor in 'lasso', 'forest':
        result = qedr(codes, still, regressor, progress=False)
        assert result.constant == ('gravity', 'name', 'late', 'early') and list(result.importance) == ['a', 'b']
        assert np.isfinite(overall(result)).all() and '4 constant' in repr(result)
    for gap in mutual_information_gap, separated_attribute_predictability:
        assert list(gap(codes, still).per_factor.index) == ['a', 'b']


def test_of_one_factor_d_and_of_one_code_c_says_nothing():
    D, C, I = overall(qedr(*small(n_factors=1)))
    assert np.isnan(D) and 0 <= C <= 1 and 0 < I < 2
    D, C, I = overall(qedr(*small(n_codes=1)))
    assert 0 <= D <= 1 and np.isnan(C) and 0 < I < 2
    for gap in mutual_information_gap, separated_attribute_predictability:
        found = gap(*small(n_factors=1))
        second, first = np.sort(found.by_code.iloc[:, 0])[-2:]
        assert first > second and np.isclose(found.overall, first - second)
        with pytest.raises(ValueError, match='1'):
            gap(*small(n_codes=1))


def test_an_unknown_regressor_and_a_negative_alpha_are_refused():
    with pytest.raises(ValueError, match='lassso.*lasso'):
        qedr(*small(), 'lassso')
    for alpha in -0.02, np.nan, np.inf, 'much':
        with pytest.raises(ValueError, match=f'alpha.* {alpha!r}'):
            qedr(*small(), alpha=alpha)


def test_codes_that_no_weight_is_left_of_score_zero():
    result = qedr(*small(), alpha=100)
    D, C, I = overall(result)
    assert D == C == 0 and I == pytest.approx(1, abs=0.1) and result.dead == [0, 1, 2]
