"""Tests of reading, verifying and repairing untrusted sets of flights.

No file outside a set is read or changed, no content is used unchecked, nothing hangs, and verify_flights lists faults
instead of raising.
"""

import hashlib, io, json, os, re, resource, shutil, signal, struct, zlib
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from support import flights_simulator
from support.flights_simulator import QuickSimulator, make

from srlviz.core.files import checksum
from srlviz.core.storage import from_arrow, is_finished, write_episode
from srlviz.core.views.windows import windows
from srlviz.core.storage import row_cache
from srlviz.data.landing import (
    export_published,
    fleet,
    read_flights,
    read_published,
    verify_flights,
)
from srlviz.core.storage.video import encode_film
from srlviz.data.landing.simulator import make_flight
from srlviz.studies.run import run_study

SAMPLE = Path(__file__).parents[1] / 'data_samples' / 'landings'
SHARD, FILM = 'steps/000.parquet', 'frames/frame/flight_000003.mp4'


@pytest.fixture
def flights(tmp_path):
    "A copy of the sample that a test may change"
    return Path(shutil.copytree(SAMPLE, tmp_path / 'set', ignore=shutil.ignore_patterns('cache')))


@pytest.fixture(autouse=True)
def time_limit():
    "Fail a test that hangs"

    def fail(*_):
        raise AssertionError('the test hangs')

    previous = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, previous)


@pytest.fixture
def victim(tmp_path):
    "A folder outside the set, which no test may change"
    (tmp_path / 'victim').mkdir()
    (tmp_path / 'victim' / 'thesis.tex').write_text('years of work')
    (tmp_path / 'victim' / 'state-0123456789abcdef.npy').write_text('another cache')
    before = tree(tmp_path / 'victim')
    yield tmp_path / 'victim'
    assert tree(tmp_path / 'victim') == before


def tree(folder):
    return {
        p.relative_to(folder).as_posix(): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(Path(folder).rglob('*'))
        if p.is_file()
    }


def info_of(folder):
    return json.loads((folder / 'meta' / 'info.json').read_text())


def change_info(folder, **fields):
    (folder / 'meta' / 'info.json').write_text(json.dumps(info_of(folder) | fields))


def update_checksums(folder):
    "Update sizes and checksums in info.json to the files as they are, as an attacker can"
    files = {k: [(folder / k).stat().st_size, checksum(folder / k)] for k in info_of(folder)['files']}
    change_info(folder, files=files)


def change_table(folder, name, change):
    "Change the rows of a Parquet table, given as dicts, and update the checksums"
    rows = pq.read_table(folder / name).to_pylist()
    rows = change(rows) or rows
    pq.write_table(pa.Table.from_pylist(rows), folder / name)
    update_checksums(folder)


def change_shard(folder, change):
    "Change the table of the shard, and update the checksums"
    table = change(pq.read_table(folder / SHARD))
    pq.write_table(table, folder / SHARD, row_group_size=128, use_dictionary=False)
    update_checksums(folder)


def exchange(a, b, name):
    "Exchange a value of two rows of a table"
    a[name], b[name] = b[name], a[name]


def read_all(folder):
    "Read a part of every array of a set"
    for e in read_flights(folder):
        e.obs['sensors'][:1], e.obs['frame'][:1]
        for v in e.factors.values():
            np.asarray(v)


def assert_refused(folder, file, message=None, reads=True):
    "Assert that reading raises a ValueError which names the file, and that verify_flights lists the file"
    if reads:
        with pytest.raises(ValueError, match=message) as e:
            read_all(folder)
        assert file in str(e.value)
    faults = verify_flights(folder)
    assert file in faults['file'].tolist(), faults.to_string()


def test_the_sample_has_no_faults(flights):
    read_all(flights)
    assert verify_flights(flights).empty


def test_windows_are_parts_of_their_flights(flights):
    whole = read_flights(flights)
    all_windows = windows(whole, 30)
    for i in np.random.default_rng(0).integers(0, len(all_windows), 40).tolist():
        w, e, start = all_windows[i], whole[int(all_windows.origin[0].episode[i])], int(all_windows.origin[0].start[i])
        assert w.obs['sensors'].tobytes() == e.obs['sensors'][start : start + 30].tobytes()
        for k, v in w.factors.items():
            expected = e.factors[k][start : start + 30] if e.factors[k].ndim else e.factors[k]
            assert np.asarray(v).tobytes() == np.asarray(expected).tobytes()


# ---- paths


@pytest.mark.parametrize(
    'name',
    [
        '../victim/thesis.tex',
        '{victim}/thesis.tex',
        'frames/../../victim/thesis.tex',
        'frames/frame/../x.mp4',
        'frames//x.mp4',
        '',
        'a\nb',
        'C:\\x',
    ],
)
def test_unsafe_file_names_are_refused(flights, victim, name):
    name = name.format(victim=victim)
    size = (flights / name).stat().st_size if (flights / name).is_file() else 1
    change_info(flights, files=info_of(flights)['files'] | {name: [size, '0' * 32]})
    with pytest.raises(ValueError, match=f'{re.escape(str(flights))}: each part of the file name'):
        read_all(flights)
    assert 'meta/info.json' in verify_flights(flights)['file'].tolist()


@pytest.mark.parametrize('key', ['../other', 'a/b', '..', ''])
def test_rows_and_videos_are_not_read_from_outside_the_set(flights, tmp_path, key):
    "Their names follow from the key of a flight and the number of a shard"
    shutil.copy(flights / FILM, tmp_path / 'other.mp4')
    change_table(flights, 'episodes.parquet', lambda rows: rows[3].update(key=key))
    assert_refused(flights, 'episodes.parquet', 'episode key')


def test_a_flight_of_another_name_is_refused(flights):
    "The name says the seed, from which a lost video is made again"
    shutil.move(flights / FILM, flights / 'frames/frame/mine.mp4')
    files = {k.replace(FILM, 'frames/frame/mine.mp4'): v for k, v in info_of(flights)['files'].items()}
    change_info(flights, files=files)
    splits = json.loads((flights / 'meta/splits.json').read_text())
    splits = {k: [x.replace('flight_000003', 'mine') for x in v] for k, v in splits.items()}
    (flights / 'meta/splits.json').write_text(json.dumps(splits))
    change_table(flights, 'episodes.parquet', lambda rows: rows[3].update(key='mine'))
    assert_refused(flights, 'episodes.parquet', "flight 3 is called 'mine'")


