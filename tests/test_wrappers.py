"""Wrappers return what popgym's return, around popgym's environments and around ours."""

import warnings

import gymnasium
import numpy as np
import pytest

popgym = pytest.importorskip('popgym')
with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    import popgym.wrappers as popgym_wrappers
    from popgym.core.observability import Observability
    from popgym.envs.autoencode import AutoencodeEasy
    from popgym.envs.count_recall import CountRecallEasy
    from popgym.envs.minesweeper import MineSweeperEasy
    from popgym.envs.position_only_pendulum import PositionOnlyPendulumEasy
    from popgym.envs.repeat_previous import RepeatPreviousEasy

import srlviz.envs.wrappers as ours
from srlviz.envs.pomdp.base import TASKS

ENVS = RepeatPreviousEasy, AutoencodeEasy, CountRecallEasy, MineSweeperEasy, PositionOnlyPendulumEasy
STACKS = {
    'previous': lambda wrappers, env: wrappers.PreviousAction(env),
    'flag': lambda wrappers, env: wrappers.Antialias(env),
    'paper': lambda wrappers, env: wrappers.Flatten(wrappers.Antialias(wrappers.PreviousAction(env))),
    'state': lambda wrappers, env: wrappers.PreviousAction(markovian(wrappers, env, 'full')),
    'both': lambda wrappers, env: wrappers.Antialias(
        wrappers.PreviousAction(markovian(wrappers, env, 'full_and_partial'))
    ),
    'info': lambda wrappers, env: wrappers.Antialias(markovian(wrappers, env, 'full_in_info')),
    'partial': lambda wrappers, env: markovian(wrappers, env, 'partial'),
}


def markovian(wrappers, env, mode):
    "Apply the wrapper that shows the hidden state; popgym has other names for the modes."
    if wrappers is ours:
        return wrappers.Markovian(env, mode)
    popgym_mode = {'full_in_info': 'full_in_info_dict'}.get(mode, mode)
    return wrappers.Markovian(env, Observability[popgym_mode.upper()])


def same(a, b):
    "Whether two observations are equal, part by part."
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return set(a) == set(b) and all(same(a[k], b[k]) for k in a)
    return np.array_equal(a, b)


@pytest.mark.parametrize('stack', STACKS)
@pytest.mark.parametrize('env', ENVS, ids=lambda c: c.__name__)
def test_wrapped_episodes_equal_popgyms(env, stack):
    a, b = STACKS[stack](ours, env()), STACKS[stack](popgym_wrappers, env())
    if stack != 'paper':
        assert a.observation_space == b.observation_space
    assert a.observation_space.shape == b.observation_space.shape
    a.action_space.seed(0)
    for seed in range(3):
        x, y = a.reset(seed=seed), b.reset(seed=seed)
        done = False
        assert same(x[0], y[0]) and ('state' in x[1]) == ('state' in y[1]) == (stack == 'info')
        while not done:
            action = a.action_space.sample()
            x, y = a.step(action), b.step(action)
            assert same(x[0], y[0]) and x[1:4] == y[1:4] and same(x[4].get('state', 0), y[4].get('state', 0))
            done = x[2] or x[3]


def test_discrete_actions_equal_popgyms():
    a, b = ours.DiscreteAction(MineSweeperEasy()), popgym_wrappers.DiscreteAction(MineSweeperEasy())
    assert a.action_space == b.action_space
    for action in range(a.action_space.n):
        a.reset(seed=0)
        b.reset(seed=0)
        assert a.step(action)[:4] == b.step(action)[:4]


def test_wrappers_accept_environments_of_gymnasium_make_and_make_vec():
    "popgym's wrappers fail on `gymnasium.make`."
    import popgym.envs  # noqa: F401 (registers the names)

    with pytest.raises(AssertionError):
        popgym_wrappers.PreviousAction(gymnasium.make('popgym-RepeatPreviousEasy-v0'))

    def stack(env):
        return ours.Antialias(ours.PreviousAction(ours.Markovian(env, 'full_and_partial')))

    single = stack(gymnasium.make('popgym-RepeatPreviousEasy-v0'))
    many = stack(gymnasium.make_vec('popgym-RepeatPreviousEasy-v0', num_envs=2))
    assert single.observation_space == many.single_observation_space
    x, y = single.reset(seed=3)[0], many.reset(seed=3)[0]
    for t in range(51):
        for part in 'obs', 'state':
            assert same(x[part], tuple(v[0] for v in y[part])), (t, part)
        x, y = single.step(t % 4)[0], many.step(np.array([t % 4, 0]))[0]


TASK_NAMES = [task for task, (cls, _) in TASKS.items() if task.split('-')[0] == cls.__name__]  # no aliases


@pytest.mark.parametrize('task', TASK_NAMES)
def test_flat_observations_equal_the_stack_of_wrappers(task):
    "`flat=True`, written by the kernel, equals the three wrappers, alone and in a vector environment"
    name = f'srlviz/{task}-v0'

    def stack(env):
        return ours.Flatten(ours.Antialias(ours.PreviousAction(env)))

    def make_batch(**options):
        return gymnasium.make_vec(name, num_envs=3, autoreset_mode='SameStep', **options)

    a, b = gymnasium.make(name, flat=True), stack(gymnasium.make(name))
    many, wrapped = make_batch(flat=True), stack(make_batch())
    assert a.observation_space == b.observation_space and many.observation_space == wrapped.observation_space
    for env in a, many:
        env.action_space.seed(0)
    assert np.array_equal(a.reset(seed=1)[0], b.reset(seed=1)[0])
    assert np.array_equal(many.reset(seed=1)[0], wrapped.reset(seed=1)[0])
    for _ in range(250):
        action = a.action_space.sample()
        x, y = a.step(action), b.step(action)
        assert np.array_equal(x[0], y[0]) and x[0].dtype == y[0].dtype and x[1:4] == y[1:4]
        if x[2] or x[3]:
            assert np.array_equal(a.reset()[0], b.reset()[0])
        actions = many.action_space.sample()
        x, y = many.step(actions), wrapped.step(actions)
        assert all(np.array_equal(v, w) for v, w in zip(x[:4], y[:4]))
        done = x[2] | x[3]
        if done.any():
            assert np.array_equal(x[4]['final_obs'][done], y[4]['final_obs'][done])
