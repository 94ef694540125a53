"""Rules for undetectable changes, one for each kind of file: other values that the format allows ("plain values").

A rule takes (bytes before, bytes after, [(digest before, digest after)] of the parts that differ) and returns whether
no reader could detect the change: the structure is intact, and every value that differs is plausible.
"""

import csv, io, json, math, re, zipfile
from fnmatch import fnmatch


def never(old, new, differ):
    return False


def always(old, new, differ):
    return True


def any_of(*rules):
    return lambda old, new, differ: any(rule(old, new, differ) for rule in rules)


def same_shapes(old, new, differ):
    "Plain if the arrays have the same type and shape: only their content differs, such as pixels of an image"
    return all(a and b and a.partition(':')[0] == b.partition(':')[0] for a, b in differ)


# ---- JSON


def strict(data: bytes):
    """Parse JSON; reject duplicate names, NaN and infinity."""

    def pairs(items):
        if len({k for k, _ in items}) < len(items):
            raise ValueError('duplicate name')
        return dict(items)

    def constant(text):
        raise ValueError(text)

    return json.loads(data.decode(), object_pairs_hook=pairs, parse_constant=constant)


def leaves(x, path='') -> dict:
    """Return dotted path -> value of all scalars, and of empty lists and objects."""
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else None
    if items is None or not x:
        return {path: x}
    return {k: v for key, value in items for k, v in leaves(value, f'{path}.{key}' if path else str(key)).items()}


TEXT, NUMBER = (lambda v: isinstance(v, str)), (lambda v: type(v) in (int, float) and math.isfinite(v))
POSITIVE = lambda v: NUMBER(v) and v > 0
ANY = lambda v: True


def one_of(*words):
    return lambda v: v in words


def whole(low=0, high=2**53):
    return lambda v: type(v) is int and low <= v <= high


def json_with(free: dict, check=lambda x: True):
    """Plain if all fields that differ match a pattern of `free`, and pass its test."""

    def test(path):
        return next((ok for pattern, ok in free.items() if fnmatch(path, pattern)), None)

    def rule(old, new, differ):
        content = strict(new)
        a, b = leaves(strict(old)), leaves(content)
        for path in {**a, **b}:
            if path in a and path in b and type(a[path]) is type(b[path]) and a[path] == b[path]:
                continue
            ok = test(path)
            if ok is None or ok is not ANY and (path not in b or not ok(b[path])):
                return False
        return check(content)

    return rule


# ---- CSV

NUMERAL = re.compile(r'[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?')


def numeral(low=-1e300, high=1e300):
    return lambda v: bool(NUMERAL.fullmatch(v)) and v.isascii() and low <= float(v) <= high


def numeral_or_nothing(v):
    return not v or numeral()(v)


def integer(low=-(2**53), high=2**53):
    return lambda v: bool(re.fullmatch(r'[-+]?\d+', v)) and v.isascii() and low <= int(v) <= high


WORDS = lambda v: not re.search('[\0-\x1f\x7f]', v)


def csv_with(free: dict, otherwise=None, rows='any', unique=(), columns='same', check=lambda rows: True, empty=False):
    """Plain if the header is unchanged, every row is complete, and new cells pass the test of their column.

    rows : 'any' number, or the 'same' number;  unique : columns that together identify a row
    columns : 'same', or 'some': optional columns of `free` may be missing, and others may be added
    otherwise : test of the columns that are not in `free`;  empty : whether there may be no row
    """

    def rule(old, new, differ):
        a, b = (list(csv.reader(io.StringIO(x.decode('utf-8-sig')), strict=True)) for x in (old, new))
        head = b[0]
        if len({*head}) < len(head) or columns == 'same' and {*head} != {*a[0]} or not new.endswith(b'\n'):
            return False
        lost = {*a[0]} - {*head}
        if lost - {k for k, v in free.items() if v in (WORDS, numeral_or_nothing)}:
            return False
        body = [r for r in b[1:] if r]
        if not (body or empty) or any(len(r) != len(head) for r in body) or rows == 'same' and len(body) != len(a) - 1:
            return False
        table, known = [dict(zip(head, r)) for r in body], [dict(zip(a[0], r)) for r in a[1:]]
        for c in (c for c in head if c in a[0]):
            known_values = {r[c] for r in known}
            ok = free.get(c, otherwise)
            if any(r[c] not in known_values and not (ok and ok(r[c])) for r in table):
                return False
        keys = [tuple(r.get(c) for c in unique) for r in table]
        return (not unique or len({*keys}) == len(keys)) and check(table)

    return rule


# ---- Parquet


