"""Sets of flights: killed, resumed, checked, and given bad input.

On a quick simulator of random walks, and once on the real one.
"""

import hashlib, json, os, pickle, random, resource, shutil, signal, subprocess, sys, time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

sys.path.insert(0, str(Path(__file__).parent))
from support import flights_simulator  # noqa: E402
from support.flights_simulator import QuickSimulator, make  # noqa: E402

from srlviz.core.files import checksum  # noqa: E402
from srlviz.core.storage import from_arrow  # noqa: E402
from srlviz.core.storage import row_cache  # noqa: E402
from srlviz.data.landing import (  # noqa: E402
    fleet,
    flight_columns,
    flight_table,
    generate_flights,
    growth,
    read_flights,
    verify_flights,
)
from srlviz.data.video import encode_film  # noqa: E402
from srlviz.studies.cli import main  # noqa: E402

MAKE = [sys.executable, Path(__file__).parent / 'support/flights_simulator.py']


def tree(folder):
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in Path(folder).rglob('*')
        if p.is_file() and p.parent.name != 'cache'
    }


@pytest.fixture(scope='module')
def sound(tmp_path_factory):
    "A set of 12 flights in three shards, made without disturbance"
    folder = tmp_path_factory.mktemp('flights') / 'sound'
    make(folder, 12)
    return folder


@pytest.fixture
def copy(sound, tmp_path):
    shutil.copytree(sound, tmp_path / 'set')
    return tmp_path / 'set'


# ---- made again, in whatever way


@pytest.mark.parametrize('workers', ['1', '2'])
def test_killed_five_times(sound, tmp_path, workers):
    out, rng, killed = tmp_path / 'set', random.Random(int(workers)), 0
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
        shutil.rmtree(out)  # done before the five: once more from the start
    assert tree(out) == tree(sound)
    assert verify_flights(out).empty


class Killed(BaseException):
    pass


class Steps:
    "So many calls of these functions may still be made, `left`; the next one is where the run is killed"

    def __init__(self, monkeypatch, *places):
        self.left = 10**9
        for owner, name in places:
            monkeypatch.setattr(owner, name, self.counted(getattr(owner, name)))

    def counted(self, do):
        def step(*args, **more):
            if not self.left:
                raise Killed
            self.left -= 1
            return do(*args, **more)

        return step


def test_killed_at_every_move(sound, tmp_path, monkeypatch):
    "Files come into being by a move; each run is stopped before its third, fourth, ... or tenth"
    rng, runs, steps = random.Random(0), 0, Steps(monkeypatch, (os, 'replace'))
    while True:
        steps.left, runs = rng.randint(3, 10), runs + 1
        try:
            make(tmp_path / 'set', 12)
            break
        except Killed:
            pass
    assert runs > 6 and tree(tmp_path / 'set') == tree(sound)


def test_workers_change_nothing(sound, tmp_path):
    make(tmp_path / 'two', 12, 2)
    assert tree(tmp_path / 'two') == tree(sound)


def test_full_disk_then_room(sound, tmp_path):
    "A limit on the size of files stands for a full disk"
    out = tmp_path / 'set'
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))
    r = subprocess.run([*MAKE, out, '12', '1'], stderr=subprocess.PIPE, text=True, preexec_fn=limit)
    assert r.returncode and 'OSError: cannot write to' in r.stderr and 'flights made so far are kept' in r.stderr
    subprocess.run([*MAKE, out, '12', '1'], check=True)
    assert tree(out) == tree(sound)


def test_full_disk_in_a_worker(tmp_path):
    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (9000, resource.RLIM_INFINITY))
    r = subprocess.run(
        [*MAKE, tmp_path / 'set', '12', '2'], stderr=subprocess.PIPE, text=True, preexec_fn=limit, timeout=120
    )
    assert r.returncode and 'OSError: cannot write to' in r.stderr and 'File too large' in r.stderr


def test_a_worker_that_dies(tmp_path):
    r = subprocess.run([*MAKE, tmp_path / 'set', '12', '2', 'killed'], stderr=subprocess.PIPE, text=True, timeout=120)
    assert r.returncode and 'a worker was killed' in r.stderr and 'the same call resumes' in r.stderr


def test_the_same_frames_give_the_same_bytes():
    "With x264's mbtree one film of this size in forty differs"
    simulator = QuickSimulator()
    film = simulator.fly(simulator.conditions(3_000_006), True, 32).obs['frame']
    assert len({encode_film(film) for _ in range(200)}) == 1


