"""The lessons of the course by papermill: solved, and as a student who has answered nothing.

test_papermill.py executes each lesson once, solved, with the seed 0. Another seed, and a student without answers, are
tried for the first lesson, and for all by `make slow` and by `make test NOTEBOOKS=09_factors`.
"""

import ast, re

import nbformat
import pytest
from IPython.core.interactiveshell import InteractiveShell
from support.lab import notebook_of
from support.papermill_runs import PAPERMILL, ROOT, run_measured, user_environment
from support.selection import slow_except

from srlviz.studies.course import checked_exercises, lessons, student_notebook, write_course

LESSONS = lessons(ROOT / 'nbs/course')
MARKS = dict(zip('✓✗○', ('right', 'not yet', 'not answered')))


def execute(path, folder, seed: int, **environment):
    "Run a notebook by papermill's command; return its status, what papermill printed, and the executed notebook"
    folder.mkdir(exist_ok=True)
    command = [*PAPERMILL, str(path), 'done.ipynb', '-p', 'seed', str(seed)]
    printed = folder.with_suffix('.txt')
    usage = run_measured(command, printed, cwd=folder, env=user_environment(**environment))
    return usage['code'], printed.read_text(errors='replace'), nbformat.read(folder / 'done.ipynb', 4)


def checks(notebook) -> dict[str, str]:
    "The exercises of an executed notebook and their states, as they are shown below the cells"
    found = {}
    for cell in notebook.cells:
        for output in cell.get('outputs', []):
            text = output.get('data', {}).get('text/plain', '') or output.get('text', '')
            for mark, name in re.findall(r'^([✓✗○]) (\d+\.\d\w?):', text, re.MULTILINE):
                found[name] = MARKS[mark]
    return found


@pytest.fixture(scope='module')
def students(tmp_path_factory):
    return write_course(tmp_path_factory.mktemp('students') / 'handed_out')


def test_the_course_is_whole():
    assert [name[:2] for name in LESSONS] == [f'{n:02}' for n in range(1, 11)]
    for name, path in LESSONS.items():
        source = '\n'.join(cell.source for cell in nbformat.read(path, 4).cells if cell.cell_type == 'code')
        exercises = set(re.findall(r"course\.check\(\s*'(\d+\.\d)", source))
        assert exercises >= {f'{int(name[:2])}.{k}' for k in (1, 2, 3)}, name
        assert source.count('### BEGIN SOLUTION') >= 3, name
    page = (ROOT / 'docs/instructor.md').read_text(encoding='utf-8')
    assert len(re.findall(r'^\| \d+ .*\| \d+ \|', page, re.MULTILINE)) == len(LESSONS)  # each has its CPU seconds
    counts = [sum(len(checked_exercises(cell.source)) for cell in nbformat.read(p, 4).cells) for p in LESSONS.values()]
    assert f'have {", ".join(map(str, counts[:-1]))} and {counts[-1]} exercises' in page


def test_links_between_the_students_notebooks_hold(students):
    for path in students['01_truth'].parents[1].rglob('*.ipynb'):
        for cell in nbformat.read(path, 4).cells:
            for link in re.findall(r'\]\(([\w./-]+\.ipynb)', cell.source if cell.cell_type == 'markdown' else ''):
                assert (path.parent / link).exists(), (path, link)


@pytest.mark.parametrize('name', LESSONS)
def test_solutions_are_right(name, papermill):
    states = checks(papermill(f'course/{name}').notebook)
    assert len(states) >= 3 and set(states.values()) == {'right'}


# ---- the rule, on a lesson of three cells


@pytest.fixture
def lesson(tmp_path):
    "A lesson of three cells with its solution, and as it is for students: paths"
    exercise = 'answer = None\n### BEGIN SOLUTION\nanswer = seed + 2\n### END SOLUTION'
    check = "from srlviz import course\ncourse.check('1.1', answer, lambda: seed + 2)"
    notebook = notebook_of(exercise, check)
    notebook.cells[0].source = 'seed = 0'
    nbformat.write(notebook, tmp_path / 'solved.ipynb')
    nbformat.write(student_notebook(notebook), tmp_path / 'student.ipynb')
    return tmp_path / 'solved.ipynb', tmp_path / 'student.ipynb'


def test_a_solution_is_right(lesson, tmp_path):
    code, printed, done = execute(lesson[0], tmp_path / 'run', 3, SRLVIZ_SOLVED='1')
    assert code == 0, printed
    assert checks(done) == {'1.1': 'right'}


