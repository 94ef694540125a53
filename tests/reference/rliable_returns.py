"""rliable's statistics of a small table: points, and percentiles of its bootstrap; reference of tests/test_returns.py.

Run by a Python that has rliable (1.2.0 was used; srlviz is not needed), it writes tests/reference/rliable_returns.json:

    python tests/reference/rliable_returns.py
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix('.json')
LEVELS, THRESHOLDS = (0.5, 0.8, 0.95), (-0.5, 0.0, 0.4, 0.7, 1.1)


def example_scores(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    "Draw scores of two methods, (10, 4) and (8, 4): tasks differ, x is slightly above y, some scores are tied"
    rng = np.random.default_rng(seed)
    level = np.array([-0.4, 0.1, 0.5, 0.9])
    return tuple(np.round(level + shift + rng.normal(0, 0.3, (n, 4)), 1) for shift, n in ((0.15, 10), (0.0, 8)))


def bounds(bootstrap, statistic, reps: int) -> list:
    "Return the low and high (2, ...) percentiles of rliable's bootstrap for each of LEVELS"
    samples = bootstrap.apply(statistic, reps=reps)
    intervals = [np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0) for level in LEVELS]
    return np.squeeze(intervals).tolist()


def rliable_statistics(x: np.ndarray, y: np.ndarray, reps: int) -> dict:
    "name -> dict(point, bounds); names with /task resample tasks as well"
    from rliable import library, metrics

    np.random.seed(0)  # rliable draws from NumPy's global generator

    def profile(scores):
        return library.score_distributions(scores, list(THRESHOLDS))

    def improvement(a, b):
        return np.atleast_1d(metrics.probability_of_improvement(a, b))

    results = {}
    metric_of = dict(mean=metrics.aggregate_mean, iqm=metrics.aggregate_iqm, profile=profile)
    for name, metric in metric_of.items():

        def statistic(scores, metric=metric):
            return np.atleast_1d(metric(scores))

        for suffix, resample_tasks in ('', False), ('/task', True):
            intervals = bounds(library.StratifiedBootstrap(x, task_bootstrap=resample_tasks), statistic, reps)
            results[name + suffix] = dict(point=np.squeeze(statistic(x)).tolist(), bounds=intervals)
    intervals = bounds(library.StratifiedIndependentBootstrap(x, y), improvement, reps)
    return results | dict(improvement=dict(point=float(improvement(x, y)[0]), bounds=intervals))


if __name__ == '__main__':
    x, y = example_scores()
    results = rliable_statistics(x, y, 20_000)
    content = dict(rliable=version('rliable'), reps=20_000, x=x.tolist(), y=y.tolist(), found=results)
    FILE.write_text(json.dumps(content, indent=1) + '\n')
    print(f'{FILE.name}: {", ".join(content["found"])}')
