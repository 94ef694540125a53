"""Sweeps that are killed, shared by processes, distributed over a cluster, and given bad input.

Each trial appends its number and process to a side file, so that trials computed twice are counted.
"""

import json, os, random, signal, subprocess, sys, threading, time
from collections import Counter
from functools import partial
from pathlib import Path

import pandas as pd
import pytest

from srlviz.core.scores import load_scores
from srlviz.studies.cli import main
from srlviz.studies.sweeps.cluster import executor
from srlviz.studies.sweeps.commands import status_text
from srlviz.studies.sweep import sweep

N = 40
TRIALS = """
import os, resource, signal, time
from pathlib import Path
from srlviz.core.scores import score_row
from srl_rows import row


def tiny(x: int, pause: float = 0.02, out='.'):
    with open(Path(out).parents[1] / 'ran.txt', 'a') as f:
        f.write(f'{x} {os.getpid()}\\n')
    time.sleep(pause)
    return row(x, x * x)


def threads(x: int):
    import torch

    return row(x, torch.get_num_threads())


def greedy(x: int):
    if x == 2:
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel's out-of-memory killer does
    if x == 4:
        before = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (2**36, before[1]))
        try:
            bytearray(2**37)
        finally:
            resource.setrlimit(resource.RLIMIT_AS, before)
    return row(x, x)
"""
ROWS = """
from srlviz.core.scores import score_row


def row(x, value):
    return [score_row(study='tiny', task=f'x{x}', method='exact', metric='square', value=value)]
"""


@pytest.fixture(scope='module')
def trial_file(tmp_path_factory):
    "A file of trials that imports another file beside it, in a folder that is not on Python's path"
    folder = tmp_path_factory.mktemp('mine')
    (folder / 'srl_tiny.py').write_text(TRIALS)
    (folder / 'srl_rows.py').write_text(ROWS)
    return folder / 'srl_tiny.py'


@pytest.fixture(scope='module')
def expected_scores(trial_file, tmp_path_factory):
    "scores.csv of an undisturbed sweep"
    folder = tmp_path_factory.mktemp('undisturbed')
    sweep(f'{trial_file}:tiny', {'x': [*range(N)], 'pause': [0.02]}, folder, progress=False)
    assert len(load_scores(folder / 'scores.csv')) == N
    return (folder / 'scores.csv').read_bytes()


def start(trial_file, out, *options, pause=0.02, **popen_options):
    grid = json.dumps(dict(x=[*range(N)], pause=[pause]))
    command = [sys.executable, '-m', 'srlviz.studies.cli', 'sweep', f'{trial_file}:tiny', '--grid', grid]
    return subprocess.Popen([*command, '--out', out, *options], stderr=subprocess.PIPE, text=True, **popen_options)


def assert_succeeds(process):
    stderr = process.communicate(timeout=300)[1]
    assert process.returncode == 0, stderr


def executed(out):
    "(trial, process) of each execution of a trial"
    path = Path(out, 'ran.txt')
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []


def assert_complete(out, expected_scores):
    assert Path(out, 'scores.csv').read_bytes() == expected_scores
    runs = pd.read_csv(Path(out, 'runs.csv'))
    assert len(runs) == N and set(runs['status']) == {'done'}
    claims = [p for p in Path(out).rglob('claim.json')]
    assert not claims, claims


# ---- killed and shared sweeps


@pytest.mark.parametrize('workers, kills', [(1, 2), pytest.param(2, 10, marks=pytest.mark.slow)])
def test_a_sweep_killed_at_random_is_resumed(trial_file, expected_scores, tmp_path, workers, kills):
    out, rng = tmp_path / 'out', random.Random(kills)

    def start_sweep():
        return start(trial_file, out, '--workers', str(workers), pause=0.1)

    for _ in range(kills):
        before = len(executed(out))
        process = start_sweep()
        while process.poll() is None and len(executed(out)) == before:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, 'the sweep ended before it was killed'
    assert_succeeds(start_sweep())
    assert_complete(out, expected_scores)
    repeated = sum(n - 1 for n in Counter(x for x, _ in executed(out)).values())
    assert repeated <= kills * workers, 'only trials that ran when the sweep was killed are computed again'


