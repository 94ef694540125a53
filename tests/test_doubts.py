"""Doubts of answers: which broken assumptions of planted data an answer names, in prints, results and files."""

import numpy as np
import pandas as pd
import pytest

from srlviz.core.doubts import MATTERS, find_doubts, measure_signs, stress_table
from srlviz.core.questions import Answer, hint_words
from srlviz.core.recordings import Recording, align
from srlviz.data.planted import Plan, planted, turn
from srlviz.evaluate.ask import ask
from srlviz.evaluate.questions.mcc import MeanCorrelation
from srlviz.evaluate.questions.factor_regression import MutualInformationGap
from srlviz.evaluate.questions.rank import Rank
from srlviz.studies.matrix.stress import CLAIMS, bias_table, stress_trial


def codes_of(recording):
    return [episode.obs['codes'] for episode in recording]


@pytest.fixture(scope='module')
def correlated():
    recording = planted(turn('correlated', 5), seed=7)
    return recording, MutualInformationGap().ask(codes_of(recording), recording, seed=0, progress=False)


def test_an_answer_says_what_its_data_break(correlated):
    recording, answer = correlated
    (words,) = answer.doubts()
    assert 'correlated' in words and 'Mutual information gap' in words and '−' in words
    assert f'doubt: {words}' in repr(answer).split('\n')
    assert words in hint_words(answer)
    clean = planted(Plan(), seed=7)
    assert MutualInformationGap().ask(codes_of(clean), clean, progress=False).doubts() == []
    assert Rank().ask(codes_of(recording), recording, progress=False).doubts() == []  # the study does not ask it


def test_a_saved_answer_keeps_its_doubts_and_one_without_signs_has_none(correlated, tmp_path):
    answer = correlated[1]
    assert Answer.load(answer.save(tmp_path / 'a.npz')).doubts() == answer.doubts()
    assert Answer.load(answer.save(tmp_path / 'b.npz', items=False)).doubts() == answer.doubts()
    about = {k: v for k, v in answer.about.items() if k != 'signs'}
    old = type(answer)(answer.question, answer.truth, answer.predicted, answer.parts, about)
    assert old.doubts() == []
    for wrong in {'rotated': 1.0}, {'correlated': 'much'}, [0.5]:
        old.about['signs'] = wrong
        with pytest.raises(ValueError, match='signs'):
            Answer.load(old.save(tmp_path / 'c.npz'))


def test_results_name_doubts_in_one_line(correlated):
    recording, _ = correlated
    results = ask(codes_of(recording), recording, [MutualInformationGap(), MeanCorrelation()], progress=False)
    (line,) = [line for line in repr(results).split('\n') if 'doubts:' in line]
    assert 'correlated (Mutual information gap −' in line
    assert 'doubts' not in results.to_latex() and 'doubts' not in str(results.warnings)


def test_a_violation_is_named_and_clean_data_raise_no_alarm():
    "All cases: benchmarks/measure_doubts.py"
    broken = dict(correlated='infomec', duplicated='mcc', autocorrelated='infomec', outlier='qedr')
    broken |= {'heavy tails': 'regression', 'few rows': 'mig', 'rare class': 'probe'}
    for dial, question in broken.items():
        recording = planted(turn(dial, 4 if dial != 'rare class' else 3), seed=11)
        signs = measure_signs(*align(codes_of(recording), recording))
        assert dial in [doubt.dial for doubt in find_doubts(signs, question)], dial
    for seed in range(20, 25):
        recording = planted(seed=seed)
        signs = measure_signs(*align(codes_of(recording), recording))
        assert [doubt for question in CLAIMS for doubt in find_doubts(signs, question)] == []


def signs_of(z, codes, episode, **split):
    factors = {f'f{i}': column for i, column in enumerate(z.T)}
    recording = Recording.from_arrays(dict(codes=codes), episode=episode, factors=factors)
    recording = recording.with_split(0, **(split or dict(probe=0.6, test=0.4)))
    return measure_signs(*align(codes_of(recording), recording))


def made(n_episodes=30, steps=100, seed=0):
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_episodes * steps, 4))
    return rng, z, z + 0.3 * rng.normal(size=z.shape), np.repeat(np.arange(n_episodes), steps)


