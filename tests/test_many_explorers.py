"""Nine explorers in one notebook, in JupyterLab with default settings: each has a layout when scrolled into view.

JupyterLab skips the layout of cells outside the view. What is added to them there keeps the size 0 x 0 until the next
layout.
"""

import pytest
from support.lab import SHOTS, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

pytestmark = pytest.mark.browser
SETUP = """
import numpy as np
from srlviz.core.files import sample_path
from srlviz.core.recordings import align, load_recording
from srlviz.core.scores import load_scores, merge_scores, paper_scores
from srlviz.data.landing import read_flights
pong = load_recording(sample_path('pong_sample.npz')).with_split(probe=.5, valid=.2, test=.3)
flights = read_flights(sample_path('landings'))
rng = np.random.default_rng(0)
place = [np.stack([e.factors['ball_x'], e.factors['ball_y']], 1) + rng.standard_normal((len(e), 2)) for e in pong]
"""
EXPLORERS = [
    """
from srlviz.widgets.frame_browser import FrameBrowser
FrameBrowser(pong)""",
    """
from srlviz.envs.ram import RAMLab
from srlviz.widgets.atari.ram_explorer import RAMExplorer
RAMExplorer(RAMLab('pong'))""",
    """
from srlviz.evaluate.probe import linear_probe
from srlviz.widgets.probe_heatmap import ProbeHeatmap
codes, factors = align(place, pong)
probed = linear_probe(codes, factors, epochs=5, label='place', progress=False)
ours = probed.scores(method='place', study='atari', task='pong', data='random', inputs='frames')
ProbeHeatmap(merge_scores(ours, paper_scores('atari')), dict(place=probed), pong, paper=['majority', 'st_dim'])""",
    """
from srlviz.widgets.atari.dashboard import AtariDashboard
AtariDashboard(load_scores(sample_path('atari_scores.csv')))""",
    """
from srlviz.data.landing import flight_columns
from srlviz.widgets.landing.flight_browser import FleetBrowser, FlightBrowser
board = FlightBrowser(flights, flight_columns(flights))
board""",
    '''fleet = FleetBrowser(flights)
fleet''',
    """
from srlviz.widgets.agents.mmer_dashboard import MMERDashboard
MMERDashboard(paper_scores('popgym'))""",
    """
from srlviz.evaluate.qedr import qedr_path
from srlviz.widgets.qedr_matrix import QEDRMatrix
names = [f.name for f in pong.factors][:6]
selected = {s: y[names] for s, y in factors.items()}
QEDRMatrix(qedr_path(codes, selected, [.02, .2], progress=False), place, pong)""",
    """
from srlviz.evaluate.maps import code_map
from srlviz.widgets.codes_explorer import CodesExplorer
CodesExplorer(dict(place=code_map(place, norm='none')), pong, factor='ball_x')""",
]
NAMES = ('FrameBrowser', 'RAMExplorer', 'ProbeHeatmap', 'AtariDashboard', 'FlightBrowser', 'FleetBrowser')
NAMES += ('MMERDashboard', 'QEDRMatrix', 'CodesExplorer')
# counts rows of lists and tick labels of axes, and how many of them have no size
COUNT_PARTS = """cell => {
    const gone = e => e && e !== cell && (getComputedStyle(e).display === 'none' || gone(e.parentElement));
    const parts = [...cell.querySelectorAll('.srlviz-item, .xtick text, .ytick text, .srlviz-scatter-stage text')];
    const there = parts.filter(e => e.textContent.trim() && !e.closest('[hidden]') && !gone(e));
    const isFlat = e => { const r = e.getBoundingClientRect(); return !r.width || !r.height; };
    const rows = there.filter(e => e.matches('.srlviz-item')).length;
    return { rows, marks: there.length - rows, flat: there.filter(isFlat).length };
}"""


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(SETUP, *EXPLORERS))


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


def scroll_to_cell(page, k):
    "Scroll to the middle of the output of a cell, as a reader does with the wheel, and return the cell."
    cell = page.locator('.jp-CodeCell').nth(k)
    cell.evaluate("e => (e.querySelector('.srlviz-explorer') ?? e).scrollIntoView({ block: 'center' })")
    wait_idle(page)
    return cell


def test_all_nine_explorers_have_a_layout(page, lab):
    "Each has rows or tick labels, and none of them has the size 0 x 0."
    failures = {}
    n_parts = {}
    for k, code in enumerate(EXPLORERS, 2):
        cell = scroll_to_cell(page, k)
        name = next(n for n in NAMES if f'{n}(' in code)
        wait_for(lambda: cell.locator('.srlviz-explorer').count(), message=f'{name} is shown')

        def has_layout():
            counts = cell.evaluate(COUNT_PARTS)
            return counts['rows'] + counts['marks'] and not counts['flat']

        try:
            wait_for(has_layout, 20)
        except AssertionError:
            pass
        counts = cell.evaluate(COUNT_PARTS)
        n_parts[name] = counts['rows'] + counts['marks']
        if counts['flat'] or not n_parts[name]:
            failures[name] = counts
            page.screenshot(path=SHOTS / f'many_{name}.png')
    page.screenshot(path=SHOTS / 'many_explorers.png')
    assert not failures, failures
    assert len(n_parts) == len(EXPLORERS) and min(n_parts.values()) >= 4, n_parts


def test_changes_out_of_view_get_a_layout(page, lab):
    "Rows and tick labels that the kernel adds to cells outside the view have a size once they are scrolled into view."
    scroll_to_cell(page, 2)
    lab.execute('board.chosen = [5, 6, 7, 8]; board.seek(3, 0)')
    page.wait_for_timeout(2000)
    failures = {}
    for k in (6, 7):
        counts = scroll_to_cell(page, k).evaluate(COUNT_PARTS)
        if counts['flat'] or not counts['rows']:
            failures[k] = counts
    page.screenshot(path=SHOTS / 'many_changed.png')
    assert not failures, failures


def test_a_list_keeps_its_scroll_position(page):
    "A scrolled list has the same position after another cell was in view."
    cell = scroll_to_cell(page, 6)
    scrolled = cell.evaluate(
        """cell => { const list = [...cell.querySelectorAll('div')].find(e => e.scrollHeight > e.clientHeight + 60
            && getComputedStyle(e).overflowY !== 'visible'); if (list) list.scrollTop = 50; return list?.scrollTop }"""
    )
    assert scrolled, 'a list of this explorer can be scrolled'
    scroll_to_cell(page, len(EXPLORERS) + 1)
    cell = scroll_to_cell(page, 6)
    assert cell.evaluate("cell => [...cell.querySelectorAll('div')].some(e => e.scrollTop === 50)")
