"""Make data_samples/atari_scores.csv, the scores that come with the package, and atari_scores.json, how they were made.

All 22 games with four methods, and four games with four more; one seed; five epochs over 8,000 frames for every encoder
that learns: about five CPU-minutes a game. Whatever was made is found again in --out, so that a killed run goes on.
What comes with the package today is the first part; atari_scores.json lists the methods of each game.
"""

import argparse
from pathlib import Path

from srlviz.core.scores import load_scores, merge_scores, save_scores
from srlviz.core.files import write_json
from srlviz.envs.atari import GAMES
from srlviz.studies.probing import probe_games, with_game_means

BUDGET = dict(
    encoder_frames=8000,
    probe_frames=12000,
    encoder=dict(epochs=5, pixel_pred=dict(shrink=2), vae=dict(shrink=2)),
    probing=dict(epochs=40),
    quick=True,
    seed=0,
)  # pixels are drawn at half size
METHODS = ('majority', 'random_cnn', 'pixel_pred', 'st_dim')
MORE_GAMES, MORE_METHODS = ('pong', 'bowling', 'boxing', 'breakout'), ('vae', 'cpc', 'supervised', 'ppo_features')
SAMPLES = Path(__file__).parents[1] / 'data_samples'


def main(out: Path, n_jobs: int):
    found = [
        probe_games(games, methods, out=out, n_jobs=n_jobs, **BUDGET)
        for games, methods in ((GAMES, METHODS), (MORE_GAMES, MORE_METHODS))
    ]
    write(merge_scores(*[f.scores for f in found]), {g: a for f in reversed(found) for g, a in f.about.items()})


def write(scores, games: dict):
    "Write both files; `games` says how each was made"
    scores = with_game_means(scores.assign(value=scores['value'].round(4)))
    save_scores(
        scores.sort_values(['task', 'method', 'norm', 'metric', 'group', 'target'], ignore_index=True),
        SAMPLES / 'atari_scores.csv',
    )
    write_json(SAMPLES / 'atari_scores.json', dict(made_by='benchmarks/measure_scores.py', budget=BUDGET, games=games))
    print(
        load_scores(SAMPLES / 'atari_scores.csv')
        .query("metric == 'f1' and group == 'all' and target == 'mean'")
        .pivot(index='task', columns=['method', 'norm'], values='value')
        .round(2)
        .to_string()
    )


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--out', type=Path, default=Path('runs/atari_scores'))
    parser.add_argument('--n-jobs', type=int, default=-1, help='games at the same time')
    main(**vars(parser.parse_args()))
