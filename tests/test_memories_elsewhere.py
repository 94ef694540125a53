"""Memories with torch.export, ONNX, torch.compile and averaged weights.

ONNX is tested where onnx, onnxscript and onnxruntime can be imported; srlviz does not require them.
"""

import copy

import numpy as np
import pytest
import torch

from srlviz.core.names import catalog
from srlviz.memories.memory import leaves

N_IN, B = 5, 4


def make_memory(name):
    torch.manual_seed(0)
    return catalog('memories')[name](N_IN, 8).eval()


def exported(memory):
    "Export one acting step, for any number of rows."
    x = torch.randn(B, 1, N_IN)
    state = memory.initial_state(B)
    starts = torch.zeros(B, 1, dtype=torch.bool)
    rows = {0: torch.export.Dim('rows')}
    shapes = rows, rows if isinstance(state, torch.Tensor) else tuple(rows for _ in state), rows
    return torch.export.export(memory, (x, state, starts), dynamic_shapes=shapes)


def max_difference(memory, step, steps=20, rows=3):
    """Play some steps with resets; return the largest difference of outputs and states between `memory` and `step`.

    It is relative to the largest number, or to 1 if that is larger.
    """
    state = step_state = memory.initial_state(rows)
    difference = 0.0
    for x, starts in zip(torch.randn(steps, rows, 1, N_IN), torch.rand(steps, rows, 1) < 0.2):
        with torch.no_grad():
            y, state = memory(x, state, starts)
            z, step_state = step(x, step_state, starts)
        for a, b in zip([y, *leaves(state)], [z, *leaves(step_state)]):
            if a.numel():
                difference = max(difference, float((a - b).abs().max() / b.abs().max().clamp(min=1)))
    return difference


@pytest.mark.parametrize('name', catalog('memories'))
def test_an_exported_step_equals_the_memory(name):
    memory = make_memory(name)
    assert max_difference(memory, exported(memory).module()) < 1e-5


@pytest.mark.parametrize('name', ['GRU', 'LSTM', 'FART', 'FWP', 'FFM', 'S4D', 'LRU', 'S6', 'DeltaNet', 'RoPEAttention'])
def test_a_step_in_onnxruntime_equals_the_memory(name, tmp_path):
    for package in 'onnx', 'onnxscript':
        pytest.importorskip(package, reason=f"ONNX needs {package}, which srlviz does not require")
    runtime = pytest.importorskip('onnxruntime', reason="srlviz does not require onnxruntime")
    memory = make_memory(name)
    path = tmp_path / 'step.onnx'
    state_names = [f'state{i}' for i in range(len(leaves(memory.initial_state(1))))]
    inputs = ['x', *state_names, 'starts']
    outputs = ['y', *(f'new_{k}' for k in state_names)]
    program = torch.onnx.export(
        exported(memory), (), dynamo=True, verbose=False, input_names=inputs, output_names=outputs
    )
    program.save(path)
    session = runtime.InferenceSession(path, providers=['CPUExecutionProvider'])

    def step(x, state, starts):
        feed = dict(zip(inputs, (z.numpy() for z in (x, *leaves(state), starts))))
        y, *new = (torch.from_numpy(np.asarray(z)) for z in session.run(None, feed))
        return y, new[0] if len(new) == 1 else tuple(new)

    assert max_difference(memory, step) < 1e-5


KERNELS = 'Elman', 'GRU', 'LSTM'  # torch cannot compile a whole graph with one of these


@pytest.mark.slow
@pytest.mark.parametrize('name', catalog('memories'))
def test_compiled_memories_give_equal_outputs(name):
    "A sequence and a step, with gradients; a step also compiles to one graph, except for torch's recurrent networks"
    memory, x, starts = make_memory(name), torch.randn(2, 9, N_IN), torch.rand(2, 9) < 0.2
    torch._dynamo.reset()
    compiled = torch.compile(memory, backend='aot_eager')
    for T in 9, 1:
        y, _ = compiled(x[:, :T], None, starts[:, :T])
        y.square().mean().backward()
        assert torch.allclose(y, memory(x[:, :T], None, starts[:, :T])[0], atol=1e-5)
    torch._dynamo.reset()
    whole = torch.compile(memory, backend='eager', fullgraph=True)
    if name in KERNELS:
        with pytest.raises(torch._dynamo.exc.Unsupported, match='RNN, GRU.*LSTM'):
            whole(x[:, :1], memory.initial_state(2), starts[:, :1])
    else:
        y, _ = whole(x[:, :1], memory.initial_state(2), starts[:, :1])
        assert torch.allclose(y, memory(x[:, :1], None, starts[:, :1])[0], atol=1e-5)


@pytest.mark.parametrize('name', catalog('memories'))
def test_weights_can_be_averaged_and_loaded_into_the_same_memory_only(name, tmp_path):
    "A state_dict contains weights alone; its metadata survive torch.save, and loading checks them"
    one, two = make_memory(name), make_memory(name)
    with torch.no_grad():
        for p in two.parameters():
            p.add_(1)
    a, b = one.state_dict(), two.state_dict()
    assert set(a) == {k for k, _ in [*one.named_parameters(), *one.named_buffers()] if k in a}
    one.load_state_dict({k: (a[k] + b[k]) / 2 for k in a})
    assert all(torch.allclose(p, q - 0.5) for p, q in zip(one.parameters(), two.parameters()))
    ema = torch.optim.swa_utils.AveragedModel(one, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    ema.update_parameters(two), ema.update_parameters(two)
    assert copy.deepcopy(ema)(torch.randn(2, 3, N_IN))[0].isfinite().all()
    torch.save(a, tmp_path / 'weights.pt')
    loaded = torch.load(tmp_path / 'weights.pt', weights_only=True)
    two.load_state_dict(loaded)
    other = next(k for k in catalog('memories') if k != name)
    with pytest.raises(ValueError, match=f'these are weights of {name}, not of {other}'):
        make_memory(other).load_state_dict(loaded)


@pytest.mark.parametrize('name', catalog('memories'))
def test_shapes_are_right_on_the_meta_device(name):
    "The meta device computes no values, only shapes"
    with torch.device('meta'):
        memory = catalog('memories')[name](4, n_hidden=16)
    y, state = memory(torch.empty(2, 5, 4, device='meta'))
    assert y.shape == (2, 5, memory.n_out) and y.is_meta
