"""Elman, GRU, LSTM, MLP, PosMLP, FrameStack, TCN and S4D compared with popgym's models for RLlib.

Our weights are copied to popgym's models. Those import ray, einops and opt_einsum, of which they need little; stubs
replace these packages during the import.
"""

import logging, sys, types
from unittest import mock

import torch
from torch import nn

from srlviz.memories.feedforward import MLP, FrameStack, PosMLP, TCN
from srlviz.memories.recurrent import GRU, LSTM, Elman
from srlviz.memories.state_space import S4D

REPEAT = {
    "n -> h n": lambda x, h: x.expand(h, -1),
    "n m -> h n m": lambda x, h: x.expand(h, -1, -1),
    "t n -> (v t) n": lambda x, v: x.repeat(v, 1),
    "t n -> 1 (v t) n": lambda x, v: x.repeat(v, 1)[None],
    "r t n -> r (v t) n": lambda x, v: x.repeat(1, v, 1),
}
REARRANGE = {"... c h l -> ... (c h) l": lambda x: x.flatten(-3, -2), "b c h -> b (c h)": lambda x: x.flatten(1)}


class _BaseModel(nn.Module):
    "Stub of RLlib's base class."

    def __init__(self, *args):
        super().__init__()


def _modules():
    "Import popgym's modules with stubs of the packages that they need."

    def module(name, **contents):
        stub = types.ModuleType(name)
        stub.__dict__.update(contents)
        return name, stub

    stubs = dict(
        [
            module('ray'),
            module('ray.rllib'),
            module('ray.rllib.models'),
            module('ray.rllib.models.torch'),
            module('ray.rllib.utils'),
            module('ray.rllib.models.torch.torch_modelv2', TorchModelV2=_BaseModel),
            module('ray.rllib.utils.typing', ModelConfigDict=dict, TensorType=torch.Tensor),
            module('einops', repeat=lambda x, p, **n: REPEAT[p](x, **n), rearrange=lambda x, p: REARRANGE[p](x)),
            module('opt_einsum', contract=torch.einsum, contract_expression=None),
        ]
    )
    logging.disable(logging.WARNING)  # about missing CUDA kernels
    try:
        with mock.patch.dict(sys.modules, stubs):
            from popgym.baselines.models.embeddings import positional_encoding
            from popgym.baselines.models.s4d import S4
            from popgym.baselines.ray_models import ray_elman, ray_frameconv, ray_framestack, ray_gru, ray_lstm, ray_mlp
    finally:
        logging.disable(logging.NOTSET)
    return types.SimpleNamespace(
        table=positional_encoding,
        S4=S4,
        MLP=ray_mlp.MLP,
        Frameconv=ray_frameconv.Frameconv,
        Framestack=ray_framestack.Framestack,
        Elman=ray_elman.Elman,
        GRU=ray_gru.GRU,
        LSTM=ray_lstm.LSTM,
    )


POPGYM = _modules()


def _without_outer_layers(cls, ours):
    "Make a model of popgym without its first and last layers, so that only its memory remains."
    reference = cls.__new__(cls)
    nn.Module.__init__(reference)
    reference.cfg = dict(
        cls.BASE_CONFIG, **cls.MODEL_CONFIG, preprocessor_output_size=ours.n_in, hidden_size=ours.n_hidden
    )
    if hasattr(ours, 'position'):
        reference.embedding = nn.Embedding.from_pretrained(POPGYM.table(1024, ours.n_in))
        reference.embedding_strength = nn.Parameter(torch.tensor([0.5]))
    return reference


def _frames(x):
    "The initial state of the models that keep the last frames"
    return [x.new_zeros(len(x), 3, x.shape[2])]


def _forward(reference, first=_frames):
    """Return the function x -> y of popgym's model, which starts from the state `first(x)`.

    It adds a positional encoding if the model has one.
    """

    def forward(x):
        B, T, n = x.shape
        if hasattr(reference, 'embedding'):
            x = reference.apply_embedding(x, torch.zeros(B, dtype=torch.long))
        return reference.forward_memory(x, first(x), torch.zeros(B), torch.full((B,), T))[0]

    return forward


