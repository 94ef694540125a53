"""Every benchmark runs with its smallest sizes (`--smoke`), and every script that measures what ships starts.

What a benchmark measures is not looked at: sizes are too small, and other programs run beside it.
"""

import os, subprocess, sys
from pathlib import Path

from support import lab as labs
import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / 'benchmarks').glob('*.py'))
MEASURES = [p for p in SCRIPTS if p.stem.startswith('measure_')]
BENCHMARKS = [p for p in SCRIPTS if p not in MEASURES]
pytestmark = pytest.mark.slow


def run(path: Path, argument: str, folder: Path):
    "Run a script in a folder that is not the repository; show what it says if it fails"
    here = os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH', '')]))
    away = {k: v for k, v in os.environ.items() if k != 'IN_TEST'}
    r = subprocess.run(
        [sys.executable, path, argument], cwd=folder, env=away | dict(PYTHONPATH=here), capture_output=True, text=True
    )
    assert r.returncode == 0, f'{path.name} {argument}:\n{r.stdout[-3000:]}{r.stderr[-6000:]}'
    assert r.stdout.strip(), f'{path.name} {argument} prints nothing'


@pytest.mark.parametrize('path', BENCHMARKS, ids=lambda p: p.stem)
def test_benchmark(path, tmp_path):
    browser = labs.chromium() or os.environ.get('PLAYWRIGHT_BROWSERS_PATH')
    if 'from support.lab import' in path.read_text(encoding='utf-8') and not browser:
        pytest.skip(f'no Chromium on this machine. Install it with: {labs.INSTALL}')
    run(path, '--smoke', tmp_path)


@pytest.mark.parametrize('path', MEASURES, ids=lambda p: p.stem)
def test_measure_starts(path, tmp_path):
    run(path, '--help', tmp_path)
