"""Recordings that a stranger made: every attack is mounted with a forged file; its size and checksum are forged too."""

import io, json, os, pickle, random, re, shutil, struct, subprocess, sys, tracemalloc, zipfile, zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from srlviz.core.files import checksum
from srlviz.core.recordings import Episode, Factor, Recording, load_recording, verify_recording
from srlviz.core.storage import finish_recording, partial_episodes, write_episode

N = 70, 3, 8  # the lengths of the episodes: 81 steps


def walk(n, seed=0):
    rng = np.random.default_rng(seed)
    frames = rng.integers(1, 255, (n, 6, 5, 1), dtype=np.uint8)
    obs = dict(frame=frames, vector=rng.normal(size=(n, 3)).astype(np.float32))
    truth = dict(x=np.arange(n, dtype=np.uint8), room=np.array(['hall', 'yard'] * n)[:n], wind=np.uint8(seed))
    return Episode(obs, np.arange(n), np.ones(n, np.float32), truth, name=f'walk {seed}')


def walks():
    return Recording([walk(n, i) for i, n in enumerate(N)], 'walks', 5, split=['fit', 'fit', 'test'], meta=dict(seed=0))


@pytest.fixture(scope='module')
def sound(tmp_path_factory):
    "A sound recording as a folder and as a file, beside each other"
    here = tmp_path_factory.mktemp('sound')
    walks().save(here / 'walks')
    walks().save(here / 'walks.npz')
    return here


@pytest.fixture
def folder(sound, tmp_path):
    "A copy of the sound folder"
    shutil.copytree(sound / 'walks', tmp_path / 'walks')
    return tmp_path / 'walks'


def split_steps(folder):
    "The steps of each episode"
    table, ends = pq.read_table(folder / 'steps' / '000.parquet'), np.cumsum(N)
    return [table.slice(b - n, n) for b, n in zip(ends, N)]


def write_steps(folder, parts):
    pq.write_table(pa.concat_tables(parts), folder / 'steps' / '000.parquet', compression='zstd')


def change_episodes(folder, change):
    path = folder / 'episodes.parquet'
    change(pd.read_parquet(path)).to_parquet(path)
    restamp(folder)


def change_json(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def restamp(folder):
    "Make sizes and checksums in meta/info.json those of the files, as a stranger would"

    def change(info):
        info['files'] = {name: [(folder / name).stat().st_size, checksum(folder / name)] for name in info['files']}

    change_json(folder / 'meta' / 'info.json', change)


def read_all(folder, cached=False):
    r = load_recording(folder)
    for e in r.cached() if cached else r:
        for v in (*e.obs.values(), e.actions, e.rewards, *e.factors.values()):
            np.asarray(v)
    return r


def refused(folder, *words, readers=(load_recording, verify_recording)):
    "Each reader raises a ValueError with these words, one of which is a file's name"
    for reader in readers:
        with pytest.raises(ValueError) as e:
            reader(folder)
        assert all(w in str(e.value) for w in words), str(e.value)


def test_a_folder_is_read_as_it_was_written(folder):
    read = verify_recording(folder) or load_recording(folder)
    for e, whole in zip(read, walks()):
        assert e.name == whole.name and e.ended == whole.ended
        columns = [(whole.actions, e.actions), (whole.rewards, e.rewards)]
        columns += [(v, e.obs[k]) for k, v in whole.obs.items()] + [(v, e.factors[k]) for k, v in whole.factors.items()]
        for a, b in columns:
            b = np.asarray(b)
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def test_the_sound_recording_is_read(sound):
    for name in ('walks', 'walks.npz'):
        r = read_all(sound / name)
        verify_recording(sound / name)
        assert (
            r.n_steps == 81
            and r.split.tolist() == ['fit', 'fit', 'test']
            and all((a.obs['frame'][:] == b.obs['frame']).all() for a, b in zip(r, walks()))
        )


# ---- film

FILM = 'frames/frame/000000.zip'  # of 70 frames: two chunks


def repack(path, change, method=zipfile.ZIP_STORED):
    "Change the members of a zip: name -> bytes"
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    change(members)
    with zipfile.ZipFile(path, 'w', method) as z:
        for name, content in members.items():
            z.writestr(name, content)


def head(members, **change):
    members['zarr.json'] = json.dumps(json.loads(members['zarr.json']) | change).encode()


class Bite:
    "Its pickle makes a file when it is read"

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, 'w')


def pickle_in_zarr(members, sentinel):
    "A film of Zarr format 2, whose filters unpickle"
    members.clear()
    filters = [dict(id='vlen-utf8'), dict(id='pickle', protocol=5)]
    members['.zarray'] = json.dumps(
        dict(
            zarr_format=2,
            shape=[70, 6, 5, 1],
            chunks=[70, 6, 5, 1],
            dtype='|O',
            fill_value=None,
            order='C',
            filters=filters,
            compressor=None,
        )
    ).encode()
    members['0.0.0.0'] = pickle.dumps(Bite(sentinel))


@pytest.mark.parametrize('beside', [False, True], ids=['alone', 'beside a sound array'])
def test_no_pickle_in_a_film_runs(folder, tmp_path, monkeypatch, beside):
    monkeypatch.setattr('numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE', True, raising=False)  # as before 0.16.6

    def change(members):
        sound = dict(members) if beside else {}
        pickle_in_zarr(members, tmp_path / 'bitten')
        members |= sound

    repack(folder / FILM, change)
    restamp(folder)
    refused(folder, '000000.zip', readers=[read_all, verify_recording, lambda p: read_all(p, cached=True)])
    assert (
        not (tmp_path / 'bitten').exists()
        and pickle.loads(pickle.dumps(Bite(tmp_path / 'bitten')))
        and (tmp_path / 'bitten').exists()
    )  # it would have


def zstd_zeros(n):
    "A Zstandard frame of n zeros that declares them: blocks of one byte and how often it comes"
    blocks = [min(2**17, n - a) for a in range(0, n, 2**17)]
    return (
        b'\x28\xb5\x2f\xfd\xa0'
        + struct.pack('<I', n)
        + b''.join(
            struct.pack('<I', size << 3 | 1 << 1 | (i == len(blocks) - 1))[:3] + b'\0' for i, size in enumerate(blocks)
        )
    )


def drop_chunks(members):
    for name in [n for n in members if n != 'zarr.json']:
        del members[name]


