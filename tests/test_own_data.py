"""Test reading of data sets that Minari and LeRobot wrote, where these are installed, and training with gaps."""

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
    "A ball that is pushed along a line, with frames, touch sensors and the true state in `info`"

    observation_space = spaces.Dict(
        eye=spaces.Box(0, 255, (8, 6, 3), np.uint8),
        touch=spaces.Dict(side=spaces.Discrete(2), force=spaces.Box(-1, 1, (2,))),
    )
    action_space = spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        self.x = 0
        return self._observation(), self._info()

    def step(self, action):
        self.x += int(action) - 1
        return self._observation(), float(self.x), self.x > 2, False, self._info()

    def _observation(self):
        eye = np.full((8, 6, 3), 100 + self.x, np.uint8)
        return dict(eye=eye, touch=dict(side=np.int64(self.x % 2), force=np.full(2, self.x / 9, np.float32)))

    def _info(self):
        return dict(x=self.x, place=dict(xy=np.array([self.x, -self.x])), word='ball')


@pytest.mark.parametrize('data_format', ['hdf5', 'arrow'])
def test_a_minari_data_set_is_read(tmp_path, monkeypatch, data_format):
    minari = pytest.importorskip('minari', reason='pip install "minari[hdf5]"')
    monkeypatch.setenv('MINARI_DATASETS_PATH', str(tmp_path))
    collector = minari.DataCollector(Ball(), record_infos=True, data_format=data_format)
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

    chosen = load_minari(tmp_path / 'ball' / 'line-v0', factors=['touch.force', 'x'])
    assert [*chosen[0].factors] == ['touch.force_0', 'touch.force_1', 'x'] and chosen[0].obs['vector'].shape == (5, 2)
    saved = load_recording(r.save(tmp_path / 'saved'))
    assert saved.fingerprint() == r.fingerprint()
    with pytest.raises(ValueError, match='ball/lime-v0'):
        load_minari('ball/lime-v0')


def test_the_error_without_minari_names_the_package_to_install(monkeypatch):
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
    "A LeRobot data set: three episodes of two tasks, in which a lamp gets brighter by 15 each step"
    monkeypatch.setenv('HF_HUB_OFFLINE', '1')
    lerobot_dataset = pytest.importorskip(
        'lerobot.datasets.lerobot_dataset', reason='pip install lerobot', exc_type=ImportError
    )
    root = tmp_path / 'lamps'
    d = lerobot_dataset.LeRobotDataset.create('me/lamps', fps=10, root=root, features=FEATURES, use_videos=True)
    for e, (n, task) in enumerate([(12, 'push'), (7, 'pull'), (9, 'push')]):
        for t in range(n):
            state, truth = np.array([t, e, 1], np.float32), np.array([t / 2, -e], np.float32)
            lamp = np.full((64, 96, 3), 10 + 15 * t, np.uint8)
            row = [state, truth, lamp, state[:2], state[:1], np.array([t == 5])]
            d.add_frame(dict(zip(FEATURES, row, strict=True)) | {'task': task})
        d.save_episode()
    d.finalize()
    return root


def test_a_lerobot_data_set_is_read(lamps):
    r = load_lerobot(lamps, factors=['observation.environment_state', 'next.success'])
    assert r.lengths.tolist() == [12, 7, 9] and r.hz == 10 and r.meta['columns'] == ['a', 'b', 'c']
    assert [str(e.factors['task']) for e in r] == ['push', 'pull', 'push']
    for i, e in enumerate(r):
        t = np.arange(len(e))
        assert [*e.obs] == ['sensors', 'frame'] and e.obs['frame'].shape == (len(e), 64, 96, 3)
        light = e.obs['frame'][2:6].mean((1, 2, 3))
        assert np.abs(light - (10 + 15 * t[2:6])).max() < 4  # for another episode, the difference would be 30 or more
        assert e.obs['sensors'].tolist() == np.column_stack([t, t * 0 + i, t * 0 + 1]).tolist()
        assert e.factors['observation.environment_state_0'].tolist() == (t / 2).tolist()
        assert e.factors['next.success'].tolist() == (t == 5).tolist()
        assert e.rewards.tolist() == t.tolist() and e.actions.shape == (len(e), 2)
    assert (
        r.fingerprint() == load_lerobot(lamps, factors=['observation.environment_state', 'next.success']).fingerprint()
    )


