"""Latency from a click to the updated view in a real JupyterLab: milliseconds, and bytes over the wire.

python benchmarks/latency.py [--only FrameBrowser] [--presses 20]

The page itself timestamps each click and the resulting change, so round trips of the test are not included. Close all
other programs: a second process on two cores doubles the times.
"""

import argparse
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests'))

from support.lab import FLAGS, Lab, Server, chromium, wait_idle, notebook_of, open_page

CLOCK = """([selector, attribute, k]) => {
    const target = [...document.querySelectorAll(selector)][k];
    const clock = globalThis.clock = { pressed: null, seen: null };
    const before = target.getAttribute(attribute);
    const note = () => { clock.pressed ??= performance.now(); };
    for (const what of ['pointerdown', 'keydown', 'change'])
        document.addEventListener(what, note, { capture: true, once: true });
    const watch = new MutationObserver(() => {
        if (clock.pressed === null || clock.seen !== null || target.getAttribute(attribute) === before) return;
        clock.seen = performance.now();
        watch.disconnect();
    });
    watch.observe(target, { attributes: true, attributeFilter: [attribute] });
}"""


class Gesture(NamedTuple):
    """A click and the attribute in which its effect shows.

    `press(page, k)` clicks for the k-th time; `target` is the selector, number and attribute that change.
    """

    widget: str
    name: str
    press: Callable
    target: tuple[str, int, str]


def count(page, wire: dict):
    "Count the bytes that the page's sockets transfer"

    def add(data):
        wire['bytes'] += len(data)

    page.on('websocket', lambda ws: (ws.on('framereceived', add), ws.on('framesent', add)))


def measure(page, wire: dict, gesture: Gesture, presses: int) -> tuple[list[float], list[int]]:
    "Milliseconds and bytes of each click that changed something, without the first"
    times, sizes = [], []
    selector, k, attribute = gesture.target
    gesture.press(page, 0)
    page.wait_for_timeout(2000)
    for i in range(1, presses + 1):
        wait_idle(page)
        page.wait_for_timeout(300)
        start = wire['bytes']
        page.evaluate(CLOCK, [selector, attribute, k])
        gesture.press(page, i)
        try:
            page.wait_for_function('() => globalThis.clock.seen !== null', timeout=10_000)
        except Exception:
            print(f'{gesture.widget}, {gesture.name}: press {i} changed nothing in 10 s', flush=True)
            continue
        times.append(page.evaluate('() => clock.seen - clock.pressed'))
        wait_idle(page)
        sizes.append(wire['bytes'] - start)
    return times, sizes


def on_cell(selector: str, *cells: tuple[float, float]) -> Callable:
    "Click on positions of a plot, as fractions of its width and height; the next one for each click"

    def press(page, i):
        plot = page.locator(selector).first
        x, y = plot.evaluate(
            """(g, [a, b]) => {
                const r = g.getBoundingClientRect(), s = g._fullLayout._size;
                return [r.left + s.l + a*s.w, r.top + s.t + b*s.h];
            }""",
            list(cells[i % len(cells)]),
        )
        page.mouse.move(x, y)
        page.wait_for_timeout(120)
        page.mouse.click(x, y)

    return press


def choose(selector: str, name: str) -> Callable:
    "Choose the next entry of a menu"

    def press(page, i):
        label = page.locator(f'label:text-is("{name}")')
        menu = page.locator(f'{selector} .widget-dropdown:visible').filter(has=label).locator('select').first
        now, n = menu.evaluate('m => [m.selectedIndex, m.options.length]')
        menu.select_option(index=(now + 1) % n)

    return press


def slide(page, i):
    "Click on the slider of a player"
    box = page.locator('.srlviz-player input[type=range]').first.bounding_box()
    page.mouse.click(box['x'] + box['width'] * (0.2, 0.8, 0.4, 0.6)[i % 4], box['y'] + box['height'] / 2)


def cell(page, i):
    "Click on one of two cells of srlviz in a heat map"
    x, y = page.locator('.srlviz-plot .js-plotly-plot').first.evaluate(
        """(g, i) => {
            const d = g.data[0].customdata, r = g.getBoundingClientRect(), l = g._fullLayout, places = [];
            const middle = (e, k) => (e[k] + e[k + 1])/2;
            const ours = c => c[1] !== 'mean' && c[2] === 'srlviz';
            d.forEach((row, a) => row.forEach((c, b) => { if (ours(c)) places.push([a, b]); }));
            const [a, b] = places[i % 2], f = g._fullData[0];
            const x = l.xaxis._offset + l.xaxis.c2p(middle(f.x, b)), y = l.yaxis._offset + l.yaxis.c2p(middle(f.y, a));
            return [r.left + x, r.top + y];
        }""",
        i,
    )
    page.mouse.move(x, y)
    page.wait_for_timeout(120)
    page.mouse.click(x, y)


def next_row(page, i):
    "Click on a row of the list"
    page.locator('.srlviz-fleet .srlviz-item').nth(i % 2).click()