FILMS = {
    'another shape': (lambda m: head(m, shape=[71, 6, 5, 1]), "the field 'shape' is [71, 6, 5, 1]"),
    'fewer frames': (lambda m: head(m, shape=[64, 6, 5, 1]), "the field 'shape'"),
    'objects': (lambda m: head(m, data_type='string'), "the field 'data_type' is 'string'"),
    'signed numbers': (lambda m: head(m, data_type='int8'), "the field 'data_type'"),
    'another codec': (
        lambda m: head(m, codecs=[{'name': 'bytes'}, {'name': 'gzip', 'configuration': {'level': 1}}]),
        "the field 'codecs'",
    ),
    'a filter more': (
        lambda m: head(m, codecs=[{'name': 'numcodecs.pickle'}, *json.loads(m['zarr.json'])['codecs']]),
        "the field 'codecs'",
    ),
    'a whole film as chunk': (
        lambda m: head(m, chunk_grid={'name': 'regular', 'configuration': {'chunk_shape': [70, 6, 5, 1]}}),
        "the field 'chunk_grid'",
    ),
    'other chunk names': (
        lambda m: head(m, chunk_key_encoding={'name': 'v2', 'configuration': {'separator': '.'}}),
        "the field 'chunk_key_encoding'",
    ),
    'frames filled with 7': (lambda m: head(m, fill_value=7), "the field 'fill_value'"),
    'a transformer': (lambda m: head(m, storage_transformers=[{'name': 'x'}]), "the field 'storage_transformers'"),
    'an unknown field': (lambda m: head(m, extra={'name': 'x', 'must_understand': False}), "the field 'extra'"),
    'a group': (lambda m: head(m, node_type='group'), "the field 'node_type'"),
    'no chunks': (drop_chunks, 'it has 0 of its 2 chunks'),
    'no chunks, no promise': (lambda m: (drop_chunks(m), head(m, attributes={})), "the field 'attributes'"),
    'a chunk less': (lambda m: m.pop('c/1/0/0/0'), 'it has 1 of its 2 chunks'),
    'a chunk more': (lambda m: m.update({'c/2/0/0/0': m['c/1/0/0/0']}), "'c/2/0/0/0' does not belong"),
    'a stranger in the zip': (lambda m: m.update({'../../x': b'x'}), "'../../x' does not belong"),
    'a chunk of 200 MB': (
        lambda m: m.update({'c/0/0/0/0': zstd_zeros(200_000_000)}),
        'c/0/0/0/0 unpacks to 200,000,000 bytes; a chunk of these frames has 1,920',
    ),
    'two frames of zstd': (lambda m: m.update({'c/0/0/0/0': zstd_zeros(1920) * 2}), 'c/0/0/0/0'),
    'a bomb behind a chunk': (
        lambda m: m.update({'c/0/0/0/0': zstd_zeros(1920) + zstd_zeros(200_000_000)}),
        'more data follows it',
    ),
    'a thousand blocks': (
        lambda m: m.update(
            {'c/0/0/0/0': b'\x28\xb5\x2f\xfd\xa0' + struct.pack('<I', 1920) + bytes(3000) + zstd_zeros(1920)[9:]}
        ),
        'more than 71 blocks',
    ),
    'a chunk of no size': (lambda m: m.update({'c/0/0/0/0': b'\x28\xb5\x2f\xfd\0\x58' + bytes(12)}), 'c/0/0/0/0'),
    'a chunk cut': (lambda m: m.update({'c/0/0/0/0': m['c/0/0/0/0'][:5]}), 'c/0/0/0/0'),
    'no zarr.json': (lambda m: m.pop('zarr.json'), 'no zarr.json'),
    'a huge zarr.json': (lambda m: head(m, attributes={'x': 'x' * 100_000}), 'zarr.json has 100,'),
    'a deep zarr.json': (lambda m: m.update({'zarr.json': b'[' * 60_000}), 'RecursionError'),
    'a list for zarr.json': (lambda m: m.update({'zarr.json': b'[]'}), 'zarr.json holds []'),
}


HOSTILE_FILMS = [
    'objects',
    'a filter more',
    'a stranger in the zip',
    'a chunk of 200 MB',
    'a bomb behind a chunk',
    'a thousand blocks',
    'a huge zarr.json',
]


def check_a_film_that_is_not_what_is_claimed_is_named(folder, attack):
    change, words = FILMS[attack]
    repack(folder / FILM, change)
    restamp(folder)
    tracemalloc.start()
    try:
        refused(folder, '000000.zip', words, readers=[read_all, verify_recording])
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.parametrize('attack', HOSTILE_FILMS)
def test_a_film_that_runs_code_or_takes_memory_is_named(folder, attack):
    check_a_film_that_is_not_what_is_claimed_is_named(folder, attack)


@pytest.mark.parametrize('attack', [k for k in FILMS if k not in HOSTILE_FILMS])
@pytest.mark.variants
def test_a_film_that_is_not_what_is_claimed_is_named(folder, attack):
    check_a_film_that_is_not_what_is_claimed_is_named(folder, attack)


@pytest.mark.parametrize('n', [1919, 200_000_000], ids=['less', 'more'])
def test_a_chunk_whose_header_lies_is_named_when_it_is_read(folder, n):
    def change(m):
        m['c/0/0/0/0'] = zstd_zeros(n).replace(struct.pack('<I', n), struct.pack('<I', 1920), 1)

    repack(folder / FILM, change)
    restamp(folder)
    tracemalloc.start()
    try:
        refused(folder, '000000.zip', readers=[read_all])
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50_000_000


def test_a_film_of_packed_members_is_named(folder):
    repack(folder / FILM, lambda m: None, zipfile.ZIP_DEFLATED)
    restamp(folder)
    refused(folder, '000000.zip', 'is packed by the method 8', readers=[read_all, verify_recording])


def test_a_film_with_two_members_of_one_name_is_named(folder):
    with pytest.warns(UserWarning), zipfile.ZipFile(folder / FILM, 'a') as z:
        z.writestr('zarr.json', '{}')
    restamp(folder)
    refused(folder, '000000.zip', "'zarr.json' stands in it twice", readers=[read_all, verify_recording])


def test_a_film_is_looked_at_again_when_it_changed(folder):
    r = load_recording(folder)
    assert r[0].obs['frame'][3].shape == (6, 5, 1)
    repack(folder / FILM, drop_chunks)
    with pytest.raises(ValueError, match='000000'):
        r[0].obs['frame'][3]


# ---- paths


def rename_film(folder, name):
    "Give the film another name in info.json; its files are still listed"
    change_json(
        folder / 'meta' / 'info.json',
        lambda info: info['features'].update({f'obs.{name}': info['features'].pop('obs.frame')}),
    )


@pytest.mark.parametrize(
    'name', ['../../victim/meta/info', '..', '.', '', 'a/b', 'a\\b', 'a\0b', 'x' * 300, 'line\nbreak']
)
def test_the_name_of_a_film_stays_in_its_folder(folder, sound, name):
    victim = folder.parent / 'victim'
    shutil.copytree(sound / 'walks', victim)
    before = sorted((str(p), p.stat().st_mtime_ns) for p in victim.rglob('*'))
    (folder / 'cache').mkdir()
    (folder / 'cache' / 'x').touch()
    rename_film(folder, name)
    refused(folder, 'info.json', 'the name of a film', readers=[lambda p: load_recording(p).cached(), verify_recording])
    assert sorted((str(p), p.stat().st_mtime_ns) for p in victim.rglob('*')) == before


def test_an_absolute_name_of_a_film_overwrites_nothing(folder, tmp_path):
    (tmp_path / 'mine.npy').write_text('mine')
    (tmp_path / 'mine.json').write_text('mine')
    rename_film(folder, str(tmp_path / 'mine'))
    refused(folder, 'info.json', 'the name of a film', readers=[lambda p: load_recording(p).cached(), verify_recording])
    assert (tmp_path / 'mine.npy').read_text() == (tmp_path / 'mine.json').read_text() == 'mine'


def test_a_cache_that_is_a_link_is_not_written_through(folder, tmp_path):
    (tmp_path / 'victim').mkdir()
    (tmp_path / 'victim' / 'frame.json').write_text('"mine"')
    (tmp_path / 'victim' / 'frame.npy').write_text('mine')
    (folder / 'cache').symlink_to(tmp_path / 'victim')
    refused(folder, 'cache is a symbolic link', readers=[lambda p: load_recording(p).cached(), verify_recording])
    assert (
        sorted(p.name for p in (tmp_path / 'victim').iterdir()) == ['frame.json', 'frame.npy']
        and (tmp_path / 'victim' / 'frame.npy').read_text() == 'mine'
    )


@pytest.mark.parametrize('name', ['frame.npy', 'frame.json'])
def test_a_link_in_a_cache_is_neither_read_nor_written(folder, tmp_path, name):
    load_recording(folder).cached()
    (folder / 'cache' / name).rename(tmp_path / name)
    (folder / 'cache' / name).symlink_to(tmp_path / name)
    before = (tmp_path / name).read_bytes()
    refused(folder, f'{name} is a symbolic link', readers=[lambda p: load_recording(p).cached(), verify_recording])
    assert (tmp_path / name).read_bytes() == before


