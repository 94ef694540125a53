"""CPU seconds per epoch of our sequence encoders and of the modules of the landing paper's released code.

The released code (github.com/advimman/xeval, MIT) is read from the folder --xeval. It needs a few substitutes to run
today: a stub of torchvision (no ResNet is built), `collections.Sequence`, a last matrix of the attention encoder as
wide as its input, states of the ConvLSTM on the CPU. Both train on the same batch, alternating step by step: forward,
loss, backward, Adam. An epoch is the paper's, one window of each of 3,600 flights. Medians, and the median of the
ratios of neighbouring steps.

Then, for ours: flights encoded per second, and the share of training time that waits for data.

With --eight STEPS only this: autoencoders of frames learn eight flights in STEPS steps, and their loss over the same
frames is printed in training mode (statistics of the batch) and in evaluation mode (running statistics, which `fit`
computes again at its end), with the share of codes that are 0 for all frames.
"""

import argparse
import collections
import importlib
import sys
import time
import types
from pathlib import Path

import numpy as np
import torch
from torch import nn

from srlviz.core.files import sample_path
from srlviz.core.recordings import Episode, Recording
from srlviz.core.training import threads
from srlviz.data.landing import read_flights
from srlviz.encoders.frames.frame_autoencoder import FrameAutoencoder
from srlviz.encoders.sequences.sequence_autoencoder import SequenceAutoencoder
from srlviz.encoders.sequences.context import ContextModel
from srlviz.encoders.sequences.encoder import batch_loss
from srlviz.encoders.sequences.forecast import Forecaster
from srlviz.encoders.sequences.networks import Conv1DNet
from srlviz.encoders.sequences.batches import Batch

N_SENSORS, N_CODES = 1090, 64
WINDOWS = 3600  # of an epoch


def load_released_code(folder: Path):
    "Import the models, losses and layers of the released code"
    vision = types.ModuleType('torchvision'), types.ModuleType('torchvision.models')
    vision[1].resnet18 = vision[1].resnet34 = vision[1].resnet50 = None
    sys.modules |= dict(zip(('torchvision', 'torchvision.models'), vision))
    collections.Sequence = collections.abc.Sequence
    sys.path.insert(0, str(folder))
    models, losses, layers = (
        importlib.import_module(f'xeval.feature_extractor.{n}') for n in ('models', 'losses', 'layers')
    )

    def zeros(cell, n):
        return (torch.zeros(n, cell._hidden_dim, cell._height, cell._width) for _ in range(2))

    layers.ConvLSTMCell.init_hidden = zeros
    return models, losses, layers


class Film(nn.Module):
    "Adapter of the released image encoder to a forecaster, which expects an encoder of modalities"

    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder

    def forward(self, inputs, lengths):
        return self.encoder(inputs[0], lengths)


def pairs(xeval: Path, film: int) -> dict:
    "name -> our encoder, the released model, the released loss"
    models, losses, layers = load_released_code(xeval)
    d = N_CODES
    lstm = lambda n, both: dict(
        lstm_hidden_size=d, lstm_num_layers=n, is_lstm_bidirectional=both, lstm_dropout=0, features_size=d
    )
    lstm_autoencoder = lambda n, both: models.LSTMAutoEncoder(lstm(n, both), lstm(n, both))
    convs = lambda: dict(cnn_channels_list=[20, 30, 40, 50, 60, 70], cnn_kernel_size=7, cnn_padding=3, features_size=d)
    attention = models.AttentionEncoder(d, d, 3)
    attention._final_fc = nn.Linear(N_SENSORS + 3 * d, d)
    images = layers.ImagesEncoder(d, (film, film), 3, [16, 16, 32, 32, 64], (3, 3))
    reconstruction, regression = losses.ReconstructionMSELoss(), losses.TimeSeriesRegressionMSELoss()
    forecaster = lambda k, net: models.TimeSeriesRegressor(k, d, 1, net)
    xeval_conv = lambda n_in, n_codes: Conv1DNet(n_in, n_codes, layers=7, rectified=True)
    both = dict(layers=2, bidirectional=True)
    return {
        'LSTM autoencoder, 1 layer': (SequenceAutoencoder(), lstm_autoencoder(1, False), reconstruction),
        'the same, last states': (
            SequenceAutoencoder(pool='final'), lstm_autoencoder(1, False), reconstruction,
        ),
        'LSTM autoencoder, 2 both ways': (
            SequenceAutoencoder(**both), lstm_autoencoder(2, True), reconstruction,
        ),
        'Conv1D autoencoder, 7 layers': (
            SequenceAutoencoder(network='conv1d', layers=7), models.CNNAutoEncoder(convs(), convs()), reconstruction,
        ),
        'LSTM forecaster, 2 both ways': (
            Forecaster(**both), forecaster(30, models.LSTMEncoder(**lstm(2, True))), regression,
        ),
        'attention forecaster': (Forecaster(network='attention', horizon=1), forecaster(1, attention), regression),
        'Conv1D context model, 7 layers': (
            ContextModel(network=xeval_conv),
            models.ContextRegressor(10, d, 1, models.CNNEncoder(**convs())),
            losses.ContextReconstructionMSELoss(),
        ),
        'ConvLSTM forecaster': (
            Forecaster(network='convlstm', inputs='frames', horizon=1), forecaster(1, Film(images)), regression,
        ),
    }  # fmt: skip


