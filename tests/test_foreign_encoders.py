"""Third-party encoders: forged files of saved encoders, and encoders of a script in worker processes.

Every fault in a file raises a ValueError that names it; nothing is run or allocated.
"""

import json, math, os, struct, subprocess, sys, time, tracemalloc

import numpy as np
import pytest, torch
from safetensors.torch import load_file, safe_open, save_file
from torch import nn

import srlviz
from srlviz.core import saving
from srlviz.core.protocols import catalog, tiny_recording
from srlviz.core.recordings import Recording
from srlviz.core.saving import load_encoder, save_encoder
from srlviz.encoders.baselines import Majority, RandomCNN
from srlviz.encoders.custom import as_encoder
from srlviz.encoders.frames.contrast import STDIM
from srlviz.encoders.frames.cpc import CPC
from srlviz.encoders.frames.supervised import Supervised
from srlviz.memories.recurrent import LSTM

SMALL = dict(epochs=1, batch_size=4, shrink=2, n_codes=4, device='cpu', progress=False)


@pytest.fixture(scope='module')
def fitted():
    tiny = tiny_recording()
    encoders = STDIM(**SMALL), CPC(sequence_length=3, **SMALL), Supervised(shared=False, **SMALL), RandomCNN(shrink=2)
    return {type(e).__name__: e.fit(tiny) for e in encoders}


def forge(encoder, path, tensors=None, **changes):
    "Save an encoder, then write what an attacker can: other fields and tensors, with a correct checksum"
    encoder.save(path)
    metadata, weights = saving._read(path)
    metadata = metadata | changes
    weights = weights | (tensors or {})
    weights = {k: x for k, x in weights.items() if x is not None}
    metadata['checksum'] = saving._checksum(metadata, weights)
    save_file(weights, path, metadata={'srlviz': json.dumps(metadata)})


def assert_refused(pattern, path, **options):
    "Loading raises a ValueError that names the file and matches the pattern, at once and without allocating memory"
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(ValueError, match=pattern or None) as e:
            load_encoder(path, **options)
        assert str(path) in str(e.value)
        assert time.process_time() - start < 5 and tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def packed_arguments(encoder, **changes):
    return saving.pack(saving.saved_arguments(encoder) | changes, 'arguments', {})['dict']


FORGED = {
    'a class of another package': ('STDIM', {'class': 'os.system'}, "'os.system'"),
    'a class that is no encoder': ('STDIM', {'class': 'FrameCNN'}, "'FrameCNN'"),
    'another class': ('STDIM', {'class': 'VAE'}, 'VAE'),
    'another kind': ('STDIM', {'kind': 'agent'}, "'kind'.*'agent'"),
    'a method': ('STDIM', {'learned': {'fit': 1}}, "'fit'"),
    'a special attribute': ('STDIM', {'learned': {'__class__': 1}}, "'__class__'"),
    'arguments that are a list': ('STDIM', {'arguments': []}, "'arguments'"),
    'an unknown kind of value': ('STDIM', {'learned': {'shape_': {'eval': '1'}}}, 'eval'),
    'no shape': ('STDIM', {'learned': {}}, 'shape_'),
    'a shape of strings': ('STDIM', {'learned': {'shape_': ['a', 'b', 'c']}}, 'STDIM|TypeError|ValueError'),
    'a huge frame': ('STDIM', {'learned': {'shape_': [10**6, 10**6, 1]}}, "'model_.net"),
    'no networks': ('STDIM', {'networks': []}, "'model_"),
    'other codes': ('STDIM', {'n_codes': 5}, 'n_codes=5'),
    'an unknown level': ('STDIM', {'level': 'flight'}, "'level'.*'flight'"),
}


def test_nan_in_learned_attributes_is_refused(tmp_path):
    encoder = Majority(n_codes=3)
    path = tmp_path / 'e.safetensors'
    forge(encoder, path)
    load_encoder(path)
    mean = {'mean_': {'array': 'mean_'}}
    forge(encoder, path, {'mean_': torch.tensor([1.0, float('nan')])}, learned=mean)
    assert_refused("'mean_'", path)
    encoder.scale_ = float('nan')
    with pytest.raises(ValueError, match='scale_.*NaN'):  # before the file is written
        encoder.save(path)
    del encoder.scale_
    forge(encoder, path, learned={'scale_': {'float': 'nan'}})
    assert_refused("'scale_'", path)


