"""Wall time of QEDR, compared with scikit-learn in a loop over factors (and depths), alternating in one run; medians.

Codes resemble those of recurrent encoders: tanh of factors and of nuisance variables, correlated. The loop is that of
the papers' notebook: z-scores, one Lasso per factor; one RandomForestRegressor per factor and depth, with the depth of
the smallest error on 'valid'. Our lassos must agree. Our forests are scikit-learn's at a given depth, but the depth is
selected on pruned trees, which sometimes selects another one: the number of equal depths is printed.
"""

import argparse
import time

import numpy as np
import pandas as pd
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import Lasso

from srlviz.evaluate.qedr import qedr

DEPTHS = range(2, 13)
SHARES = dict(probe=0.7, valid=0.1, test=0.2)


def make_data(n: int, n_codes: int, n_factors: int, seed: int = 0):
    "Codes and factors by split: half of the factors are numbers, half are rare events; a code depends on a few factors"
    rng = np.random.default_rng(seed)
    events = (rng.random((n, n_factors // 2)) < 0.1) * rng.random((n, n_factors // 2))
    z = np.concatenate([events, rng.normal(size=(n, n_factors - n_factors // 2))], 1)
    hidden = np.concatenate([z / z.std(0), rng.normal(size=(n, n_codes // 2))], 1)
    mixing = rng.normal(size=(hidden.shape[1], n_codes)) * (rng.random((hidden.shape[1], n_codes)) < 0.3)
    codes = np.tanh(0.35 * hidden @ mixing + 0.2 * rng.normal(size=(n, n_codes))).astype(np.float32)
    ends = np.cumsum([round(n * share) for share in SHARES.values()])[:-1]
    names = [f'factor {j}' for j in range(n_factors)]
    tables = [pd.DataFrame(part, columns=names) for part in np.split(z, ends)]
    return dict(zip(SHARES, np.split(codes, ends))), dict(zip(SHARES, tables))


def standardize(codes, factors):
    "z-scores of codes and factors, with means and deviations of 'probe'"
    x, y = ({s: np.ascontiguousarray(a, np.float64) for s, a in m.items()} for m in (codes, factors))
    return ({s: (a - m['probe'].mean(0)) / m['probe'].std(0) for s, a in m.items()} for m in (x, y))


def scores(R, errors) -> tuple[np.ndarray, np.ndarray]:
    "D, C and I from the importance and the normalised errors of the test rows, and the importance"
    order = lambda P: 1 + (P * np.log(np.where(P > 0, P, 1))).sum(1) / np.log(P.shape[1])
    used = R.sum(1) > 0
    D = order(R[used] / R[used].sum(1, keepdims=True)) @ (R[used].sum(1) / R.sum())
    return np.array([D, order(R.T / R.T.sum(1, keepdims=True)).mean(), np.mean(errors)]), R


def lasso_loop(codes, factors):
    x, y = standardize(codes, factors)
    models = [Lasso(alpha=0.02).fit(x['probe'], column) for column in y['probe'].T]
    errors = [((m.predict(x['test']) - t) ** 2).mean() ** 0.5 / t.std() for m, t in zip(models, y['test'].T)]
    return scores(np.abs([m.coef_ for m in models]).T, errors)


def forest_loop(codes, factors):
    x, y = standardize(codes, factors)
    importance, errors = [], []
    for j in range(y['probe'].shape[1]):
        grow = lambda depth: RandomForestRegressor(10, max_depth=depth, random_state=0, n_jobs=-1)
        forests = [grow(depth).fit(x['probe'], y['probe'][:, j]) for depth in DEPTHS]
        best = min(forests, key=lambda f: ((f.predict(x['valid']) - y['valid'][:, j]) ** 2).mean())
        importance.append(best.feature_importances_)
        errors.append(((best.predict(x['test']) - y['test'][:, j]) ** 2).mean() ** 0.5 / y['test'][:, j].std())
    return scores(np.array(importance).T, errors)


def ours(codes, factors, regressor):
    result = qedr(codes, factors, regressor, progress=False, permuted=False)
    overall = [result.disentanglement.overall, result.completeness.overall, result.informativeness.overall]
    return np.array(overall), result.importance.to_numpy()


def compare(name: str, loop, question, rounds: int, limit: float):
    "Run both alternately; print seconds and scores"
    seconds, results = {'ours': [], 'loop': []}, {}
    for _ in range(rounds):
        for form, run in ('ours', lambda: ours(*question, name)), ('loop', lambda: loop(*question)):
            start = time.perf_counter()
            results[form] = run()
            seconds[form].append(time.perf_counter() - start)
    a, b = (np.median(seconds[form]) for form in ('ours', 'loop'))
    ratio = np.median(np.divide(seconds['loop'], seconds['ours']))
    (our_scores, R), (loop_scores, R_loop) = results['ours'], results['loop']
    same = np.isclose(R, R_loop, atol=1e-9).all(0)
    print(
        f"{name}: ours {a:.2f} s (limit {limit:g} s), scikit-learn's loop {b:.2f} s; {ratio:.1f}x, median of {rounds}; "
        f"D, C, I {our_scores.round(4)} and {loop_scores.round(4)}, "
        f"difference at most {np.abs(our_scores - loop_scores).max():.1e}; importance "
        f"the same for {same.sum()} of {len(same)} factors"
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--only', choices=['lasso', 'forest', 'wide'], nargs='*', default=['lasso', 'forest', 'wide'])
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    flights, wide = (2000, 64, 12), (50_000, 256, 30)
    if args.smoke:
        args.rounds, flights, wide = 1, (200, 8, 4), (400, 16, 4)
    flights = make_data(*flights)
    if 'lasso' in args.only:
        compare('lasso', lasso_loop, flights, args.rounds, 2)
    if 'forest' in args.only:
        compare('forest', forest_loop, flights, max(args.rounds // 2, 1), 20)
    if 'wide' in args.only:
        compare('lasso', lasso_loop, make_data(*wide), max(args.rounds // 2, 1), 30)
