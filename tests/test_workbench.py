"""Workbench in JupyterLab with default settings: one screen, a shared selection, nothing cut off, and its latency."""

import pytest
from support.lab import SHOTS, reset_page, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

CELL = """
import numpy as np
from srlviz.core.files import sample_path
from srlviz.core.recordings import align, load_recording
from srlviz.evaluate.maps import code_map
from srlviz.evaluate.probe import linear_probe
from srlviz.evaluate.qedr import qedr
from srlviz.widgets.workbench import Workbench
pong = load_recording(sample_path('pong_sample.npz')).with_split(probe=.4, valid=.3, test=.3)
rng = np.random.default_rng(0)
names = ('ball_x', 'ball_y', 'player_y')
place = [np.stack([e.factors[k] for k in names], 1) + rng.standard_normal((len(e), 3)) for e in pong]
codes, factors = align(place, pong)
options = dict(n_classes=None, epochs=3, lr=.01, progress=False)
answers = {
    'place': linear_probe(codes, factors, **options),
    'half': linear_probe({k: c[:, :1] for k, c in codes.items()}, factors, **options),
    'qedr': qedr(codes, factors, progress=False),
}
maps = {'place': code_map(place, norm='none'), 'half': code_map([p[:, :2] for p in place])}
bench = Workbench(None, answers, pong, maps=maps, codes={'qedr': place})
bench
"""
START = """[bench.map.select(None), setattr(bench, 'tags', {}), setattr(bench, 'left', 'Scores'),
    bench.explorers['Scores'].choose('ball_x', 'place'), bench.seek(1, 3)] and None"""
SCREENS = [(1400, 900), (1280, 800)]


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(CELL.strip()))


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


# the workbench gets the new height some frames after the window: scroll until nothing moves for half a second
IS_CENTRED = """async () => {
    const bench = document.querySelector('.srlviz-workbench');
    const place = () => JSON.stringify(bench.getBoundingClientRect());
    bench.scrollIntoView({ block: 'center' });
    const before = place();
    for (let i = 0; i < 5; i++) {
        await new Promise(done => setTimeout(done, 100));
        if (place() !== before) return false;
    }
    return true;
}"""


@pytest.fixture(params=SCREENS, ids=lambda size: '{}x{}'.format(*size))
def page(opened, lab, request):
    width, height = request.param
    opened.set_viewport_size(dict(width=width, height=height))
    wait_for(lambda: opened.evaluate(IS_CENTRED), message='the notebook has the layout for the new size')
    yield from reset_page(opened, lab, START.replace('\n', ' '))


def open_tab(page, side: int, name: str):
    "Open a tab of the left (0) or the right pane (1)."
    tab = page.locator('.srlviz-workbench .srlviz-pane').nth(side).get_by_role('tab', name=name, exact=True)
    tab.click()
    wait_idle(page)
    if tab.get_attribute('aria-selected') != 'true':  # JupyterLab scrolled between press and release: click again
        tab.click()
        wait_idle(page)


def what_is_open(page, lab) -> str:
    "Say which tabs the kernel and the page show, and what has the keyboard"
    tabs = "[...document.querySelectorAll('.srlviz-workbench [aria-selected=true]')].map(tab => tab.textContent)"
    focused = page.evaluate('document.activeElement.outerHTML.slice(0, 200)')
    return f"kernel {lab.evaluate('[bench.left, bench.right]')}, page {page.evaluate(tabs)}, focus on {focused}"


def plot(page, side: int = 0):
    "Return the first visible plot in a pane."
    return page.locator('.srlviz-workbench .srlviz-pane').nth(side).locator('.js-plotly-plot:visible').first


def cell_place(page, factor: str, method: str) -> list[float]:
    "Return the page coordinates of the cell of a factor and a method."
    return plot(page).evaluate(
        """(g, [factor, method]) => {
            const heat = g._fullData[0], r = g.getBoundingClientRect(), l = g._fullLayout;
            const middle = (a, k) => Array.isArray(a[k]) ? a[k] : (a[k] + (a[k + 1] ?? a[k])) / 2;
            for (let i = 0; i < heat.z.length; i++) for (let j = 0; j < heat.z[i].length; j++) {
                const data = heat.customdata?.[i]?.[j];
                if (!data || data[1] !== factor || data[3] !== method) continue;
                const x = l.xaxis.c2p(middle(heat.x, j)), y = l.yaxis.c2p(middle(heat.y, i));
                return [r.left + l.xaxis._offset + x, r.top + l.yaxis._offset + y];
            }
            throw new Error('no such cell: ' + JSON.stringify(heat.customdata)); }""",
        [factor, method],
    )


