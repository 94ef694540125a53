"""JupyterLab server and Chromium pages for tests that use the widgets as a reader does."""

import json, os, secrets, shutil, socket, subprocess, sys, time, urllib.error, urllib.request
from pathlib import Path

import nbformat, pytest
from nbformat.v4 import new_code_cell, new_notebook

ROOT = Path(__file__).parents[2]
SHOTS = ROOT / 'artefacts'
INSTALL = 'apt-get install -y --no-install-recommends chromium    (or set CHROMIUM to your own browser)'
FLAGS = [
    '--no-sandbox',
    '--headless=new',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-dev-shm-usage',
]


def chromium():
    "Return the path of the browser that `make test` finds or installs; None means playwright's own browser."
    names = [
        os.environ.get('CHROMIUM', ''),
        'chromium',
        'chromium-browser',
        'google-chrome',
        'google-chrome-stable',
        'chrome',
        '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
        '/Applications/Chromium.app/Contents/MacOS/Chromium',
    ]
    return next((p for p in map(shutil.which, filter(None, names)) if p), None)


SMALL = "\nsteps, epochs = 2000, 6     # the test clicks buttons; the scores do not matter\n"


def notebook_of(*cells):
    "Return a notebook of code cells; the first one holds the parameters."
    python = dict(name='python3', language='python', display_name='Python 3')
    nb = new_notebook(cells=[new_code_cell(c) for c in ('parameters = 0', *cells)], metadata=dict(kernelspec=python))
    nb.cells[0].metadata['tags'] = ['parameters']
    return nb


def wait_for(condition, timeout=60, every=0.2, message=''):
    "Call `condition` until its result is true, and return the result; `message` may be a function, called at the end."
    deadline = time.time() + timeout
    result = None
    while time.time() < deadline:
        result = condition()
        if result:
            return result
        time.sleep(every)
    said = message() if callable(message) else message
    raise AssertionError(f'timed out after {timeout} s: {said or condition}; last result {result!r}')


WAIT_IDLE = """() => {
    const late = new Promise((_, fail) => setTimeout(() => fail(new Error('the kernel does not answer')), 240000));
    const settled = async () => {
        const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
        for (let i = 0; i < 2; i++) await kernel.requestExecute({ code: '', silent: true, store_history: false }).done;
        await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
    };
    return Promise.race([late, settled()]);
}"""


def wait_idle(page):
    """Wait until kernel and page have handled each other's messages and the page is drawn.

    An empty request waits in the same two queues as the messages of widgets. It is sent twice, because a reply may
    cause another message. Afterwards a test may click at a computed position, press a key whose effect depends on the
    state of the kernel, or read a value once.
    """
    page.evaluate(WAIT_IDLE)


def set_theme(page, name):
    "Switch to the theme 'Light' or 'Dark', and wait until the page shows it."
    light = str(name == 'Light').lower()
    if page.evaluate('document.body.dataset.jpThemeLight') != light:
        page.evaluate(
            "theme => { window.jupyterapp.commands.execute('apputils:change-theme', { theme }); return null }",
            f'JupyterLab {name}',
        )
        page.wait_for_function('light => document.body.dataset.jpThemeLight === light', arg=light)


def release_focus(page):
    "Move the pointer away, remove the keyboard focus, and wait until page and kernel are in step."
    page.mouse.move(5, 5)
    page.evaluate('document.activeElement?.blur()')
    wait_idle(page)


def assert_no_errors(page):
    "Check that no request left the machine and no script failed since the last call."
    outside = page.outside[:]
    errors = [e for e in page.errors if 'ResizeObserver loop' not in e]
    page.outside.clear()
    page.errors.clear()
    assert not outside, outside[:5]
    assert not errors, errors[:3]


# anywidget's message for a model that took over two seconds to start; ours recover (shared.js, patchModels)
LATE = 'Failed to initialize model'

DRAWN = """() => [['.srlviz-plot', 'drawn'], ['.srlviz-scatter', 'drawn'], ['.srlviz-board', 'shown']].every(
    ([what, sign]) => [...document.querySelectorAll(what)].every(e => e.dataset[sign] || !e.checkVisibility()))"""


# as on a very slow machine, anywidget abandons every model: after 1 ms instead of 2 s
SHORT_TIMEOUTS = '''(() => {
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    AbortSignal.timeout = () => (window.late = (window.late ?? 0) + 1, timeout(1));
})()'''


