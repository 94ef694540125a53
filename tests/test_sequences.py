"""Sequence encoders: padding has no effect, each part of the loss trains the network, and eight flights are learned."""

import pytest, torch

from srlviz.core.checks.encoder import SMALL
from srlviz.core.files import sample_path
from srlviz.core.protocols import tiny_recording
from srlviz.core.training import seeded
from srlviz.data.landing import read_flights
from srlviz.encoders.sequences.batches import WindowRows
from srlviz.encoders.sequences.encoder import SequenceEncoder
from srlviz.studies.methods import make_encoder, methods

METHODS = sorted(m for m, (cls, _) in methods().items() if issubclass(cls, SequenceEncoder))
FEW = dict(epochs=1, n_codes=8, batch_size=2, windows=1, device='cpu', progress=False)
LONG = dict(epochs=600, n_codes=32, batch_size=8, windows=4, lr=2e-3, progress=False)  # up to eight CPU minutes
FILM = dict(windows=1, shortest=35, longest=40)  # a window of film costs fifty times one of sensors
UNLIKE_LONG = {  # method -> its arguments, and the share of the untrained loss that it must fall below
    'context_conv1d': (dict(epochs=1000), 0.2),
    'dynamics': (dict(epochs=500, dropout=0), 0.2),
    'conv1d_ae': (dict(epochs=150), 0.75),  # the paper's twelve plain layers stop at .6
    'residual_conv1d_ae': (dict(lr=1e-3), 0.25),
    'mte': (dict(FILM, epochs=250, film='small', max_side=32, dropout=0, lr=1e-3), 0.33),
    'ts_regr_convlstm_t30': (dict(FILM, epochs=150, lr=1e-3), 0.85),
    'ts_regr_convlstm_lstm_t30': (dict(FILM, epochs=100), 0.6),
}
TINY = tiny_recording(lengths=(60, 55, 52, 58), size=SMALL)


def padded(batch, more: int):
    "The same windows with `more` rows of padding after them"
    return batch.map(lambda x: torch.cat([x, x.new_zeros(len(x), more, *x.shape[2:])], 1))


@pytest.fixture(scope='module', params=METHODS)
def fitted(request):
    encoder = make_encoder(request.param, quick=True, **FEW).fit(TINY)
    rows = WindowRows(TINY, encoder.learns_from, encoder.scale)
    return encoder, encoder.model_, rows


def terms(model, batch):
    with seeded(0):
        return model.terms(batch)


def test_each_part_of_the_loss_has_a_gradient(fitted):
    encoder, model, rows = fitted
    model.train()
    batch = rows.read([0, 1, 2], [3, 0, 5], [48, 45, 50])
    weights = [*model.net.parameters()]
    parts = terms(model, batch)
    assert parts
    for name, loss in parts.items():
        gradients = torch.autograd.grad(loss, weights, retain_graph=True, allow_unused=True)
        assert any(g is not None and bool(g.abs().max() > 0) for g in gradients), name
        assert all(g is None or bool(g.isfinite().all()) for g in gradients), name


def test_each_weight_has_a_gradient(fitted):
    encoder, model, rows = fitted
    model.train()
    with seeded(0):
        model.zero_grad()
        model(rows.read([0, 1, 2], [3, 0, 5], [48, 45, 50])).backward()
    unused = [name for name, w in model.named_parameters() if w.grad is None or not w.grad.abs().max() > 0]
    unused = [name for name in unused if not ('.scores.' in name and name.endswith('.bias'))]  # softmax: no effect
    model.zero_grad()
    assert not unused, unused


def test_padding_changes_no_code(fitted):
    encoder, model, rows = fitted
    model.eval()
    single = rows.read([0], [4], [37])
    several = rows.read([0, 1, 2], [4, 0, 1], [37, 52, 40])
    for pool in ('mean', 'max', 'std') if encoder.pool != 'final' else ('final',):
        with torch.no_grad():
            a, b = (model.net.codes(batch, pool)[0] for batch in (single, several))
        assert (a - b).abs().max() <= 1e-4 * a.abs().max().clamp(min=1e-3), pool


def test_padding_changes_no_loss(fitted):
    encoder, model, rows = fitted
    model.eval()
    batch = rows.read([0, 1, 2], [4, 0, 1], [50, 52, 44])
    with torch.no_grad():
        for name, loss in terms(model, batch).items():
            torch.testing.assert_close(terms(model, padded(batch, 13))[name], loss, rtol=1e-4, atol=1e-6, msg=name)


@pytest.mark.slow
@pytest.mark.parametrize('method', METHODS)
def test_eight_flights_can_be_learned(method):
    "The loss on the same windows of eight flights falls far below that of the untrained model"
    flights = read_flights(sample_path('landings'))[:8]
    flights = flights.replace(split=[''] * 8)
    arguments, share = UNLIKE_LONG.get(method, ({}, 0.2))
    encoder = make_encoder(method, **LONG | arguments).fit(flights)
    validate = encoder.held_out_loss(flights)
    model = encoder.model_.eval()
    with torch.no_grad():
        after = validate(model)
        with seeded(encoder.seed):
            encoder.rebuild()
        before = validate(encoder.model_.to(next(model.parameters()).device).eval())
    print(f'{method}: {before:.3f} -> {after:.3f}, a share of {after / before:.3f}')
    assert after < share * before