@pytest.mark.parametrize(
    'fault, told',
    [
        ('nan', 'flight_000000.*3000000.*7.*sim/c3.*nan'),
        ('column', 'flight_000000.*39.*40'),
    ],
)
@pytest.mark.parametrize('workers', [1, 2])
def test_a_world_that_errs(tmp_path, fault, told, workers):
    "Each of its flights fails; it is the first that is named, whichever fails first"
    with pytest.raises(ValueError, match=told):
        make(tmp_path / 'set', 2, workers, fault=fault)
    assert not (tmp_path / 'set' / 'meta' / 'info.json').exists()


# ---- a set that grows


@pytest.mark.parametrize('n', [3, 5, 7])
def test_a_set_grows_to_the_one_made_at_once(sound, tmp_path, n):
    "Shards have five flights: the last one is begun, full, or begun behind a full one"
    flights = make(tmp_path / 'set', n)
    before, splits = tree(tmp_path / 'set'), flights.split.tolist()
    grown = make(tmp_path / 'set', 12)
    assert tree(tmp_path / 'set') == tree(sound) and grown.split[:n].tolist() == splits
    kept = {k: v for k, v in before.items() if k.startswith('videos') or n == 5 and k.startswith('data')}
    assert len(kept) >= n and kept.items() <= tree(tmp_path / 'set').items()
    assert verify_flights(tmp_path / 'set').empty


def test_growing_is_killed_at_every_move(sound, tmp_path, monkeypatch):
    "The smaller set can be read until the larger is whole but for its tables; then the call goes on"
    out, rng, runs, read = tmp_path / 'set', random.Random(1), 0, 0
    make(out, 7)
    steps = Steps(monkeypatch, (os, 'replace'))
    while True:
        steps.left, runs = rng.randint(2, 12), runs + 1
        try:
            make(out, 12)
            break
        except Killed:
            if (out / 'meta' / 'info.json').exists():
                read += 1
                assert len(read_flights(out)) == 7 and 'grows to 12' in verify_flights(out)['fault'][0]
                assert len(flights_simulator.again(out, 7)) == 7  # the smaller one is opened, and nothing is lost
                with pytest.raises(ValueError, match='n=12.*9'):
                    make(out, 9)
    assert runs > 3 and read > 1 and tree(out) == tree(sound)


@pytest.fixture(scope='module')
def larger(tmp_path_factory):
    "Thirteen flights without film, made at once, and seven"
    here = tmp_path_factory.mktemp('larger')
    make(here / 'thirteen', 13, camera=False), make(here / 'seven', 7, camera=False)
    return here


@pytest.mark.parametrize('seed', range(3))
def test_killed_at_moves_and_removals_and_asked_for_more(larger, tmp_path, monkeypatch, seed):
    out, rng, runs = tmp_path / 'set', random.Random(seed), 0
    shutil.copytree(larger / 'seven', out)
    steps = Steps(monkeypatch, (os, 'replace'), (Path, 'unlink'))
    while True:
        steps.left, runs = rng.randint(5, 25), runs + 1
        try:
            make(out, 12 if runs < 8 else 13, camera=False)
            if runs >= 8:
                break
        except Killed:
            if (out / 'meta' / 'info.json').exists():
                assert len(read_flights(out)) in (7, 12, 13)
    assert tree(out) == tree(larger / 'thirteen')


@pytest.mark.parametrize(
    'begun, module, killed, then',
    [
        (7, fleet, 'reopen_set', [13]),
        (6, fleet, '_remove_parts', [13]),
        (7, growth, 'write_json', [12, 13]),
    ],
)
def test_a_killed_growth_asked_for_more(larger, tmp_path, monkeypatch, begun, module, killed, then):
    "After the last new shard; before what the making left is removed; between info.json and the request"
    out, real = tmp_path / 'set', getattr(module, killed)

    def kill(*args):
        if killed != 'write_json' or args[0].name == 'request.json':
            raise Killed
        real(*args)

    if begun == 7:
        shutil.copytree(larger / 'seven', out)
    monkeypatch.setattr(module, killed, kill)
    with pytest.raises(Killed):
        make(out, 12 if begun == 7 else begun, camera=False)
    monkeypatch.setattr(module, killed, real)
    if killed == 'write_json':
        with pytest.raises(ValueError, match='n=12.*7'):
            make(out, 7, camera=False)
    else:
        assert len(read_flights(out)) == begun
    for n in then:
        make(out, n, camera=False)
    assert tree(out) == tree(larger / 'thirteen') and verify_flights(out).empty


