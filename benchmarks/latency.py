"""From a press to the view that answers it, in a real JupyterLab: milliseconds, and bytes over the wire.

python benchmarks/latency.py [--only FrameBrowser] [--presses 20]

The page notes the time of each press and of the change that it leads to, by one clock, so nothing of the test's own
round trips is in the numbers. Close everything else: a second process on two cores doubles them.
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

import nbformat
from lab import FLAGS, Lab, in_step, of_cells, open_page

CLOCK = """([selector, attribute, k]) => {
    const target = [...document.querySelectorAll(selector)][k];
    const clock = globalThis.clock = { pressed: null, seen: null };
    const before = target.getAttribute(attribute);
    const note = () => { clock.pressed ??= performance.now(); };
    for (const what of ['pointerdown', 'keydown', 'change']) document.addEventListener(what, note, { capture: true, once: true });
    const watch = new MutationObserver(() => {
        if (clock.pressed === null || clock.seen !== null || target.getAttribute(attribute) === before) return;
        clock.seen = performance.now();
        watch.disconnect();
    });
    watch.observe(target, { attributes: true, attributeFilter: [attribute] });
}"""


class Gesture(NamedTuple):
    """Something to press, and where its effect is seen.

    `press(page, k)` presses for the k-th time; `target` is the selector, number and attribute that change.
    """

    widget: str
    name: str
    press: Callable
    target: tuple[str, int, str]


def counted(page) -> dict:
    "Count what goes over the page's sockets"
    total = dict(bytes=0)

    def add(data):
        total['bytes'] += len(data)

    page.on('websocket', lambda ws: (ws.on('framereceived', add), ws.on('framesent', add)))
    return total


def measure(page, wire: dict, gesture: Gesture, presses: int) -> tuple[list[float], list[int]]:
    "Milliseconds and bytes of each press"
    times, sizes = [], []
    selector, k, attribute = gesture.target
    for i in range(presses):
        in_step(page)
        page.wait_for_timeout(300)
        start = wire['bytes']
        page.evaluate(CLOCK, [selector, attribute, k])
        gesture.press(page, i)
        page.wait_for_function('() => globalThis.clock.seen !== null', timeout=20_000)
        times.append(page.evaluate('() => clock.seen - clock.pressed'))
        in_step(page)
        sizes.append(wire['bytes'] - start)
    return times, sizes


def on_cell(where: str, *cells: tuple[float, float]) -> Callable:
    "Press on places of a plot, given as parts of its width and height, in turn"

    def press(page, i):
        plot = page.locator(where).first
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


def on(where: str, do: Callable) -> Callable:
    "Do something to the first place of a selector: `do(place, i)`"
    return lambda page, i: do(page.locator(where).first, i)


PONG = """from srlviz.core.files import sample_path
from srlviz.core.recordings import load_recording
recording = load_recording(sample_path('pong_sample.npz'))
"""
WIDGETS = {
    'FrameBrowser': PONG + 'from srlviz.widgets.frames import FrameBrowser\nFrameBrowser(recording)',
    'ProbeHeatmap': PONG
    + """from srlviz.core.recordings import align
from srlviz.encoders.baselines import Majority
from srlviz.encoders.frames import RandomCNN
from srlviz.evaluate.probe import linear_probe
from srlviz.widgets.probe import ProbeHeatmap
import pandas as pd
split = recording.with_split(probe=.5, valid=.2, test=.3)
results = {}
for encoder in (Majority(), RandomCNN()):
    codes, factors = align(encoder.fit(split).encode(split), split)
    results[type(encoder).__name__] = linear_probe(codes, factors, epochs=5)
ProbeHeatmap(pd.concat([r.scores.assign(method=m, task='pong') for m, r in results.items()]), results, split)""",
}
