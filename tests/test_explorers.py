"""RAMExplorer, InfoNCEMap and NearestFrames in a real JupyterLab: what a reader presses and drags, what the page shows, what the kernel then holds."""
import nbformat, pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from test_browser import SHOTS, Lab, browser, run_all, wait_for        # noqa: F401, browser is a fixture

pytestmark = pytest.mark.browser
CELLS = ["""
from srlviz.core.recordings import load_recording
from srlviz.core.storage import sample_path
from srlviz.encoders.baselines import RandomCNN
from srlviz.encoders.contrast import STDIM
from srlviz.envs.ram import RAMLab, predict_region
from srlviz.evaluate.neighbours import Neighbours
from srlviz.widgets.codes import InfoNCEMap, NearestFrames
from srlviz.widgets.ram import RAMExplorer
pong = load_recording(sample_path('pong_sample.npz'))
st_dim = STDIM(epochs=1, batch_size=32, progress=False).fit(pong[:1])
codes = {'st_dim': st_dim.encode(pong), 'random_cnn': RandomCNN().fit(pong).encode(pong)}
""", "explorer = RAMExplorer(RAMLab('pong', seed=0, steps=200), pong, predict_region)\nexplorer", "places = InfoNCEMap(st_dim, pong, n_pairs=32)\nplaces", "nearest = NearestFrames({m: Neighbours(c) for m, c in codes.items()}, pong, t=40)\nnearest"]

@pytest.fixture(scope='module')
def lab(tmp_path_factory):
    d = tmp_path_factory.mktemp('explorers')
    cells = [new_markdown_cell('# Explorers'), new_code_cell('', metadata=dict(tags=['parameters'])), *map(new_code_cell, CELLS)]
    nbformat.write(new_notebook(cells=cells, metadata=dict(kernelspec=dict(name='python3', language='python', display_name='Python 3'))), d/'explorers.ipynb')
    (d/'lab').mkdir()
    lab = Lab(d/'lab', d/'explorers.ipynb')
    yield lab
    lab.close()

@pytest.fixture(scope='module')
def page(browser, lab):        # noqa: F811
    SHOTS.mkdir(exist_ok=True)
    page = browser.new_page(viewport=dict(width=1400, height=1250))
    page.outside, page.errors = [], []
    page.on('request', lambda r: page.outside.append(r.url) if not r.url.startswith((lab.url, lab.url.replace('http', 'ws'), 'data:', 'blob:', 'about:')) else None)
    page.on('pageerror', lambda e: page.errors.append(f'{e}\n{e.stack}'))
    run_all(page, lab)
    return page

def plot(page, where, k=0):
    view = page.locator(f'{where} .js-plotly-plot').nth(k)
    wait_for(lambda: view.count() and view.evaluate("g => !!g._fullLayout?.xaxis?._length"), say='the plot is drawn')
    view.scroll_into_view_if_needed()
    return view

def point(view, x, y):
    "Where on the page a place of a plot's first axes is"
    return view.evaluate("(g, [x, y]) => { const r = g.getBoundingClientRect(), l = g._fullLayout; return [r.left + l.xaxis._offset + l.xaxis.c2p(x), r.top + l.yaxis._offset + l.yaxis.c2p(y)] }", [x, y])

