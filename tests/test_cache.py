"""Test unpacking of film by concurrent processes: one unpacks, both read, and a killed process blocks no other."""

import os, signal, subprocess, sys, time

import numpy as np
import pytest
from srlviz.core.recordings import Episode, Recording, load_recording

UNPACK_SCRIPT = '''
import sys, time
from pathlib import Path
from srlviz.core.storage import frame_cache
from srlviz.core.recordings import load_recording

folder, name, pause = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
frames_in_order = frame_cache._frames_in_order

def slow_frames_in_order(recording_folder, modality):
    (folder / f'{name} unpacks').touch()
    for part in frames_in_order(recording_folder, modality):
        time.sleep(pause)
        yield part

frame_cache._frames_in_order = slow_frames_in_order
recording = load_recording(folder / 'walks')
(folder / f'{name} is ready').touch()
while not (folder / 'go').exists():
    time.sleep(.001)
frames = [e.obs['frame'] for e in recording.cached()]
print(sum(int(f.sum()) for f in frames), [f.shape[0] for f in frames])
'''


@pytest.fixture
def walks(tmp_path):
    "Three episodes of film, saved in a folder"
    rng = np.random.default_rng(0)
    episodes = [Episode({'frame': rng.integers(0, 255, (n, 6, 5, 1), np.uint8)}) for n in (200, 30, 64)]
    Recording(episodes).save(tmp_path / 'walks')
    return episodes


def start_process(folder, name, pause):
    "Start a process that unpacks the film, with a pause before each part"
    command = [sys.executable, '-c', UNPACK_SCRIPT, str(folder), name, str(pause)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(path, process):
    while not path.exists():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.005)


def expected_output(episodes):
    "Return what the processes print: the sum of all frames and the lengths of the episodes"
    return f"{sum(int(e.obs['frame'].sum()) for e in episodes)} {[len(e) for e in episodes]}"


def test_two_processes_unpack_film_once(walks, tmp_path):
    processes = {name: start_process(tmp_path, name, 0.1) for name in ('one', 'other')}
    for name, process in processes.items():
        wait_for(tmp_path / f'{name} is ready', process)
    (tmp_path / 'go').touch()
    for process in processes.values():
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 0, stderr
        assert stdout.strip() == expected_output(walks)
    assert len([*tmp_path.glob('* unpacks')]) == 1
    assert {p.name for p in (tmp_path / 'walks' / 'cache').iterdir()} == {'frame.npy', 'frame.json'}


@pytest.mark.skipif(os.name != 'posix', reason='signals')
def test_a_killed_process_does_not_block_others(walks, tmp_path):
    (tmp_path / 'go').touch()
    process = start_process(tmp_path, 'one', 600)
    wait_for(tmp_path / 'one unpacks', process)
    unfinished = [*(tmp_path / 'walks' / 'cache').glob('.frame.npy.*')]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    frames = [e.obs['frame'] for e in load_recording(tmp_path / 'walks').cached()]
    assert unfinished
    assert all((a == e.obs['frame']).all() for a, e in zip(frames, walks, strict=True))
    assert {p.name for p in (tmp_path / 'walks' / 'cache').iterdir()} == {'frame.npy', 'frame.json'}
