"""Fill the matrix that ships: every representation x every question x four worlds, data_samples/cross_evaluation.*.

    python benchmarks/measure_cross.py OUT [--worlds pong,approach-film] [--seeds 0,1] [--save]

Resumable: trials that are done are found again. One process. `--save` writes what is done to data_samples. The film of
an approach is drawn once for each seed, which takes most of the time of its first trial.
"""

import argparse, sys, time
from importlib.metadata import version
from pathlib import Path

import torch

from srlviz.studies.matrix.cross_evaluation import CROSS_EVALUATION, LEFT_OUT
from srlviz.studies.matrix.representations import REFERENCES
from srlviz.studies.matrix.results import Matrix, open_matrix, save_matrix
from srlviz.studies.matrix.settings import SETTINGS
from srlviz.studies.sweep import sweep

LEARNED = ('agent', 'GRU', 'masked_autoencoder', 'ts_regr_attention_t1', 'vae', 'st_dim')
PLACE = Path(__file__).parents[1] / 'data_samples' / 'cross_evaluation.csv'


def shipped_rows(matrix: Matrix) -> Matrix:
    "Keep four digits, and of metrics other than the headline only what is over all targets"
    scores = matrix.scores.assign(value=[float(f'{v:.4g}') for v in matrix.scores['value'].astype(float)])
    return Matrix(scores[scores['target'] == 'mean'], matrix.reasons)


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out')
    parser.add_argument('--worlds', default=','.join(SETTINGS))
    parser.add_argument('--seeds', default='0')
    parser.add_argument('--epochs', type=int, default=15)
    parser.add_argument('--save', action='store_true')
    args = parser.parse_args(argv)
    torch.set_num_threads(1)
    for seed in map(int, args.seeds.split(',')):
        for world in args.worlds.split(','):
            grid = dict(world=[world], representation=[*REFERENCES, *LEARNED], epochs=[args.epochs], seed=[seed])
            sweep(CROSS_EVALUATION, grid, args.out, workers=1)
    if args.save:
        about = dict(
            made_by='benchmarks/measure_cross.py',
            date=time.strftime('%Y-%m-%d'),
            epochs=args.epochs,
            left_out=list(LEFT_OUT),
            packages={name: version(name) for name in ('torch', 'numpy', 'scikit-learn')},
        )
        save_matrix(shipped_rows(open_matrix(args.out)), PLACE, about)


if __name__ == '__main__':
    main(sys.argv[1:])
