"""Skill and what is built on it: its zero, factors that are one number twice, controls, a network's gain, and bits."""

from dataclasses import replace

import numpy as np, pandas as pd, pytest
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.preprocessing import StandardScaler

from srlviz.core.checks.question import toy_recording
from srlviz.core.questions import Answer
from srlviz.core.recordings import Episode, Recording
from srlviz.data.popgym import record_pomdp
from srlviz.envs.pomdp.belief import belief_columns, beliefs
from srlviz.evaluate.prediction.linear import STRENGTHS
from srlviz.evaluate.questions.belief_skill import BeliefSkill
from srlviz.evaluate.questions.description_length import DescriptionLength
from srlviz.evaluate.questions.regression import Regression
from srlviz.evaluate.questions.reward_action import RewardAction
from srlviz.evaluate.questions.selectivity import Selectivity
from srlviz.evaluate.questions.shift import Shift
from srlviz.studies.matrix.settings import find_setting


def flights(n: int = 30, steps: int = 30, seed: int = 0) -> Recording:
    "Episodes of a number, the same in other units, a class and a word; each episode has a level of its own"
    rng = np.random.default_rng(seed)
    episodes = []
    for _ in range(n):
        height = rng.normal(0, 3) + np.cumsum(rng.normal(size=steps))
        factors = dict(height=height, feet=3 * height + 1, wind=rng.normal(size=steps), floor=rng.integers(0, 3, steps))
        factors['sky'] = np.where(height > 0, 'up', 'down')
        episodes.append(Episode(dict(vector=height[:, None].astype(np.float32)), factors=factors))
    recording = Recording(episodes, name='flights')
    split = recording[: n - 6].with_split(probe=0.5, valid=0.2, test=0.3).split
    return recording.replace(split=[*split, *['shifted'] * 6])


def asked(question, codes, recording):
    kept = (recording.split != 'shifted') | (question.name == 'shift')
    rows = np.flatnonzero(kept)
    return question.ask([codes[i] for i in rows], recording[rows], progress=False)


@pytest.mark.parametrize(
    'question, metrics',
    [
        (Regression(epochs=3), ['r2_linear']),
        (Shift(), ['skill', 'skill_shifted', 'drop']),
        (Selectivity(), ['skill']),
        (RewardAction(), ['skill']),
    ],
)
def test_a_constant_code_has_skill_zero_in_every_resample(question, metrics):
    recording = toy_recording() if question.name == 'reward_action' else flights()
    answer = asked(question, [np.ones((n, 2), np.float32) for n in recording.lengths], recording)
    for metric in metrics:
        assert (answer.values(metric) == 0).all(), answer.values(metric)
        interval = answer.interval(metric, n_resamples=50)
        assert (interval[['low', 'high']].dropna() == 0).all(axis=None)


