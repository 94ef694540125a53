"""Tests of writing to a full disk.

The error names the file, the previous file stays as it was, and no partial files remain.
"""

import errno

import numpy as np
import pytest, torch

from srlviz.core.files import write_json
from srlviz.core.recordings import Episode, Recording
from srlviz.core.saving import save_encoder
from srlviz.core.training import save_weights
from srlviz.encoders.baselines import RandomCNN

resource = pytest.importorskip('resource')
FRAMES = Recording([Episode({'frame': np.zeros((2, 80, 80, 1), np.uint8)})])
NOISE = Recording([Episode({'vector': np.random.default_rng(0).normal(size=(1000, 9)).astype(np.float32)})])
WRITERS = {
    'encoder.safetensors': lambda path: save_encoder(RandomCNN(n_codes=2, device='cpu').fit(FRAMES), path),
    'checkpoint.pt': lambda path: save_weights(path, dict(a=torch.zeros(10_000)), {}),
    'recording.npz': NOISE.save,
    'recording': NOISE.save,
    'notes.json': lambda path: write_json(path, ['x' * 10_000]),
}


@pytest.mark.parametrize('name', WRITERS)
def test_error_names_the_file_and_the_previous_file_stays(name, tmp_path):
    "A limit on the size of files simulates a full disk"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if '.' in name:
        (tmp_path / name).write_text('previous')
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError) as e:
            WRITERS[name](tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert e.value.errno == errno.EFBIG and str(tmp_path / name) in str(e.value)
    assert '.' not in name or (tmp_path / name).read_text() == 'previous'
    assert [p.name for p in tmp_path.iterdir()] == [name][: '.' in name], 'partial files remain'
