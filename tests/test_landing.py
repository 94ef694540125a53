"""Tests of the landing simulator, from conditions to sensors.

Flights are reproducible to the bit, outcomes are plausible, and failures are visible in the sensors.
"""

import functools, hashlib, multiprocessing

import numpy as np, pandas as pd, pytest
from joblib import Parallel, delayed

from srlviz.core.files import sample_path
from srlviz.envs.landing.approach import (
    AIM,
    HZ,
    MAX_EVENTS,
    OUTCOMES,
    PAPER_FLIGHTS,
    PERTURBATIONS,
    REASONS,
    SLOPE,
    Event,
    draw_conditions,
    fly_approach,
    wind_profile,
)
from srlviz.envs.landing import fly
from srlviz.envs.landing.sensors import sensor_table, sensors

CALM = dict(
    runway='KSEA/12L', distance=6500.0, wind_speed=3.0, gust=0.0, visibility=30000.0, precipitation='none', hour=21.0
)
ONSET, SEVERITY = 30, {'turbulence': 5, 'wind_speed_kt': 18, 'frm_ice': 0.6, 'frm_ice2': 0.6}


def digest(seed):
    "Hash all observations and factors of a flight"
    e = fly(seed, size=32, distance=2000.0)
    md5 = hashlib.md5()
    for name, v in sorted({**e.obs, **e.factors}.items()):
        md5.update(name.encode())
        md5.update(np.ascontiguousarray(v).tobytes())
    return md5.hexdigest()


def test_flights_are_equal_alone_in_a_pool_and_in_a_new_process():
    "A flight depends neither on previous flights nor on its process"
    alone = digest(3), digest(5)
    assert alone[0] != alone[1] and (digest(5), digest(3)) == alone[::-1]
    assert tuple(Parallel(2)(delayed(digest)(s) for s in (3, 5))) == alone
    with multiprocessing.get_context('spawn').Pool(1) as pool:
        assert tuple(pool.map(digest, (3, 5))) == alone


@functools.lru_cache
def fleet(clean=False):
    return [fly_approach(draw_conditions(s, **dict(events=()) if clean else {})) for s in range(100, 124)]


def test_most_flights_land():
    "Most land, and without failures nearly all do; the benchmark checks the rates on 200 flights"

    def n_landed(flights):
        return sum(f.outcome == 'landed' for f in flights)

    assert 14 <= n_landed(fleet()) <= 23 and n_landed(fleet(clean=True)) >= 23
    assert {f.outcome for f in fleet()} <= {*OUTCOMES}
    assert 90 < np.mean([len(f) / HZ for f in fleet()]) < 140
    for f in fleet():
        assert (f.reason in REASONS and f.reason != '') == (f.outcome == 'crashed') and len(f) <= 160 * HZ
        assert len(f.conditions.events) <= MAX_EVENTS
        assert all(v.shape == (len(f),) and np.isfinite(v).all() for v in f.log.values())
        if f.outcome == 'landed':
            assert f.touchdown and f.log['airspeed'][-1] < 35
            assert abs(f.log['y'][-1]) < f.conditions.runway.width / 2 + 25


def test_touchdown_load_grows_with_the_sink_rate():
    "For crashed flights too: their rows end when the crash is decided, but the dynamics continue to the touchdown"
    touchdowns = [(f.outcome, f.touchdown['sink'], f.touchdown['g_nrml']) for f in fleet() if f.touchdown]
    crashed = [(sink, g) for outcome, sink, g in touchdowns if outcome == 'crashed']
    assert np.corrcoef([t[1:] for t in touchdowns], rowvar=False)[0, 1] > 0.9
    assert crashed and all(g > 1.5 + 0.4 * sink for sink, g in crashed if sink > 3)


def test_wind_follows_its_profile():
    "The wind at each height is that of its profile within the gusts, and flights start in equilibrium with it"
    for f in fleet(clean=True):
        c, ground = f.conditions, f.log['phase'] == 2
        profile = np.array([wind_profile(h, c.ground) for h in f.log['radio_height']])
        assert np.abs(f.log['wind_speed_kt'] - c.wind_speed * profile).max() < c.gust + 0.1
        assert np.abs(np.diff(f.log['airspeed'][:5])).max() < 1.5 and abs(f.log['beta'][0]) < 1
        if c.wind_speed > 6:
            assert f.log['wind_speed_kt'][:100].mean() > 1.2 * f.log['wind_speed_kt'][ground].mean()


