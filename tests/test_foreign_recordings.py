"""Test reading of untrusted recordings: every attack uses a forged file, whose size and checksum are forged too."""

import io, json, os, pickle, random, re, shutil, struct, subprocess, sys, tracemalloc, zipfile, zlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from srlviz.core.files import checksum
from srlviz.core.recordings import Episode, Factor, Recording, load_recording, verify_recording
from srlviz.core.storage import finish_recording, partial_episodes, write_episode
from srlviz.core.twins import Twins, twin_table

LENGTHS = 70, 3, 8  # of the episodes: 81 steps


def walk(n, seed=0):
    "Return an episode of `n` steps with film, sensors and factors"
    rng = np.random.default_rng(seed)
    frames = rng.integers(1, 255, (n, 6, 5, 1), dtype=np.uint8)
    obs = dict(frame=frames, vector=rng.normal(size=(n, 3)).astype(np.float32))
    truth = dict(x=np.arange(n, dtype=np.uint8), room=np.array(['hall', 'yard'] * n)[:n], wind=np.uint8(seed))
    return Episode(obs, np.arange(n), np.ones(n, np.float32), truth, name=f'walk {seed}')


def walks():
    return Recording(
        [walk(n, i) for i, n in enumerate(LENGTHS)], 'walks', 5, split=['fit', 'fit', 'test'], meta=dict(seed=0)
    )


@pytest.fixture(scope='module')
def valid_files(tmp_path_factory):
    "A folder with a valid recording, saved both as a folder and as a single file"
    root = tmp_path_factory.mktemp('valid')
    walks().save(root / 'walks')
    walks().save(root / 'walks.npz')
    return root


@pytest.fixture
def folder(valid_files, tmp_path):
    "A copy of the valid recording folder"
    shutil.copytree(valid_files / 'walks', tmp_path / 'walks')
    return tmp_path / 'walks'


def split_steps(folder):
    "Return the table of steps of each episode"
    table = pq.read_table(folder / 'steps' / '000.parquet')
    ends = np.cumsum(LENGTHS)
    return [table.slice(end - n, n) for end, n in zip(ends, LENGTHS)]


def write_steps(folder, parts):
    pq.write_table(pa.concat_tables(parts), folder / 'steps' / '000.parquet', compression='zstd')


def change_episodes(folder, change):
    path = folder / 'episodes.parquet'
    change(pd.read_parquet(path)).to_parquet(path)
    update_checksums(folder)


def change_json(path, change):
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def update_checksums(folder):
    "Write the current sizes and checksums of the files into meta/info.json, as an attacker would"

    def change(info):
        info['files'] = {name: [(folder / name).stat().st_size, checksum(folder / name)] for name in info['files']}

    change_json(folder / 'meta' / 'info.json', change)


def read_all(folder, cached=False):
    "Load a recording and read every array of it"
    recording = load_recording(folder)
    for e in recording.cached() if cached else recording:
        for v in (*e.obs.values(), e.actions, e.rewards, *e.factors.values()):
            np.asarray(v)
    return recording


def assert_refused(folder, *words, readers=(load_recording, verify_recording)):
    "Assert that each reader raises a ValueError with these words, one of which is the name of a file"
    for reader in readers:
        with pytest.raises(ValueError) as e:
            reader(folder)
        assert all(w in str(e.value) for w in words), str(e.value)


