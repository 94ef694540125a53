"""Parameters of every kind by papermill's own command: -p, -r, -y and -f, as the study then has them.

papermill writes its cell into the notebook (`--prepare-only`); the cells are run here, without a kernel.
"""

import json
from datetime import date
from pathlib import Path

import nbformat, pytest
from click.testing import CliRunner
from nbformat.v4 import new_code_cell, new_notebook
from papermill.cli import papermill

from srlviz.studies.run import run_study, summary, take_parameters

FILE = 'Messung Ä 1/läuf {2}.csv'
HARD = 'a "b" \'c\' \\ {x} \u202e ü\nnext'

# name -> declaration, value, and what is typed after -p, after -r, and after 'x: ' in YAML (None: not by this option)
KINDS = {
    'none': ('int | None = 3', None, 'None', 'None', 'null'),
    'none of a text': ("str | None = 'a'", None, 'None', 'None', '~'),
    'negative': ('int = 3', -4, '-4', '-4', '-4'),
    'negative fraction': ('float = .5', -1e-3, '-1e-3', '-1e-3', '-1e-3'),
    'infinite': ('float = .5', float('inf'), 'inf', 'inf', '.inf'),
    'large': ('int = 3', 100_000, '1e5', '1e5', '1e5'),
    'bool': ('bool = True', False, 'False', 'False', 'no'),
    'names': ("list = ['a']", ['b', 'c d'], 'b,c d', 'b,c d', '[b, c d]'),
    'one name': ("list = ['a']", ['b'], 'b', 'b', '[b]'),
    'names with commas': ("list = ['a']", ['b, c', 'd'], "['b, c', 'd']", '["b, c", "d"]', "['b, c', d]"),
    'empty list': ("list = ['a']", [], '[]', '[]', '[]'),
    'numbers': ('list[int] = [1]', [2, -3], '2,-3', '[2, -3]', '[2, -3]'),
    'one number': ('list[int] = [1]', [2], '2', '2', '[2]'),
    'lists of lists': ('list = []', [[1, -2], [3], []], '[[1, -2], [3], []]', '[[1,-2],[3],[]]', '[[1, -2], [3], []]'),
    'lists of names': ('list[list[str]] = []', [['a'], ['b']], '[["a"], ["b"]]', "[['a'], ['b']]", '[[a], [b]]'),
    'tuple': ('tuple[int, int] = (84, 84)', (64, 32), '64,32', '(64, 32)', '[64, 32]'),
    'dict': ('dict = {}', {'ä b': [1, None]}, '{"ä b": [1, null]}', "{'ä b': [1, None]}", '{ä b: [1, null]}'),
    'date': ("'date' = '2024-01-31'", '2024-02-29', '2024-02-29', '2024-02-29', '2024-02-29'),
    'date without default': ("'date | None' = None", date(2024, 2, 29), '2024-02-29', '2024-02-29', '2024-02-29'),
    'date as text': ("str = ''", '2024-02-29', '2024-02-29', '2024-02-29', '2024-02-29'),
    'time': ("'datetime' = ''", '2024-02-29 10:30:00', *(3 * ['2024-02-29 10:30:00'])),
    'digits': ("str = 'a'", '007', None, '007', "'007'"),
    'text': ("str = 'a'", HARD, HARD, HARD, json.dumps(HARD)),
    'empty text': ("str = 'a'", '', '', '', "''"),
    'file': ("'Path' = ''", FILE, FILE, FILE, f'"{FILE}"'),
    'files': ("list['Path'] = []", [FILE], f"['{FILE}']", f'["{FILE}"]', f'["{FILE}"]'),
    'own code': (
        "list = ['raw']",
        ['raw', 'mine.py:Net'],
        'raw,mine.py:Net',
        'raw,mine.py:Net',
        "[raw, 'mine.py:Net']",
    ),
}
OPTIONS = {'-p': 2, '-r': 3, '-y': 4, '-f': 4}  # option -> where its text stands in a row of KINDS
TYPED = [(kind, option) for kind in KINDS for option, i in OPTIONS.items() if KINDS[kind][i] is not None]


