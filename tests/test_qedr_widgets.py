"""QEDRMatrix without a page, on games and on windows of flights; and its clicks and keys in JupyterLab."""

import numpy as np, pandas as pd, pytest
from support.lab import SHOTS, reset_page, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

from srlviz.core.files import sample_path
from srlviz.core.recordings import Episode, Recording, align, load_recording
from srlviz.core.views.windows import windows
from srlviz.core.questions import load_answers
from srlviz.evaluate.qedr import qedr, qedr_path
from srlviz.figures.agents.mmer import number
from srlviz.widgets.base import link
from srlviz.widgets.frame_browser import FrameBrowser
from srlviz.widgets.qedr_matrix import QEDRMatrix

CELL = """
import numpy as np
from srlviz.core.files import sample_path
from srlviz.core.recordings import Episode, Recording, align
from srlviz.evaluate.qedr import qedr_path
from srlviz.widgets.qedr_matrix import QEDRMatrix
draw, t = np.random.default_rng(0), np.arange(60)
def one(k):
    frame = np.zeros((60, 40, 40), np.uint8)
    frame[t, (t * (k + 1)) % 40] = 255
    truth = dict(row=(t * (k + 1.0)) % 40, side=draw.normal(size=60))
    return Episode(dict(frame=frame), rewards=t * 0.0, factors=truth)
game = Recording([one(k) for k in range(4)], 'lines', 15, split=['probe', 'probe', 'valid', 'test'])
truth = [np.stack([e.factors['row'] / 20, e.factors['side']], 1) for e in game]
codes = [np.c_[z, 0.3 * draw.normal(size=(60, 4))] for z in truth]
board = QEDRMatrix(qedr_path(*align(codes, game), [0.02, 0.2], progress=False), codes, game)
board
"""
START = "[board.choose(0, 'row'), setattr(board, 'alpha', 0.02), setattr(board, 'below', 'curve')] and None"


def with_new_split(recording: Recording) -> Recording:
    "Replace the split of a recording."
    return recording.replace(split=(['probe', 'valid', 'test'] * len(recording))[: len(recording)])


def test_the_matrix_and_a_frame_browser_are_linked():
    "Codes of frames with the bytes of a game: a selection in the matrix shows in a FrameBrowser, and the reverse."
    game = load_recording(sample_path('pong_sample.npz'))
    parts = windows(game, 40, 40)
    game = with_new_split(Recording([parts[i] for i in range(6)], 'pong', game.hz, game.factors))
    names = [f.name for f in game.factors][:6]
    truth = [np.stack([np.asarray(e.factors[k], float) for k in names], 1) for e in game]
    codes = [z + 0.01 * np.random.default_rng(0).normal(size=z.shape) for z in truth]
    X, Y = align(codes, game)
    selected = {s: y[names] for s, y in Y.items()}
    board = QEDRMatrix(qedr_path(X, selected, [0.01, 0.1], progress=False), codes, game, interactive=True)
    browser = FrameBrowser(game, interactive=True)
    link(board, browser)
    board.points.clicked = dict(n=1, data=[5, 17])
    assert (browser.episode, browser.t) == (5, 17) and board.moment.t == 17
    browser.seek(2, 3)
    assert (board.episode, board.t, board.moment.episode, board.moment.t) == (2, 3, 2, 3)
    browser.factor = board.menus['factor'].options[-1][1]
    assert board.factor == browser.factor and board.points.figure.layout.yaxis.title.text.startswith(board.factor)
    board.by = names[0]
    assert names[0] in board.points.figure.layout.title.text or board.points.figure.data[0].marker.showscale
    assert len(board.figures()) == 4


@pytest.mark.parametrize('reduce', ['first', 'last'])
def test_a_point_opens_its_window(reduce):
    "One code per window: a click opens the window at the row of its true value, and the plot shows that value."
    draw, t = np.random.default_rng(0), np.arange(100)

    def flight(k):
        obs = dict(sensors=draw.normal(size=(100, 2)))
        return Episode(obs, rewards=t * 0.0, factors=dict(height=t + 9.0 * k))

    recording = with_new_split(windows(Recording([flight(k) for k in range(9)], 'flights', 5), 25, 25))
    codes = [np.r_[np.mean(e.factors['height']), draw.normal(size=2)] for e in recording]
    X, Y = align(codes, recording, reduce=reduce)
    result = qedr(X, Y, progress=False)
    for board_codes, factors in (codes, None), (X, None), (X, Y):  # true values from the result, and from the table
        board = QEDRMatrix(result, board_codes, recording, factors=factors, interactive=True)
        points = board.points.figure.data[0]
        assert board.points.layout.display == '' and len(points.y) == 12
        for k in (0, 5, 11):
            board.points.clicked = dict(n=k + 1, data=list(points.customdata[k]))
            assert board.moment.current()['height'] == points.y[k] and board.points.figure.layout.shapes
        board.moment.t = 3  # still in the same window
        assert board.points.figure.layout.shapes
        board.seek(8, -1)
        assert (board.moment.episode, board.moment.t) == (8, 0 if reduce == 'first' else 24)
    table = pd.DataFrame(np.ones((1, 1)), columns=['height'])
    with pytest.raises(ValueError, match='1'):
        QEDRMatrix(result, X['test'], factors=table, interactive=True)


