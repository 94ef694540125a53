"""Tests of export to and import from other layouts: the published landing data set and LeRobot.

Exports in the published layout are read back after columns were renamed or shuffled and files were re-encoded or
damaged. LeRobot exports are read by their metadata alone. One section tests tables of runways.
"""

import json

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from PIL import Image

from srlviz.core.recordings import Episode, Recording
from srlviz.data.landing import export_lerobot, export_published, read_published
from srlviz.data.landing.published import TARGETS
from srlviz.envs.landing import fly
from srlviz.envs.landing.runways import Runways, runways
from srlviz.envs.landing.sensors import sensor_table

NAMES = list(sensor_table()['name'])
SPLIT = ['fit', 'valid', 'probe', 'test']


@pytest.fixture(scope='module')
def flights():
    """Four approaches from 600 m before the threshold, at four airports.

    The first contains only eight seconds before its touchdown. Each frame is a ramp whose lightness differs from that
    of its neighbours.
    """
    ends = [runways()[k][0] for k in ('KSEA', 'EGLL', 'RJTT', 'YSSY')]
    episodes = [
        fly(i, camera=False, runway=end, distance=600.0, events=(), wind_speed=5.0, gust=0.0)
        for i, end in enumerate(ends)
    ]
    ramp = 2 * np.add.outer(np.arange(32), np.arange(32))[..., None]

    def truncated(e, n, **other):
        film = np.stack([(ramp + 37 * t % 90).repeat(3, 2) for t in range(min(n, len(e)))]).astype(np.uint8)
        factors = {k: v[:n] if v.shape else v for k, v in e.factors.items()}
        return Episode({'sensors': e.obs['sensors'][:n], 'frame': film}, factors=factors | other)

    no_touchdown = {k: np.float32(np.nan) for k in episodes[0].factors if k.startswith('touchdown')}
    landed = [truncated(e, 100) for e in episodes[1:]]  # to some seconds after the touchdown
    return Recording(
        [truncated(episodes[0], 40, **no_touchdown), *landed], name='four', hz=5, split=SPLIT, meta=dict(columns=NAMES)
    )


def read_cells(path):
    return [row.split(',') for row in path.read_text().splitlines()]


def write_cells(path, rows):
    path.write_text('\n'.join(map(','.join, rows)) + '\n')


def by_airport(recording):
    return {str(np.asarray(e.factors['airport'])): e for e in recording}


def psnr(a, b):
    return 10 * np.log10(255**2 / max(np.mean((np.asarray(a, float) - np.asarray(b, float)) ** 2), 1e-9))


@pytest.mark.parametrize('film', ['jpg', 'mp4'])
def test_published_export_can_be_read_back(film, flights, tmp_path):
    imported = read_published(export_published(flights, tmp_path / 'out', film=film))
    assert imported.hz == 5 and imported.meta['columns'] == NAMES
    assert sorted(imported.lengths) == sorted(flights.lengths)
    ours, read = by_airport(flights), by_airport(imported)
    assert dict(zip((e.name.split('/')[0] for e in imported), imported.split)) == dict(zip(ours, SPLIT))
    for airport, e in ours.items():
        other = read[airport]
        assert other.obs['sensors'].dtype == np.float32 and (other.obs['sensors'] == e.obs['sensors']).all()
        assert other.obs['frame'].shape == e.obs['frame'].shape and psnr(other.obs['frame'], e.obs['frame']) > 25
        indices = np.random.default_rng(0).permutation(len(e))[:9]
        for part in indices, slice(5, 9):
            assert (other.obs['frame'][part] == np.asarray(other.obs['frame'])[part]).all()


def test_imported_recording_can_be_exported_again(flights, tmp_path):
    first = read_published(export_published(flights, tmp_path / 'a', targets={}))
    second = read_published(export_published(first, tmp_path / 'b', targets={}))
    assert [e.name for e in first] == [e.name for e in second] and (first.split == second.split).all()
    assert all((a.obs['sensors'] == b.obs['sensors']).all() for a, b in zip(first, second))
    saved = first.save(tmp_path / 'kept')
    from srlviz.core.recordings import load_recording

    assert (load_recording(saved)[1].obs['sensors'] == first[1].obs['sensors']).all()


