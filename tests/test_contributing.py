"""The examples of CONTRIBUTING.md, run as they stand there."""

import os, re, subprocess, sys
from pathlib import Path

import nbformat, pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

ROOT = Path(__file__).resolve().parents[1]


def blocks(heading, language):
    "The code blocks of a section"
    text = (ROOT / 'CONTRIBUTING.md').read_text(encoding='utf-8')
    section = re.search(rf'^## {heading}\n(.*?)(?=^## )', text, re.M | re.S)[1]
    return re.findall(rf'^```{language}\n(.*?)^```', section, re.M | re.S)


def run(*command, cwd, path=ROOT):
    env = os.environ | dict(PYTHONPATH=os.pathsep.join(map(str, [path, ROOT])), OMP_NUM_THREADS='1')
    done = subprocess.run([sys.executable, *command], cwd=cwd, env=env, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_gymnasium_environment_is_a_world(tmp_path):
    (tmp_path / 'walk.py').write_text(blocks('Add a Gymnasium environment', 'python')[0])
    told = run('walk.py', cwd=tmp_path)
    assert re.search(r'^mean +1\.0 +1\.0 +0\.\d+ *$', told, re.M), told


@pytest.fixture(scope='module')
def kit(tmp_path_factory):
    "A folder in which the package my-kit is installed"
    d = tmp_path_factory.mktemp('kit')
    (d / 'src/my_kit/studies').mkdir(parents=True)
    (d / 'src/pyproject.toml').write_text(blocks('Add a study', 'toml')[0])
    (d / 'src/my_kit/__init__.py').write_text('raise SystemExit("imported")')  # listing and running import nothing
    parameters, code = blocks('Add a study', 'python')
    cells = [
        new_markdown_cell('# Tossing a coin'),
        new_code_cell(parameters, metadata=dict(tags=['parameters'])),
        new_code_cell(code, metadata=dict(tags=['summary'])),
    ]
    nbformat.write(new_notebook(cells=cells), d / 'src/my_kit/studies/coin.ipynb')
    options = ['--no-deps', '--no-build-isolation', '--disable-pip-version-check', '--target', d / 'site']
    run('-m', 'pip', 'install', '-q', *map(str, options), str(d / 'src'), cwd=d)
    return d / 'site'


def test_a_package_offers_a_study(kit, tmp_path):
    listed = run('-m', 'srlviz', 'list', cwd=tmp_path, path=kit)
    assert 'coin: Tossing a coin' in listed and 'of the random numbers' in listed
    told = run('-m', 'srlviz', 'run', 'coin', '-p', 'tosses', '1000', cwd=tmp_path, path=kit)
    assert 'of 1000 tosses are heads' in told
    assert (tmp_path / 'runs/coin/coin.html').is_file()
