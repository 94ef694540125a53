"""FART and FWP held against popgym's blocks: the same weights, put where each keeps them."""

import torch
from popgym.baselines.models.fwp import FWPBlock
from popgym.baselines.models.linear_attention import LinearAttentionBlock

from srlviz.memories.attention import FART, FWP


def _share(ours, theirs):
    "Give theirs the weights of ours; pairs (ours, theirs) of functions that give a parameter's gradient."
    parts = dict(query=0, key=1, value=2, shortcut=3)
    with torch.no_grad():
        for name, i in parts.items():
            getattr(theirs, name).weight.copy_(ours.project.weight[i * ours.h : (i + 1) * ours.h])
        theirs.shortcut.bias.copy_(ours.bias)
    theirs.norm.load_state_dict(ours.norm.state_dict())
    theirs.ff.load_state_dict(ours.feed.state_dict())
    pairs = [
        (lambda: ours.project.weight.grad, lambda: torch.cat([getattr(theirs, n).weight.grad for n in parts])),
        (lambda: ours.bias.grad, lambda: theirs.shortcut.bias.grad),
    ]
    for mine, other in (ours.norm, theirs.norm), (ours.feed, theirs.ff):
        for p, q in zip(mine.parameters(), other.parameters(), strict=True):
            pairs.append((lambda p=p: p.grad, lambda q=q: q.grad))
    return pairs


def _both(ours, theirs, empty):
    "(ours x -> y, theirs x -> y, their module, pairs of gradients), at the level of the block."

    def mine(x):
        starts = torch.zeros(x.shape[:2], dtype=torch.bool, device=x.device)
        return ours.block(x, ours.initial_state(len(x))[0], starts)[0]

    return mine, lambda x: theirs(x, empty(x))[0], theirs, _share(ours, theirs)


def fart(n_in: int = 128):
    ours = FART(n_in)
    h = ours.h
    empty = lambda x: [x.new_zeros(len(x), 1, h, h), x.new_zeros(len(x), 1, h)]
    return ours, *_both(ours, LinearAttentionBlock(n_in, h), empty)


def fwp(n_in: int = 128):
    ours = FWP(n_in)
    return ours, *_both(ours, FWPBlock(n_in, ours.h), lambda x: x.new_zeros(len(x), 1, ours.h, ours.h))


MODELS = dict(FART=fart, FWP=fwp)
# name: n_in -> (our memory, x -> y of ours, of theirs, their module, pairs of gradients)
