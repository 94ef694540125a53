"""The probe callback in stable-baselines3, in Lightning, and in the monitor of a sweep."""

import copy

import numpy as np
import pytest
import torch

from srlviz.core.jobs.runs import RunFolder
from srlviz.core.recordings import Episode, Recording
from srlviz.studies.probe_callback import ProbeCallback
from srlviz.studies.sweep import sweep
from srlviz.widgets.runs import RunMonitor


def _poles(size=4):
    "Recording of random states of CartPole or, with three numbers, of a pendulum"

    def episode(seed):
        rng = np.random.default_rng(seed)
        state = rng.normal(scale=0.1, size=(40, size)).astype(np.float32)
        return Episode(dict(vector=state), factors=dict(angle=state[:, 2]))

    return Recording([episode(i) for i in range(10)], name='poles').with_split(probe=0.5, valid=0.2, test=0.3)


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