def _pairs(ours, reference, shared):
    """Copy our weights to popgym's model; return pairs of functions that return the gradients of both.

    `shared`: (our parameter, popgym's), or with two functions that convert our layout to popgym's and popgym's to ours.
    """
    if hasattr(ours, 'position'):
        strength = (ours.position.strength, reference.embedding_strength, lambda a: a[None], lambda b: b[0])
        shared = [*shared, strength]

    def unchanged(a):
        return a

    shared = [(a, b, *(layouts or (unchanged, unchanged))) for a, b, *layouts in shared]
    with torch.no_grad():
        for a, b, to_popgym, _ in shared:
            b.copy_(to_popgym(a))
    return [((lambda a=a: a.grad), (lambda b=b, to_ours=to_ours: to_ours(b.grad))) for a, b, _, to_ours in shared]


def _zip(ours, reference):
    return [(a, b) for a, b in zip(ours.parameters(), reference.parameters(), strict=True)]


def _mlp(cls):
    def make(n_in: int = 128):
        ours = cls(n_in)
        reference = _without_outer_layers(POPGYM.MLP, ours)
        reference.core = nn.Sequential(nn.Linear(n_in, 256), nn.LeakyReLU(), nn.Linear(256, 256), nn.LeakyReLU())
        pairs = _pairs(ours, reference, _zip(ours.layers, reference.core))
        return ours, lambda x: ours(x)[0], _forward(reference), reference, pairs

    return make


def _recurrent(cls):
    """Compare Elman, GRU or LSTM; popgym's are layers of torch with another order of axes.

    popgym keeps a state as (B, layers, n_hidden).
    """

    def make(n_in: int = 128):
        ours = cls(n_in)
        reference = _without_outer_layers(getattr(POPGYM, cls.__name__), ours)
        reference.core = getattr(nn, 'RNN' if cls is Elman else cls.__name__)(n_in, 256, 1, batch_first=True)
        n_states = 2 if cls is LSTM else 1

        def first(x):
            return [x.new_zeros(len(x), 1, 256)] * n_states

        pairs = _pairs(ours, reference, _zip(ours.layer, reference.core))
        return ours, lambda x: ours(x)[0], _forward(reference, first), reference, pairs

    return make


def framestack(n_in: int = 128):
    ours = FrameStack(n_in)
    reference = _without_outer_layers(POPGYM.Framestack, ours)
    reference.compress = nn.Linear(n_in, 64)
    reference.core = nn.Sequential(nn.Linear(256, 256), nn.LeakyReLU(), nn.Linear(256, 256), nn.LeakyReLU())
    pairs = _pairs(ours, reference, _zip(ours.layers, reference.core) + _zip(ours.compress, reference.compress))
    return ours, lambda x: ours(x)[0], _forward(reference), reference, pairs


def tcn(n_in: int = 128):
    ours = TCN(n_in)
    reference = _without_outer_layers(POPGYM.Frameconv, ours)
    reference.core = nn.Conv1d(n_in, 256, 4)
    pairs = _pairs(ours, reference, _zip(ours.layer, reference.core))
    return ours, lambda x: ours(x)[0], _forward(reference), reference, pairs


DIAGONAL = dict(  # popgym's settings
    mode='diag', measure='diag-lin', bidirectional=False, disc='zoh', real_type='exp', transposed=False
)


def s4d(n_in: int = 128):
    ours = S4D(n_in)
    reference = nn.ModuleDict(dict(map=nn.Linear(n_in, 256), core=POPGYM.S4(d_model=256, d_state=16, **DIAGONAL)))
    core = reference['core']
    kernel = core.kernel.kernel
    extra_axis = lambda a: a[None], lambda b: b[0]
    shared = [
        (ours.skip, core.D, *extra_axis),
        (ours.C, kernel.C, *extra_axis),
        (ours.B, kernel.B),
        (ours.log_dt, kernel.log_dt),
        (ours.log_decay, kernel.inv_A_real),
        (ours.frequency, kernel.A_imag),
    ]
    shared += _zip(ours.write_in, reference['map']) + _zip(ours.read_out, core.output_linear[0])
    pairs = _pairs(ours, reference, shared)
    return ours, lambda x: ours(x)[0], lambda x: core(reference['map'](x))[0], reference, pairs


# name: n_in -> (our memory, our x -> y, popgym's x -> y, popgym's module, pairs of functions returning gradients)
MODELS = dict(
    **{cls.__name__: _recurrent(cls) for cls in (Elman, GRU, LSTM)},
    **{cls.__name__: _mlp(cls) for cls in (MLP, PosMLP)},
    FrameStack=framestack,
    TCN=tcn,
    S4D=s4d,
)