def test_flights_follow_the_phases_of_an_approach():
    """Approaches follow the glide slope at the reference speed, and touchdowns are plausible.

    The autopilot is off from the flare on, and brakes and reversers act only on the ground.
    """
    touchdowns = [f.touchdown['g_nrml'] for f in fleet(clean=True) if f.outcome == 'landed']
    assert 1.1 < np.median(touchdowns) < 2.3 and min(touchdowns) > 1
    for f in fleet(clean=True):
        log, low = f.log, f.log['height'] < 150
        approach = (log['phase'] == 0) & low
        assert np.abs(log['height'] - (AIM - log['x']) * SLOPE)[approach].max() < 12
        assert np.abs(log['airspeed'] - log['speed_cmd'])[approach].max() < 10
        assert (np.diff(log['phase']) >= 0).all() and not log['ap_on'][log['phase'] > 0].any()
        assert log['ap_on'][log['phase'] == 0].all()
        ground = log['phase'] == 2
        assert not log['reverser_0'][~ground].any() and not log['brake_left'][~ground].any()
        if f.outcome == 'landed':
            assert log['reverser_0'][ground].any() and log['brake_left'][ground].any()
            assert log['spoiler'][ground].max() > 0.9


def test_events_are_as_frequent_as_in_the_paper():
    "The share of flights with each perturbation is that of the paper, within four standard errors"
    drawn = [draw_conditions(s).events for s in range(1000)]
    for name, p in PERTURBATIONS.items():
        share, paper = np.mean([name in {e.name for e in events} for events in drawn]), p.n_flights / PAPER_FLIGHTS
        assert abs(share - paper) < 4 * np.sqrt(paper * (1 - paper) / 1000), name


# ---- failures in the sensors

COLUMN = {n: i for i, n in enumerate(sensor_table()['name'])}
A, A2, E2 = 'sim/cockpit/warnings/annunciators/', 'sim/cockpit2/annunciators/', 'sim/cockpit2/engine/indicators/'
AP, R2, G2 = 'sim/cockpit2/autopilot/', 'sim/cockpit2/radios/indicators/', 'sim/cockpit2/gauges/indicators/'


def up(a, b):
    return a.mean() > b.mean()


def down(a, b):
    return a.mean() < b.mean()


def moved(a, b):
    return np.abs(a - b).mean() > 0.05 * max(b.std(), 1e-3)


def rough(a, b):
    return np.abs(np.diff(a)).mean() > 2 * np.abs(np.diff(b)).mean()


# failure -> sensor -> how the sensor with the failure (a) differs from the sensor without it (b)
EFFECTS = dict(
    rel_engfir0={
        A + 'engine_fires[0]': up,
        A2 + 'engine_fires[0]': up,
        A2 + 'engine_fire': up,
        A2 + 'oil_pressure_low[0]': up,
        A + 'generator_off[0]': up,
    },
    rel_engfir1={
        A + 'engine_fires[1]': up,
        A2 + 'engine_fires[1]': up,
        A2 + 'engine_fire': up,
        A2 + 'oil_pressure_low[1]': up,
        A + 'generator_off[1]': up,
    },
    rel_gls={R2 + 'nav1_flag_glideslope': up, R2 + 'hsi_flag_glideslope_pilot': up, A2 + 'master_caution': up},
    rel_bird_strike={A2 + 'generator_off[0]': up, A2 + 'fuel_pressure_low[0]': up, E2 + 'N1_percent[0]': down},
    frm_ice={A2 + 'ice': up, 'sim/cockpit2/ice/ice_all_on': up, E2 + 'N1_percent[0]': moved},
    frm_ice2={A2 + 'ice': up, 'sim/cockpit2/ice/ice_all_on': up, E2 + 'N1_percent[0]': moved},
    rel_servo_ailn={
        A2 + 'autopilot_trim_fail': up,
        A2 + 'master_caution': up,
        'sim/cockpit/gyros/phi_ind_ahars_pilot_deg': moved,
    },
    rel_servo_elev={
        A2 + 'autopilot_trim_fail': up,
        A2 + 'master_caution': up,
        AP + 'servos_on': down,
        R2 + 'nav1_vdef_dots_pilot': moved,
    },
    rel_servo_thro={AP + 'autothrottle_enabled': down, AP + 'autothrottle_on': down, A2 + 'master_caution': up},
    rel_engfai0={
        A2 + 'generator_off[0]': up,
        A2 + 'fuel_pressure_low[0]': up,
        E2 + 'N1_percent[0]': down,
        E2 + 'EGT_deg_C[0]': down,
    },
    rel_engfai1={
        A2 + 'generator_off[1]': up,
        A2 + 'fuel_pressure_low[1]': up,
        E2 + 'N1_percent[1]': down,
        E2 + 'EGT_deg_C[1]': down,
    },
    turbulence={A2 + 'autopilot_soft_ride': up, G2 + 'airspeed_kts_pilot': rough, G2 + 'vvi_fpm_pilot': rough},
    wind_speed_kt={
        G2 + 'wind_speed_kts': up,
        AP + 'airspeed_dial_kts': up,
        'sim/cockpit/gyros/psi_ind_ahars_pilot_degm': moved,
    },
)