def make_batch(n: int, shortest: int, longest: int, film: int | None, seed: int = 0) -> Batch:
    "Windows of noise"
    rng = np.random.default_rng(seed)
    lengths = torch.from_numpy(rng.integers(shortest, longest + 1, n))
    mask = torch.arange(int(lengths.max())) < lengths[:, None]
    sensors = torch.from_numpy(rng.normal(size=(*mask.shape, N_SENSORS)).astype(np.float32)) * mask.unsqueeze(2)
    frames = torch.from_numpy(rng.integers(0, 256, (*mask.shape, film, film, 3), np.uint8)) if film else None
    return Batch(sensors, frames, mask)


def stepper(model, loss):
    "Return a function that runs one training step and returns its CPU seconds"
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        start = time.process_time()
        value = loss()
        adam.zero_grad()
        value.backward()
        adam.step()
        value.item()
        return time.process_time() - start

    return step


def compare_steps(encoder, released, released_loss, batch: Batch, steps: int):
    "Median CPU seconds of a step, ours and the released, and the median ratio"
    encoder.shapes_ = {'sensors': (N_SENSORS,)} | (
        {'frame': tuple(batch.frames.shape[2:])} if batch.frames is not None else {}
    )
    ours, lengths = encoder.blank_model().train(), batch.lengths
    inputs = [batch.sensors] if batch.frames is None else [batch.frames / 255]

    def released_value():
        predicted = released(inputs, lengths)
        return released_loss(predicted, [batch.sensors], lengths)

    our_step, released_step = stepper(ours, lambda: ours(batch)), stepper(released.train(), released_value)
    our_step(), released_step()
    seconds = np.array([(our_step(), released_step()) for _ in range(steps)])
    return *np.median(seconds, 0), np.median(seconds[:, 1] / seconds[:, 0])


def training(xeval: Path, steps: int, film: int):
    print(f"{'CPU s per epoch, ours (released)':34}{'25 to 75 rows':>30}{'50 rows':>30}")
    for name, (encoder, released, loss) in pairs(xeval, film).items():
        has_film = 'frames' in encoder.inputs
        n, min_rows = (4, 3) if has_film else (32, steps)
        row = f'{name:34}'
        for shortest, longest in ((25, 75), (50, 50)):
            if has_film:
                shortest, longest = shortest // 2, longest // 2
            batch = make_batch(
                n, max(shortest, encoder.min_rows), max(longest, encoder.min_rows), film if has_film else None
            )
            a, b, ratio = compare_steps(encoder, released, loss, batch, min(steps, min_rows))
            epoch = WINDOWS / n  # steps
            row += f"{epoch * a:9.1f} s ({epoch * b:.1f}) {ratio:5.2f}x  "
        print(row + (f'({n} windows of half the rows, {film} px)' if has_film else ''), flush=True)


def encoding(flights):
    "Whole flights per second, wall time; read from the cache"
    encoder = SequenceAutoencoder(epochs=1, progress=False).fit(flights)
    for _ in range(2):
        wall, cpu = time.perf_counter(), time.process_time()
        encoder.encode(flights, progress=False)
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    n, rows = len(flights), flights.n_steps
    print(f"encoding: {n / wall:.0f} flights/s of {rows / n:.0f} rows ({n / cpu:.0f} a CPU second)")


