"""What `make test` runs of a long list of cases; the rest is marked slow and runs in `make slow`."""

import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HOURS = 3  # on the main branch, before its newest commit: the work of one session


def git(*arguments: str) -> list[str]:
    "Lines that git prints; none where there is no git, or no such commit"
    try:
        done = subprocess.run(['git', *arguments], cwd=ROOT, capture_output=True, text=True)
    except FileNotFoundError:
        return []
    return done.stdout.splitlines() if done.returncode == 0 else []


def base_commit() -> str:
    "The commit that a branch starts from; on the main branch itself the last one that is older by HOURS; '' if unknown"
    head, base = git('rev-parse', 'HEAD'), git('merge-base', 'HEAD', 'origin/main')
    if base and base != head:
        return base[0]
    newest = git('log', '-1', '--format=%ct')
    if not newest:
        return ''
    return ''.join(git('rev-list', '-1', f'--before={int(newest[0]) - HOURS * 3600}', 'HEAD'))


@cache
def changed_notebooks() -> frozenset[Path]:
    "Notebooks that differ from `base_commit`, committed or not; none in a copy without history"
    base = base_commit()
    if not base:
        return frozenset()
    names = git('diff', '--name-only', '--diff-filter=d', base, '--', 'nbs')
    names += git('ls-files', '--others', '--exclude-standard', '--', 'nbs')
    return frozenset(ROOT / name for name in names if name.endswith('.ipynb'))


def slow_unless_changed(paths: dict[str, Path]) -> list:
    "Parameters for a test of each notebook, name -> path: slow but for those that the last commits changed"
    changed = changed_notebooks()
    return [pytest.param(name, marks=() if path in changed else pytest.mark.slow) for name, path in paths.items()]


def slow_except(quick, cases) -> list:
    "Parameters for a test of each case: slow but for the quick ones"
    missing = set(quick) - set(cases)
    assert not missing, f'no such case: {missing}'
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def one_of_each(family, cases) -> list:
    "Parameters for a test of each case: slow but for the first case of each family; `family` gives a case's family"
    first = {}
    for case in cases:
        first.setdefault(family(case), case)
    return slow_except(set(first.values()), cases)
