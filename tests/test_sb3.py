"""In stable-baselines3, the factors belong to the observations they are returned with."""

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


class RamInPicture(gymnasium.Wrapper):
    "Write the RAM into the picture, so that each observation contains its true factors"

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


class EpisodesOfAtariWrapper(gymnasium.Wrapper):
    "Start and end episodes as AtariWrapper does, without changing a pixel"

    def __init__(self, env):
        from stable_baselines3.common.atari_wrappers import EpisodicLifeEnv, FireResetEnv, NoopResetEnv

        super().__init__(FireResetEnv(EpisodicLifeEnv(NoopResetEnv(env, noop_max=30))))


def breakout(max_steps=160):
    env = gymnasium.make('BreakoutNoFrameskip-v4', max_episode_steps=max_steps, frameskip=4)
    return RamInPicture(AtariFactors(env))


def factors_match(venv, obs):
    "Assert that the factors are those in the RAM of each picture"
    for i in range(venv.num_envs):
        ram = obs[i][0, :128, 0]
        assert venv.factors['player_x'][i] == ram[72] and venv.factors['ball_x'][i] == ram[99]
    return True


@pytest.mark.parametrize('kind', [DummyVecEnv, pytest.param(SubprocVecEnv, marks=pytest.mark.slow)])
def test_each_observation_has_its_factors(kind):
    "At resets, within a life, when a life is lost and when a game ends, in one process and in several"
    venv = vec_factors(kind([lambda: EpisodesOfAtariWrapper(breakout())] * 2))
    try:
        venv.seed(0)
        obs = venv.reset()
        rng = np.random.default_rng(0)
        n_ends = 0
        assert factors_match(venv, obs)
        assert all(venv.reset_infos[i]['factors']['ball_x'] == obs[i][0, 99, 0] for i in range(2))
        for _ in range(250):
            obs, _, dones, infos = venv.step(rng.integers(4, size=2))
            assert factors_match(venv, obs)
            for i, info in enumerate(infos):
                assert info['factors']['ball_x'] == obs[i][0, 99, 0] and ('terminal_factors' in info) == dones[i]
                if dones[i]:
                    n_ends += 1
                    last_ram = info['terminal_observation'][0, :128, 0]
                    assert info['terminal_factors']['ball_x'] == last_ram[99]
                    assert info['terminal_factors']['player_x'] == last_ram[72]
        assert n_ends >= 6
    finally:
        venv.close()


def test_without_the_adapter_factors_belong_to_another_frame():
    "At an end, the info of stable-baselines3 is that of the previous frame; at a reset there is none"
    venv = DummyVecEnv([lambda: EpisodesOfAtariWrapper(breakout())])
    n_late = 0
    venv.seed(0)
    venv.reset()
    assert 'factors' not in venv.reset_infos[0]
    rng = np.random.default_rng(0)
    for _ in range(250):
        obs, _, dones, infos = venv.step(rng.integers(4, size=1))
        n_late += bool(dones[0] and infos[0]['factors']['player_x'] != obs[0][0, 72, 0])
    assert n_late


def test_callbacks_find_the_factors_of_the_next_observations():
    "PPO on make_atari_env"
    recorded = []

    class RecordFactors(BaseCallback):
        def _on_step(self):
            recorded.append({k: v.copy() for k, v in self.training_env.factors.items()})
            assert all(self.locals['infos'][i]['factors']['ball_x'] == v for i, v in enumerate(recorded[-1]['ball_x']))
            return True

    def game():
        return AtariFactors(gymnasium.make('BreakoutNoFrameskip-v4'))

    venv = VecFrameStack(vec_factors(make_atari_env(game, n_envs=2, seed=0)), 4)
    agent = PPO('CnnPolicy', venv, n_steps=16, batch_size=16, n_epochs=1, device='cpu', seed=0)
    agent.learn(64, callback=RecordFactors())
    assert len(recorded) == 32 and len({int(f['player_x'][0]) for f in recorded}) > 2