@pytest.mark.parametrize(
    'name',
    [
        'meta',
        'steps',
        SHARD,
        'frames',
        'frames/frame',
        FILM,
        'episodes.parquet',
        'meta/columns.csv',
        'meta/stats.json',
        'README.md',
    ],
)
def test_links_inside_the_set_are_refused(flights, tmp_path, name):
    os.rename(flights / name, tmp_path / 'elsewhere')
    (flights / name).symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(ValueError, match=f'{re.escape(str(flights / name))} is a symbolic link'):
        read_all(flights)
    faults = verify_flights(flights)
    assert faults['file'].iloc[-1] == name and faults['fault'].str.contains('is a symbolic link').all()


def test_the_set_itself_may_be_a_link(flights, tmp_path):
    (tmp_path / 'mine').symlink_to(flights)
    read_all(tmp_path / 'mine')
    assert verify_flights(tmp_path / 'mine').empty


# ---- generating and repairing


def start_set(out, n=6):
    "Start a set and stop before its first flight"
    out.mkdir()
    fleet._claim(out, flights_simulator.request(QuickSimulator(), n))


@pytest.mark.parametrize('name', ['meta', 'steps', 'frames', 'partial', 'frames/frame', 'cache', 'notes.txt'])
def test_no_set_is_generated_through_links(victim, tmp_path, name):
    start_set(tmp_path / 'set')
    if name == 'meta':
        shutil.copytree(tmp_path / 'set' / 'meta', tmp_path / 'elsewhere')
        shutil.rmtree(tmp_path / 'set' / 'meta')
    link = tmp_path / 'set' / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / 'elsewhere' if name == 'meta' else victim)
    with pytest.raises(ValueError, match=f'{name} is a symbolic link'):
        make(tmp_path / 'set', 6)
    assert link.is_symlink()


def test_no_new_set_is_started_through_a_link(tmp_path):
    (tmp_path / 'set').mkdir()
    (tmp_path / 'victim').mkdir()
    (tmp_path / 'set' / 'meta').symlink_to(tmp_path / 'victim')
    with pytest.raises(ValueError, match='meta is a symbolic link'):
        make(tmp_path / 'set', 2)
    assert not [*(tmp_path / 'victim').iterdir()]


@pytest.fixture(scope='module')
def small(tmp_path_factory):
    "A set of six flights of the quick simulator"
    folder = tmp_path_factory.mktemp('small') / 'set'
    make(folder, 6)
    return folder


@pytest.fixture
def finished(small, tmp_path):
    return Path(shutil.copytree(small, tmp_path / 'set'))


def reopen(folder):
    return flights_simulator.reopen(folder, 6)


@pytest.mark.parametrize('name', ['frames', 'frames/frame'])
def test_no_video_is_restored_through_a_link(finished, victim, name):
    shutil.rmtree(finished / name)
    (finished / name).symlink_to(victim)
    with pytest.raises(ValueError, match=f'{name} is a symbolic link'):
        reopen(finished)


def make_parts(out):
    "Generate the flights of a set and their records in partial/, and stop before they are gathered"
    start_set(out)
    simulator, request = QuickSimulator(), json.loads((out / 'meta' / 'request.json').read_text())
    for i in range(6):
        make_flight(out, simulator, request, i)


def check_invalid_flight_note_is_refused(victim, tmp_path, field, value):
    make_parts(tmp_path / 'set')
    note = tmp_path / 'set' / 'partial' / 'flight_000002.json'
    note.write_text(json.dumps(json.loads(note.read_text()) | {field: value}))
    with pytest.raises(ValueError, match='flight_000002'):
        make(tmp_path / 'set', 6)
    assert not is_finished(tmp_path / 'set')


@pytest.mark.parametrize(
    'field, value',
    [
        ('key', '../../victim/thesis'),
        ('files', {'../../victim/thesis.tex': [13, '0' * 32]}),
        ('files', {'../victim/thesis.tex': [1, '']}),
    ],
)
def test_flight_note_with_outside_paths_is_refused(victim, tmp_path, field, value):
    check_invalid_flight_note_is_refused(victim, tmp_path, field, value)


@pytest.mark.parametrize(
    'field, value',
    [
        ('key', 'flight_000003'),
        ('length', -5),
        ('length', 1000),
        ('ended', 'whatever'),
        ('ended', 'truncated'),
        ('name', 3),
        ('factors', 3),
        ('factors', {'airport': 3}),
        ('factors', {'airport': 'ZZZZ'}),
        ('features', []),
        ('features', {}),
        ('films', {'obs.frame': '0' * 32}),
        ('content', '0' * 32),
        ('files', 3),
    ],
)
@pytest.mark.variants
def test_invalid_flight_note_is_refused(victim, tmp_path, field, value):
    check_invalid_flight_note_is_refused(victim, tmp_path, field, value)


def test_a_flight_that_is_not_of_the_set_is_refused(tmp_path):
    "The record and the rows are sound, but its airport is in no split, or it has another number"
    for name, airport in ('flight_000002', 'ZZZZ'), ('flight_000009', 'KAAA'):
        out = tmp_path / name
        make_parts(out)
        episode = QuickSimulator().fly(QuickSimulator().conditions(1), True, 32)
        write_episode(out, name, episode.replace(factors=dict(episode.factors, airport=airport), name=name), 5)
        with pytest.raises(ValueError, match=f'{name}.*{airport}'):
            make(out, 6)
        assert not is_finished(out)


def test_only_files_of_the_set_are_removed(finished):
    (finished / 'partial').mkdir()
    (finished / 'partial' / 'flight_000000.json').write_text('{}')
    (finished / 'partial' / 'thesis.tex').write_text('years of work')
    make(finished, 6)
    assert [p.name for p in (finished / 'partial').iterdir()] == ['thesis.tex']


DAMAGED_FILES = ['meta/request.json', 'partial/flight_000002.json', 'partial/flight_000002.parquet']


def check_damaged_part_is_named(tmp_path, name, damage):
    make_parts(tmp_path / 'set')
    path = tmp_path / 'set' / name
    path.unlink()
    if damage == 'pipe':
        os.mkfifo(path)
    else:
        path.write_text('[' * 100_000 if damage == 'deep' else '{"half')
    with pytest.raises(ValueError, match=Path(name).name):
        make(tmp_path / 'set', 6)


@pytest.mark.parametrize('name', DAMAGED_FILES)
def test_pipe_among_the_parts_does_not_hang(tmp_path, name):
    check_damaged_part_is_named(tmp_path, name, 'pipe')


@pytest.mark.parametrize('name', DAMAGED_FILES)
@pytest.mark.parametrize('damage', ['deep', 'half'])
@pytest.mark.variants
def test_damaged_part_is_named(tmp_path, name, damage):
    check_damaged_part_is_named(tmp_path, name, damage)


# ---- the cache


@pytest.fixture
def mapped(flights, tmp_path, monkeypatch):
    "A set that counts as too large for memory, and a cache folder of the user"
    monkeypatch.setattr(row_cache, '_SMALL', 0)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'user'))
    return flights


