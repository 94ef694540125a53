"""Grade a class: what students hand in by accident, and what one of them could try."""

import json, os, socket, sys, tempfile
from pathlib import Path, PurePath

import nbformat
import pandas as pd
import pytest
from nbformat.v4 import new_code_cell, new_notebook

from srlviz.studies import grade as page
from srlviz.studies.course import check, lessons, student_notebook
from srlviz.studies.grade import NOT_ISOLATED, Answers, grade, grade_answers, marks_text, read_answers, read_lesson
from srlviz.studies.grade import read_submissions, student_of
from srlviz.studies.notebooks import read_notebook
from srlviz.studies.sandbox import Cells, can_isolate, check_hidden

LESSON = {
    'imports': 'from srlviz import course\n\nbase = 3',
    'answer-1': 'total = None\n### BEGIN SOLUTION\ntotal = base + 4\n### END SOLUTION',
    'check-1': "course.check('1.1', total, lambda: base + 4)",
    'answer-2': 'def double(x):\n    ### BEGIN SOLUTION\n    return 2 * x\n    ### END SOLUTION',
    'check-2': "course.check('1.2', double, lambda f: f(base) == 6)",
}
TOTAL, DOUBLE = 'total = base + 4', 'def double(x):\n    return x + x'
FORGED = """
import builtins, os, numpy as np
total = 1
base = -3
np.allclose = np.abs = course.check = builtins.all = lambda *arguments, **options: True
course.score = lambda: 'all right'
course._CHECKED['1.1'] = course.Checked('1.1', 'right', '')
print('1.1,right')
for file in range(3, 40):
    try:
        os.write(file, b'{"checked": [["1.1", "right", ""]], "error": "", "too_slow": false, "put_back": []}\\n')
    except OSError:
        pass
for folder in FOLDERS:
    try:
        for name in os.listdir(folder):
            open(f'{folder}/{name}', 'w').write('mine')
        open(f'{folder}/new', 'w').write('mine')
    except OSError:
        pass
"""


