"""Worlds whose state is known. Importing this package registers the partially observable tasks with Gymnasium.

`import srlviz.envs; gymnasium.make('srlviz/RepeatPrevious-hard-v0')`
"""

from srlviz.envs import pomdp  # noqa: F401 - each class of it registers itself