def test_a_folder_is_read_as_it_was_written(folder):
    verify_recording(folder)
    for e, written in zip(load_recording(folder), walks()):
        assert e.name == written.name and e.ended == written.ended
        columns = [(written.actions, e.actions), (written.rewards, e.rewards)]
        columns += [(v, e.obs[k]) for k, v in written.obs.items()]
        columns += [(v, e.factors[k]) for k, v in written.factors.items()]
        for a, b in columns:
            b = np.asarray(b)
            assert (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def test_a_valid_recording_is_read(valid_files):
    for name in ('walks', 'walks.npz'):
        r = read_all(valid_files / name)
        verify_recording(valid_files / name)
        assert (
            r.n_steps == 81
            and r.split.tolist() == ['fit', 'fit', 'test']
            and all((a.obs['frame'][:] == b.obs['frame']).all() for a, b in zip(r, walks()))
        )


# ---- film

FILM = 'frames/frame/000000.zip'  # 70 frames in two chunks


def repack(path, change, method=zipfile.ZIP_STORED):
    "Rewrite a zip after `change` has edited its members (name -> bytes)"
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    change(members)
    with zipfile.ZipFile(path, 'w', method) as z:
        for name, content in members.items():
            z.writestr(name, content)


def edit_header(members, **change):
    "Change fields of zarr.json"
    members['zarr.json'] = json.dumps(json.loads(members['zarr.json']) | change).encode()


class FileCreator:
    "An object whose pickle creates a file when it is loaded"

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return open, (self.path, 'w')


def pickle_in_zarr(members, sentinel):
    "Replace a film by one of Zarr format 2, whose filters unpickle"
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
    members['0.0.0.0'] = pickle.dumps(FileCreator(sentinel))


@pytest.mark.parametrize('beside', [False, True], ids=['alone', 'beside a valid array'])
def test_pickles_in_a_film_are_not_loaded(folder, tmp_path, monkeypatch, beside):
    monkeypatch.setattr('numcodecs.pickles.ALLOW_UNSAFE_PICKLE_DECODE', True, raising=False)  # as before 0.16.6

    def change(members):
        valid_members = dict(members) if beside else {}
        pickle_in_zarr(members, tmp_path / 'created')
        members |= valid_members

    repack(folder / FILM, change)
    update_checksums(folder)
    assert_refused(folder, '000000.zip', readers=[read_all, verify_recording, lambda p: read_all(p, cached=True)])
    assert (
        not (tmp_path / 'created').exists()
        and pickle.loads(pickle.dumps(FileCreator(tmp_path / 'created')))
        and (tmp_path / 'created').exists()
    )  # the pickle does create the file when it is loaded


def zstd_zeros(n):
    "Return a Zstandard frame of `n` zeros that declares its size: run-length blocks, one byte and its count each"
    blocks = [min(2**17, n - a) for a in range(0, n, 2**17)]
    return (
        b'\x28\xb5\x2f\xfd\xa0'
        + struct.pack('<I', n)
        + b''.join(
            struct.pack('<I', size << 3 | 1 << 1 | (i == len(blocks) - 1))[:3] + b'\0' for i, size in enumerate(blocks)
        )
    )


def drop_chunks(members):
    "Remove all members but zarr.json"
    for name in [n for n in members if n != 'zarr.json']:
        del members[name]


FILMS = {
    'another shape': (lambda m: edit_header(m, shape=[71, 6, 5, 1]), "the field 'shape' is [71, 6, 5, 1]"),
    'fewer frames': (lambda m: edit_header(m, shape=[64, 6, 5, 1]), "the field 'shape'"),
    'objects': (lambda m: edit_header(m, data_type='string'), "the field 'data_type' is 'string'"),
    'signed numbers': (lambda m: edit_header(m, data_type='int8'), "the field 'data_type'"),
    'another codec': (
        lambda m: edit_header(m, codecs=[{'name': 'bytes'}, {'name': 'gzip', 'configuration': {'level': 1}}]),
        "the field 'codecs'",
    ),
    'an extra filter': (
        lambda m: edit_header(m, codecs=[{'name': 'numcodecs.pickle'}, *json.loads(m['zarr.json'])['codecs']]),
        "the field 'codecs'",
    ),
    'the whole film as one chunk': (
        lambda m: edit_header(m, chunk_grid={'name': 'regular', 'configuration': {'chunk_shape': [70, 6, 5, 1]}}),
        "the field 'chunk_grid'",
    ),
    'other chunk names': (
        lambda m: edit_header(m, chunk_key_encoding={'name': 'v2', 'configuration': {'separator': '.'}}),
        "the field 'chunk_key_encoding'",
    ),
    'frames filled with 7': (lambda m: edit_header(m, fill_value=7), "the field 'fill_value'"),
    'a transformer': (
        lambda m: edit_header(m, storage_transformers=[{'name': 'x'}]),
        "the field 'storage_transformers'",
    ),
    'an unknown field': (lambda m: edit_header(m, extra={'name': 'x', 'must_understand': False}), "the field 'extra'"),
    'a group': (lambda m: edit_header(m, node_type='group'), "the field 'node_type'"),
    'no chunks': (drop_chunks, 'it has 0 of its 2 chunks'),
    'no chunks and no attributes': (
        lambda m: (drop_chunks(m), edit_header(m, attributes={})),
        "the field 'attributes'",
    ),
    'a missing chunk': (lambda m: m.pop('c/1/0/0/0'), 'it has 1 of its 2 chunks'),
    'an extra chunk': (lambda m: m.update({'c/2/0/0/0': m['c/1/0/0/0']}), "'c/2/0/0/0' does not belong"),
    'an unknown member': (lambda m: m.update({'../../x': b'x'}), "'../../x' does not belong"),
    'a chunk of 200 MB': (
        lambda m: m.update({'c/0/0/0/0': zstd_zeros(200_000_000)}),
        'c/0/0/0/0 unpacks to 200,000,000 bytes; a chunk of these frames has 1,920',
    ),
    'two frames of zstd': (lambda m: m.update({'c/0/0/0/0': zstd_zeros(1920) * 2}), 'c/0/0/0/0'),
    'a bomb after a chunk': (
        lambda m: m.update({'c/0/0/0/0': zstd_zeros(1920) + zstd_zeros(200_000_000)}),
        'more data follows it',
    ),
    'a thousand blocks': (
        lambda m: m.update(
            {'c/0/0/0/0': b'\x28\xb5\x2f\xfd\xa0' + struct.pack('<I', 1920) + bytes(3000) + zstd_zeros(1920)[9:]}
        ),
        'more than 71 blocks',
    ),
    'a chunk without a size': (lambda m: m.update({'c/0/0/0/0': b'\x28\xb5\x2f\xfd\0\x58' + bytes(12)}), 'c/0/0/0/0'),
    'a truncated chunk': (lambda m: m.update({'c/0/0/0/0': m['c/0/0/0/0'][:5]}), 'c/0/0/0/0'),
    'no zarr.json': (lambda m: m.pop('zarr.json'), 'no zarr.json'),
    'a huge zarr.json': (lambda m: edit_header(m, attributes={'x': 'x' * 100_000}), 'zarr.json has 100,'),
    'a deeply nested zarr.json': (lambda m: m.update({'zarr.json': b'[' * 60_000}), 'RecursionError'),
    'a list in zarr.json': (lambda m: m.update({'zarr.json': b'[]'}), 'zarr.json holds []'),
}


HOSTILE_FILMS = [
    'objects',
    'an extra filter',
    'an unknown member',
    'a chunk of 200 MB',
    'a bomb after a chunk',
    'a thousand blocks',
    'a huge zarr.json',
]


def check_forged_film(folder, attack):
    change, words = FILMS[attack]
    repack(folder / FILM, change)
    update_checksums(folder)
    tracemalloc.start()
    try:
        assert_refused(folder, '000000.zip', words, readers=[read_all, verify_recording])
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50_000_000


@pytest.mark.parametrize('attack', HOSTILE_FILMS)
def test_a_film_that_runs_code_or_exhausts_memory_is_refused(folder, attack):
    check_forged_film(folder, attack)


@pytest.mark.parametrize('attack', [k for k in FILMS if k not in HOSTILE_FILMS])
@pytest.mark.variants
def test_a_film_that_contradicts_its_metadata_is_refused(folder, attack):
    check_forged_film(folder, attack)


@pytest.mark.parametrize('n', [1919, 200_000_000], ids=['less', 'more'])
def test_a_chunk_with_a_false_size_is_refused_when_it_is_read(folder, n):
    def change(m):
        m['c/0/0/0/0'] = zstd_zeros(n).replace(struct.pack('<I', n), struct.pack('<I', 1920), 1)

    repack(folder / FILM, change)
    update_checksums(folder)
    tracemalloc.start()
    try:
        assert_refused(folder, '000000.zip', readers=[read_all])
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50_000_000


def test_a_film_with_compressed_members_is_refused(folder):
    repack(folder / FILM, lambda m: None, zipfile.ZIP_DEFLATED)
    update_checksums(folder)
    assert_refused(folder, '000000.zip', 'is packed by the method 8', readers=[read_all, verify_recording])


def test_a_film_with_duplicate_members_is_refused(folder):
    with pytest.warns(UserWarning), zipfile.ZipFile(folder / FILM, 'a') as z:
        z.writestr('zarr.json', '{}')
    update_checksums(folder)
    assert_refused(folder, '000000.zip', "'zarr.json' stands in it twice", readers=[read_all, verify_recording])


def test_a_changed_film_is_checked_again(folder):
    r = load_recording(folder)
    assert r[0].obs['frame'][3].shape == (6, 5, 1)
    repack(folder / FILM, drop_chunks)
    with pytest.raises(ValueError, match='000000'):
        r[0].obs['frame'][3]


# ---- paths


def rename_film(folder, name):
    "Rename the film in info.json; its files are still listed"
    change_json(
        folder / 'meta' / 'info.json',
        lambda info: info['features'].update({f'obs.{name}': info['features'].pop('obs.frame')}),
    )


@pytest.mark.parametrize(
    'name', ['../../victim/meta/info', '..', '.', '', 'a/b', 'a\\b', 'a\0b', 'x' * 300, 'line\nbreak']
)
def test_invalid_film_names_are_refused_and_change_no_other_folder(folder, valid_files, name):
    victim = folder.parent / 'victim'
    shutil.copytree(valid_files / 'walks', victim)
    before = sorted((str(p), p.stat().st_mtime_ns) for p in victim.rglob('*'))
    (folder / 'cache').mkdir()
    (folder / 'cache' / 'x').touch()
    rename_film(folder, name)
    assert_refused(
        folder, 'info.json', 'the name of a film', readers=[lambda p: load_recording(p).cached(), verify_recording]
    )
    assert sorted((str(p), p.stat().st_mtime_ns) for p in victim.rglob('*')) == before


def test_an_absolute_film_name_overwrites_nothing(folder, tmp_path):
    (tmp_path / 'mine.npy').write_text('mine')
    (tmp_path / 'mine.json').write_text('mine')
    rename_film(folder, str(tmp_path / 'mine'))
    assert_refused(
        folder, 'info.json', 'the name of a film', readers=[lambda p: load_recording(p).cached(), verify_recording]
    )
    assert (tmp_path / 'mine.npy').read_text() == (tmp_path / 'mine.json').read_text() == 'mine'


def test_a_cache_that_is_a_link_is_not_written_through(folder, tmp_path):
    (tmp_path / 'victim').mkdir()
    (tmp_path / 'victim' / 'frame.json').write_text('"mine"')
    (tmp_path / 'victim' / 'frame.npy').write_text('mine')
    (folder / 'cache').symlink_to(tmp_path / 'victim')
    assert_refused(folder, 'cache is a symbolic link', readers=[lambda p: load_recording(p).cached(), verify_recording])
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
    assert_refused(
        folder, f'{name} is a symbolic link', readers=[lambda p: load_recording(p).cached(), verify_recording]
    )
    assert (tmp_path / name).read_bytes() == before


def test_the_cache_folder_may_be_a_link_but_its_files_may_not(folder, tmp_path):
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


def cache_name(folder):
    "Return the name of the cache of a recording in a folder chosen by the user"
    return f"frame-{checksum(folder / 'meta' / 'info.json')[:8]}"


@pytest.mark.parametrize('ending, content', [('npy', 'my measurements'), ('json', '{"my": "notes"}')])
def test_a_user_file_in_the_cache_folder_is_not_replaced(folder, tmp_path, ending, content):
    (tmp_path / 'mine').mkdir()
    name = f'{cache_name(folder)}.{ending}'
    (tmp_path / 'mine' / name).write_text(content)
    with pytest.raises(ValueError, match=f'{name} is not that of a cache'):
        load_recording(folder).cached(where=tmp_path / 'mine')
    assert (tmp_path / 'mine' / name).read_text() == content and len([*(tmp_path / 'mine').iterdir()]) == 1


@pytest.mark.parametrize('locks', [True, False], ids=['with locks', 'on a drive without locks'])
def test_a_cache_removes_only_leftovers_of_its_own_writers(folder, tmp_path, monkeypatch, locks):
    (tmp_path / 'mine' / 'sub').mkdir(parents=True)
    array = f'.{cache_name(folder)}.npy'
    user_files = [tmp_path / 'mine' / '.thesis.0123abcd.tex', tmp_path / 'mine' / 'sub' / f'{array}.0123abcd.npy']
    leftover = tmp_path / 'mine' / f'{array}.0123abcd.npy'
    recent = leftover.with_name(f'{array}.89abcdef.npy')  # without locks, its writer may still be running
    for p in (*user_files, leftover, recent):
        p.touch()
        if p is not recent:
            os.utime(p, (0, 0))
    if not locks:
        monkeypatch.setattr('srlviz.core.files.lock_file', lambda f, shared=False: False)
    load_recording(folder).cached(where=tmp_path / 'mine')
    assert all(p.exists() for p in user_files) and not leftover.exists() and recent.exists() != locks


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
def test_invalid_file_names_are_refused(folder, name):
    (folder.parent / 'secret').write_text('secret')
    (folder / 'a b').write_text('x')
    name = name.format(folder.parent)
    change_json(
        folder / 'meta' / 'info.json',
        lambda info: info['files'].update({name: [(folder / name).stat().st_size, checksum(folder / name)]}),
    )
    assert_refused(folder, 'each part of the file name')


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
    assert_refused(folder, f'{folder / name} is a symbolic link')


def test_verify_reports_an_unused_link(folder):
    (folder / 'notes.txt').symlink_to('/etc/hostname')
    assert_refused(folder, 'notes.txt is a symbolic link', readers=[verify_recording])


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
def test_an_episode_table_with_wrong_references_is_refused(folder, column, value, words):
    name = column if column != 'place' else 'row'
    change_episodes(folder, lambda t: t.assign(**{name: [value, *t[name][1:]]}))
    assert_refused(folder, 'episodes.parquet' if column != 'place' or value < 0 else '000.parquet', words)


ROWS = {
    'rows that overlap': ([0, 69, 73], "has 69 rows for the episode '000000'"),
    'an unused first row': ([1, 70, 73], "has 0 rows for the episode '000000'"),
    'a gap between rows': ([0, 70, 74], "has 4 rows for the episode '000001'"),
    'a huge row number': ([0, 70, 2**62], 'rows for the episode'),
    'fractional row numbers': ([0, 70.5, 73], "the column 'row' holds double"),
}


HOSTILE_ROWS = [
    'a huge row number',
]


def check_forged_rows(folder, attack):
    rows, words = ROWS[attack]
    change_episodes(folder, lambda t: t.assign(row=rows))
    assert_refused(folder, str(folder), words)


@pytest.mark.parametrize('attack', HOSTILE_ROWS)
def test_huge_row_numbers_are_refused(folder, attack):
    check_forged_rows(folder, attack)


@pytest.mark.parametrize('attack', [k for k in ROWS if k not in HOSTILE_ROWS])
@pytest.mark.variants
def test_episodes_whose_rows_are_not_consecutive_are_refused(folder, attack):
    check_forged_rows(folder, attack)


# ---- paths of a recording that is being written


def episode_with_film(name):
    "Return an episode whose film has this name"
    return Episode({name: walk(4).obs['frame']}, actions=np.arange(4))


@pytest.mark.parametrize('name', ['../../victim', 'a/b', '', '..'])
def test_invalid_film_names_are_refused_before_writing(tmp_path, name):
    with pytest.raises(ValueError, match=re.escape(repr(name)[:10])):
        write_episode(tmp_path / 'deep' / 'new', 'a', episode_with_film(name))
    with pytest.raises(ValueError, match=re.escape(repr(name)[:10])):
        Recording([episode_with_film(name)]).save(tmp_path / 'r')
    with pytest.raises(ValueError, match=re.escape(repr(name)[:10])):
        Recording([episode_with_film(name)]).save(tmp_path / 'r.npz')
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
    'an unknown end': (lambda e: e.update(ended='whatever'), "the field 'ended' is 'whatever'"),
    'a film outside': (
        lambda e: e['features'].update({'obs.../x': e['features'].pop('obs.frame')}),
        'the name of a film',
    ),
    'a list for a factor': (lambda e: e['factors'].update(wind=[1]), "the factor 'wind' is [1]"),
    'no factor': (lambda e: e.update(factors={}), 'its factors are not those'),
    'no name': (lambda e: e.pop('name'), "the field 'name' is missing"),
    'a content that is no hash': (lambda e: e.update(content='walk'), "the field 'content' is 'walk'"),
}


