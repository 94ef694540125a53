"""What holds for every task that is seen as it is, and that sight is worth what memory would be."""

import numpy as np
import pytest

from gymnasium import spaces

import srlviz.envs  # noqa: F401 - registers the tasks
from srlviz.agents.recurrent import recurrent_ppo
from srlviz.data.popgym import record_pomdp
from srlviz.envs.pomdp.base import TASKS, make_tasks
from srlviz.envs.pomdp.fully_observable import fully_observable

OWN = [t for t, (cls, _) in TASKS.items() if t.startswith(cls.__name__)]  # without aliases


@pytest.mark.parametrize('task', [pytest.param(t, marks=[pytest.mark.slow] * (not t.endswith('easy'))) for t in OWN])
def test_every_task(task):
    """Beside the state, a batch shows what it shows without sight; environment 1 is the single one of its seed."""
    seeing, one = fully_observable(task, 3), fully_observable(task)
    blind = make_tasks(task, 3, flat=True, autoreset_mode='SameStep')
    k = blind.single_observation_space.shape[0]
    rows, plain, row = seeing.reset(seed=5)[0], blind.reset(seed=5)[0], one.reset(seed=6)[0]
    blind.action_space.seed(0)
    for _ in range(30):
        assert rows.dtype == np.float32 and (rows[:, :k] == plain).all() and (rows[1] == row).all()
        assert rows[1, k:].tolist() == spaces.flatten(one.state_space, one.env.get_state()).tolist()
        assert seeing.observation_space.contains(rows) or 'Box' in str(seeing.state_space)  # a state may leave its box
        actions = blind.action_space.sample()
        (rows, *ends, info), (plain, *own, told) = seeing.step(actions), blind.step(actions)
        row, _, terminated, truncated, _ = one.step(actions[1])
        assert all((a == b).all() for a, b in zip(ends, own)) and info.keys() == told.keys()
        if info:
            over = info['_final_obs']
            assert (over == told['_final_obs']).all()
            assert (info['final_obs'][over, :k] == told['final_obs'][over]).all()
        if terminated or truncated:
            assert (info['final_obs'][1] == row).all()
            row = one.reset()[0]


def test_resumed(tmp_path):
    "Learning with sight that was killed in the middle of games goes on to the same weights"
    small = dict(total_steps=6 * 4 * 20, num_envs=4, num_steps=20, num_minibatches=2, segment=2, device='cpu')
    seeing = lambda: fully_observable('LabyrinthExplore-easy', 4)
    whole = recurrent_ppo(seeing(), 'GRU', **small).learn(progress=False)
    envs, left = seeing(), [50]
    step = envs.step

    def breaking(actions):
        left[0] -= 1
        if left[0] < 0:
            raise InterruptedError
        return step(actions)

    envs.step = breaking
    with pytest.raises(InterruptedError):
        recurrent_ppo(envs, 'GRU', checkpoint=tmp_path / 'run', **small).learn(progress=False)
    resumed = recurrent_ppo(seeing(), 'GRU', checkpoint=tmp_path / 'run', **small).learn(progress=False)
    for name, tensor in whole.network.state_dict().items():
        assert (tensor == resumed.network.state_dict()[name]).all(), name


def test_sight_is_worth_a_memory():
    "In 115,000 steps an agent without memory learns to name the first card if it is told, and not if it is not"
    fast = dict(total_steps=14 * 64 * 128, device='cpu')
    told = recurrent_ppo(fully_observable('RepeatFirst-easy', 64), 'MLP', **fast).learn(progress=False)
    untold = recurrent_ppo('RepeatFirst-easy', 'MLP', **fast).learn(progress=False)
    assert told.history_['mean_return'].iloc[-1] > 0.8 and untold.history_['mean_return'].iloc[-1] < -0.2
    seen = record_pomdp(fully_observable('RepeatFirst-easy'), 2, policy=told.policy(), progress=False)
    assert seen[0].obs['vector'].shape == (51, 18) and np.mean([e.rewards.sum() for e in seen]) > 0.8
    assert told.policy().encode(seen)[0].shape[0] == 51