def sample_rows(i=3):
    "Sensor rows of a flight of the sample, read by pyarrow alone"
    row = pd.read_parquet(SAMPLE / 'episodes.parquet').iloc[i]
    return from_arrow(pq.read_table(SAMPLE / SHARD, columns=['obs.sensors'])['obs.sensors'])[row['row'] :][
        : row['length']
    ]


def damage_rows(folder):
    "Overwrite the rows of the shard, but neither its footer nor the size of its pages"
    content = (folder / SHARD).read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], 'little')
    (folder / SHARD).write_bytes(content[:4] + bytes(footer - 4) + content[footer:])


def forge_cache(folder, path):
    "Write a cache of the right name and size, whose rows are all 7 and all marked as filled"
    read_flights(folder)[0].obs['sensors']
    (cache,) = (folder / 'cache').glob('state-*.npy')
    name, size = cache.name, cache.stat().st_size
    header = cache.read_bytes()[:128]
    shutil.rmtree(folder / 'cache')
    path.parent.mkdir(exist_ok=True)
    rows = np.full((size - len(header)) // 4, 7, np.float32).tobytes()
    path = path.with_name(name) if path.suffix == '.npy' else path
    path.write_bytes(header + rows + b'\1' * (size - len(header) - len(rows)))
    data = bytearray(path.read_bytes())
    n = info_of(folder)['n_steps'] * 1090 * 4
    data[128 + n : len(data) - 16] = b'\1' * (len(data) - 16 - 128 - n)
    path.write_bytes(data)
    return path


def test_cache_that_came_with_the_set_is_not_used(mapped):
    cache = forge_cache(mapped, mapped / 'cache' / 'x.npy')
    before = cache.read_bytes()
    with pytest.warns(UserWarning):
        x = read_flights(mapped)[3].obs['sensors']
    np.testing.assert_array_equal(x, sample_rows())
    assert cache.read_bytes() == before
    faults = verify_flights(mapped)
    assert faults['file'].tolist() == [cache.relative_to(mapped).as_posix()] * 12
    assert faults['fault'].str.contains('holds other rows').all()


def test_own_cache_is_used(mapped):
    np.testing.assert_array_equal(read_flights(mapped)[3].obs['sensors'], sample_rows())
    damage_rows(mapped)
    x = read_flights(mapped)[3].obs['sensors']  # without a warning, and not from Parquet
    np.testing.assert_array_equal(x, sample_rows())


def test_own_cache_that_was_replaced_is_not_used(mapped):
    "Even if the replacement has the same token"
    read_flights(mapped)[0].obs['sensors']
    (cache,) = (mapped / 'cache').glob('state-*.npy')
    content = cache.read_bytes()
    os.rename(cache, cache.with_name('kept'))  # so that its inode number is not reused
    cache.write_bytes(content)
    with pytest.warns(UserWarning):
        read_flights(mapped)[3].obs['sensors']


@pytest.mark.filterwarnings('error')
def test_moved_set_keeps_its_cache(mapped, tmp_path):
    read_flights(mapped)[3].obs['sensors']
    os.rename(mapped, tmp_path / 'moved')
    damage_rows(tmp_path / 'moved')
    np.testing.assert_array_equal(read_flights(tmp_path / 'moved')[3].obs['sensors'], sample_rows())


def test_user_cache_is_not_shared_by_sets_of_equal_info(mapped, tmp_path):
    "Two sets have the same info.json and different rows, and both are cached in the user's folder"
    shutil.copytree(mapped, tmp_path / 'other')
    size = (mapped / SHARD).stat().st_size

    def zero(t):
        x = from_arrow(t['obs.sensors']) * 0
        zeros = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 1090)
        return t.set_column(t.column_names.index('obs.sensors'), 'obs.sensors', zeros)

    info = (tmp_path / 'other' / 'meta' / 'info.json').read_bytes()
    change_shard(tmp_path / 'other', zero)
    with open(tmp_path / 'other' / SHARD, 'rb') as f:
        forged = f.read()
    assert len(forged) < size
    body, footer = (
        forged[: -8 - int.from_bytes(forged[-8:-4], 'little')],
        forged[-8 - int.from_bytes(forged[-8:-4], 'little') :],
    )
    (tmp_path / 'other' / SHARD).write_bytes(body + bytes(size - len(forged)) + footer)
    (tmp_path / 'other' / 'meta' / 'info.json').write_bytes(info)
    for folder in tmp_path / 'other', mapped:
        (folder / 'cache').write_text('in the way')
    assert not read_flights(tmp_path / 'other')[3].obs['sensors'].any()
    np.testing.assert_array_equal(read_flights(mapped)[3].obs['sensors'], sample_rows())


def test_cache_is_not_written_through_a_linked_folder(mapped, victim):
    (mapped / 'cache').symlink_to(victim)
    with pytest.warns(UserWarning):
        x = read_flights(mapped)[3].obs['sensors']
    np.testing.assert_array_equal(x, sample_rows())
    assert verify_flights(mapped)['file'].tolist() == ['cache']


def test_cache_is_not_written_through_a_linked_file(mapped, tmp_path):
    target = forge_cache(mapped, tmp_path / 'elsewhere')
    recording = read_flights(mapped)
    recording[0].obs['sensors']
    (cache,) = (mapped / 'cache').glob('state-*.npy')
    cache.unlink()
    cache.symlink_to(target)
    before = target.read_bytes()
    with pytest.warns(UserWarning):
        x = read_flights(mapped)[3].obs['sensors']
    np.testing.assert_array_equal(x, sample_rows())
    assert target.read_bytes() == before


def test_only_old_cache_files_are_removed(mapped, tmp_path):
    (tmp_path / 'victim.npy').write_text('years of work')
    (mapped / 'cache').mkdir()
    (mapped / 'cache' / 'state-0000000000000000.npy').write_text('an older cache')
    (mapped / 'cache' / 'state-1111111111111111.npy').symlink_to(tmp_path / 'victim.npy')
    (mapped / 'cache' / 'state-2222222222222222.npy').mkdir()
    read_flights(mapped)[3].obs['sensors']
    left = {p.name for p in (mapped / 'cache').iterdir()}
    assert 'state-0000000000000000.npy' not in left
    assert {'state-1111111111111111.npy', 'state-2222222222222222.npy'} < left
    assert (tmp_path / 'victim.npy').read_text() == 'years of work'


# ---- info.json


def changed(field, **values):
    "Return a function that returns a field of info.json, an object, with other values"
    return lambda folder: {field: info_of(folder)[field] | values}


def changed_feature(name, **values):
    return lambda folder: dict(features=info_of(folder)['features'] | {name: values})


