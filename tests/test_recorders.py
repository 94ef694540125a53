"""Recorders: what is kept across a step is a copy, and a factor that is absent is NaN or refused."""

import warnings

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

import srlviz
from srlviz.agents.actions import Acting
from srlviz.agents.actor_critic import MemoryActorCritic, as_memory
from srlviz.agents.frozen_codes import FrozenCodes
from srlviz.agents.objective import PPOConfig
from srlviz.agents.ppo import collect
from srlviz.agents.recurrent_ppo import RolloutState, play
from srlviz.agents.vectorised import TrainingEnvs
from srlviz.core.play import Recorder, play_episode
from srlviz.core.recordings import Recording
from srlviz.data.atari import record_atari
from srlviz.data.importers import from_rollout
from srlviz.data.popgym import record_pomdp
from srlviz.data.worlds.gym import GymWorld
from srlviz.envs.pomdp.base import FactorNote
from srlviz.widgets.agents.play import PlayWidget

BOX = spaces.Box(-99, 99, (2,), np.float32)
KINDS = {
    'vector': BOX,
    'nested': spaces.Dict(a=BOX, b=spaces.Tuple([BOX, spaces.Dict(c=BOX)])),
    'picture': spaces.Box(0, 255, (8, 8, 1), np.uint8),
}


class Walk(gymnasium.Env):
    """A walk whose observation, factors, info and picture are buffers that it changes in place.

    Parameters
    ----------
    kind : of observation
    reuses : return the buffers; otherwise copies of them
    tells : the names of the methods that give factors: 'factors', 'info', or ''
    """

    action_space = spaces.Box(-1, 1, (2,), np.float32)
    metadata = dict(render_modes=['rgb_array'], render_fps=10)
    render_mode = 'rgb_array'

    def __init__(self, kind='vector', reuses=True, tells='factors'):
        self.observation_space, self.kind = KINDS[kind], kind
        self.reuses, self.tells = reuses, tells
        self.place, self.whole = np.zeros(2, np.float32), np.zeros(2, np.int64)
        self.told = dict(place=self.place, whole=self.whole, steps=0)
        self.film, self.screen = np.zeros((8, 8, 1), np.uint8), np.zeros((8, 8, 3), np.uint8)
        if tells == 'factors':
            self.factors = lambda: self.own(self.told)

    def own(self, x):
        if self.reuses:
            return x
        return {k: self.own(v) for k, v in x.items()} if isinstance(x, dict) else np.array(x)

    def observe(self):
        self.whole[:] = np.round(self.place)
        self.told['steps'] = self.t
        self.film[:], self.screen[:] = self.t, 2 * self.t
        if self.kind == 'nested':
            return dict(a=self.own(self.place), b=(self.own(self.place), dict(c=self.own(self.place))))
        return self.own(self.place if self.kind == 'vector' else self.film)

    def info(self):
        return dict(factors=self.own(self.told)) if self.tells == 'info' else {}

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.place[:], self.t = self.np_random.integers(-9, 9, 2), 0
        return self.observe(), self.info()

    def step(self, action):
        self.place += action
        self.t += 1
        if self.reuses:
            action *= 0  # its caller's
        return self.observe(), float(self.t), False, self.t == 6, self.info()

    def render(self):
        return self.own(self.screen)


class Buffered:
    "A policy that returns the same array at each step, keeps what it observes, and writes to it"

    identity = 'buffered'

    def __init__(self, reuses=True):
        self.reuses = reuses
        self.action = np.zeros(2, np.float32)

    def reset(self, seed=None):
        self.rng = np.random.default_rng(seed)

    def __call__(self, obs):
        self.action[:] = self.rng.uniform(-1, 1, 2)
        if self.reuses and isinstance(obs, np.ndarray):
            obs *= 0
        return self.action if self.reuses else self.action.copy()


def _by_widget(env, policy):
    widget = PlayWidget(env, seed=3)
    policy.reset(3)
    for _ in range(4):
        widget.act(policy(widget.recorder.obs))
    return widget.recording()


