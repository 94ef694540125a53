"""Tests of FrameBrowser and ProbeHeatmap in a real JupyterLab and a real Chromium, in the quick-start notebook.

They press what a user presses, then compare the page with the state of the kernel. Each test starts from the same
state, and can run alone. Screenshots are saved in artefacts/. No request may leave this machine.
"""

import urllib.error, urllib.request

import pytest
from support.lab import (
    DRAWN,
    ROOT,
    SHOTS,
    SMALL,
    release_focus,
    wait_idle,
    set_theme,
    assert_no_errors,
    open_page,
    wait_for,
)

pytestmark = pytest.mark.browser


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(ROOT / 'nbs/tutorials/01_quickstart.ipynb', SMALL)


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


BROWSER, HEATMAP = '.srlviz-frame-browser', '.srlviz-probe-heatmap'
START = """
browser.factor, browser.second, browser.against, browser.show_marks = 'player_y', '', -1, True
browser.player.speed = 1.0
browser.seek(0, 0)
heatmap.metric, heatmap.against, heatmap.side.predictions.confusion_button.value = 'f1', '', False
heatmap.choose('player_y', 'majority')
heatmap.seek(*heatmap.side.predictions.shown.places()[0])"""


@pytest.fixture(autouse=True)
def start(page, lab):
    "Restore the same state before each test, and check after it that nothing failed"
    set_theme(page, 'Light')
    lab.execute(START)
    release_focus(page)
    wait_for(lambda: shown(player_in(page, BROWSER)) == 0, message='the first frame is shown')
    yield
    assert_no_errors(page)


def player_in(page, where):
    player = page.locator(f'{where} .srlviz-player').first
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') is not None, message='the first frame is drawn')
    return player


def shown(player):
    return int(player.get_attribute('data-frame'))


def menu(page, where, name):
    "Return the menu with the label `name`"
    dropdown = page.locator(f'{where} .widget-dropdown:visible').filter(has=page.locator(f'label:text-is("{name}")'))
    return dropdown.locator('select').first


def agreed_step(player, lab, name):
    "Wait until slider, picture and kernel are at the same step, and return it"
    return wait_for(
        lambda: (
            (t := shown(player)) == int(player.locator('input[type=range]').input_value()) == lab.evaluate(f'{name}.t')
            and [t]
        ),
        message=f'slider, picture and kernel show the same step of {name}',
    )[0]


def test_canvas_shows_the_recorded_frame(page, lab):
    "Every pixel of the canvas equals that of the recorded frame"
    player = player_in(page, BROWSER)
    lab.execute('browser.seek(1, 200)')
    wait_for(lambda: shown(player) == 200, message='a jump from Python reaches the page')
    drawn = player.locator('canvas').first.evaluate(
        "c => { const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data; return "
        "Array.from(d.filter((_, i) => i % 4 === 0)) }"
    )
    assert drawn == lab.evaluate("recording[1].obs['frame'][200].ravel().tolist()")


def test_play_button_moves_frames_and_space_stops(page, lab):
    player = player_in(page, BROWSER)
    player.locator('[data-do=play]').click()
    wait_for(lambda: shown(player) > 12, message='frames move')
    wait_for(lambda: lab.evaluate('browser.player.playing'), message='the kernel has the playing state')
    page.screenshot(path=SHOTS / 'browser_playing.png')
    page.keyboard.press('Space')
    wait_for(lambda: player.get_attribute('data-playing') == 'false', message='space stops it')
    wait_idle(page)
    t = agreed_step(player, lab, 'browser')
    assert t > 12 and lab.evaluate('browser.player.playing') is False
    assert int(player.locator('input[type=number]').input_value()) == t


