"""Does this vector know the state of the world? A Jupyter-first kit for evaluating learned state representations.

srlviz.probe(net, game='pong')                             # what a network of yours knows of the game's state
srlviz.record('pong', 2000)                                # play a game, keep frames and labelled RAM; any of catalog('worlds')
from srlviz.core.recordings import load_recording, align    # recordings on disk; codes beside factors
from srlviz.encoders.frames.contrast import STDIM                  # encoders: srlviz.core.protocols.catalog('encoders')
from srlviz.evaluate.probe import linear_probe              # what a linear classifier reads off the codes
from srlviz.widgets.frames import FrameBrowser              # pictures to touch: also srlviz.widgets.probe.ProbeHeatmap

The rooms of the package follow the flow of data: core, envs, data, encoders, evaluate, figures, widgets, studies.
"""

import importlib

__version__ = "0.1.0"


# name -> module; they bring torch, or an emulator, so not before they are asked for
_FRONT_DOOR = {
    'probe': 'srlviz.studies.quick',
    'record': 'srlviz.data.worlds.record',
    'sample': 'srlviz.data.worlds.record',
}


def __getattr__(name):
    if name in _FRONT_DOOR:
        return getattr(importlib.import_module(_FRONT_DOOR[name]), name)
    raise AttributeError(f"module 'srlviz' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_FRONT_DOOR])
