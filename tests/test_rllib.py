"""Every memory under RLlib: `make rllib` puts Ray into an environment of its own and runs this there."""

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


def configured(config, task='RepeatFirst-easy', num_envs=16, **asked):
    config.environment(f'srlviz.envs:srlviz/{task}-v0', env_config=dict(flat=True)).debugging(seed=0, log_level='ERROR')
    config.env_runners(num_envs_per_env_runner=num_envs, **BATCHES).rl_module(**rllib.memory_module(**asked))
    return config


def built(memory, action_space=gym.spaces.Discrete(3), algorithm='PPO', **more):
    "A module without an algorithm around it, that reads five numbers"
    made = rllib.memory_module(memory, width=8, n_hidden=8, algorithm=algorithm)
    spec = made['rl_module_spec']
    spec.observation_space, spec.action_space = gym.spaces.Box(-1, 1, (5,)), action_space
    spec.model_config.update(more)
    torch.manual_seed(0)
    return spec.build()


def rows(state, n):
    return {k: torch.as_tensor(np.asarray(v)).expand(n, -1) for k, v in state.items()}


@pytest.mark.parametrize('name', catalog('memories'))
def test_the_learner_sees_what_the_sampler_saw(name):
    "Step by step with the state handed back, through NumPy as RLlib does it, equals the row that is learned from"
    from ray.rllib.core.columns import Columns
    from ray.rllib.utils.numpy import convert_to_numpy
    from ray.rllib.utils.torch_utils import convert_to_torch_tensor

    module, obs = built(name), torch.rand(3, 6, 5)
    state = convert_to_numpy(module.get_initial_state())
    assert module.is_stateful() == bool(state) == (name != 'MLP')
    if not state:
        assert module.forward_train({Columns.OBS: obs[:, 0]})[Columns.ACTION_DIST_INPUTS].shape == (3, 3)
        return
    batch = {Columns.OBS: obs, Columns.STATE_IN: rows(state, 3)}
    learned, carried = module.forward_train(batch), rows(state, 3)
    for t in range(6):
        step = module.forward_exploration({Columns.OBS: obs[:, t : t + 1], Columns.STATE_IN: carried})
        logits = step[Columns.ACTION_DIST_INPUTS][:, 0]
        torch.testing.assert_close(logits, learned[Columns.ACTION_DIST_INPUTS][:, t], rtol=1e-3, atol=1e-4)
        carried = convert_to_torch_tensor(convert_to_numpy(step[Columns.STATE_OUT]))
    assert module.compute_values(batch).shape == (3, 6)
    learned[Columns.ACTION_DIST_INPUTS].square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in module.encoder.memory.parameters())


@pytest.mark.parametrize('name', ['GRU', 'DNC', 'LRU', 'PosMLP', 'MLP'])
def test_dqn_takes_a_memory(name):
    module = built(name, algorithm='DQN', dueling=True, double_q=True, num_atoms=1, epsilon=0.0)
    state = rows(module.get_initial_state(), 1)
    batch = dict(obs=torch.rand(1, 1, 5), state_in=state) if state else dict(obs=torch.rand(1, 5))
    said = module.forward_inference(batch)
    assert 0 <= int(said['actions'].squeeze()) < 3 and bool(state) == ('state_out' in said)
    module.make_target_networks()
    assert len(module.get_target_network_pairs()) == 3


def test_actions_of_every_kind():
    spaces = gym.spaces
    for space, n in [(spaces.Discrete(3), 3), (spaces.MultiDiscrete([8, 8]), 16), (spaces.Box(-2, 2, (1,)), 2)]:
        module = built('GRU', space)
        batch = dict(obs=torch.rand(2, 1, 5), state_in=rows(module.get_initial_state(), 2))
        assert module.forward_exploration(batch)['action_dist_inputs'].shape == (2, 1, n)


def test_classes_are_found_by_name():
    for name in 'MemoryRLModule', 'MemoryCatalog':
        made = getattr(rllib, name)
        assert made is getattr(rllib, name) is pickle.loads(pickle.dumps(made)) and made.__module__ == rllib.__name__
    with pytest.raises(AttributeError):
        rllib.MemoryModule
    with pytest.raises(ValueError, match='flat'):
        made = rllib.memory_module()['rl_module_spec']
        made.observation_space, made.action_space = gym.spaces.Discrete(4), gym.spaces.Discrete(4)
        made.build()


def test_its_words_are_rllibs():
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.models.base import ENCODER_OUT

    words = Columns.OBS, Columns.STATE_IN, Columns.STATE_OUT, ENCODER_OUT
    assert words == ('obs', 'state_in', 'state_out', 'encoder_out')