def test_slider_and_keys_move_the_frame(page, lab):
    player = player_in(page, BROWSER)
    box = player.locator('input[type=range]').bounding_box()
    now = shown(player)
    last = lab.evaluate('int(recording.lengths[browser.episode]) - 1')
    middle = box['y'] + box['height'] / 2
    page.mouse.move(box['x'] + 8 + (box['width'] - 16) * now / last, middle)
    page.mouse.down()
    page.mouse.move(box['x'] + box['width'] * 0.7, middle, steps=6)
    page.mouse.up()
    wait_idle(page)
    t = agreed_step(player, lab, 'browser')
    assert 0.6 * last < t < 0.8 * last
    player.locator('.srlviz-stage').click()
    for key, by in (('ArrowRight', 1), ('ArrowLeft', -1), ('PageDown', 10), ('ArrowRight', 1)):
        page.keyboard.press(key)
        t += by
        wait_for(lambda: shown(player) == t, message=f'{key} moves by {by}')
    for key, to in (('Home', 0), ('End', last)):
        page.keyboard.press(key)
        wait_for(lambda: shown(player) == to, message=f'{key} jumps to {to}')
    wait_idle(page)
    assert agreed_step(player, lab, 'browser') == last
    assert page.locator('.jp-Notebook').first.evaluate(
        "n => !n.classList.contains('jp-mod-editMode')"
    )  # no key reached the notebook


def test_new_episode_stops_the_one_that_plays(page, lab):
    "The kernel's answer reaches a page that is playing: both must end at the first step of the new episode"
    player = player_in(page, BROWSER)
    player.locator('[data-do=play]').click()
    wait_for(lambda: shown(player) > 5, message='it plays')
    menu(page, BROWSER, 'Episode').select_option(index=2)
    wait_for(
        lambda: lab.evaluate('browser.episode') == 2 and shown(player) == 0, message='the page shows the new episode'
    )
    wait_idle(page)
    assert (shown(player), lab.evaluate('[browser.episode, browser.t, browser.player.playing]')) == (0, [2, 0, False])
    assert int(page.locator(f'{BROWSER} .srlviz-plot').first.get_attribute('data-cursor')) == 0


def test_table_selects_the_factor_and_strip_the_frame(page, lab):
    player = player_in(page, BROWSER)
    table = page.locator(f'{BROWSER} .srlviz-numbers')
    strip = page.locator(f'{BROWSER} .srlviz-plot').first
    table.get_by_role('button', name='ball_x', exact=True).click()
    wait_for(lambda: lab.evaluate('browser.factor') == 'ball_x', message='a press on a row chooses the factor')
    wait_for(lambda: 'Ball x' in strip.inner_text(), message='the strip shows it')
    strip.scroll_into_view_if_needed()
    wait_idle(page)
    x, y, t = strip.locator('.js-plotly-plot').evaluate(
        "g => { const r = g.getBoundingClientRect(), l = g._fullLayout, t = Math.round(l.xaxis.range[1]*.4); "
        "return [r.left + l.xaxis._offset + l.xaxis.c2p(t), r.top + l._size.t + 20, t] }"
    )
    page.mouse.click(x, y)
    wait_for(lambda: shown(player) == t, message='a press in the strip moves the frame')
    wait_idle(page)
    assert agreed_step(player, lab, 'browser') == t and int(strip.get_attribute('data-cursor')) == t
    cell = table.locator('tr[data-name=ball_x] td').last.inner_text()
    assert int(cell) == lab.evaluate("int(browser.current()['ball_x'])")
    marks = player.locator('input[type=checkbox]')
    ringed = "c => c.getContext('2d').getImageData(0, 0, c.width, c.height).data.some(v => v)"
    wait_for(lambda: marks.is_checked(), message='marks are on')
    assert player.locator('canvas').last.evaluate(ringed)
    marks.uncheck()
    wait_for(lambda: lab.evaluate('browser.show_marks') is False)
    assert not player.locator('canvas').last.evaluate(ringed)
    marks.check()
    page.screenshot(path=SHOTS / 'browser_strip.png')


def heat_map(page):
    heat = page.locator(f'{HEATMAP} .js-plotly-plot').first
    heat.scroll_into_view_if_needed()
    wait_for(lambda: heat.evaluate("g => !!g._fullLayout?.xaxis?._length"), message='the heat map is drawn')
    wait_idle(page)
    return heat


def cell_position(heat, factor, method):
    "Return the position on the page of a cell of the heat map"
    return heat.evaluate(
        """(g, [factor, method]) => {
            const d = g.data[0].customdata, r = g.getBoundingClientRect(), l = g._fullLayout;
            const i = d.findIndex(row => row[0][1] === factor);
            const j = d[i].findIndex(c => c[2] !== 'paper' && c[3] === method);
            const middle = (e, k) => (e[k] + e[k + 1])/2;
            const x = l.xaxis._offset + l.xaxis.c2p(middle(g._fullData[0].x, j));
            const y = l.yaxis._offset + l.yaxis.c2p(middle(g._fullData[0].y, i));
            return [r.left + x, r.top + y];
        }""",
        [factor, method],
    )