def shown_map(page):
    "Return the visible map of codes in the left pane."
    return page.locator('.srlviz-workbench .srlviz-pane').first.locator('.srlviz-scatter:visible').first


def point_place(page, lab, row: int) -> tuple[float, float]:
    "Return the page coordinates of a step on the map, once it stays where it is."
    places = [drawn_place(page, lab, row)]

    def stays():
        page.wait_for_timeout(300)
        places.append(drawn_place(page, lab, row))
        return places[-1] == places[-2]

    wait_for(stays, message='the map stays where it is')
    return places[-1]


def drawn_place(page, lab, row: int) -> tuple[float, float]:
    "Return the page coordinates at which a step is drawn now."
    scale, left, top = map(float, shown_map(page).get_attribute('data-view').split(','))
    x, y = lab.evaluate(f'bench.map.pane.map.xy[{row}].tolist()')
    box = shown_map(page).locator('.srlviz-scatter-stage').bounding_box()
    return box['x'] + 1 + left + scale * x, box['y'] + 1 + top - scale * y


FAULTS = """() => {
    const bench = document.querySelector('.srlviz-workbench'), faults = [];
    const notebook = bench.closest('.jp-WindowedPanel-outer') ?? bench.closest('.jp-Notebook');
    const box = bench.getBoundingClientRect(), seen = notebook.getBoundingClientRect();
    if (box.top < seen.top || box.bottom > seen.bottom + 1 || box.right > seen.right)
        faults.push(['bench', box.top, box.bottom, seen.top, seen.bottom]);
    const parts = 'button, select, input, canvas, .main-svg, .srlviz-bars section, .widget-label';
    for (const tab of bench.querySelectorAll('.srlviz-tab')) {
        if (!tab.getClientRects().length) continue;
        const { scrollWidth, scrollHeight, clientWidth, clientHeight } = tab, inside = tab.getBoundingClientRect();
        if (scrollHeight > clientHeight + 1 || scrollWidth > clientWidth + 1)
            faults.push(['scrolls', scrollWidth, scrollHeight, clientWidth, clientHeight]);
        for (const node of tab.querySelectorAll(parts)) {
            const r = node.getBoundingClientRect(), name = node.className?.baseVal ?? node.className;
            // the frames of the largest errors scroll in a list of their own
            if (!r.width || node.closest('.srlviz-picker, .noUi-target')) continue;
            if (r.left < inside.left - 1 || r.right > inside.right + 1 || r.bottom > inside.bottom + 1)
                faults.push([node.tagName, name, r.left, r.right, r.bottom, inside.right, inside.bottom]);
        }
    }
    return faults;
}"""


@pytest.mark.browser
def test_every_tab_fits_on_one_screen(page, lab):
    "All tabs of both panes fit at both sizes, and each detail is beside its explorer."
    for left, right in (('Scores', 'Predictions'), ('Map', 'Moment'), ('Matrix', 'Steps')):
        open_tab(page, 0, left)
        expected = [left, right]
        wait_for(
            lambda expected=expected: lab.evaluate('[bench.left, bench.right]') == expected,
            message=lambda expected=expected: f'{expected} are open; {what_is_open(page, lab)}',
        )
        wait_for(lambda: page.evaluate(FAULTS) == [], 20, message=lambda: f'all fits: {page.evaluate(FAULTS)}')
        page.screenshot(path=SHOTS / f'workbench_{left}_{page.viewport_size["width"]}.png')
    open_tab(page, 1, 'Map')
    wait_for(lambda: page.evaluate(FAULTS) == [], 20, message=lambda: f'the second map fits: {page.evaluate(FAULTS)}')