def test_where_may_be_a_link_of_the_user_but_not_what_is_in_it(folder, tmp_path):
    (tmp_path / 'real').mkdir()
    (tmp_path / 'fast').symlink_to(tmp_path / 'real')
    r = load_recording(folder)
    assert (r.cached(where=tmp_path / 'fast')[0].obs['frame'] == walks()[0].obs['frame']).all()
    (tmp_path / 'victim.npy').write_text('mine')
    array = next((tmp_path / 'real').glob('frame-*.npy'))
    array.unlink()
    array.symlink_to(tmp_path / 'victim.npy')
    with pytest.raises(ValueError, match=f'{array.name} is a symbolic link'):
        r.cached(where=tmp_path / 'fast')
    assert (tmp_path / 'victim.npy').read_text() == 'mine'


def in_where(folder):
    "What the cache of a recording is called in a folder of the user's"
    return f"frame-{checksum(folder / 'meta' / 'info.json')[:8]}"


@pytest.mark.parametrize('ending, content', [('npy', 'my measurements'), ('json', '{"my": "notes"}')])
def test_a_file_of_the_user_in_where_is_not_replaced(folder, tmp_path, ending, content):
    (tmp_path / 'mine').mkdir()
    name = f'{in_where(folder)}.{ending}'
    (tmp_path / 'mine' / name).write_text(content)
    with pytest.raises(ValueError, match=f'{name} is not that of a cache'):
        load_recording(folder).cached(where=tmp_path / 'mine')
    assert (tmp_path / 'mine' / name).read_text() == content and len([*(tmp_path / 'mine').iterdir()]) == 1


@pytest.mark.parametrize('locks', [True, False], ids=['with locks', 'on a drive without locks'])
def test_a_cache_removes_only_what_its_own_writers_left(folder, tmp_path, monkeypatch, locks):
    (tmp_path / 'mine' / 'sub').mkdir(parents=True)
    array = f'.{in_where(folder)}.npy'
    mine, left = (
        [tmp_path / 'mine' / '.thesis.0123abcd.tex', tmp_path / 'mine' / 'sub' / f'{array}.0123abcd.npy'],
        tmp_path / 'mine' / f'{array}.0123abcd.npy',
    )
    young = left.with_name(f'{array}.89abcdef.npy')  # of a writer that may live, where no lock says that it is dead
    for p in (*mine, left, young):
        p.touch()
        if p is not young:
            os.utime(p, (0, 0))
    if not locks:
        monkeypatch.setattr('srlviz.core.files.lock_file', lambda f, shared=False: False)
    load_recording(folder).cached(where=tmp_path / 'mine')
    assert all(p.exists() for p in mine) and not left.exists() and young.exists() != locks


@pytest.mark.parametrize(
    'name',
    [
        '../secret',
        '{}/secret',
        'meta/../../secret',
        'meta/../episodes.parquet',
        './episodes.parquet',
        'meta//info.json',
        'a b',
    ],
)
def test_files_lie_in_the_folder(folder, name):
    (folder.parent / 'secret').write_text('secret')
    (folder / 'a b').write_text('x')
    name = name.format(folder.parent)
    change_json(
        folder / 'meta' / 'info.json',
        lambda info: info['files'].update({name: [(folder / name).stat().st_size, checksum(folder / name)]}),
    )
    refused(folder, 'each part of the file name')


@pytest.mark.parametrize(
    'name',
    [
        'meta',
        'meta/info.json',
        'meta/splits.json',
        'meta/factors.csv',
        'episodes.parquet',
        'steps',
        'steps/000.parquet',
        'frames',
        'frames/frame',
        FILM,
    ],
)
def test_a_link_in_the_folder_is_refused(folder, tmp_path, name):
    (folder / name).rename(tmp_path / 'elsewhere')
    (folder / name).symlink_to(tmp_path / 'elsewhere')
    refused(folder, f'{folder / name} is a symbolic link')


def test_verify_names_a_link_that_nothing_uses(folder):
    (folder / 'notes.txt').symlink_to('/etc/hostname')
    refused(folder, 'notes.txt is a symbolic link', readers=[verify_recording])


@pytest.mark.parametrize(
    'column, value, words',
    [
        ('key', '../../../victim', "an episode key is made of letters"),
        ('key', '', 'an episode key is made of'),
        ('key', '000009', 'lacks frames/frame/000009.zip'),
        ('shard', 7, 'steps/007.parquet'),
        ('shard', -1, "'shard' and 'row"),
        ('place', 9, 'rows for the episode'),
        ('place', -1, "'shard' and 'row"),
    ],
)
@pytest.mark.variants
def test_the_table_of_episodes_names_nothing_else(folder, column, value, words):
    name = column if column != 'place' else 'row'
    change_episodes(folder, lambda t: t.assign(**{name: [value, *t[name][1:]]}))
    refused(folder, 'episodes.parquet' if column != 'place' or value < 0 else '000.parquet', words)


ROWS = {
    'rows that overlap': ([0, 69, 73], "has 69 rows for the episode '000000'"),
    'rows of nobody': ([1, 70, 73], "has 0 rows for the episode '000000'"),
    'rows behind the last': ([0, 70, 74], "has 4 rows for the episode '000001'"),
    'rows without end': ([0, 70, 2**62], 'rows for the episode'),
    'rows of halves': ([0, 70.5, 73], "the column 'row' holds double"),
}


HOSTILE_ROWS = [
    'rows without end',
]


def check_the_rows_of_episodes_lie_one_behind_another(folder, attack):
    rows, words = ROWS[attack]
    change_episodes(folder, lambda t: t.assign(row=rows))
    refused(folder, str(folder), words)


@pytest.mark.parametrize('attack', HOSTILE_ROWS)
def test_rows_without_end_are_refused(folder, attack):
    check_the_rows_of_episodes_lie_one_behind_another(folder, attack)


@pytest.mark.parametrize('attack', [k for k in ROWS if k not in HOSTILE_ROWS])
@pytest.mark.variants
def test_the_rows_of_episodes_lie_one_behind_another(folder, attack):
    check_the_rows_of_episodes_lie_one_behind_another(folder, attack)


# ---- paths of a recording that is being made


def named(name):
    return Episode({name: walk(4).obs['frame']}, actions=np.arange(4))


@pytest.mark.parametrize('name', ['../../victim', 'a/b', '', '..'])
def test_the_name_of_a_film_is_refused_before_it_is_written(tmp_path, name):
    with pytest.raises(ValueError, match=re.escape(repr(name)[:10])):
        write_episode(tmp_path / 'deep' / 'new', 'a', named(name))
    with pytest.raises(ValueError, match=re.escape(repr(name)[:10])):
        Recording([named(name)]).save(tmp_path / 'r')
    with pytest.raises(ValueError, match=re.escape(repr(name)[:10])):
        Recording([named(name)]).save(tmp_path / 'r.npz')
    assert not [p for p in tmp_path.rglob('*') if p.is_file()]


@pytest.mark.parametrize('name', ['partial', 'frames', 'frames/frame', FILM.replace('000000', 'a')])
def test_an_episode_is_not_written_through_a_link(tmp_path, name):
    new, victim = tmp_path / 'new', tmp_path / 'victim'
    victim.mkdir()
    (new / name).parent.mkdir(parents=True)
    (new / name).symlink_to(victim)
    with pytest.raises(ValueError, match=f'{name} is a symbolic link'):
        write_episode(new, 'a', walk(4))
    assert not [*victim.iterdir()]


@pytest.mark.parametrize('name', ['meta', 'steps', 'episodes.parquet', 'meta/info.json'])
def test_a_recording_is_not_finished_through_a_link(tmp_path, name):
    new, victim = tmp_path / 'new', tmp_path / 'victim'
    write_episode(new, 'a', walk(4))
    victim.mkdir()
    (new / name).parent.mkdir(exist_ok=True)
    (new / name).symlink_to(victim)
    with pytest.raises(ValueError, match=f'{name} is a symbolic link'):
        finish_recording(new)
    assert not [*victim.iterdir()] and (new / 'partial' / 'a.json').exists()


