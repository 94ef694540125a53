"""Memories compared with popgym 1.0.7's modules: the same weights give the same outputs and gradients.

These are twelve of the paper's thirteen. The other, DNC, is compared with our plain implementation, because popgym's
has defects.
"""

import logging

import pytest
import torch

logging.disable(logging.WARNING)  # popgym warns about missing packages
from reference import plain_dnc, popgym_memories_attention, popgym_memories_recurrent, popgym_memories_rllib

logging.disable(logging.NOTSET)

from srlviz.core.names import catalog

POPGYM = popgym_memories_attention.MODELS | popgym_memories_recurrent.MODELS | popgym_memories_rllib.MODELS


def assert_near(ours, reference, label):
    "Assert equality to 1e-4 of the largest number."
    difference = (ours - reference).abs().max()
    scale = reference.abs().max()
    assert difference <= 1e-4 * scale, f"{label}: difference {difference:.1e}, the largest number is {scale:.1e}"


def assert_equal_models(make):
    "Compare outputs and the gradients of the input and of every weight, over a length that is no multiple of a chunk."
    torch.manual_seed(0)
    _, our_forward, reference_forward, _, pairs = make(128)
    x = torch.randn(3, 75, 128)
    our_x, reference_x = (x.clone().requires_grad_() for _ in range(2))
    y, z = our_forward(our_x), reference_forward(reference_x)
    target = torch.randn(y.shape)  # without it, gradients of normalised outputs would vanish
    for out in y, z:
        (out * target).mean().backward()
    assert_near(y, z, "output")
    assert_near(our_x.grad, reference_x.grad, "gradient of x")
    assert pairs
    for i, (our_gradient, reference_gradient) in enumerate(pairs):
        assert_near(our_gradient(), reference_gradient(), f"gradient of weight {i}")


@pytest.mark.parametrize('name', sorted(POPGYM))
def test_memories_equal_popgyms(name):
    assert_equal_models(POPGYM[name])


@pytest.mark.parametrize('name', sorted(plain_dnc.MODELS))
def test_dnc_equals_the_plain_implementation(name):
    assert_equal_models(plain_dnc.MODELS[name])


def test_all_memories_of_the_paper_are_compared():
    "All thirteen of popgym; memories that it does not have, FFM or a new one, are not compared"
    compared = {*POPGYM, *plain_dnc.MODELS}
    assert (
        compared <= {*catalog('memories')}
        and not compared & {'FFM', 'LRU', 'GTrXL', 'S6', 'DeltaNet', 'RoPEAttention'}
        and len(compared) == 13
    )


def test_a_changed_weight_fails_the_comparison():
    "The comparison can fail"

    def make_with_changed_weight(n_in):
        ours, our_forward, reference_forward, reference, pairs = POPGYM['GRU'](n_in)
        with torch.no_grad():
            reference.core.bias_hh_l0[0] += 0.1
        return ours, our_forward, reference_forward, reference, pairs

    with pytest.raises(AssertionError):
        assert_equal_models(make_with_changed_weight)
