"""Worlds whose state is known. Importing this package registers the partially observable tasks with Gymnasium: `gymnasium.make('srlviz/RepeatPrevious-hard-v0')`."""

from srlviz.envs import cards, control, games, mazes  # noqa: F401 - each class registers itself
