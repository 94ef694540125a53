"""The widgets of the second tutorial in JupyterLab: AtariDashboard, RAMExplorer, InfoNCEMap and NearestFrames.

Tests click, drag and press keys, and check what the page shows and the state of the kernel. Each starts from the same
state and may run alone.
"""

import pytest
from support.lab import ROOT, SHOTS, release_focus, wait_idle, assert_no_errors, open_page, wait_for

pytestmark = pytest.mark.browser
TUTORIAL = ROOT / 'nbs/tutorials/02_atari.ipynb'


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(TUTORIAL, "\nsteps, epochs = 1600, 1     # the test clicks buttons; nothing needs to be learned\n")


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


START = """
import srlviz.widgets.atari.loss_map
srlviz.widgets.atari.loss_map.SLOW = 60      # a busy machine must not stop a computation
dashboard.detail.leave()
dashboard.detail.shown = 'factors'
dashboard.view, dashboard.conditioning, dashboard.task = 'scores', 'both', 'all'
dashboard.method = 'random_cnn · standardized'
explorer.moment.restart(0, 200)
explorer.frames, explorer.box, explorer.view = 2, None, 'values'
explorer.address = 13
places.part, places.pair, places.show_map = next(iter(places.losses.losses)), 0, True
places.cell = places.losses.places(places.part, places.shown())[0]
nearest.method, nearest.factor, nearest.k, nearest.live = None, None, 6, True
nearest.seek(0, 100)
nearest.trail.visited.clear()"""


@pytest.fixture(autouse=True)
def start(page, lab):
    "Reset the state before each test, and check after it that nothing failed."
    lab.execute(START)
    release_focus(page)
    yield
    assert_no_errors(page)


def plot(page, where, k=0):
    view = page.locator(f'{where} .js-plotly-plot').nth(k)
    wait_for(
        lambda: view.count() and view.evaluate("g => !!g._fullLayout?.xaxis?._length"), message='the plot is drawn'
    )
    view.scroll_into_view_if_needed()
    wait_idle(page)
    return view


def point(view, x, y, axes=''):
    "Return the page coordinates of a point on a plot's axes: the first ones, or those named '2', '3'..."
    return view.evaluate(
        """(g, [x, y, a]) => { const r = g.getBoundingClientRect(), X = g._fullLayout[`xaxis${a}`],
            Y = g._fullLayout[`yaxis${a}`];
            return [r.left + X._offset + X.c2p(x), r.top + Y._offset + Y.c2p(y)] }""",
        [x, y, axes],
    )


def cell(heat, *wanted):
    "Return the page coordinates of the heat map cell with this customdata; None matches anything."
    return heat.evaluate(
        """(g, wanted) => { const r = g.getBoundingClientRect(), l = g._fullLayout,
            { customdata, x, y } = { ...g._fullData[0], customdata: g.data[0].customdata },
            middle = (e, k) => (e[k] + e[k + 1])/2;
        for (const [i, row] of customdata.entries()) for (const [j, c] of row.entries())
            if (wanted.every((w, k) => w === null || c[k] === w))
                return [r.left + l.xaxis._offset + l.xaxis.c2p(middle(x, j)),
                        r.top + l.yaxis._offset + l.yaxis.c2p(middle(y, i))] }""",
        wanted,
    )


def menu(page, name):
    wait_idle(page)  # the kernel may have sent other options
    return (
        page.locator('.srlviz-dashboard .widget-dropdown:visible')
        .filter(has=page.locator(f'label:text-is("{name}")'))
        .locator('select')
        .first
    )


def test_clicking_a_cell_selects_its_game(page, lab):
    "A click on a cell of the games shows that game beside them: its factors or its categories."
    heat = plot(page, '.srlviz-dashboard')
    assert heat.locator('text=Montezuma’s Revenge').count() and lab.evaluate('dashboard.task') == 'all'
    page.mouse.click(*cell(heat, 'pong', 'srlviz', 'st_dim'))
    wait_for(
        lambda: lab.evaluate('[dashboard.task, dashboard.method]') == ['pong', 'st_dim'],
        message='the game and the method are selected',
    )
    wait_for(lambda: 'ball_y' in plot(page, '.srlviz-probe-heatmap').inner_text(), message='its factors are shown')
    page.locator('.srlviz-dashboard .widget-toggle-button', has_text='Categories').click()
    categories = page.locator('.srlviz-dashboard .srlviz-plot[aria-label="scores by category"]')
    wait_for(lambda: 'by category: Pong' in categories.inner_text(), message='its categories are shown')
    page.locator('.srlviz-dashboard .widget-toggle-button', has_text='Factors').click()
    assert menu(page, 'Game').input_value() == 'Pong' and lab.evaluate('not dashboard.frames.opened')