def test_export_without_video_has_no_frames(flights, tmp_path):
    episodes = [Episode({'sensors': e.obs['sensors']}, factors=dict(e.factors)) for e in flights]
    sensors_only = Recording(episodes, hz=5, split=SPLIT)
    imported = read_published(export_published(sensors_only, tmp_path / 'out'))
    assert list(imported[0].obs) == ['sensors'] and imported.n_steps == sensors_only.n_steps
    assert list(read_published(export_published(flights, tmp_path / 'film'), frames=False)[0].obs) == ['sensors']


@pytest.mark.parametrize('spelling', ['{}[{}]', '{}_{}', '{}{}'])
def test_columns_may_be_renamed_and_shuffled(spelling, flights, tmp_path):
    out = export_published(flights[:1], tmp_path / 'out', targets={})
    path = next(out.rglob('X.csv'))
    table = sensor_table()
    names = [n if n == r else spelling.format(r, i) for n, r, i in zip(table['name'], table['dataref'], table['index'])]
    order = np.random.default_rng(0).permutation(1090)
    write_cells(path, [[row[i] for i in order] for row in [names, *read_cells(path)[1:]]])
    assert (read_published(out)[0].obs['sensors'] == flights[0].obs['sensors']).all()
    selected = [names[7], NAMES[900]]
    assert (read_published(out, columns=selected)[0].obs['sensors'] == flights[0].obs['sensors'][:, [7, 900]]).all()


def test_table_written_by_pandas_is_read(flights, tmp_path):
    "It has an index column, a byte order mark and Windows line endings."
    out = export_published(flights[:1], tmp_path / 'out', targets={})
    path = next(out.rglob('X.csv'))
    pd.read_csv(path, dtype=str).to_csv(path, encoding='utf-8-sig', lineterminator='\r\n')
    assert (read_published(out)[0].obs['sensors'] == flights[0].obs['sensors']).all()
    assert read_published(out, columns='file').meta['columns'] == NAMES


def test_task_segments_equal_parts_of_their_flights(flights, tmp_path):
    out = export_published(flights, tmp_path / 'out', segment=20)
    ours = by_airport(flights)
    for task in ('windflaw', 'turbulence', 'failures', 'autoregression', 'landing'):
        r = read_published(out, task=task)
        expected = [a for a, e in ours.items() if task != 'landing' or np.isfinite(e.factors['touchdown_g_nrml'])]
        assert {e.name.split('/')[0] for e in r} == {*expected}
        assert r.meta['flights_without'] == len(flights) - len(expected)
        for e in r:
            origin = ours[e.name.split('/')[0]]
            whole = np.asarray(origin.obs['sensors'])
            X, start = e.obs['sensors'], int(np.flatnonzero((whole == e.obs['sensors'][0]).all(1))[0])
            assert len(e) <= 20 and (X == whole[start : start + len(e)]).all() and e.obs['frame'].shape[0] == len(e)
            if task == 'autoregression':
                assert [float(e.factors[n]) for n in NAMES[1:]] == whole[start + len(e), 1:].tolist()
            else:
                assert list(e.factors)[2:] == list(TARGETS[task])
            if task == 'windflaw':
                last = origin.factors['wind_speed_kt'][start + len(e) - 1]
                assert e.factors['sim/weather/wind_speed_kt'] == last
            if task == 'landing':
                assert start + len(e) <= 5 * origin.factors['touchdown_t'] + 1


# What the authors' benchmark opens (advimman/xeval: core/dataset.py, benchmarks/benchmarks.py, scripts/preparator.py),
# restated: sizes of the five targets, and indices of the columns that the authors call actions.
OUTPUTS = dict(windflaw=1, turbulence=3, landing=3, autoregression=1089, failures=12)
ACTIONS = [2, 8, 25, 26, *range(148, 152), 200, 216, 217, 239, 248, 264, 265, 287, 294, 295, 304, 305, 334]
ACTIONS += [*range(486, 513), *range(520, 524), 560, 561, 575, *range(578, 582), 587, 588, 617, *range(870, 884)]
ACTIONS += [929, 930]