HOSTILE_PARTIAL = [
    'a key with a path',
    'a file outside',
    'a film outside',
]


def check_forged_partial_episode(tmp_path, attack):
    change, words = PARTIAL[attack]
    write_episode(tmp_path, 'a', walk(4))
    change_json(tmp_path / 'partial' / 'a.json', change)
    for reader in (partial_episodes, finish_recording):
        assert_refused(tmp_path, 'a.json', words, readers=[reader])


@pytest.mark.parametrize('attack', HOSTILE_PARTIAL)
def test_partial_episodes_with_outside_paths_are_refused(tmp_path, attack):
    check_forged_partial_episode(tmp_path, attack)


@pytest.mark.parametrize('attack', [k for k in PARTIAL if k not in HOSTILE_PARTIAL])
@pytest.mark.variants
def test_forged_partial_episodes_are_refused(tmp_path, attack):
    check_forged_partial_episode(tmp_path, attack)


def test_a_partial_episode_with_a_wrong_length_is_refused(tmp_path):
    write_episode(tmp_path, 'a', walk(4))
    change_json(tmp_path / 'partial' / 'a.json', lambda e: e.update(length=1000))
    assert_refused(tmp_path, 'a.parquet', '4 rows for an episode of 1,000', readers=[finish_recording])


def test_a_truncated_partial_film_is_refused(tmp_path):
    write_episode(tmp_path, 'a', walk(4))
    film = tmp_path / 'frames' / 'frame' / 'a.zip'
    film.write_bytes(film.read_bytes()[:-9])
    assert_refused(tmp_path, 'a.zip is truncated or changed', readers=[finish_recording])