def test_a_byte(page, lab):
    "A press on a cell chooses the byte; the slider, by keyboard, sets it; the picture follows"
    grid = plot(page, '.srlviz-ram-explorer', 1)
    page.mouse.click(*point(grid, 49 % 16, 49//16))
    wait_for(lambda: lab.ask('explorer.address') == 49, say='the byte is chosen')
    status = page.locator('.srlviz-ram-explorer .srlviz-status').first
    wait_for(lambda: '49 · ball_x' in status.inner_text() and 'pixels change' in status.inner_text(), say='the page says what it moves')
    before = lab.ask('explorer.value')
    page.locator('.srlviz-ram-explorer [role=slider]').first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(lambda: lab.ask('explorer.value') == before + 1 and f'set to {before + 1}' in plot(page, '.srlviz-ram-explorer').inner_text(), say='slider, kernel and picture agree')
    page.get_by_role('button', name='as it is').click()
    wait_for(lambda: 'stays so' in status.inner_text() and lab.ask('explorer.value == int(explorer.lab.ram[49])'))

def test_what_each_byte_moves(page, lab):
    page.get_by_role('button', name='find what each byte moves').click()
    wait_for(lambda: lab.ask('explorer.colours') == 'effects', 60, say='the table is there')
    wait_for(lambda: 'which bytes move which pixels' in plot(page, '.srlviz-ram-explorer', 1).inner_text(), say='the grid shows it')
    page.screenshot(path=SHOTS/'ram_effects.png')
    ram = lab.ask('explorer.lab.ram.tolist()')
    page.get_by_role('button', name='play on').click()
    wait_for(lambda: lab.ask('explorer.lab.ram.tolist()') != ram and lab.ask('explorer.effects is None'), say='another moment')

def test_a_region(page, lab):
    "A rectangle dragged over the picture is, to the pixel, the region that is asked about"
    picture = plot(page, '.srlviz-ram-explorer')
    (x0, y0), (x1, y1) = point(picture, 19.5, 39.5), point(picture, 99.5, 179.5)
    page.mouse.move(x0, y0); page.mouse.down(); page.mouse.move(x1, y1, steps=8); page.mouse.up()
    box = wait_for(lambda: lab.ask('explorer.box'), say='the kernel knows the region')
    assert all(abs(a - b) <= 1 for a, b in zip(box, (20, 40, 100, 180)))
    page.get_by_role('button', name='which byte tells it?').click()
    best = wait_for(lambda: lab.ask("None if explorer.predictors is None else explorer.predictors['address'].tolist()[:3]"), 60, say='the answer')
    wait_for(lambda: str(best[0]) in plot(page, '.srlviz-ram-explorer', 2).inner_text(), say='the bars show it')
    page.screenshot(path=SHOTS/'ram_region.png')
    x, y = plot(page, '.srlviz-ram-explorer', 2).evaluate("g => { const r = g.querySelectorAll('.bars path')[0].getBoundingClientRect(); return [r.left + r.width/2, r.top + r.height/2] }")
    page.mouse.click(x, y)
    wait_for(lambda: lab.ask('explorer.address') == best[0], say='a press on a bar chooses the byte')

def test_loss_map(page, lab):
    "A press on the map chooses that place, arrows on the slider another pair, whose worst place opens"
    view = plot(page, '.srlviz-infonce-map')
    page.mouse.click(*point(view, 5*16 + 21.5, 6*16 + 21.5))
    wait_for(lambda: lab.ask('list(places.cell)') == [6, 5], say='the place is chosen')
    wait_for(lambda: 'row 6, column 5' in plot(page, '.srlviz-infonce-map', 1).inner_text(), say='its patches are shown')
    page.locator('.srlviz-infonce-map [role=slider]').first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(lambda: lab.ask('places.pair') == 1 and 'number 2 from the hardest' in page.locator('.srlviz-infonce-map .srlviz-status').inner_text())
    assert lab.ask('list(places.cell) == [int(v) for v in divmod(int(places._loss().argmax()), 8)]')
    page.screenshot(path=SHOTS/'loss_map.png')

def test_nearest(page, lab):
    "A press on a neighbour makes it the query; back returns; while frames run nothing is looked up"
    player = page.locator('.srlviz-nearest-frames .srlviz-player')
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') == '40', say='the query is drawn')
    want = lab.ask("nearest.found['random_cnn'].iloc[2][['episode', 't']].astype(int).tolist()")
    page.locator('.srlviz-nearest-frames .srlviz-picker').nth(1).locator('button').nth(2).click()
    wait_for(lambda: lab.ask('list(nearest.query)') == want and player.get_attribute('data-frame') == str(want[1]), say='the neighbour is the query')
    page.screenshot(path=SHOTS/'nearest.png')
    page.get_by_role('button', name='back', exact=True).click()
    wait_for(lambda: lab.ask('list(nearest.query)') == [0, 40] and player.get_attribute('data-frame') == '40')
    player.locator('[data-do=play]').click()
    wait_for(lambda: int(player.get_attribute('data-frame')) > 50, say='it plays')
    assert lab.ask('list(nearest.query)') == [0, 40]
    page.keyboard.press('Space')
    wait_for(lambda: lab.ask('nearest.query[1]') == int(player.get_attribute('data-frame')) > 50, say='stopped, its neighbours are looked up')

def test_alone(page):
    "No request left this machine, and no script failed"
    assert page.outside == [] and page.errors == []
