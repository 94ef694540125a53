"""Compare the landing world with its targets: speed, memory, outcomes, the size of the paper's set, and reading.

    python benchmarks/landing.py                        all targets, with 12 flights: 5 minutes on two idle cores
    python benchmarks/landing.py --set-flights 50       the projection to 8011 flights from 50
    python benchmarks/landing.py --only outcomes        one part: speed, memory, outcomes, reading

Speed is the flown seconds per CPU second on one core, so that other processes do not count; frames are read per CPU
second too. The gain of two workers is wall time, over pairs of sets generated one after the other by warm workers.
Memory is the maximum over the workers of `generate_flights`. Scenery is cached in each process, and a set of 114
runways reuses it often: flights of a small set cost more than those of a large one.
"""

import argparse, multiprocessing, os, subprocess, sys, tempfile, time
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

os.environ |= dict.fromkeys(('OMP_NUM_THREADS', 'NUMBA_NUM_THREADS', 'OPENBLAS_NUM_THREADS'), '1')  # one core a worker

import numpy as np
import pandas as pd

from srlviz.data.landing import flight_table, generate_flights, read_flights
from srlviz.envs.landing.approach import HZ, PAPER_FLIGHTS, draw_conditions, fly_approach
from srlviz.envs.landing.sensors import sensors