@pytest.mark.parametrize(
    'arguments, words',
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
def test_finish_recording_refuses_invalid_arguments(tmp_path, arguments, words):
    write_episode(tmp_path, 'a', walk(4))
    with pytest.raises(ValueError, match=words):
        finish_recording(tmp_path, **arguments)
    finish_recording(tmp_path)
    verify_recording(tmp_path)


# ---- folders whose metadata contradict their data


def set_feature(info, name, **values):
    info['features'][name].update(values)


INFO = {
    'hz below 0': (lambda i: i.update(hz=-3), "the field 'hz' is -3"),
    'hz of nan': (lambda i: i.update(hz=float('nan')), "the field 'hz' is nan"),
    'hz of text': (lambda i: i.update(hz='5'), "the field 'hz' is '5'"),
    'another version': (lambda i: i.update(version=3), "is 'srlviz recording' version 3; this srlviz reads"),
    'a boolean version': (lambda i: i.update(version=True), "the field 'version' is True"),
    'another format': (lambda i: i.update(format='x'), "is 'x' version 2"),
    'more episodes': (lambda i: i.update(n_episodes=4), 'meta/info.json says 4'),
    'more steps': (lambda i: i.update(n_steps=1081), 'meta/info.json says 1,081'),
    'text for meta': (lambda i: i.update(meta='x'), "the field 'meta' is 'x'"),
    'a number for the name': (lambda i: i.update(name=3), "the field 'name' is 3"),
    'a list for files': (lambda i: i.update(files=[]), "the field 'files' is []"),
    'no table in files': (lambda i: i['files'].pop('episodes.parquet'), 'lacks episodes.parquet'),
    'no film in files': (lambda i: i['files'].pop(FILM), f'lacks {FILM}'),
    'no shard in files': (lambda i: i['files'].pop('steps/000.parquet'), 'names steps/000.parquet'),
    'no factors in files': (lambda i: i['files'].pop('meta/factors.csv'), 'factors.csv is not among the files'),
    'no features': (lambda i: i.pop('features'), "the field 'features' is missing"),
    'a list for features': (lambda i: i.update(features=[]), "the field 'features' is []"),
    'a column of objects': (lambda i: set_feature(i, 'obs.vector', dtype='object'), "the field 'dtype' is 'object'"),
    'a column of structs': (lambda i: set_feature(i, 'obs.vector', dtype='i4,f8'), "the field 'dtype' is 'i4,f8'"),
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
    'a per-step factor declared per episode': (
        lambda i: set_feature(i, 'factor.x', single=True),
        "the column 'factor.x'",
    ),
    'a per-episode factor declared per step': (
        lambda i: i['features']['factor.wind'].pop('single'),
        "the column 'factor.wind'",
    ),
    'an action declared per episode': (
        lambda i: set_feature(i, 'action', single=True),
        'should be a factor with one value per episode',
    ),
    'an extra column': (
        lambda i: i['features'].update({'factor.y': dict(dtype='int8', shape=[])}),
        "the column 'factor.y' is missing",
    ),
    'a missing column': (lambda i: i['features'].pop('reward'), "the column 'reward' is not in the features"),
    'an unknown group': (
        lambda i: i['features'].update({'x.y': dict(dtype='int8', shape=[])}),
        'should be action, reward, obs',
    ),
    'text for the content hashes': (lambda i: i.update(content='0' * 32), "the field 'content' is '000"),
    'numbers for the content hashes': (lambda i: i.update(content=[1, 2, 3]), "the field 'content' is [1, 2"),
    'a missing content hash': (lambda i: i['content'].pop(), "the field 'content' has 2 hashes for 3 episodes"),
    'text for a feature': (lambda i: i['features'].update({'obs.x': 'x'}), "got 'x'"),
}


HOSTILE_INFO = [
    'a column of objects',
    'a huge shape',
]


def check_forged_info(folder, attack):
    change, words = INFO[attack]
    change_json(folder / 'meta' / 'info.json', change)
    assert_refused(folder, str(folder), words)


@pytest.mark.parametrize('attack', HOSTILE_INFO)
def test_info_with_object_columns_or_huge_shapes_is_refused(folder, attack):
    check_forged_info(folder, attack)


@pytest.mark.parametrize('attack', [k for k in INFO if k not in HOSTILE_INFO])
@pytest.mark.variants
def test_forged_info_is_refused(folder, attack):
    check_forged_info(folder, attack)


def test_verify_reports_swapped_content_hashes(folder):
    change_json(folder / 'meta' / 'info.json', lambda i: i['content'].reverse())
    assert_refused(folder, 'info.json', "the episode '000000' holds something else", readers=[verify_recording])


def with_lengths(t, *n):
    "Return the table of episodes with other lengths"
    return t.assign(length=list(n))


EPISODES = {
    'a length of 1000': (lambda t: with_lengths(t, 1000, 3, 8), 1011, 'has 70 rows for the episode'),
    'a length of -5': (lambda t: with_lengths(t, 70, -5, 16), 81, 'is -5; expected a whole number above 0'),
    'a length of 0': (lambda t: with_lengths(t, 73, 0, 8), 81, 'is 0; expected'),
    'swapped lengths': (lambda t: with_lengths(t, 70, 8, 3), 81, 'has 3 rows for the episode'),
    'lengths that overflow': (lambda t: with_lengths(t, 2**62, 2**62, 2**62), 81, 'its episodes have'),
    'lengths of floats': (lambda t: with_lengths(t, 70.0, 3.0, 8.0), 81, "the column 'length' holds double"),
    'a duplicate key': (lambda t: t.assign(key=['000000', '000000', '000002']), 81, "'000000' is listed twice"),
    'an unknown end': (lambda t: t.assign(ended=['truncated', 'whatever', 'truncated']), 81, "'ended' 'whatever'"),
    'no end': (lambda t: t.assign(ended=['truncated', None, 'truncated']), 81, "the column 'ended' are missing"),
    'no name': (lambda t: t.assign(name=['', None, '']), 81, "the column 'name' are missing"),
    'a duplicate place': (lambda t: t.assign(**{'row': [0, 1, 1]}), 81, "two episodes have one 'shard' and 'row"),
    'a missing episode': (lambda t: t[:2], 73, 'it has 2 episodes; meta/info.json says 3'),
    'a missing column': (lambda t: t.drop(columns='factor.wind'), 81, "the column 'factor.wind' is missing"),
    'an extra column': (lambda t: t.assign(more=1), 81, "the column 'more' is not in the features"),
    'a factor of 300': (lambda t: t.assign(**{'factor.wind': 300}), 81, "the column 'factor.wind' are none of uint8"),
    'text for a factor': (lambda t: t.assign(**{'factor.wind': 'x'}), 81, "the column 'factor.wind' holds"),
    'fractions for a factor': (lambda t: t.assign(**{'factor.wind': 0.5}), 81, "the column 'factor.wind' holds double"),
    'an absent factor': (
        lambda t: t.assign(**{'factor.wind': pd.array([0, None, 2], 'Int64')}),
        81,
        "the column 'factor.wind' are missing",
    ),
}


HOSTILE_EPISODES = [
    'lengths that overflow',
]


def check_forged_episode_table(folder, attack):
    change, n_steps, words = EPISODES[attack]
    change_json(folder / 'meta' / 'info.json', lambda i: i.update(n_steps=n_steps))
    change_episodes(folder, change)
    assert_refused(folder, str(folder), words)


@pytest.mark.parametrize('attack', HOSTILE_EPISODES)
def test_lengths_that_overflow_are_refused(folder, attack):
    check_forged_episode_table(folder, attack)


@pytest.mark.parametrize('attack', [k for k in EPISODES if k not in HOSTILE_EPISODES])
@pytest.mark.variants
def test_a_forged_episode_table_is_refused(folder, attack):
    check_forged_episode_table(folder, attack)


FACTORS = 'name,group,kind,unit\nx,,categorical,\nroom,,categorical,\nwind,,categorical,\n'


def factors_csv(column, cell):
    "Return the table of factors with an extra column, which has a value for the factor `room` only"
    header, x, room, wind = FACTORS.splitlines()
    return f'{header},{column}\n{x},\n{room},{cell}\n{wind},\n'


CSV = {
    'a duplicate factor': (FACTORS + 'x,,categorical,\n', "the factor 'x' is listed twice"),
    'an unknown kind': (
        FACTORS.replace('wind,,categorical', 'wind,,number'),
        "the kind of the factor 'wind' is 'number'",
    ),
    'an unknown factor': (FACTORS + 'y,,categorical,\n', "no episode has the factor 'y'"),
    'an extra field': (FACTORS + 'x,,categorical,,\n', 'row 3 has 5 fields; expected 4'),
    'a truncated line': (FACTORS[:-9], 'row 2 has 3 fields'),
    'an unknown column': (FACTORS.replace('unit', 'extra', 1), "'extra']; expected name"),
    'a duplicate column': (FACTORS.replace('group', 'name', 1), 'a column is in it twice'),
    'no name': (FACTORS.replace('name', 'unit', 1), 'a column is in it twice'),
    'an unclosed quote': (FACTORS + '"x,,categorical,\n', 'factors.csv is damaged'),
    'a label of two lines': (factors_csv('label', '"a\nb"'), "the label of the factor 'room' is"),
    'a label that is too long': (
        factors_csv('label', 'a' * 201),
        'expected a text of one line, at most 200 characters',
    ),
    'a label with a right-to-left override': (factors_csv('label', '\u202eevil'), "the label of the factor 'room' is"),
    'an empty name': (factors_csv('names', 'hall||yard'), "the names of the factor 'room' hold ''"),
    'two equal names': (factors_csv('names', 'hall|hall'), "two names of the factor 'room' are equal"),
    'too many names': (factors_csv('names', '|'.join(map(str, range(1001)))), 'a list of at most 1000 texts'),
    'names of a continuous factor': (
        factors_csv('names', 'low|high').replace('room,,categorical', 'room,,continuous'),
        "the names of the factor 'room' are for categories",
    ),
    'an empty file': ('', 'factors.csv is damaged'),
}


@pytest.mark.parametrize('attack', CSV)
@pytest.mark.variants
def test_a_forged_factor_table_is_refused(folder, attack):
    text, words = CSV[attack]
    (folder / 'meta' / 'factors.csv').write_text(text)
    update_checksums(folder)
    assert_refused(folder, 'factors.csv', words)


SPLITS = {
    'an unknown split': (dict(train=['000000']), "unknown split 'train'"),
    'an unknown episode': (dict(fit=['000007']), "unknown episode '000007'"),
    'an episode in two splits': (dict(fit=['000000'], test=['000000']), "is in the splits 'fit' and 'test'"),
    'an episode twice in a split': (dict(fit=['000000', '000000']), "is in the splits 'fit' and 'fit'"),
    'a number for a key': (dict(fit=[0]), 'unknown episode 0'),
    'text for a list of keys': (dict(fit='000000'), 'expected a list of episode keys'),
    'a list': (['fit'], 'expected split -> episode keys'),
}


@pytest.mark.parametrize('attack', SPLITS)
@pytest.mark.variants
def test_forged_splits_are_refused(folder, attack):
    content, words = SPLITS[attack]
    (folder / 'meta' / 'splits.json').write_text(json.dumps(content))
    update_checksums(folder)
    assert_refused(folder, 'splits.json', words)


def rewrite_steps(folder, change):
    "Change the columns of the first episode, keeping the layout"
    parts = split_steps(folder)
    parts[0] = change(parts[0])
    write_steps(folder, [p.cast(parts[0].schema) for p in parts])
    update_checksums(folder)


def with_column(t, name, values):
    return t.set_column(t.schema.get_field_index(name), name, values)


def test_missing_rows_are_refused(folder):
    rewrite_steps(folder, lambda t: t[:40])
    assert_refused(folder, '000.parquet', "has 0 rows for the episode '000002'")


@pytest.mark.parametrize('name, dtype', [('action', pa.int64()), ('factor.room', pa.string())])
def test_missing_values_are_refused_when_they_are_read(folder, name, dtype):
    rewrite_steps(folder, lambda t: with_column(t, name, pa.array([None, *t[name].to_pylist()[1:]], dtype)))
    assert_refused(
        folder, '000.parquet', f"values of the column '{name}' are missing", readers=[read_all, verify_recording]
    )


def test_missing_rows_of_a_list_column_are_refused(folder):
    rewrite_steps(
        folder,
        lambda t: with_column(
            t, 'obs.vector', pa.array([None, *t['obs.vector'].to_pylist()[1:]], pa.list_(pa.float32(), 3))
        ),
    )
    assert_refused(folder, '000.parquet', "the column 'obs.vector'", readers=[read_all, verify_recording])


def test_verify_reports_statistics_of_unknown_columns(folder):
    (folder / 'meta' / 'stats.json').write_text('{"x": {}}')
    update_checksums(folder)
    assert_refused(folder, 'stats.json', "no step has the column 'x'", readers=[verify_recording])


def test_verify_reports_changed_bytes(folder):
    film = folder / FILM
    content = bytearray(film.read_bytes())
    content[-300] ^= 1
    film.write_bytes(content)
    assert_refused(folder, '000000.zip has changed: its checksum', readers=[verify_recording])


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
    ids=['a missing frame', 'colours', 'wider', 'Fortran order', 'floats', 'extra frames'],
)
@pytest.mark.variants
def test_a_cache_that_does_not_match_the_film_is_refused(folder, array):
    forge_cache(folder, array)
    assert_refused(
        folder, 'frame.npy', 'it has the shape', readers=[lambda p: load_recording(p).cached(), verify_recording]
    )


