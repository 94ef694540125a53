"""QEDR, MIG and SAP: equal to reference values of other implementations, invariances, and refused inputs.

qedr_vectors.npz: four worlds of codes C and factors Z, `<world>/<regressor>/...` by scikit-learn and the formulas of
Eastwood & Williams (2018), matrices `entropy_<n>/...` without a regressor; `<world>/dislib/...` by the functions of
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
    sklearn.__version__ != LOCKED, reason=f'the trees need scikit-learn {LOCKED}, installed is {sklearn.__version__}'
)


def world(name):
    "The codes and the factors of a world, by split"

    def splits(kind):
        return dict(probe=VECTORS[f'{name}/{kind}_train'], test=VECTORS[f'{name}/{kind}_test'])

    return splits('C'), splits('Z')


def differences(result, name, regressor):
    "The largest absolute differences from the reference, of importance, D, C and I"

    def reference(key):
        return VECTORS[f'{name}/{regressor}/{key}']

    D, C, I = result.disentanglement, result.completeness, result.informativeness
    used = ~np.isnan(reference('D_per_code'))  # NaN where a code has no importance; so is the reference's D then
    return dict(
        R=np.abs(result.importance - reference('R')).to_numpy().max(),
        D_per_code=np.abs(D.per_code.to_numpy() - reference('D_per_code'))[used].max(),
        dead=np.abs(D.per_code.to_numpy()[~used]).sum() + D.share.to_numpy()[~used].sum(),
        D=abs(D.overall - reference('D' if used.all() else 'dislib_D')),
        C_per_factor=np.abs(C.per_factor.to_numpy() - reference('C_per_factor')).max(),
        C=abs(C.overall - reference('C')),
        I_per_factor=np.abs(I.per_factor.to_numpy() - reference('I_test')).max(),
        I=abs(I.overall - reference('I')),
    )


def test_scores_of_a_matrix_equal_the_formulas():
    cases = sorted({k.split('/')[0] for k in VECTORS if k.startswith('entropy_')})
    assert len(cases) == 10
    for case in cases:
        R = VECTORS[f'{case}/R']
        expected = {k: VECTORS[f'{case}/{k}'] for k in ('D_per_code', 'C_per_factor', 'D_nansum', 'C_mean')}
        expected_dislib = [VECTORS[f'{case}/dislib_D'], VECTORS[f'{case}/dislib_C']]
        D, C = disentanglement(R), completeness(R)
        used = R.sum(1) > 0
        np.testing.assert_allclose(D.per_code[used], expected['D_per_code'][used], atol=1e-9)
        np.testing.assert_allclose(C.per_factor, expected['C_per_factor'], atol=1e-9)
        np.testing.assert_allclose([D.overall, C.overall], [expected['D_nansum'], expected['C_mean']], atol=1e-9)
        dislib = [dislib_disentanglement(R).overall, dislib_completeness(R).overall]
        np.testing.assert_allclose(dislib, expected_dislib, atol=1e-9)


@pytest.mark.parametrize('regressor', LASSOS)
@pytest.mark.parametrize('name', WORLDS)
def test_lassos_equal_the_reference(name, regressor):
    errors = differences(qedr(*world(name), 'lasso', LASSOS[regressor]), name, regressor)
    assert max(errors.values()) < 1e-6, errors


@locked
@pytest.mark.parametrize('name', WORLDS)
def test_forests_equal_the_reference(name):
    result = qedr(*world(name), 'forest', max_depth=8, seed=123, progress=False)
    errors = differences(result, name, 'rf10_depth8_seed123')
    assert max(errors.values()) < 1e-6, errors


def dislib_reference(name):
    "The codes of a world, its factors in five bins, and a function that returns a value of disentanglement_lib"

    def reference(key):
        return VECTORS[f'{name}/dislib/{key}']

    y = dict(probe=reference('y_train').astype(int), test=reference('y_test').astype(int))
    return world(name)[0], y, reference


@locked
def test_boosted_trees_equal_disentanglement_lib():
    x, y, reference = dislib_reference('deadcode')
    first = {s: a[:, :1] for s, a in y.items()}  # the trees of a factor use no other factor
    R, train_accuracy, test_accuracy, predicted = boosted_importance(
        x['probe'], first['probe'], x['test'], first['test'], progress=False
    )
    assert (test_accuracy == (predicted == first['test']).mean(0)).all()
    # the library's trees choose between equal splits by NumPy's global seed: two of its runs differ this much
    np.testing.assert_allclose(R[:, 0], reference('R')[:, 0], atol=0.01)
    np.testing.assert_allclose([train_accuracy[0], test_accuracy[0]], reference('accuracy'), atol=0.01)


@pytest.mark.parametrize('name', ['entangled', 'deadcode'])
def test_d_and_c_of_boosted_trees_equal_disentanglement_lib(name):
    reference = dislib_reference(name)[2]
    assert dislib_disentanglement(reference('R')).overall == pytest.approx(reference('D'), abs=1e-12)
    assert dislib_completeness(reference('R')).overall == pytest.approx(reference('C'), abs=1e-12)


@pytest.mark.parametrize('name', ['entangled', 'deadcode'])
def test_mig_and_sap_equal_disentanglement_lib(name):
    x, y, reference = dislib_reference(name)
    names = [f'factor {j}' for j in range(y['probe'].shape[1])]
    tables = {s: pd.DataFrame(a, columns=names) for s, a in y.items()}
    mig = mutual_information_gap(x, tables, categories=names, binning='width')
    assert abs(mig.overall - reference('MIG')) < 1e-9
    # with as many bins as classes, the bins of numbers are the classes
    np.testing.assert_allclose(mutual_information_gap(x, y, binning='width').by_code, mig.by_code, atol=1e-12)
    by_class = separated_attribute_predictability(x, tables, categories=names)
    np.testing.assert_allclose(by_class.by_code, reference('sap_discrete'), atol=2 / len(x['test']))
    by_number = separated_attribute_predictability(*world(name))
    np.testing.assert_allclose(by_number.by_code, reference('sap_continuous'), atol=1e-9)
    assert abs(by_number.overall - reference('SAP_continuous')) < 1e-9


@pytest.fixture(scope='module')
def flights():
    "64 correlated codes of 12 factors, as an encoder with a tanh returns them"
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=(2000, 30))
    hidden[:, :6] *= rng.random((2000, 6)) < 0.2
    mixing = rng.normal(size=(30, 64)) * (rng.random((30, 64)) < 0.3)
    codes = np.tanh(0.4 * hidden @ mixing + 0.2 * rng.normal(size=(2000, 64)))

    def split(a):
        return dict(probe=a[:1400], valid=a[1400:1600], test=a[1600:])

    return split(codes), split(pd.DataFrame(hidden[:, :12], columns=[f'factor {j}' for j in range(12)]))


def overall(result):
    return np.array([getattr(result, k).overall for k in ('disentanglement', 'completeness', 'informativeness')])


def test_lasso_scores_do_not_depend_on_the_order_and_scale_of_codes(flights):
    codes, factors = flights
    rng = np.random.default_rng(1)
    original = overall(qedr(codes, factors))
    order, scale = rng.permutation(64), 10 ** rng.uniform(-3, 3, 64) * rng.choice([-1, 1], 64)
    permuted = overall(qedr({s: x[:, order] for s, x in codes.items()}, factors))
    scaled = overall(qedr({s: x * scale + 5 for s, x in codes.items()}, factors))
    np.testing.assert_allclose([permuted, scaled], [original, original], atol=1e-4)


def test_a_rotation_lowers_d_and_c_and_not_the_error_of_least_squares():
    rng = np.random.default_rng(0)
    z = pd.DataFrame(rng.normal(size=(900, 6)), columns=list('abcdef'))

    def split(a):
        return dict(probe=a[:600], test=a[600:])

    codes = z.to_numpy() @ np.diag([1, 2, 3, 1, 2, 3.0]) + 0.3 * rng.normal(size=(900, 6))
    rotation = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    for alpha in 0.02, 0:
        original, rotated = (qedr(split(c), split(z), alpha=alpha) for c in (codes, codes @ rotation))
        assert original.disentanglement.overall > rotated.disentanglement.overall + 0.4
        assert original.completeness.overall > rotated.completeness.overall + 0.4
    assert abs(original.informativeness.overall - rotated.informativeness.overall) < 1e-9
    assert 0.1 < original.informativeness.overall < 0.5


def small(n_codes=3, n_factors=2, n=40):
    rng = np.random.default_rng(0)
    codes = {s: rng.normal(size=(n, n_codes)) for s in ('probe', 'valid', 'test')}
    return codes, {s: pd.DataFrame(x[:, :1] + rng.normal(size=(n, n_factors))) for s, x in codes.items()}


def with_value(parts, split, value):
    changed = {s: np.array(a, float) for s, a in parts.items()}
    changed[split][1, 0] = value
    return changed


SCORES = [
    *[lambda *a, r=r: qedr(*a, r, progress=False) for r in ('lasso', 'forest', 'boosting')],
    mutual_information_gap,
    separated_attribute_predictability,
]


@pytest.mark.parametrize('score', SCORES, ids=['lasso', 'forest', 'boosting', 'mig', 'sap'])
def test_invalid_codes_and_factors_are_refused(score):
    codes, factors = small()
    for split in 'probe', 'test':
        with pytest.raises(ValueError, match=f"'{split}' has 39 codes and 40 rows"):
            score(codes | {split: codes[split][1:]}, factors)
        for value in np.inf, -np.inf:
            with pytest.raises(ValueError, match=f"codes of split '{split}' hold 1 value"):
                score(with_value(codes, split, value), factors)
            with pytest.raises(ValueError, match=f"1 value.* in split '{split}'"):
                score(codes, with_value(factors, split, value))
        with pytest.raises(ValueError, match=f"split '{split}' is"):
            score({s: x for s, x in codes.items() if s != split}, factors)
    with pytest.raises(ValueError, match='39.*40'):
        score(*small(n_codes=40, n=39))
    with pytest.raises(ValueError):
        score(codes, {s: 0 * z for s, z in factors.items()})


@pytest.mark.parametrize('score', SCORES, ids=['lasso', 'forest', 'boosting', 'mig', 'sap'])
def test_rows_with_nan_are_left_out_and_counted(score):
    codes, factors = small()
    result = score(with_value(codes, 'probe', np.nan), as_tables(with_value(factors, 'test', np.nan)))
    assert result.about['left_out'] == {'rows of probe': 1, 'rows of test': 1}
    with pytest.raises(ValueError, match='probe'):
        score({s: x * np.nan for s, x in codes.items()}, as_tables(factors))


def as_tables(factors):
    return {s: pd.DataFrame(z, columns=['a', 'b']) for s, z in factors.items()}


def test_a_constant_factor_is_left_out_and_counted():
    codes, factors = small()
    extended = {s: z.set_axis(['a', 'b'], axis=1).assign(gravity=9.81, name='x') for s, z in factors.items()}
    rows = {s: np.arange(len(z)) for s, z in extended.items()}
    # `early` changes only where it is learned, `late` only where it is tested
    extended = {s: z.assign(late=rows[s] * (s == 'test'), early=rows[s] * (s != 'test')) for s, z in extended.items()}
    for regressor in 'lasso', 'forest':
        result = qedr(codes, extended, regressor, progress=False)
        assert result.constant == ('gravity', 'name', 'late', 'early') and list(result.importance) == ['a', 'b']
        assert np.isfinite(overall(result)).all() and '4 constant' in repr(result)
    for gap in mutual_information_gap, separated_attribute_predictability:
        assert list(gap(codes, extended).per_factor.index) == ['a', 'b']


def test_d_of_one_factor_and_c_of_one_code_are_nan():
    D, C, I = overall(qedr(*small(n_factors=1)))
    assert np.isnan(D) and 0 <= C <= 1 and 0 < I < 2
    D, C, I = overall(qedr(*small(n_codes=1)))
    assert 0 <= D <= 1 and np.isnan(C) and 0 < I < 2
    for gap in mutual_information_gap, separated_attribute_predictability:
        result = gap(*small(n_factors=1, n=400))
        second, first = np.sort(result.by_code.iloc[:, 0])[-2:]
        assert first > second and np.isclose(result.overall, first - second)
        with pytest.raises(ValueError, match='1'):
            gap(*small(n_codes=1))


def test_an_unknown_regressor_and_a_negative_alpha_are_refused():
    with pytest.raises(ValueError, match='lassso.*lasso'):
        qedr(*small(), 'lassso')
    for alpha in -0.02, np.nan, np.inf, 'much':
        with pytest.raises(ValueError, match=f'alpha.* {alpha!r}'):
            qedr(*small(), alpha=alpha)


def test_codes_without_any_weight_score_zero():
    result = qedr(*small(), alpha=100)
    D, C, I = overall(result)
    assert D == C == 0 and I == pytest.approx(1, abs=0.1) and result.dead == [0, 1, 2]
