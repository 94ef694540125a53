"""Tests of generating, resuming, extending, reading and verifying sets of flights.

Most use a fast simulator of random walks; two use the flight simulator itself.
"""

import hashlib, json, os, pickle, random, resource, shutil, signal, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import flights_simulator
from support.flights_simulator import QuickSimulator, make

from srlviz.core.files import checksum
from srlviz.core.storage import from_arrow
from srlviz.core.storage import row_cache
from srlviz.data.landing import (
    fleet,
    flight_columns,
    flight_table,
    generate_flights,
    growth,
    read_flights,
    verify_flights,
)
from srlviz.core.storage.video import encode_film
from srlviz.studies.cli import main

MAKE = [sys.executable, Path(__file__).parent / 'support/flights_simulator.py']


def tree(folder):
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in Path(folder).rglob('*')
        if p.is_file() and p.parent.name != 'cache'
    }


@pytest.fixture(scope='module')
def reference(tmp_path_factory):
    "A set of 12 flights in three shards, generated in one run"
    folder = tmp_path_factory.mktemp('flights') / 'reference'
    make(folder, 12)
    return folder


@pytest.fixture
def copy(reference, tmp_path):
    shutil.copytree(reference, tmp_path / 'set')
    return tmp_path / 'set'


# ---- interrupted runs


@pytest.mark.parametrize('workers', [pytest.param('1', marks=pytest.mark.slow), '2'])
def test_set_survives_five_kills(reference, tmp_path, workers):
    out = tmp_path / 'set'
    rng = random.Random(int(workers))
    killed = 0
    while True:
        process = subprocess.Popen([*MAKE, out, '12', workers], stderr=subprocess.PIPE)
        try:
            process.wait(rng.uniform(0.9, 1.6) if killed < 5 else 120)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            killed += 1
            continue
        assert process.returncode == 0, process.stderr.read().decode()
        if killed >= 5:
            break
        shutil.rmtree(out)  # finished before the fifth kill: start again
    assert tree(out) == tree(reference)
    assert verify_flights(out).empty


class Killed(BaseException):
    pass


class Steps:
    "Wrap functions so that `left` more calls succeed and the next one raises Killed"

    def __init__(self, monkeypatch, *places):
        self.left = 10**9
        for owner, name in places:
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, function):
        def step(*args, **kwargs):
            if not self.left:
                raise Killed
            self.left -= 1
            return function(*args, **kwargs)

        return step


def test_set_survives_kills_before_renames(reference, tmp_path, monkeypatch):
    "Each file is created by a rename; each run is killed before one of its renames, from the fourth to the eleventh"
    rng = random.Random(0)
    steps = Steps(monkeypatch, (os, 'replace'))
    runs = 0
    while True:
        steps.left = rng.randint(3, 10)
        runs += 1
        try:
            make(tmp_path / 'set', 12)
            break
        except Killed:
            pass
    assert runs > 6 and tree(tmp_path / 'set') == tree(reference)


def test_number_of_workers_does_not_change_the_set(reference, tmp_path):
    make(tmp_path / 'two', 12, 2)
    assert tree(tmp_path / 'two') == tree(reference)


def limit_file_size():
    "Simulate a full disk by a limit on the size of files"
    resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))


def test_run_that_filled_the_disk_resumes(reference, tmp_path):
    out = tmp_path / 'set'
    process = subprocess.run([*MAKE, out, '12', '1'], stderr=subprocess.PIPE, text=True, preexec_fn=limit_file_size)
    assert process.returncode and 'OSError: cannot write to' in process.stderr
    assert 'flights made so far are kept' in process.stderr
    subprocess.run([*MAKE, out, '12', '1'], check=True)
    assert tree(out) == tree(reference)


def test_full_disk_in_a_worker_is_reported(tmp_path):
    command = [*MAKE, tmp_path / 'set', '12', '2']
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True, preexec_fn=limit_file_size, timeout=120)
    assert process.returncode and 'OSError: cannot write to' in process.stderr and 'File too large' in process.stderr


