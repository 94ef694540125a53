"How the mazes of popgym are put into records of ours; see tests/test_popgym.py."


def labyrinth(theirs, e):
    "The moment after reset: the maze, the agent at its start."
    e['grid'], e['seen'] = theirs.maze.grid, theirs.explored
    e['start'], e['goal'] = theirs.maze.start, theirs.maze.end
    e['y'], e['x'] = theirs.position
    e['obs'] = theirs.get_obs(4)


def explore(theirs, e):
    labyrinth(theirs, e)
    e['left'] = (e['grid'] == 0).sum()
    e['gain'] = 1 / e['left']


def escape(theirs, e):
    labyrinth(theirs, e)
    e['way'] = -1
    ring, n = {tuple(map(int, e['goal']))}, 0
    while ring:
        for cell in ring:
            e['way'][cell] = n
        beside = {(y + dy, x + dx) for y, x in ring for dy, dx in ((0, 1), (0, -1), (1, 0), (-1, 0))}
        ring = {
            (y, x)
            for y, x in beside
            if 0 <= y < e['grid'].shape[0]
            and 0 <= x < e['grid'].shape[1]
            and e['grid'][y, x] != 1
            and e['way'][y, x] < 0
        }
        n += 1


INJECT = dict(LabyrinthExplore=explore, LabyrinthEscape=escape)
LEGACY = set(INJECT)
