"""Untrusted folders of sweeps and results: no code in them runs or is imported, and no link in them is written through.

The caller's own code still runs: a module beside a notebook, `module:Class` on the command line.
"""

import json, os, shutil, sys, threading, time

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

MARKER_CODE = "open({marker!r}, 'a').write(__name__ + ' ')\n"
PLANTED = 'numpy', 'pandas', 'sitecustomize', 'ipykernel_launcher', 'tqdm', 'json', 'runpy', 'joblib', 'srl_optional'


def square(x: int) -> list[dict]:
    return [score_row(study='tiny', task=f'x{x}', method='exact', metric='square', value=x * x)]


@pytest.fixture
def marker(tmp_path):
    "The file that planted code writes"
    return tmp_path / 'ran.txt'


@pytest.fixture
def swept(tmp_path):
    "The folder of a sweep; beside it is a file that must not change"
    sweep(square, {'x': [1, 2]}, tmp_path / 'out', progress=False)
    (tmp_path / 'precious').mkdir()
    (tmp_path / 'precious' / 'keep').write_text('mine')
    return tmp_path / 'out'


def call_with_timeout(function, seconds=60):
    "Call a function; fail, and do not hang, if it does not return"
    outcomes = []

    def work():
        try:
            outcomes.append((function(), None))
        except BaseException as e:
            outcomes.append((None, e))

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)
    if not outcomes:
        pytest.fail('it hangs', pytrace=False)
    value, error = outcomes[0]
    if error is not None:
        raise error
    return value


def edit_json(path, edit):
    content = json.loads(path.read_text())
    edit(content)
    path.write_text(json.dumps(content))


# ---- a report


@pytest.mark.parametrize('name', ['shared/evil.ipynb', '{out}/shared/evil.ipynb', 'shared/evil', 'evil'])
def test_a_folder_cannot_choose_the_notebook_of_its_report(name, swept, marker, monkeypatch, capsys):
    (swept / 'shared').mkdir()
    write(swept / 'shared' / 'evil.ipynb', new_code_cell(f'open({str(marker)!r}, "w").write("ran")'))
    edit_json(swept / 'sweep.json', lambda info: info.update(study=name.format(out=swept)))
    monkeypatch.chdir(swept)
    assert main(['report', str(swept)]) == 2
    assert capsys.readouterr().err.startswith('srlviz: ') and not marker.exists()


def grid_of(out):
    (path,) = (out / 'grids').iterdir()
    return path


@pytest.mark.parametrize('value', ['srl_evil:X', ['majority', 'srl_evil:X'], {'srl_evil:X': {'a': 1}}, 'os:getcwd'])
def test_a_folder_cannot_name_code_to_import(value, swept, marker, monkeypatch, capsys):
    "Only the caller can"
    (swept / 'srl_evil.py').write_text(MARKER_CODE.format(marker=str(marker)))
    edit_json(swept / 'sweep.json', lambda info: info.update(study='atari_probe'))
    edit_json(grid_of(swept), lambda grid: [(t[1].clear(), t[1].update(method=value)) for t in grid['trials']])
    calls = []
    monkeypatch.chdir(swept)
    monkeypatch.setattr(report, 'run_study', lambda *args, **options: calls.append(args))
    with pytest.raises(ValueError, match='VALUE'):
        report.report(swept)
    assert not calls
    report.report(swept, parameters=dict(methods='majority,mine:Class'))
    assert calls[0][1]['methods'] == 'majority,mine:Class' and not marker.exists()


@pytest.mark.parametrize('options', [[], ['--dry-run']])
@pytest.mark.parametrize('place', ['file', 'text'])
def test_the_file_of_a_grid_cannot_name_code_to_import(place, options, tmp_path, marker, monkeypatch, capsys):
    "Only the command line can"
    own = f'srl_{place}_{len(options)}.py'  # the name of a module stands for one file in a process
    (tmp_path / own).write_text(MARKER_CODE.format(marker=str(marker)))
    text = json.dumps(dict(world=['RepeatPrevious-easy'], representation=[f'{own}:Net'], n=[4]))
    (tmp_path / 'theirs.json').write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, 'path', [*sys.path])
    grid = 'theirs.json' if place == 'file' else text
    assert main(['sweep', 'cross_evaluation', '--grid', grid, '--out', 'out', *options]) == 2
    assert marker.exists() == (place == 'text')  # Net is not there, so that the sweep ends before its first trial
    if place == 'file':
        assert f"'{own}:Net', which may name code to import" in capsys.readouterr().err


