"""Tables of rows in time, as loggers write them: time, counters, kinds of factors, and large numbers."""

import warnings

import numpy as np
import pandas as pd
import pytest
import srlviz
from srlviz.core.recordings import Factor, Recording, align
from srlviz.core.views.columns import take_columns
from srlviz.core.views.windows import thin
from srlviz.encoders.custom import as_encoder
from torch import nn

QUICK = dict(baselines=(), norms=('standardize',), epochs=1, progress=False)


def drifting_runs(n_runs=6, n_rows=300):
    "Runs with an offset of their own, stamped in whole seconds while a row takes 1.047 s"
    runs = []
    for i in range(n_runs):
        rng = np.random.default_rng(i)
        drift = rng.normal(size=3) * 2
        alarm = (np.arange(n_rows) > 100) & (np.arange(n_rows) < 200)
        values = rng.normal(size=(n_rows, 3)).cumsum(0) * 0.05 + drift + alarm[:, None] * 0.3
        stamps = pd.Timestamp('2026-03-09') + pd.to_timedelta(np.floor(np.arange(n_rows) * 1.047), unit='s')
        table = pd.DataFrame(values, columns=list('pqr'))
        runs.append(table.assign(run=f'run {i}', when=stamps, alarm=alarm.astype(int)))
    return pd.concat(runs, ignore_index=True)


def test_a_row_that_was_lost_does_not_split_a_run():
    with pytest.warns(UserWarning, match="'when' steps over .* rows, as if they were lost: hz=0.95"):
        recording = Recording.from_table(drifting_runs(), episode='run', factors=['alarm'], time='when')
    assert len(recording) == 6 and abs(recording.hz - 1 / 1.047) < 2e-3


@pytest.mark.parametrize('share', [0.002, 0.02, 0.2])
@pytest.mark.parametrize('unit', [1, 0.001])
def test_the_rate_of_a_log_that_lost_rows_is_that_of_its_usual_step(tmp_path, share, unit):
    rng = np.random.default_rng(0)
    times = np.arange(3000) / 64
    times = (times if unit == 1 else times.round(3))[rng.random(3000) >= share]  # steps of 15 and 16 ms
    table = pd.DataFrame({'t': times, 'x': rng.normal(size=len(times)), 'k': rng.normal(size=len(times))})
    table.to_csv(tmp_path / 'log.csv', index=False)
    for read in (
        lambda: Recording.from_table(table, factors=['k'], time='t'),
        lambda: srlviz.load(tmp_path / 'log.csv', factors=['k'], time='t'),
    ):
        with pytest.warns(UserWarning, match='as if they were lost: hz=6[34]'):
            hz = read().hz
        assert abs(hz / 64 - 1) < (1e-8 if unit == 1 else 3e-3)


def test_an_index_with_a_name_is_a_column_or_is_named():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({'run': np.repeat(['a', 'b'], 20), 't': np.tile(np.arange(20) / 10, 2)})
    table = table.assign(x=rng.normal(size=40), k=rng.integers(0, 2, 40))
    indexed = table.set_index(['run', 't'])
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        recording = Recording.from_table(indexed, episode='run', time='t', factors=['k'])
        same = Recording.from_table(table, episode='run', time='t', factors=['k'])
    assert recording.fingerprint() == same.fingerprint() and len(recording) == 2 and recording.hz == 10
    with pytest.warns(UserWarning, match="index of the table is not read: 't'; table.reset_index"):
        assert len(Recording.from_table(indexed, episode='run', factors=['k'])) == 2
    stamps = table.set_index(pd.date_range('2026-01-01', periods=40, freq='s'))
    with pytest.warns(UserWarning, match='index of the table is not read: without a name; table.reset_index'):
        Recording.from_table(stamps, obs=['x'], factors=['k'])


