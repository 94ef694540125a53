"""Test small files that declare huge contents: each is refused, or read, in a few seconds and with little memory.

Every attack runs in a separate process, with limits on CPU time and on memory beyond what the process starts with.
"""

import gzip, hashlib, json, os, pickle, resource, shutil, signal, sys, zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest, torch
from safetensors.torch import save_file

from fuzz.run import start_measuring, status, wanted_memory
from test_foreign_recordings import npy, packed_zeros

from srlviz.agents.player import MemoryAgent, load_policy
from srlviz.core import saving
from srlviz.core.names import catalog
from srlviz.core.jobs.runs import MAX_CELLS, MAX_NAMES, MAX_TRIALS, RunFolder, check_grid
from srlviz.core.saving import load_encoder
from srlviz.core.training import load_weights
from srlviz.data.landing import read_flights
from srlviz.data.importers import load_csv, load_lerobot
from srlviz.encoders.baselines import Majority
from srlviz.encoders.frames.resnet import ResNet, load_resnet
from srlviz.encoders.sequences.mte import three_layers
from srlviz.core.questions import Answer, load_answers
from srlviz.evaluate.prediction.target_scores import TargetScores
from srlviz.evaluate.prediction.target_table import load_targets
from srlviz.studies.load import file_kind, load
from srlviz.studies.sweeps.store import request_trials, open_store
from srlviz.studies.trials import Study, grid_trials
from srlviz.widgets.run_monitor import RunMonitor

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='it forks, and reads /proc')
MAX_SECONDS = 10  # CPU time; refusing takes far less
MAX_BYTES = 2**29  # memory; refusing takes far less


def run_bounded(read, max_seconds=MAX_SECONDS, max_bytes=MAX_BYTES):
    "Call `read` in a child process with limits of CPU time and memory; return the message of its ValueError, or ''"
    from_child, to_parent = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(60)  # a reader that waits uses no CPU
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (max_seconds, max_seconds))
        resource.setrlimit(resource.RLIMIT_AS, (status('VmSize') + 2**32,) * 2)
        torch.set_num_threads(1)
        before = start_measuring()
        outcome = '', '', False  # type and message of the error, and whether memory ran out
        try:
            read()
        except BaseException as e:
            outcome = type(e).__name__, str(e), wanted_memory(e)
        os.write(to_parent, pickle.dumps((*outcome, status('VmHWM') - before))[:60_000])
        os._exit(0)
    os.close(to_parent)
    with os.fdopen(from_child, 'rb') as f:
        output = f.read()
    code = os.waitpid(pid, 0)[1]
    killed = {signal.SIGKILL: 'too much CPU', signal.SIGXCPU: 'too much CPU', signal.SIGALRM: 'it waits'}
    assert code == 0, killed.get(os.WTERMSIG(code), code)
    kind, message, out_of_memory, peak = pickle.loads(output)
    assert not out_of_memory and peak < max_bytes, f'it takes {peak / 1e6:,.0f} MB: {kind} {message}'
    assert kind in ('', 'ValueError'), f'{kind}: {message}'
    return message


def assert_refused(path, word, read, **limits):
    "Assert that `read` raises a ValueError with the path and a word, within limits of time and memory"
    message = run_bounded(read, **limits)
    assert str(path) in message and word in message, message


# ---- LeRobot data sets


def write_lerobot(root, shape=(1,), dtype='float32', values=None, key='factor.x'):
    "Write a data set of one episode with four rows; info.json declares any shape and type for a column"
    column = pa.array([[0.0]] * 4 if values is None else values, pa.list_(pa.float32()))
    features = {key: dict(dtype=dtype, shape=list(shape)), 'index': dict(dtype='int64', shape=[1])}
    info = dict(codebase_version='v3.0', fps=10, features=features, total_episodes=1, total_frames=4)
    place = {'data/chunk_index': [0], 'data/file_index': [0], 'dataset_from_index': [0], 'episode_index': [0]}
    for name in 'meta/episodes/chunk-000', 'data/chunk-000':
        (root / name).mkdir(parents=True)
    (root / 'meta/info.json').write_text(json.dumps(info))
    pq.write_table(pa.table(place | {'length': [4]}), root / 'meta/episodes/chunk-000/file-000.parquet')
    pq.write_table(pa.table({key: column, 'index': range(4)}), root / 'data/chunk-000/file-000.parquet')
    return root


