"""Encoders of frames on the video of landings: the encoders of Atari unchanged, and those made for landings."""

import shutil

import numpy as np, pytest, torch

from srlviz.core.files import sample_path
from srlviz.core.recordings import Episode, Recording
from srlviz.core.training import train
from srlviz.core.views.windows import thin, windows
from srlviz.data.landing.fleet import read_flights
from srlviz.encoders.baselines import RandomCNN
from srlviz.encoders.frames.frame_autoencoder import FrameAutoencoder
from srlviz.encoders.frames.contrast import STDIM
from srlviz.encoders.frames.cpc import CPC
from srlviz.encoders.frames.pca import FramePCA
from srlviz.encoders.frames.vae import VAE
from srlviz.encoders.sequences.conv_lstm import ConvLSTMNet
from srlviz.encoders.sequences.encoder import batch_loss
from srlviz.encoders.sequences.batches import Ahead, Scale, WindowRows, draw_windows

BRIEF = dict(n_codes=8, epochs=1, batch_size=8, progress=False)
ATARI = {
    'STDIM': STDIM(**BRIEF),
    'VAE': VAE(**BRIEF),
    'CPC': CPC(**BRIEF, sequence_length=4, offsets=(1, 2)),
    'RandomCNN': RandomCNN(n_codes=8),
}


@pytest.fixture(scope='module')
def film():
    "Every 25th frame of the shipped flights, 96 x 96 pixels in colour, read lazily"
    return thin(read_flights(sample_path('landings')), 25)


def crop(film, pixels):
    "The centre of each frame, in memory"
    first = (96 - pixels) // 2
    frames = [np.asarray(e.obs['frame'])[:, first : first + pixels, first : first + pixels] for e in film]
    return Recording([Episode({'frame': x}) for x in frames], f'{pixels} pixels', split=film.split)


@pytest.mark.parametrize('name', ATARI)
def test_encoders_of_atari_encode_film(film, name):
    "Whole episodes, and windows of them"
    encoder = ATARI[name].fit(film)
    codes = encoder.encode(film['test'], progress=False)
    assert [c.shape for c in codes] == [(n, 8) for n in film['test'].lengths]
    assert all(np.isfinite(c).all() for c in codes) and np.ptp(codes[0], axis=0).max() > 0
    first = encoder.encode(windows(film['test'][:1], 5, 5), progress=False)[0]
    np.testing.assert_allclose(first, codes[0][:5], atol=1e-2 * np.abs(codes[0]).max())


@pytest.mark.parametrize('name', ATARI)
def test_encoders_of_atari_encode_small_film(film, name):
    small = crop(film['fit'], 64)
    codes = ATARI[name].fit(small).encode(small, progress=False)
    assert codes[0].shape == (len(small[0]), 8) and np.isfinite(codes[0]).all()


def test_frames_too_small_for_the_convolutions_are_refused(film):
    with pytest.raises(ValueError, match='36.*38'):
        RandomCNN().fit(crop(film['fit'], 36))


def test_vae_reconstructs_film(film):
    reconstructed = VAE(**BRIEF).fit(film).reconstruct(film['test'], progress=False)
    assert [d['frame'].shape for d in reconstructed] == [(n, 96, 96, 3) for n in film['test'].lengths]
    assert reconstructed[0]['frame'].dtype == np.uint8


@pytest.mark.parametrize(
    'encoder',
    [FrameAutoencoder(network='linear', **BRIEF), FramePCA(n_codes=8)],
    ids=['linear', 'pca'],
)
def test_film_on_disk_and_in_memory_have_the_same_codes(film, encoder, tmp_path):
    "Frames read one by one from the videos; the encoder is also saved, loaded, and reconstructs"
    codes = encoder.fit(film).encode(film['test'])
    in_memory = crop(film, 96)
    encoder.save(tmp_path / 'encoder')
    loaded = type(encoder).load(tmp_path / 'encoder')
    assert all(map(np.array_equal, loaded.encode(in_memory['test']), codes))
    assert loaded.reconstruct(film['test'])[0]['frame'].shape == (len(film['test'][0]), 96, 96, 3)
    assert all(map(np.array_equal, encoder.fit(in_memory).encode(in_memory['test']), codes))


