"""The recipes of the README and the guides, run exactly as they stand there."""

import importlib.util, os, re, subprocess, sys
from pathlib import Path

import pytest

from srlviz.core.scores import load_scores

ROOT = Path(__file__).resolve().parents[1]
NEEDS = dict(stable_baselines3='stable-baselines3', ray='ray[rllib]')  # the lock does not have RLlib: `make recipes`
LONG = 'stable_baselines3'  # trains an agent and records it


def recipes() -> dict[str, str]:
    "Name -> code: the blocks of 'With your own code' by the bold words before them, and the first of other sections"
    sections = {}
    for path in (ROOT / 'README.md', *(ROOT / 'docs/guides').glob('*.md')):
        sections |= dict(re.findall(r'^##? (.+?)\n(.*?)(?=^##? \S|\Z)', path.read_text(), re.M | re.S))
    named = re.findall(r'^\*\*(.+?)\*\*(.*?)^```python\n(.*?)^```', sections['With your own code'], re.M | re.S)
    found = {name: code for name, _, code in named}
    for section in 'Probe your own network', 'Sweeps', 'Your own data':
        found[section] = re.search(r'^```python\n(.*?)^```', sections[section], re.M | re.S)[1]
    return found


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
        compile(code, name, 'exec')


@pytest.mark.parametrize(
    'name', [pytest.param(k, marks=[pytest.mark.slow] if LONG in code else []) for k, code in recipes().items()]
)
def test_a_recipe_runs(name, tmp_path):
    code = recipes()[name]
    needs = {module: pip for module, pip in NEEDS.items() if re.search(rf'^(import|from) {module}\b', code, re.M)}
    if lacks := [pip for module, pip in needs.items() if importlib.util.find_spec(module) is None]:
        pytest.skip(f"pip install '{lacks[0]}', or `make recipes`")
    (tmp_path / 'recipe.py').write_text(code)
    env = os.environ | {'PYTHONPATH': os.pathsep.join(filter(None, [str(ROOT), os.environ.get('PYTHONPATH')]))}
    done = subprocess.run(
        [sys.executable, 'recipe.py'], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=900
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed = done.stdout
    if 'srlviz.probe(' in code:
        assert re.search(r'^F1 on [\d,]+ frames of ', printed, re.M) and re.search(
            r'^mean( +[01]\.\d+)+', printed, re.M
        ), printed
    elif 'sweep(' in code:
        assert load_scores(tmp_path / 'runs/coins/scores.csv')['value'].tolist() == [0.5, 0.5, 0.25, 0.25, 0.125, 0.125]
    else:
        assert -1 <= float(printed.split()[-1]) <= 1, printed
