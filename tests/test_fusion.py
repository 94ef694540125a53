"""Encoders of film and sensors together: MTE and the dynamics model, on the shipped flights."""

import numpy as np, pytest, torch

from srlviz.core.files import sample_path
from srlviz.core.recordings import Episode, Recording
from srlviz.core.views.windows import windows
from srlviz.data.landing.flights import read_flights
from srlviz.encoders.sequences.dynamics import Dynamics
from srlviz.encoders.sequences.mte import MTE, correlations

SMALL = dict(n_codes=64, n_hidden=256, film='small', max_side=24, dropout=0.0, progress=False)


@pytest.fixture(scope='module')
def eight():
    "A window of each of 8 flights, in memory, every third pixel: 32 x 32"
    short = windows(read_flights(sample_path('landings'))[:8], 30, 10_000)
    episodes = [Episode({'frame': e.obs['frame'][:, ::3, ::3], 'sensors': np.asarray(e.obs['sensors'])}) for e in short]
    return Recording(episodes, 'eight', meta={'columns': short.meta['columns']})


def terms(encoder, recording, model):
    "The terms of the loss of all windows at once"
    _, batch = next(encoder.batches(recording, encoder.learns_from, False))
    with torch.no_grad():
        return {k: v.item() for k, v in model.eval().terms(batch).items()}


CASES = [
    (MTE, {}),
    (MTE, dict(code='sensors', pool='final', drawn='last')),
    (Dynamics, dict(inputs='sensors')),
    (Dynamics, dict(inputs='frames+sensors')),
    (Dynamics, dict(inputs='frames')),
    (Dynamics, dict(inputs='frames', actions=())),
    (Dynamics, dict(stop_gradient=True)),
    (Dynamics, dict(residual=False)),
]


@pytest.mark.parametrize('cls, options', CASES)
def test_each_term_of_the_loss_has_a_gradient_in_the_encoder(eight, cls, options):
    encoder = cls(**SMALL | options | dict(epochs=1, n_codes=8, n_hidden=16)).fit(eight)
    _, batch = next(encoder.batches(eight, encoder.learns_from, False))
    net = encoder.model_.net
    for name, term in encoder.model_.terms(batch).items():
        gradients = torch.autograd.grad(term, [*net.parameters()], retain_graph=True, allow_unused=True)
        assert sum(g.abs().sum().item() for g in gradients if g is not None) > 0, name
        assert term.isfinite()


@pytest.mark.parametrize('cls, options', [(MTE, {}), (Dynamics, dict(inputs='frames+sensors'))])
def test_the_code_of_a_window_does_not_depend_on_longer_windows(eight, cls, options):
    "With the real ResNet-18, whose batch norm must not see padding"
    encoder = cls(**SMALL | options | dict(epochs=1, n_codes=8, n_hidden=16, film='resnet18', longest=25)).fit(eight)
    short = windows(eight, 5, 100)[:1]
    mixed = Recording([short[0], eight[0]], 'mixed', meta=eight.meta)
    np.testing.assert_allclose(encoder.encode(mixed)[0], encoder.encode(short)[0], atol=1e-5)


def test_the_code_of_the_released_mte_is_the_last_state_of_the_sensors(eight):
    encoder = MTE(**SMALL | dict(epochs=1, code='sensors', pool='final', drawn='last')).fit(eight)
    _, batch = next(encoder.batches(eight, encoder.learns_from, False))
    with torch.no_grad():
        states = encoder.model_.net.states(batch)
    np.testing.assert_allclose(np.stack(encoder.encode(eight)), states[0, :, -1], atol=1e-6)


def test_dynamics_uses_78_columns_of_flights_as_actions(eight):
    encoder = Dynamics(**SMALL | dict(epochs=1)).fit(eight)
    assert len(encoder.actions_) == 78 and encoder.model_.net.sensors[0].in_features == 1012
    other = [e.replace(obs={'sensors': e.obs['sensors'].copy()}) for e in eight]
    for e in other:
        e.obs['sensors'][:, encoder.actions_] += 1e3
    for a, b in zip(encoder.encode(eight), encoder.encode(eight.replace(episodes=other)), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_correlation_of_a_code_with_its_linear_function_is_one():
    x = torch.randn(5, 4, 3)
    mask = torch.ones(5, 4, dtype=torch.bool)
    assert torch.allclose(correlations(x, 2 * x + 5, mask), torch.ones(4, 3), atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize(
    'cls, options',
    [
        (MTE, {}),
        (MTE, dict(l_corr=0.01 / 64)),
        (Dynamics, dict(inputs='sensors')),
        (Dynamics, dict(inputs='frames+sensors')),
        (Dynamics, dict(inputs='frames')),
    ],
)
def test_eight_flights_are_learned(eight, cls, options):
    """The loss of 8 windows falls below a fifth of its first value, and so do the prediction errors.

    The errors of MTE are not compared with its default settings: the correlation dominates. About 20 CPU seconds each.
    """
    encoder = cls(**SMALL | options, epochs=200, lr=3e-3, batch_size=8, shortest=30, longest=30).fit(eight)
    after = terms(encoder, eight, encoder.model_)
    torch.manual_seed(0)
    before = terms(encoder, eight, encoder.blank_model())
    print(cls.__name__, options, {k: (round(before[k], 4), round(after[k], 4)) for k in after})
    assert sum(after.values()) < sum(before.values()) / 5
    error_terms = [k for k in after if k.endswith(('sensors', 'frames'))]
    if options or cls is not MTE:
        assert sum(after[k] for k in error_terms) < sum(before[k] for k in error_terms) / 5