def authors_table(folder):
    "Read the table of a flight as the authors' reader does, and check it and the frames"
    table = pd.read_csv(folder / 'X_modified.csv')
    actions = [
        k for k, c in enumerate(table) if any(w in c.split('/')[-1] for w in ('engine', 'throttle', 'angle', 'speed'))
    ]
    assert table.shape[1] == 1090 and actions == ACTIONS
    assert all(t == 'float64' or t == 'int64' for t in table.dtypes) and np.isfinite(table.values).all()
    frames = sorted(int(p.stem.split('_')[-1]) for p in folder.glob('data_*.jpg'))
    assert frames == [*range(len(table))]
    return table


def authors_targets(root, airports, task):
    "Read the targets of the segments of a task as the authors' reader does: one row each, without the time"
    folders = [f / task for a in airports for f in sorted((root / a).glob('*')) if (f / task).is_dir()]
    rows = [pd.read_csv(f / 'target_modified.csv').drop(['sim/time/zulu_time_sec'], axis=1) for f in folders]
    assert all(r.shape == (1, OUTPUTS[task]) and np.isfinite(r.values).all() for r in rows)
    for f, r in zip(folders, rows):
        assert task != 'autoregression' or [*r] == [*authors_table(f)][1:]
        assert 1 <= len(authors_table(f)) <= 75
    return [r.to_numpy()[0] for r in rows]


@pytest.fixture(scope='module')
def exports(flights, tmp_path_factory):
    "A full export, and one of only the files that the authors' benchmark opens"
    folder = tmp_path_factory.mktemp('exports')
    segments = export_published(flights, folder / 'segments', segments_only=True, normalise=True, progress=False)
    full = export_published(flights, folder / 'full', normalise=True, progress=False)
    return full, segments


@pytest.mark.parametrize('index', [0, 1], ids=['full', 'segments only'])
def test_authors_benchmark_finds_its_files(index, exports):
    splits = json.loads((exports[index] / 'splits.json').read_text())
    for airport in splits['train'] + splits['val']:
        assert [len(authors_table(f)) > 30 for f in (exports[index] / airport).glob('*')] == [True]
    for airports in splits['test'].values():
        assert all(len(authors_targets(exports[index], airports, task)) == 1 for task in OUTPUTS)


def test_authors_preparator_needs_the_full_export(exports):
    "It reads a table and the names of the tasks from the same flight, whichever is listed first"
    has_table_and_tasks = [
        (f / 'X_modified.csv').exists() and {t.name for t in f.glob('*') if t.is_dir()} >= {'windflaw', 'failures'}
        for root in exports
        for f in sorted(x for x in root.glob('*/*') if x.is_dir())
    ]
    assert has_table_and_tasks == [True] * 4 + [False] * 4


def test_targets_are_normalised(flights, exports):
    for task in OUTPUTS:
        mean, std = expected_scale(flights, task)
        raw = read_published(exports[0], task=task, raw=True)
        assert raw.meta['table'] == 'X.csv'
        for e, z in zip(raw, read_published(exports[0], task=task)):
            raw_target, target = (
                [float(v) for k, v in x.factors.items() if k in TARGETS[task] or '/' in k] for x in (e, z)
            )
            assert len(target) == OUTPUTS[task]
            np.testing.assert_allclose(target, (np.array(raw_target) - mean) / std, rtol=1e-4, atol=1e-4)


def expected_scale(flights, task):
    """Return mean and standard deviation of a target over `fit`, which has one of the four flights.

    It has not touched down, so the export uses the flight of `valid` for the task `landing`.
    """
    fit = flights[0]
    if task == 'autoregression':
        X = np.asarray(fit.obs['sensors'], float)[:, 1:]
        return X.mean(0), np.where(X.std(0) > 1e-6 * np.abs(X.mean(0)), X.std(0), 1)
    if task == 'landing':
        return np.array([float(flights[1].factors[k]) for k in TARGETS[task].values()]), 1
    return np.array([fit.factors[k][-1] for k in TARGETS[task].values()]), 1


