"""IndRNN and LMU compared with popgym's modules, to which our weights are copied."""

import torch
from popgym.baselines.models.indrnn import IndRNN as PopgymIndRNN
from popgym.baselines.models.lmu import LMU as PopgymLMU

from srlviz.memories.independent import IndRNN
from srlviz.memories.lmu import LMU


def pairs_of(ours, reference):
    """Copy our parameters to those of the reference; return pairs of functions that return their gradients.

    One of ours may be (parameter, slice).
    """
    pairs = []
    for source, target in zip(ours, reference, strict=True):
        p, part = source if isinstance(source, tuple) else (source, ...)
        with torch.no_grad():
            target.copy_(p[part].view_as(target))
        pairs.append((lambda p=p, part=part, t=target: p.grad[part].view_as(t), lambda t=target: t.grad))
    return pairs


def indrnn(n_in: int = 128):
    ours = IndRNN(n_in)
    reference = PopgymIndRNN(n_in, ours.n_out)
    with torch.no_grad():
        reference.bias0.zero_()
        reference.bias1.zero_()
    first, second = ours.layers
    our_weights = [first.weight, first.bias, second.weight, second.bias, (ours.recurrent, 0), (ours.recurrent, 1)]
    a, b = reference.input0, reference.input1
    pairs = pairs_of(our_weights, [a.weight, a.bias, b.weight, b.bias, reference.weight0, reference.weight1])
    return ours, lambda x: ours(x)[0], lambda x: reference(x)[0], reference, pairs


def lmu(n_in: int = 128):
    ours = LMU(n_in)
    reference = PopgymLMU(n_in, ours.n_out, ours.n_out, ours.theta)
    names = ('e_x', 'e_h', 'e_m', 'W_x', 'W_h', 'W_m')
    pairs = pairs_of([getattr(ours, n) for n in names], [getattr(reference.cell, n) for n in names])
    return ours, lambda x: ours(x)[0], lambda x: reference(x)[0], reference, pairs


# name: n_in -> (our memory, our x -> y, popgym's x -> y, popgym's module, pairs of functions returning gradients)
MODELS = dict(IndRNN=indrnn, LMU=lmu)