def test_killed_worker_is_reported(tmp_path):
    command = [*MAKE, tmp_path / 'set', '12', '2', 'killed']
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120)
    assert process.returncode and 'a worker was killed' in process.stderr
    assert 'the same call resumes' in process.stderr


def test_encoding_is_deterministic():
    "With x264's mbtree one video of this size in forty differs"
    simulator = QuickSimulator()
    film = simulator.fly(simulator.conditions(3_000_006), True, 32).obs['frame']
    assert len({encode_film(film) for _ in range(200)}) == 1


@pytest.mark.parametrize(
    'fault, message',
    [
        ('nan', 'flight_000000.*3000000.*7.*sim/c3.*nan'),
        ('column', 'flight_000000.*39.*40'),
    ],
)
@pytest.mark.parametrize('workers', [1, 2])
def test_error_names_the_first_invalid_flight(tmp_path, fault, message, workers):
    "Each flight is invalid; the error names the first of them, whichever is found first"
    with pytest.raises(ValueError, match=message):
        make(tmp_path / 'set', 2, workers, fault=fault)
    assert not (tmp_path / 'set' / 'meta' / 'info.json').exists()


# ---- sets that grow


@pytest.mark.parametrize('n', [3, 5, 7])
def test_grown_set_equals_one_generated_at_once(reference, tmp_path, n):
    "Shards have five flights: the last one of the smaller set is partial, full, or partial after a full one"
    flights = make(tmp_path / 'set', n)
    before = tree(tmp_path / 'set')
    splits = flights.split.tolist()
    grown = make(tmp_path / 'set', 12)
    assert tree(tmp_path / 'set') == tree(reference) and grown.split[:n].tolist() == splits
    kept = {k: v for k, v in before.items() if k.startswith('videos') or n == 5 and k.startswith('data')}
    assert len(kept) >= n and kept.items() <= tree(tmp_path / 'set').items()
    assert verify_flights(tmp_path / 'set').empty


def test_growth_survives_kills_before_renames(reference, tmp_path, monkeypatch):
    "The smaller set can be read until only the tables of the larger one are missing; after that the call resumes"
    out = tmp_path / 'set'
    rng = random.Random(1)
    make(out, 7)
    steps = Steps(monkeypatch, (os, 'replace'))
    runs = readings = 0
    while True:
        steps.left = rng.randint(2, 12)
        runs += 1
        try:
            make(out, 12)
            break
        except Killed:
            if (out / 'meta' / 'info.json').exists():
                readings += 1
                assert len(read_flights(out)) == 7 and 'grows to 12' in verify_flights(out)['fault'][0]
                assert len(flights_simulator.reopen(out, 7)) == 7  # opens the smaller set and loses nothing
                with pytest.raises(ValueError, match='n=12.*9'):
                    make(out, 9)
    assert runs > 3 and readings > 1 and tree(out) == tree(reference)


@pytest.fixture(scope='module')
def two_sizes(tmp_path_factory):
    "A folder with two sets without video, of 13 and of 7 flights, each generated at once"
    folder = tmp_path_factory.mktemp('two_sizes')
    make(folder / 'thirteen', 13, camera=False)
    make(folder / 'seven', 7, camera=False)
    return folder


@pytest.mark.parametrize('seed', range(3))
def test_growth_survives_kills_and_a_larger_request(two_sizes, tmp_path, monkeypatch, seed):
    "Each run is killed before a rename or a removal; after some runs the requested number rises from 12 to 13"
    out = tmp_path / 'set'
    rng = random.Random(seed)
    runs = 0
    shutil.copytree(two_sizes / 'seven', out)
    steps = Steps(monkeypatch, (os, 'replace'), (Path, 'unlink'))
    while True:
        steps.left = rng.randint(5, 25)
        runs += 1
        try:
            make(out, 12 if runs < 8 else 13, camera=False)
            if runs >= 8:
                break
        except Killed:
            if (out / 'meta' / 'info.json').exists():
                assert len(read_flights(out)) in (7, 12, 13)
    assert tree(out) == tree(two_sizes / 'thirteen')