def without(field, name):
    return lambda folder: {field: {k: v for k, v in info_of(folder)[field].items() if k != name}}


INFO = {
    'a negative rate': lambda f: dict(hz=-3),
    'no rate': lambda f: dict(hz=0),
    'a rate as text': lambda f: dict(hz='5'),
    'a boolean rate': lambda f: dict(hz=True),
    'an infinite rate': lambda f: dict(hz=float('inf')),
    'a rate of null': lambda f: dict(hz=None),
    'no flights': lambda f: dict(n_episodes=0),
    'half a flight': lambda f: dict(n_episodes=11.5),
    'a negative number of frames': lambda f: dict(n_steps=-3),
    'columns as text': changed('meta', columns='many'),
    'a column too few': lambda f: changed('meta', columns=info_of(f)['meta']['columns'][1:])(f),
    'two columns of one name': lambda f: changed('meta', columns=['x', *info_of(f)['meta']['columns'][1:-1], 'x'])(f),
    'a billion columns': changed_feature('obs.sensors', dtype='float32', shape=[10**9]),
    'sensors of another type': changed_feature('obs.sensors', dtype='float64', shape=[1090]),
    'video of a huge size': changed_feature('obs.frame', dtype='uint8', shape=[10**6, 10**6, 3], film='mp4'),
    'video of 20,000 pixels': changed_feature('obs.frame', dtype='uint8', shape=[20_000, 20_000, 3], film='mp4'),
    'video without colours': changed_feature('obs.frame', dtype='uint8', shape=[96, 96], film='mp4'),
    'video of an unknown kind': changed_feature('obs.frame', dtype='uint8', shape=[96, 96, 3], film='avi'),
    'lossless film that is a video': changed_feature('obs.frame', dtype='uint8', shape=[96, 96, 3], film=True),
    'an airport per frame': changed_feature('factor.airport', dtype='str', shape=[]),
    'a factor of objects': changed_feature('factor.height', dtype='object', shape=[]),
    'a factor whose dtype is a list': changed_feature('factor.height', dtype=['f4'], shape=[]),
    'an unknown mean_and_std_over': changed('meta', mean_and_std_over='the moon'),
    'a list of packages': changed('meta', packages=[]),
    'a number for the name': lambda f: dict(name=3),
    'text for the meta': lambda f: dict(meta='please'),
    'features: 3': lambda f: dict(features=3),
    'files: 3': lambda f: dict(files=3),
    'files without sizes': lambda f: dict(files={k: None for k in info_of(f)['files']}),
    'a file of a negative size': lambda f: dict(files=info_of(f)['files'] | {'x': [-1, '']}),
    'files without the flights': without('files', 'meta/flights.parquet'),
    'files without a video': without('files', FILM),
    'version as text': lambda f: dict(version='1'),
    'format 3': lambda f: dict(format=3),
    'content: 5': lambda f: dict(content=5),
    'no content': lambda f: dict(content=[]),
}


HOSTILE_INFO = [
    'a billion columns',
    'video of a huge size',
    'video of 20,000 pixels',
    'a factor of objects',
]


def check_invalid_info_is_refused(flights, attack):
    change_info(flights, **INFO[attack](flights))
    with pytest.raises(ValueError) as e:
        read_all(flights)
    assert str(flights) in str(e.value)
    files = [SHARD] if attack == 'sensors of another type' else ['meta/info.json', 'episodes.parquet']
    assert str(e.value).partition(f'{flights}/')[2].startswith(tuple(files))
    assert verify_flights(flights)['file'].isin(files).any()


@pytest.mark.parametrize('attack', HOSTILE_INFO)
def test_info_with_huge_sizes_or_objects_is_refused(flights, attack):
    check_invalid_info_is_refused(flights, attack)


@pytest.mark.parametrize('attack', [k for k in INFO if k not in HOSTILE_INFO])
@pytest.mark.variants
def test_invalid_info_is_refused(flights, attack):
    check_invalid_info_is_refused(flights, attack)


@pytest.mark.parametrize(
    'field', ['format', 'version', 'hz', 'n_episodes', 'n_steps', 'content', 'features', 'files', 'meta', 'name']
)
@pytest.mark.variants
def test_missing_info_field_is_named(flights, field):
    info = info_of(flights)
    del info[field]
    (flights / 'meta' / 'info.json').write_text(json.dumps(info))
    assert_refused(flights, 'meta/info.json', f"the field '{field}' is missing")


@pytest.mark.parametrize('field', ['columns', 'packages', 'mean_and_std_over'])
@pytest.mark.variants
def test_missing_field_of_meta_is_named(flights, field):
    change_info(flights, **without('meta', field)(flights))
    assert_refused(flights, 'meta/info.json', f"the field '{field}' is missing")


@pytest.mark.parametrize('text', ['3', 'null', '[]', '[' * 100_000, '{"half', '', '\xff'])
@pytest.mark.parametrize('name', ['info', 'stats', 'splits'])
@pytest.mark.variants
def test_malformed_json_is_refused(flights, name, text):
    (flights / 'meta' / f'{name}.json').write_bytes(text.encode('latin-1'))
    if name != 'info':
        update_checksums(flights)
    assert_refused(flights, f'meta/{name}.json', reads=name != 'stats')


# ---- tables

