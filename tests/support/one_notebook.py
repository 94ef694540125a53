"""A copy of the package with one notebook more, in which a program is run."""

import os, shutil, subprocess, sys
from pathlib import Path

import nbformat

ROOT = Path(__file__).parents[2]


def run_with_notebook(place: Path, module: str, code: str, program: str) -> list[str]:
    """Copy the package, add a notebook, export it, and run a program; return the lines that it printed.

    Parameters
    ----------
    place : empty folder of the copy
    module : of the new notebook, such as 'data.worlds.drive'
    code : of its exported cell
    program : Python
    """
    name = module.rpartition('.')[2]
    folder = next(p for p in (ROOT / 'nbs').glob('[0-9]*/*') if module_folder(p) == module.rpartition('.')[0])
    shutil.copytree(folder, place / folder.relative_to(ROOT), ignore=shutil.ignore_patterns('.*'))
    shutil.copytree(ROOT / 'srlviz', place / 'srlviz', ignore=shutil.ignore_patterns('__pycache__'))
    shutil.copytree(ROOT / 'nbs/studies', place / 'nbs/studies', ignore=shutil.ignore_patterns('.*'))
    (place / 'data_samples').symlink_to(ROOT / 'data_samples')
    for file in 'pyproject.toml', 'settings.ini':
        shutil.copy(ROOT / file, place)
    cell = nbformat.v4.new_code_cell
    title = nbformat.v4.new_markdown_cell(f'# {name}\n\n> One notebook more.')
    cells = [cell(f'#| default_exp {module}'), title, cell('#| export' + code)]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), place / folder.relative_to(ROOT) / f'90_{name}.ipynb')
    env = os.environ | {'PYTHONPATH': str(place)}
    export = Path(sys.executable).with_name('nbdev-export')
    for command in [export], [sys.executable, '-c', program]:
        process = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
        assert process.returncode == 0, process.stderr
    return process.stdout.splitlines()


def module_folder(folder: Path) -> str:
    "The package of the notebooks of a folder: 'evaluate.questions' of nbs/06_evaluate/questions"
    room = folder.parent.name.partition('_')[2]
    return f'{room}.{folder.name}'
