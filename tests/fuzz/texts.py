"""Mutations of JSON and CSV: fields, cells, columns, rows, encoding and syntax."""

import csv, io, json

from .raw import names, one_of, short, values, DEEP, Pairs, Text

# ---- JSON


def load(data: bytes) -> list:
    "Return the content, wrapped in a list"
    return [json.loads(data, object_pairs_hook=lambda pairs: Pairs([k, v] for k, v in pairs))]


def _done(box) -> bytes:
    return ''.join(map(dump, box)).encode()


def dump(x) -> str:
    if isinstance(x, Text):
        return str(x)
    if isinstance(x, Pairs):
        return '{' + ', '.join(f'{json.dumps(k)}: {dump(v)}' for k, v in x) + '}'
    if isinstance(x, list):
        return '[' + ', '.join(map(dump, x)) + ']'
    return json.dumps(x)


def _spot(box, rng, stop=0.3):
    "Choose what to change, from the top down: (list or object, index in it, path as text); `box` contains the whole"
    at = box, 0
    path = 'all'
    x = box[0]
    while isinstance(x, list) and x and (path == 'all' or rng.random() > stop):
        i = rng.randrange(len(x))
        at = x, i
        path = path.removeprefix('all') + (f'.{x[i][0]}' if isinstance(x, Pairs) else f'[{i}]')
        x = x[i][1] if isinstance(x, Pairs) else x[i]
    return *at, path[:80]


def _set(x, i, v):
    if isinstance(x, Pairs):
        x[i][1] = v
    else:
        x[i] = v


def json_value(data, rng, victim):
    x = load(data)
    at, i, path = _spot(x, rng)
    v = rng.choice(values(rng, victim))
    _set(at, i, v)
    return _done(x), f'{path} set to {short(v)}'


def json_number(data, rng, victim):
    x = load(data)
    spots = _numbers(x)
    if not spots:
        return json_value(data, rng, victim)
    at, i, path = rng.choice(spots)
    old = at[i][1] if isinstance(at, Pairs) else at[i]
    v = rng.choice(
        [
            10**12,
            -5,
            0,
            1,
            old + 1,
            old - 1,
            2 * old,
            -old,
            float(old),
            str(old),
            True,
            None,
            Text('1e999'),
            Text('NaN'),
            2**63,
            1e-9,
        ]
    )
    _set(at, i, v)
    return _done(x), f'{path} set to {short(v)}'


def _numbers(x, path=''):
    items = x if isinstance(x, Pairs) else enumerate(x) if isinstance(x, list) else ()
    out = []
    for n, (k, v) in enumerate(items):
        if type(v) in (int, float):
            out.append((x, n, f'{path}.{k}'))
        else:
            out += _numbers(v, f'{path}.{k}'.removeprefix('.0'))
    return out


def json_drop(data, rng, victim):
    x = load(data)
    at, i, path = _spot(x, rng, 0.4)
    del at[i]
    return _done(x), f'{path} dropped'


def json_double(data, rng, victim):
    x = load(data)
    at, i, path = _spot(x, rng, 0.4)
    duplicate = list(at[i]) if isinstance(at, Pairs) else at[i]
    if isinstance(at, Pairs) and rng.random() < 0.6:
        duplicate[1] = rng.choice(values(rng, victim))
    at.insert(rng.choice([i, i + 1, len(at)]), duplicate)
    return _done(x), f'{path} occurs twice'


def json_rename(data, rng, victim):
    x = load(data)
    at, i, path = _spot(x, rng, 0.25)
    new = rng.choice(names(rng, victim) + ['x'])
    if not isinstance(at, Pairs):
        at[i] = new
    else:
        head, dot, _ = at[i][0].partition('.')
        at[i][0] = head + '.' + new if dot and rng.random() < 0.7 else new
    return _done(x), f'{path} renamed to {new[:40]!r}'


