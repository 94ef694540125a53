"""CPU time of questions to codes, compared with a loop over scikit-learn's estimators, one factor at a time.

Codes of normal numbers mix the factors and noise; half of the factors are floats, half integers of eight classes. The
splits 'valid' and 'test' have a fifth of the rows of 'probe'. One thread, CPU time, interleaved, medians over rounds.

The loops are timed on a few factors and multiplied, as their time is proportional to the number of factors. They choose
among the same nine strengths on 'valid': Ridge and RidgeClassifier per factor and strength, MLPRegressor per factor.
Differences: ours classifies by discriminant analysis, and trains one network with shared layers for all factors.

The loop of the description length is that of the reference (https://github.com/lena-voita/description-length-probing,
control_tasks at commit 2696af0), with its linear probe, rewritten for the same arrays, order of rows and portions.
Differences: the reference adds nats of the predicted rows to bits of the first portion, here all are bits; its probe
has no prior, and is trained by Adam in batches. The loop of the rank is a singular value decomposition. The loop of
rewards and actions is LogisticRegression and Ridge for each target and strength, on the planted factors instead of
rewards and actions.

The controls of selectivity are random labels of types of input, as in control_tasks (Hewitt & Liang 2019,
https://github.com/john-hewitt/control-tasks), and the factor of another episode at the same step.

A new question needs a function of (codes, factors) that does the same with scikit-learn, and a line in QUESTIONS. It
returns the metrics that can be compared.
"""

import argparse
import time
import warnings

import numpy as np
import pandas as pd
import torch
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.metrics import log_loss
from sklearn.neural_network import MLPRegressor
from sklearn.preprocessing import StandardScaler
from torch import nn

from srlviz.core.bootstrap import Draws
from srlviz.core.training import threads
from srlviz.evaluate.prediction.heads import standardized
from srlviz.core.questions import is_number
from srlviz.evaluate.prediction.linear import STRENGTHS, constants, skills
from srlviz.evaluate.questions.description_length import DescriptionLength, as_classes, order_of_rows, portion_ends
from srlviz.evaluate.questions.rank import Rank
from srlviz.evaluate.questions.regression import Regression
from srlviz.evaluate.questions.reward_action import RewardAction
from srlviz.evaluate.questions.selectivity import Selectivity, clock_codes, input_types, partners, random_labels
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


def skill_of(truth: pd.Series, predicted: np.ndarray, train: pd.Series) -> float:
    "Skill of one factor; `train` are its training rows"
    draws = Draws.whole(np.zeros(len(truth), int))
    tables = truth.to_frame('factor'), pd.DataFrame(dict(factor=predicted))
    return float(skills(*tables, draws, constants(train.to_frame('factor')))['factor'].iloc[0])


def ridge_loop(codes: dict, factors: dict, tested: str = 'test') -> pd.Series:
    "Skill of each factor by scikit-learn: scale, fit every strength, choose on 'valid', predict"
    skill = {}
    for name in factors['probe']:
        scaler = StandardScaler().fit(codes['probe'])
        estimator = Ridge if is_number(factors['probe'][name]) else RidgeClassifier
        best = None
        for alpha in STRENGTHS:
            model = estimator(alpha=alpha).fit(scaler.transform(codes['probe']), factors['probe'][name])
            score = model.score(scaler.transform(codes['valid']), factors['valid'][name])
            if best is None or score > best[0]:
                best = score, model
        skill[name] = skill_of(
            factors[tested][name], best[1].predict(scaler.transform(codes[tested])), factors['probe'][name]
        )
    return pd.Series(skill)


