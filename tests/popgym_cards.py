"""How a moment of popgym's card games is put into a record of ours."""

import numpy as np


def dealt(deck, kinds):
    "Kinds of the cards of a popgym deck, in the order in which it deals: from the end."
    return kinds[deck.idx[::-1]]


def repeat_first(theirs, e):
    e['deck'] = dealt(theirs.deck, theirs.deck.suits_idx)
    e['obs'] = e['deck'][0]


def autoencode(theirs, e):
    e['deck'] = dealt(theirs.deck, theirs.deck.suits_idx)
    e['obs'] = 1, e['deck'][0]


def count_recall(theirs, e):
    e['deck'], e['queries'] = (
        dealt(theirs.value_deck, theirs.deck_idx_type),
        dealt(theirs.query_deck, theirs.deck_idx_type),
    )
    e['counts'] = np.arange(e['counts'].size) == e['deck'][0]
    e['obs'] = e['deck'][0], e['queries'][0]


def higher_lower(theirs, e):
    e['deck'] = dealt(theirs.deck, theirs.deck.ranks_idx)
    e['obs'] = e['deck'][0]


def concentration(theirs, e):
    e['deck'] = theirs.deck_idx_type[theirs.deck.idx]  # by place on the table, not by turn


INJECT = dict(
    RepeatFirst=repeat_first,
    RepeatPrevious=repeat_first,
    Autoencode=autoencode,
    CountRecall=count_recall,
    HigherLower=higher_lower,
    Concentration=concentration,
)
LEGACY = {'HigherLower', 'Concentration'}  # whose get_state is mended
