"""Ten maps of codes down one notebook, in a JupyterLab with its default settings: none is blank, for all share one
WebGL context; and if a browser takes that context away, all are drawn again."""

import pytest
from support.lab import SHOTS, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

pytestmark = pytest.mark.browser
FIRST = """
import numpy as np
from srlviz.core.files import sample_path
from srlviz.core.recordings import load_recording
from srlviz.evaluate.maps import code_map
from srlviz.widgets.maps import CodesExplorer
pong = load_recording(sample_path('pong_sample.npz'))
rng = np.random.default_rng(0)
codes = [rng.standard_normal((len(e), 6)) for e in pong]
maps = []
"""
MORE_PICTURES = """
made, picture = [], maps[0]._picture.figure_json
for _ in range(8):
    maps[0].pane.view.draw_picture(picture, 'a map', lambda png, size: made.append(size))
"""
N = 10
COUNT = """e => {
    const c = e.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
    let n = 0; for (let i = 3; i < d.length; i += 4) n += d[i] > 100; return n }"""


@pytest.fixture(scope='module')
def lab(open_lab):
    cells = [f"maps.append(CodesExplorer(code_map([c[:, {k % 3}:] for c in codes]), pong)); maps[-1]" for k in range(N)]
    return open_lab(notebook_of(FIRST, *cells))


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


def inked(page) -> list[int]:
    "Pixels with points of each map"
    counts = []
    for k in range(N):
        view = page.locator('.srlviz-scatter').nth(2 * k)
        view.evaluate("e => e.scrollIntoView({ block: 'center' })")
        wait_idle(page)
        wait_for(
            lambda: view.get_attribute('data-drawn') and view.evaluate(COUNT) > 500, 20, message=f'map {k} is drawn'
        )
        counts.append(view.evaluate(COUNT))
    return counts


def test_ten_maps(page, lab):
    "Each has points; after the pictures for the saved notebook were made no context was lost, and each still has them"
    assert min(inked(page)) > 500
    wait_for(
        lambda: lab.evaluate('sum(bool(m._picture.figure_json) for m in maps)') == N,
        120,
        message='each has its picture',
    )
    lab.execute(MORE_PICTURES)
    wait_for(lambda: lab.evaluate('len(made)') == 8, 120, message='8 more pictures, each with contexts of its own')
    assert page.evaluate('globalThis.__srlviz.lostContexts ?? 0') == 0
    lab.execute("[setattr(m, 'factor', 'ball_y') for m in maps]")
    wait_idle(page)
    assert min(inked(page)) > 500
    page.screenshot(path=SHOTS / 'many_maps.png')


def test_a_lost_context(page, lab):
    "The browser takes the context away: the maps get another, and are drawn again"
    inked(page)
    before = page.evaluate("[...document.querySelectorAll('.srlviz-scatter')].map(e => +e.dataset.drawn || 0)")
    page.evaluate("__srlviz.renderer.canvas.getContext('webgl').getExtension('WEBGL_lose_context').loseContext()")
    wait_for(lambda: page.evaluate('globalThis.__srlviz.lostContexts') == 1, message='the page notices')
    assert min(inked(page)) > 500
    after = page.evaluate("[...document.querySelectorAll('.srlviz-scatter')].map(e => +e.dataset.drawn || 0)")
    assert all(b < a for b, a in zip(before[::2], after[::2])), (before, after)
    assert lab.evaluate('[m.pane.view.problem for m in maps]') == [''] * N