EPISODES = {
    'one frame more': (lambda r: r[3].update(length=r[3]['length'] + 1), '3110 steps|3,110 steps'),
    'lengths of 1000': (lambda r: [x.update(length=1000) for x in r], '12,000 steps'),
    'a length of -5': (lambda r: r[11].update(length=-5), 'flight_000011'),
    'a flight of a billion frames': (lambda r: r[11].update(length=10**9), 'steps together'),
    'exchanged lengths': (lambda r: (r[3].update(length=273), r[4].update(length=274)), 'rows for the episode'),
    'an unknown end': (lambda r: r[2].update(ended='whatever'), "'ended' 'whatever'"),
    'one name twice': (lambda r: r[2].update(key='flight_000001'), 'flight_000001'),
    'a name that is markup': (lambda r: r[2].update(key='<img src=x>'), 'episode key'),
    'two flights at one row': (lambda r: r[2].update(row=r[1]['row']), "'row'"),
    'a row below 0': (lambda r: r[0].update(row=-1), "'row'"),
    'rows of another flight': (lambda r: exchange(r[2], r[3], 'row'), 'rows for the episode'),
    'another shard': (lambda r: r[2].update(shard=7), 'steps/007.parquet'),
    'text for a number': (lambda r: [x.update(length='267') for x in r], 'length'),
    'a number for text': (lambda r: [x.update(ended=3) for x in r], 'ended'),
    'an empty cell': (lambda r: r[2].update({'factor.airport': None}), 'factor.airport'),
    'a factor as text': (lambda r: [x.update({'factor.wind_speed': 'strong'}) for x in r], 'factor.wind_speed'),
    'a flight too few': (lambda r: r[:-1], '11 episodes'),
}
EPISODES |= {
    f'no column {k}': (lambda r, k=k: [{a: b for a, b in x.items() if a != k} for x in r], f"the column '{k}'")
    for k in ('key', 'length', 'ended', 'shard', 'row', 'factor.airport', 'factor.outcome')
}
FLIGHTS = {
    'another name': (lambda r: r[2].update(flight_id='flight_000001'), 'not those of episodes.parquet'),
    'a seed as text': (lambda r: [x.update(seed='3') for x in r], "words in the column 'seed'"),
    'an empty cell': (lambda r: r[2].update(seed=None), 'a cell is empty'),
    'events as text': (lambda r: [x.update(events='none') for x in r], "no lists of events .* in the column 'events'"),
    'events without a name': (lambda r: [x.update(events=[dict(t=1.0)]) for x in r], "no lists of events .* 'events'"),
    'no list of events': (lambda r: r[2].update(events=None), 'a cell is empty'),
    'a flight too few': (lambda r: r[:-1], 'not those of episodes.parquet'),
    'another column': (lambda r: [x.update(more=3) for x in r], "another column 'more'"),
}
FLIGHTS |= {
    f'no column {k}': (lambda r, k=k: [{a: b for a, b in x.items() if a != k} for x in r], f"no column '{k}'")
    for k in ('flight_id', 'seed', 'conditions', 'events')
}
TABLES = [('episodes.parquet', k) for k in EPISODES] + [('meta/flights.parquet', k) for k in FLIGHTS]


HOSTILE_TABLES = [
    ('episodes.parquet', 'a flight of a billion frames'),
    ('episodes.parquet', 'a name that is markup'),
    ('episodes.parquet', 'another shard'),
    ('meta/flights.parquet', 'another column'),
]


def check_invalid_table_is_refused(flights, name, attack):
    change, message = (EPISODES if name == 'episodes.parquet' else FLIGHTS)[attack]

    def attacked(rows):
        "Return what the attack returns if that is rows; other attacks change the rows in place"
        out = change(rows)
        return out if isinstance(out, list) and out and isinstance(out[0], dict) else rows

    change_table(flights, name, attacked)
    if attack in ('exchanged lengths', 'rows of another flight'):
        name = SHARD
    assert_refused(flights, name, message)


@pytest.mark.parametrize('name, attack', HOSTILE_TABLES)
def test_table_with_huge_flights_or_markup_is_refused(flights, name, attack):
    check_invalid_table_is_refused(flights, name, attack)


@pytest.mark.parametrize('name, attack', [x for x in TABLES if x not in HOSTILE_TABLES])
@pytest.mark.variants
def test_invalid_table_is_refused(flights, name, attack):
    check_invalid_table_is_refused(flights, name, attack)


@pytest.mark.parametrize('splits', [{'moon': []}, {'fit': ['flight_000099']}, {'fit': ['flight_000000'] * 2}])
def test_invalid_splits_are_refused(flights, splits):
    (flights / 'meta' / 'splits.json').write_text(json.dumps(splits))
    update_checksums(flights)
    assert_refused(flights, 'meta/splits.json')


def columns(folder):
    return pd.read_csv(folder / 'meta' / 'columns.csv', keep_default_na=False)


COLUMNS = {
    'one name for every sensor': (lambda c: c.assign(name='speed'), 'other sensors'),
    'a sensor without a name': (lambda c: c.assign(name=['', *c['name'][1:]]), 'other sensors'),
    'no names': (lambda c: c.drop(columns='name'), "no column 'name'"),
    'numbers for names': (lambda c: c.assign(name=range(len(c))), 'other sensors'),
    'no means': (lambda c: c.drop(columns='mean'), "no column 'mean'"),
    'a mean as text': (lambda c: c.assign(mean=['high', *c['mean'][1:]]), "invalid value in 'mean'"),
    'an infinite mean': (lambda c: c.assign(mean=np.inf), "invalid value in 'mean'"),
    'a negative deviation': (lambda c: c.assign(std=-1.0), "invalid value in 'std'"),
    'a sensor too few': (lambda c: c[:-1], 'other sensors than the 1090'),
    'numbers in another order': (lambda c: c.assign(column=c['column'][::-1].to_numpy()), 'number its sensors'),
}


@pytest.mark.parametrize('attack', COLUMNS)
@pytest.mark.variants
def test_invalid_sensor_table_is_refused(flights, attack):
    change, message = COLUMNS[attack]
    change(columns(flights)).to_csv(flights / 'meta' / 'columns.csv', index=False)
    update_checksums(flights)
    assert_refused(flights, 'meta/columns.csv', message)


@pytest.mark.parametrize(
    'text, message',
    [
        (b'\xff\xfe', 'columns.csv'),
        (b',' * 2_000_000, '2000001'),
        (b'name,group,units,mean,std\n' + b'1,' * 2_000_000, '2000001'),
        (b'a' * 20_000_000, 'bytes'),
    ],
    ids=['bytes', 'a wide header', 'a wide line', 'a long line'],
)
def test_malformed_sensor_table_is_refused(flights, text, message):
    (flights / 'meta' / 'columns.csv').write_bytes(text)
    update_checksums(flights)
    assert_refused(flights, 'meta/columns.csv', message)


@pytest.mark.parametrize('column', ['mean', 'std'])
def test_wrong_sensor_moments_are_listed(flights, column):
    "Only verify_flights finds them, because it reads all rows"
    table = columns(flights)
    table.loc[7, column] = table.loc[7, column] * 1.01 + 0.01
    table.to_csv(flights / 'meta' / 'columns.csv', index=False)
    update_checksums(flights)
    faults = verify_flights(flights)
    assert faults['file'].tolist() == ['meta/columns.csv']
    assert f'a {column} of sensor 7 that is not that of its rows' in faults['fault'][0]


# ---- rows


def with_label(value):
    "Return a change that sets one label of the first flight"

    def change(t):
        x = t['factor.height'].to_numpy().copy()
        x[4] = value
        return t.set_column(t.column_names.index('factor.height'), 'factor.height', pa.array(x))

    return change


def with_labels(values):
    "Return a change that replaces all labels by `values` of the number of rows"

    def change(t):
        return t.set_column(t.column_names.index('factor.height'), 'factor.height', pa.array(values(len(t))))

    return change


def as_lists(t):
    "Change the rows of sensors to lists of variable length"
    lists = t['obs.sensors'].cast(pa.list_(pa.float32()))
    return t.set_column(t.column_names.index('obs.sensors'), 'obs.sensors', lists)


