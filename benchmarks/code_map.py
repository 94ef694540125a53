"""Latency of the map of codes with 100,000 points.

    python benchmarks/code_map.py [--most 20000 100000] [--steps 100000] [--smoke]

First in a separate page without a kernel: the map of `CodeScatter` against the plotly figure that it replaced,
alternating in one run: pan, and select a quarter of the points. A frame counts as drawn when a pixel of it was read
back. Then in a real JupyterLab: pan, pointer over points, lasso, and the ring that follows a film. Prints medians in
ms. Headless Chromium renders WebGL in software: a machine with a graphics card is faster. Also prints the time of a
layout: PCA of all steps, t-SNE of a sample (with --tsne N).
"""

import argparse
import functools
import http.server
import json
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path


ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT)]
from support.lab import FLAGS, Lab, Server, chromium, notebook_of, open_page  # noqa: E402

CELL = """
import numpy as np
from srlviz.core.recordings import Episode, Recording
from srlviz.evaluate.maps import code_map
from srlviz.widgets.codes_explorer import CodesExplorer
rng = np.random.default_rng(0)
n_steps, length = {steps}, 1000
film = rng.integers(0, 255, (length, 84, 84, 1), dtype=np.uint8)
paths = np.cumsum(rng.standard_normal((n_steps, 2)), 0).reshape(-1, length, 2).astype('f4')
episodes = [Episode(dict(frame=film), factors=dict(x=p[:, 0], y=p[:, 1])) for p in paths]
recording = Recording(episodes, name='home')
codes = [p @ rng.standard_normal((2, 32)) + rng.standard_normal((length, 32)) for p in paths]
explorer = CodesExplorer(code_map(codes), recording, factor='x', max_points={max_points})
explorer
"""
STAGE, VIEW = '.srlviz-codes-explorer .srlviz-scatter-stage', '.srlviz-codes-explorer .srlviz-scatter'
FRAME = 'async () => { await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame) }'
READ = """async kind => {
    await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame);
    const small = window.small ??= Object.assign(document.createElement('canvas'), { width: 8, height: 8 });
    const pen = small.getContext('2d');
    for (const one of document.querySelectorAll(`#${kind} canvas`)) if (one.width) pen.drawImage(one, 0, 0, 8, 8);
    return pen.getImageData(0, 0, 8, 8).data.reduce((a, b) => a + b, 0);
}"""
PAGE = """<!doctype html><meta charset=utf8><link rel=stylesheet href=all.css>
<style>body { margin: 0 } #new, #old { width: 800px }</style>
<body data-jp-theme-light=true><div id=new></div><div id=old></div>
<script src="plotly.js"></script><script type=module>
const given = { plotly: Promise.resolve(Plotly), scatterplot: import('./vendor.js') };
globalThis.__srlviz = { libraries: Object.fromEntries(Object.entries(given).map(([k, ready]) => [k, { ready }])) };
const bytes = async name => new DataView(await (await fetch(name)).arrayBuffer());
function modelOf(state) {
    const on = {};
    return {
        get: k => state[k], set(k, v) { state[k] = v; (on['change:' + k] ?? []).forEach(f => f()) },
        on(k, f) { (on[k] ??= []).push(f) }, off() {}, send() {}, save_changes() {},
        widget_manager: { loadClass: async () => class { _handle_comm_msg() {} } },
    };
}
const state = await (await fetch('new.json')).json();
for (const k of ['points', 'ids', 'colour', 'chosen', 'quarter', 'eighth']) state[k] = await bytes(k);
window.models = { new: modelOf(state), old: modelOf(await (await fetch('old.json')).json()) };
for (const [k, model] of Object.entries(models))
    (await import(`./${k}.js`)).default.render({ model, el: document.getElementById(k) });
window.drawn = k => +document.querySelector(`#${k} > div`).dataset.drawn || 0;
window.choose = async (k, what) => {
    const before = drawn(k), model = models[k], began = performance.now();
    model.set(k === 'new' ? 'chosen' : 'fig_json', model.get(what));
    while (drawn(k) === before) await new Promise(requestAnimationFrame);
    return began;
};
window.ready = true;
</script>"""


def milliseconds(action) -> float:
    """Return the wall time of a call in ms."""
    start = time.perf_counter()
    action()
    return 1000 * (time.perf_counter() - start)


def plain_state(view) -> dict:
    """Return the traits of a widget that JSON can store; the page receives the others as bytes."""
    return {k: v for k, v in view.get_state().items() if isinstance(v, (str, bool, int, float, list, dict, type(None)))}


