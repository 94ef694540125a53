"""The page of a study in a real browser: the figure draws, code unfolds, and nobody is asked for anything."""
import os

import nbformat, pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from srlviz.studies.run import run_study

pytestmark = pytest.mark.browser

SHOW = """
import plotly.graph_objects as go
from IPython.display import HTML, display
display(HTML('<script src="https://example.org/x.js"></script><link rel="stylesheet" href="https://example.org/x.css"><img src="https://example.org/x.png">'))
go.Figure(go.Heatmap(z=[[i*j for i in range(n)] for j in range(n)]))
"""

@pytest.fixture(scope='module')
def page_path(tmp_path_factory):
    d = tmp_path_factory.mktemp('page')
    cells = [new_markdown_cell('# A table\n\n![elsewhere](https://example.org/y.png)'), new_code_cell('n: int = 3', metadata=dict(tags=['parameters'])), new_code_cell(SHOW)]
    nbformat.write(new_notebook(cells=cells, metadata=dict(kernelspec=dict(name='python3', language='python', display_name='Python 3'))), d/'times.ipynb')
    return run_study(d/'times.ipynb', dict(n='5'), d/'out', progress=False).with_suffix('.html')

def test_page_alone(page_path, chromium):
    from playwright.sync_api import sync_playwright
    if not (chromium or os.environ.get('PLAYWRIGHT_BROWSERS_PATH')): pytest.fail('no Chromium here: make test installs it, or set CHROMIUM', pytrace=False)
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=['--no-sandbox'])
        page, asked, errors = browser.new_page(), [], []
        page.set_default_timeout(60_000)
        page.on('request', lambda r: asked.append(r.url)); page.on('pageerror', lambda e: errors.append(str(e)))
        page.on('console', lambda m: errors.append(m.text) if m.type == 'error' else None)
        page.goto(page_path.as_uri())
        page.wait_for_selector('.plot .heatmaplayer image, .plot .hm')
        assert page.locator('h1').all_inner_texts() == ['A table'] and page.locator('dd.own').inner_text() == '5'
        assert not page.locator('details pre').first.is_visible()
        page.get_by_role('button', name='all code').click()
        assert page.locator('details pre').first.is_visible()
        assert errors == [] and [u for u in asked if not u.startswith(('file:', 'data:', 'blob:'))] == []
        browser.close()

PLAY = """async source => {
  const start = source.indexOf('const KEEP_DECODED'), end = source.indexOf('function render(');
  const Chunks = new Function(source.slice(start, end).replace('KEEP_ENCODED = 192e6', 'KEEP_ENCODED = 10e6') + '; return Chunks;')();
  const sent = [], model = { get: () => ({ n: 3200, chunk: 32, width: 10, height: 10, id: 1 }), send: m => sent.push(m) };
  let centre = 0, asked = 0, peak = 0, missing = 0;
  const chunks = new Chunks(model, () => chunks.ask(centre));
  for (; centre < 100; centre++) {
    for (chunks.ask(centre); sent.length && asked < 1000; asked++) {
      await chunks.receive({ kind: 'chunk', id: 1, chunk: sent.shift().chunk }, [new Uint8Array(1e6)]);
      peak = Math.max(peak, chunks.bytes);
    }
    missing += !chunks.encoded.has(centre);
  }
  return { asked, peak, missing };
}"""

def test_a_film_larger_than_the_browser_keeps(chromium):
    "100 chunks of 1 MB where 10 MB are kept: each is there when it is looked at, none is fetched twice, and the limit holds."
    from pathlib import Path
    from playwright.sync_api import sync_playwright
    import srlviz.widgets
    source = (Path(srlviz.widgets.__path__[0])/'frame_player.js').read_text()
    with sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium, args=['--no-sandbox'])
        played = browser.new_page().evaluate(PLAY, source)
        browser.close()
    assert played['missing'] == 0 and played['asked'] <= 100 and played['peak'] <= 11e6
