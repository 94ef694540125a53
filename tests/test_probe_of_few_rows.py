"""A probe of few rows converges: it scores as logistic regression does, whatever weights were drawn first."""

import numpy as np, pandas as pd, pytest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.preprocessing import StandardScaler

from srlviz.evaluate.probe import linear_probe, unconverged_words, ways_to_converge
from srlviz.evaluate.questions.linear_probe import LinearProbe


def drifting(n_episodes: dict, steps: int, n_codes: int, n_classes: int, seed: int):
    "Codes and classes of a state that drifts within episodes"
    rng = np.random.default_rng(seed)
    A, W = rng.normal(size=(6, n_codes)), rng.normal(size=(6, n_classes))
    codes, factors = {}, {}
    for split, n in n_episodes.items():
        parts, classes = [], []
        for _ in range(n):
            z = rng.normal(size=6) + np.cumsum(0.2 * rng.normal(size=(steps, 6)), 0)
            parts.append(np.tanh(z @ A / 6**0.5) + 0.1 * rng.normal(size=(steps, n_codes)))
            classes.append((z @ W).argmax(1))
        index = pd.MultiIndex.from_product([range(n), range(steps)], names=['episode', 't'])
        codes[split] = np.concatenate(parts).astype(np.float32)
        factors[split] = pd.DataFrame({'y': np.concatenate(classes)}, index)
    return codes, factors


def probed(codes, factors, **arguments):
    return linear_probe(codes, factors, **LinearProbe.defaults | arguments, progress=False)


def logistic_f1(codes, factors, C: float) -> float:
    scaler = StandardScaler().fit(codes['probe'])
    model = LogisticRegression(C=C, max_iter=5000).fit(scaler.transform(codes['probe']), factors['probe']['y'])
    return f1_score(factors['test']['y'], model.predict(scaler.transform(codes['test'])), average='weighted')


@pytest.mark.parametrize('n_codes, data_seed', [(256, 2), (64, 1), (64, 4), (64, 7)])
def test_few_rows_score_as_logistic_regression(n_codes, data_seed):
    codes, factors = drifting(dict(probe=12, valid=2, test=60), 29, n_codes, 6, data_seed)
    right = [logistic_f1(codes, factors, C) for C in (1, 1000)]
    found = [probed(codes, factors, seed=seed).value("f1") for seed in range(2)]
    assert min(right) - 0.03 < min(found) and max(found) < max(right) + 0.05, (right, found)


def test_many_rows_pass_once_an_epoch_and_the_paper_always_does():
    codes, factors = drifting(dict(probe=21, valid=2, test=2), 100, 4, 3, 0)
    many = probed(codes, factors, epochs=3).history_
    assert len(many) == 3 and many['lr'].eq(0.01).all()
    few = {s: c[:500] for s, c in codes.items()}, {s: t[:500] for s, t in factors.items()}
    paper = linear_probe(*few, n_classes=None, lr=0.01, epochs=60, progress=False).history_
    fixed = probed(*few, epochs=60).history_
    assert fixed['lr'][:11].eq(0.01).all() and fixed['loss'][1] < paper['loss'][1] / 1.2


def test_what_is_tried_is_not_in_force_yet_and_helps():
    rng = np.random.default_rng(0)
    codes = {s: rng.normal(size=(n, 6)).astype(np.float32) for s, n in dict(probe=2500, valid=500, test=500).items()}
    factors = {s: pd.DataFrame({'y': (x[:, :3] + rng.gumbel(size=(len(x), 3))).argmax(1)}) for s, x in codes.items()}
    short = probed(codes, factors, lr=1e-3, epochs=3)
    assert ways_to_converge(short) == ['lr=0.01', 'epochs=6']
    assert unconverged_words(short) == '1 of 1 variables have not converged: try lr=0.01, epochs=6'
    better = probed(codes, factors, lr=0.01, epochs=6)
    assert better.convergence['converged'].all() and ways_to_converge(better) == [] and not unconverged_words(better)
    drawn = dict(factors, valid=factors['valid'].sample(frac=1, random_state=0))
    stopped = probed(codes, drawn, lr=0.1)  # the loss on 'valid' is lowest at first: patience is of no use
    assert stopped.convergence['epochs'].max() < 100
    assert ways_to_converge(stopped) == ["more rows in 'valid', whose loss has risen"]
    of_paper = linear_probe(codes, factors, n_classes=None, lr=1e-5, progress=False)
    assert ways_to_converge(of_paper)[:3] == ["norm='standardize'", "protocol='fixed'", 'lr=0.01']
