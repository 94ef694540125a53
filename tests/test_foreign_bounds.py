"""Small files that declare much: each is refused, or read, in a few seconds and little memory.

Every attack runs in a process of its own, which may use some seconds of CPU and some memory beyond what it begins with.
"""

import hashlib, json, os, pickle, resource, shutil, signal, sys, zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest, torch
from safetensors.torch import save_file

sys.path.insert(0, str(Path(__file__).parent))
from fuzz.run import start_measuring, status, wanted_memory  # noqa: E402
from test_foreign_recordings import npy, packed_zeros  # noqa: E402

from srlviz.agents.player import MemoryAgent, load_policy  # noqa: E402
from srlviz.core import saving  # noqa: E402
from srlviz.core.names import catalog  # noqa: E402
from srlviz.core.jobs.runs import MAX_CELLS, MAX_NAMES, MAX_TRIALS, RunFolder, check_grid  # noqa: E402
from srlviz.core.saving import load_encoder  # noqa: E402
from srlviz.core.training import load_weights  # noqa: E402
from srlviz.data.landing import read_flights  # noqa: E402
from srlviz.data.importers import load_csv, load_lerobot  # noqa: E402
from srlviz.encoders.baselines import Majority  # noqa: E402
from srlviz.encoders.frames.resnet import ResNet, load_resnet  # noqa: E402
from srlviz.encoders.sequences.mte import three_layers  # noqa: E402
from srlviz.core.questions import Answer, load_answers  # noqa: E402
from srlviz.evaluate.prediction.target_scores import TargetScores  # noqa: E402
from srlviz.evaluate.prediction.target_table import load_targets  # noqa: E402
from srlviz.studies.sweeps.store import request_trials, open_store  # noqa: E402
from srlviz.studies.trials import Study, grid_trials  # noqa: E402
from srlviz.widgets.runs import RunMonitor  # noqa: E402

pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='it forks, and reads /proc')
SECONDS, ROOM = 10, 2**29  # of CPU, and bytes of memory; what is refused takes far less


def bounded(read, seconds=SECONDS, room=ROOM):
    "The message of the ValueError that `read` raises ('' for none), which may not take longer or need more memory"
    from_child, to_parent = os.pipe()
    pid = os.fork()
    if not pid:
        signal.alarm(60)  # what waits for somebody uses no CPU
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
        resource.setrlimit(resource.RLIMIT_AS, (status('VmSize') + 2**32,) * 2)
        torch.set_num_threads(1)
        before, said = start_measuring(), ('', '', False)
        try:
            read()
        except BaseException as e:
            said = type(e).__name__, str(e), wanted_memory(e)
        os.write(to_parent, pickle.dumps((*said, status('VmHWM') - before))[:60_000])
        os._exit(0)
    os.close(to_parent)
    with os.fdopen(from_child, 'rb') as f:
        told = f.read()
    code = os.waitpid(pid, 0)[1]
    killed = {signal.SIGKILL: 'too much CPU', signal.SIGXCPU: 'too much CPU', signal.SIGALRM: 'it waits'}
    assert code == 0, killed.get(os.WTERMSIG(code), code)
    kind, message, wanted, peak = pickle.loads(told)
    assert not wanted and peak < room, f'it takes {peak / 1e6:,.0f} MB: {kind} {message}'
    assert kind in ('', 'ValueError'), f'{kind}: {message}'
    return message


def refused(path, word, read, **limits):
    "A ValueError that names the file and has a word in it, soon and without much memory"
    message = bounded(read, **limits)
    assert str(path) in message and word in message, message


# ---- data sets of LeRobot


def lerobot(root, shape=(1,), dtype='float32', values=None, key='factor.x'):
    "A set of one episode of four rows, whose info.json says of a column what it likes"
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


def test_a_sound_set_of_lerobot_is_read(tmp_path):
    assert bounded(lambda: read_lerobot(lerobot(tmp_path / 'set'))) == ''


