"""Execute tutorials, studies and lessons, and store the outputs that a forge can show: printed lines, tables, PNGs.

.ci/pictures.py [NAME ...]       all notebooks, or those named; needs kaleido and Chromium
.ci/pictures.py --check          list those that changed since (standard library only)

The metadata of a notebook hold a hash of the code of its pictures. Plotly's JSON, which no forge draws, and stderr are
left out.
"""

import base64, hashlib, json, os, re, sys, tempfile, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUNS = ROOT / 'runs' / 'pictures'  # output folders, kept so that a second run is faster
KINDS = ('image/png', 'text/html', 'text/markdown', 'text/plain')
# Cheaper parameters for slow notebooks; an output below the parameters lists them.
SMALL = dict(
    atari_ablations=dict(scores='shipped', games='all'),
    atari_probe=dict(encoder_frames=4000, probe_frames=8000, epochs=4, probe_epochs=40),
    atari_tables=dict(scores='shipped', games='all'),
    cross_evaluation=dict(scores='shipped'),
    landing_benchmark=dict(scores='shipped'),
    landing_dataset=dict(path='data_samples/landings', clean=12),
    popgym_memories=dict(methods='MLP,Elman,GRU,FFM,S4D', tasks='first,copy', steps=60, runs=3),
    popgym_mmer=dict(scores='shipped'),
    popgym_tasks=dict(episodes=200, oracle_episodes=10),
)


def notebooks(root):
    return [p for d in ('tutorials', 'studies', 'course') for p in sorted((root / 'nbs' / d).glob('*.ipynb'))]


def fingerprint(nb) -> str:
    "A hash of the code of a notebook; prose may change without new pictures"
    code = [''.join(c['source']) for c in nb['cells'] if c['cell_type'] == 'code']
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def stale(root) -> list[str]:
    "Messages about notebooks whose pictures are missing or of other code"
    found = []
    for p in notebooks(root):
        nb = json.loads(p.read_text(encoding='utf-8'))
        of = nb['metadata'].get('srlviz', {}).get('pictures')
        if of is None:
            found.append(f'{p.relative_to(root)} has no pictures: run make pictures')
        elif of != fingerprint(nb):
            found.append(f'{p.relative_to(root)} changed after its pictures were made: run make pictures')
    return found


def packed(data: str) -> str:
    "A PNG with few colours, in base64"
    from srlviz.figures.pictures import MAX_PNG_BYTES, palette_png

    png = palette_png(base64.b64decode(data))
    if len(png) > MAX_PNG_BYTES:
        sys.exit(f'a picture of {len(png):,} bytes, more than {MAX_PNG_BYTES:,}')
    return base64.b64encode(png).decode()


def kept(output, name: str):
    "The part of an output that is stored; None if there is none"
    kind = output['output_type']
    if kind == 'stream':
        text = ''.join(output['text'])
        return dict(output_type=kind, name='stdout', text=text) if output['name'] == 'stdout' else None
    shown = output['data']
    data = {k: shown[k] if k == 'image/png' else ''.join(shown[k]) for k in KINDS if k in shown}
    if any('plotly' in k or 'widget' in k for k in shown) and 'image/png' not in data:
        sys.exit(f'{name}: no PNG of {data.get("text/plain", "an output")}')
    if 'image/png' in data:
        data = {'image/png': packed(data['image/png']), 'text/plain': data.get('text/plain', 'a picture')}
    if 'text/html' in data:  # a styled table is named by chance
        names = dict.fromkeys(re.findall(r'id="T_([0-9a-f]+)', data['text/html']))
        for i, chance in enumerate(names):
            data['text/html'] = data['text/html'].replace(f'T_{chance}', f'T_{i}')
    result = dict(execution_count=None) if kind == 'execute_result' else {}
    return dict(output_type=kind, metadata={}, data=data) | result


def refuse_paths(outputs, name: str) -> None:
    "Exit if an output contains a path of this machine"
    words = json.dumps([{k: v for k, v in o.get('data', o).items() if k != 'image/png'} for o in outputs])
    for place in {str(ROOT), str(Path.home()), tempfile.gettempdir()} - {'/'}:
        if place in words:
            sys.exit(f'{name}: an output names {place}')


def remark(parameters):
    "An output below the parameters that lists those set for the pictures"
    words = ', '.join(f'{k} = {v!r}' for k, v in parameters.items())
    text = f'The pictures below were made with {words}.'
    return dict(output_type='display_data', metadata={}, data={'text/plain': text})


def picture(path: Path) -> None:
    "Execute a notebook and store its outputs in it; print the time and the size"
    from srlviz.studies.run import run_study

    os.environ['SRLVIZ_SOLVED'] = '1'  # a solution that does not hold is an error
    name, began = path.stem, time.time()
    parameters = {k: str(ROOT / v) if k == 'path' else v for k, v in SMALL.get(name, {}).items()}
    notebook = run_study(path, parameters, RUNS / name, progress=False)
    sizes = keep(path, notebook)
    print(
        f'  {name:20} {time.time() - began:4.0f} s  {path.stat().st_size / 1e3:6,.0f} kB  {len(sizes):2} pictures, '
        f'the largest {max(sizes, default=0) / 1e3:.0f} kB',
        flush=True,
    )


def keep(path: Path, done: Path) -> list[int]:
    "Copy the outputs of an executed notebook to its source; return the sizes of the pictures"
    name, given = path.stem, SMALL.get(path.stem)
    ran = {c.get('id'): c for c in json.loads(done.read_text(encoding='utf-8'))['cells']}
    nb = json.loads(path.read_text(encoding='utf-8'))
    for cell in (c for c in nb['cells'] if c['cell_type'] == 'code'):
        cell['outputs'] = [o for o in (kept(o, name) for o in ran[cell['id']]['outputs']) if o]
        refuse_paths(cell['outputs'], name)
        if given and 'parameters' in cell['metadata'].get('tags', []):
            cell['outputs'] = [remark(given)]
    nb['metadata']['srlviz'] = dict(pictures=fingerprint(nb))
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True) + '\n', encoding='utf-8')
    shown = [o.get('data', {}) for c in nb['cells'] for o in c.get('outputs', [])]
    return [len(data['image/png']) * 3 // 4 for data in shown if 'image/png' in data]


def main(names):
    import plotly.graph_objects as go
    from srlviz.figures.pictures import figure_png

    if unknown := set(names) - {p.stem for p in notebooks(ROOT)}:
        sys.exit(f'no tutorial or study is called {", ".join(sorted(unknown))}')
    if figure_png(go.Figure(go.Bar(y=[1]))) is None:
        sys.exit('Pictures need kaleido (pip install kaleido) and Chromium (on the path, or named by CHROMIUM).')
    for p in notebooks(ROOT):
        if not names or p.stem in names:
            picture(p)


if __name__ == '__main__':
    if '--check' in sys.argv:
        sys.exit('\n'.join(stale(ROOT)) or 0)
    main(sys.argv[1:])
