"""Test forged headers: what JSON in a file takes in memory is bounded before it is parsed, whatever it holds."""

import gzip, io, json, re, sys, zipfile

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import save_file

from test_foreign_bounds import assert_refused, run_bounded

import srlviz
from srlviz.core.files import MAX_BYTES, max_unpacked, parse_json
from srlviz.core.jobs.runs import RunFolder
from srlviz.core.questions import load_answers
from srlviz.core.recordings import Recording, load_recording
from srlviz.core.results import results_of
from srlviz.core.results_0_2 import load_card, load_matrix, load_probe
from srlviz.core.results import load_results
from srlviz.core.saving import load_encoder
from srlviz.core.scores import score_row
from srlviz.evaluate.maps import load_maps
from srlviz.evaluate.prediction.target_table import load_targets
from srlviz.studies.notebooks import read_notebook
from srlviz.widgets.workbench import load_workbench

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='it forks, and reads /proc')
VALUES = dict(lists='[],', objects='{},', pairs='{"a":0},', words='"ab",', numbers='1234,', nested='[[0]],')
BOUND = 2**27 + 2**26  # bytes: what a limit of 64 MB may take in a process, with its text


def forged(values: str, n_bytes: int) -> str:
    "JSON of about `n_bytes` whose object has a list of small values"
    return '{"format": "srlviz", "x": [' + values * (n_bytes // len(values)) + '0]}'


def write_npz(path, name: str, array: np.ndarray):
    "Write an .npz file of one array, packed as well as it can be"
    content = io.BytesIO()
    np.save(content, array)
    with zipfile.ZipFile(path, 'w', zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        z.writestr(f'{name}.npy', content.getbuffer())
    return path


@pytest.mark.parametrize('values', ['lists', pytest.param('pairs', marks=pytest.mark.slow), 'words'])
def test_the_head_of_a_recording_is_bounded_by_the_size_of_its_file(values, tmp_path):
    head = forged(VALUES[values], 2**26).encode()
    path = write_npz(tmp_path / 'head.npz', 'head', np.frombuffer(head, np.uint8))
    assert path.stat().st_size < 2**18
    assert_refused(path, 'of memory, more than', lambda: load_recording(path), max_seconds=3, max_bytes=BOUND)


def test_the_episodes_of_a_recording_are_bounded_by_the_size_of_its_file(tmp_path):
    one = Recording.from_arrays({'x': np.zeros((2, 1), np.float32)}, factors={'y': np.zeros(2)}).save(
        tmp_path / 'a.npz'
    )
    with np.load(one) as z:
        arrays = dict(z)
    head = json.loads(bytes(arrays['head']))
    n = 300_000
    head |= dict(lengths=[1] * n, split=[''] * n, ended=['ended'] * n, names=[''] * n)
    arrays = {k: np.zeros((n, *v.shape[1:]), v.dtype) for k, v in arrays.items() if k != 'head'}
    np.savez_compressed(tmp_path / 'many.npz', head=np.frombuffer(json.dumps(head).encode(), np.uint8), **arrays)
    path = tmp_path / 'many.npz'
    assert_refused(path, 'more than', lambda: load_recording(path), max_seconds=3, max_bytes=BOUND)


@pytest.mark.parametrize('values', ['objects', 'nested'])
def test_the_headers_of_answers_and_maps_are_bounded(values, tmp_path):
    text = np.array(forged(VALUES[values], 2**23))
    for name, reader in {'0/header': load_answers, 'maps': load_maps}.items():
        path = write_npz(tmp_path / 'saved.npz', name, text)
        assert_refused(path, 'saved.npz', lambda: reader(path), max_seconds=3, max_bytes=2 * BOUND)


JSON_FILES = {
    'card.json': load_card,
    'matrix.json': lambda path: load_matrix(path),
    'notebook.ipynb': read_notebook,
    'probe.json': lambda path: load_probe(path.parent),
    'results.json': lambda path: load_results(path.parent),
    'targets.json': lambda path: load_targets(path.parent),
    'workbench.json': lambda path: load_workbench(path.parent),
    'sweep.json': lambda path: RunFolder(path.parent).refresh(),
    'x.json': srlviz.load,
    'meta/info.json': lambda path: srlviz.load(path.parent.parent),
}


@pytest.mark.parametrize('name', JSON_FILES)
def test_a_large_file_of_json_is_refused_before_it_is_parsed(name, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(forged(VALUES['lists'], 2**26))  # 1.6 GB when it is parsed
    message = run_bounded(lambda: JSON_FILES[name](path), max_seconds=5, max_bytes=2**29)
    assert path.name in message


@pytest.mark.parametrize('name', ['card.json', 'probe.json', 'results.json'])
def test_results_whose_json_is_small_and_takes_much_memory_are_refused(name, tmp_path):
    path = tmp_path / name
    path.write_text(forged(VALUES['lists'], 2**24 - 1000))  # 600 MB when it is parsed
    assert_refused(path, 'of memory, more than', lambda: JSON_FILES[name](path), max_seconds=3, max_bytes=2**26)


def test_results_with_many_names_are_checked_in_seconds(tmp_path):
    row = score_row(study='own', task='room', method='raw', metric='f1', value=0.5, group='probe')
    folder = results_of(pd.DataFrame([row])).save(tmp_path / 'results')
    header = json.loads((folder / 'results.json').read_text())
    n = 150_000
    header['reasons'] = [[f'n{i}', 'room', 'probe', ''] for i in range(n)]
    keys = dict(method=[f'n{i}' for i in range(n)], task=['room'] * n, question=['probe'] * n)
    moments = dict.fromkeys(('episode', 't', 'truth', 'predicted', 'error'), [1] * n)
    header['moments'] = keys | moments | dict(factor=['x'] * n)
    (folder / 'results.json').write_text(json.dumps(header))
    assert not run_bounded(lambda: load_results(folder))
    header['moments']['method'][-1] = 'n'
    (folder / 'results.json').write_text(json.dumps(header))
    assert_refused(folder / 'results.json', "moments: unknown method 'n'", lambda: load_results(folder))


def test_the_header_of_an_encoder_is_bounded(tmp_path):
    path = tmp_path / 'encoder.safetensors'
    save_file({'x': np.zeros(2, np.float32)}, path, metadata={'srlviz': forged(VALUES['objects'], 2**23)})
    for reader in load_encoder, srlviz.load:
        assert_refused(path, 'encoder.safetensors', lambda: reader(path), max_seconds=5, max_bytes=2**29)


@pytest.mark.parametrize('values', VALUES)
def test_the_memory_of_json_is_estimated_from_above(values, tmp_path):
    text = forged(VALUES[values], 2**22)
    with pytest.raises(ValueError, match='needs about') as error:
        parse_json(text, 0)
    need = int(re.search('about ([0-9,]+) bytes', str(error.value))[1].replace(',', ''))
    assert not run_bounded(lambda: parse_json(text, need), max_bytes=need + 2**25)


def test_no_file_may_unpack_to_more_than_a_fixed_size(tmp_path):
    (tmp_path / 'x').write_bytes(bytes(1000))
    assert max_unpacked(tmp_path / 'x') == 2**26 + 200_000 < MAX_BYTES


@pytest.mark.parametrize('name', ['card.json', 'results.json', 'x.json', 'notebook.ipynb'])
def test_a_key_that_stands_twice_is_refused(name, tmp_path):
    path = tmp_path / name
    path.write_text('{"format": "srlviz scorecard", "cells": [], "cells": [1]}')
    with pytest.raises(ValueError, match=f"{name}.*'cells' stands twice"):
        JSON_FILES[name](path)


def test_a_packed_row_of_millions_of_cells_is_refused_before_they_are_made(tmp_path):
    path = tmp_path / 'walks.csv'
    path.write_bytes(gzip.compress(f'run,a\n0,1\n{"," * 2**25}\n'.encode()))
    message = run_bounded(lambda: srlviz.load(path), max_seconds=8, max_bytes=2**27)
    assert 'walks.csv is packed and has more than' in message and 'cells; unpack it first' in message