@pytest.mark.parametrize(
    'change',
    [lambda b: b[:-1], lambda b: b + b'x', lambda b: b[:100], lambda b: b'', lambda b: b'x' + b[1:]],
    ids=['truncated', 'longer', 'part of its header', 'empty', 'not npy'],
)
@pytest.mark.variants
def test_a_damaged_cache_is_refused(folder, change):
    load_recording(folder).cached()
    (folder / 'cache' / 'frame.npy').write_bytes(change((folder / 'cache' / 'frame.npy').read_bytes()))
    assert_refused(
        folder,
        'frame.npy is damaged',
        'delete it, and it is made again',
        readers=[lambda p: load_recording(p).cached(), verify_recording],
    )


def test_verify_reports_a_cache_with_other_frames(folder):
    load_recording(folder).cached()
    frames = np.load(folder / 'cache' / 'frame.npy')
    frames[72] = 0
    np.save(folder / 'cache' / 'frame.npy', frames)
    assert_refused(folder, 'frame.npy differs from the film near frame 70', readers=[verify_recording])


@pytest.mark.parametrize('stamp', ['', '[]', '"x"', 'null', '"' + '0' * 32 + '"', '[' * 100_000])
@pytest.mark.variants
def test_a_cache_with_another_stamp_is_rebuilt(folder, stamp):
    forge_cache(folder, np.zeros(3))
    (folder / 'cache' / 'frame.json').write_text(stamp)
    verify_recording(folder)
    assert (load_recording(folder).cached()[0].obs['frame'] == walks()[0].obs['frame']).all()


