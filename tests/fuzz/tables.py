"""Mutations of Parquet: files rewritten with other rows, columns, types and values."""

import io, json, struct

from .raw import names, one_of, DEEP

# ---- Parquet


def _groups(data):
    import pyarrow.parquet as pq

    with pq.ParquetFile(io.BytesIO(data)) as f:
        return [f.read_row_group(i) for i in range(f.num_row_groups)]


def _parquet(groups, **options) -> bytes:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(out := io.BytesIO(), groups[0].schema, compression='zstd', **options) as w:
        for g in groups:
            w.write_table(g, row_group_size=max(1, len(g)))
    return out.getvalue()


def _with_column(table, c, name, array):
    import pyarrow as pa

    columns = [x.combine_chunks() if hasattr(x, 'combine_chunks') else x for x in table.columns]
    column_names = list(table.column_names)
    columns[c] = array
    column_names[c] = name
    return pa.Table.from_arrays(columns, names=column_names)


def parquet_rows(data, rng, victim):
    import pyarrow as pa

    groups = _groups(data)
    g = rng.randrange(len(groups))
    n = len(groups[g])
    what = one_of(
        rng,
        'a row dropped|a row doubled|reversed|no rows|all groups in one|a group dropped|a group doubled|'
        'groups swapped|50 times the rows',
    )
    if what == 'a row dropped':
        groups[g] = groups[g].slice(1)
    if what == 'a row doubled':
        groups[g] = pa.concat_tables([groups[g], groups[g].slice(n - 1)])
    if what == 'reversed':
        groups[g] = groups[g].take(list(range(n))[::-1])
    if what == 'no rows':
        groups[g] = groups[g].slice(0, 0)
    if what == 'all groups in one':
        groups = [pa.concat_tables(groups)]
    if what == 'a group dropped':
        groups = groups[:g] + groups[g + 1 :] or [groups[0].slice(0, 0)]
    if what == 'a group doubled':
        groups.insert(g, groups[g])
    if what == 'groups swapped':
        groups = groups[::-1]
    if what == '50 times the rows':
        groups[g] = pa.concat_tables([groups[g]] * 50)
    return _parquet(groups), f'row group {g}: {what}'


def parquet_column(data, rng, victim):
    import pyarrow as pa

    groups = _groups(data)
    c = rng.randrange(groups[0].num_columns)
    name = groups[0].column_names[c]
    what = one_of(rng, 'dropped|doubled|doubled with nulls|renamed|all but it dropped|swapped names')

    def change(t):
        if what == 'dropped':
            return t.remove_column(c)
        if what == 'doubled':
            return t.append_column(name, t.column(c))
        if what == 'doubled with nulls':
            return t.append_column(name, pa.nulls(len(t), pa.int64()))
        if what == 'all but it dropped':
            return t.select([c])
        if what == 'swapped names':
            d = (c + 1) % t.num_columns
            return t.rename_columns([t.column_names[{c: d, d: c}.get(i, i)] for i in range(t.num_columns)])
        return t.rename_columns([*t.column_names[:c], new, *t.column_names[c + 1 :]])

    new = rng.choice(['x', '', *names(rng, victim)])
    groups = [change(t) for t in groups]
    if not groups[0].num_columns:
        return b'PAR1', 'no columns'
    return _parquet(groups), f'column {name!r} {what}'


def parquet_type(data, rng, victim):
    import pyarrow as pa

    groups = _groups(data)
    c = rng.randrange(groups[0].num_columns)
    name = groups[0].column_names[c]
    types = [
        pa.string(),
        pa.float64(),
        pa.float16(),
        pa.int8(),
        pa.bool_(),
        pa.binary(),
        pa.date32(),
        pa.int64(),
        pa.uint8(),
        pa.decimal128(9, 2),
    ]
    to = rng.choice(['list', 'nulls', 'struct', *types])

    def change(t):
        a = t.column(c).combine_chunks()
        if to == 'list':
            new = pa.ListArray.from_arrays(pa.array(range(len(t) + 1), pa.int32()), a)
        elif to == 'nulls':
            new = pa.nulls(len(t), a.type)
        elif to == 'struct':
            new = pa.StructArray.from_arrays([a], names=['x'])
        else:
            try:
                new = a.cast(to)
            except pa.ArrowException:
                new = (
                    pa.array([None] * len(t), to)
                    if rng.random() < 0.2
                    else pa.array([1] * len(t)).cast(pa.int8()).cast(pa.string())
                )
        return _with_column(t, c, name, new)

    first = change(groups[0])
    return _parquet([first, *(change(t).cast(first.schema) for t in groups[1:])]), f'column {name!r} becomes {to}'


