"""One approach of an airliner, flown by JSBSim with our avionics, not X-Plane: `fly(seed)`."""

from pathlib import Path

from srlviz.envs.landing.episode import CORNERS, FACTORS, TOUCHDOWN, fly, to_episode, truth  # noqa: F401


def world_files() -> tuple[Path, ...]:
    """Give the files of code that decide what a flight is: all modules of this package, by name."""
    return tuple(sorted(p for p in Path(__file__).parent.glob('*.py') if p.name != '__init__.py'))
