"""Mutations inside archives, whose checksums stay correct: npz, films in Zarr, PyTorch weights, encoders."""

import io, json, pickle, struct, zipfile, zlib
from functools import cache

from .raw import names, npy, one_of, short, Evil, RAW
from .texts import JSON

# ---- zip: the archive is rebuilt, so that its checksums are correct


def _members(data):
    with zipfile.ZipFile(io.BytesIO(data)) as z:
        return [[m.filename, z.read(m), m.compress_type] for m in z.infolist()]


def _archive(members) -> bytes:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # about duplicate names
        with zipfile.ZipFile(out := io.BytesIO(), 'w') as z:
            for name, data, compression in members:
                z.writestr(zipfile.ZipInfo(name), data, compression)
    return out.getvalue()


def _pick(members, rng, ok=lambda name: True):
    found = [m for m in members if ok(m[0]) and m[1]]
    return rng.choice(found) if found else None


def zip_member(data, rng, victim):
    members = _members(data)
    m = rng.choice(members)
    i = members.index(m)
    name = m[0]
    what = one_of(
        rng,
        'dropped|doubled|doubled with other content|renamed|emptied|other compression|added|added with a parent path',
    )
    if what == 'dropped':
        del members[i]
    if what == 'doubled':
        members.append(list(m))
    if what == 'doubled with other content':
        members.append([name, rng.choice(members)[1][::-1], m[2]])
    if what == 'renamed':
        m[0] = rng.choice([n for n in names(rng, victim) if '\0' not in n and len(n) < 2000 and n] + [name.upper()])
    if what == 'emptied':
        m[1] = b''
    if what == 'other compression':
        m[2] = rng.choice([zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA, zipfile.ZIP_DEFLATED, zipfile.ZIP_STORED])
    if what == 'added':
        members.append(['x', b'hello', 0])
    if what == 'added with a parent path':
        members.append(['../../victim/keep', b'hello', 0])
    return _archive(members), f'member {name!r} {what}'


def zip_bytes(data, rng, victim):
    members = _members(data)
    m = _pick(members, rng)
    m[1], description = rng.choice(RAW)(m[1], rng, victim)
    return _archive(members), f'member {m[0]!r}: {description}'


def zip_claims(data, rng, victim):
    "Change sizes and other fields of the central directory"
    at = data.find(b'PK\x01\x02') if rng.random() < 0.5 else data.rfind(b'PK\x01\x02')
    where, what = rng.choice(
        [(20, 'compressed size'), (24, 'size'), (16, 'checksum'), (42, 'offset'), (8, 'flags'), (10, 'method')]
    )
    v = rng.choice([0, 1, 2**31, 2**32 - 1, 4_000_000_000, rng.getrandbits(32)])
    data = bytearray(data)
    if where in (8, 10):
        data[at + where : at + where + 2] = struct.pack('<H', v % 65536)
    else:
        data[at + where : at + where + 4] = struct.pack('<I', v)
    return bytes(data), f'zip claims {what} {v}'


ZIP = [zip_member, zip_member, zip_bytes, zip_bytes, zip_claims]

# ---- npy and npz


def _header(npy: bytes):
    n = 10 + struct.unpack('<H', npy[8:10])[0]
    return npy[10:n].decode('latin-1'), npy[n:]


def npy_header(data, rng, victim):
    import ast

    text, body = _header(data)
    head = ast.literal_eval(text)
    shape = list(head['shape'])
    what = one_of(
        rng, 'huge|negative|empty|one less|one more|flat|objects|wider|other order|text|damaged|huge and short|floats'
    )
    if what == 'huge':
        shape = [10**12, *shape[1:]]
    if what == 'huge and short':
        shape = [500_000_000, *shape[1:]]
    if what == 'negative':
        shape = [-1, *shape[1:]]
    if what == 'empty':
        shape = [0, *shape[1:]]
    if what == 'one less' and shape:
        shape[0] -= 1
    if what == 'one more' and shape:
        shape[0] += 1
    if what == 'flat':
        shape = []
    head['shape'] = tuple(shape)
    if what == 'objects':
        head['descr'] = '|O'
        body = pickle.dumps([Evil(victim / 'ran')])
    if what == 'wider':
        head['descr'] = '<f8'
    if what == 'floats':
        head['descr'] = '<f4'
    if what == 'text':
        head['descr'] = '<U1000000'
    if what == 'other order':
        head['fortran_order'] = not head['fortran_order']
    header = repr(head)
    if what == 'damaged':
        header = rng.choice(['{', '[' * 5000, "{'descr': '<f4'}", repr(head) + '+1', '__import__("os").mkdir("x")'])
    return npy(header) + body, f'header: {what}'


