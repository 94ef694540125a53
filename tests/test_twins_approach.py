"""Twins of the approach: the path is equal to the bit, a failure changes nothing before its onset, and a twin is a
natural flight."""

import numpy as np
import pytest

import srlviz
from srlviz.core.checks.twins import differing_arrays
from srlviz.core.twins import Twins, cut, twin_table, with_twins
from srlviz.data.landing import flight_seed
from srlviz.data.worlds.approach import ApproachWorld, _values_to_set
from srlviz.envs.landing import CORNERS, fly
from srlviz.envs.landing.settable import SETTABLE

APPROACH = ApproachWorld()
SHORT = dict(runway='KSEA/12L', distance=700.0, size=32)
PATH = ('along_track', 'cross_track', 'height', *CORNERS, 'outcome', 'touchdown_sink')
SEEN = [name for name, s in SETTABLE.items() if not s.has_zero] + ['intensity', 'rel_rwy_lites']


def moments(twins):
    "For each moment the untouched episode, and (factor, value, episode) of its twins"
    found = {}
    for episode, row in zip(twins, twins.table.itertuples()):
        if row.factor == '':
            found[row.moment] = (episode, [])
        else:
            found[row.moment][1].append((row.factor, row.value, episode))
    return list(found.values())


def test_light_and_weather_leave_the_path_equal_to_the_bit():
    twins = APPROACH.twins(SEEN, n=4, length=3, progress=False, cloud_cover=0.8, **SHORT)
    assert set(twins.factor_names) == {*SEEN} and set(twins.lengths) == {3}
    for plain, changed in moments(twins):
        for factor, _, episode in changed:
            names = {*differing_arrays(plain, episode)}
            assert names <= {factor, 'sensors', 'frame', *SETTABLE[factor].follows}, factor
            assert not names & {*PATH}
            assert 'sensors' not in names or factor != 'rel_rwy_lites'  # only the camera sees lights


def test_lights_are_seen_at_night():
    twins = APPROACH.twins('rel_rwy_lites', [0, 1], n=3, progress=False, hour=23.0, visibility=9000.0, **SHORT)
    for _, changed in moments(twins):
        burning, out = (np.asarray(episode.obs['frame']).astype(int) for _, _, episode in changed)
        assert burning.mean() > out.mean()


@pytest.mark.parametrize('factor, value', [('hour', 21.0), ('visibility', 700.0), ('intensity', 0.9)])
def test_a_twin_is_a_natural_flight_that_is_flown_under_these_conditions(factor, value):
    "Not only alike: every array is equal to the bit."
    fixed = dict(cloud_cover=0.9) | SHORT
    twins = APPROACH.twins(factor, [value], n=1, seed=2, progress=False, **fixed)
    extra = dict(precipitation='rain') if factor == 'intensity' else {}
    recorded = twins.table['value'][1]  # float32, as it was set
    assert recorded == np.float32(value)
    flown = fly(flight_seed(2, 0), **fixed, **extra, **{factor: recorded})
    t = int(np.flatnonzero(flown.factors['along_track'] == twins[1].factors['along_track'])[0])
    assert differing_arrays(twins[1], cut(flown, t)) == []


@pytest.mark.parametrize('factor', ['hour', 'visibility', 'cloud_base'])
def test_the_flight_of_a_value_in_the_table_is_its_twin(factor):
    "Of six quantiles: float32 in the recording, so that they are set as float32"
    twins = APPROACH.twins(factor, n=1, seed=2, progress=False, **SHORT)
    assert len(twins) == 7 and not len(twins.left_out)
    for _, value, episode in moments(twins)[0][1]:
        flown = fly(flight_seed(2, 0), **SHORT, **{factor: value})
        t = int(np.flatnonzero(flown.factors['along_track'] == episode.factors['along_track'])[0])
        assert differing_arrays(episode, cut(flown, t)) == []


@pytest.mark.parametrize('name', SETTABLE)
def test_values_are_rounded_within_the_range(name):
    s = SETTABLE[name]
    for value in _values_to_set(name, [s.low, s.high, s.low / 3 + s.high / 1.5])[name]:
        assert value == np.float32(value) and s.low <= value <= s.high
    assert not s.has_zero or _values_to_set(name, [0])[name] == [0]


@pytest.mark.parametrize('factor', ['rel_engfai0', 'rel_bird_strike', 'turbulence'])
def test_a_failure_changes_nothing_before_its_onset(factor):
    twins = APPROACH.twins(factor, [1], n=3, length=None, progress=False, camera=False, distance=700.0, events=())
    for plain, changed in moments(twins):
        _, value, episode = changed[0]
        onset = int(np.flatnonzero(episode.factors[factor])[0])
        assert value == 1 and 25 <= onset < len(plain)
        before = [{**e.obs, **{k: v for k, v in e.factors.items() if np.ndim(v)}} for e in (plain, episode)]
        for name, rows in before[0].items():
            assert np.array_equal(rows[:onset], before[1][name][:onset], equal_nan=True), name
        late = len(plain) - onset > 25
        assert not late or not np.array_equal(plain.obs['sensors'], episode.obs['sensors'])


def test_own_values_are_the_untouched_moments_and_failures_of_the_flight_keep_their_time():
    own = APPROACH.twins(None, 'own', n=2, seed=4, progress=False, camera=False, distance=700.0)
    assert set(own.factor_names) == {*APPROACH.settable} and not len(own.left_out)
    for plain, changed in moments(own):
        for factor, value, episode in changed:
            assert differing_arrays(plain, episode) == [], factor
            assert value == np.asarray(plain.factors[factor]).ravel()[-1]


def test_moments_are_spread_and_what_cannot_be_is_counted():
    twins = APPROACH.twins('frm_ice', n=5, progress=False, camera=False, distance=3000.0, events=())
    plain = [episode for episode, _ in moments(twins)]
    along = [float(e.factors['along_track'][-1]) for e in plain]
    assert along == sorted(along) and along[0] < -1500 < 0 < along[-1]
    assert set(twins.left_out['reason']) <= {'no flight has this value by then', 'the flight has ended by then'}
    assert len(twins) + twins.left_out['n'].sum() == 5 + 5 * 6


def test_flights_with_their_twins_are_one_recording(tmp_path):
    flights = APPROACH.record(4, progress=False, **SHORT).with_split(0, probe=0.5, valid=0.25, test=0.25)
    twins = srlviz.twins('approach', 'visibility', [1000, 20000], n=2, progress=False, **SHORT)
    joined = with_twins(flights, twins)
    assert twin_table(joined)['factor'].tolist() == ['', 'visibility', 'visibility'] * 2
    joined.save(tmp_path / 'joined')
    again = Twins.of(srlviz.load(tmp_path / 'joined'))
    assert again.table.equals(twins.table) and again.follows == twins.follows


@pytest.mark.parametrize(
    'wrong, named',
    [
        (dict(factor='wind_speed'), 'wind_speed.*visibility'),
        (dict(values=[9]), 'visibility.*600 to 40000.*9'),
        (dict(values=['foggy']), 'foggy'),
        (dict(values='mine'), 'mine'),
        (dict(n=0), 'n'),
        (dict(length=0), 'length'),
        (dict(policy='random'), 'random'),
        (dict(fog=3), 'fog'),
    ],
)
def test_wrong_arguments_are_refused(wrong, named):
    with pytest.raises(ValueError, match=named):
        APPROACH.twins(**dict(factor='visibility', progress=False, camera=False) | wrong)