def test_segments_only_export_is_part_of_the_full_export(flights, exports, tmp_path):
    full, segments = exports
    kept = [p.relative_to(segments) for p in segments.rglob('*') if p.is_file()]
    assert all((full / p).read_bytes() == (segments / p).read_bytes() for p in kept)
    assert not {p.name for p in kept} & {'X.csv', 'target.csv'}
    r = read_published(segments)
    assert r.meta['flights_without'] == 2 and sorted(r.split) == ['fit', 'valid']
    assert {*read_published(segments, task='windflaw').split} == {'probe', 'test'}
    test_export = export_published(flights[2:3], tmp_path / 'test', segments_only=True, progress=False)
    with pytest.raises(ValueError, match='task'):
        read_published(test_export)


def test_segments_are_determined_by_the_seed(flights, tmp_path):
    a, b, c = (export_published(flights, tmp_path / str(k), film='mp4', segment=20, seed=k // 2) for k in range(3))
    files = sorted(p.relative_to(a) for p in a.rglob('*') if p.is_file())
    assert [str(f) for f in files if (a / f).read_bytes() != (b / f).read_bytes()] == []
    assert any((a / f).read_bytes() != (c / f).read_bytes() for f in files if (c / f).exists())


def test_opening_parses_no_table(flights, tmp_path):
    out = export_published(flights, tmp_path / 'out', targets={})
    for path in sorted(out.rglob('X.csv'))[1:]:
        path.write_text('rubbish')
    r = read_published(out)
    assert r.n_steps == flights.n_steps
    with pytest.raises(ValueError, match='X.csv.*1090.*1090'):
        np.asarray(r[2].obs['sensors'])


def truncate(path, share=0.5):
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])


def set_cell(path, row, column, value):
    rows = read_cells(path)
    rows[row][rows[0].index(column)] = value
    write_cells(path, rows)


def drop_column(path, column):
    write_cells(path, [row[:column] + row[column + 1 :] for row in read_cells(path)])


FAULTS = {
    'truncated table': (
        lambda d: truncate(d / 'X.csv'),
        r'KSEA/flight0/X.csv, line \d+: \d+ cells, expected 1090; the file is truncated',
    ),
    'a missing column': (
        lambda d: drop_column(d / 'X.csv', 7),
        f'KSEA/flight0/X.csv lacks 1 of 1090 columns: {NAMES[7]}$',
    ),
    'NaN': (
        lambda d: set_cell(d / 'X.csv', 3, NAMES[9], 'nan'),
        f"X.csv, line 4, column '{NAMES[9]}': nan .*finite=False",
    ),
    'empty': (lambda d: set_cell(d / 'X.csv', 3, NAMES[9], ''), f"X.csv, line 4, column '{NAMES[9]}': nan"),
    'infinity': (lambda d: set_cell(d / 'X.csv', 2, NAMES[1], '-inf'), f"X.csv, line 3, column '{NAMES[1]}': -inf"),
    'text': (
        lambda d: set_cell(d / 'X.csv', 5, NAMES[2], 'high'),
        f"X.csv, line 6, column '{NAMES[2]}': expected a number, got 'high'",
    ),
    'no table': (lambda d: (d / 'X.csv').unlink(), 'KSEA/flight0 .*X_modified.csv nor X.csv'),
    'a column twice': (
        lambda d: write_cells(
            d / 'X.csv', [r + [NAMES[3] if not i else '0'] for i, r in enumerate(read_cells(d / 'X.csv'))]
        ),
        f"X.csv .*columns 3 and 1090 are both '{NAMES[3]}'",
    ),
    'a missing frame': (
        lambda d: (d / 'data_3.jpg').unlink(),
        r'X.csv has (\d+) rows, but there are \d+ frames.*trim=True',
    ),
    'no frames': (
        lambda d: [p.unlink() for p in d.glob('*.jpg')],
        'KSEA/flight0 has no frames, but .* has; pass frames=False',
    ),
    'truncated picture': (lambda d: truncate(d / 'data_3.jpg'), 'data_3.jpg is damaged, or not an image'),
    'picture of another size': (
        lambda d: Image.new('RGB', (8, 9)).save(d / 'data_3.jpg'),
        'data_3.jpg is 8 x 9, data_0.jpg is 32 x 32',
    ),
    'two videos': (
        lambda d: [p.unlink() for p in d.glob('*.jpg')] + [(d / n).touch() for n in ('a.mp4', 'b.avi')],
        'flight0 .*2 videos.* a.mp4, b.avi',
    ),
    'only normalised': (
        lambda d: (d / 'X.csv').rename(d / 'X_modified.csv'),
        'flight0 has only X_modified.csv, but .* has X.csv: one is normalised|flight1 has only X.csv',
    ),
    'truncated splits': (
        lambda d: truncate(d.parents[1] / 'splits.json'),
        'splits.json is damaged, or not like .*"train"',
    ),
    'splits without val': (
        lambda d: (d.parents[1] / 'splits.json').write_text('{"train": []}'),
        "splits.json is damaged, or not like .*KeyError: 'val'",
    ),
    'airport in two splits': (
        lambda d: (d.parents[1] / 'splits.json').write_text(
            '{"train": ["KSEA"], "val": ["KSEA"], "test": {"train": [], "val": []}}'
        ),
        "the airport 'KSEA' is in two splits",
    ),
}


