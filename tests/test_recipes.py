"""The recipes of the README and the guides run as they are printed, and nbgrader takes the lessons."""

import importlib.util, os, re, subprocess, sys
from pathlib import Path

import nbformat
import pandas as pd
import pytest
from support.selection import slow_except

from srlviz.core.scores import load_scores
from srlviz.studies.course import write_nbgrader

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / 'README.md', *sorted((ROOT / 'docs/guides').glob('*.md')))
NEEDS = dict(  # the lock does not have the last two: `make recipes`
    stable_baselines3='stable-baselines3', sb3_contrib='sb3-contrib', ray='ray[rllib]'
)
QUICK = 'Probe your own network', 'Sweeps', 'Your own data', 'Targets of your own', 'RLlib'  # make slow: all others


def python_blocks(text: str) -> list[str]:
    "Return the Python blocks of a page. Adjacent blocks are cells of one notebook, and are joined to one block"
    return re.findall(r'^```python\n(.*?)^```', text.replace('```\n```python\n', ''), re.M | re.S)


def blocks() -> dict[str, str]:
    "Return all Python blocks: 'page, position on it' -> code"
    pages = {p.name: python_blocks(p.read_text(encoding='utf-8')) for p in PAGES}
    return {f'{page}, {i}': code for page, codes in pages.items() for i, code in enumerate(codes, 1)}


def recipes() -> dict[str, str]:
    """Return the recipes: name -> code.

    They are the blocks of 'With your own code', named by the bold words before them, and the first block of each of
    three sections, named by the section.
    """
    by_section = {}
    for page, section in ('atari', 'Probe your own network'), ('studies', 'Sweeps'), ('own_data', 'Your own data'):
        text = (ROOT / f'docs/guides/{page}.md').read_text(encoding='utf-8')
        text = re.search(rf'^##? {section}.*?\n(.*?)(?=^##? \S|\Z)', text, re.M | re.S)[1]
        by_section[section] = python_blocks(text)[0]
    text = (ROOT / 'docs/guides/own_code.md').read_text(encoding='utf-8')
    named = re.findall(r'^\*\*(.+?)\*\*(.*?)^```python\n(.*?)^```', text, re.M | re.S)
    return {name: code for name, _, code in named} | by_section


OTHER_BLOCKS = {name: code for name, code in blocks().items() if code not in recipes().values()}


def run(code: str, folder: Path, timeout: int) -> str:
    "Run a block as a script; return its output"
    (folder / 'recipe.py').write_text(code, encoding='utf-8')
    env = os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))}
    result = subprocess.run(
        [sys.executable, 'recipe.py'], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def skip_without_packages(code: str):
    "Skip a block that imports a package which the lock does not have"
    needs = {module: pip for module, pip in NEEDS.items() if re.search(rf'^(import|from) {module}\b', code, re.M)}
    missing = [pip for module, pip in needs.items() if importlib.util.find_spec(module) is None]
    if missing:
        pytest.skip(f"pip install '{missing[0]}', or `make recipes`")


def test_every_block_is_found_and_compiles():
    all_blocks = blocks()
    for page in PAGES:
        fences = page.read_text(encoding='utf-8').count('```python')
        joined = page.read_text(encoding='utf-8').count('```\n```python\n')
        assert sum(name.startswith(f'{page.name}, ') for name in all_blocks) == fences - joined, page.name
    assert len(all_blocks) - len(OTHER_BLOCKS) == len(recipes())
    for name, code in all_blocks.items():
        compile(code, name, 'exec')


def test_every_use_has_a_short_recipe():
    all_recipes = recipes()
    names = [
        'own network',
        'encoder of your own',
        'stable-baselines3',
        'CleanRL',
        'RLlib',
        'game of your own',
        'Targets of your own',
        'Sweeps',
        'own data',
    ]
    assert len(all_recipes) == len(names) and all(any(n in name for name in all_recipes) for n in names)
    for name, code in all_recipes.items():
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) <= 10, f"{name}: {len(lines)} lines"


@pytest.mark.parametrize('name', slow_except(QUICK, recipes()))
def test_recipes_run(name, tmp_path):
    code = recipes()[name]
    skip_without_packages(code)
    stdout = run(code, tmp_path, timeout=900)
    if 'srlviz.probe(' in code:
        assert re.search(r'^.+ in .+: [\d,]+ test rows of \d+ episodes, ', stdout, re.M), stdout
        assert re.search(r'^mean( of \d+ factors)?( +[01]\.\d+)+', stdout, re.M), stdout
    elif 'sweep(' in code:
        assert load_scores(tmp_path / 'runs/coins/scores.csv')['value'].tolist() == [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    else:
        assert -1 <= float(stdout.split()[-1]) <= 1, stdout


@pytest.mark.slow
@pytest.mark.parametrize('name', OTHER_BLOCKS)
def test_other_blocks_run(name, tmp_path):
    skip_without_packages(OTHER_BLOCKS[name])
    run(OTHER_BLOCKS[name], tmp_path, timeout=3600)


def test_nbgrader_releases_and_grades_a_lesson(tmp_path):
    "One student hands in the solutions, another one no answer and a check that is always right"
    if importlib.util.find_spec('nbgrader') is None:
        pytest.skip('pip install nbgrader, or `make recipes`')
    room, lesson = tmp_path / 'room', '05_pomdps'
    write_nbgrader(room)
    paths = [str(ROOT), os.environ.get('PYTHONPATH')]
    env = os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, paths))}
    env['PATH'] = os.pathsep.join([str(Path(sys.executable).parent), env['PATH']])  # nbgrader calls alembic

    def nbgrader(*arguments):
        command = [sys.executable, '-m', 'nbgrader', *arguments]
        done = subprocess.run(command, cwd=room, env=env, capture_output=True, text=True, timeout=900)
        assert done.returncode == 0, done.stderr[-4000:]

    nbgrader('generate_assignment', '--create', lesson)
    released = nbformat.read(room / f'release/{lesson}/{lesson}.ipynb', 4)
    whole = nbformat.read(room / f'source/{lesson}/{lesson}.ipynb', 4)
    code = '\n'.join(cell.source for cell in released.cells if cell.cell_type == 'code')
    assert 'SOLUTION' not in code and 'HIDDEN' not in code and 'NotImplementedError' not in code
    ada, bob = nbformat.from_dict(released), nbformat.from_dict(released)
    for cell, solved in zip(ada.cells, whole.cells):
        if cell.metadata.get('nbgrader', {}).get('solution'):
            cell.source = solved.source
    for cell in bob.cells:
        if cell.metadata.get('nbgrader', {}).get('grade'):
            cell.source = "course.check('5.1a', 1, 1)"
    for student, notebook in dict(ada=ada, bob=bob).items():
        folder = room / f'submitted/{student}/{lesson}'
        folder.mkdir(parents=True)
        nbformat.write(notebook, folder / f'{lesson}.ipynb')
    nbgrader('autograde', '--create', lesson)
    nbgrader('export')
    marks = pd.read_csv(room / 'grades.csv').set_index('student_id')
    assert marks['score'].to_dict() == {'ada': 5, 'bob': 0} and set(marks['max_score']) == {5}