def test_two_processes_share_one_folder(trial_file, expected_scores, tmp_path):
    for process in [start(trial_file, tmp_path) for _ in range(2)]:
        assert_succeeds(process)
    assert_complete(tmp_path, expected_scores)
    assert sorted(x for x, _ in executed(tmp_path)) == [*range(N)], 'each trial runs once'
    assert len({pid for _, pid in executed(tmp_path)}) == 2


def test_shards_run_at_the_same_time_complete_the_sweep(trial_file, expected_scores, tmp_path):
    for process in [start(trial_file, tmp_path, '--shard', f'{i}/3') for i in (1, 2, 3)]:
        assert_succeeds(process)
    assert_complete(tmp_path, expected_scores)
    assert sorted(x for x, _ in executed(tmp_path)) == [*range(N)]


def test_two_workers_import_a_file_of_the_user(trial_file, expected_scores, tmp_path):
    out = tmp_path / 'out'
    result = sweep(f'{trial_file}:tiny', {'x': [*range(N)], 'pause': [0.02]}, out, workers=2, progress=False)
    assert_complete(out, expected_scores)
    assert len(result.scores) == N and os.getpid() not in {pid for _, pid in executed(out)}


# ---- on a cluster


@pytest.fixture(scope='module')
def cluster():
    distributed = pytest.importorskip('distributed', reason='Dask: pip install "srlviz[cluster]"')
    options = dict(dashboard_address=None, silence_logs=50, host='127.0.0.1')
    with distributed.LocalCluster(2, threads_per_worker=1, memory_limit=0, **options) as cluster:
        yield cluster


def test_a_sweep_survives_a_killed_worker_of_a_cluster(trial_file, expected_scores, cluster, tmp_path):
    victim = [*cluster.workers.values()][0].pid

    def kill():
        while sum(pid == victim for _, pid in executed(tmp_path)) < N // 8:
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    grid = {'x': [*range(N)], 'pause': [0.02]}
    result = sweep(f'{trial_file}:tiny', grid, tmp_path, address=cluster.scheduler_address, progress=False)
    killer.join(1)
    assert not killer.is_alive() and len(result.scores) == N
    assert_complete(tmp_path, expected_scores)
    executions = executed(tmp_path)
    assert os.getpid() not in {pid for _, pid in executions}
    for x, n in Counter(x for x, _ in executions).items():
        assert n == 1 or n == 2 and (x, victim) in executions, f'trial {x} ran {n} times'


def test_a_worker_without_access_to_the_folder_raises(trial_file, cluster, tmp_path):
    "Dask's workers share our file system, so the folder is one that does not exist"
    from srlviz.studies.sweeps.cluster import executor
    from srlviz.studies.sweeps.store import run_trial

    with executor(cluster.scheduler_address) as (submit, _):
        with pytest.raises(FileNotFoundError):
            submit(run_trial, str(tmp_path / 'absent'), 'a-b', {}, print, [], 'me').result()
    assert not (tmp_path / 'absent').exists()


# ---- bad input: named in the error, and no file changes


def tree(folder):
    return {p.relative_to(folder): p.read_bytes() for p in Path(folder).rglob('*') if p.is_file()}


@pytest.mark.parametrize(
    'study, grid, edit, options, message',
    [
        ('tiny', {'y': [1]}, None, [], "unknown parameter of tiny 'y'"),
        ('tiny', {'x': []}, None, [], 'x of the grid is an empty list'),
        ('tiny', {}, None, [], 'the grid of tiny lacks x'),
        ('tiny', [], None, [], 'the grid of tiny is empty'),
        ('tiny', {'x': ['one']}, None, [], "must be int, got 'one'"),
        ('absent', {'x': [1]}, None, [], "unknown name in srl_tiny 'absent'"),
        ('threads', {'x': [1]}, None, [], "holds trials of 'tiny', not of 'threads'; give another folder"),
        ('tiny', {'x': [1]}, 'sweep.json', [], "has the layout 0, and this version of srlviz reads 1"),
        ('tiny', {'x': [1]}, 'scores.csv', [], 'a score table that was not made by a sweep; move it'),
        ('tiny', {'x': [1]}, None, ['--shard', '4/3'], "shard must be 'i/n'"),
        ('tiny', {'x': [1]}, None, ['--workers', '0'], 'workers must be a whole number'),
    ],
)
def test_bad_input_is_refused_and_no_file_changes(trial_file, tmp_path, capsys, study, grid, edit, options, message):
    sweep(f'{trial_file}:tiny', {'x': [0]}, tmp_path, progress=False)
    if edit == 'sweep.json':
        (tmp_path / edit).write_text('{"layout": 0, "study": "tiny", "trial": "a:b"}')
    elif edit:
        (tmp_path / 'sweep.json').unlink()
    before = tree(tmp_path)
    assert main(['sweep', f'{trial_file}:{study}', '--grid', json.dumps(grid), '--out', str(tmp_path), *options]) == 2
    assert message in capsys.readouterr().err
    assert tree(tmp_path) == before