RECORDERS = {
    'play_episode': lambda env, policy: Recording([play_episode(env, policy, seed=3, frames=env.kind != 'picture')]),
    'record_pomdp': lambda env, policy: record_pomdp(env, 2, policy, frames=env.kind != 'picture', progress=False),
    'srlviz.record': lambda env, policy: srlviz.record(
        env, 2, policy=policy, frames=env.kind != 'picture', progress=False
    ),
    'PlayWidget': _by_widget,
}
KEPT = {
    'obs': dict(kind='vector'),
    'nested obs': dict(kind='nested'),
    'picture': dict(kind='picture'),
    'factors': dict(tells='factors'),
    'info factors': dict(tells='info'),
    'observation as factor': dict(tells=''),
    'frame': dict(kind='vector'),
    'action': dict(kind='vector'),
}


def _arrays(recording, kept):
    "What a recording kept, by name"
    for e in recording:
        if kept in ('obs', 'nested obs'):
            yield e.obs['vector']
        elif kept in ('picture', 'frame'):
            yield e.obs['frame']
        elif kept == 'action':
            yield e.actions
        else:
            yield from e.factors.values()


@pytest.mark.parametrize('kept', KEPT)
@pytest.mark.parametrize('recorder', RECORDERS)
def test_each_row_is_that_of_an_environment_that_gives_copies(recorder, kept):
    if kept in ('info factors', 'observation as factor') and recorder != 'srlviz.record':
        pytest.skip('only worlds read infos, or take the observation as a factor')
    found = RECORDERS[recorder](Walk(**KEPT[kept]), Buffered())
    truth = RECORDERS[recorder](Walk(reuses=False, **KEPT[kept]), Buffered(reuses=False))
    pairs = [*zip(_arrays(found, kept), _arrays(truth, kept), strict=True)]
    assert pairs and all(np.array_equal(a, b) for a, b in pairs)
    assert all(len(np.unique(np.asarray(b).reshape(len(b), -1), axis=0)) > 2 for _, b in pairs[:1])


def test_records_of_an_environment_are_copied():
    class Dial(gymnasium.Env):
        observation_space, action_space = spaces.Discrete(8), spaces.Discrete(3)

        def reset(self, seed=None, options=None):
            self.record = np.zeros(1, [('at', 'i8')])
            return 0, {}

        def step(self, action):
            self.record['at'] += action
            return int(self.record['at'][0]), 0.0, False, False, {}

        def snapshot(self):
            return self.record  # no copy

        def factors_of(self, records):
            return dict(at=records['at'])

        sheet = restore = None

    episode = play_episode(Dial(), lambda obs: 1, seed=0, max_steps=5)
    assert episode.factors['at'].tolist() == [0, 1, 2, 3, 4]


def test_the_current_observation_of_a_recorder_is_a_copy():
    recorder = Recorder(Walk())
    first = recorder.reset(seed=0)
    before = first.copy()
    recorder.act(np.ones(2, np.float32))
    assert (first == before).all() and (recorder.obs != before).any()
    recorder.obs[:] = 77
    assert (recorder.instant().obs['vector'] == before + 1).all()


def _training_envs(kind, reuses):
    makers = [lambda: gymnasium.wrappers.TransformAction(Walk(kind, reuses), lambda a: a * 1.0, BOX)] * 2
    return SyncVectorEnv(makers, copy=not reuses, autoreset_mode=AutoresetMode.SAME_STEP)


@pytest.mark.parametrize('kind', ['vector', 'picture'])
def test_rollouts_of_agents_are_copies(kind):
    def gathered(reuses):
        envs = TrainingEnvs(_training_envs(kind, reuses), PPOConfig())
        seen = [envs.start(0)]
        for t in range(9):
            seen.append(envs.step(np.full((2, 2), 0.1 * t, np.float32))[0])
        return np.stack(seen)

    assert np.array_equal(gathered(True), gathered(False))