def read_lerobot(root):
    e = load_lerobot(root)[0]
    return [np.asarray(x) for x in (*e.obs.values(), *e.factors.values())]


def test_a_valid_lerobot_data_set_is_read(tmp_path):
    assert run_bounded(lambda: read_lerobot(write_lerobot(tmp_path / 'set'))) == ''


@pytest.mark.parametrize('shape', [(5_000_000,), (10**6, 10**6), (2**53,) * 7, (2, 3)])
@pytest.mark.parametrize('key', ['factor.x', 'observation.state'])
def test_a_lerobot_shape_that_contradicts_the_file_is_refused(shape, key, tmp_path):
    root = write_lerobot(tmp_path / 'set', shape, key=key)
    assert_refused(root, '', lambda: read_lerobot(root))


def test_a_lerobot_column_with_a_million_values_a_row_is_refused(tmp_path):
    "The declared shape is correct; the file is small because zeros compress well"
    zeros = pa.ListArray.from_arrays(pa.array(np.arange(5, dtype=np.int32) * 10**6), pa.array(np.zeros(4 * 10**6, 'f')))
    root = write_lerobot(tmp_path / 'set', (10**6,), values=zeros)
    assert_refused(root / 'meta/info.json', '1,000,000', lambda: read_lerobot(root))


@pytest.mark.parametrize(
    'name', ['meta/info.json', 'meta/episodes/chunk-000/file-000.parquet', 'data/chunk-000/file-000.parquet']
)
def test_a_pipe_in_a_lerobot_data_set_does_not_hang(name, tmp_path):
    root = write_lerobot(tmp_path / 'set')
    (root / name).unlink()
    os.mkfifo(root / name)
    assert_refused(root / name, '', lambda: read_lerobot(root))


def test_a_link_in_a_lerobot_data_set_is_not_followed(tmp_path):
    root = write_lerobot(tmp_path / 'set')
    (root / 'meta/srlviz.json').symlink_to('/dev/zero')
    assert_refused(root / 'meta/srlviz.json', '', lambda: read_lerobot(root))


def change_episodes(root, **columns):
    "Replace columns of the table of episodes; return its file"
    file = root / 'meta/episodes/chunk-000/file-000.parquet'
    pq.write_table(pa.table(pq.read_table(file).to_pydict() | columns), file)
    return file


@pytest.mark.parametrize('column', ['length', 'dataset_from_index', 'episode_index', 'data/file_index'])
@pytest.mark.parametrize('value', [None, float('nan'), '4'])
@pytest.mark.variants
def test_numbers_of_lerobot_episodes_must_be_integers(column, value, tmp_path):
    root = write_lerobot(tmp_path / 'set')
    file = change_episodes(root, **{column: [value]})
    assert_refused(file, repr(column), lambda: read_lerobot(root))


def test_lengths_of_lerobot_episodes_do_not_overflow(tmp_path):
    "Four lengths of 2**62 and one of 4 add up to 4 in 64 bits"
    root = write_lerobot(tmp_path / 'set')
    n = 5
    indices = dict.fromkeys(('data/chunk_index', 'data/file_index'), [0] * n) | {'episode_index': [*range(n)]}
    change_episodes(root, **indices, length=[2**62] * 4 + [4], dataset_from_index=[0, 2**62, -(2**63), -(2**62), 0])
    info = json.loads((root / 'meta/info.json').read_text())
    (root / 'meta/info.json').write_text(json.dumps(info | dict(total_episodes=n)))
    assert_refused(root / 'meta/episodes', str(2**64 + 4), lambda: read_lerobot(root))


def test_a_linked_folder_of_lerobot_episodes_is_not_followed(tmp_path):
    root, elsewhere = write_lerobot(tmp_path / 'set'), tmp_path / 'elsewhere'
    (root / 'meta/episodes/chunk-000').rename(elsewhere)
    (root / 'meta/episodes/chunk-000').symlink_to(elsewhere)
    assert_refused(root, 'chunk-000', lambda: read_lerobot(root))


