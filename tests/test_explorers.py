"""The second tutorial in a real JupyterLab: AtariDashboard, RAMExplorer, InfoNCEMap and NearestFrames; what a reader
presses and drags, what the page shows, what the kernel then holds.

Each test begins with the same state, and may run alone."""

import pytest
from lab import ROOT, SHOTS, at_rest, in_step, nothing_broke, open_page, wait_for

pytestmark = pytest.mark.browser
TUTORIAL = ROOT / 'nbs/tutorials/02_atari.ipynb'


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(TUTORIAL, "\nsteps, epochs = 1600, 1     # the test presses buttons; nothing needs to be learned\n")


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    nothing_broke(page)
    return page


START = """
import srlviz.widgets.atari.codes
srlviz.widgets.atari.codes.SLOW = 60      # a busy machine ends nothing
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
    "The same state before each test; and after it, nothing may have broken"
    lab.do(START)
    at_rest(page)
    yield
    nothing_broke(page)


def plot(page, where, k=0):
    view = page.locator(f'{where} .js-plotly-plot').nth(k)
    wait_for(lambda: view.count() and view.evaluate("g => !!g._fullLayout?.xaxis?._length"), say='the plot is drawn')
    view.scroll_into_view_if_needed()
    in_step(page)
    return view


def point(view, x, y, axes=''):
    "Where on the page a place of a plot's axes is, of the first or of those named '2', '3'..."
    return view.evaluate(
        """(g, [x, y, a]) => { const r = g.getBoundingClientRect(), X = g._fullLayout[`xaxis${a}`],
            Y = g._fullLayout[`yaxis${a}`];
            return [r.left + X._offset + X.c2p(x), r.top + Y._offset + Y.c2p(y)] }""",
        [x, y, axes],
    )


def cell(heat, *wanted):
    "Where on the page the cell of a heat map is whose customdata are these, None being any"
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
    in_step(page)  # the kernel may have sent other choices
    return (
        page.locator('.srlviz-dashboard .widget-dropdown:visible')
        .filter(has=page.locator(f'label:text-is("{name}")'))
        .locator('select')
        .first
    )


def test_a_game(page, lab):
    "A press on a cell of the games shows that game beside them: its factors, or its categories"
    heat = plot(page, '.srlviz-dashboard')
    assert heat.locator('text=Montezuma’s Revenge').count() and lab.ask('dashboard.task') == 'all'
    page.mouse.click(*cell(heat, 'pong', 'srlviz', 'st_dim'))
    wait_for(
        lambda: lab.ask('[dashboard.task, dashboard.method]') == ['pong', 'st_dim'],
        say='the game and the method are chosen',
    )
    wait_for(lambda: 'ball_y' in plot(page, '.srlviz-probe-heatmap').inner_text(), say='its factors are shown')
    page.locator('.srlviz-dashboard .widget-toggle-button', has_text='Categories').click()
    categories = page.locator('.srlviz-dashboard .srlviz-plot[aria-label="scores by category"]')
    wait_for(lambda: 'by category: Pong' in categories.inner_text(), say='its categories are shown')
    page.locator('.srlviz-dashboard .widget-toggle-button', has_text='Factors').click()
    assert menu(page, 'Game').input_value() == 'Pong' and lab.ask('not dashboard.frames.opened')


def test_a_factor(page, lab):
    "A press on a factor opens frames, with that factor over time, in place of the games"
    lab.do("dashboard.task = 'pong'")
    page.mouse.click(*cell(plot(page, '.srlviz-probe-heatmap'), None, 'ball_y', 'srlviz', 'random_cnn'))
    wait_for(
        lambda: (
            lab.ask('[dashboard.factor, dashboard.method, dashboard.frames.opened]') == ['ball_y', 'random_cnn', 'pong']
        ),
        120,
        say='the frames are there',
    )
    assert lab.ask('dashboard.detail.probe.side.browser.factor') == 'ball_y'
    player = page.locator('.srlviz-dashboard .srlviz-player')
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') == '0', say='the first frame is drawn')
    in_step(page)
    row = page.locator('.srlviz-dashboard .srlviz-numbers tr[data-name=ball_y]')
    assert row.locator('button').get_attribute('aria-pressed') == 'true'
    wait_for(
        lambda: 'Ball y' in page.locator('.srlviz-dashboard .srlviz-frame-browser .srlviz-plot').first.inner_text(),
        say='the factor is drawn over time',
    )
    page.screenshot(path=SHOTS / 'dashboard_frames.png')


def test_menus_choose_the_same(page, lab):
    lab.do("dashboard.task, dashboard.method = 'pong', 'random_cnn'; dashboard.factor = 'ball_y'")
    assert lab.ask('dashboard.frames.opened') == 'pong'
    menu(page, 'Factor').select_option('ball_x')
    wait_for(
        lambda: lab.ask('[dashboard.factor, dashboard.detail.probe.side.browser.factor]') == ['ball_x', 'ball_x'],
        say='the open frames follow',
    )
    menu(page, 'Probes on').select_option('standardized codes')
    wait_for(
        lambda: (
            lab.ask('[dashboard.conditioning, dashboard.method, dashboard.factor]')
            == ['standardized', 'random_cnn · standardized', 'ball_x']
        ),
        say='the same encoder and factor',
    )
    menu(page, 'Probes on').select_option('both')
    menu(page, 'Game').select_option('Breakout')
    wait_for(
        lambda: lab.ask('[dashboard.conditioning, dashboard.task, dashboard.factor]') == ['both', 'breakout', ''],
        say='the menu sets the game',
    )
    wait_for(
        lambda: (
            'Breakout' in plot(page, '.srlviz-probe-heatmap').inner_text()
            and not page.locator('.srlviz-dashboard .srlviz-player').count()
        ),
        say='its factors are shown, the frames of the other game are gone',
    )


def test_raw_against_standardized(page, lab):
    menu(page, 'Show').select_option('Raw against standardized')
    heat = plot(page, '.srlviz-dashboard')
    wait_for(
        lambda: lab.ask('dashboard.view') == 'conditioning' and 'Ring: raw codes' in heat.inner_text(),
        say='the arrows are drawn',
    )
    in_step(page)
    x, y = heat.evaluate(
        """g => { const r = g.getBoundingClientRect(), l = g._fullLayout,
            i = g._fullData.findIndex(t => t.name === 'raw probe'),
            p = g.calcdata[i][g._fullData[i].customdata.findIndex(c => c[0] === 'pong')];
            return [r.left + l.xaxis._offset + l.xaxis.c2p(p.x), r.top + l.yaxis._offset + l.yaxis.c2p(p.y)] }"""
    )
    page.mouse.click(x, y)
    wait_for(
        lambda: lab.ask('[dashboard.task, dashboard.method]') == ['pong', 'random_cnn'],
        say='a press on a ring chooses its game and encoder',
    )
    page.screenshot(path=SHOTS / 'dashboard_conditioning.png')
    menu(page, 'Show').select_option('Ranks, raw and standardized')
    wait_for(lambda: 'and rank, Pong' in heat.inner_text(), say='the ranks in that game')


def test_a_byte(page, lab):
    "A press on a cell chooses the byte; the slider, by keyboard, sets it; the picture follows"
    grid = plot(page, '.srlviz-ram-explorer', 1)
    page.mouse.click(*point(grid, 49 % 16, 49 // 16))
    wait_for(lambda: lab.ask('explorer.address') == 49, say='the byte is chosen')
    status = page.locator('.srlviz-ram-explorer .srlviz-status').first
    wait_for(
        lambda: '49 · ball_x' in status.inner_text() and 'pixels change' in status.inner_text(),
        say='the page says what it moves',
    )
    in_step(page)
    before = lab.ask('explorer.value')
    page.locator('.srlviz-ram-explorer [role=slider]').first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(
        lambda: (
            lab.ask('explorer.value') == before + 1
            and f'set to {before + 1}' in plot(page, '.srlviz-ram-explorer').inner_text()
        ),
        say='slider, kernel and picture agree',
    )
    page.get_by_role('button', name='current value').click()
    wait_for(lambda: 'not changed' in status.inner_text() and lab.ask('explorer.value == int(explorer.lab.ram[49])'))


def test_what_each_byte_moves(page, lab):
    page.get_by_role('button', name='find what each byte moves').click()
    wait_for(lambda: lab.ask('explorer.view') == 'effects', 120, say='the table is there')
    wait_for(
        lambda: 'which bytes move which pixels' in plot(page, '.srlviz-ram-explorer', 1).inner_text(),
        say='the grid shows it',
    )
    page.screenshot(path=SHOTS / 'ram_effects.png')
    in_step(page)
    ram = lab.ask('explorer.lab.ram.tolist()')
    page.get_by_role('button', name='continue').click()
    wait_for(
        lambda: lab.ask('explorer.lab.ram.tolist()') != ram and lab.ask('explorer.grid.effects is None'),
        say='another moment',
    )


def test_a_region(page, lab):
    "A rectangle dragged over the picture is, to the pixel, the region that is asked about"
    picture = plot(page, '.srlviz-ram-explorer')
    (x0, y0), (x1, y1) = (point(picture, *at, axes='2') for at in ((19.5, 39.5), (99.5, 179.5)))
    page.mouse.move(x0, y0)
    page.mouse.down()
    page.mouse.move(x1, y1, steps=8)
    page.mouse.up()
    box = wait_for(lambda: lab.ask('explorer.box'), say='the kernel knows the region')
    assert all(abs(a - b) <= 1 for a, b in zip(box, (20, 40, 100, 180)))
    wait_for(lambda: lab.ask('explorer.view') == 'region', say='the question has taken the place of the grid')
    page.get_by_role('button', name='which byte predicts it?').click()
    best = wait_for(
        lambda: lab.ask("None if explorer.region.table is None else explorer.region.table['address'].tolist()[:3]"),
        120,
        say='the answer',
    )
    wait_for(lambda: str(best[0]) in plot(page, '.srlviz-ram-explorer', 2).inner_text(), say='the bars show it')
    page.screenshot(path=SHOTS / 'ram_region.png')
    x, y = plot(page, '.srlviz-ram-explorer', 2).evaluate(
        """g => { const r = g.querySelectorAll('.bars path')[0].getBoundingClientRect();
            return [r.left + r.width/2, r.top + r.height/2] }"""
    )
    page.mouse.click(x, y)
    wait_for(lambda: lab.ask('explorer.address') == best[0], say='a press on a bar chooses the byte')


def test_loss_map(page, lab):
    "A press on the map chooses that place, arrows on the slider another pair, whose worst place opens"
    view = plot(page, '.srlviz-infonce-map')
    page.mouse.click(*point(view, 5 * 16 + 21.5, 6 * 16 + 21.5))
    wait_for(lambda: lab.ask('list(places.cell)') == [6, 5], say='the place is chosen')
    wait_for(
        lambda: 'Row 6, column 5' in plot(page, '.srlviz-infonce-map', 1).inner_text(), say='its patches are shown'
    )
    in_step(page)
    page.locator('.srlviz-infonce-map [role=slider]').first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(
        lambda: (
            lab.ask('places.pair') == 1
            and 'number 2 from the hardest' in page.locator('.srlviz-infonce-map .srlviz-status').inner_text()
        )
    )
    assert lab.ask('places.cell == places.losses.places(places.part, places.shown())[0]'), 'its worst place'
    page.screenshot(path=SHOTS / 'loss_map.png')


def test_nearest(page, lab):
    "A press on a neighbour makes it the query; back returns; while frames run nothing is looked up"
    player = page.locator('.srlviz-nearest-frames .srlviz-player')
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') == '100', say='the query is drawn')
    in_step(page)
    want = lab.ask("nearest.lookup.nearest.found['random_cnn'].iloc[2][['episode', 't']].astype(int).tolist()")
    page.locator('.srlviz-nearest-frames .srlviz-picker').nth(1).locator('button').nth(2).click()
    wait_for(
        lambda: (
            lab.ask('list(nearest.lookup.nearest.query)') == want and player.get_attribute('data-frame') == str(want[1])
        ),
        say='the neighbour is the query',
    )
    in_step(page)
    page.screenshot(path=SHOTS / 'nearest.png')
    keys = """() => { const e = document.activeElement;
        return [e.closest('.srlviz-picker') !== null, [...e.parentElement.children].indexOf(e)] }"""
    assert page.evaluate(keys) == [True, 2], 'the keys stay with the frames, though these are others'
    page.get_by_role('button', name='back', exact=True).click()
    wait_for(
        lambda: (
            lab.ask('list(nearest.lookup.nearest.query)') == [0, 100] and player.get_attribute('data-frame') == '100'
        )
    )
    in_step(page)
    player.locator('[data-do=play]').click()
    wait_for(lambda: int(player.get_attribute('data-frame')) > 110, say='it plays')
    assert lab.ask('list(nearest.lookup.nearest.query)') == [0, 100]
    page.keyboard.press('Space')
    wait_for(
        lambda: lab.ask('nearest.lookup.nearest.query[1]') == int(player.get_attribute('data-frame')) > 110,
        say='stopped, its neighbours are looked up',
    )
