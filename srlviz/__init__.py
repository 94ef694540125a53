"""Does this vector know the state of the world? A Jupyter-first kit for evaluating learned state representations.

recording = srlviz.record('pong', 2000)         # play a game; keep frames and labelled RAM; any of catalog('worlds')
knows = srlviz.probe(net, recording)            # which state variables can be read off the codes of your network?
card = srlviz.scorecard(net)                    # all questions about it, beside reference rows, with intervals
results = srlviz.ask(encoders, recordings)      # any questions about any representations in any recordings
srlviz.explore(knows)                           # widgets for results, a recording, encoder, memory, agent, scores, name
srlviz.save_figure(knows, 'knows.pdf')          # a figure for a paper; results.to_latex() is its table
srlviz.load(path)                               # whatever the kit wrote
srlviz.check(encoder)                           # does it follow the rules of its protocol?

The packages follow the flow of data: core, envs, data, encoders, memories, agents, evaluate, figures, widgets, studies.
"""

import importlib

__version__ = "0.3.0"


# name -> module; imported on first use, because some need torch or an emulator
_FRONT_DOOR = {
    'Episode': 'core.recordings',
    'Factor': 'core.recordings',
    'ProbeCallback': 'studies.probe_callback',
    'Recording': 'core.recordings',
    'Results': 'core.results',
    'align': 'core.recordings',
    'ask': 'evaluate.ask',
    'catalog': 'core.names',
    'check': 'core.protocols',
    'explore': 'studies.explore',
    'join_results': 'studies.matrix.scorecard',
    'link': 'widgets.base',
    'load': 'studies.load',
    'merge_scores': 'core.scores',
    'paper_scores': 'core.scores',
    'probe': 'studies.quick',
    'qedr': 'evaluate.qedr',
    'record': 'data.worlds.record',
    'sample': 'data.worlds.record',
    'save_figure': 'figures.paper',
    'scorecard': 'studies.matrix.scorecard',
    'sweep': 'studies.sweep',
    'twins': 'data.worlds.record',
}


def __getattr__(name):
    if name == 'course':
        return importlib.import_module('srlviz.studies.course')
    if name in _FRONT_DOOR:
        return getattr(importlib.import_module(f'srlviz.{_FRONT_DOOR[name]}'), name)
    raise AttributeError(f"module 'srlviz' has no attribute {name!r}")


def __dir__():
    return sorted([*globals(), *_FRONT_DOOR, 'course'])
