import os
from pathlib import Path

from support import lab as labs
from support import papermill_runs
import pytest


@pytest.fixture(scope='session')
def chromium():
    return labs.chromium()


@pytest.fixture(scope='session')
def browser(chromium):
    "One Chromium for all tests"
    if not (chromium or os.environ.get('PLAYWRIGHT_BROWSERS_PATH')):
        pytest.fail(f'no Chromium on this machine. Install it with: {labs.INSTALL}', pytrace=False)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=labs.FLAGS)
        yield browser
        browser.close()


@pytest.fixture(scope='session')
def server(tmp_path_factory):
    "One JupyterLab for all tests"
    server = labs.Server(tmp_path_factory.mktemp('jupyterlab'))
    yield server
    server.close()


@pytest.fixture(scope='module')
def open_lab(server, request):
    """Put a notebook on the server: `open_lab(notebook, small='x = 1')` gives a `lab.Lab`.

    Its kernels end and its pages close after the module.
    """
    made = []

    def open_lab(notebook, small=''):
        name = f'{request.module.__name__}_{len(made)}'
        made.append(labs.Lab(server, name, notebook, small))
        return made[-1]

    yield open_lab
    for lab in made:
        lab.close()


@pytest.fixture
def papermill(tmp_path_factory, record_property):
    "Run a study, tutorial or lesson by papermill with small parameters, once in this test run: name -> PapermillRun"
    base = Path(tmp_path_factory.getbasetemp())
    base = base.parent if 'PYTEST_XDIST_WORKER' in os.environ else base

    def run(name):
        ran = papermill_runs.run_once(name, base)
        record_property('papermill', ran.usage)
        return ran

    return run


def pytest_itemcollected(item):
    "Run the tests of a file that share a page of JupyterLab, or the installed wheel, in one process"
    if item.get_closest_marker('browser') or item.get_closest_marker('wheel'):
        item.add_marker(pytest.mark.xdist_group(item.path.stem))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    "Mark all but the first case of tests marked `variants` as slow"
    seen = set()
    for item in items:
        if item.get_closest_marker('variants'):
            name = (item.path, item.originalname)
            if name in seen:
                item.add_marker(pytest.mark.slow)
            seen.add(name)


def pytest_terminal_summary(terminalreporter):
    "Time and memory of the notebooks that papermill ran"
    reports = [r for kind in ('passed', 'failed') for r in terminalreporter.stats.get(kind, [])]
    used = [value for r in reports for key, value in r.user_properties if key == 'papermill']
    if rows := list({row['name']: row for row in used}.values()):
        terminalreporter.section('notebooks by papermill')
        terminalreporter.write_line(papermill_runs.table(rows))
