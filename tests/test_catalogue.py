"""Whatever the catalogue holds keeps its contract: a new encoder is tested as soon as it has a notebook."""

import re
from copy import deepcopy
from pathlib import Path

import pytest, torch

from srlviz.core.checks.encoder import SMALL as TINY
from srlviz.core.names import ROOMS, catalog_names
from srlviz.core.protocols import catalog, check_encoder, check_memory, tiny_recording
from srlviz.memories.memory import leaves
from srlviz.studies.methods import find_method, make_encoder, method_name

ROOT = Path(__file__).parents[1]
SMALL = dict(
    epochs=1, batch_size=8, sequence_length=3, progress=False
)  # what keeps a trained encoder within seconds, where it takes it


@pytest.mark.parametrize('method', sorted(map(method_name, catalog('encoders').values())))
def test_encoder(method):
    stretches = '.sequences.' in find_method(method).cls.__module__  # a horizon of 30 rows and small pictures
    of_film = method in ('frame_autoencoder', 'frame_pca')  # small pictures
    small = dict(lengths=(60, 55, 52, 58), size=TINY) if stretches else dict(size=TINY) if of_film else {}
    check_encoder(make_encoder(method, quick=stretches or of_film, **SMALL), tiny_recording(**small))


def test_methods_are_named_as_in_the_papers():
    assert {'majority', 'random_cnn', 'st_dim'} <= {method_name(c) for c in catalog('encoders').values()}
    for cls in catalog('encoders').values():
        assert find_method(method_name(cls)).cls is find_method(cls.__name__).cls is cls


MEMORIES = catalog('memories')


@pytest.fixture(params=MEMORIES)
def memory(request):
    torch.manual_seed(0)
    return MEMORIES[request.param](5, 8)


def test_memory(memory):
    check_memory(memory)
    check_memory(memory, steps=70, batch=2)  # longer than two chunks


def test_memory_at_length(memory):
    "One step, and 4096, with resets: finite, and the state too."
    for T in 1, 4096:
        if T > 1 and type(memory).__name__ == 'DNC':
            continue  # half a minute: a slow cell of its notebook
        x, starts = torch.randn(2, T, 5), torch.rand(2, T) < 0.001
        with torch.no_grad():
            y, state = memory(x, memory.initial_state(2), starts)
        assert (
            y.shape == (2, T, memory.n_out)
            and bool(y.isfinite().all())
            and all(bool(s.isfinite().all()) for s in leaves(state))
        )


def test_memory_in_bfloat16(memory):
    "Half the bits: within a few of its steps of float32."
    half, x, starts = deepcopy(memory).to(torch.bfloat16), torch.randn(3, 20, 5), torch.rand(3, 20) < 0.2
    with torch.no_grad():
        y, _ = memory(x, memory.initial_state(3), starts)
        low, state = half(x.to(torch.bfloat16), half.initial_state(3), starts)
    assert low.dtype == torch.bfloat16 and all(s.isfinite().all() for s in leaves(state))
    assert (low.float() - y).abs().max() <= 0.1 * y.abs().max()


def test_memory_refuses(memory):
    name, x, state = type(memory).__name__, torch.randn(2, 3, 5), memory.initial_state(2)
    for bad in x[..., :4], x[:, :0], x[0], x.double(), x.long(), torch.full_like(x, float('nan')):
        pytest.raises(ValueError, memory, bad, state)
    for starts in torch.zeros(2, 2, dtype=torch.bool), torch.zeros(2, 3), torch.zeros(3, dtype=torch.bool):
        with pytest.raises(ValueError, match=f'{name} takes starts'):
            memory(x, state, starts)
    if memory.n_state:
        with pytest.raises(ValueError, match='2'):
            memory(x, memory.initial_state(3))
    with pytest.raises(ValueError, match='n_hidden=8.*16'):
        type(memory)(5, 16).load_state_dict(memory.state_dict())


def test_agents_are_found():
    assert {'PPO', 'PPOConfig'} <= set(catalog('agents'))


@pytest.mark.parametrize('room', ROOMS)
def test_every_room_has_a_catalogue(room):
    assert all(isinstance(cls, type) and not name.startswith('_') for name, cls in catalog(room).items())


@pytest.mark.parametrize('room', ('encoders', 'memories', 'envs', 'widgets'))
def test_names_are_those_of_the_catalogue(room):
    "What `srlviz list` reads off the source is what the import gives"
    assert catalog_names(room) == list(catalog(room))


def test_the_guide_names_every_explorer():
    (row,) = re.findall(
        r'^\| figures, widgets \|.*$', (ROOT / 'docs/guides/organisation.md').read_text(encoding='utf-8'), re.M
    )
    assert set(re.findall(r'\b[A-Z]\w+', row)) == set(catalog('widgets'))
