"""Test that a text with half of a character, which no reader takes, is refused in one sentence when it is written."""

import numpy as np
import pandas as pd
import pytest

from srlviz.core.files import atomic_path
from srlviz.core.recordings import Factor, Recording
from srlviz.evaluate.questions.regression import Regression

HALF = 'a\ud800b'


def recording(**parts):
    steps = dict(
        obs={'vector': np.zeros((8, 2), np.float32)}, episode=np.repeat([0, 1], 4), factors={'y': np.arange(8)}
    )
    return Recording.from_arrays(**steps | parts)


@pytest.mark.parametrize('place', ['set.npz', 'set'])
@pytest.mark.parametrize(
    'parts',
    [
        dict(name=HALF),
        dict(obs={HALF: np.zeros((8, 2), np.float32)}),
        dict(factors={HALF: np.arange(8)}),
        dict(factors={'y': np.array([HALF, 'b'] * 4)}),
        dict(episode=np.repeat([HALF, 'b'], 4)),
        dict(about=[Factor('y', 'group', 'continuous', HALF)]),
        dict(meta={'made': {HALF: 1}}),
    ],
    ids=['name', 'modality', 'factor', 'word', 'episode', 'unit', 'meta'],
)
def test_a_recording_with_half_of_a_character_is_not_saved(parts, place, tmp_path):
    with pytest.raises(ValueError, match='has half of a character'):
        recording(**parts).save(tmp_path / place)
    assert not [*tmp_path.iterdir()]


def test_an_answer_with_half_of_a_character_is_not_saved(tmp_path):
    x = np.random.default_rng(0).normal(size=(12, 2)).astype(np.float32)
    parts = dict(obs={'vector': x}, episode=np.repeat([0, 1, 2], 4), factors={'y': x[:, 0]})
    rec = recording(**parts, split=['probe', 'valid', 'test'])
    answer = Regression().ask([e.obs['vector'] for e in rec], rec, progress=False)
    answer.about['encoder'] = HALF
    with pytest.raises(ValueError, match="text 'a.ud800b' in 'about.encoder' of its JSON has half of a character"):
        answer.save(tmp_path / 'answer.npz')
    assert not [*tmp_path.iterdir()]


def test_a_table_with_half_of_a_character_is_not_written(tmp_path):
    with pytest.raises(ValueError, match="a text .*a.ud800b.* has half of a character"):
        with atomic_path(tmp_path / 'table.csv') as path:
            pd.DataFrame({'x': [HALF]}).to_csv(path)
    assert not [*tmp_path.iterdir()]
