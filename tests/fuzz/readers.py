"""Readers under test: for each untrusted file a small valid specimen, a function that reads all of it, and a rule.

The rule accepts the changes of the file that no reader could detect.
"""

import csv, hashlib, io, json, shutil, sys, tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd

from . import drawing, plain
from .plain import (
    ANY,
    NUMBER,
    POSITIVE,
    TEXT,
    WORDS,
    csv_with,
    integer,
    json_with,
    numeral,
    numeral_or_nothing,
    one_of,
    whole,
)

sys.path.insert(0, str(Path(__file__).parents[1]))  # for support.flights_simulator


@dataclass(frozen=True)
class Reader:
    """A file and the function that reads it.

    make : folder -> None, writes a specimen into it;  touch : folder -> part -> value, reads all of it
    target : the file that is mutated, or a pattern of its name;  kind : its kind, a key of `mutate.MENUS`
    plain : rule of `plain.py`;  verify : folder -> part -> value, raises a ValueError for faults in the files
    sign : (folder, target), writes the checksum of the file into the manifest, as an attacker can
    writes : patterns of the files that reading may write, relative to the folder
    draw : folder -> None, draws what was read (see `drawing`);  accepted_names : other strings by which an error may
        identify the file
    optional : whether the file may be missing, or something else than a regular file, which is not read
    """

    name: str
    kind: str
    target: str
    make: Callable
    touch: Callable
    plain: Callable = plain.never
    verify: Callable | None = None
    sign: Callable | None = None
    writes: tuple[str, ...] = ()
    accepted_names: tuple[str, ...] = ()
    optional: bool = False
    draw: Callable | None = None


def of_recording(r, prefix='') -> dict:
    """Return all values of a recording: part -> value."""
    out = {
        'name': r.name,
        'hz': r.hz,
        'meta': r.meta,
        'split': r.split.tolist(),
        'lengths': r.lengths,
        'factors': r.factor_table,
        'n': len(r),
    }
    for i, e in enumerate(r):
        out |= {f'{i} ended': e.ended, f'{i} name': e.name, f'{i} length': len(e)}
        for part, values in (('obs', e.obs), ('factor', e.factors), ('', {'action': e.actions, 'reward': e.rewards})):
            out |= {
                f'{i} {part} {k}': np.asarray(v[:] if getattr(v, 'shape', None) else v)
                for k, v in values.items()
                if v is not None
            }
    return {prefix + k: v for k, v in out.items()}


SPLITS = ('fit', 'valid', 'probe', 'test', 'shifted', 'twins')
ENDINGS, KINDS = ('terminated', 'truncated'), ('categorical', 'continuous')
SPLIT = one_of(*SPLITS, '')
RATE = lambda v: v is None or POSITIVE(v)


def sign_files(folder: Path, target: str) -> None:
    """Write the size and the checksum of a file into meta/info.json."""
    path = folder / 'meta' / 'info.json'
    if not path.is_file() or path.is_symlink():
        return
    info = json.loads(path.read_text())
    data = (folder / target).read_bytes()
    info['files'][target] = [len(data), hashlib.sha256(data).hexdigest()[:32]]
    path.write_text(json.dumps(info, indent=1))


# ---- recordings


def toy_recording():
    """Return three short episodes with every kind of observation and factor."""
    from srlviz.core.recordings import Episode, Factor, Recording

    def episode(i):
        rng, T = np.random.default_rng(i), 8 + i
        return Episode(
            {
                'frame': rng.integers(0, 255, (T, 12, 10, 1)).astype(np.uint8),
                'sensors': rng.normal(size=(T, 3)).astype(np.float32),
            },
            np.arange(T) % 3,
            np.ones(T, np.float32),
            {
                'x': np.arange(T) % 3,
                'room': np.array(['hall', 'cave'])[np.arange(T) % 2],
                'wind': np.float32(i),
                'airport': np.asarray('KSEA'),
            },
            ENDINGS[i % 2],
            f'e{i}',
        )

    factors = [
        Factor('x', 'pose', 'categorical'),
        Factor('room', 'place'),
        Factor('wind', 'weather', 'continuous', 'm/s'),
        Factor('airport', 'place'),
    ]
    return Recording(
        [episode(i) for i in range(3)],
        'toy',
        15,
        factors,
        ['fit', 'probe', 'test'],
        {'game': 'pong', 'seed': 3, 'pixels': [{'variable': 'x', 'low': 1}]},
    )


def recording_folder(place):
    toy_recording().save(place / 'set')
    _move_up(place)


def recording_file(place):
    toy_recording().save(place / 'toy.npz')


def recording_cached(place):
    from srlviz.core.recordings import load_recording

    recording_folder(place)
    load_recording(place).cached()


def recording_half(place):
    from srlviz.core.storage import write_episode

    for i, e in enumerate(list(toy_recording())[:2]):
        write_episode(place, f'{i:06}', e)


def _move_up(place):
    "Move the files of `set` into the folder itself"
    for p in [*(place / 'set').iterdir()]:
        p.rename(place / p.name)
    (place / 'set').rmdir()


def read_folder(place):
    from srlviz.core.recordings import load_recording

    r = load_recording(place)
    return (
        of_recording(r)
        | {'repr': repr(r).count('\n'), 'fingerprint': len(r.fingerprint())}
        | {f'cached {k}': v for k, v in read_cached(place).items() if 'obs' in k}
    )


def read_cached(place):
    from srlviz.core.recordings import load_recording

    return of_recording(load_recording(place).cached())


def read_file(place):
    from srlviz.core.recordings import load_recording

    return of_recording(load_recording(place / 'toy.npz'))


def verify_folder(place):
    from srlviz.core.recordings import verify_recording

    return {'sound': verify_recording(place)}


def verify_file(place):
    from srlviz.core.recordings import verify_recording

    return {'sound': verify_recording(place / 'toy.npz')}


def resume_recording(place):
    from srlviz.core.storage import finish_recording, write_episode

    r = toy_recording()
    write_episode(place, '000002', r[2])
    finish_recording(
        place,
        name='toy',
        hz=15,
        factors=r.factor_table,
        split={'000000': 'fit', '000001': 'probe', '000002': 'test'},
        meta={},
    )
    return read_folder(place) | verify_folder(place)


def twins_file(place):
    from srlviz.core.recordings import Episode
    from srlviz.core.twins import Twins

    rooms = [
        Episode({'vector': np.eye(2, dtype=np.float32)[[x]]}, factors={'lamp': np.uint8([x]), 'door': np.uint8([y])})
        for x, y in ((1, 0), (0, 0), (1, 1))
    ]
    columns = [0, 0, 0], ['', 'lamp', 'door'], [np.nan, 0, 1]
    Twins.build(rooms, *columns, follows={'lamp': ['door']}, left_out=[('door', 'shut', 2)]).save(place / 'twins.npz')


def read_twins(place):
    from srlviz.core.recordings import load_recording
    from srlviz.core.twins import Twins

    t = Twins.of(load_recording(place / 'twins.npz'))
    made = dict(table=t.table, left_out=t.left_out, follows=t.follows, names=t.factor_names, about=len(repr(t)))
    return of_recording(t) | made


def verify_twins(place):
    from srlviz.core.recordings import verify_recording

    return {'sound': verify_recording(place / 'twins.npz')}


_CACHE = 'cache', 'cache/*'
_HEAD = json_with(
    {
        'name': TEXT,
        'hz': RATE,
        'meta': ANY,
        'meta.*': ANY,
        'split.*': SPLIT,
        'ended.*': one_of(*ENDINGS),
        'names.*': TEXT,
        'factors.*.group': TEXT,
        'factors.*.unit': TEXT,
        'factors.*.kind': one_of(*KINDS),
    },
    lambda x: True,
)
_TWINS_ROW = 'meta.twins.rows.moment 0, part'
_TWINS_HEAD = json_with(
    {
        'name': TEXT,
        'hz': RATE,
        'split.*': SPLIT,
        'ended.*': one_of(*ENDINGS),
        'factors.*.group': TEXT,
        'factors.*.unit': TEXT,
        'factors.*.kind': one_of(*KINDS),
        f'{_TWINS_ROW} 1.0': whole(0),  # another moment: the check of the whole table decides
        f'{_TWINS_ROW} [23].0': whole(0),
        f'{_TWINS_ROW} [23].1': one_of('lamp', 'door'),
        f'{_TWINS_ROW} [23].2': NUMBER,
        'meta.twins.follows*': ANY,
        'meta.twins.left_out.*.[01]': TEXT,
        'meta.twins.left_out.*.2': whole(),
        'meta.*': ANY,
    }
)
_FINITE = lambda name, a: a.dtype.kind not in 'fc' or bool(np.isfinite(a).all())


def _splits_rule(old, new, differ):
    a, b = plain.strict(old), plain.strict(new)
    keys = [k for v in b.values() for k in v]
    return {*b} <= {*SPLITS, ''} and len({*keys}) == len(keys) and {*keys} <= {f'{i:06}' for i in range(3)} and bool(a)


_FACTORS = csv_with({'group': WORDS, 'unit': WORDS, 'kind': one_of(*KINDS)}, unique=('name',), empty=True)
_EPISODES = plain.parquet_with(('key', 'length', 'shard', 'row'), {'ended': one_of(*ENDINGS), 'name': TEXT})
_INFO = json_with({'name': TEXT, 'hz': RATE, 'meta': ANY, 'meta.*': ANY})
_NOTE = json_with({'name': TEXT})


