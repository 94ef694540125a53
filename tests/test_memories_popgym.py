"""The memories held against popgym 1.0.7's modules where these are right: the same weights give the same outputs and gradients."""

import logging

import pytest
import torch

logging.disable(logging.WARNING)  # popgym says what it lacks
import popgym_memories_p, popgym_memories_q, popgym_memories_r

logging.disable(logging.NOTSET)

MODELS = popgym_memories_p.MODELS | popgym_memories_q.MODELS | popgym_memories_r.MODELS


def near(mine, other, what):
    "Equal to 1e-4 of the largest number."
    apart, scale = (mine - other).abs().max(), other.abs().max()
    assert apart <= 1e-4 * scale, f"{what}: {apart:.1e} apart, the largest is {scale:.1e}"


@pytest.mark.parametrize('name', sorted(MODELS))
def test_same_as_popgym(name):
    "Outputs, and the gradients of the input and of every pair of weights, over a length that is no multiple of a chunk."
    torch.manual_seed(0)
    ours, mine, other, theirs, pairs = MODELS[name](128)
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