def test_clicking_a_factor_opens_its_frames(page, lab):
    "A click on a factor replaces the games by frames, with that factor over time."
    lab.execute("dashboard.task = 'pong'")
    page.mouse.click(*cell(plot(page, '.srlviz-probe-heatmap'), None, 'ball_y', 'srlviz', 'random_cnn'))
    wait_for(
        lambda: (
            lab.evaluate('[dashboard.factor, dashboard.method, dashboard.frames.opened]')
            == ['ball_y', 'random_cnn', 'pong']
        ),
        120,
        message='the frames are open',
    )
    assert lab.evaluate('dashboard.detail.probe.side.browser.factor') == 'ball_y'
    player = page.locator('.srlviz-dashboard .srlviz-player')
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') == '0', message='the first frame is drawn')
    wait_idle(page)
    row = page.locator('.srlviz-dashboard .srlviz-numbers tr[data-name=ball_y]')
    assert row.locator('button').get_attribute('aria-pressed') == 'true'
    wait_for(
        lambda: 'Ball y' in page.locator('.srlviz-dashboard .srlviz-frame-browser .srlviz-plot').first.inner_text(),
        message='the factor is drawn over time',
    )
    page.screenshot(path=SHOTS / 'dashboard_frames.png')


def test_menus_select_factor_probe_and_game(page, lab):
    lab.execute("dashboard.task, dashboard.method = 'pong', 'random_cnn'; dashboard.factor = 'ball_y'")
    assert lab.evaluate('dashboard.frames.opened') == 'pong'
    menu(page, 'Factor').select_option('ball_x')
    wait_for(
        lambda: lab.evaluate('[dashboard.factor, dashboard.detail.probe.side.browser.factor]') == ['ball_x', 'ball_x'],
        message='the open frames show the factor',
    )
    menu(page, 'Probes on').select_option('standardized codes')
    wait_for(
        lambda: (
            lab.evaluate('[dashboard.conditioning, dashboard.method, dashboard.factor]')
            == ['standardized', 'random_cnn · standardized', 'ball_x']
        ),
        message='the encoder and the factor stay',
    )
    menu(page, 'Probes on').select_option('both')
    menu(page, 'Game').select_option('Breakout')
    wait_for(
        lambda: lab.evaluate('[dashboard.conditioning, dashboard.task, dashboard.factor]') == ['both', 'breakout', ''],
        message='the menu sets the game',
    )
    wait_for(
        lambda: (
            'Breakout' in plot(page, '.srlviz-probe-heatmap').inner_text()
            and not page.locator('.srlviz-dashboard .srlviz-player').count()
        ),
        message='its factors are shown, the frames of the other game are gone',
    )


def test_clicking_a_ring_selects_its_game_and_encoder(page, lab):
    menu(page, 'Show').select_option('Raw against standardized')
    heat = plot(page, '.srlviz-dashboard')
    wait_for(
        lambda: lab.evaluate('dashboard.view') == 'conditioning' and 'Ring: raw codes' in heat.inner_text(),
        message='the arrows are drawn',
    )
    wait_idle(page)
    x, y = heat.evaluate(
        """g => { const r = g.getBoundingClientRect(), l = g._fullLayout,
            i = g._fullData.findIndex(t => t.name === 'raw probe'),
            p = g.calcdata[i][g._fullData[i].customdata.findIndex(c => c[0] === 'pong')];
            return [r.left + l.xaxis._offset + l.xaxis.c2p(p.x), r.top + l.yaxis._offset + l.yaxis.c2p(p.y)] }"""
    )
    page.mouse.click(x, y)
    wait_for(
        lambda: lab.evaluate('[dashboard.task, dashboard.method]') == ['pong', 'random_cnn'],
        message='a click on a ring selects its game and encoder',
    )
    page.screenshot(path=SHOTS / 'dashboard_conditioning.png')
    menu(page, 'Show').select_option('Ranks, raw and standardized')
    wait_for(lambda: 'and rank, Pong' in heat.inner_text(), message='the ranks in that game are shown')


