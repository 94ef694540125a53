"""Make the shipped matrix data_samples/cross_evaluation.*: every representation x every question x four worlds.

    python benchmarks/measure_cross.py OUT [--worlds pong,approach-film] [--seeds 0,1] [--save]

A killed run resumes: finished trials are not repeated. One process. `--save` writes the finished trials to
data_samples, and docs/agreement.png (with Chromium). The film of an approach is rendered once for each seed, which
takes most of the time of its first trial.
"""

import argparse, io, sys, time
from importlib.metadata import version
from pathlib import Path

import torch
from PIL import Image

from srlviz.core.metrics import headlines, questions
from srlviz.figures.pictures import figure_png
from srlviz.figures.scores.matrix import plot_agreement
from srlviz.studies.matrix.cross_evaluation import CROSS_EVALUATION
from srlviz.studies.matrix.representations import REFERENCES
from srlviz.studies.matrix.results import Matrix, open_matrix, save_matrix
from srlviz.studies.matrix.settings import SETTINGS
from srlviz.studies.sweep import sweep

LEARNED = ('agent', 'GRU', 'masked_autoencoder', 'ts_regr_attention_t1', 'vae', 'st_dim')
TABLE_PATH = Path(__file__).parents[1] / 'data_samples' / 'cross_evaluation.csv'


def shipped_rows(matrix: Matrix) -> Matrix:
    "Keep four digits, and only the headline metrics of single targets"
    scores = matrix.scores.assign(value=[float(f'{v:.4g}') for v in matrix.scores['value'].astype(float)])
    is_headline = scores['metric'] == scores['group'].map(headlines())
    return Matrix(scores[is_headline | (scores['target'] == 'mean')], matrix.reasons)


def draw_agreement(matrix: Matrix) -> Image.Image:
    "Draw the two maps of agreement side by side"
    figures = [
        plot_agreement(matrix.between_questions(), title='by two questions, mean over worlds'),
        plot_agreement(matrix.between_worlds(), title='in two worlds, mean over questions'),
    ]
    images = [Image.open(io.BytesIO(figure_png(figure))).convert('RGB') for figure in figures]
    both = Image.new('RGB', (sum(i.width for i in images), max(i.height for i in images)), 'white')
    left = 0
    for image in images:
        both.paste(image, (left, 0))
        left += image.width
    return both


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
        metadata = dict(
            made_by='benchmarks/measure_cross.py',
            date=time.strftime('%Y-%m-%d'),
            epochs=args.epochs,
            left_out=sorted(name for name, question in questions().items() if question.cost == 'slow'),
            packages={name: version(name) for name in ('torch', 'numpy', 'scikit-learn')},
        )
        matrix = shipped_rows(open_matrix(args.out))
        save_matrix(matrix, TABLE_PATH, metadata)
        draw_agreement(matrix).save(TABLE_PATH.parents[1] / 'docs' / 'agreement.png', optimize=True)


if __name__ == '__main__':
    main(sys.argv[1:])