@pytest.mark.parametrize('study', ['01', 'landing_dataset', None])
def test_a_study_without_trials_is_refused(study, swept, monkeypatch):
    edit_json(swept / 'sweep.json', lambda info: info.update(study=study))
    monkeypatch.setattr(report, 'run_study', lambda *args, **options: pytest.fail('it runs'))
    with pytest.raises(ValueError, match=study):
        report.report(swept)


@pytest.mark.parametrize('name', ['scores', 'data', 'out', 'n_jobs', 'compute', 'x'])
def test_a_folder_can_set_only_the_parameters_of_a_trial(name, swept, monkeypatch):
    "The notebook of the study has others: files to open, processes to start"
    edit_json(swept / 'sweep.json', lambda info: info.update(study='popgym_mmer'))
    edit_json(grid_of(swept), lambda grid: [(t[1].clear(), t[1].update({name: '/etc/passwd'})) for t in grid['trials']])
    monkeypatch.setattr(report, 'run_study', lambda *args, **options: pytest.fail('it runs'))
    with pytest.raises(ValueError, match=f"'{name}'.*popgym_mmer"):
        report.report(swept)


def test_a_report_records_no_flights(tmp_path):
    "With `compute=False` nothing missing is computed"
    with pytest.raises(StudyError, match='compute'):
        run_study('landing_benchmark', dict(compute=False), tmp_path / 'out', progress=False)
    assert not (tmp_path / 'out' / 'flights').exists()


@pytest.mark.slow
def test_a_study_does_not_write_through_a_link(tmp_path):
    "Nor do its pictures and tables"
    (tmp_path / 'keep').write_text('mine')
    out = tmp_path / 'out'
    out.mkdir()
    (out / 'tasks.png').symlink_to(tmp_path / 'keep')
    parameters = dict(tasks=['RepeatFirst'], episodes=2, oracle_episodes=2, fps_seconds=0)
    run_study('popgym_tasks', parameters, out, progress=False)
    assert (tmp_path / 'keep').read_text() == 'mine' and not (out / 'tasks.png').is_symlink()


# ---- where kernels find modules

CODE = """
import json, os
from srlviz.core.jobs.workers import pool

def module_file(name):
    try:
        return str(__import__(name).__file__)
    except ImportError:
        return ''

modules = {name: module_file(name) for name in ['numpy', 'pandas', 'json', 'srl_optional', 'srl_beside']}
with pool(2) as p:
    in_workers = list(p.map(module_file, ['numpy', 'srl_optional', 'srl_beside']))
import numba
numba.njit(lambda x: x + 1)(1)
settings = [numba.core.config.CACHE_DIR, numba.core.config.CACHE_LOCATOR_CLASSES]
print(json.dumps(dict(modules=modules, workers=in_workers, folder=os.getcwd(), settings=settings)))
"""


