"""Questions to codes: CPU time, compared with a loop over scikit-learn's estimators, one factor at a time.

Codes of normal numbers mix the factors and noise; half of the factors are floats, half integers of eight classes. The
splits 'valid' and 'test' have a fifth of the rows of 'probe'. One thread, CPU time, interleaved, medians over rounds.

The loops are timed on a few factors and multiplied, as their time is proportional to the number of factors. They choose
among the same seven strengths on 'valid': Ridge and RidgeClassifier per factor and strength, MLPRegressor per factor.
Differences: ours classifies by discriminant analysis, and trains one network with shared layers for all factors.

A new question needs a function of (codes, factors) that does the same with scikit-learn, and a line in QUESTIONS. It
returns the metrics that can be compared.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
from sklearn.linear_model import Ridge, RidgeClassifier
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler

from srlviz.core.bootstrap import Draws
from srlviz.core.training import threads
from srlviz.evaluate.prediction.linear import ALPHAS, is_ordered, skills
from srlviz.evaluate.questions.regression import Regression
from srlviz.evaluate.questions.selectivity import Selectivity, clock_codes, partners
from srlviz.evaluate.questions.shift import Shift


def planted(n_codes: int, n_factors: int, n_rows: int) -> tuple[dict, dict]:
    "Codes and factors by split; every second factor is an integer"
    rng = np.random.default_rng(0)
    mixing = 0.3 * rng.normal(size=(n_factors, n_codes))
    codes, factors, first = {}, {}, 0
    for split, n in dict(probe=n_rows, valid=n_rows // 5, test=n_rows // 5, shifted=n_rows // 5).items():
        z = rng.normal(size=(n, n_factors))
        codes[split] = (z @ mixing + rng.normal(size=(n, n_codes))).astype(np.float32)
        columns = {}
        for i in range(n_factors):
            columns[f'factor {i}'] = z[:, i] if i % 2 else np.clip(np.floor(2 * z[:, i] + 4), 0, 7).astype(int)
        episode, t = np.divmod(np.arange(n), 100)
        index = pd.MultiIndex.from_arrays([first + episode, t], names=['episode', 't'])
        factors[split] = pd.DataFrame(columns, index)
        first += episode[-1] + 1
    return codes, factors


def skill_of(truth: pd.Series, predicted: np.ndarray) -> float:
    "Skill of one factor"
    once = Draws.whole(np.zeros(len(truth), int))
    return float(skills(truth.to_frame('factor'), pd.DataFrame(dict(factor=predicted)), once)['factor'].iloc[0])


def ridge_loop(codes: dict, factors: dict, tested: str = 'test') -> pd.Series:
    "Skill of each factor by scikit-learn: scale, fit every strength, choose on 'valid', predict"
    skill = {}
    for name in factors['probe']:
        scaler = StandardScaler().fit(codes['probe'])
        estimator = Ridge if is_ordered(factors['probe'][name]) else RidgeClassifier
        best = None
        for alpha in ALPHAS:
            model = estimator(alpha=alpha).fit(scaler.transform(codes['probe']), factors['probe'][name])
            score = model.score(scaler.transform(codes['valid']), factors['valid'][name])
            if best is None or score > best[0]:
                best = score, model
        skill[name] = skill_of(factors[tested][name], best[1].predict(scaler.transform(codes[tested])))
    return pd.Series(skill)


def selectivity_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    control = {s: table.iloc[partners(table.index)].set_axis(table.index) for s, table in factors.items()}
    clock = {s: clock_codes(table.index.get_level_values('t').to_numpy(), 99) for s, table in factors.items()}
    skill = ridge_loop(codes, factors)
    return dict(
        skill=skill,
        selectivity=skill - ridge_loop(codes, control),
        beyond_clock=skill - ridge_loop(clock, factors),
    )


def regression_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    factors = {s: table.astype(float) for s, table in factors.items()}
    scaler = StandardScaler().fit(codes['probe'])
    question, mlp = Regression(), {}
    for name in factors['probe']:
        y = factors['probe'][name]
        network = MLPRegressor(
            hidden_layer_sizes=(question.n_hidden, question.n_hidden),
            batch_size=min(512, len(y)),
            max_iter=question.epochs,
            n_iter_no_change=question.patience,
            early_stopping=True,
            learning_rate_init=3e-3,
            random_state=0,
        )
        network.fit(scaler.transform(codes['probe']), (y - y.mean()) / y.std())
        predicted = network.predict(scaler.transform(codes['test'])) * y.std() + y.mean()
        mlp[name] = skill_of(factors['test'][name], predicted)
    return dict(r2_linear=ridge_loop(codes, factors), r2_mlp=pd.Series(mlp))


def shift_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    return dict(skill_shifted=ridge_loop(codes, factors, 'shifted'))


QUESTIONS = {
    'selectivity': (Selectivity(), selectivity_loop),
    'regression': (Regression(), regression_loop),
    'shift': (Shift(), shift_loop),
}


def measure(name: str, codes: dict, factors: dict, few: int, rounds: int) -> None:
    "Print the CPU seconds of a question and of its loop, and the largest difference of a metric"
    question, loop = QUESTIONS[name]
    n_factors = factors['probe'].shape[1]
    some = {s: table.iloc[:, :few] for s, table in factors.items()}
    times = []
    for _ in range(rounds):
        start = time.process_time()
        answer = question.answer(codes, factors, progress=False)
        middle = time.process_time()
        reference = loop(codes, some)
        times.append((middle - start, (time.process_time() - middle) * n_factors / few))
    ours, theirs = np.median(times, axis=0)
    ratio = np.median([b / a for a, b in times])
    agreement = []
    for metric, values in reference.items():
        difference = (answer.values(metric)[values.index] - values).round(3)
        agreement.append(f'{metric} {difference.min():+.3f} to {difference.max():+.3f}')
    print(
        f"{name}: ours {ours:.2f} s, scikit-learn {theirs:.0f} s ({few} of {n_factors} factors timed), {ratio:.0f}x; "
        f"ours - theirs: {', '.join(agreement)}",
        flush=True,
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--question', nargs='*', default=[*QUESTIONS])
    parser.add_argument('--codes', type=int, default=256)
    parser.add_argument('--factors', type=int, default=30)
    parser.add_argument('--rows', type=int, default=50_000)
    parser.add_argument('--few', type=int, default=2, help='factors on which the loop is timed; an even number')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.codes, args.factors, args.rows, args.rounds = 8, 2, 1000, 1
    warnings.filterwarnings('ignore', category=UserWarning)  # networks that have not converged
    codes, factors = planted(args.codes, args.factors, args.rows)
    with threads(1):
        for name in args.question:
            measure(name, codes, factors, args.few, args.rounds)
