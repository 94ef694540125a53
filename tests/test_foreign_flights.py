"""Sets of flights that a stranger prepared.

Nothing outside is touched, nothing is believed unseen, nothing hangs, and verify lists instead of raising.
"""

import hashlib, io, json, os, re, resource, shutil, signal, sys, zlib
from pathlib import Path

import nbformat
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

sys.path.insert(0, str(Path(__file__).parent))
from support import flights_simulator  # noqa: E402
from support.flights_simulator import QuickSimulator, make  # noqa: E402

from srlviz.core.files import checksum  # noqa: E402
from srlviz.core.storage import from_arrow, is_finished  # noqa: E402
from srlviz.core.views.windows import windows  # noqa: E402
from srlviz.core.storage import row_cache  # noqa: E402
from srlviz.data.landing import (  # noqa: E402
    export_published,
    fleet,
    shards,
    read_flights,
    read_published,
    verify_flights,
)
from srlviz.data.video import encode_film  # noqa: E402
from srlviz.studies.run import run_study  # noqa: E402

SAMPLE = Path(__file__).parents[1] / 'data_samples' / 'landings'
SHARD, FILM = 'data/chunk-000/file-000.parquet', 'videos/front/chunk-000/flight_000003.mp4'


@pytest.fixture
def flights(tmp_path, request):
    "A copy of the sample that an attack may change, in its own layout or in that of another version"
    shutil.copytree(SAMPLE, tmp_path / 'set')
    if getattr(request, 'param', 1) == 2:
        as_version_2(tmp_path / 'set')
    return tmp_path / 'set'


both_layouts = pytest.mark.parametrize('flights', [1, 2], indirect=True)


