"""The probe callback in stable-baselines3, in Lightning, and in the monitor of a sweep."""

import copy

import gymnasium
import numpy as np
import pytest
import torch

import srlviz
from srlviz.core.jobs.runs import RunFolder
from srlviz.core.play import episode_seed
from srlviz.core.policies import PolicyView, as_policy
from srlviz.core.recordings import Episode, Recording
from srlviz.studies.probe_callback import ProbeCallback, default_codes
from srlviz.studies.sweep import sweep
from srlviz.widgets.run_monitor import RunMonitor


def _poles(size=4):
    "Recording of random states of CartPole or, with three numbers, of a pendulum"

    def episode(seed):
        rng = np.random.default_rng(seed)
        state = rng.normal(scale=0.1, size=(40, size)).astype(np.float32)
        return Episode(dict(vector=state), factors=dict(angle=state[:, 2]))

    # 'test' has more rows than the last hidden layer of any algorithm has codes
    return Recording([episode(i) for i in range(30)], name='poles').with_split(probe=0.5, valid=0.15, test=0.35)


@pytest.mark.parametrize('algorithm', ['PPO', 'DQN', 'SAC'])
def test_stable_baselines3_learns_the_same_with_the_callback(algorithm):
    sb3 = pytest.importorskip('stable_baselines3', reason='stable-baselines3 is not installed')
    task, size = ('Pendulum-v1', 3) if algorithm == 'SAC' else ('CartPole-v1', 4)
    options = dict(n_steps=64, n_epochs=2) if algorithm == 'PPO' else dict(learning_starts=50)

    def train(callback=None):
        model = getattr(sb3, algorithm)('MlpPolicy', task, seed=0, device='cpu', **options)
        model.learn(192, callback=callback)
        return [p.detach().clone() for p in model.policy.parameters()]

    callback = ProbeCallback(_poles(size), 64)
    with_callback = train(callback)
    without = train()
    for a, b in zip(with_callback, without, strict=True):
        assert a.equal(b)
    history = callback.history_
    assert history['step'].tolist() == [1, 64, 128, 192]
    assert history['probe_skill'].between(0.5, 1).all() and (history['effective_rank'] > 1).all()


def test_the_codes_of_an_actor_change_while_it_learns():
    "The callback reads the actor; the codes of features_extractor, which only flattens, would not change"
    sb3 = pytest.importorskip('stable_baselines3', reason='stable-baselines3 is not installed')
    model = sb3.PPO('MlpPolicy', 'CartPole-v1', seed=0, device='cpu', n_steps=64)
    callback = ProbeCallback(_poles(), 64)
    model.learn(256, callback=callback)
    assert callback.history_['effective_rank'].nunique() > 2


ALGORITHMS = {
    'PPO': ('stable_baselines3', 64),
    'A2C': ('stable_baselines3', 64),
    'DQN': ('stable_baselines3', 64),
    'SAC': ('stable_baselines3', 256),
    'TD3': ('stable_baselines3', 300),
    'DDPG': ('stable_baselines3', 300),
    'TRPO': ('sb3_contrib', 64),
    'MaskablePPO': ('sb3_contrib', 64),
    'QRDQN': ('sb3_contrib', 64),
    'TQC': ('sb3_contrib', 256),
    'CrossQ': ('sb3_contrib', 256),
    'ARS': ('sb3_contrib', 64),
}


def agent(algorithm, env=None, policy='MlpPolicy', **options):
    "An untrained model"
    library, _ = ALGORITHMS.get(algorithm, ('sb3_contrib', 0))
    sb3 = pytest.importorskip(library, reason=f'{library} is not installed')
    continuous = algorithm in ('SAC', 'TD3', 'DDPG', 'TQC', 'CrossQ')
    env = env or ('Pendulum-v1' if continuous else 'CartPole-v1')
    return getattr(sb3, algorithm)(policy, env, seed=0, device='cpu', **options)


@pytest.mark.parametrize('algorithm', ALGORITHMS)
def test_codes_are_the_last_hidden_layer_of_what_chooses_actions(algorithm):
    "A linear map of them, the last layer, gives the actions, scores or means that the policy computes itself"
    model = agent(algorithm)
    recording = _poles(model.observation_space.shape[0])
    codes = default_codes(model, recording)[0]
    assert codes.shape == (40, ALGORITHMS[algorithm][1])
    policy, obs = model.policy, torch.from_numpy(np.array(recording[0].obs['vector']))
    policy.set_training_mode(False)
    network = next((getattr(policy, k) for k in ('actor', 'q_net', 'quantile_net') if hasattr(policy, k)), policy)
    heads = [getattr(network, k) for k in ('mu', 'q_net', 'quantile_net', 'action_net') if hasattr(network, k)]
    last = [m for m in heads[0].modules() if isinstance(m, torch.nn.Linear)][-1]
    outputs = []
    hook = last.register_forward_hook(lambda module, x, y: outputs.append(y))
    with torch.no_grad():
        policy._predict(obs, deterministic=True)
        hook.remove()
        np.testing.assert_allclose(last(torch.from_numpy(codes)), outputs[0], atol=1e-5)


