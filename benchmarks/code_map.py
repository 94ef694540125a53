"""Latency of the code map with 100,000 codes in a real JupyterLab: pan, pointer over points, lasso.

    python benchmarks/code_map.py [--most 20000 100000] [--steps 100000] [--smoke]

Prints medians in ms. Headless Chromium renders WebGL in software: a machine with a graphics card is faster. Also prints
the time of a layout: PCA of all steps, t-SNE of a sample (with --tsne N).
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path


ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / 'tests'), str(ROOT)]
from lab import FLAGS, Lab, Server, chromium, of_cells, open_page  # noqa: E402

CELL = """
import numpy as np
from srlviz.core.recordings import Episode, Recording
from srlviz.evaluate.maps import code_map
from srlviz.widgets.maps import CodesExplorer
rng = np.random.default_rng(0)
n, each = {steps}, 1000
film = rng.integers(0, 255, (each, 84, 84, 1), dtype=np.uint8)
place = np.cumsum(rng.standard_normal((n, 2)), 0).reshape(-1, each, 2).astype('f4')
home = Recording([Episode(dict(frame=film), factors=dict(x=p[:, 0], y=p[:, 1])) for p in place], name='home')
codes = [p @ rng.standard_normal((2, 32)) + rng.standard_normal((each, 32)) for p in place]
explorer = CodesExplorer(code_map(codes), home, factor='x', max_points={most})
explorer
"""
PLOT = '.srlviz-codes-explorer .js-plotly-plot'
FRAME = 'async () => { await new Promise(requestAnimationFrame); await new Promise(requestAnimationFrame) }'


def timed(act) -> float:
    began = time.perf_counter()
    act()
    return 1000 * (time.perf_counter() - began)


def hands(page, lab) -> dict[str, float]:
    "Median ms of the steps of a pan, of cards under the pointer, and of a lasso"
    plot = page.locator(PLOT).first
    plot.scroll_into_view_if_needed()
    page.wait_for_timeout(1500)
    points = plot.evaluate(
        """g => { const r = g.getBoundingClientRect(), l = g._fullLayout, t = g._fullData[0], n = t.x.length;
            return [...Array(60).keys()].map(k => Math.floor(n * (k + .5) / 60)).map(i =>
                [r.left + l.xaxis._offset + l.xaxis.c2p(t.x[i]), r.top + l.yaxis._offset + l.yaxis.c2p(t.y[i])]) }"""
    )
    nothing = statistics.median(timed(lambda: page.evaluate(FRAME)) for _ in range(10))
    view, over = page.locator('.srlviz-codes-explorer .srlviz-plot').first, []
    for x, y in points[:25]:
        before = view.get_attribute('data-card')
        page.mouse.move(x, y)
        began = time.perf_counter()
        wait = "([e, b]) => e.dataset.card !== b"
        try:
            page.wait_for_function(wait, arg=[view.element_handle(), before], timeout=3000, polling=5)
            over.append(1000 * (time.perf_counter() - began))
        except Exception:  # the point lies under another, which is told already
            continue
    steps = []
    for t in range(1, 16):  # as while a film plays: the ring follows
        ring, began = view.get_attribute('data-ring'), time.perf_counter()
        lab.ask(f'explorer.seek(3, {t})')
        page.wait_for_function("([e, b]) => e.dataset.ring !== b", arg=[view.element_handle(), ring], polling=5)
        steps.append(1000 * (time.perf_counter() - began))
    lab.ask("setattr(explorer, 'drag', 'pan')")
    page.wait_for_timeout(1500)
    x, y = points[30]
    page.mouse.move(x, y)
    page.mouse.down()
    pans = [timed(lambda: (page.mouse.move(x + 3 * k, y + 2 * k), page.evaluate(FRAME))) for k in range(1, 31)]
    page.mouse.up()
    lab.ask("setattr(explorer, 'drag', 'lasso')")
    page.wait_for_timeout(1500)
    drawn = view.get_attribute('data-drawn')
    x, y = points[30]
    page.mouse.move(x - 50, y - 50)
    page.mouse.down()
    for dx, dy in ((50, -50), (50, 50), (-50, 50), (-50, -45)):
        page.mouse.move(x + dx, y + dy, steps=4)
    began = time.perf_counter()
    page.mouse.up()
    page.wait_for_function("([e, b]) => e.dataset.drawn !== b", arg=[view.element_handle(), drawn])
    lasso = 1000 * (time.perf_counter() - began)
    chosen = lab.ask('len(explorer.steps)')
    said = dict(pan=statistics.median(pans), two_empty_frames=nothing, slowest_pan=max(pans))
    said |= dict(hover=statistics.median(over), hovers=len(over), step=statistics.median(steps))
    return said | dict(lasso=lasso, chosen=chosen)


def browsed(steps: int, most: int) -> dict[str, float]:
    from playwright.sync_api import sync_playwright

    server = Server(Path(tempfile.mkdtemp()))
    lab = Lab(server, 'map', of_cells(CELL.format(steps=steps, most=most).strip()), '')
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
            return hands(open_page(browser, lab), lab)
    finally:
        server.close()


def laid_out(n: int, how: str, steps: int = 100_000):
    import numpy as np

    from srlviz.evaluate.maps import code_map

    rng = np.random.default_rng(0)
    places = np.repeat(rng.standard_normal((100, 64)) * 3, steps // 100, 0)
    codes = rng.standard_normal((steps, 64)).astype('f4') + places
    began = time.perf_counter()
    made = code_map([codes], how, n=n, progress=False)
    print(f'{how} of {steps:,} x 64: {time.perf_counter() - began:.1f} s; {made.description}', flush=True)


if __name__ == '__main__':
    a = argparse.ArgumentParser(description=__doc__)
    a.add_argument('--steps', type=int, default=100_000)
    a.add_argument('--most', type=int, nargs='*', default=[20_000, 100_000])
    a.add_argument('--tsne', type=int, default=0)
    a.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    a = a.parse_args()
    if a.smoke:
        a.steps, a.most = 20_000, [20_000]
    laid_out(3, 'pca', min(a.steps, 100_000))
    if a.tsne:
        laid_out(a.tsne, 'tsne')
    for most in a.most:
        said = browsed(a.steps, most)
        print(f'{a.steps:,} steps, {most:,} drawn:', ', '.join(f'{k} {v:.0f}' for k, v in said.items()), flush=True)