@pytest.mark.parametrize('mode, lengths, flags', [('NextStep', {51}, {1.0}), ('SameStep', {50, 51}, {0.0, 1.0})])
def test_episodes_are_whole(mode, lengths, flags):
    "51 steps each and the flag of a first step, in our batches of the default mode; RLlib takes no other"
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.env.single_agent_env_runner import SingleAgentEnvRunner

    config = configured(PPOConfig(), num_envs=8, memory='GRU', max_seq_len=52)
    config.environment(env_config=dict(flat=True, autoreset_mode=mode))
    runner, seen, first = SingleAgentEnvRunner(config=config), set(), set()
    for _ in range(6):
        for episode in runner.sample(num_timesteps=320, random_actions=True):
            if episode.is_done:
                seen.add(episode.t)
            if episode.t_started == 0:
                first.add(float(episode.get_observations(0)[-1]))
    runner.stop()
    assert (seen, first) == (lengths, flags)


class Counts(nn.Module):
    "A stranger's memory: how often each input was positive, in whole numbers"

    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.n_out, self.out = n_hidden, nn.Linear(n_in, n_hidden)

    def initial_state(self, batch_size=1):
        return torch.zeros(batch_size, self.out.in_features, dtype=torch.long)

    def forward(self, x, state, starts):
        counts = state[:, None] + (x > 0).long().cumsum(1)  # no episode begins inside a row
        return self.out(counts.float().log1p()), counts[:, -1]


def trained(config, n, enough=lambda said: True):
    algo, heard = config.build_algo(), []
    for _ in range(n):
        said = algo.train()
        heard.append((said['env_runners'], said.get('learners', {}).get('default_policy', {})))
        if enough(heard[-1]):
            break
    return algo, heard


@pytest.mark.parametrize('memory, task', [(Counts, 'RepeatFirst-easy'), ('LRU', 'Battleship-easy')])
def test_ppo_runs_and_acts(ray, memory, task):
    "Also with several actions at once; the network then plays as a policy that keeps its state"
    from ray.rllib.algorithms.ppo import PPOConfig

    config = configured(PPOConfig(), task, memory=memory, max_seq_len=65, width=16, n_hidden=16)
    algo, heard = trained(config.training(train_batch_size_per_learner=1024, minibatch_size=512, num_epochs=1), 1)
    assert np.isfinite(float(heard[-1][1]['total_loss'])) and -1.3 <= heard[-1][0]['episode_return_mean'] <= 1
    module = algo.get_module()
    if task == 'RepeatFirst-easy':
        env = gym.make(f'srlviz/{task}-v0', flat=True)
        player, (obs, _) = as_policy(module, env, greedy=True), env.reset(seed=1)
        player.reset(1)
        for _ in range(3):
            obs = env.step(player(obs))[0]
        assert player.state['state'].shape[0] == 1 and player.state['state'].sum() > 0
    algo.stop()


def test_dqn_runs(ray):
    "One environment a runner: with more, RLlib's own DQN mixes up rows of a stateful module"
    from ray.rllib.algorithms.dqn import DQNConfig

    config = configured(DQNConfig(), num_envs=1, memory='GRU', max_seq_len=20, algorithm='DQN', width=16, n_hidden=16)
    config.training(
        replay_buffer_config=dict(type='EpisodeReplayBuffer', capacity=10_000),
        num_steps_sampled_before_learning_starts=100,
        train_batch_size_per_learner=32,
        burn_in_len=4,
    ).reporting(min_sample_timesteps_per_iteration=160)
    algo, heard = trained(config, 1)
    assert np.isfinite(float(heard[-1][1]['qf_loss']))
    algo.stop()


@pytest.mark.slow
def test_impala_runs(ray):
    from ray.rllib.algorithms.impala import IMPALAConfig

    config = configured(IMPALAConfig(), memory='LSTM', max_seq_len=52, algorithm='IMPALA', width=16, n_hidden=16)
    config.env_runners(num_env_runners=1, rollout_fragment_length=52).training(train_batch_size_per_learner=832)
    config.learners(num_aggregator_actors_per_learner=0)
    algo, heard = trained(config.reporting(min_time_s_per_iteration=10), 12, lambda said: 'total_loss' in said[1])
    assert np.isfinite(float(heard[-1][1]['total_loss']))
    algo.stop()


@pytest.mark.slow
def test_ppo_learns_to_remember(ray):
    "A GRU repeats what was seen four steps ago; chance gives -.5"
    from ray.rllib.algorithms.ppo import PPOConfig

    config = configured(PPOConfig(), 'RepeatPrevious-easy', 64, memory='GRU', max_seq_len=52)
    config.training(train_batch_size_per_learner=8192, minibatch_size=2048, num_epochs=4, lr=2e-3, gamma=0.99)
    config.training(lambda_=0.95, clip_param=0.2, use_kl_loss=False, grad_clip=0.5, vf_loss_coeff=0.5)
    algo, heard = trained(config, 40, lambda said: said[0].get('episode_return_mean', -1) > 0.5)
    assert heard[-1][0]['episode_return_mean'] > 0.5
    algo.stop()
