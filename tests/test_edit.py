"""Edits of memories: shipped agents act on what class means and standardised probes say, planted decoys do nothing."""

from copy import copy

import numpy as np
import pytest
import torch
from gymnasium import spaces

from srlviz.agents.actions import Acting
from srlviz.agents.actor_critic import memory_network
from srlviz.agents.player import load_policy
from srlviz.core.checks.question import toy_recording
from srlviz.core.files import sample_path
from srlviz.core.questions import Answer
from srlviz.data.popgym import record_pomdp
from srlviz.envs.pomdp.base import make_task
from srlviz.evaluate.memories.edits import BatchPlayer
from srlviz.evaluate.questions.edit import Edit

CARDS = ('ago_0', 'ago_1', 'ago_2', 'ago_3')


def agent(memory='GRU', task='RepeatPrevious-easy'):
    return load_policy(sample_path('agents') / f'{task}_{memory}.safetensors', greedy=True)


class WithRegister(torch.nn.Module):
    """A network whose memory also holds a register that its policy never reads.

    The last `n` cards of RepeatPrevious, and how many spades were dealt.
    """

    def __init__(self, network, n=4):
        super().__init__()
        self.network, self.policy, self.n_in, self.n = network, network.policy, network.n_in, n

    def initial_state(self, batch_size=1):
        return self.network.initial_state(batch_size), torch.zeros(batch_size, self.n, 4), torch.zeros(batch_size, 1)

    def read(self, obs):
        return torch.cat([self.network.read(obs), obs[..., :4]], -1)

    def memory(self, x, state):
        inner, cards, spades = state
        y, inner = self.network.memory(x[..., :-4], inner)
        return y, (inner, torch.cat([x[:, :, -4:], cards], 1)[:, : self.n], spades + x[:, :, -4])


class HalfAgent(torch.nn.Module):
    n_in = 10

    def initial_state(self, batch_size=1):
        return torch.zeros(batch_size, 4)

    def memory(self, x, state):
        return x, state


@pytest.fixture(scope='module')
def played():
    return record_pomdp('RepeatPrevious-easy', 1, progress=False)


@pytest.fixture(scope='module')
def small_answer():
    return Edit(('ago_0', 'remaining_0'), shifts=(0, 1), window=4, episodes=12).ask(agent())


@pytest.fixture(scope='module')
def tables():
    "Of each shipped agent a table of directions x cards for each column"
    tables = {}
    for memory in ('GRU', 'Elman'):
        answer = Edit(CARDS, shifts=(0, 1)).ask(agent(memory), seed=1)
        directions = answer.parts['directions']
        pivot = {c: directions.pivot(index='direction', columns='factor', values=c) for c in ('success', 'cosine')}
        tables[memory] = answer, pivot
    return tables


@pytest.mark.parametrize('memory', ['GRU', 'Elman'])
def test_shipped_agents_act_on_class_means_swap_and_the_standardised_probe(memory, tables):
    answer, pivot = tables[memory]
    assert (answer.parts['readable']['accuracy'] > 0.99).all()
    used = ['class means', 'subspace swap', 'standardised probe']
    assert (pivot['success'].loc[used] >= 0.97).all(axis=None)
    assert (pivot['success'].loc['random'] <= 0.03).all()
    assert pivot['cosine'].loc[used].mean(axis=1).between(0.84, 0.93).all()
    assert (answer.values('edit_others_stay') >= 0.98).all() and (answer.values('edit_success') >= 0.97).all()
    interval = answer.interval('edit_success', n_resamples=100)
    assert (interval['low'] > 0.93).all() and (interval['n'] == 150).all()
    assert (answer.parts['verdicts']['verdict'] == 'used').all()


def test_the_shortest_raw_step_and_lda_fail_in_the_gru_although_they_read_as_well(tables):
    _, pivot = tables['GRU']
    assert (pivot['success'].loc[['raw probe', 'LDA']] <= 0.03).all(axis=None)
    assert pivot['cosine'].loc['raw probe'].mean() < 0.25
    _, pivot = tables['Elman']
    assert pivot['success'].loc['LDA'].between(0.06, 0.99).all()


def test_without_a_push_nothing_changes_and_the_curve_reaches_the_table(tables):
    answer, pivot = tables['GRU']
    curve = answer.parts['curve'].set_index(['shift', 'direction', 'factor'])
    assert (curve.loc[0][['success', 'other']] == 0).all(axis=None)
    assert curve.loc[1, 'class means', 'ago_2']['success'] == pivot['success'].loc['class means', 'ago_2']


