"""Tests of generating, resuming, extending, reading and verifying sets of flights.

Most use a fast simulator of random walks; two use the flight simulator itself.
"""

import hashlib, json, os, pickle, random, re, resource, shutil, signal, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from support import flights_simulator
from support.flights_simulator import QuickSimulator, make

from srlviz.core.files import checksum
from srlviz.core.storage import from_arrow, recording_folder, row_cache
from srlviz.data.landing import (
    fleet,
    flight_columns,
    flight_table,
    generate_flights,
    convert_flights,
    read_flights,
    verify_flights,
)
from srlviz.core.storage.video import encode_film
from srlviz.core.recordings import recording_contents
from srlviz.studies.cli import main
from srlviz.studies.load import load

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
    "Each file is created by a rename; each run is killed before its fourth rename or a later one; the last needs 13"
    rng = random.Random(0)
    steps = Steps(monkeypatch, (os, 'replace'))
    runs = 0
    while True:
        steps.left = rng.randint(3, 14)
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
    "Shards have about five flights: the smaller set has a part of one, one, or two"
    flights = make(tmp_path / 'set', n)
    before = tree(tmp_path / 'set')
    splits = flights.split.tolist()
    grown = make(tmp_path / 'set', 12)
    assert tree(tmp_path / 'set') == tree(reference) and grown.split[:n].tolist() == splits
    kept = {k: v for k, v in before.items() if k.startswith('frames')}
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
        steps.left = rng.randint(2, 33)
        runs += 1
        try:
            make(out, 12)
            break
        except Killed:
            if (out / 'meta' / 'info.json').exists():
                readings += 1
                assert len(read_flights(out)) == 7 and 'grows to 12' in verify_flights(out)['fault'].iloc[-1]
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
        steps.left = rng.randint(5, 60)
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
    'n, module, killed, is_whole',
    [
        (7, fleet, 'reopen_recording', True),
        (7, fleet, 'finish_flights', False),
        (6, recording_folder.shutil, 'rmtree', True),
    ],
)
def test_killed_growth_resumes_with_a_larger_request(two_sizes, tmp_path, monkeypatch, n, module, killed, is_whole):
    "Killed after the last new flight, after info.json was removed, and before partial/ is removed"
    out = tmp_path / 'set'
    original = getattr(module, killed)

    def kill(*args, **kwargs):
        if killed != 'rmtree' or Path(args[0]).name == 'partial':
            raise Killed
        original(*args, **kwargs)

    if n == 7:
        shutil.copytree(two_sizes / 'seven', out)
    with monkeypatch.context() as m, pytest.raises(Killed):
        m.setattr(module, killed, kill)
        make(out, 12 if n == 7 else n, camera=False)
    assert (out / 'partial').exists()
    if is_whole:
        assert len(read_flights(out)) == n
    else:
        with pytest.raises(ValueError, match='n=12.*7'):
            make(out, 7, camera=False)
    make(out, 13, camera=False)
    assert tree(out) == tree(two_sizes / 'thirteen') and verify_flights(out).empty


def test_parts_of_a_finished_set_are_removed(two_sizes, tmp_path, monkeypatch):
    out = tmp_path / 'set'
    shutil.copytree(two_sizes / 'seven', out)
    folder = fleet.FlightFolder(out)
    steps = Steps(monkeypatch, (Path, 'unlink'))
    steps.left = 7 * 2  # temporary files
    with pytest.raises(Killed):
        fleet.reopen_recording(folder)
    steps.left = 10**9
    assert len([*(out / 'partial').iterdir()]) == 14
    make(out, 7, camera=False)
    assert tree(out) == tree(two_sizes / 'seven')


def test_damaged_request_is_listed(two_sizes, tmp_path):
    out = tmp_path / 'set'
    shutil.copytree(two_sizes / 'seven', out)
    (out / 'meta' / 'request.json').write_text('{"n": ')
    assert verify_flights(out)['file'].tolist() == ['meta/request.json']


