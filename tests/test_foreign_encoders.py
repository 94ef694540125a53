"""Encoders of others: those of a script, in processes of ours, and saved ones that somebody forged.

Every fault of a file is a ValueError that names it, and nothing runs or is allocated.
"""

import json, math, os, struct, subprocess, sys, time, tracemalloc

import numpy as np
import pytest, torch
from safetensors.torch import load_file, safe_open, save_file

from srlviz.core import saving
from srlviz.core.protocols import catalog, tiny_recording
from srlviz.core.saving import load_encoder, save_encoder
from srlviz.encoders.baselines import Majority, RandomCNN
from srlviz.encoders.frames.contrast import STDIM
from srlviz.encoders.frames.cpc import CPC
from srlviz.encoders.frames.supervised import Supervised

SMALL = dict(epochs=1, batch_size=4, shrink=2, n_codes=4, device='cpu', progress=False)


@pytest.fixture(scope='module')
def fitted():
    tiny = tiny_recording()
    encoders = STDIM(**SMALL), CPC(sequence_length=3, **SMALL), Supervised(shared=False, **SMALL), RandomCNN(shrink=2)
    return {type(e).__name__: e.fit(tiny) for e in encoders}


def forge(encoder, path, tensors=None, **change):
    "Save an encoder, then write what a stranger may: other fields and tensors, under a checksum that is right"
    encoder.save(path)
    about, have = saving._read(path)
    about, have = about | change, have | (tensors or {})
    have = {k: x for k, x in have.items() if x is not None}
    about['checksum'] = saving._checksum(about, have)
    save_file(have, path, metadata={'srlviz': json.dumps(about)})


def refused(says, path, **kw):
    "A ValueError that names the file and what is wrong in it (`says`), at once, and without asking for memory"
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(ValueError, match=says or None) as e:
            load_encoder(path, **kw)
        assert str(path) in str(e.value)
        assert time.process_time() - start < 5 and tracemalloc.get_traced_memory()[1] < 100e6
    finally:
        tracemalloc.stop()


def packed(encoder, **change):
    return saving.pack(saving.saved_arguments(encoder) | change, 'arguments', {})['dict']


FORGED = {
    'a class of another package': ('STDIM', {'class': 'os.system'}, "'os.system'"),
    'a class that is no encoder': ('STDIM', {'class': 'FrameCNN'}, "'FrameCNN'"),
    'another class': ('STDIM', {'class': 'VAE'}, 'VAE'),
    'another kind': ('STDIM', {'kind': 'agent'}, "'kind'.*'agent'"),
    'a method': ('STDIM', {'learned': {'fit': 1}}, "'fit'"),
    'what Python keeps': ('STDIM', {'learned': {'__class__': 1}}, "'__class__'"),
    'arguments that are a list': ('STDIM', {'arguments': []}, "'arguments'"),
    'a value that is nothing': ('STDIM', {'learned': {'shape_': {'eval': '1'}}}, 'eval'),
    'no shape': ('STDIM', {'learned': {}}, 'shape_'),
    'a shape of words': ('STDIM', {'learned': {'shape_': ['a', 'b', 'c']}}, 'STDIM|TypeError|ValueError'),
    'a frame without end': ('STDIM', {'learned': {'shape_': [10**6, 10**6, 1]}}, "'model_.net"),
    'no networks': ('STDIM', {'networks': []}, "'model_"),
    'other codes': ('STDIM', {'n_codes': 5}, 'n_codes=5'),
    'a level of its own': ('STDIM', {'level': 'flight'}, "'level'.*'flight'"),
}


def test_nan_among_what_was_learned_is_refused(tmp_path):
    forge(encoder := Majority(n_codes=3), path := tmp_path / 'e.safetensors')
    load_encoder(path)
    mean = {'mean_': {'array': 'mean_'}}
    forge(encoder, path, {'mean_': torch.tensor([1.0, float('nan')])}, learned=mean)
    refused("'mean_'", path)
    encoder.scale_ = float('nan')
    with pytest.raises(ValueError, match='scale_.*NaN'):  # while it can still be mended
        encoder.save(path)
    del encoder.scale_
    forge(encoder, path, learned={'scale_': {'float': 'nan'}})
    refused("'scale_'", path)


HOSTILE = [
    'a class of another package',
    'a class that is no encoder',
    'another class',
    'a method',
    'what Python keeps',
    'a value that is nothing',
    'a frame without end',
]


def check_a_forged_header_is_refused(name, fitted, tmp_path):
    kind, change, says = FORGED[name]
    forge(fitted[kind], tmp_path / 'e.safetensors', **change)
    refused(says, tmp_path / 'e.safetensors')


