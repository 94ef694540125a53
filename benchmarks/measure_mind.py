"""Measure the offline microscope: sizes of the pages of all agents, milliseconds from a press to its last change.

python benchmarks/measure_mind.py [--presses 30] [--agents 2]

The page timestamps the press, the scene that it draws, and the moment after the frame in which it is shown. Close all
other programs: a second process on two cores doubles the times.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests'))

from support.lab import FLAGS, chromium

from srlviz.agents.player import load_agents
from srlviz.evaluate.memories.edited_play import EditedPlay
from srlviz.widgets.agents.mind_page import mind_data, write_mind

TASKS = ('RepeatPrevious-easy', 'RepeatFirst-easy', 'MineSweeper-easy')
CHOOSE = "names => names.forEach((name, k) => mind.set(['agent', 'second'][k], name))"
PRESS = """([k, kind]) => new Promise(done => {
    const { panels, values } = mind.reset(), n = panels.length, rows = panels[k % n].original.saw.length;
    const start = performance.now();
    try {
        mind.view.draw(mind.press(k % n, 1 + k % (rows - 2), k % values.length, kind));
    } catch {
        return done(null);  // this memory cannot say it, or there is no such twin
    }
    const drawn = performance.now();
    requestAnimationFrame(() => setTimeout(() => done([drawn - start, performance.now() - start])));
})"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--presses', type=int, default=30)
    parser.add_argument('--agents', type=int, default=2, help='side by side, 1 or 2')
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    shipped = load_agents('shipped')
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as p:
        browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
        for task in TASKS:
            plays = {memory: EditedPlay(agent) for (name, memory), agent in shipped.items() if name == task}
            path = write_mind(Path(folder) / f'{task}.html', mind_data(plays))
            print(f'{task}: {", ".join(plays)} in {path.stat().st_size / 1e6:.2f} MB')
            page = browser.new_context(bypass_csp=True, viewport=dict(width=1400, height=900)).new_page()
            page.goto(path.as_uri())
            page.wait_for_selector('canvas')
            page.evaluate(CHOOSE, [memory for memory, play in plays.items() if play.player.n_codes][: options.agents])
            for kind in ('class means', 'twin'):
                times = [page.evaluate(PRESS, [k, kind]) for k in range(options.presses + 1)]
                times = [each for each in times[1:] if each]
                if not times:
                    print(f'    {kind}: none is possible')
                    continue
                scene, shown = zip(*times)
                words = f'scene after {statistics.median(scene):.1f} ms, shown after {statistics.median(shown):.1f} ms'
                print(f'    {kind}: {len(scene)} presses, {words}, at most {max(shown):.1f}', flush=True)
        browser.close()


if __name__ == '__main__':
    main()