@pytest.mark.browser
def test_a_click_in_one_pane_shows_in_the_other(page, lab):
    "A cell opens its worst step, a point of the map its moment, and a bar selects its steps; the page does not scroll."
    scrolled = page.evaluate("document.querySelector('.jp-WindowedPanel-outer')?.scrollTop")
    before = lab.evaluate('[bench.episode, bench.t]')
    page.mouse.click(*cell_place(page, 'ball_y', 'half'))
    wait_for(lambda: lab.evaluate('[bench.episode, bench.t]') != before, message='a cell opens a step')
    assert lab.evaluate('[bench.t] * 3 == [bench.map.t, bench.explorers["Matrix"].t, bench.explorers["Scores"].t]')
    open_tab(page, 0, 'Map')
    distances = 'np.linalg.norm(bench.map.pane.map.xy[:, None] - bench.map.pane.map.xy[None], axis=-1)'
    row = lab.evaluate(f'int(np.sort({distances}, 1)[:, 1].argmax())')  # the step farthest from its nearest neighbour
    step = lab.evaluate(f'[int(bench.map.pane.map.episode[{row}]), int(bench.map.pane.map.t[{row}])]')
    x, y = point_place(page, lab, row)
    page.mouse.move(x - 30, y - 30)
    page.mouse.move(x, y, steps=4)
    page.mouse.click(x, y)
    wait_for(lambda: lab.evaluate('[bench.episode, bench.t]') == step, message='a point opens its step')
    player = page.locator('.srlviz-workbench .srlviz-pane').nth(1).locator('.srlviz-player:visible')
    wait_for(lambda: player.get_attribute('data-frame') == str(step[1]), message='the moment shows it')
    bars = page.locator('.srlviz-bars:visible section').first.locator('.plot button')
    bars.nth(3).click()
    wait_for(lambda: lab.evaluate('len(bench.map.steps or ())') > 0, message='a bar selects steps')
    assert lab.evaluate('bench.to_recording().n_steps == len(bench.steps)')
    wait_for(lambda: bars.nth(3).get_attribute('aria-pressed') == 'true', 10, message='the bar is shown as pressed')
    wait_for(lambda: page.evaluate(FAULTS) == [], 20, message=lambda: f'everything fits: {page.evaluate(FAULTS)}')
    page.screenshot(path=SHOTS / f'workbench_filter_{page.viewport_size["width"]}.png')
    assert page.evaluate("document.querySelector('.jp-WindowedPanel-outer')?.scrollTop") == scrolled


NOTE_CHANGES = """() => {
    const bench = document.querySelector('.srlviz-workbench');
    const heat = [...bench.querySelectorAll('.js-plotly-plot')].find(plot => plot.checkVisibility());
    globalThis.redrawn = [];
    new MutationObserver(changes => {
        for (const { target, attributeName, oldValue } of changes) {
            if (target.nodeType === 1 && heat.contains(target) && target.closest('.cartesianlayer, .infolayer'))
                redrawn.push(target.getAttribute('class'));
            if (attributeName === 'data-lm-suppress-shortcuts' && oldValue === target.getAttribute(attributeName))
                redrawn.push(target.tagName);
        }
    }).observe(bench, { subtree: true, childList: true, attributes: true, attributeOldValue: true });
}"""


@pytest.mark.browser
def test_a_click_on_a_cell_redraws_only_what_changes(page, lab):
    "The frame of the heat map moves without its axes and cells, and no control is labelled again."
    shapes = 'g => JSON.stringify(g.layout.shapes)'
    heat = plot(page)
    page.mouse.click(*cell_place(page, 'ball_y', 'half'))
    wait_for(lambda: lab.evaluate('bench.factor') == 'ball_y', message='the cell is chosen')
    wait_idle(page)
    before = heat.evaluate(shapes)
    page.evaluate(NOTE_CHANGES)
    page.mouse.click(*cell_place(page, 'player_y', 'place'))
    wait_for(lambda: heat.evaluate(shapes) != before, message='the frame moves')
    wait_idle(page)
    assert page.evaluate('redrawn') == []