def test_a_cache_that_does_not_fit_on_the_disk_is_not_started(folder, monkeypatch):
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: shutil._ntuple_diskusage(2**40, 2**40, 2000))
    with pytest.raises(OSError, match='2,000.*2,430'):
        load_recording(folder).cached()
    assert not (folder / 'cache' / 'frame.npy').exists()


# ---- single files whose header contradicts their arrays


def forge_npz(valid_files, path, change):
    "Write the valid single file after `change` has edited its header and arrays"
    with np.load(valid_files / 'walks.npz') as z:
        arrays = dict(z)
    header = json.loads(bytes(arrays['head']))
    change(header, arrays)
    arrays['head'] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    np.savez_compressed(path, **arrays)


def truncate_array(arrays, name, n):
    arrays[name] = arrays[name][:n]


def add_arrays(arrays, **new):
    "Add arrays; two underscores in a name become a dot"
    arrays.update({k.replace('__', '.'): v for k, v in new.items()})


NPZ = {
    'fewer rows claimed': (lambda h, a: h.update(lengths=[3, 3, 4]), "expected 10 rows, as the field 'lengths' says"),
    'fewer episodes claimed': (
        lambda h, a: h.update({k: h[k][:2] for k in ('lengths', 'split', 'ended', 'names')}),
        'expected 73 rows',
    ),
    'a length below 0': (lambda h, a: h.update(lengths=[89, -16, 8]), "the field 'lengths' is [89, -16, 8]"),
    'a length of 0': (lambda h, a: h.update(lengths=[78, 0, 3]), "the field 'lengths'"),
    'a float for a length': (lambda h, a: h.update(lengths=[70.0, 3, 8]), "the field 'lengths'"),
    'no lengths': (lambda h, a: h.update(lengths=[], split=[], ended=[], names=[]), "the field 'lengths' is []"),
    'two splits': (lambda h, a: h.update(split=['fit', 'fit']), "the field 'split' has 2 values for 3"),
    'four ends': (lambda h, a: h['ended'].append('truncated'), "the field 'ended' has 4 values for 3"),
    'four names': (lambda h, a: h['names'].append('x'), "the field 'names' has 4 values for 3"),
    'an unknown split': (lambda h, a: h.update(split=['train', '', '']), "unknown split 'train'"),
    'an unknown end': (lambda h, a: h.update(ended=['whatever'] * 3), "got 'whatever'"),
    'hz below 0': (lambda h, a: h.update(hz=-3), "the field 'hz' is -3"),
    'hz of infinity': (lambda h, a: h.update(hz=float('inf')), "the field 'hz' is inf"),
    'a version of 1.0': (lambda h, a: h.update(version=1.0), "the field 'version' is 1.0"),
    'a duplicate factor': (lambda h, a: h['factors'].append(h['factors'][0]), "the factor 'x' is listed twice"),
    'an unknown kind': (lambda h, a: h['factors'][0].update(kind='number'), "the kind of the factor 'x' is 'number'"),
    'an absent factor': (lambda h, a: h['factors'][0].update(name='y'), "no episode has the factor 'y'"),
    'an extra field of a factor': (lambda h, a: h['factors'][0].update(extra=1), "got 'extra'"),
    'a number for a label': (lambda h, a: h['factors'][0].update(label=3), "all text, and names; got 'label': 3"),
    'text for a list of names': (lambda h, a: h['factors'][1].update(names='ab'), "are 'ab'; expected a list"),
    'names of numbers': (lambda h, a: h['factors'][1].update(names=[1]), 'hold 1; expected texts of one line'),
    'text for a factor': (lambda h, a: h.update(factors=['x']), "the field 'factors' is ['x']"),
    'missing rows': (
        lambda h, a: truncate_array(a, 'factor.x', 80),
        "'factor.x' has the shape (80,); expected 81 rows",
    ),
    'a missing per-episode value': (
        lambda h, a: truncate_array(a, 'factor.wind', 2),
        "'factor.wind' has the shape (2,); expected 3 rows",
    ),
    'a per-step factor declared per episode': (
        lambda h, a: h.update(per_episode=['wind', 'x']),
        "'factor.x' has the shape (81,); expected 3 rows",
    ),
    'an unknown per-episode factor': (
        lambda h, a: h.update(per_episode=['wind', 'y']),
        "names 'factor.y', which is not there",
    ),
    'an extra array': (lambda h, a: add_arrays(a, x=np.zeros(81)), "the array 'x' should be"),
    'a scalar for rows': (lambda h, a: add_arrays(a, obs__y=np.float32(3)), "'obs.y' has the shape ()"),
    'structs': (lambda h, a: add_arrays(a, obs__y=np.zeros(81, 'i4,f8')), "'obs.y' is of the type"),
    'a film outside': (lambda h, a: add_arrays(a, **{'obs../x': a.pop('obs.frame')}), 'the name of a film'),
}


HOSTILE_NPZ = [
    'a film outside',
]


def check_forged_file(valid_files, tmp_path, attack):
    change, words = NPZ[attack]
    forge_npz(valid_files, tmp_path / 'forged.npz', change)
    assert_refused(tmp_path / 'forged.npz', 'forged.npz', words)


@pytest.mark.parametrize('attack', HOSTILE_NPZ)
def test_a_single_file_with_an_outside_path_is_refused(valid_files, tmp_path, attack):
    check_forged_file(valid_files, tmp_path, attack)


@pytest.mark.parametrize('attack', [k for k in NPZ if k not in HOSTILE_NPZ])
@pytest.mark.variants
def test_a_forged_single_file_is_refused(valid_files, tmp_path, attack):
    check_forged_file(valid_files, tmp_path, attack)


def test_the_checksums_of_a_single_file_are_verified(valid_files, tmp_path):
    content = bytearray((valid_files / 'walks.npz').read_bytes())
    with zipfile.ZipFile(valid_files / 'walks.npz') as z:
        start = z.getinfo('obs.frame.npy').header_offset
    content[start + 2000] ^= 4
    (tmp_path / 'flipped.npz').write_bytes(content)
    assert_refused(tmp_path / 'flipped.npz', 'flipped.npz is damaged')


# ---- bombs


