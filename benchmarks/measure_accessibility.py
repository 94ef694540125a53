"""Accessibility of start page, workbench and explorers, light and dark, in a real JupyterLab of 1280 x 800.

    npm install --prefix /tmp/axe axe-core
    python benchmarks/measure_accessibility.py /tmp/axe/node_modules/axe-core/axe.min.js [--only map] [--shots FOLDER]

Runs axe-core (MPL-2.0, not part of the kit) on each, and prints its serious and critical findings; exits with 1 if
there are any. Also prints words that are cut, and words that are broken over lines. --shots keeps a screenshot of each.
"""

import argparse
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / 'tests'))

from support.lab import DRAWN, FLAGS, Lab, Server, chromium, wait_idle, set_theme, notebook_of, open_page

SETUP = """
import ipywidgets, srlviz, torch.nn as nn
from srlviz.core.files import sample_path
from srlviz.encoders.frames.pca import FramePCA
pong = srlviz.sample('pong')
net = nn.Sequential(nn.AvgPool2d(30, stride=30), nn.Flatten())
stage = ipywidgets.VBox().add_class('stage')
stage
"""
PROBED = "srlviz.probe(net, pong, probing=dict(epochs=3), progress=False)"
EXPLORERS = {
    'start': "srlviz.explore()",
    'workbench': f"srlviz.explore({PROBED}, widget='Workbench')",
    'frames': "srlviz.explore('pong')",
    'moment': "srlviz.explore(pong, widget='Moment')",
    'ram': "srlviz.explore('pong', widget='RAMExplorer')",
    'sensors': "srlviz.explore('approach', widget='SensorBrowser')",
    'fleet': "srlviz.explore('approach')",
    'flight': "srlviz.explore(srlviz.sample('approach')[0])",
    'task': "srlviz.explore('RepeatPrevious-easy')",
    'maze': "srlviz.explore('MineSweeper-easy')",
    'play': "srlviz.explore('MineSweeper-easy', widget='PlayWidget')",
    'map': "srlviz.explore(FramePCA(n_codes=8, pool=None), pong)",
    'neighbours': "srlviz.explore(FramePCA(n_codes=8, pool=None), pong, widget='NearestFrames')",
    'infonce': "srlviz.explore('st_dim', widget='InfoNCEMap')",
    'flight encoder': "srlviz.explore(sample_path('encoders/landing_lstm_ae.safetensors'))",
    'reconstructions': (
        "srlviz.explore(sample_path('encoders/landing_lstm_ae.safetensors'), widget='ReconstructionBrowser')"
    ),
    'memory': "srlviz.explore('GRU')",
    'agents': "srlviz.explore(sample_path('agents'))",
    'agent memories': "srlviz.explore(sample_path('agents'), widget='MemoryExplorer')",
    'mmer': "srlviz.explore(srlviz.paper_scores('popgym'), widget='MMERDashboard')",
    'atari': "srlviz.explore(srlviz.paper_scores('atari'), widget='AtariDashboard')",
    'targets table': "srlviz.explore(srlviz.paper_scores('landing'), widget='TargetTable')",
    'probe': f"srlviz.explore({PROBED})",
    'qedr': "srlviz.explore('qedr')",
    'targets': "srlviz.explore('targets')",
    'returns': "srlviz.explore('returns')",
    'recall': "srlviz.explore('recall')",
    'question neighbours': "srlviz.explore('neighbours')",
}
AXE = """async () => {
    const found = await axe.run('.stage', { resultTypes: ['violations'] });
    return found.violations.filter(v => ['serious', 'critical'].includes(v.impact)).map(v => [v.id, v.nodes.map(n =>
        [n.html.slice(0, 160), n.any.concat(n.all, n.none).map(c => c.message).join('; ').slice(0, 240)])]);
}"""
# words whose box is smaller than its contents, and words that are broken over lines
CUT = """() => {
    const cut = [], seen = e => e.getClientRects().length && getComputedStyle(e).visibility !== 'hidden';
    for (const e of document.querySelectorAll('.stage *')) {
        if (!seen(e) || e.closest('svg, .srlviz-said') || e.matches('input, select, .noUi-target *')) continue;
        const own = [...e.childNodes].filter(n => n.nodeType === 3 && n.textContent.trim());
        if (!own.length) continue;
        const hides = /hidden|clip/.test(getComputedStyle(e).overflow);
        if (hides && e.scrollWidth > e.clientWidth + 1) cut.push(['cut', e.textContent.slice(0, 60), e.className]);
        for (const text of own) for (const word of text.textContent.matchAll(/[^\\s\\u00b7/-]+/g)) {
            const range = document.createRange();
            range.setStart(text, word.index);
            range.setEnd(text, word.index + word[0].length);
            const tops = new Set([...range.getClientRects()].filter(r => r.width > 1).map(r => Math.round(r.top)));
            if (tops.size > 1) cut.push(['broken', word[0], e.className]);
        }
    }
    const pen = document.createElement('canvas').getContext('2d');
    for (const menu of document.querySelectorAll('.stage select:not([multiple])')) {
        const style = getComputedStyle(menu), words = menu.selectedOptions[0]?.textContent ?? '';
        pen.font = style.font;
        const room = menu.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
        if (seen(menu) && pen.measureText(words).width > room) cut.push(['cut in a menu', words, room]);
    }
    const wide = document.querySelector('.stage').getBoundingClientRect();
    const inside = document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect();
    if (wide.right > inside.right + 1) cut.push(['wide', wide.right, inside.right]);
    for (const text of document.querySelectorAll('.stage .main-svg text, .stage .srlviz-scatter text')) {
        if (!seen(text) || !text.textContent.trim()) continue;
        const plot = text.closest('.main-svg, svg').getBoundingClientRect(), r = text.getBoundingClientRect();
        const beyond = [plot.left - r.left, r.right - plot.right, plot.top - r.top, r.bottom - plot.bottom];
        if (r.width && Math.max(...beyond) > 2) cut.push(['outside of the plot', text.textContent.slice(0, 60), '']);
    }
    return [...new Set(cut.map(c => JSON.stringify(c)))];
}"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('axe', type=Path, metavar='AXE_JS')
    parser.add_argument('--only', nargs='*', default=list(EXPLORERS), choices=list(EXPLORERS), metavar='NAME')
    parser.add_argument('--shots', type=Path)
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    server, n_found = Server(Path(tempfile.mkdtemp())), 0
    try:
        with sync_playwright() as p:
            browser = p.chromium.launch(executable_path=chromium(), args=FLAGS)
            lab = Lab(server, 'explorers', notebook_of(SETUP.strip()), '')
            page = open_page(browser, lab)
            page.set_viewport_size(dict(width=1280, height=800))
            page.evaluate(options.axe.read_text(encoding='utf-8') + ';null')
            for name in options.only:
                n_found += check_explorer(page, lab, name, options.shots)
            browser.close()
    finally:
        server.close()
    sys.exit(n_found > 0)


def check_explorer(page, lab, name: str, shots: Path | None) -> int:
    "Open an explorer, print its problems in both themes, and return the number of axe's findings"
    try:
        lab.execute(f'stage.children = [{EXPLORERS[name]}]')
    except AssertionError as problem:
        print(f'{name}: does not open: {str(problem)[-400:]}', flush=True)
        return 1
    n_found = 0
    for theme in ('Light', 'Dark'):
        set_theme(page, theme)
        page.wait_for_function(DRAWN)
        wait_idle(page)
        page.wait_for_timeout(1500)
        if shots:
            shots.mkdir(parents=True, exist_ok=True)
            page.evaluate("document.querySelector('.stage').scrollIntoView()")
            page.wait_for_timeout(300)
            page.screenshot(path=shots / f'{name.replace(" ", "_")}_{theme.lower()}.png')
        findings = page.evaluate(AXE)
        n_found += len(findings)
        print(f'{name}, {theme.lower()}: {len(findings)} findings', flush=True)
        for rule, nodes in findings:
            print(f'    {rule}: {len(nodes)}')
            for html, message in nodes[:6]:
                print(f'        {html}\n            {message}')
        if theme == 'Light':
            for problem in page.evaluate(CUT):
                print(f'    {problem}')
        for problem in page.errors:
            print(f'    script: {problem[:300]}')
        page.errors.clear()
    return n_found


if __name__ == '__main__':
    main()
