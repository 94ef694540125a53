"""Sweeps that are killed, shared by processes, spread over a cluster, and given bad input.

Trials note in a side file that they ran, and where; so what was computed twice is counted.
"""

import json, os, random, signal, subprocess, sys, threading, time
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from srlviz.core.scores import load_scores
from srlviz.studies.cli import main
from srlviz.studies.sweeps.commands import status_text
from srlviz.studies.sweep import sweep

N = 40
MINE = """
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
        os.kill(os.getpid(), signal.SIGKILL)  # as the kernel does
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
def mine(tmp_path_factory):
    "A file of trials, with another beside it; no folder of either is where Python looks for modules"
    folder = tmp_path_factory.mktemp('mine')
    (folder / 'srl_tiny.py').write_text(MINE)
    (folder / 'srl_rows.py').write_text(ROWS)
    return folder / 'srl_tiny.py'


@pytest.fixture(scope='module')
def sound(mine, tmp_path_factory):
    "scores.csv of a sweep that nobody disturbs"
    folder = tmp_path_factory.mktemp('sound')
    sweep(f'{mine}:tiny', {'x': [*range(N)], 'pause': [0.02]}, folder, progress=False)
    assert len(load_scores(folder / 'scores.csv')) == N
    return (folder / 'scores.csv').read_bytes()


def start(mine, out, *options, pause=0.02, **how):
    grid = json.dumps(dict(x=[*range(N)], pause=[pause]))
    words = [sys.executable, '-m', 'srlviz.studies.cli', 'sweep', f'{mine}:tiny', '--grid', grid]
    return subprocess.Popen([*words, '--out', out, *options], stderr=subprocess.PIPE, text=True, **how)


def ended(process):
    said = process.communicate(timeout=300)[1]
    assert process.returncode == 0, said


def ran(out):
    "(trial, process) of all that has run"
    path = Path(out, 'ran.txt')
    return [tuple(map(int, line.split())) for line in path.read_text().splitlines()] if path.exists() else []


def whole(out, sound):
    assert Path(out, 'scores.csv').read_bytes() == sound
    runs = pd.read_csv(Path(out, 'runs.csv'))
    assert len(runs) == N and set(runs['status']) == {'done'}
    left = [p for p in Path(out).rglob('claim.json')]
    assert not left, left


# ---- disturbed in whatever way


@pytest.mark.parametrize('workers, kills', [(1, 2), pytest.param(2, 10, marks=pytest.mark.slow)])
def test_killed_at_random(mine, sound, tmp_path, workers, kills):
    out, rng = tmp_path / 'out', random.Random(kills)
    begin = lambda: start(mine, out, '--workers', str(workers), pause=0.1)
    for _ in range(kills):
        before, process = len(ran(out)), begin()
        while process.poll() is None and len(ran(out)) == before:
            time.sleep(0.01)
        time.sleep(rng.uniform(0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.communicate()
        assert process.returncode == -signal.SIGKILL, 'killed while it ran'
    ended(begin())
    whole(out, sound)
    twice = sum(n - 1 for n in Counter(x for x, _ in ran(out)).values())
    assert twice <= kills * workers, 'only what ran when it was killed is computed again'


def test_two_processes_on_one_folder(mine, sound, tmp_path):
    for process in [start(mine, tmp_path) for _ in range(2)]:
        ended(process)
    whole(tmp_path, sound)
    assert sorted(x for x, _ in ran(tmp_path)) == [*range(N)], 'each trial is run once'
    assert len({pid for _, pid in ran(tmp_path)}) == 2


def test_shards_at_the_same_time_are_the_whole(mine, sound, tmp_path):
    for process in [start(mine, tmp_path, '--shard', f'{i}/3') for i in (1, 2, 3)]:
        ended(process)
    whole(tmp_path, sound)
    assert sorted(x for x, _ in ran(tmp_path)) == [*range(N)]


def test_a_file_beside_the_user_goes_to_two_workers(mine, sound, tmp_path):
    out = tmp_path / 'out'
    found = sweep(f'{mine}:tiny', {'x': [*range(N)], 'pause': [0.02]}, out, workers=2, progress=False)
    whole(out, sound)
    assert len(found.scores) == N and os.getpid() not in {pid for _, pid in ran(out)}


# ---- on a cluster


@pytest.fixture(scope='module')
def cluster():
    distributed = pytest.importorskip('distributed', reason='Dask: pip install "srlviz[cluster]"')
    quiet = dict(dashboard_address=None, silence_logs=50, host='127.0.0.1')
    with distributed.LocalCluster(2, threads_per_worker=1, memory_limit=0, **quiet) as cluster:
        yield cluster


def test_a_worker_of_a_cluster_is_killed(mine, sound, cluster, tmp_path):
    victim = [*cluster.workers.values()][0].pid

    def kill():
        while sum(pid == victim for _, pid in ran(tmp_path)) < N // 8:
            time.sleep(0.005)
        os.kill(victim, signal.SIGKILL)

    killer = threading.Thread(target=kill, daemon=True)
    killer.start()
    grid = {'x': [*range(N)], 'pause': [0.02]}
    found = sweep(f'{mine}:tiny', grid, tmp_path, address=cluster.scheduler_address, progress=False)
    killer.join(1)
    assert not killer.is_alive() and len(found.scores) == N
    whole(tmp_path, sound)
    where = ran(tmp_path)
    assert os.getpid() not in {pid for _, pid in where}
    for x, n in Counter(x for x, _ in where).items():
        assert n == 1 or n == 2 and (x, victim) in where, f'trial {x} ran {n} times'


def test_a_machine_that_does_not_see_the_folder(mine, cluster, tmp_path):
    "Dask's workers here see all that we see; so the folder goes while they run"
    from srlviz.studies.sweeps.cluster import executor
    from srlviz.studies.sweeps.store import run_trial

    with executor(cluster.scheduler_address) as (submit, _):
        with pytest.raises(FileNotFoundError):
            submit(run_trial, str(tmp_path / 'absent'), 'a-b', {}, print, [], 'me').result()
    assert not (tmp_path / 'absent').exists()


# ---- bad input: told clearly, and nothing is lost


def tree(folder):
    return {p.relative_to(folder): p.read_bytes() for p in Path(folder).rglob('*') if p.is_file()}


@pytest.mark.parametrize(
    'study, grid, edit, options, words',
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
def test_bad_input(mine, tmp_path, capsys, study, grid, edit, options, words):
    sweep(f'{mine}:tiny', {'x': [0]}, tmp_path, progress=False)
    if edit == 'sweep.json':
        (tmp_path / edit).write_text('{"layout": 0, "study": "tiny", "trial": "a:b"}')
    elif edit:
        (tmp_path / 'sweep.json').unlink()
    before = tree(tmp_path)
    assert main(['sweep', f'{mine}:{study}', '--grid', json.dumps(grid), '--out', str(tmp_path), *options]) == 2
    assert words in capsys.readouterr().err
    assert tree(tmp_path) == before


def test_an_address_where_nobody_answers(mine, tmp_path, capsys):
    pytest.importorskip('distributed', reason='Dask: pip install "srlviz[cluster]"')
    sweep(f'{mine}:tiny', {'x': [0]}, tmp_path, progress=False)
    before, begun = tree(tmp_path), time.monotonic()
    asked = ['sweep', f'{mine}:tiny', '--grid', '{"x": [0, 1]}', '--out', str(tmp_path)]
    assert main([*asked, '--address', 'tcp://127.0.0.1:1']) == 2
    assert time.monotonic() - begun < 30 and "answers at 'tcp://127.0.0.1:1'" in capsys.readouterr().err
    after = tree(tmp_path)
    assert all(after[p] == before[p] for p in before if p.name != 'runs.csv')
    assert main(asked) == 0 and len(load_scores(tmp_path / 'scores.csv')) == 2


def test_a_cluster_without_dask(mine, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, 'distributed', None)
    asked = ['sweep', f'{mine}:tiny', '--grid', '{"x": [1]}', '--out', str(tmp_path), '--address', 'tcp://127.0.0.1:1']
    assert main(asked) == 2
    assert 'pip install "srlviz[cluster]"' in capsys.readouterr().err


def test_workers_out_of_memory(mine, tmp_path):
    found = sweep(f'{mine}:greedy', {'x': [*range(6)]}, tmp_path, workers=2, progress=False)
    assert found.scores['task'].tolist() == ['x0', 'x1', 'x3', 'x5']
    errors = dict(zip(found.failed['x'], found.failed['error']))
    assert 'out of memory?' in errors[2] and errors[4].startswith('MemoryError')
    assert '4 done, 2 failed' in status_text(tmp_path)


@pytest.mark.parametrize('workers, most', [('1', 600), ('2', 4000)])
def test_full_disk_then_room(mine, sound, tmp_path, workers, most):
    "A limit on the size of files stands for a full disk: of 600 bytes for the grid, of 4,000 for runs.csv"
    import resource

    limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
    uncompiled = os.environ | {'PYTHONDONTWRITEBYTECODE': '1'}  # a module cut off at the limit would stay so
    process = start(mine, tmp_path, '--workers', workers, preexec_fn=limit, env=uncompiled)
    said = process.communicate(timeout=120)[1]
    assert process.returncode == 2 and 'File too large' in said and 'Traceback' not in said, said
    kept = len([*tmp_path.glob('trials/*/result.json')])
    assert bool(kept) == (most > 600) and not [*tmp_path.rglob('.*.json')]
    ended(start(mine, tmp_path))
    whole(tmp_path, sound)
    if kept:
        assert len(ran(tmp_path)) <= N + 1, 'what was kept is not run again'


@pytest.mark.slow
def test_workers_share_the_cores(mine, tmp_path):
    found = sweep(f'{mine}:threads', {'x': [*range(8)]}, tmp_path, workers=4, progress=False)
    assert set(found.scores['value']) == {max(1, os.cpu_count() // 4)}