@pytest.mark.parametrize('field', ['field_of_view', 'packages'])
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
    videos = copy / 'frames' / 'frame'
    (videos / 'flight_000003.mp4').unlink()
    (videos / 'flight_000007.mp4').write_bytes(b'half')
    (videos / 'flight_000011.mp4').write_bytes((videos / 'flight_000011.mp4').read_bytes() + b'?')
    reopen(copy, workers)
    assert tree(copy) == tree(reference)
    shutil.rmtree(copy / 'frames')
    assert len(reopen(copy, workers)[4].obs['frame'][:3]) == 3 and tree(copy) == tree(reference)


def test_video_with_another_checksum_is_not_written(copy):
    "Other packages or another processor may encode other bytes"
    name = 'frames/frame/flight_000003.mp4'
    info = json.loads((copy / 'meta' / 'info.json').read_text())
    info['files'][name][1] = '0' * 32
    info['meta']['packages']['av'] = '1.0'
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


@pytest.mark.parametrize('name', ['steps/001.parquet', 'meta/stats.json', 'meta/flights.parquet', 'README.md'])
@pytest.mark.parametrize(
    'damage', [Path.unlink, lambda p: p.write_bytes(p.read_bytes() + b' ')], ids=['missing', 'changed']
)
def test_only_videos_are_restored(copy, name, damage):
    (copy / 'frames' / 'frame' / 'flight_000003.mp4').unlink()
    damage(copy / name)
    before = tree(copy)
    with pytest.raises(ValueError, match=f'{name} is .*srlviz landings --verify'):
        reopen(copy)
    assert tree(copy) == before


def test_truncated_video_is_restored_after_its_removal(copy):
    video = copy / 'frames' / 'frame' / 'flight_000003.mp4'
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

    table = pq.read_table(reference / 'episodes.parquet').to_pandas()
    rows = pq.read_table(reference / 'steps' / f"{table['shard'][6]:03}.parquet")
    assert rows.schema.field('obs.sensors').type == pa.list_(pa.float32(), 40)
    assert len(rows) == table['length'][table['shard'] == table['shard'][6]].sum() and table['shard'].nunique() > 2
    with av.open(str(reference / 'frames' / 'frame' / f"{table['key'][6]}.mp4")) as film:
        assert sum(1 for _ in film.decode(video=0)) == table['length'][6]


def test_set_without_camera_has_no_videos(tmp_path):
    flights = make(tmp_path / 'set', 3, camera=False)
    assert [*flights[0].obs] == ['sensors']
    assert not (tmp_path / 'set' / 'frames').exists() and verify_flights(tmp_path / 'set').empty


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
    (mapped / 'steps' / '000.parquet').unlink()
    np.testing.assert_array_equal(flights[4].obs['sensors'], uncached[4].obs['sensors'])  # no longer from Parquet
    with pytest.raises(FileNotFoundError, match='000.parquet'):
        flights[0].obs['sensors']
    np.testing.assert_array_equal(
        np.load(file, mmap_mode='r')[flights.lengths[:4].sum()], uncached[4].obs['sensors'][0]
    )
    file.write_bytes(file.read_bytes()[:-1])  # a truncated cache is written again
    shutil.copy(reference / 'steps' / '000.parquet', mapped / 'steps')
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
    (mapped / 'steps' / '000.parquet').unlink()
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
    rows = pq.read_schema(out / 'steps/000.parquet').names
    assert columns['frames'] == {*rows} and columns['flights'] == {*pq.read_schema(out / 'episodes.parquet').names}


def test_croissant_is_valid(reference, tmp_path):
    "MLCommons' own reader, which is not in the lock file, reads the tables that are described"
    croissant = pytest.importorskip('mlcroissant', reason='mlcroissant is not installed')
    dataset = croissant.Dataset(str(reference / 'croissant.json'))
    assert not dataset.metadata.ctx.issues.errors
    first = next(iter(dataset.records('frames')))
    assert len(first['frames/obs.sensors']) == 40
    assert [r['flights/key'] for r in dataset.records('flights')] == [f'flight_{i:06}'.encode() for i in range(12)]


# ---- faults


