"""Test what others find in files of the kit: printed names, whole folders, tables for spreadsheets, grades."""

import errno, re, shutil, signal, subprocess, sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest, torch

import srlviz
from srlviz import Factor, Recording
from srlviz.core import saved_results
from srlviz.core.files import atomic_folder, atomic_path
from srlviz.core.names import unknown
from srlviz.core.saving import save_encoder
from srlviz.core.results import results_of
from srlviz.core.results_0_2 import load_card, load_matrix, load_probe
from srlviz.core.results import load_results
from srlviz.core.scores import load_scores, save_scores, score_row
from srlviz.core.views.steps import Steps
from srlviz.encoders.baselines import RandomCNN
from srlviz.studies.course import write_course

SAVED_BY_0_2_0 = Path(__file__).parent / 'support' / 'results_0_2_0'
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


# ---- results


def one_score(value: float = 0.5):
    "Results of one score"
    row = score_row(study='cross', task='pong', method='a', metric='f1', value=value, target='mean', group='probe')
    return results_of(pd.DataFrame([row]))


def test_results_whose_two_files_are_of_different_times_are_refused(tmp_path):
    for place, value in ('old', 0.5), ('new', 0.25):
        one_score(value).save(tmp_path / place)
    assert load_results(tmp_path / 'old').scores['value'].tolist() == [0.5]
    shutil.copy(tmp_path / 'new' / 'scores.csv', tmp_path / 'old' / 'scores.csv')
    with pytest.raises(ValueError, match='scores.csv was not saved together with results.json'):
        load_results(tmp_path / 'old')


def test_a_matrix_whose_two_files_are_of_different_times_is_refused(tmp_path):
    for name in 'matrix.csv', 'matrix.json':
        shutil.copy(SAVED_BY_0_2_0 / name, tmp_path / name)
    path = tmp_path / 'matrix.csv'
    assert load_matrix(path).scores['value'].tolist() == [0.9, 0.4]
    path.write_text(path.read_text().replace(',0.9', ',0.8'))
    with pytest.raises(ValueError, match='matrix.json and matrix.csv were not saved together'):
        load_matrix(path)


def test_a_card_that_0_2_0_saved_is_loaded_with_its_values():
    card = load_card(SAVED_BY_0_2_0 / 'card.json')
    assert card.own == ['lamp'] and card.methods == ['lamp', 'constant', 'raw'] and card.tasks == ['room']
    table = card.table('room')
    assert (
        table.loc['selectivity', 'lamp'] == '.33 (.33 to .33)' and table.loc['selectivity', 'raw'] == '.84 (.82 to .86)'
    )
    assert table.loc['selectivity', '− raw'] == '−.50 (−.52 to −.48)' and table.loc['rank', 'raw'] == '2.85'
    assert card.targets('skill')['lamp'].round(2).tolist() == [1, 0, 0, 0.33]  # lamp, door, fan, their mean
    assert [*card.reasons] == [(name, 'room', 'belief') for name in ('lamp', 'constant', 'raw')]
    assert {*card.worst()['factor']} <= {'door', 'fan'} and len(card.worst())
    assert card.about['versions']['srlviz'] == '0.2.0' and {*card.scores['inputs']} == {'vector'}
    assert '1,800 test rows of 18 episodes, 3 factors, seed 0' in repr(card)


def test_a_probe_that_0_2_0_saved_is_loaded_with_its_values():
    probe = load_probe(SAVED_BY_0_2_0 / 'probe')
    f1, r2 = probe.targets('f1'), probe.targets('r2_linear')
    assert f1.loc['side'].round(2).to_dict() == {'all': 0.95, 'all · standardized': 0.96, 'majority': 0.37}
    assert r2.loc['height'].round(2).to_dict() == {'all': 1, 'majority': 0} and probe.references == ('majority',)
    assert probe.labelled('f1')['all'].value('f1') == pytest.approx(0.94993006993007)
    assert len(probe.codes['all']) == len(probe.recording) == 20 and probe.codes['all'][0].shape[1] == 3
    assert [*probe.encoders] == ['majority'] and {*probe.worst('all')['factor']} == {'side'}


def test_a_probe_of_the_first_0_2_0_is_loaded_though_its_answers_have_no_table_of_values():
    probe = load_probe(SAVED_BY_0_2_0 / 'first/probe')
    f1 = probe.targets('f1').loc['side'].round(6).to_dict()
    assert f1 == {'both': 0.957955, 'both · standardized': 0.873866, 'majority': 0.429825}


def test_a_matrix_that_0_2_0_saved_is_loaded_with_its_values():
    matrix = load_matrix(SAVED_BY_0_2_0 / 'matrix.csv')
    assert matrix.targets('f1').loc['mean'].to_dict() == dict(raw=0.9, constant=0.4)
    assert matrix.reasons == {('raw', 'room', 'mig'): 'one code'} and matrix.about == dict(epochs=2)


@pytest.mark.parametrize('name', ['card.json', 'matrix.json', 'probe', 'first/probe'])
def test_results_that_0_2_0_saved_are_equal_when_they_are_saved_again(name, tmp_path):
    old = srlviz.load(SAVED_BY_0_2_0 / name)
    new = srlviz.load(old.save(tmp_path / 'new'))
    pd.testing.assert_frame_equal(new.scores, old.scores)
    pd.testing.assert_frame_equal(new.intervals(), old.intervals())
    pd.testing.assert_frame_equal(new.moments(), old.moments())
    for part in 'questions', 'reasons', 'warnings', 'references', 'baseline', 'left_out', 'notes', 'about':
        assert getattr(new, part) == getattr(old, part), part
    assert {*new.answers} == {*old.answers} and {*new.fitted} == {*old.fitted} and repr(new) == repr(old)
    for key, answer in old.answers.items():
        pd.testing.assert_frame_equal(new.answers[key].value_table(), answer.value_table())
    for key, codes in old.codes.items():
        np.testing.assert_array_equal(np.vstack(new.codes[key]), np.vstack(codes))
    for key, recording in old.recordings.items():
        assert new.recordings[key].fingerprint() == recording.fingerprint()


def test_results_on_a_full_disk_leave_no_folder(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, 'No space left on device')

    with monkeypatch.context() as patched:
        patched.setattr(saved_results, 'write_json', full)
        with pytest.raises(OSError, match='results'):
            one_score().save(tmp_path / 'results')
    assert not [*tmp_path.iterdir()]
    assert len(load_results(one_score().save(tmp_path / 'results')).scores) == 1


def test_codes_of_whole_numbers_are_saved(tmp_path):
    recording = walks().with_split(probe=0.5, valid=0.25, test=0.25)
    codes = [np.arange(len(episode))[:, None] % 5 for episode in recording]
    results = srlviz.ask({'steps': codes}, recording, ['rank'], progress=False)
    loaded = load_results(results.save(tmp_path / 'results'))
    np.testing.assert_array_equal(np.vstack(loaded.codes['steps']), np.vstack(codes))


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
