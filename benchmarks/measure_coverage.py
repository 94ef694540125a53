"""Measure how often 95% intervals hold the true value, before and after they were widened for few units.

    python benchmarks/measure_coverage.py [--samples 1000] [--resamples 500]

For each number of units (runs, pairs or test episodes) it draws samples whose truth is known, and counts the intervals
that hold it: those of the percentiles alone (before), and those of the kit (after). Of two units there is no interval.
"""

import argparse
from collections.abc import Callable
from functools import cache
from unittest.mock import patch

import numpy as np
import pandas as pd

from srlviz.core import bootstrap
from srlviz.core.bootstrap import bootstrap_interval
from srlviz.core.questions import Answer
from srlviz.evaluate.comparison import probability_of_improvement, return_intervals
from srlviz.evaluate.probe import ProbeResult
from srlviz.evaluate.questions.linear_probe import LinearProbe
from srlviz.evaluate.questions.shift import Shift

UNITS = (2, 3, 5, 10, 17, 22, 60)
N_TASKS = 8


def mean_of_runs(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the mean of normal returns; return low, high and the true mean."""
    runs = np.random.default_rng(seed).normal(size=n)
    row = return_intervals({'method': {'task': runs}}, n_resamples=n_resamples).iloc[0]
    return row['low'], row['high'], 0.0


def mean_of_skewed_runs(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the mean of exponential returns."""
    low, high = bootstrap_interval(np.random.default_rng(seed).exponential(size=n), np.mean, n_resamples=n_resamples)
    return low, high, 1.0


def iqm_over_tasks(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the interquartile mean over eight tasks of n runs each, which differ in their means; it is symmetric."""
    runs = np.random.default_rng(seed).normal(size=(n, N_TASKS)) + np.linspace(-2, 2, N_TASKS)
    row = return_intervals({'method': runs}, statistic='iqm', n_resamples=n_resamples).iloc[0]
    return row['low'], row['high'], 0.0


def mean_over_unequal_tasks(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the mean over eight tasks, of which one spreads fifteen times as far as the others."""
    runs = np.random.default_rng(seed).normal(size=(n, N_TASKS)) * np.r_[np.full(N_TASKS - 1, 0.2), 3]
    row = return_intervals({'method': runs}, n_resamples=n_resamples).iloc[0]
    return row['low'], row['high'], 0.0


def paired_difference(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the mean difference of pairs that have most of their spread in common; the true one is .3."""
    rng = np.random.default_rng(seed)
    common = 3 * rng.normal(size=n)
    differences = (common + 0.3 + rng.normal(size=n)) - (common + rng.normal(size=n))
    return *bootstrap_interval(differences, np.mean, n_resamples=n_resamples), 0.3


def improvement(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the probability that a run of one method is above a run of another; the true one is .64."""
    rng = np.random.default_rng(seed)
    x, y = rng.normal(0.5, 1, (n, 1)), rng.normal(0, 1, (n, 1))
    row = probability_of_improvement(x, y, n_resamples=n_resamples).iloc[-1]
    return row['low'], row['high'], 0.6382


def autocorrelated_answer(n: int, seed: int, offset: float = 0.0) -> ProbeResult:
    """An answer about n episodes of 40 rows: the truth stays for a while, and episodes differ in how hard they are."""
    rng = np.random.default_rng(seed)
    truth = np.cumsum(rng.random((n, 40)) < 0.1, axis=1) % 3
    hard = rng.normal(size=(n, 1)) + np.repeat(rng.normal(size=(n, 8)), 5, axis=1)
    wrong = hard + 0.5 * rng.normal(size=(n, 40)) > 0.5 + offset
    index = pd.MultiIndex.from_product([range(n), range(40)], names=['episode', 't'])
    tables = [pd.DataFrame({'x': values.ravel()}, index) for values in (truth, np.where(wrong, (truth + 1) % 3, truth))]
    return ProbeResult(LinearProbe(), *tables)


@cache
def true_value(offset: float) -> float:
    """F1 of 20,000 episodes of `autocorrelated_answer`."""
    return autocorrelated_answer(20_000, seed=10**6, offset=offset).value('f1')


def metric_of_episodes(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound F1 over autocorrelated test episodes, by `Answer.interval`."""
    row = autocorrelated_answer(n, seed).interval('f1', n_resamples=n_resamples).iloc[-1]
    return row['low'], row['high'], true_value(0.0)


def difference_of_answers(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the difference of F1 of two answers about the same episodes, by `Answer.compare`."""
    a, b = autocorrelated_answer(n, seed, 0.5), autocorrelated_answer(n, seed)
    row = a.compare(b, 'f1', n_resamples=n_resamples).iloc[-1]
    return row['low'], row['high'], true_value(0.5) - true_value(0.0)


N_TEST = 40  # test episodes beside n shifted ones


def shifted_answer(n_test: int, n_shifted: int, seed: int) -> Answer:
    """An answer about episodes of 20 rows in two conditions; each has a level, and an error of its own size."""
    rng = np.random.default_rng(seed)
    n = n_test + n_shifted
    truth = rng.normal(size=(n, 1)) + rng.normal(size=(n, 20))
    size = np.repeat([0.4, 0.7], [n_test, n_shifted])[:, None] * rng.lognormal(0, 0.3, (n, 1))
    predicted = truth + size * (rng.normal(size=(n, 1)) + rng.normal(size=(n, 20)))
    index = pd.MultiIndex.from_product([range(n), range(20)], names=['episode', 't'])
    tables = [pd.DataFrame({'x': values.ravel()}, index) for values in (truth, predicted)]
    parts = dict(shifted=np.repeat([False, True], [20 * n_test, 20 * n_shifted]), constant=pd.DataFrame({'x': [0.0]}))
    return Answer(Shift(), *tables, parts)


@cache
def true_shift(metric: str) -> float:
    """A metric of 20,000 episodes of each condition of `shifted_answer`."""
    return shifted_answer(20_000, 20_000, seed=10**6).value(metric)


def skill_under_shift(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the skill of n shifted episodes, beside 40 others that it does not read."""
    row = shifted_answer(N_TEST, n, seed).interval('skill_shifted', n_resamples=n_resamples).iloc[-1]
    return row['low'], row['high'], true_shift('skill_shifted')


def drop_under_shift(n: int, seed: int, n_resamples: int) -> tuple[float, float, float]:
    """Bound the drop from 40 episodes to n shifted ones."""
    row = shifted_answer(N_TEST, n, seed).interval('drop', n_resamples=n_resamples).iloc[-1]
    return row['low'], row['high'], true_shift('drop')


CASES = {
    'mean of runs': mean_of_runs,
    'mean of skewed runs': mean_of_skewed_runs,
    'IQM, 8 tasks': iqm_over_tasks,
    'mean, 8 unequal tasks': mean_over_unequal_tasks,
    'paired difference': paired_difference,
    'improvement': improvement,
    'F1 of episodes': metric_of_episodes,
    'difference of F1': difference_of_answers,
    'skill under shift': skill_under_shift,
    'drop under shift': drop_under_shift,
}


def coverage(interval: Callable, n: int, samples: int, n_resamples: int = 500) -> float:
    """Return the share of samples whose interval holds the truth; NaN if there are no intervals."""
    held = []
    for seed in range(samples):
        low, high, truth = interval(n, seed, n_resamples)
        held.append(np.nan if np.isnan(low) else low <= truth <= high)
    return float(np.mean(held))


def plain_percentiles():
    """Take the percentiles as they are, for two units or more, as they were before."""

    def ones(n_units, *_):
        return np.ones(np.shape(n_units))

    return patch.multiple(bootstrap, widening=ones, MIN_UNITS=2, FEW_UNITS=0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--samples', type=int, default=1000)
    parser.add_argument('--resamples', type=int, default=500)
    args = parser.parse_args()
    print(f"{'units':24}" + ''.join(f'{n:>6}' for n in UNITS))
    for name, interval in CASES.items():
        with plain_percentiles():
            before = [coverage(interval, n, args.samples, args.resamples) for n in UNITS]
        after = [coverage(interval, n, args.samples, args.resamples) for n in UNITS]
        print(f'{name:24}' + ''.join(f'{x:6.2f}' for x in before))
        print(f"{'':18} after" + ''.join(f'{x:6.2f}' for x in after), flush=True)


if __name__ == '__main__':
    main()
