"""What rliable says of a small table: points, and percentiles of what it redraws; for tests/test_returns.py.

Run by a Python that has rliable (1.2.0 was used; nothing of srlviz is needed), it writes tests/reference/rliable_returns.json:

    python tests/reference/rliable_returns.py
"""

import json
from importlib.metadata import version
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_suffix('.json')
LEVELS, THRESHOLDS = (0.5, 0.8, 0.95), (-0.5, 0.0, 0.4, 0.7, 1.1)


def table(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    "Scores of two methods, (10, 4) and (8, 4): tasks differ, runs of x are a little above those of y, some are tied"
    rng = np.random.default_rng(seed)
    level = np.array([-0.4, 0.1, 0.5, 0.9])
    return tuple(np.round(level + shift + rng.normal(0, 0.3, (n, 4)), 1) for shift, n in ((0.15, 10), (0.0, 8)))


def bounds(bootstrap, statistic, reps: int) -> list:
    "Low and high (2, ...) of what rliable draws, for each of LEVELS"
    drawn = bootstrap.apply(statistic, reps=reps)
    found = [np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2], axis=0) for level in LEVELS]
    return np.squeeze(found).tolist()


def measured(x: np.ndarray, y: np.ndarray, reps: int) -> dict:
    "name -> dict(point, bounds); names with /task draw tasks as well"
    from rliable import library, metrics

    np.random.seed(0)  # rliable draws from NumPy's global generator
    profile = lambda scores: library.score_distributions(scores, list(THRESHOLDS))
    one = dict(mean=metrics.aggregate_mean, iqm=metrics.aggregate_iqm, profile=profile)
    found = {}
    for name, f in one.items():
        statistic = lambda scores, f=f: np.atleast_1d(f(scores))
        for end, tasks in ('', False), ('/task', True):
            drawn = bounds(library.StratifiedBootstrap(x, task_bootstrap=tasks), statistic, reps)
            found[name + end] = dict(point=np.squeeze(statistic(x)).tolist(), bounds=drawn)
    statistic = lambda a, b: np.atleast_1d(metrics.probability_of_improvement(a, b))
    drawn = bounds(library.StratifiedIndependentBootstrap(x, y), statistic, reps)
    return found | dict(improvement=dict(point=float(statistic(x, y)[0]), bounds=drawn))


if __name__ == '__main__':
    x, y = table()
    said = dict(rliable=version('rliable'), reps=20_000, x=x.tolist(), y=y.tolist(), found=measured(x, y, 20_000))
    FILE.write_text(json.dumps(said, indent=1) + '\n')
    print(f'{FILE.name}: {", ".join(said["found"])}')
