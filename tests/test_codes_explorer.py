"""CodesExplorer: on what the rooms hand out, without a page; and in a real JupyterLab, what a reader points at,
presses, draws around and names, what the page shows, what the kernel then holds."""

import numpy as np, pandas as pd, pytest
from lab import SHOTS, begin_anew, in_step, nothing_broke, of_cells, open_page, wait_for

from srlviz.core.files import sample_path
from srlviz.core.recordings import Recording
from srlviz.core.views.windows import windows
from srlviz.evaluate.maps import code_map
from srlviz.widgets.maps import CodesExplorer

CELL = """
import numpy as np
from srlviz.core.files import sample_path
from srlviz.core.recordings import load_recording
from srlviz.core.views.steps import Steps
from srlviz.evaluate.maps import code_map
from srlviz.widgets.base import link
from srlviz.widgets.maps import CodesExplorer
pong = load_recording(sample_path('pong_sample.npz'))
rng = np.random.default_rng(0)
place = [np.stack([e.factors['ball_x'], e.factors['ball_y']], 1) + rng.standard_normal((len(e), 2)) for e in pong]
one = CodesExplorer({'st_dim': code_map(place, norm='none')}, pong, factor='ball_x')
one
"""
MORE = """
other = CodesExplorer({'vae': code_map([p @ [[0, 2], [3, 0]] for p in place])}, pong, factor='ball_y')
both = link(one, other, traits=('episode', 't', 'steps'))
other
"""
START = "[setattr(one, 'tags', {}), one.select(Steps()), one.seek(0, 0)] and None"


def flights() -> Recording:
    from srlviz.data.landing import read_flights

    return read_flights(sample_path('landings'))[:4]


def unfilmed() -> Recording:
    filmed = flights()
    return filmed.replace(episodes=[e.replace(obs=dict(sensors=e.obs['sensors'])) for e in filmed])


def task(**how) -> Recording:
    from srlviz.data.popgym import record_pomdp

    return record_pomdp('RepeatPrevious-easy', 3, progress=False, **how)


def rollout() -> Recording:
    from srlviz.data.importers import from_rollout

    rng = np.random.default_rng(0)
    ends = np.arange(40)[:, None] % 20 == 19
    return from_rollout(rng.standard_normal((40, 1, 3)).astype('f4'), terminated=ends, factors=dict(mood=ends * 1))


@pytest.mark.parametrize('world', [flights, unfilmed, task, rollout, lambda: windows(flights(), 50, 50)])
def test_on_what_the_rooms_give(world):
    "Film, no film, a task, arrays of one's own, windows: each point is told, opened and drawn, on screen and on paper"
    recording, rng = world(), np.random.default_rng(0)
    step_codes = [rng.standard_normal((n, 5)) for n in recording.lengths]
    for codes in (step_codes, [c.mean(0) for c in step_codes])[: 2 if len(recording) > 2 else 1]:
        made = code_map(codes)
        x = CodesExplorer(
            made,
            recording,
            scores=pd.DataFrame(
                dict(error=np.arange(len(made.t)) * 1.0), index=pd.MultiIndex.from_arrays([made.episode, made.t])
            ),
            interactive=True,
        )
        row = len(made.t) - 1
        step = [row, int(made.episode[row]), int(made.t[row])]
        x.pane.view.hovered = dict(curve=0, i=0, data=step, n=1)
        x.pane.view.clicked = dict(curve=0, i=0, data=step, n=1)
        assert (x.episode, x.t) == (len(recording) - 1, recording.lengths[-1] - 1) == (x.moment.episode, x.moment.t)
        for name in [*x.columns[False].names[::7], "error", "episode"]:
            x.factor = name
            assert sum(len(t.x) for t in x.pane.view.figure.data) == len(made.t), name
        x.select_episode()
        assert x.described() and x.figure().data and len(x.figures()) == 2
        x.factor = ''
        assert CodesExplorer(made, recording, interactive=False).figure().data


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(of_cells(CELL.strip(), MORE.strip()))


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    nothing_broke(page)
    return page


@pytest.fixture
def page(opened, lab):
    yield from begin_anew(opened, lab, START)


def place(page, k: int, row: int):
    "Where on the page a step stands on the map of explorer k"
    plot = page.locator('.srlviz-codes-explorer').nth(k).locator('.js-plotly-plot').first
    plot.scroll_into_view_if_needed()
    in_step(page)
    return plot.evaluate(
        """(g, row) => { const r = g.getBoundingClientRect(), l = g._fullLayout, t = g._fullData[0];
            const at = (axis, v) => axis._offset + axis.c2p(v);
            return [r.left + at(l.xaxis, t.x[row]), r.top + at(l.yaxis, t.y[row])] }""",
        row,
    )


