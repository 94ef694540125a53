"""One approach of an airliner, flown by JSBSim with our avionics, not X-Plane: `fly(seed)`."""

from srlviz.envs.landing.episode import CORNERS, FACTORS, TOUCHDOWN, fly, to_episode, truth  # noqa: F401
