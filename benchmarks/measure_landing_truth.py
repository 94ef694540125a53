"""Whether the failures of a landing can be seen by its sensors, and whether touchdowns tell how hard they were.

    python benchmarks/measure_landing_truth.py                 600 flights without camera: four CPU-minutes

Each flight becomes numbers: mean, spread, least, largest and mean step of each column, without those that name a failure
(annunciators, warnings, and what the table of sensors calls a tell-tale). Whether a failure happened is then told by a
ridge regression of the standardised numbers, five folds, of which the AUROC is printed with a bootstrap interval: .5 is
invisible, 1 is given away. A failure happened if its onset lies within the rows. The last line is the correlation of
sink rate and normal acceleration over all touchdowns, crashed or not.
"""

import argparse, os
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

os.environ |= dict.fromkeys(('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS'), '1')  # one core a worker

import numpy as np
import pandas as pd
from sklearn.linear_model import RidgeCV
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from srlviz.envs.landing.approach import PERTURBATIONS, draw_conditions, fly_approach
from srlviz.envs.landing.sensors import sensor_table, sensors

NAMED = ('annunciators', 'warnings')  # groups of lamps
SEEN = ('rel_bird_strike', 'frm_ice', 'frm_ice2', 'rel_servo_ailn', 'rel_servo_elev')  # the bar is for these
LOW, HIGH, CORRELATION = 0.6, 0.97, 0.9


def told() -> np.ndarray:
    "Places of the columns that may be looked at"
    table = sensor_table()
    kept = ~table['group'].isin(NAMED) & (table['role'] != 'time') & (table['kind'] != 'constant')
    if 'tell_tale' in table:
        kept &= table['tell_tale'].isna() | (table['tell_tale'].astype(str).str.len() == 0)
    return np.flatnonzero(kept)


def look(seed: int) -> tuple[np.ndarray, dict]:
    "One flight: (5 * columns,) numbers, and what happened"
    f = fly_approach(draw_conditions(seed))
    x, touched = sensors(f)[:, told()].astype(float), f.touchdown or {}
    numbers = np.concatenate([x.mean(0), x.std(0), x.min(0), x.max(0), np.abs(np.diff(x, axis=0)).mean(0)])
    begun = {e.name for e in f.conditions.events if e.time <= f.log['t'][-1]}
    what = {n: n in begun for n in PERTURBATIONS} | dict(outcome=f.outcome)
    return numbers, what | {n: touched.get(n, np.nan) for n in ('sink', 'g_nrml', 'g_axil', 'g_side')}


def auroc(X: np.ndarray, y: np.ndarray, seed: int = 0) -> tuple[float, float, float]:
    "AUROC of a failure from the numbers of flights, and the 5th and 95th percentile of its bootstrap"
    rng = np.random.default_rng(seed)
    folds = StratifiedKFold(5, shuffle=True, random_state=seed)
    model = make_pipeline(StandardScaler(), RidgeCV(np.logspace(1, 6, 11)))
    score = cross_val_predict(model, X, y.astype(float), cv=list(folds.split(X, y)))
    some = [i for i in rng.integers(len(y), size=(500, len(y))) if 0 < y[i].sum() < len(y)]
    return (roc_auc_score(y, score), *np.quantile([roc_auc_score(y[i], score[i]) for i in some], (0.05, 0.95)))


def main(flights: int, jobs: int, out: Path, again: bool) -> pd.DataFrame:
    kept = out / f'landing_truth_{flights}.npz'
    if again and kept.exists():
        with np.load(kept) as f:
            X, what = f['X'], pd.DataFrame({n: f[n] for n in f.files if n != 'X'})
    else:
        with ProcessPoolExecutor(jobs) as pool:
            rows = list(pool.map(look, range(flights), chunksize=10))
        X, what = np.array([r[0] for r in rows]), pd.DataFrame([r[1] for r in rows])
        out.mkdir(parents=True, exist_ok=True)
        np.savez(kept, X=X, **{n: what[n].to_numpy(str if n == 'outcome' else None) for n in what})
    X = X[:, np.ptp(X, 0) > 1e-9]
    print(f'{len(X)} flights, {X.shape[1]} numbers a flight: {what["outcome"].value_counts().to_dict()}', flush=True)
    table = []
    for name in PERTURBATIONS:
        y = what[name].to_numpy(bool)
        a, low, high = auroc(X, y)
        verdict = ('met' if LOW <= a <= HIGH else 'MISSED') if name in SEEN else ''
        table.append((name, int(y.sum()), a, low, high, verdict))
        print(f'{name:16} {y.sum():4} flights  {a:.3f}  ({low:.3f} to {high:.3f})  {verdict}', flush=True)
    touched = what.dropna(subset=['sink'])
    r = touched['sink'].corr(touched['g_nrml'])
    landed = touched[touched['outcome'] == 'landed']
    verdict = 'met' if r >= CORRELATION else 'MISSED'
    print(
        f'sink and g_nrml, {len(touched)} touchdowns: {r:.3f} {verdict} (landed {landed["sink"].corr(landed["g_nrml"]):.3f}, '
        f'up to {touched["sink"].max():.1f} m/s and {touched["g_nrml"].max():.1f} g)'
    )
    table.append(('sink and g_nrml', len(touched), r, np.nan, np.nan, verdict))
    return pd.DataFrame(table, columns=['name', 'flights', 'value', 'low', 'high', 'verdict'])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--flights', type=int, default=600)
    parser.add_argument('--jobs', type=int, default=2, help='processes that fly')
    parser.add_argument('--out', type=Path, default=Path('runs/landing_truth'), help='folder of the table')
    parser.add_argument('--again', action='store_true', help='judge the flights that the last call left there')
    args = parser.parse_args()
    table = main(args.flights, args.jobs, args.out, args.again)
    table.to_csv(args.out / 'landing_truth.csv', index=False)
    raise SystemExit(int((table['verdict'] == 'MISSED').any()))