def parquet_with(fixed=(), checks={}, finite=False):
    """Plain if columns, types and row groups are unchanged, and new values pass the check of their column.

    fixed : columns with unchanged values;  finite : whether new numbers of the other columns are finite
    """

    def rule(old, new, differ):
        import pyarrow.parquet as pq

        a, b = (pq.ParquetFile(io.BytesIO(x)) for x in (old, new))
        shape = lambda f: (
            [(c.name, str(c.type)) for c in f.schema_arrow]
            + [f.metadata.row_group(i).num_rows for i in range(f.num_row_groups)]
        )
        if shape(a) != shape(b):
            return False
        a, b = a.read(), b.read()
        for c in a.column_names:
            ok = (
                (lambda v: False)
                if c in fixed
                else checks.get(c, lambda v: v is not None and (not finite or _finite(v)))
            )
            if any(repr(v) != repr(w) and not ok(v) for v, w in zip(b[c].to_pylist(), a[c].to_pylist())):
                return False
        return True

    return rule


def _finite(v):
    return all(map(_finite, v)) if isinstance(v, list) else not isinstance(v, float) or math.isfinite(v)


# ---- archives


def _intact(data):
    z = zipfile.ZipFile(io.BytesIO(data))
    names = z.namelist()
    return z if z.testzip() is None and len({*names}) == len(names) else None


def npz_with(check=lambda name, array: True, head=None, header=None):
    """Plain if the archive is intact and its arrays have the same names, types and shapes, and pass a check.

    head : rule for the JSON in head.npy;  header : rule for the JSON in an array `header` of text
    """

    def rule(old, new, differ):
        import numpy as np

        a, b = _intact(old), _intact(new)
        if b is None or sorted(a.namelist()) != sorted(b.namelist()):
            return False
        for name in a.namelist():
            x, y = (np.load(io.BytesIO(z.read(name)), allow_pickle=False) for z in (a, b))
            if name.endswith('header.npy') and header:
                texts = [str(v).encode() for v in (x, y)]
                if y.dtype.kind != 'U' or texts[0] != texts[1] and not header(*texts, differ):
                    return False
            elif name == 'head.npy' and head:
                if y.dtype != np.uint8 or x.tobytes() != y.tobytes() and not head(x.tobytes(), y.tobytes(), differ):
                    return False
            elif (
                (x.dtype.kind, x.shape) != (y.dtype.kind, y.shape)
                or x.dtype.kind != 'U'
                and x.dtype != y.dtype
                or not (x.tobytes() == y.tobytes() or check(name, y))
            ):
                return False
        return True

    return rule


def film(old, new, differ):
    """Plain if the storage of a film is unchanged, and only its pixels differ."""
    a, b = _intact(old), _intact(new)
    if b is None or sorted(a.namelist()) != sorted(b.namelist()) or not same_shapes(old, new, differ):
        return False
    x, y = (strict(z.read('zarr.json')) for z in (a, b))
    return {k: v for k, v in x.items() if k not in ('attributes', 'fill_value')} == {
        k: v for k, v in y.items() if k not in ('attributes', 'fill_value')
    }


def npy(old, new, differ):
    """Plain if size and header are unchanged."""
    return len(old) == len(new) and old[:128] == new[:128]


def weights_with(free: dict, finite: bool = False):
    """Plain if the archive is intact, with the same types and shapes of tensors, and differs only in `free`."""

    def rule(old, new, differ):
        import torch

        if _intact(new) is None:
            return False
        a, b = (_describe(torch.load(io.BytesIO(x), weights_only=True), finite) for x in (old, new))
        x, y = (json.dumps(v, sort_keys=True).encode() for v in (a, b))
        return json_with(free)(x, y, differ)

    return rule


def _describe(x, finite):
    import torch

    if isinstance(x, torch.Tensor):
        kind = 'float' if x.is_floating_point() else f'{x.dtype}{x.tolist() if x.numel() < 1000 else ""}'
        return f'{kind} {tuple(x.shape)}' + (
            '' if not finite or bool(torch.isfinite(x.float()).all()) else ' not finite'
        )
    if isinstance(x, dict):
        return {str(k): _describe(v, finite) for k, v in x.items()}
    return [_describe(v, finite) for v in x] if isinstance(x, (list, tuple)) else x


def notebook(old, new, differ):
    """Plain if nbformat accepts the notebook."""
    import nbformat

    strict(new)
    nbformat.validate(nbformat.reads(new.decode(), 4))
    return True


def encoder_with(free: dict):
    """Plain if the tensors have unchanged types and shapes and no NaN, and the header differs only in `free`."""

    def rule(old, new, differ):
        from safetensors.torch import load

        a, b = ({k: _describe(x, False) for k, x in load(data).items()} for data in (old, new))
        head = [json.loads(data[8 : 8 + int.from_bytes(data[:8], 'little')])['__metadata__'] for data in (old, new)]
        texts = [h['srlviz'].encode() for h in head]
        without_nan = not any(x.isnan().any() for x in load(new).values() if x.is_floating_point())
        return a == b and without_nan and json_with({'checksum': TEXT} | free)(*texts, differ)

    return rule