def test_a_damaged_growth_is_a_fault(larger, tmp_path):
    out = tmp_path / 'set'
    shutil.copytree(larger / 'seven', out)
    (out / 'parts').mkdir()
    (out / 'parts' / 'grows.json').write_text('{"n": ')
    assert verify_flights(out)['file'].tolist() == ['parts/grows.json']


@pytest.mark.parametrize('lost', ['field_of_view', 'group'])
def test_a_request_without_a_field_is_refused(larger, tmp_path, lost):
    out = tmp_path / 'set'
    shutil.copytree(larger / 'seven', out)
    asked = json.loads((out / 'meta' / 'request.json').read_text())
    del asked[lost]
    (out / 'meta' / 'request.json').write_text(json.dumps(asked))
    before = tree(out)
    with pytest.raises(ValueError, match=f'request.json.*{lost}'):
        make(out, 7, camera=False)
    assert tree(out) == before


def test_an_unfinished_set_is_asked_for_more(sound, tmp_path):
    with pytest.raises(OSError):
        make(tmp_path / 'set', 9, 2, 'killed')
    make(tmp_path / 'set', 12)
    assert tree(tmp_path / 'set') == tree(sound)


# ---- folders that hold something else


@pytest.mark.parametrize(
    'other, told',
    [
        (dict(seed=4), 'seed=3, not 4'),
        (dict(size=64), 'size=32, not 64'),
        (dict(camera=False), 'camera=True, not False'),
        (dict(n=11), 'n=12, not 11'),
        (dict(n=13, seed=4), 'seed=3, not 4'),
    ],
)
def test_another_set_is_refused(sound, other, told):
    before = tree(sound)
    with pytest.raises(ValueError, match=f'holds another set of flights .*{told}'):
        fleet._claim(sound, flights_simulator.request(QuickSimulator(), **(dict(n=12) | other)))
    assert tree(sound) == before


def test_a_folder_of_something_else(tmp_path):
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


def test_an_unfinished_set(tmp_path):
    with pytest.raises(ValueError):
        make(tmp_path / 'set', 2, fault='nan')
    with pytest.raises(ValueError):
        read_flights(tmp_path / 'set')
    (fault,) = verify_flights(tmp_path / 'set')['fault']
    assert 'unfinished' in fault
    (tmp_path / 'empty').mkdir()
    (fault,) = verify_flights(tmp_path / 'empty')['fault']
    assert 'is not a set of flights' in fault


# ---- films that a finished set has lost


def again(folder, workers=1):
    return flights_simulator.again(folder, 12, workers)


@pytest.mark.parametrize('workers', [1, 2])
def test_lost_films_are_made_again(sound, copy, workers):
    film = copy / 'videos' / 'front' / 'chunk-000'
    (film / 'flight_000003.mp4').unlink()
    (film / 'flight_000007.mp4').write_bytes(b'half')
    (film / 'flight_000011.mp4').write_bytes((film / 'flight_000011.mp4').read_bytes() + b'?')
    again(copy, workers)
    assert tree(copy) == tree(sound)
    shutil.rmtree(copy / 'videos')
    assert len(again(copy, workers)[4].obs['frame'][:3]) == 3 and tree(copy) == tree(sound)


def test_a_film_that_comes_out_otherwise(copy):
    "Of other packages, or another processor: it is not written"
    name = 'videos/front/chunk-000/flight_000003.mp4'
    info = json.loads((copy / 'meta' / 'info.json').read_text())
    info['files'][name][1] = '0' * 32
    info['packages']['av'] = '1.0'
    (copy / 'meta' / 'info.json').write_text(json.dumps(info))
    (copy / name).unlink()
    with pytest.raises(ValueError) as e:
        again(copy)
    for told in (
        'flight_000003.mp4 is missing; generated again from its seed 3000003, it has another checksum',
        'so it was not written. The set was made with av 1.0 (here ',
        'Restore the file',
    ):
        assert told in str(e.value)
    assert not (copy / name).exists()


