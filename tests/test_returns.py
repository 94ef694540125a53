"""Returns compared with third-party software: rliable, stable-baselines3's files, Gymnasium's wrapper."""

import json

import gymnasium, numpy as np, pytest
from reference.rliable_returns import FILE, LEVELS, THRESHOLDS, example_scores, rliable_statistics

from srlviz.core.scores import check_scores
from srlviz.envs.pomdp.base import make_tasks
from srlviz.evaluate.comparison import performance_profile, probability_of_improvement, return_intervals
from srlviz.evaluate.questions.agent_returns import Returns
from srlviz.evaluate.returns import episodes_of


def our_statistics(x, y, n_resamples: int) -> dict:
    "Compute what `rliable_statistics` returns with our functions: name -> (point, bounds for each level)"

    def compute(column, function, *scores, **options):
        tables = [function(*scores, confidence_level=level, n_resamples=n_resamples, **options) for level in LEVELS]
        tables = [t[t['task'] == 'all'] if 'task' in t else t for t in tables]
        bounds = [t[['low', 'high']].to_numpy(float).T for t in tables]  # each (2, rows)
        return np.squeeze(tables[0][column].to_numpy(float)), np.squeeze(bounds)

    results = dict(improvement=compute('probability', probability_of_improvement, x, y))
    for suffix, over in ('', 'seed'), ('/task', 'task'):
        for statistic in ('mean', 'iqm'):
            results[statistic + suffix] = compute('value', return_intervals, x, statistic=statistic, over=over)
        results['profile' + suffix] = compute('share', performance_profile, x, THRESHOLDS, over=over)
    return results


def assert_same(reference: dict, ours: dict, tolerance: float) -> None:
    """Assert equal points and similar bounds.

    Bounds differ by at most `tolerance` of the width of the widest interval, plus one run for counts.
    """
    assert set(reference) == set(ours)
    for name, expected in reference.items():
        point, bounds = ours[name]
        np.testing.assert_allclose(point, expected['point'], rtol=0, atol=1e-12, err_msg=name)
        bounds = np.asarray(bounds)
        expected_bounds = np.asarray(expected['bounds'])  # (levels, 2) or (levels, 2, thresholds)
        assert bounds.shape == expected_bounds.shape, name
        width = expected_bounds[-1][1] - expected_bounds[-1][0]
        one_run = 1 / 40 if name.startswith('profile') else 0  # one of 40 runs
        close = np.abs(bounds - expected_bounds) <= tolerance * width + one_run + 1e-12
        assert close.all(), (name, bounds, expected_bounds)


@pytest.fixture
def plain_percentiles(monkeypatch):
    "The quantiles as they are, as rliable takes them: ours are widened, by 1.6 for five runs"
    monkeypatch.setattr('srlviz.core.bootstrap.widening', lambda n_units, *_: np.ones(np.shape(n_units)))


def test_statistics_equal_stored_numbers_of_rliable(plain_percentiles):
    "Means, interquartile means, profiles and improvement, over seeds and over tasks"
    stored = json.loads(FILE.read_text())
    x, y = np.array(stored['x']), np.array(stored['y'])
    assert_same(stored['found'], our_statistics(x, y, 10_000), tolerance=0.04)


def test_statistics_equal_rliable(plain_percentiles):
    "The same statistics by the installed rliable, on another table"
    try:
        import rliable.library, rliable.metrics  # noqa: F401
    except (ImportError, TypeError) as e:  # a TypeError: its dependency arch 7 meets pandas 3
        pytest.skip(f'rliable cannot be imported: {e}')
    x, y = example_scores(seed=1)
    assert_same(rliable_statistics(x, y, 1000), our_statistics(x, y, 5000), tolerance=0.12)


def count_episodes(envs, steps: int, step):
    "Step a vector of environments and count its episodes by hand; return rows of step, return, length"
    rows = []
    returns = np.zeros(envs.num_envs)
    lengths = np.zeros(envs.num_envs, int)
    for t in range(1, steps + 1):
        reward, done = step()
        returns = returns + reward
        lengths = lengths + 1
        rows += [[t * envs.num_envs, returns[i], lengths[i]] for i in np.flatnonzero(done)]
        returns = np.where(done, 0, returns)
        lengths = np.where(done, 0, lengths)
    return rows


def test_episodes_are_read_from_the_files_of_monitor(tmp_path):
    "Three environments of stable-baselines3 with a file each: `step` counts the steps of all of them together"
    pytest.importorskip('stable_baselines3', reason='stable-baselines3 is not installed')
    from stable_baselines3.common.monitor import Monitor
    from stable_baselines3.common.vec_env import DummyVecEnv

    makers = [lambda i=i: Monitor(gymnasium.make('CartPole-v1'), str(tmp_path / str(i))) for i in range(3)]
    envs = DummyVecEnv(makers)
    rng = np.random.default_rng(0)
    envs.seed(0)
    envs.reset()
    rows = count_episodes(envs, 300, lambda: envs.step(rng.integers(2, size=3))[1:3])
    envs.close()
    episodes = episodes_of(tmp_path)
    assert len(rows) > 20 and episodes.to_numpy().tolist() == rows


def play_randomly(task: str, num_envs: int, steps: int, buffer_length: int = 10_000):
    "Play a batch of our environments with random actions, in Gymnasium's RecordEpisodeStatistics; return the wrapper"
    envs = make_tasks(task, num_envs, autoreset_mode='SameStep')
    envs = gymnasium.wrappers.vector.RecordEpisodeStatistics(envs, buffer_length)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(steps):
        envs.step(envs.action_space.sample())
    return envs


def test_episodes_are_read_from_the_queue_of_a_wrapper():
    "Episodes of one length end together, so that none is unfinished when steps are added up"
    episodes = episodes_of(play_randomly('RepeatFirst-easy', 8, 102))
    assert len(episodes) == 16 and episodes['step'].iloc[-1] == 102 * 8 and set(episodes['length']) == {51}
    with pytest.raises(ValueError, match='8.*4'):
        episodes_of(play_randomly('RepeatFirst-easy', 8, 51, buffer_length=4))


def test_random_play_scores_the_known_return():
    "From an environment to rows of the score table: the known mean return, and a maximum above it"
    episodes = episodes_of(play_randomly('RepeatFirst-easy', 100, 51 * 30))
    answer = Returns(epoch_steps=5_100).ask(episodes)
    rows = answer.run_scores(study='popgym', task='RepeatFirst-easy', method='random', protocol='fast')
    scores = check_scores(rows).set_index('metric')['value']
    assert scores['episodes'].tolist() == [100] * 30  # of 51 steps
    mean, sem = episodes['return'].mean(), episodes['return'].std() / np.sqrt(3000)
    assert abs(mean + 0.5) < 0.02 and abs(scores['epoch_return'].mean() - mean) < 1e-9
    assert scores['mmer'] > mean + 5 * sem