def json_swap(data, rng, victim):
    x = load(data)
    a, i, one = _spot(x, rng)
    b, j, two = _spot(x, rng)
    get = lambda at, i: at[i][1] if isinstance(at, Pairs) else at[i]
    u, v = json.loads(dump(get(a, i))), json.loads(dump(get(b, j)))
    _set(a, i, _pairs(v))
    if b[j : j + 1]:
        _set(b, j, _pairs(u))
    return _done(x), f'{one} and {two} swapped'


def _pairs(x):
    if isinstance(x, dict):
        return Pairs([k, _pairs(v)] for k, v in x.items())
    return [_pairs(v) for v in x] if isinstance(x, list) else x


def json_name(data, rng, victim):
    "Replace a text by a malicious file name"
    x = load(data)
    spots = _texts(x)
    if not spots:
        return json_rename(data, rng, victim)
    at, i, path = rng.choice(spots)
    new = rng.choice(names(rng, victim))
    _set(at, i, new)
    return _done(x), f'{path} set to {new[:40]!r}'


def _texts(x, path=''):
    items = x if isinstance(x, Pairs) else enumerate(x) if isinstance(x, list) else ()
    out = []
    for n, (k, v) in enumerate(items):
        if isinstance(v, str):
            out.append((x, n, f'{path}.{k}'))
        else:
            out += _texts(v, f'{path}.{k}'.removeprefix('.0'))
    return out


def json_form(data, rng, victim):
    forms = {
        'in UTF-16': data.decode().encode('utf-16'),
        'with a byte order mark': b'\xef\xbb\xbf' + data,
        'in Latin-1': data.replace(b'"', '"é'.encode('latin-1'), 1),
        'deep lists': b'[' * DEEP + data + b']' * DEEP,
        'deep lists, not closed': b'[' * DEEP,
        'deep objects': b'{"a":' * DEEP + b'1' + b'}' * DEEP,
        'twice': data + data,
        'in a list': b'[' + data + b']',
        'with a comma': data.rstrip()[:-1] + b',' + data.rstrip()[-1:],
        'as text': json.dumps(data.decode()).encode(),
        'empty object': b'{}',
        'true': b'true',
    }
    name = rng.choice(list(forms))
    return forms[name], f'JSON {name}'


JSON = [
    json_value,
    json_value,
    json_value,
    json_number,
    json_number,
    json_drop,
    json_drop,
    json_double,
    json_rename,
    json_rename,
    json_swap,
    json_name,
    json_form,
    json_form,
]

# ---- CSV


def _rows(data):
    return list(csv.reader(io.StringIO(data.decode())))


def _csv(rows) -> bytes:
    csv.writer(out := io.StringIO(), lineterminator='\n').writerows(rows)
    return out.getvalue().encode('utf-8', 'surrogatepass')


def _at(rows, rng):
    return rng.randrange(1, len(rows)), rng.randrange(len(rows[0]))


CELLS = [
    '1_0',
    '',
    'nan',
    'NaN',
    'inf',
    '-inf',
    '1e999',
    '-5',
    '1e12',
    '99',
    '٣',
    ' 1',
    '0x10',
    '1,5',
    '"',
    'true',
    'whatever',
    '=1+1',
    '1e-400',
    '1.0',
    '+7',
    '0007',
    'None',
    'x' * 1_000_000,
    '9' * 400,
]


def csv_cell(data, rng, victim):
    rows = _rows(data)
    r, c = _at(rows, rng)
    rows[r][c] = new = rng.choice(CELLS)
    return _csv(rows), f'line {r + 1}, column {rows[0][c]!r}: {new[:20]!r}'