def test_the_zero_of_a_belief_is_the_mean_of_the_training_rows():
    whole = record_pomdp('MineSweeper-easy', 24, 'random', seed=3, progress=False)
    order = np.argsort([len(e) for e in whole])  # the test rows are of other lengths than those of training
    played = whole.replace(split=np.array(['probe', 'test'])[np.argsort(order) // 12])
    ones = [np.ones((len(e), 1)) for e in played]
    constant = BeliefSkill().ask(ones, played, progress=False)
    assert constant.values('belief_skill').abs().max() < 1e-9
    exact = [pd.DataFrame(belief_columns(found)) for found in beliefs(played)]
    rng = np.random.default_rng(0)
    noisy = [x.to_numpy() + rng.normal(0, 0.3, x.shape) for x in exact]
    answer = BeliefSkill().ask(noisy, played, progress=False)
    belief = {s: pd.concat([x for x, of in zip(exact, played.split) if of == s]) for s in ('probe', 'test')}
    codes = {s: np.concatenate([x for x, of in zip(noisy, played.split) if of == s]) for s in ('probe', 'test')}
    scaler = StandardScaler().fit(codes['probe'])
    head = Ridge(alpha=1.0).fit(scaler.transform(codes['probe']), belief['probe'])
    error = (head.predict(scaler.transform(codes['test'])) - belief['test']) ** 2
    of_constant = (belief['test'] - belief['probe'].mean()) ** 2
    for factor, columns in answer.parts['columns'].groupby('factor')['column']:
        right = 1 - error[[*columns]].sum().sum() / of_constant[[*columns]].sum().sum()
        assert abs(answer.values('belief_skill')[factor] - max(right, -1)) < 1e-6, factor


def test_skill_by_hand():
    "Trained on 0, 0, 3 (mean 1) and tested on 1, 2, 3, 4: the constant errs by 0, 1, 4, 9, and the head by 1 each."
    answer = Answer(
        Shift(),
        pd.DataFrame(dict(x=[1.0, 2, 3, 4], c=[0, 0, 1, 2])).rename_axis('episode'),
        pd.DataFrame(dict(x=[2.0, 3, 4, 5], c=[0, 0, 1, 1])),
        dict(shifted=np.array([False, False, True, True]), constant=pd.DataFrame(dict(x=[1.0], c=[1]))),
    )
    assert answer.values('skill').to_dict() == dict(x=1 - 2 / 1, c=1, mean=0)
    assert np.allclose(answer.values('skill_shifted')[['x', 'c']], [1 - 2 / 13, 0])


def test_a_factor_at_its_trained_constant_in_all_test_rows_has_no_number():
    truth = pd.DataFrame(dict(x=[1.0, 1.0], y=[1.0, 2.0])).rename_axis('episode')
    parts = dict(constant=pd.DataFrame(dict(x=[1.0], y=[1.0])), linear_predicted=truth)
    answer = Answer(Regression(), truth, truth, parts)
    assert np.isnan(answer.values('r2_mlp')['x']) and answer.value('r2_mlp') == 1


def test_a_number_that_stands_twice_counts_once_in_the_mean():
    recording = flights()
    codes = [e.obs['vector'] for e in recording]
    for question in Regression(epochs=3), Shift(), Selectivity():
        answer = asked(question, codes, recording)
        assert answer.about['counted_once'] == dict(feet='height'), question.name
        for metric in answer.metrics:
            values = answer.values(metric)
            counted = values.drop(['feet', 'mean'])
            assert np.isclose(values['mean'], counted.mean()), (question.name, metric)
            drawn = answer.interval(metric, n_resamples=20).set_index('target')
            assert np.isclose(drawn.loc['mean', 'value'], counted.mean())


def test_a_saved_answer_keeps_its_constant_and_its_mean(tmp_path):
    recording = flights()
    codes = [e.obs['vector'] for e in recording]
    for question in Regression(epochs=3), Shift(), Selectivity():
        answer = asked(question, codes, recording)
        loaded = Answer.load(answer.save(tmp_path / 'answer.npz'))
        for metric in answer.metrics:
            pd.testing.assert_series_equal(loaded.values(metric), answer.values(metric))
            a, b = (x.interval(metric, n_resamples=20) for x in (answer, loaded))
            pd.testing.assert_frame_equal(a, b)


@pytest.mark.parametrize('constant', [None, pd.DataFrame(dict(height=[1.0])), pd.DataFrame()])
def test_an_answer_whose_constant_is_forged_is_damaged(tmp_path, constant):
    recording = flights()
    answer = asked(Shift(), [e.obs['vector'] for e in recording], recording)
    answer.value_table()  # before the part is forged
    answer.parts['constant'] = constant
    with pytest.raises(ValueError, match='damaged'):
        Answer.load(answer.save(tmp_path / 'answer.npz'))


def test_r2_agrees_with_scikit_learn_up_to_its_denominator():
    recording = flights()
    noisy = [np.c_[e.obs['vector'], np.random.default_rng(i).normal(size=(30, 5))] for i, e in enumerate(recording)]
    answer = asked(Regression(epochs=2), noisy, recording)
    rows = {
        s: np.concatenate([noisy[i] for i in np.flatnonzero(recording.split == s)]) for s in ('probe', 'valid', 'test')
    }
    scaler = StandardScaler().fit(rows['probe'])
    x = {s: scaler.transform(values) for s, values in rows.items()}
    for name in 'height', 'wind':
        y = {s: recording[s].steps([name])[name] for s in rows}
        models = [Ridge(alpha=alpha).fit(x['probe'], y['probe']) for alpha in STRENGTHS]
        model = min(models, key=lambda m: (mean_squared_error(y['valid'], m.predict(x['valid'])), -m.alpha))
        predicted = model.predict(x['test'])
        of_mean = ((y['test'] - y['probe'].mean()) ** 2).mean()
        expected = 1 - (1 - r2_score(y['test'], predicted)) * y['test'].var(ddof=0) / of_mean
        assert abs(answer.values('r2_linear')[name] - expected) < 5e-5, name


def test_a_network_does_not_lose_to_a_line_on_the_true_state():
    "Codes that are the factors: the line is right, and a network of few epochs has nothing to add."
    setting = find_setting('RepeatPrevious-easy', n=60, condition='')
    recording = setting.data()
    recording = recording.replace(factors=[replace(f, kind='continuous', names=()) for f in recording.factors])
    names = [f.name for f in recording.factors]
    state = [np.stack([np.asarray(e.factors[k], float) for k in names], 1) for e in recording]
    gain = Regression().ask(state, recording, progress=False).values('nonlinear_gain')
    assert gain.min() > -0.02, gain
    noise = [np.random.default_rng(i).normal(size=(n, 64)) for i, n in enumerate(recording.lengths)]
    assert Regression().ask(noise, recording, progress=False).values('nonlinear_gain').min() > -0.02


def test_random_numbers_beside_a_code_cost_few_bits():
    rng = np.random.default_rng(0)
    n = 2000
    table = pd.DataFrame(dict(coin=rng.integers(0, 2, n), suit=rng.integers(0, 4, n)))
    half = {s: table for s in ('probe', 'valid')}
    random = {s: rng.normal(size=(n, 256)) for s in half}

    def bits(width, known=()):
        codes = {s: np.c_[x[:, :width], table[[*known]]] for s, x in random.items()}
        return DescriptionLength().fit(codes, half, progress=False).value('bits_per_row')

    assert bits(256) < bits(4) + 0.02
    assert bits(256, ['coin']) < bits(4, ['coin']) + 0.12


def test_random_labels_are_the_control_of_selectivity():
    "One code for each type of input memorizes any labels; a code of the factors alone does not."
    rng = np.random.default_rng(0)
    episodes = []
    for _ in range(24):
        x, y = rng.integers(0, 10, (2, 50)) / 10
        cell = np.eye(100)[(10 * x + 100 * y).round().astype(int)]
        episodes.append(Episode(dict(vector=np.c_[x, y, cell].astype(np.float32)), factors=dict(x=x, y=y)))
    recording = Recording(episodes).with_split(probe=0.5, valid=0.2, test=0.3)
    wide = Selectivity().ask([e.obs['vector'] for e in recording], recording, progress=False)
    narrow = Selectivity().ask([e.obs['vector'][:, :2] for e in recording], recording, progress=False)
    assert wide.value('skill') > 0.99 and narrow.value('skill') > 0.99
    assert wide.value('selectivity') < 0.3 and narrow.value('selectivity') > 0.8
    assert wide.value('beyond_episode') > 0.9 and 50 < wide.about['input_types'] <= 100
    few = recording.replace(episodes=[e.replace(factors=dict(x=e.factors['x'] > 0.5)) for e in recording], factors=None)
    answer = Selectivity().ask([e.obs['vector'] for e in few], few, progress=False)
    assert np.isnan(answer.value('selectivity')) and np.isfinite(answer.value('skill'))