def test_a_word_among_the_numbers_of_an_object_column_is_quoted():
    table = pd.DataFrame({'x': [0.5, 1.5, 'n.v.', 0.25, None], 'y': [1.0, 4, 2, 3, 1], 'k': [0, 1, 0, 1, 1]})
    with pytest.warns(UserWarning, match="'x' .numbers, but 'n.v.' in row 2"):
        Recording.from_table(table, factors=['k'])


def test_parts_of_a_run_stand_on_one_side_of_every_split():
    table = drifting_runs()
    late = np.arange(len(table)) % 300 >= 150
    table['when'] += pd.to_timedelta(60 * late, unit='s')
    with pytest.warns(UserWarning, match='6 into 12 parts'):
        recording = Recording.from_table(table, episode='run', factors=['alarm'], time='when')
    for seed in range(5):
        recording = recording.with_split(seed, probe=0.5, valid=0.2, test=0.3)
        sides = {}
        for episode, split in zip(recording, recording.split):
            sides.setdefault(episode.name.split(',')[0], set()).add(str(split))
        assert len(sides) == 6 and all(len(side) == 1 for side in sides.values())


def test_parts_stay_together_after_saving_and_slicing(tmp_path):
    table = drifting_runs(3, 20).assign(when=np.tile([*range(10), *range(100, 110)], 3))
    with pytest.warns(UserWarning, match='3 into 6'):
        recording = Recording.from_table(table, episode='run', time='when')
    for path in tmp_path / 'folder', tmp_path / 'file.npz':
        assert srlviz.load(recording.save(path)).runs.tolist() == [0, 0, 2, 2, 4, 4]
    assert recording[1:4].runs.tolist() == [0, 1, 1] and recording[[3, 0, 2]].runs.tolist() == [0, 1, 0]
    assert thin(recording, 2).runs.tolist() == take_columns(recording, [0]).runs.tolist() == [0, 0, 2, 2, 4, 4]


def test_runs_of_different_rates_are_refused():
    table = pd.DataFrame({'run': np.repeat(['a', 'b'], 20), 'x': np.random.default_rng(0).normal(size=40)})
    table['s'] = np.r_[np.arange(20) / 10, np.arange(20) / 5]
    with pytest.raises(ValueError, match='a row every 0.2 seconds in episode b, but every 0.1 in a'):
        Recording.from_table(table, episode='run', time='s')


def engines():
    "Engines that wear out, with their remaining cycles: whole numbers up to 300"
    rng = np.random.default_rng(0)
    tables = []
    for unit in range(20):
        n = int(rng.integers(140, 300))
        wear = np.linspace(0, 1, n) ** 3
        heat = 640 + 3 * wear + rng.normal(0, 0.3, n)
        tables.append(pd.DataFrame({'unit': unit, 'heat': heat, 'rul': np.arange(n)[::-1]}))
    return pd.concat(tables, ignore_index=True)


def test_many_whole_numbers_in_order_are_predicted_as_a_number():
    table = engines()
    whole = srlviz.probe(nn.Identity(), table, episode='unit', factors=['rul'], **QUICK)
    real = srlviz.probe(nn.Identity(), table.astype({'rul': float}), episode='unit', factors=['rul'], **QUICK)
    assert whole.targets('r2_linear').loc['rul'].item() == real.targets('r2_linear').loc[
        'rul'
    ].item() > 0.2 and not whole.labelled('f1')
    assert "as classes: factors={'rul': 'class'}" in repr(whole) and 'as classes' not in repr(real)


@pytest.mark.parametrize('factors', [{'rul': 'class'}, [Factor('rul')], {'rul': Factor('rul')}])
def test_a_stated_kind_decides(factors):
    recording = Recording.from_table(engines(), episode='unit', factors=factors)
    assert [f.kind for f in recording.factors] == ['categorical']


