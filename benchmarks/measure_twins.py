"""Search the labelled Atari games for variables that twins can differ in, and write data_samples/atari_twins.csv.

    python benchmarks/measure_twins.py [game ...] [--write] [--steps 6000] [--frames 4 8] [--moments 40]

Without --write, the found rows are only shown. About 25 s of CPU for each game and number of frames.
"""

import argparse, time

import pandas as pd

from srlviz.core.files import sample_path
from srlviz.data.atari import record_atari
from srlviz.envs.atari import GAMES, game_name
from srlviz.envs.ram_twins import find_settable


def search(game, steps, frames, moments):
    """Search one game for each number of frames, and return the table with the most settable variables.

    Its natural play has a seed that no moment has.
    """
    natural = record_atari(game, steps, seed=1_000_003, n_jobs=1, progress=False)
    tables = [find_settable(natural, frames=f, n=moments) for f in frames]
    return max(tables, key=lambda table: (table['reason'] == '').sum())


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('games', nargs='*', help='all by default')
    parser.add_argument('--write', action='store_true', help='replace the rows of these games in the file')
    parser.add_argument('--steps', type=int, default=6000, help='of natural play')
    parser.add_argument('--frames', type=int, nargs='+', default=[4, 8], help='emulator frames to draw')
    parser.add_argument('--moments', type=int, default=40)
    args = parser.parse_args()
    for game in map(game_name, args.games or GAMES):
        start = time.process_time()
        found = search(game, args.steps, args.frames, args.moments)
        print(f'{game}: {time.process_time() - start:.0f} s of CPU')
        print(found.drop(columns='game').to_string(index=False), flush=True)
        if args.write:
            path = sample_path('atari_annotations.csv').with_name('atari_twins.csv')
            known = pd.read_csv(path, keep_default_na=False, dtype=object) if path.exists() else found[:0]
            table = pd.concat([known[known['game'] != game], found.astype(object).fillna('')])
            table.sort_values('game', kind='stable').to_csv(path, index=False)