@pytest.mark.parametrize(
    'n, module, killed, sizes',
    [
        (7, fleet, 'reopen_set', [13]),
        (6, fleet, '_remove_parts', [13]),
        (7, growth, 'write_json', [12, 13]),
    ],
)
def test_killed_growth_resumes_with_a_larger_request(two_sizes, tmp_path, monkeypatch, n, module, killed, sizes):
    "Killed after the last new shard, before parts/ is removed, and between writing info.json and the request"
    out = tmp_path / 'set'
    original = getattr(module, killed)

    def kill(*args):
        if killed != 'write_json' or args[0].name == 'request.json':
            raise Killed
        original(*args)

    if n == 7:
        shutil.copytree(two_sizes / 'seven', out)
    monkeypatch.setattr(module, killed, kill)
    with pytest.raises(Killed):
        make(out, 12 if n == 7 else n, camera=False)
    monkeypatch.setattr(module, killed, original)
    if killed == 'write_json':
        with pytest.raises(ValueError, match='n=12.*7'):
            make(out, 7, camera=False)
    else:
        assert len(read_flights(out)) == n
    for size in sizes:
        make(out, size, camera=False)
    assert tree(out) == tree(two_sizes / 'thirteen') and verify_flights(out).empty


def test_damaged_note_of_growth_is_listed(two_sizes, tmp_path):
    out = tmp_path / 'set'
    shutil.copytree(two_sizes / 'seven', out)
    (out / 'parts').mkdir()
    (out / 'parts' / 'grows.json').write_text('{"n": ')
    assert verify_flights(out)['file'].tolist() == ['parts/grows.json']


@pytest.mark.parametrize('field', ['field_of_view', 'group'])
def test_request_without_a_field_is_refused(two_sizes, tmp_path, field):
    out = tmp_path / 'set'
    shutil.copytree(two_sizes / 'seven', out)
    request = json.loads((out / 'meta' / 'request.json').read_text())
    del request[field]
    (out / 'meta' / 'request.json').write_text(json.dumps(request))
    before = tree(out)
    with pytest.raises(ValueError, match=f'request.json.*{field}'):
        make(out, 7, camera=False)
    assert tree(out) == before


def test_unfinished_set_resumes_with_a_larger_request(reference, tmp_path):
    with pytest.raises(OSError):
        make(tmp_path / 'set', 9, 2, 'killed')
    make(tmp_path / 'set', 12)
    assert tree(tmp_path / 'set') == tree(reference)


# ---- folders with other contents


@pytest.mark.parametrize(
    'changes, message',
    [
        (dict(seed=4), 'seed=3, not 4'),
        (dict(size=64), 'size=32, not 64'),
        (dict(camera=False), 'camera=True, not False'),
        (dict(n=11), 'n=12, not 11'),
        (dict(n=13, seed=4), 'seed=3, not 4'),
    ],
)
def test_set_of_another_request_is_refused(reference, changes, message):
    before = tree(reference)
    with pytest.raises(ValueError, match=f'holds another set of flights .*{message}'):
        fleet._claim(reference, flights_simulator.request(QuickSimulator(), **(dict(n=12) | changes)))
    assert tree(reference) == before


def test_folders_without_flights_are_refused(tmp_path):
    (tmp_path / 'diary.txt').write_text('dear')
    with pytest.raises(ValueError):
        make(tmp_path, 2)
    assert tree(tmp_path).keys() == {'diary.txt'}
    with pytest.raises(OSError):
        make(tmp_path / 'diary.txt', 2)
    with pytest.raises(OSError):
        make(tmp_path / 'diary.txt' / 'deeper', 2)
    with pytest.raises(ValueError, match='info.json'):
        read_flights(tmp_path)
    with pytest.raises(FileNotFoundError):
        read_flights(tmp_path / 'none')
    with pytest.raises(FileNotFoundError):
        verify_flights(tmp_path / 'none')


def test_unfinished_set_is_not_read(tmp_path):
    with pytest.raises(ValueError):
        make(tmp_path / 'set', 2, fault='nan')
    with pytest.raises(ValueError):
        read_flights(tmp_path / 'set')
    (fault,) = verify_flights(tmp_path / 'set')['fault']
    assert 'unfinished' in fault
    (tmp_path / 'empty').mkdir()
    (fault,) = verify_flights(tmp_path / 'empty')['fault']
    assert 'is not a set of flights' in fault


