"""Make docs/agent.png, the first picture of the README: MMERDashboard with a shipped agent in JupyterLab.

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
from srlviz.widgets.agents.returns import MMERDashboard
board = MMERDashboard(task='RepeatPrevious-easy', method='GRU')
board.playing = True
board.agent.player.value = 20
board"""
HEIGHT = 620  # pixels: down to the first units of the memory


def screenshot() -> Image.Image:
    "Return a picture of the widget at t=20"
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        server = labs.Server(Path(folder))
        browser = playwright.chromium.launch(executable_path=labs.chromium(), args=labs.FLAGS)
        lab = labs.Lab(server, 'agent', labs.notebook_of(CELL.strip()))
        page = labs.open_page(browser, lab)
        labs.release_focus(page)
        shot = page.locator('.srlviz-dashboard').first.screenshot()
        browser.close()
        server.close()
    picture = Image.open(io.BytesIO(shot)).convert('RGB')
    return picture.crop((0, 0, picture.width, min(HEIGHT, picture.height)))


if __name__ == '__main__':
    target = ROOT / 'docs' / 'agent.png'
    screenshot().save(target, optimize=True)
    print(f'{target.relative_to(ROOT)}: {target.stat().st_size / 1e3:.0f} kB')