@pytest.mark.parametrize('fault', FAULTS)
@pytest.mark.variants
def test_faults_are_named(fault, flights, tmp_path):
    damage, message = FAULTS[fault]
    out = export_published(flights[:2], tmp_path / 'out', targets={})
    damage(out / 'KSEA' / 'flight0')
    with pytest.raises(ValueError, match=message):
        for e in read_published(out):
            np.asarray(e.obs['sensors']), np.asarray(e.obs['frame'])


@pytest.mark.parametrize('name', ['data.mp4', 'data.mkv'])
def test_truncated_video_is_named(name, flights, tmp_path):
    out = export_published(flights[:1], tmp_path / 'out', film='mp4', targets={})
    folder = out / 'KSEA' / 'flight0'
    if name == 'data.mkv':
        remux(folder / 'data.mp4', folder / name)
    assert (np.asarray(read_published(out)[0].obs['frame'][3:5])).shape == (2, 32, 32, 3)
    truncate(folder / name)
    with pytest.raises(ValueError, match=f'{name} is damaged, or not a video|has .* rows, but there are'):
        np.asarray(read_published(out)[0].obs['sensors'])


def remux(path, target):
    "Copy the packets of a video to another container."
    import av

    with av.open(str(path)) as source, av.open(str(target), 'w') as sink:
        stream = sink.add_stream_from_template(source.streams.video[0])
        for p in source.demux(source.streams.video[0]):
            if p.dts is not None:
                p.stream = stream
                sink.mux(p)
    path.unlink()


def test_folder_without_flights_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_published(tmp_path / 'nowhere')
    (tmp_path / 'x.txt').touch()
    with pytest.raises(ValueError, match='KSEA.*x.txt'):
        read_published(tmp_path)


@pytest.mark.parametrize('export', [export_published, export_lerobot])
def test_failed_export_leaves_no_files(export, flights, tmp_path):
    class Broken(Recording):
        def __iter__(self):
            yield self[0]
            raise OSError(28, 'No space left on device')

    with pytest.raises(OSError):
        export(Broken(list(flights), hz=5, split=SPLIT), tmp_path / 'out')
    assert list(tmp_path.iterdir()) == []
    (tmp_path / 'mine').mkdir()
    (tmp_path / 'mine' / 'thesis.tex').touch()
    with pytest.raises(FileExistsError):
        export(flights, tmp_path / 'mine')
    assert [p.name for p in (tmp_path / 'mine').iterdir()] == ['thesis.tex']


@pytest.mark.parametrize('export', [export_published, export_lerobot])
def test_only_recordings_with_episodes_can_be_exported(export, flights, tmp_path):
    for other, name in (flights[0], 'Episode; Recording'), ('set', 'str$'), (list(flights), 'list$'):
        message = f'{export.__name__} takes a Recording; got {name}'
        with pytest.raises(TypeError, match=message):
            export(other, tmp_path / 'out')
    with pytest.raises(ValueError):
        export(flights[:0], tmp_path / 'out')


