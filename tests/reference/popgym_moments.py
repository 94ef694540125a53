"""Copy the state of a popgym environment to a record of ours: INJECT[name](popgym's environment, our record).

Call each function after both were reset; see tests/test_popgym.py.
"""

import numpy as np
from gymnasium.utils import seeding

from srlviz.envs.kernels import compile_with_callees, random_float, random_normal


# ---- cards
def deal_order(deck, kinds):
    "Return the kinds of the cards of a popgym deck in the order in which it deals them: from the end."
    return kinds[deck.idx[::-1]]


def repeat_first(popgym_env, e):
    e['deck'] = deal_order(popgym_env.deck, popgym_env.deck.suits_idx)
    e['obs'] = e['deck'][0]


def autoencode(popgym_env, e):
    e['deck'] = deal_order(popgym_env.deck, popgym_env.deck.suits_idx)
    e['obs'] = 1, e['deck'][0]


def count_recall(popgym_env, e):
    e['deck'] = deal_order(popgym_env.value_deck, popgym_env.deck_idx_type)
    e['queries'] = deal_order(popgym_env.query_deck, popgym_env.deck_idx_type)
    e['counts'] = np.arange(e['counts'].size) == e['deck'][0]
    e['obs'] = e['deck'][0], e['queries'][0]


def higher_lower(popgym_env, e):
    e['deck'] = deal_order(popgym_env.deck, popgym_env.deck.ranks_idx)
    e['obs'] = e['deck'][0]


def concentration(popgym_env, e):
    e['deck'] = popgym_env.deck_idx_type[popgym_env.deck.idx]  # by position on the table, not by turn


# ---- poles and pendulums, with noise
_compiled = {}
_float = compile_with_callees(random_float, {}, _compiled)
_normal = compile_with_callees(random_normal, {}, _compiled)


class OurDraws:
    "Replacement for a popgym environment's `np_random` that draws the numbers which our record draws next."

    def __init__(self, e):
        self.e = np.array([e], e.dtype)[0]

    def random(self):
        return _float(self.e)

    def normal(self, mean, sigma):
        return mean + np.array([s * _normal(self.e) for s in sigma])


def pole(popgym_env, e):
    e['state'] = popgym_env.state
    e['obs'] = popgym_env.state[[0, 2]]


def pendulum(popgym_env, e):
    e['state'] = popgym_env.state
    e['obs'] = popgym_env.get_state()[:2]


def noisy(without_noise, n):
    """Return a function that applies `without_noise`, then copies popgym's noise.

    On reset the noise is the one that popgym drew after the state's `n` numbers; later it is the one that our record
    draws.
    """

    def inject(popgym_env, e):
        without_noise(popgym_env, e)
        draws = OurDraws(e)
        popgym_env._np_random = seeding.np_random(popgym_env.np_random_seed)[0]
        popgym_env._np_random.uniform(size=n)
        e['obs'] = popgym_env.add_noise_to_obs(np.array(e['obs']))
        popgym_env._np_random = draws

    return inject


# ---- bandits and boards
def bandit(popgym_env, e):
    e['odds'], e['obs'] = popgym_env.bandits, 0
    popgym_env._np_random = OurDraws(e)


def battleship(popgym_env, e):
    e['ships'], e['shots'] = popgym_env.board, popgym_env.guesses
    e['left'], e['obs'] = popgym_env.needed_hits - popgym_env.hits, popgym_env.last_obs


def minesweeper(popgym_env, e):
    e['hidden'], e['around'], e['obs'] = popgym_env.hidden_grid, popgym_env.neighbor_grid, 0
    e['left'] = (popgym_env.hidden_grid == 0).sum()


# ---- mazes
def labyrinth(popgym_env, e):
    "Copy the maze, with the agent at its start."
    e['grid'], e['seen'] = popgym_env.maze.grid, popgym_env.explored
    e['start'], e['goal'] = popgym_env.maze.start, popgym_env.maze.end
    e['y'], e['x'] = popgym_env.position
    e['obs'] = popgym_env.get_obs(4)


def explore(popgym_env, e):
    labyrinth(popgym_env, e)
    e['left'] = (e['grid'] == 0).sum()
    e['gain'] = 1 / e['left']


def neighbours(cells: set, shape) -> set:
    "Return the neighbours of cells within a grid."
    around = {(y + dy, x + dx) for y, x in cells for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))}
    return {(y, x) for y, x in around if 0 <= y < shape[0] and 0 <= x < shape[1]}


def escape(popgym_env, e):
    "Copy the maze and compute the distance of each cell to the goal, ring by ring."
    labyrinth(popgym_env, e)
    e['way'] = -1
    ring = {tuple(map(int, e['goal']))}
    distance = 0
    while ring:
        for cell in ring:
            e['way'][cell] = distance
        ring = {cell for cell in neighbours(ring, e['grid'].shape) if e['grid'][cell] != 1 and e['way'][cell] < 0}
        distance += 1


INJECT = dict(
    RepeatFirst=repeat_first,
    RepeatPrevious=repeat_first,
    Autoencode=autoencode,
    CountRecall=count_recall,
    HigherLower=higher_lower,
    Concentration=concentration,
    PositionOnlyCartPole=pole,
    VelocityOnlyCartPole=pole,
    NoisyPositionOnlyCartPole=noisy(pole, 4),
    PositionOnlyPendulum=pendulum,
    NoisyPositionOnlyPendulum=noisy(pendulum, 2),
    MultiarmedBandit=bandit,
    Battleship=battleship,
    MineSweeper=minesweeper,
    LabyrinthExplore=explore,
    LabyrinthEscape=escape,
)
# compared with legacy=True, which keeps popgym's defects: a wrong state, a first observation of positions, a moved view
LEGACY = {'HigherLower', 'Concentration', 'VelocityOnlyCartPole', 'LabyrinthExplore', 'LabyrinthEscape'}
