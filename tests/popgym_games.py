"""How popgym's bandits, battleships and minesweepers are put into the same moment as ours."""

from popgym_control import OurDraws


def bandit(theirs, e):
    e['odds'], e['obs'] = theirs.bandits, 0
    theirs._np_random = OurDraws(e)


def battleship(theirs, e):
    e['ships'], e['shots'], e['left'], e['obs'] = (
        theirs.board,
        theirs.guesses,
        theirs.needed_hits - theirs.hits,
        theirs.last_obs,
    )


def minesweeper(theirs, e):
    e['hidden'], e['around'], e['obs'] = theirs.hidden_grid, theirs.neighbor_grid, 0
    e['left'] = (theirs.hidden_grid == 0).sum()


INJECT = dict(MultiarmedBandit=bandit, Battleship=battleship, MineSweeper=minesweeper)
LEGACY = set()
