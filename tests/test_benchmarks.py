"""Every benchmark runs with its smallest sizes (`--smoke`), and every script that measures what ships starts.

What a benchmark measures is not looked at: sizes are too small, and other programs run beside it.
"""

import os, subprocess, sys
from pathlib import Path

from support import lab as labs
import pandas as pd
import pytest

from srlviz.core.files import sample_path
from srlviz.studies.trials import grid_trials

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
    table = pd.read_csv(tmp_path / 'runs/gpu/smallest/gpu.csv')
    assert set(table['piece']) == {'steps', 'ppo', 'st_dim', 'paper'} and table['value'].notna().all()


def test_a_missing_package_is_named_with_its_wheel(tmp_path):
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


def scripts_of_tables(monkeypatch, folder):
    "The scripts of `make tables`, for which nothing is shipped that is of the current versions"
    monkeypatch.syspath_prepend(ROOT / 'benchmarks')
    import measure_cross, measure_landing, measure_mmer

    monkeypatch.setattr(measure_cross, 'TABLE', folder / 'none.csv')
    for script in (measure_landing, measure_mmer):
        monkeypatch.setattr(script, 'METADATA', folder / 'none.json')
    return measure_cross, measure_landing, measure_mmer


def test_every_part_of_the_tables_is_trials_that_its_study_takes(monkeypatch, tmp_path):
    "A grid that a study refuses would end `make tables` after days"
    measure_cross, measure_landing, measure_mmer = scripts_of_tables(monkeypatch, tmp_path)
    import measure_tables

    counts = {}

    def count(study, grid, folder, workers):
        counts[study.name] = counts.get(study.name, 0) + len(grid_trials(study, grid))

    for script in (measure_cross, measure_landing, measure_mmer):
        monkeypatch.setattr(script, 'measure', count)
        monkeypatch.setattr(script, 'save' if script is measure_cross else 'collect', lambda folder: None)
    monkeypatch.setattr(measure_landing, 'make_set', lambda *options: sample_path('landings'))
    monkeypatch.setattr(measure_landing, 'small_encoders', lambda flights: None)
    parts = [part for part in measure_tables.all_parts(tmp_path, ['matrix', 'mmer', 'landing']) if part.missing]
    for part in parts:
        part.run(1)
    assert counts['cross_evaluation'] == 450 and counts['popgym_mmer'] >= 45 * 19 * 3
    assert counts['landing_benchmark'] >= sum(part.missing for part in parts if part.table == 'landing')


def test_a_part_that_fails_does_not_stop_the_next(monkeypatch, tmp_path, capsys):
    monkeypatch.syspath_prepend(ROOT / 'benchmarks')
    import measure_tables

    ran = []

    def fail(workers):
        raise ValueError('no flights')

    parts = [measure_tables.Part(1, 'matrix', name, 2, 2, 0.1, run) for name, run in dict(a=fail, b=ran.append).items()]
    monkeypatch.setattr(measure_tables, 'all_parts', lambda out, tables: parts)
    with pytest.raises(SystemExit) as end:
        measure_tables.main(['--out', str(tmp_path), '--workers', '1'])
    assert ran == [1] and end.value.code and 'ValueError: no flights' in capsys.readouterr().err
