"""Doubts of answers: which broken assumptions of planted data an answer names, in prints, results and files."""

import numpy as np
import pandas as pd
import pytest

from srlviz.core.doubts import MATTERS, find_doubts, measure_signs, stress_table
from srlviz.core.questions import Answer, hint_words
from srlviz.core.recordings import align
from srlviz.data.planted import Plan, planted, turn
from srlviz.evaluate.ask import ask
from srlviz.evaluate.questions.mcc import MeanCorrelation
from srlviz.evaluate.questions.qedr import MutualInformationGap
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


def test_the_shipped_table_is_that_of_the_study():
    questions = ['mig', 'mcc']
    trials = [stress_trial(dial=d, level=n, questions=questions, seed=0) for d, n in (('clean', 0), ('duplicated', 5))]
    table = bias_table(pd.concat(trials, ignore_index=True)).set_index(['dial', 'level', 'metric'])
    shipped = stress_table().set_index(['dial', 'level', 'metric'])
    rows = shipped.loc[table.index]
    assert ((table['bias'] >= rows['low'] - 0.01) & (table['bias'] <= rows['high'] + 0.01)).all()
    assert np.allclose(table['sign'], rows['sign'], rtol=0.1, atol=1e-3)
    assert {*shipped['question']} == {*CLAIMS} and (shipped['n_seeds'] == 3).mean() > 0.95 and MATTERS == 0.1