@pytest.fixture(scope='module')
def kernel_run(tmp_path_factory):
    "A notebook with a module beside it, run into a folder of untrusted modules: (folder, summary, working directories)"
    place = tmp_path_factory.mktemp('kernel')
    mine, out, here = place / 'mine', place / 'out', place / 'here'
    for folder in mine, out, here:
        folder.mkdir()
    for name in *PLANTED, 'srl_beside':
        (out / f'{name}.py').write_text(MARKER_CODE.format(marker=str(place / 'ran.txt')))
    (out / '.numba_config.yaml').write_text(f'cache_dir: {out}\ncache_locator_classes: srl_optional.Locator\n')
    for name in 'numpy', 'srl_beside':
        (mine / f'{name}.py').write_text('')
    cell = new_code_cell(CODE, metadata=dict(tags=['summary']))
    write(mine / 'study.ipynb', new_markdown_cell('# Mine'), cell)
    working_directories = []
    original_write = run.Progress.write

    def recording_write(progress, text):
        working_directories.append(os.getcwd())
        return original_write(progress, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        patch.setenv('PYTHONPATH', os.pathsep.join(['', '.', os.environ.get('PYTHONPATH', '')]))
        patch.delenv('NUMBA_CACHE_DIR', raising=False)
        patch.setattr(run.Progress, 'write', recording_write)
        notebook = run_study(mine / 'study.ipynb', out=out)
    return place, json.loads(summary(notebook)), working_directories


def test_nothing_is_imported_from_the_folder_of_results(kernel_run):
    "Neither by the kernel, nor by the processes that it starts, nor before the first cell"
    place, info, _ = kernel_run
    assert info['folder'] == str(place / 'out')
    assert not (place / 'ran.txt').exists(), (place / 'ran.txt').read_text()
    assert info['modules']['srl_optional'] == info['workers'][1] == ''
    assert 'site-packages' in info['modules']['numpy'] and 'site-packages' in info['workers'][0]


def test_numba_is_not_configured_by_the_folder_of_results(kernel_run):
    "Its caches are code"
    assert kernel_run[1]['settings'] == ['', '']


def test_a_module_beside_the_callers_notebook_is_found_last(kernel_run):
    place, info, _ = kernel_run
    assert info['modules']['srl_beside'] == info['workers'][2] == str(place / 'mine' / 'srl_beside.py')
    assert 'site-packages' in info['modules']['numpy']


def test_running_a_study_does_not_change_the_working_directory(kernel_run):
    "So later imports of the caller do not come from the folder of results either"
    place, _, working_directories = kernel_run
    assert working_directories and set(working_directories) == {str(place / 'here')}


# ---- a resumed sweep


def resume_sweep(out):
    return call_with_timeout(lambda: sweep(square, {'x': [1, 2, 3]}, out, progress=False))


@pytest.mark.parametrize('part', ['trials', 'grids', 'trials/KEY', 'trials/KEY/claim.json', 'grids/NAME'])
@pytest.mark.parametrize('dangling', [False, True])
def test_a_sweep_does_not_write_through_a_link(part, dangling, swept, tmp_path):
    (key,) = {
        p.name
        for p in (swept / 'trials').iterdir()
        if json.loads((p / 'result.json').read_text())['parameters'] == {'x': 1}
    }
    path = swept / part.replace('KEY', key).replace('NAME', grid_of(swept).name)
    if path.is_dir():
        if part == 'trials/KEY':
            shutil.rmtree(path)
        else:
            path.rename(tmp_path / 'away')
    else:
        path.unlink(missing_ok=True)
        (path.parent / 'result.json').unlink(missing_ok=True)
    path.symlink_to(tmp_path / ('nowhere' if dangling else 'precious'))
    with pytest.raises(ValueError, match='symbolic link|no regular file') as e:
        if part == 'grids/NAME':
            call_with_timeout(lambda: sweep(square, {'x': [1, 2]}, swept, progress=False))
        else:
            resume_sweep(swept)
    assert path.name in str(e.value)
    assert [p.name for p in (tmp_path / 'precious').iterdir()] == ['keep'] and not (tmp_path / 'nowhere').exists()


def open_trial(out):
    "The folder of a trial that has not run"
    done = {p.name for p in (out / 'trials').iterdir()}
    sweep(square, {'x': [3]}, out, progress=False)
    (folder,) = (p for p in (out / 'trials').iterdir() if p.name not in done)
    (folder / 'result.json').unlink()
    return folder


@pytest.mark.skipif(not hasattr(os, 'mkfifo'), reason='this system has no named pipes')
def test_a_pipe_as_claim_is_not_waited_for(swept):
    claim = open_trial(swept) / 'claim.json'
    os.mkfifo(claim)
    with pytest.raises(ValueError, match='claim.json'):
        resume_sweep(swept)
    assert claim.exists()


@pytest.mark.parametrize('text', ['', '{', '[]', '[' * 50_000, '{"host": 1, "pid": "x"}', '\xff'])
def test_a_damaged_claim_expires(text, swept):
    claim = open_trial(swept) / 'claim.json'
    claim.write_bytes(text.encode('latin-1'))
    os.utime(claim, (time.time() - 2 * store.CLAIM_TIMEOUT,) * 2)
    assert len(resume_sweep(swept).scores) == 3 and not claim.exists()


def test_a_claim_of_the_future_expires(swept, monkeypatch):
    "Every earlier claim is one where the clock was set back"
    monkeypatch.setattr(store, 'CLAIM_TIMEOUT', 1.0)
    claim = open_trial(swept) / 'claim.json'
    claim.write_text(json.dumps(dict(host='another', pid=1, sweep='another', started=1.0)))
    os.utime(claim, (time.time() + 10**6,) * 2)
    assert not store.is_void(claim)  # another process may be working on it
    assert len(resume_sweep(swept).scores) == 3 and not claim.exists()


def test_status_names_no_more_trials_than_it_shows(tmp_path, monkeypatch):
    with pytest.raises(StudyError):
        sweep(fails, {'x': [*range(15)]}, tmp_path / 'out', progress=False)
    named = []

    def trial_name(runs, row):
        named.append(row['key'])
        return 'a trial'

    monkeypatch.setattr('srlviz.studies.sweep.trial_name', trial_name)
    text = status_text(tmp_path / 'out')
    # each name takes a pass over all trials: naming all of 100,000 took hours
    assert '... and 5 more failed' in text and len(named) == 10


def fails(x: int) -> list[dict]:
    raise ValueError('too bad')


def test_code_is_found_however_deep_a_parameter_is_nested(tmp_path):
    value = 'srl_evil:X'
    for _ in range(900):
        value = {'a': value}
    with pytest.raises(ValueError, match='srl_evil:X'):
        report._check_imports(tmp_path, dict(method=value))