def test_separate_extractors_and_layers_by_name():
    model = agent('PPO', policy_kwargs=dict(share_features_extractor=False))
    recording = _poles()
    codes = default_codes(model, recording)
    np.testing.assert_allclose(codes[0], default_codes(model, recording, 'mlp_extractor.policy_net.3')[0], atol=1e-6)
    assert default_codes(model, recording, 'mlp_extractor.policy_net')[0].shape == (40, 64)


def test_a_recurrent_policy_is_probed_by_its_state():
    "The state after each step is that of playing the episode, in each episode from its start"
    model = agent('RecurrentPPO', policy='MlpLstmPolicy', policy_kwargs=dict(lstm_hidden_size=16, n_lstm_layers=2))
    recording = _poles()
    codes = default_codes(model, recording)
    for episode, code in list(zip(recording, codes))[::9]:
        state, starts = None, np.ones(1, bool)
        for t, obs in enumerate(np.array(episode.obs['vector'])):
            _, state = model.predict(obs, state, starts, deterministic=True)
            starts = np.zeros(1, bool)
            np.testing.assert_allclose(code[t], np.concatenate([s[:, 0].ravel() for s in state]), atol=1e-5)


@pytest.mark.parametrize('algorithm', ['PPO', 'DQN', 'SAC'])
def test_a_policy_without_a_hidden_layer_is_refused_before_training(algorithm):
    model = agent(algorithm, policy_kwargs=dict(net_arch=[]))
    recording = _poles(model.observation_space.shape[0])
    with pytest.raises(ValueError, match='no hidden layer.*layer='):
        ProbeCallback(recording, model=model)
    with pytest.raises(ValueError, match='no hidden layer.*layer='):
        model.learn(10, callback=ProbeCallback(recording))
    assert model.num_timesteps == 0
    with pytest.raises(ValueError, match='layer.*nowhere'):
        ProbeCallback(recording, model=model, layer='nowhere')


def test_observations_of_another_form_are_refused_before_training():
    model = agent('PPO')
    with pytest.raises(ValueError, match=r'vector \(3,\).*encode='):
        model.learn(10, callback=[ProbeCallback(_poles(3))])
    assert model.num_timesteps == 0


class Corridor(gymnasium.Env):
    "A place in a corridor as a code, a pair of codes, a small picture, or metres far from the origin"

    spaces = dict(
        code=gymnasium.spaces.Discrete(8),
        pair=gymnasium.spaces.MultiDiscrete([2, 4]),
        picture=gymnasium.spaces.Box(0, 255, (36, 40, 1), np.uint8),
        metres=gymnasium.spaces.Box(-1e6, 1e6, (2,), np.float32),
    )
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, kind):
        self.kind, self.observation_space = kind, self.spaces[kind]

    def seen(self):
        if self.kind == 'code':
            return np.int64(self.place)
        if self.kind == 'pair':
            return np.array(divmod(self.place, 4))
        if self.kind == 'metres':
            return np.array([50_000 + 100 * self.place, self.t], np.float32)
        picture = np.zeros((36, 40, 1), np.uint8)
        picture[:, 5 * self.place : 5 * self.place + 5] = 200
        return picture

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.t = int(self.np_random.integers(8)), 0
        return self.seen(), {}

    def step(self, action):
        self.place = int(np.clip(self.place + (1 if action else -1), 0, 7))
        self.t += 1
        return self.seen(), float(self.place), False, self.t >= 12, {}

    def factors(self):
        return dict(place=np.float64(self.place))


for _kind in Corridor.spaces:
    gymnasium.register(f'Corridor{_kind}-v0', Corridor, kwargs=dict(kind=_kind))


@pytest.mark.parametrize('kind', Corridor.spaces)
@pytest.mark.parametrize('order', ['normalized, stacked', 'stacked, normalized'])
def test_the_probe_and_the_recorder_read_what_the_policy_sees(kind, order):
    "The observations with which stable-baselines3 calls the policy, in the same episode"
    vec_env = pytest.importorskip('stable_baselines3.common.vec_env', reason='stable-baselines3 is not installed')
    venv = vec_env.DummyVecEnv([lambda: gymnasium.make(f'Corridor{kind}-v0')])
    for wrapper in order.split(', ') if kind == 'metres' else order.split(', ')[:1] if kind == 'picture' else ():
        venv = vec_env.VecNormalize(venv) if wrapper == 'normalized' and kind == 'metres' else venv
        venv = vec_env.VecFrameStack(venv, 3) if wrapper == 'stacked' else venv
    policy = 'CnnPolicy' if kind == 'picture' else 'MlpPolicy'
    model = agent('PPO', venv, policy, n_steps=16, batch_size=16, n_epochs=1)
    model.learn(64)
    before = copy.deepcopy(getattr(model.get_vec_normalize_env(), 'obs_rms', None))
    recording = srlviz.record(f'Corridor{kind}-v0', 2, policy=model, seed=0)
    seen = PolicyView(model)(recording[0].obs)
    if before is not None:
        assert np.array_equal(before.mean, model.get_vec_normalize_env().obs_rms.mean)
        model.get_vec_normalize_env().training = False
    env, base = model.get_env(), model.get_env().unwrapped.envs[0].unwrapped
    obs = env.reset()
    places = recording[0].factors['place'].astype(int)
    while base.place != places[0]:
        obs = env.reset()
    for t, action in enumerate(recording[0].actions[:8]):
        np.testing.assert_allclose(seen[t], obs[0], rtol=1e-5)
        obs, *_ = env.step(np.array([action]))


