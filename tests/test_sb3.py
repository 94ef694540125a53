"""The factors that stable-baselines3 is given are those of the observations that it is given."""

import gymnasium
import numpy as np
import pytest

pytest.importorskip('stable_baselines3', reason='stable-baselines3 is not installed')
pytest.importorskip('cv2', reason='its Atari wrappers need OpenCV')
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecFrameStack

from srlviz.envs.atari import AtariFactors
from srlviz.envs.sb3 import vec_factors


class Told(gymnasium.Wrapper):
    "Note the factors on the picture itself, so that each observation says what its factors must be"

    def _marked(self, obs):
        ram = self.env.unwrapped.ale.getRAM()
        obs = np.array(obs)
        obs[:2, :128, 0] = ram
        return obs

    def reset(self, **kwargs):
        obs, info = self.env.reset(**kwargs)
        return self._marked(obs), info

    def step(self, action):
        obs, *rest = self.env.step(action)
        return self._marked(obs), *rest


class Plain(gymnasium.Wrapper):
    "What AtariWrapper does to the flow of episodes, without changing a pixel"

    def __init__(self, env):
        from stable_baselines3.common import atari_wrappers as theirs

        super().__init__(theirs.FireResetEnv(theirs.EpisodicLifeEnv(theirs.NoopResetEnv(env, noop_max=30))))


def breakout(steps=160):
    return Told(AtariFactors(gymnasium.make('BreakoutNoFrameskip-v4', max_episode_steps=steps, frameskip=4)))


def same(venv, obs):
    for i in range(venv.num_envs):
        ram = obs[i][0, :128, 0]
        assert venv.factors['player_x'][i] == ram[72] and venv.factors['ball_x'][i] == ram[99]
    return True


@pytest.mark.parametrize('kind', [DummyVecEnv, pytest.param(SubprocVecEnv, marks=pytest.mark.slow)])
def test_each_observation_has_its_factors(kind):
    "At resets, within a life, where a life is lost and where a game ends, in one process and in several"
    venv = vec_factors(kind([lambda: Plain(breakout())] * 2))
    try:
        venv.seed(0)
        obs, rng, ends = venv.reset(), np.random.default_rng(0), 0
        assert same(venv, obs) and all(venv.reset_infos[i]['factors']['ball_x'] == obs[i][0, 99, 0] for i in range(2))
        for _ in range(250):
            obs, _, dones, infos = venv.step(rng.integers(4, size=2))
            assert same(venv, obs)
            for i, info in enumerate(infos):
                assert info['factors']['ball_x'] == obs[i][0, 99, 0] and ('terminal_factors' in info) == dones[i]
                if dones[i]:
                    ends += 1
                    last = info['terminal_observation'][0, :128, 0]
                    assert info['terminal_factors']['ball_x'] == last[99]
                    assert info['terminal_factors']['player_x'] == last[72]
        assert ends >= 6
    finally:
        venv.close()


def test_without_the_adapter_they_belong_to_another_frame():
    "What is mended: at an end, the info of stable-baselines3 is that of the frame before; at a reset it has none"
    venv, late = DummyVecEnv([lambda: Plain(breakout())]), 0
    venv.seed(0)
    venv.reset()
    assert 'factors' not in venv.reset_infos[0]
    rng = np.random.default_rng(0)
    for _ in range(250):
        obs, _, dones, infos = venv.step(rng.integers(4, size=1))
        late += bool(dones[0] and infos[0]['factors']['player_x'] != obs[0][0, 72, 0])
    assert late


def test_in_training():
    "PPO on make_atari_env: a callback finds the factors of the observations that come next"
    seen = []

    class Look(BaseCallback):
        def _on_step(self):
            seen.append({k: v.copy() for k, v in self.training_env.factors.items()})
            assert all(self.locals['infos'][i]['factors']['ball_x'] == v for i, v in enumerate(seen[-1]['ball_x']))
            return True

    def game():
        return AtariFactors(gymnasium.make('BreakoutNoFrameskip-v4'))

    venv = VecFrameStack(vec_factors(make_atari_env(game, n_envs=2, seed=0)), 4)
    PPO('CnnPolicy', venv, n_steps=16, batch_size=16, n_epochs=1, device='cpu').learn(64, callback=Look())
    assert len(seen) == 32 and len({int(f['player_x'][0]) for f in seen}) > 2
