"""TargetTable and FailureExplorer: without a page, on results of `srlviz.evaluate`; and their clicks in JupyterLab."""

import numpy as np, pandas as pd, pytest
from support.lab import SHOTS, reset_page, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

from srlviz.core.files import sample_path
from srlviz.core.recordings import Recording
from srlviz.core.scores import merge_scores, paper_scores

CELL = """
import numpy as np, pandas as pd
from types import SimpleNamespace
from srlviz.core.files import sample_path
from srlviz.core.scores import check_scores, merge_scores, paper_scores, score_row
from srlviz.data.landing import read_flights
from srlviz.figures.landing.target_errors import FAILURES
from srlviz.widgets.landing.failure_explorer import FailureExplorer
from srlviz.widgets.landing.target_board import TargetTable
flights = read_flights(sample_path('landings'))
rows = [dict(flight=e.name, episode=i, start=s) for i, e in enumerate(flights) for s in range(0, len(e) - 50, 50)]
at = lambda r, k: np.asarray(flights[r['episode']].factors[k], float)[r['start'] : r['start'] + 50]
truth = dict(wind=np.array([[at(r, 'wind_speed_kt').mean()] for r in rows]))
truth['fail'] = np.array([[at(r, k).max() for k in FAILURES] for r in rows])
noise = np.random.default_rng(0).standard_normal
fields = dict(windows=pd.DataFrame(rows), names=dict(wind=['wind'], fail=list(FAILURES)), truth=truth)
fields |= dict(predicted={k: v + 0.2 * noise(v.shape) for k, v in truth.items()}, units=lambda target, z: z)
results = {(m, 64, 'sensors'): SimpleNamespace(**fields) for m in ('lstm_ae_1layer', 'conv1d_ae')}
shared = dict(study='landing', task='approach', inputs='sensors', group='targets', metric='mse', protocol='mlp')
scores = [score_row(**shared, method=m, n_codes=64, target=t, value=v) for (m, *_), v in zip(results, (0.3, 0.4))
          for t in ('wind', 'fail')]
scores += [score_row(**shared, method='mean_baseline', target=t, value=1.0) for t in ('wind', 'fail')]
board = TargetTable(merge_scores(paper_scores('landing'), check_scores(pd.DataFrame(scores))), results, flights)
board
"""
MORE = "explorer = FailureExplorer(results, flights, method=('conv1d_ae', 64, 'sensors'))\nexplorer"
START = "[setattr(board, 'opened', False), setattr(explorer, 'opened', False)] and None"


def test_widgets_show_the_results_of_score_targets():
    "The widgets read the results of `srlviz.evaluate`, and show the same AUROC."
    from srlviz.data.landing import read_flights

    targets = pytest.importorskip('srlviz.evaluate.targets', reason='scores of targets are not there yet')
    shipped = read_flights(sample_path('landings'))
    options = dict(hz=shipped.hz, factors=shipped.factors, meta=shipped.meta)
    split = ['fit'] * 12 + ['valid', 'test', 'valid', 'probe', 'test', 'probe'] + ['test', 'probe', 'valid', 'test']
    split += ['valid', 'probe']  # turbulence and an engine fire are in test and in probe
    flights = Recording([*shipped, *shipped], split=split, **options)  # twice, so that the fit split has every failure
    landing_targets = targets.landing_targets(flights, 25, progress=False)
    codes = [np.asarray(w.obs['sensors']).mean(0)[:40] for w in landing_targets.windows]
    result = targets.score_targets(codes, landing_targets, 'linear', progress=False)
    rows = [result.scores(method='pca', inputs='sensors', n_codes=40)]
    constant_codes = [np.zeros(1, np.float32)] * len(codes)
    baseline = targets.score_targets(constant_codes, landing_targets, 'linear', progress=False)
    rows.append(baseline.scores(method='mean_baseline', inputs='', n_codes=0))
    from srlviz.widgets.landing.failure_explorer import FailureExplorer
    from srlviz.widgets.landing.target_board import TargetTable

    results = {('pca', 40, 'sensors'): result, ('mean_baseline', 0, ''): baseline}
    board = TargetTable(merge_scores(paper_scores('landing'), pd.concat(rows)), results, flights, interactive=True)
    assert board.head == 'linear' and len(board.bounds()) >= 12 and board.detail.figure.data
    for target in result.names:
        board.target = target
        assert board.detail.figure.data and board.method == 'pca · sensors · d40', target
    board.open_window(0)
    assert board.opened and board.opened_flight.browser.t == result.windows['start'][0]
    explorer = FailureExplorer(results, flights, method=('pca', 40, 'sensors'), interactive=True)
    auroc = result.auroc(n_resamples=1).set_index('event')['auroc']
    n_compared = 0
    for explorer.factor in explorer.failures.names:
        names = [t.name for t in explorer.curves.figure.data if t.showlegend]
        if explorer.factor not in auroc:  # no test flight has this event
            continue
        area = auroc[explorer.factor]
        shown = '–' if np.isnan(area) else f'{area:.2f}'.replace('0.', '.', 1)[:2]
        assert names[0].startswith(shown), explorer.factor
        n_compared += 1
    assert n_compared