def write(path, **sources):
    "Write a notebook; the names of its cells have _ for -"
    cells = [new_code_cell(source, id=name.replace('_', '-')) for name, source in sources.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(new_notebook(cells=cells), path)


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    "A class that has handed in, and its marks"
    folder = tmp_path_factory.mktemp('class')
    write(folder / 'course/01_toy.ipynb', **LESSON)
    submitted = folder / 'submitted'
    write(submitted / 'Ann_11_assignsubmission_file_/01_toy.ipynb', answer_1=TOTAL, answer_2=DOUBLE)
    write(submitted / 'ben/01_toy.ipynb', answer_1='total = (', answer_2=DOUBLE)
    write(submitted / 'cleo_01_toy.ipynb', answer_1='while True: pass', answer_2=DOUBLE)
    write(submitted / 'dan_7_8_01_toy.ipynb', answer_1=TOTAL, answer_2=DOUBLE)
    write(submitted / 'dan_7_9_01_toy-1.ipynb', answer_1='import os\nos._exit(3)', answer_2=DOUBLE)
    write(submitted / 'my final.ipynb', answer_1=TOTAL, answer_2=DOUBLE)
    # only where it is cut off: a test must not write anywhere
    folders = [str(submitted), str(folder), str(folder / 'marks_graded')] if can_isolate() else []
    write(submitted / 'zoe/a.ipynb', answer_1=f'FOLDERS = {folders}' + FORGED, answer_2=DOUBLE)
    grade_class(folder)
    return folder


def grade_class(folder, **options) -> pd.DataFrame:
    return grade(folder / 'submitted', folder / 'marks.csv', course=folder / 'course', seconds=2, **options)


@pytest.fixture
def marks(folder):
    return pd.read_csv(folder / 'marks.csv', keep_default_na=False).set_index('student')


def test_nothing_right_is_lost(marks):
    assert marks.index.tolist() == ['Ann', 'ben', 'cleo', 'dan', 'my final', 'zoe']
    assert marks['1.1'].tolist() == ['right', 'error', 'too slow', 'error', 'right', 'wrong']
    assert marks['1.2'].tolist() == ['right'] * 6
    reasons = ['', '1.1: line 1: SyntaxError: ', '1.1: more than 2 s', '1.1: the kernel died (exit status 3)', '']
    for reason, given in zip(reasons, marks['reasons']):
        assert given.startswith(reason) and bool(given) == bool(reason)


def test_a_resubmission_replaces(marks):
    older = 'dan_7_8_01_toy.ipynb, which was changed at the same time'
    assert marks.loc['dan', 'notes'] == f'dan_7_9_01_toy-1.ipynb replaces {older}'
    assert marks.loc['dan', 'files'] == 'dan_7_9_01_toy-1.ipynb'


def test_a_forged_result_is_seen(marks):
    for name in 'builtins.all', 'numpy.allclose', 'numpy.abs':
        assert name in marks.loc['zoe', 'notes']


@pytest.mark.skipif(not can_isolate(), reason='no namespaces here')
def test_an_isolated_answer_writes_nowhere(folder, marks):
    assert set(marks['process']) == {'isolated'}
    assert sorted(path.name for path in folder.iterdir()) == ['course', 'marks.csv', 'marks_graded', 'submitted']
    for path in folder.rglob('*'):
        assert path.name != 'new' and (path.is_dir() or path.read_bytes() != b'mine')


def test_the_same_command_resumes(folder, marks, monkeypatch):
    def never(*arguments, **options):
        raise AssertionError('a process was started')

    monkeypatch.setattr(page, 'Cells', never)
    lines = []
    again = grade_class(folder, progress=lines.append).set_index('student')
    assert any('students in' in line and '6 (Ann, ben' in line for line in lines)
    assert any('will be replaced' in line for line in lines) and all('(kept)' in line for line in lines[-6:])
    assert again[['1.1', '1.2', 'reasons', 'notes']].equals(marks[['1.1', '1.2', 'reasons', 'notes']])
    assert '. unanswered' in marks_text(again.reset_index())
    with pytest.raises(AssertionError, match='started'):
        grade_class(folder, memory=3)  # other limits are another result


def test_forged_files_do_no_harm(tmp_path):
    "Notebooks that no student writes; none is answered, so nothing runs"
    write(tmp_path / 'course/01_toy.ipynb', **LESSON)
    handed_out = student_notebook(read_notebook(tmp_path / 'course/01_toy.ipynb'))
    submitted = tmp_path / 'submitted'
    (submitted / '=1+1').mkdir(parents=True)
    nbformat.write(handed_out, submitted / '=1+1/a.ipynb')
    nbformat.write(handed_out, submitted / '..x\n\x1b[2J.ipynb')
    nbformat.write(handed_out, tmp_path / 'other.ipynb')
    os.symlink(tmp_path / 'other.ipynb', submitted / 'link.ipynb')
    os.symlink(tmp_path, submitted / 'links')
    (submitted / 'no.ipynb').write_text('{')
    (submitted / 'homework.zip').write_bytes(b'PK')
    (submitted / 'folder.ipynb').mkdir()
    os.mkfifo(submitted / 'pipe.ipynb')
    with open(submitted / 'large.ipynb', 'wb') as f:
        f.truncate(2**31)
    write(submitted / 'others.ipynb', answer_9='total = 7')
    twice = new_notebook(cells=[new_code_cell('total = None\n# your code', id='answer-1')])
    twice['cells'] *= 2
    (submitted / 'twice.ipynb').write_text(json.dumps(twice))
    found = grade(submitted, tmp_path / 'marks.csv', course=tmp_path / 'course').set_index('student')
    notes = found['notes'].to_dict()
    for student, words in {
        'link': 'is a link',
        'links': 'is a link',
        'no': 'damaged',
        'homework': 'no notebook: homework.zip',
        'folder': 'no notebook: folder.ipynb (empty)',
        'pipe': 'not a regular file',
        'large': 'more than',
        'others': 'no answer cell',
        'twice': 'stands twice',
    }.items():
        assert words in notes.pop(student), student
    assert notes == {'=1+1': '', '..x\\n': ''}
    assert set(found['1.1']) == {'', 'unanswered'} and (found['right'] == 0).all()
    assert "\n'=1+1," in (tmp_path / 'marks.csv').read_text()  # no formula


# ---- what is read, and from whom; nothing runs


@pytest.fixture
def known(tmp_path):
    return {'01_toy': toy(tmp_path / 'course'), '02_toy': toy_2(tmp_path / 'course')}


def read(tmp_path, known):
    "The students of a class by name"
    return {student.name: student for student in read_submissions(tmp_path / 'in', known)}


def test_a_student_without_a_notebook_has_a_row(tmp_path, known):
    write(tmp_path / 'in/ann/01_toy.ipynb', answer_1=TOTAL)
    for place in 'ann/data.csv', 'ben/work.pdf', 'ben/work.py', 'cleo/homework.zip', 'dan_7_8_01_toy.html':
        (tmp_path / 'in' / place).parent.mkdir(exist_ok=True)
        (tmp_path / 'in' / place).touch()
    (tmp_path / 'in/eve').mkdir()
    notes = {name: student.notes for name, student in read(tmp_path, known).items()}
    assert notes == {
        'ann': [],
        'ben': ['no notebook: work.pdf, work.py'],
        'cleo': ['no notebook: homework.zip'],
        'dan': ['no notebook: dan_7_8_01_toy.html'],
        'eve': ['no notebook: eve (empty)'],
    }


def test_the_folder_of_a_lesson_is_not_a_student(tmp_path, known):
    write(tmp_path / 'in/lesson 1/Ann/01_toy.ipynb', answer_1=TOTAL)
    write(tmp_path / 'in/lesson 1/Ben/01_toy.ipynb', answer_1=TOTAL)
    with pytest.raises(ValueError, match='01_toy in several folders: Ann, Ben.* grade .*lesson 1'):
        read(tmp_path, known)
    assert sorted(student.name for student in read_submissions(tmp_path / 'in/lesson 1', known)) == ['Ann', 'Ben']
    with pytest.raises(NotADirectoryError, match='unpack it first'):
        read_submissions(tmp_path / 'course/01_toy.ipynb', known)


def test_two_assignments_of_moodle_are_one_student_and_namesakes_are_two(tmp_path, known):
    write(tmp_path / 'in/Ann_11_assignsubmission_file_/a.ipynb', answer_1=TOTAL)
    write(tmp_path / 'in/Ann_12_assignsubmission_file_/a.ipynb', answer_3=TOTAL)
    write(tmp_path / 'in/Ben_13_assignsubmission_file_/a.ipynb', answer_1=TOTAL)
    write(tmp_path / 'in/Ben_14_assignsubmission_file_/a.ipynb', answer_1=TOTAL)
    found = read(tmp_path, known)
    assert [*found] == ['Ann', 'Ben (13)', 'Ben (14)']
    assert [*found['Ann'].handed_in] == ['01_toy', '02_toy'] and 'one student: 11, 12' in found['Ann'].notes[0]


@pytest.mark.parametrize('seconds, last', [(0, 'v10.ipynb'), (100, 'v2 (1).ipynb'), (200, 'v2.ipynb')])
def test_the_time_decides_which_notebook_counts_and_else_the_name(tmp_path, known, seconds, last):
    for i, (name, answers) in enumerate({'v2 (1)': {'answer_2': DOUBLE}, 'v2': {}, 'v10': {}}.items()):
        path = tmp_path / f'in/ann/{name}.ipynb'
        write(path, answer_1=TOTAL, **answers)
        os.utime(path, (1000, 1000))
    os.utime(tmp_path / 'in/ann' / last, (1000 + seconds, 1000 + seconds))
    (ann,) = read(tmp_path, known).values()
    assert ann.graded_notebook('01_toy').place == PurePath('ann', last)
    words = 'is older' if seconds else 'was changed at the same time'
    more = f'ann/{last} replaces ann/v2 (1).ipynb, which {words} and had more answers'
    assert (more in ann.notes) == (last != 'v2 (1).ipynb') and len(ann.notes) == 2


def test_equal_long_answers_are_noted(tmp_path, known):
    for name, source in {'ann': DOUBLE, 'ben': DOUBLE, 'cleo': DOUBLE + ' + 0'}.items():
        write(tmp_path / f'in/{name}.ipynb', answer_1=TOTAL, answer_2=source + '\n    #' + 400 * '=')
    write(tmp_path / 'in/dan.ipynb', answer_1=TOTAL, answer_2=DOUBLE)
    write(tmp_path / 'in/eve.ipynb', answer_1=TOTAL, answer_2=DOUBLE)
    notes = {name: student.notes for name, student in read(tmp_path, known).items() if student.notes}
    assert notes == {'ann': ['01_toy: the same answers as ben'], 'ben': ['01_toy: the same answers as ann']}


def test_a_notebook_that_may_not_be_read_is_noted_in_words(tmp_path, known, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, 'Permission denied', '/x')

    write(tmp_path / 'in/ann/a.ipynb', answer_1=TOTAL)
    monkeypatch.setattr(page, 'read_answers', refuse)
    assert read(tmp_path, known)['ann'].notes == ['ann/a.ipynb cannot be read: permission denied']


HANDED_OUT = {name.replace('-', '_'): source for name, source in LESSON.items()}


def test_what_a_student_changed_in_a_given_cell_is_noted(tmp_path, known):
    imports = LESSON['imports'] + '\nfrom math import sqrt'
    write(tmp_path / 'a.ipynb', **HANDED_OUT | {'imports': imports, 'answer_1': TOTAL, 'answer_2': DOUBLE})
    found = read_answers(tmp_path / 'a.ipynb', known)
    assert found.notes == ('changes in given cells, which were left out: "from srlviz import course"',)
    handed_out = student_notebook(read_notebook(tmp_path / 'course/01_toy.ipynb'))
    nbformat.write(handed_out, tmp_path / 'b.ipynb')
    assert read_answers(tmp_path / 'b.ipynb', known) == Answers('01_toy', {})
    found = read_answers(tmp_path / 'course/01_toy.ipynb', known)
    assert found.notes == ("the instructor's solution, with its markers: 1.1, 1.2",)


def test_an_answer_that_was_pasted_again_is_known_by_its_place(tmp_path, known):
    cells = HANDED_OUT | {'answer_1': TOTAL, 'answer_2': DOUBLE}
    pasted = {'pasted' if name == 'answer_1' else name: source for name, source in cells.items()}
    write(tmp_path / 'a.ipynb', **pasted)
    found = read_answers(tmp_path / 'a.ipynb', known)
    assert found.sources == {'answer-1': (TOTAL,), 'answer-2': (DOUBLE,)} and found.missing == ()
    assert found.notes == ('recognised by place, because the id of the cell is another: the answer to 1.1',)
    write(tmp_path / 'b.ipynb', **{'imports': LESSON['imports'], 'more': 'x = 1'} | pasted)  # which of two is it?
    found = read_answers(tmp_path / 'b.ipynb', known)
    assert found.missing == ('answer-1',) and 'left out' in found.notes[0]


@pytest.mark.parametrize('name', [*lessons()])
def test_a_lesson_without_ids_is_known_by_its_texts(tmp_path, name):
    known = {name: read_lesson(path) for name, path in lessons().items()}
    solved = student_notebook(read_notebook(lessons()[name]))
    sources = {step.id: (f'{step.source}\n# mine',) for step in known[name].steps if step.kind == 'answer'}
    for cell in solved.cells:
        if cell.id in sources:
            cell.source = sources[cell.id][0]
    content = json.loads(nbformat.writes(solved))
    for cell in content['cells']:
        del cell['id']
    (tmp_path / 'a.ipynb').write_text(json.dumps(content | {'nbformat_minor': 0}))
    found = read_answers(tmp_path / 'a.ipynb', known)
    assert (found.lesson, found.sources, found.missing) == (name, sources, ())
    assert found.notes[0] == 'its cells have lost their ids, and were recognised by text and place'


# ----


def toy_2(folder):
    "A second lesson, with the ids answer-3, ..."
    later = {'answer-1': 'answer-3', 'check-1': 'check-3', 'answer-2': 'answer-4', 'check-2': 'check-4'}
    cells = {later.get(name, 'imports-2'): source.replace("'1.", "'2.") for name, source in LESSON.items()}
    write(folder / '02_toy.ipynb', **cells)
    return read_lesson(folder / '02_toy.ipynb')


def toy(folder):
    "The lesson, read"
    write(folder / '01_toy.ipynb', **LESSON)
    return read_lesson(folder / '01_toy.ipynb')


@pytest.mark.parametrize('out', ['submitted/marks.csv', 'submitted/ann/marks.csv', 'all.csv'])
def test_a_submission_brings_no_marks(tmp_path, out):
    "Marks that are kept among the submissions could be a student's own"
    write(tmp_path / 'course/01_toy.ipynb', **LESSON)
    submitted = tmp_path / ('all_graded/submitted' if out == 'all.csv' else 'submitted')
    write(submitted / 'ann/01_toy.ipynb', answer_1=TOTAL)
    with pytest.raises(ValueError, match='not apart from the submissions'):
        grade(submitted, tmp_path / out, course=tmp_path / 'course')
    assert not list(tmp_path.rglob('*.csv')) and not list(tmp_path.rglob('*.json'))


def test_what_is_hidden(tmp_path):
    (tmp_path / 'a/b').mkdir(parents=True)
    (tmp_path / 'table.csv').touch()
    outside = check_hidden([tmp_path / 'a/b', tmp_path / 'a', tmp_path / 'table.csv', tmp_path / 'no'])
    beside = {str(tmp_path / 'a'), str(tmp_path / 'table.csv')}
    assert beside <= set(outside) or '/tmp' in outside  # which hides both
    assert str(tmp_path / 'a/b') not in outside and str(tmp_path / 'no') not in outside
    with pytest.raises(ValueError, match='cannot be hidden .* Python needs'):
        check_hidden([Path(sys.prefix).parent])


def test_the_name_of_a_file_is_nobody_else():
    known = ['01_toy']
    assert student_of(PurePath('mallory_5_77_x/dan_7_99_01_toy-9.ipynb'), known) == ('mallory', '5')
    assert student_of(PurePath('mallory/dan_7_99_01_toy-9.ipynb'), known) == ('mallory', '')
    ann = 'Ann_11_assignsubmission_file_'
    assert student_of(PurePath(f'mallory_5_assignsubmission_file_/{ann}/01_toy.ipynb'), known) == ('mallory', '5')
    assert student_of(PurePath(f'mallory/{ann}01_toy.ipynb'), known) == ('mallory', '')


@pytest.mark.skipif(not can_isolate(), reason='no namespaces here')
def test_the_machine_is_out_of_reach(tmp_path):
    "Sockets, settings of the machine, files beside the folder; also for an administrator"
    (tmp_path / 'numba').mkdir()
    (tmp_path / 'numba/code').write_text('compiled')
    (tmp_path / 'table.csv').write_text('secret')
    with (
        tempfile.TemporaryDirectory(prefix='srlviz-', dir='/tmp') as temporary,
        tempfile.TemporaryDirectory(prefix='.srlviz-', dir=os.path.expanduser('~')) as at_home,
        socket.socket(socket.AF_UNIX) as in_temporary,
        socket.socket(socket.AF_UNIX) as in_home,
    ):
        places = f'{temporary}/socket', f'{at_home}/socket'
        for listening, place in zip((in_temporary, in_home), places):
            listening.bind(place)
            listening.listen()
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(place)  # from here it can
        hidden = [tmp_path / 'table.csv', tmp_path / 'numba']
        with Cells(1, isolated=True, hidden=hidden, machine_code=tmp_path / 'numba', checks=False) as cells:
            for place in places:
                connect = f'import socket\nsocket.socket(socket.AF_UNIX).connect({place!r})'
                assert 'Error' in cells.run('answer', connect, 20).error
            assert 'Error' in cells.run('answer', f'open({str(tmp_path / "table.csv")!r}).read(1)[0]', 20).error
            for path in '/proc/sys/kernel/core_pattern', '/proc/sysrq-trigger', f'{temporary}/new', '/tmp/new':
                assert 'Error' in cells.run('answer', f"open({path!r}, 'w')", 20).error, path
            assert cells.run('lesson', "assert open('numba/code').read() == 'compiled'", 20).error == ''
            rights = "text = open('/proc/self/status').read()\n"
            rights += "assert 'NoNewPrivs:\\t1' in text and text.count('0' * 16) >= 5, text"
            assert cells.run('lesson', rights, 20).error == ''
            again = "import subprocess\nassert subprocess.run(['unshare', '-U', 'true'], stderr=-3).returncode"
            assert cells.run('lesson', again, 20).error == ''
            free = "import os\nassert os.statvfs('.').f_blocks * os.statvfs('.').f_frsize == 2**28"
            assert cells.run('lesson', free, 20).error == ''


FORGERIES = {
    "import inspect; inspect.isgenerator = lambda verdict: True": 'inspect.isgenerator',
    """get_ipython().input_transformers_post.append(lambda lines: ["course.check('1', 1, 1)"])""": '',
    "get_ipython().events.register('post_execute', lambda: course.check('1', 1, 1))": '',
}


def test_hooks_of_the_shell_forge_nothing():
    with Cells(4) as cells:
        cells.run('lesson', 'from srlviz import course', 60)
        imports = cells.run('answer', 'import numba, torch, torch.fx', 90)
        assert imports.put_back == ()  # which would look like cheating
        for forgery, put_back in FORGERIES.items():
            cells.run('placeholder', 'double = None', 20)
            ran = cells.run('answer', f'double = lambda x: x\n{forgery}', 20)
            assert ran.error == '' and ran.put_back == ((put_back,) if put_back else ())
            ran = cells.run('check', "course.check('1', double, lambda f: 'yes' if f(3) == 6 else '')", 20)
            assert (ran.error, ran.checked) == ('', (('1', 'not yet', ''),)), forgery
        assert cells.run('answer', 'double = lambda x: x + x', 20).error == ''
        ran = cells.run('check', "course.check('1', double, lambda f: 'yes' if f(3) == 6 else '')", 20)
        assert ran.checked == (('1', 'right', ''),)


def test_an_answer_does_not_check_itself(tmp_path):
    "A second result of an exercise, and one before an error that ends the check"
    twice = "def double(x):\n    course.check('1.2', 1, 1)\n    return 0"
    ended = "class Total:\n    def __array__(self, *_, **__):\n        course.check('1.1', 1, 1)\n        "
    ended += 'raise KeyboardInterrupt\n\n\ntotal = Total()'
    answers = Answers('01_toy', {'answer-1': (ended,), 'answer-2': (twice,)})
    result = grade_answers(toy(tmp_path), answers, 60, lambda: Cells(1))
    assert [mark.state for mark in result['marks'].values()] == ['error', 'error']
    assert 'KeyboardInterrupt' in result['marks']['1.1'].reason
    assert result['notes'] == ['1.2 was checked more than once, also by code of an answer']


def test_a_wrong_answer_without_a_reason_is_in_the_table(tmp_path):
    with Cells(1) as cells:
        cells.run('lesson', 'from srlviz import course', 60)
        cells.run('answer', "word = 'ball_x'", 20)
        ran = cells.run('check', "course.check('1', word, 'ball_y', hint='which one?')", 20)
    assert ran.checked == (('1', 'not yet', "answered 'ball_x'"),)


def test_no_error_of_an_answer_leaves_its_check():
    def answer(x):
        raise GeneratorExit

    assert check('1', answer, lambda function: function(3) == 6).state == 'not yet'


def test_one_limit_for_an_answer_and_for_a_submission(tmp_path, monkeypatch):
    endless = 'while True:\n    pass'
    monkeypatch.setattr(page, '_MAX_TIMES', 1)
    grading = page._Grading(toy(tmp_path), Answers('01_toy', {'answer-1': (endless,) * 9, 'answer-2': (DOUBLE,)}), 1)
    with Cells(1) as cells:
        assert grading.run(cells)
    assert grading.marks['1.1'] == page.Mark('too slow', 'more than 1 s')
    assert grading.marks['1.2'] == page.Mark('too slow', 'the submission took more than 1 s')
    assert grading.used < 6


def test_the_table_is_bounded_and_has_no_formula(tmp_path, monkeypatch):
    write(tmp_path / 'course/01_toy.ipynb', **LESSON)
    (tmp_path / 'submitted/ann;=1+1').mkdir(parents=True)
    for i in range(200):
        (tmp_path / f'submitted/ann;=1+1/{i}.ipynb').write_text('{')
    monkeypatch.setattr(page, 'can_isolate', lambda: False)
    lines = []
    table = grade(tmp_path / 'submitted', tmp_path / 'marks.csv', course=tmp_path / 'course', progress=lines.append)
    assert lines[0] == NOT_ISOLATED  # before anything runs
    assert lines[2].startswith('no notebook has an answer')
    assert table['student'][0] == 'ann;=1+1' and len(table['notes'][0]) <= 2000
    assert "ann;'=1+1" in (tmp_path / 'marks.csv').read_text()
    with pytest.raises(ValueError, match='at least 0.25 GB'):
        grade(tmp_path / 'submitted', memory=0.1)


def test_a_lesson_that_is_not_right_here_grades_nobody(tmp_path):
    write(tmp_path / 'course/01_toy.ipynb', **LESSON | {'answer-1': LESSON['answer-1'].replace('+ 4', '+ 5')})
    write(tmp_path / 'submitted/ann.ipynb', answer_1=TOTAL)
    with pytest.raises(ValueError, match='nothing was graded: the solution of 1.1'):
        grade_class(tmp_path)
    assert not (tmp_path / 'marks.csv').exists()


@pytest.mark.slow
@pytest.mark.skipif(not can_isolate(), reason='no namespaces here')
def test_bombs_are_bounded(tmp_path):
    write(tmp_path / 'course/01_toy.ipynb', **LESSON)
    forks = 'import os\nwhile True:\n    os.fork()'
    hog = 'x = []\nwhile True:\n    x.append(bytearray(10**7))'
    child = "x = b'x' * 400_000_000\n        time.sleep(60)"
    family = f'import os, time\nfor _ in range(8):\n    if not os.fork():\n        {child}\ntime.sleep(60)'
    for name, source in {'forks': forks, 'hog': hog, 'family': family}.items():
        write(tmp_path / f'submitted/{name}.ipynb', answer_1=source, answer_2=DOUBLE)
    marks = grade(tmp_path / 'submitted', course=tmp_path / 'course', seconds=60, memory=1)
    assert marks['1.1'].tolist() == ['error'] * 3 and marks['1.2'].tolist() == ['right'] * 3
    assert all('1 GB of memory' in text or 'processes' in text or 'MemoryError' in text for text in marks['reasons'])


@pytest.mark.slow
def test_a_real_lesson(tmp_path):
    "Lesson 1, solved and with an answer that never ends"
    path = lessons()['01_truth']
    solved = read_notebook(path)
    answers = [cell for cell in solved.cells if '### BEGIN SOLUTION' in cell.source]
    answers[0].source += '\n'
    (tmp_path / 'submitted').mkdir()
    nbformat.write(solved, tmp_path / 'submitted/ann.ipynb')
    answers[1].source = 'def entropy(values):\n    while True:\n        pass'
    nbformat.write(solved, tmp_path / 'submitted/ben.ipynb')
    marks = grade(tmp_path / 'submitted', seconds=60).set_index('student')
    exercises = ['1.1', '1.1b', '1.2', '1.3']
    assert marks.loc['ann', exercises].tolist() == ['right'] * 4
    assert marks.loc['ben', exercises].tolist() == ['right', 'too slow', 'right', 'right']
