"""Agents of Atari games: resumed training, policies in recordings, agents that do not fit a game."""

import subprocess, sys, time

import numpy as np
import pytest
import torch

from srlviz.agents.ppo import NetworkPolicy
from srlviz.data.atari import FrameStackPolicy, epsilon_greedy, play_games, record_atari
from srlviz.studies.papers.agents import load_agent, train_agent

TINY = dict(steps=6 * 256, ppo=dict(num_envs=4, num_steps=64, update_epochs=1, segment=1), progress=False)


def equal(a, b):
    return a.lengths.tolist() == b.lengths.tolist() and all(
        (np.asarray(x.obs[k]) == np.asarray(y.obs[k])).all() and (x.actions == y.actions).all()
        for x, y in zip(a, b)
        for k in ('frame', 'ram')
    )


def test_training_that_is_killed_resumes(tmp_path):
    "Up to its checkpoint it equals an uninterrupted run; games of ale-py cannot be saved, and restart there"
    options = TINY | dict(out=str(tmp_path / 'killed'))
    train = f"from srlviz.studies.papers.agents import train_agent; train_agent('boxing', **{options!r})"
    run = subprocess.Popen([sys.executable, '-c', train])
    while not (tmp_path / 'killed' / 'checkpoint.pt').exists():
        time.sleep(0.01)
        assert run.poll() is None
    run.kill()
    run.wait()
    assert not (tmp_path / 'killed' / 'agent.pt').exists()
    saved = torch.load(tmp_path / 'killed' / 'checkpoint.pt', weights_only=True)['state']['history']
    resumed = train_agent('boxing', out=tmp_path / 'killed', **TINY)
    uninterrupted = train_agent('boxing', **TINY)
    rows = [agent.history_.drop(columns='seconds') for agent in (resumed, uninterrupted)]
    assert 1 <= len(saved) < 6 == len(rows[0]) and rows[0].head(len(saved)).equals(rows[1].head(len(saved)))
    assert load_agent(tmp_path / 'killed' / 'agent.pt').about == resumed.about


def test_the_same_seed_trains_the_same_weights():
    one, two = (train_agent('boxing', **TINY | dict(steps=512)).network.state_dict().values() for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one, two))


def test_a_recording_does_not_depend_on_the_number_of_processes():
    policy = epsilon_greedy(load_agent().policy())
    one, two = (record_atari(policy.game, 400, policy, n_streams=4, n_jobs=n, progress=False) for n in (1, 2))
    assert equal(one, two) and one.meta == two.meta


def test_an_interrupted_recording_with_stacked_frames_is_resumed(tmp_path):
    "The frame stack is cleared at every life, so a resumed recording equals an uninterrupted one"

    class Player:
        left = 500

        def __call__(self, stack, rng):
            self.left -= 1
            if not self.left:
                raise InterruptedError
            return int(stack.astype(int).sum() + rng.integers(4)) % 4  # depends on all four frames

    player = Player()
    options = dict(n_streams=2, n_jobs=1, progress=False)

    def policy():
        return FrameStackPolicy(player, n_actions=4, identity='player')

    with pytest.raises(InterruptedError):
        record_atari('breakout', 900, policy(), out=tmp_path / 'r', **options)
    resumed = record_atari('breakout', 900, policy(), out=tmp_path / 'r', **options)
    assert equal(resumed, record_atari('breakout', 900, policy(), **options))


@pytest.mark.parametrize(
    'play',
    [record_atari, lambda game, games, policy, **options: play_games(game, policy, games, **options)],
    ids=['record', 'play'],
)
def test_agents_that_do_not_fit_a_game_are_refused(play):
    agent = load_agent()
    for policy in (
        agent.policy(),
        epsilon_greedy(agent.policy()),
        FrameStackPolicy(lambda stack, rng: 0, n_actions=agent.about['n_actions']),
    ):
        with pytest.raises(ValueError, match=f"made for {agent.about['n_actions']} actions.*; pong has 6: NOOP, FIRE"):
            play('pong', 5, policy, progress=False)
    small = NetworkPolicy(torch.nn.Flatten(), 6, obs_shape=(4, 84, 84))
    with pytest.raises(
        ValueError,
        match='4, 84, 84.*210, 160.*FrameStackPolicy',
    ):
        play('pong', 5, small, progress=False)
    with pytest.raises(ValueError, match='6.*pong.*0.*5.*NOOP, FIRE'):
        play('pong', 5, lambda frame, rng: 6, progress=False)
    with pytest.raises(ValueError, match='1 2.*pong.*0.*5'):
        play('pong', 5, lambda frame, rng: np.array([1, 2]), progress=False)