@pytest.mark.parametrize(
    'name', ['data/chunk-000/file-001.parquet', 'meta/stats.json', 'meta/request.json', 'README.md']
)
@pytest.mark.parametrize('harm', [Path.unlink, lambda p: p.write_bytes(p.read_bytes() + b' ')], ids=['lost', 'changed'])
def test_nothing_else_is_made_again(copy, name, harm):
    (copy / 'videos' / 'front' / 'chunk-000' / 'flight_000003.mp4').unlink()
    harm(copy / name)
    before = tree(copy)
    with pytest.raises(ValueError, match=f'{name} is .*srlviz landings --verify'):
        again(copy)
    assert tree(copy) == before


def test_advice_for_a_film(copy):
    film = copy / 'videos' / 'front' / 'chunk-000' / 'flight_000003.mp4'
    film.write_bytes(film.read_bytes()[:1500])
    with pytest.raises(ValueError, match='flight_000003.mp4'):
        read_flights(copy)[3].obs['frame'][0]
    film.unlink()
    assert again(copy)[3].obs['frame'][0].any()


# ---- reading


def test_rows_and_frames(sound):
    flights = read_flights(sound)
    assert (len(flights), flights.hz, flights.meta['seed']) == (12, 5, 3)
    assert set(flights.split) <= {'fit', 'valid', 'probe', 'test'}
    for i, e in enumerate(flights):
        simulator = QuickSimulator()
        told = simulator.fly(simulator.conditions(3_000_000 + i), True, 32)
        np.testing.assert_array_equal(e.obs['sensors'], told.obs['sensors'])
        for k, v in told.factors.items():
            np.testing.assert_array_equal(e.factors[k], v)
            assert e.factors[k].dtype.kind == v.dtype.kind
        assert np.abs(np.asarray(e.obs['frame']).astype(int) - told.obs['frame']).mean() < 4
        assert len(e) == len(told) and e.ended == told.ended
    table = flight_table(flights['fit'])
    assert set(table['airport']) == {'KAAA'} and table['n_frames'].tolist() == flights['fit'].lengths.tolist()
    fit = np.concatenate([e.obs['sensors'] for e in flights['fit']]).astype(float)
    np.testing.assert_allclose(flight_columns(flights)['mean'], fit.mean(0))
    np.testing.assert_allclose(flight_columns(flights)['std'], fit.std(0))


def test_without_srlviz(sound):
    "Any reader of Parquet and mp4 will do"
    import av

    table = pq.read_table(sound / 'meta' / 'flights.parquet').to_pandas()
    rows = pq.read_table(sound / 'data' / 'chunk-000' / 'file-001.parquet')
    assert rows.schema.field('state').type == pa.list_(pa.float32(), 40)
    assert set(rows['flight_index'].to_pylist()) == set(range(5, 10))
    assert json.loads(rows.schema.metadata[b'PANDAS_ATTRS'])['state'] == [f'sim/c{i}' for i in range(40)]
    with av.open(str(sound / table['video'][6])) as film:
        assert sum(1 for _ in film.decode(video=0)) == table['n_frames'][6]


def test_no_camera(tmp_path):
    flights = make(tmp_path / 'set', 3, camera=False)
    assert [*flights[0].obs] == ['sensors']
    assert not (tmp_path / 'set' / 'videos').exists() and verify_flights(tmp_path / 'set').empty


@pytest.fixture
def mapped(copy, sound, monkeypatch):
    "A set that is too large for memory; one user reads all of them"
    monkeypatch.setattr(row_cache, '_SMALL', 0)
    shutil.rmtree(copy / 'cache', ignore_errors=True)
    monkeypatch.setenv('XDG_CACHE_HOME', str(sound.parent / 'user'))
    return copy


def test_cache(mapped, sound):
    plain, flights = read_flights(sound), read_flights(mapped)
    np.testing.assert_array_equal(flights[4].obs['sensors'], plain[4].obs['sensors'])
    (file,) = (mapped / 'cache').glob('*.npy')
    with pytest.raises(ValueError):
        flights[4].obs['sensors'][0, 0] = 1
    (mapped / 'data' / 'chunk-000' / 'file-000.parquet').unlink()
    np.testing.assert_array_equal(flights[4].obs['sensors'], plain[4].obs['sensors'])  # no longer from Parquet
    with pytest.raises(ValueError, match='file-000.parquet'):
        flights[3].obs['sensors']
    np.testing.assert_array_equal(np.load(file, mmap_mode='r')[flights.lengths[:4].sum()], plain[4].obs['sensors'][0])
    file.write_bytes(file.read_bytes()[:-1])  # half a cache is made anew
    shutil.copy(sound / 'data' / 'chunk-000' / 'file-000.parquet', mapped / 'data' / 'chunk-000')
    np.testing.assert_array_equal(read_flights(mapped)[3].obs['sensors'], plain[3].obs['sensors'])