ROWS = {
    'a NaN label': (with_label(np.nan), "flight_000000, row 4, column 'height' is nan, not finite"),
    'text for labels': (with_labels(lambda n: ['high'] * n), 'factor.height'),
    'digits for labels': (with_labels(lambda n: ['3'] * n), 'factor.height'),
    'empty labels': (with_labels(lambda n: pa.array([None] * n, pa.float32())), 'factor.height.* missing'),
    'lists of variable length': (as_lists, 'obs.sensors'),
    'no label': (lambda t: t.drop_columns(['factor.height']), "'factor.height' is missing"),
    'a column twice': (lambda t: t.append_column('factor.height', t['factor.height']), 'twice'),
    'another column': (lambda t: t.append_column('more', t['factor.height']), "'more' is not"),
    'a row more': (lambda t: pa.concat_tables([t, t.slice(0, 1)]), 'rows for the episode'),
    'no row': (lambda t: t.slice(0, 0), 'rows for the episode'),
}


@pytest.mark.parametrize('attack', ROWS)
@pytest.mark.variants
def test_invalid_rows_are_refused(flights, attack):
    change, message = ROWS[attack]
    change_shard(flights, change)
    assert_refused(flights, SHARD, message)


def test_a_label_that_is_not_finite_is_refused_in_a_table_of_steps(flights):
    change_shard(flights, with_label(np.inf))
    with pytest.raises(ValueError, match="steps: row 4, column 'height' is inf"):
        read_flights(flights).steps(['height'])


def test_changed_rows_are_listed(flights):
    "They are sound numbers, and info.json has their checksum, but not the content of their flight"
    change_shard(flights, with_label(12.5))
    read_all(flights)
    (fault,) = verify_flights(flights)['fault']
    assert "'flight_000000' holds something else" in fault


# ---- videos


def test_videos_of_wrong_length_or_size_are_refused(flights):
    for shape in (274, 64, 64, 3), (20, 96, 96, 3):
        (flights / FILM).write_bytes(encode_film(np.zeros(shape, np.uint8)))
        update_checksums(flights)
        assert_refused(flights, FILM, 'its episode has 274 rows and frames of 96 x 96')


def test_list_of_other_videos_is_refused(flights, tmp_path):
    shutil.copy(flights / FILM, tmp_path / 'secret.mp4')
    (flights / FILM).write_text('ffconcat version 1.0\nfile ../../../../secret.mp4\n')
    update_checksums(flights)
    with pytest.raises(ValueError, match=f'{re.escape(FILM)} .*not a video'):
        read_flights(flights)[3].obs['frame'][0]
    faults = verify_flights(flights)
    assert faults['file'].tolist() == [FILM, 'meta/info.json'] and 'not a video' in faults['fault'][0]


def test_video_with_fewer_frames_than_declared_is_refused(flights):
    "The tables of the container are truncated: 274 frames are declared and 137 are present"
    film = bytearray((flights / FILM).read_bytes())
    start = film.index(b'stsz')
    sizes = np.frombuffer(bytes(film[start + 16 : start + 16 + 4 * 274]), '>u4').copy()
    sizes[137:] = 0
    film[start + 16 : start + 16 + 4 * 274] = sizes.tobytes()
    (flights / FILM).write_bytes(film)
    update_checksums(flights)
    with pytest.raises(ValueError, match='flight_000003.mp4'):
        read_flights(flights)[3].obs['frame'][270]
    faults = verify_flights(flights)
    assert faults['file'].tolist() == [FILM, 'meta/info.json'] and '274 frames and holds 137' in faults['fault'][0]


# ---- inputs that would exhaust memory or hang


@pytest.mark.parametrize(
    'name',
    ['meta/info.json', 'meta/columns.csv', 'meta/flights.parquet', 'episodes.parquet', 'meta/stats.json', SHARD, FILM],
)
def test_pipes_do_not_hang(flights, name):
    (flights / name).unlink()
    os.mkfifo(flights / name)
    files = info_of(flights)['files'] if name != 'meta/info.json' else {}
    if name in files:
        change_info(flights, files=files | {name: [0, '0' * 32]})
    assert_refused(flights, name)


def test_text_of_100_megabytes_in_every_row_is_refused(flights):
    "A small file with a dictionary column takes gigabytes when its texts are repeated in each row"
    table = pq.read_table(flights / 'episodes.parquet')
    reason = pa.DictionaryArray.from_arrays(pa.array(np.zeros(12, np.int32)), pa.array(['w' * 100_000_000]))
    table = table.set_column(table.column_names.index('factor.reason'), 'factor.reason', reason)
    table = table.replace_schema_metadata(None)
    pq.write_table(table, flights / 'episodes.parquet', compression='zstd', store_schema=False)
    update_checksums(flights)
    assert (flights / 'episodes.parquet').stat().st_size < 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert_refused(flights, 'episodes.parquet', 'reason.* bytes|bytes.* reason|declares .* bytes|needs .* bytes')
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def test_too_many_events_are_refused(flights):
    def change(rows):
        rows[3]['events'] = [dict(t=0.0, name='x', value=0.0)] * 5000

    change_table(flights, 'meta/flights.parquet', change)
    assert_refused(flights, 'meta/flights.parquet', '5... events in 12 flights')


def thrift_int(n):
    "Encode a field of a Thrift struct: a 32-bit integer as a zigzag varint padded to five bytes"
    return b'\x15' + bytes(2 * n >> 7 * k & 127 | (128 if k < 4 else 0) for k in range(5))


def test_page_larger_than_the_footer_declares_is_refused(flights):
    "The footer is that of a valid file, and Arrow trusts the size in the page header"
    size, footer = 500_000_000, pq.read_metadata(flights / SHARD)
    leaves = [footer.schema.column(j).path.partition('.list')[0] for j in range(footer.num_columns)]
    chunk = footer.row_group(3).column(leaves.index('obs.sensors'))
    packed = pa.compress(bytes(size), 'zstd', asbytes=True)

    def header(n):
        sizes = b'\x15\x00' + thrift_int(size) + thrift_int(n)
        return sizes + b'\x2c' + thrift_int(chunk.num_values) + b'\x15\x00\x15\x06\x15\x06\x00\x00'

    rest = chunk.total_compressed_size - len(header(0)) - len(packed) - 8
    packed += (0x184D2A50).to_bytes(4, 'little') + rest.to_bytes(4, 'little') + bytes(rest)  # a skippable zstd frame
    page = header(len(packed)) + packed
    assert len(page) == chunk.total_compressed_size
    content = bytearray((flights / SHARD).read_bytes())
    content[chunk.data_page_offset : chunk.data_page_offset + len(page)] = page
    (flights / SHARD).write_bytes(content)
    update_checksums(flights)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert_refused(flights, SHARD, "row group 3 declares 5..,...,... bytes in 'obs.sensors")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


