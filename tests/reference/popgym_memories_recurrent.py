"""IndRNN and LMU held against popgym's modules: the same weights, put where each keeps them."""

import torch
from popgym.baselines.models.indrnn import IndRNN as TheirIndRNN
from popgym.baselines.models.lmu import LMU as TheirLMU

from srlviz.memories.independent import IndRNN
from srlviz.memories.lmu import LMU


def pairs_of(mine, theirs):
    "Put the weights of mine in theirs; give functions for the gradients of both. Mine may be (parameter, slice)."
    pairs = []
    for m, t in zip(mine, theirs, strict=True):
        p, part = m if isinstance(m, tuple) else (m, ...)
        with torch.no_grad():
            t.copy_(p[part].view_as(t))
        pairs.append((lambda p=p, part=part, t=t: p.grad[part].view_as(t), lambda t=t: t.grad))
    return pairs


def indrnn(n_in: int = 128):
    ours = IndRNN(n_in)
    theirs, (one, two) = TheirIndRNN(n_in, ours.n_out), ours.layers
    with torch.no_grad():
        theirs.bias0.zero_(), theirs.bias1.zero_()
    a, b = theirs.input0, theirs.input1
    mine = [one.weight, one.bias, two.weight, two.bias, (ours.recurrent, 0), (ours.recurrent, 1)]
    pairs = pairs_of(mine, [a.weight, a.bias, b.weight, b.bias, theirs.weight0, theirs.weight1])
    return ours, lambda x: ours(x)[0], lambda x: theirs(x)[0], theirs, pairs


def lmu(n_in: int = 128):
    ours = LMU(n_in)
    theirs = TheirLMU(n_in, ours.n_out, ours.n_out, ours.theta)
    names = ('e_x', 'e_h', 'e_m', 'W_x', 'W_h', 'W_m')
    pairs = pairs_of([getattr(ours, n) for n in names], [getattr(theirs.cell, n) for n in names])
    return ours, lambda x: ours(x)[0], lambda x: theirs(x)[0], theirs, pairs


MODELS = dict(IndRNN=indrnn, LMU=lmu)
# name: n_in -> (our memory, x -> y of ours, of theirs, their module, pairs of gradients)