@pytest.mark.parametrize('value', ['float', 'int', 'bool'])
def test_a_stated_number_of_two_values_is_scored_as_a_number(value):
    table = engines().assign(worn=lambda t: (t.rul < 50).astype(value))
    for factors, is_number in (['worn'], False), ({'worn': 'class'}, False), ({'worn': 'number'}, True):
        recording = Recording.from_table(table, episode='unit', factors=factors)
        assert [f.kind for f in recording.factors] == ['continuous' if is_number else 'categorical']
        found = srlviz.probe(nn.Identity(), recording, **QUICK)
        assert bool(found.labelled('r2_linear')) == is_number and bool(found.labelled('f1')) != is_number


@pytest.mark.parametrize('door', ['table', 'recording', 'episodes'])
def test_the_result_says_what_was_taken_as_a_number_unless_it_was_stated(door, tmp_path):
    table = engines().assign(worn=lambda t: (t.rul < 50).astype(float))
    hint = "as classes: factors={'rul': 'class'}"
    for factors, is_hinted in (['rul', 'worn'], True), ({'rul': 'number', 'worn': 'class'}, False):
        data, columns = table, dict(episode='unit', factors=factors)
        if door != 'table':
            data, columns = Recording.from_table(table, **columns), {}
        if door == 'episodes' and is_hinted:
            data = Recording([srlviz.Episode(e.obs, factors=e.factors) for e in data])
        found = srlviz.probe(nn.Identity(), data, **columns, **QUICK)
        assert [*found.targets('r2_linear').index] == ['rul'] and 'worn' in found.targets('f1').index
        for result in found, srlviz.load(found.save(tmp_path / f'{door} {is_hinted}')):
            assert (hint in repr(result)) == is_hinted


def test_kinds_follow_from_all_episodes_in_whatever_order():
    short, long = (srlviz.Episode({'vector': np.zeros((n, 1))}, factors={'x': np.arange(n)}) for n in (10, 1000))
    for episodes in [short, long], [long, short], (short, long):
        assert [f.kind for f in Recording(episodes).factors] == ['continuous']
    assert [f.kind for f in Recording([short, long])[:1].factors] == ['continuous']
    truths = Recording(
        [srlviz.Episode({'vector': np.zeros((2, 1))}, factors={'on': x}) for x in ([0.0, 0.0], [0.0, 1.0])]
    )
    assert [f.kind for f in truths.factors] == ['categorical']


def test_words_and_codes_of_words_are_the_same_factor():
    table = engines().assign(state=lambda t: np.where(t.rul > 50, 'sound', 'worn'))
    recording = Recording.from_table(table, episode='unit', factors=['state'])
    coded = Recording.from_table(table.astype({'state': 'category'}), episode='unit', factors=['state'])
    assert recording.fingerprint() == coded.fingerprint() and recording.factors[0].names == ('sound', 'worn')
    first = Recording.from_table(table, episode='unit', factors=[Factor('state', names=('worn', 'sound', 'broken'))])
    assert first.steps()['state'].tolist() == (1 - recording.steps()['state']).tolist()


@pytest.mark.parametrize('door', ['table', 'arrays', 'codes', 'network'])
def test_a_column_that_loses_its_values_in_float32_is_named(door):
    lane = np.random.default_rng(0).integers(0, 2, 2000)
    drive = np.arange(2000) // 50
    north = 5_812_345.05 + 0.2 * lane
    with pytest.warns(UserWarning, match='loses precision as float32: .* vanish; subtract .* such as 5812345'):
        if door == 'table':
            Recording.from_table(pd.DataFrame({'drive': drive, 'north': north}), episode='drive')
        elif door == 'arrays':
            Recording.from_arrays(north[:, None], episode=drive)
        elif door == 'codes':
            recording = Recording.from_arrays(lane[:, None], episode=drive, factors={'lane': lane})
            align(np.split(north[:, None], 40), recording.with_split(probe=0.5, valid=0.2, test=0.3))
        else:
            recording = Recording.from_arrays({'gps': north[:, None]}, episode=drive)
            as_encoder(nn.Identity()).encode(recording, progress=False)