def test_lerobot_film_that_is_too_short_or_missing_is_refused(lamps):
    info = json.loads((lamps / 'meta' / 'info.json').read_text())
    (lamps / 'meta' / 'info.json').write_text(json.dumps(info | dict(fps=20)))
    with pytest.raises(ValueError, match='28.*10.*2.*9'):
        load_lerobot(lamps)[2].obs['frame']
    os.remove(next((lamps / 'videos').rglob('*.mp4')))
    with pytest.raises(ValueError):
        load_lerobot(lamps)[0].obs['frame']


SENSOR_ENCODERS = [
    pytest.param('Forecaster', dict(horizon=2), {'forecast'}, id='forecaster'),
    pytest.param('ContextModel', dict(context=2), {'context'}, id='context'),
    pytest.param('SequenceAutoencoder', {}, {'reconstruction'}, id='autoencoder'),
    pytest.param('MaskedAutoencoder', {}, {'hidden'}, id='masked'),
    pytest.param('MTE', {}, {'sensors'}, id='mte'),
    pytest.param('MTE', dict(drawn='last'), {'sensors'}, id='mte_last'),
    pytest.param('Dynamics', {}, {'sensors', 'next sensors', 'inverse'}, id='dynamics'),
]


def recording_with_gaps(share):
    "Return two episodes of film and sensors; a share of the sensor values is missing"
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 4)).astype(np.float32)
    x[rng.random(x.shape) < share] = np.nan
    frames = rng.integers(0, 255, (60, 16, 16, 1), np.uint8)
    return Recording.from_arrays(dict(sensors=x, frame=frames), episode=np.arange(60) // 30, fill='nan')


@pytest.mark.parametrize('name, arguments, losses', SENSOR_ENCODERS)
def test_losses_ignore_missing_sensor_values(name, arguments, losses):
    cls = catalog('encoders')[name]
    quick = getattr(cls, 'quick', {}) | dict(n_codes=4, shortest=12, longest=12, epochs=1, progress=False) | arguments
    with pytest.raises(ValueError, match='gaps=True'):
        cls(**quick).fit(recording_with_gaps(0.2))
    encoder = cls(**quick, gaps=True).fit(recording_with_gaps(0.2))
    assert all(np.isfinite(c).all() for c in encoder.encode(recording_with_gaps(0.2)))
    rows = WindowRows(recording_with_gaps(0.2), encoder.learns_from, encoder.scale, gaps=True)
    batch = rows.read([0, 1], [0, 9], [12, 21])
    model = encoder.model_.eval()

    def terms(known):
        torch.manual_seed(0)  # it decides which patches are masked
        return {k: v.item() for k, v in model.terms(batch._replace(known=known)).items()}

    assert 0.1 < 1 - float(batch.known.float().mean()) < 0.3
    none_known = terms(torch.zeros_like(batch.known))
    all_known = terms(torch.ones_like(batch.known))
    without_mask = terms(None)
    assert losses <= none_known.keys() and all(none_known[k] == 0 for k in losses)
    assert all(np.isclose(all_known[k], without_mask[k], rtol=1e-5) for k in without_mask)


def test_every_sensor_encoder_is_tested_with_gaps():
    sensor_encoders = {k for k, cls in catalog('encoders').items() if issubclass(cls, SequenceEncoder)}
    assert sensor_encoders <= {case.values[0] for case in SENSOR_ENCODERS}