def test_a_decoy_that_the_policy_never_reads_is_known_and_unused(played):
    "The agent without a memory gets one that its policy never reads"
    answer = Edit(CARDS, episodes=100, shifts=(0, 1, 2)).ask(WithRegister(agent('MLP').network_), played)
    assert (answer.parts['readable']['skill'] == 1).all()
    assert answer.parts['curve']['success'].max() <= 0.02 and answer.value('edit_success') <= 0.02
    verdicts = answer.parts['verdicts']
    assert (verdicts['verdict'] == 'known and unused').all() and (verdicts['best_length'] >= 0.98).all()


def test_a_decoy_number_beside_a_memory_in_use(played):
    "The count of spades in the register is the best that a probe can read, and no push of it changes an action"
    question = Edit(('ago_1', 'remaining_0'), episodes=200, shifts=(0, 1, 2))
    answer = question.ask(WithRegister(agent().network_, 1), played)
    readable = answer.parts['readable'].set_index('factor')
    assert readable.loc['remaining_0', 'skill'] > 0.99
    verdicts = answer.parts['verdicts'].set_index('factor')
    assert verdicts.loc['ago_1', 'verdict'] == 'used'
    assert verdicts.loc['remaining_0', 'verdict'] == 'known and unused'
    assert verdicts.loc['remaining_0', 'follows'] > 0.9 and verdicts.loc['remaining_0', 'best_length'] > 0.98


def test_success_of_the_needed_step_and_of_a_long_push_have_two_names(tables):
    "The raw step is a fifth as long as the twin's change: beside it stand the success of both lengths"
    answer, _ = tables['GRU']
    directions = answer.parts['directions'].set_index(['factor', 'direction'])
    for row in answer.parts['verdicts'].itertuples():
        best = directions.loc[row.factor, row.direction]
        assert (row.best, row.best_length) == (best['long_success'], best['long_length'])
        assert row.floor == best['floor_success'] and row.floor_high == best['floor_success_high']
        assert row.effect == row.best - row.floor > 0.9
    assert not {'success', 'low', 'high', 'length'} & {*answer.parts['verdicts']}
    raw = directions.xs('raw probe', level='direction')
    assert (raw['length'] < 0.3).all() and (raw['long_length'] > 0.98).all()
    assert raw['success'].max() < 0.03 and raw.loc['ago_2', 'long_success'] > 0.05
    of_twin = directions.xs('random', level='direction')['success']
    assert np.allclose(answer.values('edit_floor')[:-1], of_twin)


def test_a_share_of_all_or_none_in_few_episodes_is_not_certain(small_answer):
    "Ten or six episodes that all agree: the bound of Clopper and Pearson, not 0 to 0 and 1 to 1"
    n = 6
    margin = 1 - 0.025 ** (1 / n)
    directions = small_answer.parts['directions'].set_index(['factor', 'direction'])
    twin, random = (directions.loc['ago_0', kind] for kind in ('twin', 'random'))
    assert (twin['success'], twin['success_high']) == (1, 1) and np.isclose(twin['success_low'], 1 - margin)
    assert (random['success'], random['success_low']) == (0, 0) and np.isclose(random['success_high'], margin)
    interval = small_answer.interval('edit_success').set_index('target').loc['ago_0']
    assert interval['n'] == n and interval['low'] <= 1 - margin + 1e-9
    curve = small_answer.parts['curve']
    assert np.allclose(curve.loc[curve['success'] == 0, 'success_high'], margin)


def test_the_best_of_five_directions_is_bounded_for_the_choice(tables):
    answer, _ = tables['Elman']
    verdicts = answer.parts['verdicts'].set_index('factor')
    directions = answer.parts['directions'].set_index(['factor', 'direction'])
    for name, row in verdicts.iterrows():
        low = directions.loc[(name, row['direction']), 'long_success_low']
        assert row['best_low'] < low - 0.005  # 150 episodes: .976 of one kind, .965 of the best of five