PARTIAL = {
    'another key': (lambda e: e.update(key='b'), "it is the record of the episode 'b'"),
    'a key with a path': (lambda e: e.update(key='../a'), 'an episode key is made of'),
    'a file outside': (lambda e: e['files'].update({'../../victim': [1, 'x']}), 'its files are'),
    'no file': (lambda e: e.update(files={}), 'its files are'),
    'a length below 0': (lambda e: e.update(length=-5), "the field 'length' is -5"),
    'another end': (lambda e: e.update(ended='whatever'), "the field 'ended' is 'whatever'"),
    'a film outside': (
        lambda e: e['features'].update({'obs.../x': e['features'].pop('obs.frame')}),
        'the name of a film',
    ),
    'a list for a factor': (lambda e: e['factors'].update(wind=[1]), "the factor 'wind' is [1]"),
    'no factor': (lambda e: e.update(factors={}), 'its factors are not those'),
    'no name': (lambda e: e.pop('name'), "the field 'name' is missing"),
    'a content of words': (lambda e: e.update(content='walk'), "the field 'content' is 'walk'"),
}


HOSTILE_PARTIAL = [
    'a key with a path',
    'a file outside',
    'a film outside',
]


def check_a_resumed_recorder_does_not_believe_a_stranger(tmp_path, attack):
    change, words = PARTIAL[attack]
    write_episode(tmp_path, 'a', walk(4))
    change_json(tmp_path / 'partial' / 'a.json', change)
    for reader in (partial_episodes, finish_recording):
        refused(tmp_path, 'a.json', words, readers=[reader])


@pytest.mark.parametrize('attack', HOSTILE_PARTIAL)
def test_a_resumed_recorder_does_not_leave_its_folder(tmp_path, attack):
    check_a_resumed_recorder_does_not_believe_a_stranger(tmp_path, attack)


@pytest.mark.parametrize('attack', [k for k in PARTIAL if k not in HOSTILE_PARTIAL])
@pytest.mark.variants
def test_a_resumed_recorder_does_not_believe_a_stranger(tmp_path, attack):
    check_a_resumed_recorder_does_not_believe_a_stranger(tmp_path, attack)


def test_a_partial_episode_of_another_length_is_named(tmp_path):
    write_episode(tmp_path, 'a', walk(4))
    change_json(tmp_path / 'partial' / 'a.json', lambda e: e.update(length=1000))
    refused(tmp_path, 'a.parquet', '4 rows for an episode of 1,000', readers=[finish_recording])


def test_a_partial_film_that_is_cut_is_named(tmp_path):
    write_episode(tmp_path, 'a', walk(4))
    film = tmp_path / 'frames' / 'frame' / 'a.zip'
    film.write_bytes(film.read_bytes()[:-9])
    refused(tmp_path, 'a.zip is truncated or changed', readers=[finish_recording])


@pytest.mark.parametrize(
    'given, words',
    [
        (dict(hz=-3), 'hz'),
        (dict(hz=np.nan), 'hz'),
        (dict(name=3), 'name'),
        (dict(split={'b': 'fit'}), 'b'),
        (dict(split={'a': 'train'}), 'split.*train'),
        (dict(factors=pd.DataFrame(dict(name=['x', 'x']))), 'x'),
        (dict(factors=pd.DataFrame(dict(name=['y']))), 'y'),
    ],
)
@pytest.mark.variants
def test_what_could_not_be_read_is_not_finished(tmp_path, given, words):
    write_episode(tmp_path, 'a', walk(4))
    with pytest.raises(ValueError, match=words):
        finish_recording(tmp_path, **given)
    finish_recording(tmp_path)
    verify_recording(tmp_path)


# ---- silent acceptance: folders


def set_feature(info, name, **values):
    info['features'][name].update(values)


INFO = {
    'hz below 0': (lambda i: i.update(hz=-3), "the field 'hz' is -3"),
    'hz of nan': (lambda i: i.update(hz=float('nan')), "the field 'hz' is nan"),
    'hz of text': (lambda i: i.update(hz='5'), "the field 'hz' is '5'"),
    'another version': (lambda i: i.update(version=3), "is 'srlviz recording' version 3; this srlviz reads"),
    'a version of true': (lambda i: i.update(version=True), "the field 'version' is True"),
    'another format': (lambda i: i.update(format='x'), "is 'x' version 2"),
    'more episodes': (lambda i: i.update(n_episodes=4), 'meta/info.json says 4'),
    'more steps': (lambda i: i.update(n_steps=1081), 'meta/info.json says 1,081'),
    'meta of text': (lambda i: i.update(meta='x'), "the field 'meta' is 'x'"),
    'a name of a number': (lambda i: i.update(name=3), "the field 'name' is 3"),
    'files of a list': (lambda i: i.update(files=[]), "the field 'files' is []"),
    'no table in files': (lambda i: i['files'].pop('episodes.parquet'), 'lacks episodes.parquet'),
    'no film in files': (lambda i: i['files'].pop(FILM), f'lacks {FILM}'),
    'no shard in files': (lambda i: i['files'].pop('steps/000.parquet'), 'names steps/000.parquet'),
    'no factors in files': (lambda i: i['files'].pop('meta/factors.csv'), 'factors.csv is not among the files'),
    'no features': (lambda i: i.pop('features'), "the field 'features' is missing"),
    'features of a list': (lambda i: i.update(features=[]), "the field 'features' is []"),
    'numbers of objects': (lambda i: set_feature(i, 'obs.vector', dtype='object'), "the field 'dtype' is 'object'"),
    'numbers of structs': (lambda i: set_feature(i, 'obs.vector', dtype='i4,f8'), "the field 'dtype' is 'i4,f8'"),
    'complex numbers': (lambda i: set_feature(i, 'obs.vector', dtype='complex64'), "the field 'dtype'"),
    'wider numbers': (lambda i: set_feature(i, 'obs.vector', dtype='float64'), "the column 'obs.vector' holds"),
    'narrower numbers': (
        lambda i: set_feature(i, 'action', dtype='int8'),
        "the column 'action' holds int64; expected int8",
    ),
    'another width': (lambda i: set_feature(i, 'obs.vector', shape=[4]), "the column 'obs.vector' holds"),
    'a shape below 0': (lambda i: set_feature(i, 'obs.vector', shape=[-3]), "the field 'shape' is [-3]"),
    'a shape of text': (lambda i: set_feature(i, 'obs.vector', shape='3'), "the field 'shape' is '3'"),
    'a huge shape': (lambda i: set_feature(i, 'obs.frame', shape=[2**30, 2**30, 1]), 'more than 2,147,483,648'),
    'film of floats': (lambda i: set_feature(i, 'obs.frame', dtype='float32'), 'should be film'),
    'film that is a column': (lambda i: set_feature(i, 'obs.vector', film=True), 'should be film'),
    'film of text': (lambda i: set_feature(i, 'obs.frame', film='yes'), 'should be film'),
    'a single of rows': (lambda i: set_feature(i, 'factor.x', single=True), "the column 'factor.x'"),
    'rows of a single': (lambda i: i['features']['factor.wind'].pop('single'), "the column 'factor.wind'"),
    'a single observation': (
        lambda i: set_feature(i, 'action', single=True),
        'should be a factor with one value per episode',
    ),
    'a column more': (
        lambda i: i['features'].update({'factor.y': dict(dtype='int8', shape=[])}),
        "the column 'factor.y' is missing",
    ),
    'a column less': (lambda i: i['features'].pop('reward'), "the column 'reward' is not in the features"),
    'an unknown group': (
        lambda i: i['features'].update({'x.y': dict(dtype='int8', shape=[])}),
        'should be action, reward, obs',
    ),
    'contents of text': (lambda i: i.update(content='0' * 32), "the field 'content' is '000"),
    'contents of numbers': (lambda i: i.update(content=[1, 2, 3]), "the field 'content' is [1, 2"),
    'a content less': (lambda i: i['content'].pop(), "the field 'content' has 2 hashes for 3 episodes"),
    'a feature of text': (lambda i: i['features'].update({'obs.x': 'x'}), "got 'x'"),
}