def test_a_missing_video_is_named_in_the_error(tmp_path):
    "By fit, encode and reconstruct; none of them skips it"
    folder = tmp_path / 'set'
    shutil.copytree(sample_path('landings'), folder)
    flights = thin(read_flights(folder), 25)
    fitted = FramePCA(n_codes=8).fit(flights)
    missing = sorted(folder.rglob('*.mp4'))[0]
    missing.unlink()
    flights = thin(read_flights(folder), 25)
    options = dict(network='linear', epochs=1, progress=False)
    for use in FramePCA(n_codes=8).fit, FrameAutoencoder(**options).fit, fitted.encode, fitted.reconstruct:
        with pytest.raises(ValueError, match=f'{missing.name} is damaged, or not a video.*missing'):
            use(flights)


def test_gray_film_is_refused_by_an_encoder_of_colour(film):
    encoder = FrameAutoencoder(network='linear', **BRIEF).fit(film)
    gray = Recording([Episode({'frame': np.asarray(e.obs['frame'])[..., :1]}) for e in film['test']])
    for use in encoder.encode, encoder.reconstruct:
        with pytest.raises(ValueError, match='96, 96, 1.*96, 96, 3'):
            use(gray)


@pytest.mark.slow
@pytest.mark.parametrize('network', ['resnet18', 'resnet34', 'linear'])
def test_an_autoencoder_learns_eight_flights(film, network):
    "The loss falls below a fifth of its first value, in evaluation mode too"
    eight = Recording([Episode({'frame': np.asarray(e.obs['frame'])[:, ::3, ::3]}) for e in film[:8]])
    options = dict(lr=3e-3, epochs=60) if network == 'linear' else dict(epochs=60)
    encoder = FrameAutoencoder(network=network, frames_per_episode=8, progress=False, **options).fit(eight)
    loss = encoder.history_['loss']
    reconstructed = encoder.reconstruct(eight, progress=False)
    errors = [(r['frame'] / 255 - e.obs['frame'] / 255) ** 2 for r, e in zip(reconstructed, eight)]
    evaluation_loss = np.concatenate(errors).mean()
    print(network, loss.iloc[[0, 10, 30, -1]].round(5).tolist(), evaluation_loss.round(5))
    assert max(loss.iloc[-1], evaluation_loss) < 0.2 * loss.iloc[0]


class _Colours(torch.nn.Module):
    "A ConvLSTM that predicts the mean colour of a frame and of the previous frame"

    def __init__(self, shape):
        super().__init__()
        self.net, self.head = ConvLSTMNet(shape, 16, (8, 8, 16)), torch.nn.Linear(16, 6)

    def forward(self, batch):
        return ((self.head(self.net(batch)) - batch.sensors)[batch.mask] ** 2).mean()


@pytest.mark.slow
def test_a_conv_lstm_learns_eight_flights(film):
    "The colours of this frame and the previous one: the loss falls below a fifth of its first value"
    frames = [np.asarray(e.obs['frame'])[:, ::6, ::6] for e in film[:8]]
    colours = [frame.mean((1, 2)) for frame in frames]
    values = [np.concatenate([now, now[[0, *range(len(now) - 1)]]], 1) for now in colours]  # beside the previous frame
    mean, std = np.concatenate(values).mean(0), np.concatenate(values).std(0)
    rows = [Episode({'frame': f, 'sensors': (x - mean) / std}) for f, x in zip(frames, values)]
    eight = Recording(rows)
    read = WindowRows(eight, ('frame', 'sensors'), Scale(np.zeros(6), np.ones(6), 10.0)).read
    torch.manual_seed(0)
    model = _Colours((16, 16, 3))

    def epoch(i):
        return Ahead(lambda p: read(*p), draw_windows(eight.lengths, 4, 6, 6, seed=(i,)))

    loss = train(model, batch_loss, epoch, epochs=60, lr=1e-2, progress=False)['loss']
    assert loss.iloc[-10:].mean() < 0.2 * loss.iloc[0]