class Server:
    """JupyterLab in a separate folder, without the user's settings.

    The token is new at each start. The server gets it through its environment, where other users cannot see it, and it
    is removed from printed text.
    """

    def __init__(self, folder):
        self.folder, self.token = folder, secrets.token_urlsafe(24)
        settings = {
            'apputils-extension/notification': {'fetchNews': 'false', 'checkForUpdates': False},
            'notebook-extension/tracker': {'autoStartDefaultKernel': True},
        }
        for name, content in settings.items():  # no news above the cells, and a kernel starts without a prompt
            path = folder / 'settings/@jupyterlab' / f'{name}.jupyterlab-settings'
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(content))
        with socket.socket() as s:
            s.bind(('127.0.0.1', 0))
            self.url = f'http://127.0.0.1:{s.getsockname()[1]}'
        folders = dict(
            JUPYTER_CONFIG_DIR='config',
            JUPYTER_DATA_DIR='data',
            JUPYTER_RUNTIME_DIR='runtime',
            IPYTHONDIR='ipython',
            JUPYTERLAB_SETTINGS_DIR='settings',
            JUPYTERLAB_WORKSPACES_DIR='workspaces',
        )
        env = {k: v for k, v in os.environ.items() if k not in ('IN_TEST', 'SRLVIZ_STATIC')}
        env |= {k: str(folder / v) for k, v in folders.items()}
        env['JUPYTER_TOKEN'] = self.token
        flags = [
            '--no-browser',
            '--ip=127.0.0.1',
            f'--port={self.url.split(":")[-1]}',
            '--allow-root',
            f'--ServerApp.root_dir={folder}',
            '--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate',
            '--LabApp.expose_app_in_browser=True',
        ]
        self.process = subprocess.Popen(
            [sys.executable, '-m', 'jupyterlab', *flags],
            cwd=folder,
            env=env,
            stdout=open(folder / 'lab.log', 'w'),
            stderr=subprocess.STDOUT,
        )
        wait_for(self._is_up, 120, message='JupyterLab starts')

    def _is_up(self):
        if self.process.poll() is not None:
            raise AssertionError(self.without_token(self.log()[-2000:]))
        try:
            return self.get('/api/status').status == 200
        except OSError:
            return False

    def get(self, path, method='GET'):
        "Send a request with the token to the server."
        request = urllib.request.Request(
            self.url + path, headers={'Authorization': f'token {self.token}'}, method=method
        )
        timeout = 60 if method == 'DELETE' else 5  # a busy kernel ends slowly
        return urllib.request.urlopen(request, timeout=timeout)

    def log(self):
        return (self.folder / 'lab.log').read_text()

    def without_token(self, text):
        return text.replace(self.token, '(token)')

    def reset_theme(self):
        "Reset the theme that an earlier page chose."
        (self.folder / 'settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings').unlink(missing_ok=True)

    def close(self):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(5)


class Lab:
    """One notebook on a server, in a separate folder and workspace.

    Parameters
    ----------
    name : name of the folder and the workspace
    notebook : path, or notebook in memory; one of its cells is tagged `parameters`
    small : lines added to that cell
    """

    client = None

    def __init__(self, server, name, notebook, small=SMALL):
        self.server = server
        self.name = name
        self.folder = server.folder / name
        self.pages = []
        self.folder.mkdir()
        nb = nbformat.read(notebook, 4) if isinstance(notebook, os.PathLike) else notebook
        next(c for c in nb.cells if 'parameters' in c.metadata.get('tags', [])).source += small
        nbformat.write(nb, self.folder / 'notebook.ipynb')
        server.reset_theme()

    @property
    def url(self):
        return self.server.url

    def open(self, page, query=''):
        "Open the notebook on a page."
        path = f'/lab/workspaces/{self.name}/tree/{self.name}/notebook.ipynb'
        try:
            page.goto(f'{self.url}{path}?token={self.server.token}{query}')
        except Exception as e:
            raise AssertionError(self.server.without_token(f'{type(e).__name__}: {e}')) from None

    def kernels(self):
        "Return the kernels of this notebook."
        try:
            sessions = json.load(self.server.get('/api/sessions'))
        except OSError:
            return []  # on a busy machine the server replies late or with 500 while the kernel starts
        return [s['kernel'] for s in sessions if s['path'].startswith(f'{self.name}/')]

    def evaluate(self, expression):
        "Evaluate in the notebook's kernel over a separate connection: the state itself, not what the page shows."
        if not self.client:
            from jupyter_client import BlockingKernelClient

            (kernel,) = wait_for(self.kernels, message='the server lists the kernel')
            file = self.server.folder / f'runtime/kernel-{kernel["id"]}.json'
            self.client = BlockingKernelClient(connection_file=str(file))
            self.client.load_connection_file()
            self.client.start_channels()
            self.client.wait_for_ready(timeout=60)
        reply = self.client.execute_interactive(
            '', user_expressions={'r': f'__import__("json").dumps({expression})'}, timeout=120, store_history=False
        )
        result = reply['content']['user_expressions']['r']
        assert result['status'] == 'ok', (expression, result)
        return json.loads(eval(result['data']['text/plain']))

    def execute(self, code):
        "Run code in the notebook's kernel over a separate connection."
        self.evaluate(f'exec({code!r})')

    def end_kernels(self):
        "Stop the kernels, as a restart of the server does."
        for kernel in self.kernels():
            self.server.get(f'/api/kernels/{kernel["id"]}', 'DELETE')

    def close(self):
        for page in self.pages:
            page.close()
        if self.client:
            self.client.stop_channels()
        self.end_kernels()


