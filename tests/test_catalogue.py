"""Contract of every class in the catalogue: a new encoder is tested as soon as it has a notebook."""

import ast
import re
from copy import deepcopy
from pathlib import Path

import pytest, torch

from srlviz.core.checks.encoder import SMALL as TINY
from srlviz.core.names import (
    _METHOD,
    ROOMS,
    Look,
    _source_of,
    catalog_names,
    class_attributes,
    first_sentence,
    look_of,
)
from srlviz.core.protocols import catalog, check_encoder, check_memory, tiny_recording
from srlviz.memories.memory import leaves
from srlviz.studies.methods import find_method, make_encoder, method_name

ROOT = Path(__file__).parents[1]
# parameters with which encoders train within seconds; each takes those that it has
SMALL = dict(epochs=1, batch_size=8, sequence_length=3, progress=False)


@pytest.mark.parametrize('method', sorted(map(method_name, catalog('encoders').values())))
def test_encoders_satisfy_their_contract(method):
    is_sequence_encoder = '.sequences.' in find_method(method).cls.__module__
    is_frame_encoder = method in ('frame_autoencoder', 'frame_pca')
    if is_sequence_encoder:
        recording = tiny_recording(lengths=(60, 55, 52, 58), size=TINY)  # horizon of 30 rows, small pictures
    elif is_frame_encoder:
        recording = tiny_recording(size=TINY)
    else:
        recording = tiny_recording()
    check_encoder(make_encoder(method, quick=is_sequence_encoder or is_frame_encoder, **SMALL), recording)


def test_methods_are_named_as_in_the_papers():
    assert {'majority', 'random_cnn', 'st_dim'} <= {method_name(c) for c in catalog('encoders').values()}
    for cls in catalog('encoders').values():
        assert find_method(method_name(cls)).cls is find_method(cls.__name__).cls is cls


MEMORIES = catalog('memories')


@pytest.fixture(params=MEMORIES)
def memory(request):
    torch.manual_seed(0)
    return MEMORIES[request.param](5, 8)


def test_memories_satisfy_their_contract(memory):
    check_memory(memory)
    check_memory(memory, steps=70, batch=2)  # longer than two chunks


def test_memories_are_finite_over_4096_steps(memory):
    "Outputs and states of 1 step and of 4096 steps, with resets, are finite."
    for T in 1, 4096:
        if T > 1 and type(memory).__name__ == 'DNC':
            continue  # takes half a minute: tested in a slow cell of its notebook
        x, starts = torch.randn(2, T, 5), torch.rand(2, T) < 0.001
        with torch.no_grad():
            y, state = memory(x, memory.initial_state(2), starts)
        assert y.shape == (2, T, memory.n_out)
        assert bool(y.isfinite().all()) and all(bool(s.isfinite().all()) for s in leaves(state))


def test_memories_in_bfloat16_are_close_to_float32(memory):
    "The difference is a few steps of bfloat16."
    half = deepcopy(memory).to(torch.bfloat16)
    x, starts = torch.randn(3, 20, 5), torch.rand(3, 20) < 0.2
    with torch.no_grad():
        y, _ = memory(x, memory.initial_state(3), starts)
        y_half, state = half(x.to(torch.bfloat16), half.initial_state(3), starts)
    assert y_half.dtype == torch.bfloat16 and all(s.isfinite().all() for s in leaves(state))
    assert (y_half.float() - y).abs().max() <= 0.1 * y.abs().max()