SHARD = 'steps/001.parquet'


def rewrite(folder, change):
    "Rewrite a shard with a change of its table"
    table = pq.read_table(folder / SHARD)
    pq.write_table(change(table), folder / SHARD, row_group_size=128)


def first_row(folder, flight):
    "The first row of a flight in its shard, which is that of `rewrite`"
    row = pd.read_parquet(folder / 'episodes.parquet').iloc[flight]
    assert row['shard'] == 1
    return row['row']


def update_checksums(folder, missing=False):
    "Update sizes and checksums in info.json to the files as they are; `missing` forgets those that are not there"
    info = json.loads((folder / 'meta' / 'info.json').read_text())
    files = [k for k in info['files'] if not missing or (folder / k).exists() or k.startswith('frames')]
    kept = {k: info['files'][k] for k in files if not (folder / k).exists()}
    info['files'] = kept | {k: [(folder / k).stat().st_size, checksum(folder / k)] for k in files if k not in kept}
    (folder / 'meta' / 'info.json').write_text(json.dumps(info))


def with_sensors(table, f):
    "Apply `f` to the sensors of a shard"
    x = f(from_arrow(table['obs.sensors']).copy())
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])
    return table.set_column(table.column_names.index('obs.sensors'), 'obs.sensors', column)


def faults_text(folder):
    return '\n'.join(f'{f.file} [{f.flight}] {f.fault}' for f in verify_flights(folder).itertuples())


def test_verify_lists_all_faults_at_once(copy, capsys):
    videos = copy / 'frames' / 'frame'
    (videos / 'flight_000000.mp4').write_bytes((videos / 'flight_000000.mp4').read_bytes()[:1500])
    (videos / 'flight_000003.mp4').unlink()
    shutil.copy(videos / 'flight_000002.mp4', videos / 'flight_000001.mp4')  # of another flight
    (videos / 'stray.mp4').write_bytes(b'?')
    row = first_row(copy, 7)

    def add_invalid_values(x):
        x[row + 5, 7], x[row + 6, 7], x[row + 9, 8] = np.nan, np.nan, np.inf
        return x

    rewrite(copy, lambda t: with_sensors(t, add_invalid_values))
    info = json.loads((copy / 'meta' / 'info.json').read_text())
    info['files'][SHARD][0] = (copy / SHARD).stat().st_size
    (copy / 'meta' / 'info.json').write_text(json.dumps(info))
    text = faults_text(copy)
    for message in (
        'flight_000000.mp4 [flight_000000] is truncated or changed: 1500 bytes',
        'flight_000003.mp4 [flight_000003] is missing',
        'flight_000001.mp4 [flight_000001] ',
        'stray.mp4 [] does not belong',
        'steps/001.parquet [] has changed: its checksum',
        "steps/001.parquet [flight_000007] flight_000007, row 5, column 'sim/c7' is nan, not finite",
    ):
        assert message in text, message + '\n\n' + text
    assert main(['landings', '--verify', '--out', str(copy)]) == 1
    assert 'stray.mp4: does not belong' in capsys.readouterr().out


def test_verify_lists_the_faults_of_all_files_of_a_set_that_cannot_be_opened(copy):
    (copy / 'frames' / 'frame' / 'flight_000003.mp4').unlink()
    (copy / 'meta' / 'stats.json').unlink()
    (copy / 'steps' / '001.parquet').write_bytes(b'PAR1')
    text = faults_text(copy)
    for message in (
        'flight_000003.mp4 [flight_000003] is missing',
        'meta/stats.json [] is missing',
        'steps/001.parquet [] is truncated or changed: 4 bytes',
    ):
        assert message in text, message + '\n\n' + text
    update_checksums(shutil.copytree(copy, copy.parent / 'signed'), missing=True)
    assert 'steps/001.parquet [] is damaged, or not a table of steps' in faults_text(copy.parent / 'signed')


def test_verify_finds_no_faults_in_a_valid_set(reference, capsys):
    assert verify_flights(reference).empty
    assert main(['landings', '--verify', '--out', str(reference)]) == 0
    assert '12 flights, no faults' in capsys.readouterr().out