def test_scores_of_the_released_code_are_marked():
    "Bars show codes and factors as usual; the overall scores are those of the released code, and the figure notes it."
    results = load_answers(sample_path('qedr') / 'landing_lstm_ae_1layer_sensors.npz')
    released = next(r for r in results if r.compat == 'xeval')
    D, C, R = released.disentanglement, released.completeness, released.importance
    assert len(D.per_code) == R.shape[0] != R.shape[1] == len(C.per_factor)
    assert D.overall == pytest.approx(C.per_factor.to_numpy() @ (R.sum() / R.to_numpy().sum()).to_numpy(), abs=1e-6)
    assert C.overall == pytest.approx(D.per_code.mean(), abs=1e-6)
    board = QEDRMatrix({'lstm': results}, interactive=True)

    def annotations(fig):
        return ' '.join(a.text for a in fig.layout.annotations)

    assert 'released code' not in annotations(board.heat.figure)
    board.regressor, board.order = 'lasso xeval', 'given'
    for fig in board.heat.figure, board.figure():
        assert 'released code' in annotations(fig) and f'D <b>{number(D.overall)}' in annotations(fig)
        code_bars, factor_bars = (next(t for t in fig.data if k in (t.xaxis, t.yaxis)) for k in ('x2', 'y2'))
        np.testing.assert_array_equal(code_bars.x, D.per_code.to_numpy()[[i for i, _ in code_bars.customdata]])
        np.testing.assert_array_equal(factor_bars.y, C.per_factor)
    board.choose(len(R) - 1, R.columns[-1])
    assert (
        f'Disentanglement {number(D.per_code.iloc[-1])}, completeness {number(C.per_factor.iloc[-1])}'
        in board.words.value
    )


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


def page_place(page, k, x, y):
    "Return the page coordinates of a point of the k-th plot."
    plot = page.locator(f'.srlviz-qedr .js-plotly-plot >> nth={k}')
    wait_for(
        lambda: plot.count() and plot.evaluate('g => !!g._fullLayout?.xaxis?._length'), message='the plot is drawn'
    )
    wait_idle(page)
    return plot.evaluate(
        """(g, [x, y]) => { const r = g.getBoundingClientRect(), l = g._fullLayout;
            return [r.left + l.xaxis._offset + l.xaxis.c2p(x), r.top + l.yaxis._offset + l.yaxis.c2p(y)] }""",
        [x, y],
    )


@pytest.mark.browser
def test_clicks_lead_from_a_cell_to_a_frame(page, lab):
    "A click on a cell shows its points, a click on a point its frame, and all of it fits on one screen."
    board = page.locator('.srlviz-qedr')
    board.evaluate("e => e.scrollIntoView({ block: 'start' })")
    row = lab.evaluate("[c[0][0] for c in board.heat.figure.data[0].customdata].index(1)")
    column = lab.evaluate("list(board.results.by_method['']['lasso'][0.02].importance).index('side')")
    page.mouse.click(*page_place(page, 0, column + 0.5, row + 0.5))
    wait_for(lambda: lab.evaluate('[board.code, board.factor]') == [1, 'side'], message='the cell is selected')
    isolated = lab.evaluate('int(np.argmax(board.points.figure.data[0].x))')  # a point that no other covers
    x, step = (lab.evaluate(f'board.points.figure.data[0].{k}[{isolated}]') for k in ('x', 'customdata'))
    page.mouse.click(*page_place(page, 1, x, lab.evaluate(f'board.points.figure.data[0].y[{isolated}]')))
    wait_for(lambda: lab.evaluate('[board.episode, board.t]') == step, message='the point is selected')
    player = board.locator('.srlviz-player')
    wait_for(lambda: player.get_attribute('data-frame') == str(step[1]), message='its frame is shown')
    box, screen = player.bounding_box(), page.viewport_size
    assert (
        box['y'] + box['height'] <= screen['height']
        and board.locator('.js-plotly-plot').nth(0).bounding_box()['y'] >= 0
    )
    page.screenshot(path=SHOTS / 'qedr_frame.png')
    player.locator('canvas').first.click()
    page.keyboard.press('Home')
    wait_for(
        lambda: lab.evaluate('[board.t, board.moment.t]') == [0, 0], message='keys move the step of the player, too'
    )