def parquet_value(data, rng, victim):
    "Replace some or all values of a column"
    import pyarrow as pa

    groups = _groups(data)
    c = rng.randrange(groups[0].num_columns)
    name, kind = groups[0].column_names[c], groups[0].schema.field(c).type
    g = rng.randrange(len(groups))
    text = rng.choice(names(rng, victim) + ['whatever', 'x' * 1_000_000])
    number = rng.choice([10**12, -5, 0, 1, 1000, 10**6, 2**62, float('nan'), float('inf'), -1e30, 0.5, 127])
    every = rng.random() < 0.3
    column = groups[g].column(c).to_pylist()
    r = rng.randrange(len(column)) if column else 0

    def new(v):
        if isinstance(v, list):
            return [number if i == len(v) // 2 else x for i, x in enumerate(v)]
        if isinstance(v, str):
            return text
        return None if v is None or rng.random() < 0.1 else number

    values = [new(v) if every or i == r else v for i, v in enumerate(column)]
    try:
        array = pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError):
        array, number = pa.nulls(len(values), kind), 'null'
    groups[g] = _with_column(groups[g], c, name, array)
    schema = groups[g].schema
    what = text if pa.types.is_string(kind) else number
    return _parquet(
        [t.cast(schema) for t in groups]
    ), f'column {name!r}, {"all rows" if every else f"row {r}"} of group {g}: {what!r:.40}'


def parquet_lists(data, rng, victim):
    "Make the lists of a column longer, shorter or of varying length"
    import pyarrow as pa

    groups = _groups(data)
    fixed = [i for i, f in enumerate(groups[0].schema) if pa.types.is_fixed_size_list(f.type)]
    if not fixed:
        return parquet_type(data, rng, victim)
    c, what = rng.choice(fixed), rng.choice(['shorter', 'longer', 'varying', 'of width 0'])

    def change(t):
        rows, kind = t.column(c).to_pylist(), t.schema.field(c).type
        if what == 'varying':
            return _with_column(
                t,
                c,
                t.column_names[c],
                pa.array([v[: i % len(v)] for i, v in enumerate(rows)], pa.list_(kind.value_type)),
            )
        rows = [[] if what == 'of width 0' else v[:-1] if what == 'shorter' else v + v[:1] for v in rows]
        return _with_column(t, c, t.column_names[c], pa.array(rows, pa.list_(kind.value_type, len(rows[0]))))

    return _parquet([change(t) for t in groups]), f'column {groups[0].column_names[c]!r} {what}'


def parquet_form(data, rng, victim):
    groups = _groups(data)
    what = one_of(rng, 'footer length|metadata|no metadata|index|without compression|many groups|bomb|bomb')
    if what == 'footer length':
        n = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, len(data)])
        return data[:-8] + struct.pack('<I', n) + b'PAR1', f'footer of {n} bytes claimed'
    if what == 'bomb':
        return _bomb(groups)
    meta = {
        'metadata': {b'pandas': rng.choice([b'{', b'[]', b'{"index_columns": ["x"], "columns": []}', b'{"a":' * DEEP])},
        'index': {
            b'pandas': json.dumps(
                dict(index_columns=[groups[0].column_names[0]], columns=[], column_indexes=[])
            ).encode()
        },
    }.get(what)
    groups = [t.replace_schema_metadata(meta if what != 'many groups' else t.schema.metadata) for t in groups]
    if what == 'many groups':
        groups = [t.slice(i, 1) for t in groups for i in range(len(t))]
    return _parquet(groups, store_schema=what != 'no metadata', use_dictionary=what != 'without compression'), what


def _bomb(groups):
    "Write a column that repeats one text of many MB, stored once"
    import pyarrow as pa

    n = sum(map(len, groups))
    size = min(int(2.6e9) // n, 250_000_000)
    kinds = groups[0].schema
    c = next((i for i, f in enumerate(kinds) if pa.types.is_string(f.type)), 0)
    long = pa.array(['x' * size], pa.large_string())

    def change(t):
        return _with_column(
            t, c, t.column_names[c], pa.DictionaryArray.from_arrays(pa.array([0] * len(t), pa.int32()), long)
        )

    return _parquet(
        [change(t) for t in groups], store_schema=False
    ), f'column {kinds.names[c]!r} decompresses to {n * size / 1e9:.1f} GB'


PARQUET = [
    parquet_rows,
    parquet_rows,
    parquet_column,
    parquet_column,
    parquet_type,
    parquet_type,
    parquet_value,
    parquet_value,
    parquet_value,
    parquet_lists,
    parquet_form,
    parquet_form,
]
