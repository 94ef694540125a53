"""Real training: what is learned is worth more than what is frequent (make slow)."""

import pytest

from srlviz.core.scores import with_labels
from srlviz.studies.probing import probe_games

pytestmark = pytest.mark.slow


@pytest.mark.parametrize('game, epochs', [('pong', 5), ('bowling', 5)])
def test_stdim_beats_the_majority(game, epochs, tmp_path):
    "8,000 frames to learn from, 24,000 to be probed on, probes as the paper's: some 6 CPU-minutes a game"
    found = probe_games(
        [game],
        ['majority', 'random_cnn', 'st_dim'],
        out=tmp_path,
        encoder_frames=8000,
        probe_frames=24_000,
        encoder=dict(epochs=epochs),
        probing=dict(epochs=100),
        progress=False,
    )
    scores = with_labels(found.scores).query("metric == 'f1' and group == 'all'").set_index('label')['value']
    print(game, scores.round(3).to_dict(), {m: a['cpu_seconds'] for m, a in found.about[game]['methods'].items()})
    assert scores['st_dim'] >= scores['majority'] + 0.25
    assert scores['random_cnn'] >= scores['majority'] - 0.02
    assert scores['random_cnn · standardized'] > scores['random_cnn'] + 0.15  # conditioning decides what a probe finds