HOSTILE_INFO = [
    'numbers of objects',
    'a huge shape',
]


def check_what_info_says_is_compared(folder, attack):
    change, words = INFO[attack]
    change_json(folder / 'meta' / 'info.json', change)
    refused(folder, str(folder), words)


@pytest.mark.parametrize('attack', HOSTILE_INFO)
def test_info_with_objects_or_without_end_is_refused(folder, attack):
    check_what_info_says_is_compared(folder, attack)


@pytest.mark.parametrize('attack', [k for k in INFO if k not in HOSTILE_INFO])
@pytest.mark.variants
def test_what_info_says_is_compared(folder, attack):
    check_what_info_says_is_compared(folder, attack)


def test_a_content_that_is_anothers_is_found_by_verify(folder):
    change_json(folder / 'meta' / 'info.json', lambda i: i['content'].reverse())
    refused(folder, 'info.json', "the episode '000000' holds something else", readers=[verify_recording])


def lengths(t, *n):
    return t.assign(length=list(n))


EPISODES = {
    'a length of 1000': (lambda t: lengths(t, 1000, 3, 8), 1011, 'has 70 rows for the episode'),
    'a length of -5': (lambda t: lengths(t, 70, -5, 16), 81, 'is -5; expected a whole number above 0'),
    'a length of 0': (lambda t: lengths(t, 73, 0, 8), 81, 'is 0; expected'),
    'lengths that changed': (lambda t: lengths(t, 70, 8, 3), 81, 'has 3 rows for the episode'),
    'lengths that overflow': (lambda t: lengths(t, 2**62, 2**62, 2**62), 81, 'its episodes have'),
    'lengths of floats': (lambda t: lengths(t, 70.0, 3.0, 8.0), 81, "the column 'length' holds double"),
    'one key twice': (lambda t: t.assign(key=['000000', '000000', '000002']), 81, "'000000' is listed twice"),
    'another end': (lambda t: t.assign(ended=['truncated', 'whatever', 'truncated']), 81, "'ended' 'whatever'"),
    'no end': (lambda t: t.assign(ended=['truncated', None, 'truncated']), 81, "the column 'ended' are missing"),
    'no name': (lambda t: t.assign(name=['', None, '']), 81, "the column 'name' are missing"),
    'one place twice': (lambda t: t.assign(**{'row': [0, 1, 1]}), 81, "two episodes have one 'shard' and 'row"),
    'an episode less': (lambda t: t[:2], 73, 'it has 2 episodes; meta/info.json says 3'),
    'a column less': (lambda t: t.drop(columns='factor.wind'), 81, "the column 'factor.wind' is missing"),
    'a column more': (lambda t: t.assign(more=1), 81, "the column 'more' is not in the features"),
    'a factor of 300': (lambda t: t.assign(**{'factor.wind': 300}), 81, "the column 'factor.wind' are none of uint8"),
    'a factor of text': (lambda t: t.assign(**{'factor.wind': 'x'}), 81, "the column 'factor.wind' holds"),
    'a factor of halves': (lambda t: t.assign(**{'factor.wind': 0.5}), 81, "the column 'factor.wind' holds double"),
    'a factor that is not': (
        lambda t: t.assign(**{'factor.wind': pd.array([0, None, 2], 'Int64')}),
        81,
        "the column 'factor.wind' are missing",
    ),
}


HOSTILE_EPISODES = [
    'lengths that overflow',
]


def check_what_the_table_of_episodes_says_is_compared(folder, attack):
    change, n_steps, words = EPISODES[attack]
    change_json(folder / 'meta' / 'info.json', lambda i: i.update(n_steps=n_steps))
    change_episodes(folder, change)
    refused(folder, str(folder), words)


@pytest.mark.parametrize('attack', HOSTILE_EPISODES)
def test_lengths_that_overflow_are_refused(folder, attack):
    check_what_the_table_of_episodes_says_is_compared(folder, attack)


@pytest.mark.parametrize('attack', [k for k in EPISODES if k not in HOSTILE_EPISODES])
@pytest.mark.variants
def test_what_the_table_of_episodes_says_is_compared(folder, attack):
    check_what_the_table_of_episodes_says_is_compared(folder, attack)


FACTORS = 'name,group,kind,unit\nx,,categorical,\nroom,,categorical,\nwind,,categorical,\n'


def worded(column, cell):
    "The table of factors with one more column, told of the room alone"
    head, x, room, wind = FACTORS.splitlines()
    return f'{head},{column}\n{x},\n{room},{cell}\n{wind},\n'


CSV = {
    'one factor twice': (FACTORS + 'x,,categorical,\n', "the factor 'x' is listed twice"),
    'an unknown kind': (
        FACTORS.replace('wind,,categorical', 'wind,,number'),
        "the kind of the factor 'wind' is 'number'",
    ),
    'an unknown factor': (FACTORS + 'y,,categorical,\n', "no episode has the factor 'y'"),
    'a field more': (FACTORS + 'x,,categorical,,\n', 'row 3 has 5 fields; expected 4'),
    'a line cut': (FACTORS[:-9], 'row 2 has 3 fields'),
    'an unknown column': (FACTORS.replace('unit', 'extra', 1), "got 'extra'"),
    'one column twice': (FACTORS.replace('group', 'name', 1), 'a column is in it twice'),
    'no name': (FACTORS.replace('name', 'unit', 1), 'a column is in it twice'),
    'a quote left open': (FACTORS + '"x,,categorical,\n', 'factors.csv is damaged'),
    'a label of two lines': (worded('label', '"a\nb"'), "the label of the factor 'room' is"),
    'an endless label': (worded('label', 'a' * 201), 'expected a text of one line, at most 200 characters'),
    'a label that writes backwards': (worded('label', '\u202eevil'), "the label of the factor 'room' is"),
    'a name that is nothing': (worded('names', 'hall||yard'), "the names of the factor 'room' hold ''"),
    'two names alike': (worded('names', 'hall|hall'), "two names of the factor 'room' are equal"),
    'too many names': (worded('names', '|'.join(map(str, range(1001)))), 'a list of at most 1000 texts'),
    'names of a number': (
        worded('names', 'low|high').replace('room,,categorical', 'room,,continuous'),
        "the names of the factor 'room' are for categories",
    ),
    'nothing': ('', 'factors.csv is damaged'),
}


@pytest.mark.parametrize('attack', CSV)
@pytest.mark.variants
def test_the_table_of_factors_is_compared(folder, attack):
    content, words = CSV[attack]
    (folder / 'meta' / 'factors.csv').write_text(content)
    restamp(folder)
    refused(folder, 'factors.csv', words)


SPLITS = {
    'an unknown split': (dict(train=['000000']), "unknown split 'train'"),
    'an unknown episode': (dict(fit=['000007']), "unknown episode '000007'"),
    'an episode in two': (dict(fit=['000000'], test=['000000']), "is in the splits 'fit' and 'test'"),
    'an episode twice in one': (dict(fit=['000000', '000000']), "is in the splits 'fit' and 'fit'"),
    'an episode of a number': (dict(fit=[0]), 'unknown episode 0'),
    'keys in a text': (dict(fit='000000'), 'expected a list of episode keys'),
    'a list': (['fit'], 'expected split -> episode keys'),
}


@pytest.mark.parametrize('attack', SPLITS)
@pytest.mark.variants
def test_the_splits_are_compared(folder, attack):
    content, words = SPLITS[attack]
    (folder / 'meta' / 'splits.json').write_text(json.dumps(content))
    restamp(folder)
    refused(folder, 'splits.json', words)