def test_press_on_a_cell_shows_its_predictions(page, lab):
    heat = heat_map(page)
    method = 'random_cnn · standardized'
    x, y = cell_position(heat, 'ball_x', method)
    page.mouse.move(x, y)
    page.wait_for_selector(f'{HEATMAP} .hoverlayer .hovertext')
    page.mouse.click(x, y)
    wait_for(
        lambda: lab.evaluate('[heatmap.factor, heatmap.method]') == ['ball_x', method],
        message='a press on a cell chooses it',
    )
    trace = page.locator(f'{HEATMAP} .srlviz-plot').nth(1)
    wait_for(
        lambda: 'ball_x' in trace.inner_text() and 'steps exact' in trace.inner_text(),
        message='true against predicted is drawn',
    )
    predictions = 'heatmap.side.predictions.shown'
    n_wrong = lab.evaluate(f'int(({predictions}.truth != {predictions}.predicted).sum())')
    wait_for(
        lambda: f'{n_wrong:,} of' in page.locator(f'{HEATMAP} .srlviz-status').first.inner_text(),
        message='the status line counts the wrong predictions',
    )
    page.mouse.move(5, 5)
    page.screenshot(path=SHOTS / 'heatmap_cell.png')


def test_press_on_the_name_of_a_column_explains_its_numbers(page, lab):
    method = 'random_cnn · standardized'
    head = page.locator(f'{HEATMAP} [data-head]').filter(has_text='std.').first
    head.focus()
    page.keyboard.press('Enter')
    wait_for(lambda: lab.evaluate('heatmap.method') == method, message='the column is chosen')
    words = page.locator(f'{HEATMAP} .srlviz-column', has_text='Can a linear classifier predict the factors').first
    wait_for(lambda: words.is_visible(), message='the question is explained')
    lab.execute('heatmap.about_button.value = False')
    head.click()
    wait_for(lambda: lab.evaluate('heatmap.about_button.value'), message='a press does what the key does')
    lab.execute('heatmap.about_button.value = False')


def stand_right_of(left, thumbs):
    "Return whether thumbnails are right of `left`, entirely within the page, with equally many in each full line"
    edge = left.bounding_box()
    boxes = [thumb.bounding_box() for thumb in thumbs.all()]
    lines = [[b['y'] for b in boxes].count(y) for y in sorted({b['y'] for b in boxes})]
    within = all(edge['x'] + edge['width'] <= b['x'] and b['x'] + b['width'] <= 1400 for b in boxes)
    return within and len(set(lines[:-1])) <= 1 and lines[-1] <= lines[0]


def test_worst_frames_open_in_the_player(page, lab):
    lab.execute("heatmap.choose('ball_x', 'random_cnn · standardized')")
    wait_idle(page)
    worst = lab.evaluate("heatmap.side.predictions.shown.worst[['episode', 't']].astype(int).values.tolist()")
    thumbs = page.locator(f'{HEATMAP} .srlviz-picker button')
    assert worst and thumbs.count() == len(worst)
    thumbs.first.scroll_into_view_if_needed()
    player = page.locator(f'{HEATMAP} .srlviz-player').first
    wait_for(
        lambda: player.get_attribute('data-frame') == str(worst[0][1]),
        message='the worst frame is shown before anything is pressed',
    )
    wait_idle(page)
    assert thumbs.first.get_attribute('aria-pressed') == 'true'
    wait_for(
        lambda: stand_right_of(player.locator('.srlviz-stage'), thumbs), message='they are in lines beside the film'
    )
    for k, press in (
        (min(1, len(worst) - 1), lambda b: b.click()),
        (min(2, len(worst) - 1), lambda b: (b.focus(), page.keyboard.press('Enter'))),
    ):  # once by pointer, once by keyboard
        press(thumbs.nth(k))
        browser = 'heatmap.side.browser'
        wait_for(
            lambda: lab.evaluate(f'[[heatmap.episode, heatmap.t], [{browser}.episode, {browser}.t]]') == [worst[k]] * 2,
            message='the kernel opens that frame',
        )
        wait_for(lambda: player.get_attribute('data-frame') == str(worst[k][1]), message='the page shows it')
        wait_idle(page)
        assert thumbs.nth(k).get_attribute('aria-pressed') == 'true'
    player.scroll_into_view_if_needed()
    page.wait_for_timeout(300)
    page.screenshot(path=SHOTS / 'worst_frame.png')


