"""Real training at the budget of `make demo`: what is learned is worth more than what is frequent (make slow)."""
import pytest

from srlviz.core.scores import load_scores
from srlviz.studies.run import run_study

pytestmark = pytest.mark.slow


@pytest.mark.parametrize('game', ['pong', 'bowling'])
def test_stdim_beats_the_majority(game, tmp_path):
    run_study('atari_probe', dict(game=game, encoder_frames=8000, probe_frames=12000, epochs=6, probe_epochs=60), out=tmp_path, progress=False)
    scores = load_scores(tmp_path/'scores.csv').query("source == 'srlviz' and metric == 'f1' and group == 'all'").set_index('method')['value']
    print(game, scores.round(3).to_dict())
    assert scores['st_dim'] > scores['majority'] + .15
    assert scores['random_cnn'] >= scores['majority'] - .02
    assert scores['random_cnn · standardized'] > scores['random_cnn'] + .15      # conditioning decides what a probe finds