@pytest.mark.parametrize('shape', [(5_000_000,), (10**6, 10**6), (2**53,) * 7, (2, 3)])
@pytest.mark.parametrize('key', ['factor.x', 'observation.state'])
def test_a_shape_of_lerobot_is_held_against_the_file(shape, key, tmp_path):
    root = lerobot(tmp_path / 'set', shape, key=key)
    refused(root, '', lambda: read_lerobot(root))


def test_a_wide_column_of_lerobot_makes_no_millions_of_factors(tmp_path):
    "The shape is that of the file, which zeros keep small"
    zeros = pa.ListArray.from_arrays(pa.array(np.arange(5, dtype=np.int32) * 10**6), pa.array(np.zeros(4 * 10**6, 'f')))
    root = lerobot(tmp_path / 'set', (10**6,), values=zeros)
    refused(root / 'meta/info.json', '1,000,000', lambda: read_lerobot(root))


@pytest.mark.parametrize(
    'name', ['meta/info.json', 'meta/episodes/chunk-000/file-000.parquet', 'data/chunk-000/file-000.parquet']
)
def test_a_pipe_in_a_set_of_lerobot_does_not_hang(name, tmp_path):
    root = lerobot(tmp_path / 'set')
    (root / name).unlink()
    os.mkfifo(root / name)
    refused(root / name, '', lambda: read_lerobot(root))


def test_a_link_in_a_set_of_lerobot_is_not_followed(tmp_path):
    root = lerobot(tmp_path / 'set')
    (root / 'meta/srlviz.json').symlink_to('/dev/zero')
    refused(root / 'meta/srlviz.json', '', lambda: read_lerobot(root))


def change_episodes(root, **columns):
    "Write other values into the table of episodes"
    file = root / 'meta/episodes/chunk-000/file-000.parquet'
    pq.write_table(pa.table(pq.read_table(file).to_pydict() | columns), file)
    return file


@pytest.mark.parametrize('column', ['length', 'dataset_from_index', 'episode_index', 'data/file_index'])
@pytest.mark.parametrize('value', [None, float('nan'), '4'])
@pytest.mark.variants
def test_numbers_of_episodes_of_lerobot_are_whole(column, value, tmp_path):
    file = change_episodes(root := lerobot(tmp_path / 'set'), **{column: [value]})
    refused(file, repr(column), lambda: read_lerobot(root))


def test_lengths_of_lerobot_do_not_wrap_around(tmp_path):
    "Four lengths of 2**62 and one of 4 are 4 in 64 bits"
    root, n = lerobot(tmp_path / 'set'), 5
    whole = dict.fromkeys(('data/chunk_index', 'data/file_index'), [0] * n) | {'episode_index': [*range(n)]}
    change_episodes(root, **whole, length=[2**62] * 4 + [4], dataset_from_index=[0, 2**62, -(2**63), -(2**62), 0])
    info = json.loads((root / 'meta/info.json').read_text())
    (root / 'meta/info.json').write_text(json.dumps(info | dict(total_episodes=n)))
    refused(root / 'meta/episodes', str(2**64 + 4), lambda: read_lerobot(root))


def test_a_linked_folder_of_episodes_of_lerobot_is_not_followed(tmp_path):
    root, elsewhere = lerobot(tmp_path / 'set'), tmp_path / 'elsewhere'
    (root / 'meta/episodes/chunk-000').rename(elsewhere)
    (root / 'meta/episodes/chunk-000').symlink_to(elsewhere)
    refused(root, 'chunk-000', lambda: read_lerobot(root))


def test_a_long_word_of_lerobot_does_not_widen_every_row(tmp_path):
    "A row of 10 MB among 1,000 makes an array of 40 GB"
    root, n = lerobot(tmp_path / 'set', dtype='string'), 1000
    info = json.loads((root / 'meta/info.json').read_text())
    (root / 'meta/info.json').write_text(json.dumps(info | dict(total_frames=n)))
    change_episodes(root, length=[n])
    words = pa.table({'factor.x': ['w' * 10**7] + [''] * (n - 1), 'index': range(n)})
    pq.write_table(words, root / 'data/chunk-000/file-000.parquet')
    refused(root, '', lambda: read_lerobot(root))


