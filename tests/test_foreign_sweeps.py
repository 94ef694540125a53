"""Folders of sweeps and of results that strangers filled: nothing of theirs is run or imported, or written through.

Code of the caller's own still is: a module beside a notebook, `module:Class` on the command line.
"""

import json, os, shutil, threading, time

import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell
from test_foreign_notebooks import write

from srlviz.core.scores import score_row
from srlviz.studies import run
from srlviz.studies.cli import main
from srlviz.studies.run import StudyError, run_study, summary
from srlviz.studies.sweep import sweep
from srlviz.studies.sweeps import report, store
from srlviz.studies.sweeps.commands import status_text

MARK = "open({mark!r}, 'a').write(__name__ + ' ')\n"
PLANTED = 'numpy', 'pandas', 'sitecustomize', 'ipykernel_launcher', 'tqdm', 'json', 'runpy', 'joblib', 'srl_optional'


def square(x: int) -> list[dict]:
    return [score_row(study='tiny', task=f'x{x}', method='exact', metric='square', value=x * x)]


@pytest.fixture
def mark(tmp_path):
    return tmp_path / 'ran.txt'


@pytest.fixture
def swept(tmp_path):
    "A sweep, and what would be overwritten beside it"
    sweep(square, {'x': [1, 2]}, tmp_path / 'out', progress=False)
    (tmp_path / 'precious').mkdir()
    (tmp_path / 'precious' / 'keep').write_text('mine')
    return tmp_path / 'out'


def ends(f, seconds=60):
    "What a function gives or raises; a failure, not a hang, if it does not end"
    told = []

    def work():
        try:
            told.append((f(), None))
        except BaseException as e:
            told.append((None, e))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if not told:
        pytest.fail('it hangs', pytrace=False)
    value, error = told[0]
    if error is not None:
        raise error
    return value


