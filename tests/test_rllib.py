"""Every memory in RLlib. `make rllib` installs Ray in a separate environment and runs these tests there."""

import pickle
from importlib.util import find_spec

import gymnasium as gym
import numpy as np
import pytest
import torch
from torch import nn

from srlviz.agents import rllib
from srlviz.core.names import catalog
from srlviz.core.policies import as_policy

pytestmark = [
    pytest.mark.rllib,
    pytest.mark.skipif(not find_spec('ray'), reason="Ray is not in the lock: `make rllib`"),
]
BATCHES = dict(num_env_runners=0, gym_env_vectorize_mode=gym.VectorizeMode.VECTOR_ENTRY_POINT)


@pytest.fixture(scope='module')
def ray():
    import ray

    rllib.start_ray(num_cpus=2)
    yield ray
    ray.shutdown()


def configure(config, task='RepeatFirst-easy', num_envs=16, **options):
    "Set the task, the number of environments and the memory module of an RLlib configuration"
    config.environment(f'srlviz.envs:srlviz/{task}-v0', env_config=dict(flat=True)).debugging(seed=0, log_level='ERROR')
    config.env_runners(num_envs_per_env_runner=num_envs, **BATCHES).rl_module(**rllib.memory_module(**options))
    return config


def build_module(memory, action_space=gym.spaces.Discrete(3), algorithm='PPO', **model_config):
    "Build a module that reads five numbers, without an algorithm around it"
    spec = rllib.memory_module(memory, width=8, n_hidden=8, algorithm=algorithm)['rl_module_spec']
    spec.observation_space = gym.spaces.Box(-1, 1, (5,))
    spec.action_space = action_space
    spec.model_config.update(model_config)
    torch.manual_seed(0)
    return spec.build()


def repeat_state(state, n):
    return {k: torch.as_tensor(np.asarray(v)).expand(n, -1) for k, v in state.items()}


@pytest.mark.parametrize('name', catalog('memories'))
def test_the_learner_computes_the_logits_of_the_sampler(name):
    "Single steps, with the state passed back through NumPy as RLlib does it, equal one pass over the row"
    from ray.rllib.core.columns import Columns
    from ray.rllib.utils.numpy import convert_to_numpy
    from ray.rllib.utils.torch_utils import convert_to_torch_tensor

    module = build_module(name)
    obs = torch.rand(3, 6, 5)
    state = convert_to_numpy(module.get_initial_state())
    assert module.is_stateful() == bool(state) == (name != 'MLP')
    if not state:
        assert module.forward_train({Columns.OBS: obs[:, 0]})[Columns.ACTION_DIST_INPUTS].shape == (3, 3)
        return
    batch = {Columns.OBS: obs, Columns.STATE_IN: repeat_state(state, 3)}
    output = module.forward_train(batch)
    carried = repeat_state(state, 3)
    for t in range(6):
        step = module.forward_exploration({Columns.OBS: obs[:, t : t + 1], Columns.STATE_IN: carried})
        logits = step[Columns.ACTION_DIST_INPUTS][:, 0]
        torch.testing.assert_close(logits, output[Columns.ACTION_DIST_INPUTS][:, t], rtol=1e-3, atol=1e-4)
        carried = convert_to_torch_tensor(convert_to_numpy(step[Columns.STATE_OUT]))
    assert module.compute_values(batch).shape == (3, 6)
    output[Columns.ACTION_DIST_INPUTS].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.encoder.memory.parameters())


@pytest.mark.parametrize('name', ['GRU', 'DNC', 'LRU', 'PosMLP', 'MLP'])
def test_dqn_modules_act_and_have_targets(name):
    module = build_module(name, algorithm='DQN', dueling=True, double_q=True, num_atoms=1, epsilon=0.0)
    state = repeat_state(module.get_initial_state(), 1)
    batch = dict(obs=torch.rand(1, 1, 5), state_in=state) if state else dict(obs=torch.rand(1, 5))
    output = module.forward_inference(batch)
    assert 0 <= int(output['actions'].squeeze()) < 3 and bool(state) == ('state_out' in output)
    module.make_target_networks()
    assert len(module.get_target_network_pairs()) == 3


def test_every_kind_of_action_space_has_its_logits():
    spaces = gym.spaces
    for space, n in [(spaces.Discrete(3), 3), (spaces.MultiDiscrete([8, 8]), 16), (spaces.Box(-2, 2, (1,)), 2)]:
        module = build_module('GRU', space)
        batch = dict(obs=torch.rand(2, 1, 5), state_in=repeat_state(module.get_initial_state(), 2))
        assert module.forward_exploration(batch)['action_dist_inputs'].shape == (2, 1, n)


def test_lazy_classes_are_attributes_and_can_be_pickled():
    "Other names raise AttributeError; building a module for observations that are not flat raises ValueError"
    for name in 'MemoryRLModule', 'MemoryCatalog':
        cls = getattr(rllib, name)
        assert cls is getattr(rllib, name) is pickle.loads(pickle.dumps(cls)) and cls.__module__ == rllib.__name__
    with pytest.raises(AttributeError):
        rllib.MemoryModule
    with pytest.raises(ValueError, match='flat'):
        spec = rllib.memory_module()['rl_module_spec']
        spec.observation_space, spec.action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(4)
        spec.build()


