"""A disk that is full: the error names the file, whoever writes it, and what was there before is as it was."""

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
def test_the_file_is_named(name, tmp_path):
    "A limit on the size of files stands for a full disk"
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    if '.' in name:
        (tmp_path / name).write_text('before')
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.raises(OSError) as told:
            WRITERS[name](tmp_path / name)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert told.value.errno == errno.EFBIG and str(tmp_path / name) in str(told.value)
    assert '.' not in name or (tmp_path / name).read_text() == 'before'
    assert [p.name for p in tmp_path.iterdir()] == [name][: '.' in name], 'nothing is left behind'
