"""Parameters of other people's notebooks, as they are typed on the command line, and studies that end themselves."""

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from srlviz.core.scores import score_row
from srlviz.studies.cli import main
from srlviz.studies.run import run_study, study_parameters, summary
from srlviz.studies.sweep import sweep

CELL = """%pwd
from pathlib import Path
path = None  # a=1 is allowed in a help text
lr = 3 * 1e-3
day = 60 * 60 * 24
size = (84, 84)
mixed = ('a', 1)
empty = []
seed = -1
fast = not True
code = '007'
label = 'run ' + str(seed)
file = Path('a.csv')
room: str | None = None
hall: "Path | None" = None
rate: float | None = None
runs = None  # type: list[int]  which runs
options = dict(a=1)
start = size[0]
"""
KEY = dict(tags=['parameters'])


def study(folder, cell=CELL, code='pass', name='own'):
    names = list(study_names(cell))
    shown = new_code_cell(
        f'print({", ".join(f"repr({n})" for n in names)}, sep="\\n")', metadata=dict(tags=['summary'])
    )
    cells = [new_markdown_cell('# Own'), new_code_cell(cell, metadata=KEY), new_code_cell(code), shown]
    nbformat.write(new_notebook(cells=cells), folder / f'{name}.ipynb')
    return folder / f'{name}.ipynb'


def study_names(cell):
    return (line.split('=')[0].split(':')[0].strip() for line in cell.splitlines() if '=' in line)


SET = dict(
    path=('a b/ü.csv', 'a b/ü.csv'),
    lr=('.25', 0.25),
    day=('1e5', 100_000),
    size=('64,64', (64, 64)),
    mixed=('b,2', ('b', 2)),
    empty=('1, b', [1, 'b']),
    seed=('-3', -3),
    fast=('yes', True),
    code=('008', '008'),
    label=('12', 12),
    room=('12', '12'),
    rate=('1_000.5', 1000.5),
    runs=('4,5', [4, 5]),
    options=('{"b": [1, null]}', {'b': [1, None]}),
    start=('-1e-3', -1e-3),
)


def test_values_of_the_command_line_have_the_type_of_the_default(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = study(tmp_path)
    words = [word for name, (text, _) in SET.items() for word in ('-p', name, text)]
    words += ['-p', 'file', 'b.csv', '-p', 'hall', 'c.csv']
    assert main(['run', str(path), *words, '--out', str(tmp_path / 'out')]) == 0, capsys.readouterr().err
    shown = dict(zip(study_names(CELL), summary(tmp_path / 'out' / 'own.ipynb').splitlines(), strict=True))
    expected = {name: repr(value) for name, (_, value) in SET.items() if name != 'label'}
    assert {k: shown[k] for k in expected} == expected
    assert shown['file'] == "PosixPath('b.csv')" and shown['hall'] == "PosixPath('c.csv')" and shown['label'] == "'12'"


def test_none_and_numbers_in_a_text_parameter(tmp_path):
    declared = study_parameters(study(tmp_path))
    assert {k: p['type'] for k, p in declared.items() if k in ('path', 'lr', 'file', 'start', 'label')} == dict(
        path='Any', lr='float', file='Path', start='Any', label='str'
    )
    assert declared['path']['help'] == 'a=1 is allowed in a help text' and declared['runs']['help'] == 'which runs'


@pytest.mark.parametrize(
    'name, text', [('lr', 'fast'), ('size', '64,a'), ('seed', '2.5'), ('fast', 'maybe'), ('rate', 'a'), ('runs', '1,b')]
)
def test_a_value_of_another_type_is_refused_before_anything_runs(tmp_path, name, text):
    with pytest.raises(ValueError, match=f'parameter {name} of study own must be .*{text[-2:]}'):
        run_study(study(tmp_path), {name: text}, tmp_path / 'out', progress=False)
    assert not (tmp_path / 'out').exists()


@pytest.mark.parametrize('default', ['9**9**9', '(' * 90 + '1' + ')' * 90, "'a' * 10**10", '[' * 60, 'x\x00', '1 / 0'])
def test_defaults_that_would_take_long_are_not_computed(tmp_path, default):
    declared = study_parameters(study(tmp_path, f'x = {default}\n'))
    assert all(p['type'] in ('Any', 'int', 'str', 'list') for p in declared.values())


@pytest.mark.parametrize(
    'code', ['raise SystemExit', 'import sys; sys.exit()', 'import sys; sys.exit(0)', 'import sys; sys.exit(1)']
)
def test_a_study_that_ends_itself_has_failed(tmp_path, code, capsys):
    path = study(tmp_path, 'n = 1\n', code)
    assert main(['run', str(path), '--out', str(tmp_path / 'out')]) == 1
    assert 'SystemExit' in capsys.readouterr().err
    assert [p.name for p in (tmp_path / 'out').glob('*.ipynb')] == ['own.failed.ipynb']


@pytest.mark.parametrize('code', ['exit()', 'import os; os._exit(0)', 'import os; os.kill(os.getpid(), 9)'])
def test_a_study_whose_kernel_dies_has_failed(tmp_path, code, capsys):
    path = study(tmp_path, 'n = 1\n', f'{code}\nimport time\ntime.sleep(1)')
    assert main(['run', str(path), '--out', str(tmp_path / 'out')]) == 1
    assert not (tmp_path / 'out' / 'own.ipynb').exists() and 'died' in capsys.readouterr().err


def leaves(n: int = 1):
    if n == 2:
        raise SystemExit
    return [score_row(study='tiny', task='a', method='exact', metric='square', value=n)]


def test_a_trial_that_ends_itself_has_failed(tmp_path):
    found = sweep(leaves, dict(n=[1, 2]), tmp_path / 'out', progress=False)
    runs = pd.DataFrame(found.runs).set_index('n')
    assert runs['status'].to_dict() == {1: 'done', 2: 'failed'} and runs['error'][2] == 'SystemExit'


def corner(size=(84, 84)):
    return [score_row(study='tiny', task='a', method=str(size), metric='square', value=1)]


def test_a_tuple_of_a_trial_stays_a_tuple(tmp_path):
    found = sweep(corner, dict(size=[(64, 64), [32, 32]]), tmp_path / 'out', progress=False)
    assert sorted(found.scores['method']) == ['(32, 32)', '(64, 64)']