MEMORY = """
import resource, sys
from joblib.externals.loky import get_reusable_executor
from srlviz.data.landing import generate_flights
generate_flights(sys.argv[1], int(sys.argv[2]), seed=3, workers=2, progress=False)
get_reusable_executor().shutdown(wait=True)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def fly(seed: int, **fixed):
    "Outcome, reason, seconds and peak g of a flight"
    f = fly_approach(draw_conditions(seed, **fixed))
    return f.outcome, f.reason, len(f) / HZ, (f.touchdown or {}).get('g_nrml', np.nan)


def sensors_speed(n: int) -> float:
    "Speed without the camera: conditions, flight and 1090 columns"
    sensors(fly_approach(draw_conditions(999)))
    rows = 0
    start = time.process_time()
    for seed in range(n):
        rows += len(sensors(fly_approach(draw_conditions(seed))))
    return rows / HZ / (time.process_time() - start)


def make_set(folder: Path, n: int, seed: int, workers: int, size: int) -> tuple[float, float, float]:
    "Make a set; return flown seconds, CPU seconds, wall seconds"
    cpu, wall = time.process_time(), time.perf_counter()
    flights = generate_flights(folder, n, seed, workers=workers, size=size, progress=False)
    return flights.n_steps / HZ, time.process_time() - cpu, time.perf_counter() - wall


def speed(folder: Path, n: int, size: int, rounds: int) -> dict:
    "Speed of one worker with camera, video and Parquet; two workers against one, each round a new set"
    make_set(folder / 'warm', 1, 1, 1, size)
    make_set(folder / 'warm2', 4, 1, 2, size)
    rates, ratios, same = [], [], True
    for k in range(rounds):
        flown, cpu, wall = make_set(folder / f'one{k}', n, 10 + k, 1, size)
        rates.append(flown / cpu)
        ratios.append(wall / make_set(folder / f'two{k}', n, 10 + k, 2, size)[2])
        one, two = ((folder / f'{name}{k}' / 'meta' / 'info.json').read_bytes() for name in ('one', 'two'))
        same &= one == two  # info.json has the checksums of all files
        print(f"round {k}: {n} flights, {rates[-1]:.1f}x real time, two workers {ratios[-1]:.2f}x one", flush=True)
    return dict(camera=np.median(rates), two=np.median(ratios), same=same)


def memory(folder: Path, n: int) -> tuple[float, float]:
    "GB: the largest worker, and the main process"
    command = [sys.executable, '-c', MEMORY, str(folder / 'memory'), str(n)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    unit = 1e9 if sys.platform == 'darwin' else 1e6  # bytes there, kilobytes elsewhere
    return tuple(int(k) / unit for k in out.split())


def outcomes(n: int, jobs: int) -> pd.DataFrame:
    "The same seeds with the paper's failure frequencies and without failures."
    rows = []
    with ProcessPoolExecutor(jobs, mp_context=multiprocessing.get_context('spawn')) as pool:
        for kind, function in (('failures', fly), ('clean', partial(fly, events=()))):
            rows += [(kind, *r) for r in pool.map(function, range(n), chunksize=5)]
    return pd.DataFrame(rows, columns=['kind', 'outcome', 'reason', 'seconds', 'g'])


def project_set(folder: Path, n: int, size: int) -> tuple[float, float, float]:
    "Hours with two workers, wall and CPU time, and GB for the paper's number of flights, projected from a set of n"
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)  # the CPU time of workers is known after they end
    start = sum(os.times()[:4])
    wall = make_set(folder / 'set', n, 0, 2, size)[2]
    get_reusable_executor().shutdown(wait=True)
    cpu = sum(os.times()[:4]) - start
    stored = sum(p.stat().st_size for p in (folder / 'set').rglob('*') if p.is_file() and 'cache' not in p.parts)
    scale = PAPER_FLIGHTS / n
    return scale * wall / 3600, scale * cpu / 2 / 3600, scale * stored / 1e9


def reading(folder: Path, n: int) -> dict:
    "Milliseconds per random window of 25 to 75 rows, from the cache; frames per CPU second in windows of 50"
    flights, rng = read_flights(folder), np.random.default_rng(0)
    start = time.perf_counter()
    for e in flights:
        e.obs['sensors'][:1]
    build = time.perf_counter() - start
    times, rates = [], []
    for k in range(n):
        i, length = int(rng.integers(len(flights))), int(rng.integers(25, 76))
        first = int(rng.integers(flights.lengths[i] - 75))
        start = time.perf_counter()
        window = np.array(flights[i].obs['sensors'][first : first + length])
        times.append(time.perf_counter() - start)
        assert window.shape == (length, 1090)
        if k % 20 == 0:
            start = time.process_time()
            frames = flights[i].obs['frame'][first : first + 50]
            rates.append(len(frames) / (time.process_time() - start))
    return dict(
        build=build,
        window=1e3 * np.median(times),
        slow=1e3 * np.quantile(times, 0.99),
        frames=np.median(rates),
        min_frames=min(rates),
    )


def main(args) -> pd.DataFrame:
    rows = []

    def wants(part):
        return args.only in ('', part)

    def report(bar, measured, met, unit=''):
        rows.append((bar, f'{measured:.4g}{unit}', 'met' if met else 'MISSED'))
        print(f'{bar}: {measured:.4g}{unit}, {rows[-1][2]}', flush=True)

    with tempfile.TemporaryDirectory(prefix='bench_landing_') as folder:
        folder = Path(args.keep or folder)
        if wants('speed'):
            x = sensors_speed(args.flights)
            report('without camera, 1090 columns: at least 250x real time on one core', x, x >= 250, 'x')
            s = speed(folder, args.flights, args.size, args.rounds)
            report(
                'with camera, video and Parquet: at least 8x real time on one core', s['camera'], s['camera'] >= 8, 'x'
            )
            report('two workers: at least 1.7x one', s['two'], s['two'] >= 1.7, 'x')
            report('sets of one worker and of two that differ in a byte', float(not s['same']), s['same'])
        if wants('memory'):
            worker, main_process = memory(folder, 2 * args.flights)
            report('memory of a worker: under 1 GB', worker, worker < 1, ' GB')
            print(f'the main process: {main_process:.2f} GB')
        if wants('outcomes'):
            t = outcomes(args.outcomes, args.jobs)
            land = t.assign(landed=t['outcome'] == 'landed').groupby('kind')['landed'].mean() * 100
            failing = t[t['kind'] == 'failures']
            bar, x = f"{args.outcomes} flights with the paper's failures: 70 to 90% land", land['failures']
            report(bar, x, 70 <= x <= 90, '%')
            report('without failures: at least 95% land', land['clean'], land['clean'] >= 95, '%')
            report(
                'mean duration: 100 to 130 s', failing['seconds'].mean(), 100 <= failing['seconds'].mean() <= 130, ' s'
            )
            g = failing.loc[failing['outcome'] == 'landed', 'g'].median()
            report(
                'touchdown, vertical acceleration, median of those that landed: 1.2 to 2.2 g', g, 1.2 <= g <= 2.2, ' g'
            )
            crashed = failing[failing['outcome'] == 'crashed']
            print(failing['outcome'].value_counts().to_dict(), crashed['reason'].value_counts().to_dict())
        if wants('reading'):
            wall, cpu, gb = project_set(folder, args.set_flights, args.size)
            print(
                f'{PAPER_FLIGHTS} flights from {args.set_flights}: {wall:.1f} hours with two workers as busy as this '
                f'machine is, {cpu:.1f} hours on two idle cores, {gb:.1f} GB',
                flush=True,
            )
            outcome = flight_table(read_flights(folder / 'set'))['outcome'].value_counts().to_dict()
            r = reading(folder / 'set', args.windows)
            print(
                f"the set: {outcome}; its cache is built in {r['build']:.2f} s; the slowest window in a hundred "
                f"{r['slow']:.3f} ms, the slowest film {r['min_frames']:.0f} frames/s"
            )
            report('a random window of 25 to 75 rows from the cache: under 1 ms', r['window'], r['window'] < 1, ' ms')
            report('windows of 50 frames: at least 500 frames/s', r['frames'], r['frames'] >= 500, ' frames/s')
    return pd.DataFrame(rows, columns=['bar', 'measured', 'verdict'])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--only', choices=('', 'speed', 'memory', 'outcomes', 'reading'), default='', help='one part')
    parser.add_argument('--flights', type=int, default=6, help='of each set that is timed')
    parser.add_argument('--rounds', type=int, default=3)
    parser.add_argument('--size', type=int, default=256, help='of a frame')
    parser.add_argument(
        '--outcomes', type=int, default=200, help='flights whose outcomes are counted, and as many without failures'
    )
    parser.add_argument(
        '--set-flights', type=int, default=12, help='of the set that is projected to the whole one, and read'
    )
    parser.add_argument('--windows', type=int, default=2000)
    parser.add_argument('--jobs', type=int, default=2, help='processes that count outcomes')
    parser.add_argument('--keep', help='make the sets in this folder, new or empty, and keep them')
    parser.add_argument('--out', type=Path, default=Path('runs/bench_landing'), help='folder of the table')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    if args.smoke:
        args.flights, args.rounds, args.size, args.outcomes = 1, 1, 32, 1
        args.set_flights, args.windows, args.jobs = 1, 1, 1
    table = main(args)
    args.out.mkdir(parents=True, exist_ok=True)
    table.to_csv(args.out / 'landing.csv', index=False)
    raise SystemExit(int((table['verdict'] == 'MISSED').any() and not args.smoke))
