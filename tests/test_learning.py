"""ST-DIM after real training: compared with baselines and with the authors' trainer (make slow)."""

import numpy as np, pytest

from srlviz.core.recordings import Episode, Recording, align
from srlviz.core.scores import with_labels
from srlviz.encoders.frames.contrast import STDIM
from srlviz.evaluate.probe import linear_probe
from srlviz.evaluate.reference import plain_codes, train_plainly
from srlviz.studies.papers.probed_games import probe_games
from srlviz.studies.papers.probing import record_game

pytestmark = pytest.mark.slow


@pytest.mark.parametrize('game, epochs', [('pong', 5), ('bowling', 5)])
def test_stdim_beats_the_majority(game, epochs, tmp_path):
    "8,000 frames for the encoder, 24,000 for the probes, which are those of the paper: about 6 CPU minutes per game"
    result = probe_games(
        [game],
        ['majority', 'random_cnn', 'st_dim'],
        out=tmp_path,
        encoder_frames=8000,
        probe_frames=24_000,
        encoder=dict(epochs=epochs),
        probing=dict(epochs=100),
        progress=False,
    )
    scores = with_labels(result.scores).query("metric == 'f1' and group == 'all'").set_index('label')['value']
    seconds = {method: info['cpu_seconds'] for method, info in result.about[game]['methods'].items()}
    print(game, scores.round(3).to_dict(), seconds)
    assert scores['st_dim'] >= scores['majority'] + 0.25
    assert scores['random_cnn'] >= scores['majority'] - 0.02
    assert scores['random_cnn · standardized'] > scores['random_cnn'] + 0.15  # probes depend on the scale of the codes


def halved(recording):
    "The court of Pong at half resolution, 80 x 80 pixels"
    episodes = [Episode({'frame': np.asarray(e.obs['frame'])[:, 34:194:2, ::2]}, factors=e.factors) for e in recording]
    return Recording(episodes, name='court', split=list(recording.split))


def test_stdim_learns_like_the_authors_trainer(tmp_path):
    "Losses of each epoch, and F1 of our probe; about 70 CPU seconds"
    fit, probed = (halved(r) for r in record_game('pong', 6000, 9000, out=tmp_path, progress=False))
    epochs = 4
    ours = STDIM(epochs=epochs, precision='float32', progress=False).fit(fit['fit'])
    reference, losses = train_plainly(fit['fit'], epochs)
    print('losses', ours.history_['loss'].round(3).tolist(), np.round(losses, 3).tolist())
    f1 = {}
    for norm in ('none', 'standardize'):
        for name, codes in ('ours', ours.encode(probed, progress=False)), ('reference', plain_codes(reference, probed)):
            result = linear_probe(*align(codes, probed), norm=norm, epochs=40, progress=False)
            f1[name, norm] = result.by_variable.set_index('variable')['f1']
            print(name, norm, f1[name, norm].round(3).to_dict(), round(f1[name, norm].mean(), 4))
    np.testing.assert_allclose(ours.history_['loss'], losses, rtol=0.01)
    for norm in ('none', 'standardize'):
        assert abs(f1['ours', norm].mean() - f1['reference', norm].mean()) < 0.02, norm