def rewrite_steps(folder, change):
    "Change the columns of the first episode, keeping the layout"
    parts = split_steps(folder)
    parts[0] = change(parts[0])
    write_steps(folder, [p.cast(parts[0].schema) for p in parts])
    restamp(folder)


def with_column(t, name, values):
    return t.set_column(t.schema.get_field_index(name), name, values)


def test_rows_that_are_missing_are_named(folder):
    rewrite_steps(folder, lambda t: t[:40])
    refused(folder, '000.parquet', "has 0 rows for the episode '000002'")


@pytest.mark.parametrize('name, dtype', [('action', pa.int64()), ('factor.room', pa.string())])
def test_values_that_are_missing_are_named_when_they_are_read(folder, name, dtype):
    rewrite_steps(folder, lambda t: with_column(t, name, pa.array([None, *t[name].to_pylist()[1:]], dtype)))
    refused(folder, '000.parquet', f"values of the column '{name}' are missing", readers=[read_all, verify_recording])


def test_rows_of_a_list_that_are_missing_are_named(folder):
    rewrite_steps(
        folder,
        lambda t: with_column(
            t, 'obs.vector', pa.array([None, *t['obs.vector'].to_pylist()[1:]], pa.list_(pa.float32(), 3))
        ),
    )
    refused(folder, '000.parquet', "the column 'obs.vector'", readers=[read_all, verify_recording])


def test_statistics_of_another_kind_are_named(folder):
    (folder / 'meta' / 'stats.json').write_text('{"x": {}}')
    restamp(folder)
    refused(folder, 'stats.json', "no step has the column 'x'", readers=[verify_recording])


def test_changed_bytes_are_named(folder):
    film = folder / FILM
    content = bytearray(film.read_bytes())
    content[-300] ^= 1
    film.write_bytes(content)
    refused(folder, '000000.zip has changed: its checksum', readers=[verify_recording])


# ---- caches


def forge_cache(folder, array):
    load_recording(folder).cached()
    np.save(folder / 'cache' / 'frame.npy', array)


@pytest.mark.parametrize(
    'array',
    [
        np.zeros((80, 6, 5, 1), np.uint8),
        np.zeros((81, 6, 5, 3), np.uint8),
        np.zeros((81, 6, 5, 1), np.int16),
        np.zeros((81, 6, 5, 1), np.uint8, order='F'),
        np.zeros(3),
        np.zeros((1000, 6, 5, 1), np.uint8),
    ],
    ids=['a frame less', 'colours', 'wider', 'turned round', 'floats', 'more'],
)
@pytest.mark.variants
def test_a_cache_of_another_shape_is_named(folder, array):
    forge_cache(folder, array)
    refused(folder, 'frame.npy', 'it has the shape', readers=[lambda p: load_recording(p).cached(), verify_recording])


@pytest.mark.parametrize(
    'change',
    [lambda b: b[:-1], lambda b: b + b'x', lambda b: b[:100], lambda b: b'', lambda b: b'x' + b[1:]],
    ids=['cut', 'longer', 'its head', 'empty', 'no npy'],
)
@pytest.mark.variants
def test_a_damaged_cache_is_named(folder, change):
    load_recording(folder).cached()
    (folder / 'cache' / 'frame.npy').write_bytes(change((folder / 'cache' / 'frame.npy').read_bytes()))
    refused(
        folder,
        'frame.npy is damaged',
        'delete it, and it is made again',
        readers=[lambda p: load_recording(p).cached(), verify_recording],
    )


def test_a_cache_with_other_frames_is_named_by_verify(folder):
    load_recording(folder).cached()
    frames = np.load(folder / 'cache' / 'frame.npy')
    frames[72] = 0
    np.save(folder / 'cache' / 'frame.npy', frames)
    refused(folder, 'frame.npy differs from the film near frame 70', readers=[verify_recording])


@pytest.mark.parametrize('stamp', ['', '[]', '"x"', 'null', '"' + '0' * 32 + '"', '[' * 100_000])
@pytest.mark.variants
def test_a_cache_with_another_stamp_is_made_again(folder, stamp):
    forge_cache(folder, np.zeros(3))
    (folder / 'cache' / 'frame.json').write_text(stamp)
    verify_recording(folder)
    assert (load_recording(folder).cached()[0].obs['frame'] == walks()[0].obs['frame']).all()


def test_a_cache_that_does_not_fit_the_disk_is_not_begun(folder, monkeypatch):
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: shutil._ntuple_diskusage(2**40, 2**40, 2000))
    with pytest.raises(OSError, match='2,000.*2,430'):
        load_recording(folder).cached()
    assert not (folder / 'cache' / 'frame.npy').exists()


# ---- silent acceptance: single files


def forge_npz(sound, path, change):
    with np.load(sound / 'walks.npz') as z:
        arrays = dict(z)
    content = json.loads(bytes(arrays['head']))
    change(content, arrays)
    arrays['head'] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    np.savez_compressed(path, **arrays)


def cut(a, name, n):
    a[name] = a[name][:n]


def given(a, **arrays):
    a.update({k.replace('__', '.'): v for k, v in arrays.items()})


NPZ = {
    'fewer rows claimed': (lambda h, a: h.update(lengths=[3, 3, 4]), "expected 10 rows, as the field 'lengths' says"),
    'an episode less claimed': (
        lambda h, a: h.update({k: h[k][:2] for k in ('lengths', 'split', 'ended', 'names')}),
        'expected 73 rows',
    ),
    'a length below 0': (lambda h, a: h.update(lengths=[89, -16, 8]), "the field 'lengths' is [89, -16, 8]"),
    'a length of 0': (lambda h, a: h.update(lengths=[78, 0, 3]), "the field 'lengths'"),
    'a length of a float': (lambda h, a: h.update(lengths=[70.0, 3, 8]), "the field 'lengths'"),
    'no lengths': (lambda h, a: h.update(lengths=[], split=[], ended=[], names=[]), "the field 'lengths' is []"),
    'splits of two': (lambda h, a: h.update(split=['fit', 'fit']), "the field 'split' has 2 values for 3"),
    'ends of four': (lambda h, a: h['ended'].append('truncated'), "the field 'ended' has 4 values for 3"),
    'names of four': (lambda h, a: h['names'].append('x'), "the field 'names' has 4 values for 3"),
    'an unknown split': (lambda h, a: h.update(split=['train', '', '']), "unknown split 'train'"),
    'another end': (lambda h, a: h.update(ended=['whatever'] * 3), "got 'whatever'"),
    'hz below 0': (lambda h, a: h.update(hz=-3), "the field 'hz' is -3"),
    'hz of infinity': (lambda h, a: h.update(hz=float('inf')), "the field 'hz' is inf"),
    'a version of 1.0': (lambda h, a: h.update(version=1.0), "the field 'version' is 1.0"),
    'one factor twice': (lambda h, a: h['factors'].append(h['factors'][0]), "the factor 'x' is listed twice"),
    'an unknown kind': (lambda h, a: h['factors'][0].update(kind='number'), "the kind of the factor 'x' is 'number'"),
    'a factor that is not': (lambda h, a: h['factors'][0].update(name='y'), "no episode has the factor 'y'"),
    'a factor of more': (lambda h, a: h['factors'][0].update(extra=1), "got 'extra'"),
    'a label of a number': (lambda h, a: h['factors'][0].update(label=3), "all text, and names; got 'label': 3"),
    'names of text': (lambda h, a: h['factors'][1].update(names='ab'), "are 'ab'; expected a list"),
    'names of numbers': (lambda h, a: h['factors'][1].update(names=[1]), 'hold 1; expected texts of one line'),
    'factors of text': (lambda h, a: h.update(factors=['x']), "the field 'factors' is ['x']"),
    'rows that are missing': (lambda h, a: cut(a, 'factor.x', 80), "'factor.x' has the shape (80,); expected 81 rows"),
    'a single that is missing': (
        lambda h, a: cut(a, 'factor.wind', 2),
        "'factor.wind' has the shape (2,); expected 3 rows",
    ),
    'a single of rows': (
        lambda h, a: h.update(per_episode=['wind', 'x']),
        "'factor.x' has the shape (81,); expected 3 rows",
    ),
    'a single that is not': (lambda h, a: h.update(per_episode=['wind', 'y']), "names 'factor.y', which is not there"),
    'an array more': (lambda h, a: given(a, x=np.zeros(81)), "the array 'x' should be"),
    'a number for rows': (lambda h, a: given(a, obs__y=np.float32(3)), "'obs.y' has the shape ()"),
    'structs': (lambda h, a: given(a, obs__y=np.zeros(81, 'i4,f8')), "'obs.y' is of the type"),
    'a film outside': (lambda h, a: given(a, **{'obs../x': a.pop('obs.frame')}), 'the name of a film'),
}


