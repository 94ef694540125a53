"""Returns held against software that nobody here wrote: rliable's statistics, the files of stable-baselines3."""

import json

import gymnasium, numpy as np, pandas as pd, pytest
from reference.rliable_returns import FILE, LEVELS, THRESHOLDS, measured, table

from srlviz.core.scores import check_scores
from srlviz.envs.pomdp.base import make_tasks
from srlviz.evaluate.comparison import performance_profile, probability_of_improvement, return_intervals
from srlviz.evaluate.returns import episodes_of, return_rows


def ours(x, y, n_resamples: int) -> dict:
    "What `rliable_returns.measured` gives, from our functions: name -> (point, bounds for each level)"

    def of(column, f, *scores, **said):
        tables = [f(*scores, confidence_level=level, n_resamples=n_resamples, **said) for level in LEVELS]
        tables = [t[t['task'] == 'all'] if 'task' in t else t for t in tables]
        bounds = [t[['low', 'high']].to_numpy(float).T for t in tables]  # each (2, rows)
        return np.squeeze(tables[0][column].to_numpy(float)), np.squeeze(bounds)

    found = dict(improvement=of('probability', probability_of_improvement, x, y))
    for end, over in ('', 'seed'), ('/task', 'task'):
        for statistic in ('mean', 'iqm'):
            found[statistic + end] = of('value', return_intervals, x, statistic=statistic, over=over)
        found['profile' + end] = of('share', performance_profile, x, THRESHOLDS, over=over)
    return found


def same(theirs: dict, mine: dict, slack: float) -> None:
    "Equal points; bounds that differ by less than `slack` of the width of the widest, and an atom of a count"
    assert set(theirs) == set(mine)
    for name, said in theirs.items():
        point, bounds = mine[name]
        np.testing.assert_allclose(point, said['point'], rtol=0, atol=1e-12, err_msg=name)
        bounds, expected = np.asarray(bounds), np.asarray(said['bounds'])  # (levels, 2) or (levels, 2, thresholds)
        assert bounds.shape == expected.shape, name
        width = expected[-1][1] - expected[-1][0]
        atom = 1 / 40 if name.startswith('profile') else 0  # one of 40 runs
        assert (np.abs(bounds - expected) <= slack * width + atom + 1e-12).all(), (name, bounds, expected)


def test_as_rliable_said():
    "Means, interquartile means, profiles, improvement: rliable's numbers, written down, over seeds and over tasks"
    said = json.loads(FILE.read_text())
    x, y = map(np.array, (said['x'], said['y']))
    same(said['found'], ours(x, y, 10_000), slack=0.04)


def test_as_rliable_says():
    "The same, of rliable itself, on another table"
    try:
        import rliable.library, rliable.metrics  # noqa: F401
    except (ImportError, TypeError) as e:  # a TypeError: its dependency arch 7 meets pandas 3
        pytest.skip(f'rliable cannot be imported: {e}')
    x, y = table(seed=1)
    same(measured(x, y, 1000), ours(x, y, 5000), slack=0.12)


def counted(envs, steps: int, act):
    "Episodes of a vector that steps together, counted by hand: rows of step, return, length"
    rows, total, length = [], np.zeros(envs.num_envs), np.zeros(envs.num_envs, int)
    for t in range(1, steps + 1):
        reward, over = act()
        total, length = total + reward, length + 1
        rows += [[t * envs.num_envs, total[i], length[i]] for i in np.flatnonzero(over)]
        total, length = np.where(over, 0, total), np.where(over, 0, length)
    return rows


def test_files_of_a_monitor(tmp_path):
    "Three environments of stable-baselines3, a file each: the steps of all are those of the vector"
    pytest.importorskip('stable_baselines3', reason='stable-baselines3 is not installed')
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    made = [lambda i=i: Monitor(gymnasium.make('CartPole-v1'), str(tmp_path / str(i))) for i in range(3)]
    envs, rng = DummyVecEnv(made), np.random.default_rng(0)
    envs.seed(0), envs.reset()
    rows = counted(envs, 300, lambda: envs.step(rng.integers(2, size=3))[1:3])
    envs.close()
    found = episodes_of(tmp_path)
    assert len(rows) > 20 and found.to_numpy().tolist() == rows


def played(task: str, num_envs: int, steps: int, buffer_length: int = 10_000):
    "A batch of ours played at random under Gymnasium's RecordEpisodeStatistics"
    envs = make_tasks(task, num_envs, autoreset_mode='SameStep')
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs, buffer_length)
    envs.reset(seed=0), envs.action_space.seed(0)
    for _ in range(steps):
        envs.step(envs.action_space.sample())
    return envs


def test_queue_of_a_wrapper():
    "Episodes of one length end together, so that none is unfinished when steps are added up"
    found = episodes_of(played('RepeatFirst-easy', 8, 102))
    assert len(found) == 16 and found['step'].iloc[-1] == 102 * 8 and set(found['length']) == {51}
    with pytest.raises(ValueError, match='8.*4'):
        episodes_of(played('RepeatFirst-easy', 8, 51, buffer_length=4))


def test_random_play():
    "From an environment to rows of the score table: the known return, and a maximum above it"
    episodes = episodes_of(played('RepeatFirst-easy', 100, 51 * 30))
    rows = return_rows(episodes, 'RepeatFirst-easy', 'random', epoch_steps=5_100, protocol='fast')
    scores = check_scores(pd.DataFrame(rows)).set_index('metric')['value']
    assert scores['episodes'].tolist() == [100] * 30  # of 51 steps
    mean, sem = episodes['return'].mean(), episodes['return'].std() / np.sqrt(3000)
    assert abs(mean + 0.5) < 0.02 and abs(scores['epoch_return'].mean() - mean) < 1e-9
    assert scores['mmer'] > mean + 5 * sem
