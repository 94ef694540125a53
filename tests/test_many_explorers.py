"""Nine explorers down one notebook, in a JupyterLab with its default settings: whatever is scrolled to is laid out.

JupyterLab skips the layout of cells outside of the view; what is added to them there stays at the size 0 x 0 until
somebody lays it out again.
"""

import pytest
from support.lab import SHOTS, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

pytestmark = pytest.mark.browser
FIRST = """
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
from srlviz.widgets.frames import FrameBrowser
FrameBrowser(pong)""",
    """
from srlviz.envs.ram import RAMLab
from srlviz.widgets.atari.ram import RAMExplorer
RAMExplorer(RAMLab('pong'))""",
    """
from srlviz.evaluate.probe import linear_probe
from srlviz.widgets.probe import ProbeHeatmap
codes, factors = align(place, pong)
probed = linear_probe(codes, factors, epochs=5, label='place', progress=False)
ours = probed.scores(method='place', study='atari', task='pong', data='random', inputs='frames')
ProbeHeatmap(merge_scores(ours, paper_scores('atari')), dict(place=probed), pong, paper=['majority', 'st_dim'])""",
    """
from srlviz.widgets.atari.dashboard import AtariDashboard
AtariDashboard(load_scores(sample_path('atari_scores.csv')))""",
    """
from srlviz.data.landing import flight_columns
from srlviz.widgets.landing.flights import FleetBrowser, FlightBrowser
board = FlightBrowser(flights, flight_columns(flights))
board""",
    '''fleet = FleetBrowser(flights)
fleet''',
    """
from srlviz.widgets.agents.returns import MMERDashboard
MMERDashboard(paper_scores('popgym'))""",
    """
from srlviz.evaluate.qedr import qedr_path
from srlviz.widgets.qedr import QEDRMatrix
names = [f.name for f in pong.factors][:6]
asked = {s: y[names] for s, y in factors.items()}
QEDRMatrix(qedr_path(codes, asked, [.02, .2], progress=False), place, pong)""",
    """
from srlviz.evaluate.maps import code_map
from srlviz.widgets.maps import CodesExplorer
CodesExplorer(dict(place=code_map(place, norm='none')), pong, factor='ball_x')""",
]
NAMES = ('FrameBrowser', 'RAMExplorer', 'ProbeHeatmap', 'AtariDashboard', 'FlightBrowser', 'FleetBrowser')
NAMES += ('MMERDashboard', 'QEDRMatrix', 'CodesExplorer')
# rows of lists and marks of axes: how many there are, and how many of them take no room
SEEN = """cell => {
    const gone = e => e && e !== cell && (getComputedStyle(e).display === 'none' || gone(e.parentElement));
    const parts = [...cell.querySelectorAll('.srlviz-item, .xtick text, .ytick text, .srlviz-scatter-stage text')];
    const there = parts.filter(e => e.textContent.trim() && !e.closest('[hidden]') && !gone(e));
    const isFlat = e => { const r = e.getBoundingClientRect(); return !r.width || !r.height; };
    const rows = there.filter(e => e.matches('.srlviz-item')).length;
    return { rows, marks: there.length - rows, flat: there.filter(isFlat).length };
}"""


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(FIRST, *EXPLORERS))


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


def to_cell(page, k):
    "Scroll to the middle of the output of a cell, as a reader does with the wheel"
    cell = page.locator('.jp-CodeCell').nth(k)
    cell.evaluate("e => (e.querySelector('.srlviz-explorer') ?? e).scrollIntoView({ block: 'center' })")
    wait_idle(page)
    return cell


def test_all_nine_are_laid_out(page, lab):
    "Each has rows or marks, and none of them is of the size 0 x 0"
    wrong, least = {}, {}
    for k, code in enumerate(EXPLORERS, 2):
        cell, name = to_cell(page, k), next(n for n in NAMES if f'{n}(' in code)
        wait_for(lambda: cell.locator('.srlviz-explorer').count(), message=f'{name} is there')
        try:
            wait_for(lambda: (s := cell.evaluate(SEEN)) and s['rows'] + s['marks'] and not s['flat'], 20)
        except AssertionError:
            pass
        seen = cell.evaluate(SEEN)
        least[name] = seen['rows'] + seen['marks']
        if seen['flat'] or not least[name]:
            wrong[name] = seen
            page.screenshot(path=SHOTS / f'many_{name}.png')
    page.screenshot(path=SHOTS / 'many_explorers.png')
    assert not wrong, wrong
    assert len(least) == len(EXPLORERS) and min(least.values()) >= 4, least


def test_what_changes_out_of_view_is_laid_out(page, lab):
    "Rows and marks that the kernel adds to cells that nobody sees have a size when they are scrolled to"
    to_cell(page, 2)
    lab.execute('board.chosen = [5, 6, 7, 8]; board.seek(3, 0)')
    page.wait_for_timeout(2000)
    wrong = {}
    for k in (6, 7):
        seen = to_cell(page, k).evaluate(SEEN)
        if seen['flat'] or not seen['rows']:
            wrong[k] = seen
    page.screenshot(path=SHOTS / 'many_changed.png')
    assert not wrong, wrong


def test_a_list_keeps_its_place(page):
    "A list that was scrolled stands where it stood after a look at another cell"
    cell = to_cell(page, 6)
    scrolled = cell.evaluate(
        """cell => { const list = [...cell.querySelectorAll('div')].find(e => e.scrollHeight > e.clientHeight + 60
            && getComputedStyle(e).overflowY !== 'visible'); if (list) list.scrollTop = 50; return list?.scrollTop }"""
    )
    assert scrolled, 'a list of this explorer can be scrolled'
    to_cell(page, len(EXPLORERS) + 1)
    cell = to_cell(page, 6)
    assert cell.evaluate("cell => [...cell.querySelectorAll('div')].some(e => e.scrollTop === 50)")