def rare(lab) -> int:
    "A step that stands by itself"
    far = "(lambda xy: int(np.sort(np.linalg.norm(xy[:, None] - xy[None], axis=-1), 1)[:, 1].argmax()))"
    return lab.ask(f'{far}(one.pane.map.xy)')


@pytest.mark.browser
def test_a_pointer_and_a_press(page, lab):
    "The pointer gets a card of the frame; a press opens the step in both explorers, and the ring goes there"
    row = rare(lab)
    x, y = place(page, 0, row)
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=4)
    card = page.locator('.srlviz-codes-explorer').first.locator('.srlviz-card').first
    where = 'episode {}, t {}'.format(*lab.ask(f'[int(one.pane.map.episode[{row}]), int(one.pane.map.t[{row}])]'))
    wait_for(lambda: card.is_visible() and where in card.inner_text(), say='the card tells the step')
    assert card.locator('img').evaluate('e => e.naturalWidth > 10')
    page.screenshot(path=SHOTS / 'codes_hover.png')
    page.mouse.click(x, y)
    wait_for(lambda: lab.ask("f'episode {one.episode}, t {one.t}'") == where, say='the step is opened')
    assert lab.ask('[other.episode, other.t] == [one.episode, one.t]')
    players = page.locator('.srlviz-codes-explorer .srlviz-player')
    wait_for(
        lambda: {players.nth(k).get_attribute('data-frame') for k in (0, 1)} == {where.split()[-1]}, say='both films'
    )
    ring = page.locator('.srlviz-codes-explorer').first.locator('.srlviz-ring').first.bounding_box()
    assert abs(ring['x'] + ring['width'] / 2 - x) < 2 and abs(ring['y'] + ring['height'] / 2 - y) < 2
    page.mouse.move(5, 5)
    wait_for(lambda: not card.is_visible(), say='the card goes')


@pytest.mark.browser
def test_a_lasso_and_a_tag(page, lab):
    "What is drawn around is selected on both maps, with shift more; a tag names it; a double press selects nothing"

    def draw(row, reach, shift=False):
        x, y = place(page, 0, row)
        page.mouse.move(x - reach, y - reach)
        if shift:
            page.keyboard.down('Shift')
        page.mouse.down()
        for dx, dy in ((1, -1), (1, 1), (-1, 1), (-1, -0.9)):
            page.mouse.move(x + dx * reach, y + dy * reach, steps=5)
        page.mouse.up()
        if shift:
            page.keyboard.up('Shift')

    row = rare(lab)
    told = lab.ask(f'[int(one.pane.map.episode[{row}]), int(one.pane.map.t[{row}])]')
    draw(row, 12)
    wait_for(lambda: lab.ask(f'{told} in one.steps'.replace('[', '(').replace(']', ')')), say='it is selected')
    few = lab.ask('len(one.steps)')
    assert lab.ask('one.steps == other.steps') and few < 100
    in_step(page)
    second = page.locator('.srlviz-codes-explorer').nth(1).locator('.js-plotly-plot').first
    drawn = 'g => g._fullData.reduce((n, t) => n + (t.selectedpoints?.length ?? 0), 0)'
    wait_for(lambda: second.evaluate(drawn) == few, say='the other map shows them')
    middle = lab.ask('int(np.linalg.norm(one.pane.map.xy - np.median(one.pane.map.xy, 0), axis=1).argmin())')
    draw(middle, 40, shift=True)
    wait_for(lambda: lab.ask('len(one.steps)') > few, say='more are selected')
    assert lab.ask(f'{tuple(told)} in one.steps')
    explorer = page.locator('.srlviz-codes-explorer').first
    selected = f'Selected: {lab.ask("len(one.steps)")} steps'
    wait_for(lambda: selected in explorer.inner_text(), say='the summary counts them')
    explorer.get_by_placeholder('name of the selected steps').fill('corner')
    explorer.get_by_role('button', name='tag', exact=True).click()
    wait_for(lambda: lab.ask('one.tags.get("corner") == one.steps'), say='they have a name')
    wait_for(lambda: 'corner' in explorer.locator('.js-plotly-plot').first.inner_text(), say='which stands on the map')
    page.screenshot(path=SHOTS / 'codes_lasso.png')
    x, y = place(page, 0, middle)
    page.mouse.dblclick(x, y)
    wait_for(lambda: lab.ask('len(one.steps) + len(other.steps)') == 0, say='nothing is selected')
