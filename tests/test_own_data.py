"""Data sets that Minari and LeRobot themselves wrote, where these are installed; and sensors with gaps."""

import json, os

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium import spaces
from srlviz.core.names import catalog
from srlviz.core.recordings import Recording, load_recording
from srlviz.data.importers import load_lerobot, load_minari
from srlviz.encoders.sequences.batches import WindowRows
from srlviz.encoders.sequences.encoder import SequenceEncoder


class Ball(gymnasium.Env):
    "A ball that is pushed along a line; it is seen, felt, and known"

    observation_space = spaces.Dict(
        eye=spaces.Box(0, 255, (8, 6, 3), np.uint8),
        touch=spaces.Dict(side=spaces.Discrete(2), force=spaces.Box(-1, 1, (2,))),
    )
    action_space = spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return self._seen(), self._known()

    def step(self, action):
        self.x += int(action) - 1
        return self._seen(), float(self.x), self.x > 2, False, self._known()

    def _seen(self):
        eye = np.full((8, 6, 3), 100 + self.x, np.uint8)
        return dict(eye=eye, touch=dict(side=np.int64(self.x % 2), force=np.full(2, self.x / 9, np.float32)))

    def _known(self):
        return dict(x=self.x, place=dict(xy=np.array([self.x, -self.x])), word='ball')


@pytest.mark.parametrize('stored', ['hdf5', 'arrow'])
def test_what_minari_wrote_is_read(tmp_path, monkeypatch, stored):
    minari = pytest.importorskip('minari', reason='pip install "minari[hdf5]"')
    monkeypatch.setenv('MINARI_DATASETS_PATH', str(tmp_path))
    collector = minari.DataCollector(Ball(), record_infos=True, data_format=stored)
    for actions in ([2, 2, 0, 2, 2], [1, 0, 0, 1]):
        collector.reset(seed=1)
        for action in actions:
            collector.step(action)
    about = dict(algorithm_name='by hand', author='me', author_email='me@here', code_permalink='here')
    collector.create_dataset('ball/line-v0', **about, description='a ball')

    r = load_minari('ball/line-v0')
    assert r.name == 'ball/line-v0' and r.lengths.tolist() == [5, 4]
    assert [e.ended for e in r] == ['terminated', 'truncated']
    assert list(r[0].factors) == ['place.xy_0', 'place.xy_1', 'x']
    assert r[0].factors['x'].tolist() == [0, 1, 2, 1, 2] and r[1].factors['place.xy_1'].tolist() == [0, 0, 1, 2]
    assert r[0].actions.tolist() == [2, 2, 0, 2, 2] and r[0].rewards.tolist() == [1, 2, 1, 2, 3]
    assert np.ptp(r[0].obs['frame'].astype(int) - 100 - r[0].factors['x'][:, None, None, None]) <= 2  # jpeg
    assert r[0].obs['frame'].shape == (5, 8, 6, 3) and r[0].obs['vector'].shape == (5, 4)

    told = load_minari(tmp_path / 'ball' / 'line-v0', factors=['touch.force', 'x'])
    assert [*told[0].factors] == ['touch.force_0', 'touch.force_1', 'x'] and told[0].obs['vector'].shape == (5, 2)
    kept = load_recording(r.save(tmp_path / 'kept'))
    assert kept.fingerprint() == r.fingerprint()
    with pytest.raises(ValueError, match='ball/lime-v0'):
        load_minari('ball/lime-v0')


def test_without_minari_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__('sys').modules, 'minari', None)
    with pytest.raises(ImportError, match='minari.*hdf5'):
        load_minari('ball/line-v0')


FEATURES = {
    'observation.state': dict(dtype='float32', shape=(3,), names=['a', 'b', 'c']),
    'observation.environment_state': dict(dtype='float32', shape=(2,), names=['x', 'y']),
    'observation.images.top': dict(dtype='video', shape=(64, 96, 3), names=['height', 'width', 'channels']),
    'action': dict(dtype='float32', shape=(2,), names=['u', 'v']),
    'next.reward': dict(dtype='float32', shape=(1,), names=None),
    'next.success': dict(dtype='bool', shape=(1,), names=None),
}


@pytest.fixture
def lamps(tmp_path, monkeypatch):
    "Three episodes of a lamp that gets lighter by 15, and of two tasks"
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    made = pytest.importorskip('lerobot.datasets.lerobot_dataset', reason='pip install lerobot', exc_type=ImportError)
    root = tmp_path / 'lamps'
    d = made.LeRobotDataset.create('me/lamps', fps=10, root=root, features=FEATURES, use_videos=True)
    for e, (n, task) in enumerate([(12, 'push'), (7, 'pull'), (9, 'push')]):
        for t in range(n):
            state, truth = np.array([t, e, 1], np.float32), np.array([t / 2, -e], np.float32)
            lamp = np.full((64, 96, 3), 10 + 15 * t, np.uint8)
            row = [state, truth, lamp, state[:2], state[:1], np.array([t == 5])]
            d.add_frame(dict(zip(FEATURES, row, strict=True)) | {'task': task})
        d.save_episode()
    d.finalize()
    return root