def test_an_address_without_a_scheduler_is_refused(trial_file, tmp_path, capsys, monkeypatch):
    pytest.importorskip('distributed', reason='Dask: pip install "srlviz[cluster]"')
    monkeypatch.setattr('srlviz.studies.sweep.executor', partial(executor, seconds=1))
    sweep(f'{trial_file}:tiny', {'x': [0]}, tmp_path, progress=False)
    before = tree(tmp_path)
    start_time = time.monotonic()
    command = ['sweep', f'{trial_file}:tiny', '--grid', '{"x": [0, 1]}', '--out', str(tmp_path)]
    assert main([*command, '--address', 'tcp://127.0.0.1:1']) == 2
    assert time.monotonic() - start_time < 30 and "answers at 'tcp://127.0.0.1:1'" in capsys.readouterr().err
    after = tree(tmp_path)
    assert all(after[p] == before[p] for p in before if p.name != 'runs.csv')
    assert main(command) == 0 and len(load_scores(tmp_path / 'scores.csv')) == 2


def test_a_cluster_without_dask_names_the_extra_to_install(trial_file, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    command = ['sweep', f'{trial_file}:tiny', '--grid', '{"x": [1]}', '--out', str(tmp_path)]
    assert main([*command, '--address', 'tcp://127.0.0.1:1']) == 2
    assert 'pip install "srlviz[cluster]"' in capsys.readouterr().err


def test_trials_out_of_memory_fail_and_the_others_finish(trial_file, tmp_path):
    result = sweep(f'{trial_file}:greedy', {'x': [*range(6)]}, tmp_path, workers=2, progress=False)
    assert result.scores['task'].tolist() == ['x0', 'x1', 'x3', 'x5']
    errors = dict(zip(result.failed['x'], result.failed['error']))
    assert 'out of memory?' in errors[2] and errors[4].startswith('MemoryError')
    assert '4 done, 2 failed' in status_text(tmp_path)


@pytest.mark.parametrize('workers, max_bytes', [('1', 600), ('2', 4000)])
def test_a_sweep_stopped_by_a_full_disk_is_resumed(trial_file, expected_scores, tmp_path, workers, max_bytes):
    "A limit on the size of files simulates a full disk: 600 bytes stop the grid, 4,000 stop runs.csv"
    import resource

    def limit_file_size():
        resource.setrlimit(resource.RLIMIT_FSIZE, (max_bytes, resource.RLIM_INFINITY))

    env = os.environ | {'PYTHONDONTWRITEBYTECODE': '1'}  # a compiled module cut off at the limit would stay broken
    process = start(trial_file, tmp_path, '--workers', workers, preexec_fn=limit_file_size, env=env)
    stderr = process.communicate(timeout=120)[1]
    assert process.returncode == 2 and 'File too large' in stderr and 'Traceback' not in stderr, stderr
    kept = len([*tmp_path.glob('trials/*/result.json')])
    assert bool(kept) == (max_bytes > 600) and not [*tmp_path.rglob('.*.json')]
    assert_succeeds(start(trial_file, tmp_path))
    assert_complete(tmp_path, expected_scores)
    if kept:
        assert len(executed(tmp_path)) <= N + 1, 'kept results are not computed again'


@pytest.mark.slow
def test_workers_share_the_cores(trial_file, tmp_path):
    result = sweep(f'{trial_file}:threads', {'x': [*range(8)]}, tmp_path, workers=4, progress=False)
    assert set(result.scores['value']) == {max(1, os.cpu_count() // 4)}