# ---- output of verify_flights


def test_verify_shows_no_control_characters(flights):
    (flights / 'steps' / '\x1b[2Jx').write_text('?')
    (fault,) = verify_flights(flights)['file']
    assert fault.isprintable() and 'x1b' in fault


def test_verify_lists_special_files(flights):
    os.mkfifo(flights / 'steps' / 'pipe')
    assert verify_flights(flights)['file'].tolist() == ['steps/pipe']


# ---- the published layout


@pytest.fixture
def published(tmp_path):
    "A data set in the published layout: two flights of four rows with pictures, splits, and a task"
    root = tmp_path / 'published'
    for n in 1, 2:
        for folder in (root / 'KSEA' / f'flight{n}', root / 'KSEA' / f'flight{n}' / 'landing'):
            folder.mkdir(parents=True)
            (folder / 'X.csv').write_text('a,b\n1,2\n3,4\n5,6\n7,8\n')
            for t in range(4):
                Image.new('RGB', (32, 16), (50 * t,) * 3).save(folder / f'data_{t}.jpg')
        (folder / 'target.csv').write_text('g\n1.5\n')
    (root / 'splits.json').write_text('{"train": ["KSEA"], "val": [], "test": {"train": [], "val": []}}')
    return root


def read_all_published(root, **options):
    "Read every array of a data set in the published layout"
    for e in read_published(root, columns='file', **options):
        np.asarray(e.obs['sensors']), np.asarray(e.obs['frame']), [np.asarray(v) for v in e.factors.values()]


def assert_unreadable(root, name, message='', **options):
    "Assert that reading raises a ValueError which names the file"
    with pytest.raises(ValueError, match=message or None) as e:
        read_all_published(root, **options)
    assert str(root / name) in str(e.value)


def replace_by_video(folder, name='data.mp4', frames=None):
    "Replace the pictures of a flight by a video"
    for p in folder.glob('*.jpg'):
        p.unlink()
    frames = np.zeros((4, 16, 32, 3), np.uint8) if frames is None else frames
    (folder / name).write_bytes(encode_film(frames))


def test_published_layout_is_read(published, tmp_path):
    read_all_published(published)
    read_all_published(published, task='landing')
    (tmp_path / 'mine').symlink_to(published)
    read_all_published(tmp_path / 'mine')


FIRST = 'KSEA/flight1'


def test_a_film_of_the_published_layout_is_shown_upright(published):
    for n in 1, 2:
        replace_by_video(published / 'KSEA' / f'flight{n}')
        film = bytearray((published / 'KSEA' / f'flight{n}' / 'data.mp4').read_bytes())
        header = film.index(b'tkhd') + 44
        film[header : header + 36] = struct.pack('>9i', 0, 1 << 16, 0, -(1 << 16), 0, 0, 0, 0, 1 << 30)
        (published / 'KSEA' / f'flight{n}' / 'data.mp4').write_bytes(film)
    frames = read_published(published, columns='file')[0].obs['frame']
    assert frames.shape[1:] == (32, 16, 3) and frames[0].shape == (32, 16, 3)


@pytest.mark.parametrize(
    'name, options',
    [
        ('KSEA', {}),
        (FIRST, {}),
        (f'{FIRST}/X.csv', {}),
        (f'{FIRST}/data_2.jpg', {}),
        ('splits.json', {}),
        (f'{FIRST}/landing', dict(task='landing')),
        (f'{FIRST}/landing/target.csv', dict(task='landing')),
    ],
)
def test_links_in_the_published_layout_are_refused(published, tmp_path, name, options):
    os.rename(published / name, tmp_path / 'elsewhere')
    (published / name).symlink_to(tmp_path / 'elsewhere')
    assert_unreadable(published, name, 'is a symbolic link', **options)


def test_linked_video_is_refused(published, tmp_path):
    replace_by_video(published / FIRST)
    replace_by_video(published / 'KSEA' / 'flight2')
    os.rename(published / FIRST / 'data.mp4', tmp_path / 'other.mp4')
    (published / FIRST / 'data.mp4').symlink_to(tmp_path / 'other.mp4')
    assert_unreadable(published, f'{FIRST}/data.mp4', 'is a symbolic link')


@pytest.mark.parametrize(
    'name, options',
    [
        (f'{FIRST}/X.csv', dict(trim=True)),
        (f'{FIRST}/X.csv', {}),
        (f'{FIRST}/data_0.jpg', {}),
        (f'{FIRST}/data_2.jpg', {}),
        ('splits.json', {}),
        (f'{FIRST}/landing/target.csv', dict(task='landing')),
        (f'{FIRST}/data.mp4', {}),
    ],
)
def test_pipes_do_not_hang_the_published_layout(published, name, options):
    if name.endswith('mp4'):
        replace_by_video(published / FIRST)
    (published / name).unlink()
    os.mkfifo(published / name)
    assert_unreadable(published, name, **options)


def png(width, height):
    "Return a PNG file that declares a size and has no pixels"
    header = b'IHDR' + width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    parts = b'\x89PNG\r\n\x1a\n', (13).to_bytes(4), header, zlib.crc32(header).to_bytes(4)
    return b''.join([*parts, (0).to_bytes(4), b'IDAT', zlib.crc32(b'IDAT').to_bytes(4)])


@pytest.mark.filterwarnings('ignore:Image size')
@pytest.mark.parametrize('side', [6000, 12_000, 60_000])
@pytest.mark.parametrize('t, message', [(0, 'declares|pixels'), (2, '000 x .*data_0.jpg is 32 x 16|declares|pixels')])
def test_pictures_that_declare_a_huge_size_are_refused(published, side, t, message):
    (published / FIRST / f'data_{t}.jpg').write_bytes(png(side, side))
    assert_unreadable(published, f'{FIRST}/data_{t}.jpg', message)


@pytest.mark.parametrize(
    'content',
    [
        b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 16\n',
        b'GIF89a\x20\x00\x10\x00\x00\x00\x00;',
        b'',
        b'\xff\xd8\xff',
    ],
    ids=['PostScript', 'GIF', 'empty', 'truncated'],
)
def test_pictures_of_other_formats_are_refused(published, content):
    "Pillow would pass PostScript to Ghostscript"
    (published / FIRST / 'data_2.jpg').write_bytes(content)
    assert_unreadable(published, f'{FIRST}/data_2.jpg', 'not an image')


def test_video_of_a_huge_size_is_refused(published):
    for n in 1, 2:
        replace_by_video(published / 'KSEA' / f'flight{n}', frames=np.zeros((1, 6144, 6144, 3), np.uint8))
    assert_unreadable(published, f'{FIRST}/data.mp4', 'declares frames of 6144 x 6144')