@pytest.mark.parametrize('reuses', [True, False])
def test_both_trainers_store_each_observation(reuses):
    class Clock(gymnasium.Env):
        observation_space, action_space = spaces.Box(0, 255, (3,), np.uint8), spaces.Discrete(2)
        seen = np.zeros(3, np.uint8)

        def reset(self, seed=None, options=None):
            self.seen = np.zeros(3, np.uint8)
            return self.seen, {}

        def step(self, action):
            self.seen += 1
            return self.seen, 0.0, False, False, {}

    envs = TrainingEnvs(SyncVectorEnv([Clock], copy=not reuses), PPOConfig(num_steps=5))

    def network(obs):
        return torch.zeros(len(obs), 2), torch.zeros(len(obs))

    rollout = collect(network, envs, envs.start(0), 0, torch.device('cpu'))
    assert rollout.obs[:, 0, 0].tolist() == [0, 1, 2, 3, 4] and rollout.next_obs[0, 0] == 5
    net = MemoryActorCritic(3, as_memory('GRU', 8, 8), 2, 8)
    state = RolloutState(envs.start(0), net.initial_state(1))
    _, rollout = play(net, envs, Acting(Clock.action_space), state, 5, 0)
    assert rollout.obs[0, :, 0].tolist() == [0, 1, 2, 3, 4]


def test_codes_see_the_past_as_it_was():
    class Past:
        def encode(self, recording):
            codes = np.zeros((len(recording), 12), np.float32)
            for i, e in enumerate(recording):
                rows = np.concatenate([e.obs['vector'], np.asarray(e.actions)], 1).ravel()
                codes[i, : len(rows)] = rows
            return [*codes]

    def codes(reuses):
        envs = FrozenCodes(_training_envs('vector', reuses), Past(), history=3)
        envs.reset(seed=0)
        actions, seen = np.zeros((2, 2), np.float32), []
        envs.step(actions)
        for t in range(4):
            actions = actions if reuses else actions.copy()
            actions[:] = 0.1 * t
            seen.append(envs.step(actions)[0])
        return np.stack(seen)

    assert np.array_equal(codes(True), codes(False))


def test_an_agent_remembers_the_action_that_it_chose():
    from srlviz.agents.player import AgentRows, MemoryAgent, space_config

    agent = MemoryAgent(n_in=6, acts=space_config(Walk.action_space), sees=space_config(BOX), width=8).fit(None)
    agent.reset(0)
    agent(np.zeros(2, np.float32))
    chosen = agent(np.zeros(2, np.float32))
    kept = agent.action.copy()
    chosen *= 0
    assert (agent.action == kept).all() and kept.any()
    rows = AgentRows(agent, 2)
    chosen = rows(np.zeros((2, 2), np.float32))
    chosen *= 0
    assert rows.actions.any()


@pytest.mark.parametrize('out', [None, 'folder'])
def test_a_policy_that_writes_to_its_frames_leaves_the_recording_alone(out, tmp_path):
    def choose(frame, rng):
        return int(rng.integers(3))

    def spoil(frame, rng):
        frame[:] = 0
        return int(rng.integers(3))

    plain = record_atari('pong', 40, choose, n_streams=1, n_jobs=1, progress=False)
    spoiled = record_atari(
        'pong', 40, spoil, n_streams=1, n_jobs=1, progress=False, out=None if out is None else tmp_path / out
    )
    assert np.array_equal(plain[0].obs['frame'], np.asarray(spoiled[0].obs['frame']))


def test_factors_of_stable_baselines3_are_copies():
    sb3 = pytest.importorskip('stable_baselines3.common.vec_env')
    from srlviz.envs.sb3 import vec_factors

    venv = vec_factors(sb3.DummyVecEnv([Walk]))
    venv.seed(0)
    venv.reset()
    start = venv.reset_infos[0]['factors']['place'].copy()
    kept = []
    for t in range(8):
        _, _, _, infos = venv.step(np.ones((1, 2), np.float32))
        kept.append((infos[0]['factors']['place'], infos[0]['factors']['place'].copy(), venv.factors['steps'][0]))
        if t < 5:
            assert (venv.reset_infos[0]['factors']['place'] == start).all()
    assert all((a == b).all() for a, b, _ in kept) and [int(n) for *_, n in kept] == [1, 2, 3, 4, 5, 0, 1, 2]