def test_one_long_lerobot_text_does_not_widen_all_rows(tmp_path):
    "A row of 10 MB among 1,000 makes an array of 40 GB"
    root = write_lerobot(tmp_path / 'set', dtype='string')
    n = 1000
    info = json.loads((root / 'meta/info.json').read_text())
    (root / 'meta/info.json').write_text(json.dumps(info | dict(total_frames=n)))
    change_episodes(root, length=[n])
    words = pa.table({'factor.x': ['w' * 10**7] + [''] * (n - 1), 'index': range(n)})
    pq.write_table(words, root / 'data/chunk-000/file-000.parquet')
    assert_refused(root, '', lambda: read_lerobot(root))


def test_rows_with_more_cells_than_columns_are_refused(tmp_path):
    "Pandas would take the first cell of each row as its index"
    (path := tmp_path / 'more.csv').write_text('a,b\n1,2,3\n4,5,6\n')
    assert_refused(path, 'line 2', lambda: load_csv(path))


HEADER, MEGABYTE = gzip.compress(b'a,b\n'), gzip.compress(b'1,1\n' * 2**18)
BOMBS = {  # a file of gzip may have several members, of which the last declares its own size only
    'zeros': gzip.compress(bytes(2**20)) * 2**9,
    'rows': HEADER + MEGABYTE * 2**9,
    'many members': HEADER + gzip.compress(b'') * 2**16 + MEGABYTE * 2**9,
    'twice': gzip.compress(MEGABYTE * 2**9),
}


@pytest.mark.parametrize('name', BOMBS)
@pytest.mark.parametrize('read', [load_csv, load, file_kind])
def test_a_packed_table_is_not_unpacked_beyond_a_bound(name, read, tmp_path):
    "Half a gigabyte of text in a file of less than two megabytes; the kind of a file is found in its beginning"
    (path := tmp_path / 'bomb.csv.gz').write_bytes(BOMBS[name])
    if read is file_kind and name in ('rows', 'many members'):
        assert run_bounded(lambda: read(path)) == ''
    else:
        assert_refused(path, '', lambda: read(path))


@pytest.mark.parametrize('read', [load_csv, load])
def test_a_parquet_table_that_declares_gigabytes_is_refused(read, tmp_path):
    zeros = pa.table({'x': pa.array(np.zeros(2**25), pa.float64())})
    pq.write_table(zeros, path := tmp_path / 'bomb.csv', compression='zstd', use_dictionary=False)
    assert path.stat().st_size < 2**18
    assert_refused(path, 'more than there can be', lambda: read(path))


@pytest.mark.parametrize(
    'text', ['"' * 2**22, ',' * 2**22, 'a,b\n' + ' ' * 2**22, '#\n' * 2**21, 'a,b\n1,"' + 'x' * 2**22]
)
def test_text_of_one_character_is_refused_in_linear_time(text, tmp_path):
    (path := tmp_path / 'text.csv').write_text(text)
    assert_refused(path, '', lambda: load_csv(path))


def test_a_table_of_100000_columns_is_refused(tmp_path):
    line = ','.join(f'c{i}' for i in range(100_000))
    (path := tmp_path / 'wide.csv').write_text(f"{line}\n{'1,' * 99_999}1\n")
    assert_refused(path, '100,000', lambda: load_csv(path))


# ---- weights


class Command:
    "An object whose pickle names a function that weights may not name"

    def __reduce__(self):
        return os.getcwd, ()


WEIGHTS = {
    'srlviz': lambda p: load_weights(p, {}),
    'torchvision': lambda p: load_resnet(ResNet(18), p),
}


@pytest.mark.parametrize('reader', WEIGHTS)
@pytest.mark.parametrize('form', ['zip', '2018'])
def test_weights_name_tensors_and_nothing_else(reader, form, tmp_path):
    torch.save({'w': Command()}, path := tmp_path / 'w.pth', _use_new_zipfile_serialization=form == 'zip')
    assert_refused(path, 'getcwd', lambda: WEIGHTS[reader](path))