def test_what_lerobot_wrote_is_read(lamps):
    r = load_lerobot(lamps, factors=['observation.environment_state', 'next.success'])
    assert r.lengths.tolist() == [12, 7, 9] and r.hz == 10 and r.meta['columns'] == ['a', 'b', 'c']
    assert [str(e.factors['task']) for e in r] == ['push', 'pull', 'push']
    for i, e in enumerate(r):
        t = np.arange(len(e))
        assert [*e.obs] == ['sensors', 'frame'] and e.obs['frame'].shape == (len(e), 64, 96, 3)
        light = e.obs['frame'][2:6].mean((1, 2, 3))
        assert np.abs(light - (10 + 15 * t[2:6])).max() < 4  # of another episode it would be 30 or more
        assert e.obs['sensors'].tolist() == np.column_stack([t, t * 0 + i, t * 0 + 1]).tolist()
        assert e.factors['observation.environment_state_0'].tolist() == (t / 2).tolist()
        assert e.factors['next.success'].tolist() == (t == 5).tolist()
        assert e.rewards.tolist() == t.tolist() and e.actions.shape == (len(e), 2)
    assert (
        r.fingerprint() == load_lerobot(lamps, factors=['observation.environment_state', 'next.success']).fingerprint()
    )


def test_film_of_lerobot_that_is_too_short_is_refused(lamps):
    table = json.loads((lamps / 'meta' / 'info.json').read_text())
    (lamps / 'meta' / 'info.json').write_text(json.dumps(table | dict(fps=20)))
    with pytest.raises(ValueError, match='28.*10.*2.*9'):
        load_lerobot(lamps)[2].obs['frame']
    os.remove(next((lamps / 'videos').rglob('*.mp4')))
    with pytest.raises(ValueError):
        load_lerobot(lamps)[0].obs['frame']


READERS = [
    pytest.param('Forecaster', dict(horizon=2), {'forecast'}, id='forecaster'),
    pytest.param('ContextModel', dict(context=2), {'context'}, id='context'),
    pytest.param('SequenceAutoencoder', {}, {'reconstruction'}, id='autoencoder'),
    pytest.param('MaskedAutoencoder', {}, {'hidden'}, id='masked'),
    pytest.param('MTE', {}, {'sensors'}, id='mte'),
    pytest.param('MTE', dict(drawn='last'), {'sensors'}, id='mte_last'),
    pytest.param('Dynamics', {}, {'sensors', 'next sensors', 'inverse'}, id='dynamics'),
]


def torn(share):
    "Two episodes of films and sensors, of which a share is unknown"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    x[rng.random(x.shape) < share] = np.nan
    frames = rng.integers(0, 255, (60, 16, 16, 1), np.uint8)
    return Recording.from_arrays(dict(sensors=x, frame=frames), episode=np.arange(60) // 30, fill='nan')


@pytest.mark.parametrize('name, arguments, losses', READERS)
def test_losses_are_of_the_sensors_that_are_known(name, arguments, losses):
    cls = catalog('encoders')[name]
    quick = getattr(cls, 'quick', {}) | dict(n_codes=4, shortest=12, longest=12, epochs=1, progress=False) | arguments
    with pytest.raises(ValueError, match='gaps=True'):
        cls(**quick).fit(torn(0.2))
    encoder = cls(**quick, gaps=True).fit(torn(0.2))
    assert all(np.isfinite(c).all() for c in encoder.encode(torn(0.2)))
    rows = WindowRows(torn(0.2), encoder.learns_from, encoder.scale, gaps=True)
    batch = rows.read([0, 1], [0, 9], [12, 21])
    model = encoder.model_.eval()

    def terms(known):
        torch.manual_seed(0)  # which patches are hidden
        return {k: v.item() for k, v in model.terms(batch._replace(known=known)).items()}

    assert 0.1 < 1 - float(batch.known.float().mean()) < 0.3
    none, every, whole = terms(torch.zeros_like(batch.known)), terms(torch.ones_like(batch.known)), terms(None)
    assert losses <= none.keys() and all(none[k] == 0 for k in losses)
    assert all(np.isclose(every[k], whole[k], rtol=1e-5) for k in whole)


def test_every_encoder_of_sensors_has_a_case_with_gaps():
    of_sensors = {k for k, cls in catalog('encoders').items() if issubclass(cls, SequenceEncoder)}
    assert of_sensors <= {case.values[0] for case in READERS}
