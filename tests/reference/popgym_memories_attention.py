"""FART and FWP compared with popgym's blocks, to which our weights are copied."""

import torch
from popgym.baselines.models.fwp import FWPBlock
from popgym.baselines.models.linear_attention import LinearAttentionBlock

from srlviz.memories.attention import FART, FWP


def _share(ours, reference):
    "Copy our weights to popgym's block; return pairs (ours, popgym's) of functions that return a parameter's gradient."
    parts = dict(query=0, key=1, value=2, shortcut=3)
    with torch.no_grad():
        for name, i in parts.items():
            getattr(reference, name).weight.copy_(ours.project.weight[i * ours.h : (i + 1) * ours.h])
        reference.shortcut.bias.copy_(ours.bias)
    reference.norm.load_state_dict(ours.norm.state_dict())
    reference.ff.load_state_dict(ours.feed.state_dict())
    pairs = [
        (lambda: ours.project.weight.grad, lambda: torch.cat([getattr(reference, n).weight.grad for n in parts])),
        (lambda: ours.bias.grad, lambda: reference.shortcut.bias.grad),
    ]
    for our_part, reference_part in (ours.norm, reference.norm), (ours.feed, reference.ff):
        for p, q in zip(our_part.parameters(), reference_part.parameters(), strict=True):
            pairs.append((lambda p=p: p.grad, lambda q=q: q.grad))
    return pairs


def _compare_blocks(ours, reference, empty):
    "Return (our x -> y, popgym's x -> y, popgym's module, pairs of gradients), at the level of the block."

    def our_block(x):
        starts = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return ours.block(x, ours.initial_state(len(x))[0], starts)[0]

    return our_block, lambda x: reference(x, empty(x))[0], reference, _share(ours, reference)


def fart(n_in: int = 128):
    ours = FART(n_in)
    h = ours.h

    def empty(x):
        return [x.new_zeros(len(x), 1, h, h), x.new_zeros(len(x), 1, h)]

    return ours, *_compare_blocks(ours, LinearAttentionBlock(n_in, h), empty)


def fwp(n_in: int = 128):
    ours = FWP(n_in)
    h = ours.h

    def empty(x):
        return x.new_zeros(len(x), 1, h, h)

    return ours, *_compare_blocks(ours, FWPBlock(n_in, h), empty)


# name: n_in -> (our memory, our x -> y, popgym's x -> y, popgym's module, pairs of functions returning gradients)
MODELS = dict(FART=fart, FWP=fwp)
