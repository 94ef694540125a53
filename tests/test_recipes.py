"""The recipes of the README and the guides, run exactly as they stand there."""

import importlib.util, os, re, subprocess, sys
from pathlib import Path

import pytest

from srlviz.core.scores import load_scores

ROOT = Path(__file__).resolve().parents[1]
PAGES = (ROOT / 'README.md', *sorted((ROOT / 'docs/guides').glob('*.md')))
NEEDS = dict(stable_baselines3='stable-baselines3', ray='ray[rllib]')  # the lock does not have RLlib: `make recipes`
LONG = 'stable_baselines3'  # trains an agent and records it


def python_blocks(text: str) -> list[str]:
    "The Python blocks of a page. Blocks without a line between them are cells of one notebook, and make one block"
    return re.findall(r'^```python\n(.*?)^```', text.replace('```\n```python\n', ''), re.M | re.S)


def blocks() -> dict[str, str]:
    "All Python blocks: 'page, position on it' -> code"
    pages = {p.name: python_blocks(p.read_text(encoding='utf-8')) for p in PAGES}
    return {f'{page}, {i}': code for page, found in pages.items() for i, code in enumerate(found, 1)}


def recipes() -> dict[str, str]:
    "Name -> code: the blocks of 'With your own code' by the bold words before them, and the first of three sections"
    found = {}
    for page, section in ('atari', 'Probe your own network'), ('studies', 'Sweeps'), ('own_data', 'Your own data'):
        text = (ROOT / f'docs/guides/{page}.md').read_text(encoding='utf-8')
        text = re.search(rf'^##? {section}.*?\n(.*?)(?=^##? \S|\Z)', text, re.M | re.S)[1]
        found[section] = python_blocks(text)[0]
    text = (ROOT / 'docs/guides/own_code.md').read_text(encoding='utf-8')
    named = re.findall(r'^\*\*(.+?)\*\*(.*?)^```python\n(.*?)^```', text, re.M | re.S)
    return {name: code for name, _, code in named} | found


OTHERS = {name: code for name, code in blocks().items() if code not in recipes().values()}


def run(code: str, folder: Path, timeout: int) -> str:
    "Run a block as a script; return what it printed"
    (folder / 'recipe.py').write_text(code, encoding='utf-8')
    env = os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))}
    done = subprocess.run(
        [sys.executable, 'recipe.py'], cwd=folder, env=env, capture_output=True, text=True, timeout=timeout
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_every_block_is_python():
    found = blocks()
    for page in PAGES:
        fences = page.read_text(encoding='utf-8').count('```python')
        cells = page.read_text(encoding='utf-8').count('```\n```python\n')
        assert sum(name.startswith(f'{page.name}, ') for name in found) == fences - cells, page.name
    assert len(found) - len(OTHERS) == len(recipes())
    for name, code in found.items():
        compile(code, name, 'exec')


def test_there_is_a_recipe_for_each():
    found = recipes()
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
    assert len(found) == len(names) and all(any(n in name for name in found) for n in names)
    for name, code in found.items():
        lines = [line for line in code.splitlines() if line.strip()]
        assert len(lines) <= 10, f"{name}: {len(lines)} lines"


@pytest.mark.parametrize(
    'name', [pytest.param(k, marks=[pytest.mark.slow] if LONG in code else []) for k, code in recipes().items()]
)
def test_a_recipe_runs(name, tmp_path):
    code = recipes()[name]
    needs = {module: pip for module, pip in NEEDS.items() if re.search(rf'^(import|from) {module}\b', code, re.M)}
    if lacks := [pip for module, pip in needs.items() if importlib.util.find_spec(module) is None]:
        pytest.skip(f"pip install '{lacks[0]}', or `make recipes`")
    printed = run(code, tmp_path, timeout=900)
    if 'srlviz.probe(' in code:
        assert re.search(r'^F1 on [\d,]+ frames of ', printed, re.M) and re.search(
            r'^mean( +[01]\.\d+)+', printed, re.M
        ), printed
    elif 'sweep(' in code:
        assert load_scores(tmp_path / 'runs/coins/scores.csv')['value'].tolist() == [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    else:
        assert -1 <= float(printed.split()[-1]) <= 1, printed


@pytest.mark.slow
@pytest.mark.parametrize('name', OTHERS)
def test_every_other_block_runs(name, tmp_path):
    run(OTHERS[name], tmp_path, timeout=3600)
