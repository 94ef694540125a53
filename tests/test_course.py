"""The lessons of the course by papermill: solved, and as a student who has answered nothing.

test_papermill.py executes each lesson once, solved, with the seed 0. Another seed, and a student without answers, are
tried for the lessons that the last commits changed, and for all by `make slow`.
"""

import re

import nbformat
import pytest
from support.selection import slow_unless_changed
from support.lab import notebook_of
from support.papermill_runs import PAPERMILL, ROOT, run_measured, user_environment

from srlviz.studies.course import lessons, student_notebook, write_course

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


def test_a_missing_answer_is_an_error_where_solutions_are_expected(lesson, tmp_path):
    code, printed, _ = execute(lesson[1], tmp_path / 'run', 3, SRLVIZ_SOLVED='1')
    assert code != 0 and re.search(r'AssertionError: ○ 1\.1', printed), printed


# ---- the lessons

CASES = slow_unless_changed(LESSONS)


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