HOSTILE = [
    'a class of another package',
    'a class that is no encoder',
    'another class',
    'a method',
    'a special attribute',
    'an unknown kind of value',
    'a huge frame',
]


def check_a_forged_header_is_refused(name, fitted, tmp_path):
    kind, changes, pattern = FORGED[name]
    forge(fitted[kind], tmp_path / 'e.safetensors', **changes)
    assert_refused(pattern, tmp_path / 'e.safetensors')


@pytest.mark.parametrize('name', HOSTILE)
def test_a_header_that_runs_code_or_takes_memory_is_refused(name, fitted, tmp_path):
    check_a_forged_header_is_refused(name, fitted, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED if k not in HOSTILE])
@pytest.mark.variants
def test_a_forged_header_is_refused(name, fitted, tmp_path):
    check_a_forged_header_is_refused(name, fitted, tmp_path)


BAD_ARGUMENTS = {
    'n_codes': ('STDIM', dict(n_codes=10**9)),
    'shrink': ('STDIM', dict(shrink=0)),
    'n_hidden': ('CPC', dict(n_hidden=10**8)),
    'many networks': ('Supervised', dict(n_codes=10**8)),
    'a string': ('RandomCNN', dict(n_codes='many')),
    'device': ('RandomCNN', dict(device='mars')),
    'precision': ('RandomCNN', dict(precision='float8')),
}


HUGE = ['n_codes', 'n_hidden', 'many networks']


def check_arguments_that_do_not_match_the_weights(name, fitted, tmp_path):
    kind, changes = BAD_ARGUMENTS[name]
    path = tmp_path / 'e.safetensors'
    forge(fitted[kind], path, arguments=packed_arguments(fitted[kind], **changes))
    assert_refused('', path)


@pytest.mark.parametrize('name', HUGE)
def test_arguments_that_take_gigabytes_are_refused(name, fitted, tmp_path):
    check_arguments_that_do_not_match_the_weights(name, fitted, tmp_path)


@pytest.mark.parametrize('name', [k for k in BAD_ARGUMENTS if k not in HUGE])
@pytest.mark.variants
def test_arguments_must_match_the_weights(name, fitted, tmp_path):
    check_arguments_that_do_not_match_the_weights(name, fitted, tmp_path)


def test_weights_must_match_the_class(fitted, tmp_path):
    path, name = tmp_path / 'e.safetensors', 'net_.linear.weight'
    encoder = fitted['RandomCNN']
    weight = dict(encoder.net_.state_dict())['linear.weight']
    for forged, pattern in (
        (None, f"'{name}'"),
        (torch.zeros(2, 2), f"'{name}'.*2, 2"),
        (weight.double(), f"'{name}'.*float64"),
        (torch.full_like(weight, math.nan), f"'{name}'.*NaN"),
    ):
        forge(encoder, path, {name: forged})
        assert_refused(pattern, path)
    forge(encoder, path, {'net_.more': torch.zeros(2)})
    assert_refused("'net_.more'.*RandomCNN", path)


def test_a_long_sequence_builds_no_matrices(fitted, tmp_path):
    "The file lists the offsets; they are not computed from the arguments, here for a sequence of a billion"
    encoder = fitted['CPC']
    path = tmp_path / 'e.safetensors'
    forge(encoder, path, arguments=packed_arguments(encoder, sequence_length=10**9))
    start = time.process_time()
    loaded = load_encoder(path)
    assert time.process_time() - start < 5 and loaded.offsets_ == encoder.offsets_


def test_a_file_cannot_set_where_fit_writes(fitted, tmp_path):
    encoder = STDIM(checkpoint=tmp_path / 'mine.pt', **SMALL).fit(tiny_recording())
    path = tmp_path / 'e.safetensors'
    encoder.save(path)
    assert b'mine.pt' not in path.read_bytes() and STDIM.load(path).checkpoint is None
    forge(encoder, path, arguments=packed_arguments(encoder) | {'checkpoint': {'path': str(tmp_path / 'forged.pt')}})
    assert_refused("STDIM.*'checkpoint'", path)


