"""CodesExplorer: on what the rooms hand out, without a page; and in a real JupyterLab, what a reader points at,
presses, draws around and names, what the page shows, what the kernel then holds."""

import numpy as np, pandas as pd, pytest
from support.lab import SHOTS, reset_page, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

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
        x.pane.view.hovered = dict(i=0, data=step, n=1)
        x.pane.view.clicked = dict(i=0, data=step, n=1)
        assert (x.episode, x.t) == (len(recording) - 1, recording.lengths[-1] - 1) == (x.moment.episode, x.moment.t)
        for name in [*x.columns[False].names[::7], "error", "episode"]:
            x.factor = name
            assert len(x.pane.view.colour) == 2 * len(made.t), name
            assert sum(len(t.x) for t in x.pane.figure().data) == len(made.t), name
        x.select_episode()
        assert x.described() and x.figure().data and len(x.figures()) == 2
        x.factor = ''
        assert CodesExplorer(made, recording, interactive=False).figure().data


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(CELL.strip(), MORE.strip()))


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


def map_of(page, k: int = 0):
    "The map of explorer k"
    return page.locator('.srlviz-codes-explorer').nth(k).locator('.srlviz-scatter').first


def place(page, lab, k: int, row: int):
    "Where on the page a step stands on the map of explorer k"
    stage = map_of(page, k).locator('.srlviz-scatter-stage')
    stage.scroll_into_view_if_needed()
    wait_idle(page)
    scale, left, top = map(float, map_of(page, k).get_attribute('data-view').split(','))
    x, y = lab.evaluate(f'{("one", "other")[k]}.pane.map.xy[{row}].tolist()')
    box = stage.bounding_box()
    return box['x'] + 1 + left + scale * x, box['y'] + 1 + top - scale * y


def rare(lab) -> int:
    "A step that stands by itself"
    far = "(lambda xy: int(np.sort(np.linalg.norm(xy[:, None] - xy[None], axis=-1), 1)[:, 1].argmax()))"
    return lab.evaluate(f'{far}(one.pane.map.xy)')


@pytest.mark.browser
def test_a_pointer_and_a_press(page, lab):
    "The pointer gets a card of the frame; a press opens the step in both explorers, and the ring goes there"
    row = rare(lab)
    x, y = place(page, lab, 0, row)
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=4)
    card = page.locator('.srlviz-codes-explorer').first.locator('.srlviz-card').first
    where = 'episode {}, t {}'.format(*lab.evaluate(f'[int(one.pane.map.episode[{row}]), int(one.pane.map.t[{row}])]'))
    wait_for(lambda: card.is_visible() and where in card.inner_text(), message='the card tells the step')
    assert card.locator('img').evaluate('e => e.naturalWidth > 10')
    page.screenshot(path=SHOTS / 'codes_hover.png')
    page.mouse.click(x, y)
    wait_for(lambda: lab.evaluate("f'episode {one.episode}, t {one.t}'") == where, message='the step is opened')
    assert lab.evaluate('[other.episode, other.t] == [one.episode, one.t]')
    players = page.locator('.srlviz-codes-explorer .srlviz-player')
    wait_for(
        lambda: {players.nth(k).get_attribute('data-frame') for k in (0, 1)} == {where.split()[-1]},
        message='both films',
    )
    ring = page.locator('.srlviz-codes-explorer').first.locator('.srlviz-ring').first.bounding_box()
    assert abs(ring['x'] + ring['width'] / 2 - x) < 2 and abs(ring['y'] + ring['height'] / 2 - y) < 2
    page.mouse.move(5, 5)
    wait_for(lambda: not card.is_visible(), message='the card goes')