def test_a_cache_that_somebody_replaces(mapped, sound):
    "Deleted while it is mapped, and made anew by another process: no row is read from a file that nobody fills"
    plain, flights = read_flights(sound), read_flights(mapped)

    def same(i):
        np.testing.assert_array_equal(flights[i].obs['sensors'], plain[i].obs['sensors'])

    same(0)
    next((mapped / 'cache').glob('*.npy')).unlink()
    read_flights(mapped)[1].obs['sensors']
    for i in (2, 2, 1, 0):
        same(i)
    (mapped / 'data' / 'chunk-000' / 'file-000.parquet').unlink()
    same(2)  # kept in the new one
    shutil.rmtree(mapped / 'cache')
    same(7)


def test_cache_elsewhere_or_nowhere(mapped, sound, monkeypatch):
    (mapped / 'cache').write_text('in the way')
    e = read_flights(mapped)[2]
    np.testing.assert_array_equal(e.obs['sensors'], read_flights(sound)[2].obs['sensors'])
    assert [*(sound.parent / 'user').rglob('state-*.npy')]
    monkeypatch.setenv('XDG_CACHE_HOME', str(mapped / 'cache'))
    with pytest.warns(UserWarning):
        assert (read_flights(mapped)[2].obs['sensors'] == e.obs['sensors']).all()


def test_cache_on_a_full_disk(mapped):
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
def test_windows_are_ours_to_change(mapped, sound):
    import torch

    for flights in read_flights(mapped), read_flights(sound):
        x, height = flights[2].obs['sensors'], flights[2].factors['height']
        for part in (x[5:30], x[:, 3], x[7], x[[3, 4]], x[..., :2], height[5:30], np.array(x), x.copy()):
            before = part.copy()
            torch.from_numpy(part).zero_()
            part[...] = 1
            assert before.any() and part.all()
        y = x.copy()
        y[:3][:] = 0  # what is not the cache is sliced as any array
        assert not y[:3].any() and x[:3].any() and read_flights(sound)[2].factors['height'].all()
        assert type(x + 1) is type(x[5:30]) is np.ndarray and not x.flags.writeable
        assert isinstance(x[3, 4], np.float32) and isinstance(x.sum(), np.float32)


def test_windows_are_quick(mapped):
    flights, rng = read_flights(mapped), np.random.default_rng(0)
    for e in flights:
        e.obs['sensors']
    windows = [(int(rng.integers(12)), int(rng.integers(0, 10)), int(rng.integers(25, 30))) for _ in range(300)]
    start = time.process_time()  # not the clock: others may be at work on the same machine
    for i, a, n in windows:
        flights[i].obs['sensors'][a : a + n]
    assert (time.process_time() - start) / 300 < 1e-3


def test_threads_and_processes(mapped):
    flights = read_flights(mapped)

    def look(i):
        return flights[i % 12].obs['sensors'][10:30].sum(), int(flights[i % 12].obs['frame'][10:30].sum())

    with ThreadPoolExecutor(8) as pool:
        many = [*pool.map(look, range(60))]
    assert many[:12] == [look(i) for i in range(12)] and many[12:24] == many[:12]
    again = pickle.loads(pickle.dumps(flights['fit']))
    assert again.lengths.tolist() == flights['fit'].lengths.tolist() and len(pickle.dumps(flights)) < 100_000
    assert again.fingerprint() == flights['fit'].fingerprint() != flights.fingerprint() and flights.cached() is flights


