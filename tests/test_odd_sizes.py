"""Test that pictures without pixels and codes near the largest float32 are refused in one sentence."""

import zipfile

import numpy as np
import pytest

import srlviz
from srlviz.core.recordings import Episode, Recording
from srlviz.evaluate.questions.linear_probe import LinearProbe


def test_pictures_without_pixels_are_refused():
    with pytest.raises(ValueError, match=r"obs\['frame'\] has pictures without pixels, of the shape \(0, 8, 3\)"):
        Episode({'frame': np.zeros((4, 0, 8, 3), np.uint8)})


def test_a_recording_of_pictures_without_pixels_is_refused_when_it_is_read(tmp_path):
    path = tmp_path / 'set.npz'
    Recording.from_arrays({'vector': np.zeros((4, 2), np.float32)}, factors={'y': np.arange(4)}).save(path)
    with zipfile.ZipFile(path, 'a') as z, z.open('obs.frame.npy', 'w') as f:
        np.lib.format.write_array(f, np.zeros((4, 0, 0, 3), np.uint8))
    with pytest.raises(ValueError, match='set.npz.*pictures without pixels'):
        srlviz.load(path)


def test_codes_whose_squares_are_no_float32_are_refused_by_a_probe():
    x = np.random.default_rng(0).normal(size=(30, 2)).astype(np.float32)
    parts = dict(episode=np.repeat([0, 1, 2], 10), factors={'y': np.arange(30) % 2}, split=['probe', 'valid', 'test'])
    recording = Recording.from_arrays({'vector': x}, **parts)
    codes = [np.clip(e.obs['vector'] * 1e38, -3e38, 3e38).astype(np.float32) for e in recording]
    with pytest.raises(ValueError, match="codes of split 'probe' reach .*e\\+38.*rescale them, or use norm="):
        LinearProbe(epochs=1).ask(codes, recording, progress=False)
    assert LinearProbe(epochs=1, norm='standardize').ask(codes, recording, progress=False) is not None