def taken(folder, declaration, *options):
    "The value of x in a study, after papermill's command has set it"
    cells = [new_code_cell(f'x: {declaration}', metadata=dict(tags=['parameters'])), new_code_cell('')]
    kernel = dict(name='python3', language='python', display_name='Python 3')
    nbformat.write(new_notebook(cells=cells, metadata=dict(kernelspec=kernel)), folder / 'study.ipynb')
    command = ['--prepare-only', str(folder / 'study.ipynb'), str(folder / 'done.ipynb'), *options]
    result = CliRunner().invoke(papermill, command, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    sources = [c.source for c in nbformat.read(folder / 'done.ipynb', 4).cells if c.cell_type == 'code']
    assert len(sources) == 3
    variables = dict(date=date, In=['', *sources])
    for source in sources:
        exec(source, variables)
    take_parameters(variables)
    return variables['x']


def typed(folder, option, text):
    "The options of papermill that set x"
    if option in ('-p', '-r'):
        return option, 'x', text
    if option == '-y':
        return option, f'x: {text}'
    (folder / 'größe 1.yaml').write_text(f'x: {text}\n', encoding='utf-8')
    return option, str(folder / 'größe 1.yaml')


@pytest.mark.parametrize('kind, option', TYPED)
def test_a_parameter_arrives_as_it_was_meant(kind, option, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path(FILE).parent.mkdir()
    Path(FILE).touch()
    declaration, value, *_ = KINDS[kind]
    found = taken(tmp_path, declaration, *typed(tmp_path, option, KINDS[kind][OPTIONS[option]]))
    if kind == 'file':
        value = str(tmp_path / FILE)
    if kind == 'files':
        value = [str(tmp_path / FILE)]
    assert found == value and type(found) is type(value)


@pytest.mark.parametrize('options', [('-p', 'x', '007'), ('-y', 'x: 12:30:00'), ('-y', 'x: no')])
def test_a_text_that_papermill_took_for_a_number_is_refused(options, tmp_path):
    "With what to type instead; to guess would make 7 of 007"
    with pytest.raises(ValueError, match='parameter x .*-r x 007.*quotation marks'):
        taken(tmp_path, "str = 'a'", *options)


@pytest.mark.parametrize('kind', KINDS)
def test_srlviz_run_writes_the_same_value(kind, tmp_path, monkeypatch):
    "The cell of `srlviz run`, from what is typed after -p"
    from srlviz.studies.run import _parameters_cell, _parse_parameters

    monkeypatch.chdir(tmp_path)
    declaration, value, plain, raw, _ = KINDS[kind]
    kind, _, default = declaration.partition(' = ')
    declared = dict(x=dict(type=kind.strip("'"), default=eval(default)))
    variables = {}
    exec(
        _parameters_cell(_parse_parameters(dict(x=raw if plain is None else plain), declared, 's', True), declared),
        variables,
    )
    assert variables['x'] == value


@pytest.mark.slow  # a kernel
def test_a_study_runs_in_a_folder_with_such_a_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = Path(FILE).parent
    folder.mkdir()
    Path(FILE).write_text('a')
    read = 'take_parameters(globals())\nprint(Path(data).read_text(), steps)'
    source = f'from pathlib import Path\nfrom srlviz.studies.run import take_parameters\n{read}'
    cells = [
        new_code_cell("data: 'Path' = ''\nsteps: list = []\nout: str = '.'", metadata=dict(tags=['parameters'])),
        new_code_cell(source, metadata=dict(tags=['summary'])),
    ]
    nbformat.write(new_notebook(cells=cells), folder / 'größe 1.ipynb')
    done = run_study(folder / 'größe 1.ipynb', dict(data=FILE, steps='[[1, -2]]'), folder / 'aus {1}', progress=False)
    assert summary(done) == 'a [[1, -2]]'
