"""Test rows that also occur in training: every door says so, with the share of rows."""

import warnings

import numpy as np
import pandas as pd
import pytest
from torch import nn

import srlviz
from srlviz.core import questions as core_questions
from srlviz.core.leaks import overlapping_windows, repeated_rows
from srlviz.core.questions import load_answers, save_answers
from srlviz.core.views.coded import CodedEpisodes, with_coded_words
from srlviz.core.views.columns import take_columns
from srlviz.core.views.windows import thin, windows
from srlviz.data.importers import from_rollout
from srlviz.evaluate.ask import ask_all, code_questions
from srlviz.studies.matrix.settings import find_setting

T, B = 400, 8


def rollout(n_different: int):
    "Labels that are independent of the observations, in eight environments of which so many differ"
    rng = np.random.default_rng(0)
    observations = rng.normal(size=(T, n_different, 6)).astype(np.float32)
    labels = rng.integers(0, 3, (T, n_different))
    copies = np.arange(B) % n_different
    ended = np.zeros((T, B), bool)
    factors = dict(label=labels[:, copies])
    recording = from_rollout(observations[:, copies], truncated=ended, factors=factors)
    return recording.replace(name='rollout').with_split(probe=0.5, valid=0.2, test=0.3)


def codes_of(recording):
    return [np.asarray(e.obs['vector']) for e in recording]


@pytest.mark.parametrize('n_different', [1, B])
def test_a_probe_says_that_environments_are_equal(n_different, tmp_path):
    result = srlviz.probe({'mine': nn.Identity()}, rollout(n_different), norms=['none'], baselines=(), progress=False)
    (answer,) = result.answers.values()
    assert [w['kind'] for w in answer.warnings] == ['repeated rows'] * (n_different == 1)
    assert ('also occur in the training rows' in repr(result)) == (n_different == 1)
    assert repr(srlviz.load(result.save(tmp_path / 'probe'))) == repr(result)


def test_a_scorecard_says_that_environments_are_equal(tmp_path):
    recording = rollout(1).replace(split=[*['probe'] * 4, 'valid', *['test'] * 3])
    card = srlviz.scorecard(codes_of(recording), [recording], questions=['probe'], references=(), progress=False)
    (words,) = card.warnings.values()
    assert '100% of the test rows also occur in the training rows' in words and words in repr(card)
    assert srlviz.load(card.save(tmp_path / 'card')).warnings == card.warnings
    assert words in card.to_html(tmp_path / 'card.html').read_text()
    assert words in card.explore(widget='CrossMatrix', interactive=True).hint.value
    assert words in card.explore(interactive=True).status.value


def test_a_callback_says_that_environments_are_equal():
    probe = srlviz.ProbeCallback(rollout(1), every=1)
    with pytest.warns(UserWarning, match='100% of the test rows'):
        probe(0, nn.Linear(6, 3))
    assert probe.warnings[0]['share'] == 1
    with warnings.catch_warnings(action='error'):
        probe(1, nn.Linear(6, 3))
        srlviz.ProbeCallback(rollout(B), every=1)(0, nn.Linear(6, 3))


def test_a_table_with_a_copied_run_says_so(tmp_path):
    "The rows of one log are in the table twice, under two names."
    rng = np.random.default_rng(1)
    log = pd.DataFrame(dict(a=rng.normal(size=100), b=rng.normal(size=100), door=rng.integers(0, 2, 100)))
    table = pd.concat([log.assign(run=name) for name in 'abcdefgh'])
    table.to_csv(tmp_path / 'log.csv', index=False)
    result = srlviz.probe('raw', tmp_path / 'log.csv', episode='run', factors=['door'], baselines=(), progress=False)
    assert 'test episodes as a whole' in repr(result)


def test_windows_that_overlap_across_splits_are_named():
    by_hand = overlapping()
    assert overlapping_windows(by_hand.with_split(probe=0.5, valid=0.2, test=0.3)) == []
    question = srlviz.catalog('questions')['LinearProbe'](n_classes=None, epochs=2)
    answer = question.ask(codes_of(by_hand), by_hand, progress=False)
    assert {w['kind'] for w in answer.warnings} >= {'repeated rows', 'overlapping windows'}


def overlapping():
    "Windows that overlap, put into splits by hand"
    whole = rollout(B).replace(split=[''] * B)
    cut = windows(whole, 20, 5)
    return cut.replace(split=np.resize(['probe', 'test', 'valid'], len(cut)))