def test_a_value_beyond_float32_is_refused_as_what_it_is():
    with pytest.raises(ValueError, match="'x' holds 1e.39 in row 1, .*than .* float32"):
        Recording.from_table(pd.DataFrame({'x': [1.0, 1e39, 2.0]}))


@pytest.mark.parametrize('name', ['x', 'field.header.seq', 'Zeit', 'cycle', 'tick', 'elapsed'])
@pytest.mark.parametrize('episode', [None, 'run'])
def test_a_counter_is_no_sensor_under_any_name(name, episode):
    table = pd.DataFrame(
        {name: np.tile(np.arange(50) * 1e8 + 1.4e18, 4), 'speed': np.random.default_rng(0).normal(size=200)}
    )
    table = table.assign(run=np.repeat(np.arange(4), 50)) if episode else table
    with pytest.warns(UserWarning, match=f"'{name}' \\(only counts rows or time\\)"):
        assert Recording.from_table(table, episode=episode).meta['columns'] == ['speed']


def test_a_counter_that_is_named_as_an_observation_is_one():
    table = pd.DataFrame({'tick': np.arange(50), 'speed': np.random.default_rng(0).normal(size=50)})
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert Recording.from_table(table, obs=['tick']).meta['columns'] == ['tick']


@pytest.mark.parametrize('name', ['t', 'episode', '', 'mean'])
def test_names_that_tables_use_are_refused_at_every_door(name, tmp_path):
    message = f"a factor cannot be called {name!r}"
    table = pd.DataFrame({'x': [1.0, 2.0, 5.0], name: [0, 1, 0]})
    with pytest.raises(ValueError, match=message):
        Recording.from_table(table, obs=['x'], factors=[name])
    with pytest.raises(ValueError, match=message):
        Recording.from_arrays(np.zeros((3, 1)), factors={name: [0, 1, 0]})
    with pytest.raises(ValueError, match=message):
        Recording([srlviz.Episode({'vector': np.zeros((3, 1))}, factors={name: [0, 1, 0]})])
    with pytest.raises(ValueError, match=message):
        Factor(name)


def test_text_beside_numbers_is_refused_at_every_door():
    x = np.zeros((2, 1))
    for values in [1, 'a'], np.array([1, 'a'], object), ('a', 2.5), [True, 'a']:
        with pytest.raises(ValueError, match="'k' holds Python objects .*str.*expected numbers, booleans or text"):
            Recording.from_arrays(x, factors={'k': values})
    with pytest.raises(ValueError, match='actions'):
        Recording.from_arrays(x, actions=[[1, 'left'], [2, 'right']])
    table = pd.DataFrame({'x': [0.5, 2.0], 'turn': ['left', 'right'], 'speed': [0.1, 0.2], 'way': ['a', 'b']})
    with pytest.raises(ValueError, match="actions mixes text, in the column 'turn', and numbers, in 'speed'"):
        Recording.from_table(table, obs=['x'], actions=['speed', 'turn'])
    assert Recording.from_table(table, obs=['x'], actions=['turn', 'way'])[0].actions.tolist()[0] == ['left', 'a']


def test_bytes_become_text_or_are_refused():
    x = np.zeros((2, 1))
    for words in [b'hall', b'yard'], np.array([b'hall', b'yard']), pd.Series([b'hall', b'yard']):
        recording = Recording.from_arrays(x, factors={'room': words})
        assert recording.factors[0].names == ('hall', 'yard') and recording[0].factors['room'].tolist() == [0, 1]
    episode = srlviz.Episode({'vector': x}, factors={'room': np.array([b'hall', b'yard'])})
    assert episode.factors['room'].tolist() == ['hall', 'yard']
    with pytest.raises(ValueError, match="'room' holds bytes that are no UTF-8"):
        Recording.from_arrays(x, factors={'room': [b'hall', b'\xff']})
