"""The policy protocol: every kind of policy plays in every recorder and explorer, and has its own identity."""

import os, subprocess, sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.vector import SyncVectorEnv

from srlviz.agents.ppo import ActorCritic, NetworkPolicy
from srlviz.core.checks.policy import check_policy
from srlviz.core.play import Recorder, episode_seed, play_episode
from srlviz.core.policies import EpsilonGreedy, as_policy, batched, policy_identity
from srlviz.core.protocols import POLICY_RULES
from srlviz.core.training import seeded
from srlviz.data.atari import FrameStackPolicy, epsilon_greedy, play_games, record_atari
from srlviz.data.popgym import record_pomdp
from srlviz.envs.pomdp.base import make_task
from srlviz.widgets.agents.environment_explorer import EnvironmentExplorer, PlayWidget

TASK = 'PositionOnlyCartPole-easy'  # two numbers in, two actions: a small network plays it
QUIET = dict(progress=False)


def agent(**options):
    "An untrained network policy for the task"
    with seeded(0):
        return NetworkPolicy(ActorCritic(torch.nn.Linear(2, 8), 8, 2), 2, **options)


class LikeStableBaselines:
    "A model with the interface of stable-baselines3, which draws from torch's global generator"

    policy = torch.nn.Linear(1, 1)

    def predict(self, observation, state=None, episode_start=None, deterministic=False):
        return np.array(0 if deterministic else int(torch.rand(1) < 0.5)), None