def selectivity_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    control = {s: table.iloc[partners(table.index)].set_axis(table.index) for s, table in factors.items()}
    clock = {s: clock_codes(table.index.get_level_values('t').to_numpy(), 99) for s, table in factors.items()}
    types = dict(zip(('probe', 'test'), input_types(factors['probe'], factors['test'])))
    types['valid'] = input_types(factors['probe'], factors['valid'])[1]
    labels = random_labels(factors['probe'], 1 + max(numbers.max() for numbers in types.values()))
    random = {s: labels.iloc[numbers] for s, numbers in types.items()}
    skill = ridge_loop(codes, factors)
    return dict(
        skill=skill,
        selectivity=skill - ridge_loop(codes, random).clip(lower=0),
        beyond_episode=skill - ridge_loop(codes, control),
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
        mlp[name] = skill_of(factors['test'][name], predicted, y)
    return dict(r2_linear=ridge_loop(codes, factors), r2_mlp=pd.Series(mlp))


def shift_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    return dict(skill_shifted=ridge_loop(codes, factors, 'shifted'))


class TwoLinearLayers(nn.Sequential):
    "The reference's linear probe of rank 1000"

    def __init__(self, n_codes: int, n_values: int):
        super().__init__(nn.Linear(n_codes, 1000), nn.Linear(1000, n_values))

    def fit(self, x, y, x_valid, y_valid, epochs=40, batch_size=500, sentence=25):
        "Train until the loss on 'valid' (nats of a sentence) stops to fall by .001 for more than 4 epochs"
        adam = torch.optim.Adam(self.parameters(), lr=1e-3)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(adam, factor=0.5, patience=0)
        best, best_epoch, weights = np.inf, -1, None
        for epoch in range(epochs):
            for rows in torch.arange(len(x)).split(batch_size):
                loss = nn.functional.cross_entropy(self(x[rows]), y[rows], reduction='sum') / (len(rows) / sentence)
                adam.zero_grad()
                loss.backward()
                adam.step()
            with torch.no_grad():
                loss = float(nn.functional.cross_entropy(self(x_valid), y_valid)) * sentence
            plateau.step(loss)
            if loss < best - 0.001:
                best, best_epoch = loss, epoch
                weights = {name: w.clone() for name, w in self.state_dict().items()}
            elif best_epoch < epoch - 4:
                break
        self.load_state_dict(weights)


def description_length_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    "Bits per row of each factor by one probe for each factor and portion"
    torch.manual_seed(0)
    order = order_of_rows(factors['probe'].index)
    x = {s: torch.from_numpy(rows) for s, rows in standardized(codes).items()}
    ends, bits = portion_ends(len(order)), {}
    for name in factors['probe']:
        classes, valid, values = as_classes(factors['probe'][name], factors['valid'][name])
        sent, y, y_valid = x['probe'][order], torch.from_numpy(classes[order]), torch.from_numpy(valid)
        total = ends[0] * np.log2(len(values))
        for start, end in zip(ends, ends[1:]):
            probe = TwoLinearLayers(sent.shape[1], len(values))
            probe.fit(sent[:start], y[:start], x['valid'][y_valid >= 0], y_valid[y_valid >= 0])
            with torch.no_grad():
                nats = nn.functional.cross_entropy(probe(sent[start:end]), y[start:end], reduction='sum')
            total += float(nats) / np.log(2)
        bits[name] = total / len(order)
    return dict(bits_per_row=pd.Series(bits))


def rank_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    x = codes['test'].astype(np.float64)
    p = np.linalg.svd(x, compute_uv=False)
    p = p / p.sum() + 1e-7
    eigenvalues = np.linalg.eigvalsh(np.cov(x.T))
    rank = dict(
        effective_rank=np.exp(-(p * np.log(p)).sum()),
        participation_ratio=eigenvalues.sum() ** 2 / (eigenvalues**2).sum(),
    )
    return {name: pd.Series({'mean': value}) for name, value in rank.items()}


def reward_action_loop(codes: dict, factors: dict) -> dict[str, pd.Series]:
    "Skill of each target: scale, fit every strength, choose the lowest loss on 'valid', predict"
    scaler, n, skill = StandardScaler().fit(codes['probe']), len(codes['probe']), {}
    x = {s: scaler.transform(rows) for s, rows in codes.items()}
    for name in factors['probe']:
        best = None
        for strength in (1e-5, 1e-3, 1e-1):
            if is_number(factors['probe'][name]):
                model = Ridge(alpha=strength * n).fit(x['probe'], factors['probe'][name])
                loss = -model.score(x['valid'], factors['valid'][name])
            else:
                model = LogisticRegression(C=1 / (strength * n), max_iter=300).fit(x['probe'], factors['probe'][name])
                loss = log_loss(factors['valid'][name], model.predict_proba(x['valid']), labels=model.classes_)
            if best is None or loss < best[0]:
                best = loss, model
        skill[name] = skill_of(factors['test'][name], best[1].predict(x['test']), factors['probe'][name])
    return dict(skill=pd.Series(skill))


QUESTIONS = {
    'selectivity': (Selectivity(), selectivity_loop),
    'regression': (Regression(), regression_loop),
    'shift': (Shift(), shift_loop),
    'description_length': (DescriptionLength(), description_length_loop),
    'rank': (Rank(), rank_loop),
    'reward_action': (RewardAction(), reward_action_loop),
}


def measure(name: str, codes: dict, factors: dict, few: int, rounds: int) -> None:
    "Print the CPU seconds of a question and of its loop, and the largest difference of a metric"
    question, loop = QUESTIONS[name]
    n_factors = factors['probe'].shape[1]
    few_factors = {s: table.iloc[:, :few] for s, table in factors.items()}
    kinds = dict.fromkeys(factors['probe'], 'continuous') if question.reads == 'numbers' else None  # as the loops do
    times = []
    for _ in range(rounds):
        start = time.process_time()
        answer = question.answer(codes, factors, kinds=kinds, progress=False)
        end = time.process_time()
        reference = loop(codes, few_factors)
        times.append((end - start, (time.process_time() - end) * n_factors / few))
    ours, loop_seconds = np.median(times, axis=0)
    ratio = np.median([b / a for a, b in times])
    agreement = []
    for metric, values in reference.items():
        difference = (answer.values(metric)[values.index] - values).round(3)
        agreement.append(f'{metric} {difference.min():+.3f} to {difference.max():+.3f}')
    print(
        f"{name}: ours {ours:.2f} s, scikit-learn {loop_seconds:.0f} s ({few} of {n_factors} factors timed), "
        f"{ratio:.0f}x; ours - scikit-learn: {', '.join(agreement)}",
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