# ---- videos missing from a finished set


def reopen(folder, workers=1):
    return flights_simulator.reopen(folder, 12, workers)


@pytest.mark.parametrize('workers', [1, 2])
def test_missing_and_damaged_videos_are_restored(reference, copy, workers):
    videos = copy / 'videos' / 'front' / 'chunk-000'
    (videos / 'flight_000003.mp4').unlink()
    (videos / 'flight_000007.mp4').write_bytes(b'half')
    (videos / 'flight_000011.mp4').write_bytes((videos / 'flight_000011.mp4').read_bytes() + b'?')
    reopen(copy, workers)
    assert tree(copy) == tree(reference)
    shutil.rmtree(copy / 'videos')
    assert len(reopen(copy, workers)[4].obs['frame'][:3]) == 3 and tree(copy) == tree(reference)


def test_video_with_another_checksum_is_not_written(copy):
    "Other packages or another processor may encode other bytes"
    name = 'videos/front/chunk-000/flight_000003.mp4'
    info = json.loads((copy / 'meta' / 'info.json').read_text())
    info['files'][name][1] = '0' * 32
    info['packages']['av'] = '1.0'
    (copy / 'meta' / 'info.json').write_text(json.dumps(info))
    (copy / name).unlink()
    with pytest.raises(ValueError) as e:
        reopen(copy)
    for message in (
        'flight_000003.mp4 is missing; generated again from its seed 3000003, it has another checksum',
        'so it was not written. The set was made with av 1.0 (here ',
        'Restore the file',
    ):
        assert message in str(e.value)
    assert not (copy / name).exists()


@pytest.mark.parametrize(
    'name', ['data/chunk-000/file-001.parquet', 'meta/stats.json', 'meta/request.json', 'README.md']
)
@pytest.mark.parametrize(
    'damage', [Path.unlink, lambda p: p.write_bytes(p.read_bytes() + b' ')], ids=['missing', 'changed']
)
def test_only_videos_are_restored(copy, name, damage):
    (copy / 'videos' / 'front' / 'chunk-000' / 'flight_000003.mp4').unlink()
    damage(copy / name)
    before = tree(copy)
    with pytest.raises(ValueError, match=f'{name} is .*srlviz landings --verify'):
        reopen(copy)
    assert tree(copy) == before


def test_truncated_video_is_restored_after_its_removal(copy):
    video = copy / 'videos' / 'front' / 'chunk-000' / 'flight_000003.mp4'
    video.write_bytes(video.read_bytes()[:1500])
    with pytest.raises(ValueError, match='flight_000003.mp4'):
        read_flights(copy)[3].obs['frame'][0]
    video.unlink()
    assert reopen(copy)[3].obs['frame'][0].any()


# ---- reading


def test_read_flights_returns_the_simulated_flights(reference):
    flights = read_flights(reference)
    assert (len(flights), flights.hz, flights.meta['seed']) == (12, 5, 3)
    assert set(flights.split) <= {'fit', 'valid', 'probe', 'test'}
    for i, e in enumerate(flights):
        simulator = QuickSimulator()
        simulated = simulator.fly(simulator.conditions(3_000_000 + i), True, 32)
        np.testing.assert_array_equal(e.obs['sensors'], simulated.obs['sensors'])
        for k, v in simulated.factors.items():
            np.testing.assert_array_equal(e.factors[k], v)
            assert e.factors[k].dtype.kind == v.dtype.kind
        assert np.abs(np.asarray(e.obs['frame']).astype(int) - simulated.obs['frame']).mean() < 4
        assert len(e) == len(simulated) and e.ended == simulated.ended
    table = flight_table(flights['fit'])
    assert set(table['airport']) == {'KAAA'} and table['n_frames'].tolist() == flights['fit'].lengths.tolist()
    fit = np.concatenate([e.obs['sensors'] for e in flights['fit']]).astype(float)
    np.testing.assert_allclose(flight_columns(flights)['mean'], fit.mean(0))
    np.testing.assert_allclose(flight_columns(flights)['std'], fit.std(0))


