"""Memories in other people's software: torch.export, ONNX, torch.compile, averages of weights.

ONNX is looked at where onnx, onnxscript and onnxruntime can be imported; the kit does not ask for them.
"""

import copy

import numpy as np
import pytest
import torch

from srlviz.core.names import catalog
from srlviz.memories.memory import leaves

N_IN, B = 5, 4


def made(name):
    torch.manual_seed(0)
    return catalog('memories')[name](N_IN, 8).eval()


def exported(memory):
    "One acting step, for any number of rows."
    x, state, starts = torch.randn(B, 1, N_IN), memory.initial_state(B), torch.zeros(B, 1, dtype=torch.bool)
    rows = {0: torch.export.Dim('rows')}
    shapes = rows, rows if isinstance(state, torch.Tensor) else tuple(rows for _ in state), rows
    return torch.export.export(memory, (x, state, starts), dynamic_shapes=shapes)


def acted(memory, step, steps=20, rows=3):
    "The largest difference, of outputs and states, over steps with resets, relative to the largest number or 1."
    mine = theirs = memory.initial_state(rows)
    apart = 0.0
    for x, starts in zip(torch.randn(steps, rows, 1, N_IN), torch.rand(steps, rows, 1) < 0.2):
        with torch.no_grad():
            y, mine = memory(x, mine, starts)
            z, theirs = step(x, theirs, starts)
        for a, b in zip([y, *leaves(mine)], [z, *leaves(theirs)]):
            apart = max(apart, float((a - b).abs().max() / b.abs().max().clamp(min=1)) if a.numel() else 0)
    return apart


@pytest.mark.parametrize('name', catalog('memories'))
def test_a_step_is_exported(name):
    memory = made(name)
    assert acted(memory, exported(memory).module()) < 1e-5


@pytest.mark.parametrize('name', ['GRU', 'LSTM', 'FART', 'FWP', 'FFM', 'S4D', 'LRU', 'S6', 'DeltaNet', 'RoPEAttention'])
def test_a_step_runs_in_onnxruntime(name, tmp_path):
    for package in 'onnx', 'onnxscript':
        pytest.importorskip(package, reason=f"ONNX needs {package}, which the kit does not ask for")
    runtime = pytest.importorskip('onnxruntime', reason="the kit does not ask for onnxruntime")
    memory, path = made(name), tmp_path / 'step.onnx'
    names = [f'state{i}' for i in range(len(leaves(memory.initial_state(1))))]
    told = dict(input_names=['x', *names, 'starts'], output_names=['y', *(f'new_{k}' for k in names)])
    torch.onnx.export(exported(memory), (), dynamo=True, verbose=False, **told).save(path)
    session = runtime.InferenceSession(path, providers=['CPUExecutionProvider'])

    def step(x, state, starts):
        given = dict(zip(told['input_names'], (z.numpy() for z in (x, *leaves(state), starts))))
        y, *new = (torch.from_numpy(np.asarray(z)) for z in session.run(None, given))
        return y, new[0] if len(new) == 1 else tuple(new)

    assert acted(memory, step) < 1e-5


KERNELS = 'Elman', 'GRU', 'LSTM'  # torch compiles nothing that holds one of these


@pytest.mark.slow
@pytest.mark.parametrize('name', catalog('memories'))
def test_compiled(name):
    "A step and a sequence, with gradients; a step in one graph, but for torch's own recurrent networks"
    memory, x, starts = made(name), torch.randn(2, 9, N_IN), torch.rand(2, 9) < 0.2
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
def test_weights_are_averaged(name, tmp_path):
    "A state_dict holds weights alone; what else it knows goes through a file of torch, and is looked at"
    one, two = made(name), made(name)
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
    kept = torch.load(tmp_path / 'weights.pt', weights_only=True)
    two.load_state_dict(kept)
    other = next(k for k in catalog('memories') if k != name)
    with pytest.raises(ValueError, match=f'these are weights of {name}, not of {other}'):
        made(other).load_state_dict(kept)


@pytest.mark.parametrize('name', catalog('memories'))
def test_the_meta_device_knows_shapes(name):
    "Where nothing is computed, shapes are told all the same"
    with torch.device('meta'):
        memory = catalog('memories')[name](4, n_hidden=16)
    y, state = memory(torch.empty(2, 5, 4, device='meta'))
    assert y.shape == (2, 5, memory.n_out) and y.is_meta