def npy(shape, dtype='|u1'):
    "Return the header of an array file, without its data"
    f = io.BytesIO()
    np.lib.format.write_array_header_1_0(f, dict(descr=dtype, fortran_order=False, shape=shape))
    return f.getvalue()


def packed_zeros(header, n):
    "Return a deflate stream of a header and `n` MiB of zeros; it repeats the same compressed bytes"
    c = zlib.compressobj(9, zlib.DEFLATED, -15)
    first = c.compress(header) + c.flush(zlib.Z_FULL_FLUSH)
    return first + (c.compress(bytes(2**20)) + c.flush(zlib.Z_FULL_FLUSH)) * n + c.flush()


def test_a_file_that_unpacks_to_3_gb_is_refused(valid_files, tmp_path):
    shutil.copy(valid_files / 'walks.npz', tmp_path / 'bomb.npz')
    with zipfile.ZipFile(tmp_path / 'bomb.npz', 'a') as z:
        header = npy((81, 38 * 2**20))
        member = zipfile.ZipInfo('obs.more.npy')
        z.writestr(member, packed_zeros(header, 81 * 38))
        # these go to the central directory, which is written last
        member.compress_type = zipfile.ZIP_DEFLATED
        member.file_size = len(header) + 81 * 38 * 2**20
    assert (tmp_path / 'bomb.npz').stat().st_size < 5_000_000
    tracemalloc.start()
    try:
        assert_refused(
            tmp_path / 'bomb.npz', 'bomb.npz', 'more than 2,147,483,648; if you trust it', readers=[load_recording]
        )
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 50_000_000


def test_a_file_with_two_members_for_one_array_is_refused(valid_files, tmp_path):
    shutil.copy(valid_files / 'walks.npz', tmp_path / 'two.npz')
    with zipfile.ZipFile(tmp_path / 'two.npz', 'a') as z:
        z.writestr('obs.frame', npy((81, 1, 1, 1)) + bytes(81))
    assert_refused(tmp_path / 'two.npz', 'two.npz', "'obs.frame' is no array")


def bomb_shard(folder, rows, width=1, dtype=np.float32):
    "Replace the steps by one episode of many equal rows, in a few thousand bytes"
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


def test_a_column_that_unpacks_beyond_the_limit_is_refused(folder, monkeypatch):
    monkeypatch.setattr('srlviz.core.storage.row_groups.MAX_BYTES', 2**24)  # as 2 GB to a file of 100 kB
    bomb_shard(folder, 5_000_000)
    assert (folder / 'steps' / '000.parquet').stat().st_size < 20_000 and load_recording(folder).n_steps == 5_000_000
    assert_refused(
        folder,
        '000.parquet',
        '5,000,000 rows need 20,000,000 bytes',
        readers=[lambda p: load_recording(p)[0].obs['vector'], verify_recording],
    )


def thrift_varint(n):
    "Return a field of the Thrift compact protocol: a 32-bit integer in five bytes"
    return b'\x15' + bytes(2 * n >> 7 * k & 127 | (128 if k < 4 else 0) for k in range(5))


def test_a_page_larger_than_its_footer_declares_is_refused(folder):
    "The footer belongs to a valid file; Arrow trusts the page header"
    rows = np.random.default_rng(0).normal(size=(70, 3)).astype(np.float32)
    values = pa.FixedSizeListArray.from_arrays(rows.ravel(), 3)
    rewrite_steps(folder, lambda t: with_column(t, 'obs.vector', values))
    path = folder / 'steps' / '000.parquet'
    size = 2_000_000_000
    chunk = next(c for c in column_chunks(path) if c.path_in_schema.startswith('obs.vector'))
    start = chunk.dictionary_page_offset if chunk.has_dictionary_page else chunk.data_page_offset

    def page_header(packed):
        sizes = b'\x15\x00' + thrift_varint(size) + thrift_varint(packed)
        return sizes + b'\x2c' + thrift_varint(chunk.num_values) + b'\x15\x00\x15\x06\x15\x06\x00\x00'

    page = page_header(chunk.total_compressed_size - len(page_header(0)))
    content = bytearray(path.read_bytes())
    content[start : start + len(page)] = page
    path.write_bytes(content)
    update_checksums(folder)
    words = '000.parquet', "declares 2,00", "'obs.vector"
    assert_refused(folder, *words, readers=[lambda p: load_recording(p)[0].obs['vector'], verify_recording])


def column_chunks(path):
    group = pq.read_metadata(path).row_group(0)
    return [group.column(j) for j in range(group.num_columns)]


def test_a_list_column_wider_than_its_shape_is_refused(folder):
    bomb_shard(folder, 1000, width=3000)
    change_json(folder / 'meta' / 'info.json', lambda i: set_feature(i, 'obs.vector', shape=[3]))
    assert_refused(folder, '000.parquet', "the column 'obs.vector' holds")


def test_a_long_text_in_every_row_is_refused(folder):
    word = pa.DictionaryArray.from_arrays(np.zeros(70, np.int32), ['w' * 4_000_000])
    rewrite_steps(folder, lambda t: with_column(t, 'factor.room', word.cast(pa.string())))
    assert (folder / 'steps' / '000.parquet').stat().st_size < 1_000_000
    assert_refused(
        folder,
        '000.parquet',
        'bytes, more than 2',
        readers=[lambda p: load_recording(p)[0].factors['room'], verify_recording],
    )


def test_one_long_text_does_not_widen_all_rows(folder):
    rewrite_steps(folder, lambda t: with_column(t, 'factor.room', pa.array(['w' * 8_000_000] + [''] * 69)))
    assert_refused(
        folder,
        '000.parquet',
        'has texts of 8,000,000 characters, too long for 70 rows',
        readers=[lambda p: load_recording(p)[0].factors['room'], verify_recording],
    )


# ---- hangs

PIPED_FILES = [
    'meta/info.json',
    'meta/splits.json',
    'meta/factors.csv',
    'meta/stats.json',
    'episodes.parquet',
    'steps/000.parquet',
    FILM,
]


def run_script(code, *args):
    "Run a Python script that must end within a minute; return its output"
    return subprocess.run(
        [sys.executable, '-c', code, *map(str, args)], capture_output=True, text=True, timeout=60, check=True
    ).stdout


READ_SCRIPT = '''
import sys
from srlviz.core.recordings import load_recording, verify_recording
from srlviz.core.storage import partial_episodes
def first(p): return load_recording(p)[0].obs['frame'][0]
for reader in first, verify_recording, lambda p: load_recording(p).cached(), partial_episodes:
    try: reader(sys.argv[1]); print('fine')
    except ValueError as e: print(str(e).replace(chr(10), ' '))
'''


@pytest.mark.parametrize('name', PIPED_FILES)
def test_a_named_pipe_in_a_recording_does_not_hang(folder, name):
    change_json(folder / 'meta' / 'info.json', lambda i: name in i['files'] and i['files'].update({name: [0, 'x']}))
    (folder / name).unlink()
    os.mkfifo(folder / name)
    output = run_script(READ_SCRIPT, folder).splitlines()
    assert all(name.split('/')[-1] in line for line in output[:3])


@pytest.mark.parametrize('name', ['frame.npy', 'frame.json'])
def test_a_named_pipe_in_a_cache_does_not_hang(folder, name):
    load_recording(folder).cached()
    (folder / 'cache' / name).unlink()
    os.mkfifo(folder / 'cache' / name)
    assert run_script(READ_SCRIPT, folder).splitlines() == ['fine'] * 4  # the cache is rebuilt