def test_a_missing_answer_stops_nothing(lesson, tmp_path):
    code, printed, done = execute(lesson[1], tmp_path / 'run', 3, SRLVIZ_SOLVED='')
    assert code == 0, printed
    assert checks(done) == {'1.1': 'not answered'}


FAULTS = {  # the student's cell, and a part of what its check says
    'answer = lambda n: n + 1': 'n = 0: 1, expected 0',
    'def answer(n):\n    if n == 0:\n        return 0\n    return n.double()': (
        "n = 0: right. n = 1: AttributeError: 'int' object has no attribute 'double', in line 4 of your cell: "
        'return n.double()'
    ),
    'def answer(n):\n    2 * n': 'n = 0: got None: is a `return` missing?',
    'answer = lambda n: float("nan")': 'n = 0: nan, expected 0',
    'answer = lambda n: [2 * n]': 'n = 0: expected the shape (), got (1,)',
}


@pytest.mark.parametrize('code', FAULTS)
def test_a_check_says_which_case_is_wrong_and_where(code, monkeypatch):
    "In a shell as that of a kernel, where a cell is no file"
    monkeypatch.setenv('SRLVIZ_SOLVED', '')
    monkeypatch.setattr('srlviz.studies.course._CHECKED', {})  # leaves no exercise to other tests of this process
    shell = InteractiveShell()
    condition = """
def doubles(f):
    for n in 0, 1:
        yield f'n = {n}'
        course.same(f(n), 2 * n)
"""
    shell.run_cell('from srlviz import course').raise_error()
    shell.run_cell(code).raise_error()
    checked = shell.run_cell(f"{condition}\ncourse.check('1.1', answer, doubles, hint='twice <1>')").result
    assert repr(checked) == f'✗ 1.1: not yet. {FAULTS[code]}. Hint: twice <1>'.replace('?.', '?')
    html = checked._repr_html_()
    assert '✗ not yet</span>' in html and '<details><summary>Hint</summary>twice &lt;1&gt;</details>' in html


def test_students_see_no_check_and_no_hint(students):
    "A check is collapsed in the notebooks of students, and no cell that they read has its hint"
    for path in students.values():
        cells = [c for c in nbformat.read(path, 4).cells if c.cell_type == 'code']
        hidden = [c for c in cells if c.metadata.get('jupyter', {}).get('source_hidden')]
        assert len(hidden) >= 3 and all(c.source.startswith('# The check of') for c in hidden), path.name
        assert not any('hint' in c.source or 'course.check' in c.source for c in cells if c not in hidden), path.name


def test_a_cell_with_a_check_shows_its_result_alone():
    "So nothing below an exercise gives its answer away before there is one"
    for path in LESSONS.values():
        for cell in nbformat.read(path, 4).cells:
            if cell.cell_type == 'code' and 'course.check(' in cell.source:
                shown = [ast.unparse(part) for part in ast.parse(cell.source).body if isinstance(part, ast.Expr)]
                assert len(shown) == 1 and shown[0].startswith(('course.check(', 'checked')), cell.source


def test_a_missing_answer_is_an_error_where_solutions_are_expected(lesson, tmp_path):
    code, printed, _ = execute(lesson[1], tmp_path / 'run', 3, SRLVIZ_SOLVED='1')
    assert code != 0 and re.search(r'AssertionError: ○ 1\.1', printed), printed


# ---- the lessons

CASES = slow_except(['01_truth'], LESSONS)


@pytest.mark.parametrize('name', CASES)
def test_solutions_hold_with_another_seed(name, tmp_path):
    code, printed, done = execute(LESSONS[name], tmp_path / 'solved', 1, SRLVIZ_SOLVED='1')
    assert code == 0, printed[-4000:]
    assert len(checks(done)) >= 3 and set(checks(done).values()) == {'right'}


@pytest.mark.parametrize('name', CASES)
def test_a_student_who_has_answered_nothing_reaches_the_end(name, students, tmp_path):
    code, printed, done = execute(students[name], tmp_path / 'student', 0)
    assert code == 0, printed[-4000:]
    states = checks(done)
    assert len(states) >= 3 and 'right' not in states.values(), states


@pytest.mark.parametrize('name', CASES)
def test_no_answer_is_an_error_where_solutions_are_expected(name, students, tmp_path):
    code, printed, done = execute(students[name], tmp_path / 'unsolved', 0, SRLVIZ_SOLVED='1')
    assert code != 0 and re.search(r'AssertionError: [✗○] \d+\.\d', printed), printed[-4000:]