@pytest.mark.parametrize('name', MEMORIES)
def test_memories_in_bfloat16_do_not_drift(name):
    "After hundreds of steps, the error relative to float32 with equal weights is as small as at the beginning."
    torch.manual_seed(1)
    memory = MEMORIES[name](5, 32)
    half = deepcopy(memory).to(torch.bfloat16).eval()
    exact = deepcopy(memory).eval()
    weights = half.state_dict()
    exact.load_state_dict({k: v.float() if v.is_floating_point() else v for k, v in weights.items()})
    steps = 120 if name == 'DNC' else 800
    x = torch.randn(4, steps, 5).bfloat16()

    def act(model, x):
        "Outputs of a memory that gets two steps at a time"
        state, outputs = model.initial_state(4), []
        for start in range(0, steps, 2):
            y, state = model(x[:, start : start + 2], state)
            outputs.append(y.float())
        return torch.cat(outputs, 1)

    with torch.no_grad():
        expected = act(exact, x.float())
        error = (act(half, x) - expected)[:, -50:].square().mean().sqrt()
    assert error <= 0.03 * expected.std()


def test_memories_refuse_invalid_inputs(memory):
    name, x, state = type(memory).__name__, torch.randn(2, 3, 5), memory.initial_state(2)
    for invalid in x[..., :4], x[:, :0], x[0], x.double(), x.long(), torch.full_like(x, float('nan')):
        pytest.raises(ValueError, memory, invalid, state)
    for starts in torch.zeros(2, 2, dtype=torch.bool), torch.zeros(2, 3), torch.zeros(3, dtype=torch.bool):
        with pytest.raises(ValueError, match=f'{name} takes starts'):
            memory(x, state, starts)
    if memory.n_state:
        with pytest.raises(ValueError, match='2'):
            memory(x, memory.initial_state(3))
    with pytest.raises(ValueError, match='n_hidden=8.*16'):
        type(memory)(5, 16).load_state_dict(memory.state_dict())


def test_agents_are_in_the_catalogue():
    assert {'PPO', 'PPOConfig'} <= set(catalog('agents'))


@pytest.mark.parametrize('room', ROOMS)
def test_every_room_has_a_catalogue(room):
    assert all(isinstance(cls, type) and not name.startswith('_') for name, cls in catalog(room).items())


@pytest.mark.parametrize('room', ('encoders', 'memories', 'envs', 'widgets'))
def test_listed_names_are_those_of_the_catalogue(room):
    "The names that `srlviz list` reads from the source are those that the import finds."
    assert catalog_names(room) == list(catalog(room))


@pytest.mark.parametrize('room', (*ROOMS, 'questions'))
def test_classes_found_by_their_indentation_are_those_of_the_parsed_source(room):
    folder = ROOT / 'srlviz' / ('evaluate/questions' if room == 'questions' else room)
    parsed = {}
    for path in sorted(folder.rglob('*.py')):
        for c in ast.parse(path.read_text(encoding='utf-8')).body:
            if isinstance(c, ast.ClassDef):
                bases = tuple(ast.unparse(base).rpartition('.')[2] for base in c.bases)
                methods = [f.name for f in c.body if isinstance(f, ast.FunctionDef)]
                parsed[c.name] = bases, methods, first_sentence(ast.get_docstring(c))
    found = {}
    for name, source in _source_of(room).classes.items():
        methods = [method for _, method in _METHOD.findall(source.body)]
        found[name] = source.bases, methods, first_sentence(source.docstring())
    assert found == parsed


def test_attributes_read_from_the_source_are_those_of_the_classes():
    classes = catalog('widgets')
    verbs = {name: ast.literal_eval(verb) for name, verb in class_attributes('widgets', 'verb').items()}
    assert verbs.pop('Explorer') == ''  # the base class, which is no view
    assert len(set(verbs.values())) == len(verbs)  # no two buttons of a bar are called alike
    assert verbs == {name: cls.verb for name, cls in classes.items() if cls.verb}
    for cls in catalog('encoders').values():
        for method, look in getattr(cls, 'looks', {}).items():
            assert look_of(method) == Look(*look)


def test_the_guide_names_every_explorer():
    (row,) = re.findall(
        r'^\| figures, widgets \|.*$', (ROOT / 'docs/guides/organisation.md').read_text(encoding='utf-8'), re.M
    )
    assert set(re.findall(r'\b[A-Z]\w+', row)) == set(catalog('widgets'))