def test_every_changed_byte_is_detected(tmp_path):
    path = tmp_path / 'e.safetensors'
    Majority(n_codes=3).save(path)
    original = path.read_bytes()
    for i in range(len(original)):
        for bit in (0, 3):
            changed = bytearray(original)
            changed[i] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(ValueError, match='e.safetensors'):
                load_encoder(path)
    for length in (0, 7, 8, 50, len(original) - 1):
        path.write_bytes(original[:length])
        assert_refused('', path)


def test_false_headers_are_refused(fitted, tmp_path):
    path = tmp_path / 'e.safetensors'
    for header, data in (
        (b'{}', b''),
        (b'[' * 100_000, b''),
        (json.dumps({'x': dict(dtype='F32', shape=[10**12], data_offsets=[0, 4])}).encode(), b'\0' * 4),
        (json.dumps({'__metadata__': {'srlviz': '[' * 50_000}}).encode(), b''),
        (json.dumps({'__metadata__': {'srlviz': 'null'}}).encode(), b''),
    ):
        path.write_bytes(struct.pack('<Q', len(header)) + header + data)
        assert_refused('', path)
    path.write_bytes(struct.pack('<Q', 2**60))
    assert_refused('', path)


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    assert_refused('', tmp_path / 'pipe')
    with pytest.raises(FileNotFoundError):
        load_encoder(tmp_path / 'none.safetensors')


def test_encoders_that_cannot_be_saved_are_refused(tmp_path):
    class WithObject(Majority):
        def fit(self, recording):
            self.thing_ = object()
            return self

    with pytest.raises(ValueError):
        WithObject().fit(None).save(tmp_path / 'e.safetensors')
    with pytest.raises(ValueError, match='STDIM'):
        STDIM().save(tmp_path / 'e.safetensors')
    assert not list(tmp_path.iterdir())  # no partial file is left


def test_a_file_is_replaced_as_a_whole(fitted, tmp_path):
    path = tmp_path / 'e.safetensors'
    Majority().save(path)
    save_encoder(fitted['STDIM'], path)
    assert type(load_encoder(path)) is STDIM and [p.name for p in tmp_path.iterdir()] == ['e.safetensors']


def test_safetensors_reads_a_saved_encoder(fitted, tmp_path):
    path = tmp_path / 'e.safetensors'
    fitted['STDIM'].save(path)
    weights = load_file(path)
    assert weights['model_.net.linear.weight'].shape[0] == 4
    with safe_open(path, framework='pt') as f:
        metadata = json.loads(f.metadata()['srlviz'])
    assert (metadata['class'], metadata['n_codes'], metadata['level']) == ('STDIM', 4, 'step')
    assert metadata['arguments']['parts'] == {'tuple': ['global-local', 'local-local']}


