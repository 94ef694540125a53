"""Memories that came after popgym: they learn a small recall task, and their cost is measured."""

import pytest

from srlviz.core.names import catalog
from srlviz.evaluate.memories.cost import profile_memory
from srlviz.evaluate.memories.recall import recall

CASES = [  # memory, arguments, task, delay, accuracy that is reached
    ('S6', {}, 'count', 8, 0.6),
    ('S6', dict(n_heads=4), 'count', 8, 0.6),
    ('DeltaNet', {}, 'copy', 1, 0.8),
    ('DeltaNet', dict(gated=True), 'copy', 1, 0.8),
    ('RoPEAttention', {}, 'copy', 1, 0.9),
]


@pytest.mark.parametrize('name, arguments, task, delay, reached', CASES)
def test_learns_to_recall(name, arguments, task, delay, reached):
    "A guess is right in less than a quarter of the cases"

    def made(n_in, n_hidden):
        return catalog('memories')[name](n_in, n_hidden, **arguments)

    found = recall(made, task, delays=(delay,), n_hidden=16, steps=200, lr=0.01, progress=False)
    assert found['chance'].item() < 0.25 and found['accuracy'].item() > reached


@pytest.mark.parametrize('name, state', [('S6', 16 * 16), ('DeltaNet', 4 * 4), ('RoPEAttention', 2 * 64 * 16 + 1)])
def test_cost_is_measured(name, state):
    costs = profile_memory(catalog('memories')[name](8, 16), batch=2, length=40, runs=2)
    assert costs.set_index('metric')['value']['state floats'] == state