def test_column_names_are_rllibs():
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.models.base import ENCODER_OUT

    names = Columns.OBS, Columns.STATE_IN, Columns.STATE_OUT, ENCODER_OUT
    assert names == ('obs', 'state_in', 'state_out', 'encoder_out')


@pytest.mark.parametrize('mode, lengths, flags', [('NextStep', {51}, {1.0}), ('SameStep', {50, 51}, {0.0, 1.0})])
def test_episodes_are_whole(mode, lengths, flags):
    "51 steps each with the flag of the first step in NextStep, the default; RLlib supports no other mode"
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = configure(PPOConfig(), num_envs=8, memory='GRU', max_seq_len=52)
    config.environment(env_config=dict(flat=True, autoreset_mode=mode))
    runner = SingleAgentEnvRunner(config=config)
    found_lengths, found_flags = set(), set()
    for _ in range(6):
        for episode in runner.sample(num_timesteps=320, random_actions=True):
            if episode.is_done:
                found_lengths.add(episode.t)
            if episode.t_started == 0:
                found_flags.add(float(episode.get_observations(0)[-1]))
    runner.stop()
    assert (found_lengths, found_flags) == (lengths, flags)


class Counts(nn.Module):
    "Third-party memory: counts how often each input was positive, in whole numbers"

    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.n_out = n_hidden
        self.out = nn.Linear(n_in, n_hidden)

    def initial_state(self, batch_size=1):
        return torch.zeros(batch_size, self.out.in_features, dtype=torch.long)

    def forward(self, x, state, starts):
        counts = state[:, None] + (x > 0).long().cumsum(1)  # no episode begins inside a row
        return self.out(counts.float().log1p()), counts[:, -1]


def train(config, max_iterations, is_enough=lambda metrics, losses: True):
    "Train until it is enough; return the algorithm, and the last metrics of the environments and of the learner"
    algo = config.build_algo()
    for _ in range(max_iterations):
        result = algo.train()
        metrics = result['env_runners']
        losses = result.get('learners', {}).get('default_policy', {})
        if is_enough(metrics, losses):
            break
    return algo, metrics, losses


@pytest.mark.parametrize('memory, task', [(Counts, 'RepeatFirst-easy'), ('LRU', 'Battleship-easy')])
def test_ppo_runs_and_acts(ray, memory, task):
    "Also with several actions at once; the trained network then acts as a policy that keeps its state"
    from ray.rllib.algorithms.ppo import PPOConfig

    config = configure(PPOConfig(), task, memory=memory, max_seq_len=65, width=16, n_hidden=16)
    config.training(train_batch_size_per_learner=1024, minibatch_size=512, num_epochs=1)
    algo, metrics, losses = train(config, 1)
    assert np.isfinite(float(losses['total_loss'])) and -1.3 <= metrics['episode_return_mean'] <= 1
    module = algo.get_module()
    if task == 'RepeatFirst-easy':
        env = gym.make(f'srlviz/{task}-v0', flat=True)
        policy = as_policy(module, env, greedy=True)
        obs, _ = env.reset(seed=1)
        policy.reset(1)
        for _ in range(3):
            obs = env.step(policy(obs))[0]
        assert policy.state['state'].shape[0] == 1 and policy.state['state'].sum() > 0
    algo.stop()


def test_dqn_runs(ray):
    "One environment per runner: with more, RLlib's DQN mixes up rows of a stateful module"
    from ray.rllib.algorithms.dqn import DQNConfig

    config = configure(DQNConfig(), num_envs=1, memory='GRU', max_seq_len=20, algorithm='DQN', width=16, n_hidden=16)
    config.training(
        replay_buffer_config=dict(type='EpisodeReplayBuffer', capacity=10_000),
        num_steps_sampled_before_learning_starts=100,
        train_batch_size_per_learner=32,
        burn_in_len=4,
    ).reporting(min_sample_timesteps_per_iteration=160)
    algo, _, losses = train(config, 1)
    assert np.isfinite(float(losses['qf_loss']))
    algo.stop()


@pytest.mark.slow
def test_impala_runs(ray):
    from ray.rllib.algorithms.impala import IMPALAConfig

    config = configure(IMPALAConfig(), memory='LSTM', max_seq_len=52, algorithm='IMPALA', width=16, n_hidden=16)
    config.env_runners(num_env_runners=1, rollout_fragment_length=52).training(train_batch_size_per_learner=832)
    config.learners(num_aggregator_actors_per_learner=0)
    config.reporting(min_time_s_per_iteration=10)
    algo, _, losses = train(config, 12, lambda metrics, losses: 'total_loss' in losses)
    assert np.isfinite(float(losses['total_loss']))
    algo.stop()


@pytest.mark.slow
def test_ppo_learns_to_remember(ray):
    "A GRU repeats the observation of four steps ago; chance returns -.5"
    from ray.rllib.algorithms.ppo import PPOConfig

    config = configure(PPOConfig(), 'RepeatPrevious-easy', 64, memory='GRU', max_seq_len=52)
    config.training(train_batch_size_per_learner=8192, minibatch_size=2048, num_epochs=4, lr=2e-3, gamma=0.99)
    config.training(lambda_=0.95, clip_param=0.2, use_kl_loss=False, grad_clip=0.5, vf_loss_coeff=0.5)
    algo, metrics, _ = train(config, 40, lambda metrics, losses: metrics.get('episode_return_mean', -1) > 0.5)
    assert metrics['episode_return_mean'] > 0.5
    algo.stop()