def test_menus_select_factor_method_and_metric(page, lab):
    menu(page, HEATMAP, 'Factor').select_option('ball_y')
    wait_for(lambda: lab.evaluate('heatmap.factor') == 'ball_y')
    wait_idle(page)
    menu(page, HEATMAP, 'Method').select_option('Random CNN')
    wait_for(
        lambda: lab.evaluate('[heatmap.factor, heatmap.method]') == ['ball_y', 'random_cnn'],
        message='the menus set the traits',
    )
    wait_idle(page)
    menu(page, HEATMAP, 'Metric').select_option('Accuracy')
    heat_map(page).scroll_into_view_if_needed()  # a cell out of view has no rendered text
    wait_for(
        lambda: 'Accuracy' in page.locator(f'{HEATMAP} .js-plotly-plot').first.text_content(),
        message='the heat map shows the other metric',
    )


def test_short_presses_are_not_lost(page, lab):
    "A press just after a move selects the cell, although plotly does not track the pointer at that moment"
    heat = heat_map(page)
    for k, ms in enumerate((0, 50, 56, 62, 68, 74)):
        wait_idle(page)
        factor = ('ball_x', 'player_y')[k % 2]
        x, y = cell_position(heat, factor, 'random_cnn')
        page.mouse.move(x + 3, y)
        page.mouse.move(x, y)
        page.mouse.down()
        page.wait_for_timeout(ms)
        page.mouse.up()
        wait_for(
            lambda: lab.evaluate('[heatmap.factor, heatmap.method]') == [factor, 'random_cnn'],
            message=f'a press of {ms} ms chooses {factor}',
        )
    page.mouse.move(5, 5)


def test_figures_follow_the_dark_theme(page, lab):
    "The colours change with the theme at once, without the kernel"
    heat = heat_map(page)

    def colour():
        return heat.evaluate("g => g._fullLayout.font.color")

    light = colour()
    set_theme(page, 'Dark')
    wait_for(
        lambda: colour() != light and colour() == '#e6e8eb',
        message='the figure is drawn in the colours of the dark theme',
    )
    heat.scroll_into_view_if_needed()
    page.wait_for_timeout(500)
    page.screenshot(path=SHOTS / 'dark.png')
    assert wait_for(lambda: lab.evaluate('heatmap.heat.dark'))


def test_reload_shows_the_current_state(page, lab):
    "A second page on the same kernel shows the state that the first one set"
    lab.execute("browser.seek(1, 123); heatmap.metric = 'accuracy'")
    wait_idle(page)
    page.evaluate("() => { window.jupyterapp.commands.execute('docmanager:save'); return null }")
    wait_for(lambda: page.locator('.jp-mod-current.jp-mod-dirty').count() == 0, message='the notebook is saved')
    page.reload()
    page.wait_for_selector(f'{BROWSER} .srlviz-player', timeout=120_000)
    page.wait_for_function(DRAWN)
    player = player_in(page, BROWSER)
    wait_for(lambda: shown(player) == 123, message='the frame is that of the first page')
    heat = page.locator(f'{HEATMAP} .js-plotly-plot').first
    heat.scroll_into_view_if_needed()
    wait_for(lambda: 'Accuracy' in heat.inner_text(), message='the heat map is that of the first page')


def test_server_requires_its_token(page, lab):
    "Requests without the token are refused; it is neither in the log nor in the address of the page"
    for path in '/api/kernels', '/api/contents', f'/lab/tree/{lab.name}/notebook.ipynb':
        try:
            response = urllib.request.urlopen(lab.url + path, timeout=20)
        except urllib.error.HTTPError as e:
            assert e.code == 403, (path, e.code)
        else:
            assert response.url.startswith(f'{lab.url}/login?'), path
    visible = [page.url, lab.server.log()]
    assert not any(lab.server.token in text for text in visible), 'the token is visible'
