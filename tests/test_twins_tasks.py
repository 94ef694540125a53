"""Twins of tasks: what can be set, histories that are right by the rules, and answers that are due."""

import numpy as np
import pytest
import torch

import srlviz
from srlviz.agents.player import load_policy
from srlviz.core.checks.twins import check_twins, differing_arrays
from srlviz.core.files import sample_path
from srlviz.core.play import episode_seed
from srlviz.core.protocols import catalog
from srlviz.core.twins import UNTOUCHED
from srlviz.data.popgym import record_pomdp
from srlviz.data.worlds.pomdp import POMDPWorld
from srlviz.envs.pomdp.base import TASKS, make_task, replay, started

CLASSES = catalog('envs')
SETTABLE = {
    'RepeatFirst': 'answer',
    'RepeatPrevious': 'ago_1',
    'Autoencode': 'answer',
    'CountRecall': 'counts_0',
    'HigherLower': 'remaining_5',
    'Concentration': 'card_7',
    'Battleship': 'ships_9',
    'MineSweeper': 'mines_5',
    'MultiarmedBandit': 'best',
    'PositionOnlyCartPole': 'position',
    'NoisyPositionOnlyCartPole': 'velocity',
    'VelocityOnlyCartPole': 'velocity',
}


def test_every_task_can_be_set_or_says_why_not():
    for name in POMDPWorld.names():
        world = POMDPWorld(name)
        assert bool(world.settable) == (name.partition('-')[0] in SETTABLE) != bool(world.not_settable)


@pytest.mark.parametrize('task, factor', [(f'{task}-easy', factor) for task, factor in SETTABLE.items()])
def test_twins_of_tasks_keep_the_contract(task, factor):
    more = dict(policy='random') if 'CartPole' in task else {}
    check_twins(POMDPWorld(task), [factor], n=16, **more)


def test_a_twin_is_its_recorded_episode_but_for_one_card():
    world = POMDPWorld('RepeatPrevious-easy')
    twins = world.twins('ago_3', n=8, seed=3, progress=False)
    played = record_pomdp(world.name, 8, 'oracle', 3, progress=False)
    untouched = None
    for episode, (moment, factor, value) in zip(twins, twins.table[['moment', 'factor', 'value']].to_numpy()):
        t = len(episode) - 1
        cards = episode.obs['vector'].argmax(1)
        if factor == UNTOUCHED:
            untouched = cards
            original = played[moment]
            assert (episode.obs['vector'] == original.obs['vector'][: t + 1]).all()
            assert (episode.rewards == original.rewards[: t + 1]).all()
            assert all((v == original.factors[k][: t + 1]).all() for k, v in episode.factors.items())
        else:
            assert np.flatnonzero(cards != untouched).tolist() == [t - 3] and cards[t - 3] == value
        assert episode.actions.dtype == original.actions.dtype
        assert (episode.actions == original.actions[: t + 1]).all()
    assert (twins.table['factor'] == 'ago_3').sum() > 10


def test_an_agent_reads_twins_and_its_next_answers_become_the_other_card():
    agent = load_policy(sample_path('agents/RepeatPrevious-easy_GRU.safetensors'), greedy=True)
    twins = srlviz.twins('RepeatPrevious-easy', 'ago_3', n=12, policy=agent, progress=False)
    codes = agent.encode(twins)
    assert [len(c) for c in codes] == twins.lengths.tolist()
    last = torch.from_numpy(np.stack([c[-1] for c in codes]))
    answers = agent.network_.policy(last).argmax(-1).numpy()
    changed = (twins.table['factor'] == 'ago_3').to_numpy()
    assert (answers == twins.table['value'])[changed].mean() > 0.95


def test_lengths_cut_the_history_and_seeds_repeat_it():
    world = POMDPWorld('CountRecall-easy')
    whole = world.twins('counts_1', n=5, progress=False)
    short = world.twins('counts_1', n=5, length=2, progress=False)
    assert short.lengths.max() == 2 and whole.table.equals(short.table)
    assert not any(differing_arrays(a, b) for a, b in zip(whole, world.twins('counts_1', n=5, progress=False)))
    other = world.twins('counts_1', n=5, seed=1, progress=False)
    assert other.lengths.tolist() != whole.lengths.tolist()


def test_what_cannot_be_set_is_counted():
    twins = POMDPWorld('RepeatPrevious-easy').twins(n=12, progress=False)
    made = (twins.table['factor'] != UNTOUCHED).sum()
    assert made and set(twins.left_out['factor']) <= set(twins.follows)
    assert twins.left_out['reason'].str.len().min() > 10 and (twins.left_out['n'] > 0).all()