def test_rows_of_more_cells_than_names_are_refused(tmp_path):
    "Pandas would take the first cell of each as a name"
    (path := tmp_path / 'more.csv').write_text('a,b\n1,2,3\n4,5,6\n')
    refused(path, 'Length of header', lambda: load_csv(path))


def test_a_table_of_100000_columns_is_refused(tmp_path):
    line = ','.join(f'c{i}' for i in range(100_000))
    (path := tmp_path / 'wide.csv').write_text(f"{line}\n{'1,' * 99_999}1\n")
    refused(path, '100,000', lambda: load_csv(path))


# ---- weights


class Command:
    "What a pickle of torch may not name"

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
    refused(path, 'getcwd', lambda: WEIGHTS[reader](path))


@pytest.mark.parametrize('reader', WEIGHTS)
def test_packed_weights_are_refused(reader, tmp_path):
    "A zip in which the bytes of a tensor are packed could declare a thousand times what it has"
    torch.save({'w': torch.zeros(2)}, whole := tmp_path / 'whole.pth')
    with zipfile.ZipFile(whole) as z, zipfile.ZipFile(path := tmp_path / 'w.pth', 'w', zipfile.ZIP_DEFLATED) as packed:
        for name in z.namelist():
            packed.writestr(name, z.read(name) + bytes(2**20 * name.endswith('data/0')))
    refused(path, 'is packed by the method', lambda: WEIGHTS[reader](path))


def test_thousands_of_tensors_of_the_same_bytes_are_refused(tmp_path):
    shared = torch.ones(10**5)
    torch.save({f'w{i}': shared[i:] for i in range(500)}, path := tmp_path / 'w.pth')
    refused(path, 'ten times', lambda: load_resnet(ResNet(18), path))


@pytest.mark.parametrize('reader', WEIGHTS)
@pytest.mark.parametrize('form', ['zip', '2018'])
def test_weights_have_no_key_of_more_than_64_bits(reader, form, tmp_path):
    "Multiples of 2**61 - 1 fall on one place of a dictionary: 100,000 of them take minutes"
    keys = {(2**61 - 1) * i: None for i in range(16)}
    torch.save(keys, path := tmp_path / 'w.pth', _use_new_zipfile_serialization=form == 'zip')
    refused(path, 'bits', lambda: WEIGHTS[reader](path))


def test_a_pipe_for_weights_is_not_waited_for(tmp_path):
    os.mkfifo(path := tmp_path / 'w.pth')
    refused(path, 'not a regular file', lambda: load_resnet(ResNet(18), path))


# ---- encoders and agents


def test_an_argument_that_counts_nothing_makes_no_layers(tmp_path):
    "`last_relu` is yes or no"
    assert bounded(lambda: three_layers(2, 2, 2, last_relu=10**9), room=2**26) == ''


def forge(encoder, path, tensors, **change):
    "Save an encoder, then write other fields and tensors, under a checksum that is right"
    encoder.save(path)
    about, have = saving._read(path)
    about, have = about | change, have | tensors
    about['checksum'] = saving._checksum(about, have)
    save_file(have, path, metadata={'srlviz': json.dumps(about)})


COLUMNS = {
    'of one array': {f'c{i}': {'array': 'more_'} for i in range(2000)},
    'of one number beside an array': {'a': {'array': 'more_'}} | {f'c{i}': 1 for i in range(2000)},
}