PONG = """from srlviz.core.files import sample_path
from srlviz.core.recordings import align, load_recording
from srlviz.core.scores import load_scores, merge_scores, paper_scores
recording = load_recording(sample_path('pong_sample.npz')).with_split(probe=.5, valid=.2, test=.3)
"""
WIDGETS = {
    'FrameBrowser': PONG + 'from srlviz.widgets.frame_browser import FrameBrowser\nFrameBrowser(recording)',
    'ProbeHeatmap': PONG
    + """from srlviz.encoders.baselines import Majority, RandomCNN
from srlviz.evaluate.probe import linear_probe
from srlviz.widgets.probe_heatmap import ProbeHeatmap
results = {}
for name, encoder in (('majority', Majority()), ('random_cnn', RandomCNN())):
    codes, factors = align(encoder.fit(recording).encode(recording), recording)
    results[name] = linear_probe(codes, factors, epochs=20, label=name)
of = dict(study='atari', task='pong', data='random', inputs='frames')
ours = [result.scores(method=name, **of) for name, result in results.items()]
ProbeHeatmap(merge_scores(*ours, paper_scores('atari')), results, recording, paper=['majority', 'st_dim'])""",
    'AtariDashboard': PONG
    + 'from srlviz.widgets.atari.dashboard import AtariDashboard\n'
    + "AtariDashboard(load_scores(sample_path('atari_scores.csv')))",
    'RAMExplorer': 'from srlviz.envs.ram import RAMLab\nfrom srlviz.widgets.atari.ram_explorer import RAMExplorer\n'
    + "RAMExplorer(RAMLab('pong'))",
    'EnvironmentExplorer': 'from srlviz.widgets.agents.environment_explorer import EnvironmentExplorer\n'
    + "EnvironmentExplorer('HigherLower-easy')",
    'MemoryExplorer': 'from srlviz.memories.recurrent import GRU\n'
    + 'from srlviz.evaluate.memories.recall import saliency\n'
    + 'from srlviz.widgets.agents.memory_explorer import MemoryExplorer\n'
    + 'MemoryExplorer(dict(GRU=GRU), saliency=saliency)',
    'FleetBrowser': 'from srlviz.core.files import sample_path\nfrom srlviz.data.landing import read_flights\n'
    + 'from srlviz.widgets.landing.flight_browser import FleetBrowser\n'
    + "FleetBrowser(read_flights(sample_path('landings')))",
}
PLOT, PLAYER = '.srlviz-plot', '.srlviz-player'
ACROSS = [(x, 0.5) for x in (0.2, 0.8, 0.35, 0.65, 0.5)]
GESTURES = [
    Gesture('FrameBrowser', 'slider to frame', slide, (PLAYER, 0, 'data-frame')),
    Gesture(
        'FrameBrowser',
        'press in the strip to frame',
        on_cell(f'{PLOT} .js-plotly-plot', *ACROSS),
        (PLAYER, 0, 'data-frame'),
    ),
    Gesture('ProbeHeatmap', 'factor to trace', choose('.srlviz-probe-heatmap', 'Factor'), (PLOT, 1, 'data-drawn')),
    Gesture('ProbeHeatmap', 'cell to trace', cell, (PLOT, 1, 'data-drawn')),
    Gesture('AtariDashboard', 'game to heat map', choose('.srlviz-dashboard', 'Game'), (PLOT, 2, 'data-drawn')),
    Gesture('RAMExplorer', 'byte to picture', choose('.srlviz-ram-explorer', 'Byte'), (PLOT, 0, 'data-drawn')),
    Gesture(
        'EnvironmentExplorer',
        'strip to picture',
        on_cell(f'{PLOT} .js-plotly-plot', *ACROSS),
        (PLAYER, 0, 'data-frame'),
    ),
    Gesture('MemoryExplorer', 'step to weights', on_cell(f'{PLOT} .js-plotly-plot', *ACROSS), (PLOT, 2, 'data-drawn')),
    Gesture('FleetBrowser', 'row to flight', next_row, (PLOT, 0, 'data-drawn')),
]


def table(only: str, presses: int) -> tuple[int, int]:
    "Print a line for each gesture; return how many clicks changed nothing, and how many there were"
    from playwright.sync_api import sync_playwright

    missed = 0
    clicks = 0
    print(f'{"widget":20} {"gesture":30} {"median ms":>9} {"95th":>6} {"bytes":>9}', flush=True)
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
        for widget, code in WIDGETS.items():
            if only in widget:
                for gesture, times, sizes in measure_widget(browser, widget, code, presses):
                    missed += presses - len(times)
                    clicks += presses
                    if len(times) < 2:
                        continue
                    median, percentile_95 = statistics.median(times), statistics.quantiles(times, n=20)[-1]
                    size = statistics.median(sizes)
                    print(f'{widget:20} {gesture.name:30} {median:9.0f} {percentile_95:6.0f} {size:9,.0f}', flush=True)
    return missed, clicks


def measure_widget(browser, widget: str, code: str, presses: int):
    "Open a widget in a new JupyterLab and measure its gestures"
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        server = Server(Path(folder))
        lab = Lab(server, 'cells', notebook_of(code), '')
        try:
            wire = dict(bytes=0)
            page = open_page(browser, lab, before=lambda page: count(page, wire))
            page.wait_for_timeout(5000)  # until the stored picture is drawn
            for gesture in GESTURES:
                if gesture.widget == widget:
                    yield gesture, *measure(page, wire, gesture, presses)
            page.close()
        finally:
            server.close()


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('--only', default='')
    parser.add_argument('--presses', type=int, default=20)
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.presses = 2
        args.only = args.only or next(iter(WIDGETS))
    missed, clicks = table(args.only, args.presses)
    if missed == clicks or missed and not args.smoke:  # a busy machine loses some
        sys.exit(f'{missed} of {clicks} clicks changed nothing')