@pytest.mark.browser
def test_a_lasso_and_a_tag(page, lab):
    "What is drawn around is selected on both maps, with shift more; a tag names it; a double press selects nothing"

    def draw(row, reach, shift=False):
        x, y = place(page, lab, 0, row)
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
    told = lab.evaluate(f'[int(one.pane.map.episode[{row}]), int(one.pane.map.t[{row}])]')
    draw(row, 12)
    wait_for(lambda: lab.evaluate(f'{told} in one.steps'.replace('[', '(').replace(']', ')')), message='it is selected')
    few = lab.evaluate('len(one.steps)')
    assert lab.evaluate('one.steps == other.steps') and few < 100
    wait_idle(page)
    wait_for(lambda: map_of(page, 1).get_attribute('data-chosen') == str(few), message='the other map shows them')
    middle = lab.evaluate('int(np.linalg.norm(one.pane.map.xy - np.median(one.pane.map.xy, 0), axis=1).argmin())')
    draw(middle, 40, shift=True)
    wait_for(lambda: lab.evaluate('len(one.steps)') > few, message='more are selected')
    assert lab.evaluate(f'{tuple(told)} in one.steps')
    explorer = page.locator('.srlviz-codes-explorer').first
    selected = f'Selected: {lab.evaluate("len(one.steps)")} steps'
    wait_for(lambda: selected in explorer.inner_text(), message='the summary counts them')
    explorer.get_by_placeholder('name of the selected steps').fill('corner')
    explorer.get_by_role('button', name='tag', exact=True).click()
    wait_for(lambda: lab.evaluate('one.tags.get("corner") == one.steps'), message='they have a name')
    wait_for(lambda: 'corner' in map_of(page).inner_text(), message='which stands on the map')
    page.screenshot(path=SHOTS / 'codes_lasso.png')
    x, y = place(page, lab, 0, middle)
    page.mouse.dblclick(x, y)
    wait_for(lambda: lab.evaluate('len(one.steps) + len(other.steps)') == 0, message='nothing is selected')


def shades(page, k: int = 0) -> int:
    "How many colours the points of a map have"
    return map_of(page, k).evaluate(
        """e => {
            const c = e.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set();
            for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
            return seen.size }"""
    )


@pytest.mark.browser
def test_points_stand_where_they_are_pressed(page, lab):
    "The pixel at the place of a step has a colour, at home, after a pan and a zoom, and after the pane became narrower"

    def is_drawn(row):
        x, y = place(page, lab, 0, row)
        return map_of(page).evaluate(
            """(e, [x, y]) => {
                const c = e.querySelector('canvas'), r = c.getBoundingClientRect(), k = c.width / r.width;
                const [i, j] = [Math.round((x - r.left) * k), Math.round((y - r.top) * k)];
                return c.getContext('2d').getImageData(i, j, 1, 1).data[3] > 150 }""",
            [x, y],
        )

    rows = [rare(lab), lab.evaluate('int(np.linalg.norm(one.pane.map.xy, axis=1).argmin())')]
    wait_for(lambda: all(map(is_drawn, rows)), message='both points are drawn')
    assert shades(page) > 20  # a scale of colours, not one
    lab.execute("one.drag = 'pan'")
    x, y = place(page, lab, 0, rows[1])
    page.mouse.move(x + 60, y + 20)
    page.mouse.down()
    page.mouse.move(x + 100, y - 20, steps=6)
    page.mouse.up()
    now = place(page, lab, 0, rows[1])
    assert abs(now[0] - x - 40) < 2 and abs(now[1] - y + 40) < 2  # the point followed the pointer
    wait_for(lambda: is_drawn(rows[1]), message='it is drawn where it was moved')
    page.mouse.move(*now)
    page.mouse.wheel(0, -300)  # the map has the keys, so that the wheel zooms about the pointer
    wait_for(lambda: is_drawn(rows[1]), message='it is drawn after a zoom')
    zoomed = place(page, lab, 0, rows[1])
    assert abs(zoomed[0] - now[0]) < 2 and abs(zoomed[1] - now[1]) < 2
    page.set_viewport_size(dict(width=1100, height=900))
    try:
        map_of(page).get_by_role('button', name='show all points').click()
        wait_for(lambda: all(map(is_drawn, rows)), message='the map follows the size of its pane')
        stage = map_of(page).locator('.srlviz-scatter-stage').bounding_box()
        canvas = map_of(page).locator('canvas').bounding_box()
        assert abs(stage['width'] - canvas['width']) <= 2 and abs(stage['height'] - canvas['height']) <= 2
    finally:
        page.set_viewport_size(dict(width=1400, height=900))
        lab.execute("one.drag = 'lasso'")