@pytest.mark.parametrize('name', COLUMNS)
def test_a_table_of_2000_columns_of_one_array_is_refused(name, tmp_path):
    table = {'more_': {'table': COLUMNS[name]}}
    forge(Majority(n_codes=3), path := tmp_path / 'e.safetensors', {'more_': torch.zeros(10**6)}, learned=table)
    assert path.stat().st_size < 5e6
    refused(path, '', lambda: load_encoder(path, Majority))


def test_values_of_one_array_are_refused(tmp_path):
    "What a class makes of its arguments may be a copy of each"
    values = {'more_': [{'array': 'more_'}] * 2000}
    forge(Majority(n_codes=3), path := tmp_path / 'e.safetensors', {'more_': torch.zeros(10**6)}, learned=values)
    refused(path, "'more_'", lambda: load_encoder(path, Majority))


def forged_agent(path, memory, **arguments):
    MemoryAgent(memory, dict(n_in=8, n_hidden=8), 10, width=8).fit(None).save(path)
    about, have = saving._read(path)
    about['arguments'] |= {'arguments': {'dict': dict(n_in=8, n_hidden=8) | arguments}}
    about['checksum'] = saving._checksum(about, have)
    save_file(have, path, metadata={'srlviz': json.dumps(about)})


@pytest.mark.parametrize('arguments', [dict(order=1024), dict(order=1024, theta=1e-300), dict(n_hidden=1024)])
def test_nothing_is_computed_for_a_memory_before_its_weights_are_compared(arguments, tmp_path):
    forged_agent(path := tmp_path / 'a.safetensors', 'LMU', **arguments)
    refused(path, '', lambda: load_policy(path), seconds=2)


@pytest.mark.parametrize('name', sorted(catalog('memories')))
def test_a_memory_without_weights_computes_nothing(name):
    "Where tensors have shapes alone, every memory of the catalogue is made at once, however wide"

    def made():
        with torch.device('meta'):
            catalog('memories')[name](1024, 1024)

    assert bounded(made, seconds=2, room=2**26) == ''


def test_a_memory_of_a_small_file_is_made_in_seconds():
    "Its weights have 4 kB; what is computed of its order grows faster"
    assert bounded(lambda: catalog('memories')['LMU'](1, 1, 512, 0.001), seconds=4) == ''


# ---- results in .npz


@pytest.fixture(scope='module')
def zeros(tmp_path_factory):
    "1.5 MB that unpack to 1.5 GB, as its headers say"
    path, n, head = tmp_path_factory.mktemp('npz') / 'zeros.npz', 1500, npy((1500, 2**20))
    with zipfile.ZipFile(path, 'w') as z:
        z.writestr(member := zipfile.ZipInfo('0/importance.x.npy'), packed_zeros(head, n))
        member.compress_type, member.file_size = zipfile.ZIP_DEFLATED, len(head) + n * 2**20
    assert path.stat().st_size < 3e6
    return path


RESULTS = {
    'answers': load_answers,
    'an answer': Answer.load,
    'scores of targets': TargetScores.load,
}


@pytest.mark.parametrize('name', RESULTS)
def test_results_that_unpack_to_gigabytes_are_refused(name, zeros):
    refused(zeros, 'bytes, more than', lambda: RESULTS[name](zeros), seconds=3)


# ---- tables in Parquet


def zero_lists(n_rows, n):
    "A column of lists, n things in each row, of structures of zeros"
    numbers = pa.StructArray.from_arrays([pa.array(np.zeros(n_rows * n))], ['x'])
    return pa.ListArray.from_arrays(pa.array(np.arange(n_rows + 1, dtype=np.int32) * n), numbers)


def targets_folder(path):
    "What is read first of a folder of targets"
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
    refused(file, "'more'", lambda: read_flights(root))


def test_a_wide_column_of_targets_is_refused(tmp_path):
    path = targets_folder(tmp_path / 'targets')
    columns = {k: pa.array([0]) for k in ('episode', 'start', 'split')} | {'more': zero_lists(1, 4 * 10**6)}
    pq.write_table(pa.table(columns), file := path / 'table.parquet', compression='zstd')
    refused(file, "'more'", lambda: load_targets(path))


