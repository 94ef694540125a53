"""Measures of memory beyond the return, on the shipped agents and returns."""

from pathlib import Path

import pytest

from srlviz.agents.player import load_agents
from srlviz.core.files import sample_path
from srlviz.core.names import catalog
from srlviz.core.scores import load_scores
from srlviz.data.popgym import record_pomdp
from srlviz.evaluate.memories.memory_use import credit_scores, gap_closed, memory_bias, recall_density

AGENTS = load_agents('shipped')


@pytest.mark.parametrize(
    'key', [('RepeatFirst-easy', 'GRU'), ('RepeatPrevious-easy', 'GRU'), ('RepeatPrevious-easy', 'Elman')]
)
def test_credit_by_exchange_finds_the_deciding_card(key):
    "These agents answer correctly, so their deciding card is known; the gradient of a saturated policy misses it"
    recording = record_pomdp(key[0], 2, AGENTS[key], seed=1, flat=True, progress=False)
    shares = {}
    for by in 'exchange', 'gradient':
        table = credit_scores(AGENTS[key], recording, key[0], by=by)
        shares[by] = table.set_index('of').loc['policy', 'share']
    assert shares['exchange'] > 0.9 and shares['gradient'] < 0.7, shares


def test_recall_density_is_a_distribution_over_observations():
    agent = AGENTS['RepeatPrevious-easy', 'GRU']
    episode = record_pomdp('RepeatPrevious-easy', 1, agent, seed=1, flat=True, progress=False)[0]
    density = recall_density(agent, episode)
    assert density.shape == (len(episode),) and (density >= 0).all() and density.sum() == pytest.approx(1)


def test_gaps_of_shipped_returns_have_a_value_or_a_reason():
    "Full observability may gain nothing, or no agent may use it: then the reason says so"
    gaps = gap_closed(load_scores(sample_path('popgym_mmer.csv')))
    gru = gaps[gaps['method'] == 'GRU'].set_index('task')
    assert (gru['twin'] == 'GRU').all() and (gru['closed'].isna() == (gru['reason'] != '')).all()
    assert gru.loc['RepeatPrevious-easy', 'closed'] > 0.9
    assert 'sight not used' in gru.loc['Autoencode-easy', 'reason']
    assert gru.loc['Autoencode-easy', 'oracle'] == pytest.approx(1)
    assert 'sight not learned' in gru.loc['CountRecall-easy', 'reason']
    recall = gru.loc['CountRecall-easy']
    assert 0.35 < recall['of_oracle'] < 0.5 and recall['of_oracle'] == pytest.approx(
        (recall['value'] - recall['blind']) / (recall['oracle'] - recall['blind'])
    )


def test_missing_memory_biases_of_shipped_returns_name_the_missing_runs():
    "A bias is known where both agents observed the hidden state; every other row names the agents without such a run"
    table = load_scores(sample_path('popgym_mmer.csv'))
    observed = {(r.task, r.method) for r in table.query("metric == 'mmer' and inputs == 'state'").itertuples()}
    bias = memory_bias(table)
    assert (bias['bias'].isna() == (bias['missing'] != '')).all() and len(bias) >= 75
    for row in bias.itertuples():
        missing = [m for m in dict.fromkeys([row.method, 'MLP']) if (row.task, m) not in observed]
        assert row.missing == ', '.join(missing), row


def test_the_fully_observable_mlp_is_trained_before_more_seeds(monkeypatch, tmp_path):
    "Memory bias needs it: after the easy tasks of every memory, before seeds 1 and 2"
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / 'benchmarks')
    import measure_tables

    parts = {part.name: part.cells for part in measure_tables.all_parts(tmp_path, ['mmer'])}
    names = [*parts]
    assert parts['easy tasks, seed 0'] == 15 * len(catalog('memories'))
    assert parts['easy tasks, sighted, seed 0'] == 30
    sighted = names.index('easy tasks, sighted, seed 0')
    assert names.index('easy tasks, seed 0') < sighted < names.index('easy tasks, seeds 1 and 2, five')
