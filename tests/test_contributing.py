"""The examples of CONTRIBUTING.md, run unchanged."""

import os, re, subprocess, sys
from pathlib import Path

import pytest

from srlviz.studies.new_study import new_study

ROOT = Path(__file__).resolve().parents[1]


def blocks(heading, language):
    "Return the code blocks of a section."
    text = (ROOT / 'CONTRIBUTING.md').read_text(encoding='utf-8')
    section = re.search(rf'^## {heading}\n(.*?)(?=^## )', text, re.M | re.S)[1]
    return re.findall(rf'^```{language}\n(.*?)^```', section, re.M | re.S)


def run(*command, cwd, path=ROOT):
    "Run Python with arguments, check that it succeeds, and return its stdout."
    env = os.environ | dict(PYTHONPATH=os.pathsep.join(map(str, [path, ROOT])), OMP_NUM_THREADS='1')
    process = subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert process.returncode == 0, process.stdout + process.stderr
    return process.stdout


def test_the_gymnasium_example_runs(tmp_path):
    (tmp_path / 'walk.py').write_text(blocks('Add a Gymnasium environment', 'python')[0])
    stdout = run('walk.py', cwd=tmp_path)
    assert re.search(r'^mean of 2 factors +1\.0 +1\.0 +0\.\d+ *$', stdout, re.M), stdout


@pytest.fixture(scope='module')
def kit(tmp_path_factory):
    "Install the package my-kit, and return the folder of the installation."
    d = tmp_path_factory.mktemp('kit')
    (d / 'src/my_kit/studies').mkdir(parents=True)
    (d / 'src/pyproject.toml').write_text(blocks('Add a study: your own in ten minutes', 'toml')[0])
    (d / 'src/my_kit/__init__.py').write_text('raise SystemExit("imported")')  # listing and running do not import it
    new_study('coin', d / 'src/my_kit/studies')
    options = ['--no-deps', '--no-build-isolation', '--disable-pip-version-check', '--target', d / 'site']
    run('-m', 'pip', 'install', '-q', *map(str, options), str(d / 'src'), cwd=d)
    return d / 'site'


def test_an_installed_package_adds_a_study(kit, tmp_path):
    listed = run('-m', 'srlviz', 'list', cwd=tmp_path, path=kit)
    assert 'coin: coin' in listed and 'of the random numbers' in listed
    stdout = run('-m', 'srlviz', 'run', 'coin', '-p', 'tosses', '1000', cwd=tmp_path, path=kit)
    assert 'of 1000 tosses are heads' in stdout
    assert (tmp_path / 'runs/coin/coin.html').is_file()
