"""Make the shipped scores data_samples/landing_benchmark.csv, and three small encoders.

    make tables TABLES=landing                  measure what is missing
    python benchmarks/measure_landing.py OUT    write what a folder has, of an earlier run

2,000 flights without film (about five minutes on two idle cores) and 600 with film of 64 pixels (thirteen), then the
encoders of Table 4 and beyond, by priority: those of quiet sensors, then of film and of all sensors. Film is read once
a second (every fifth row). A killed run resumes. Encoders of sensors train until the validation loss has not improved
for ten epochs, at most for a hundred (`converged` of the group 'training' says which did); networks over windows of
film for five epochs of one window per flight. The head is trained in single precision: on another number of threads it
rounds otherwise, and the error of a target differs by about .02. The curves of all trainings are collected in
data_samples/landing_training.csv. On a GPU: benchmarks/measure_gpu.py.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from measure_tables import Part, measure

from srlviz.core.files import atomic_path, read_json, sample_path, write_json
from srlviz.core.scores import check_scores, load_scores, save_scores
from srlviz.data.landing import generate_flights, read_flights
from srlviz.encoders.sequences.sequence_autoencoder import SequenceAutoencoder
from srlviz.encoders.sequences.forecast import Forecaster
from srlviz.studies.papers.landing import (
    LANDING,
    LANDING_VERSION,
    TABLE4,
    beyond,
    has_width,
    headline,
    shipped_curves,
    sweep_gains,
    training_curves,
)

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
SENSORS, FLIGHTS = 'quiet sensors', '2000 flights'
PAPERS = (  # the eight rows of Table 4 that read sensors
    'lstm_ae_1layer',
    'lstm_ae_2layer_bidir',
    'conv1d_ae',
    'ts_regr_lstm_t30',
    'ts_regr_attention_t1',
    'context_lstm',
    'context_attention',
    'context_conv1d',
)
SAMPLES = sample_path('paper_scores.csv').parent
TABLE, METADATA = SAMPLES / 'landing_benchmark.csv', SAMPLES / 'landing_benchmark.json'
KEY = ['data', 'inputs', 'method', 'n_codes', 'seed']


def is_current() -> bool:
    "Whether this version of the study made what ships"
    return METADATA.exists() and read_json(METADATA).get('version') == LANDING_VERSION


def shipped() -> pd.DataFrame:
    "The shipped table; nothing of it if an older version of the study made it"
    table = load_scores(TABLE)
    return table if is_current() else table[:0]


def make_set(folder: Path, workers: int, film: bool = False, size: int = 64) -> Path:
    "Generate a set of flights if it is missing; return its folder"
    path = folder / (f'film600_{size}' if film else 'sensors2000')
    generate_flights(path, 600 if film else 2000, seed=18 if film else 17, camera=film, size=size, workers=workers)
    return path


def part(place: int, name: str, keys: list[tuple], there: set[tuple], out: Path, film: bool = False) -> Part:
    "A part of (data, inputs, method, n_codes, seed); baselines without a width count by their method"
    of_any_width = {(data, inputs, method, seed) for data, inputs, method, _, seed in there}

    def is_there(data, inputs, method, n_codes, seed):
        if has_width(method):
            return (data, inputs, method, n_codes, seed) in there
        return (data, inputs, method, seed) in of_any_width

    missing = [key for key in keys if not is_there(*key)]
    folder = out / f'landing-{LANDING_VERSION}'

    def run(workers):
        path = make_set(out / 'sets', workers, film)
        if not film:
            small_encoders(path)
        grids = []
        for _, inputs, method, n_codes, seed in with_baselines(missing):
            grid = dict(data=[str(path)], method=[method], inputs=[inputs], n_codes=[n_codes], seed=[seed])
            grid |= dict(windows=[WINDOWS], every=[5 if film else 1])
            if not film:
                grid |= EARLY_STOPPING
            elif method not in STILLS:
                grid |= FILM
            grids.append(grid)
        measure(LANDING, grids, folder, workers)
        collect(folder)

    return Part(place, 'landing', name, len(keys), len(missing), len(missing) * (1800 if film else 600) / 3600, run)


def with_baselines(keys: list[tuple]) -> list[tuple]:
    "The keys, behind those of the baselines that gains of the same seed are measured from; these take seconds"
    found = {}
    for data, inputs, _, n_codes, seed in keys:
        found[data, '', 'mean_baseline', 1, seed] = None
        if inputs and 'frames' not in inputs:  # pca_statistics reads sensors; methods without a width have that of 64
            for width in sorted({64, n_codes}):
                found[data, inputs, 'pca_statistics', width, seed] = None
    return [*found, *(key for key in keys if key not in found)]


def parts(out: Path) -> Iterator[Part]:
    "The parts by priority"
    there = set(shipped()[KEY].itertuples(index=False, name=None))
    reads = TABLE4 | beyond()
    rest = [m for m, inputs in reads.items() if 'sensors' in inputs and m not in (*PAPERS, 'masked_autoencoder')]
    first = [(FLIGHTS, '', 'mean_baseline', 1, 0)]
    first += [(FLIGHTS, SENSORS, m, 64, 0) for m in ('pca_statistics', *PAPERS, 'masked_autoencoder')]
    yield part(3, f'{SENSORS}, seed 0', first, there, out)
    for seed in (1, 2):
        again = [(FLIGHTS, SENSORS, m, 64, seed) for m in (*PAPERS, 'masked_autoencoder')]
        yield part(3 if seed == 1 else 7, f'{SENSORS}, seed {seed}', again, there, out)
    yield part(7, f'{SENSORS}, other encoders', [(FLIGHTS, SENSORS, m, 64, 0) for m in rest], there, out)
    everything = [(FLIGHTS, 'sensors', m, 64, 0) for m in (*PAPERS, 'masked_autoencoder', *rest)]
    yield part(7, 'all sensors, seed 0', everything, there, out)
    wide = [(FLIGHTS, SENSORS, m, 128, 0) for m in (*PAPERS, 'masked_autoencoder')]
    yield part(7, f'{SENSORS}, width 128', wide, there, out)
    pairs = [(m, i) for m, inputs in reads.items() for i in inputs if 'frames' in i]
    pairs += [(m, i.replace('sensors', 'quiet sensors')) for m, i in pairs if 'sensors' in i]
    film = [('600 flights at 64 px', '', 'mean_baseline', 1, 0)]
    film += [('600 flights at 64 px', i, m, 64, 0) for m, i in pairs]
    yield part(7, 'film of 600 flights', film, there, out, film=True)


def small_encoders(flights: Path) -> None:
    "Train the three shipped encoders if they are missing, or of an older version of the study"
    directory = SAMPLES / 'encoders'
    directory.mkdir(exist_ok=True)
    for name, (kind, arguments) in SMALL.items():
        file = directory / f'landing_{name}.safetensors'
        if not (file.exists() and is_current()):
            kind(n_codes=32, windows=WINDOWS, device='cpu', **arguments).fit(read_flights(flights)).save(file)
        if file.stat().st_size > MAX_BYTES:
            raise ValueError(f'{file.name} has {file.stat().st_size:,} bytes, more than {MAX_BYTES:,}')


def collect(folder: Path) -> None:
    "Write the scores and training curves of a sweep beside those that ship, and the gains over `pca_statistics`"
    collect_curves(training_curves(folder))
    table, scores = shipped(), load_scores(folder / 'scores.csv')
    scores = pd.concat([scores[scores['source'] == 'srlviz'], sweep_gains(folder, beside=table)], ignore_index=True)
    again = scores['method'].isin(['mean_baseline', 'pca_statistics'])  # measured for their gains; what ships is kept
    scores = scores[~(again & pd.MultiIndex.from_frame(scores[KEY]).isin(pd.MultiIndex.from_frame(table[KEY])))]
    table = pd.concat([without_gains(table, scores), scores], ignore_index=True)
    table = table.drop_duplicates([c for c in table if c != 'value'], keep='last')
    check_gains(table)
    save_scores(check_scores(table), TABLE)
    write_json(METADATA, dict(version=LANDING_VERSION))
    print(f"{len(table):,} rows of {table['method'].nunique()} methods")
    for _, rows in table.groupby('data'):
        print(headline(rows))  # the README shows that of 2,000 flights


def check_gains(table: pd.DataFrame) -> None:
    "Refuse gains on the same inputs that are of other targets: their totals cannot be compared"
    gains = table[(table['metric'] == 'gain') & (table['group'] == 'targets')]
    targets = gains.groupby(['data', 'inputs', 'method', 'n_codes', 'seed'])['target'].agg(
        lambda t: ', '.join(sorted(t))
    )
    for (data, inputs), of_inputs in targets[targets.index.get_level_values('inputs') != ''].groupby(level=[0, 1]):
        if of_inputs.nunique() > 1:
            raise ValueError(
                f'{data}, {inputs}: gains of {"; of ".join(of_inputs.unique())}; measure all of them in one folder'
            )


def without_gains(scores: pd.DataFrame, new: pd.DataFrame) -> pd.DataFrame:
    "Drop the gains of methods that have new gains"
    gains = new[new['metric'].str.match('gain|skill')]
    has_new_gains = pd.MultiIndex.from_frame(scores[KEY]).isin(pd.MultiIndex.from_frame(gains[KEY]))
    is_replaced = scores['metric'].str.match('gain|skill') & has_new_gains
    return scores[~is_replaced]


def collect_curves(curves: pd.DataFrame) -> None:
    "Add training curves to those that ship; they replace those of the same runs"
    path = SAMPLES / 'landing_training.csv'
    if curves.empty:
        return
    run = ['data', 'budget', 'method', 'inputs', 'n_codes', 'seed']
    there = shipped_curves() if is_current() else curves[:0]
    is_measured_again = there.set_index(run).index.isin(curves.set_index(run).index)
    curves = pd.concat([there[~is_measured_again], curves], ignore_index=True)
    with atomic_path(path) as file:
        curves.to_csv(file, index=False, float_format='%.5g')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=Path, help='folder of a sweep')
    collect(parser.parse_args().out)