def open_page(browser, lab, meanwhile=None, before=None):
    "Return a page that has run the notebook, and that records requests to other machines and errors."
    SHOTS.mkdir(exist_ok=True)
    page = browser.new_page(viewport=dict(width=1400, height=900))
    lab.pages.append(page)
    page.set_default_timeout(60_000)
    page.outside, page.errors = [], []
    if before:
        before(page)
    page.on(
        'request',
        lambda r: (
            page.outside.append(r.url)
            if not r.url.startswith((lab.url, lab.url.replace('http', 'ws'), 'data:', 'blob:', 'about:'))
            else None
        ),
    )
    page.on('pageerror', lambda e: None if LATE in str(e) else page.errors.append(f'{e}\n{e.stack}'))
    page.on('console', lambda m: page.errors.append(m.text) if m.type == 'error' and 'srlviz' in m.text else None)
    run_all(page, lab, meanwhile)
    wait_until_drawn(page)  # until then the page moves under the pointer
    wait_idle(page)
    page.errors_on_load = page.outside[:], page.errors[:]
    return page


def wait_until_drawn(page):
    "Wait until all views that are seen are drawn; otherwise fail with their classes, the errors and a picture."
    try:
        page.wait_for_function(DRAWN)
    except Exception:
        page.screenshot(path=SHOTS / 'not_drawn.png')
        kinds = '.srlviz-plot:not([data-drawn]), .srlviz-scatter:not([data-drawn]), .srlviz-board:not([data-shown])'
        nodes = f"[...document.querySelectorAll('{kinds}')].filter(e => e.checkVisibility())"
        found = page.evaluate(
            nodes
            + """.map(e => [e.className, e.innerHTML.length, e.getClientRects().length,
                e.closest('.srlviz-explorer')?.className])"""
        )
        live = page.evaluate("() => [document.visibilityState, globalThis.__srlviz && Object.keys(__srlviz)]")
        pytest.fail(f'views are not drawn: {found}; {live}; errors: {page.errors[:5]}', pytrace=False)


def reset_page(page, lab, start):
    """Reset a page before a test, and check after it that nothing failed.

    Parameters
    ----------
    start : expression for the kernel that resets what tests change

    A generator of one page, for a fixture: `yield from reset_page(...)`.
    """
    # earlier errors have failed the test that they belong to
    page.outside.clear()
    page.errors.clear()
    page.mouse.move(5, 5)
    wait_idle(page)
    lab.evaluate(start)
    wait_idle(page)
    yield page
    assert page.outside == [], 'a request left this machine'
    assert page.errors == [], 'a script failed'


def run_all(page, lab, meanwhile=None):
    """Open the notebook and run all cells.

    The menu is not used, since its clicks are lost while the page loads. The command is not awaited, since its promise
    may stay pending.
    """
    lab.open(page)
    page.wait_for_function("window.jupyterapp?.commands.hasCommand('notebook:run-all-cells')", timeout=120_000)
    page.wait_for_selector('.jp-Notebook .jp-CodeCell', timeout=120_000)
    wait_for(
        lambda: [k for k in lab.kernels() if k['connections'] and k['execution_state'] == 'idle'],
        120,
        message='the kernel is connected and idle',
    )
    page.wait_for_selector(".jp-Notebook-ExecutionIndicator[data-status='idle']", timeout=120_000)
    page.evaluate(
        "() => { window.jupyterapp.commands.execute('application:toggle-left-area'); "
        "window.jupyterapp.commands.execute('notebook:run-all-cells'); return null }"
    )
    if meanwhile:
        meanwhile(page)
    prompts = "[...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')].map(e => e.textContent.trim())"
    ended = f"const p = {prompts}; if (p.length && p.every(t => /^\\[\\d+\\]:$/.test(t))) return 'well'"
    failed = """return document.querySelector('[data-mime-type="application/vnd.jupyter.error"]') && 'badly'"""
    try:
        outcome = page.wait_for_function(f'() => {{ {ended}; {failed} }}', timeout=480_000).json_value()
    except Exception:
        outcome = 'timed out'
    if outcome != 'well':
        page.screenshot(path=SHOTS / 'failed_run.png', full_page=True)
        errors = page.locator(
            '.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.error"], '
            '.jp-RenderedText[data-mime-type="application/vnd.jupyter.stderr"]'
        ).all_inner_texts()
        pytest.fail(f'the notebook did not run to its end: {page.evaluate(prompts)} {errors[:3]}', pytrace=False)
