"""The five targets, from a set of flights to scores: what the rooms data, core and evaluate say together."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from srlviz.core.views.columns import distinct_columns
from srlviz.core.files import sample_path
from srlviz.core.scores import check_scores, load_scores, merge_scores, paper_scores
from srlviz.data.landing import flight_columns, read_flights
from srlviz.data.landing.tiers import INPUTS, knowable, quiet_sensors
from srlviz.envs.landing.approach import FAILURES
from srlviz.evaluate.targets import TIME, TargetScores, landing_targets, score_targets
from srlviz.figures.landing.targets import plot_target_ranking, target_grid

SPLIT = ['fit', 'test', 'fit', 'valid', 'probe', 'probe', 'fit', 'probe', 'fit', 'valid', 'test', 'probe']


@pytest.fixture(scope='module')
def flights():
    return read_flights(sample_path('landings')).replace(split=SPLIT)


@pytest.fixture(scope='module')
def targets(flights):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # in four flights most failures do not happen
        return landing_targets(flights, 25, protocol='paper', progress=False)


def score(*args, **how):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return score_targets(*args, **dict(progress=False) | how)


def misplaced(targets, flights):
    "Windows whose row of the table, or row behind, is not that of the flight and place that it names"
    wrong = []
    for i, row in targets.table.iterrows():
        whole, rows = flights[row['episode']], slice(row['start'], row['start'] + 25)
        wind = whole.factors['wind_speed_kt'][rows].mean(dtype=float)
        behind = np.delete(whole.obs['sensors'][rows.stop], flights.meta['columns'].index(TIME))
        same = np.isclose(row['wind'], wind) and (targets.next_state[i] == behind).all() and row['flight'] == whole.name
        same &= (targets.windows[i].obs['sensors'] == whole.obs['sensors'][rows]).all()
        if not same or row['split'] != flights.split[row['episode']]:
            wrong.append(i)
    return wrong


def test_every_row_of_the_table_is_of_its_window(targets, flights):
    assert misplaced(targets, flights) == [] and len(targets) > 60


def test_a_table_that_is_one_window_off_is_found(targets, flights):
    shifted = targets.table.assign(wind=np.roll(targets.table['wind'], 1))
    assert len(misplaced(replace(targets, table=shifted), flights)) > 60
    assert len(misplaced(replace(targets, next_state=targets.last_state), flights)) > 60


def test_windows_do_not_overlap_and_none_is_lost(targets, flights):
    for i, own in targets.table.groupby('episode'):
        assert own['start'].tolist() == list(range(0, flights.lengths[i] - 25, 25))
    assert set(targets.table['episode']) == set(np.flatnonzero(np.array(SPLIT) != 'fit'))
    unused = targets.dropped['rows at the ends of episodes']
    assert unused == sum(n - 25 * ((n - 1) // 25) for n in flights.lengths)


def test_the_outputs_are_those_of_the_paper(targets):
    sizes = {k: len(v) for k, v in targets.names.items() if k != 'fail'}
    assert sizes == dict(wind=1, turb=3, land=3, auto=1089)
    lost = sum(n for words, n in targets.dropped.items() if words.startswith('outputs of fail'))
    assert len(targets.names['fail']) + lost == len(FAILURES) == 12 and lost > 0


def test_nothing_but_the_split_fit_gives_the_scale(targets, flights):
    rng = np.random.default_rng(0)

    def strange(e):
        sensors = e.obs['sensors'] + rng.standard_normal(1090).astype(np.float32)
        return e.replace(
            obs=dict(sensors=sensors), factors=dict(e.factors) | dict(wind_speed_kt=e.factors['wind_speed_kt'] * 9)
        )

    episodes = [
        e.replace(obs=dict(sensors=e.obs['sensors'])) if s == 'fit' else strange(e) for e, s in zip(flights, SPLIT)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        other = landing_targets(flights.replace(episodes=episodes), 25, protocol='paper', progress=False)
    for k in targets.names:
        assert np.array_equal(other.mean[k], targets.mean[k]) and np.array_equal(other.std[k], targets.std[k])
    assert not np.isclose(other.table['wind'], targets.table['wind']).any()


def perfect(targets):
    return np.concatenate([targets.truth(k) for k in ('wind', 'turb', 'land', 'fail')], 1)


def test_a_code_that_holds_the_truth_has_no_error_and_noise_has_that_of_the_mean(targets):
    for k in ('wind', 'turb', 'land'):
        knows = score(targets.truth(k), targets, 'linear').mse().set_index('target').loc[k]
        assert knows['mse'] < 0.02 * knows['mean'], k
    noise = np.random.default_rng(0).standard_normal((len(targets), 4))
    blind = score(noise, targets, 'linear').mse().set_index('target')
    assert (blind.loc[['wind', 'turb', 'land'], 'gain'] < 0.2).all()


def test_a_truth_that_is_shuffled_is_not_known(targets):
    order = np.random.default_rng(1).permutation(len(targets))
    shuffled = score(perfect(targets)[order], targets, 'linear').mse().set_index('target')
    assert (shuffled.loc[['wind', 'turb'], 'gain'] < 0.3).all()


@pytest.mark.parametrize('head', ['linear', 'knn', 'mean'])
def test_the_order_of_windows_makes_no_difference(targets, head):
    order = np.random.default_rng(1).permutation(len(targets))
    rows = {k: getattr(targets, k)[order] for k in ('next_state', 'last_state')}
    turned = replace(
        targets, table=targets.table.iloc[order].reset_index(drop=True), windows=targets.windows[order], **rows
    )
    codes = perfect(targets)
    a, b = score(codes, targets, head).mse(), score(codes[order], turned, head).mse()
    pd.testing.assert_frame_equal(a, b, rtol=1e-4)


def test_a_code_a_step_is_averaged(targets):
    steps = [e.obs['sensors'][:, 600:640] for e in targets.windows]
    means = np.stack([x.mean(0, dtype=float) for x in steps])
    pd.testing.assert_frame_equal(score(steps, targets, 'linear').mse(), score(means, targets, 'linear').mse())


def test_the_three_layers_say_the_same_twice_and_are_read_again(targets, tmp_path):
    codes = perfect(targets)
    a, b = (score(codes, targets, epochs=1, device='cpu') for _ in 'ab')
    assert all(np.array_equal(a.pair(k)[1], b.pair(k)[1]) for k in targets.names)
    assert a.protocol == 'mlp' and score(codes, targets, 'linear', select='xeval').protocol == 'linear xeval'
    kept = TargetScores.load(a.save(tmp_path / 'scores.npz', states=False))
    assert kept.scores(method='x').equals(a.scores(method='x')) and kept.pair('auto') is None
    assert (kept.compare(a)[['difference', 'low', 'high']] == 0).all(axis=None)


def test_rows_stand_beside_those_of_the_paper(targets):
    rows = score(perfect(targets), targets, 'mean').scores(method='mean_baseline', protocol='')
    both = merge_scores(rows, paper_scores('landing').query('method == "mean_baseline"'))
    table = both[both['group'].isin(['targets', 'all']) & (both['metric'] == 'mse')].pivot(
        index='target', columns='source', values='value'
    )
    assert table.notna().all(axis=None) and set(table.index) == {*targets.names, 'overall'}
    assert len(check_scores(rows)) == len(rows)


def test_rows_of_training_change_no_table():
    "How an encoder was trained is no score of it: grids, rankings, comparisons, menus and dashboards are as without"
    from srlviz.studies.explore import explore
    from srlviz.studies.papers.landing import target_cells
    from srlviz.studies.papers.qedr import qedr_columns

    scores = load_scores(sample_path('landing_benchmark.csv'))
    scores = merge_scores(scores[scores['inputs'].isin(['sensors', '']) & (scores['data'] == '2000 flights')])
    encoders = scores[scores['metric'] == 'seconds_per_flight']
    training = dict(target='encoder', group='training')
    summary = dict(epochs=40, best_epoch=40, converged=0, valid_share=0.4, seconds_per_epoch=9)
    rows = [encoders.assign(**training, metric=k, value=float(v)) for k, v in summary.items()]
    both = merge_scores(scores, check_scores(pd.concat(rows, ignore_index=True)))
    assert len(both) == len(scores) + 5 * len(encoders)
    for make in (
        lambda s: target_grid(s).value,
        lambda s: target_grid(s, metric='auroc', group='failures').value,
        lambda s: target_cells(s, 'srlviz', 'mlp'),
        qedr_columns,
        lambda s: pd.Series(plot_target_ranking(s, 'wind').layout.yaxis.ticktext),
    ):
        assert make(both).equals(make(scores))
    plain, marked = explore(scores), explore(both)
    assert type(plain) is type(marked)
    for name in ('metrics', 'groups', 'targets', 'heads', 'inputs', 'widths', 'sources'):
        assert getattr(plain.table, name) == getattr(marked.table, name), name
    assert '†' in marked.figure().layout.title.text and '†' not in plain.figure().layout.title.text


def test_quiet_sensors_answer_the_same_questions(targets, flights):
    quiet = quiet_sensors(targets.windows)
    assert len(quiet) == len(targets) and quiet[0].obs['sensors'].shape == (25, 923)
    assert 'annunciators' not in set(flight_columns(quiet_sensors(flights))['group'])
    codes = [e.obs['sensors'][:, ::40] for e in quiet]
    both = score(codes, targets, 'linear'), score(perfect(targets), targets, 'linear')
    assert set(targets.names) <= set(both[0].compare(both[1])['target'])
    assert len(distinct_columns(quiet_sensors(flights))) < len(distinct_columns(flights))


def test_a_set_without_a_touchdown_says_so(flights):
    crashed = [
        e.replace(
            obs=dict(sensors=e.obs['sensors']),
            factors={k: np.float32(np.nan) if k.startswith('touchdown') else v for k, v in e.factors.items()},
        )
        for e in flights
    ]
    with warnings.catch_warnings(), pytest.raises(ValueError, match='land'):
        warnings.simplefilter('ignore')
        landing_targets(flights.replace(episodes=crashed), 25, progress=False)


def test_a_set_that_lost_its_sensors_or_a_factor_says_so(flights):
    blind = [e.replace(obs=dict(vector=np.zeros((len(e), 1)))) for e in flights]
    with warnings.catch_warnings(), pytest.raises(ValueError, match='sensors'):
        warnings.simplefilter('ignore')
        landing_targets(flights.replace(episodes=blind), 25, progress=False)
    with pytest.raises(ValueError, match='turbulence'):
        landing_targets(flights.replace(factors=[f for f in flights.factors if f.name != 'turbulence']), 25)


@pytest.mark.parametrize('inputs', INPUTS)
def test_each_failure_has_a_word_for_each_input(inputs):
    table = knowable(inputs)
    assert table['failure'].tolist() == list(FAILURES) and (table['by'] != '').all()