def as_version_2(folder, rows=100):
    "Row groups of some rows, of which a flight has several"
    with pq.ParquetFile(folder / SHARD) as f:
        tables, schema = [f.read_row_group(k) for k in range(f.num_row_groups)], f.schema_arrow
    with pq.ParquetWriter(folder / SHARD, schema, use_dictionary=False, compression='zstd') as w:
        for t in tables:
            w.write_table(t, row_group_size=rows)
    change_info(folder, version=2, data=info_of(folder)['data'] | dict(rows_per_group=rows))
    first = np.cumsum([0, *(-(-len(t) // rows) for t in tables)])

    def change(flights):
        for flight in flights:
            flight['row_group'] = int(first[flight['row_group']])

    change_flights(folder, change)


@pytest.fixture(autouse=True)
def quick():
    "What hangs, fails"

    def late(*_):
        raise AssertionError('it hangs')

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def victim(tmp_path):
    "A folder of somebody else, which stays as it is"
    (tmp_path / 'victim').mkdir()
    (tmp_path / 'victim' / 'thesis.tex').write_text('years of work')
    (tmp_path / 'victim' / 'state-0123456789abcdef.npy').write_text('a cache of others')
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


def sign(folder):
    "Let the files of info.json agree with what is there, as if its maker had left it so"
    files = {k: [(folder / k).stat().st_size, checksum(folder / k)] for k in info_of(folder)['files']}
    change_info(folder, files=files)


def change_flights(folder, change):
    "Change the rows of meta/flights.parquet, which are dicts, and sign"
    table = pq.read_table(folder / 'meta' / 'flights.parquet')
    rows = table.to_pylist()
    rows = change(rows) or rows
    pq.write_table(pa.Table.from_pylist(rows), folder / 'meta' / 'flights.parquet')
    sign(folder)


def change_shard(folder, change):
    "Change the table of each row group of the shard, and sign"
    with pq.ParquetFile(folder / SHARD) as f:
        groups = [change(k, f.read_row_group(k)) for k in range(f.num_row_groups)]
    with pq.ParquetWriter(folder / SHARD, groups[0].schema, use_dictionary=False) as w:
        for t in groups:
            w.write_table(t, row_group_size=max(1, len(t)))
    sign(folder)


def touch(folder):
    "Read something of everything"
    for e in read_flights(folder):
        e.obs['sensors'][:1], e.obs['frame'][:1]
        for v in e.factors.values():
            np.asarray(v)


def refused(folder, file, told=None, reads=True):
    "Reading names the file in a ValueError, and verify lists it"
    if reads:
        with pytest.raises(ValueError, match=told) as e:
            touch(folder)
        assert file in str(e.value)
    faults = verify_flights(folder)
    assert file in faults['file'].tolist(), faults.to_string()


@both_layouts
def test_the_sample_is_sound(flights):
    touch(flights)
    assert verify_flights(flights).empty
    for e, whole in zip(read_flights(flights), read_flights(SAMPLE)):
        assert e.obs['sensors'].tobytes() == whole.obs['sensors'].tobytes()
        assert all(np.asarray(v).tobytes() == np.asarray(whole.factors[k]).tobytes() for k, v in e.factors.items())


@both_layouts
def test_a_window_reads_its_own_rows(flights):
    all_windows, whole = windows(read_flights(flights), 30), windows(read_flights(SAMPLE), 30)
    for i in np.random.default_rng(0).integers(0, len(whole), 40):
        a, b = all_windows[int(i)], whole[int(i)]
        assert a.obs['sensors'].tobytes() == b.obs['sensors'].tobytes()
        assert all(np.asarray(v).tobytes() == np.asarray(b.factors[k]).tobytes() for k, v in a.factors.items())


GROUPS = {
    'fewer rows': (dict(rows_per_group=64), 'row_group'),
    'no rows': (dict(rows_per_group=0), "'rows_per_group' is 0; expected a whole number above 0"),
    'rows of text': (dict(rows_per_group='100'), "'rows_per_group' is '100'"),
    'rows without end': (dict(rows_per_group=2**53), 'row_group'),
    'one row': (dict(rows_per_group=1), 'row_group'),
    'nothing': ({}, "'rows_per_group' is missing"),
}


HOSTILE_GROUPS = [
    'rows without end',
]


def check_the_rows_of_row_groups_are_compared(flights, attack):
    as_version_2(flights)
    told, words = GROUPS[attack]
    change_info(flights, data=told)
    refused(flights, 'meta/info.json' if 'rows_per' in words else 'meta/flights.parquet', words)


@pytest.mark.parametrize('attack', HOSTILE_GROUPS)
def test_row_groups_without_end_are_refused(flights, attack):
    check_the_rows_of_row_groups_are_compared(flights, attack)


@pytest.mark.parametrize('attack', [k for k in GROUPS if k not in HOSTILE_GROUPS])
@pytest.mark.variants
def test_the_rows_of_row_groups_are_compared(flights, attack):
    check_the_rows_of_row_groups_are_compared(flights, attack)


def test_row_groups_of_other_rows_than_those_that_are_told(flights):
    as_version_2(flights, 140)
    rows = [len(f) for f in read_flights(flights)]
    assert all(150 < n <= 2 * 140 for n in rows)  # two row groups each, either way
    change_info(flights, data=dict(rows_per_group=150))
    refused(flights, SHARD, 'has 140 rows, meta/flights.parquet says 150')


# ---- paths


@pytest.mark.parametrize(
    'name',
    [
        '../victim/thesis.tex',
        '{victim}/thesis.tex',
        'videos/../../victim/thesis.tex',
        'videos/front/../x.mp4',
        'videos//x.mp4',
        '',
        'a\nb',
        'C:\\x',
    ],
)
def test_names_of_files_stay_in_the_set(flights, victim, name):
    name = name.format(victim=victim)
    size = (flights / name).stat().st_size if (flights / name).is_file() else 1
    change_info(flights, files=info_of(flights)['files'] | {name: [size, '0' * 32]})
    refused(flights, 'meta/info.json', "the field 'files'")


def test_rows_are_not_read_from_elsewhere(flights, victim, tmp_path):
    shutil.copy(flights / SHARD, tmp_path / 'other.parquet')

    def change(rows):
        for r in rows:
            r['data'] = '../other.parquet'

    change_flights(flights, change)
    refused(flights, 'meta/flights.parquet', 'flight_000000 has data that are not among the files')


def test_film_is_not_read_from_elsewhere(flights, tmp_path):
    shutil.copy(flights / FILM, tmp_path / 'other.mp4')

    def change(rows):
        rows[3]['video'] = '../other.mp4'

    change_flights(flights, change)
    refused(flights, 'meta/flights.parquet', 'flight_000003 has a video that is not among the files')


@pytest.mark.parametrize(
    'name',
    [
        'meta',
        'data',
        'data/chunk-000',
        SHARD,
        'videos',
        'videos/front',
        'videos/front/chunk-000',
        FILM,
        'meta/columns.csv',
        'meta/stats.json',
        'README.md',
    ],
)
def test_no_link_is_followed(flights, tmp_path, name):
    os.rename(flights / name, tmp_path / 'elsewhere')
    (flights / name).symlink_to(tmp_path / 'elsewhere')
    with pytest.raises(ValueError, match=f'{re.escape(str(flights / name))} is a symbolic link'):
        touch(flights)
    faults = verify_flights(flights)
    assert faults['file'].tolist() == [name] if name != 'meta' else len(faults) == 1
    assert 'is a symbolic link' in faults['fault'][0]


def test_the_set_itself_may_be_a_link(flights, tmp_path):
    (tmp_path / 'mine').symlink_to(flights)
    touch(tmp_path / 'mine')
    assert verify_flights(tmp_path / 'mine').empty


# ---- making and mending


def begun(out, n=6):
    "A folder that was begun, and left before its first flight"
    out.mkdir()
    fleet._claim(out, flights_simulator.request(QuickSimulator(), n))


@pytest.mark.parametrize('name', ['meta', 'data', 'videos', 'parts', 'videos/front', 'cache', 'notes.txt'])
def test_nothing_is_made_through_links(victim, tmp_path, name):
    begun(tmp_path / 'set')
    if name == 'meta':
        shutil.copytree(tmp_path / 'set' / 'meta', tmp_path / 'elsewhere')
        shutil.rmtree(tmp_path / 'set' / 'meta')
    link = tmp_path / 'set' / name
    link.parent.mkdir(exist_ok=True)
    link.symlink_to(tmp_path / 'elsewhere' if name == 'meta' else victim)
    with pytest.raises(ValueError, match=f'{name} is a symbolic link'):
        make(tmp_path / 'set', 6)
    assert link.is_symlink()


def test_a_new_set_is_not_begun_through_a_link(tmp_path):
    (tmp_path / 'set').mkdir()
    (tmp_path / 'victim').mkdir()
    (tmp_path / 'set' / 'meta').symlink_to(tmp_path / 'victim')
    with pytest.raises(ValueError, match='meta is a symbolic link'):
        make(tmp_path / 'set', 2)
    assert not [*(tmp_path / 'victim').iterdir()]


@pytest.fixture(scope='module')
def small(tmp_path_factory):
    "Six flights of the quick simulator"
    folder = tmp_path_factory.mktemp('small') / 'set'
    make(folder, 6)
    return folder


@pytest.fixture
def finished(small, tmp_path):
    return Path(shutil.copytree(small, tmp_path / 'set'))


def again(folder):
    return flights_simulator.again(folder, 6)


@pytest.mark.parametrize('name', ['videos', 'videos/front', 'videos/front/chunk-000'])
def test_no_film_is_mended_through_a_link(finished, victim, name):
    shutil.rmtree(finished / name)
    (finished / name).symlink_to(victim)
    with pytest.raises(ValueError, match=f'{name} is a symbolic link'):
        again(finished)


def test_no_film_is_mended_under_another_name(finished):
    film = finished / 'videos' / 'front' / 'chunk-000'

    def change(rows):
        rows[1]['video'], rows[2]['video'] = rows[2]['video'], rows[1]['video']

    change_flights(finished, change)
    (film / 'flight_000001.mp4').unlink()
    with pytest.raises(ValueError, match='flight_000002.mp4'):
        again(finished)
    assert not (film / 'flight_000001.mp4').exists()


def half_made(out):
    "A folder whose first flights are made and noted, and none gathered"
    begun(out)
    (out / 'parts').mkdir()
    simulator, request = QuickSimulator(), json.loads((out / 'meta' / 'request.json').read_text())
    for i in range(6):
        shards.make_flight(out, simulator, request, i)


def check_a_note_of_a_flight_is_not_believed(victim, tmp_path, field, value):
    half_made(tmp_path / 'set')
    note = tmp_path / 'set' / 'parts' / 'flight_000002.json'
    note.write_text(json.dumps(json.loads(note.read_text()) | {field: value}))
    with pytest.raises(ValueError, match='flight_000002|parts is damaged'):
        make(tmp_path / 'set', 6)
    assert not is_finished(tmp_path / 'set')


@pytest.mark.parametrize(
    'field, value',
    [
        ('flight_id', '../../victim/thesis'),
        ('files', {'../../victim/thesis.tex': [13, '0' * 32]}),
        ('files', {'../victim/thesis.tex': [1, '']}),
    ],
)
def test_a_note_of_a_flight_leads_nowhere_else(victim, tmp_path, field, value):
    check_a_note_of_a_flight_is_not_believed(victim, tmp_path, field, value)


@pytest.mark.parametrize(
    'field, value',
    [
        ('flight_index', 7),
        ('seed', 1),
        ('n_frames', -5),
        ('n_frames', 1000),
        ('ended', 'whatever'),
        ('airport', 'ZZZZ'),
        ('factors', 3),
        ('dtypes', []),
        ('conditions', None),
        ('factors', {'airport': 3}),
        ('events', [3]),
        ('conditions', {'seed': 'x'}),
        ('files', 3),
    ],
)
@pytest.mark.variants
def test_a_note_of_a_flight_is_not_believed(victim, tmp_path, field, value):
    check_a_note_of_a_flight_is_not_believed(victim, tmp_path, field, value)


def check_a_note_of_a_shard_is_not_believed(tmp_path, change):
    half_made(tmp_path / 'set')
    out, request = tmp_path / 'set', json.loads((tmp_path / 'set' / 'meta' / 'request.json').read_text())
    shards.write_shard(out, request, QuickSimulator().splits(), 0)
    note = out / 'parts' / 'shard_00000.json'
    content = json.loads(note.read_text())
    change(content)
    note.write_text(json.dumps(content))
    with pytest.raises(ValueError, match='shard_00000.json'):
        make(out, 6)


@pytest.mark.parametrize(
    'change',
    [
        lambda n: n['flights'][0].update(data='../x'),
        lambda n: n['flights'][0].update(files={'../x': [1, '']}),
    ],
    ids=['data', 'files'],
)
def test_a_note_of_a_shard_leads_nowhere_else(tmp_path, change):
    check_a_note_of_a_shard_is_not_believed(tmp_path, change)


@pytest.mark.parametrize(
    'change',
    [
        lambda n: n['flights'].pop(),
        lambda n: n.update(stats=3),
        lambda n: n.update(file='x'),
        lambda n: n.update(file=[1, 'x']),
    ],
)
@pytest.mark.variants
def test_a_note_of_a_shard_is_not_believed(tmp_path, change):
    check_a_note_of_a_shard_is_not_believed(tmp_path, change)


def test_what_is_removed_is_ours(finished):
    (finished / 'parts').mkdir()
    (finished / 'parts' / 'shard_00000.json').write_text('{}')
    (finished / 'parts' / 'thesis.tex').write_text('years of work')
    make(finished, 6)
    assert [p.name for p in (finished / 'parts').iterdir()] == ['thesis.tex']


HARMED = ['meta/request.json', 'parts/flight_000002.json', 'parts/flight_000002.parquet']


def check_damage_while_making(tmp_path, name, harm):
    half_made(tmp_path / 'set')
    (path := tmp_path / 'set' / name).unlink()
    os.mkfifo(path) if harm == 'pipe' else path.write_text('[' * 100_000 if harm == 'deep' else '{"half')
    with pytest.raises(ValueError, match=Path(name).name):
        make(tmp_path / 'set', 6)


@pytest.mark.parametrize('name', HARMED)
def test_a_pipe_while_making_is_not_waited_for(tmp_path, name):
    check_damage_while_making(tmp_path, name, 'pipe')


@pytest.mark.parametrize('name', HARMED)
@pytest.mark.parametrize('harm', ['deep', 'half'])
@pytest.mark.variants
def test_damage_while_making_names_the_file(tmp_path, name, harm):
    check_damage_while_making(tmp_path, name, harm)


# ---- the cache


@pytest.fixture
def mapped(flights, tmp_path, monkeypatch):
    "A set that is too large for memory, and a user's own folder for caches"
    monkeypatch.setattr(row_cache, '_SMALL', 0)
    monkeypatch.setenv('XDG_CACHE_HOME', str(tmp_path / 'user'))
    return flights


def true_rows(i=3):
    with pq.ParquetFile(SAMPLE / SHARD) as f:
        return from_arrow(f.read_row_group(i, ['state'])['state'])


def poison(folder, place):
    "A cache of the right name and size whose rows are all 7 and all said to be there"
    read_flights(folder)[0].obs['sensors']
    (made,) = (folder / 'cache').glob('state-*.npy')
    name, size = made.name, made.stat().st_size
    header = made.read_bytes()[:128]
    shutil.rmtree(folder / 'cache')
    place.parent.mkdir(exist_ok=True)
    rows = np.full((size - len(header)) // 4, 7, np.float32).tobytes()
    place = place.with_name(name) if place.suffix == '.npy' else place
    place.write_bytes(header + rows + b'\1' * (size - len(header) - len(rows)))
    content = bytearray(place.read_bytes())
    n = info_of(folder)['n_frames'] * 1090 * 4
    content[128 + n : 128 + n + 12] = b'\1' * 12
    place.write_bytes(content)
    return place


def test_a_cache_that_came_with_the_set_is_not_believed(mapped):
    place = poison(mapped, mapped / 'cache' / 'x.npy')
    before = place.read_bytes()
    with pytest.warns(UserWarning):
        x = read_flights(mapped)[3].obs['sensors']
    np.testing.assert_array_equal(x, true_rows())
    assert place.read_bytes() == before
    faults = verify_flights(mapped)
    assert faults['file'].tolist() == [place.relative_to(mapped).as_posix()] * 12
    assert faults['fault'].str.contains('holds other rows').all()


def test_a_cache_of_ones_own_is_believed(mapped):
    np.testing.assert_array_equal(read_flights(mapped)[3].obs['sensors'], true_rows())
    (mapped / SHARD).write_bytes((mapped / SHARD).read_bytes()[::-1])
    x = read_flights(mapped)[3].obs['sensors']  # without a word, and not from Parquet
    np.testing.assert_array_equal(x, true_rows())


def test_a_cache_of_ones_own_that_was_replaced_is_not_believed(mapped):
    "Even if it brings the token back"
    read_flights(mapped)[0].obs['sensors']
    (made,) = (mapped / 'cache').glob('state-*.npy')
    content = made.read_bytes()
    os.rename(made, made.with_name('kept'))  # so that its number is not given again
    made.write_bytes(content)
    with pytest.warns(UserWarning):
        read_flights(mapped)[3].obs['sensors']


@pytest.mark.filterwarnings('error')
def test_a_set_that_was_moved_keeps_its_cache(mapped, tmp_path):
    read_flights(mapped)[3].obs['sensors']
    os.rename(mapped, tmp_path / 'moved')
    (tmp_path / 'moved' / SHARD).write_bytes((tmp_path / 'moved' / SHARD).read_bytes()[::-1])
    np.testing.assert_array_equal(read_flights(tmp_path / 'moved')[3].obs['sensors'], true_rows())


def test_a_set_elsewhere_does_not_fill_the_cache_of_this_one(mapped, tmp_path):
    "Two sets of one info.json, one of them with other rows, both cached in the user's folder"
    shutil.copytree(mapped, tmp_path / 'other')
    size = (mapped / SHARD).stat().st_size

    def zero(k, t):
        x = from_arrow(t['state']) * 0
        zeros = pa.FixedSizeListArray.from_arrays(pa.array(x.reshape(-1)), 1090)
        return t.set_column(t.column_names.index('state'), 'state', zeros)

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
    np.testing.assert_array_equal(read_flights(mapped)[3].obs['sensors'], true_rows())


def test_the_cache_is_not_written_through_a_link(mapped, victim):
    (mapped / 'cache').symlink_to(victim)
    with pytest.warns(UserWarning):
        x = read_flights(mapped)[3].obs['sensors']
    np.testing.assert_array_equal(x, true_rows())
    assert verify_flights(mapped)['file'].tolist() == ['cache']


def test_a_linked_file_in_the_cache_is_not_written_through(mapped, tmp_path):
    place = poison(mapped, tmp_path / 'elsewhere')
    made = read_flights(mapped)
    made[0].obs['sensors']
    (name,) = (mapped / 'cache').glob('state-*.npy')
    name.unlink()
    name.symlink_to(place)
    before = place.read_bytes()
    with pytest.warns(UserWarning):
        x = read_flights(mapped)[3].obs['sensors']
    np.testing.assert_array_equal(x, true_rows())
    assert place.read_bytes() == before


def test_only_files_of_the_cache_are_removed(mapped, tmp_path):
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


def factors(change):
    def f(folder):
        entries = info_of(folder)['factors']
        return dict(factors=change(entries) or entries)

    return f


INFO = {
    'a negative rate': lambda f: dict(fps=-3),
    'no rate': lambda f: dict(fps=0),
    'a rate of words': lambda f: dict(fps='5'),
    'a true rate': lambda f: dict(fps=True),
    'a rate that is not finite': lambda f: dict(fps=float('inf')),
    'a rate of null': lambda f: dict(fps=None),
    'no flights': lambda f: dict(n_flights=0),
    'too many flights': lambda f: dict(n_flights=10**12),
    'half a flight': lambda f: dict(n_flights=11.5),
    'columns of words': lambda f: dict(n_columns='many'),
    'a billion columns': lambda f: dict(n_columns=10**9),
    'fewer frames': lambda f: dict(n_frames=-3),
    'a list for film': lambda f: dict(video=[]),
    'film of no size': lambda f: dict(video={}),
    'film of a huge size': lambda f: dict(video=dict(size=10**6)),
    'means over anything': lambda f: dict(mean_and_std_over='the moon'),
    'a name of numbers': lambda f: dict(name=3),
    'a list of packages': lambda f: dict(packages=[]),
    'a request of words': lambda f: dict(request='please'),
    'factors: 3': lambda f: dict(factors=3),
    'factors: [3]': lambda f: dict(factors=[3]),
    'factors of no name': factors(lambda x: x[0].pop('name') and None),
    'a factor twice': factors(lambda x: x + x[:1]),
    'a factor of no kind': factors(lambda x: x[0].update(kind='odd')),
    'a factor of objects': factors(lambda x: x[0].update(dtype='object')),
    'a factor of a list': factors(lambda x: x[0].update(dtype=['f4'])),
    'a factor per moon': factors(lambda x: x[0].update(per='moon')),
    'a factor called state': factors(lambda x: x[0].update(name='state')),
    'a unit of 3': factors(lambda x: x[0].update(unit=3)),
    'files: 3': lambda f: dict(files=3),
    'files without sizes': lambda f: dict(files={k: None for k in info_of(f)['files']}),
    'a file of a negative size': lambda f: dict(files=info_of(f)['files'] | {'x': [-1, '']}),
    'files without the flights': lambda f: dict(
        files={k: v for k, v in info_of(f)['files'].items() if k != 'meta/flights.parquet'}
    ),
    'version of words': lambda f: dict(version='1'),
    'format 3': lambda f: dict(format=3),
}


HOSTILE_INFO = [
    'too many flights',
    'a billion columns',
    'film of a huge size',
    'a factor of objects',
]


def check_fields_of_info(flights, attack):
    change_info(flights, **INFO[attack](flights))
    refused(flights, 'meta/info.json')


@pytest.mark.parametrize('attack', HOSTILE_INFO)
def test_info_that_takes_gigabytes_or_holds_objects_is_refused(flights, attack):
    check_fields_of_info(flights, attack)


@pytest.mark.parametrize('attack', [k for k in INFO if k not in HOSTILE_INFO])
@pytest.mark.variants
def test_fields_of_info(flights, attack):
    check_fields_of_info(flights, attack)


@pytest.mark.parametrize(
    'field',
    [
        'format',
        'version',
        'fps',
        'n_flights',
        'n_frames',
        'n_columns',
        'video',
        'factors',
        'files',
        'request',
        'packages',
        'mean_and_std_over',
        'simulator',
        'name',
    ],
)
@pytest.mark.variants
def test_a_field_of_info_is_missing(flights, field):
    info = info_of(flights)
    del info[field]
    (flights / 'meta' / 'info.json').write_text(json.dumps(info))
    refused(flights, 'meta/info.json', f"the field '{field}' is missing")


@pytest.mark.parametrize('text', ['3', 'null', '[]', '[' * 100_000, '{"half', '', '\xff'])
@pytest.mark.parametrize('name', ['info', 'stats', 'splits'])
@pytest.mark.variants
def test_json_of_anything(flights, name, text):
    (flights / 'meta' / f'{name}.json').write_bytes(text.encode('latin-1'))
    if name != 'info':
        sign(flights)
    refused(flights, f'meta/{name}.json', reads=name == 'info')


# ---- tables

FLIGHTS = {
    'one frame more': (lambda r: r[3].update(n_frames=r[3]['n_frames'] + 1), 'row_offset'),
    'lengths of 1000': (lambda r: [x.update(n_frames=1000) for x in r], 'row_offset'),
    'a length of -5': (lambda r: r[11].update(n_frames=-5), 'flight_000011 has n_frames'),
    'the last flight longer': (lambda r: r[11].update(n_frames=1000), 'meta/info.json says 3109'),
    'a flight of a year': (lambda r: r[11].update(n_frames=10**9), 'flight_000011 has n_frames'),
    'an odd end': (lambda r: r[2].update(ended='whatever'), "flight_000002 has an 'ended'"),
    'an odd split': (lambda r: r[2].update(split='holdout'), 'flight_000002 has a split'),
    'one name twice': (lambda r: r[2].update(flight_id='flight_000001'), 'flight_000001 has the flight_id of another'),
    'a name that is markup': (lambda r: r[2].update(flight_id='<img src=x>'), 'flight_id that is no name'),
    'one index twice': (lambda r: r[2].update(flight_index=1), 'flight_000002 has the flight_index'),
    'two flights in a row group': (lambda r: r[2].update(row_group=1), 'row_group'),
    'a row group below 0': (lambda r: r[0].update(row_group=-1), 'row_group'),
    'an odd offset': (lambda r: r[2].update(row_offset=0), 'flight_000002 has a row_offset'),
    'one film twice': (lambda r: r[2].update(video=r[1]['video']), 'flight_000002 has the video of another'),
    'film among the data': (lambda r: r[2].update(video=SHARD), 'flight_000002 has a video'),
    'data in the film': (lambda r: r[2].update(data=FILM), 'flight_000002 has data'),
    'no film': (lambda r: r[2].update(video=None), 'flight_000002 has a video'),
    'a word for a number': (lambda r: [x.update(n_frames='267') for x in r], "words in the column 'n_frames'"),
    'a number for a word': (lambda r: [x.update(split=3) for x in r], "whole numbers in the column 'split'"),
    'nothing for a word': (lambda r: r[2].update(airport=None), 'flight_000002 has an empty cell'),
    'a wind without end': (
        lambda r: r[2].update(wind_speed=float('inf')),
        "flight_000002 has an infinite 'wind_speed'",
    ),
    'a factor of words': (lambda r: [x.update(wind_speed='strong') for x in r], "words in the column 'wind_speed'"),
    'events of words': (lambda r: [x.update(events='none') for x in r], "no lists in the column 'events'"),
    'a flight too few': (lambda r: r[:-1], '11 rows'),
    'no flights': (lambda r: [dict(x) for x in r[:1]], '1 rows'),
}
FLIGHTS |= {
    f'no column {k}': (lambda r, k=k: [{a: b for a, b in x.items() if a != k} for x in r], f"no column '{k}'")
    for k in (
        'flight_id',
        'flight_index',
        'split',
        'n_frames',
        'ended',
        'conditions',
        'events',
        'data',
        'row_group',
        'row_offset',
        'video',
        'airport',
        'outcome',
    )
}


HOSTILE_FLIGHTS = [
    'a flight of a year',
    'a name that is markup',
    'film among the data',
    'data in the film',
]


def check_the_table_of_flights(flights, attack):
    change, told = FLIGHTS[attack]

    def attacked(rows):
        "What the attack gives, if it is rows; others change them in place"
        out = change(rows)
        return out if isinstance(out, list) and out and isinstance(out[0], dict) else rows

    change_flights(flights, attacked)
    refused(flights, 'meta/flights.parquet', told)


@pytest.mark.parametrize('attack', HOSTILE_FLIGHTS)
def test_a_table_of_flights_without_end_or_with_markup_is_refused(flights, attack):
    check_the_table_of_flights(flights, attack)


@pytest.mark.parametrize('attack', [k for k in FLIGHTS if k not in HOSTILE_FLIGHTS])
@pytest.mark.variants
def test_the_table_of_flights(flights, attack):
    check_the_table_of_flights(flights, attack)


def test_two_lengths_exchanged(flights):
    "Their sum and the offsets are right: the footer of the shard tells"

    def change(rows):
        a, b = rows[3]['n_frames'], rows[4]['n_frames']
        rows[3]['n_frames'], rows[4]['n_frames'], rows[4]['row_offset'] = b, a, rows[3]['row_offset'] + b

    change_flights(flights, change)
    refused(flights, SHARD, 'row group 3 has 274 rows, meta/flights.parquet says 273')


def columns(folder):
    return pd.read_csv(folder / 'meta' / 'columns.csv', keep_default_na=False)


COLUMNS = {
    'every sensor of one name': (lambda c: c.assign(name='speed'), 'two sensors of the name'),
    'a sensor of no name': (lambda c: c.assign(name=['', *c['name'][1:]]), 'without a name'),
    'no names': (lambda c: c.drop(columns='name'), "no column 'name'"),
    'names of numbers': (lambda c: c.assign(name=range(len(c))), 'without a name'),
    'no means': (lambda c: c.drop(columns='mean'), "no column 'mean'"),
    'a mean of words': (lambda c: c.assign(mean=['high', *c['mean'][1:]]), "invalid value in 'mean'"),
    'a mean without end': (lambda c: c.assign(mean=np.inf), "invalid value in 'mean'"),
    'a negative deviation': (lambda c: c.assign(std=-1.0), "invalid value in 'std'"),
    'a sensor too few': (lambda c: c[:-1], '1089 rows'),
    'numbers in another order': (lambda c: c.assign(column=c['column'][::-1].to_numpy()), 'number its sensors'),
}


@pytest.mark.parametrize('attack', COLUMNS)
@pytest.mark.variants
def test_the_table_of_sensors(flights, attack):
    change, told = COLUMNS[attack]
    change(columns(flights)).to_csv(flights / 'meta' / 'columns.csv', index=False)
    sign(flights)
    refused(flights, 'meta/columns.csv', told)


@pytest.mark.parametrize(
    'text, told',
    [
        (b'\xff\xfe', 'columns.csv'),
        (b',' * 2_000_000, '2000001'),
        (b'name,group,units,mean,std\n' + b'1,' * 2_000_000, '2000001'),
        (b'a' * 20_000_000, 'bytes'),
    ],
    ids=['bytes', 'a wide head', 'a wide line', 'a long line'],
)
def test_a_table_of_anything(flights, text, told):
    (flights / 'meta' / 'columns.csv').write_bytes(text)
    sign(flights)
    refused(flights, 'meta/columns.csv', told)


@pytest.mark.parametrize('column', ['mean', 'std'])
def test_moments_that_are_not_those_of_the_rows(flights, column):
    "No reader can know; verify reads all rows"
    table = columns(flights)
    table.loc[7, column] = table.loc[7, column] * 1.01 + 0.01
    table.to_csv(flights / 'meta' / 'columns.csv', index=False)
    sign(flights)
    faults = verify_flights(flights)
    assert faults['file'].tolist() == ['meta/columns.csv']
    assert f'a {column} of sensor 7 that is not that of its rows' in faults['fault'][0]


def test_splits_that_are_not_those_of_the_flights(flights):
    splits = json.loads((flights / 'meta' / 'splits.json').read_text())
    splits['train'], splits['val'] = splits['val'], splits['train']
    (flights / 'meta' / 'splits.json').write_text(json.dumps(splits))
    sign(flights)
    assert verify_flights(flights)['file'].tolist() == ['meta/splits.json']


# ---- rows


def label(value):
    def change(k, t):
        x = t['height'].to_numpy().copy()
        x[4] = value
        return t.set_column(t.column_names.index('height'), 'height', pa.array(x))

    return change


def cells(values):
    def change(k, t):
        return t.set_column(t.column_names.index('height'), 'height', pa.array(values(len(t))))

    return change


def as_lists(k, t):
    return t.set_column(t.column_names.index('state'), 'state', t['state'].cast(pa.list_(pa.float32())))


ROWS = {
    'a label that is no number': (label(np.nan), "not finite"),
    'words for labels': (cells(lambda n: ['high'] * n), "words in the column 'height'"),
    'digits for labels': (cells(lambda n: ['3'] * n), "words in the column 'height'"),
    'empty labels': (cells(lambda n: pa.array([None] * n, pa.float32())), 'empty cells'),
    'lists of any length': (as_lists, 'state is list'),
    'no index': (lambda k, t: t.drop_columns(['flight_index']), "no column 'flight_index'"),
    'a column twice': (lambda k, t: t.append_column('height', t['height']), "more than one column 'height'"),
    'rows of another flight': (
        lambda k, t: t.set_column(0, 'flight_index', pa.array(np.full(len(t), 5, np.int32))),
        'flight',
    ),
}


@pytest.mark.parametrize('attack', ROWS)
@both_layouts
@pytest.mark.variants
def test_rows(flights, attack):
    change, told = ROWS[attack]
    change_shard(flights, change)
    refused(flights, SHARD, told)


def test_row_groups_of_nobody(flights):
    with pq.ParquetFile(flights / SHARD) as f:
        groups = [f.read_row_group(k) for k in range(f.num_row_groups)]
    with pq.ParquetWriter(flights / SHARD, groups[0].schema, use_dictionary=False) as w:
        for t in [*groups, groups[0]]:
            w.write_table(t, row_group_size=len(t))
    sign(flights)
    refused(flights, SHARD, '13 row groups, expected 12')


# ---- film


def test_film_of_another_length_or_size(flights):
    for shape in (274, 64, 64, 3), (20, 96, 96, 3):
        (flights / FILM).write_bytes(encode_film(np.zeros(shape, np.uint8)))
        sign(flights)
        refused(flights, FILM, 'its episode has 274 rows and frames of 96 x 96')


def test_a_list_of_other_films_is_no_film(flights, tmp_path):
    shutil.copy(flights / FILM, tmp_path / 'secret.mp4')
    (flights / FILM).write_text('ffconcat version 1.0\nfile ../../../../secret.mp4\n')
    sign(flights)
    with pytest.raises(ValueError, match=f'{re.escape(FILM)} .*not a video'):
        read_flights(flights)[3].obs['frame'][0]
    faults = verify_flights(flights)
    assert faults['file'].tolist() == [FILM] and 'not a video' in faults['fault'][0]


def test_film_that_says_it_has_more_frames(flights):
    "The tables of the container are cut: 274 frames are declared, half of them are there"
    film = bytearray((flights / FILM).read_bytes())
    at = film.index(b'stsz')
    sizes = np.frombuffer(bytes(film[at + 16 : at + 16 + 4 * 274]), '>u4').copy()
    sizes[137:] = 0
    film[at + 16 : at + 16 + 4 * 274] = sizes.tobytes()
    (flights / FILM).write_bytes(film)
    sign(flights)
    with pytest.raises(ValueError, match='flight_000003.mp4'):
        read_flights(flights)[3].obs['frame'][270]
    faults = verify_flights(flights)
    assert faults['file'].tolist() == [FILM] and '274 frames and holds 137' in faults['fault'][0]


# ---- bombs and hangs


@pytest.mark.parametrize(
    'name', ['meta/info.json', 'meta/columns.csv', 'meta/flights.parquet', 'meta/stats.json', SHARD, FILM]
)
def test_pipes_do_not_hang(flights, name):
    (flights / name).unlink()
    os.mkfifo(flights / name)
    files = info_of(flights)['files'] if name != 'meta/info.json' else {}
    if name in files:
        change_info(flights, files=files | {name: [0, '0' * 32]})
    refused(flights, name)


def test_a_word_of_a_megabyte_in_every_row(flights):
    "A small file that takes gigabytes when its words are written out"
    table = pq.read_table(flights / 'meta' / 'flights.parquet')
    reason = pa.DictionaryArray.from_arrays(pa.array(np.zeros(12, np.int32)), pa.array(['w' * 100_000_000]))
    table = table.set_column(table.column_names.index('reason'), 'reason', reason).replace_schema_metadata(None)
    pq.write_table(table, flights / 'meta' / 'flights.parquet', compression='zstd', store_schema=False)
    sign(flights)
    assert (flights / 'meta' / 'flights.parquet').stat().st_size < 100_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(flights, 'meta/flights.parquet', 'reason.* bytes|bytes.* reason|declares .* bytes')
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500_000  # kB


def test_events_without_end(flights):
    def change(rows):
        rows[3]['events'] = [dict(t=0.0, name='x', value=0.0)] * 5000

    change_flights(flights, change)
    refused(flights, 'meta/flights.parquet', '5... events in 12 flights')


def number(n):
    return b'\x15' + bytes(2 * n >> 7 * k & 127 | (128 if k < 4 else 0) for k in range(5))


def test_a_page_larger_than_the_footer_says(flights):
    "The footer is that of an honest file; Arrow believes the page"
    size, chunk = 500_000_000, pq.read_metadata(flights / SHARD).row_group(3).column(28)
    packed = pa.compress(bytes(size), 'zstd', asbytes=True)

    def head(n):
        sizes = b'\x15\x00' + number(size) + number(n)
        return sizes + b'\x2c' + number(chunk.num_values) + b'\x15\x00\x15\x06\x15\x06\x00\x00'

    rest = chunk.total_compressed_size - len(head(0)) - len(packed) - 8
    packed += (0x184D2A50).to_bytes(4, 'little') + rest.to_bytes(4, 'little') + bytes(rest)  # a frame that is skipped
    page = head(len(packed)) + packed
    assert len(page) == chunk.total_compressed_size
    content = bytearray((flights / SHARD).read_bytes())
    content[chunk.data_page_offset : chunk.data_page_offset + len(page)] = page
    (flights / SHARD).write_bytes(content)
    sign(flights)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused(flights, SHARD, "row group 3 declares 5..,...,... bytes in 'state")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 300_000  # kB


# ---- verify lists


def test_verify_shows_no_control_characters(flights):
    (flights / 'data' / '\x1b[2Jx').write_text('?')
    (fault,) = verify_flights(flights)['file']
    assert fault.isprintable() and 'x1b' in fault


def test_verify_finds_what_is_no_file(flights):
    os.mkfifo(flights / 'data' / 'pipe')
    assert verify_flights(flights)['file'].tolist() == ['data/pipe']


# ---- the published layout


@pytest.fixture
def published(tmp_path):
    "Two flights of four rows with pictures, splits, and a task"
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


def look(root, **how):
    for e in read_published(root, columns='file', **how):
        np.asarray(e.obs['sensors']), np.asarray(e.obs['frame']), [np.asarray(v) for v in e.factors.values()]


def unreadable(root, name, told='', **how):
    with pytest.raises(ValueError, match=told or None) as e:
        look(root, **how)
    assert str(root / name) in str(e.value)


def as_video(folder, name='data.mp4', frames=None):
    "Put a video in the place of the pictures"
    for p in folder.glob('*.jpg'):
        p.unlink()
    frames = np.zeros((4, 16, 32, 3), np.uint8) if frames is None else frames
    (folder / name).write_bytes(encode_film(frames))


def test_the_layout_is_sound(published, tmp_path):
    look(published)
    look(published, task='landing')
    (tmp_path / 'mine').symlink_to(published)
    look(tmp_path / 'mine')


FIRST = 'KSEA/flight1'


@pytest.mark.parametrize(
    'name, how',
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
def test_no_link_is_followed_in_the_layout(published, tmp_path, name, how):
    os.rename(published / name, tmp_path / 'elsewhere')
    (published / name).symlink_to(tmp_path / 'elsewhere')
    unreadable(published, name, 'is a symbolic link', **how)


def test_no_linked_video_is_followed(published, tmp_path):
    as_video(published / FIRST)
    as_video(published / 'KSEA' / 'flight2')
    os.rename(published / FIRST / 'data.mp4', tmp_path / 'other.mp4')
    (published / FIRST / 'data.mp4').symlink_to(tmp_path / 'other.mp4')
    unreadable(published, f'{FIRST}/data.mp4', 'is a symbolic link')


@pytest.mark.parametrize(
    'name, how',
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
def test_pipes_do_not_hang_the_layout(published, name, how):
    if name.endswith('mp4'):
        as_video(published / FIRST)
    (published / name).unlink()
    os.mkfifo(published / name)
    unreadable(published, name, **how)


def png(width, height):
    "The head of a picture that declares a size, and nothing behind it"
    head = b'IHDR' + width.to_bytes(4) + height.to_bytes(4) + bytes([8, 2, 0, 0, 0])
    parts = b'\x89PNG\r\n\x1a\n', (13).to_bytes(4), head, zlib.crc32(head).to_bytes(4)
    return b''.join([*parts, (0).to_bytes(4), b'IDAT', zlib.crc32(b'IDAT').to_bytes(4)])


@pytest.mark.filterwarnings('ignore:Image size')
@pytest.mark.parametrize('side', [6000, 12_000, 60_000])
@pytest.mark.parametrize('t, told', [(0, 'declares|pixels'), (2, '000 x .*data_0.jpg is 32 x 16|declares|pixels')])
def test_pictures_that_declare_a_huge_size(published, side, t, told):
    (published / FIRST / f'data_{t}.jpg').write_bytes(png(side, side))
    unreadable(published, f'{FIRST}/data_{t}.jpg', told)


@pytest.mark.parametrize(
    'content',
    [
        b'%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 32 16\n',
        b'GIF89a\x20\x00\x10\x00\x00\x00\x00;',
        b'',
        b'\xff\xd8\xff',
    ],
    ids=['PostScript', 'GIF', 'empty', 'cut'],
)
def test_pictures_of_another_kind(published, content):
    "PostScript would be run by Ghostscript"
    (published / FIRST / 'data_2.jpg').write_bytes(content)
    unreadable(published, f'{FIRST}/data_2.jpg', 'not an image')


def test_video_of_a_huge_size(published):
    for n in 1, 2:
        as_video(published / 'KSEA' / f'flight{n}', frames=np.zeros((1, 6144, 6144, 3), np.uint8))
    unreadable(published, f'{FIRST}/data.mp4', 'declares frames of 6144 x 6144')


def test_video_that_changes_its_size(published):
    for n in 1, 2:
        as_video(published / 'KSEA' / f'flight{n}')
    with open(published / FIRST / 'data.ts', 'wb') as f:
        for side in 32, 64:
            f.write(stream(np.zeros((2, side, side, 3), np.uint8)))
    (published / FIRST / 'data.mp4').unlink()
    unreadable(published, f'{FIRST}/data.ts')


def stream(frames):
    "A video that may be followed by another"
    import av

    film = io.BytesIO()
    with av.open(film, 'w', format='mpegts') as container:
        s = container.add_stream('libx264', rate=5)
        s.height, s.width, s.pix_fmt = *frames.shape[1:3], 'yuv420p'
        for f in frames:
            container.mux(s.encode(av.VideoFrame.from_ndarray(f, format='rgb24')))
        container.mux(s.encode())
    return film.getvalue()


def test_a_list_of_other_videos_is_no_video(published):
    for n in 1, 2:
        as_video(published / 'KSEA' / f'flight{n}')
    shutil.copy(published / FIRST / 'data.mp4', published / FIRST / 'secret')
    (published / FIRST / 'data.mp4').write_text('ffconcat version 1.0\nfile secret\n')
    unreadable(published, f'{FIRST}/data.mp4', 'not a video')


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
        'a head without end',
        'a row without end',
        'a wide head',
        'a wide row',
        'zeros',
        'bytes',
        'a quote',
        'a quoted head',
    ],
)
@pytest.mark.variants
def test_tables_of_anything(published, text):
    (published / FIRST / 'X.csv').write_bytes(text)
    unreadable(published, f'{FIRST}/X.csv', trim=True)


def test_a_table_of_a_gigabyte(published):
    "Sparse, so that it is quick to make"
    with open(published / FIRST / 'X.csv', 'ab') as f:
        f.truncate(2**30)
    unreadable(published, f'{FIRST}/X.csv', 'bytes, more than')


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
def test_splits_of_anything(published, text):
    (published / 'splits.json').write_bytes(text.encode('latin-1'))
    unreadable(published, 'splits.json')


@pytest.mark.parametrize(
    'name, told',
    [
        ('flight01', 'are both flight 1 of KSEA'),
        ('Flight_1', 'are both flight 1 of KSEA'),
        ('flight' + '9' * 40, 'at most 15 digits'),
    ],
)
def test_numbers_of_flights(published, name, told):
    shutil.copytree(published / FIRST, published / 'KSEA' / name)
    unreadable(published, f'KSEA/{name}', told)


def test_frames_of_one_number(published):
    shutil.copy(published / FIRST / 'data_1.jpg', published / FIRST / 'data_01.jpg')
    unreadable(published, FIRST, 'frame 1 twice')


def test_what_is_exported_has_the_rights_that_the_umask_leaves(published, tmp_path):
    recording, before = read_published(published, columns='file'), os.umask(0o077)
    try:
        out = export_published(recording, tmp_path / 'out', targets={}, progress=False)
    finally:
        os.umask(before)
    assert out.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize('task', ['../elsewhere', '..', 'a/b', '{here}/elsewhere'])
def test_tasks_stay_in_their_folder(published, tmp_path, task):
    recording, task = read_published(published, columns='file'), task.format(here=tmp_path)
    with pytest.raises(ValueError, match=re.escape(repr(task)[:10])):  # a long name is cut
        export_published(recording, tmp_path / 'out', targets={task: {}}, progress=False)
    with pytest.raises(ValueError, match='task'):
        read_published(published, task=task)
    assert {p.name for p in tmp_path.iterdir()} == {'published'}


MARKUP = '<img src=x onerror=alert(1)>'
# what the reader compares with what it knows: a name that it does not know is refused, not shown
KNOWN = {'flight_id', 'split', 'ended', 'data', 'video', 'precipitation', 'ground', 'outcome', 'role', 'kind', 'column'}


def marked(x, key=''):
    "Markup after each text of a row that a set is free to choose"
    if isinstance(x, dict):
        return {k: marked(v, k) for k, v in x.items()}
    if isinstance(x, list):
        return [marked(v) for v in x]
    return x + MARKUP if isinstance(x, str) and key not in KNOWN else x


def test_the_study_shows_names_as_text(flights, tmp_path):
    "Markup in the names of a set is in the study's page, and in no output as markup"
    signal.alarm(300)
    columns = pd.read_csv(flights / 'meta/columns.csv', keep_default_na=False)
    rows = [row if row['name'].startswith('sim/cockpit2/') else marked(row) for row in columns.to_dict('records')]
    pd.DataFrame(rows).to_csv(flights / 'meta/columns.csv', index=False)
    change_flights(flights, lambda rows: [marked(row) for row in rows])
    done = run_study('landing_dataset', dict(path=str(flights), clean=0), tmp_path / 'out', progress=False)
    page = (tmp_path / 'out/landing_dataset.html').read_text()
    assert '<img src=x' not in page and '&lt;img src=x' in page
    outputs = [o.get('data', {}) for c in nbformat.read(done, 4).cells for o in c.get('outputs', [])]
    kinds = 'text/html', 'text/markdown', 'image/svg+xml'
    said = [data[kind] for data in outputs for kind in kinds if kind in data]
    assert any('&lt;img src=x' in text for text in said)
    assert not any('<img src=x' in text for text in said)


@pytest.mark.parametrize('content', [5, [], ['0' * 32] * 100])
def test_a_set_does_not_say_its_own_fingerprint(content, flights):
    before = read_flights(flights).fingerprint()
    change_info(flights, content=content)
    assert read_flights(flights).fingerprint() == before


def test_a_flight_without_rows_hides_no_other_fault(flights):
    def change(rows):
        rows[0]['n_frames'] = 0

    change_flights(flights, change)
    faults = verify_flights(flights)['fault'].tolist()
    assert 'row group 0 has' in ' '.join(faults) and not any('range()' in fault for fault in faults), faults
