"""First pictures in a real JupyterLab: milliseconds from running a cell, after `import srlviz`, to the first picture.

python benchmarks/first_pictures.py [--runs 3] [--only game]

Each run has a new kernel, so that everything is imported anew. A picture is a plot that is drawn, a frame, or a tile of
the gallery. Close all other programs: a second process on two cores doubles the times.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests'))

from support.lab import FLAGS, Lab, Server, chromium, notebook_of, open_page

OPENINGS = {
    'start page': 'srlviz.explore()',
    'game': "srlviz.explore('pong')",
    'flights': "srlviz.explore('approach')",
    'memory': "srlviz.explore('GRU')",
    'matrix': "srlviz.explore(srlviz.sample_path('cross_evaluation.csv'))",
}
NEW_CELL = """async code => {
    await window.jupyterapp.commands.execute('notebook:insert-cell-below');
    const { activeCell } = window.jupyterapp.shell.currentWidget.content;
    activeCell.model.sharedModel.setSource(code);
}"""
FIRST_PICTURE = """() => new Promise(done => {
    const drawn = canvas => {
        const pixels = canvas.getContext('2d')?.getImageData(0, 0, canvas.width, canvas.height).data;
        return pixels?.some(value => value > 0) ?? false;
    };
    const isThere = { CANVAS: drawn, IMG: image => image.naturalWidth };
    const isPicture = e => e.checkVisibility() && (isThere[e.tagName]?.(e) ?? true);
    const what = '.srlviz-plot[data-drawn], .srlviz-explorer img, .srlviz-explorer canvas, .srlviz-tiles[data-shown]';
    const start = performance.now();
    const look = () => {
        if ([...document.querySelectorAll(what)].some(isPicture)) done(performance.now() - start);
        else requestAnimationFrame(look);
    };
    window.jupyterapp.commands.execute('notebook:run-cell');
    look();
})"""


def first_picture(browser, server, name: str, code: str) -> float:
    "Milliseconds of one opening, in a new kernel"
    lab = Lab(server, name, notebook_of('import srlviz'), small='')
    try:
        page = open_page(browser, lab)
        page.evaluate(NEW_CELL, code)
        return page.evaluate(FIRST_PICTURE)
    finally:
        lab.close()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', choices=OPENINGS, help='one opening')
    parser.add_argument('--runs', type=int, default=3, help='of each opening; their median is printed')
    parser.add_argument('--smoke', action='store_true', help='the start page once, as a smoke test')
    given = parser.parse_args()
    names = ['start page'] if given.smoke else [given.only] if given.only else [*OPENINGS]
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
        server = Server(Path(folder))
        try:
            for name in names:
                runs = range(1 if given.smoke else given.runs)
                times = [first_picture(browser, server, f'{name} {k}'.replace(' ', '_'), OPENINGS[name]) for k in runs]
                listed = ', '.join(f'{ms:,.0f}' for ms in times)
                print(f'{name:12} {statistics.median(times):7,.0f} ms ({listed})', flush=True)
        finally:
            server.close()
            browser.close()


if __name__ == '__main__':
    main()