def test_cards(tmp_path):
    "What Hugging Face reads of a card, and the files that Croissant names, by their checksums"
    import yaml

    out = tmp_path / 'set'
    generate_flights(out, 2, camera=False, distance=700.0, progress=False)
    head = yaml.safe_load((text := (out / 'README.md').read_text()).split('---\n')[1])
    assert head['license'] == 'apache-2.0' and all([*out.glob(c['data_files'])] for c in head['configs'])
    for told in (
        'touchdown_g_side',
        'touchdown_sink',
        'tell_tale',
        'LGPL',
        '@misc{srlviz_landings',
        'autothrottle_enabled',
    ):
        assert told in text
    told = json.loads((out / 'croissant.json').read_text())
    for f in told['distribution']:
        name = f.get('contentUrl')
        assert name is None or hashlib.sha256((out / name).read_bytes()).hexdigest() == f['sha256']
        assert name or [*out.glob(f['includes'])]
    columns = {r['name']: {f['source']['extract']['column'] for f in r['field']} for r in told['recordSet']}
    rows = pq.read_schema(out / 'data/chunk-000/file-000.parquet').names
    assert columns['frames'] == {*rows} and columns['flights'] < {*pq.read_schema(out / 'meta/flights.parquet').names}


def test_croissant_is_valid(sound, tmp_path):
    "By the reader of MLCommons, which the lock does not have; it reads the tables that are described"
    croissant = pytest.importorskip('mlcroissant', reason='mlcroissant is not installed')
    made = croissant.Dataset(str(sound / 'croissant.json'))
    assert not made.metadata.ctx.issues.errors
    first = next(iter(made.records('frames')))
    assert len(first['frames/state']) == 40
    assert [r['flights/flight_index'] for r in made.records('flights')] == [*range(12)]


# ---- faults


def rewrite(folder, change, shard=1):
    "Write a shard anew with a change, row group by row group"
    path = folder / 'data' / 'chunk-000' / f'file-{shard:03}.parquet'
    with pq.ParquetFile(path) as f:
        groups = [change(k, f.read_row_group(k)) for k in range(f.num_row_groups)]
    with pq.ParquetWriter(path, groups[0].schema) as w:
        for t in groups:
            w.write_table(t, row_group_size=max(1, len(t)))


def bend(folder):
    "Let info.json agree with the files as they are, as if they had been made so"
    info = json.loads((folder / 'meta' / 'info.json').read_text())
    info['files'] = {k: [(folder / k).stat().st_size, checksum(folder / k)] for k in info['files']}
    (folder / 'meta' / 'info.json').write_text(json.dumps(info))


def state_of(table, f):
    x = f(from_arrow(table['state']).copy())
    column = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), x.shape[1])
    return table.set_column(table.column_names.index('state'), 'state', column)