def test_unsuitable_recordings_are_refused(flights, tmp_path):
    with pytest.raises(ValueError, match='sensors.*frame'):
        export_published(Recording([Episode({'frame': np.zeros((3, 8, 8, 3), np.uint8)})]), tmp_path / 'a')
    with pytest.raises(ValueError, match='sensors.*5.*1090'):
        export_published(Recording([Episode({'sensors': np.zeros((3, 5))})]), tmp_path / 'a')
    five = Recording([Episode({'sensors': np.arange(15.0).reshape(3, 5)})], meta=dict(columns=list('abcde')))
    imported = read_published(export_published(five, tmp_path / 'b', targets={}), columns='file')
    assert imported[0].obs['sensors'].tolist() == np.arange(15.0).reshape(3, 5).tolist()
    with pytest.raises(ValueError, match='KSEA'):
        export_published(Recording([flights[0], flights[0]], split=['fit', 'test']), tmp_path / 'c')
    uneven = Episode({'sensors': np.zeros((3, 1090)), 'frame': np.zeros((3, 9, 8, 3), np.uint8)})
    with pytest.raises(ValueError, match='9.*8.*film.*jpg'):
        export_published(Recording([uneven]), tmp_path / 'f', film='mp4')
    with pytest.raises(ValueError, match='hz=2.5'):
        export_lerobot(Recording(list(flights), hz=2.5), tmp_path / 'd')
    with pytest.raises(ValueError, match='observation.map.*3, 4, 4'):
        export_lerobot(Recording([Episode({'map': np.zeros((3, 4, 4))})], hz=5), tmp_path / 'e')


# ---- LeRobot: read by its metadata alone


def lerobot_episode(root, info, row):
    place = {k: row[f'data/{k}'] for k in ('chunk_index', 'file_index')}
    table = pq.read_table(root / info['data_path'].format(**place)).to_pandas()
    return table[table['episode_index'] == row['episode_index']]


def lerobot_frames(root, info, row, key):
    import av

    place = {k: row[f'videos/{key}/{k}'] for k in ('chunk_index', 'file_index')}
    start, stop = (row[f'videos/{key}/{k}_timestamp'] - 1e-6 for k in ('from', 'to'))
    with av.open(str(root / info['video_path'].format(video_key=key, **place))) as c:
        return np.stack([f.to_ndarray(format='rgb24') for f in c.decode(video=0) if start <= f.time < stop])


@pytest.mark.parametrize('small', [False, True], ids=['one file', 'many files'])
def test_lerobot_export_holds_the_episodes(small, flights, tmp_path):
    root = export_lerobot(flights, tmp_path / 'out', **(dict(data_mb=0.01, video_mb=0.001) if small else {}))
    info = json.loads((root / 'meta/info.json').read_text())
    assert info['codebase_version'] == 'v3.0' and info['fps'] == 5
    assert [info[f'total_{k}'] for k in ('episodes', 'frames', 'tasks')] == [4, flights.n_steps, 1]
    key, features = 'observation.images.front', info['features']
    assert features['observation.state'] == dict(dtype='float32', shape=[1090], names=NAMES)
    assert features[key]['dtype'] == 'video' and features[key]['info']['video.fps'] == 5
    assert features['factor.rel_engfai0'] == dict(dtype='float32', shape=[1], names=None)
    assert pd.read_parquet(root / 'meta/tasks.parquet')['task_index'].to_dict() == {'four': 0}
    rows = pq.read_table(root / 'meta/episodes').to_pylist()
    for part in 'data', f'videos/{key}':
        assert len({r[f'{part}/file_index'] for r in rows}) == (4 if small else 1)
    n = 0
    for e, r, split in zip(flights, rows, SPLIT):
        table, frames = lerobot_episode(root, info, r), lerobot_frames(root, info, r, key)
        assert (r['length'], r['dataset_from_index'], r['dataset_to_index']) == (len(e), n, n + len(e))
        assert set(table.columns) | {key} == set(features)
        assert table['index'].tolist() == list(range(n, n + len(e)))
        assert table['frame_index'].tolist() == list(range(len(e)))
        np.testing.assert_allclose(table['timestamp'], np.arange(len(e)) / 5, rtol=1e-6)
        assert (np.stack(table['observation.state']) == e.obs['sensors']).all()
        assert (table['factor.height'].to_numpy() == e.factors['height']).all()
        assert frames.shape == e.obs['frame'].shape and psnr(frames, e.obs['frame']) > 25
        assert r['split'] == split
        for k in 'airport', 'outcome':
            assert r[f'factor/{k}'] == str(e.factors[k])
        mean = np.asarray(e.obs['sensors'], float).mean(0)
        np.testing.assert_allclose(r['stats/observation.state/mean'], mean, rtol=1e-9)
        n += len(e)


