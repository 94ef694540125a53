"""Held against popgym 1.0.7 itself.

Its hidden state is put into an environment of ours, the same actions are played, and everything must be equal.
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

pytestmark = pytest.mark.filterwarnings('ignore:Maze environments have been shown')
REFERENCE = pd.read_csv(sample_path('pomdp_tasks.csv')).set_index('task')
OWN = [t for t in TASKS if t in REFERENCE.index]  # those of popgym, without aliases
EPISODES = 20


def theirs_of(task: str):
    name, difficulty = task.split('-')
    return getattr(popgym.envs, name + difficulty.capitalize())()


def equal(a, b) -> bool:
    "Equal values in equal nests, to the last bit."
    if isinstance(a, tuple):
        return isinstance(b, tuple) and len(a) == len(b) and all(map(equal, a, b))
    return np.shape(a) == np.shape(b) and np.array_equal(a, b)


@pytest.mark.parametrize('task', OWN)
def test_same_as_popgym(task):
    """Twenty episodes under random actions.

    Equal are observation, reward, both ends and the Markov state of every step, and the paper's observation.
    """
    name = task.split('-')[0]
    legacy = name in LEGACY
    theirs, ours, flat = theirs_of(task), make_task(task, legacy=legacy), make_task(task, legacy=legacy, flat=True)
    paper = popgym.wrappers.Antialias(popgym.wrappers.PreviousAction(theirs))
    for seed in range(EPISODES):
        seen, _ = paper.reset(seed=seed)
        ours.reset(seed=seed)
        INJECT[name](theirs, ours.record[0])
        row, last = flat.restore(ours.snapshot()), (ours._observe(), 0.0, False, False)
        theirs.action_space.seed(seed)
        step = 0
        while True:
            when = f'seed {seed}, step {step}'
            obs = seen[:-2] if isinstance(theirs.observation_space, gymnasium.spaces.Tuple) else seen[0]
            assert equal(obs, last[0]), f'{when}: popgym shows {obs}, ours {last[0]}'
            assert not isinstance(obs, np.ndarray) or obs.dtype == last[0].dtype, f'{when}: {obs.dtype}'
            one_hot = gymnasium.spaces.flatten(paper.observation_space, seen).astype(np.float32)
            assert equal(one_hot, row), f'{when}: one-hot'
            state, mine = theirs.get_state(), ours.get_state()
            assert equal(state, mine), f'{when}: state {state}, ours {mine}'
            if last[2] or last[3]:
                break
            action = theirs.action_space.sample()
            seen, *end, _ = paper.step(action)
            *last, _ = ours.step(action)
            row = flat.step(action)[0]
            step += 1
            assert tuple(end) == tuple(last[1:]), f'seed {seed}, step {step}: popgym gives {end}, ours {last[1:]}'


def test_tags_are_popgyms():
    "The lists of popgym, DIAGNOSTIC and so on, hold the environments that have the tag."
    assert len(OWN) == len(REFERENCE) == 48
    table = task_table().query('task in @OWN')
    for tag in TAGS:
        theirs = {cls.__name__ for cls in getattr(popgym.envs, tag.upper())}
        assert set(table[table['tags'].str.split().map(lambda tags: tag in tags)]['environment']) == theirs


@pytest.mark.parametrize('task', OWN)
def test_random_return_is_popgyms(task):
    """The mean return of uniformly random actions is within three standard errors of popgym's.

    Its numbers stand in data_samples/pomdp_tasks.csv.
    """
    envs = make_tasks(task, 256, autoreset_mode='SameStep')
    envs.reset(seed=0)
    envs.action_space.seed(0)
    total, begun = np.zeros(256), np.zeros(256, bool)
    for _ in range(envs.max_steps):  # the first episode of each, so that short ones do not count more
        _, rewards, terminated, truncated, _ = envs.step(envs.action_space.sample())
        total += np.where(begun, 0, rewards)
        begun |= terminated | truncated
    assert begun.all()
    row, n = REFERENCE.loc[task], len(total)
    m = row.random_episodes
    # one spread for both: a dozen of popgym's mazes may hold none of the rare escapes
    pooled = np.sqrt(((n - 1) * total.var(ddof=1) + (m - 1) * row.random_return_std**2) / (n + m - 2))
    error = pooled * np.sqrt(1 / n + 1 / m)
    said = f'{total.mean():.4f}, popgym {row.random_return:.4f} +- {error:.4f}'
    assert abs(total.mean() - row.random_return) <= 3 * error + 5e-5, said
