"""Run popgym's own tests on our tasks and wrappers: `python benchmarks/measure_popgym.py PATH/TO/popgym/tests`.

The tests are popgym's (MIT, <https://github.com/proroklab/popgym>; from a checkout, which is not part of this
repository). They import our classes as `popgym.envs` and `popgym.wrappers`, with the arguments of popgym's
constructors, and with the attributes that the tests inspect (a board, a deck, a maze), read from the state. The deck
and the names of observability are popgym's. Further arguments go to pytest.

`KNOWN` lists expected failures and their reasons; any other failure is a bug of ours and sets the exit status.
"""

import argparse, sys, types, warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import srlviz.envs  # noqa: F401 - registers the tasks
from srlviz.core.protocols import catalog
from srlviz.envs import wrappers
from srlviz.envs.pomdp import base

KNOWN = {  # part of a test's name -> why it fails
    'TestMultiarmedBandit::test_best': "popgym reveals the probabilities in info['bandits']; ours stay hidden",
    'TestBattleship::test_reward_sum': 'it continues after the end of an episode, which ours refuse',
    'TestCountRecall::test_awful': 'it steps outside of the action space, which ours refuse',
    'TestCountRecall::test_perfect': 'its first action has the shape (1,), outside of the action space',
    'TestLabyrinthExplore::test_known': 'it expects the maze that mazelib generates from seed 0',
    'TestLabyrinthExplore::test_step': 'it uses the pair that reset() returns as an array if an episode ends early',
}
# popgym's default arguments, where they differ from those of easy
DEFAULTS = dict(Battleship=dict(size=10), Concentration=dict(kind='ranks'))
ARGUMENTS = dict(num_decks='decks', deck_type='kind', episode_length='length', k='k')


def parameters(arguments: dict) -> dict:
    "Our names of popgym's arguments"
    size = arguments.pop('maze_dims', None)
    renamed = {ARGUMENTS[k]: v for k, v in arguments.items()}
    return renamed | (dict(height=size[0] + 1, width=size[1] + 1) if size else {})  # walls included


class Deck:
    "The interface of popgym's deck that the tests use"

    def __init__(self, env):
        self.env, kinds = env, env.record['deck'][0]
        self.num_cards, self.idx = kinds.size, np.arange(kinds.size)
        self.ranks_idx = self.colors_idx = kinds  # by place

    def __getitem__(self, player: str) -> list:
        if player == 'system':
            return [None] * int(self.env.factors()['pile'])
        return [None] * int(self.env.record['turned'][0])


def field(name: str):
    "A property that reads a field of the state"
    return property(lambda env: env.record[name][0])


length = property(lambda env: env.parameters.get('length', env.max_steps))
INSPECTED = dict(
    Autoencode=dict(deck=property(Deck)),
    Battleship=dict(
        board=field('ships'),
        board_size=property(lambda env: env.parameters['size']),
        ship_sizes=property(lambda env: env.parameters['ships']),
    ),
    Concentration=dict(
        deck=property(Deck),
        episode_length=property(lambda env: env.max_steps),
        success_reward_scale=property(lambda env: 2 / env.record['deck'].size),
        failure_reward_scale=property(lambda env: -1 / env.max_steps),
    ),
    CountRecall=dict(value_deck=property(Deck), num_distinct_cards=property(lambda env: int(env.plain_space.nvec[0]))),
    MineSweeper=dict(hidden_grid=field('hidden'), success_reward_scale=property(lambda env: 1 / env.max_steps)),
    LabyrinthExplore=dict(explored=field('seen')),
    LabyrinthEscape=dict(),
)
MAZE = dict(
    maze=property(lambda env: SimpleNamespace(grid=env.record['grid'][0])),
    curr_step=field('t'),
    neg_reward_scale=property(lambda env: -1 / env.parameters['length']),
    tostring=lambda env: env.text_truth(env.record[0]),
)


def facades(name: str, ours: type) -> list[type]:
    "Our class under popgym's name, and its three difficulties"
    body = dict(difficulties={}, max_episode_length=length, **INSPECTED.get(name, {}))  # {}: not registered again
    body |= MAZE if 'Labyrinth' in name else {}

    def init(self, maze_dims=None, **arguments):
        arguments |= dict(maze_dims=maze_dims) if maze_dims else {}
        ours.__init__(self, 'easy', **{**DEFAULTS.get(name, {}), **parameters(arguments)})

    general = type(name, (ours,), body | dict(__init__=init))
    general.difficulties = ours.difficulties
    classes = [general]
    for difficulty in ours.difficulties:
        init_difficulty = lambda self, difficulty=difficulty: ours.__init__(self, difficulty)
        cls = type(name + difficulty.capitalize(), (general,), dict(difficulties={}, __init__=init_difficulty))
        cls.difficulties = ours.difficulties
        classes.append(cls)
    return classes


def share_kernels():
    "Compile once for our class instead of once for each subclass"
    kernel = base._kernel

    def kernel_of_our_class(template, owner, *rest):
        our_class = next(c for c in owner.__mro__ if c.__module__.startswith('srlviz.'))
        return kernel(template, our_class, *rest)

    base._kernel = kernel_of_our_class


def replace_popgym_classes():
    "Replace the classes that the tests import from popgym"
    share_kernels()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        import popgym
        import popgym.envs as popgym_envs
        import popgym.wrappers as popgym_wrappers
        from popgym.core.observability import Observability
    envs = types.ModuleType('popgym.envs')
    classes = {
        c.__name__: c for n, ours in catalog('envs').items() for c in facades(n, ours) if hasattr(popgym_envs, n)
    }
    vars(envs).update(classes, has_mazelib=lambda: True)
    envs.ALL = {classes[c.__name__]: info for c, info in popgym_envs.ALL.items()}
    modes = {mode: mode.name.lower().removesuffix('_dict') for mode in Observability}
    our_wrappers = dict(vars(wrappers), Markovian=lambda env, mode: wrappers.Markovian(env, modes[mode]))
    kinds = dict(Mode=SimpleNamespace(PLAY=0, WATCH=1), HiddenSquare=SimpleNamespace(CLEAR=0, MINE=1, VIEWED=2))
    for package, names, original in ((envs, classes | kinds, popgym_envs), (None, our_wrappers, popgym_wrappers)):
        for path in [p for p in sys.modules if p.startswith(original.__name__ + '.')]:
            module = sys.modules[path] = types.ModuleType(path)
            vars(module).update(names)
        if package:
            sys.modules['popgym.envs'] = popgym.envs = package


class FailedTests:
    "A pytest plugin that collects the names of failed tests"

    def __init__(self):
        self.failed = []

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('tests', type=Path, help='folder of the tests')
    args, pytest_options = parser.parse_known_args()
    tests = args.tests.resolve()
    if not tests.is_dir():
        raise SystemExit(f'no folder of tests: {tests}')
    replace_popgym_classes()
    sys.path.insert(0, str(tests.parent))
    failures = FailedTests()
    options = ['-q', '--no-header', '-p', 'no:cacheprovider', '-W', 'ignore', '--tb=line', *pytest_options]
    pytest.main([str(tests), *options], plugins=[failures])
    unknown = []
    for name in failures.failed:
        reason = next((text for part, text in KNOWN.items() if part in name), None)
        if not reason:
            unknown.append(name)
        print(f"{name.split('/')[-1]}: {reason or 'UNKNOWN'}")
    raise SystemExit(bool(unknown))