class CleanRLAgent(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.actor = torch.nn.Linear(2, 2)

    def get_action_and_value(self, x, action=None):
        p = torch.distributions.Categorical(logits=self.actor(x))
        action = p.sample() if action is None else action
        return action, p.log_prob(action), p.entropy(), x.sum(-1)


def push_right(obs):
    return 1


def random_action(obs, rng):
    return int(rng.integers(2))


POLICIES = {
    'agent': agent,
    'greedy agent': lambda: agent(greedy=True),
    'oracle': lambda: 'oracle',
    'random': lambda: 'random',
    'epsilon-greedy': lambda: EpsilonGreedy(agent(), 0.3),
    'stable-baselines3': LikeStableBaselines,
    'CleanRL': CleanRLAgent,
    'module': lambda: torch.nn.Linear(2, 2),
    'function': lambda: push_right,
    'random function': lambda: random_action,
    'name': lambda: f'{__name__}:push_right',
}
policies = pytest.mark.parametrize('make', POLICIES.values(), ids=POLICIES)


@pytest.fixture(autouse=True)
def same_weights():
    torch.manual_seed(0)


def same(a, b):
    return all(
        x.actions.tolist() == y.actions.tolist() and x.rewards.tolist() == y.rewards.tolist() for x, y in zip(a, b)
    )


@policies
def test_every_policy_is_recorded_reproducibly(make):
    "By record_pomdp, play_episode and a Recorder: the same seed gives the same episodes"
    policy = make()
    recording = record_pomdp(TASK, 3, policy, seed=4, max_steps=30, **QUIET)
    assert same(recording, record_pomdp(TASK, 3, policy, seed=4, max_steps=30, **QUIET))
    env = make_task(TASK)
    episode = play_episode(Recorder(env), policy, seed=episode_seed(4, 2), max_steps=30)
    assert same([recording[2]], [episode])
    assert recording.meta['policy'] == policy_identity(policy)


@policies
def test_every_policy_plays_in_the_widgets(make):
    "In EnvironmentExplorer, which plays what record_pomdp records, and in a game that a person has started"
    policy = make()
    name = policy if isinstance(policy, str) and ':' not in policy else 'mine'
    own_policies = {} if name == policy else {'mine': policy}
    explorer = EnvironmentExplorer(TASK, own_policies, policy=name, episodes=2, seed=1, interactive=True)
    assert same(explorer.recording(), record_pomdp(TASK, 2, policy, seed=1, **QUIET))
    game = PlayWidget(TASK, seed=2, interactive=True)
    game.act(0)
    game.play_policy(policy, steps=2)
    assert game.recorder.steps == 3 and game.recording().meta['helped'] == [[policy_identity(policy)]]


def test_agents_play_flat_tasks():
    "Flat observations, as the agents of the paper had them, in the recorder and in the explorer"
    with seeded(0):
        policy = NetworkPolicy(ActorCritic(torch.nn.Linear(10, 8), 8, 4), 4)
    recording = record_pomdp('RepeatPrevious-easy', 2, policy, seed=1, flat=True, **QUIET)
    explorer = EnvironmentExplorer(
        'RepeatPrevious-easy', {'mine': policy}, policy='mine', episodes=2, seed=1, flat=True, interactive=True
    )
    assert same(explorer.recording(), recording) and [c.shape for c in policy.encode(recording)] == [(51, 8)] * 2


class Screens(torch.nn.Module):
    "Scores of three actions, from the brightness of three stripes"

    def forward(self, x):
        return x.float().reshape(len(x), 3, -1).mean(-1) / 10


class Brightest:
    identity = 'the brightest stripe'

    def reset(self, seed):
        self.rng = np.random.default_rng(seed)

    def __call__(self, frame):
        return int(frame.reshape(3, -1).sum(1).argmax()) if self.rng.random() < 0.9 else 0


ATARI = {
    'agent': lambda: NetworkPolicy(Net(), 3),
    'random': lambda: 'random',
    'epsilon-greedy': lambda: epsilon_greedy(NetworkPolicy(Net(), 3)),
    'module': Screens,
    'protocol': Brightest,
    'stack': lambda: FrameStackPolicy(LikeStableBaselines(), n_actions=3),
    'random function': lambda: random_action,
}


class Net(Screens):
    def forward(self, x):
        return super().forward(x), torch.zeros(len(x))


@pytest.mark.parametrize('make', ATARI.values(), ids=ATARI)
def test_every_policy_is_recorded_on_atari(make, tmp_path):
    "In memory and in a folder; another policy is refused in the same folder"
    recording = record_atari('freeway', 120, make(), n_streams=2, n_jobs=1, **QUIET)
    saved = record_atari('freeway', 120, make(), n_streams=2, n_jobs=1, out=tmp_path / 'r', **QUIET)
    assert same(recording, saved) and recording.meta['policy'] == saved.meta['policy'] == policy_identity(make())
    with pytest.raises(ValueError, match='policy'):
        record_atari('freeway', 120, lambda frame: 1, n_streams=2, n_jobs=1, out=tmp_path / 'r', **QUIET)


def test_lives_are_episodes():
    "A policy is reset at the start of each life, with another seed; an interrupted game resumes with the same seeds"

    class Lives(Brightest):
        seeds = []

        def reset(self, seed):
            super().reset(seed)
            self.seeds.append(seed)

    recording = record_atari('breakout', 500, Lives(), n_streams=1, n_jobs=1, **QUIET)
    assert len(Lives.seeds) == len(set(Lives.seeds)) == len(recording) > 5
    assert play_games('breakout', Brightest(), games=1, **QUIET)['steps'][0] > 20


@pytest.mark.parametrize('name', ['agent', 'greedy agent', 'epsilon-greedy', 'stable-baselines3', 'CleanRL'])
def test_network_policies_keep_the_protocol(name):
    def make(env):
        torch.manual_seed(0)
        return as_policy(POLICIES[name](), env)

    check_policy(make, lambda: make_task(TASK))


def test_oracle_keeps_the_protocol():
    for task in ('Battleship-easy', 'RepeatPrevious-easy'):
        check_policy(lambda env: as_policy('oracle', env), lambda: make_task(task))
        check_policy(lambda env: EpsilonGreedy('oracle', 0.3, env), lambda: make_task(task))


def test_a_batched_policy_acts_as_the_policy_alone():
    "In each of eight environments stepped together, the actions are those of an episode played alone"
    for policy in (agent(), EpsilonGreedy(agent(), 0.5), as_policy(random_action)):
        envs = SyncVectorEnv([lambda: make_task(TASK)] * 8)
        batch, obs = batched(policy, 8), envs.reset(seed=100)[0]
        batch.reset(range(100, 108))
        for t in range(8):
            actions = batch(obs)
            obs, *_ = envs.step(actions)
            episodes = [play_episode(make_task(TASK), policy, seed=100 + i, max_steps=t + 1) for i in range(8)]
            expected = [episode.actions[t] for episode in episodes]
            assert actions.tolist() == expected


def test_playing_leaves_global_random_state_unchanged():
    before = torch.get_rng_state(), np.random.get_state()[1].tolist()
    for model in (LikeStableBaselines(), CleanRLAgent()):
        torch.set_rng_state(before[0])  # creating a network draws random numbers
        record_pomdp(TASK, 2, model, **QUIET)
    assert torch.equal(torch.get_rng_state(), before[0]) and np.random.get_state()[1].tolist() == before[1]


def test_invalid_policies_are_refused():
    for invalid, pattern in ((7, '7'), ('agnet', 'agnet'), (lambda: 0, None)):
        with pytest.raises(ValueError, match=pattern):
            record_pomdp(TASK, 1, invalid, **QUIET)
        with pytest.raises(ValueError, match=pattern):
            record_atari('pong', 8, invalid, **QUIET)
        with pytest.raises(ValueError, match=pattern):
            EnvironmentExplorer(TASK, {'mine': invalid}, policy='mine', interactive=True)


def test_one_file_adds_a_policy(tmp_path):
    "A function in a file of the user plays by its name, in a recorder and an explorer, in another process"
    (tmp_path / 'lefty.py').write_text('def left(obs):\n    return 0\n')
    script = '''
from srlviz.data.popgym import record_pomdp
from srlviz.widgets.agents.environment_explorer import EnvironmentExplorer
rec = record_pomdp('PositionOnlyCartPole-easy', 1, 'lefty:left', progress=False)
explorer = EnvironmentExplorer('PositionOnlyCartPole-easy', {'left': 'lefty:left'}, policy='left', interactive=True)
assert set(rec[0].actions) == {0} == set(explorer.rollout.episode.actions) and rec.meta['policy'].startswith('left:')
'''
    path = {'PYTHONPATH': f'{Path(__file__).parents[1]}:{tmp_path}'}
    subprocess.run([sys.executable, '-c', script], check=True, env=os.environ | path)


def test_policy_rules_are_listed_and_checked():
    assert {'members', 'seed', 'fresh', 'batched'} < POLICY_RULES.keys()
    with pytest.raises(AssertionError):
        check_policy(lambda env: push_right, lambda: gymnasium.make('CartPole-v1'))