def test_stable_baselines3_environments_that_lack_a_factor_are_refused():
    sb3 = pytest.importorskip('stable_baselines3.common.vec_env')
    from srlviz.envs.sb3 import vec_factors

    class Less(Walk):
        def __init__(self, gone):
            super().__init__()
            self.factors = lambda: dict(steps=1) | gone

    for gone in {}, dict(extra=None):
        venv = vec_factors(sb3.DummyVecEnv([lambda: Less(dict(extra=2.0)), lambda gone=gone: Less(gone)]))
        with pytest.raises(ValueError, match="environment 1 gives no factor 'extra'"):
            venv.reset()


class Sometimes(gymnasium.Env):
    """An environment whose info has factors at some instants only.

    Parameters
    ----------
    given : t -> the factors in the info of instant t, or None for an info without them
    """

    observation_space, action_space = spaces.Box(-9, 9, (1,), np.float32), spaces.Discrete(2)

    def __init__(self, given, n=4, writes_none=False):
        self.given, self.n, self.writes_none = given, n, writes_none

    def told(self):
        factors = self.given(self.t)
        has_none = self.writes_none or factors is not None
        return np.full(1, self.t, np.float32), dict(factors=factors) if has_none else {}

    def reset(self, seed=None, options=None):
        self.t = 0
        return self.told()

    def step(self, action):
        self.t += 1
        obs, info = self.told()
        return obs, 0.0, False, self.t == self.n, info


ABSENT = {
    'no factors at the reset': lambda x: lambda t: None if t == 0 else dict(x=x),
    'None at the reset': lambda x: lambda t: dict(x=None if t == 0 else x),
    'masked at the reset': lambda x: lambda t: dict(x=np.ma.masked if t == 0 else x),
    'no such factor at the reset': lambda x: lambda t: dict(y=1) if t == 0 else dict(x=x, y=1),
    'it vanishes': lambda x: lambda t: dict(y=1) if t == 2 else dict(x=x, y=1),
    'the info is empty later': lambda x: lambda t: None if t == 2 else dict(x=x),
}


@pytest.mark.parametrize('case', ABSENT)
def test_an_absent_float_is_nan_and_anything_else_is_refused(case):
    gone = 2 if case in ('it vanishes', 'the info is empty later') else 0
    recording = srlviz.record(Sometimes(ABSENT[case](0.5)), 2, progress=False)
    as_none = srlviz.record(Sometimes(ABSENT[case](0.5), writes_none=True), 2, progress=False)
    for e in [*recording, *as_none]:
        assert np.flatnonzero(np.isnan(e.factors['x'])).tolist() == [gone]
        assert np.nanmin(e.factors['x']) == np.nanmax(e.factors['x']) == 0.5
        assert not any(k.startswith('observation') for k in e.factors)
    assert {f.name: f.kind for f in recording.factors}['x'] == 'continuous'
    for value in 3, True, 'red':
        with pytest.raises(ValueError, match=f"'x' of .*Sometimes.* row {gone} .*reset"):
            srlviz.record(Sometimes(ABSENT[case](value)), 1, progress=False)


@pytest.mark.parametrize('value', [3, True, 'red', 0.5])
def test_factors_that_only_the_last_info_lacks_are_complete(value):
    recording = srlviz.record(Sometimes(lambda t: None if t == 4 else dict(x=value)), 2, progress=False)
    assert [f.name for f in recording.factors] == ['x']
    assert all(e.factors['x'].tolist() == [value] * 4 for e in recording)


def test_a_function_of_the_environment_may_lack_a_factor_as_well():
    def factors(env):
        return {} if env.unwrapped.t == 1 else dict(x=float(env.unwrapped.t))

    recording = srlviz.record(GymWorld(Sometimes(lambda t: None), factors=factors), 1, progress=False)
    assert np.nan_to_num(recording[0].factors['x'], nan=-1).tolist() == [0, -1, 2, 3]


@pytest.mark.parametrize('values', [[2.5, 'a'], ['a', 2.5], ['a', True]])
def test_a_factor_that_is_text_and_a_number_is_refused(values):
    with pytest.raises(ValueError, match="'x' of .*is text, as in row .*, and numbers, as in row"):
        srlviz.record(Sometimes(lambda t: dict(x=values[t > 1])), 1, progress=False)