@pytest.mark.filterwarnings('ignore:.*one value:UserWarning')
def test_shipped_flights_without_test_failures_can_be_browsed():
    "With the shipped split no test flight has a failure: the widget shows a note, and the flights can be opened."
    from srlviz.data.landing import read_flights
    from srlviz.evaluate.targets import landing_targets, score_targets
    from srlviz.widgets.landing.failure_explorer import FailureExplorer

    flights = read_flights(sample_path('landings'))
    targets = landing_targets(flights, progress=False)
    codes = [np.asarray(w.obs['sensors']).mean(0)[:40] for w in targets.windows]
    result = score_targets(codes, targets, 'linear', progress=False)
    explorer = FailureExplorer({('pca', 40, 'sensors'): result}, flights, interactive=True)
    assert explorer.failures.names == targets.names['fail'] and not len(explorer.wrong)
    assert len(explorer.list.rows) == len(result.windows)
    explorer.kind = 'all'
    assert {r[1] for r in explorer.list.rows} == set(result.windows['flight']) and explorer.nothing.value
    explorer.open_row(0)
    assert explorer.opened and explorer.opened_flight.number == explorer.episode >= 0
    assert len(explorer.figures()) == 3


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(CELL.strip(), MORE))


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


def point_place(page, selector, trace, k):
    "Return the page coordinates of point k of a trace of a plot."
    plot = page.locator(selector)
    wait_for(
        lambda: plot.count() and plot.evaluate('g => !!g._fullLayout?.xaxis?._length'), message='the plot is drawn'
    )
    plot.scroll_into_view_if_needed()
    wait_idle(page)
    return plot.evaluate(
        """(g, [j, k]) => { const r = g.getBoundingClientRect(), l = g._fullLayout, t = g._fullData[j];
            return [r.left + l.xaxis._offset + l.xaxis.c2p(t.x[k]), r.top + l.yaxis._offset + l.yaxis.c2p(t.y[k])] }""",
        [trace, k],
    )


@pytest.mark.browser
def test_a_click_opens_the_flight_of_a_window(page, lab):
    "A click on a point opens its flight at the window; a click on ‹ back restores the table."
    assert lab.evaluate('board.method') == 'lstm_ae_1layer · sensors · d64'
    k = lab.evaluate('int(np.argmax(truth["wind"]))')  # a point that no other covers
    k = lab.evaluate(f'[d[0] for d in board.detail.figure.data[1].customdata].index({k})')
    page.mouse.click(*point_place(page, '.srlviz-targets .js-plotly-plot >> nth=1', 1, k))
    wait_for(lambda: lab.evaluate('board.opened'), message='the flight is open')
    window = lab.evaluate('rows[int(np.argmax(truth["wind"]))]')
    assert lab.evaluate('[board.flight, board.t]') == [window['flight'], window['start']]
    player = page.locator('.srlviz-targets .srlviz-player')
    wait_for(
        lambda: player.get_attribute('data-frame') == str(window['start']),
        message='its film shows the start of the window',
    )
    page.screenshot(path=SHOTS / 'targets_flight.png')
    page.locator('.srlviz-targets').get_by_role('button', name='‹ back').click()
    wait_for(lambda: not lab.evaluate('board.opened') and not player.is_visible(), message='the table is shown again')


@pytest.mark.browser
def test_listed_failures_open_their_flights(page, lab):
    "A row of the list opens its flight; a click on next opens the following one."
    rows = page.locator('.srlviz-failures .srlviz-item')
    lab.execute("explorer.threshold = explorer.slider.min")
    wait_for(lambda: rows.count() > 2, message='flights are listed')
    rows.nth(1).click()
    wait_for(lambda: lab.evaluate('[explorer.opened, explorer.row]') == [True, 1], message='the flight is open')
    page.locator('.srlviz-failures').get_by_role('button', name='next').click()
    wait_for(lambda: lab.evaluate('explorer.row') == 2, message='the next flight is open')
    assert lab.evaluate('explorer.flight == explorer.listed["flight"][2]')
    page.screenshot(path=SHOTS / 'failures_flight.png')
