"""CPU time of decoding frames: the decoder of VAE and PixelPred, and the same layers with ConvTranspose2d.

Same weights, same codes, forward and backward of 64 frames of 210 x 160. One thread, CPU time, interleaved; medians of
ratios.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn

from srlviz.core.training import native_bfloat16, seeded, threads
from srlviz.encoders.frames.cnn import FrameCNN, FrameDecoder


def with_torch_convolutions(decoder: FrameDecoder) -> FrameDecoder:
    "Make a decoder use torch's transposed convolutions"
    for layer in decoder.convs:
        if isinstance(layer, nn.ConvTranspose2d):
            layer.forward = nn.ConvTranspose2d.forward.__get__(layer)
    return decoder


def main(repeats: int):
    codes = torch.randn(64, 256, generator=torch.Generator().manual_seed(0))
    has_bfloat16 = native_bfloat16(torch.device('cpu'))
    for bfloat16 in (False, True) if has_bfloat16 else (False,):
        with seeded(0):
            net = FrameCNN(bfloat16=bfloat16)
        with seeded(1):
            ours = FrameDecoder(net)
        with seeded(1):
            reference = with_torch_convolutions(FrameDecoder(net))
        with torch.no_grad():
            difference = (ours(codes) - reference(codes)).abs().max().item()
        seconds = {'ours': [], 'torch': []}
        with threads(1):
            for _ in range(repeats + 1):
                for name, decoder in (('ours', ours), ('torch', reference)):
                    start = time.process_time()
                    decoder(codes).sum().backward()
                    seconds[name].append(time.process_time() - start)
        a, b = (np.array(seconds[n][1:]) for n in ('ours', 'torch'))
        print(
            f"{'bfloat16' if bfloat16 else 'float32':8}  ours {1e3 * np.median(a):4.0f} ms, torch "
            f"{1e3 * np.median(b):4.0f} ms: {np.median(b / a):.2f}x; pictures differ by {difference:.1e} at most"
        )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--repeats', type=int, default=8)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    main(1 if args.smoke else args.repeats)