@pytest.mark.browser
def test_keys(page, lab):
    "Arrows go from point to point and tell each; Enter opens it and marks its neighbours; Escape selects nothing"
    stage = map_of(page).locator('.srlviz-scatter-stage')
    stage.focus()
    said = map_of(page).locator('[role=status]')
    for key, where in (
        ('ArrowRight', 'episode 0, t 0'),
        ('ArrowRight', 'episode 0, t 1'),
        ('ArrowLeft', 'episode 0, t 0'),
    ):
        page.keyboard.press(key)
        wait_for(lambda: said.inner_text().startswith(where), message=f'{where} is read out')
    up = lab.evaluate('one.pane.map.xy[0].tolist()')
    page.keyboard.press('ArrowUp')
    wait_for(lambda: not said.inner_text().startswith('episode 0, t 0,'), message='another point is read out')
    page.keyboard.press('Enter')
    wait_for(lambda: lab.evaluate('[one.episode, one.t]') != [0, 0], message='the step is opened')
    assert lab.evaluate('one.pane.map.xy[one.pane.columns().row(one.episode, one.t)].tolist()')[1] > up[1]
    wait_for(lambda: map_of(page).get_attribute('data-near') == '10', message='its neighbours are marked')
    page.screenshot(path=SHOTS / 'codes_keys.png')
    zoom = float(map_of(page).get_attribute('data-view').split(',')[0])
    page.keyboard.press('+')
    assert float(map_of(page).get_attribute('data-view').split(',')[0]) > 1.2 * zoom
    page.keyboard.press('0')
    assert abs(float(map_of(page).get_attribute('data-view').split(',')[0]) / zoom - 1) < 1e-6
    page.keyboard.press('l')
    wait_for(lambda: lab.evaluate('one.drag') == 'pan', message='a drag moves the map')
    page.keyboard.press('l')
    wait_for(lambda: lab.evaluate('one.drag') == 'lasso', message='a drag selects')
    lab.execute('one.select_episode()')
    wait_for(lambda: map_of(page).get_attribute('data-chosen') == '100', message='the episode is selected')
    stage.focus()
    page.keyboard.press('Escape')
    wait_for(lambda: lab.evaluate('len(one.steps)') == 0, message='nothing is selected')


@pytest.mark.browser
def test_a_page_without_webgl(browser, open_lab):
    "The map is drawn by plotly, and says so; a press opens a step"
    lab = open_lab(notebook_of(CELL.strip()))
    hide = (
        'const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext = '
        'function (kind, ...more) { return /webgl/.test(kind) ? null : get.call(this, kind, ...more); }'
    )
    page = open_page(browser, lab, before=lambda p: p.add_init_script(hide))
    explorer = page.locator('.srlviz-codes-explorer')
    plot = explorer.locator('.js-plotly-plot').first
    wait_for(
        lambda: plot.count() and plot.evaluate('g => g._fullData?.[0]?.type') == 'scatter', message='plotly draws it'
    )
    assert 'WebGL' in explorer.inner_text() and not page.errors
    wait_idle(page)
    x, y = plot.evaluate(
        """g => { const r = g.getBoundingClientRect(), l = g._fullLayout, t = g._fullData[0];
            const at = (axis, v) => axis._offset + axis.c2p(v);
            return [r.left + at(l.xaxis, t.x[150]), r.top + at(l.yaxis, t.y[150])] }"""
    )
    page.mouse.move(x - 20, y - 20)
    page.mouse.move(x, y, steps=4)
    page.mouse.click(x, y)
    wait_for(lambda: lab.evaluate('[one.episode, one.t]') != [0, 0], message='a step is opened')
    page.screenshot(path=SHOTS / 'codes_without_webgl.png')
    assert lab.evaluate('one.status.value') == ''