@pytest.mark.parametrize('reader', WEIGHTS)
def test_compressed_weights_are_refused(reader, tmp_path):
    "In a zip with compressed tensors, the declared size could be a thousand times that of the file"
    torch.save({'w': torch.zeros(2)}, whole := tmp_path / 'whole.pth')
    with zipfile.ZipFile(whole) as z, zipfile.ZipFile(path := tmp_path / 'w.pth', 'w', zipfile.ZIP_DEFLATED) as packed:
        for name in z.namelist():
            packed.writestr(name, z.read(name) + bytes(2**20 * name.endswith('data/0')))
    assert_refused(path, 'is packed by the method', lambda: WEIGHTS[reader](path))


def test_hundreds_of_tensors_that_share_bytes_are_refused(tmp_path):
    shared = torch.ones(10**5)
    torch.save({f'w{i}': shared[i:] for i in range(500)}, path := tmp_path / 'w.pth')
    assert_refused(path, 'ten times', lambda: load_resnet(ResNet(18), path))


@pytest.mark.parametrize('reader', WEIGHTS)
@pytest.mark.parametrize('form', ['zip', '2018'])
def test_weights_with_keys_of_more_than_64_bits_are_refused(reader, form, tmp_path):
    "All multiples of 2**61 - 1 have the same hash: a dictionary of 100,000 of them takes minutes"
    keys = {(2**61 - 1) * i: None for i in range(16)}
    torch.save(keys, path := tmp_path / 'w.pth', _use_new_zipfile_serialization=form == 'zip')
    assert_refused(path, 'bits', lambda: WEIGHTS[reader](path))


def test_loading_weights_does_not_wait_for_a_pipe(tmp_path):
    os.mkfifo(path := tmp_path / 'w.pth')
    assert_refused(path, 'not a regular file', lambda: load_resnet(ResNet(18), path))


# ---- encoders and agents


def test_a_number_for_a_flag_builds_no_layers(tmp_path):
    "`last_relu` is a flag"
    assert run_bounded(lambda: three_layers(2, 2, 2, last_relu=10**9), max_bytes=2**26) == ''


def forge(encoder, path, tensors, **change):
    "Save an encoder, then write other fields and tensors, with a valid checksum"
    encoder.save(path)
    about, saved_tensors = saving._read(path)
    about = about | change
    tensors = saved_tensors | tensors
    about['checksum'] = saving._checksum(about, tensors)
    save_file(tensors, path, metadata={'srlviz': json.dumps(about)})


COLUMNS = {
    'of one array': {f'c{i}': {'array': 'more_'} for i in range(2000)},
    'of one array and one number': {'a': {'array': 'more_'}} | {f'c{i}': 1 for i in range(2000)},
}


@pytest.mark.parametrize('name', COLUMNS)
def test_a_table_of_2000_columns_in_a_small_file_is_refused(name, tmp_path):
    table = {'more_': {'table': COLUMNS[name]}}
    forge(Majority(n_codes=3), path := tmp_path / 'e.safetensors', {'more_': torch.zeros(10**6)}, learned=table)
    assert path.stat().st_size < 5e6
    assert_refused(path, '', lambda: load_encoder(path, Majority))


def test_values_that_share_an_array_are_refused(tmp_path):
    "A class may copy each of its arguments"
    values = {'more_': [{'array': 'more_'}] * 2000}
    forge(Majority(n_codes=3), path := tmp_path / 'e.safetensors', {'more_': torch.zeros(10**6)}, learned=values)
    assert_refused(path, "'more_'", lambda: load_encoder(path, Majority))


def forge_agent(path, memory, **arguments):
    "Save an agent whose file declares other arguments of the memory, with a valid checksum"
    MemoryAgent(memory, dict(n_in=8, n_hidden=8), 10, width=8).fit(None).save(path)
    about, tensors = saving._read(path)
    about['arguments'] |= {'arguments': {'dict': dict(n_in=8, n_hidden=8) | arguments}}
    about['checksum'] = saving._checksum(about, tensors)
    save_file(tensors, path, metadata={'srlviz': json.dumps(about)})


@pytest.mark.parametrize('arguments', [dict(order=1024), dict(order=1024, theta=1e-300), dict(n_hidden=1024)])
def test_the_weights_of_a_memory_are_compared_before_it_is_built(arguments, tmp_path):
    path = tmp_path / 'a.safetensors'
    forge_agent(path, 'LMU', **arguments)
    assert_refused(path, '', lambda: load_policy(path), max_seconds=2)


