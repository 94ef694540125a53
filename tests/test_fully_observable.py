"""Fully observable tasks: state beside the observation, resumed training, and learning without a memory."""

import numpy as np
import pytest

from gymnasium import spaces

import srlviz.envs  # noqa: F401 - registers the tasks
from srlviz.agents.recurrent_ppo import recurrent_ppo
from srlviz.data.popgym import record_pomdp
from srlviz.envs.pomdp.base import TASKS, make_tasks
from srlviz.envs.pomdp.fully_observable import fully_observable

CANONICAL_TASKS = [t for t, (cls, _) in TASKS.items() if t.startswith(cls.__name__)]  # without aliases


@pytest.mark.parametrize(
    'task', [pytest.param(t, marks=[pytest.mark.slow] * (not t.endswith('easy'))) for t in CANONICAL_TASKS]
)
def test_observations_are_those_of_the_task_and_its_state(task):
    """A batch appends the state to the partial observation; environment 1 equals a single environment of its seed."""
    full, single = fully_observable(task, 3), fully_observable(task)
    partial = make_tasks(task, 3, flat=True, autoreset_mode='SameStep')
    k = partial.single_observation_space.shape[0]
    rows, partial_rows, row = full.reset(seed=5)[0], partial.reset(seed=5)[0], single.reset(seed=6)[0]
    partial.action_space.seed(0)
    for _ in range(30):
        assert rows.dtype == np.float32 and (rows[:, :k] == partial_rows).all() and (rows[1] == row).all()
        assert rows[1, k:].tolist() == spaces.flatten(single.state_space, single.env.get_state()).tolist()
        # a state may lie outside its box
        assert full.observation_space.contains(rows) or 'Box' in str(full.state_space)
        actions = partial.action_space.sample()
        rows, *ends, info = full.step(actions)
        partial_rows, *partial_ends, partial_info = partial.step(actions)
        row, _, terminated, truncated, _ = single.step(actions[1])
        assert all((a == b).all() for a, b in zip(ends, partial_ends)) and info.keys() == partial_info.keys()
        if info:
            done = info['_final_obs']
            assert (done == partial_info['_final_obs']).all()
            assert (info['final_obs'][done, :k] == partial_info['final_obs'][done]).all()
        if terminated or truncated:
            assert (info['final_obs'][1] == row).all()
            row = single.reset()[0]


def test_interrupted_training_resumes_to_the_same_weights(tmp_path):
    "It is interrupted in the middle of episodes"
    options = dict(total_steps=6 * 4 * 20, num_envs=4, num_steps=20, num_minibatches=2, segment=2, device='cpu')

    def make_envs():
        return fully_observable('LabyrinthExplore-easy', 4)

    uninterrupted = recurrent_ppo(make_envs(), 'GRU', **options).learn(progress=False)
    envs = make_envs()
    step = envs.step
    remaining_steps = 50

    def interrupted_step(actions):
        nonlocal remaining_steps
        remaining_steps -= 1
        if remaining_steps < 0:
            raise InterruptedError
        return step(actions)

    envs.step = interrupted_step
    with pytest.raises(InterruptedError):
        recurrent_ppo(envs, 'GRU', checkpoint=tmp_path / 'run', **options).learn(progress=False)
    resumed = recurrent_ppo(make_envs(), 'GRU', checkpoint=tmp_path / 'run', **options).learn(progress=False)
    for name, tensor in uninterrupted.network.state_dict().items():
        assert (tensor == resumed.network.state_dict()[name]).all(), name


def test_an_agent_without_memory_learns_only_with_full_observability():
    "In 115,000 steps an MLP learns to name the first card if it observes the state, and not otherwise"
    options = dict(total_steps=14 * 64 * 128, device='cpu')
    full = recurrent_ppo(fully_observable('RepeatFirst-easy', 64), 'MLP', **options).learn(progress=False)
    partial = recurrent_ppo('RepeatFirst-easy', 'MLP', **options).learn(progress=False)
    assert full.history_['mean_return'].iloc[-1] > 0.8 and partial.history_['mean_return'].iloc[-1] < -0.2
    recording = record_pomdp(fully_observable('RepeatFirst-easy'), 2, policy=full.policy(), progress=False)
    assert recording[0].obs['vector'].shape == (51, 18) and np.mean([e.rewards.sum() for e in recording]) > 0.8
    assert full.policy().encode(recording)[0].shape[0] == 51
