"""Make the shipped scores data_samples/landing_benchmark.csv and three small encoders.

    python benchmarks/measure_landing.py --sets SETS --out OUT --workers 2    make the sets, train what is missing
    python benchmarks/measure_landing.py --out OUT --collect                  only collect the results of a sweep

2,000 flights without film (about five minutes on two idle cores) and 600 with film of 64 pixels (thirteen), then each
encoder of Table 4 and beyond, widths 64 and 128, one seed, sensors with and without tell-tale columns. Film is read
once a second (every fifth row). A killed run resumes; shipped rows stay unless they are measured again. Encoders of
sensors train until the validation loss has not improved for ten epochs, at most for a hundred; networks over windows
of film for five epochs of one window per flight. The curves of all trainings are collected in
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
WINDOWS = 4  # per flight and epoch: about as many windows from 848 flights as from the paper's 3,600 with one
FILM = dict(windows=[1], epochs=[5])  # an epoch of a network over film takes minutes on a CPU
EARLY_STOPPING = dict(epochs=[100], patience=[10])  # of encoders of sensors
STILLS = 'pca_ae', 'pca', 'resnet34_ae', 'signed_resnet34_ae'  # learn from single frames
MAX_BYTES = 1_000_000  # of an encoder that ships


def make_sets(folder: Path, size: int, workers: int) -> dict[str, Path]:
    "Generate the two sets of flights if they are missing; return their folders"
    folders = dict(sensors=folder / 'sensors2000', film=folder / f'film600_{size}')
    generate_flights(folders['sensors'], 2000, seed=17, camera=False, workers=workers)
    generate_flights(folders['film'], 600, seed=18, camera=True, size=size, workers=workers)
    return folders


def grids(folders: dict[str, Path], args: argparse.Namespace) -> list[dict]:
    "The grids of trials: the mean, then width by width, sensors before film, all columns before quiet ones"
    shared = dict(device=[args.device], windows=[WINDOWS])
    result = []
    for path in folders.values():
        result.append(shared | dict(data=[str(path)], method=['mean_baseline'], n_codes=[1]))
    for width in args.widths:
        for name, path in folders.items():
            is_film = name == 'film'
            pairs = [(m, i) for m, i in table4(read_flights(path)) if m != 'mean_baseline']
            pairs = [
                (m, i) for m, i in pairs if ('frames' in i) == is_film and (has_width(m) or width == args.widths[0])
            ]
            for quiet in (False,) if is_film else (False, True):
                for method, inputs in pairs:
                    if ('quiet' in inputs) != quiet:
                        continue
                    grid = shared | dict(data=[str(path)], method=[method], inputs=[inputs], n_codes=[width])
                    grid |= dict(every=[args.every if is_film else 1], seed=args.seeds)
                    if not is_film:
                        grid |= EARLY_STOPPING
                    elif method not in STILLS and args.device == 'cpu':
                        grid |= FILM
                    result.append(grid)
    return result


def small_encoders(flights: Path) -> None:
    "Train the three shipped encoders if they are missing"
    directory = sample_path('paper_scores.csv').parent / 'encoders'
    directory.mkdir(exist_ok=True)
    for name, (kind, arguments) in SMALL.items():
        if not (file := directory / f'landing_{name}.safetensors').exists():
            kind(n_codes=32, windows=WINDOWS, device='cpu', **arguments).fit(read_flights(flights)).save(file)
        if file.stat().st_size > MAX_BYTES:
            raise SystemExit(f'{file.name} has {file.stat().st_size:,} bytes, more than {MAX_BYTES:,}')


def collect(folder: Path) -> None:
    "Collect the scores and training curves of a sweep, and the gains of its encoders over `pca_statistics`"
    collect_curves(training_curves(folder))
    scores = load_scores(folder / 'scores.csv')
    path = sample_path('paper_scores.csv').parent / 'landing_benchmark.csv'
    gains = sweep_gains(folder)
    parts = [without_gains(load_scores(path), gains)] if path.exists() else []
    parts += [scores[scores['source'] == 'srlviz'], gains]
    table = pd.concat(parts, ignore_index=True)
    table = table.drop_duplicates([c for c in table if c != 'value'], keep='last')
    save_scores(check_scores(table), path)
    print(f"{len(table):,} rows of {table['method'].nunique()} methods")
    for _, part in table.groupby('data'):
        print(headline(part))  # the README shows that of 2,000 flights


def without_gains(scores: pd.DataFrame, gains: pd.DataFrame) -> pd.DataFrame:
    "Drop the gains on flights and inputs that have new gains: the old ones may be of other targets"
    keys = ['data', 'inputs']
    has_new_gains = pd.MultiIndex.from_frame(scores[keys]).isin(pd.MultiIndex.from_frame(gains[keys]))
    is_replaced = scores['metric'].str.match('gain|skill') & has_new_gains
    return scores[~is_replaced]


def collect_curves(curves: pd.DataFrame) -> None:
    "Add training curves to those that ship; they replace those of the same runs"
    path = sample_path('paper_scores.csv').parent / 'landing_training.csv'
    if curves.empty:
        return
    run = ['data', 'budget', 'method', 'inputs', 'n_codes', 'seed']
    shipped = shipped_curves()
    is_measured_again = shipped.set_index(run).index.isin(curves.set_index(run).index)
    curves = pd.concat([shipped[~is_measured_again], curves], ignore_index=True)
    with atomic_path(path) as file:
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
    args = parser.parse_args()
    if not args.collect:
        folders = make_sets(Path(args.sets), args.size, args.workers)
        small_encoders(folders['sensors'])
        for grid in grids(folders, args):
            sweep(LANDING, grid, args.out, workers=args.workers)
            collect(Path(args.out))
    collect(Path(args.out))