def test_video_that_changes_its_size_is_refused(published):
    for n in 1, 2:
        replace_by_video(published / 'KSEA' / f'flight{n}')
    with open(published / FIRST / 'data.ts', 'wb') as f:
        for side in 32, 64:
            f.write(mpeg_stream(np.zeros((2, side, side, 3), np.uint8)))
    (published / FIRST / 'data.mp4').unlink()
    assert_unreadable(published, f'{FIRST}/data.ts')


def mpeg_stream(frames):
    "Encode frames as an MPEG transport stream; two of them joined are one video"
    import av

    film = io.BytesIO()
    with av.open(film, 'w', format='mpegts') as container:
        s = container.add_stream('libx264', rate=5)
        s.height, s.width, s.pix_fmt = *frames.shape[1:3], 'yuv420p'
        for f in frames:
            container.mux(s.encode(av.VideoFrame.from_ndarray(f, format='rgb24')))
        container.mux(s.encode())
    return film.getvalue()


def test_list_of_other_videos_is_refused_in_the_published_layout(published):
    for n in 1, 2:
        replace_by_video(published / 'KSEA' / f'flight{n}')
    shutil.copy(published / FIRST / 'data.mp4', published / FIRST / 'secret')
    (published / FIRST / 'data.mp4').write_text('ffconcat version 1.0\nfile secret\n')
    assert_unreadable(published, f'{FIRST}/data.mp4', 'not a video')


@pytest.mark.parametrize(
    'text',
    [
        b'a' * 5_000_000,
        b'a,b\n' + b'1' * 5_000_000,
        b',' * 2_000_000 + b'\n1\n',
        b'a,b\n' + b'1,' * 2_000_000,
        b'a,b\n1,\x00\n',
        b'\xff\xfe',
        b'a,b\n1,2\n"',
        b'"' + b'\n' * 100,
    ],
    ids=[
        'a long header',
        'a long row',
        'a wide header',
        'a wide row',
        'zeros',
        'bytes',
        'an open quote',
        'a header with an open quote',
    ],
)
@pytest.mark.variants
def test_malformed_published_tables_are_refused(published, text):
    (published / FIRST / 'X.csv').write_bytes(text)
    assert_unreadable(published, f'{FIRST}/X.csv', trim=True)


def test_table_of_a_gigabyte_is_refused(published):
    "A sparse file, which is fast to write"
    with open(published / FIRST / 'X.csv', 'ab') as f:
        f.truncate(2**30)
    assert_unreadable(published, f'{FIRST}/X.csv', 'bytes, more than')


@pytest.mark.parametrize(
    'text',
    [
        '{"train": "KSEA", "val": [], "test": {"train": [], "val": []}}',
        '{"train": [3], "val": [], "test": {"train": [], "val": []}}',
        '{"train": [], "val": [], "test": []}',
        '[]',
        '3',
        'null',
        '[' * 100_000,
        '{"half',
        '\xff',
    ],
)
@pytest.mark.variants
def test_malformed_published_splits_are_refused(published, text):
    (published / 'splits.json').write_bytes(text.encode('latin-1'))
    assert_unreadable(published, 'splits.json')


@pytest.mark.parametrize(
    'name, message',
    [
        ('flight01', 'are both flight 1 of KSEA'),
        ('Flight_1', 'are both flight 1 of KSEA'),
        ('flight' + '9' * 40, 'at most 15 digits'),
    ],
)
def test_invalid_flight_numbers_are_refused(published, name, message):
    shutil.copytree(published / FIRST, published / 'KSEA' / name)
    assert_unreadable(published, f'KSEA/{name}', message)


def test_frames_with_the_same_number_are_refused(published):
    shutil.copy(published / FIRST / 'data_1.jpg', published / FIRST / 'data_01.jpg')
    assert_unreadable(published, FIRST, 'frame 1 twice')


def test_export_has_the_permissions_of_the_umask(published, tmp_path):
    recording = read_published(published, columns='file')
    previous = os.umask(0o077)
    try:
        out = export_published(recording, tmp_path / 'out', targets={}, progress=False)
    finally:
        os.umask(previous)
    assert out.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize('task', ['../elsewhere', '..', 'a/b', '{here}/elsewhere'])
def test_task_names_that_are_paths_are_refused(published, tmp_path, task):
    recording, task = read_published(published, columns='file'), task.format(here=tmp_path)
    with pytest.raises(ValueError, match=re.escape(repr(task)[:10])):  # a long name is abbreviated
        export_published(recording, tmp_path / 'out', targets={task: {}}, progress=False)
    with pytest.raises(ValueError, match='task'):
        read_published(published, task=task)
    assert {p.name for p in tmp_path.iterdir()} == {'published'}


MARKUP = '<img src=x onerror=alert(1)>'
# Fields whose values the reader checks: an unknown value is refused, not shown.
CHECKED_FIELDS = {
    'flight_id',
    'key',
    'ended',
    'factor.precipitation',
    'factor.ground',
    'factor.outcome',
    'role',
    'kind',
    'column',
}


def with_markup(x, key=''):
    "Append markup to each text of a row that the reader does not check"
    if isinstance(x, dict):
        return {k: with_markup(v, k) for k, v in x.items()}
    if isinstance(x, list):
        return [with_markup(v) for v in x]
    return x + MARKUP if isinstance(x, str) and key not in CHECKED_FIELDS else x


@pytest.mark.slow
def test_study_shows_names_as_text(flights, tmp_path):
    "Markup in the names of a set is escaped in the study's page and in all its outputs"
    signal.alarm(300)
    columns = pd.read_csv(flights / 'meta/columns.csv', keep_default_na=False)
    rows = [row if row['name'].startswith('sim/cockpit2/') else with_markup(row) for row in columns.to_dict('records')]
    pd.DataFrame(rows).to_csv(flights / 'meta/columns.csv', index=False)
    change_info(flights, meta=info_of(flights)['meta'] | dict(columns=[row['name'] for row in rows]))
    for table in 'episodes.parquet', 'meta/flights.parquet':
        change_table(flights, table, lambda rows: [with_markup(row) for row in rows])
    notebook = run_study('landing_dataset', dict(path=str(flights), clean=0), tmp_path / 'out', progress=False)
    page = (tmp_path / 'out/landing_dataset.html').read_text()
    assert '<img src=x' not in page and '&lt;img src=x' in page
    outputs = [o.get('data', {}) for c in nbformat.read(notebook, 4).cells for o in c.get('outputs', [])]
    kinds = 'text/html', 'text/markdown', 'image/svg+xml'
    shown = [data[kind] for data in outputs for kind in kinds if kind in data]
    assert any('&lt;img src=x' in text for text in shown)
    assert not any('<img src=x' in text for text in shown)
