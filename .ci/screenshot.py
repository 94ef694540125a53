"""Make docs/agent.png, the first picture of the README: BeliefMicroscope in JupyterLab, with an edit;
docs/_static/mind.html, the same screen without a kernel, which the site shows;
and docs/conditioning.png, of the shipped scores.

python .ci/screenshot.py          needs Chromium, as the browser tests do
"""

import io, sys, tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests'))
from support import lab as labs  # noqa: E402

CELL = """
import srlviz
from srlviz.agents.player import load_policy
from srlviz.core.files import sample_path
agent = load_policy(sample_path('agents/RepeatPrevious-easy_GRU.safetensors'))
scope = srlviz.explore(agent, widget='BeliefMicroscope', factor='ago_1', seed=3, t=12)
scope.press(1)
scope"""
FACTORS = 'ago_0', 'ago_1', 'ago_2', 'remaining_0'  # of the page


def screenshot() -> Image.Image:
    "Return a picture of the widget"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = labs.Server(Path(folder))
        browser = playwright.chromium.launch(executable_path=labs.chromium(), args=labs.FLAGS)
        lab = labs.Lab(server, 'agent', labs.notebook_of(CELL.strip()))
        page = labs.open_page(browser, lab)
        labs.release_focus(page)
        shot = page.locator('.srlviz-microscope').first.screenshot()
        browser.close()
        server.close()
    return Image.open(io.BytesIO(shot)).convert('RGB')


def write_page(path: Path) -> None:
    "Write the page in which agents play"
    from srlviz.widgets.agents.microscope import BeliefMicroscope

    scope = BeliefMicroscope('RepeatPrevious-easy', factor='ago_1', seed=3, t=12, second='Elman')
    scope.to_html(path, factors=FACTORS)


def draw_conditioning(path: Path) -> None:
    "Draw the scores of probes on raw and on standardized codes"
    from srlviz.core.files import sample_path
    from srlviz.core.scores import load_scores
    from srlviz.figures.atari.games import plot_conditioning
    from srlviz.figures.paper import save_figure

    scores = load_scores(sample_path('atari_scores.csv'))
    fig = plot_conditioning(scores, methods=['majority', 'random_cnn', 'st_dim'], columns=3, width=900)
    save_figure(fig, path, width=9)  # inches
    with Image.open(path) as picture:
        picture.resize((1500, 1500 * picture.height // picture.width)).quantize(64).save(path, optimize=True)


if __name__ == '__main__':
    target = ROOT / 'docs' / 'agent.png'
    screenshot().save(target, optimize=True)
    page = ROOT / 'docs' / '_static' / 'mind.html'
    write_page(page)
    scores = ROOT / 'docs' / 'conditioning.png'
    draw_conditioning(scores)
    for path in target, page, scores:
        print(f'{path.relative_to(ROOT)}: {path.stat().st_size / 1e3:.0f} kB')
