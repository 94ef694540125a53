"""Images per second of ST-DIM on CPU, ours and the plain float32 form, and their losses step by step.

The plain form is that of the authors' code: float32, two passes of the encoder, a loop over the 88 positions for each
loss. Both start from the same weights and see the same batches. One thread, CPU time, interleaved; medians of ratios.
"""

import argparse
import time

import numpy as np
import torch
from torch.nn import functional as F

from srlviz.core.training import epoch_batches, seeded, threads
from srlviz.data.atari import record_atari
from srlviz.encoders.frames.contrast import STDIM, _Contrast
from srlviz.encoders.frames.cnn import FrameWindows


def plain_loss(model, pairs):
    "The loss of the authors' code: a loop over positions"
    net, heads = model.net, model.heads
    previous, current = net.features(pairs[0]), net.features(pairs[1])
    z, targets, loss = heads['global-local'](net.codes(current)), torch.arange(len(current)), 0.0
    positions = [(y, x) for y in range(previous.shape[2]) for x in range(previous.shape[3])]
    for y, x in positions:
        key = previous[:, :, y, x]
        loss = loss + F.cross_entropy(z @ key.T, targets)
        loss = loss + F.cross_entropy(heads['local-local'](current[:, :, y, x]) @ key.T, targets)
    return loss / len(positions)


def main(steps: int, compare: int):
    recording = record_atari('pong', 4000, seed=0, progress=False)
    pairs = FrameWindows(recording, 2)
    batches = [b for e in range(1 + max(steps, compare) // 50) for b in epoch_batches(pairs.starts, 64, 0, e)]

    def make(precision, contiguous=False):
        encoder = STDIM(precision=precision)
        with seeded(0, 1):
            model = _Contrast(encoder.seeded_network(recording), encoder.parts)
        if contiguous:
            model.to(memory_format=torch.contiguous_format)
        return model, torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5)

    def step(trainer, loss, batch):
        model, adam = trainer
        start = time.process_time()
        value = loss(model, batch)
        adam.zero_grad(set_to_none=True)
        value.backward()
        adam.step()
        return time.process_time() - start, value.item()

    ours = lambda model, batch: model(batch)
    forms = {
        'plain float32, loop over positions': (make('float32', contiguous=True), plain_loss),
        'ours, float32': (make('float32'), ours),
        'ours, auto precision': (make('auto'), ours),
    }
    with threads(1):
        times, losses = ({name: [] for name in forms} for _ in range(2))
        for i in range(max(steps, compare)):
            batch = pairs[batches[i]]
            for name, (trainer, loss) in forms.items():
                if i >= steps and name == 'ours, float32':
                    continue
                seconds, value = step(trainer, loss, batch)
                times[name].append(seconds)
                losses[name].append(value)
    plain = np.array(times['plain float32, loop over positions'][1:])
    for name, t in times.items():
        ratio = np.median(plain[: len(t) - 1] / np.array(t[1:]))
        print(
            f"{name:36} {1e3 * np.median(t[1:]):6.0f} ms a step  {128 / np.median(t[1:]):6.0f} images/s/core  "
            f"{ratio:.2f}x"
        )
    a, b = (np.array(losses[n]) for n in ('plain float32, loop over positions', 'ours, auto precision'))
    smooth = lambda x: np.convolve(x, np.ones(10) / 10, 'valid')
    print(
        f"losses over {len(a)} steps: {a[0]:.3f} -> {a[-10:].mean():.3f} (plain), {b[0]:.3f} -> "
        f"{b[-10:].mean():.3f} (ours); "
        f"largest difference {100 * abs(b / a - 1).max():.2f}% a step, "
        f"{100 * abs(smooth(b) / smooth(a) - 1).max():.2f}% over 10 steps"
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--steps', type=int, default=12, help='timed steps of all three forms')
    parser.add_argument('--compare', type=int, default=300, help='steps whose losses are compared')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.compare = 2, 11  # ten losses are averaged
    main(args.steps, args.compare)
