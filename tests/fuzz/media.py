"""Mutations of images, videos and notebooks."""

import io, json, struct

from .raw import one_of

# ---- images and videos


def picture(data, rng, victim):
    from PIL import Image

    with Image.open(io.BytesIO(data)) as image:
        size = image.size
    what = one_of(rng, 'wider|gray|PNG|GIF of frames|1 pixel|bomb|claims')
    if what == 'claims':
        at = data.find(b'\xff\xc0')
        n = rng.choice([0, 1, 12_000, 65_535])
        return data[: at + 5] + struct.pack('>HH', n, n) + data[at + 9 :], f'claims {n} x {n}'
    size = {
        'wider': (size[0] + 8, size[1]),
        '1 pixel': (1, 1),
        'bomb': rng.choice([(12_000, 12_000), (40_000, 40_000)]),
    }.get(what, size)
    image = Image.new('1' if what == 'bomb' else 'L' if what == 'gray' else 'RGB', size)
    out = io.BytesIO()
    image.save(out, {'PNG': 'PNG', 'bomb': 'PNG', 'GIF of frames': 'GIF'}.get(what, 'JPEG'))
    return out.getvalue(), f'another image: {what}'


def video(data, rng, victim):
    import numpy as np
    from srlviz.core.storage.video import encode_film

    what = one_of(rng, 'short|long|larger|other|claims|claims|claims')
    if what == 'claims':
        boxes = [b'stsz', b'stts', b'stco', b'stsc', b'tkhd', b'mvhd', b'avc1', b'moov', b'mdat', b'ftyp', b'elst']
        at = [(n, i) for n in boxes for i in [data.find(n)] if i > 4]
        name, i = rng.choice(at)
        v = rng.choice([0, 1, 2**31 - 1, 2**32 - 1, 2**30])
        off = rng.choice([-4, 4, 8, 12, 16, 20])
        return data[: i + off] + struct.pack('>I', v) + data[i + off + 4 :], f'{name.decode()}{off:+}: {v}'
    n, size = {'short': (3, 32), 'long': (200, 32), 'larger': (12, 64)}.get(what, (12, 32))
    return encode_film(np.full((n, size, size, 3), 99, np.uint8)), f'another video: {what}'


# ---- notebooks

SOURCES = [
    '<img ' * 20_000,
    '[' * 50_000,
    '*a ' * 30_000,
    '> ' * 5_000 + 'x',
    '#' * 100_000,
    '`' * 50_001,
    '# \x1b[2J\x1b]0;x\x07title',
    '# ' + 'x' * 1_000_000,
    'x = ' + '(' * 5_000 + ')' * 5_000,
    'x: int = 10**10**10',
    'x = """',
    'a = 1 # <img src=x onerror=alert(1)>',
    '<script src="http://x.test/y.js"></script>',
    '![](http://127.0.0.1:9/x.png)',
    '<!--' * 20_000,
    '- ' * 20_000,
    '\\' * 50_000,
    '$' * 50_001,
    '\0',
    'x = 1_0',
    '%%bash\nls',
    '@import url(' * 10_000,
]


def notebook_source(data, rng, victim):
    notebook = json.loads(data)
    i = rng.randrange(len(notebook['cells']))
    source = rng.choice(SOURCES)
    notebook['cells'][i]['source'] = source
    return json.dumps(notebook).encode(), f'source of cell {i}: {source[:30]!r} ({len(source)} characters)'


def notebook_output(data, rng, victim):
    notebook = json.loads(data)
    cells = [c for c in notebook['cells'] if c.get('outputs')]
    output = rng.choice(rng.choice(cells)['outputs'])
    source = rng.choice(SOURCES)
    if 'data' in output:
        k = rng.choice(list(output['data']))
        output['data'][k] = rng.choice(
            [
                source,
                [source],
                7,
                None,
                {'x': 1},
                [1, 2],
                {'data': 7, 'layout': []},
                {'data': [{'type': 'x' * 100}], 'layout': {'title': source}},
            ]
        )
        what = k
    elif 'text' in output:
        output['text'] = rng.choice([source, 7, [source], [1]])
        what = 'text'
    else:
        output['traceback'] = rng.choice([[source], 7, [1], source])
        what = 'traceback'
    return json.dumps(notebook).encode(), f'output {what}: {source[:30]!r}'