def test_set_can_be_read_without_srlviz(reference):
    "Any reader of Parquet and MP4 is enough"
    import av

    table = pq.read_table(reference / 'meta' / 'flights.parquet').to_pandas()
    rows = pq.read_table(reference / 'data' / 'chunk-000' / 'file-001.parquet')
    assert rows.schema.field('state').type == pa.list_(pa.float32(), 40)
    assert set(rows['flight_index'].to_pylist()) == set(range(5, 10))
    assert json.loads(rows.schema.metadata[b'PANDAS_ATTRS'])['state'] == [f'sim/c{i}' for i in range(40)]
    with av.open(str(reference / table['video'][6])) as film:
        assert sum(1 for _ in film.decode(video=0)) == table['n_frames'][6]


def test_set_without_camera_has_no_videos(tmp_path):
    flights = make(tmp_path / 'set', 3, camera=False)
    assert [*flights[0].obs] == ['sensors']
    assert not (tmp_path / 'set' / 'videos').exists() and verify_flights(tmp_path / 'set').empty


@pytest.fixture
def mapped(copy, reference, monkeypatch):
    "A set that counts as too large for memory; all sets share the cache folder of one user"
    monkeypatch.setattr(row_cache, '_SMALL', 0)
    shutil.rmtree(copy / 'cache', ignore_errors=True)
    monkeypatch.setenv('XDG_CACHE_HOME', str(reference.parent / 'user'))
    return copy


def test_cached_rows_equal_the_rows_of_the_shards(mapped, reference):
    uncached, flights = read_flights(reference), read_flights(mapped)
    np.testing.assert_array_equal(flights[4].obs['sensors'], uncached[4].obs['sensors'])
    (file,) = (mapped / 'cache').glob('*.npy')
    with pytest.raises(ValueError):
        flights[4].obs['sensors'][0, 0] = 1
    (mapped / 'data' / 'chunk-000' / 'file-000.parquet').unlink()
    np.testing.assert_array_equal(flights[4].obs['sensors'], uncached[4].obs['sensors'])  # no longer from Parquet
    with pytest.raises(ValueError, match='file-000.parquet'):
        flights[3].obs['sensors']
    np.testing.assert_array_equal(
        np.load(file, mmap_mode='r')[flights.lengths[:4].sum()], uncached[4].obs['sensors'][0]
    )
    file.write_bytes(file.read_bytes()[:-1])  # a truncated cache is written again
    shutil.copy(reference / 'data' / 'chunk-000' / 'file-000.parquet', mapped / 'data' / 'chunk-000')
    np.testing.assert_array_equal(read_flights(mapped)[3].obs['sensors'], uncached[3].obs['sensors'])


def test_replaced_cache_is_not_read_unfilled(mapped, reference):
    "The cache is deleted while mapped, and another reader writes it again; no row is read from an unfilled file"
    uncached, flights = read_flights(reference), read_flights(mapped)

    def assert_equal_rows(i):
        np.testing.assert_array_equal(flights[i].obs['sensors'], uncached[i].obs['sensors'])

    assert_equal_rows(0)
    next((mapped / 'cache').glob('*.npy')).unlink()
    read_flights(mapped)[1].obs['sensors']
    for i in (2, 2, 1, 0):
        assert_equal_rows(i)
    (mapped / 'data' / 'chunk-000' / 'file-000.parquet').unlink()
    assert_equal_rows(2)  # cached in the new file
    shutil.rmtree(mapped / 'cache')
    assert_equal_rows(7)


def test_cache_falls_back_to_the_user_folder_or_memory(mapped, reference, monkeypatch):
    (mapped / 'cache').write_text('in the way')
    e = read_flights(mapped)[2]
    np.testing.assert_array_equal(e.obs['sensors'], read_flights(reference)[2].obs['sensors'])
    assert [*(reference.parent / 'user').rglob('state-*.npy')]
    monkeypatch.setenv('XDG_CACHE_HOME', str(mapped / 'cache'))
    with pytest.warns(UserWarning):
        assert (read_flights(mapped)[2].obs['sensors'] == e.obs['sensors']).all()