def test_a_recorder_plays_a_model_as_its_own_environment_does():
    "With normalisation and a stack, the actions are those that the model takes in its own vector environment"
    vec_env = pytest.importorskip('stable_baselines3.common.vec_env', reason='stable-baselines3 is not installed')
    venv = vec_env.DummyVecEnv([lambda: gymnasium.make('Corridormetres-v0')])
    venv = vec_env.VecFrameStack(vec_env.VecNormalize(venv), 2)
    model = agent('PPO', venv, n_steps=64, batch_size=32, learning_rate=0.01)
    model.learn(256)
    policy = as_policy(model, model.action_space, greedy=True)
    (played,) = srlviz.record('Corridormetres-v0', 1, policy=policy, seed=3)
    model.get_vec_normalize_env().training = False
    env, actions = model.get_env(), []
    env.seed(episode_seed(3, 0))
    obs = env.reset()
    for _ in range(len(played)):
        action, _ = model.predict(obs, deterministic=True)
        actions.append(int(action[0]))
        obs, *_ = env.step(action)
    assert played.actions.tolist() == actions and len(set(actions)) == 2


def test_unknown_wrappers_and_agents_without_forward_are_refused_at_once():
    "A vector environment of the user's own, and an agent like CleanRL's, whose parts are to be named"
    vec_env = pytest.importorskip('stable_baselines3.common.vec_env', reason='stable-baselines3 is not installed')

    class Doubled(vec_env.VecEnvWrapper):
        def reset(self):
            return 2 * self.venv.reset()

        def step_wait(self):
            obs, *rest = self.venv.step_wait()
            return 2 * obs, *rest

    model = agent('PPO', Doubled(vec_env.DummyVecEnv([lambda: gymnasium.make('CartPole-v1')])))
    with pytest.raises(ValueError, match='Doubled.*encode='):
        ProbeCallback(_poles(), model=model)
    with pytest.raises(ValueError, match='Doubled.*policy'):
        srlviz.record('CartPole-v1', 1, policy=model)

    class Agent(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.actor = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

        def get_action_and_value(self, x):
            return self.actor(x).argmax(1), None

    with pytest.raises(ValueError, match='no forward.*actor.*encode='):
        ProbeCallback(_poles(), model=Agent())


def test_lightning_trains_the_same_with_the_callback(tmp_path):
    lightning = pytest.importorskip('lightning', reason='Lightning is not installed')
    rows = torch.randn(256, 4, generator=torch.Generator().manual_seed(0))

    class Module(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 4))

        def forward(self, x):
            return self.net(x)

        def training_step(self, batch, batch_idx):
            return (self(batch) - batch).square().mean()

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    def train(*callbacks):
        lightning.seed_everything(0)
        module = Module()
        loader = torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True)
        trainer = lightning.Trainer(
            max_epochs=2,
            callbacks=[*callbacks],
            accelerator='cpu',
            logger=False,
            enable_progress_bar=False,
            default_root_dir=tmp_path,
        )
        trainer.fit(module, loader)
        return copy.deepcopy(module.state_dict())

    callback = ProbeCallback(_poles(), 8)
    with_callback = train(callback)
    without = train()
    assert all(with_callback[k].equal(without[k]) for k in without)
    assert callback.history_['step'].tolist() == [1, 8, 16, 24, 32]


def _trial(seed: int = 0) -> list:
    "Trial of a sweep that probes its network"
    torch.manual_seed(seed)
    net = torch.nn.Linear(4, 3)
    callback = ProbeCallback(_poles(), 10)
    for step in range(21):
        callback(step, net)
    return []


def test_a_sweep_keeps_the_curves_of_its_probes(tmp_path):
    sweep(_trial, dict(seed=[0, 1]), tmp_path, progress=False)
    folder = RunFolder(tmp_path)
    folder.refresh()
    curves = folder.curves(folder.runs['key'], ['probe_skill'])
    assert (folder.runs['status'] == 'done').sum() == 2
    assert curves['step'].unique().tolist() == [0, 10, 20] and curves['value'].between(0, 1).all()
    monitor = RunMonitor(tmp_path, interactive=True)
    monitor.curve = 'probe_skill'  # an unknown curve would be refused
    assert monitor.curve == 'probe_skill' and monitor.figures()