def waiting(flights):
    "Share of an epoch spent waiting for windows, without the first"
    settings = dict(epochs=1, windows=4, progress=False)
    for encoder in SequenceAutoencoder(**settings), Forecaster(network='attention', horizon=1, **settings):
        model = encoder.fit(flights).model_.train()
        adam = torch.optim.Adam(model.parameters())
        waited, worked = [], []
        batches = iter(encoder.random_batches(flights)(1))
        while True:
            start = time.perf_counter()
            if (batch := next(batches, None)) is None:
                break
            received = time.perf_counter()
            loss = batch_loss(model, batch)
            adam.zero_grad()
            loss.backward()
            adam.step()
            waited.append(received - start)
            worked.append(time.perf_counter() - received)
        share = sum(waited[1:]) / (sum(waited[1:]) + sum(worked[1:]))
        print(
            f"{type(encoder).__name__} of {encoder.network}: waits {share:.1%} of the time, {len(waited)} batches of 32"
        )


def eight_flights(steps: int, size: int, networks: list[str]):
    "Loss of autoencoders of frames in training and in evaluation mode, before and after `fit` on eight flights"
    flights = read_flights(sample_path('landings'))[:8]
    film = []
    for flight in flights:
        frames = torch.from_numpy(np.asarray(flight.obs['frame'][::10])).permute(0, 3, 1, 2).float()
        small = torch.nn.functional.interpolate(frames, (size, size), mode='area').round().byte()
        film.append(Episode({'frame': small.permute(0, 2, 3, 1).numpy()}))
    film = Recording(film)
    frames = torch.from_numpy(np.concatenate([e.obs['frame'][:: len(e) // 8][:8] for e in film]))
    columns = 'untrained', 'training', 'evaluation', 'share', 'always 0', 'CPU s'
    print(f"{'network':16}" + ''.join(f'{w:>12}' for w in columns))
    for network in networks:
        for rectified in (False, True):
            settings = dict(network=network, rectified=rectified, frames_per_episode=32, device='cpu', progress=False)
            start = time.process_time()
            epochs = -(-steps // 8)  # of eight batches of 32 frames
            encoder = FrameAutoencoder(epochs=epochs, **settings).fit(film)
            seconds = time.process_time() - start
            model = nn.ModuleDict(dict(net=encoder.net_, decoder=encoder.decoder_))
            evaluated, codes = mean_squared_error(model.eval(), frames)
            trained, _ = mean_squared_error(model.train(), frames)
            with torch.random.fork_rng():
                torch.manual_seed(0)
                encoder.rebuild()
            untrained, _ = mean_squared_error(nn.ModuleDict(dict(net=encoder.net_, decoder=encoder.decoder_)), frames)
            dead = (codes == 0).all(0).float().mean().item()
            losses = f'{untrained:12.4f}{trained:12.4f}{evaluated:12.4f}{evaluated / untrained:12.3f}'
            print(f"{network + ', ReLU' * rectified:16}{losses}{dead:12.0%}{seconds:12.0f}", flush=True)


@torch.no_grad()
def mean_squared_error(model: nn.ModuleDict, frames: torch.Tensor) -> tuple[float, torch.Tensor]:
    "The error of an autoencoder over frames, and the codes"
    codes = model['net'](frames)
    predicted = model['decoder'](codes).permute(0, 2, 3, 1)
    return ((predicted - frames / 255) ** 2).mean().item(), codes


def main(xeval: str | None, flights: str, steps: int, film: int, cores: int, max_flights: int):
    if xeval:
        with threads(1):
            training(Path(xeval), steps, film)
    with threads(cores):
        data = read_flights(flights or sample_path('landings'))
        data = data[: min(max_flights, len(data))].cached()
        data = data.replace(split=[''] * len(data))
        encoding(data)
        waiting(data)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--xeval', help='folder of the released code; without it only our times')
    parser.add_argument('--flights', default='', help='a set of flights; the shipped sample if not given')
    parser.add_argument('--steps', type=int, default=15, help='timed steps of each model')
    parser.add_argument('--film', type=int, default=64, help='pixels of the ConvLSTM')
    parser.add_argument('--cores', type=int, default=2, help='threads while encoding and fitting')
    parser.add_argument('--most', type=int, default=256, dest='max_flights', help='flights to encode, at most')
    parser.add_argument('--eight', type=int, default=0, help='steps of autoencoders of frames on eight flights')
    parser.add_argument('--networks', nargs='+', default=['resnet18', 'resnet34'], help='for --eight')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.flights, args.steps, args.film = '', 1, 32  # the shipped sample is the smallest set
        eight_flights(1, args.film, ['resnet18'])
    if args.eight:
        with threads(1):
            eight_flights(args.eight, args.film, args.networks)
    else:
        main(args.xeval, args.flights, args.steps, args.film, args.cores, args.max_flights)