def test_an_environment_states_the_kind_of_a_factor_or_its_values_do():
    class Long(Sometimes):
        def factors(self):
            return dict(t_left=200 - self.t)

    env = Long(lambda t: None, n=200)
    for note, kind in (
        (None, 'continuous'),
        (FactorNote('left'), 'categorical'),
        (FactorNote('', kind=''), 'continuous'),
    ):
        env.factor_notes = {} if note is None else dict(t_left=note)
        for recording in record_pomdp(env, 1, progress=False), srlviz.record(env, 1, progress=False):
            assert [f.kind for f in recording.factors] == [kind]


def test_a_factor_of_later_episodes_is_refused():
    starts = []

    def given(t):
        starts.extend([0] if t == 0 else [])
        return dict(x=1, y=2) if len(starts) > 1 else dict(x=1)

    with pytest.raises(ValueError, match="episode 1 has factors.'y'"):
        srlviz.record(Sometimes(given), 2, progress=False)


def test_an_environment_that_renders_nothing_is_refused():
    class Blind(Walk):
        def render(self):
            return None

    with pytest.raises(ValueError, match='no frame'):
        srlviz.record(Blind(), 1, frames=True, progress=False)


def _infos(env, mode, steps=6):
    "Observations (T, B, 1), ends (T, B) and infos of a Gymnasium loop over two environments"
    envs = SyncVectorEnv([lambda: Sometimes(env), lambda: Sometimes(env, n=9)], autoreset_mode=mode)
    obs, info = envs.reset(seed=0)
    rows, infos, ends = [obs], [info], []
    for _ in range(steps):
        obs, _, terminated, truncated, info = envs.step(np.zeros(2, int))
        rows.append(obs)
        infos.append(info)
        ends.append(terminated | truncated)
    rows, ends = np.stack(rows[:-1]), np.stack(ends)
    if mode == AutoresetMode.NEXT_STEP:  # the observation after an end is the last, its row ends the episode
        ends = np.concatenate([ends[:1] * False, ends[:-1]])
        return rows, dict(truncated=ends), infos[:-1]
    return rows, dict(starts=np.concatenate([ends[:1] | True, ends[:-1]])), infos[:-1]


@pytest.mark.parametrize('mode', [AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP])
@pytest.mark.parametrize('value', [3, 0.5, True, 'red'])
def test_masks_of_vector_environments_are_read(mode, value):
    obs, ends, infos = _infos(lambda t: dict(x=value, t_too=t), mode)
    for factors in infos, [info['factors'] for info in infos]:
        recording = from_rollout(obs, **ends, factors=factors)
        x = next(f for f in recording.factors if f.name == 'x')
        assert {x.word(v) for e in recording for v in e.factors['x']} == {str(value)}
        assert all((e.factors['t_too'] == e.obs['vector'][:, 0]).all() for e in recording)
    # the first environment starts again in step 4 or 5, and tells nothing at a reset, as at the start
    obs, ends, infos = _infos(lambda t: None if t == 0 else dict(x=value), mode)
    with pytest.raises(ValueError, match="'x' is absent in row 0 of environment 0"):
        from_rollout(obs, **ends, factors=infos)
    row = 5 if mode == AutoresetMode.NEXT_STEP else 4
    obs, infos = obs[1:], infos[1:]
    ends = {k: v[1:] for k, v in ends.items()}
    for factors in infos, [info['factors'] for info in infos]:
        with pytest.raises(ValueError, match=f"'x' is absent in row {row - 1} of environment 0.*reset"):
            from_rollout(obs, **ends, factors=factors)


@pytest.mark.parametrize('name', ['t', 'episode', ''])
def test_an_environment_whose_factor_has_a_reserved_name_is_refused(name):
    with warnings.catch_warnings(), pytest.raises(ValueError, match=f'factor.*{name!r}'):
        warnings.simplefilter('ignore')
        srlviz.record(Sometimes(lambda t: {name: t}), 2, progress=False)
