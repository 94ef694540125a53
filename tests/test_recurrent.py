"""Recurrent agents: resumed training, learning of real tasks, probes of their memory, saved agents as players."""

import random, signal, subprocess, sys, time

import gymnasium
import numpy as np
import pandas as pd
import pytest
import torch

from support.selection import one_of_each

import srlviz
import srlviz.envs  # registers the tasks
from srlviz.agents.player import load_policy
from srlviz.agents.recurrent_ppo import PRESETS, TRAINER_VERSION, recurrent_ppo
from srlviz.core.checks.policy import check_policy
from srlviz.core.files import sample_path
from srlviz.core.names import catalog
from srlviz.core.scores import load_scores
from srlviz.data.popgym import record_pomdp
from srlviz.envs.pomdp.base import task_table
from srlviz.evaluate.returns import epoch_returns

SHORT = dict(total_steps=12 * 16 * 32, num_envs=16, num_steps=32, segment=1, device='cpu')
RUN = """
import sys, torch
from srlviz.agents.recurrent_ppo import recurrent_ppo
learner = recurrent_ppo({task!r}, {memory!r}, checkpoint={file!r}, **{options!r}).learn(progress=False)
torch.save(learner.network.state_dict(), {out!r})
learner.episodes_.to_csv({out!r} + '.csv', index=False)
learner.history_.drop(columns='seconds').to_csv({out!r} + '.history.csv', index=False)
"""


def run(task, memory, file, out, options=SHORT):
    code = RUN.format(task=task, memory=memory, file=str(file), out=str(out), options=options)
    return subprocess.Popen([sys.executable, '-c', code])


def load_outputs(out):
    "The weights, episodes and history that a run wrote"
    weights = torch.cat([x.flatten() for x in torch.load(out, weights_only=True).values()])
    return weights, *(pd.read_csv(f'{out}{end}') for end in ('.csv', '.history.csv'))


def same(a, b):
    return torch.equal(a[0], b[0]) and all(x.equals(y) for x, y in zip(a[1:], b[1:]))


def test_a_killed_run_resumes_in_the_middle_of_its_mazes(tmp_path):
    "SIGKILL right after a checkpoint; episodes of a maze are longer than three rollouts"
    uninterrupted = run('LabyrinthExplore-easy', 'GRU', tmp_path / 'none.pt', tmp_path / 'whole')
    file = tmp_path / 'run.pt'
    killed = run('LabyrinthExplore-easy', 'GRU', file, tmp_path / 'killed')
    while not file.exists():
        time.sleep(0.01)
        assert killed.poll() is None
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert not (tmp_path / 'killed').exists()
    assert run('LabyrinthExplore-easy', 'GRU', file, tmp_path / 'killed').wait() == uninterrupted.wait() == 0
    assert same(load_outputs(tmp_path / 'whole'), load_outputs(tmp_path / 'killed'))


@pytest.mark.slow
@pytest.mark.parametrize('task', ['RepeatPrevious-easy', 'LabyrinthExplore-easy'])
def test_ten_kills_change_nothing(task, tmp_path):
    options = SHORT | dict(total_steps=100 * 16 * 32)
    rng = random.Random(0)
    start = time.monotonic()
    assert run(task, 'GRU', tmp_path / 'none.pt', tmp_path / 'whole', options).wait() == 0
    duration = time.monotonic() - start
    for _ in range(10):
        process = run(task, 'GRU', tmp_path / 'run.pt', tmp_path / 'killed', options)
        time.sleep(rng.uniform(0.3, 1) * duration)
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert run(task, 'GRU', tmp_path / 'run.pt', tmp_path / 'killed', options).wait() == 0
    assert same(load_outputs(tmp_path / 'whole'), load_outputs(tmp_path / 'killed'))


def test_a_full_disk_does_not_damage_the_checkpoint(tmp_path, monkeypatch):
    learner = recurrent_ppo('RepeatFirst-easy', 'Elman', checkpoint=tmp_path / 'run.pt', **SHORT)
    learner.learn(progress=False, until=lambda row: row['update'] == 3)
    before = (tmp_path / 'run.pt').read_bytes()
    save = torch.save

    def save_to_a_full_disk(state, path):
        save(state, path)
        with open(path, 'r+b') as f:
            f.truncate(100)
        raise OSError(28, 'No space left on device')

    monkeypatch.setattr(torch, 'save', save_to_a_full_disk)
    with pytest.raises(OSError):
        recurrent_ppo('RepeatFirst-easy', 'Elman', checkpoint=tmp_path / 'run.pt', **SHORT).learn(progress=False)
    assert (tmp_path / 'run.pt').read_bytes() == before and len(list(tmp_path.iterdir())) == 1
    monkeypatch.undo()
    resumed = recurrent_ppo('RepeatFirst-easy', 'Elman', checkpoint=tmp_path / 'run.pt', **SHORT).learn(progress=False)
    uninterrupted = recurrent_ppo('RepeatFirst-easy', 'Elman', **SHORT).learn(progress=False)
    assert resumed.episodes_.equals(uninterrupted.episodes_)


