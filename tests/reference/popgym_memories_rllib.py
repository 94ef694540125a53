"""Elman, GRU, LSTM, MLP, PosMLP, FrameStack, TCN and S4D held against popgym's models for RLlib.

The same weights, put where each keeps them. What popgym's models import and these need little of (ray, einops,
opt_einsum) is stood in for while they are imported.
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


class _Outer(nn.Module):
    "In place of RLlib's base class."

    def __init__(self, *args):
        super().__init__()


def _modules():
    "popgym's modules, imported with what they need."

    def module(name, **held):
        m = types.ModuleType(name)
        m.__dict__.update(held)
        return name, m

    stubs = dict(
        [
            module('ray'),
            module('ray.rllib'),
            module('ray.rllib.models'),
            module('ray.rllib.models.torch'),
            module('ray.rllib.utils'),
            module('ray.rllib.models.torch.torch_modelv2', TorchModelV2=_Outer),
            module('ray.rllib.utils.typing', ModelConfigDict=dict, TensorType=torch.Tensor),
            module('einops', repeat=lambda x, p, **n: REPEAT[p](x, **n), rearrange=lambda x, p: REARRANGE[p](x)),
            module('opt_einsum', contract=torch.einsum, contract_expression=None),
        ]
    )
    logging.disable(logging.WARNING)  # of kernels for CUDA that are not there
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


def _outer(cls, ours):
    "A model of popgym without its first and last layers, so that only its memory is left."
    theirs = cls.__new__(cls)
    nn.Module.__init__(theirs)
    theirs.cfg = dict(
        cls.BASE_CONFIG, **cls.MODEL_CONFIG, preprocessor_output_size=ours.n_in, hidden_size=ours.n_hidden
    )
    if hasattr(ours, 'position'):
        theirs.embedding = nn.Embedding.from_pretrained(POPGYM.table(1024, ours.n_in))
        theirs.embedding_strength = nn.Parameter(torch.tensor([0.5]))
    return theirs


def _frames(x):
    "The state of those that keep the last frames"
    return [x.new_zeros(len(x), 3, x.shape[2])]


def _call(theirs, first=_frames):
    "x -> y, from the state that `first` gives, with the time mixed in where theirs has it."

    def call(x):
        B, T, n = x.shape
        if hasattr(theirs, 'embedding'):
            x = theirs.apply_embedding(x, torch.zeros(B, dtype=torch.long))
        return theirs.forward_memory(x, first(x), torch.zeros(B), torch.full((B,), T))[0]

    return call


def _pairs(ours, theirs, same):
    "Give theirs the weights of ours; `same`: (ours, theirs, how ours is laid out there, how theirs is laid out here)."
    if hasattr(ours, 'position'):
        same = [*same, (ours.position.strength, theirs.embedding_strength, lambda a: a[None], lambda b: b[0])]
    straight = lambda a: a
    same = [(a, b, *(how or (straight, straight))) for a, b, *how in same]
    with torch.no_grad():
        for a, b, there, _ in same:
            b.copy_(there(a))
    return [((lambda a=a: a.grad), (lambda b=b, here=here: here(b.grad))) for a, b, _, here in same]


def _zip(mine, other):
    return [(a, b) for a, b in zip(mine.parameters(), other.parameters(), strict=True)]


def _mlp(cls):
    def make(n_in: int = 128):
        ours = cls(n_in)
        theirs = _outer(POPGYM.MLP, ours)
        theirs.core = nn.Sequential(nn.Linear(n_in, 256), nn.LeakyReLU(), nn.Linear(256, 256), nn.LeakyReLU())
        return ours, lambda x: ours(x)[0], _call(theirs), theirs, _pairs(ours, theirs, _zip(ours.layers, theirs.core))

    return make


def _recurrent(cls):
    """Elman, GRU and LSTM of popgym are layers of torch behind its own order of axes.

    It keeps a state as (B, layers, n_hidden).
    """

    def make(n_in: int = 128):
        ours = cls(n_in)
        theirs = _outer(getattr(POPGYM, cls.__name__), ours)
        theirs.core = getattr(nn, 'RNN' if cls is Elman else cls.__name__)(n_in, 256, 1, batch_first=True)
        first = lambda x: [x.new_zeros(len(x), 1, 256)] * (2 if cls is LSTM else 1)
        return (
            ours,
            lambda x: ours(x)[0],
            _call(theirs, first),
            theirs,
            _pairs(ours, theirs, _zip(ours.layer, theirs.core)),
        )

    return make


def framestack(n_in: int = 128):
    ours = FrameStack(n_in)
    theirs = _outer(POPGYM.Framestack, ours)
    theirs.compress = nn.Linear(n_in, 64)
    theirs.core = nn.Sequential(nn.Linear(256, 256), nn.LeakyReLU(), nn.Linear(256, 256), nn.LeakyReLU())
    pairs = _pairs(ours, theirs, _zip(ours.layers, theirs.core) + _zip(ours.compress, theirs.compress))
    return ours, lambda x: ours(x)[0], _call(theirs), theirs, pairs


def tcn(n_in: int = 128):
    ours = TCN(n_in)
    theirs = _outer(POPGYM.Frameconv, ours)
    theirs.core = nn.Conv1d(n_in, 256, 4)
    return ours, lambda x: ours(x)[0], _call(theirs), theirs, _pairs(ours, theirs, _zip(ours.layer, theirs.core))


DIAGONAL = dict(  # popgym's settings
    mode='diag', measure='diag-lin', bidirectional=False, disc='zoh', real_type='exp', transposed=False
)


def s4d(n_in: int = 128):
    ours = S4D(n_in)
    theirs = nn.ModuleDict(dict(map=nn.Linear(n_in, 256), core=POPGYM.S4(d_model=256, d_state=16, **DIAGONAL)))
    core, kernel = theirs['core'], theirs['core'].kernel.kernel
    first = lambda a: a[None], lambda b: b[0]
    same = [
        (ours.skip, core.D, *first),
        (ours.C, kernel.C, *first),
        (ours.B, kernel.B),
        (ours.log_dt, kernel.log_dt),
        (ours.log_decay, kernel.inv_A_real),
        (ours.frequency, kernel.A_imag),
    ]
    pairs = _pairs(ours, theirs, same + _zip(ours.write_in, theirs['map']) + _zip(ours.read_out, core.output_linear[0]))
    return ours, lambda x: ours(x)[0], lambda x: core(theirs['map'](x))[0], theirs, pairs


MODELS = dict(
    **{cls.__name__: _recurrent(cls) for cls in (Elman, GRU, LSTM)},
    **{cls.__name__: _mlp(cls) for cls in (MLP, PosMLP)},
    FrameStack=framestack,
    TCN=tcn,
    S4D=s4d,
)
# name: n_in -> (our memory, x -> y of ours, of theirs, their module, pairs of gradients)
