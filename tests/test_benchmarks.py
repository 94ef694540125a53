"""Every benchmark runs with its smallest sizes (`--smoke`), and every script that measures what ships starts.

What a benchmark measures is not looked at: sizes are too small, and other programs run beside it.
"""

import os, subprocess, sys
from pathlib import Path

from support import lab as labs
import pandas as pd
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


def test_what_waits_for_a_gpu_runs_at_its_smallest_size(tmp_path):
    run(ROOT / 'benchmarks/measure_gpu.py', '--smallest', tmp_path)
    table = pd.read_csv(tmp_path / 'runs/gpu/gpu.csv')
    assert set(table['piece']) == {'steps', 'ppo', 'st_dim', 'paper'} and table['value'].notna().all()


def test_a_machine_without_a_package_is_told_its_wheel(tmp_path):
    (tmp_path / 'sitecustomize.py').write_text(
        'import importlib.util as u\nfind = u.find_spec\n'
        "u.find_spec = lambda name, *a: None if name == 'ale_py' else find(name, *a)"
    )
    command = [sys.executable, ROOT / 'benchmarks/measure_gpu.py']
    r = subprocess.run(command, env=os.environ | dict(PYTHONPATH=str(tmp_path)), capture_output=True, text=True)
    assert r.returncode == 1 and r.stderr.startswith('measure_gpu.py needs the wheels of ale-py for Python'), r.stderr


def test_tables_are_listed_without_measuring(tmp_path):
    "`make tables DRY=1`: a row for each part, and their sum"
    command = [sys.executable, ROOT / 'benchmarks/measure_tables.py', '--dry', '--out', tmp_path]
    r = subprocess.run(command, env=os.environ | dict(PYTHONPATH=str(ROOT)), capture_output=True, text=True)
    assert r.returncode == 0 and 'easy tasks, seed 0' in r.stdout and 'core hours' in r.stdout, r.stderr
    assert not list(tmp_path.iterdir())