def test_the_slider_sets_the_selected_byte(page, lab):
    "A click on a cell selects a byte; the slider sets it by keyboard; the picture shows the change."
    grid = plot(page, '.srlviz-ram-explorer', 1)
    page.mouse.click(*point(grid, 49 % 16, 49 // 16))
    wait_for(lambda: lab.evaluate('explorer.address') == 49, message='the byte is selected')
    status = page.locator('.srlviz-ram-explorer .srlviz-status').first
    wait_for(
        lambda: '49 · ball_x' in status.inner_text() and 'pixels change' in status.inner_text(),
        message='the page shows what it moves',
    )
    wait_idle(page)
    before = lab.evaluate('explorer.value')
    page.locator('.srlviz-ram-explorer [role=slider]').first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(
        lambda: (
            lab.evaluate('explorer.value') == before + 1
            and f'set to {before + 1}' in plot(page, '.srlviz-ram-explorer').inner_text()
        ),
        message='slider, kernel and picture agree',
    )
    page.get_by_role('button', name='current value').click()
    wait_for(
        lambda: 'not changed' in status.inner_text() and lab.evaluate('explorer.value == int(explorer.lab.ram[49])')
    )


def test_the_grid_shows_which_bytes_move_pixels(page, lab):
    page.get_by_role('button', name='find what each byte moves').click()
    wait_for(lambda: lab.evaluate('explorer.view') == 'effects', 120, message='the table is computed')
    wait_for(
        lambda: 'which bytes move which pixels' in plot(page, '.srlviz-ram-explorer', 1).inner_text(),
        message='the grid shows it',
    )
    page.screenshot(path=SHOTS / 'ram_effects.png')
    wait_idle(page)
    ram = lab.evaluate('explorer.lab.ram.tolist()')
    page.get_by_role('button', name='continue').click()
    wait_for(
        lambda: lab.evaluate('explorer.lab.ram.tolist()') != ram and lab.evaluate('explorer.grid.effects is None'),
        message='the game continued',
    )


def test_dragging_a_rectangle_selects_a_region(page, lab):
    "A rectangle dragged over the picture selects that region to the pixel; its best bytes are computed and shown."
    picture = plot(page, '.srlviz-ram-explorer')
    (x0, y0), (x1, y1) = (point(picture, *at, axes='2') for at in ((19.5, 39.5), (99.5, 179.5)))
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move(x1, y1, steps=8)
    page.mouse.up()
    box = wait_for(lambda: lab.evaluate('explorer.box'), message='the kernel has the region')
    assert all(abs(a - b) <= 1 for a, b in zip(box, (20, 40, 100, 180)))
    wait_for(lambda: lab.evaluate('explorer.view') == 'region', message='the region view has replaced the grid')
    page.get_by_role('button', name='which byte predicts it?').click()
    best = wait_for(
        lambda: lab.evaluate(
            "None if explorer.region.table is None else explorer.region.table['address'].tolist()[:3]"
        ),
        120,
        message='the bytes are ranked',
    )
    wait_for(
        lambda: str(best[0]) in plot(page, '.srlviz-ram-explorer', 2).inner_text(), message='the bars show the ranking'
    )
    page.screenshot(path=SHOTS / 'ram_region.png')
    x, y = plot(page, '.srlviz-ram-explorer', 2).evaluate(
        """g => { const r = g.querySelectorAll('.bars path')[0].getBoundingClientRect();
            return [r.left + r.width/2, r.top + r.height/2] }"""
    )
    page.mouse.click(x, y)
    wait_for(lambda: lab.evaluate('explorer.address') == best[0], message='a click on a bar selects the byte')


def test_clicking_the_loss_map_selects_a_place(page, lab):
    "A click on the map selects a place; arrow keys on the slider select another pair, which opens at its worst place."
    view = plot(page, '.srlviz-infonce-map')
    page.mouse.click(*point(view, 5 * 16 + 21.5, 6 * 16 + 21.5))
    wait_for(lambda: lab.evaluate('list(places.cell)') == [6, 5], message='the place is selected')
    wait_for(
        lambda: 'Row 6, column 5' in plot(page, '.srlviz-infonce-map', 1).inner_text(), message='its patches are shown'
    )
    wait_idle(page)
    page.locator('.srlviz-infonce-map [role=slider]').first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(
        lambda: (
            lab.evaluate('places.pair') == 1
            and 'number 2 from the hardest' in page.locator('.srlviz-infonce-map .srlviz-status').inner_text()
        )
    )
    assert lab.evaluate('places.cell == places.losses.places(places.part, places.shown())[0]'), 'the worst place opens'
    page.screenshot(path=SHOTS / 'loss_map.png')


def test_clicking_a_neighbour_makes_it_the_query(page, lab):
    "A click on a neighbour makes it the query; back restores the previous one; playing looks up nothing."
    player = page.locator('.srlviz-nearest-frames .srlviz-player')
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') == '100', message='the query is drawn')
    wait_idle(page)
    expected = lab.evaluate("nearest.lookup.nearest.found['random_cnn'].iloc[2][['episode', 't']].astype(int).tolist()")
    page.locator('.srlviz-nearest-frames .srlviz-picker').nth(1).locator('button').nth(2).click()
    wait_for(
        lambda: (
            lab.evaluate('list(nearest.lookup.nearest.query)') == expected
            and player.get_attribute('data-frame') == str(expected[1])
        ),
        message='the neighbour is the query',
    )
    wait_idle(page)
    page.screenshot(path=SHOTS / 'nearest.png')
    keys = """() => { const e = document.activeElement;
        return [e.closest('.srlviz-picker') !== null, [...e.parentElement.children].indexOf(e)] }"""
    assert page.evaluate(keys) == [True, 2], 'the focus stays on the frames, although they changed'
    page.get_by_role('button', name='back', exact=True).click()
    wait_for(
        lambda: (
            lab.evaluate('list(nearest.lookup.nearest.query)') == [0, 100]
            and player.get_attribute('data-frame') == '100'
        )
    )
    wait_idle(page)
    lab.execute('searched, find = [], nearest.find\nnearest.find = lambda: searched.append(1) or find()')
    player.locator('[data-do=play]').click()
    wait_for(lambda: int(player.get_attribute('data-frame')) > 110, message='the frames play')
    page.keyboard.press('Space')  # the film may have come to its end before
    wait_for(
        lambda: lab.evaluate('nearest.lookup.nearest.query[1]') == int(player.get_attribute('data-frame')) > 110,
        message='the neighbours of the frame are looked up once it stops',
    )
    assert lab.evaluate('len(searched)') == 1
    lab.execute('del nearest.find')
