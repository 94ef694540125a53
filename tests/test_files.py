"""Test what others find in files of the kit: printed names, whole folders, tables for spreadsheets, grades."""

import errno, importlib.util, re, shutil, signal, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest, torch

import srlviz
from srlviz import Factor, Recording
from srlviz.core.files import atomic_folder, atomic_path
from srlviz.core.names import unknown
from srlviz.core.saving import save_encoder
from srlviz.core.scores import load_scores, save_scores, score_row
from srlviz.core.views.steps import Steps
from srlviz.encoders.baselines import RandomCNN
from srlviz.studies.course import write_course
from srlviz.studies.matrix import results
from srlviz.studies.matrix.results import Matrix, load_matrix, save_matrix, shipped_matrix

HOSTILE = '\x1b[31mred\u202e'  # colours a terminal, and reverses text


def walks(factor='y', column='x', n=12):
    "Episodes of a random walk whose factor is its place"
    rng = np.random.default_rng(0)
    episodes = [rng.normal(size=(40, 1)).cumsum(0).astype(np.float32) for _ in range(n)]
    rows = [dict(episode=i, column=x[0], factor=float(x[0] > 0)) for i, e in enumerate(episodes) for x in e]
    table = pd.DataFrame(rows).rename(columns=dict(column=column, factor=factor))
    return Recording.from_table(table, episode='episode', factors=[factor])


# ---- names


def test_names_of_others_reach_no_terminal():
    recording = walks(HOSTILE, HOSTILE + '\u2028x')
    named = Recording([*recording], HOSTILE, factors=[Factor(HOSTILE, group=HOSTILE, label='red')])
    printed = [named, named[0].replace(name=HOSTILE), unknown('factor', 'x', [HOSTILE])]
    for text in map(repr, printed):
        assert 'red' in text and text.replace('\n', '').isprintable(), ascii(text)


# ---- folders


def test_a_folder_of_encoders_is_not_opened_as_agents(tmp_path):
    frames = srlviz.sample('pong')
    save_encoder(RandomCNN(n_codes=4).fit(frames), tmp_path / 'random_cnn.safetensors')
    for door in srlviz.load, srlviz.explore:
        with pytest.raises(ValueError, match=re.escape(str(tmp_path))):
            door(tmp_path)
    (tmp_path / 'a_gru.safetensors').write_bytes(b'no agent')
    with pytest.warns(UserWarning, match='a_gru'), pytest.raises(ValueError, match='no agent that can be read'):
        srlviz.load(tmp_path)


WRITER = '''
import os, signal, sys
import srlviz.core.files as files
from srlviz.studies.course import write_course
count = [0]
def stop(event, arguments):
    if event in ('open', 'os.rename', 'os.mkdir', 'os.rmdir', 'shutil.copyfile') and 'handed_out' in str(arguments[0]):
        count[0] += 1
        if count[0] == int(sys.argv[2]):
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(stop)
write_course(sys.argv[1] + '/handed_out')
'''


@pytest.mark.skipif(sys.platform == 'win32', reason='it has no SIGKILL')
@pytest.mark.parametrize('moment', [1, 4, 20, pytest.param(60, marks=pytest.mark.slow)])
def test_a_course_whose_writer_was_killed_is_absent_and_is_then_written(moment, tmp_path):
    writer = subprocess.run([sys.executable, '-c', WRITER, tmp_path, str(moment)], capture_output=True)
    assert writer.returncode == -signal.SIGKILL, writer.stderr
    assert not (tmp_path / 'handed_out').exists()
    write_course(tmp_path / 'handed_out')
    assert [p.name for p in tmp_path.iterdir()] == ['handed_out']
    assert {p.name for p in (tmp_path / 'handed_out').iterdir()} == {'course', 'tutorials', 'studies', 'solutions'}


def test_a_living_writer_of_the_same_folder_is_left_alone(tmp_path):
    with atomic_folder(tmp_path / 'a') as first:
        (first / 'x').write_text('1')
        with pytest.raises(ZeroDivisionError), atomic_folder(tmp_path / 'a'):
            1 / 0
        assert (first / 'x').exists()
    assert [p.name for p in tmp_path.iterdir()] == ['a']


# ---- matrices


def test_a_matrix_whose_two_files_are_of_different_times_is_refused(tmp_path):
    row = score_row(study='cross', task='pong', method='a', metric='f1', value=0.5, target='mean', group='probe')
    for place, value in ('old', 0.5), ('new', 0.25):
        table = pd.DataFrame([row | dict(value=value)])
        save_matrix(Matrix(table, {}), tmp_path / place, dict(epochs=1))
    assert load_matrix(tmp_path / 'old.csv').scores['value'].tolist() == [0.5]
    shutil.copy(tmp_path / 'new.csv', tmp_path / 'old.csv')  # as a writer leaves them that is killed in between
    with pytest.raises(ValueError, match='old.json and old.csv were not saved together'):
        load_matrix(tmp_path / 'old.csv')


# ---- spreadsheets


@pytest.mark.parametrize('name', ['=1+1', '@SUM(A1)', '+x', '-x'])
def test_exported_tables_have_no_formulas(name, tmp_path):
    path = Steps(np.zeros(2, int), np.arange(2)).to_csv(tmp_path / "steps.csv", walks(name))
    cells = pd.read_csv(path, header=None, dtype=str, keep_default_na=False).to_numpy().ravel()
    assert not [c for c in cells if re.match('[=@]|[+-](?![0-9.])', c)] and f"'{name}" in cells