@pytest.mark.parametrize('column', ['tasks', 'factor/wind'])
def test_a_wide_column_of_episodes_of_lerobot_is_refused(column, tmp_path):
    file = lerobot(root := tmp_path / 'set') / 'meta/episodes/chunk-000/file-000.parquet'
    pq.write_table(pq.read_table(file).append_column(column, zero_lists(1, 3 * 10**6)), file, compression='zstd')
    refused(file, repr(column), lambda: load_lerobot(root))


def test_a_pipe_for_a_table_of_targets_is_not_waited_for(tmp_path):
    path = targets_folder(tmp_path / 'targets')
    os.mkfifo(path / 'table.parquet')
    refused(path / 'table.parquet', 'not a regular file', lambda: load_targets(path))


# ---- folders of runs

KEY = '0123456789-0123456789'


def square(x: int = 0) -> list[dict]:
    return []


def run_folder(root, trials, names=()):
    "A sweep of trials (hash -> parameters), and a curve of one that is done"
    (root / 'grids').mkdir(parents=True)
    (place := root / 'trials' / KEY).mkdir(parents=True)
    (root / 'sweep.json').write_text(json.dumps(dict(layout=1, study='s', trial='m:t')))
    (root / 'grids/a.json').write_text(json.dumps(dict(asked=1.0, trials=trials)))
    done = dict(status='done', error='', started=1.7e9, ended=1.7e9, seconds=1.0, parameters={})
    (place / 'result.json').write_text(json.dumps(done))
    lines = ['step,total,name,value,time', *(f'1,10,{name},0.5,1700000000.000' for name in names)]
    (place / 'curve.csv').write_text('\n'.join(lines) + '\n')
    return root


def test_a_curve_of_20000_names_is_read_in_part(tmp_path):
    root = run_folder(tmp_path / 'out', [[KEY[:10], {}]], [f'n{i}' for i in range(20_000)])

    def read():
        runs = RunFolder(root)
        runs.refresh()
        assert runs.curves([KEY])['name'].nunique() == MAX_NAMES

    assert bounded(read) == ''


GRIDS = {
    'many trials': [[f'{i:010x}', {}] for i in range(1001)],
    'a parameter of its own for each trial': [[f'{i:010x}', {f'x{i}': i}] for i in range(3000)],
}


@pytest.mark.parametrize('name', GRIDS)
def test_a_grid_without_end_is_refused(name, tmp_path, monkeypatch):
    if name == 'many trials':
        monkeypatch.setattr('srlviz.core.jobs.runs.MAX_TRIALS', 1000)
    root = run_folder(tmp_path / 'out', GRIDS[name])

    def read():
        assert RunMonitor(root, watch=False, interactive=False).state == 'lost'
        runs = RunFolder(root)
        for _ in range(2):
            with pytest.raises(ValueError):
                runs.refresh()
        runs.refresh()

    refused(root / 'grids', f'{len(GRIDS[name]):,} trials', read)


def test_a_sweep_writes_no_folder_that_cannot_be_opened_again(tmp_path, monkeypatch):
    "Two grids of 600 trials each are 1,200"
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


def test_a_grid_may_be_large():
    check_grid([{}] * MAX_TRIALS, 'grids')
    check_grid([{f'x{i}': 0 for i in range(MAX_CELLS // 1000)}] * 1000, 'grids')
    with pytest.raises(ValueError):
        check_grid([{f'x{i}': 0 for i in range(MAX_CELLS // 1000 + 1)}] * 1000, 'grids')


def trial(x: int = 0, y: int = 0, z: int = 0):
    return []


def test_a_grid_without_end_is_not_begun():
    thousand = [*range(1000)]
    message = bounded(lambda: grid_trials(Study(trial), dict(x=thousand, y=thousand, z=thousand)), seconds=3)
    assert '1,000,000,000 trials' in message