@pytest.mark.browser
def test_hover_is_linked(page, lab):
    "A step under the pointer on the map or the trace is marked in the other parts; the opened step stays."
    open_tab(page, 0, 'Map')
    open_tab(page, 1, 'Predictions')
    right = page.locator('.srlviz-workbench .srlviz-pane').nth(1)
    trace, player = (right.locator(f'.srlviz-{kind}:visible').first for kind in ('plot', 'player'))
    page.mouse.move(*point_place(page, lab, 140))
    for part in (trace, player):
        wait_for(
            lambda part=part: part.get_attribute('data-preview') == '40', message='the step of the point is marked'
        )
    assert right.locator('.srlviz-cursor.light:visible').count() == 1
    box = trace.bounding_box()
    page.mouse.move(box['x'] + box['width'] * 0.6, box['y'] + box['height'] * 0.6)
    t = int(
        wait_for(
            lambda: trace.get_attribute('data-preview').replace('40', ''), message='the step of the trace is marked'
        )
    )
    place = ','.join(f'{v:.3f}' for v in lab.evaluate(f'bench.map.pane.map.xy[{100 + t}].tolist()'))

    def marked_place():
        preview = shown_map(page).get_attribute('data-preview')
        return ','.join(f'{float(v):.3f}' for v in preview.split(',') if v)

    wait_for(lambda: marked_place() == place, message='the map marks its point')
    page.mouse.move(5, 5)
    for part in (trace, player, shown_map(page)):
        wait_for(lambda part=part: part.get_attribute('data-preview') == '', message='nothing is marked any more')
    assert lab.evaluate('[bench.episode, bench.t]') == [1, 3]


@pytest.mark.browser
def test_a_lasso_filters_the_histograms(page, lab):
    "A lasso on the map leaves fewer steps in the dark bars, and a bar selects among them."
    open_tab(page, 0, 'Map')
    box = shown_map(page).locator('.srlviz-scatter-stage').bounding_box()
    x0, y0, x1, y1 = box['x'] + 5, box['y'] + 5, box['x'] + box['width'] * 0.6, box['y'] + box['height'] * 0.6
    page.mouse.move(x0, y0)
    page.mouse.down()
    for x, y in ((x1, y0), (x1, y1), (x0, y1), (x0, y0)):
        page.mouse.move(x, y, steps=4)
    page.mouse.up()
    wait_for(
        lambda: 0 < lab.evaluate('len(bench.steps or ())') < lab.evaluate('pong.n_steps'),
        message='a lasso selects steps',
    )
    n = lab.evaluate('len(bench.steps)')
    assert lab.evaluate('sum(bench.filter.bars.rows[0]["some"])') == n
    wait_for(lambda: page.evaluate(FAULTS) == [], 20, message=f'the summary fits: {page.evaluate(FAULTS)}')
    some = lab.evaluate('bench.filter.bars.rows[0]["some"]')
    k = max(range(len(some)), key=some.__getitem__)
    page.locator('.srlviz-bars:visible section').first.locator('.plot button').nth(k).click()
    wait_for(lambda: lab.evaluate('len(bench.steps)') == some[k], message='a bar narrows the selection')


@pytest.mark.browser
def test_a_filter_that_no_lassoed_step_passes_leaves_an_empty_selection(page, lab):
    "Every point fades, the map says how many were lassoed, nothing is tagged, and 'nothing' clears lasso and filter."
    open_tab(page, 0, 'Map')
    left = page.locator('.srlviz-workbench .srlviz-pane').first
    canvas = shown_map(page).locator('canvas').first
    lab.evaluate("bench.map.select(bench.filter.histograms.steps({'player_y': [5]}))")
    lassoed = lab.evaluate('len(bench.steps)')
    assert lab.evaluate('(bench.episode, bench.t) in bench.steps')  # the moment is in the selection
    gallery = page.locator('.srlviz-workbench .srlviz-gallery:visible button')
    wait_for(lambda: gallery.count() == min(lassoed, 12) + 1, message='frames of the selection and their mean')
    section = left.locator('.srlviz-bars section').filter(has_text='player y')
    section.locator('.plot button').first.click()
    wait_for(lambda: f'0 of {lassoed} lassoed steps pass' in left.inner_text(), message='the map says so')
    wait_for(lambda: float(canvas.evaluate('c => c.style.opacity')) < 0.5, message='every point fades')
    assert gallery.count() == 0
    left.get_by_placeholder('name of the selected steps').fill('none')
    left.get_by_role('button', name='tag', exact=True).click()
    wait_for(lambda: 'no step is selected' in page.locator('.srlviz-workbench').inner_text(), message='it says why')
    assert lab.evaluate('bench.tags') == {}
    left.get_by_role('button', name='nothing', exact=True).click()
    wait_for(lambda: lab.evaluate('bench.steps is None and not bench.filters'), message='nothing is selected')
    wait_for(lambda: float(canvas.evaluate('c => c.style.opacity')) == 1, message='no point is faded')
    section.locator('.plot button').first.click()
    wait_for(
        lambda: lab.evaluate("bench.steps == bench.filter.histograms.steps({'player_y': [0]})"),
        message='the bar selects',
    )