def test_all_faults_at_once(copy, capsys):
    film = copy / 'videos' / 'front' / 'chunk-000'
    (film / 'flight_000000.mp4').write_bytes((film / 'flight_000000.mp4').read_bytes()[:1500])
    (film / 'flight_000003.mp4').unlink()
    shutil.copy(film / 'flight_000002.mp4', film / 'flight_000001.mp4')  # of another flight
    (film / 'stray.mp4').write_bytes(b'?')
    (copy / 'meta' / 'stats.json').unlink()

    def poison(k, t):
        def f(x):
            if k == 2:
                x[5, 7], x[6, 7], x[9, 8] = np.nan, np.nan, np.inf
            return x

        return state_of(t, f)

    rewrite(copy, poison)
    (copy / 'data' / 'chunk-000' / 'file-002.parquet').write_bytes(b'PAR1')
    faults = verify_flights(copy)
    text = '\n'.join(f'{f.file} [{f.flight}] {f.fault}' for f in faults.itertuples())
    for told in (
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
        assert told in text, told + '\n\n' + text
    assert main(['landings', '--verify', '--out', str(copy)]) == 1
    assert 'stray.mp4: does not belong' in capsys.readouterr().out


def test_verify_a_sound_set(sound, capsys):
    assert verify_flights(sound).empty
    assert main(['landings', '--verify', '--out', str(sound)]) == 0
    assert '12 flights, no faults' in capsys.readouterr().out


def test_truncated_files(copy):
    film = copy / 'videos' / 'front' / 'chunk-000' / 'flight_000000.mp4'
    film.write_bytes(film.read_bytes()[:1500])
    with pytest.raises(ValueError, match='flight_000000.mp4'):
        read_flights(copy)[0].obs['frame'][3]
    shard = copy / 'data' / 'chunk-000' / 'file-001.parquet'
    shard.write_bytes(shard.read_bytes()[:-100])
    with pytest.raises(ValueError, match='file-001.parquet'):
        read_flights(copy)
    bend(copy)
    with pytest.raises(ValueError, match='file-001.parquet'):
        read_flights(copy)[6].obs['sensors']


@pytest.mark.parametrize('name', ['info.json', 'flights.parquet', 'columns.csv', 'splits.json', 'stats.json'])
def test_missing_meta(copy, name):
    (copy / 'meta' / name).unlink()
    with pytest.raises(ValueError, match=name):
        read_flights(copy)
    assert name in '\n'.join(verify_flights(copy)['file'])


@pytest.mark.parametrize('name', ['info.json', 'flights.parquet', 'columns.csv', 'splits.json', 'stats.json'])
def test_damaged_meta(copy, name):
    (copy / 'meta' / name).write_bytes(b'{"half')
    with pytest.raises(ValueError, match=name):
        read_flights(copy)
    assert verify_flights(copy)['file'].tolist() == [f'meta/{name}']


def test_a_column_too_few(copy):
    rewrite(copy, lambda k, t: state_of(t, lambda x: np.ascontiguousarray(x[:, :-1])))
    bend(copy)
    with pytest.raises(ValueError, match='file-001.parquet.*39.*40'):
        read_flights(copy)[5].obs['sensors']
    assert 'state has 39 values per row, expected 40' in '\n'.join(verify_flights(copy)['fault'])


def test_a_label_too_few(copy):
    rewrite(copy, lambda k, t: t.drop_columns(['height']))
    bend(copy)
    with pytest.raises(ValueError, match='file-001.parquet.*height'):
        read_flights(copy)[5].factors['height']
    assert "has no column 'height'" in '\n'.join(verify_flights(copy)['fault'])


@pytest.mark.parametrize('value', [np.nan, np.inf])
def test_a_value_that_is_not_finite(copy, value):
    def f(x):
        x[4, 2] = value
        return x

    rewrite(copy, lambda k, t: state_of(t, f))
    bend(copy)
    with pytest.raises(ValueError, match=f"file-001.parquet: flight_000005, row 4, column 'sim/c2' is {value}"):
        read_flights(copy)[5].obs['sensors']


def test_frames_and_rows_differ(copy):
    rewrite(copy, lambda k, t: t.slice(0, len(t) - 2) if k == 1 else t)
    film = copy / 'videos' / 'front' / 'chunk-000'
    shutil.copy(film / 'flight_000002.mp4', film / 'flight_000001.mp4')
    bend(copy)
    with pytest.raises(ValueError, match='file-001.parquet.*1.*flights.parquet'):
        read_flights(copy)[6].obs['sensors']
    with pytest.raises(ValueError, match='flight_000001.mp4.*32.*32'):
        read_flights(copy)[1].obs['frame'][0]
    faults = '\n'.join(verify_flights(copy)['fault'])
    assert 'meta/flights.parquet says' in faults and 'its episode has' in faults


# ---- the real simulator


def test_command(tmp_path, capsys):
    out = str(tmp_path / 'set')
    assert main(f'landings --flights 2 --distance 1 --size 32 --out {out}'.split()) == 0
    assert capsys.readouterr().out.startswith('2 flights (')
    flights, (e, same) = read_flights(out), [fly_again(i) for i in range(2)]
    assert flights[0].obs['sensors'].shape[1] == 1090 and verify_flights(out).empty
    np.testing.assert_array_equal(flights[0].obs['sensors'], e.obs['sensors'])
    np.testing.assert_array_equal(flights[1].factors['along_track'], same.factors['along_track'])
    assert np.abs(np.asarray(flights[0].obs['frame']).astype(int) - e.obs['frame']).mean() < 8
    assert main(f'landings --flights 2 --distance 2 --size 32 --out {out}'.split()) == 2
    assert 'holds another set' in capsys.readouterr().err


def fly_again(i):
    from srlviz.envs.landing import fly

    return fly(i, size=32, distance=1852)


def test_arguments(tmp_path):
    for bad in (
        dict(n=0),
        dict(seed=-1),
        dict(size=18),
        dict(size=8),
        dict(field_of_view=5),
        dict(workers=0),
        dict(altitude=3),
    ):
        with pytest.raises((ValueError, TypeError)):
            generate_flights(tmp_path / 'set', progress=False, **(dict(n=1) | bad))
    assert not (tmp_path / 'set').exists()
