"""The HTML page of a study in a browser: figures are drawn, code unfolds, and no other host is contacted."""

import nbformat, pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from srlviz.studies.run import run_study

pytestmark = pytest.mark.browser

OUTPUTS = """
import plotly.graph_objects as go
from IPython.display import HTML, display
away = 'https://example.org/x'
display(HTML(f'<script src="{away}.js"></script><link rel="stylesheet" href="{away}.css"><img src="{away}.png">'))
def table(rows, columns):
    head, row = '<th>name</th>'*columns, '<tr>' + '<td>1.25</td>'*columns + '</tr>'
    return f'<table class="dataframe"><thead><tr>{head}</tr></thead><tbody>{row*rows}</tbody></table>'
for html in table(40, 3), table(2, 60), '<p>' + 'words that wrap '*60: display(HTML(html))
go.Figure(go.Heatmap(z=[[i*j for i in range(n)] for j in range(n)]))
"""


@pytest.fixture(scope='module')
def page_path(tmp_path_factory):
    d = tmp_path_factory.mktemp('page')
    cells = [
        new_markdown_cell('# A table\n\n![elsewhere](https://example.org/y.png)'),
        new_code_cell('n: int = 3', metadata=dict(tags=['parameters'])),
        new_code_cell(OUTPUTS),
    ]
    kernelspec = dict(name='python3', language='python', display_name='Python 3')
    nbformat.write(new_notebook(cells=cells, metadata=dict(kernelspec=kernelspec)), d / 'times.ipynb')
    return run_study(d / 'times.ipynb', dict(n='5'), d / 'out', progress=False).with_suffix('.html')


@pytest.fixture
def opened(page_path, browser):
    "Open the page in a browser, and yield it with its requests, the failed requests and the errors of scripts."
    page, requested, failed, errors = browser.new_page(), [], [], []
    page.set_default_timeout(60_000)
    page.on('request', lambda r: requested.append(r.url))
    page.on('requestfailed', lambda r: failed.append((r.url, r.failure)))
    page.on('pageerror', lambda e: errors.append(str(e)))
    page.goto(page_path.as_uri())
    page.wait_for_selector('.plot .heatmaplayer image, .plot .hm')
    yield page, requested, failed, errors
    page.close()


def test_the_page_contacts_no_other_host(opened):
    page, requested, failed, errors = opened
    assert page.locator('h1').all_inner_texts() == ['A table'] and page.locator('dd.changed').inner_text() == '5'
    assert not page.locator('details pre').first.is_visible()
    page.get_by_role('button', name='all code').click()
    assert page.locator('details pre').first.is_visible()
    elsewhere = {u for u in requested if not u.startswith(('file:', 'data:', 'blob:'))}
    assert errors == [] and elsewhere == {'https://example.org/x.png'} and [(*elsewhere, 'csp')] == failed
    assert page.locator('.text a').get_attribute('href') == 'https://example.org/y.png'
    assert 'does not run in a page' in page.locator('.note').inner_text()


FRAME_SIZES = """() => [...document.querySelectorAll('iframe')].map(f => { const d = f.contentDocument.scrollingElement;
  d.scrollLeft = 50;
  return { high: f.clientHeight, needs: d.scrollHeight, shown: d.clientHeight, scrolled: d.scrollLeft }; })"""

CELL_STYLE = """() => { const frame = document.querySelectorAll('iframe')[1];
  const s = getComputedStyle(frame.contentDocument.querySelector('td'));
  return [s.borderBottomWidth, s.textAlign, s.fontSize]; }"""


def test_stored_tables_fit_their_frames(opened):
    "Stored tables have the style of the page and the height of their content; a wide one scrolls in its frame."
    page = opened[0]
    page.set_viewport_size(dict(width=1000, height=800))
    page.wait_for_timeout(300)
    _, tall, wide, text = frames = page.evaluate(FRAME_SIZES)
    assert all(s['high'] < 20_000 and s['needs'] <= s['shown'] for s in frames)
    assert 1000 < tall['high'] < 2000 and 60 < wide['high'] < 200 and (wide['scrolled'], tall['scrolled']) == (50, 0)
    assert page.evaluate('document.documentElement.scrollWidth <= innerWidth')
    assert page.evaluate(CELL_STYLE) == ['1px', 'right', '14.08px']
    page.set_viewport_size(dict(width=400, height=800))
    page.wait_for_timeout(300)
    assert page.evaluate(FRAME_SIZES)[3]['high'] > 1.5 * text['high']  # the text wraps to more lines


PLAY = """async source => {
  const start = source.indexOf('const KEEP_DECODED'), end = source.indexOf('function render(');
  const cache = source.slice(start, end).replace('KEEP_ENCODED = 192e6', 'KEEP_ENCODED = 10e6');
  const Chunks = new Function(cache + '; return Chunks;')();
  const sent = [], film = { n: 3200, chunk: 32, width: 10, height: 10, id: 1 };
  const model = { get: () => film, send: m => sent.push(m) };
  let centre = 0, asked = 0, peak = 0, missing = 0;
  const chunks = new Chunks(model, () => chunks.request(centre));
  for (; centre < 100; centre++) {
    for (chunks.request(centre); sent.length && asked < 1000; asked++) {
      await chunks.receive({ kind: 'chunk', id: 1, chunk: sent.shift().chunk }, [new Uint8Array(1e6)]);
      peak = Math.max(peak, chunks.bytes);
    }
    missing += !chunks.encoded.has(centre);
  }
  return { asked, peak, missing };
}"""


def test_a_film_larger_than_the_cache_is_fetched_once(browser):
    """100 chunks of 1 MB are played with a cache of 10 MB.

    Each chunk is present when it is shown, none is fetched twice, and the cache stays within its limit.
    """
    from pathlib import Path
    import srlviz.widgets

    source = (Path(srlviz.widgets.__path__[0]) / 'frame_player.js').read_text()
    page = browser.new_page()
    played = page.evaluate(PLAY, source)
    page.close()
    assert played['missing'] == 0 and played['asked'] <= 100 and played['peak'] <= 11e6
