"""How popgym's poles and pendulums are put into the same moment as ours, noise included."""

import numpy as np
from gymnasium.utils import seeding

from srlviz.envs.kernels import native, random_float, random_normal

_known = {}
_float, _normal = (native(f, {}, _known) for f in (random_float, random_normal))


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
    "`same`, then their noise: on reset as they drew it after the state's `n` numbers, later as our record draws it."

    def inject(theirs, e):
        same(theirs, e)
        theirs._np_random, draws = seeding.np_random(theirs.np_random_seed)[0], OurDraws(e)
        theirs._np_random.uniform(size=n)
        e['obs'] = theirs.add_noise_to_obs(np.array(e['obs']))
        theirs._np_random = draws

    return inject


INJECT = dict(
    PositionOnlyCartPole=pole,
    VelocityOnlyCartPole=pole,
    NoisyPositionOnlyCartPole=noisy(pole, 4),
    PositionOnlyPendulum=pendulum,
    NoisyPositionOnlyPendulum=noisy(pendulum, 2),
)
LEGACY = {'VelocityOnlyCartPole'}  # its first observation holds positions