HOSTILE_NPZ = [
    'a film outside',
]


def check_what_the_head_of_a_file_says_is_compared(sound, tmp_path, attack):
    change, words = NPZ[attack]
    forge_npz(sound, tmp_path / 'forged.npz', change)
    refused(tmp_path / 'forged.npz', 'forged.npz', words)


@pytest.mark.parametrize('attack', HOSTILE_NPZ)
def test_a_file_does_not_lead_out_of_its_folder(sound, tmp_path, attack):
    check_what_the_head_of_a_file_says_is_compared(sound, tmp_path, attack)


@pytest.mark.parametrize('attack', [k for k in NPZ if k not in HOSTILE_NPZ])
@pytest.mark.variants
def test_what_the_head_of_a_file_says_is_compared(sound, tmp_path, attack):
    check_what_the_head_of_a_file_says_is_compared(sound, tmp_path, attack)


def test_the_checksums_of_a_file_are_asked(sound, tmp_path):
    content = bytearray((sound / 'walks.npz').read_bytes())
    with zipfile.ZipFile(sound / 'walks.npz') as z:
        start = z.getinfo('obs.frame.npy').header_offset
    content[start + 2000] ^= 4
    (tmp_path / 'flipped.npz').write_bytes(content)
    refused(tmp_path / 'flipped.npz', 'flipped.npz is damaged')


# ---- bombs


def npy(shape, dtype='|u1'):
    f = io.BytesIO()
    np.lib.format.write_array_header_1_0(f, dict(descr=dtype, fortran_order=False, shape=shape))
    return f.getvalue()


def packed_zeros(head, n):
    "Deflate that unpacks to a head and n MB of zeros: the same bytes again and again"
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = c.compress(head) + c.flush(zlib.Z_FULL_FLUSH)
    return first + (c.compress(bytes(2**20)) + c.flush(zlib.Z_FULL_FLUSH)) * n + c.flush()


def test_a_file_that_unpacks_to_3_gb_is_refused_unless_it_is_asked_for(sound, tmp_path):
    shutil.copy(sound / 'walks.npz', tmp_path / 'bomb.npz')
    with zipfile.ZipFile(tmp_path / 'bomb.npz', 'a') as z:
        head = npy((81, 38 * 2**20))
        z.writestr(member := zipfile.ZipInfo('obs.more.npy'), packed_zeros(head, 81 * 38))
        member.compress_type, member.file_size = (
            zipfile.ZIP_DEFLATED,
            len(head) + 81 * 38 * 2**20,
        )  # in the table, which is written last
    assert (tmp_path / 'bomb.npz').stat().st_size < 5_000_000
    tracemalloc.start()
    try:
        refused(tmp_path / 'bomb.npz', 'bomb.npz', 'more than 2,147,483,648; if you trust it', readers=[load_recording])
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50_000_000


def test_two_members_of_a_file_with_one_name_are_refused(sound, tmp_path):
    shutil.copy(sound / 'walks.npz', tmp_path / 'two.npz')
    with zipfile.ZipFile(tmp_path / 'two.npz', 'a') as z:
        z.writestr('obs.frame', npy((81, 1, 1, 1)) + bytes(81))
    refused(tmp_path / 'two.npz', 'two.npz', "'obs.frame' is no array")


def bomb_shard(folder, rows, width=1, dtype=np.float32):
    "One episode of many equal rows: a few thousand bytes"
    info = json.loads((folder / 'meta' / 'info.json').read_text())
    feature = dict(dtype=str(np.dtype(dtype)), shape=[width] if width > 1 else [])
    info['features'] = {'obs.vector': feature}
    info |= dict(n_episodes=1, n_steps=rows, content=info['content'][:1])
    info['files'] = {k: v for k, v in info['files'].items() if not k.startswith('frames/')}
    (folder / 'meta' / 'info.json').write_text(json.dumps(info))
    values = pa.array(np.zeros(rows * width, dtype))
    table = pa.table({'obs.vector': pa.FixedSizeListArray.from_arrays(values, width) if width > 1 else values})
    pq.write_table(table, folder / 'steps' / '000.parquet', row_group_size=rows, compression='zstd')
    (folder / 'meta' / 'factors.csv').write_text('name,group,kind,unit\n')
    (folder / 'meta' / 'splits.json').write_text('{}')
    change_episodes(folder, lambda t: t[:1].assign(length=rows)[['key', 'name', 'ended', 'length', 'shard', 'row']])


def test_a_column_that_unpacks_to_more_than_it_may_is_refused(folder, monkeypatch):
    monkeypatch.setattr('srlviz.core.storage.row_groups.MAX_BYTES', 2**24)  # as 2 GB is to a file of 100 kB
    bomb_shard(folder, 5_000_000)
    assert (folder / 'steps' / '000.parquet').stat().st_size < 20_000 and load_recording(folder).n_steps == 5_000_000
    refused(
        folder,
        '000.parquet',
        '5,000,000 rows need 20,000,000 bytes',
        readers=[lambda p: load_recording(p)[0].obs['vector'], verify_recording],
    )


def number(n):
    return b'\x15' + bytes(2 * n >> 7 * k & 127 | (128 if k < 4 else 0) for k in range(5))


def test_a_page_larger_than_the_footer_says_is_refused(folder):
    "The footer is that of an honest file; Arrow believes the page"
    rows = np.random.default_rng(0).normal(size=(70, 3)).astype(np.float32)
    values = pa.FixedSizeListArray.from_arrays(rows.ravel(), 3)
    rewrite_steps(folder, lambda t: with_column(t, 'obs.vector', values))
    path, size = folder / 'steps' / '000.parquet', 2_000_000_000
    chunk = next(c for c in columns_of(path) if c.path_in_schema.startswith('obs.vector'))
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset

    def head(packed):
        sizes = b'\x15\x00' + number(size) + number(packed)
        return sizes + b'\x2c' + number(chunk.num_values) + b'\x15\x00\x15\x06\x15\x06\x00\x00'

    page = head(chunk.total_compressed_size - len(head(0)))
    content = bytearray(path.read_bytes())
    content[start : start + len(page)] = page
    path.write_bytes(content)
    restamp(folder)
    words = '000.parquet', "declares 2,00", "'obs.vector"
    refused(folder, *words, readers=[lambda p: load_recording(p)[0].obs['vector'], verify_recording])


def columns_of(path):
    group = pq.read_metadata(path).row_group(0)
    return [group.column(j) for j in range(group.num_columns)]


def test_a_list_that_is_longer_than_its_rows_is_refused(folder):
    bomb_shard(folder, 1000, width=3000)
    change_json(folder / 'meta' / 'info.json', lambda i: set_feature(i, 'obs.vector', shape=[3]))
    refused(folder, '000.parquet', "the column 'obs.vector' holds")