@pytest.mark.parametrize('name', HOSTILE)
def test_a_header_that_runs_code_or_takes_memory_is_refused(name, fitted, tmp_path):
    check_a_forged_header_is_refused(name, fitted, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED if k not in HOSTILE])
@pytest.mark.variants
def test_a_forged_header_is_refused(name, fitted, tmp_path):
    check_a_forged_header_is_refused(name, fitted, tmp_path)


LARGE = {
    'n_codes': ('STDIM', dict(n_codes=10**9)),
    'shrink': ('STDIM', dict(shrink=0)),
    'n_hidden': ('CPC', dict(n_hidden=10**8)),
    'many networks': ('Supervised', dict(n_codes=10**8)),
    'words': ('RandomCNN', dict(n_codes='many')),
    'device': ('RandomCNN', dict(device='mars')),
    'precision': ('RandomCNN', dict(precision='float8')),
}


WITHOUT_END = [
    'n_codes',
    'n_hidden',
    'many networks',
]


def check_arguments_are_held_against_the_weights(name, fitted, tmp_path):
    kind, change = LARGE[name]
    forge(fitted[kind], path := tmp_path / 'e.safetensors', arguments=packed(fitted[kind], **change))
    refused('', path)


@pytest.mark.parametrize('name', WITHOUT_END)
def test_arguments_that_take_gigabytes_are_refused(name, fitted, tmp_path):
    check_arguments_are_held_against_the_weights(name, fitted, tmp_path)


@pytest.mark.parametrize('name', [k for k in LARGE if k not in WITHOUT_END])
@pytest.mark.variants
def test_arguments_are_held_against_the_weights(name, fitted, tmp_path):
    check_arguments_are_held_against_the_weights(name, fitted, tmp_path)


def test_weights_are_held_against_the_class(fitted, tmp_path):
    path, name = tmp_path / 'e.safetensors', 'net_.linear.weight'
    e = fitted['RandomCNN']
    have = dict(e.net_.state_dict())['linear.weight']
    for x, says in (
        (None, f"'{name}'"),
        (torch.zeros(2, 2), f"'{name}'.*2, 2"),
        (have.double(), f"'{name}'.*float64"),
        (torch.full_like(have, math.nan), f"'{name}'.*NaN"),
    ):
        forge(e, path, {name: x})
        refused(says, path)
    forge(e, path, {'net_.more': torch.zeros(2)})
    refused("'net_.more'.*RandomCNN", path)


def test_a_long_sequence_builds_no_matrices(fitted, tmp_path):
    "The offsets are in the file, one by one; what the arguments would make of a sequence of a billion is not asked"
    e = fitted['CPC']
    forge(e, path := tmp_path / 'e.safetensors', arguments=packed(e, sequence_length=10**9))
    start = time.process_time()
    again = load_encoder(path)
    assert time.process_time() - start < 5 and again.offsets_ == e.offsets_


def test_what_fit_writes_is_not_for_the_file_to_say(fitted, tmp_path):
    mine = STDIM(checkpoint=tmp_path / 'mine.pt', **SMALL).fit(tiny_recording())
    mine.save(path := tmp_path / 'e.safetensors')
    assert b'mine.pt' not in path.read_bytes() and STDIM.load(path).checkpoint is None
    forge(mine, path, arguments=packed(mine) | {'checkpoint': {'path': str(tmp_path / 'theirs.pt')}})
    refused("STDIM.*'checkpoint'", path)


def test_every_changed_byte_is_noticed(tmp_path):
    Majority(n_codes=3).save(path := tmp_path / 'e.safetensors')
    whole = path.read_bytes()
    for at in range(len(whole)):
        for bit in (0, 3):
            changed = bytearray(whole)
            changed[at] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(ValueError, match='e.safetensors'):
                load_encoder(path)
    for cut in (0, 7, 8, 50, len(whole) - 1):
        path.write_bytes(whole[:cut])
        refused('', path)


def test_headers_that_lie(fitted, tmp_path):
    path = tmp_path / 'e.safetensors'
    for header, data in (
        (b'{}', b''),
        (b'[' * 100_000, b''),
        (json.dumps({'x': dict(dtype='F32', shape=[10**12], data_offsets=[0, 4])}).encode(), b'\0' * 4),
        (json.dumps({'__metadata__': {'srlviz': '[' * 50_000}}).encode(), b''),
        (json.dumps({'__metadata__': {'srlviz': 'null'}}).encode(), b''),
    ):
        path.write_bytes(struct.pack('<Q', len(header)) + header + data)
        refused('', path)
    path.write_bytes(struct.pack('<Q', 2**60))
    refused('', path)