def test_verdicts_name_what_is_repeated_or_does_not_vary():
    "The answer of RepeatPrevious is the card of three steps ago; few bandits of few episodes have a worse arm"
    answer = Edit(('answer', 'ago_3'), episodes=12, shifts=(1,)).ask(agent())
    verdicts = answer.parts['verdicts'].set_index('factor')['verdict']
    assert verdicts['answer'] == answer.unscored['answer'] == 'the same as ago_3, which can be set'
    every = Edit(episodes=12, shifts=(1,)).ask(agent())
    assert 'answer' in every.unscored and any('answer' in note for note in every.notes)
    bandit = Edit(episodes=12, shifts=(1,)).ask(agent(task='MultiarmedBandit-easy'))
    factors = BatchPlayer.of(agent(task='MultiarmedBandit-easy')).play(2).records.ravel()
    known = {*BatchPlayer.of(agent(task='MultiarmedBandit-easy')).factors(factors)}
    assert known == {*bandit.parts['verdicts']['factor']} | {*bandit.unscored}
    assert 'left_out' not in bandit.about


def test_an_untrained_agent_is_said_to_use_nothing(played, tmp_path):
    network = memory_network(10, 'GRU', Acting(spaces.Discrete(4)).kind, width=32, n_hidden=32, head_layers=1)
    question = Edit(('ago_0', 'ago_1'), episodes=80, shifts=(1,))
    untrained = question.ask(network.eval(), played)
    assert not (untrained.parts['verdicts']['verdict'] == 'used').any() and untrained.value('edit_ceiling') <= 0.05
    assert any('no factor is used' in note and 'return' in note for note in untrained.notes)
    used = question.ask(agent())
    assert not any('no factor is used' in note for note in used.notes)
    shown = repr(used).splitlines()
    assert [line.split()[1] for line in shown if line.strip().startswith('ago')] == ['used', 'used']
    assert 'effect' in repr(used) and repr(Answer.load(used.save(tmp_path / 'a.npz'))) == repr(used)


def test_what_no_probe_reads_is_not_edited(played, tmp_path):
    "A register of one card does not know that of two steps before"
    answer = Edit(('ago_2',), episodes=60).ask(WithRegister(agent('MLP').network_, 1), played)
    assert answer.parts['verdicts']['verdict'].tolist() == ['not readable']
    assert len(answer.parts['directions']) == len(answer.truth) == 0 and np.isnan(answer.value('edit_success'))
    for items in (True, False):
        loaded = Answer.load(answer.save(tmp_path / 'none.npz', items))
        assert loaded.parts['verdicts']['verdict'].tolist() == ['not readable']


def test_what_goes_with_a_factor_is_not_the_factor(played):
    "A stack of four frames knows the time, and with it how many cards are left, but not which ones"
    network = memory_network(10, 'FrameStack', Acting(spaces.Discrete(4)).kind, width=32, n_hidden=32, head_layers=1)
    answer = Edit(('ago_1', 'remaining_0'), episodes=40, shifts=(1,)).ask(network.eval(), played)
    verdicts = answer.parts['verdicts'].set_index('factor')['verdict']
    assert verdicts['remaining_0'].startswith('not held') and verdicts['ago_1'] != verdicts['remaining_0']


def test_a_batch_plays_as_the_agent_alone():
    policy = agent('LSTM')
    played = BatchPlayer(policy.network_, 'RepeatPrevious-easy').play(3, seed=5)
    env = make_task('RepeatPrevious-easy', flat=True)
    for i in range(3):
        policy.reset()
        obs, _ = env.reset(seed=5 + i)
        for t in range(played.lengths[i]):
            action = policy(obs)
            assert action == played.actions[t, i]
            obs, _, ended, _, _ = env.step(action)
        assert ended


def test_actions_of_several_columns_are_numbered_as_ndindex():
    player = object.__new__(BatchPlayer)
    player.acting = Acting(spaces.MultiDiscrete([2, 3]))
    actions = np.array([*np.ndindex(2, 3)])
    assert player.numbers(actions).tolist() == [*range(6)]