def write_page(folder: Path, n: int):
    """Write a page with both maps of n points, and of a selected quarter and eighth of them."""
    import numpy as np
    import plotly

    from srlviz.core.recordings import Episode, Recording
    from srlviz.core.views.steps import Steps
    from srlviz.evaluate.maps import code_map
    from srlviz.figures.code_maps import MapColumns, plot_code_map
    from srlviz.widgets.base import asset
    from srlviz.widgets.codes_explorer import CodesExplorer
    from srlviz.widgets.scatter import CodeScatter
    from srlviz.widgets.views import PlotView

    rng = np.random.default_rng(0)
    codes = 0.25 * rng.standard_normal((n, 2))
    recording = Recording([Episode(dict(vector=codes.astype('f4')), factors=dict(x=rng.random(n)))])
    layout = code_map([codes], norm='none', progress=False)
    order = np.argsort(np.abs(np.arctan2(*(layout.xy - np.median(layout.xy, 0)).T)))
    explorer = CodesExplorer(layout, recording, factor='x', max_points=n, interactive=True)
    view, column = explorer.pane.view, MapColumns(recording)['x']
    columns = {k: getattr(view, k) for k in ('points', 'ids', 'colour', 'chosen')}
    old = plain_state(PlotView())
    for name, share in dict(fig_json=0, quarter=4, eighth=8).items():
        steps = Steps(np.zeros(n // share, int), order[: n // share]) if share else None
        if share:
            view.show_chosen(steps.mask(layout.episode, layout.t))
            columns[name] = view.chosen
        figure = plot_code_map(layout, column, steps=steps, max_points=n, drag='pan', height=440)
        old[name] = PlotView(figure).fig_json
    for name, part in columns.items():
        (folder / name).write_bytes(part)
    for name, state in dict(old=old, new=plain_state(view) | dict(mode='pan')).items():
        (folder / f'{name}.json').write_text(json.dumps(state))
    texts = dict(
        [
            ('new.js', CodeScatter._esm),
            ('old.js', PlotView._esm),
            ('all.css', f'{CodeScatter._css}{PlotView._css}'),
            ('vendor.js', asset('vendor/regl_scatterplot.js')),
            ('plotly.js', (Path(plotly.__file__).parent / 'package_data/plotly.min.js').read_text(encoding='utf-8')),
            ('page.html', PAGE),
        ]
    )
    for name, text in texts.items():
        (folder / name).write_text(text, encoding='utf-8')


def compare_maps(page, rounds: int = 3) -> dict[str, dict[str, float]]:
    """Return median ms of a pan and of selecting a quarter, for the new and the old map, alternating."""
    times = {kind: dict(pan=[], select=[]) for kind in ('new', 'old')}
    empty_frames = [milliseconds(lambda: page.evaluate(FRAME)) for _ in range(10)]
    for _ in range(rounds):
        for kind, samples in times.items():
            canvas = page.locator(f'#{kind} canvas').first
            canvas.scroll_into_view_if_needed()
            box = canvas.bounding_box()
            x, y = box['x'] + 300, box['y'] + 200
            page.mouse.move(x, y)
            page.mouse.down()
            for k in range(1, 13):
                step = milliseconds(lambda: (page.mouse.move(x + 3 * k, y + 2 * k), page.evaluate(READ, kind)))
                samples['pan'].append(step)
            page.mouse.up()
            page.mouse.move(2, 2)
            page.evaluate(FRAME)
            for share in ('quarter', 'eighth', 'quarter'):
                elapsed = page.evaluate(
                    f'async ([kind, what]) => {{ const began = await choose(kind, what); await ({READ})(kind);'
                    ' return performance.now() - began }',
                    [kind, share],
                )
                if share == 'quarter':
                    samples['select'].append(elapsed)
    medians = {kind: {k: statistics.median(v) for k, v in samples.items()} for kind, samples in times.items()}
    return medians | dict(empty=dict(two_frames=statistics.median(empty_frames)))


def time_page(n: int):
    """Print the median ms of both maps in a page without a kernel."""
    from playwright.sync_api import sync_playwright

    folder = Path(tempfile.mkdtemp())
    write_page(folder, n)
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(folder))
    http.server.SimpleHTTPRequestHandler.log_message = lambda *_: None
    server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
        page = browser.new_page(viewport=dict(width=1400, height=1000))
        page.on('pageerror', lambda e: print('error in the page:', e))
        page.goto(f'http://127.0.0.1:{server.server_port}/page.html')
        page.wait_for_function("window.ready && drawn('new') && drawn('old')", timeout=120_000)
        page.wait_for_timeout(1000)
        for kind, medians in compare_maps(page).items():
            print(f'{n:,} points, {kind}:', ', '.join(f'{k} {v:.0f}' for k, v in medians.items()), flush=True)
        browser.close()
    server.shutdown()


def time_gestures(page, lab) -> dict[str, float]:
    """Return median ms of the steps of a pan, of cards under the pointer, of steps of a film, and of a lasso."""
    stage, view = page.locator(STAGE).first, page.locator(VIEW).first
    stage.scroll_into_view_if_needed()
    page.wait_for_timeout(1500)
    box = stage.bounding_box()
    k, ox, oy = map(float, view.get_attribute('data-view').split(','))
    xy = lab.evaluate('explorer.pane.map.xy[::len(explorer.pane.map) // 60].tolist()')
    points = [(box['x'] + 1 + ox + k * x, box['y'] + 1 + oy - k * y) for x, y in xy]
    empty_frames = statistics.median(milliseconds(lambda: page.evaluate(FRAME)) for _ in range(10))
    hovers = []
    for x, y in points[:25]:
        before = view.get_attribute('data-card')
        page.mouse.move(x, y)
        start = time.perf_counter()
        wait = "([e, b]) => e.dataset.card !== b"
        try:
            page.wait_for_function(wait, arg=[view.element_handle(), before], timeout=3000, polling=5)
            hovers.append(1000 * (time.perf_counter() - start))
        except Exception:  # the same point is nearest
            continue
    steps = []
    for t in range(1, 16):  # the ring follows, as while a film plays
        ring = view.get_attribute('data-ring')
        start = time.perf_counter()
        lab.evaluate(f'explorer.seek(3, {t})')
        page.wait_for_function("([e, b]) => e.dataset.ring !== b", arg=[view.element_handle(), ring], polling=5)
        steps.append(1000 * (time.perf_counter() - start))
    lab.evaluate("setattr(explorer, 'drag', 'pan')")
    page.wait_for_timeout(500)
    x, y = box['x'] + box['width'] / 2, box['y'] + box['height'] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    pans = [milliseconds(lambda: (page.mouse.move(x + 3 * k, y + 2 * k), page.evaluate(FRAME))) for k in range(1, 31)]
    page.mouse.up()
    lab.evaluate("setattr(explorer, 'drag', 'lasso')")
    page.wait_for_timeout(500)
    drawn = view.get_attribute('data-drawn')
    page.mouse.move(x - 90, y - 90)
    page.mouse.down()
    for dx, dy in ((90, -90), (90, 90), (-90, 90), (-90, -85)):
        page.mouse.move(x + dx, y + dy, steps=4)
    start = time.perf_counter()
    page.mouse.up()
    page.wait_for_function("([e, b]) => e.dataset.drawn !== b", arg=[view.element_handle(), drawn], polling=5)
    lasso = 1000 * (time.perf_counter() - start)
    chosen = lab.evaluate('len(explorer.steps)')
    medians = dict(pan=statistics.median(pans), two_empty_frames=empty_frames, slowest_pan=max(pans))
    medians |= dict(hover=statistics.median(hovers), hovers=len(hovers), step=statistics.median(steps))
    return medians | dict(lasso=lasso, chosen=chosen)


def time_lab(steps: int, max_points: int) -> dict[str, float]:
    """Return median ms of gestures in a real JupyterLab."""
    from playwright.sync_api import sync_playwright

    server = Server(Path(tempfile.mkdtemp()))
    lab = Lab(server, 'map', notebook_of(CELL.format(steps=steps, max_points=max_points).strip()), '')
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
            return time_gestures(open_page(browser, lab), lab)
    finally:
        server.close()


def time_layout(n: int, method: str, steps: int = 100_000):
    """Print the seconds of one layout."""
    import numpy as np

    from srlviz.evaluate.maps import code_map

    rng = np.random.default_rng(0)
    centres = np.repeat(rng.standard_normal((100, 64)) * 3, steps // 100, 0)
    codes = rng.standard_normal((steps, 64)).astype('f4') + centres
    start = time.perf_counter()
    layout = code_map([codes], method, n=n, progress=False)
    print(f'{method} of {steps:,} x 64: {time.perf_counter() - start:.1f} s; {layout.description}', flush=True)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--steps', type=int, default=100_000)
    parser.add_argument('--most', type=int, nargs='*', default=[20_000, 100_000], dest='max_points')
    parser.add_argument('--tsne', type=int, default=0)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.steps, args.max_points = 20_000, [20_000]
    time_page(args.steps)
    time_layout(3, 'pca', min(args.steps, 100_000))
    if args.tsne:
        time_layout(args.tsne, 'tsne')
    for max_points in args.max_points:
        medians = ', '.join(f'{k} {v:.0f}' for k, v in time_lab(args.steps, max_points).items())
        print(f'{args.steps:,} steps, {max_points:,} drawn: {medians}', flush=True)