def _in_recording(target, kind, rule, sign=sign_files):
    return Reader(
        f'recording {target}',
        kind,
        target,
        recording_folder,
        read_folder,
        rule,
        verify_folder,
        sign,
        _CACHE,
        draw=drawing.explored(),
    )


_EPISODE_NAMES = ('episode 00000',)  # the files of an episode are named after it
_RESUME_WRITES = 'partial', 'partial/*', 'steps', 'steps/*', 'frames/*', 'meta', 'meta/*', 'episodes.parquet', *_CACHE
RECORDINGS = [
    Reader(
        'recording .npz',
        'recording',
        'toy.npz',
        recording_file,
        read_file,
        plain.npz_with(head=_HEAD),
        verify_file,
        draw=drawing.explored('toy.npz'),
    ),
    Reader(
        'Twins.of',
        'recording',
        'twins.npz',
        twins_file,
        read_twins,
        plain.npz_with(_FINITE, head=_TWINS_HEAD),
        verify_twins,
        draw=drawing.explored('twins.npz'),
    ),
    _in_recording('meta/info.json', 'json', _INFO, None),
    _in_recording('meta/factors.csv', 'csv', _FACTORS),
    _in_recording('meta/splits.json', 'json', _splits_rule),
    _in_recording('meta/stats.json', 'json', plain.never),
    _in_recording('episodes.parquet', 'parquet', _EPISODES),
    _in_recording('steps/000.parquet', 'parquet', plain.parquet_with()),
    _in_recording('frames/frame/000001.zip', 'film', plain.film),
    Reader(
        'recording cache/frame.npy', 'npy', 'cache/frame.npy', recording_cached, read_cached, plain.npy, writes=_CACHE
    ),
    Reader('recording cache/frame.json', 'json', 'cache/frame.json', recording_cached, read_cached, writes=_CACHE),
    Reader(
        'half a recording partial/*.json',
        'json',
        'partial/000001.json',
        recording_half,
        resume_recording,
        _NOTE,
        writes=_RESUME_WRITES,
        accepted_names=_EPISODE_NAMES,
    ),
    Reader(
        'half a recording partial/*.parquet',
        'parquet',
        'partial/000001.parquet',
        recording_half,
        resume_recording,
        plain.parquet_with(),
        writes=_RESUME_WRITES,
        accepted_names=_EPISODE_NAMES,
    ),
    Reader(
        'half a recording frames/*.zip',
        'film',
        'frames/frame/000001.zip',
        recording_half,
        resume_recording,
        plain.film,
        writes=_RESUME_WRITES,
        accepted_names=_EPISODE_NAMES,
    ),
]

# ---- sets of flights


def flights(place):
    from support.flights_simulator import make

    make(place / 'set', 3)
    _move_up(place)


def flights_cached(place):
    flights(place)
    read_cached_flights(place)


def read_set(place):
    from srlviz.data.landing import flight_columns, flight_table, read_flights

    r = read_flights(place)
    return of_recording(r) | {
        'flights': flight_table(r),
        'columns': flight_columns(r),
        'parts': np.asarray(r[0].obs['frame'][3:5]),
    }


def read_cached_flights(place):
    from srlviz.core.storage import row_cache
    from srlviz.data.landing import read_flights

    with patch.object(row_cache, '_SMALL', 0):  # as for a set that is too large for memory
        r = read_flights(place)
        return {str(i): np.asarray(e.obs['sensors']) for i, e in enumerate(r)}


def verify_set(place):
    from srlviz.data.landing import verify_flights

    try:
        faults = verify_flights(place)
    except Exception as e:
        raise RuntimeError(f'verify_flights raised {type(e).__name__}: {e}') from e
    if len(faults):
        raise ValueError('; '.join(f'{f.file}: {f.flight} {f.fault}' for f in faults.itertuples())[:3000])
    return {'sound': True}


_FLIGHTS_INFO = json_with(
    {
        'name': TEXT,
        'meta.columns': lambda v: False,
        'meta.packages': lambda v: isinstance(v, dict),
        'meta.mean_and_std_over': one_of('fit', 'all'),
        'meta.*': ANY,
    }
)
_FLIGHTS = plain.parquet_with(('flight_id',))
_DATA = plain.parquet_with(finite=True)
_FLIGHT_SPLITS = {f'flight_{i:06}' for i in range(3)}
_COLUMNS = csv_with(
    {'group': WORDS, 'units': WORDS, 'role': WORDS, 'mean': numeral(), 'std': numeral(0)}, rows='same', unique=('name',)
)


def _flight_splits_rule(old, new, differ):
    splits = plain.strict(new)
    keys = [k for v in splits.values() for k in v]
    return {*splits} <= {*SPLITS, ''} and len({*keys}) == len(keys) and {*keys} <= _FLIGHT_SPLITS


def _published_splits_rule(old, new, differ):
    x = plain.strict(new)
    airports = [a for part in (x['train'], x['val'], x['test']['train'], x['test']['val']) for a in part]
    return (
        all(isinstance(a, str) for a in airports)
        and len({*airports}) == len(airports)
        and all(isinstance(v, list) for v in (x['train'], x['val'], *x['test'].values()))
    )


def _in_flights(target, kind, rule, sign=sign_files):
    draw = drawing.explored()
    return Reader(f'flights {target}', kind, target, flights, read_set, rule, verify_set, sign, _CACHE, draw=draw)


_OLD_COLUMNS = 'flight_id', 'flight_index', 'n_frames', 'data', 'row_offset', 'video', 'ended'


def old_flights(place):
    shutil.copytree(Path(__file__).parents[1] / 'support' / 'flights_0_2_0' / 'filmed', place, dirs_exist_ok=True)


def convert_set(place):
    from srlviz.data.landing import convert_flights

    with tempfile.TemporaryDirectory() as scratch:
        convert_flights(place, Path(scratch) / 'new')
        return read_set(Path(scratch) / 'new')


def _in_old_flights(target, kind, rule, sign=sign_files):
    return Reader(f'flights of 0.2.0 {target}', kind, target, old_flights, convert_set, rule, sign=sign)


FLIGHTS = [
    _in_flights('meta/info.json', 'json', _FLIGHTS_INFO, None),
    _in_flights('meta/flights.parquet', 'parquet', _FLIGHTS),
    _in_flights('episodes.parquet', 'parquet', _EPISODES),
    _in_flights('meta/columns.csv', 'csv', _COLUMNS),
    _in_flights('meta/factors.csv', 'csv', _FACTORS),
    _in_flights('meta/stats.json', 'json', plain.never),
    _in_flights('meta/splits.json', 'json', _flight_splits_rule),
    _in_flights('README.md', 'text', plain.never),
    _in_flights('steps/000.parquet', 'parquet', _DATA),
    _in_flights('frames/frame/flight_000001.mp4', 'mp4', plain.same_shapes),
    _in_old_flights('meta/info.json', 'json', json_with({'factors.*.group': TEXT, 'factors.*.unit': TEXT}), None),
    _in_old_flights('meta/request.json', 'json', json_with({'packages.*': ANY, 'n': ANY})),
    _in_old_flights('meta/flights.parquet', 'parquet', plain.parquet_with(_OLD_COLUMNS, {'split': SPLIT})),
    _in_old_flights('meta/columns.csv', 'csv', _COLUMNS),
    _in_old_flights('data/chunk-000/file-000.parquet', 'parquet', plain.parquet_with(('flight_index',), finite=True)),
    _in_old_flights('videos/front/chunk-000/flight_000001.mp4', 'mp4', plain.same_shapes),
    Reader(
        'flights cache/state.npy',
        'npy',
        'cache/state-*.npy',
        flights_cached,
        read_cached_flights,
        plain.npy,
        writes=_CACHE,
    ),
]

# ---- the published layout

_NAMES = ['sim/a', 'sim/b', 'sim/c', 'sim/d']


def _published(place, film):
    from srlviz.core.recordings import Episode, Recording
    from srlviz.data.landing.published import export_published

    ramp = 6 * np.add.outer(np.arange(32), np.arange(32))[..., None] % 200

    def episode(i):
        return Episode(
            {
                'sensors': np.random.default_rng(i).normal(size=(12, 4)).astype(np.float32),
                'frame': np.stack([(ramp + 4 * t).repeat(3, 2) for t in range(12)]).astype(np.uint8),
            },
            factors=dict(airport=np.asarray(['KSEA', 'EGLL'][i]), flight=np.asarray(i)),
        )

    export_published(
        Recording([episode(0), episode(1)], hz=5, split=['fit', 'test'], meta=dict(columns=_NAMES)),
        place / 'set',
        film=film,
        targets={'autoregression': {}},
        segment=8,
        progress=False,
    )
    _move_up(place)


def published_jpg(place):
    _published(place, 'jpg')


def published_mp4(place):
    _published(place, 'mp4')


def read_layout(place):
    from srlviz.data.landing.published import read_published

    full = read_published(place, columns='file')
    task = read_published(place, task='autoregression', columns='file')
    blind = read_published(place, columns='file', frames=False)
    return of_recording(full) | of_recording(task, 'task ') | of_recording(blind, 'blind ')