VIEWS = dict(
    itself=lambda recording: recording,
    words=lambda recording: with_coded_words(recording.replace(episodes=CodedEpisodes(recording, {'label': AS_IT_IS}))),
    thinned=lambda recording: thin(recording, 2),
    fewer_columns=lambda recording: take_columns(recording, [0, 2], 'vector'),
    picked=lambda recording: thin(recording[1:], 2)[2:],
)
AS_IT_IS = ('as it is', ())


@pytest.mark.parametrize('view', VIEWS)
def test_a_view_of_windows_is_known_to_overlap(view):
    (warning,) = overlapping_windows(VIEWS[view](overlapping()))
    assert warning['share'] > 0.9


@pytest.mark.parametrize('every', [1, 2])
def test_a_scorecard_says_that_windows_overlap(every):
    recording = overlapping()
    setting = find_setting(recording, every=every)
    moments = setting.moments(setting.data())
    codes = codes_of(recording)
    assert moments.lengths[moments.split == 'test'].sum() >= 1000
    card = srlviz.scorecard(codes, [setting], questions=['rank'], references=(), progress=False)
    (words,) = card.warnings.values()
    assert 'the rows of test windows also occur in training windows' in words and words in repr(card)


def test_a_scorecard_splits_windows_of_an_episode_to_one_side():
    cut = windows(rollout(B).replace(split=[''] * B), 20, 5)
    data = find_setting(cut).data()
    assert {*data.split} == {'fit', 'valid', 'probe', 'test'} and overlapping_windows(data) == []


def test_warnings_are_saved_with_the_answer_and_forged_ones_are_refused(tmp_path):
    recording = rollout(1)
    question = srlviz.catalog('questions')['LinearProbe'](n_classes=None, epochs=2)
    answer = question.ask(codes_of(recording), recording, progress=False)
    path = save_answers([answer], tmp_path / 'answer.npz')
    assert load_answers(path)[0].warnings == answer.warnings
    for forged in (
        ['x'],
        [dict(kind='a', words='\x1b[31m')],
        [dict(words='a')],
        'text',
        [dict(kind='a', words='b')] * 101,
    ):
        answer.about['warnings'] = forged
        with pytest.raises(ValueError, match='warning'):
            load_answers(save_answers([answer], tmp_path / 'forged.npz'))


@pytest.mark.parametrize('n_codes', [1, 3, 40])
@pytest.mark.parametrize('share', [0, 0.05, 0.3, 1])
def test_few_codes_are_compared_first_and_the_result_is_that_of_all(n_codes, share):
    rng = np.random.default_rng(n_codes)
    codes = {split: rng.normal(size=(300, n_codes)).astype(np.float32) for split in ('probe', 'test')}
    n = int(share * 300)
    codes['test'][:n] = codes['probe'][:n]
    if n_codes == 40:
        codes['test'][:, 1:] = codes['probe'][:, 1:]  # differs in the first code alone
        codes['test'][:n] = codes['probe'][:n]
    factors = {split: pd.DataFrame({'k': np.arange(300) % 7}) for split in codes}
    found = repeated_rows(codes, factors)
    assert [w['share'] for w in found] == ([share] if share >= 0.1 else []), found
    blind = {split: rows.copy() for split, rows in codes.items()}
    blind['test'][:, 0] += 1 + np.arange(300)  # no row is equal any more
    assert repeated_rows(blind, factors) == []


def test_questions_that_are_asked_together_pair_and_check_codes_once(monkeypatch):
    recording = rollout(B)
    codes = codes_of(recording)
    asked = code_questions(['probe', 'rank', 'description_length', 'neighbours'])
    alone = {name: question.ask(codes, recording, progress=False) for name, question in asked.items()}
    calls = dict(align=0, odd_codes=0)
    for name, function in dict(align=core_questions.align, odd_codes=core_questions.odd_codes).items():

        def counted(*args, name=name, function=function, **options):
            calls[name] += 1
            return function(*args, **options)

        monkeypatch.setattr(core_questions, name, counted)
    together, reasons = ask_all(codes, recording, asked)
    assert not reasons and calls == dict(align=1, odd_codes=1)
    for name, answer in alone.items():
        assert answer.value_table().equals(together[name].value_table()), name
        assert answer.warnings == together[name].warnings and answer.truth.equals(together[name].truth), name
    asked['rank'].ask(codes, recording, progress=False)
    assert calls == dict(align=2, odd_codes=2)  # not remembered
