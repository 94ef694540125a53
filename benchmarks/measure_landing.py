"""Make the shipped scores data_samples/landing_benchmark.csv, and three small encoders.

    python benchmarks/measure_landing.py --sets SETS --out OUT --workers 2    make the sets, train what is missing
    python benchmarks/measure_landing.py --out OUT --collect                  only collect the results of a sweep

2,000 flights without film (about five minutes on two idle cores) and 600 with film of 64 pixels (thirteen), then each
encoder of Table 4 and beyond, widths 64 and 128, one seed, sensors with and without tell-tale columns. Film is read
once a second (every fifth row). A killed run resumes; shipped rows stay unless they are measured again. Encoders of
sensors train until ten epochs bring no better validation loss, at most for a hundred; networks over windows of film
for five epochs of one window per flight. The curves of all trainings are collected in
data_samples/landing_training.csv.
On a GPU: --device cuda --size 256 --every 1 --widths 32 64 128 256 --seeds 0 1 2.
"""

import argparse
from pathlib import Path

import pandas as pd

from srlviz.core.files import atomic_path, sample_path
from srlviz.core.scores import check_scores, load_scores, save_scores
from srlviz.data.landing import generate_flights, read_flights
from srlviz.encoders.sequences.autoencoder import SequenceAutoencoder
from srlviz.encoders.sequences.forecast import Forecaster
from srlviz.studies.papers.landing import (
    LANDING,
    has_width,
    headline,
    shipped_curves,
    sweep_gains,
    table4,
    training_curves,
)
from srlviz.studies.sweep import sweep

SMALL = {  # for lessons: 32 codes of sensors
    'lstm_ae': (SequenceAutoencoder, {}),
    'attention_ae': (SequenceAutoencoder, dict(network='attention')),
    'forecaster': (Forecaster, dict(network='attention', horizon=30)),
}
WINDOWS = 4  # of a flight and epoch: 848 flights then give as many as the paper's 3,600 with one
FILM = dict(windows=[1], epochs=[5])  # an epoch of a network over film takes minutes on a CPU
UNTIL_SETTLED = dict(epochs=[100], patience=[10])  # of encoders of sensors
STILLS = 'pca_ae', 'pca', 'resnet34_ae', 'signed_resnet34_ae'  # learn from single frames
MOST = 1_000_000  # bytes of an encoder that ships


def sets(folder: Path, size: int, workers: int) -> dict[str, Path]:
    "The two sets of flights, generated if missing"
    places = dict(sensors=folder / 'sensors2000', film=folder / f'film600_{size}')
    generate_flights(places['sensors'], 2000, seed=17, camera=False, workers=workers)
    generate_flights(places['film'], 600, seed=18, camera=True, size=size, workers=workers)
    return places


def grids(places: dict[str, Path], a: argparse.Namespace) -> list[dict]:
    "The grids of trials: the mean, then width by width, sensors before film, all columns before quiet ones"
    shared = dict(device=[a.device], windows=[WINDOWS])
    wanted = []
    for name, path in places.items():
        wanted.append(shared | dict(data=[str(path)], method=['mean_baseline'], n_codes=[1]))
    for width in a.widths:
        for name, path in places.items():
            film = name == 'film'
            pairs = [(m, i) for m, i in table4(read_flights(path)) if m != 'mean_baseline' and ('frames' in i) == film]
            for quiet in (False, True):
                wanted += [
                    shared
                    | dict(data=[str(path)], method=[m], inputs=[i], n_codes=[width], every=[a.every if film else 1])
                    | dict(seed=a.seeds)
                    | ({} if film else UNTIL_SETTLED)
                    | (FILM if film and m not in STILLS and a.device == 'cpu' else {})
                    for m, i in pairs
                    if ('quiet' in i) == quiet and not (film and quiet) and (has_width(m) or width == a.widths[0])
                ]
    return wanted


def small_encoders(flights: Path) -> None:
    "Train the three shipped encoders if they are missing"
    shelf = sample_path('paper_scores.csv').parent / 'encoders'
    shelf.mkdir(exist_ok=True)
    for name, (kind, arguments) in SMALL.items():
        if not (file := shelf / f'landing_{name}.safetensors').exists():
            kind(n_codes=32, windows=WINDOWS, device='cpu', **arguments).fit(read_flights(flights)).save(file)
        if file.stat().st_size > MOST:
            raise SystemExit(f'{file.name} has {file.stat().st_size:,} bytes, more than {MOST:,}')


def collect(folder: Path) -> None:
    "Collect the scores and training curves of a sweep, and the gains of its encoders over `pca_statistics`"
    collect_curves(training_curves(folder))
    found = load_scores(folder / 'scores.csv')
    place = sample_path('paper_scores.csv').parent / 'landing_benchmark.csv'
    gains = sweep_gains(folder)
    parts = [without_gains(load_scores(place), gains)] * place.exists()
    parts += [found[found['source'] == 'srlviz'], gains]
    table = pd.concat(parts, ignore_index=True)
    table = table.drop_duplicates([c for c in table if c != 'value'], keep='last')
    save_scores(check_scores(table), place)
    print(f"{len(table):,} rows of {table['method'].nunique()} methods")
    for _, part in table.groupby('data'):
        print(headline(part))  # the README has that of 2,000 flights


def without_gains(scores: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    "The scores without gains on flights and inputs that others are there for: these may be of other targets"
    of = ['data', 'inputs']
    is_renewed = pd.MultiIndex.from_frame(scores[of]).isin(pd.MultiIndex.from_frame(gains[of]))
    is_old = scores['metric'].str.match('gain|skill') & is_renewed
    return scores[~is_old]


def collect_curves(curves: pd.DataFrame) -> None:
    "Add training curves to those that ship; they replace those of the same runs"
    place = sample_path('paper_scores.csv').parent / 'landing_training.csv'
    if curves.empty:
        return
    run = ['data', 'budget', 'method', 'inputs', 'n_codes', 'seed']
    shipped = shipped_curves()
    is_measured_again = shipped.set_index(run).index.isin(curves.set_index(run).index)
    curves = pd.concat([shipped[~is_measured_again], curves], ignore_index=True)
    with atomic_path(place) as file:
        curves.to_csv(file, index=False, float_format='%.5g')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--sets', default='runs/sets', help='folder of the sets of flights')
    parser.add_argument('--out', default='runs/landing', help='folder of the sweep')
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--device', default='cpu')
    parser.add_argument('--size', type=int, default=64, help='pixels of the film')
    parser.add_argument('--every', type=int, default=5, help='rows from one picture to the next')
    parser.add_argument('--widths', type=int, nargs='+', default=[64, 128])
    parser.add_argument('--seeds', type=int, nargs='+', default=[0])
    parser.add_argument('--collect', action='store_true')
    a = parser.parse_args()
    if not a.collect:
        places = sets(Path(a.sets), a.size, a.workers)
        small_encoders(places['sensors'])
        for grid in grids(places, a):
            sweep(LANDING, grid, a.out, workers=a.workers)
            collect(Path(a.out))
    collect(Path(a.out))
