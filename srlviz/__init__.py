"""Does this vector know the state of the world? A Jupyter-first kit for evaluating learned state representations.

srlviz.probe(net, game='pong')                             # what a network of yours knows of the game's state
from srlviz.data.atari import record_atari                  # play a game, keep frames and labelled RAM
from srlviz.core.recordings import load_recording, align    # recordings on disk; codes beside factors
from srlviz.encoders.frames.contrast import STDIM                  # encoders: srlviz.core.protocols.catalog('encoders')
from srlviz.evaluate.probe import linear_probe              # what a linear classifier reads off the codes
from srlviz.widgets.frames import FrameBrowser              # pictures to touch: also srlviz.widgets.probe.ProbeHeatmap

The rooms of the package follow the flow of data: core, envs, data, encoders, evaluate, figures, widgets, studies.
"""

import importlib

__version__ = "0.1.0"


def __getattr__(name):
    if name == 'probe':  # brings torch, so not before it is asked for
        return importlib.import_module('srlviz.studies.quick').probe
    raise AttributeError(f"module 'srlviz' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), 'probe'])
