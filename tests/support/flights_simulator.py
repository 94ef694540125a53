"""A fast flight simulator for storage tests: random walks instead of flights.

`python flights_simulator.py FOLDER N WORKERS [FAULT]` generates a set of flights.
"""

import os, sys, time
from pathlib import Path
from types import SimpleNamespace

# Tests run this file under a limit on the size of files, which would truncate compiled modules for later imports.
sys.dont_write_bytecode = True
os.environ['PYTHONDONTWRITEBYTECODE'] = '1'

import cloudpickle
import numpy as np
import pandas as pd

from srlviz.core.recordings import Episode, Factor
from srlviz.core.storage import recording_folder
from srlviz.data.landing import fleet
from srlviz.data.landing.flights import read_flights
from srlviz.data.landing.simulator import Simulator

recording_folder._SHARD_BYTES = 50_000  # about five flights, so that a small set has several shards
AIRPORTS = dict(KAAA='fit', KBBB='valid', KCCC='probe', KDDD='test')


class QuickSimulator(Simulator):
    def __init__(self, fault='', delay=0.0):
        super().__init__()
        self.fault, self.delay = fault, delay

    def columns(self):
        return pd.DataFrame(dict(name=[f'sim/c{i}' for i in range(40)], group='gyros', units='', role='state'))

    def factors(self):
        return [
            Factor('height', 'pose', 'continuous', 'm'),
            Factor('rel_engfai0', 'failures', 'continuous'),
            Factor('corner_x', 'corners', 'continuous', 'px'),
            Factor('airport', 'flight'),
            Factor('outcome', 'flight'),
            Factor('touchdown_g', 'touchdown', 'continuous', 'g'),
        ]

    def splits(self):
        return AIRPORTS

    def conditions(self, seed):
        r = np.random.default_rng(seed)
        events = (SimpleNamespace(time=7.5, name='rel_engfai0', value=1.0),) * int(r.integers(2))
        return SimpleNamespace(
            seed=seed,
            runway=SimpleNamespace(airport=str(r.choice([*AIRPORTS])), name='16L'),
            wind_speed=float(r.uniform(0, 20)),
            precipitation='none',
            events=events,
        )

    def fly(self, c, camera, size):
        time.sleep(self.delay)
        r = np.random.default_rng(c.seed)
        T = int(r.integers(40, 90))
        x = np.cumsum(r.normal(size=(T, 40)), 0).astype(np.float32)
        if self.fault == 'nan':
            x[7, 3] = np.nan
        if self.fault == 'column':
            x = x[:, :39]
        if self.fault == 'killed' and c.seed % 10 == 6:
            __import__('os')._exit(1)
        film = np.zeros((T, size, size, 3), np.uint8)
        for t in range(T):
            film[t, 4:12, t % (size - 8) : t % (size - 8) + 8] = 255
        corner = np.where(np.arange(T) < T - 5, x[:, 1], np.nan).astype(np.float32)
        crashed = r.random() < 0.3
        factors = dict(
            height=x[:, 0],
            rel_engfai0=np.float32(np.arange(T) > 37) * len(c.events),
            corner_x=corner,
            airport=c.runway.airport,
            outcome='crashed' if crashed else 'landed',
            touchdown_g=np.float32(np.nan if crashed else 1.3),
        )
        return Episode({'sensors': x} | ({'frame': film} if camera else {}), factors=factors, ended='terminated')


def request(simulator, n, seed=3, camera=True, size=32):
    "Return the request for a set"
    return fleet._request(simulator, n, seed, camera, size, None, {})


def make(folder, n, workers=1, fault='', seed=3, size=32, camera=True, delay=0.0):
    "Generate a set as generate_flights does"
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    simulator = QuickSimulator(fault, delay)
    out = Path(folder)
    fleet._make_set(out, simulator, request(simulator, n, seed, camera, size), workers, False)
    return read_flights(out)


def reopen(folder, n, workers=1):
    "Call generate_flights on an existing set, with the same request"
    simulator = QuickSimulator()
    return fleet._open(folder, simulator, request(simulator, n), workers, False)


if __name__ == '__main__':
    make(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), *sys.argv[4:], delay=0.03)