def test_a_text_that_stands_in_every_row_is_refused(folder):
    word = pa.DictionaryArray.from_arrays(np.zeros(70, np.int32), ['w' * 4_000_000])
    rewrite_steps(folder, lambda t: with_column(t, 'factor.room', word.cast(pa.string())))
    assert (folder / 'steps' / '000.parquet').stat().st_size < 1_000_000
    refused(
        folder,
        '000.parquet',
        'bytes, more than 2',
        readers=[lambda p: load_recording(p)[0].factors['room'], verify_recording],
    )


def test_one_long_text_does_not_widen_all_rows(folder):
    rewrite_steps(folder, lambda t: with_column(t, 'factor.room', pa.array(['w' * 8_000_000] + [''] * 69)))
    refused(
        folder,
        '000.parquet',
        'has texts of 8,000,000 characters, too long for 70 rows',
        readers=[lambda p: load_recording(p)[0].factors['room'], verify_recording],
    )


# ---- hangs

FIFOS = [
    'meta/info.json',
    'meta/splits.json',
    'meta/factors.csv',
    'meta/stats.json',
    'episodes.parquet',
    'steps/000.parquet',
    FILM,
]


def in_time(code, *args):
    "Run a program that must end by itself; gives what it prints"
    return subprocess.run(
        [sys.executable, '-c', code, *map(str, args)], capture_output=True, text=True, timeout=60, check=True
    ).stdout


HANGS = '''
import sys
from srlviz.core.recordings import load_recording, verify_recording
from srlviz.core.storage import partial_episodes
def first(p): return load_recording(p)[0].obs['frame'][0]
for what in first, verify_recording, lambda p: load_recording(p).cached(), partial_episodes:
    try: what(sys.argv[1]); print('fine')
    except ValueError as e: print(str(e).replace(chr(10), ' '))
'''


@pytest.mark.parametrize('name', FIFOS)
def test_a_named_pipe_in_a_recording_does_not_hang(folder, name):
    change_json(folder / 'meta' / 'info.json', lambda i: name in i['files'] and i['files'].update({name: [0, 'x']}))
    (folder / name).unlink()
    os.mkfifo(folder / name)
    told = in_time(HANGS, folder).splitlines()
    assert all(name.split('/')[-1] in line for line in told[:3])


@pytest.mark.parametrize('name', ['frame.npy', 'frame.json'])
def test_a_named_pipe_in_a_cache_does_not_hang(folder, name):
    load_recording(folder).cached()
    (folder / 'cache' / name).unlink()
    os.mkfifo(folder / 'cache' / name)
    assert in_time(HANGS, folder).splitlines() == ['fine'] * 4  # the cache is made again


def test_a_named_pipe_among_partial_episodes_does_not_hang(tmp_path):
    (tmp_path / 'partial').mkdir()
    os.mkfifo(tmp_path / 'partial' / 'a.json')
    assert 'a.json is not a regular file' in in_time(HANGS, tmp_path).splitlines()[3]


def test_a_named_pipe_for_a_file_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / 'x.npz')
    assert 'x.npz' in in_time(HANGS, tmp_path / 'x.npz').splitlines()[0]


# ---- errors name the file


def mutate(content, rng):
    "Cut, flip, or overwrite a part of some bytes"
    content, kind, n = bytearray(content), rng.randrange(4), len(content)
    if kind == 0:
        return content[: rng.randrange(n)]
    a = rng.randrange(n)
    if kind == 1:
        content[a] ^= 1 << rng.randrange(8)
    elif kind == 2:
        content[a : a + 8] = rng.randbytes(8)
    else:
        content[a : a + 4] = b'\xff\xff\xff\x7f'
    return content


@pytest.mark.parametrize(
    'name',
    [
        'meta/info.json',
        'meta/splits.json',
        'meta/factors.csv',
        'meta/stats.json',
        'episodes.parquet',
        'steps/000.parquet',
        FILM,
        'cache/frame.npy',
        'cache/frame.json',
    ],
)
@pytest.mark.variants
def test_a_mutated_file_is_named(folder, name):
    load_recording(folder).cached()
    good, rng, bare = (folder / name).read_bytes(), random.Random(zlib.crc32(name.encode())), []
    told = (folder / 'meta' / 'info.json').read_bytes()
    for i in range(25):
        (folder / name).write_bytes(mutate(good, rng))
        if not name.startswith(('cache', 'meta/info')):
            restamp(folder)
        if name != 'cache/frame.json' and not name.startswith('meta/info'):
            (folder / 'cache' / 'frame.json').write_text(json.dumps(checksum(folder / 'meta' / 'info.json')))
        for reader in (read_all, verify_recording, lambda p: read_all(p, cached=True)):
            try:
                reader(folder)
            except (ValueError, FileNotFoundError) as e:
                if str(folder) not in str(e):
                    bare.append((i, repr(e)))
            except Exception as e:
                bare.append((i, repr(e)))
        (folder / 'meta' / 'info.json').write_bytes(told)
    assert not bare


def test_a_mutated_single_file_is_named(sound, tmp_path):
    good, rng = (sound / 'walks.npz').read_bytes(), random.Random(0)
    for i in range(60):
        (tmp_path / 'm.npz').write_bytes(mutate(good, rng))
        try:
            read_all(tmp_path / 'm.npz')
        except ValueError as e:
            assert 'm.npz' in str(e), (i, repr(e))


# ---- constructors, and the rights of what is saved


def test_constructors_take_what_can_be_saved():
    e = walk(4)
    for hz in (-3, 0, np.nan, np.inf, '5', True):
        with pytest.raises(ValueError, match='hz.*0'):
            Recording([e], hz=hz)
    with pytest.raises(ValueError, match="the factor 'x'"):
        Recording([e], factors=[Factor('x'), Factor('x')])
    with pytest.raises(ValueError, match='name.*3'):
        Recording([e], name=3)
    with pytest.raises(ValueError, match='unit.*3'):
        Factor('x', unit=3)
    with pytest.raises(ValueError, match='names.*x.*3'):
        Factor('x', names=(3,))
    with pytest.raises(ValueError, match='name.*None'):
        Episode(e.obs, name=None)
    with pytest.raises(ValueError, match='modalities.*got 1'):
        Episode({1: np.zeros(3)})
    assert Recording([e], hz=np.float32(60)).hz == 60


@pytest.mark.parametrize(
    'mask, folder_mode, file_mode', [(0o077, 0o700, 0o600), (0o022, 0o755, 0o644), (0o002, 0o775, 0o664)]
)
def test_what_is_saved_has_the_rights_that_the_umask_leaves(tmp_path, mask, folder_mode, file_mode):
    before = os.umask(mask)
    try:
        walks().save(tmp_path / 'r')
        walks().save(tmp_path / 'r.npz')
    finally:
        os.umask(before)
    for p in (tmp_path / 'r', *(tmp_path / 'r').rglob('*'), tmp_path / 'r.npz'):
        assert p.stat().st_mode & 0o777 == (folder_mode if p.is_dir() else file_mode), p


def test_words_of_factors_are_read_and_may_be_missing(folder, sound, tmp_path):
    "Files of the version before have neither labels nor names; what was written then is written now"
    old = load_recording(folder)
    assert [(f.label, f.names) for f in old.factors] == [('x', ()), ('room', ()), ('wind', ())]
    assert (folder / 'meta' / 'factors.csv').read_text().splitlines()[0] == 'name,group,kind,unit'
    (folder / 'meta' / 'factors.csv').write_text(worded('names', 'hall|yard'))
    restamp(folder)
    assert load_recording(folder).factors[1].names == ('hall', 'yard')
    forge_npz(sound, tmp_path / 'told.npz', lambda h, a: h['factors'][1].update(label='where', names=['hall']))
    assert load_recording(tmp_path / 'told.npz').factors[1] == Factor('room', label='where', names=('hall',))