def test_full_disk_leaves_the_cache_correct(mapped):
    flights = read_flights(mapped)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = flights[0].obs['sensors'].copy()
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))
    try:
        with pytest.warns(UserWarning):
            assert np.isfinite(flights[1].obs['sensors']).all()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    np.testing.assert_array_equal(flights[0].obs['sensors'], before)


@pytest.mark.filterwarnings('error')
def test_windows_are_writable_copies(mapped, reference):
    import torch

    for flights in read_flights(mapped), read_flights(reference):
        x, height = flights[2].obs['sensors'], flights[2].factors['height']
        for part in (x[5:30], x[:, 3], x[7], x[[3, 4]], x[..., :2], height[5:30], np.array(x), x.copy()):
            before = part.copy()
            torch.from_numpy(part).zero_()
            part[...] = 1
            assert before.any() and part.all()
        y = x.copy()
        y[:3][:] = 0  # a copy of the cache is sliced as any array
        assert not y[:3].any() and x[:3].any() and read_flights(reference)[2].factors['height'].all()
        assert type(x + 1) is type(x[5:30]) is np.ndarray and not x.flags.writeable
        assert isinstance(x[3, 4], np.float32) and isinstance(x.sum(), np.float32)


def test_reading_a_cached_window_takes_less_than_a_millisecond(mapped):
    flights, rng = read_flights(mapped), np.random.default_rng(0)
    for e in flights:
        e.obs['sensors']
    windows = [(int(rng.integers(12)), int(rng.integers(0, 10)), int(rng.integers(25, 30))) for _ in range(300)]
    start = time.process_time()  # not wall time: the machine may be busy
    for i, a, n in windows:
        flights[i].obs['sensors'][a : a + n]
    assert (time.process_time() - start) / 300 < 1e-3


def test_flights_can_be_read_in_threads_and_pickled(mapped):
    flights = read_flights(mapped)

    def read(i):
        return flights[i % 12].obs['sensors'][10:30].sum(), int(flights[i % 12].obs['frame'][10:30].sum())

    with ThreadPoolExecutor(8) as pool:
        results = [*pool.map(read, range(60))]
    assert results[:12] == [read(i) for i in range(12)] and results[12:24] == results[:12]
    restored = pickle.loads(pickle.dumps(flights['fit']))
    assert restored.lengths.tolist() == flights['fit'].lengths.tolist() and len(pickle.dumps(flights)) < 100_000
    assert restored.fingerprint() == flights['fit'].fingerprint() != flights.fingerprint()
    assert flights.cached() is flights


def test_readme_and_croissant_describe_the_files(tmp_path):
    "The fields that Hugging Face reads from the dataset card, and the checksums of the files that Croissant names"
    import yaml

    out = tmp_path / 'set'
    generate_flights(out, 2, camera=False, distance=700.0, progress=False)
    text = (out / 'README.md').read_text()
    head = yaml.safe_load(text.split('---\n')[1])
    assert head['license'] == 'apache-2.0' and all([*out.glob(c['data_files'])] for c in head['configs'])
    for phrase in (
        'touchdown_g_side',
        'touchdown_sink',
        'tell_tale',
        'LGPL',
        '@misc{srlviz_landings',
        'autothrottle_enabled',
    ):
        assert phrase in text
    croissant = json.loads((out / 'croissant.json').read_text())
    for f in croissant['distribution']:
        name = f.get('contentUrl')
        assert name is None or hashlib.sha256((out / name).read_bytes()).hexdigest() == f['sha256']
        assert name or [*out.glob(f['includes'])]
    columns = {r['name']: {f['source']['extract']['column'] for f in r['field']} for r in croissant['recordSet']}
    rows = pq.read_schema(out / 'data/chunk-000/file-000.parquet').names
    assert columns['frames'] == {*rows} and columns['flights'] < {*pq.read_schema(out / 'meta/flights.parquet').names}


def test_croissant_is_valid(reference, tmp_path):
    "MLCommons' own reader, which is not in the lock file, reads the tables that are described"
    croissant = pytest.importorskip('mlcroissant', reason='mlcroissant is not installed')
    dataset = croissant.Dataset(str(reference / 'croissant.json'))
    assert not dataset.metadata.ctx.issues.errors
    first = next(iter(dataset.records('frames')))
    assert len(first['frames/state']) == 40
    assert [r['flights/flight_index'] for r in dataset.records('flights')] == [*range(12)]