def test_truncated_files_are_named(copy):
    video = copy / 'frames' / 'frame' / 'flight_000000.mp4'
    video.write_bytes(video.read_bytes()[:1500])
    with pytest.raises(ValueError, match='flight_000000.mp4'):
        read_flights(copy)[0].obs['frame'][3]
    (copy / SHARD).write_bytes((copy / SHARD).read_bytes()[:-100])
    with pytest.raises(ValueError, match=SHARD):
        read_flights(copy)
    update_checksums(copy)
    with pytest.raises(ValueError, match=SHARD):
        read_flights(copy)


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
    rewrite(copy, lambda t: with_sensors(t, lambda x: np.ascontiguousarray(x[:, :-1])))
    update_checksums(copy)
    with pytest.raises(ValueError, match=f'{SHARD}.*obs.sensors.*39.*40'):
        read_flights(copy)
    assert verify_flights(copy)['file'].tolist() == [SHARD]


def test_missing_label_column_is_named(copy):
    rewrite(copy, lambda t: t.drop_columns(['factor.height']))
    update_checksums(copy)
    with pytest.raises(ValueError, match=f'{SHARD}.*height'):
        read_flights(copy)
    assert verify_flights(copy)['file'].tolist() == [SHARD]


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_value_that_is_not_finite_is_named(copy, value):
    row = first_row(copy, 6)

    def set_value(x):
        x[row + 4, 2] = value
        return x

    rewrite(copy, lambda t: with_sensors(t, set_value))
    update_checksums(copy)
    with pytest.raises(ValueError, match=f"{SHARD}: flight_000006, row 4, column 'sim/c2' is {value}"):
        read_flights(copy)[6].obs['sensors']


def test_wrong_numbers_of_frames_and_rows_are_named(copy):
    videos = copy / 'frames' / 'frame'
    shutil.copy(videos / 'flight_000002.mp4', videos / 'flight_000001.mp4')
    update_checksums(copy)
    with pytest.raises(ValueError, match='flight_000001.mp4.*32.*32'):
        read_flights(copy)[1].obs['frame'][0]
    assert 'its episode has' in faults_text(copy)
    rewrite(copy, lambda t: t.slice(0, len(t) - 2))
    update_checksums(copy)
    with pytest.raises(ValueError, match=f'{SHARD} has .* rows for the episode .*episodes.parquet says'):
        read_flights(copy)
    assert f'{SHARD} [] has' in faults_text(copy)


# ---- sets of 0.2.0

OLD = Path(__file__).parent / 'support' / 'flights_0_2_0'


@pytest.mark.parametrize('name, n, camera', [('filmed', 7, True), ('sensors', 2, False)])
def test_a_set_of_0_2_0_is_converted_to_the_last_bit(tmp_path, capsys, name, n, camera):
    "Its rows, tables and videos are those of the same flights made now, but for the meta of the old request"
    old, new = OLD / name, tmp_path / 'new'
    for reader in read_flights, load:
        with pytest.raises(ValueError, match=f'landings --convert .*{name} --out NEW'):
            reader(old)
    assert main(['landings', '--convert', str(old), '--out', str(new)]) == 0
    assert f'{n} flights' in capsys.readouterr().out and verify_flights(new).empty
    made = make(tmp_path / 'made', n, camera=camera)
    converted = read_flights(new)
    assert recording_contents(made) == recording_contents(converted) and len(converted) == n
    assert flight_table(made).equals(flight_table(converted)) and made.split.tolist() == converted.split.tolist()
    pd.testing.assert_frame_equal(flight_columns(made), flight_columns(converted), rtol=1e-12)
    facts = ['name', 'group', 'kind', 'unit']
    assert made.factor_table[facts].equals(converted.factor_table[facts])
    same = {k: v for k, v in tree(tmp_path / 'made').items() if k.startswith(('frames', 'steps', 'episodes'))}
    assert len(same) > 1 and same.items() <= tree(new).items()
    conditions = [pq.read_table(folder / 'meta' / 'flights.parquet') for folder in (new, tmp_path / 'made')]
    assert conditions[0].equals(conditions[1])
    with pytest.raises(FileExistsError):
        convert_flights(old, new)


