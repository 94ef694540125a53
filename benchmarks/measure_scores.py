"""Make the shipped scores data_samples/atari_scores.csv and their provenance atari_scores.json.

All 22 games with seven methods, four games with the variants of ST-DIM (the paper's Figure 3, Tables 8 and 9), Freeway
with the shipped agent, and Pong with two more seeds; five epochs over 8,000 frames for every trained encoder. `PARTS`
lists them by priority: about five CPU minutes per game and part. Results are cached in --out, so that a killed run
resumes; --parts selects the parts to make, and without a name only writes the results in --out. Shipped rows of other
games, methods and seeds stay. atari_scores.json lists the methods of each game, by seed, and how those that this script
added were made.
"""

import argparse, json
from pathlib import Path

import pandas as pd

from srlviz.core.scores import load_scores, merge_scores, save_scores
from srlviz.core.files import write_json
from srlviz.envs.atari import GAMES
from srlviz.studies.papers.atari import probe_games
from srlviz.studies.papers.tables import with_game_means

BUDGET = dict(
    encoder_frames=8000,
    probe_frames=12000,
    encoder=dict(epochs=5, pixel_pred=dict(shrink=2), vae=dict(shrink=2)),
    probing=dict(epochs=40),
    quick=True,
)  # pixels are drawn at half size
METHODS, FOUR = ('majority', 'random_cnn', 'pixel_pred', 'st_dim'), ('pong', 'bowling', 'boxing', 'breakout')
MORE, VARIANTS = ('vae', 'cpc', 'supervised'), ('jsd_st_dim', 'global_t_dim', 'gl_st_dim', 'static_dim')
PARTS = {  # name -> seed, games, methods
    'methods': (0, FOUR, MORE),
    'ablations': (0, FOUR, VARIANTS),
    'agent': (0, ('freeway',), ('ppo_features',)),
    'seed1': (1, ('pong',), (*METHODS, *MORE, *VARIANTS)),
    'seed2': (2, ('pong',), (*METHODS, *MORE, *VARIANTS)),
    'games': (0, GAMES, METHODS),
    'more': (0, [g for g in GAMES if g not in FOUR], MORE),
}
SAMPLES = Path(__file__).parents[1] / 'data_samples'


KEYS, COPIED = ['task', 'method', 'seed'], ('kept', 'entropy', 'duplicates')


def main(out: Path, n_jobs: int, parts: list[str]):
    for part in parts:
        seed, games, methods = PARTS[part]
        print(part, probe_games(games, methods, out=out / f'seed{seed}', n_jobs=n_jobs, seed=seed, **BUDGET))
    write(*collect(out))


def collect(out: Path) -> tuple[pd.DataFrame, dict]:
    "All scores in a folder, of any version of the code, and their metadata: seed -> game -> about"
    all_methods = sorted({m for _, _, methods in PARTS.values() for m in methods})
    seeds = sorted({seed for seed, _, _ in PARTS.values() if (out / f'seed{seed}').exists()})
    found = {str(s): probe_games(GAMES, all_methods, out=out / f'seed{s}', seed=s, compute=False) for s in seeds}
    return merge_scores(*(f.scores for f in found.values())), {seed: f.about for seed, f in found.items()}


def write(scores: pd.DataFrame, metadata: dict):
    "Write both files: these scores and metadata, and the existing ones of other games, methods and seeds"
    shipped_scores = load_scores(SAMPLES / 'atari_scores.csv')
    shipped_metadata = json.loads((SAMPLES / 'atari_scores.json').read_text(encoding='utf-8'))
    scores = scores.assign(value=scores['value'].round(4))
    is_replaced = pd.MultiIndex.from_frame(shipped_scores[KEYS]).isin(pd.MultiIndex.from_frame(scores[KEYS]))
    scores = with_game_means(merge_scores(shipped_scores[~is_replaced], scores))
    order = ['task', 'method', 'seed', 'norm', 'metric', 'group', 'target']
    save_scores(scores.sort_values(order, ignore_index=True), SAMPLES / 'atari_scores.csv')
    for seed, games in metadata.items():
        if seed == '0':
            entries = shipped_metadata['games']
        else:
            entries = shipped_metadata.setdefault('seeds', {}).setdefault(seed, {})
        entries |= {g: entry(about, entries.get(g, {})) for g, about in games.items()}
    write_json(SAMPLES / 'atari_scores.json', shipped_metadata | dict(budget=BUDGET))
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
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=Path, default=Path('runs/atari_scores'))
    parser.add_argument('--n-jobs', type=int, default=-1, help='games at the same time')
    parser.add_argument('--parts', nargs='*', choices=PARTS, default=list(PARTS))
    main(**vars(parser.parse_args()))