# ---- faults


def rewrite(folder, change, shard=1):
    "Rewrite a shard with a change of each row group"
    path = folder / 'data' / 'chunk-000' / f'file-{shard:03}.parquet'
    with pq.ParquetFile(path) as f:
        groups = [change(k, f.read_row_group(k)) for k in range(f.num_row_groups)]
    with pq.ParquetWriter(path, groups[0].schema) as w:
        for t in groups:
            w.write_table(t, row_group_size=max(1, len(t)))


def update_checksums(folder):
    "Update sizes and checksums in info.json to the files as they are"
    info = json.loads((folder / 'meta' / 'info.json').read_text())
    info['files'] = {k: [(folder / k).stat().st_size, checksum(folder / k)] for k in info['files']}
    (folder / 'meta' / 'info.json').write_text(json.dumps(info))


def with_state(table, f):
    "Apply `f` to the sensors of a row group"
    x = f(from_arrow(table['state']).copy())
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])
    return table.set_column(table.column_names.index('state'), 'state', column)


def test_verify_lists_all_faults_at_once(copy, capsys):
    videos = copy / 'videos' / 'front' / 'chunk-000'
    (videos / 'flight_000000.mp4').write_bytes((videos / 'flight_000000.mp4').read_bytes()[:1500])
    (videos / 'flight_000003.mp4').unlink()
    shutil.copy(videos / 'flight_000002.mp4', videos / 'flight_000001.mp4')  # of another flight
    (videos / 'stray.mp4').write_bytes(b'?')
    (copy / 'meta' / 'stats.json').unlink()

    def add_invalid_values(k, t):
        def f(x):
            if k == 2:
                x[5, 7], x[6, 7], x[9, 8] = np.nan, np.nan, np.inf
            return x

        return with_state(t, f)

    rewrite(copy, add_invalid_values)
    (copy / 'data' / 'chunk-000' / 'file-002.parquet').write_bytes(b'PAR1')
    faults = verify_flights(copy)
    text = '\n'.join(f'{f.file} [{f.flight}] {f.fault}' for f in faults.itertuples())
    for message in (
        'flight_000000.mp4 [flight_000000] is truncated or changed: 1500 bytes',
        'flight_000003.mp4 [flight_000003] is missing',
        'flight_000001.mp4 [flight_000001] ',
        'stray.mp4 [] does not belong',
        'meta/stats.json [] is missing',
        'file-001.parquet [] is truncated or changed',
        "file-001.parquet [flight_000007] row 5 of the column 'sim/c7' is nan (2 rows are not finite)",
        "row 9 of the column 'sim/c8' is inf",
        'file-002.parquet [] is damaged, or not a shard of a set of flights',
    ):
        assert message in text, message + '\n\n' + text
    assert main(['landings', '--verify', '--out', str(copy)]) == 1
    assert 'stray.mp4: does not belong' in capsys.readouterr().out


def test_verify_finds_no_faults_in_a_valid_set(reference, capsys):
    assert verify_flights(reference).empty
    assert main(['landings', '--verify', '--out', str(reference)]) == 0
    assert '12 flights, no faults' in capsys.readouterr().out


def test_truncated_files_are_named(copy):
    video = copy / 'videos' / 'front' / 'chunk-000' / 'flight_000000.mp4'
    video.write_bytes(video.read_bytes()[:1500])
    with pytest.raises(ValueError, match='flight_000000.mp4'):
        read_flights(copy)[0].obs['frame'][3]
    shard = copy / 'data' / 'chunk-000' / 'file-001.parquet'
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(ValueError, match='file-001.parquet'):
        read_flights(copy)
    update_checksums(copy)
    with pytest.raises(ValueError, match='file-001.parquet'):
        read_flights(copy)[6].obs['sensors']