def read_all_published(place):
    from srlviz.data.landing.published import read_published

    return read_published(place, columns='file')


_TABLE = csv_with({}, otherwise=numeral(-3e38, 3e38), rows='same')


def _sensors_rule(old, new, differ):
    "Accept other names of columns: the file itself defines them"
    head, _, body = new.partition(b'\n')
    names = head.decode().split(',')
    renamed = old.partition(b'\n')[0] + b'\n' + body
    return (
        len({*names}) == len(names) == len(old.partition(b'\n')[0].split(b','))
        and all(n.strip() for n in names)
        and _TABLE(old, renamed, differ)
    )


def _in_published(target, kind, rule, make=published_jpg, **options):
    draw = drawing.explored_recording(read_all_published)
    return Reader(f'published {target}', kind, target, make, read_layout, rule, draw=draw, **options)


PUBLISHED = [
    _in_published('splits.json', 'json', _published_splits_rule, optional=True),
    _in_published('KSEA/flight0/X.csv', 'csv', _sensors_rule),
    _in_published('KSEA/flight0/autoregression/target.csv', 'csv', _sensors_rule),
    _in_published('KSEA/flight0/data_3.jpg', 'jpg', plain.same_shapes),
    _in_published('KSEA/flight0/data.mp4', 'mp4', plain.same_shapes, published_mp4),
]

# ---- single tables


def scores(place):
    from srlviz.core.scores import paper_scores, save_scores

    save_scores(paper_scores('atari').head(12), place / 'scores.csv')


def read_scores(place):
    from srlviz.core.scores import load_scores

    return {'table': load_scores(place / 'scores.csv')}


def _scores_rule(old, new, differ):
    "Accept another valid table with values in [0, 1], but no truncated one"
    from srlviz.core.scores import SCORE_COLUMNS

    key = [c for c in SCORE_COLUMNS if c != 'value']
    texts = {
        c: lambda v: bool(v.strip()) and WORDS(v)
        for c in key
        if c not in ('study', 'source', 'seed', 'n_codes', 'budget')
    }
    optional_texts = dict.fromkeys(('data', 'inputs', 'norm', 'protocol'), WORDS)  # may be empty
    free = (
        texts | optional_texts | {'group': WORDS, 'value': numeral(0, 1), 'n_codes': integer(0), 'budget': integer(0)}
    )
    identifier = lambda v: v.isascii() and v[:1].isalpha() and v.replace('-', '_').isidentifier() and len(v) <= 60
    free |= {'study': identifier, 'method': lambda v: texts['method'](v) and ' · ' not in v}
    return not old.startswith(new) and csv_with(free, unique=key)(old, new, differ)


def labels(place):
    from srlviz.envs.atari import annotations

    annotations('fixed', 'pong').to_csv(place / 'labels.csv', index=False)


def read_labels(place):
    from srlviz.envs.atari import annotations

    return {'table': annotations(place / 'labels.csv'), 'as text': annotations(str(place / 'labels.csv'), 'pong')}


def _label_rule(old, new, differ):
    from srlviz.envs.atari import CATEGORIES, GAMES, KINDS as kinds

    category = lambda v: bool(v) and {*v.split('|')} <= {*CATEGORIES}
    free = dict(
        game=one_of(*GAMES),
        variable=lambda v: bool(v.strip()) and WORDS(v),
        address=integer(0, 127),
        category=category,
        kind=one_of(*kinds),
        evidence=WORDS,
        object=WORDS,
        axis=one_of('x', 'y', ''),
    )
    return csv_with(
        free | {c: numeral_or_nothing for c in ('scale', 'offset', 'cross', 'low', 'high')},
        unique=('game', 'variable'),
        columns='some',
    )(old, new, differ)


