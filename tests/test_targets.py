"""The five targets of the landing paper, from flights to scores, across the packages data, core and evaluate."""

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
from srlviz.figures.landing.target_errors import plot_target_ranking, target_grid

SPLIT = ['fit', 'test', 'fit', 'valid', 'probe', 'probe', 'fit', 'probe', 'fit', 'valid', 'test', 'probe']


@pytest.fixture(scope='module')
def flights():
    return read_flights(sample_path('landings')).replace(split=SPLIT)


@pytest.fixture(scope='module')
def targets(flights):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # most failures do not occur in four flights
        return landing_targets(flights, 25, protocol='paper', progress=False)


def score(*args, **options):
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        return score_targets(*args, progress=False, **options)


def misplaced(targets, flights):
    "Windows whose row of the table, or next state, is not that of the flight and rows that it names"
    wrong = []
    for i, row in targets.table.iterrows():
        flight = flights[row['episode']]
        rows = slice(row['start'], row['start'] + 25)
        wind = flight.factors['wind_speed_kt'][rows].mean(dtype=float)
        next_state = np.delete(flight.obs['sensors'][rows.stop], flights.meta['columns'].index(TIME))
        same = np.isclose(row['wind'], wind) and (targets.next_state[i] == next_state).all()
        same = same and row['flight'] == flight.name
        same &= (targets.windows[i].obs['sensors'] == flight.obs['sensors'][rows]).all()
        if not same or row['split'] != flights.split[row['episode']]:
            wrong.append(i)
    return wrong


def test_every_row_of_the_table_describes_its_window(targets, flights):
    assert misplaced(targets, flights) == [] and len(targets) > 60


def test_a_table_shifted_by_one_window_is_detected(targets, flights):
    shifted = targets.table.assign(wind=np.roll(targets.table['wind'], 1))
    assert len(misplaced(replace(targets, table=shifted), flights)) > 60
    assert len(misplaced(replace(targets, next_state=targets.last_state), flights)) > 60