@pytest.mark.parametrize('name', ['info.json', 'flights.parquet', 'columns.csv', 'splits.json', 'stats.json'])
def test_missing_metadata_is_named(copy, name):
    (copy / 'meta' / name).unlink()
    with pytest.raises(ValueError, match=name):
        read_flights(copy)
    assert name in '\n'.join(verify_flights(copy)['file'])


@pytest.mark.parametrize('name', ['info.json', 'flights.parquet', 'columns.csv', 'splits.json', 'stats.json'])
def test_damaged_metadata_is_named(copy, name):
    (copy / 'meta' / name).write_bytes(b'{"half')
    with pytest.raises(ValueError, match=name):
        read_flights(copy)
    assert verify_flights(copy)['file'].tolist() == [f'meta/{name}']


def test_missing_sensor_column_is_named(copy):
    rewrite(copy, lambda k, t: with_state(t, lambda x: np.ascontiguousarray(x[:, :-1])))
    update_checksums(copy)
    with pytest.raises(ValueError, match='file-001.parquet.*39.*40'):
        read_flights(copy)[5].obs['sensors']
    assert 'state has 39 values per row, expected 40' in '\n'.join(verify_flights(copy)['fault'])


def test_missing_label_column_is_named(copy):
    rewrite(copy, lambda k, t: t.drop_columns(['height']))
    update_checksums(copy)
    with pytest.raises(ValueError, match='file-001.parquet.*height'):
        read_flights(copy)[5].factors['height']
    assert "has no column 'height'" in '\n'.join(verify_flights(copy)['fault'])


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_value_that_is_not_finite_is_named(copy, value):
    def set_value(x):
        x[4, 2] = value
        return x

    rewrite(copy, lambda k, t: with_state(t, set_value))
    update_checksums(copy)
    with pytest.raises(ValueError, match=f"file-001.parquet: flight_000005, row 4, column 'sim/c2' is {value}"):
        read_flights(copy)[5].obs['sensors']


def test_wrong_numbers_of_frames_and_rows_are_named(copy):
    rewrite(copy, lambda k, t: t.slice(0, len(t) - 2) if k == 1 else t)
    videos = copy / 'videos' / 'front' / 'chunk-000'
    shutil.copy(videos / 'flight_000002.mp4', videos / 'flight_000001.mp4')
    update_checksums(copy)
    with pytest.raises(ValueError, match='file-001.parquet.*1.*flights.parquet'):
        read_flights(copy)[6].obs['sensors']
    with pytest.raises(ValueError, match='flight_000001.mp4.*32.*32'):
        read_flights(copy)[1].obs['frame'][0]
    faults = '\n'.join(verify_flights(copy)['fault'])
    assert 'meta/flights.parquet says' in faults and 'its episode has' in faults


# ---- the real simulator


def test_landings_command_writes_the_flights_of_fly(tmp_path, capsys):
    out = str(tmp_path / 'set')
    assert main(f'landings --flights 2 --distance 0.5 --size 32 --out {out}'.split()) == 0
    assert capsys.readouterr().out.startswith('2 flights (')
    flights, (first, second) = read_flights(out), [fly_again(i) for i in range(2)]
    assert flights[0].obs['sensors'].shape[1] == 1090 and verify_flights(out).empty
    np.testing.assert_array_equal(flights[0].obs['sensors'], first.obs['sensors'])
    np.testing.assert_array_equal(flights[1].factors['along_track'], second.factors['along_track'])
    assert np.abs(np.asarray(flights[0].obs['frame']).astype(int) - first.obs['frame']).mean() < 8
    assert main(f'landings --flights 2 --distance 1 --size 32 --out {out}'.split()) == 2
    assert 'holds another set' in capsys.readouterr().err


def fly_again(i):
    from srlviz.envs.landing import fly

    return fly(i, size=32, distance=926)


def test_invalid_arguments_are_refused(tmp_path):
    for arguments in (
        dict(n=0),
        dict(seed=-1),
        dict(size=18),
        dict(size=8),
        dict(field_of_view=5),
        dict(workers=0),
        dict(altitude=3),
    ):
        with pytest.raises((ValueError, TypeError)):
            generate_flights(tmp_path / 'set', progress=False, **(dict(n=1) | arguments))
    assert not (tmp_path / 'set').exists()