def test_a_named_pipe_among_partial_episodes_does_not_hang(tmp_path):
    (tmp_path / 'partial').mkdir()
    os.mkfifo(tmp_path / 'partial' / 'a.json')
    assert 'a.json is not a regular file' in run_script(READ_SCRIPT, tmp_path).splitlines()[3]


def test_a_named_pipe_for_a_file_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / 'x.npz')
    assert 'x.npz' in run_script(READ_SCRIPT, tmp_path / 'x.npz').splitlines()[0]


# ---- mutated files: errors name the file


def mutate(content, rng):
    "Truncate bytes, flip one bit, or overwrite a part"
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
def test_errors_of_mutated_files_name_the_recording(folder, name):
    load_recording(folder).cached()
    original = (folder / name).read_bytes()
    original_info = (folder / 'meta' / 'info.json').read_bytes()
    rng = random.Random(zlib.crc32(name.encode()))
    wrong_errors = []  # without the path of the recording, or of an unexpected type
    for i in range(25):
        (folder / name).write_bytes(mutate(original, rng))
        if not name.startswith(('cache', 'meta/info')):
            update_checksums(folder)
        if name != 'cache/frame.json' and not name.startswith('meta/info'):
            (folder / 'cache' / 'frame.json').write_text(json.dumps(checksum(folder / 'meta' / 'info.json')))
        for reader in (read_all, verify_recording, lambda p: read_all(p, cached=True)):
            try:
                reader(folder)
            except (ValueError, FileNotFoundError) as e:
                if str(folder) not in str(e):
                    wrong_errors.append((i, repr(e)))
            except Exception as e:
                wrong_errors.append((i, repr(e)))
        (folder / 'meta' / 'info.json').write_bytes(original_info)
    assert not wrong_errors


def test_errors_of_a_mutated_single_file_name_it(valid_files, tmp_path):
    original = (valid_files / 'walks.npz').read_bytes()
    rng = random.Random(0)
    for i in range(60):
        (tmp_path / 'm.npz').write_bytes(mutate(original, rng))
        try:
            read_all(tmp_path / 'm.npz')
        except ValueError as e:
            assert 'm.npz' in str(e), (i, repr(e))


# ---- constructors, and permissions of saved files


def test_constructors_refuse_what_cannot_be_saved():
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
def test_saved_files_have_the_permissions_of_the_umask(tmp_path, mask, folder_mode, file_mode):
    before = os.umask(mask)
    try:
        walks().save(tmp_path / 'r')
        walks().save(tmp_path / 'r.npz')
    finally:
        os.umask(before)
    for p in (tmp_path / 'r', *(tmp_path / 'r').rglob('*'), tmp_path / 'r.npz'):
        assert p.stat().st_mode & 0o777 == (folder_mode if p.is_dir() else file_mode), p


def test_labels_and_names_of_factors_are_optional(folder, valid_files, tmp_path):
    "Files of the previous version have neither labels nor names; without them, the table is written as before"
    old = load_recording(folder)
    assert [(f.label, f.names) for f in old.factors] == [('x', ()), ('room', ()), ('wind', ())]
    assert (folder / 'meta' / 'factors.csv').read_text().splitlines()[0] == 'name,group,kind,unit'
    (folder / 'meta' / 'factors.csv').write_text(factors_csv('names', 'hall|yard'))
    update_checksums(folder)
    assert load_recording(folder).factors[1].names == ('hall', 'yard')
    forge_npz(
        valid_files, tmp_path / 'labelled.npz', lambda h, a: h['factors'][1].update(label='where', names=['hall'])
    )
    assert load_recording(tmp_path / 'labelled.npz').factors[1] == Factor('room', label='where', names=('hall',))


# ---- twins


def twins_of_rooms():
    "A moment with a lamp and a door, and a twin for each of them; and another moment"
    rooms = [
        Episode(dict(vector=np.eye(2)[[x]]), factors=dict(lamp=[x], door=[y])) for x, y in ((1, 0), (0, 0), (1, 1))
    ]
    return Twins.build(
        [*rooms, rooms[0]],
        [0, 0, 0, 1],
        ['', 'lamp', 'door', ''],
        [np.nan, 0, 1, np.nan],
        left_out=[('door', 'shut', 2)],
    )


def set_row(about, part, row):
    about['rows'][f'moment 0, part {part}'] = row


def untouched_again(about):
    set_row(about, 2, [0, '', None])


FORGED_TWINS = {
    'no table': lambda about: about.clear(),
    'a list of rows': lambda about: about.update(rows=[[0, '', None]] * 4),
    'an episode without a row': lambda about: about['rows'].pop('moment 0, part 2'),
    'a row that is too short': lambda about: set_row(about, 2, [0, 'lamp']),
    'a fraction for the moment': lambda about: set_row(about, 2, [0.5, 'lamp', 0]),
    'a moment below 0': lambda about: set_row(about, 2, [-1, 'lamp', 0]),
    'a moment beyond 64 bits': lambda about: set_row(about, 2, [2**80, 'lamp', 0]),
    'a number for the factor': lambda about: set_row(about, 2, [0, 3, 0]),
    'a factor that no episode has': lambda about: set_row(about, 2, [0, 'lmp', 0]),
    'text for the value': lambda about: set_row(about, 2, [0, 'lamp', '0']),
    'NaN for the value': lambda about: set_row(about, 2, [0, 'lamp', float('nan')]),
    'a value beyond floats': lambda about: set_row(about, 2, [0, 'lamp', 10**400]),
    'no value': lambda about: set_row(about, 2, [0, 'lamp', None]),
    'a value of the untouched moment': lambda about: set_row(about, 1, [0, '', 1]),
    'a moment without an untouched episode': lambda about: set_row(about, 1, [0, 'lamp', 1]),
    'a moment that is untouched twice': untouched_again,
    'a twin before its moment': lambda about: set_row(about, 3, [1, 'door', 1]),
    'text for what follows': lambda about: about.update(follows=dict(lamp='door')),
    'a fraction for a count': lambda about: about.update(left_out=[['door', 'shut', 0.5]]),
    'no counts': lambda about: about.pop('left_out'),
}


@pytest.mark.parametrize('attack', FORGED_TWINS)
def test_forged_twins_are_refused_in_one_sentence(tmp_path, attack):
    twins = twins_of_rooms()
    about = json.loads(json.dumps(twins.meta['twins']))
    FORGED_TWINS[attack](about)
    forged = Recording(list(twins), twins.name, factors=twins.factors, meta=dict(twins=about))
    forged.save(tmp_path / 'forged.npz')
    with pytest.raises(ValueError) as e:
        Twins.of(load_recording(tmp_path / 'forged.npz'))
    assert '\n' not in str(e.value)


def test_a_split_twins_without_its_table_is_refused_and_other_twins_are_read(tmp_path):
    twins = twins_of_rooms()
    plain = Recording(list(twins), split=['twins'] * 4)
    plain.save(tmp_path / 'plain.npz')
    for read in (Twins.of, twin_table):
        with pytest.raises(ValueError, match='has no twins'):
            read(load_recording(tmp_path / 'plain.npz'))
    twins.save(tmp_path / 'twins.npz')
    again = Twins.of(load_recording(tmp_path / 'twins.npz'))
    assert again.table.equals(twins.table) and again.left_out.equals(twins.left_out)