def test_a_converted_set_grows(tmp_path):
    convert_flights(OLD / 'filmed', tmp_path / 'set')
    request = json.loads((tmp_path / 'set' / 'meta' / 'request.json').read_text())
    request['packages'] = flights_simulator.request(QuickSimulator(), 7)['packages']  # as if nothing had changed
    (tmp_path / 'set' / 'meta' / 'request.json').write_text(json.dumps(request))
    assert len(make(tmp_path / 'set', 9)) == 9
    make(tmp_path / 'nine', 9)
    assert tree(tmp_path / 'set') == tree(tmp_path / 'nine')


FORGED = {
    'another size': lambda f: (f / 'meta/columns.csv').write_text('name\n'),
    'rows of another flight': lambda f: change_old(f, lambda rows: rows[1].update(row_offset=0)),
    'rows outside of the set': lambda f: change_old(f, lambda rows: rows[0].update(data='../x.parquet')),
    'a video outside of the set': lambda f: change_old(f, lambda rows: rows[0].update(video='../x.mp4')),
    'a video of another flight': lambda f: change_old(f, lambda rows: rows[0].update(video=rows[1]['video'])),
    'a flight of a billion rows': lambda f: change_old(f, lambda rows: rows[6].update(n_frames=10**9)),
    'an unknown split': lambda f: change_old(f, lambda rows: rows[0].update(split='moon')),
    'an empty cell': lambda f: change_old(f, lambda rows: rows[0].update(touchdown_g=None)),
    'a factor as text': lambda f: change_old(f, lambda rows: [r.update(touchdown_g='hard') for r in rows]),
    'a factor too few': lambda f: change_old(f, lambda rows: [r.pop('outcome') for r in rows]),
    'a label that is not finite': lambda f: change_old_rows(f, 'height', np.nan),
    'another time': lambda f: change_old_rows(f, 'timestamp', 99),
    'an unknown end': lambda f: change_old(f, lambda rows: rows[0].update(ended='moon')),
    'an unknown type': lambda f: change_old_info(f, lambda info: info['factors'][0].update(dtype='object')),
    'a billion columns': lambda f: change_old_info(f, lambda info: info.update(n_columns=10**9)),
    'a file outside of the set': lambda f: change_old_info(
        f, lambda info: info['files'].update({'../x': [1, '0' * 32]})
    ),
    'no request': lambda f: change_old_info(f, lambda info: info['files'].pop('meta/request.json')),
    'a link': lambda f: ((f / 'README.md').unlink(), (f / 'README.md').symlink_to(f / 'meta/columns.csv')),
}


def change_old_info(folder, change):
    info = json.loads((folder / 'meta' / 'info.json').read_text())
    change(info)
    (folder / 'meta' / 'info.json').write_text(json.dumps(info))


def change_old_rows(folder, name, value):
    path = folder / 'data' / 'chunk-000' / 'file-001.parquet'
    table = pq.read_table(path)
    x = table[name].to_numpy().copy()
    x[4] = value
    pq.write_table(table.set_column(table.column_names.index(name), name, pa.array(x)), path)
    update_checksums(folder)


def change_old(folder, change):
    path = folder / 'meta' / 'flights.parquet'
    rows = pq.read_table(path).to_pylist()
    change(rows)
    pq.write_table(pa.Table.from_pylist(rows), path)
    update_checksums(folder)


@pytest.mark.parametrize('attack', FORGED)
def test_forged_sets_of_0_2_0_are_refused(tmp_path, attack):
    old = Path(shutil.copytree(OLD / 'filmed', tmp_path / 'old'))
    (tmp_path / 'x.parquet').write_bytes(b'PAR1')
    FORGED[attack](old)
    with pytest.raises(ValueError, match=re.escape(str(old))):
        convert_flights(old, tmp_path / 'new')
    assert not (tmp_path / 'new').exists()


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
