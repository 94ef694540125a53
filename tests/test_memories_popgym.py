"""The memories held against popgym 1.0.7's modules: the same weights give the same outputs and gradients.

Twelve of the paper's thirteen. The other, DNC, is held against a plain form of our own, because popgym's has defects.
"""

import logging

import pytest
import torch

logging.disable(logging.WARNING)  # popgym says what it lacks
from reference import plain_dnc, popgym_memories_attention, popgym_memories_recurrent, popgym_memories_rllib

logging.disable(logging.NOTSET)

from srlviz.core.names import catalog

POPGYM = popgym_memories_attention.MODELS | popgym_memories_recurrent.MODELS | popgym_memories_rllib.MODELS


def near(mine, other, what):
    "Equal to 1e-4 of the largest number."
    apart, scale = (mine - other).abs().max(), other.abs().max()
    assert apart <= 1e-4 * scale, f"{what}: {apart:.1e} apart, the largest is {scale:.1e}"


def same(make):
    "Outputs, and the gradients of the input and of every weight, over a length that is no multiple of a chunk."
    torch.manual_seed(0)
    ours, mine, other, theirs, pairs = make(128)
    x = torch.randn(3, 75, 128)
    one, two = (x.clone().requires_grad_() for _ in range(2))
    y, z = mine(one), other(two)
    target = torch.randn(y.shape)  # or gradients of what is normalised would vanish
    for out in y, z:
        (out * target).mean().backward()
    near(y, z, "output")
    near(one.grad, two.grad, "gradient of x")
    assert pairs
    for i, (a, b) in enumerate(pairs):
        near(a(), b(), f"gradient of weight {i}")


@pytest.mark.parametrize('name', sorted(POPGYM))
def test_same_as_popgym(name):
    same(POPGYM[name])


@pytest.mark.parametrize('name', sorted(plain_dnc.MODELS))
def test_same_as_our_plain_form(name):
    same(plain_dnc.MODELS[name])


def test_all_of_the_paper_are_held():
    "All thirteen of popgym; memories that it does not have, FFM or a new one, are not compared"
    held = {*POPGYM, *plain_dnc.MODELS}
    assert (
        held <= {*catalog('memories')}
        and not held & {'FFM', 'LRU', 'GTrXL', 'S6', 'DeltaNet', 'RoPEAttention'}
        and len(held) == 13
    )


def test_other_weights_are_noticed():
    "A comparison that cannot fail would be none"

    def spoiled(n_in):
        ours, mine, other, theirs, pairs = POPGYM['GRU'](n_in)
        with torch.no_grad():
            theirs.core.bias_hh_l0[0] += 0.1
        return ours, mine, other, theirs, pairs

    with pytest.raises(AssertionError):
        same(spoiled)