@functools.lru_cache
def approach_with(name=''):
    return fly_approach(draw_conditions(7, events=[Event(ONSET, name, SEVERITY.get(name, 1))] if name else (), **CALM))


@pytest.mark.parametrize('name', EFFECTS)
def test_failure_is_visible_in_the_sensors(name):
    "Compared with the same approach without it: no difference before, and the indications that a crew would see after"
    failed, normal = approach_with(name), approach_with()
    n, k = min((f.log['phase'] < 2).sum() for f in (failed, normal)), ONSET * HZ  # in the air, after the onset
    assert all(np.array_equal(failed.log[c][:k], normal.log[c][:k]) for c in normal.log)
    assert (
        not failed.log[name][:k].any() and failed.log[name][k + 1] > normal.log[name][k + 1] or name == 'wind_speed_kt'
    )
    a, b = sensors(failed)[k:n], sensors(normal)[k:n]
    hidden = [c for c, differs in EFFECTS[name].items() if not differs(a[:, COLUMN[c]], b[:, COLUMN[c]])]
    assert not hidden, f'{name} is not visible in {hidden}'
    assert ((a != b).any(0)).sum() > 100


def test_failed_runway_lights_are_visible_only_to_the_camera():
    "No sensor shows that the runway lights are out; the video at night does"
    from srlviz.envs.landing.camera import film

    failed, normal = (
        fly_approach(draw_conditions(7, events=e, **CALM | dict(distance=2500.0)))
        for e in ([Event(10, 'rel_rwy_lites')], [])
    )
    assert np.array_equal(sensors(failed), sensors(normal))
    a, b = (film(f, 32)[::10].astype(float) for f in (failed, normal))
    assert np.array_equal(a[:5], b[:5]) and b[5:].mean() > 1.1 * a[5:].mean()


def test_only_columns_that_are_not_constant_vary():
    "Many sensors vary over a few flights and within single ones; those of the kind 'constant' never do"
    tables = [sensors(f) for f in fleet()[:8]]
    assert all(
        x.dtype == np.float32 and x.shape == (len(f), 1090) and np.isfinite(x).all() for x, f in zip(tables, fleet())
    )
    vary = np.ptp(np.concatenate(tables), 0) > 0
    constant = (sensor_table()['kind'] == 'constant').to_numpy()
    assert vary.sum() >= 500 and not (vary & constant).any()
    assert np.mean([(np.ptp(x, 0) > 0).sum() for x in tables]) > 400


# ---- the study


def test_study_compares_with_consistent_numbers_of_the_paper(papermill):
    "The paper's numbers agree with the sensors and perturbations, and the study shows its tables"
    paper = pd.read_csv(sample_path('landing_paper.csv')).set_index('name')
    counts = paper[paper['part'] == 'sensors']['value']
    assert counts.sum() == 1089 and sensor_table()['group'].value_counts()[counts.index].eq(counts).all()
    assert paper[paper['part'] == 'perturbations']['value'].to_dict() == {
        k: p.n_flights for k, p in PERTURBATIONS.items()
    }
    run = papermill('studies/landing_dataset')
    assert 'Table 1: 21 of 21 groups' in run.printed
    assert '3 flights are too few to judge any of 14 frequencies' in run.printed
    assert sum('application/vnd.plotly.v1+json' in data for data in run.shown) >= 4
    assert len(pd.read_csv(run.out / 'flights.csv')) == 3
    assert pd.read_csv(run.out / 'table2.csv')['paper'].sum() == 17372