def change(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


# ---- a report


@pytest.mark.parametrize('name', ['shared/evil.ipynb', '{out}/shared/evil.ipynb', 'shared/evil', 'evil'])
def test_a_folder_does_not_say_which_notebook_runs(name, swept, mark, monkeypatch, capsys):
    (swept / 'shared').mkdir()
    write(swept / 'shared' / 'evil.ipynb', new_code_cell(f'open({str(mark)!r}, "w").write("ran")'))
    change(swept / 'sweep.json', lambda about: about.update(study=name.format(out=swept)))
    monkeypatch.chdir(swept)
    assert main(['report', str(swept)]) == 2
    assert capsys.readouterr().err.startswith('srlviz: ') and not mark.exists()


def grid_of(out):
    (path,) = (out / 'grids').iterdir()
    return path


@pytest.mark.parametrize('value', ['srl_evil:X', ['majority', 'srl_evil:X'], {'srl_evil:X': {'a': 1}}, 'os:getcwd'])
def test_a_folder_names_no_code_to_import(value, swept, mark, monkeypatch, capsys):
    "Unless the caller says it"
    (swept / 'srl_evil.py').write_text(MARK.format(mark=str(mark)))
    change(swept / 'sweep.json', lambda about: about.update(study='atari_probe'))
    change(grid_of(swept), lambda grid: [(t[1].clear(), t[1].update(method=value)) for t in grid['trials']])
    asked = []
    monkeypatch.chdir(swept)
    monkeypatch.setattr(report, 'run_study', lambda *given, **how: asked.append(given))
    with pytest.raises(ValueError, match='VALUE'):
        report.report(swept)
    assert not asked
    report.report(swept, parameters=dict(methods='majority,mine:Class'))
    assert asked[0][1]['methods'] == 'majority,mine:Class' and not mark.exists()


@pytest.mark.parametrize('study', ['01', 'landing_dataset', None])
def test_a_folder_names_a_study_that_has_a_trial(study, swept, monkeypatch):
    change(swept / 'sweep.json', lambda about: about.update(study=study))
    monkeypatch.setattr(report, 'run_study', lambda *given, **how: pytest.fail('it runs'))
    with pytest.raises(ValueError, match=study):
        report.report(swept)


@pytest.mark.parametrize('name', ['scores', 'data', 'out', 'n_jobs', 'compute', 'x'])
def test_a_folder_gives_what_a_trial_takes(name, swept, monkeypatch):
    "Not what the notebook of the study takes besides: files to open, processes to start"
    change(swept / 'sweep.json', lambda about: about.update(study='popgym_mmer'))
    change(grid_of(swept), lambda grid: [(t[1].clear(), t[1].update({name: '/etc/passwd'})) for t in grid['trials']])
    monkeypatch.setattr(report, 'run_study', lambda *given, **how: pytest.fail('it runs'))
    with pytest.raises(ValueError, match=f"'{name}'.*popgym_mmer"):
        report.report(swept)


def test_a_report_makes_no_flights(tmp_path):
    "Nothing is computed that is not there"
    with pytest.raises(StudyError, match='compute'):
        run_study('landing_benchmark', dict(compute=False), tmp_path / 'out', progress=False)
    assert not (tmp_path / 'out' / 'flights').exists()


def test_a_study_does_not_write_through_a_link(tmp_path):
    "Its pictures and tables, too"
    (tmp_path / 'keep').write_text('mine')
    (out := tmp_path / 'out').mkdir()
    (out / 'tasks.png').symlink_to(tmp_path / 'keep')
    some = dict(tasks=['RepeatFirst'], episodes=2, oracle_episodes=2, fps_seconds=0)
    run_study('popgym_tasks', some, out, progress=False)
    assert (tmp_path / 'keep').read_text() == 'mine' and not (out / 'tasks.png').is_symlink()


# ---- where kernels find modules

CODE = """
import json, os
from srlviz.core.jobs.workers import pool

def found(name):
    try:
        return str(__import__(name).__file__)
    except ImportError:
        return ''

modules = {name: found(name) for name in ['numpy', 'pandas', 'json', 'srl_optional', 'srl_beside']}
with pool(2) as p:
    there = list(p.map(found, ['numpy', 'srl_optional', 'srl_beside']))
import numba
numba.njit(lambda x: x + 1)(1)
settings = [numba.core.config.CACHE_DIR, numba.core.config.CACHE_LOCATOR_CLASSES]
print(json.dumps(dict(modules=modules, workers=there, folder=os.getcwd(), settings=settings)))
"""


@pytest.fixture(scope='module')
def ran(tmp_path_factory):
    "A notebook with a module beside it, run into a folder that a stranger has filled"
    place = tmp_path_factory.mktemp('kernel')
    mine, out, here = place / 'mine', place / 'out', place / 'here'
    for folder in mine, out, here:
        folder.mkdir()
    theirs = MARK.format(mark=str(place / 'ran.txt'))
    for name in *PLANTED, 'srl_beside':
        (out / f'{name}.py').write_text(theirs)
    (out / '.numba_config.yaml').write_text(f'cache_dir: {out}\ncache_locator_classes: srl_optional.Locator\n')
    for name in 'numpy', 'srl_beside':
        (mine / f'{name}.py').write_text('')
    cell = new_code_cell(CODE, metadata=dict(tags=['summary']))
    write(mine / 'study.ipynb', new_markdown_cell('# Mine'), cell)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv('PYTHONPATH', os.pathsep.join(['', '.', os.environ.get('PYTHONPATH', '')]))
        patch.delenv('NUMBA_CACHE_DIR', raising=False)
        folders, write_ = [], run.Progress.write
        patch.setattr(run.Progress, 'write', lambda show, text: folders.append(os.getcwd()) or write_(show, text))
        done = run_study(mine / 'study.ipynb', out=out)
    return place, json.loads(summary(done)), folders


def test_nothing_is_imported_from_the_folder_of_results(ran):
    "Neither by the kernel, nor by the processes that it starts, nor before the first cell"
    place, said, _ = ran
    assert said['folder'] == str(place / 'out')
    assert not (place / 'ran.txt').exists(), (place / 'ran.txt').read_text()
    assert said['modules']['srl_optional'] == said['workers'][1] == ''
    assert 'site-packages' in said['modules']['numpy'] and 'site-packages' in said['workers'][0]


def test_numba_is_not_configured_by_the_folder_of_results(ran):
    "Its caches are code"
    assert ran[1]['settings'] == ['', '']


def test_a_module_beside_the_callers_notebook_is_found_last(ran):
    place, said, _ = ran
    assert said['modules']['srl_beside'] == said['workers'][2] == str(place / 'mine' / 'srl_beside.py')
    assert 'site-packages' in said['modules']['numpy']


def test_who_runs_a_study_stays_in_its_folder(ran):
    "What it imports meanwhile is not that of the results either"
    place, _, folders = ran
    assert folders and set(folders) == {str(place / 'here')}


# ---- a sweep that goes on


def runs_on(out):
    return ends(lambda: sweep(square, {'x': [1, 2, 3]}, out, progress=False))


@pytest.mark.parametrize('part', ['trials', 'grids', 'trials/KEY', 'trials/KEY/claim.json', 'grids/NAME'])
@pytest.mark.parametrize('dangling', [False, True])
def test_a_sweep_writes_through_no_link(part, dangling, swept, tmp_path):
    (key,) = {
        p.name
        for p in (swept / 'trials').iterdir()
        if json.loads((p / 'result.json').read_text())['parameters'] == {'x': 1}
    }
    path = swept / part.replace('KEY', key).replace('NAME', grid_of(swept).name)
    if path.is_dir():
        (shutil.rmtree if part == 'trials/KEY' else lambda p: p.rename(tmp_path / 'away'))(path)
    else:
        path.unlink(missing_ok=True)
        (path.parent / 'result.json').unlink(missing_ok=True)
    path.symlink_to(tmp_path / ('nowhere' if dangling else 'precious'))
    with pytest.raises(ValueError, match='symbolic link|no regular file') as e:
        if part == 'grids/NAME':
            ends(lambda: sweep(square, {'x': [1, 2]}, swept, progress=False))
        else:
            runs_on(swept)
    assert path.name in str(e.value)
    assert [p.name for p in (tmp_path / 'precious').iterdir()] == ['keep'] and not (tmp_path / 'nowhere').exists()


def open_trial(out):
    "The place of a trial that has not run"
    done = {p.name for p in (out / 'trials').iterdir()}
    sweep(square, {'x': [3]}, out, progress=False)
    (place,) = (p for p in (out / 'trials').iterdir() if p.name not in done)
    (place / 'result.json').unlink()
    return place


@pytest.mark.skipif(not hasattr(os, 'mkfifo'), reason='this system has no named pipes')
def test_a_pipe_as_claim_is_not_waited_for(swept):
    os.mkfifo(claim := open_trial(swept) / 'claim.json')
    with pytest.raises(ValueError, match='claim.json'):
        runs_on(swept)
    assert claim.exists()


@pytest.mark.parametrize('text', ['', '{', '[]', '[' * 50_000, '{"host": 1, "pid": "x"}', '\xff'])
def test_a_damaged_claim_grows_old(text, swept):
    claim = open_trial(swept) / 'claim.json'
    claim.write_bytes(text.encode('latin-1'))
    os.utime(claim, (time.time() - 2 * store.CLAIM_TIMEOUT,) * 2)
    assert len(runs_on(swept).scores) == 3 and not claim.exists()


def test_a_claim_of_the_future_grows_old(swept, monkeypatch):
    "As all claims of before are where the clock was set back"
    monkeypatch.setattr(store, 'CLAIM_TIMEOUT', 1.0)
    claim = open_trial(swept) / 'claim.json'
    claim.write_text(json.dumps(dict(host='another', pid=1, sweep='theirs', started=1.0)))
    os.utime(claim, (time.time() + 10**6,) * 2)
    assert not store.is_void(claim)  # perhaps somebody is at it
    assert len(runs_on(swept).scores) == 3 and not claim.exists()


def test_status_names_no_more_trials_than_it_shows(tmp_path, monkeypatch):
    with pytest.raises(StudyError):
        sweep(fails, {'x': [*range(15)]}, tmp_path / 'out', progress=False)
    named = []
    monkeypatch.setattr('srlviz.studies.sweep.trial_name', lambda runs, row: named.append(row['key']) or 'a trial')
    text = status_text(tmp_path / 'out')
    assert '... and 5 more failed' in text and len(named) == 10  # each looks at all trials: of 100,000 it took hours


def fails(x: int) -> list[dict]:
    raise ValueError('too bad')


def test_code_is_found_however_deep_a_parameter_is_nested(tmp_path):
    deep = 'srl_evil:X'
    for _ in range(900):
        deep = {'a': deep}
    with pytest.raises(ValueError, match='srl_evil:X'):
        report._check_imports(tmp_path, dict(method=deep))