def test_only_regular_files_are_read(tmp_path):
    os.mkfifo(tmp_path / 'pipe')
    refused('', tmp_path / 'pipe')
    with pytest.raises(FileNotFoundError):
        load_encoder(tmp_path / 'none.safetensors')


def test_what_cannot_be_saved_says_so(tmp_path):
    class Holds(Majority):
        def fit(self, recording):
            self.thing_ = object()
            return self

    with pytest.raises(ValueError):
        Holds().fit(None).save(tmp_path / 'e.safetensors')
    with pytest.raises(ValueError, match='STDIM'):
        STDIM().save(tmp_path / 'e.safetensors')
    assert not list(tmp_path.iterdir())  # nothing half written is left


def test_a_file_is_replaced_as_a_whole(fitted, tmp_path):
    path = tmp_path / 'e.safetensors'
    Majority().save(path)
    save_encoder(fitted['STDIM'], path)
    assert type(load_encoder(path)) is STDIM and [p.name for p in tmp_path.iterdir()] == ['e.safetensors']


def test_others_can_read_it(fitted, tmp_path):
    fitted['STDIM'].save(path := tmp_path / 'e.safetensors')
    weights = load_file(path)
    assert weights['model_.net.linear.weight'].shape[0] == 4
    with safe_open(path, framework='pt') as f:
        about = json.loads(f.metadata()['srlviz'])
    assert (about['class'], about['n_codes'], about['level']) == ('STDIM', 4, 'step')
    assert about['arguments']['parts'] == {'tuple': ['global-local', 'local-local']}


def test_a_loaded_encoder_learns_on(fitted, tmp_path):
    "It is an encoder like any: it can be fitted again, and gives what one that was never saved gives"
    tiny, e = tiny_recording(), fitted['STDIM']
    e.save(path := tmp_path / 'e.safetensors')
    again = STDIM.load(path).fit(tiny)
    for a, b in zip(again.encode(tiny), STDIM(**SMALL).fit(tiny).encode(tiny), strict=True):
        np.testing.assert_array_equal(a, b)


def test_the_catalogue_is_all_that_a_file_can_name(fitted, tmp_path):
    fitted['RandomCNN'].save(path := tmp_path / 'e.safetensors')
    assert type(load_encoder(path)) is catalog('encoders')['RandomCNN']
    refused('RandomCNN.*STDIM', path, kind=STDIM)


SCRIPT = """
import sys
import torch
from srlviz.encoders.custom import as_encoder
from srlviz.studies.papers.atari import probe_games

class Column:
    code_version = '1'
    def __init__(self, at=140): self.at = at
    def fit(self, recording): return self
    def encode(self, recording): return [e.obs['frame'][:, ::10, self.at, 0] for e in recording]

if __name__ == '__main__':
    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.AvgPool2d(20), torch.nn.Flatten(), torch.nn.Linear(80, 8))
    methods = {'left': Column, 'right': Column(at=int(sys.argv[1])), 'net': net}
    methods['local'] = as_encoder(lambda x: x.mean(3).flatten(1))
    call = dict(encoder_frames=300, probe_frames=1200, probing=dict(epochs=2), progress=False, n_jobs=2, norms=['none'])
    found = probe_games(['pong', 'breakout'], methods, out='out', **call)
    assert not len(found.failed), found.failed
    for game, about in found.about.items():
        for name, note in about['methods'].items():
            print(game, name, note['key'], note['seconds'])
"""


@pytest.mark.slow
def test_encoders_of_a_script_go_to_processes_and_are_found_again(tmp_path):
    """Two games at a time, in processes that never saw the script: its class, an instance, a network.

    What is the same is not computed again; another argument is, and so is always what has no version.
    """
    (tmp_path / 'script.py').write_text(SCRIPT)

    def run(at):
        done = subprocess.run([sys.executable, 'script.py', at], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
        return {
            tuple(line.split()[:2]): line.split()[2:]
            for line in done.stdout.splitlines()
            if line[:4] in ('pong', 'brea')
        }

    first, again, other = run('20'), run('20'), run('30')
    assert len(first) == 8
    differ = lambda a, b: {m for _, m in first if all(a[g, m] != b[g, m] for g in ('pong', 'breakout'))}
    assert differ(first, again) == {'local'}  # the others with the seconds that they took the first time
    assert differ(first, other) == {'local', 'right'}