def test_a_history_cannot_deal_a_fifth_ace():
    task = make_task('HigherLower-easy')
    R = started(task, range(20))
    t = np.arange(20) + 10
    changed = task.with_value(R, 'remaining_0', 4, t)
    assert (np.sort(changed['deck'], 1) == np.sort(R['deck'], 1)).all()
    for deck, before, row in zip(changed['deck'], R['deck'], t):
        assert (deck[row] == before[row]) and ((deck[row + 1 :] == 0).sum() == 4 or (deck == before).all())


@pytest.mark.parametrize('difficulty', ['easy', 'medium', 'hard'])
def test_moved_ships_are_a_fleet_and_mines_are_as_many(difficulty):
    for name, factor, field in ('Battleship', 'ships_3', 'ships'), ('MineSweeper', 'mines_3', 'hidden'):
        task = make_task(f'{name}-{difficulty}')
        R = started(task, range(30))
        actions = np.stack([task.action_space.sample() for _ in range(30 * 5)]).reshape(30, 5, 2)
        now = R[field].reshape(30, -1)[:, 3]
        changed = task.with_value(R, factor, 1 - now, 5, actions)
        boards = changed[field].reshape(30, -1)
        was_opened = (actions @ [task.parameters.get('size', 8), 1] == 3).any(1)
        possible = ~was_opened | (now == 1) if name == 'MineSweeper' else np.full(30, True)  # or it had ended there
        assert (boards[possible, 3] == 1 - now[possible]).mean() > 0.7
        assert (boards[~possible, 3] == now[~possible]).all()
        assert (boards.sum(1) == R[field].reshape(30, -1).sum(1)).all()
        if name == 'MineSweeper':
            around = np.pad(changed['hidden'], [(0, 0), (1, 1), (1, 1)])
            size = task.parameters['size']
            sums = sum(around[:, y : y + size, x : x + size] for y in range(3) for x in range(3))
            assert (changed['around'] == sums).all()


def test_a_due_answer_is_that_of_the_script():
    "A script with perfect memory gives the answer that is due, for each factor and step."
    for name in 'RepeatFirst', 'RepeatPrevious', 'Autoencode', 'CountRecall':
        for difficulty in 'easy', 'medium':
            task = make_task(f'{name}-{difficulty}')
            played = record_pomdp(f'{name}-{difficulty}', 1, 'oracle', progress=False)[0]
            history = replay(task, started(task, [episode_seed(0, 0)]), played.actions[None])[0]
            n = 0
            for factor, values in played.factors.items():
                due = task.due(history[:-1], factor)
                if due is None:
                    continue
                steps, answers = due
                rows = np.flatnonzero(steps >= 0)
                right = answers[rows, values[rows]]
                assert (right == played.actions[rows + steps[rows]]).all(), (name, factor)
                n += len(rows)
            assert n > 40, name


def test_no_task_but_these_says_what_is_due():
    decided = {}
    for name, cls in CLASSES.items():
        env = cls()
        env.reset(seed=0)
        columns = [*record_pomdp(f'{name}-easy', 1, max_steps=1, progress=False)[0].factors]
        decided[name] = {c.rpartition('_')[0] or c for c in columns if env.due(env.record, c) is not None}
    known = dict(RepeatFirst={'answer'}, RepeatPrevious={'answer', 'ago'}, Autoencode={'answer'})
    known |= dict(CountRecall={'answer', 'counts'}, MultiarmedBandit={'best'})
    assert decided == {name: known.get(name, set()) for name in CLASSES}


def test_a_new_best_arm_pays_by_the_same_luck():
    task = make_task('MultiarmedBandit-easy')
    R = started(task, range(9))
    R = R[R['odds'].argmax(1) != 3]
    actions = np.full((len(R), 50), 3)
    best = R['odds'].argmax(1)
    changed = task.with_value(R, 'best', 3, 40, actions)
    assert (changed['odds'].argmax(1) == 3).all() and (np.sort(changed['odds']) == np.sort(R['odds'])).all()
    before, after = replay(task, R, actions)['obs'][:, 1:, 0], replay(task, changed, actions)['obs'][:, 1:, 0]
    assert (after >= before).all() and (after > before).any()  # a better chance wins all that the old one won
    assert (changed['odds'][np.arange(len(R)), best] == R['odds'][:, 3]).all()


def test_values_that_a_row_cannot_have_leave_the_start_as_it_is():
    for name, (cls, difficulty) in TASKS.items():
        if name.startswith(cls.__name__) and difficulty == 'easy' and cls().settable:
            task = make_task(name)
            R = started(task, [0])
            actions = np.repeat(np.asarray(task.action_space.sample())[None, None], 5, 1)
            for value in 1e6, -7, 0.123 if 'odds_0' not in task.settable else -0.1, np.nan:
                for factor in task.settable[:3]:
                    if 'CartPole' not in name or abs(value) > 1:
                        assert (task.with_value(R, factor, value, 5, actions) == R).all(), (name, factor)
