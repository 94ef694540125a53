"""MMERDashboard in JupyterLab: clicks and menus, what the page shows, and the state of the kernel."""

import pytest
from support.lab import SHOTS, reset_page, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

pytestmark = pytest.mark.browser
CELL = """
import numpy as np
from srlviz.core.scores import merge_scores, paper_scores
from srlviz.widgets.agents.mmer_dashboard import MMERDashboard

class Remembers:
    identity = 'remembers the first card'
    def reset(self, seed=None): self.first = None
    def __call__(self, obs):
        self.first = int(obs[:4].argmax()) if self.first is None else self.first
        return self.first
    def encode(self, recording):
        return [np.repeat(e.obs['vector'][:1, :4], len(e), 0) for e in recording]

paper = paper_scores('popgym')
ours = paper[paper['method'].isin(['GRU', 'MLP'])].assign(source='srlviz', seed=0)
board = MMERDashboard(merge_scores(paper, ours), {('RepeatFirst-easy', 'GRU'): Remembers()})
board
"""
START = """[setattr(board, 'playing', False), board.press(dict(data=['all', 'ours', 'GRU'])),
    setattr(board, 'tag', 'all'), setattr(board, 'view', 'map'), setattr(board, 'show', 'ours')] and None"""


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(CELL.strip()))


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


def cell(page, task, method):
    "Return the page coordinates of a cell of the map."
    heat = page.locator('.srlviz-dashboard .js-plotly-plot').first
    wait_for(lambda: heat.count() and heat.evaluate('g => !!g._fullLayout?.xaxis?._length'), message='the map is drawn')
    heat.scroll_into_view_if_needed()
    wait_idle(page)
    return heat.evaluate(
        """(g, [task, method]) => { const r = g.getBoundingClientRect(), l = g._fullLayout,
            { customdata } = g.data[0], { x, y } = g._fullData[0], middle = (e, k) => (e[k] + e[k + 1])/2;
        for (const [i, row] of customdata.entries()) for (const [j, c] of row.entries())
            if (c[0] === task && c[2] === method)
                return [r.left + l.xaxis._offset + l.xaxis.c2p(middle(x, j)),
                        r.top + l.yaxis._offset + l.yaxis.c2p(middle(y, i))] }""",
        [task, method],
    )


def test_clicking_a_cell_shows_its_task(page, lab):
    "A click on a cell shows its task beside the map; a menu filters the tasks by their tags."
    page.mouse.click(*cell(page, 'RepeatFirst-easy', 'MLP'))
    wait_for(
        lambda: lab.evaluate('[board.task, board.method]') == ['RepeatFirst-easy', 'MLP'],
        message='the cell is selected',
    )
    bars = page.locator('.srlviz-dashboard .srlviz-plot[aria-label="one task"]')
    wait_for(lambda: 'RepeatFirst-easy: MMER of each memory' in bars.inner_text(), message='its bars are drawn')
    tag = page.locator('.srlviz-dashboard .widget-dropdown').filter(has=page.locator('label:text-is("Tag")'))
    tag.locator('select').select_option('navigation')
    wait_for(lambda: lab.evaluate('board.tag') == 'navigation', message='the menu filters')
    heat = page.locator('.srlviz-dashboard .js-plotly-plot').first
    wait_for(lambda: 'LabyrinthEscape' in heat.inner_text() and 'RepeatFirst' not in heat.inner_text())
    page.screenshot(path=SHOTS / 'mmer_filtered.png')


def test_the_agent_of_a_cell_plays(page, lab):
    "The agent of a cell plays in place of the map, with its memory beside it; a button restores the map."
    page.mouse.click(*cell(page, 'RepeatFirst-easy', 'GRU'))
    watch = page.get_by_role('button', name='Watch this GRU play')
    watch.click()
    wait_for(lambda: lab.evaluate('board.playing and board.now is not None'), 120, message='it has played')
    assert lab.evaluate('float(board.now.rollout.episode.rewards.sum())') > 0.99
    player = page.locator('.srlviz-dashboard .srlviz-player')
    steps = "__import__('srlviz.core.views.steps', fromlist=['steps'])"
    t = lab.evaluate(f'{steps}.busiest_step([board.now.rollout.episode])[1]')
    wait_for(lambda: player.get_attribute('data-frame') == str(t), message='the picture of its busiest step is drawn')
    strips = page.locator('.srlviz-dashboard .srlviz-plot:visible')
    wait_for(lambda: 'Its memory: 4 units' in strips.inner_text(), message='its memory is drawn')
    page.screenshot(path=SHOTS / 'mmer_agent.png')
    page.get_by_role('button', name='‹ all tasks').click()
    wait_for(lambda: not lab.evaluate('board.playing') and not player.is_visible(), message='the map is shown again')
