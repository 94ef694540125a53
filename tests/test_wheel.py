"""`pip install .` without make: a wheel built from the sources, in an empty environment, away from the checkout."""

import os, shutil, subprocess, sys, venv, zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.wheel


def run(*command, cwd, **env):
    "Run a command outside the checkout; show its output if it fails."
    clean = {k: v for k, v in os.environ.items() if k not in ('PYTHONPATH', 'VIRTUAL_ENV')} | env
    r = subprocess.run([str(c) for c in command], cwd=cwd, env=clean, capture_output=True, text=True)
    assert r.returncode == 0, f'{command}:\n{r.stdout[-3000:]}{r.stderr[-3000:]}'
    return r.stdout


@pytest.fixture(scope='module')
def wheel(tmp_path_factory):
    d = tmp_path_factory.mktemp('wheel')
    for name in ('srlviz', 'data_samples', 'nbs'):  # a copy: building leaves a build/ that the next wheel would pick up
        shutil.copytree(ROOT / name, d / 'src' / name, ignore=shutil.ignore_patterns('__pycache__', '.*'))
    for name in ('settings.ini', 'setup.py', 'pyproject.toml', 'README.md', 'LICENSE'):
        shutil.copy(ROOT / name, d / 'src' / name)
    run(sys.executable, '-m', 'pip', 'wheel', '--no-deps', '--disable-pip-version-check', '-w', d, d / 'src', cwd=d)
    return next(d.glob('srlviz-*.whl'))


@pytest.fixture(scope='module')
def installed(wheel):
    "The Python of an empty environment with the wheel and the run-time requirements, nothing else."
    d = wheel.parent / 'env'
    venv.create(d, with_pip=True)
    python = d / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
    how = ['-q', '--no-compile', '--disable-pip-version-check', '-c', ROOT / 'requirements-lock.txt']
    run(python, '-m', 'pip', 'install', *how, wheel, cwd=d)
    yield python
    shutil.rmtree(d)  # 1.6 GB


def test_wheel_holds_everything(wheel):
    "Every module, widget script, sample and study; editable installations hide what is missing."
    held = set(zipfile.ZipFile(wheel).namelist())
    want = {
        str(p.relative_to(ROOT))
        for kind in ('*.py', '*.js', '*.css')
        for p in (ROOT / 'srlviz').rglob(kind)
        if '__pycache__' not in p.parts and p.name != '_modidx.py'
    }
    want |= {f'srlviz/data_samples/{p.name}' for p in (ROOT / 'data_samples').iterdir() if p.is_file()}
    want |= {
        f'srlviz/notebooks/{d}/{p.name}' for d in ('studies', 'tutorials') for p in (ROOT / 'nbs' / d).glob('*.ipynb')
    }
    assert sorted(want - held) == []
    assert 'srlviz/_modidx.py' not in held
    assert not [f for f in held if f.startswith(('tests/', 'benchmarks/', 'nbs/'))]


def test_every_module_imports(installed, tmp_path):
    "With the run-time requirements alone: nothing of [dev] is needed."
    names = [
        str(p.relative_to(ROOT).with_suffix('')).replace(os.sep, '.')
        for p in sorted((ROOT / 'srlviz').rglob('*.py'))
        if p.stem not in ('__init__', '_modidx')
    ]
    code = (
        'import importlib, srlviz; assert "site-packages" in srlviz.__file__; '
        f'[importlib.import_module(m) for m in {names}]; print(srlviz.__version__)'
    )
    assert run(installed, '-c', code, cwd=tmp_path).strip()


def test_command_line(installed, tmp_path):
    out = run(installed.with_name('srlviz'), 'list', cwd=tmp_path)
    for p in (ROOT / 'nbs/studies').glob('*.ipynb'):
        assert p.stem in out
    for p in (ROOT / 'nbs/tutorials').glob('*.ipynb'):
        assert p.stem in out
        lies = Path(run(installed.with_name('srlviz'), 'path', p.stem, cwd=tmp_path).strip())
        assert lies.read_bytes() == p.read_bytes() and lies.is_relative_to(installed.parents[1])


def test_sample(installed, tmp_path):
    code = (
        "from srlviz.core.files import sample_path; from srlviz.core.recordings import load_recording; "
        "rec = load_recording(sample_path('pong_sample.npz')); print(len(rec), rec.n_steps)"
    )
    assert min(map(int, run(installed, '-c', code, cwd=tmp_path).split())) > 0
