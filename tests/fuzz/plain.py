"""Which silent changes are plain: other values that the format holds nothing against; a rule for each kind of file.

A rule takes (bytes before, bytes now, [(digest before, digest now)] of what came out otherwise) and says if the
change is one that no reader could find: the structure is whole, and every value that differs is a plausible one.
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
    "Arrays of the same type and shape with other content: bits of a picture"
    return all(a and b and a.partition(':')[0] == b.partition(':')[0] for a, b in differ)


# ---- JSON


def strict(data: bytes):
    """Read JSON that has no name twice and no number that is none."""

    def pairs(items):
        if len({k for k, _ in items}) < len(items):
            raise ValueError('a name stands twice')
        return dict(items)

    def constant(text):
        raise ValueError(text)

    return json.loads(data.decode(), object_pairs_hook=pairs, parse_constant=constant)


def leaves(x, path='') -> dict:
    """Give path.in.words -> value of whatever is no list and no object, and of those that are empty."""
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
    """Plain if only fields differ whose path is among the patterns `free`, and they pass its test."""

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


def csv_with(free: dict, otherwise=None, rows='any', unique=(), columns='same', check=lambda rows: True):
    """Plain if the header is as it was, every row has its cells, and new cells pass the test of their column.

    rows : 'any' number of them, or the 'same';  unique : columns whose values stand once, together
    columns : 'same', or 'some': those of `free` may be lacking, and there may be others
    otherwise : test of columns that are not in `free`
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
        if not body or any(len(r) != len(head) for r in body) or rows == 'same' and len(body) != len(a) - 1:
            return False
        table, known = [dict(zip(head, r)) for r in body], [dict(zip(a[0], r)) for r in a[1:]]
        for c in (c for c in head if c in a[0]):
            was, ok = {r[c] for r in known}, free.get(c, otherwise)
            if any(r[c] not in was and not (ok and ok(r[c])) for r in table):
                return False
        keys = [tuple(r.get(c) for c in unique) for r in table]
        return (not unique or len({*keys}) == len(keys)) and check(table)

    return rule


# ---- Parquet


def parquet_with(fixed=(), checks={}, finite=False):
    """Plain if columns, types and the rows of each group are as before, and new values pass the check of their column.

    fixed : columns that hold the same;  finite : numbers of others that were finite are so
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


def _whole(data):
    z = zipfile.ZipFile(io.BytesIO(data))
    names = z.namelist()
    return z if z.testzip() is None and len({*names}) == len(names) else None


def npz_with(check=lambda name, array: True, head=None, told=None):
    """Plain if the archive is whole and has arrays of the same names, types and shapes that pass a check.

    head : rule of the JSON in head.npy;  told : rule of that in the text of an array called told
    """

    def rule(old, new, differ):
        import numpy as np

        a, b = _whole(old), _whole(new)
        if b is None or sorted(a.namelist()) != sorted(b.namelist()):
            return False
        for name in a.namelist():
            x, y = (np.load(io.BytesIO(z.read(name)), allow_pickle=False) for z in (a, b))
            if name.endswith(('told.npy', 'header.npy')) and told:
                texts = [str(v).encode() for v in (x, y)]
                if y.dtype.kind != 'U' or texts[0] != texts[1] and not told(*texts, differ):
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
    """Plain if the film of a recording is stored as before, and only its pixels differ."""
    a, b = _whole(old), _whole(new)
    if b is None or sorted(a.namelist()) != sorted(b.namelist()) or not same_shapes(old, new, differ):
        return False
    x, y = (strict(z.read('zarr.json')) for z in (a, b))
    return {k: v for k, v in x.items() if k not in ('attributes', 'fill_value')} == {
        k: v for k, v in y.items() if k not in ('attributes', 'fill_value')
    }


def npy(old, new, differ):
    """Plain if size and header are as before."""
    return len(old) == len(new) and old[:128] == new[:128]


def weights_with(free: dict, finite: bool = False):
    """Plain if the archive is whole, with tensors of the same kinds and shapes, and else differs only in `free`."""

    def rule(old, new, differ):
        import torch

        if _whole(new) is None:
            return False
        a, b = (_nest(torch.load(io.BytesIO(x), weights_only=True), finite) for x in (old, new))
        x, y = (json.dumps(v, sort_keys=True).encode() for v in (a, b))
        return json_with(free)(x, y, differ)

    return rule


def _nest(x, finite):
    import torch

    if isinstance(x, torch.Tensor):
        told = 'float' if x.is_floating_point() else f'{x.dtype}{x.tolist() if x.numel() < 1000 else ""}'
        return f'{told} {tuple(x.shape)}' + (
            '' if not finite or bool(torch.isfinite(x.float()).all()) else ' not finite'
        )
    if isinstance(x, dict):
        return {str(k): _nest(v, finite) for k, v in x.items()}
    return [_nest(v, finite) for v in x] if isinstance(x, (list, tuple)) else x


def notebook(old, new, differ):
    """Plain if it is a notebook by the rules of nbformat."""
    import nbformat

    strict(new)
    nbformat.validate(nbformat.reads(new.decode(), 4))
    return True


def encoder_with(free: dict):
    """Plain if the tensors have their types and shapes and no NaN, and the header differs only in `free`."""

    def rule(old, new, differ):
        from safetensors.torch import load

        a, b = ({k: _nest(x, False) for k, x in load(data).items()} for data in (old, new))
        head = [json.loads(data[8 : 8 + int.from_bytes(data[:8], 'little')])['__metadata__'] for data in (old, new)]
        texts = [h['srlviz'].encode() for h in head]
        sound = not any(x.isnan().any() for x in load(new).values() if x.is_floating_point())
        return a == b and sound and json_with({'checksum': TEXT} | free)(*texts, differ)

    return rule