@pytest.mark.parametrize('name', sorted(catalog('memories')))
def test_building_a_memory_without_data_is_cheap(name):
    "On the device `meta`, where tensors have no data, every memory of the catalogue is built at once, at any width"

    def build():
        with torch.device('meta'):
            catalog('memories')[name](1024, 1024)

    assert run_bounded(build, max_seconds=2, max_bytes=2**26) == ''


def test_a_memory_with_few_weights_is_built_in_seconds():
    "Its weights take 4 kB, but the work to build it grows faster with its order"
    assert run_bounded(lambda: catalog('memories')['LMU'](1, 1, 512, 0.001), max_seconds=4) == ''


# ---- results in .npz


@pytest.fixture(scope='module')
def zeros(tmp_path_factory):
    "A file of 1.5 MB that unpacks to 1.5 GB, as its headers declare"
    path = tmp_path_factory.mktemp('npz') / 'zeros.npz'
    n = 1500
    header = npy((n, 2**20))
    with zipfile.ZipFile(path, 'w') as z:
        member = zipfile.ZipInfo('0/importance.x.npy')
        z.writestr(member, packed_zeros(header, n))
        member.compress_type = zipfile.ZIP_DEFLATED
        member.file_size = len(header) + n * 2**20
    assert path.stat().st_size < 3e6
    return path


RESULTS = {
    'answers': load_answers,
    'an answer': Answer.load,
    'scores of targets': TargetScores.load,
}


@pytest.mark.parametrize('name', RESULTS)
def test_results_that_unpack_to_gigabytes_are_refused(name, zeros):
    assert_refused(zeros, 'bytes, more than', lambda: RESULTS[name](zeros), max_seconds=3)


# ---- tables in Parquet


def zero_lists(n_rows, n):
    "Return a column of lists, each with `n` structures of zeros"
    numbers = pa.StructArray.from_arrays([pa.array(np.zeros(n_rows * n))], ['x'])
    return pa.ListArray.from_arrays(pa.array(np.arange(n_rows + 1, dtype=np.int32) * n), numbers)


def targets_folder(path):
    "Write the files of a folder of targets that are read first"
    path.mkdir()
    fields = dict(
        format='srlviz targets',
        version=1,
        names={},
        events=[],
        cap=1.0,
        dropped={},
        cut=dict(name='set', episodes=1, rows=1, length=None),
    )
    (path / 'targets.json').write_text(json.dumps(fields))
    np.savez(path / 'states.npz')
    return path


def test_a_wide_column_of_flights_is_refused(tmp_path):
    root = tmp_path / 'set'
    shutil.copytree(Path(__file__).parents[1] / 'data_samples' / 'landings', root)
    table = pq.read_table(file := root / 'meta/flights.parquet')
    table = table.append_column('more', zero_lists(len(table), 300_000)).replace_schema_metadata(None)
    pq.write_table(table, file, compression='zstd', store_schema=False)
    info = json.loads((root / 'meta/info.json').read_text())
    info['files']['meta/flights.parquet'] = [file.stat().st_size, hashlib.sha256(file.read_bytes()).hexdigest()[:32]]
    (root / 'meta/info.json').write_text(json.dumps(info))
    assert file.stat().st_size < 100_000
    assert_refused(file, "'more'", lambda: read_flights(root))


def test_a_wide_column_of_targets_is_refused(tmp_path):
    path = targets_folder(tmp_path / 'targets')
    columns = {k: pa.array([0]) for k in ('episode', 'start', 'split')} | {'more': zero_lists(1, 4 * 10**6)}
    pq.write_table(pa.table(columns), file := path / 'table.parquet', compression='zstd')
    assert_refused(file, "'more'", lambda: load_targets(path))


@pytest.mark.parametrize('column', ['tasks', 'factor/wind'])
def test_a_wide_column_of_lerobot_episodes_is_refused(column, tmp_path):
    file = write_lerobot(root := tmp_path / 'set') / 'meta/episodes/chunk-000/file-000.parquet'
    pq.write_table(pq.read_table(file).append_column(column, zero_lists(1, 3 * 10**6)), file, compression='zstd')
    assert_refused(file, repr(column), lambda: load_lerobot(root))


