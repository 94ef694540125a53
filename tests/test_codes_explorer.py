"""CodesExplorer on several kinds of recordings, without a page; and its pointer, lasso and keys in JupyterLab."""

import numpy as np, pandas as pd, pytest
from support.lab import SHOTS, reset_page, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

from srlviz.core.files import sample_path
from srlviz.core.recordings import Recording
from srlviz.core.views.cameras import pick_camera
from srlviz.core.views.windows import windows
from srlviz.evaluate.maps import code_map
from srlviz.widgets.codes_explorer import CodesExplorer

CELL = """
import numpy as np
from srlviz.core.files import sample_path
from srlviz.core.recordings import load_recording
from srlviz.evaluate.maps import code_map
from srlviz.widgets.base import link
from srlviz.widgets.codes_explorer import CodesExplorer
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
START = "[setattr(one, 'tags', {}), one.select(None), one.seek(0, 0)] and None"


def flights() -> Recording:
    from srlviz.data.landing import read_flights

    return read_flights(sample_path('landings'))[:4]


def unfilmed() -> Recording:
    filmed = flights()
    return filmed.replace(episodes=[e.replace(obs=dict(sensors=e.obs['sensors'])) for e in filmed])


def task() -> Recording:
    from srlviz.data.popgym import record_pomdp

    return record_pomdp('RepeatPrevious-easy', 3, progress=False)


def rollout() -> Recording:
    from srlviz.data.importers import from_rollout

    rng = np.random.default_rng(0)
    terminated = np.arange(40)[:, None] % 20 == 19
    obs = rng.standard_normal((40, 1, 3)).astype('f4')
    return from_rollout(obs, terminated=terminated, factors=dict(mood=terminated * 1))


@pytest.mark.parametrize('world', [flights, unfilmed, task, rollout, lambda: windows(flights(), 50, 50)])
def test_every_kind_of_recording_is_shown(world):
    "Film, no film, a task, your own arrays, windows: each point is described, opened and drawn."
    recording, rng = world(), np.random.default_rng(0)
    step_codes = [rng.standard_normal((n, 5)) for n in recording.lengths]
    for codes in (step_codes, [c.mean(0) for c in step_codes])[: 2 if len(recording) > 2 else 1]:
        points = code_map(codes)
        index = pd.MultiIndex.from_arrays([points.episode, points.t])
        scores = pd.DataFrame(dict(error=np.arange(len(points.t)) * 1.0), index=index)
        explorer = CodesExplorer(points, recording, scores=scores, interactive=True)
        row = len(points.t) - 1
        step = [row, int(points.episode[row]), int(points.t[row])]
        explorer.pane.view.hovered = dict(i=0, data=step, n=1)
        explorer.pane.view.clicked = dict(i=0, data=step, n=1)
        last_step = (len(recording) - 1, recording.lengths[-1] - 1)
        assert (explorer.episode, explorer.t) == last_step == (explorer.moment.episode, explorer.moment.t)
        for name in [*explorer.columns[False].names[::7], "error", "episode"]:
            explorer.factor = name
            assert len(explorer.pane.view.colour) == 2 * len(points.t), name
            assert sum(len(t.x) for t in explorer.pane.figure().data) == len(points.t), name
        explorer.select_episode()
        n_figures = 3 if pick_camera(recording[0].obs) else 2  # map, moment, and with a film frames of the selection
        assert explorer.described() and explorer.figure().data and len(explorer.figures()) == n_figures
        explorer.factor = ''
        assert CodesExplorer(points, recording, interactive=False).figure().data


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
    "Return the map of explorer k."
    return page.locator('.srlviz-codes-explorer').nth(k).locator('.srlviz-scatter').first


def place(page, lab, k: int, row: int):
    "Return the page coordinates of a step on the map of explorer k."
    stage = map_of(page, k).locator('.srlviz-scatter-stage')
    stage.scroll_into_view_if_needed()
    wait_idle(page)
    scale, left, top = map(float, map_of(page, k).get_attribute('data-view').split(','))
    x, y = lab.evaluate(f'{("one", "other")[k]}.pane.map.xy[{row}].tolist()')
    box = stage.bounding_box()
    return box['x'] + 1 + left + scale * x, box['y'] + 1 + top - scale * y


def isolated_row(lab) -> int:
    "Return the row of the step that is farthest from its nearest neighbour."
    far = "(lambda xy: int(np.sort(np.linalg.norm(xy[:, None] - xy[None], axis=-1), 1)[:, 1].argmax()))"
    return lab.evaluate(f'{far}(one.pane.map.xy)')


@pytest.mark.browser
def test_hover_shows_a_card_and_a_click_opens_the_step(page, lab):
    "Hover shows a card with the frame; a click opens the step in both explorers and moves the ring to it."
    row = isolated_row(lab)
    x, y = place(page, lab, 0, row)
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=4)
    card = page.locator('.srlviz-codes-explorer').first.locator('.srlviz-card').first
    step = 'episode {}, t {}'.format(*lab.evaluate(f'[int(one.pane.map.episode[{row}]), int(one.pane.map.t[{row}])]'))
    wait_for(lambda: card.is_visible() and step in card.inner_text(), message='the card names the step')
    assert card.locator('img').evaluate('e => e.naturalWidth > 10')
    page.screenshot(path=SHOTS / 'codes_hover.png')
    page.mouse.click(x, y)
    wait_for(lambda: lab.evaluate("f'episode {one.episode}, t {one.t}'") == step, message='the step is opened')
    assert lab.evaluate('[other.episode, other.t] == [one.episode, one.t]')
    players = page.locator('.srlviz-codes-explorer .srlviz-player')
    wait_for(
        lambda: {players.nth(k).get_attribute('data-frame') for k in (0, 1)} == {step.split()[-1]},
        message='both films show the frame',
    )
    ring = page.locator('.srlviz-codes-explorer').first.locator('.srlviz-ring').first.bounding_box()
    assert abs(ring['x'] + ring['width'] / 2 - x) < 2 and abs(ring['y'] + ring['height'] / 2 - y) < 2
    page.mouse.move(5, 5)
    wait_for(lambda: not card.is_visible(), message='the card is hidden')


@pytest.mark.browser
def test_a_lasso_selects_steps_and_a_tag_names_them(page, lab):
    "A lasso selects steps on both maps, with shift more steps; a tag names them; a double click clears the selection."

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

    row = isolated_row(lab)
    step = lab.evaluate(f'[int(one.pane.map.episode[{row}]), int(one.pane.map.t[{row}])]')
    draw(row, 12)
    wait_for(
        lambda: lab.evaluate(f'one.steps is not None and {tuple(step)} in one.steps'), message='the step is selected'
    )
    wait_idle(page)  # the lasso sends the steps more than once
    wait_for(lambda: lab.evaluate('one.steps == other.steps'), message='the other explorer has the same steps')
    n_steps = lab.evaluate('len(one.steps)')
    assert n_steps < 100
    wait_for(lambda: map_of(page, 1).get_attribute('data-chosen') == str(n_steps), message='the other map shows them')
    middle = lab.evaluate('int(np.linalg.norm(one.pane.map.xy - np.median(one.pane.map.xy, 0), axis=1).argmin())')
    draw(middle, 40, shift=True)
    wait_for(lambda: lab.evaluate('len(one.steps)') > n_steps, message='more steps are selected')
    assert lab.evaluate(f'{tuple(step)} in one.steps')
    explorer = page.locator('.srlviz-codes-explorer').first
    selected = f'Selected: {lab.evaluate("len(one.steps)")} steps'
    wait_for(lambda: selected in explorer.inner_text(), message='the summary counts them')
    explorer.get_by_placeholder('name of the selected steps').fill('corner')
    explorer.get_by_role('button', name='tag', exact=True).click()
    wait_for(lambda: lab.evaluate('one.tags.get("corner") == one.steps'), message='the steps are tagged')
    wait_for(lambda: 'corner' in map_of(page).inner_text(), message='the map shows the tag')
    page.screenshot(path=SHOTS / 'codes_lasso.png')
    x, y = place(page, lab, 0, middle)
    page.mouse.dblclick(x, y)
    wait_for(lambda: lab.evaluate('one.steps is None and other.steps is None'), message='nothing is selected')


def shades(page, k: int = 0) -> int:
    "Count the colours of the points on a map."
    return map_of(page, k).evaluate(
        """e => {
            const c = e.querySelector('canvas'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;
            const seen = new Set();
            for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);
            return seen.size }"""
    )


@pytest.mark.browser
def test_points_are_drawn_where_clicks_find_them(page, lab):
    "The pixel at the position of a step is coloured: at first, after pan and zoom, and in a narrower pane."

    def is_drawn(row):
        x, y = place(page, lab, 0, row)
        return map_of(page).evaluate(
            """(e, [x, y]) => {
                const c = e.querySelector('canvas'), r = c.getBoundingClientRect(), k = c.width / r.width;
                const [i, j] = [Math.round((x - r.left) * k), Math.round((y - r.top) * k)];
                return c.getContext('2d').getImageData(i, j, 1, 1).data[3] > 150 }""",
            [x, y],
        )

    rows = [isolated_row(lab), lab.evaluate('int(np.linalg.norm(one.pane.map.xy, axis=1).argmin())')]
    wait_for(lambda: all(map(is_drawn, rows)), message='both points are drawn')
    assert shades(page) > 20  # a colour scale, not a single colour
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
    page.mouse.wheel(0, -300)  # the map has the focus, so the wheel zooms around the pointer
    wait_for(lambda: is_drawn(rows[1]), message='it is drawn after a zoom')
    zoomed = place(page, lab, 0, rows[1])
    assert abs(zoomed[0] - now[0]) < 2 and abs(zoomed[1] - now[1]) < 2
    page.set_viewport_size(dict(width=1100, height=900))
    try:
        map_of(page).get_by_role('button', name='show all points').click()
        wait_for(lambda: all(map(is_drawn, rows)), message='the map has the size of its pane')
        stage = map_of(page).locator('.srlviz-scatter-stage').bounding_box()
        canvas = map_of(page).locator('canvas').bounding_box()
        assert abs(stage['width'] - canvas['width']) <= 2 and abs(stage['height'] - canvas['height']) <= 2
    finally:
        page.set_viewport_size(dict(width=1400, height=900))
        lab.execute("one.drag = 'lasso'")


@pytest.mark.browser
def test_keys_move_between_points_and_open_them(page, lab):
    "Arrows move from point to point and announce each; Enter opens it and marks its neighbours; Escape clears."
    stage = map_of(page).locator('.srlviz-scatter-stage')
    stage.focus()
    announced = map_of(page).locator('[role=status]')
    for key, step in (
        ('ArrowRight', 'episode 0, t 0'),
        ('ArrowRight', 'episode 0, t 1'),
        ('ArrowLeft', 'episode 0, t 0'),
    ):
        page.keyboard.press(key)
        wait_for(lambda: announced.inner_text().startswith(step), message=f'{step} is read out')
    first = lab.evaluate('one.pane.map.xy[0].tolist()')
    page.keyboard.press('ArrowUp')
    wait_for(lambda: not announced.inner_text().startswith('episode 0, t 0,'), message='another point is read out')
    page.keyboard.press('Enter')
    wait_for(lambda: lab.evaluate('[one.episode, one.t]') != [0, 0], message='the step is opened')
    assert lab.evaluate('one.pane.map.xy[one.pane.columns().row(one.episode, one.t)].tolist()')[1] > first[1]
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
    wait_for(lambda: lab.evaluate('one.steps is None'), message='nothing is selected')


@pytest.mark.browser
def test_plotly_draws_the_map_without_webgl(browser, open_lab):
    "Plotly draws the map, and the page mentions WebGL; a click opens a step."
    lab = open_lab(notebook_of(CELL.strip()))
    disable_webgl = (
        'const get = HTMLCanvasElement.prototype.getContext; HTMLCanvasElement.prototype.getContext = '
        'function (kind, ...more) { return /webgl/.test(kind) ? null : get.call(this, kind, ...more); }'
    )
    page = open_page(browser, lab, before=lambda p: p.add_init_script(disable_webgl))
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