def test_lerobot_statistics_are_those_of_all_flights(flights, tmp_path):
    root = export_lerobot(flights, tmp_path / 'out')
    stats = json.loads((root / 'meta/stats.json').read_text())
    X = np.concatenate([e.obs['sensors'] for e in flights]).astype(float)
    for name, expected in (('min', X.min(0)), ('max', X.max(0)), ('mean', X.mean(0)), ('std', X.std(0))):
        np.testing.assert_allclose(stats['observation.state'][name], expected, rtol=1e-6, atol=1e-5)
    assert stats['observation.state']['count'] == [flights.n_steps]
    image = stats['observation.images.front']
    assert np.shape(image['mean']) == (3, 1, 1)
    assert 0 <= np.min(image['min']) <= np.min(image['mean']) <= np.max(image['max']) <= 1


def test_lerobot_export_takes_any_recording(tmp_path):
    "A game with one channel, an odd frame size, actions, rewards and a factor of text."
    T = 7
    frames, ram = np.full((T, 21, 16, 1), 100, np.uint8), np.arange(T * 128).reshape(T, 128).astype(np.uint8)
    room = np.array(list('abcabca'))
    e = Episode({'frame': frames, 'ram': ram}, np.arange(T), np.ones(T), dict(room=room))
    root = export_lerobot(Recording([e], hz=15), tmp_path / 'out', task='play')
    info, row = json.loads((root / 'meta/info.json').read_text()), pq.read_table(root / 'meta/episodes').to_pylist()[0]
    table = lerobot_episode(root, info, row)
    assert table['action'].tolist() == list(range(T)) and table['next.reward'].sum() == T
    assert table['factor.room'].tolist() == list('abcabca')
    assert info['features']['factor.room']['dtype'] == 'string'
    assert info['features']['observation.ram'] == dict(dtype='uint8', shape=[128], names=None)
    decoded = lerobot_frames(root, info, row, 'observation.images.front')
    assert decoded.shape == (T, 21, 16, 3) and abs(decoded.mean() - 100) < 3


# ---- runways


def test_missing_airport_is_named(monkeypatch):
    import srlviz.envs.landing.runways as module

    known = dict(module._airport_data())
    known.pop('EGLL')
    monkeypatch.setattr(module, '_airport_data', lambda: known)
    with pytest.raises(ValueError, match='EGLL'):
        module.runways.__wrapped__()


def test_complete_runways_are_read_from_ourairports(tmp_path):
    "A table of thousands of rows, quoted as OurAirports quotes, with missing cells in all columns"
    columns = 'id airport_ref airport_ident length_ft width_ft surface lighted closed'.split() + [
        f'{e}_{c}'
        for e in ('le', 'he')
        for c in 'ident latitude_deg longitude_deg elevation_ft heading_degT displaced_threshold_ft'.split()
    ]
    rng, rows = np.random.default_rng(0), []
    for i in range(3000):
        lat, lon, length = rng.uniform(-60, 60), rng.uniform(-180, 180), rng.uniform(7500, 12000)
        row = [
            i,
            i,
            f'X{i:04}',
            length,
            150,
            rng.choice(['ASP', 'CON', 'ASPH-G', 'TURF']),
            1,
            0,
            '36',
            lat,
            lon,
            100,
            0,
            '',
            '18',
            lat + length * 0.3048 / 111000,
            lon,
            '',
            180,
            '',
        ]
        rows.append(['' if rng.random() < 0.03 else v for v in row])
    pd.DataFrame(rows, columns=columns).to_csv(tmp_path / 'runways.csv', index=False, quoting=2)
    complete = Runways.from_ourairports(tmp_path / 'runways.csv')
    assert 1500 < len(complete) < 6000 and len(complete) == 2 * len(complete.airports)
    assert all(min(r.heading % 180, 180 - r.heading % 180) < 0.01 and r.elevation == 30.5 for r in complete)
    split = complete.split()
    shares = pd.Series([split[r.airport] for r in complete]).value_counts(normalize=True)
    assert abs(shares['fit'] - 0.45) < 0.001 and abs(shares['test'] - 0.136) < 0.001