def csv_number(data, rng, victim):
    rows = _rows(data)
    spots = [
        (r, c)
        for r, row in enumerate(rows[1:], 1)
        for c, v in enumerate(row)
        if v and v.strip('-').replace('.', '').isdigit()
    ]
    if not spots:
        return csv_cell(data, rng, victim)
    r, c = rng.choice(spots)
    old = rows[r][c]
    rows[r][c] = new = rng.choice(
        [
            old + '0',
            '-' + old,
            old[:1] + '_' + old,
            'nan',
            'inf',
            old + '.5',
            '٣',
            '1e12',
            '',
            '1e999',
            '99',
            f' {old}',
            'x',
        ]
    )
    return _csv(rows), f'line {r + 1}, column {rows[0][c]!r}: {old!r} to {new!r}'


def csv_name(data, rng, victim):
    rows = _rows(data)
    r, c = _at(rows, rng)
    rows[r][c] = new = rng.choice(names(rng, victim))
    return _csv(rows), f'line {r + 1}, column {rows[0][c]!r}: {new[:40]!r}'


def csv_column(data, rng, victim):
    rows = _rows(data)
    c = rng.randrange(len(rows[0]))
    name = rows[0][c]
    what = one_of(rng, 'dropped|doubled|renamed|header dropped|header swapped|added|doubled with other values')
    if what == 'dropped':
        rows = [r[:c] + r[c + 1 :] for r in rows]
    if what == 'doubled':
        rows = [r + r[c : c + 1] for r in rows]
    if what == 'doubled with other values':
        rows = [r + [r[c] if not i else '1'] for i, r in enumerate(rows)]
    if what == 'renamed':
        rows[0][c] = rng.choice(['x', '', name + ' ', name.upper(), '../x'])
    if what == 'header dropped':
        rows = rows[1:]
    if what == 'header swapped':
        d = rng.randrange(len(rows[0]))
        rows[0][c], rows[0][d] = rows[0][d], rows[0][c]
    if what == 'added':
        rows = [r + ['x'] for r in rows]
    return _csv(rows), f'column {name!r} {what}'


def csv_row(data, rng, victim):
    rows = _rows(data)
    r = rng.randrange(1, len(rows))
    what = one_of(
        rng,
        'dropped|doubled|with an extra cell|with a missing cell|empty|all dropped|header repeated|20,000 times|swapped',
    )
    if what == 'dropped':
        del rows[r]
    if what == 'doubled':
        rows.insert(r, rows[r])
    if what == 'with an extra cell':
        rows[r] = rows[r] + ['1']
    if what == 'with a missing cell':
        rows[r] = rows[r][:-1]
    if what == 'empty':
        rows.insert(r, [])
    if what == 'all dropped':
        rows = rows[:1]
    if what == 'header repeated':
        rows.insert(r, rows[0])
    if what == '20,000 times':
        rows[r:r] = [rows[r]] * 20_000
    if what == 'swapped':
        q = rng.randrange(1, len(rows))
        rows[r], rows[q] = rows[q], rows[r]
    return _csv(rows), f'line {r + 1} {what}'


def csv_form(data, rng, victim):
    i = rng.choice([k for k, b in enumerate(data) if b in b',\n'] or [0])
    forms = {
        'in UTF-16': data.decode().encode('utf-16'),
        'with a byte order mark': b'\xef\xbb\xbf' + data,
        'in Latin-1': data + 'é'.encode('latin-1') + b'\n',
        'with semicolons': data.replace(b',', b';'),
        "with Windows' line ends": data.replace(b'\n', b'\r\n'),
        'with an open quote': data[: i + 1] + b'"' + data[i + 1 :],
        'without a final newline': data.rstrip(b'\n'),
        'with a field of 1 MB': data[:i] + b'x' * 1_000_000 + data[i:],
        'with a zero byte': data[:i] + b'\0' + data[i:],
        'only its header': data.split(b'\n')[0] + b'\n',
        'with 100,000 columns': b'x,' * 100_000 + data,
    }
    name = rng.choice(list(forms))
    return forms[name], f'CSV {name}'


CSV = [
    csv_cell,
    csv_cell,
    csv_number,
    csv_number,
    csv_name,
    csv_column,
    csv_column,
    csv_row,
    csv_row,
    csv_form,
    csv_form,
]