@pytest.mark.browser
def test_keys_change_tabs_and_filters(page, lab):
    "Keys change tabs and filter by bars; ? shows the keys of the visible parts, escape closes them."
    first = page.locator('.srlviz-workbench .srlviz-pane').first.get_by_role('tab').first
    first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(lambda: lab.evaluate('bench.left') == 'Map', message='an arrow changes the tab')
    wait_idle(page)
    page.locator('.srlviz-bars:visible .plot button').first.focus()
    page.keyboard.press('ArrowRight')
    page.keyboard.press('Space')
    wait_for(lambda: lab.evaluate('list(bench.filters.values())') == [[1]], message='space filters by a bar')
    page.keyboard.press('ArrowRight')
    page.keyboard.press('Shift+Space')
    wait_for(lambda: lab.evaluate('list(bench.filters.values())') == [[1, 2]], message='shift extends the filter')
    page.keyboard.press('Delete')
    wait_for(lambda: lab.evaluate('bench.filters') == {}, message='delete removes the filter')
    page.keyboard.press('?')
    sheet = page.locator('dialog.srlviz-keys')
    assert sheet.is_visible() and 'Histograms of factors' in sheet.inner_text() and 'Tabs' in sheet.inner_text()
    page.screenshot(path=SHOTS / f'workbench_keys_{page.viewport_size["width"]}.png')
    page.keyboard.press('Escape')
    wait_for(lambda: not sheet.count(), message='escape closes the keys')
    page.keyboard.press('?')
    page.keyboard.press('?')
    wait_for(lambda: not sheet.count(), message='a second ? closes the keys')


RECORD_TIMES = """() => { window.changed = 0; window.pressed = 0;
    const bench = document.querySelector('.srlviz-workbench');
    const all = { subtree: true, childList: true, attributes: true, characterData: true };
    const isHover = ({ target }) => (target.closest ? target : target.parentElement)?.closest('.hoverlayer');
    const note = changes => { if (!changes.every(isHover)) window.changed = performance.now(); };
    new MutationObserver(note).observe(bench, all);
    bench.addEventListener('pointerdown', () => { window.pressed = performance.now(); }, true); }"""


@pytest.mark.slow
@pytest.mark.browser
def test_latency_of_clicks_is_recorded(opened, lab, record_property):
    "Time from a click to the last change of the page: printed, not asserted, because the machine may be busy."
    lab.evaluate(START.replace('\n', ' '))
    wait_idle(opened)
    wait_for(lambda: opened.evaluate(IS_CENTRED), message='the workbench is centred')
    opened.evaluate(RECORD_TIMES)
    latencies = {'cell': [], 'bar': []}
    for k in range(12):
        place = cell_place(opened, ('ball_x', 'ball_y', 'player_y')[k % 3], ('half', 'place')[k % 2])
        opened.mouse.move(*place)
        opened.wait_for_timeout(120)  # plotly looks for points under the pointer at most every 50 ms
        opened.mouse.click(*place)
        opened.wait_for_timeout(700)
        wait_idle(opened)
        latencies['cell'].append(opened.evaluate('changed - pressed'))
    open_tab(opened, 0, 'Map')
    bars = opened.locator('.srlviz-bars:visible section').first.locator('.plot button')
    for k in range(12):
        bars.nth(k % 6).click()
        opened.wait_for_timeout(700)
        wait_idle(opened)
        latencies['bar'].append(opened.evaluate('changed - pressed'))
    for name, ms in latencies.items():
        ms = sorted(ms)
        print(f'{name}: median {ms[len(ms) // 2]:.0f} ms, 95th percentile {ms[int(0.95 * (len(ms) - 1))]:.0f} ms')
        record_property(name, ms)
