"""The scores that come with the package: complete, consistent with their notes and with the labels, and reachable from what is installed."""

import json

import numpy as np

from srlviz.core.scores import SCORE_COLUMNS, load_scores
from srlviz.core.files import sample_path
from srlviz.envs.atari import GAMES, annotations
from srlviz.evaluate.probe import with_category_means

SCORES, NOTES = load_scores(sample_path('atari_scores.csv')), json.loads(sample_path('atari_scores.json').read_text())
EVERYWHERE = {'majority', 'random_cnn', 'random_cnn · standardized', 'st_dim', 'st_dim · standardized'}


def test_all_games_and_methods_are_there():
    assert set(SCORES['source']) == {'srlviz'} and set(NOTES['games']) == set(GAMES) == set(SCORES['task']) - {'all'}
    for game, rows in SCORES[SCORES['task'] != 'all'].groupby('task'):
        assert EVERYWHERE <= set(rows['method']) and {m.split(' · ')[0] for m in rows['method']} == set(
            NOTES['games'][game]['methods']
        )
    assert SCORES['value'].between(0, 1).all() and set(SCORES['metric']) == {'f1', 'accuracy', 'f1_macro'}


def test_the_variables_are_those_that_the_notes_kept():
    labels = annotations().set_index(['game', 'variable'])['category']
    for game, rows in SCORES[(SCORES['task'] != 'all') & (SCORES['target'] != 'mean')].groupby('task'):
        about = NOTES['games'][game]
        assert all(set(of['target']) == set(about['kept']) for _, of in rows.groupby(['method', 'metric']))
        assert all((about['entropy'][v] >= 0.6) == (v in about['kept']) for v in about['entropy'])
        assert all(labels[game, r.target] == r.group for r in rows.drop_duplicates('target').itertuples())


def test_means_are_the_means_of_what_is_there():
    keys = [c for c in SCORE_COLUMNS if c != 'value']
    again = with_category_means(SCORES[SCORES['target'] != 'mean']).set_index(keys)['value']
    theirs = SCORES[SCORES['task'] != 'all'].set_index(keys)['value']
    assert set(again.index) == set(theirs.index) and np.allclose(
        again, theirs.reindex(again.index), atol=2e-4
    )  # rounded to four digits