def test_windows_do_not_overlap_and_none_is_lost(targets, flights):
    for i, rows in targets.table.groupby('episode'):
        assert rows['start'].tolist() == list(range(0, flights.lengths[i] - 25, 25))
    assert set(targets.table['episode']) == set(np.flatnonzero(np.array(SPLIT) != 'fit'))
    unused = targets.dropped['rows at the ends of episodes']
    assert unused == sum(n - 25 * ((n - 1) // 25) for n in flights.lengths)


def test_the_outputs_are_those_of_the_paper(targets):
    sizes = {k: len(v) for k, v in targets.names.items() if k != 'fail'}
    assert sizes == dict(wind=1, turb=3, land=3, auto=1089)
    lost = sum(n for words, n in targets.dropped.items() if words.startswith('outputs of fail'))
    assert len(targets.names['fail']) + lost == len(FAILURES) == 12 and lost > 0


def test_the_scale_depends_on_the_split_fit_only(targets, flights):
    rng = np.random.default_rng(0)

    def changed(e):
        sensors = e.obs['sensors'] + rng.standard_normal(1090).astype(np.float32)
        factors = dict(e.factors)
        factors['wind_speed_kt'] = e.factors['wind_speed_kt'] * 9
        return e.replace(obs=dict(sensors=sensors), factors=factors)

    episodes = [
        e.replace(obs=dict(sensors=e.obs['sensors'])) if s == 'fit' else changed(e) for e, s in zip(flights, SPLIT)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter('ignore')
        other = landing_targets(flights.replace(episodes=episodes), 25, protocol='paper', progress=False)
    for k in targets.names:
        assert np.array_equal(other.mean[k], targets.mean[k]) and np.array_equal(other.std[k], targets.std[k])
    assert not np.isclose(other.table['wind'], targets.table['wind']).any()


def perfect_codes(targets):
    "Codes that are the true values of the targets"
    return np.concatenate([targets.truth(k) for k in ('wind', 'turb', 'land', 'fail')], 1)


def test_perfect_codes_have_no_error_and_noise_has_that_of_the_mean(targets):
    for k in ('wind', 'land'):
        errors = score(targets.truth(k), targets, 'linear').mse().set_index('target').loc[k]
        assert errors['mse'] < 0.02 * errors['mean'], k
    noise = np.random.default_rng(0).standard_normal((len(targets), 4))
    noise_errors = score(noise, targets, 'linear').mse().set_index('target')
    assert (noise_errors.loc[['wind', 'land'], 'gain'] < 0.2).all()


def test_a_target_with_one_value_in_training_or_test_has_no_number_but_a_reason(targets):
    answer = score(perfect_codes(targets), targets, 'linear')  # neither test flight meets turbulence
    table = answer.mse().set_index('target')
    assert (
        table.loc['turb', ['mse', 'mean', 'gain']].isna().all() and table.loc['turb', 'reason'] == 'one value in test'
    )
    assert np.isnan(table.loc['overall', 'mse']) and 'turb' in table.loc['overall', 'reason']
    assert (
        table.loc['wind', 'reason'] == ''
        and answer.outputs.set_index('output').loc['turb_0', ['mse', 'r2']].isna().all()
    )
    assert 'turb - (one value in test)' in repr(answer)
    assert not {'turb', 'overall'} & set(answer.scores(method='x')['target'])
    assert np.isnan(answer.value('mse')) and 'mean' not in set(answer.interval()['target'])
    assert 'constant factor' in {w['kind'] for w in answer.about['warnings']}


def test_a_board_of_targets_shows_no_mean_of_errors_and_empty_rows_where_there_is_no_number(targets):
    from srlviz.studies.explore import explore

    board = explore(score(perfect_codes(targets), targets, 'linear'), interactive=False)
    board.metric = 'mse'
    figure = board.figure()
    assert not any('mean' in words.lower() for words in figure.layout.yaxis.ticktext)
    assert {'turb', 'overall', 'wind'} <= set(figure.layout.yaxis.ticktext)
    assert 'turb: no number, one value in test' in figure.to_json()
    board.metric = 'r2'  # a share of the variance, of which a mean is a number
    assert any('Mean' in words for words in board.figure().layout.yaxis.ticktext)


def test_the_table_of_encoders_has_an_empty_column_where_there_is_no_number(targets):
    from srlviz.widgets.landing.target_board import TargetTable

    answer = score(perfect_codes(targets), targets, 'linear')
    rows = answer.scores(method='pca', inputs='sensors', n_codes=64)
    table = TargetTable(rows, {('pca', 64, 'sensors'): answer}, interactive=True)
    figure = table.figure()
    assert {'turbulence', 'overall', 'wind'} <= set(figure.layout.xaxis.ticktext)
    assert 'turbulence: no number, one value in test' in figure.to_json()
    table.press(dict(data=['sensors', 'pca', 64, 'ours', 'turb']))
    assert table.target != 'turb'  # there is nothing to show


def test_shuffled_targets_are_not_predicted(targets):
    order = np.random.default_rng(1).permutation(len(targets))
    shuffled = score(perfect_codes(targets)[order], targets, 'linear').mse().set_index('target')
    assert shuffled.loc['wind', 'gain'] < 0.3


@pytest.mark.parametrize('head', ['linear', 'knn', 'mean'])
def test_scores_do_not_depend_on_the_order_of_windows(targets, head):
    order = np.random.default_rng(1).permutation(len(targets))
    rows = {k: getattr(targets, k)[order] for k in ('next_state', 'last_state')}
    reordered = replace(
        targets, table=targets.table.iloc[order].reset_index(drop=True), windows=targets.windows[order], **rows
    )
    codes = perfect_codes(targets)
    a, b = score(codes, targets, head).mse(), score(codes[order], reordered, head).mse()
    pd.testing.assert_frame_equal(a, b, rtol=1e-4)


def test_codes_of_steps_are_averaged(targets):
    steps = [e.obs['sensors'][:, 600:640] for e in targets.windows]
    means = np.stack([x.mean(0, dtype=float) for x in steps])
    pd.testing.assert_frame_equal(score(steps, targets, 'linear').mse(), score(means, targets, 'linear').mse())


def test_scores_of_three_layers_are_reproducible_and_saved(targets, tmp_path):
    codes = perfect_codes(targets)
    a, b = (score(codes, targets, epochs=1, device='cpu') for _ in 'ab')
    assert all(np.array_equal(a.pair(k)[1], b.pair(k)[1]) for k in targets.names)
    assert a.protocol == 'mlp' and score(codes, targets, 'linear', select='xeval').protocol == 'linear xeval'
    loaded = TargetScores.load(a.save(tmp_path / 'scores.npz', states=False))
    assert loaded.scores(method='x').equals(a.scores(method='x')) and loaded.pair('auto') is None
    compared = loaded.compare(a)
    assert (compared.loc[~compared['target'].isin([*a.unscored]), 'difference'] == 0).all()
    assert compared['n'].eq(2).all() and compared[['low', 'high']].isna().all(axis=None)  # two flights have no interval
    assert loaded.unscored == a.unscored and loaded.mse().equals(a.mse())


def test_scores_merge_with_those_of_the_paper(targets):
    rows = score(perfect_codes(targets), targets, 'mean').scores(method='mean_baseline', protocol='')
    both = merge_scores(rows, paper_scores('landing').query('method == "mean_baseline"'))
    table = both[both['group'].isin(['targets', 'all']) & (both['metric'] == 'mse')].pivot(
        index='target', columns='source', values='value'
    )
    assert set(table.index) == {*targets.names, 'overall'} and table['paper'].notna().all()
    assert set(table.index[table['srlviz'].isna()]) == {'turb', 'fail', 'overall'}  # one value in test
    assert len(check_scores(rows)) == len(rows)


def test_training_rows_change_no_table():
    "Grids, rankings, comparisons, menus and dashboards ignore the rows that describe the training of an encoder"
    from srlviz.studies.explore import explore
    from srlviz.studies.papers.landing import target_cells
    from srlviz.studies.papers.qedr_columns import qedr_columns

    scores = load_scores(sample_path('landing_benchmark.csv'))
    scores = merge_scores(scores[scores['inputs'].isin(['sensors', '']) & (scores['data'] == '2000 flights')])
    encoders = scores[scores['metric'] == 'seconds_per_flight']
    training = dict(target='encoder', group='training')
    summary = dict(epochs=40, best_epoch=40, converged=0, valid_share=0.4, seconds_per_epoch=9)
    rows = [encoders.assign(**training, metric=k, value=float(v)) for k, v in summary.items()]
    with_training = merge_scores(scores, check_scores(pd.concat(rows, ignore_index=True)))
    assert len(with_training) == len(scores) + 5 * len(encoders)
    for make in (
        lambda s: target_grid(s).value,
        lambda s: target_grid(s, metric='auroc', group='failures').value,
        lambda s: target_cells(s, 'srlviz', 'mlp'),
        qedr_columns,
        lambda s: pd.Series(plot_target_ranking(s, 'wind').layout.yaxis.ticktext),
    ):
        assert make(with_training).equals(make(scores))
    plain, trained = explore(scores), explore(with_training)
    assert type(plain) is type(trained)
    for name in ('metrics', 'groups', 'targets', 'heads', 'inputs', 'widths', 'sources'):
        assert getattr(plain.table, name) == getattr(trained.table, name), name
    assert '†' in trained.figure().layout.title.text and '†' not in plain.figure().layout.title.text


def test_quiet_sensors_are_scored_on_the_same_targets(targets, flights):
    quiet = quiet_sensors(targets.windows)
    assert len(quiet) == len(targets) and quiet[0].obs['sensors'].shape == (25, 923)
    assert 'annunciators' not in set(flight_columns(quiet_sensors(flights))['group'])
    codes = [e.obs['sensors'][:, ::40] for e in quiet]
    both = score(codes, targets, 'linear'), score(perfect_codes(targets), targets, 'linear')
    assert set(targets.names) <= set(both[0].compare(both[1])['target'])
    assert len(distinct_columns(quiet_sensors(flights))) < len(distinct_columns(flights))


def test_flights_without_a_touchdown_are_refused(flights):
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


def test_flights_without_sensors_or_a_factor_are_refused(flights):
    episodes = [e.replace(obs=dict(vector=np.zeros((len(e), 1)))) for e in flights]
    with warnings.catch_warnings(), pytest.raises(ValueError, match='sensors'):
        warnings.simplefilter('ignore')
        landing_targets(flights.replace(episodes=episodes), 25, progress=False)
    with pytest.raises(ValueError, match='turbulence'):
        landing_targets(flights.replace(factors=[f for f in flights.factors if f.name != 'turbulence']), 25)


@pytest.mark.parametrize('inputs', INPUTS)
def test_each_failure_is_described_for_each_input(inputs):
    table = knowable(inputs)
    assert table['failure'].tolist() == list(FAILURES) and (table['by'] != '').all()