@pytest.mark.parametrize('memory', sorted(catalog('memories')))
def test_every_memory_learns_plays_and_is_saved(memory, tmp_path):
    options = dict(total_steps=2 * 4 * 16, num_envs=4, num_steps=16, width=8, n_hidden=8, device='cpu')
    learner = recurrent_ppo('RepeatFirst-easy', memory, **options)
    before = {k: v.clone() for k, v in learner.network.state_dict().items()}
    learner.learn(progress=False)
    trained = [k for k, p in learner.network.named_parameters() if not torch.equal(before[k], p)]
    assert len(trained) == len(list(learner.network.parameters()))
    agent = learner.policy()
    agent.save(tmp_path / 'agent.safetensors')
    loaded = load_policy(tmp_path / 'agent.safetensors')
    recording = record_pomdp('RepeatFirst-easy', 2, loaded, progress=False)
    assert all(np.array_equal(a, b) for a, b in zip(agent.encode(recording), loaded.encode(recording)))
    check_policy(lambda env: loaded, lambda: gymnasium.make('srlviz/RepeatFirst-easy-v0'), steps=6)


TASK_NAMES = sorted(task_table()['task'])


@pytest.mark.parametrize('task', one_of_each(lambda task: task.partition('-')[0], TASK_NAMES))
def test_every_task_is_played_and_learned_from(task):
    options = dict(total_steps=2 * 2 * 8, num_envs=2, num_steps=8, num_minibatches=1, width=8, n_hidden=8, device='cpu')
    learner = recurrent_ppo(task, 'Elman', **options)
    before = [p.clone() for p in learner.network.parameters()]
    learner.learn(progress=False)
    assert not any(torch.equal(a, b) for a, b in zip(before, learner.network.parameters()))
    recording = record_pomdp(task, 1, learner.policy(), max_steps=5, progress=False)
    assert learner.policy().encode(recording)[0].shape == (len(recording[0]), 8)


def test_the_memory_of_an_agent_can_be_probed():
    "A linear probe predicts the current card from the memory's state, as from the codes of any encoder"
    recording = record_pomdp('RepeatPrevious-easy', 60, seed=0, progress=False)
    recording = recording.with_split(0, probe=0.6, valid=0.2, test=0.2)
    agent = recurrent_ppo('RepeatPrevious-easy', 'GRU', device='cpu').policy()
    result = srlviz.probe({'GRU': agent}, recording, norms=['standardize'], probing=dict(epochs=40), progress=False)
    f1 = result.scores.query("metric == 'f1' and target != 'mean'").pivot_table('value', 'target', 'method')
    assert f1.loc['ago_0', 'GRU'] > 0.9 > f1.loc['ago_0', 'majority']


def test_presets_are_those_of_the_paper():
    config, sizes = PRESETS['paper']
    assert config.num_envs * config.num_steps == 65_536 == 8 * 8192 and config.num_minibatches == 8
    assert (config.update_epochs, config.learning_rate, config.gae_lambda, config.gamma) == (30, 5e-5, 1, 0.99)
    assert (config.clip_coef, config.kl_coef, config.kl_target, config.vf_clip) == (0.3, 0.2, 0.01, 10)
    assert sizes == dict(width=128, n_hidden=256, head_layers=2) and config.total_steps == 15_000_000


@pytest.mark.slow
@pytest.mark.parametrize(
    'task, memory, steps, threshold',
    [
        ('RepeatFirst-easy', 'GRU', 500_000, 0.9),
        ('RepeatPrevious-easy', 'GRU', 700_000, 0.9),
        ('PositionOnlyCartPole-easy', 'GRU', 500_000, 0.9),
        ('RepeatPrevious-easy', 'LSTM', 700_000, 0.9),
        ('LabyrinthExplore-easy', 'MLP', 1_500_000, 0.9),
    ],
)
def test_each_task_is_learned(task, memory, steps, threshold):
    def reached(row):
        return row['games'] >= 100 and row['mean_return'] > threshold

    learner = recurrent_ppo(task, memory, total_steps=steps, device='cpu').learn(progress=False, until=reached)
    assert reached(learner.history_.iloc[-1])


@pytest.mark.slow
@pytest.mark.parametrize('task, threshold', [('RepeatPrevious-easy', 0)])
def test_a_task_of_memory_is_not_learned_without_one(task, threshold):
    learner = recurrent_ppo(task, 'MLP', total_steps=1_000_000, device='cpu').learn(progress=False)
    assert learner.history_['mean_return'].iloc[1:].max() < threshold


