"""The fifteen partially observable tasks of popgym, and one of our own; each class registers itself with Gymnasium."""

from srlviz.envs.pomdp import boards, cards, control, mazes  # noqa: F401
