"""Worlds: the catalogue and its check, a world added by one notebook, arrays and Gymnasium environments as worlds."""

import os, subprocess, sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from support.one_notebook import run_with_notebook

import srlviz
from srlviz.core.names import catalog_names
from srlviz.core.protocols import catalog, check_world
from srlviz.core.recordings import Recording
from srlviz.data.worlds.recorded import RecordedWorld
from srlviz.envs.atari import GAMES

ROOT = Path(__file__).parents[1]
WORLDS, VIEWERS = catalog('worlds'), catalog_names('widgets')
SHORT_FLIGHTS = dict(size=32, distance=2222.0)  # m before the threshold; an engine fails after 20 s


def few_twins(world) -> dict | None:
    "One of the many factors of a task, in enough moments that it can be set in some"
    if world.kind != 'task':
        return None
    middle = len(world.settable) // 2
    return dict(factors=world.settable[middle : middle + 1], n=40)


def test_games_tasks_and_the_approach_are_listed():
    tasks = {f'{name}-{d}' for name in catalog_names('envs') for d in ('easy', 'medium', 'hard')}
    assert {*GAMES, *tasks, 'approach'} <= WORLDS.keys() and len(tasks) == 48
    assert all(world.name == name for name, world in WORLDS.items())
    assert catalog_names('worlds') == list(WORLDS)


def test_listing_worlds_imports_neither_torch_nor_numba():
    code = 'import sys; from srlviz.core.names import catalog; catalog("worlds"); print(*sys.modules)'
    env = os.environ | {'PYTHONPATH': str(ROOT)}
    imported = subprocess.check_output([sys.executable, '-c', code], text=True, env=env).split()
    assert 'srlviz.data.worlds.atari' in imported and not {'torch', 'numba'} & {*imported}


def test_every_world_has_explorers_and_conditions():
    for name, world in WORLDS.items():
        assert {*world.explorers} <= {*VIEWERS} and all(world.conditions), name


@pytest.mark.parametrize(
    'name, n, conditions',
    [
        ('pong', 300, ['paper', 'ball_x held']),
        ('montezumarevenge', 200, ['room_number held']),
        ('RepeatPrevious-easy', 3, None),
        ('MineSweeper-hard', 2, None),
        ('PositionOnlyCartPole-easy', 2, ['fully observable']),
    ],
)
def test_worlds_keep_the_contract(name, n, conditions):
    world = WORLDS[name]
    check_world(world, n, conditions=conditions, viewers=VIEWERS, twins=few_twins(world))


def test_the_approach_keeps_the_contract():
    twins = dict(factors=['hour'], n=1, **SHORT_FLIGHTS)
    check_world(
        WORLDS['approach'], 1, conditions=['night', 'engine out'], viewers=VIEWERS, twins=twins, **SHORT_FLIGHTS
    )


@pytest.mark.slow
@pytest.mark.parametrize('name', WORLDS)
def test_every_world_keeps_the_contract(name):
    world = WORLDS[name]
    if name == 'approach':
        check_world(world, 2, viewers=VIEWERS, twins=dict(n=2, **SHORT_FLIGHTS), **SHORT_FLIGHTS)
    elif world.unit == 'steps':
        check_world(world, 300, viewers=VIEWERS, twins=dict(n=12))  # a variable may not be seen in some moments
    else:
        check_world(world, 2, viewers=VIEWERS, twins=few_twins(world))


def test_an_unknown_condition_is_refused_and_nothing_is_written(tmp_path):
    for name in 'pong', 'RepeatPrevious-easy', 'approach', 'CartPole-v1':
        with pytest.raises(ValueError, match="condition 'frog'"):
            srlviz.record(name, 1, condition='frog')
    for name in 'pong', 'approach':
        with pytest.raises(ValueError, match="condition 'frog'"):
            srlviz.record(name, 1, condition='frog', out=tmp_path / name)
    assert not [*tmp_path.iterdir()]


def test_record_returns_what_the_recording_functions_return():
    from srlviz.data.atari import record_atari
    from srlviz.data.popgym import record_pomdp

    quiet = dict(progress=False)
    ours = srlviz.record('pong', 150, seed=3, **quiet)
    assert ours.fingerprint() == record_atari('pong', 150, seed=3, **quiet).fingerprint()
    ours = srlviz.record('RepeatPrevious-hard', 2, policy='oracle', **quiet)
    assert ours.fingerprint() == record_pomdp('RepeatPrevious-hard', 2, 'oracle', **quiet).fingerprint()