def first_actions(task):
    "The actions of the first rollout of a run, and the weights after two updates"
    options = dict(total_steps=2 * 16 * 32, num_envs=16, num_steps=32, device='cpu')
    learner = recurrent_ppo(task, 'GRU', **options)
    steps = []
    step = learner.envs.step

    def recording_step(actions):
        steps.append(np.array(actions))
        return step(actions)

    learner.envs.step = recording_step
    learner.learn(progress=False)
    return np.stack(steps[:32]), torch.cat([p.flatten() for p in learner.network.parameters()])


@pytest.mark.parametrize(
    ('task', 'shape', 'total'),
    [
        ('RepeatPrevious-easy', (32, 16), 204_618),
        ('Battleship-easy', (32, 16, 2), 1_824_797),
        ('PositionOnlyPendulum-easy', (32, 16, 1), -14_987.93),
    ],
)
def test_a_run_is_reproducible(task, shape, total):
    "Bit for bit, and with the random draws that made the shipped table: other draws need a new TRAINER_VERSION"
    actions, weights = first_actions(task)
    second_actions, second_weights = first_actions(task)
    assert actions.shape == shape and np.array_equal(actions, second_actions) and torch.equal(weights, second_weights)
    checksum = (np.arange(1, actions.size + 1) * actions.ravel()).sum()
    assert TRAINER_VERSION == 2 and checksum == pytest.approx(total, rel=1e-5)


@pytest.mark.parametrize(
    ('task', 'name', 'memory'),
    [
        ('RepeatPrevious-easy', 'RepeatPrevious-easy', 'MLP'),  # Discrete actions
        ('Battleship-easy', 'Battleship-easy', 'MLP'),  # MultiDiscrete
        ('PositionOnlyPendulum-easy', 'StatelessPendulum-easy', 'Elman'),  # Box
    ],
)
def test_the_shipped_table_is_reproducible(task, name, memory):
    """The first epoch of three shipped runs, one for each kind of action, has the shipped mean return.

    It is equal on the machine that made the table; other processors round differently.
    """
    epoch = 65_536
    learner = recurrent_ppo(task, memory, device='cpu')
    learner.learn(progress=False, until=lambda row: row['steps'] >= epoch)
    [mean_return] = epoch_returns(learner.episodes_, budget=epoch)['mean_return']
    shipped = load_scores(sample_path('popgym_mmer.csv')).query(
        "task == @name and method == @memory and inputs == '' and metric == 'epoch_return' and seed == 0"
    )
    [expected] = shipped.loc[shipped['budget'] == epoch, 'value']
    assert abs(mean_return - expected) < 0.004


@pytest.mark.parametrize('factor', [1e-6, pytest.param(1e6, marks=pytest.mark.slow)])
def test_rewards_of_any_scale_are_learned_from(factor):
    "A vector environment whose rewards are a million times as large or small: RepeatFirst is still learned"
    from gymnasium.wrappers.vector import TransformReward

    envs = TransformReward(gymnasium.make_vec('srlviz/RepeatFirst-easy-v0', 64, flat=True), lambda r: r * factor)
    learner = recurrent_ppo(envs, 'GRU', total_steps=220_000, norm_returns=True, device='cpu').learn(progress=False)
    assert learner.episodes_['return'].iloc[-100:].mean() > 0  # a random policy has -.5


def test_episodes_longer_than_the_budget_have_no_return():
    "No game ends: there is no return to report, and no error"
    envs = gymnasium.make_vec('Pendulum-v1', 4, vector_kwargs={})
    learner = recurrent_ppo(envs, 'MLP', total_steps=320, num_steps=16, device='cpu').learn(progress=False)
    assert learner.episodes_.empty and learner.history_['mean_return'].isna().all()


def test_episodes_of_gymnasium_continue_across_rollouts():
    "Rollouts of 16 steps, episodes of 200: none is cut off at the end of a rollout"
    learner = recurrent_ppo(
        'Pendulum-v1', 'MLP', num_envs=4, num_steps=16, total_steps=4 * 640, segment=1, device='cpu'
    )
    learner.learn(progress=False)
    assert set(learner.episodes_['length']) == {200} and len(learner.episodes_) == 12


def test_a_checkpoint_with_another_normalisation_is_refused(tmp_path):
    options = dict(num_envs=4, num_steps=16, total_steps=128, checkpoint=tmp_path / 'run.pt', device='cpu')
    recurrent_ppo('CartPole-v1', 'MLP', norm_obs=True, **options).learn(progress=False)
    for other in (dict(), dict(norm_obs=True, norm_returns=True)):
        with pytest.raises(ValueError, match='run.pt'):
            recurrent_ppo('CartPole-v1', 'MLP', **other, **options).learn(progress=False)
