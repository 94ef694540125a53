"""Widgets when a cell is rerun, a kernel restarts, a widget is shown twice or reopened, or an observer fails."""

import pytest
from support.lab import SHORT_TIMEOUTS, wait_idle, assert_no_errors, notebook_of, open_page, wait_for

pytestmark = pytest.mark.browser

MAKE = """import srlviz
from ipywidgets.widgets.widget import _instances
board = srlviz.explore(srlviz.paper_scores('popgym'), widget='ScoreBoard')
film = srlviz.explore('pong')
shared = srlviz.link(film)
def numbers():
    return [len(_instances), len(shared._trait_notifiers['t']['change'])]"""
SHOW = """browser = srlviz.explore('pong')
shared.join(browser)
browser"""
COPIES = "display(film, film)"
CELLS = (MAKE, SHOW, COPIES, 'board')


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(*CELLS))


@pytest.fixture(scope='module')
def page(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


def cell(page, k):
    "Return cell k of `CELLS`."
    return page.locator('.jp-CodeCell').nth(k + 1)


def rerun(page, k):
    "Rerun cell k of `CELLS`, and wait until it has run and the kernel is in step."
    prompt = cell(page, k).locator('.jp-InputPrompt')
    before = prompt.inner_text()
    page.evaluate(
        """k => { window.jupyterapp.shell.currentWidget.content.activeCellIndex = k;
            window.jupyterapp.commands.execute('notebook:run-cell'); return null }""",
        k + 1,
    )
    wait_for(lambda: prompt.inner_text() not in (before, '[*]:'), message=f'cell {k} has been rerun')
    wait_idle(page)


def frames(page, k):
    "Return the number of the frame that each player of a cell shows."
    return [p.get_attribute('data-frame') for p in cell(page, k).locator('.srlviz-player').all()]


def test_rerunning_a_cell_frees_its_old_widgets(page, lab):
    before = lab.evaluate('numbers()')
    for _ in range(2):
        rerun(page, 1)
    assert lab.evaluate('numbers()')[0] == before[0]
    lab.execute('film.t = 7')  # closed widgets leave the shared selection when it changes
    wait_for(lambda: frames(page, 1) == ['7'], message='the new widget is linked')
    assert lab.evaluate('numbers()')[1] == 2
    assert_no_errors(page)


def test_two_copies_follow_each_other(page, lab):
    lab.execute('film.t = 11')
    wait_for(lambda: frames(page, 2) == ['11', '11'], message='both copies show the step')
    cell(page, 2).locator('.srlviz-player').nth(1).focus()
    page.keyboard.press('ArrowRight')
    wait_for(
        lambda: frames(page, 2) == ['12', '12'] and lab.evaluate('film.t') == 12, message='one copy moves the other'
    )
    assert_no_errors(page)


def test_an_error_of_an_observer_is_shown_in_the_widget(page, lab):
    "Other observers get this change and the next one."
    lab.execute('def halve(change): 1 / (change["new"] - 20)\nfilm.observe(halve, "t")')
    alert = cell(page, 2).locator('.srlviz-status [role=alert]').first
    lab.execute('film.t = 20')
    wait_for(lambda: alert.count() and 'halve' in alert.inner_text(), message='the error of an observer is shown')
    wait_for(
        lambda: frames(page, 2) == ['20', '20'] and frames(page, 1) == ['20'], message='the players show the same step'
    )
    lab.execute('film.t = 21')
    wait_for(
        lambda: not alert.count() and frames(page, 1) == ['21'], message='the next step is shown, without the error'
    )
    assert_no_errors(page)


def test_keys_select_cells_of_a_heat_map(page, lab):
    "Arrows move to a cell and announce it; Enter selects it."
    heat = cell(page, 3).locator('.srlviz-plot[role=application]').first
    heat.scroll_into_view_if_needed()
    heat.focus()
    announced = ['']
    for key in ('ArrowDown', 'ArrowDown', 'ArrowRight'):
        page.keyboard.press(key)
        status = heat.locator('.srlviz-said')
        wait_for(lambda: status.inner_text() not in announced, message='the cell is announced')
        announced.append(status.inner_text())
    page.keyboard.press('Enter')
    row, column = wait_for(lambda: lab.evaluate('list(board.cell)'), message='Enter selects the cell')
    assert row in announced[-1] and column.lower() in announced[-1].lower(), (announced, row, column)
    page.keyboard.press('Escape')
    assert not heat.locator('.srlviz-here').is_visible()
    page.keyboard.press('?')
    sheet = page.locator('dialog.srlviz-keys')
    assert sheet.is_visible() and 'heat maps' in sheet.inner_text()
    page.keyboard.press('Escape')
    assert_no_errors(page)


def test_keys_change_a_menu(page, lab):
    "JupyterLab passes arrow keys to a menu that has the focus."
    before = lab.evaluate('board.metric')
    menu = cell(page, 3).get_by_label('Metric').first
    menu.focus()
    page.keyboard.press('ArrowDown')
    wait_for(lambda: lab.evaluate('board.metric') != before, message='the menu selects the next metric')
    assert_no_errors(page)


@pytest.mark.parametrize('slow', [False, True])
def test_widgets_of_a_reopened_notebook_stay_live(page, lab, slow):
    if slow:
        page.add_init_script(SHORT_TIMEOUTS)
    lab.execute('film.t = 30')
    save = "() => { window.jupyterapp.commands.execute('docmanager:save'); return null }"

    def is_saved():  # a picture that is stored meanwhile changes the notebook again
        page.evaluate(save)
        return page.locator('.jp-mod-current.jp-mod-dirty').count() == 0

    wait_for(is_saved, every=1, message='the notebook is saved')
    page.reload()
    page.wait_for_function("window.jupyterapp?.commands.hasCommand('notebook:run-all-cells')", timeout=120_000)
    wait_for(lambda: frames(page, 2) == ['30', '30'], message='the widgets are restored')
    lab.execute('film.t = 31')
    wait_for(lambda: frames(page, 2) == ['31', '31'], message='the widgets follow the kernel')
    assert_no_errors(page)


def test_a_restarted_kernel_is_reported(page, lab):
    "The page reports the restart, and keys and clicks cause no errors."
    banner = "() => getComputedStyle(document.querySelector('.srlviz-explorer'), '::before').content"
    assert 'kernel' not in page.evaluate(banner)
    restart = 'window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()'
    page.evaluate(f'() => {{ {restart}.then(() => {{ window.restarted = true }}); return null }}')
    wait_for(lambda: 'Run its cell again' in page.evaluate(banner), message='the widget reports the lost kernel')
    player = cell(page, 2).locator('.srlviz-player').first
    player.focus()
    for _ in range(3):
        page.keyboard.press('ArrowRight')
    page.mouse.move(300, 300)
    page.mouse.click(300, 300)
    assert_no_errors(page)
    page.wait_for_function('window.restarted')  # otherwise the server cannot shut the kernel down