def test_a_loaded_encoder_can_be_fitted_again(fitted, tmp_path):
    "It then returns the codes of an encoder that was never saved"
    tiny = tiny_recording()
    path = tmp_path / 'e.safetensors'
    fitted['STDIM'].save(path)
    refitted = STDIM.load(path).fit(tiny)
    for a, b in zip(refitted.encode(tiny), STDIM(**SMALL).fit(tiny).encode(tiny), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_file_can_name_only_encoders_of_the_catalogue(fitted, tmp_path):
    path = tmp_path / 'e.safetensors'
    fitted['RandomCNN'].save(path)
    assert type(load_encoder(path)) is catalog('encoders')['RandomCNN']
    assert_refused('RandomCNN.*STDIM', path, kind=STDIM)


SCRIPT = """
import sys
import torch
from srlviz.encoders.custom import as_encoder
from srlviz.studies.papers.probed_games import probe_games

class Column:
    code_version = '1'
    def __init__(self, column=140): self.column = column
    def fit(self, recording): return self
    def encode(self, recording): return [e.obs['frame'][:, ::10, self.column, 0] for e in recording]

if __name__ == '__main__':
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.AvgPool2d(20), torch.nn.Flatten(), torch.nn.Linear(80, 8))
    methods = {'left': Column, 'right': Column(column=int(sys.argv[1])), 'net': net}
    methods['local'] = as_encoder(lambda x: x.mean(3).flatten(1))
    results = probe_games(
        ['pong', 'breakout'],
        methods,
        out='out',
        encoder_frames=300,
        probe_frames=1200,
        probing=dict(epochs=2),
        progress=False,
        n_jobs=2,
        norms=['none'],
    )
    assert not len(results.failed), results.failed
    for game, info in results.about.items():
        for name, method in info['methods'].items():
            print(game, name, method['key'], method['seconds'])
"""


@pytest.mark.slow
def test_encoders_of_a_script_run_in_processes_and_are_cached(tmp_path):
    """A class, an instance and a network of a script, probed in processes that never imported it, two games at a time.

    Encoders that did not change are not computed again; one with another argument is, and one without a version always.
    """
    (tmp_path / 'script.py').write_text(SCRIPT)

    def run(column):
        process = subprocess.run([sys.executable, 'script.py', column], cwd=tmp_path, capture_output=True, text=True)
        assert process.returncode == 0, process.stdout + process.stderr
        return {
            tuple(line.split()[:2]): line.split()[2:]
            for line in process.stdout.splitlines()
            if line[:4] in ('pong', 'brea')
        }

    def changed(a, b):
        return {m for _, m in first if all(a[g, m] != b[g, m] for g in ('pong', 'breakout'))}

    first, repeated, other = run('20'), run('20'), run('30')
    assert len(first) == 8
    assert changed(first, repeated) == {'local'}  # the others report the seconds of the first run
    assert changed(first, other) == {'local', 'right'}


class Mixing(nn.Module):
    "A linear layer, and one that reads the rows of a batch together, in evaluation mode too"

    def __init__(self, kind):
        super().__init__()
        torch.manual_seed(0)
        self.kind, self.first, self.lstm = kind, nn.Linear(4, 8), nn.LSTM(8, 8)
        self.norm, self.attention = nn.BatchNorm1d(8), nn.MultiheadAttention(8, 2)

    def forward(self, x):
        x = self.first(x)
        if self.kind == 'lstm':
            return self.lstm(x)[0]
        if self.kind == 'norm':
            return self.norm.train()(x)
        return x + self.attention(x, x, x)[0]


@pytest.fixture(scope='module')
def rows():
    rng = np.random.default_rng(0)
    values, factor = rng.normal(size=(600, 4)).astype(np.float32), rng.integers(0, 3, 600)
    recording = Recording.from_arrays(values, episode=np.arange(600) // 60, factors=dict(y=factor))
    return recording.with_split(probe=0.5, valid=0.2, test=0.3)


@pytest.mark.parametrize('kind', ['lstm', 'norm', 'attention'])
def test_networks_that_mix_the_rows_of_a_batch_are_refused_and_unchanged(kind, rows):
    "By as_encoder, one of its layers, and probe; the layer before is encoded"
    net, once = Mixing(kind), Mixing(kind)
    with torch.no_grad():
        once(torch.from_numpy(np.array(rows[0].obs['vector'])))
    with pytest.raises(ValueError, match='Mixing.*Memory'):
        as_encoder(net).encode(rows)
    for name, value in net.state_dict().items():
        assert value.equal(once.state_dict()[name]), name  # as after the first batch
    with pytest.raises(ValueError, match='Mixing.*Memory'):
        srlviz.probe(net, rows, progress=False, baselines=())
    with pytest.raises(ValueError, match='Mixing.*Memory'):
        as_encoder(net, layer=kind).encode(rows)
    assert as_encoder(net, layer='first').encode(rows)[0].shape == (60, 8)


def test_a_trained_lstm_is_probed_as_a_memory(rows):
    "Its codes are the states of torch's LSTM, each episode from its start, whatever the batch"
    torch.manual_seed(0)
    lstm, memory = nn.LSTM(4, 8), LSTM(4, 8)
    memory.layer.load_state_dict(lstm.state_dict())
    codes = as_encoder(memory).encode(rows)
    for i in 0, 9:
        with torch.no_grad():
            outputs, (h, c) = lstm(torch.from_numpy(np.array(rows[i].obs['vector'])))
        np.testing.assert_allclose(codes[i][:, :8], outputs, atol=1e-5)
        np.testing.assert_allclose(codes[i][-1, 8:], c[0], atol=1e-5)
    assert len(srlviz.probe(memory, rows, progress=False, baselines=()).scores)


def test_random_codes_are_reported_and_constant_ones_accepted(rows):
    noisy = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    noisy.register_forward_hook(lambda module, x, y: nn.functional.dropout(y))
    with pytest.warns(UserWarning, match='random numbers'):
        as_encoder(noisy).encode(rows)
    as_encoder(lambda x: x * 0).encode(rows)