def test_invalid_input_is_refused(played):
    gru = agent()
    first = record_pomdp('RepeatFirst-easy', 1, progress=False)
    refused = {
        'no state to edit.*MLP': (agent('MLP'), None),
        'RepeatPrevious-easy.*RepeatFirst-easy': (gru, first),
        'HigherLower-easy has no due action': (agent(task='HigherLower-easy'), None),
        'another task.*17': (agent(task='HigherLower-easy').network_, played),
        'agent with a memory.*list': (gru.encode(played), played),
        'agent with a memory.*function': (lambda obs: 0, played),
        'does not name its task.*srlviz.record': (gru.network_, None),
        'agent with a memory.*NoneType': (None, None),
        'agent with a memory.*Path': (sample_path('agents'), None),
        'agent with a memory.*Linear': (torch.nn.Linear(3, 3), played),
        'HalfAgent lacks read, policy': (HalfAgent(), played),
        'name of a world.*srlviz.record': (gru, 'RepeatPrevious-easy'),
        'switches': (gru.network_, toy_recording()),
    }
    for words, (subject, recording) in refused.items():
        with pytest.raises(ValueError, match=words):
            Edit(episodes=6).ask(subject, recording)
    with pytest.raises(ValueError, match='ago_9.*ago_'):
        Edit(('ago_9',), episodes=6).ask(gru)
    with pytest.raises(ValueError, match='shifts.*numbers of at least 0 and of at most 100;'):
        Edit(shifts=(-1, 1))
    with pytest.raises(ValueError, match=r'shifts.*tuple\[float'):
        Edit(shifts=(0, 'a'))
    with pytest.raises(ValueError, match='direction.*lda.*LDA'):
        Edit(direction='lda')
    with pytest.raises(ValueError, match='episodes.*2'):
        Edit(episodes=2)
    with pytest.raises(ValueError, match='factors.*empty'):
        Edit(())


def test_a_memory_of_the_time_does_not_hold_what_goes_with_it():
    "The Elman net reads the cards left no better than the row number does, and its reading hardly follows the twin"
    answer = Edit(('ago_1', 'remaining_0'), episodes=200, shifts=(1,)).ask(agent('Elman'), seed=0)
    read = answer.parts['readable'].set_index('factor')
    assert read.loc['remaining_0', 'skill'] > 0.4 and read.loc['remaining_0', 'follows_high'] < 0.25
    assert read.loc['ago_1', 'follows'] == 1
    verdicts = answer.parts['verdicts'].set_index('factor')['verdict']
    assert verdicts['remaining_0'].startswith('not held') and verdicts['ago_1'] == 'used'


@pytest.mark.parametrize('memory', ['GRU', 'IndRNN'])
def test_the_twin_of_a_first_card_plays_its_own_history(memory):
    "With the actions of the other history, half of the twins would answer by what they said before"
    answer = Edit(('answer',), episodes=100, shifts=(1,)).ask(agent(memory, 'RepeatFirst-easy'))
    assert answer.value('edit_ceiling') > 0.98
    lengths = answer.parts['directions'].set_index('direction')['length']
    assert abs(lengths['twin'] - 1) < 1e-6 and abs(lengths['random'] - 1) < 1e-6 and 0.5 < lengths['class means'] < 2


def test_a_push_that_the_twin_does_not_confirm_is_no_use():
    "The best arm of a bandit: a push moves the arm that is pulled, and the twin does not"
    shipped = agent(task='MultiarmedBandit-easy')
    answer = Edit(('best', 'odds_1'), episodes=80, shifts=(1,)).ask(shipped)
    verdicts = answer.parts['verdicts']
    assert not {'used', 'known and unused'} & {*verdicts['verdict']}
    few = Edit(episodes=12, shifts=(1,)).ask(shipped)  # few values of a number with fractions
    assert len(few.parts['verdicts'])


FORGED_PARTS = {  # of an answer to `Edit`: part, and what is done to it
    'no verdicts': ('verdicts', lambda t: None),
    'shares as text': ('directions', lambda t: t.astype(dict(long_other=str))),
    'no interval': ('directions', lambda t: t.drop(columns='success_low')),
    'a curve as text': ('curve', lambda t: t.astype(dict(success_high=str))),
    'no shift': ('curve', lambda t: t.drop(columns='shift')),
    'text for true or false': ('directions', lambda t: t.astype(dict(due=str))),
    'skills as text': ('readable', lambda t: t.astype(dict(skill=str))),
    'verdicts of another format': ('verdicts', lambda t: t.rename(columns=dict(best='success'))),
    'others of fewer items': ('others', lambda t: t[1:]),
    'others of other factors': ('others', lambda t: t.rename(columns=dict(ago_0='ago_1'))),
}


@pytest.mark.parametrize('attack', FORGED_PARTS)
def test_a_forged_answer_is_refused(attack, small_answer, tmp_path):
    part, change = FORGED_PARTS[attack]
    small_answer.value_table()  # as it was
    forged = copy(small_answer)
    forged.parts = small_answer.parts | {part: change(small_answer.parts[part])}
    with pytest.raises(ValueError, match=f'forged.npz.*{part}') as e:
        Answer.load(forged.save(tmp_path / 'forged.npz'))
    assert '\n' not in str(e.value)
