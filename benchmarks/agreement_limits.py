"""What the mean agreement of worlds in the shipped matrix can show: leaving a world out, and simulated matrices.

    python benchmarks/agreement_limits.py [--smoke]

A simulated matrix has the shipped one's worlds, questions, representations and empty cells. Its scores are normal
numbers: what all questions of a world share, plus what is a question's own, so that two questions correlate as in the
shipped matrix. What is shared correlates between worlds by a known true rank correlation. The interval holds the true
correlations under which the shipped mean, or a smaller (larger) one, occurs in more than 2.5% of the simulations. The
ceiling is the mean under a true correlation of 1: questions that agree no better cannot show more.
"""

import argparse
from itertools import combinations

import numpy as np
import pandas as pd

from srlviz.evaluate.order import MIN_ROWS
from srlviz.studies.matrix.results import Matrix, shipped_matrix


def leaving_one_out(matrix: Matrix) -> pd.Series:
    "Mean agreement of the pairs of worlds that remain without each world"
    pairs = matrix.between_worlds().dropna(subset='value')
    return pd.Series({w: pairs[(pairs['a'] != w) & (pairs['b'] != w)]['value'].mean() for w in matrix.worlds})


def pearson(spearman: float) -> float:
    "Correlation of normal numbers whose rank correlation this is"
    return 2 * np.sin(np.pi / 6 * spearman)


def ranks(values: np.ndarray) -> np.ndarray:
    "Centred ranks along the last axis, of length 1"
    order = values.argsort(-1).argsort(-1) - (values.shape[-1] - 1) / 2
    return order / np.linalg.norm(order, axis=-1, keepdims=True)


def simulated_means(table: pd.DataFrame, between_questions: float, true: float, n: int, seed: int = 0) -> np.ndarray:
    "Mean agreement of worlds in n simulated matrices, with the empty cells of the table (representations x columns)"
    rng = np.random.default_rng(seed)
    worlds, questions = (list(table.columns.unique(level)) for level in (0, 1))
    share = pearson(between_questions)
    mixed = np.linalg.cholesky(pearson(true) + (1 - pearson(true) + 1e-9) * np.eye(len(worlds)))
    common = rng.normal(size=(n, len(worlds), 1, len(table)))
    own = rng.normal(size=(n, len(worlds), len(questions), len(table)))
    scores = np.sqrt(share) * np.einsum('vw,nwqr->nvqr', mixed, common) + np.sqrt(1 - share) * own
    means = []
    for a, b in combinations(range(len(worlds)), 2):
        values = []
        for q, question in enumerate(questions):
            if (worlds[a], question) not in table or (worlds[b], question) not in table:
                continue
            both = table[[(worlds[a], question), (worlds[b], question)]].notna().all(axis=1).to_numpy()
            if both.sum() >= MIN_ROWS:
                values.append((ranks(scores[:, a, q][:, both]) * ranks(scores[:, b, q][:, both])).sum(-1))
        if values:
            means.append(np.mean(values, axis=0))
    return np.mean(means, axis=0)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--simulations', type=int, default=4000)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    n = 40 if args.smoke else args.simulations
    matrix = shipped_matrix()
    table = matrix._compared_table()
    questions = matrix.between_questions()['value'].mean()
    observed = matrix.between_worlds()['value'].mean()
    print(f'two questions agree by {questions:.2f}, two worlds by {observed:.2f}')
    print('without ' + ', '.join(f'{world} {value:.2f}' for world, value in leaving_one_out(matrix).items()))
    compatible = []
    for true in np.linspace(-0.3, 1, 27):
        means = simulated_means(table, questions, true, n)
        lower, upper = (means <= observed).mean(), (means >= observed).mean()
        if min(lower, upper) > 0.025:
            compatible.append(true)
        print(f'true {true:5.2f}: mean {means.mean():5.2f}, at most the shipped mean in {lower:.1%}')
    print(f'compatible with a true correlation of {min(compatible):.2f} to {max(compatible):.2f}')
