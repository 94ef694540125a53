"""Measure whether failures show in the sensors of a landing, and whether touchdown readings are consistent.

    python benchmarks/measure_landing_truth.py        600 flights without camera: eight CPU minutes, and the trees

Each flight becomes a vector: mean, standard deviation, minimum, maximum and mean step of each column, without
annunciators and warnings. Whether a failure happened is predicted by 200 random trees, five folds, from the columns
that are not a tell-tale of it in the table of sensors, with five seeds of folds and trees. The mean AUROC is printed
with a bootstrap interval over flights: .5 is invisible, 1 is obvious, and an interval that straddles a bound is
undecided (exit status 0, as if met). A failure happened if its onset lies within the rows. The last line is the
correlation of sink rate and normal acceleration over all touchdowns, crashed or not.

Trees are used instead of a linear model because either engine may have met the bird, so that its effect has no sign: a
ridge over all columns has an AUROC of .51 for the bird.
"""

import argparse, os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ |= dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'), '1')  # one core a worker

import numpy as np
import pandas as pd
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict

from srlviz.envs.landing.approach import PERTURBATIONS, draw_conditions, fly_approach
from srlviz.envs.landing.sensors import sensor_table, sensors

LAMPS = ('annunciators', 'warnings')  # groups of columns
CHECKED = ('rel_bird_strike', 'frm_ice', 'frm_ice2', 'rel_servo_ailn', 'rel_servo_elev')  # failures with a target
LOW, HIGH, CORRELATION = 0.6, 0.97, 0.9
CROSS_VALIDATIONS = 5


def usable_columns() -> pd.DataFrame:
    "The columns from which failures may be predicted"
    table = sensor_table()
    return table[~table['group'].isin(LAMPS) & (table['role'] != 'time') & (table['kind'] != 'constant')]


def features_and_labels(seed: int) -> tuple[np.ndarray, dict]:
    "Features (5 * columns,) of one flight; its failures, outcome and touchdown readings"
    f = fly_approach(draw_conditions(seed))
    x = sensors(f)[:, usable_columns().index].astype(float)
    touchdown = f.touchdown or {}
    features = np.concatenate([x.mean(0), x.std(0), x.min(0), x.max(0), np.abs(np.diff(x, axis=0)).mean(0)])
    failures = {e.name for e in f.conditions.events if e.time <= f.log['t'][-1]}
    labels = {n: n in failures for n in PERTURBATIONS} | dict(outcome=f.outcome)
    return features, labels | {n: touchdown.get(n, np.nan) for n in ('sink', 'g_nrml', 'g_axil', 'g_side')}


def predict_by_trees(X: np.ndarray, y: np.ndarray, jobs: int, seed: int) -> np.ndarray:
    "Out-of-fold probability of the failure in each flight, by random trees"
    trees = ExtraTreesClassifier(
        200, max_features=0.1, min_samples_leaf=2, class_weight='balanced', random_state=seed, n_jobs=jobs
    )
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    return cross_val_predict(trees, X, y, cv=folds, method='predict_proba')[:, 1]


def auroc(X: np.ndarray, y: np.ndarray, jobs: int) -> tuple[float, float, float]:
    "Mean AUROC over cross-validations of a failure, and the 5th and 95th percentile of its bootstrap over flights"
    scores = [predict_by_trees(X, y, jobs, seed) for seed in range(CROSS_VALIDATIONS)]

    def mean(i):
        return np.mean([roc_auc_score(y[i], score[i]) for score in scores])

    draws = np.random.default_rng(0).integers(len(y), size=(500, len(y)))
    bootstrap = [mean(i) for i in draws if 0 < y[i].sum() < len(y)]
    return (mean(slice(None)), *np.quantile(bootstrap, (0.05, 0.95)))


def verdict_on(low: float, high: float) -> str:
    "Whether an interval is within the bounds, outside, or straddles one"
    if LOW <= low and high <= HIGH:
        return 'met'
    return 'MISSED' if high < LOW or low > HIGH else 'undecided'


def main(flights: int, jobs: int, out: Path, reuse: bool, seed0: int = 0) -> pd.DataFrame:
    path = out / f'landing_truth_{seed0}_{flights}.npz'
    if reuse and path.exists():
        with np.load(path) as f:
            X, labels = f['X'], pd.DataFrame({n: f[n] for n in f.files if n != 'X'})
    else:
        with ProcessPoolExecutor(jobs) as pool:
            rows = list(pool.map(features_and_labels, range(seed0, seed0 + flights), chunksize=10))
        X, labels = np.array([r[0] for r in rows]), pd.DataFrame([r[1] for r in rows])
        out.mkdir(parents=True, exist_ok=True)
        np.savez(path, X=X, **{n: labels[n].to_numpy(str if n == 'outcome' else None) for n in labels})
    is_varying = np.ptp(X, 0) > 1e-9
    tell_tales = usable_columns()['tell_tale'].fillna('').str.split()
    print(
        f'{len(X)} flights, {is_varying.sum()} numbers a flight: {labels["outcome"].value_counts().to_dict()}',
        flush=True,
    )
    table = []
    for name in PERTURBATIONS:
        y = labels[name].to_numpy(bool)
        used = is_varying & ~np.tile(tell_tales.map(lambda names: name in names).to_numpy(), 5)
        a, low, high = auroc(X[:, used], y, jobs)
        verdict = verdict_on(low, high) if name in CHECKED else ''
        table.append((name, int(y.sum()), a, low, high, verdict))
        print(f'{name:16} {y.sum():4} flights  {a:.3f}  ({low:.3f} to {high:.3f})  {verdict}', flush=True)
    touchdowns = labels.dropna(subset=['sink'])
    r = touchdowns['sink'].corr(touchdowns['g_nrml'])
    landed = touchdowns[touchdowns['outcome'] == 'landed']
    verdict = 'met' if r >= CORRELATION else 'MISSED'
    print(
        f'sink and g_nrml, {len(touchdowns)} touchdowns: {r:.3f} {verdict} '
        f'(landed {landed["sink"].corr(landed["g_nrml"]):.3f}), '
        f'up to {touchdowns["sink"].max():.1f} m/s and {touchdowns["g_nrml"].max():.1f} g'
    )
    table.append(('sink and g_nrml', len(touchdowns), r, np.nan, np.nan, verdict))
    return pd.DataFrame(table, columns=['name', 'flights', 'value', 'low', 'high', 'verdict'])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--flights', type=int, default=600)
    parser.add_argument('--seed0', type=int, default=0, help='the seed of the first flight')
    parser.add_argument('--jobs', type=int, default=2, help='processes that fly, and threads of the trees')
    parser.add_argument('--out', type=Path, default=Path('runs/landing_truth'), help='folder of the table')
    parser.add_argument('--again', action='store_true', help='evaluate the flights that the previous call saved there')
    args = parser.parse_args()
    table = main(args.flights, args.jobs, args.out, args.again, args.seed0)
    table.to_csv(args.out / 'landing_truth.csv', index=False)
    raise SystemExit(int((table['verdict'] == 'MISSED').any()))