DRIVE = '''
from srlviz.core.protocols import Condition, check_condition
from srlviz.core.recordings import Recording
import numpy as np

class Drive:
    "A driving log: a camera, four sensors, and the true lane position."

    name, unit = 'drive', 'episodes'
    conditions = {'at night': Condition('at night', changes=('frame', 'light'))}

    def record(self, n=4, *, seed=0, policy='driver', condition=None, progress=True):
        check_condition(condition, self.conditions)
        if policy != 'driver':
            raise ValueError(f"policy: only 'driver' drives; got {policy!r:.80}")
        rng, T = np.random.default_rng(seed), 30
        lane = np.clip(np.cumsum(rng.normal(0, 0.1, (n, T)), 1), -1, 1).ravel()
        speed = np.abs(20 + np.cumsum(rng.normal(0, 0.5, (n, T)), 1)).ravel()
        light = np.full(n * T, 0.2 if condition == 'at night' else 1.0)
        across = np.linspace(-1, 1, 16)
        road = np.exp(-8 * (across + lane[:, None]) ** 2) * light[:, None]
        frame = np.broadcast_to((255 * road).astype(np.uint8)[:, None, :, None], (n * T, 16, 16, 3))
        sensors = np.stack([speed, np.gradient(speed), rng.normal(size=n * T), lane * speed], 1)
        return Recording.from_arrays(
            dict(frame=frame, sensors=sensors),
            episode=np.repeat(np.arange(n), T),
            factors=dict(lane=lane, speed=speed, light=light),
            name=self.name,
            hz=10,
        )

    def sample(self):
        return self.record(3)
'''
USE_DRIVE = '''
import srlviz
from srlviz.core.protocols import catalog, check_world
from srlviz.studies.cli import listing

check_world(catalog('worlds')['drive'], viewers=catalog('widgets'))
night = srlviz.record('Drive', 5, condition='at night')
browser = catalog('widgets')['FrameBrowser'](srlviz.sample('drive'), interactive=True)
print(len(night), night[0].obs['frame'].shape, browser.t, 'drive' in listing())
'''


def test_one_notebook_adds_a_world(tmp_path):
    "In a copy of the package with one new notebook, its world is listed, checked, recorded and opened."
    lines = run_with_notebook(tmp_path, 'data.worlds.drive', DRIVE, USE_DRIVE)
    assert lines[-1] == '5 (30, 16, 16, 3) 0 True'


def test_arrays_are_a_world():
    "A driving log as arrays, without a class"
    rows, names = np.arange(60), np.repeat(['mon', 'tue', 'wed'], 20)
    camera = np.broadcast_to(rows.astype(np.uint8)[:, None, None, None], (60, 8, 8, 3))
    sensors = np.stack([rows, rows**2], 1)
    drive = RecordedWorld(dict(frame=camera, sensors=sensors), 'drive', episode=names, factors=dict(speed=rows / 3.0))
    check_world(drive, 2, viewers=VIEWERS)
    assert {e.name for e in srlviz.record(drive)} == {'mon', 'tue', 'wed'}


class Walk(gymnasium.Env):
    "A walk on a line, shown as a picture; the position of the walker is hidden"

    observation_space = gymnasium.spaces.Box(0, 255, (8, 8, 1), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)

    def _picture(self):
        picture = np.zeros((8, 8, 1), np.uint8)
        picture[:, self.at % 8] = 255
        return picture

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at, self.t = int(self.np_random.integers(8)), 0
        return self._picture(), {}

    def step(self, action):
        self.at, self.t = self.at + 2 * int(action) - 1, self.t + 1
        return self._picture(), 0.0, self.t == 12, False, {}


def test_a_gymnasium_environment_is_a_world():
    from srlviz.data.worlds.gym import GymWorld

    check_world(GymWorld('CartPole-v1'), viewers=VIEWERS)
    check_world(GymWorld(Walk(), factors=lambda env: dict(place=env.unwrapped.at % 8)), viewers=VIEWERS)
    recording = srlviz.record(Walk(), 2, progress=False)  # it can be recorded without factors too
    assert isinstance(recording, Recording) and recording[0].obs['frame'].shape == (12, 8, 8, 1)
    assert not recording.factors


def test_samples_can_be_explored():
    "One world of each kind"
    for name, widget in (('pong', ''), ('RepeatPrevious-easy', ''), ('approach', 'FlightBrowser')):
        explorer = srlviz.explore(WORLDS[name].sample(), widget=widget, interactive=True)
        assert explorer.episode == 0 and (explorer.t > 0) == (name == 'approach')  # a flight opens after its failure
    fleet = srlviz.explore(WORLDS['approach'].sample())
    assert type(fleet).__name__ == 'FleetBrowser' == WORLDS['approach'].explorers[0]
