"""Make the shipped scores data_samples/atari_scores.csv and their provenance atari_scores.json.

    make tables TABLES=atari                   measure what is missing
    python benchmarks/measure_scores.py OUT    write what a folder has, of an earlier run

All 22 games with the paper's methods and the variants of ST-DIM (Figure 3, Tables 8 and 9), Freeway with the shipped
agent, and more seeds; five epochs over 8,000 frames for every trained encoder: about five CPU minutes per game and
three methods. A killed run resumes. atari_scores.json lists the methods of each game, by seed, and how those that this
script added were made. data_samples/atari_probe_size.csv has `majority` and `random_cnn`, which are not trained, with
probes of the paper's size on three games.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
from measure_tables import Part

from srlviz.core.scores import load_scores, merge_scores, save_scores
from srlviz.core.files import read_json, write_json
from srlviz.envs.atari import GAMES
from srlviz.studies.papers.probed_games import ATARI_VERSION, probe_games
from srlviz.studies.papers.paper_tables import with_game_means

BUDGET = dict(
    encoder_frames=8000,
    probe_frames=12000,
    encoder=dict(epochs=5, pixel_pred=dict(shrink=2), vae=dict(shrink=2)),
    probing=dict(epochs=40),
    quick=True,
)  # pixels are drawn at half size
METHODS, FOUR = ('majority', 'random_cnn', 'pixel_pred', 'st_dim'), ('pong', 'bowling', 'boxing', 'breakout')
MORE, VARIANTS = ('vae', 'cpc', 'supervised'), ('jsd_st_dim', 'global_t_dim', 'gl_st_dim', 'static_dim')
SECONDS = dict(majority=20, random_cnn=40, pixel_pred=90, st_dim=100, vae=100, cpc=150, supervised=100)  # others: 100
PARTS = {  # name -> place, seed, games, methods
    'four games': (4, 0, FOUR, (*METHODS, *MORE, *VARIANTS)),
    'agent of Freeway': (4, 0, ('freeway',), ('ppo_features',)),
    'all games': (4, 0, GAMES, METHODS),
    'Pong, seed 1': (4, 1, ('pong',), (*METHODS, *MORE, *VARIANTS)),
    'Pong, seed 2': (4, 2, ('pong',), (*METHODS, *MORE, *VARIANTS)),
    'all games, VAE, CPC, Supervised': (4, 0, GAMES, MORE),
    'all games, seed 1': (4, 1, GAMES, ('random_cnn', 'st_dim')),
    'all games, seed 2': (4, 2, GAMES, ('random_cnn', 'st_dim')),
    'all games, variants of ST-DIM': (7, 0, GAMES, VARIANTS),
}
SIZES = (12_000, 40), (12_000, 100), (50_000, 100)  # frames and epochs of probes: ours, more epochs, the paper's
SIZE_GAMES = ('pong', 'freeway', 'riverraid')
SAMPLES = Path(__file__).parents[1] / 'data_samples'
TABLE, METADATA = SAMPLES / 'atari_scores.csv', SAMPLES / 'atari_scores.json'
SIZE_TABLE = SAMPLES / 'atari_probe_size.csv'


KEYS, COPIED = ['task', 'method', 'seed'], ('kept', 'entropy', 'duplicates')


def shipped() -> tuple[pd.DataFrame, dict]:
    "The shipped scores and their provenance; nothing if an older version of the study made them"
    scores = load_scores(TABLE)
    metadata = read_json(METADATA)
    if metadata.get('version') == ATARI_VERSION:
        return scores, metadata
    return scores[:0], dict(made_by='make tables', games={})


def parts(out: Path) -> Iterator[Part]:
    "The parts by priority"
    scores, metadata = shipped()
    folder = out / f'atari-{ATARI_VERSION}'
    there = set(scores[KEYS].itertuples(index=False, name=None))
    for name, (place, seed, games, methods) in PARTS.items():
        missing = {}  # game -> methods
        for game in games:
            if missing_methods := tuple(m for m in methods if (game, m, seed) not in there):
                missing.setdefault(missing_methods, []).append(game)
        seconds = [SECONDS.get(m, 100) for names, some in missing.items() for m in names for _ in some]

        def run(workers, seed=seed, missing=missing):
            for methods, games in missing.items():
                probe_games(games, methods, out=folder / f'seed{seed}', n_jobs=workers, seed=seed, **BUDGET)
            write(*collect(folder))

        yield Part(place, 'atari', name, len(games) * len(methods), len(seconds), sum(seconds) / 3600, run)
    n = 0 if metadata.get('probe_size_version') == ATARI_VERSION else len(SIZES) * len(SIZE_GAMES)
    cells = len(SIZES) * len(SIZE_GAMES)
    yield Part(4, 'atari', 'size of probes', cells, n, n * 400 / 3600, lambda workers: sizes(folder, workers))


def sizes(folder: Path, workers: int) -> None:
    "Probe `majority` and `random_cnn` with probes of several sizes, and write the table"
    tables = []
    for frames, epochs in SIZES:
        call = dict(encoder_frames=1000, probe_frames=frames, probing=dict(epochs=epochs), quick=True, n_jobs=workers)
        found = probe_games(SIZE_GAMES, ['majority', 'random_cnn'], out=folder / f'size-{frames}-{epochs}', **call)
        rows = found.scores[(found.scores['group'] == 'all') & (found.scores['target'] == 'mean')]
        tables.append(rows.assign(protocol=f'{frames:,} frames, {epochs} epochs', value=rows['value'].round(4)))
    save_scores(pd.concat(tables, ignore_index=True), SIZE_TABLE)
    write_json(METADATA, shipped()[1] | dict(probe_size_version=ATARI_VERSION))


def collect(out: Path) -> tuple[pd.DataFrame, dict]:
    "All scores in a folder, of any version of the code, and their metadata: seed -> game -> about"
    all_methods = sorted({m for *_, methods in PARTS.values() for m in methods})
    seeds = sorted({seed for _, seed, *_ in PARTS.values() if (out / f'seed{seed}').exists()})
    found = {str(s): probe_games(GAMES, all_methods, out=out / f'seed{s}', seed=s, compute=False) for s in seeds}
    return merge_scores(*(f.scores for f in found.values())), {seed: f.about for seed, f in found.items()}


def write(scores: pd.DataFrame, metadata: dict):
    "Write both files: these scores and metadata, and the existing ones of other games, methods and seeds"
    shipped_scores, shipped_metadata = shipped()
    scores = scores.assign(value=scores['value'].round(4))
    is_replaced = pd.MultiIndex.from_frame(shipped_scores[KEYS]).isin(pd.MultiIndex.from_frame(scores[KEYS]))
    scores = with_game_means(merge_scores(shipped_scores[~is_replaced], scores))
    order = ['task', 'method', 'seed', 'norm', 'metric', 'group', 'target']
    save_scores(scores.sort_values(order, ignore_index=True), TABLE)
    for seed, games in metadata.items():
        if seed == '0':
            entries = shipped_metadata['games']
        else:
            entries = shipped_metadata.setdefault('seeds', {}).setdefault(seed, {})
        entries |= {g: entry(about, entries.get(g, {})) for g, about in games.items()}
    write_json(METADATA, shipped_metadata | dict(version=ATARI_VERSION, budget=BUDGET))
    means = scores.query("metric == 'f1' and group == 'all' and target == 'mean'")
    print(means.pivot(index=['task', 'seed'], columns=['method', 'norm'], values='value').round(2).to_string())


def entry(about: dict, previous: dict) -> dict:
    "The metadata of a game and seed"
    added = {m: {k: a[k] for k in ('encoder', 'probing', 'cpu_seconds')} for m, a in about['methods'].items()}
    return previous | dict(
        methods=sorted({*previous.get('methods', []), *added}),
        pruned=list(about['pruned']),
        rows={k.removeprefix('probe '): n for k, n in about['rows'].items() if k.startswith('probe ')},
        added=previous.get('added', {}) | added,
        packages=about['packages'],
        **{k: about[k] for k in COPIED},
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=Path, help='folder of the sweeps, which has seed0')
    write(*collect(parser.parse_args().out))