@pytest.mark.parametrize('row', [5, 2999])
def test_one_wrong_row_of_any_split_is_an_outlier_and_not_a_copy(row):
    rng, z, codes, episode = made()
    wrong = z.copy()
    wrong[row] = 1e4
    signs = signs_of(wrong, codes, episode)
    assert signs['duplicated'] == 0 and signs['correlated'] < 0.1 and signs['factor outlier'] > 100
    assert 'factor outlier' in [doubt.dial for doubt in find_doubts(signs, 'mcc')]
    codes = codes.copy()
    codes[row, 2] = 1e4  # one of four codes
    assert signs_of(z, codes, episode)['outlier'] > 100


def test_a_missing_value_of_one_factor_hides_no_outlier_of_another():
    rng, z, codes, episode = made()
    index = pd.MultiIndex.from_arrays([episode, np.arange(len(z))], names=['episode', 't'])
    table = pd.DataFrame(z, index, columns=list('abcd'))
    table.iloc[5, 0], table.iloc[9, 3] = 1e4, np.nan
    assert measure_signs(dict(probe=codes), dict(probe=table))['factor outlier'] > 100


@pytest.mark.parametrize('copy', [lambda x, rng: x + 0.05 * rng.normal(size=len(x)), lambda x, rng: np.exp(x)])
def test_a_factor_that_is_nearly_a_copy_or_a_curve_of_another_counts_as_one(copy):
    rng, z, codes, episode = made()
    signs = signs_of(np.c_[z, copy(z[:, 0], rng)], codes, episode)
    assert signs['duplicated'] == 0.2 and 'duplicated' in [d.dial for d in find_doubts(signs, 'mcc')]


@pytest.mark.parametrize('r', [0.9, 0.99, 0.999])
def test_independent_rows_are_those_that_would_know_a_mean_as_well(r):
    "The variance of the mean of 4,000 simulated recordings of 18 episodes says how many rows are independent."
    rng, n_episodes, steps = np.random.default_rng(1), 18, 100
    z = rng.normal(size=(4000 * n_episodes, steps))
    for t in range(1, steps):
        z[:, t] = r * z[:, t - 1] + np.sqrt(1 - r**2) * z[:, t]
    worth = 1 / z.reshape(4000, -1).mean(1).var()
    episode = np.repeat(np.arange(n_episodes), steps)
    found = [
        signs_of(np.c_[z[i * 72 : i * 72 + 72].reshape(4, -1).T], np.zeros((1800, 1)), episode, probe=1.0)
        for i in range(20)
    ]
    assert np.median([signs['autocorrelated'] for signs in found]) == pytest.approx(worth, rel=0.35)
    assert min(signs['autocorrelated'] for signs in found) >= n_episodes


def test_many_random_mixtures_are_named_where_a_metric_does_not_see_them():
    "MCC of 128 random mixtures is above .9; InfoM falls, and has no such doubt."
    recording = planted(turn('mixed', 5), seed=5)
    answer = MeanCorrelation().ask(codes_of(recording), recording, progress=False)
    (words,) = [words for words in answer.doubts() if 'random mixture of all factors' in words]
    assert answer.value('mcc') > 0.85 and 'MCC (Pearson) is .' in words
    (doubt,) = [doubt for doubt in answer.find_doubts() if doubt.dial == 'mixed']
    assert doubt.stays['mcc'] == pytest.approx(answer.value('mcc'), abs=0.08)
    signs = answer.about['signs']
    assert not any('infom' in doubt.stays for doubt in find_doubts(signs, 'infomec'))


def test_factors_of_the_other_kind_are_named_beside_the_scores():
    recording = planted(Plan(steps=20))
    results = ask(codes_of(recording), recording, ['mcc', 'mig'], progress=False)
    assert 'not asked: class by mcc' in repr(results)


def test_the_shipped_table_is_that_of_the_study():
    questions = ['mig', 'mcc']
    trials = [stress_trial(dial=d, level=n, questions=questions, seed=0) for d, n in (('clean', 0), ('duplicated', 5))]
    table = bias_table(pd.concat(trials, ignore_index=True)).set_index(['dial', 'level', 'metric'])
    shipped = stress_table().set_index(['dial', 'level', 'metric'])
    rows = shipped.loc[table.index]
    assert ((table['bias'] >= rows['low'] - 0.01) & (table['bias'] <= rows['high'] + 0.01)).all()
    assert np.allclose(table['sign'], rows['sign'], rtol=0.1, atol=1e-3)
    assert {*shipped['question']} == {*CLAIMS} and (shipped['n_seeds'] == 3).mean() > 0.95 and MATTERS == 0.1
