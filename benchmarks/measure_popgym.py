"""Run popgym's own tests on our tasks and wrappers: `python benchmarks/measure_popgym.py PATH/TO/popgym/tests`.

The tests are popgym's (MIT, <https://github.com/proroklab/popgym>; from a checkout, none of it is here). They import
our classes as `popgym.envs` and `popgym.wrappers`, with the arguments of popgym's constructors, and with the attributes
that the tests inspect (a board, a deck, a maze), read from the state. popgym's deck and its names of observability are
its own. Further arguments go to pytest.

`KNOWN` lists expected failures and their reasons; any other failure is a fault of ours and sets the exit status.
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
    'TestMultiarmedBandit::test_best': "popgym gives the chances away in info['bandits']; ours stay hidden",
    'TestBattleship::test_reward_sum': 'it steps on after the end of an episode, which ours refuse',
    'TestCountRecall::test_awful': 'it steps outside of the action space, which ours refuse',
    'TestCountRecall::test_perfect': 'its first action has the shape (1,), outside of the action space',
    'TestLabyrinthExplore::test_known': 'it knows the maze that mazelib digs from seed 0',
    'TestLabyrinthExplore::test_step': 'it takes what reset() gives, a pair, for an array, should an episode end early',
}
DEFAULTS = dict(Battleship=dict(size=10), Concentration=dict(kind='ranks'))  # popgym's, where not those of easy
ARGUMENTS = dict(num_decks='decks', deck_type='kind', episode_length='length', k='k')


def parameters(given: dict) -> dict:
    "Our names for popgym's arguments."
    size = given.pop('maze_dims', None)
    said = {ARGUMENTS[k]: v for k, v in given.items()}
    return said | (dict(height=size[0] + 1, width=size[1] + 1) if size else {})  # walls included


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
    return property(lambda env: env.record[name][0])


length = property(lambda env: env.parameters.get('length', env.max_steps))
LOOKED_INTO = dict(
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
    "A class of ours under popgym's name, and its three difficulties"
    body = dict(difficulties={}, max_episode_length=length, **LOOKED_INTO.get(name, {}))  # {}: not registered again
    body |= MAZE if 'Labyrinth' in name else {}

    def start(self, maze_dims=None, **given):
        given |= dict(maze_dims=maze_dims) if maze_dims else {}
        ours.__init__(self, 'easy', **{**DEFAULTS.get(name, {}), **parameters(given)})

    general = type(name, (ours,), body | dict(__init__=start))
    general.difficulties = ours.difficulties
    made = [general]
    for difficulty in ours.difficulties:
        begin = lambda self, difficulty=difficulty: ours.__init__(self, difficulty)
        made.append(type(name + difficulty.capitalize(), (general,), dict(difficulties={}, __init__=begin)))
        made[-1].difficulties = ours.difficulties
    return made


def share_kernels():
    "Compile for our class, not again for each subclass"
    kernel = base._kernel
    of_ours = lambda owner: next(c for c in owner.__mro__ if c.__module__.startswith('srlviz.'))
    base._kernel = lambda template, owner, *rest: kernel(template, of_ours(owner), *rest)


def stand_in():
    "Replace the classes that the tests import from popgym"
    share_kernels()
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        import popgym
        import popgym.envs as real
        import popgym.wrappers as real_wrappers
        from popgym.core.observability import Observability
    envs = types.ModuleType('popgym.envs')
    found = {c.__name__: c for n, ours in catalog('envs').items() for c in facades(n, ours) if hasattr(real, n)}
    vars(envs).update(found, has_mazelib=lambda: True)
    envs.ALL = {found[c.__name__]: said for c, said in real.ALL.items()}
    modes = {mode: mode.name.lower().removesuffix('_dict') for mode in Observability}
    own = dict(vars(wrappers), Markovian=lambda env, mode: wrappers.Markovian(env, modes[mode]))
    kinds = dict(Mode=SimpleNamespace(PLAY=0, WATCH=1), HiddenSquare=SimpleNamespace(CLEAR=0, MINE=1, VIEWED=2))
    for package, names, theirs in ((envs, found | kinds, real), (None, own, real_wrappers)):
        for path in [p for p in sys.modules if p.startswith(theirs.__name__ + '.')]:
            module = sys.modules[path] = types.ModuleType(path)
            vars(module).update(names)
        if package:
            sys.modules['popgym.envs'] = popgym.envs = package


class Verdict:
    "What failed, and whether it is expected"

    def __init__(self):
        self.failed = []

    def pytest_runtest_logreport(self, report):
        if report.failed:
            self.failed.append(report.nodeid)


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('tests', type=Path, help='their folder')
    args, more = parser.parse_known_args()  # for pytest
    tests = args.tests.resolve()
    if not tests.is_dir():
        raise SystemExit(f'no folder of tests: {tests}')
    stand_in()
    sys.path.insert(0, str(tests.parent))
    verdict = Verdict()
    options = ['-q', '--no-header', '-p', 'no:cacheprovider', '-W', 'ignore', '--tb=line', *more]
    pytest.main([str(tests), *options], plugins=[verdict])
    ours = []
    for name in verdict.failed:
        why = next((said for part, said in KNOWN.items() if part in name), None)
        ours += [] if why else [name]
        print(f"{name.split('/')[-1]}: {why or 'UNKNOWN'}")
    raise SystemExit(bool(ours))