def airports(place):
    columns = 'id airport_ref airport_ident length_ft width_ft surface lighted closed'.split()
    columns += [
        f'{e}_{c}'
        for e in ('le', 'he')
        for c in 'ident latitude_deg longitude_deg elevation_ft heading_degT displaced_threshold_ft'.split()
    ]
    rng, rows = np.random.default_rng(0), []
    for i in range(6):
        lat, lon, length = rng.uniform(-60, 60), rng.uniform(-180, 180), rng.uniform(8000, 12000)
        rows.append(
            [
                i,
                i,
                f'X{i:03}',
                length,
                150,
                ['ASP', 'CON'][i % 2],
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
        )
    pd.DataFrame(rows, columns=columns).to_csv(place / 'runways.csv', index=False)


def read_airports(place):
    from srlviz.envs.landing.runways import Runways

    runways = Runways.from_ourairports(place / 'runways.csv')
    return {'runways': sorted(repr(r) for r in runways), 'split': runways.split()}


_OPTIONAL_NUMBERS = {
    c: numeral_or_nothing
    for e in ('le', 'he')
    for c in (f'{e}_elevation_ft', f'{e}_displaced_threshold_ft', f'{e}_heading_degT')
}
_POSITION = {f'{e}_{c}_deg': numeral_or_nothing for e in ('le', 'he') for c in ('latitude', 'longitude')}
_RUNWAYS = csv_with(
    _OPTIONAL_NUMBERS
    | _POSITION
    | {
        'length_ft': numeral_or_nothing,
        'width_ft': numeral_or_nothing,
        'lighted': numeral_or_nothing,
        'closed': numeral_or_nothing,
        'airport_ident': WORDS,
        'surface': WORDS,
        'le_ident': WORDS,
        'he_ident': WORDS,
        'id': WORDS,
        'airport_ref': WORDS,
    },
    columns='some',
)


def kept(place):
    from srlviz.data.atari import prune_factors

    prune_factors(_atari_recording(), 0.3, file=place / 'kept.json')


def _atari_recording():
    r = toy_recording()
    r.meta['version'] = 'fixed'
    return r


def read_kept(place):
    from srlviz.data.atari import prune_factors

    return of_recording(prune_factors(_atari_recording(), 0.3, file=place / 'kept.json'))


def _kept_rule(old, new, differ):
    a, b = plain.strict(old), plain.strict(new)
    names = [*a['entropy']]
    chosen = b['kept']
    valid = (
        isinstance(chosen, list)
        and chosen
        and len({*chosen}) == len(chosen)
        and {*chosen} <= {*names}
        and {*chosen} <= {*b['entropy']}
        and all(NUMBER(v) and v >= 0 for v in b['entropy'].values())
    )
    return valid and {k: v for k, v in a.items() if k not in ('kept', 'entropy')} == {
        k: v for k, v in b.items() if k not in ('kept', 'entropy')
    }


TABLES = [
    Reader('load_scores', 'csv', 'scores.csv', scores, read_scores, _scores_rule, draw=drawing.explored('scores.csv')),
    Reader('annotations', 'csv', 'labels.csv', labels, read_labels, _label_rule),
    Reader('from_ourairports', 'csv', 'runways.csv', airports, read_airports, _RUNWAYS),
    Reader('prune_factors', 'json', 'kept.json', kept, read_kept, _kept_rule, writes=('kept.json',)),
]

# ---- weights and results

_CONFIG = dict(file='toy', width=3)


def weights(place):
    import torch
    from srlviz.core.training import save_weights

    save_weights(
        place / 'toy.pt',
        dict(net={'a.weight': torch.arange(12.0).reshape(4, 3), 'a.bias': torch.ones(4)}, epoch=3, losses=[1.0, 0.5]),
        _CONFIG,
    )


def read_weights(place):
    from srlviz.core.training import load_weights

    return _flat(load_weights(place / 'toy.pt', _CONFIG))


def _flat(x, path=''):
    if not isinstance(x, (dict, list)):
        return {path: x}
    return {
        k: v
        for key, value in (x.items() if isinstance(x, dict) else enumerate(x))
        for k, v in _flat(value, f'{path}.{key}').items()
    } or {path: x}


def agent(place):
    import torch
    from srlviz.agents.ppo import ActorCritic
    from srlviz.studies.papers.agents import AtariAgent, ScreenCNN

    about = dict(
        game='pong',
        n_actions=6,
        size=[210, 160],
        n_codes=4,
        shrink=2,
        steps=10,
        seed=0,
        ppo=dict(gamma=0.99),
        games=2,
        mean_return=-20.0,
    )
    torch.manual_seed(0)
    AtariAgent(ActorCritic(ScreenCNN(4, 1, (210, 160), shrink=2), 4, 6), about).save(place / 'agent.pt')


def read_agents(place):
    from srlviz.encoders.frames.ppo_features import read_agent
    from srlviz.studies.papers.agents import load_agent

    about, state = read_agent(place / 'agent.pt')
    loaded = load_agent(place / 'agent.pt')
    action = loaded.policy()(np.zeros((210, 160), np.uint8))
    return (
        _flat(about, 'about')
        | _flat(dict(state), 'weights')
        | {'repr': len(repr(loaded)) > 0, 'acts': 0 <= int(action) < 6}
    )


def memory(place):
    from srlviz.core.training import save_weights

    save_weights(place / 'memory.pt', dict(_toy_memory().state_dict()), _CONFIG)


def _toy_memory():
    import torch
    from srlviz.memories.recurrent import GRU

    torch.manual_seed(0)
    return GRU(3, 4)


def read_memory(place):
    from srlviz.core.training import load_weights

    m = _toy_memory()
    content = load_weights(place / 'memory.pt', _CONFIG)
    try:
        m.load_state_dict(content)
    except RuntimeError as e:
        raise ValueError(str(e)) from e  # a message of torch: it names the model and the tensor, but no file
    return _flat({k: v for k, v in m.state_dict().items() if 'extra' not in k}, 'weights')


def encoder(place):
    from srlviz.core.recordings import Episode, Recording
    from srlviz.encoders.baselines import RandomCNN

    frames = np.zeros((2, 80, 80, 1), np.uint8)
    RandomCNN(n_codes=2, device='cpu', precision='float32').fit(Recording([Episode({'frame': frames})])).save(
        place / 'toy.safetensors'
    )


def read_encoder(place):
    from srlviz.core.saving import load_encoder

    e = load_encoder(place / 'toy.safetensors')
    return _flat(dict(e.net_.state_dict()), 'weights') | {'repr': repr(e), 'shape': e.shape_}


def probe(place):
    from srlviz.evaluate.probe import linear_probe

    rng = np.random.default_rng(0)
    index = lambda n: pd.MultiIndex.from_product([[0, 1], range(n // 2)], names=['episode', 't'])
    sizes = dict(probe=40, valid=20, test=20)
    factors = {
        s: pd.DataFrame(dict(x=rng.integers(0, 3, n), y=rng.integers(0, 2, n)), index=index(n))
        for s, n in sizes.items()
    }
    linear_probe(
        {s: rng.normal(size=(n, 2)).astype(np.float32) for s, n in sizes.items()},
        factors,
        n_classes=4,
        epochs=2,
        batch_size=10,
        progress=False,
    ).save(place / 'probe.npz')


def read_probe(place):
    from srlviz.core.questions import Answer

    r = Answer.load(place / 'probe.npz')
    parts = r.parts | dict(truth=r.truth, predicted=r.predicted, about=str(r.about), question=repr(r.question))
    scores = dict(scores=r.by_variable, caveats=r.caveats, confusion=r.confusion(list(r.truth)[0]))
    return parts | scores | {'repr': len(repr(r)) > 0}


_HEADER = {
    'arguments.alpha': lambda v: NUMBER(v) and v >= 0,
    'arguments.tol': POSITIVE,
    'arguments.n_estimators': whole(1),
    'arguments.max_depth': lambda v: v is None or whole(1)(v),
    'arguments.regressor': one_of('lasso', 'forest', 'boosting'),
    'arguments.compat': one_of('', 'xeval'),
    'arguments.categories*': ANY,
    'about.seed': whole(0, 2**32 - 1),
    'about.*': ANY,
    'tables.weights*': ANY,  # an optional part
}
_ANSWER = json_with(_HEADER)


def _probe_values(name, a):
    if name.endswith(('truth/.npy', 'predicted/.npy')):
        return bool(((a >= 0) & (a < 256)).all())
    if '@' in name:
        return bool((a >= 0).all())
    return _FINITE(name, a)


def checkpoint(place):
    _train(place, 2)


def _train(place, epochs):
    import torch
    from srlviz.core.training import train

    torch.manual_seed(0)
    net, rows = torch.nn.Linear(3, 1), [torch.ones(4, 3)] * 2
    loss = lambda module, batch: (module(batch) ** 2).mean()
    history = train(
        net,
        loss,
        lambda epoch: rows,
        epochs=epochs,
        checkpoint=place / 'run.pt',
        config=_CONFIG,
        plateau=dict(patience=1),
        validate=lambda module: float(module.bias.abs()),
        progress=False,
    )
    return _flat(dict(net.state_dict()), 'weights') | {'history': history}


def read_checkpoint(place):
    return _train(place, 2)  # training has already finished


_ABOUT = {
    f'state.about.{k}': v
    for k, v in dict(steps=whole(), seed=whole(), games=whole(), mean_return=NUMBER, ppo=ANY).items()
} | {'state.about.ppo.*': ANY, 'state.about.played*': ANY}
_CHECKPOINT = plain.weights_with({'state': ANY, 'state.*': ANY})
_MEMORY_NAMES = 'GRU', '_extra_state', 'these are weights of'
WEIGHTS = [
    Reader(
        'load_weights', 'weights', 'toy.pt', weights, read_weights, plain.weights_with({'state': ANY, 'state.*': ANY})
    ),
    Reader(
        'read_agent, load_agent', 'weights', 'agent.pt', agent, read_agents, plain.weights_with(_ABOUT, finite=True)
    ),
    Reader('train checkpoint', 'weights', 'run.pt', checkpoint, read_checkpoint, _CHECKPOINT, writes=('run.pt',)),
    Reader(
        'memory state',
        'weights',
        'memory.pt',
        memory,
        read_memory,
        plain.weights_with({}),
        accepted_names=_MEMORY_NAMES,
    ),
    Reader('load_encoder', 'text', 'toy.safetensors', encoder, read_encoder, draw=drawing.encoder),
    Reader(
        'Answer.load probe',
        'npz',
        'probe.npz',
        probe,
        read_probe,
        plain.npz_with(_probe_values, header=_ANSWER),
        draw=drawing.explored('probe.npz'),
    ),
]

# ---- notebooks


def study(place):
    import nbformat.v4 as nb

    picture = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
    figure = dict(data=[dict(type='scatter', x=[1, 2], y=[3, 4])], layout=dict(title=dict(text='t')))
    outputs = [
        nb.new_output('stream', name='stdout', text='hello\n'),
        nb.new_output('display_data', data={'text/html': '<b>7</b>', 'text/plain': '7'}),
        nb.new_output('display_data', data={'image/png': picture, 'text/plain': 'picture'}),
        nb.new_output('display_data', data={'application/vnd.plotly.v1+json': figure}),
        nb.new_output('display_data', data={'text/markdown': '*well*'}),
        nb.new_output('error', ename='E', evalue='no', traceback=['\x1b[31mno\x1b[0m']),
    ]
    cells = [
        nb.new_markdown_cell('# A small study\n\nwhat it *is*'),
        nb.new_code_cell(
            "game: str = 'pong' # which\nsteps: int = 100\nrates: list = [1, 2.5] # of what",
            metadata=dict(tags=['parameters']),
        ),
        nb.new_code_cell('#| hide\nprint(1)', outputs=outputs, execution_count=1),
    ]
    for i, c in enumerate(cells):
        c['id'] = f'c{i}'
    book = nb.new_notebook(
        cells=cells,
        metadata=dict(
            kernelspec=dict(name='python3', display_name='Python 3', language='python'),
            language_info=dict(name='python'),
            papermill=dict(parameters=dict(game='boxing'), start_time='2025-01-01T00:00:00', duration=7.0),
        ),
    )
    (place / 'study.ipynb').write_text(json.dumps(book, indent=1))


def read_study(place):
    from srlviz.studies.run import list_studies, study_parameters, study_title, to_html

    path = place / 'study.ipynb'
    out = dict(parameters=study_parameters(path), title=study_title(path), list=list_studies(place))
    page = to_html(path, place / 'page.html').read_text(encoding='utf-8')
    return out | {'page': page[page.index('<body') :]}


def submission(place):
    "Write the answers of a student to two exercises of a lesson, and the lesson"
    import nbformat.v4 as nb

    def write(name, sources):
        cells = [nb.new_code_cell(source, id=id) for id, source in sources.items()]
        cells[0]['outputs'] = [nb.new_output('display_data', data={'text/plain': '3'})]
        (place / name).write_text(json.dumps(nb.new_notebook(cells=cells), indent=1))

    solved = 'x = None\n### BEGIN SOLUTION\nx = 3\n### END SOLUTION'
    (place / 'course').mkdir()
    write(
        'course/01_toy.ipynb',
        {'a': solved, 'b': "course.check('1', x, 3)", 'c': solved, 'd': "course.check('2', x, 3)"},
    )
    write('mine.ipynb', {'a': 'x = 4', 'own': 'y = 5', 'b': '', 'c': 'x = 3', 'd': ''})


def read_submission(place):
    from srlviz.studies.grade import read_answers, read_lesson

    answers = read_answers(place / 'mine.ipynb', {'01_toy': read_lesson(place / 'course/01_toy.ipynb')})
    return {'sources': dict(answers.sources), 'missing': answers.missing, 'notes': answers.notes}


def _record_atari(place):
    from srlviz.data.atari import record_atari

    return record_atari('pong', 40, seed=0, n_streams=2, n_jobs=1, out=place, progress=False)


def game(place):
    "Write what a recorder leaves if it is killed immediately after its start"
    import shutil

    _record_atari(place / 'set')
    shutil.copytree(
        place / 'set' / 'meta', place / 'meta', ignore=lambda folder, names: [n for n in names if n != 'request.json']
    )
    shutil.rmtree(place / 'set')


def read_game(place):
    return of_recording(_record_atari(place))


_GAME = 'meta', 'meta/*', 'partial', 'partial/*', 'frames', 'frames/*', 'steps', 'steps/*', 'episodes.parquet', '.lock'
STUDIES = [
    Reader('study notebooks', 'notebook', 'study.ipynb', study, read_study, plain.notebook, writes=('page.html',)),
    Reader('submissions', 'notebook', 'mine.ipynb', submission, read_submission, plain.notebook),
    Reader(
        'record_atari meta/request.json',
        'json',
        'meta/request.json',
        game,
        read_game,
        writes=_GAME,
        accepted_names=('holds another recording', 'holds files that are not a recording'),
    ),
]

# ---- agents and answers


def policy(place):
    from gymnasium import spaces
    from srlviz.agents.player import MemoryAgent, space_config

    acts, sees = (space_config(spaces.Discrete(n)) for n in (3, 5))
    agent = MemoryAgent('Elman', dict(n_in=4, n_hidden=6), 10, acts, sees, width=4, task='RepeatFirst-easy')
    agent.fit(None).save(place / 'policy.safetensors')


def read_policy(place):
    from srlviz.agents.player import load_policy

    agent = load_policy(place / 'policy.safetensors')
    agent.reset(0)
    return _flat(dict(agent.network_.state_dict()), 'weights') | {
        'about': [agent.n_codes, agent.level, agent.task, agent.greedy, agent.width, agent.head_layers],
        'spaces': [str(agent.acting.space), str(agent.plain)],
        'acts': [int(agent(2)) - int(agent.acting.space.start) for _ in range(3)],
    }


draw_policy = drawing.explored('policy.safetensors')
_POLICY = plain.encoder_with(
    {
        'package': TEXT,
        'arguments.greedy': one_of(True, False),
        'arguments.task': TEXT,
        'arguments.acts.dict.start': whole(-(2**53)),
        'arguments.sees.dict.start': whole(-2, 2),
    }
)
_NOT_INFINITE = lambda name, a: a.dtype.kind not in 'fc' or not bool(np.isinf(a).any())


def answers():
    """Return codes that equal the factors, plus one more code, and the tables of factors."""
    rng = np.random.default_rng(0)
    x = {s: rng.normal(size=(n, 3)).astype(np.float32) for s, n in dict(probe=30, test=9).items()}
    index = lambda n: pd.MultiIndex.from_product([[0, 1, 2], range(n // 3)], names=['episode', 't'])
    tables = {s: pd.DataFrame(v[:, :2], index(len(v)), ['x', 'y']) for s, v in x.items()}
    return x, {s: t.assign(room=np.where(t['x'] > 0, 'hall', 'cave'), still=1.0) for s, t in tables.items()}


def answer(place):
    from srlviz.evaluate.qedr import qedr

    qedr(*answers(), progress=False).save(place / 'qedr.npz')


def read_answer(place):
    from srlviz.core.questions import Answer

    r = Answer.load(place / 'qedr.npz')
    rows = r.scores(study='toy', task='toy', method='PCA')
    parts = r.parts | dict(truth=r.truth, predicted=r.predicted, about=str(r.about), question=repr(r.question))
    return parts | {'repr': len(repr(r)) > 0, 'n': len(rows.T), 'chance': r.chance('disentanglement')}


def _saved_answer(make, name: str):
    "Return a function that saves an answer, and one that reads it and all that its class adds"

    def write(place):
        make().save(place / name)

    def read(place):
        from srlviz.core.questions import Answer

        r = Answer.load(place / name)
        rows = r.scores(study='toy', task='toy', method='PCA')
        added = {k: getattr(r, k) for k in ('matrix', 'importance') if hasattr(r, k)}
        known = {m: (r.values(m), r.chance(m)) for m in r.metrics}
        parts = r.parts | dict(truth=r.truth, predicted=r.predicted, about=str(r.about), question=repr(r.question))
        return parts | added | {'repr': len(repr(r)) > 0, 'n': len(rows.T), 'metrics': len(known)}

    return write, read


def _answer_about_twins(cls_name: str):
    import srlviz.evaluate.questions.interventional as interventional
    import srlviz.evaluate.questions.response as response
    from srlviz.core.checks.question import toy_recording as switches

    cls = getattr(response, cls_name, None) or getattr(interventional, cls_name)
    recording = switches(12, 20, kind='continuous')
    return cls().ask([e.obs['vector'] for e in recording], recording, progress=False)


def _edits():
    from srlviz.agents.player import load_policy
    from srlviz.core.files import sample_path
    from srlviz.evaluate.questions.edit import Edit

    agent = load_policy(sample_path('agents') / 'RepeatPrevious-easy_Elman.safetensors', greedy=True)
    question = Edit(('ago_0', 'remaining_0'), shifts=(0, 1), window=4, episodes=12)
    return question.ask(agent, progress=False)


responses, read_responses = _saved_answer(lambda: _answer_about_twins('Response'), 'response.npz')
movements, read_movements = _saved_answer(lambda: _answer_about_twins('Interventional'), 'interventional.npz')
edits, read_edits = _saved_answer(_edits, 'edit.npz')


def _toy_targets():
    """Return targets of a few short episodes, with every optional part."""
    from srlviz.core.recordings import Episode, Factor, Recording
    from srlviz.evaluate.prediction.target_table import make_targets

    def episode(i):
        rng = np.random.default_rng(i)
        sensors = rng.normal(size=(13, 3)).astype(np.float32)
        truth = {'wind': sensors[:, 0], 'fails': (rng.random(13) < 0.3).astype(np.float32)}
        return Episode({'sensors': sensors}, None, None, truth, 'truncated', f'e{i}')

    factors = [Factor('wind', 'weather', 'continuous'), Factor('fails', 'failures', 'continuous')]
    r = Recording([episode(i) for i in range(8)], 'toy', 5, factors, [*SPLITS[:4], *SPLITS[:4]])
    names = dict(wind=['wind'], fail=['fails'])
    return make_targets(r, names, 4, how=dict(fail='max'), events=['fail'], state='sensors', progress=False)


def targets(place):
    from srlviz.evaluate.prediction.target_table import save_targets

    save_targets(_toy_targets(), place / 'set')
    _move_up(place)


def read_targets(place):
    from srlviz.evaluate.prediction.target_table import load_targets

    t = load_targets(place)
    out = {
        k: getattr(t, k) for k in ('table', 'next_state', 'last_state', 'distinct', 'events', 'cap', 'dropped', 'cut')
    }
    out |= {f'{what} {k}': v for what in ('mean', 'std') for k, v in getattr(t, what).items()}
    truth = {f'truth {k}': t.truth(k) for k in t.names}
    return out | truth | {'names': dict(t.names), 'repr': len(repr(t)) > 0, 'summary': t.summary, 'present': t.present}


_TARGETS = json_with(
    {
        'cap': POSITIVE,
        'names.auto.*': TEXT,
        'cut.name': TEXT,
        'cut.episodes': whole(),
        'cut.rows': whole(),
        'cut.length': lambda v: v is None or whole(1)(v),
        **dict.fromkeys(('dropped', 'dropped.*', 'events', 'events.*'), ANY),
    },
    lambda x: all(map(whole(), x['dropped'].values())) and {*x['events']} <= {'wind', 'fail', 'auto'},
)
_TARGET_TABLE = plain.parquet_with(
    (),
    {
        'flight': TEXT,
        'split': one_of(*SPLITS),
        'episode': whole(),
        'start': whole(),
        **dict.fromkeys(('wind', 'fails'), lambda v: v is None or v != v or NUMBER(v)),  # NaN: not known
    },
)


def scores_of_targets(place):
    from srlviz.evaluate.targets import score_targets

    t = _toy_targets()
    codes = [x.mean(0) for x in t.next_state[:, None]]
    score_targets(codes, t, 'linear', progress=False).save(place / 'linear.npz')


def read_scores_of_targets(place):
    from srlviz.evaluate.prediction.target_scores import TargetScores

    s = TargetScores.load(place / 'linear.npz')
    out = s.parts | dict(truth=s.truth, predicted=s.predicted, about=str(s.about), question=repr(s.question))
    return out | {'repr': len(repr(s)) > 0, 'mse': len(s.mse()), 'auroc': len(s.auroc(n_resamples=2))}


_SCORED = json_with({'arguments.*': ANY, 'about.seed': whole(), 'about.n_codes': whole(), 'about.*': ANY})


def mapped(place):
    read_map(place)


def read_map(place):
    from srlviz.evaluate.maps import code_map

    m = code_map([np.random.default_rng(0).normal(size=(20, 3))], 'pca', cache=place, progress=False)
    return {k: getattr(m, k) for k in ('xy', 'drawn', 'explained', 'trustworthiness')} | {
        'description': m.description,
        'axes': m.axes,
    }


def _explorer(place):
    from srlviz.evaluate.maps import code_map
    from srlviz.widgets.codes_explorer import CodesExplorer

    r = toy_recording()
    codes = [np.random.default_rng(i).normal(size=(len(e), 3)) for i, e in enumerate(r)]
    return CodesExplorer({'pca': code_map(codes, 'pca', progress=False)}, r, interactive=False)


def view(place):
    from srlviz.core.views.steps import Steps

    explorer = _explorer(place)
    tags = dict(left=[(0, 1, 3)], right=[(1, 0, 2), (2, 4, 5)])
    explorer.tags = {k: Steps.from_runs(runs) for k, runs in tags.items()}
    explorer.steps = Steps([0, 0, 1], [2, 3, 0])
    explorer.save_view(place / 'view.json')


def _runs(steps):
    "The runs of selected steps; None for no selection"
    return None if steps is None else steps.runs()


def read_view(place):
    explorer = _explorer(place)
    explorer.load_view(place / 'view.json')
    shown = {k: getattr(explorer, k) for k in ('method', 'how', 'beside', 'factor', 'episode', 't')}
    return shown | {'steps': _runs(explorer.steps), 'tags': {k: v.runs() for k, v in explorer.tags.items()}}


def draw_view(place):
    explorer = _explorer(place)
    explorer.load_view(place / 'view.json')
    drawing.page(explorer)


_VIEW = json_with(
    {
        'recording': TEXT,
        'episode': whole(),
        't': whole(),
        'steps': ANY,
        'steps.*': whole(),
        'tags': ANY,
        'tags.*': whole(),
    }
    | {'factor': one_of('', 'x', 'room', 'wind', 'airport')}
)


_SAVED_BY_0_2_0 = Path(__file__).parents[1] / 'support' / 'results_0_2_0'


def of_results(r) -> dict:
    """Return all values of results: part -> value."""
    out = dict(scores=r.scores, intervals=r.intervals(), moments=r.moments(), repr=len(repr(r)) > 0)
    out |= dict(questions=repr(r.questions), methods=r.methods, references=r.references, baseline=r.baseline)
    for name in 'reasons', 'warnings', 'left_out':
        out[name] = [[*key, text] for key, text in getattr(r, name).items()]
    out |= dict(notes=r.notes, about=r.about)
    for key, answer in r.answers.items():
        out |= {f'{key} values': answer.value_table(), f'{key} items': answer.predicted, f'{key} about': answer.about}
    for key, method in r.fitted.items():
        out |= {f'{key} codes {i}': rows for i, rows in enumerate(method.codes)} | {
            f'{key} encoder': str(method.encoder)
        }
    for name, recording in r.recordings.items():
        out |= {f'{name} {part}': value for part, value in of_recording(recording).items()}
    return out


def saved_results(place):
    import srlviz
    from srlviz.core.recordings import Recording
    from srlviz.encoders.baselines import Majority

    rng = np.random.default_rng(0)
    rows = rng.normal(size=(80, 2)).astype(np.float32)
    factors = dict(side=(rows[:, 0] > 0).astype(int), height=rows[:, 1])
    walks = Recording.from_arrays(rows, episode=np.arange(80) // 10, factors=factors, name='walks')
    walks = walks.with_split(probe=0.5, valid=0.25, test=0.25)
    results = srlviz.ask(
        {'all': np.split(rows, 8), 'majority': Majority()},
        walks,
        ['regression', 'rank', 'reward_action'],
        references=['majority'],
        baseline='majority',
        progress=False,
    )
    results.save(place / 'saved')


def read_saved_results(place):
    from srlviz.core.results import load_results

    return of_results(load_results(place / 'saved'))


def sign_results(place, target):
    "Write the checksum of the table into the header"
    from srlviz.core.files import checksum

    header = place / 'saved/results.json'
    header.write_text(json.dumps(json.loads(header.read_text()) | dict(scores=checksum(place / target))))


def _are_rows(rows, n):
    return all(isinstance(row, list) and len(row) == n and all(map(TEXT, row)) for row in rows)


def _is_header(x) -> bool:
    "Whether rows of a header have keys and texts, and what is only kept is a table"
    rows = dict(reasons=4, warnings=4, left_out=3, answers=3, codes=3)
    are_rows = all(isinstance(x[name], list) and _are_rows(x[name], n) for name, n in rows.items())
    notes = [note for lines in x['notes'].values() for note in lines]
    texts = [x['baseline'], *x['references'], *x['notes'], *notes, *x['recordings']]
    return are_rows and all(map(TEXT, texts)) and isinstance(x['about'], dict)


_KEY = ('method', 'task', 'question')
_SPAN = ('low', 'high', 'difference', 'difference_low', 'difference_high')
_RESULTS = json_with(
    dict.fromkeys((f'{t}.{c}.*' for t in ('intervals', 'moments') for c in (*_KEY, 'metric', 'target', 'factor')), TEXT)
    | dict.fromkeys((f'intervals.{c}.*' for c in _SPAN), lambda v: v is None or NUMBER(v))
    | {'intervals.episodes.*': lambda v: v is None or whole()(v)}
    | {'moments.episode.*': whole(), 'moments.t.*': whole(), 'moments.error.*': NUMBER}
    | {'moments.truth.*': ANY, 'moments.predicted.*': ANY, 'questions.*': ANY, 'baseline': ANY}
    | {f'{name}*': ANY for name in ('reasons', 'warnings', 'left_out', 'references', 'notes', 'about')}
    | {f'{name}*': ANY for name in ('answers', 'recordings', 'codes')},
    _is_header,
)


def saved_probe(place):
    shutil.copytree(_SAVED_BY_0_2_0 / 'probe', place / 'saved')


def read_saved_probe(place):
    from srlviz.core.results_0_2 import load_probe

    return of_results(load_probe(place / 'saved'))


_SAVED_PROBE = json_with(
    {'labels.*': TEXT, 'regressions.*': TEXT, 'left_out': ANY, 'left_out.*': TEXT, 'methods*': ANY}
)


def workbench(place):
    from srlviz.core.views.steps import Steps
    from srlviz.evaluate.maps import code_map
    from srlviz.widgets.workbench import Workbench

    r = toy_recording()
    codes = [np.random.default_rng(i).normal(size=(len(e), 3)) for i, e in enumerate(r)]
    maps = {'pca': code_map(codes, 'pca', progress=False)}
    bench = Workbench(recording=r, maps=maps, codes={'pca': codes}, interactive=False)
    bench.tags = {'left': Steps([0, 0], [1, 2])}
    bench.steps = Steps([0, 0, 1, 1], [0, 1, 2, 3])
    bench.filters = {'x': [0, 2]}
    bench.seek(1, 2)
    bench.save(place / 'set', data=True)
    _move_up(place)


def read_workbench(place):
    from srlviz.studies.load import load

    bench = load(place)
    state = dict(left=bench.left, right=bench.right, at=[bench.episode, bench.t], filters=bench.filters)
    steps = dict(steps=_runs(bench.steps), tags={k: v.runs() for k, v in bench.tags.items()})
    maps = {
        f'{encoder_name} {how}': [m.xy, m.drawn, m.description]
        for encoder_name, by_how in bench.map.maps.by_method.items()
        for how, m in by_how.items()
    }
    codes = {f'codes {k} {i}': rows for k, episodes in bench.data['codes'].items() for i, rows in enumerate(episodes)}
    return state | steps | maps | codes | dict(map=[bench.map.method, bench.map.how, bench.map.factor])


_WORKBENCH = json_with(
    {
        'recording': TEXT,
        'left': TEXT,
        'right': TEXT,
        'episode': whole(),
        't': whole(),
        'steps': ANY,
        'steps.*': whole(),
        'tags': ANY,
        'tags.*': whole(),
        'filters': ANY,
        'filters.*': whole(),
        'explorers': ANY,
        'explorers.*': ANY,
        'data.rows': ANY,
        'data.columns': ANY,
        'data.rows*': TEXT,
        'data.columns*': TEXT,
        'data.codes.*': TEXT,
    }
)


def scorecard(place):
    shutil.copy(_SAVED_BY_0_2_0 / 'card.json', place / 'card.json')


def read_scorecard(place):
    from srlviz.core.results_0_2 import load_card

    return of_results(load_card(place / 'card.json'))


def two_cards(place):
    scorecard(place)
    content = json.loads((place / 'card.json').read_text())
    cells = content['cells']
    cells['value'] = [v / 2 if name == 'lamp' else v for name, v in zip(cells['representation'], cells['value'])]
    (place / 'other.json').write_text(json.dumps(content))


def read_two_cards(place):
    from srlviz.studies.matrix.scorecard import join_results

    card = join_results([place / 'other.json', place / 'card.json'])
    drawing.draw_board(card.explore(interactive=False))
    return dict(names=card.own, scores=len(card.scores), repr=len(repr(card)) > 0)


def unsigned_matrix(place):
    "Without the checksum of the table, as early versions saved a matrix"
    matrix(place)
    content = json.loads((place / 'matrix.json').read_text())
    del content['scores']
    (place / 'matrix.json').write_text(json.dumps(content))


def _matrix_rule(old, new, differ):
    "Accept another valid table whose questions are known; effective ranks may be above 1"
    from srlviz.core.metrics import questions

    groups = {row['group'] for row in csv.DictReader(io.StringIO(new.decode('utf-8-sig')))}
    return groups <= {*questions()} and _scores_rule(old, new, differ)


def matrix(place):
    for name in 'matrix.csv', 'matrix.json':
        shutil.copy(_SAVED_BY_0_2_0 / name, place / name)


def matrix_runs(place):
    from srlviz.core.files import write_json
    from srlviz.core.scores import score_row

    key = dict(study='cross', task='RepeatPrevious-easy', method='raw', group='rank', budget=15)
    names = ('effective_rank', 'participation_ratio', 'dead_codes')
    table = pd.DataFrame([score_row(target='mean', metric=name, value=0.5, **key) for name in names])
    parameters = dict(
        world='RepeatPrevious-easy', representation='raw', questions=['rank', 'mig'], n=0, epochs=15, seed=0
    )
    about = dict(reasons=dict(mig='one code'), world='RepeatPrevious-easy')
    result = dict(parameters=parameters, status='done', about=about, scores=table.to_dict('list'))
    (place / 'runs/trials/a').mkdir(parents=True)
    write_json(place / 'runs/trials/a/result.json', result)


def read_matrix(place):
    from srlviz.core.results_0_2 import load_matrix

    return of_results(load_matrix(place / 'matrix.csv'))


def read_matrix_runs(place):
    from srlviz.studies.matrix.matrix_results import headline, open_matrix

    loaded = open_matrix(place / 'runs')
    reasons = [[*key, reason] for key, reason in sorted(loaded.reasons.items())]
    return dict(scores=loaded.scores, reasons=reasons, repr=repr(loaded), best=len(headline(loaded)))


_CARD_COLUMNS = ('low', 'high', 'difference', 'difference_low', 'difference_high', 'value')
_CARD_KEYS = ('representation', 'world', 'question')
_SCORECARD = json_with(
    dict.fromkeys(('names.*', 'references.*', 'reasons.reason.*'), TEXT)
    | dict.fromkeys((f'{t}.{c}.*' for t in ('cells', 'reasons', 'moments', 'rows') for c in _CARD_KEYS), TEXT)
    | {f'cells.{c}.*': lambda v: v is None or NUMBER(v) for c in _CARD_COLUMNS}
    | {'cells.target.*': TEXT, 'cells.metric.*': TEXT, 'cells.episodes.*': lambda v: v is None or whole()(v)}
    | {'moments.factor.*': TEXT, 'moments.episode.*': whole(), 'moments.t.*': whole(), 'moments.error.*': NUMBER}
    | {'moments.truth.*': ANY, 'moments.predicted.*': ANY, 'rows.n_codes.*': whole(), 'rows.seconds.*': NUMBER}
    | {'settings.seed': whole(), 'settings.questions.*': ANY, 'settings.worlds.*': ANY, 'versions*': ANY}
)
_TRIAL = 'runs/trials/a/result.json'
_MATRIX = json_with({'reasons*': ANY, 'about*': ANY}, lambda x: _are_rows(x['reasons'], 4))
_MATRIX_RUN = json_with(
    {
        'about.reasons': ANY,
        'about.reasons.*': ANY,
        'parameters.world': TEXT,
        'about.world': ANY,
        'about.world.*': ANY,
        'scores.value.*': NUMBER,
        'scores.data.*': TEXT,
    }
    | {'parameters.representation': TEXT, 'parameters.questions.*': TEXT, 'parameters.n': whole(), 'status': TEXT}
    | {f'scores.{column}.*': TEXT for column in ('study', 'task', 'method', 'inputs', 'norm', 'protocol', 'target')}
    | {f'scores.{column}.*': whole() for column in ('n_codes', 'budget', 'seed')}
    | {'parameters.seed': whole(), 'parameters.epochs': whole(), 'parameters': ANY, 'about': ANY}
)
ANSWERS = [
    Reader(
        'load_results results.json',
        'json',
        'saved/results.json',
        saved_results,
        read_saved_results,
        _RESULTS,
        draw=drawing.results,
    ),
    Reader(
        'load_results scores.csv',
        'csv',
        'saved/scores.csv',
        saved_results,
        read_saved_results,
        _matrix_rule,
        sign=sign_results,
        draw=drawing.results,
    ),
    Reader(
        'load_results answers',
        'answer',
        'saved/answers/0.npz',
        saved_results,
        read_saved_results,
        plain.npz_with(_NOT_INFINITE, header=_ANSWER),
        draw=drawing.results,
    ),
    Reader(
        'load_results codes.npz',
        'npz',
        'saved/codes.npz',
        saved_results,
        read_saved_results,
        plain.npz_with(_NOT_INFINITE),
        draw=drawing.results,
    ),
    Reader(
        'load_probe probe.json',
        'json',
        'saved/probe.json',
        saved_probe,
        read_saved_probe,
        _SAVED_PROBE,
        draw=drawing.probe,
    ),
    Reader(
        'load_probe scores.csv',
        'csv',
        'saved/scores.csv',
        saved_probe,
        read_saved_probe,
        _scores_rule,
        draw=drawing.probe,
    ),
    Reader(
        'load_probe codes.npz',
        'npz',
        'saved/codes.npz',
        saved_probe,
        read_saved_probe,
        plain.npz_with(_NOT_INFINITE),
        draw=drawing.probe,
    ),
    Reader('load_card', 'json', 'card.json', scorecard, read_scorecard, _SCORECARD, draw=drawing.card),
    Reader('join_results', 'json', 'card.json', two_cards, read_two_cards, _SCORECARD, accepted_names=('several[1]',)),
    Reader('load_matrix', 'json', 'matrix.json', matrix, read_matrix, _MATRIX, draw=drawing.board),
    Reader('load_matrix .csv', 'csv', 'matrix.csv', unsigned_matrix, read_matrix, _matrix_rule, draw=drawing.board),
    Reader(
        'open_matrix',
        'json',
        _TRIAL,
        matrix_runs,
        read_matrix_runs,
        _MATRIX_RUN,
        accepted_names=('has no results',),
        draw=drawing.board_of_runs,
    ),
    Reader(
        'load_policy',
        'encoder',
        'policy.safetensors',
        policy,
        read_policy,
        _POLICY,
        draw=draw_policy,
    ),
    Reader(
        'Answer.load',
        'answer',
        'qedr.npz',
        answer,
        read_answer,
        plain.npz_with(_NOT_INFINITE, header=_ANSWER),
        draw=drawing.explored('qedr.npz'),
    ),
    *(
        Reader(
            f'Answer.load {name}',
            'answer',
            f'{name}.npz',
            make,
            read,
            plain.npz_with(_NOT_INFINITE, header=json_with(_HEADER | {'about.seed': ANY, 'arguments.*': ANY})),
            draw=drawing.explored(f'{name}.npz'),
        )
        for name, make, read in (
            ('response', responses, read_responses),
            ('interventional', movements, read_movements),
            ('edit', edits, read_edits),
        )
    ),
    Reader(
        'TargetScores.load',
        'answer',
        'linear.npz',
        scores_of_targets,
        read_scores_of_targets,
        plain.npz_with(_NOT_INFINITE, header=_SCORED),
        draw=drawing.explored('linear.npz'),
    ),
    Reader('load_targets targets.json', 'json', 'targets.json', targets, read_targets, _TARGETS),
    Reader('load_targets states.npz', 'npz', 'states.npz', targets, read_targets, plain.npz_with(_NOT_INFINITE)),
    Reader('load_targets table.parquet', 'parquet', 'table.parquet', targets, read_targets, _TARGET_TABLE),
    Reader('load_view', 'json', 'view.json', view, read_view, _VIEW, draw=draw_view),
    Reader(
        'load_workbench',
        'json',
        'workbench.json',
        workbench,
        read_workbench,
        _WORKBENCH,
        accepted_names=('is none of these',),  # without its header the folder is not a workbench
        draw=drawing.explored(),
    ),
    *(
        Reader(
            f'load_workbench {target}',
            'npz',
            target,
            workbench,
            read_workbench,
            plain.npz_with(_NOT_INFINITE),
            draw=drawing.explored(),
        )
        for target in ('maps.npz', 'codes.npz')
    ),
    Reader('code_map cache', 'npz', 'code_map-pca-*.npz', mapped, read_map, writes=('code_map-pca-*.npz',)),
]

# ---- sweeps and curves


def curve(place):
    lines = [f'{i},9,loss,{1 / (1 + i)!r},{1.7e9 + i}' for i in range(1, 7)]
    (place / 'curve.csv').write_text('\n'.join(['step,total,name,value,time', *lines, '']))


def read_curves(place):
    from srlviz.core.jobs.learning_curves import latest_rows, read_curve

    return {'curve': read_curve(place / 'curve.csv'), 'latest': latest_rows(place / 'curve.csv')}


def _curve_rule(old, new, differ):
    "Accept every file that starts with the header: readers skip damaged lines"
    head = old.partition(b'\n')[0]
    return head.startswith(new[: len(head)])


def sweep_trial(x: int = 0):
    """Do nothing: the trial of the sweep."""


def sweep(place):
    from srlviz.core.scores import score_row
    from srlviz.studies.sweeps.store import request_trials, open_store
    from srlviz.studies.trials import Study, parameters_hash

    open_store(place, Study(sweep_trial))
    keys = [f'{parameters_hash(dict(x=x))}-{"0123456789"}' for x in (0, 1)]
    request_trials(place, {key: dict(x=x) for x, key in enumerate(keys)})
    for x, key in enumerate(keys):
        trial = place / 'trials' / key
        trial.mkdir()
        rows = [score_row(study='toy', task='copy', method='GRU', metric='accuracy', value=0.5, seed=x)]
        result = dict(
            layout=1,
            key=key,
            parameters=dict(x=x),
            status='done',
            error='',
            traceback='',
            about={},
            diverged={},
            started=1.7e9,
            ended=1.7e9 + 2,
            seconds=2.0,
            cpu_seconds=1.5,
            memory=10**6,
            host='here',
            pid=7,
            packages={},
            scores={k: [r[k] for r in rows] for k in rows[0]},
        )
        curve(trial)
        claim = dict(host='there', pid=7, sweep='s', started=1.7e9)
        (trial / 'claim.json').write_text(json.dumps(claim))
        (trial / 'result.json').write_text(json.dumps(result, indent=1))


def read_sweep(place):
    from srlviz.core.jobs.runs import RunFolder
    from srlviz.studies.sweeps.store import Tables

    folder = RunFolder(place)
    folder.refresh()
    for run in folder.runs.itertuples():
        if run.status == 'failed':
            raise ValueError(run.error)  # the table reports it
    runs = folder.runs.drop(columns=['started', 'seconds', 'cpu_seconds', 'memory', 'host'])
    keys = runs['key'].tolist()
    return {
        'about': folder.info,
        'runs': runs,
        'counts': folder.counts,
        'curves': folder.curves(keys),
        'scores': Tables(place).scores(),
        'state': [folder.diverged, folder.interrupted, folder.by_other_code(), [folder.traceback(k) for k in keys]],
    }


_RESULT = json_with(
    dict.fromkeys(
        ('packages', 'packages.*', 'about', 'about.*', 'layout', 'key', 'host', 'pid', 'memory', 'seconds'), ANY
    )
    | dict.fromkeys(('started', 'ended', 'cpu_seconds', 'traceback', 'diverged', 'diverged.*', 'error'), ANY)
    | {f'scores.{c}.0': TEXT for c in ('task', 'data', 'inputs', 'norm', 'protocol', 'target', 'group', 'method')}
    | {'scores.value.0': lambda v: NUMBER(v) and 0 <= v <= 1, 'scores.study.0': TEXT, 'scores.metric.0': TEXT}
    | {'scores.n_codes.0': whole(), 'scores.budget.0': whole(), 'scores.seed.0': whole(-1)}
    | {'parameters': ANY, 'parameters.*': ANY, 'scores.source.0': one_of('srlviz', 'paper')},
)
_GRID = json_with({'asked': NUMBER, 'last': NUMBER, 'trials.*': ANY, 'keys.*': ANY, 'keys': ANY, 'trials': ANY})


def _in_sweep(target, kind, rule, **options):
    return Reader(f'sweep {target}', kind, target, sweep, read_sweep, rule, draw=drawing.explored(), **options)


SWEEPS = [
    Reader('read_curve', 'csv', 'curve.csv', curve, read_curves, _curve_rule),
    _in_sweep('sweep.json', 'json', json_with({'study': TEXT, 'trial': TEXT})),
    _in_sweep('grids/*.json', 'json', _GRID, optional=True),
    _in_sweep('trials/*/result.json', 'json', _RESULT, optional=True),
    _in_sweep('trials/*/claim.json', 'json', plain.always, optional=True),
    _in_sweep('trials/*/curve.csv', 'csv', plain.always, optional=True),
]

# ---- third-party data


def lerobot(place):
    from srlviz.core.recordings import Episode, Factor, Recording
    from srlviz.data.lerobot import export_lerobot

    ramp = 6 * np.add.outer(np.arange(32), np.arange(32))[..., None] % 200

    def episode(i):
        rng = np.random.default_rng(i)
        obs = {'sensors': rng.normal(size=(12, 3)).astype(np.float32)}
        obs['frame'] = np.stack([(ramp + 4 * t).repeat(3, 2) for t in range(12)]).astype(np.uint8)
        truth = {'height': np.arange(12, dtype=np.float32), 'airport': np.asarray(['KSEA', 'KBOS'][i])}
        return Episode(obs, np.arange(12) % 2, np.ones(12, np.float32), truth, 'terminated', f'e{i}')

    factors = [Factor('height', 'pose', 'continuous', 'm'), Factor('airport', 'flight')]
    recording = Recording(
        [episode(i) for i in range(2)], 'toy', 5, factors, ['fit', 'test'], {'columns': ['a', 'b', 'c']}
    )
    export_lerobot(recording, place / 'set', progress=False)
    _move_up(place)


def read_lerobot(place):
    from srlviz.data.importers import load_lerobot

    return of_recording(load_lerobot(place, name='toy'))


_LEROBOT_INFO = {
    'name': ANY,
    'meta': ANY,
    'meta.*': ANY,
    'factors': ANY,
    'factors.*': TEXT,
    'factors.*.kind': one_of(*KINDS),
}


def _in_lerobot(target, kind, rule, **options):
    draw = drawing.explored()
    return Reader(f'load_lerobot {target}', kind, target, lerobot, read_lerobot, rule, draw=draw, **options)


def walk(place):
    rng = np.random.default_rng(0)
    rows = [
        f'{e},{t / 5},{rng.normal():.6f},{rng.normal():.6f},{t % 2},{SPLITS[e]}' for e in range(3) for t in range(5)
    ]
    (place / 'walk.csv').write_text('\n'.join(['run,t,a,b,room,part', *rows, '']))


def walk_packed(place):
    import gzip

    walk(place)
    text = (place / 'walk.csv').read_bytes()
    (place / 'walk.csv').unlink()
    (place / 'walk.csv.gz').write_bytes(gzip.compress(text, mtime=0))


def read_walk_packed(place):
    return read_walk(place, 'walk.csv.gz')


def walk_parquet(place):
    walk(place)
    pd.read_csv(place / 'walk.csv', dtype={'run': str}).to_parquet(place / 'walk.parquet')
    (place / 'walk.csv').unlink()


def read_walk_parquet(place):
    return read_walk(place, 'walk.parquet')


def _same_columns(old, new, differ):
    "Accept other values, also of another type, in the same columns: such a file is another table"
    import pyarrow.parquet as pq

    a, b = (pq.ParquetFile(io.BytesIO(x)).read() for x in (old, new))
    return a.column_names == b.column_names


spaced = lambda v: numeral()(v.strip())


def read_walk(place, name='walk.csv'):
    from srlviz.data.importers import load_csv

    return of_recording(load_csv(place / name, **_WALK))


_WALK = dict(episode='run', factors=['room'], obs=['a', 'b'], time='t', split='part')


def filmed_walk(place):
    _published(place, 'mp4')
    (place / 'KSEA/flight0/data.mp4').rename(place / 'film.mp4')


def film_of_walk(place):
    from srlviz.core.recordings import Recording
    from srlviz.data.importers import add_video

    rows = Recording.from_arrays(np.arange(12.0)[:, None], factors={'x': np.arange(12) % 3}, hz=5, name='walk')
    return add_video(rows, [place / 'film.mp4'])


def read_filmed_walk(place):
    return of_recording(film_of_walk(place))


def draw_filmed_walk(place):
    import srlviz

    drawing.page(srlviz.explore(film_of_walk(place)))


def monitor(place):
    lines = [f'{0.5 * i},{3 + i},{i}.25' for i in range(5)]
    head = '#{"t_start": 0.0, "env_id": "x", "more": 1}'
    (place / '0.monitor.csv').write_text('\n'.join([head, 'r,l,t', *lines, '']))


def read_monitor(place):
    from srlviz.evaluate.returns import episodes_of

    return {'episodes': episodes_of(place / '0.monitor.csv')}


def _monitor_rule(old, new, differ):
    "Accept other numbers, with whole lengths, and missing lines"
    head, _, rest = new.decode('utf-8-sig').partition('\n')
    before = old.partition(b'\n')[2]
    rule = csv_with({'r': numeral(), 'l': integer(1), 't': WORDS}, columns='some')
    after = rest.encode().rstrip(b'\n') + b'\n'  # the last time may be truncated
    return head.startswith('#') and rule(before, after, differ)


THIRD_PARTY = [
    _in_lerobot('meta/info.json', 'json', json_with({'fps': POSITIVE, 'features.*.names': ANY})),
    _in_lerobot('meta/srlviz.json', 'json', json_with(_LEROBOT_INFO), optional=True),
    _in_lerobot('meta/episodes/chunk-000/file-000.parquet', 'parquet', plain.parquet_with(())),
    _in_lerobot('data/chunk-000/file-000.parquet', 'parquet', plain.parquet_with(('index',))),
    _in_lerobot('videos/observation.images.front/chunk-000/file-000.mp4', 'mp4', plain.same_shapes),
    Reader(
        'load_csv',
        'csv',
        'walk.csv',
        walk,
        read_walk,
        csv_with({'a': spaced, 'b': spaced, 'room': WORDS, 'run': WORDS, 't': spaced}),
        draw=drawing.explored('walk.csv', **_WALK),
    ),
    Reader('load_csv of gzip', 'text', 'walk.csv.gz', walk_packed, read_walk_packed),
    Reader(
        'load_csv of Parquet',
        'parquet',
        'walk.parquet',
        walk_parquet,
        read_walk_parquet,
        _same_columns,
        draw=drawing.explored('walk.parquet', **_WALK),
    ),
    Reader('add_video', 'mp4', 'film.mp4', filmed_walk, read_filmed_walk, plain.always, draw=draw_filmed_walk),
    Reader('episodes_of', 'csv', '0.monitor.csv', monitor, read_monitor, _monitor_rule, draw=drawing.returns),
]

READERS = [*RECORDINGS, *FLIGHTS, *PUBLISHED, *TABLES, *WEIGHTS, *STUDIES, *ANSWERS, *SWEEPS, *THIRD_PARTY]