def npy_rows(data, rng, victim):
    "Change rows and header together: the array is valid, but does not fit the other arrays"
    import numpy as np

    a = np.load(io.BytesIO(data), allow_pickle=False)
    what = one_of(
        rng,
        'row missing|row added|not finite|other type|no rows|another axis|huge values|reversed|transposed|of text',
    )
    if not a.ndim:
        a, what = np.asarray(rng.choice(['whatever', 'x' * 1_000_000, ''])), 'another value'
    elif what == 'row missing':
        a = a[:-1]
    elif what == 'row added':
        a = np.concatenate([a, a[-1:]])
    elif what == 'no rows':
        a = a[:0]
    elif what == 'another axis':
        a = a[..., None]
    elif what == 'transposed':
        a = a.T
    elif what == 'reversed':
        a = a[::-1]
    elif what == 'of text':
        a = a.astype(str)
    elif what == 'other type':
        a = (
            a.astype(rng.choice(['float64', 'int8', 'uint16', 'bool', 'complex64']))
            if a.dtype.kind in 'biuf'
            else np.zeros(a.shape)
        )
    elif a.dtype.kind == 'f':
        a = a.copy()
        a.flat[rng.randrange(max(1, a.size))] = rng.choice([np.nan, np.inf, 1e30])
    elif a.dtype.kind in 'iu':
        a = a.copy()
        a.flat[rng.randrange(max(1, a.size))] = rng.choice([np.iinfo(a.dtype).max, np.iinfo(a.dtype).min, 7])
    np.save(out := io.BytesIO(), a)
    return out.getvalue(), f'values: {what}'


NPY = [npy_header, npy_header, npy_rows]


def _in_member(changes, ok=lambda name: True, wrap=lambda data, change, rng, victim: change(data, rng, victim)):
    "Return a mutation of one member of a zip"

    def mutate_member(data, rng, victim):
        members = _members(data)
        m = _pick(members, rng, ok)
        if m is None:
            return zip_bytes(data, rng, victim)
        m[1], description = wrap(m[1], rng.choice(changes), rng, victim)
        return _archive(members), f'member {m[0]!r}: {description}'

    return mutate_member


def _json_in_npy(data, change, rng, victim):
    text, description = change(_header(data)[1], rng, victim)
    return npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({len(text)},), }}") + text, description


def _json_in_text(data, change, rng, victim):
    import numpy as np

    original = str(np.load(io.BytesIO(data), allow_pickle=False))
    text, description = change(original.encode(), rng, victim)
    np.save(out := io.BytesIO(), np.array(text.decode('utf-8', 'replace').rstrip('\0')))
    return out.getvalue(), description


