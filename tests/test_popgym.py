"""POMDP environments compared with popgym 1.0.7: equal episodes, tags and random returns.

popgym's hidden state is copied to our environment, both play the same actions, and everything must be equal.
"""

import warnings

import gymnasium
import numpy as np
import pandas as pd
import pytest

import srlviz.envs  # noqa: F401 - registers the tasks
from srlviz.core.files import sample_path
from srlviz.envs.pomdp.base import TAGS, TASKS, make_task, make_tasks, task_table

with warnings.catch_warnings():
    warnings.simplefilter('ignore')
    import popgym.envs
    import popgym.wrappers

from reference.popgym_moments import INJECT, LEGACY
from support.selection import one_of_each

pytestmark = pytest.mark.filterwarnings('ignore:Maze environments have been shown')
REFERENCE = pd.read_csv(sample_path('pomdp_tasks.csv')).set_index('task')
POPGYM_TASKS = [t for t in TASKS if t in REFERENCE.index]  # without aliases
EPISODES = 20


def environment_of(task: str) -> str:
    return task.partition('-')[0]


def make_popgym(task: str):
    name, difficulty = task.split('-')
    return getattr(popgym.envs, name + difficulty.capitalize())()


def equal(a, b) -> bool:
    "Whether two nested observations are equal, to the last bit."
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(equal, a, b))
    return np.shape(a) == np.shape(b) and np.array_equal(a, b)


@pytest.mark.parametrize('task', one_of_each(environment_of, POPGYM_TASKS))
def test_episodes_equal_popgyms(task):
    """Twenty episodes with random actions.

    Compares observation, reward, both ends and the Markov state of every step, and the observation of the paper.
    """
    name = task.split('-')[0]
    legacy = name in LEGACY
    popgym_env = make_popgym(task)
    ours = make_task(task, legacy=legacy)
    flat = make_task(task, legacy=legacy, flat=True)
    paper = popgym.wrappers.Antialias(popgym.wrappers.PreviousAction(popgym_env))
    for seed in range(EPISODES):
        paper_obs, _ = paper.reset(seed=seed)
        ours.reset(seed=seed)
        INJECT[name](popgym_env, ours.record[0])
        flat_obs = flat.restore(ours.snapshot())
        our_step = (ours._observe(), 0.0, False, False)
        popgym_env.action_space.seed(seed)
        step = 0
        while True:
            label = f'seed {seed}, step {step}'
            is_tuple = isinstance(popgym_env.observation_space, gymnasium.spaces.Tuple)
            obs = paper_obs[:-2] if is_tuple else paper_obs[0]
            assert equal(obs, our_step[0]), f'{label}: popgym observes {obs}, ours {our_step[0]}'
            assert not isinstance(obs, np.ndarray) or obs.dtype == our_step[0].dtype, f'{label}: {obs.dtype}'
            one_hot = gymnasium.spaces.flatten(paper.observation_space, paper_obs).astype(np.float32)
            assert equal(one_hot, flat_obs), f'{label}: one-hot'
            popgym_state, our_state = popgym_env.get_state(), ours.get_state()
            assert equal(popgym_state, our_state), f'{label}: state {popgym_state}, ours {our_state}'
            if our_step[2] or our_step[3]:
                break
            action = popgym_env.action_space.sample()
            paper_obs, *popgym_result, _ = paper.step(action)
            *our_step, _ = ours.step(action)
            flat_obs = flat.step(action)[0]
            step += 1
            our_result = our_step[1:]
            label = f'seed {seed}, step {step}'
            assert tuple(popgym_result) == tuple(our_result), (
                f'{label}: popgym returns {popgym_result}, ours {our_result}'
            )


def test_tags_are_popgyms():
    "popgym's lists, DIAGNOSTIC and so on, contain the environments with the tag."
    assert len(POPGYM_TASKS) == len(REFERENCE) == 48
    table = task_table().query('task in @POPGYM_TASKS')
    for tag in TAGS:
        expected = {cls.__name__ for cls in getattr(popgym.envs, tag.upper())}
        assert set(table[table['tags'].str.split().map(lambda tags: tag in tags)]['environment']) == expected


@pytest.mark.parametrize('task', POPGYM_TASKS)
def test_random_return_is_popgyms(task):
    """The mean return of uniformly random actions is within three standard errors of popgym's.

    popgym's returns are in data_samples/pomdp_tasks.csv.
    """
    envs = make_tasks(task, 256, autoreset_mode='SameStep')
    envs.reset(seed=0)
    envs.action_space.seed(0)
    returns = np.zeros(256)
    ended = np.zeros(256, bool)
    for _ in range(envs.max_steps):  # only the first episode of each environment, so that short ones do not count more
        _, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
        returns += np.where(ended, 0, rewards)
        ended |= terminated | truncated
    assert ended.all()
    row = REFERENCE.loc[task]
    n, m = len(returns), row.random_episodes
    # the variance is pooled, because a dozen of popgym's mazes may have none of the rare escapes
    pooled = np.sqrt(((n - 1) * returns.var(ddof=1) + (m - 1) * row.random_return_std**2) / (n + m - 2))
    error = pooled * np.sqrt(1 / n + 1 / m)
    message = f'{returns.mean():.4f}, popgym {row.random_return:.4f} +- {error:.4f}'
    assert abs(returns.mean() - row.random_return) <= 3 * error + 5e-5, message