def test_loading_targets_does_not_wait_for_a_pipe(tmp_path):
    path = targets_folder(tmp_path / 'targets')
    os.mkfifo(path / 'table.parquet')
    assert_refused(path / 'table.parquet', 'not a regular file', lambda: load_targets(path))


# ---- folders of runs

KEY = '0123456789-0123456789'


def square(x: int = 0) -> list[dict]:
    return []


def write_run_folder(root, trials, names=()):
    "Write a sweep of trials (hash -> parameters) and the curve of a finished trial"
    (root / 'grids').mkdir(parents=True)
    (place := root / 'trials' / KEY).mkdir(parents=True)
    (root / 'sweep.json').write_text(json.dumps(dict(layout=1, study='s', trial='m:t')))
    (root / 'grids/a.json').write_text(json.dumps(dict(asked=1.0, trials=trials)))
    done = dict(status='done', error='', started=1.7e9, ended=1.7e9, seconds=1.0, parameters={})
    (place / 'result.json').write_text(json.dumps(done))
    lines = ['step,total,name,value,time', *(f'1,10,{name},0.5,1700000000.000' for name in names)]
    (place / 'curve.csv').write_text('\n'.join(lines) + '\n')
    return root


def test_a_curve_of_20000_names_is_truncated(tmp_path):
    root = write_run_folder(tmp_path / 'out', [[KEY[:10], {}]], [f'n{i}' for i in range(20_000)])

    def read():
        runs = RunFolder(root)
        runs.refresh()
        assert runs.curves([KEY])['name'].nunique() == MAX_NAMES

    assert run_bounded(read) == ''


GRIDS = {
    'many trials': [[f'{i:010x}', {}] for i in range(1001)],
    'a different parameter for each trial': [[f'{i:010x}', {f'x{i}': i}] for i in range(3000)],
}


@pytest.mark.parametrize('name', GRIDS)
def test_a_recorded_grid_that_is_too_large_is_refused(name, tmp_path, monkeypatch):
    if name == 'many trials':
        monkeypatch.setattr('srlviz.core.jobs.runs.MAX_TRIALS', 1000)
    root = write_run_folder(tmp_path / 'out', GRIDS[name])

    def read():
        assert RunMonitor(root, watch=False, interactive=False).state == 'lost'
        runs = RunFolder(root)
        for _ in range(2):
            with pytest.raises(ValueError):
                runs.refresh()
        runs.refresh()

    assert_refused(root / 'grids', f'{len(GRIDS[name]):,} trials', read)


def test_a_sweep_writes_no_folder_that_it_cannot_reopen(tmp_path, monkeypatch):
    "Two grids of 600 trials each add up to 1,200"
    monkeypatch.setattr('srlviz.core.jobs.runs.MAX_TRIALS', 1000)
    open_store(tmp_path, study := Study(square))
    for start in 0, 600:
        trials = {f'{i:010x}-0123456789': dict(x=i) for i in range(start, start + 600)}
        if start:
            with pytest.raises(ValueError, match='1,200'):
                request_trials(tmp_path, trials)
        else:
            request_trials(tmp_path, trials)
    RunFolder(tmp_path).refresh()
    open_store(tmp_path, study)


def test_a_grid_up_to_the_limits_is_accepted():
    check_grid([{}] * MAX_TRIALS, 'grids')
    check_grid([{f'x{i}': 0 for i in range(MAX_CELLS // 1000)}] * 1000, 'grids')
    with pytest.raises(ValueError):
        check_grid([{f'x{i}': 0 for i in range(MAX_CELLS // 1000 + 1)}] * 1000, 'grids')


def trial(x: int = 0, y: int = 0, z: int = 0):
    return []


def test_a_grid_of_a_billion_trials_is_refused():
    thousand = [*range(1000)]
    message = run_bounded(lambda: grid_trials(Study(trial), dict(x=thousand, y=thousand, z=thousand)), max_seconds=3)
    assert '1,000,000,000 trials' in message


def test_a_packed_table_of_many_small_cells_is_refused_before_it_is_parsed(tmp_path):
    path = tmp_path / 'cells.csv.gz'
    path.write_bytes(gzip.compress(b'a,b\n' + b'1,2\n' * 15_000_000))  # 1.3 GB as a table, 58 kB packed
    assert_refused(path, 'cells; unpack it first', lambda: load(path), max_seconds=3)
