"""Memories newer than popgym: they learn a small recall task, and their cost is measured."""

import pytest

from srlviz.core.names import catalog
from srlviz.evaluate.memories.cost import profile_memory
from srlviz.evaluate.memories.recall import recall

CASES = [  # memory, arguments, task, delay, minimum accuracy
    ('S6', {}, 'count', 8, 0.6),
    ('S6', dict(n_heads=4), 'count', 8, 0.6),
    ('DeltaNet', {}, 'copy', 1, 0.8),
    ('DeltaNet', dict(gated=True), 'copy', 1, 0.8),
    ('RoPEAttention', {}, 'copy', 1, 0.9),
]


@pytest.mark.parametrize('name, arguments, task, delay, min_accuracy', CASES)
def test_learns_to_recall(name, arguments, task, delay, min_accuracy):
    "Chance is less than a quarter"

    def make_memory(n_in, n_hidden):
        return catalog('memories')[name](n_in, n_hidden, **arguments)

    table = recall(make_memory, task, delays=(delay,), n_hidden=16, steps=200, lr=0.01, progress=False)
    assert table['chance'].item() < 0.25 and table['accuracy'].item() > min_accuracy


@pytest.mark.parametrize('name, state', [('S6', 16 * 16), ('DeltaNet', 4 * 4), ('RoPEAttention', 2 * 64 * 16 + 1)])
def test_the_size_of_the_state_is_measured(name, state):
    costs = profile_memory(catalog('memories')[name](8, 16), batch=2, length=40, runs=2)
    assert costs.set_index('metric')['value']['state floats'] == state
