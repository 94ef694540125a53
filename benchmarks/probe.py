"""CPU time of an epoch of the linear probe, compared with the authors' code, which encodes again for every variable.

The reference runs the encoder on each batch once per variable, with one nn.Linear and one Adam per variable. Ours
encodes the frames once and trains all variables together. One thread, CPU time, interleaved; medians of ratios.
"""

import argparse
import time

import numpy as np
import torch

from srlviz.core.training import threads
from srlviz.data.atari import record_atari
from srlviz.encoders.baselines import RandomCNN
from srlviz.encoders.frames.cnn import FrameRows
from srlviz.evaluate.probe import _Block


def main(game: str, batches: int, rounds: int):
    recording = record_atari(game, 2000, seed=0, progress=False)
    names, rows = [f.name for f in recording.factors], FrameRows(recording)
    y = torch.from_numpy(recording.steps()[names].to_numpy(np.int64, copy=True))
    encoder = RandomCNN(precision='float32').fit(recording)
    start = time.process_time()
    with threads(1):
        x = torch.from_numpy(np.concatenate(encoder.encode(recording, progress=False)))
    encoding = (time.process_time() - start) / len(x)
    layers = [torch.nn.Linear(256, 256) for _ in names]
    adams = [torch.optim.Adam(layer.parameters(), lr=3e-4, eps=1e-5) for layer in layers]
    block = _Block(
        torch.stack([layer.weight.detach().clone() for layer in layers]),
        torch.stack([layer.bias.detach().clone() for layer in layers]),
        [3e-4] * len(names),
    )
    generator, ratios, whole = np.random.default_rng(0), [], []
    with threads(1):
        for _ in range(rounds):
            chosen = [generator.choice(len(x), 64, replace=False) for _ in range(batches)]
            start = time.process_time()
            for b in chosen:
                frames = rows[b]
                for v, (layer, adam) in enumerate(zip(layers, adams)):
                    with torch.no_grad():
                        codes = encoder.net_(frames)
                    loss = torch.nn.functional.cross_entropy(layer(codes), y[b, v])
                    adam.zero_grad()
                    loss.backward()
                    adam.step()
            reference_end = time.process_time()
            for b in chosen:
                block.step(x[b], y[b])
            reference, ours = reference_end - start, time.process_time() - reference_end
            ratios.append(reference / ours)
            whole.append(reference / (ours + encoding * 64 * batches / 100))
    difference = max((layer.weight - block.weight[v]).abs().max().item() for v, layer in enumerate(layers))
    print(
        f"{game}: {len(names)} variables, {64 * batches} frames a round: reference {reference:.2f} s, ours "
        f"{ours:.4f} s CPU; {np.median(ratios):.0f}x less an epoch "
        f"({np.median(whole):.0f}x with the one encoding spread over 100 epochs), median of {rounds}; weights "
        f"differ by {difference:.1e} at most"
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--game', nargs='*', default=['pong', 'seaquest'])
    parser.add_argument('--batches', type=int, default=2)
    parser.add_argument('--rounds', type=int, default=5)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.game, args.batches, args.rounds = ['pong'], 1, 1
    for game in args.game:
        main(game, args.batches, args.rounds)