@cache
def _zeros(n: int) -> tuple[bytes, int]:
    "Return n deflated zeros and their checksum; one block is compressed and repeated"
    block = bytes(2**24)
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed, crc = packer.compress(block) + packer.flush(zlib.Z_FULL_FLUSH), 0
    for _ in range(n // 2**24):
        crc = zlib.crc32(block, crc)
    return packed * (n // 2**24), crc


def npz_bomb(data, rng, victim):
    "Replace a member by one that decompresses to more than 2 GB, with correct sizes"
    n = 150 * 2**24
    packed, crc = _zeros(n)
    members = _members(data)
    m = rng.choice(members)
    head = npy(f"{{'descr': '|u1', 'fortran_order': False, 'shape': ({n},), }}")
    packer = zlib.compressobj(1, zlib.DEFLATED, -15)
    body = packer.compress(head) + packer.flush(zlib.Z_FULL_FLUSH) + packed + b'\x03\x00'
    crc = _crc(head, n)
    name = m[0].encode()
    local = (
        struct.pack('<4sHHHHHIIIHH', b'PK\3\4', 20, 0, 8, 0, 33, crc, len(body), len(head) + n, len(name), 0)
        + name
        + body
    )
    rest = _archive([x for x in members if x is not m])
    end = rest.rfind(b'PK\x05\x06')
    start = struct.unpack('<I', rest[end + 16 : end + 20])[0]
    central = (
        rest[start:end]
        + struct.pack(
            '<4sHHHHHHIIIHHHHHII',
            b'PK\1\2',
            20,
            20,
            0,
            8,
            0,
            33,
            crc,
            len(body),
            len(head) + n,
            len(name),
            0,
            0,
            0,
            0,
            0,
            start,
        )
        + name
    )
    out = (
        rest[:start]
        + local
        + central
        + struct.pack('<4sHHHHIIH', b'PK\5\6', 0, 0, len(members), len(members), len(central), start + len(local), 0)
    )
    return out, f'member {m[0]!r} decompresses to {n / 1e9:.1f} GB'


def _crc(head: bytes, n: int) -> int:
    block, crc = bytes(2**24), zlib.crc32(head)
    for _ in range(n // 2**24):
        crc = zlib.crc32(block, crc)
    return crc


NPZ = [*ZIP, *[_in_member(NPY)] * 4, npz_bomb]
NPZ_RECORDING = [*NPZ, *[_in_member(JSON, lambda name: name == 'head.npy', _json_in_npy)] * 6]
NPZ_ANSWER = [*NPZ, *[_in_member(JSON, lambda name: name.endswith('header.npy'), _json_in_text)] * 6]

# ---- film: Zarr in a zip


def zstd_zeros(n: int) -> bytes:
    """Return a zstd frame that decompresses to n zeros: blocks of one repeated byte."""
    block = 2**17
    sizes = [block] * (n // block) + ([n % block] if n % block else [])
    blocks = b''.join(
        (size << 3 | 1 << 1 | (i == len(sizes) - 1)).to_bytes(3, 'little') + b'\0' for i, size in enumerate(sizes)
    )
    return b'\x28\xb5\x2f\xfd' + bytes([0b11100000]) + struct.pack('<Q', n) + blocks


def film_bomb(data, rng, victim):
    members = _members(data)
    m = _pick(members, rng, lambda name: name.startswith('c/'))
    n = rng.choice([3_600_000_000, 2_500_000_000, 100_000])
    if m is None:
        return zip_bytes(data, rng, victim)
    m[1] = zstd_zeros(n)
    return _archive(members), f'member {m[0]!r} decompresses to {n / 1e9:.1f} GB'


def film_pickle(data, rng, victim):
    "Write Zarr format 2 with objects that would be unpickled"
    shape = next(json.loads(d)['shape'] for name, d, _ in _members(data) if name == 'zarr.json')
    head = dict(
        zarr_format=2,
        shape=shape,
        chunks=shape,
        dtype='|O',
        fill_value=0,
        order='C',
        compressor=None,
        filters=rng.choice([[{'id': 'pickle', 'protocol': 5}], [{'id': 'vlen-utf8'}, {'id': 'pickle', 'protocol': 5}]]),
    )
    return _archive(
        [
            ['.zarray', json.dumps(head).encode(), 0],
            ['.'.join('0' for _ in shape), pickle.dumps(Evil(victim / 'ran')), 0],
        ]
    ), 'Zarr of format 2 with a pickle'


def film_empty(data, rng, victim):
    members = [m for m in _members(data) if m[0] == 'zarr.json']
    return _archive(members), 'no chunks'


def film_shape(data, rng, victim):
    members = _members(data)
    m = next(m for m in members if m[0] == 'zarr.json')
    head = json.loads(m[1])
    grid, i = head['chunk_grid']['configuration']['chunk_shape'], rng.randrange(len(head['shape']))
    what = one_of(rng, 'shape|chunks|both|data_type|codecs|fill_value')
    n = rng.choice([1, 2, 10**6, 10**12, 0, -1, head['shape'][i] + 1])
    if what in ('shape', 'both'):
        head['shape'][i] = n
    if what in ('chunks', 'both'):
        grid[i] = n
    if what == 'data_type':
        n = head['data_type'] = rng.choice(['float32', 'int8', 'bool', 'string', 'variable_length_bytes', 'complex128'])
    if what == 'codecs':
        n = head['codecs'] = rng.choice(
            [
                [{'name': 'bytes'}],
                [{'name': 'bytes'}, {'name': 'gzip', 'configuration': {'level': 1}}],
                [{'name': 'vlen-utf8'}],
                [{'name': 'numcodecs.pickle'}],
                [],
                [{'name': 'transpose', 'configuration': {'order': [0, 2, 1, 3]}}, *head['codecs']],
                [{'name': 'x'}],
            ]
        )
    if what == 'fill_value':
        n = head['fill_value'] = 7
    m[1] = json.dumps(head).encode()
    return _archive(members), f'zarr.json: {what} {n!r:.60}'


FILM = [
    *ZIP,
    *[_in_member(JSON, lambda name: name == 'zarr.json')] * 4,
    film_shape,
    film_shape,
    film_shape,
    film_bomb,
    film_empty,
    film_pickle,
]

# ---- PyTorch weights


def _items(x, path=()):
    "List every item of nested weights: (container, key, path)"
    items = x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ()
    out = []
    for k, v in items:
        out += [(x, k, (*path, k)), *_items(v, (*path, k))]
    return out


def weights_value(data, rng, victim):
    import torch

    content = torch.load(io.BytesIO(data), weights_only=True)
    at, key, path = rng.choice(_items(content))
    v = at[key]
    if isinstance(v, torch.Tensor) and rng.random() < 0.8:
        f = v.float().reshape(-1).clone()
        what = one_of(rng, 'NaN|infinite|row missing|float64|int64|empty|flat|another value|complex|half|huge|expanded')
        if what in ('NaN', 'infinite', 'another value', 'huge'):
            f[rng.randrange(max(1, len(f)))] = dict(
                zip(('NaN', 'infinite', 'another value', 'huge'), (float('nan'), float('inf'), 0.5, 1e30))
            )[what]
            new = f.reshape(v.shape).to(v.dtype)
        elif what == 'row missing':
            new = v[:-1].clone() if v.ndim else v
        elif what == 'empty':
            new = v[:0].clone() if v.ndim else v
        elif what == 'flat':
            new = v.reshape(-1)
        elif what == 'expanded':
            new = torch.zeros(1).expand(50_000, 20_000)
        else:
            new = v.to(
                dict(float64=torch.float64, int64=torch.int64, complex=torch.complex64, half=torch.float16)[what]
            )
    else:
        new = rng.choice([10**12, -5, 0, None, True, 'whatever', [], {}, float('nan'), torch.zeros(3), 'x' * 100_000])
        what = short(new)
    at[key] = new
    torch.save(content, out := io.BytesIO())
    return out.getvalue(), f'{".".join(map(str, path))}: {what}'


def weights_key(data, rng, victim):
    import torch

    content = torch.load(io.BytesIO(data), weights_only=True)
    at, key, path = rng.choice(_items(content))
    what = one_of(rng, 'dropped|doubled|renamed')
    if isinstance(at, dict):
        if what != 'dropped':
            at[rng.choice(names(rng, victim)) if what == 'renamed' else f'{key}2'] = at[key]
        if what != 'doubled':
            del at[key]
    else:
        del at[key]
    torch.save(content, out := io.BytesIO())
    return out.getvalue(), f'{".".join(map(str, path))} {what}'


def weights_config(data, rng, victim):
    import torch

    content = torch.load(io.BytesIO(data), weights_only=True)
    text, description = rng.choice(JSON)(content['config'].encode(), rng, victim)
    content['config'] = text.decode('latin-1')
    torch.save(content, out := io.BytesIO())
    return out.getvalue(), f'config: {description}'


def weights_extra(data, rng, victim):
    "Change the configuration that a memory stores among its weights"
    import torch

    content = torch.load(io.BytesIO(data), weights_only=True)
    places = [(at, k) for at, k, _ in _items(content) if str(k).endswith('_extra_state')]
    if not places:
        return weights_value(data, rng, victim)
    at, k = rng.choice(places)
    text, description = rng.choice(JSON)(bytes(at[k].tolist()), rng, victim)
    at[k] = torch.frombuffer(bytearray(text or b'x'), dtype=torch.uint8)
    torch.save(content, out := io.BytesIO())
    return out.getvalue(), f'_extra_state: {description}'


def weights_pickle(data, rng, victim):
    import torch

    what = one_of(rng, 'a pickle|a pickle in the zip|objects among the weights')
    if what == 'a pickle':
        return pickle.dumps(Evil(victim / 'ran')), what
    if what == 'objects among the weights':
        torch.save({'config': '{}', 'state': Evil(victim / 'ran')}, out := io.BytesIO())
        return out.getvalue(), what
    members = _members(data)
    for m in members:
        if m[0].endswith('data.pkl'):
            m[1] = pickle.dumps(Evil(victim / 'ran'), 2)
    return _archive(members), what


WEIGHTS = [
    *ZIP,
    weights_value,
    weights_value,
    weights_value,
    weights_key,
    weights_key,
    weights_config,
    weights_config,
    weights_extra,
    weights_pickle,
]

# ---- encoders: safetensors with a description in the header


def _parts(data):
    "Return the header of safetensors and the bytes after it"
    n = struct.unpack('<Q', data[:8])[0]
    return json.loads(data[8 : 8 + n]), data[8 + n :]


def _signed(about: bytes, tensors: dict) -> str:
    "Return the header of an encoder with a correct checksum, or unchanged if it cannot be signed"
    from srlviz.core.saving import _checksum

    try:
        header = json.loads(about)
        header['checksum'] = _checksum(header, tensors)
        return json.dumps(header)
    except Exception:  # not an object, or nested too deeply
        return about.decode('utf-8', 'replace')


def encoder_about(data, rng, victim):
    from safetensors.torch import load

    head, body = _parts(data)
    text, description = rng.choice(JSON)(head['__metadata__']['srlviz'].encode(), rng, victim)
    head['__metadata__']['srlviz'] = _signed(text, load(data))
    new = json.dumps(head).encode()
    return struct.pack('<Q', len(new)) + new + body, f'about: {description}'


def encoder_header(data, rng, victim):
    head, body = _parts(data)
    text, description = rng.choice(JSON)(json.dumps(head).encode(), rng, victim)
    return struct.pack('<Q', len(text)) + text + body, f'header: {description}'


def encoder_tensor(data, rng, victim):
    "Change a tensor and correct the checksum"
    import torch
    from safetensors.torch import load, save

    tensors = load(data)
    name = rng.choice(sorted(tensors))
    x = tensors[name]
    what = one_of(rng, 'NaN|infinite|row missing|float64|int64|empty|flat|another value|dropped|renamed|doubled')
    values = {'NaN': float('nan'), 'infinite': float('inf'), 'another value': 0.5}
    if what in values:
        x = x.clone()
        x.view(-1)[rng.randrange(max(1, x.numel()))] = values[what]
    elif what == 'row missing':
        x = x[:-1].clone()
    elif what == 'empty':
        x = x[:0].clone()
    elif what == 'flat':
        x = x.reshape(-1).clone()
    elif what in ('float64', 'int64'):
        x = x.to(getattr(torch, what))
    tensors[name] = x
    if what in ('renamed', 'doubled'):
        tensors[f'{name}2'] = x.clone()
    if what in ('dropped', 'renamed'):
        del tensors[name]
    about = _parts(data)[0]['__metadata__']['srlviz'].encode()
    return save(tensors, {'srlviz': _signed(about, tensors)}), f'{name}: {what}'


ENCODER = [*[encoder_about] * 8, encoder_header, encoder_header, *[encoder_tensor] * 4]
