"""Ten maps of codes in one notebook, in JupyterLab with default settings.

None is blank, because all share one WebGL context; if the browser drops that context, all are redrawn.
"""

import pytest
from support.lab import SHOTS, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

pytestmark = pytest.mark.browser
SETUP = """
import numpy as np
from srlviz.core.files import sample_path
from srlviz.core.recordings import load_recording
from srlviz.evaluate.maps import code_map
from srlviz.widgets.codes_explorer import CodesExplorer
pong = load_recording(sample_path('pong_sample.npz'))
rng = np.random.default_rng(0)
codes = [rng.standard_normal((len(e), 6)) for e in pong]
maps = []
"""
DRAW_PICTURES = """
sizes, picture = [], maps[0]._picture.figure_json
for _ in range(8):
    maps[0].pane.view.draw_picture(picture, 'a map', lambda png, size: sizes.append(size))
"""
N = 10
COUNT_PIXELS = """e => {
    const c = e.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 100; return n }"""


@pytest.fixture(scope='module')
def lab(open_lab):
    cells = [f"maps.append(CodesExplorer(code_map([c[:, {k % 3}:] for c in codes]), pong)); maps[-1]" for k in range(N)]
    return open_lab(notebook_of(SETUP, *cells))


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


def drawn_pixels(page) -> list[int]:
    "Scroll to each map, and count its pixels with points."
    counts = []
    for k in range(N):
        view = page.locator('.srlviz-scatter').nth(2 * k)
        view.evaluate("e => e.scrollIntoView({ block: 'center' })")
        wait_idle(page)
        wait_for(
            lambda: view.get_attribute('data-drawn') and view.evaluate(COUNT_PIXELS) > 500,
            20,
            message=f'map {k} is drawn',
        )
        counts.append(view.evaluate(COUNT_PIXELS))
    return counts


def test_ten_maps_are_drawn_with_one_context(page, lab):
    "Each map has points; drawing the pictures for the saved notebook loses no context and leaves the points."
    assert min(drawn_pixels(page)) > 500
    wait_for(
        lambda: lab.evaluate('sum(bool(m._picture.figure_json) for m in maps)') == N,
        120,
        message='each map has its picture',
    )
    lab.execute(DRAW_PICTURES)
    wait_for(lambda: lab.evaluate('len(sizes)') == 8, 120, message='8 more pictures, each with its own contexts')
    assert page.evaluate('globalThis.__srlviz.lostContexts ?? 0') == 0
    lab.execute("[setattr(m, 'factor', 'ball_y') for m in maps]")
    wait_idle(page)
    assert min(drawn_pixels(page)) > 500
    page.screenshot(path=SHOTS / 'many_maps.png')


def test_maps_are_redrawn_after_a_lost_context(page, lab):
    "When the browser drops the context, the maps get another one and are redrawn."
    drawn_pixels(page)
    before = page.evaluate("[...document.querySelectorAll('.srlviz-scatter')].map(e => +e.dataset.drawn || 0)")
    page.evaluate("__srlviz.renderer.canvas.getContext('webgl').getExtension('WEBGL_lose_context').loseContext()")
    wait_for(lambda: page.evaluate('globalThis.__srlviz.lostContexts') == 1, message='the page counts the lost context')
    assert min(drawn_pixels(page)) > 500
    after = page.evaluate("[...document.querySelectorAll('.srlviz-scatter')].map(e => +e.dataset.drawn || 0)")
    assert all(b < a for b, a in zip(before[::2], after[::2])), (before, after)
    assert lab.evaluate('[m.pane.view.problem for m in maps]') == [''] * N
