"""Mutations of any file: its bytes, a foreign file under its name, or no regular file; malicious names and values."""

import io, os, pickle, shutil, socket, struct, zipfile
from functools import partial


def one_of(rng, words: str) -> str:
    """Choose one of the words separated by |."""
    return rng.choice(words.split('|'))


# ---- any bytes


def cut(data, rng, victim):
    n = rng.randrange(len(data))
    return data[:n], f'cut to {n} of {len(data)} bytes'


def cut_line(data, rng, victim):
    ends = [i + 1 for i, b in enumerate(data) if b == 10] or [len(data) // 2]
    n = rng.choice(ends)
    return data[:n], f'cut after a line, to {n} of {len(data)} bytes'


def cut_header(data, rng, victim):
    n = rng.choice([1, 2, 4, 8, 10, 16, 32, 64, 128])
    return (
        (data[:n], f'cut to its first {n} bytes') if rng.random() < 0.5 else (data[:-n], f'cut by its last {n} bytes')
    )


def flip(data, rng, victim, n=1):
    data, at = bytearray(data), sorted(rng.randrange(8 * len(data)) for _ in range(n))
    for i in at:
        data[i // 8] ^= 1 << i % 8
    return bytes(data), f'{n} bits flipped, the first in byte {at[0] // 8}'


def replace(data, rng, victim):
    n, i = rng.choice([1, 2, 4, 8, 50]), rng.randrange(len(data))
    fill = rng.choice([b'\0', b'\xff', b'9', b'-', b'"', b'\n', b',', b'\x80'])
    return data[:i] + (fill * n)[: len(data) - i] + data[i + n :], f'{n} bytes at {i} replaced by {fill!r}'


def insert(data, rng, victim):
    i = rng.randrange(len(data) + 1)
    what = rng.choice([b'\0', b'"', b'\n', b',', b'{', b'\xef\xbb\xbf', b'\xff\xfe', b'\r', b' ' * 1000])
    return data[:i] + what + data[i:], f'{what[:8]!r} inserted at {i}'


def delete(data, rng, victim):
    n, i = rng.choice([1, 1, 2, 7, 64]), rng.randrange(len(data))
    return data[:i] + data[i + n :], f'{n} bytes deleted at {i}'


def repeat(data, rng, victim):
    i = rng.randrange(len(data))
    n = rng.randrange(1, max(2, len(data) // 3))
    return data[:i] + data[i : i + n] + data[i:], f'{n} bytes at {i} repeated'


def swap(data, rng, victim):
    a, b, c = sorted(rng.randrange(len(data) + 1) for _ in range(3))
    return data[:a] + data[b:c] + data[a:b] + data[c:], f'bytes {a} to {b} and {b} to {c} swapped'


def append(data, rng, victim):
    what = rng.choice([b'\0' * 100, data, b'garbage', b'\n\n\n', b'PK\x05\x06' + b'\0' * 18, b'x' * 2_000_000])
    return data + what, f'{len(what)} bytes appended: {what[:8]!r}'


def empty(data, rng, victim):
    return b'', 'emptied'


RAW = [
    cut,
    cut,
    cut_line,
    cut_header,
    flip,
    flip,
    partial(flip, n=30),
    replace,
    insert,
    delete,
    repeat,
    swap,
    append,
    empty,
]

# ---- a foreign file under the name


class Evil:
    "An object that makes a folder when it is unpickled"

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


def _png():
    return b'\x89PNG\r\n\x1a\n' + b'\0\0\0\rIHDR' + struct.pack('>IIBBBBB', 8, 8, 8, 2, 0, 0, 0) + b'\0' * 20


def _zip(members) -> bytes:
    with zipfile.ZipFile(out := io.BytesIO(), 'w') as z:
        for name, data in members:
            z.writestr(name, data)
    return out.getvalue()


def foreign(data, rng, victim):
    evil = pickle.dumps(Evil(victim / 'ran'))
    files = {
        'PNG': _png(),
        'zip': _zip([('hello.txt', 'hello')]),
        'zip with a parent path': _zip([('../../victim/keep', 'x')]),
        'pickle': evil,
        'ELF': b'\x7fELF\x02\x01\x01' + b'\0' * 57,
        'HTML': b'<!doctype html><html><script>alert(1)</script></html>\n',
        'JSON list': b'[]',
        'JSON null': b'null',
        'JSON number': b'17',
        'zeros': b'\0' * 100_000,
        'gzip': b'\x1f\x8b\x08\0\0\0\0\0\0\3\3\0\0\0\0\0\0\0\0\0',
        'Parquet without content': b'PAR1' + b'\0' * 4 + b'PAR1',
        'zip without content': _zip([]),
        'npy of objects': _npy_of_objects(victim),
        'npz of objects': _zip([('head.npy', _npy_of_objects(victim))]),
        'text in UTF-16': 'a,b\n1,2\n'.encode('utf-16'),
        'playlist of concat': b"ffconcat version 1.0\nfile '" + os.fsencode(victim / 'keep') + b"'\n",
        'playlist of HLS': b'#EXTM3U\n#EXTINF:1,\nhttp://127.0.0.1:9/x.ts\n',
        'a line of 3 MB': b'1,' * 1_500_000 + b'\n',
    }
    name = rng.choice(list(files))
    return files[name], f'foreign: {name}'


def _npy_of_objects(victim):
    header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"
    return npy(header) + pickle.dumps([Evil(victim / 'ran')])


def npy(header: str) -> bytes:
    text = header.encode() + b' ' * (-(len(header) + 11) % 64) + b'\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(text)) + text


# ---- no regular file at the path


def missing(path, rng, victim):
    path.unlink()
    return 'removed'


def folder(path, rng, victim):
    path.unlink()
    path.mkdir()
    return 'a folder in its place'


def fifo(path, rng, victim):
    path.unlink()
    os.mkfifo(path)
    return 'a named pipe in its place'


def dangling(path, rng, victim):
    path.unlink()
    path.symlink_to(victim / 'nowhere')
    return 'a link to nothing'


def endless(path, rng, victim):
    path.unlink()
    path.symlink_to('/dev/zero')
    return 'a link to /dev/zero'


def circle(path, rng, victim):
    path.unlink()
    path.symlink_to(path.name)
    return 'a link to itself'


def unix_socket(path, rng, victim):
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # paths of sockets are limited in length
    try:
        socket.socket(socket.AF_UNIX).bind(path.name)
    finally:
        os.chdir(here)
    return 'a socket in its place'


def link_away(path, rng, victim):
    shutil.move(path, victim / path.name)
    path.symlink_to(victim / path.name)
    return 'moved away, a link in its place'


def link_victim(path, rng, victim):
    path.unlink()
    path.symlink_to(victim / 'keep')
    return 'a link to a file of the victim'


def _is_top(path, victim):
    return path.parent == victim.parent / 'case'


def link_folder(path, rng, victim):
    if _is_top(path, victim):
        return link_away(path, rng, victim)  # the specimen as a whole may be behind a link
    away = victim / 'moved'
    shutil.move(path.parent, away)
    path.parent.symlink_to(away)
    return 'its folder moved away, a link in its place'


def link_victim_folder(path, rng, victim):
    if _is_top(path, victim):
        return link_victim(path, rng, victim)
    shutil.rmtree(path.parent)
    path.parent.symlink_to(victim)
    return 'its folder is a link to a folder of the victim'


PLACES = [
    missing,
    folder,
    fifo,
    dangling,
    endless,
    circle,
    unix_socket,
    link_away,
    link_victim,
    link_folder,
    link_victim_folder,
]

# ---- malicious values


def names(rng, victim) -> list[str]:
    """Return file names that point outside the folder, or are invalid."""
    up = '../' * rng.randint(1, 4)
    return [
        f'{up}victim/keep',
        f'{up}victim/meta/info',
        f'{up}victim/frame',
        str(victim / 'keep'),
        str(victim / 'meta' / 'info'),
        'a\0b',
        'n' * 5000,
        '.',
        '..',
        '',
        'a/b',
        'a\\b',
        'CON',
        'é',
        ' ',
        '/dev/zero',
        '<img src=x onerror=alert(1)>',
        'a\n\x1b[2Jb',
    ]


class Text(str):
    "JSON that is written unchanged"


class Pairs(list):
    "A JSON object as ordered [name, value] pairs, so that names may occur twice"


DEEP = 100_000


def values(rng, victim) -> list:
    numbers = [
        10**12,
        -5,
        0,
        1,
        7,
        2**53 + 1,
        2**63,
        Text('9' * 400),
        Text('9' * 5000),
        0.5,
        -1e308,
        Text('1e999'),
        Text('NaN'),
        Text('-Infinity'),
    ]
    return [
        *numbers,
        None,
        True,
        False,
        [],
        Pairs(),
        [[]],
        [1, 2, 3],
        Pairs([['a', 1]]),
        'whatever',
        '1e999',
        '1_0',
        '12',
        'nan',
        'x' * 1_000_000,
        Text('[' * DEEP + ']' * DEEP),
        Text('{"a":' * DEEP + '1' + '}' * DEEP),
        Text('"\\ud800"'),
        rng.choice(names(rng, victim)),
        rng.choice(names(rng, victim)),
    ]


def short(x) -> str:
    return f'{x!r:.60}' if not isinstance(x, Text) else f'{str(x):.30}'
