"""Whatever the catalogue holds keeps its contract: a new encoder is tested as soon as it has a notebook."""
import pytest

from srlviz.core.protocols import catalog, check_encoder
from srlviz.studies.probing import encoder_class, make_encoder, method_name

SMALL = dict(epochs=1, batch_size=8, sequence_length=3, progress=False)                  # what keeps a trained encoder within seconds, where it takes it


@pytest.mark.parametrize('method', sorted(map(method_name, catalog('encoders').values())))
def test_encoder(method): check_encoder(make_encoder(method, **SMALL))


def test_methods_are_named_as_in_the_papers():
    assert {'majority', 'random_cnn', 'st_dim'} <= {method_name(c) for c in catalog('encoders').values()}
    for cls in catalog('encoders').values(): assert encoder_class(method_name(cls)) is encoder_class(cls.__name__) is cls


def test_a_room_without_notebooks_is_empty(): assert catalog('memories') == {}


def test_agents_are_found(): assert {'PPO', 'PPOConfig'} <= set(catalog('agents'))
