"""Intervals hold the truth as often as they say, from three units on; of fewer there is none."""

import runpy
from pathlib import Path

import numpy as np, pandas as pd, pytest
from scipy import stats

from srlviz.core.bootstrap import bootstrap_interval, bounds, widening
from srlviz.core.questions import Answer
from srlviz.core.scores import check_scores, score_row, summarize_scores
from srlviz.evaluate.comparison import agreement, performance_profile, probability_of_improvement, return_intervals
from srlviz.evaluate.intervals import curve_intervals, probe_interval
from srlviz.evaluate.questions.shift import Shift

MEASURE = runpy.run_path(Path(__file__).parents[1] / 'benchmarks/measure_coverage.py')
CASES = ('mean of runs', 'IQM, 8 tasks', 'mean, 8 unequal tasks', 'paired difference', 'F1 of episodes')
CASES += ('difference of F1', 'skill under shift', 'drop under shift')


def test_the_widening_is_the_formula():
    "t of n - 1 degrees of freedom instead of 1.96, and the variance that divides by n - 1"
    for n in (3, 5, 10, 60):
        expected = stats.t.ppf(0.975, n - 1) / stats.norm.ppf(0.975) * np.sqrt(n / (n - 1))
        assert np.isclose(widening(n), expected)
    low, high = bounds(np.linspace(0, 1, 1001), 0.5, 5)
    assert np.allclose([low, high], 0.5 + np.array([-1, 1]) * 0.475 * widening(5))
    assert np.isnan(bounds(np.linspace(0, 1, 1001), 0.5, 2)).all()


def test_the_mean_of_few_runs_is_bounded_by_students_t():
    runs = np.array([0.2, 0.5, 0.9])
    expected = stats.t.interval(0.95, 2, runs.mean(), stats.sem(runs))
    assert np.allclose(bootstrap_interval(runs, np.mean, n_resamples=100_000), expected, atol=0.01)
    row = return_intervals({'a': {'task': runs}}, n_resamples=100_000).iloc[0]
    assert np.allclose([row['low'], row['high']], expected, atol=0.01)


@pytest.mark.parametrize('n', [1, 2, 3])
def test_below_three_units_there_is_no_interval_anywhere(n):
    answer = MEASURE['autocorrelated_answer'](n, seed=0)
    other = MEASURE['autocorrelated_answer'](n, seed=0, offset=0.5)
    runs = np.random.default_rng(0).normal(size=(n, 2))
    tasks = runs.T  # a run of each of n tasks
    curve = pd.DataFrame(dict(method='vae', n_frames=1, seed=range(n), value=runs[:, 0]))
    columns = dict(study='popgym', task='RepeatFirst-easy', method='GRU', target='return', metric='mmer')
    scores = check_scores(pd.DataFrame([score_row(**columns, seed=i, value=x) for i, x in enumerate(runs[:, 0])]))
    tables = [
        answer.interval('f1', n_resamples=50),
        answer.compare(other, 'f1', n_resamples=50),
        probe_interval(answer, n_resamples=50),
        probe_interval([answer] * n, n_resamples=50) if n > 1 else probe_interval(answer, n_resamples=50),
        return_intervals({'a': runs}, n_resamples=50),
        return_intervals({'a': runs}, n_resamples=50, statistic='iqm'),
        return_intervals({'a': runs}, n_resamples=50, each_task=True),
        return_intervals({'a': tasks}, n_resamples=50, over='task'),
        probability_of_improvement(runs, runs + 0.1, n_resamples=50),
        probability_of_improvement(tasks, tasks, n_resamples=50, over='task').tail(1),
        performance_profile({'a': runs}, [0.0], n_resamples=50),
        performance_profile({'a': tasks}, [0.0], n_resamples=50, over='task'),
        curve_intervals(curve, n_resamples=50),
        summarize_scores(scores),
    ]
    rows = np.random.default_rng(0).normal(size=(n, 4))
    names = dict(spearman_low='low', spearman_high='high')
    tables.append(agreement(rows, rows + 0.1, n_resamples=50).rename(columns=names).tail(2))
    for i, table in enumerate(tables):
        if n < 3:
            assert table[['low', 'high']].isna().all(axis=None), (i, table)
        else:
            assert table[['low', 'high']].notna().all(axis=None), (i, table)


def test_bounds_of_a_share_stay_between_0_and_1():
    answer = MEASURE['autocorrelated_answer'](4, seed=1, offset=3)
    row = answer.interval('f1', n_resamples=200).iloc[-1]
    assert 0.9 < row['low'] < row['value'] < row['high'] == 1


def test_units_are_those_that_a_metric_reads():
    answer = MEASURE['shifted_answer'](40, 4, seed=0)
    other = MEASURE['shifted_answer'](40, 4, seed=0)
    other.predicted = other.predicted + 0.1
    for metric, n in dict(skill=40, skill_shifted=4, drop=4).items():
        interval = answer.interval(metric, n_resamples=50)
        assert (interval['n'] == n).all() and (answer.compare(other, metric, n_resamples=50)['n'] == n).all()
    rows = answer.parts['shifted']  # as an answer about the shifted episodes alone
    alone = Answer(
        Shift(), answer.truth[rows], answer.predicted[rows], dict(answer.parts, shifted=np.ones(rows.sum(), bool))
    )
    ends = [a.interval('skill_shifted', n_resamples=2000)[['low', 'high']].iloc[-1] for a in (answer, alone)]
    assert np.allclose(*ends, atol=0.05)
    two = MEASURE['shifted_answer'](40, 2, seed=0)
    assert two.interval('drop', n_resamples=50)[['low', 'high']].isna().all(axis=None)
    assert two.interval('skill', n_resamples=50)[['low', 'high']].notna().all(axis=None)


@pytest.mark.slow
@pytest.mark.parametrize('case', CASES)
def test_intervals_hold_the_truth(case):
    """Of 500 samples at least 88% at five units, and 90% from ten on: .95 less three standard errors, and some skew.

    The percentiles alone hold it in 66 to 85% at five units. `measure_coverage.py` prints the whole table.
    """
    coverage = {n: MEASURE['coverage'](MEASURE['CASES'][case], n, 500, 400) for n in (5, 10, 17, 22, 60)}
    print(case, {n: f'{share:.3f}' for n, share in coverage.items()})
    assert coverage[5] >= 0.88 and min(coverage[n] for n in (10, 17, 22, 60)) >= 0.9, coverage
