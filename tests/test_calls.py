"""Test wrong calls: each is refused at the door, in one sentence that names the argument and what came."""

import numpy as np
import pandas as pd
import pytest, torch

import srlviz
from srlviz import Episode, Factor, ProbeCallback, Recording
from srlviz.data.importers import load_csv
from srlviz.evaluate.probe import linear_probe
from srlviz.evaluate.questions.probe import LinearProbe
from srlviz.evaluate.questions.regression import Regression
from srlviz.widgets.workbench import Workbench

X = np.zeros((4, 2), np.float32)


@pytest.fixture(scope='module')
def recording():
    "Twelve episodes of noise with a factor of two classes"
    rng = np.random.default_rng(0)
    x = [rng.normal(size=(30, 3)).astype(np.float32) for _ in range(12)]
    episodes = [Episode({'x': rows}, factors={'up': rows[:, 0] > 0}) for rows in x]
    return Recording(episodes, 'noise', factors=[Factor('up')]).with_split(probe=0.6, valid=0.2, test=0.2)


def codes(recording, **change):
    "Codes by split, of which some are others"
    found, factors = srlviz.align([e.obs['x'] for e in recording], recording)
    return {split: change.get(split, rows) for split, rows in found.items()}, factors


CALLS = {
    'Episode of an array': (lambda r: Episode(X), 'obs|observations'),
    'Episode of None': (lambda r: Episode(None), 'obs|observations'),
    'Recording of an array': (lambda r: Recording([X]), 'Episode'),
    'Recording of a number': (lambda r: Recording(3), 'episodes'),
    'align without codes': (lambda r: srlviz.align(None, r), 'codes'),
    'align without a recording': (lambda r: srlviz.align([X], None), 'recording'),
    'link of None': (lambda r: srlviz.link(None), 'explorer'),
    'ProbeCallback of None': (lambda r: ProbeCallback(None), 'recording'),
    'Workbench of a table': (lambda r: Workbench(pd.DataFrame({'a': [1]})), 'scores|score table|column'),
    'load_csv of nothing': (lambda r: load_csv([]), 'path'),
    'load of None': (lambda r: srlviz.load(None), 'path'),
    'scorecard of no rows': (lambda r: srlviz.scorecard(lambda x: x, worlds=[r], n=0), "n "),
    'text codes': (lambda r: LinearProbe().answer(*codes(r, test=np.array([['a']] * 60))), 'codes of split'),
    'another width': (lambda r: LinearProbe().answer(*codes(r, test=np.zeros((60, 2)))), 'columns'),
    'no codes': (lambda r: Regression().answer(*codes(r, test=np.zeros((60, 0)))), 'columns|codes'),
    'linear_probe of another width': (lambda r: linear_probe(*codes(r, test=np.zeros((60, 2)))), 'columns'),
    'three dimensions': (lambda r: LinearProbe().answer(*codes(r, test=np.zeros((60, 2, 2)))), 'N, n_codes'),
    'complex codes': (lambda r: LinearProbe().answer(*codes(r, test=np.zeros((60, 3), complex))), 'real numbers'),
    'a network for codes': (lambda r: LinearProbe().ask(torch.nn.Linear(3, 2), r), 'as_encoder'),
    'a path for a recording': (lambda r: LinearProbe().ask([X], 'm.csv'), 'srlviz.load'),
    'None for a recording': (lambda r: LinearProbe().ask([X], None), 'is a Recording, got NoneType'),
    'a seed of text': (lambda r: LinearProbe().ask([e.obs['x'] for e in r], r, seed='a'), 'seed'),
    'a kind that is none': (lambda r: LinearProbe().answer(*codes(r), kinds={'up': 'colour'}), 'kind'),
    'an unknown question': (lambda r: srlviz.scorecard(lambda x: x, worlds=[r], questions=['nope']), 'nope'),
    'probe of a number': (lambda r: srlviz.probe(3, r), 'encoder|network|net'),
    'probe of data None': (lambda r: srlviz.probe(torch.nn.Linear(3, 2), None), 'data|game'),
    'explore of a number': (lambda r: srlviz.explore(3), 'explore'),
    'merge_cards of nothing': (lambda r: srlviz.merge_cards(), 'card'),
    'merge_scores of None': (lambda r: srlviz.merge_scores(None), 'table'),
    'record of None': (lambda r: srlviz.record(None), 'world|environment|name'),
    'sample of a number': (lambda r: srlviz.sample(3), 'sample|world'),
    'qedr of arrays': (lambda r: srlviz.qedr(X, X), 'split'),
    'check of None': (lambda r: srlviz.check(None), 'protocol'),
}


@pytest.mark.parametrize('call', CALLS)
def test_a_wrong_call_is_refused_in_one_sentence(call, recording):
    make, words = CALLS[call]
    with pytest.raises((ValueError, TypeError), match=words) as error:
        make(recording)
    message = str(error.value)
    assert '\n' not in message.strip() and len(message) < 2000  # of which most is a list of choices


def test_a_workbench_with_too_few_codes_is_refused(recording):
    result = srlviz.probe(lambda x: x, recording, epochs=1, progress=False)
    with pytest.raises(ValueError, match='codes'):
        result.workbench(codes={'net': result.codes['net'][:3]})