def test_scores_of_names_like_formulas_are_loaded_as_they_were(tmp_path):
    rows = [score_row(study='mine', task=name, method=name, metric='f1', value=0.5) for name in ('=1', "'=1", '-x')]
    table = pd.DataFrame(rows)
    path = save_scores(table, tmp_path / 'scores.csv')
    assert "'=1" in path.read_text() and ',=1' not in path.read_text()
    pd.testing.assert_frame_equal(load_scores(path), table)


# ---- probes


def test_a_loaded_probe_of_ones_own_network_is_saved_again(tmp_path):
    recording = walks().with_split(probe=0.5, valid=0.25, test=0.25)
    own = srlviz.probe(torch.nn.Linear(1, 3), recording, norms=['none'], baselines=(), progress=False)
    loaded = srlviz.load(own.save(tmp_path / 'a'))
    again = srlviz.load(loaded.save(tmp_path / 'b'))
    for name, codes in loaded.codes.items():
        np.testing.assert_array_equal(np.vstack(again.codes[name]), np.vstack(codes))


# ---- grades


@pytest.fixture
def begin(monkeypatch):
    "Import the module of exercises anew, as the kernel of a student does, with a file for the scores"

    def begin(scores: Path):
        monkeypatch.setenv('SRLVIZ_SCORES', str(scores))
        spec = importlib.util.find_spec('srlviz.studies.course')
        course = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(course)
        return course

    return begin


def answer(course):
    course.check('1.1', 3, 3)
    course.check('1.2', None, 3)


def test_grades_are_those_of_the_last_submission(begin, tmp_path):
    scores = tmp_path / 'scores' / 'one.csv'
    answer(begin(scores))
    assert pd.read_csv(scores)['state'].tolist() == ['right', 'not answered']
    begin(scores)  # and stops before its first check
    assert pd.read_csv(scores).empty


def test_grades_replace_a_link_and_do_not_follow_it(begin, tmp_path):
    (tmp_path / 'other.csv').write_text('of somebody else')
    (tmp_path / 'one.csv').symlink_to(tmp_path / 'other.csv')
    answer(begin(tmp_path / 'one.csv'))
    assert (tmp_path / 'other.csv').read_text() == 'of somebody else'
    assert pd.read_csv(tmp_path / 'one.csv')['state'].tolist() == ['right', 'not answered']


def test_grades_that_cannot_be_written_stop_no_notebook(begin, tmp_path):
    (tmp_path / 'file').touch()
    with pytest.warns(UserWarning, match='were not written'):
        answer(begin(tmp_path / 'file' / 'one.csv'))


@pytest.mark.parametrize('within', [float('nan'), -1.0, float('inf')])
def test_a_check_within_no_distance_is_refused(within):
    with pytest.raises(ValueError, match='within must be a number of at least 0'):
        srlviz.course.check('1.1', 3.0, 4.0, within=within)


def test_temporary_files_of_killed_writers_are_removed_by_the_next_and_those_of_living_ones_are_kept(tmp_path):
    path = tmp_path / 'scores.csv'
    path.write_text('before')
    others = [tmp_path / name for name in ('.notes.0123abcd.csv', '.scores.csv.0123abcd.txt', '.scores.csv.today.csv')]
    for other in others:
        other.write_text('of somebody else')
    killed = (
        'import os, sys\nfrom srlviz.core.files import atomic_path\nwith atomic_path(sys.argv[1]):\n    os._exit(9)'
    )
    assert subprocess.run([sys.executable, '-c', killed, str(path)]).returncode == 9
    (left,) = {*tmp_path.iterdir()} - {path, *others}
    with atomic_path(path) as living:
        assert not left.exists() and living.exists()
        with atomic_path(path) as second:
            second.write_text('second')
        assert living.exists() and path.read_text() == 'second'
        living.write_text('first')
    assert path.read_text() == 'first' and {*tmp_path.iterdir()} == {path, *others}


def test_writers_of_one_file_at_the_same_time_do_not_stop_each_other(tmp_path):
    def write(i):
        for _ in range(200):
            with atomic_path(tmp_path / 'scores.csv') as part:
                part.write_text(str(i) * 100)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    (left,) = tmp_path.iterdir()
    assert left.read_text() in {str(i) * 100 for i in range(4)}


def test_a_matrix_on_a_full_disk_keeps_both_files_of_the_earlier_one(tmp_path, monkeypatch):
    matrix = shipped_matrix()
    save_matrix(matrix, tmp_path / 'm.csv', {})

    def full(*_):
        raise OSError(errno.ENOSPC, 'No space left on device')

    with monkeypatch.context() as patched:
        patched.setattr(results, 'write_json', full)
        with pytest.raises(OSError, match='its previous content is unchanged'):
            save_matrix(replace(matrix, scores=matrix.scores[:9]), tmp_path / 'm.csv', {})
    assert len(load_matrix(tmp_path / 'm.csv').scores) == len(matrix.scores)
    assert {p.name for p in tmp_path.iterdir()} == {'m.csv', 'm.json'}
