"""Measures of memories beyond the return, on the agents and the returns that ship."""

import pytest

from srlviz.agents.player import left_agents
from srlviz.core.files import sample_path
from srlviz.core.scores import load_scores
from srlviz.data.popgym import record_pomdp
from srlviz.evaluate.memories.memory_use import credit_scores, gap_closed, recall_density

AGENTS = left_agents('shipped')


@pytest.mark.parametrize(
    'key', [('RepeatFirst-easy', 'GRU'), ('RepeatPrevious-easy', 'GRU'), ('RepeatPrevious-easy', 'Elman')]
)
def test_an_exchange_finds_the_card_that_decides(key):
    "These agents answer right, so what moves them is known; the gradient of a saturated policy does not find it"
    recording = record_pomdp(key[0], 2, AGENTS[key], seed=1, flat=True, progress=False)
    share = {by: credit_scores(AGENTS[key], recording, key[0], by=by) for by in ('exchange', 'gradient')}
    share = {by: table.set_index('of').loc['policy', 'share'] for by, table in share.items()}
    assert share['exchange'] > 0.9 and share['gradient'] < 0.7, share


def test_recall_density_is_a_share_of_each_observation():
    agent = AGENTS['RepeatPrevious-easy', 'GRU']
    episode = record_pomdp('RepeatPrevious-easy', 1, agent, seed=1, flat=True, progress=False)[0]
    density = recall_density(agent, episode)
    assert density.shape == (len(episode),) and (density >= 0).all() and density.sum() == pytest.approx(1)


def test_gaps_of_the_returns_that_ship():
    "A memory wins what sight is worth, or sight is worth nothing, or nobody used it: no row is without a reason"
    gaps = gap_closed(load_scores(sample_path('popgym_mmer.csv')))
    gru = gaps[gaps['method'] == 'GRU'].set_index('task')
    assert (gru['twin'] == 'GRU').all() and (gru['closed'].isna() == (gru['said'] != '')).all()
    assert gru.loc['RepeatPrevious-easy', 'closed'] > 0.9
    assert 'sight not used' in gru.loc['Autoencode-easy', 'said'] and gru.loc[
        'Autoencode-easy', 'oracle'
    ] == pytest.approx(1)
