import itertools
import os
from collections import Counter
from functools import cache
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


INDEPENDENT = {'test_notebooks', 'test_papermill', 'test_course', 'test_recipes'}  # long tests that share nothing


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Choose which tests run in one process, one after the other.

    All tests of files with browser tests: they share a JupyterLab and its pages, wait most of the time, and press less
    reliably beside each other. With `--dist loadfile` also the tests of any other file, which share what is recorded,
    fitted or compiled, but for INDEPENDENT. (`--dist loadgroup` of xdist 3.8 has no effect with pytest 9.)
    """
    from xdist.scheduler import LoadScopeScheduling

    by_file = config.getvalue('dist') == 'loadfile'
    with_browser = 'not browser' not in config.getvalue('markexpr')

    class Scheduling(LoadScopeScheduling):
        def _split_scope(self, nodeid):
            file = nodeid.partition('::')[0]
            if with_browser and shared_resource(file):
                return shared_resource(file)  # that of the browser starts first: it has the most tests
            if by_file and Path(file).stem not in INDEPENDENT:
                return file
            return nodeid

    return Scheduling(config, log)


@cache
def shared_resource(file: str) -> str:
    "Which expensive thing the tests of a file share: 'browser', 'wheel' or none"
    source = (Path(__file__).parents[1] / file).read_text(encoding='utf-8')
    return next((name for name in ('browser', 'wheel') if f'pytest.mark.{name}' in source), '')


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
    "Time and memory of the notebooks that papermill ran; seconds of each part of the tests; what .ci/test.py repeats"
    failed = [r for kind in ('failed', 'error') for r in terminalreporter.stats.get(kind, [])]
    is_browser = {r.nodeid: 'browser' in getattr(r, 'keywords', ()) for r in failed}
    if hasattr(terminalreporter.config, 'cache'):  # not with -p no:cacheprovider
        terminalreporter.config.cache.set('srlviz/failed', is_browser)
    reports = [r for kind in ('passed', 'failed') for r in terminalreporter.stats.get(kind, [])]
    used = [value for r in reports for key, value in r.user_properties if key == 'papermill']
    rows = list({row['name']: row for row in used}.values())
    if rows:
        terminalreporter.section('notebooks by papermill')
        terminalreporter.write_line(papermill_runs.table(rows))
    seconds = Counter()
    for report in itertools.chain.from_iterable(terminalreporter.stats.values()):
        if isinstance(report, pytest.TestReport):
            file = report.nodeid.partition('::')[0]
            part = shared_resource(file) or (Path(file).stem if Path(file).stem in INDEPENDENT else 'other tests')
            seconds[part] += report.duration
    if seconds:
        terminalreporter.section('seconds of tests, of all processes together')
        terminalreporter.write_line('\n'.join(f'{part:16} {s:8.0f}' for part, s in seconds.most_common()))
