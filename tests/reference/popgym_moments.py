"""How a moment of popgym's worlds is put into a record of ours: INJECT[name](their environment, our record).

Each function is called after both were reset; see tests/test_popgym.py.
"""

import numpy as np
from gymnasium.utils import seeding

from srlviz.envs.kernels import compile_with_callees, random_float, random_normal


# ---- cards
def dealt(deck, kinds):
    "Kinds of the cards of a popgym deck, in the order in which it deals: from the end."
    return kinds[deck.idx[::-1]]


def repeat_first(theirs, e):
    e['deck'] = dealt(theirs.deck, theirs.deck.suits_idx)
    e['obs'] = e['deck'][0]


def autoencode(theirs, e):
    e['deck'] = dealt(theirs.deck, theirs.deck.suits_idx)
    e['obs'] = 1, e['deck'][0]


def count_recall(theirs, e):
    e['deck'] = dealt(theirs.value_deck, theirs.deck_idx_type)
    e['queries'] = dealt(theirs.query_deck, theirs.deck_idx_type)
    e['counts'] = np.arange(e['counts'].size) == e['deck'][0]
    e['obs'] = e['deck'][0], e['queries'][0]


def higher_lower(theirs, e):
    e['deck'] = dealt(theirs.deck, theirs.deck.ranks_idx)
    e['obs'] = e['deck'][0]


def concentration(theirs, e):
    e['deck'] = theirs.deck_idx_type[theirs.deck.idx]  # by place on the table, not by turn


# ---- poles and pendulums, noise included
_known = {}
_float, _normal = (compile_with_callees(f, {}, _known) for f in (random_float, random_normal))


class OurDraws:
    "Stands in for a popgym environment's `np_random`, and draws what our record is about to draw."

    def __init__(self, e):
        self.e = np.array([e], e.dtype)[0]

    def random(self):
        return _float(self.e)

    def normal(self, mean, sigma):
        return mean + np.array([s * _normal(self.e) for s in sigma])


def pole(theirs, e):
    e['state'], e['obs'] = theirs.state, theirs.state[[0, 2]]


def pendulum(theirs, e):
    e['state'], e['obs'] = theirs.state, theirs.get_state()[:2]


def noisy(same, n):
    """`same`, then their noise.

    On reset it is as they drew it after the state's `n` numbers, later as our record draws it.
    """

    def inject(theirs, e):
        same(theirs, e)
        theirs._np_random, draws = seeding.np_random(theirs.np_random_seed)[0], OurDraws(e)
        theirs._np_random.uniform(size=n)
        e['obs'] = theirs.add_noise_to_obs(np.array(e['obs']))
        theirs._np_random = draws

    return inject


# ---- bandits and boards
def bandit(theirs, e):
    e['odds'], e['obs'] = theirs.bandits, 0
    theirs._np_random = OurDraws(e)


def battleship(theirs, e):
    e['ships'], e['shots'] = theirs.board, theirs.guesses
    e['left'], e['obs'] = theirs.needed_hits - theirs.hits, theirs.last_obs


def minesweeper(theirs, e):
    e['hidden'], e['around'], e['obs'] = theirs.hidden_grid, theirs.neighbor_grid, 0
    e['left'] = (theirs.hidden_grid == 0).sum()


# ---- mazes
def labyrinth(theirs, e):
    "The maze, the agent at its start."
    e['grid'], e['seen'] = theirs.maze.grid, theirs.explored
    e['start'], e['goal'] = theirs.maze.start, theirs.maze.end
    e['y'], e['x'] = theirs.position
    e['obs'] = theirs.get_obs(4)


def explore(theirs, e):
    labyrinth(theirs, e)
    e['left'] = (e['grid'] == 0).sum()
    e['gain'] = 1 / e['left']


def beside(cells: set, shape) -> set:
    "The neighbours of cells, within a grid."
    around = {(y + dy, x + dx) for y, x in cells for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))}
    return {(y, x) for y, x in around if 0 <= y < shape[0] and 0 <= x < shape[1]}


def escape(theirs, e):
    "As a labyrinth, with the distance of each cell to the goal, found ring by ring."
    labyrinth(theirs, e)
    e['way'] = -1
    ring, n = {tuple(map(int, e['goal']))}, 0
    while ring:
        for cell in ring:
            e['way'][cell] = n
        ring = {cell for cell in beside(ring, e['grid'].shape) if e['grid'][cell] != 1 and e['way'][cell] < 0}
        n += 1


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
# compared with its defects as they were: a state that is mended, a first observation of positions, the moved view
LEGACY = {'HigherLower', 'Concentration', 'VelocityOnlyCartPole', 'LabyrinthExplore', 'LabyrinthEscape'}
