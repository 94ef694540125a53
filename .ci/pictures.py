"""Execute tutorials, studies and lessons, and store the outputs that a forge can show: printed lines, tables, PNGs.

.ci/pictures.py [NAME ...]       all notebooks, or those named; needs kaleido and Chromium
.ci/pictures.py --check          list notebooks that changed since (standard library only)

The metadata of a notebook contain a hash of the code that made its pictures. Plotly's JSON, which no forge draws, and
stderr are left out.
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
    "Return a hash of the code of a notebook; prose may change without new pictures"
    code = [''.join(c['source']) for c in nb['cells'] if c['cell_type'] == 'code']
    return hashlib.sha256(json.dumps(code).encode()).hexdigest()[:16]


def stale(root) -> list[str]:
    "Return messages about notebooks whose pictures are missing or outdated"
    messages = []
    for p in notebooks(root):
        nb = json.loads(p.read_text(encoding='utf-8'))
        stored = nb['metadata'].get('srlviz', {}).get('pictures')
        if stored is None:
            messages.append(f'{p.relative_to(root)} has no pictures: run make pictures')
        elif stored != fingerprint(nb):
            messages.append(f'{p.relative_to(root)} changed after its pictures were made: run make pictures')
    return messages


def compress_png(data: str) -> str:
    "Reduce the colours of a PNG, in base64; exit if it is still too large"
    from srlviz.figures.pictures import MAX_PNG_BYTES, palette_png

    png = palette_png(base64.b64decode(data))
    if len(png) > MAX_PNG_BYTES:
        sys.exit(f'a picture of {len(png):,} bytes, more than {MAX_PNG_BYTES:,}')
    return base64.b64encode(png).decode()


def storable(output, name: str):
    "Return the part of an output that is stored; None if there is none"
    kind = output['output_type']
    if kind == 'stream':
        text = ''.join(output['text'])
        return dict(output_type=kind, name='stdout', text=text) if output['name'] == 'stdout' else None
    displayed = output['data']
    data = {k: displayed[k] if k == 'image/png' else ''.join(displayed[k]) for k in KINDS if k in displayed}
    if any('plotly' in k or 'widget' in k for k in displayed) and 'image/png' not in data:
        sys.exit(f'{name}: no PNG of {data.get("text/plain", "an output")}')
    if 'image/png' in data:
        data = {'image/png': compress_png(data['image/png']), 'text/plain': data.get('text/plain', 'a picture')}
    if 'text/html' in data:  # styled tables have random names
        names = dict.fromkeys(re.findall(r'id="T_([0-9a-f]+)', data['text/html']))
        for i, random_name in enumerate(names):
            data['text/html'] = data['text/html'].replace(f'T_{random_name}', f'T_{i}')
    result = dict(execution_count=None) if kind == 'execute_result' else {}
    return dict(output_type=kind, metadata={}, data=data) | result


def refuse_paths(outputs, name: str) -> None:
    "Exit if an output contains a path of this machine"
    text = json.dumps([{k: v for k, v in o.get('data', o).items() if k != 'image/png'} for o in outputs])
    for folder in {str(ROOT), str(Path.home()), tempfile.gettempdir()} - {'/'}:
        if folder in text:
            sys.exit(f'{name}: an output names {folder}')


def parameters_output(parameters):
    "Return an output that lists the parameters set for the pictures"
    settings = ', '.join(f'{k} = {v!r}' for k, v in parameters.items())
    text = f'The pictures below were made with {settings}.'
    return dict(output_type='display_data', metadata={}, data={'text/plain': text})


def picture(path: Path) -> None:
    "Execute a notebook and store its outputs in it; print the time and the size"
    from srlviz.studies.run import run_study

    os.environ['SRLVIZ_SOLVED'] = '1'  # a wrong solution is an error
    name = path.stem
    start = time.time()
    parameters = {k: str(ROOT / v) if k == 'path' else v for k, v in SMALL.get(name, {}).items()}
    notebook = run_study(path, parameters, RUNS / name, progress=False)
    sizes = store_outputs(path, notebook)
    print(
        f'  {name:20} {time.time() - start:4.0f} s  {path.stat().st_size / 1e3:6,.0f} kB  {len(sizes):2} pictures, '
        f'the largest {max(sizes, default=0) / 1e3:.0f} kB',
        flush=True,
    )


def store_outputs(path: Path, executed: Path) -> list[int]:
    "Copy the outputs of an executed notebook to its source; return the sizes of the pictures"
    name = path.stem
    parameters = SMALL.get(name)
    executed_cells = {c.get('id'): c for c in json.loads(executed.read_text(encoding='utf-8'))['cells']}
    nb = json.loads(path.read_text(encoding='utf-8'))
    for cell in (c for c in nb['cells'] if c['cell_type'] == 'code'):
        outputs = [storable(o, name) for o in executed_cells[cell['id']]['outputs']]
        cell['outputs'] = [o for o in outputs if o]
        refuse_paths(cell['outputs'], name)
        if parameters and 'parameters' in cell['metadata'].get('tags', []):
            cell['outputs'] = [parameters_output(parameters)]
    nb['metadata']['srlviz'] = dict(pictures=fingerprint(nb))
    path.write_text(json.dumps(nb, indent=1, ensure_ascii=False, sort_keys=True) + '\n', encoding='utf-8')
    displayed = [o.get('data', {}) for c in nb['cells'] for o in c.get('outputs', [])]
    return [len(data['image/png']) * 3 // 4 for data in displayed if 'image/png' in data]


def main(names):
    import plotly.graph_objects as go
    from srlviz.figures.pictures import figure_png

    unknown = set(names) - {p.stem for p in notebooks(ROOT)}
    if unknown:
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
