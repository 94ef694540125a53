"""Make the shipped matrix data_samples/cross_evaluation: every representation x every question x eleven worlds.

    make tables TABLES=matrix                 measure what is missing
    python benchmarks/measure_cross.py OUT    write what a folder has, of an earlier run, and docs/agreement.png

A killed run resumes. Eight of the worlds are partially observable tasks; the exact posterior is known in seven. The
film of an approach is rendered once for each seed, which takes most of the time of its first trial.
"""

import argparse, io, shutil, time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd
from measure_tables import Part, measure
from PIL import Image

from srlviz.agents.player import load_agents
from srlviz.core.metrics import headlines, questions
from srlviz.core.results import Results, results_of
from srlviz.evaluate.ask import code_questions
from srlviz.figures.pictures import figure_png
from srlviz.figures.scores.matrix import plot_agreement
from srlviz.studies.matrix.cross_evaluation import CROSS_EVALUATION, MATRIX_VERSION
from srlviz.studies.matrix.representations import REFERENCES
from srlviz.studies.matrix.matrix_results import (
    between_questions,
    between_seeds,
    between_worlds,
    open_matrix,
    shipped_matrix,
)

TASKS = (
    'RepeatFirst',
    'CountRecall',
    'HigherLower',
    'Concentration',
    'MultiarmedBandit',
    'Autoencode',
    'PositionOnlyCartPole',
)
WORLDS = {  # world -> steps or episodes to record, 0 for the setting's; seeds; seconds of a trial
    'RepeatPrevious-easy': (0, 3, 8),
    **{f'{task}-easy': (100, 3, 10) for task in TASKS},
    'pong': (0, 2, 25),
    'approach-sensors': (0, 2, 20),
    'approach-film': (150, 2, 110),
}
LEARNED = ('agent', 'GRU', 'LSTM', 'masked_autoencoder', 'ts_regr_attention_t1', 'vae', 'st_dim')
REPRESENTATIONS = (*REFERENCES, *LEARNED)
EPOCHS = 15
MAX_TARGETS = 16  # of a world whose single targets ship; Concentration-easy has 108
NOT_YET = 'not measured in the table that ships: it takes minutes a cell (make tables TABLES=matrix)'
ROOT = Path(__file__).parents[1]
TABLE = ROOT / 'data_samples' / 'cross_evaluation'


def shipped() -> Results | None:
    "The shipped matrix, if it is of the current version"
    matrix = shipped_matrix() if TABLE.exists() else None
    return matrix if matrix is not None and matrix.about.get('version') == MATRIX_VERSION else None


def parts(out: Path) -> Iterator[Part]:
    "A part for each world and seed; a question that cannot be answered is there if its reason is"
    asked = {*code_questions()}
    answered, reasoned, recorded = set(), set(), set()
    if (matrix := shipped()) is not None:
        answered = set(matrix.scores[['method', 'task', 'group', 'seed']].itertuples(index=False, name=None))
        recorded = {(world, seed) for _, world, _, seed in answered}
        with_agent = {('agent', task) for task, _ in load_agents('shipped')}  # which may not have been there
        with_agent -= {(name, world) for name, world, _, _ in answered}
        reasoned = {key for key, why in matrix.reasons.items() if key[:2] not in with_agent and why != NOT_YET}
    for seed in range(3):
        for world, (n, seeds, seconds) in WORLDS.items():
            if seed >= seeds:
                continue
            missing = {}  # questions -> names of the representations that lack them
            for name in REPRESENTATIONS:
                has = {q for q in asked if (name, world, q, seed) in answered}
                if (world, seed) in recorded:
                    has |= {q for q in asked if (name, world, q) in reasoned}
                if has != asked:
                    missing.setdefault(tuple(sorted(asked - has)) if has else (), []).append(name)

            def run(workers, missing=missing, world=world, n=n, seed=seed):
                grid = dict(world=[world], n=[n], epochs=[EPOCHS], seed=[seed])
                for asking, names in missing.items():
                    one = grid | dict(representation=names, questions=[[*asking]])
                    measure(CROSS_EVALUATION, one, out / f'matrix-{MATRIX_VERSION}', workers)
                save(out / f'matrix-{MATRIX_VERSION}')

            cells = sum(map(len, missing.values()))
            hours = cells * seconds / 3600
            yield Part(1, 'matrix', f'{world}, seed {seed}', len(REPRESENTATIONS), cells, hours, run)


def four_digits(matrix: Results) -> Results:
    "Keep four digits, and of single targets the headline metrics, in worlds of few targets"
    scores = matrix.scores.assign(value=[float(f'{v:.4g}') for v in matrix.scores['value'].astype(float)])
    is_headline = scores['metric'] == scores['group'].map(headlines())
    few = scores.groupby('task')['target'].transform('nunique') <= MAX_TARGETS
    return results_of(scores[is_headline & few | (scores['target'] == 'mean')], matrix.reasons)


def merged(old: Results | None, new: Results) -> Results:
    "Replace what was measured again"
    if old is None:
        return new
    keys = ['task', 'seed', 'method', 'group']
    is_new = pd.MultiIndex.from_frame(old.scores[keys]).isin(pd.MultiIndex.from_frame(new.scores[keys]))
    scores = pd.concat([old.scores[~is_new], new.scores], ignore_index=True)
    cells = set(scores[['method', 'task', 'group']].itertuples(index=False, name=None))
    reasons = {key: reason for key, reason in {**old.reasons, **new.reasons}.items() if key not in cells}
    return results_of(scores, reasons)


def with_gaps(matrix: Results) -> Results:
    "Give cells that were not measured yet their reason"
    answered = set(matrix.scores[['method', 'task', 'group']].itertuples(index=False, name=None))
    cells = {
        (m, w, q)
        for m in matrix.scores['method'].unique()
        for w in matrix.tasks
        for q in matrix.scores['group'].unique()
    }
    gaps = dict.fromkeys(sorted(cells - answered - {*matrix.reasons}), NOT_YET)
    return results_of(matrix.scores, matrix.reasons | gaps, references=matrix.references, about=matrix.about)


def save(out: Path) -> None:
    "Write the finished trials of a folder beside those that ship, and the figure of agreement"
    matrix = merged(shipped(), four_digits(open_matrix(out)))
    matrix = with_gaps(matrix)
    order = {name: i for i, name in enumerate((*WORLDS, *REPRESENTATIONS))}
    scores = matrix.scores.sort_values(['task', 'seed', 'method'], key=lambda c: c.map(order).fillna(c), kind='stable')
    metadata = dict(
        made_by='make tables',
        version=MATRIX_VERSION,
        date=time.strftime('%Y-%m-%d'),
        epochs=EPOCHS,
        recorded={world: n for world, (n, _, _) in WORLDS.items() if n},
        left_out=sorted(name for name, question in questions().items() if question.cost == 'slow'),
        packages={name: version(name) for name in ('torch', 'numpy', 'scikit-learn')},
    )
    references = tuple(name for name in REFERENCES if name in {*scores['method']})
    matrix = results_of(scores, dict(sorted(matrix.reasons.items())), references=references, about=metadata)
    with TemporaryDirectory(dir=TABLE.parent) as folder:
        new = matrix.save(Path(folder) / 'new', data=False)
        shutil.rmtree(TABLE, ignore_errors=True)
        new.rename(TABLE)
    draw_agreement(matrix).save(ROOT / 'docs' / 'agreement.png', optimize=True)


def draw_agreement(matrix: Results) -> Image.Image:
    "Draw the two maps of agreement side by side"
    worlds = pd.concat([between_worlds(matrix), between_seeds(matrix)], ignore_index=True)
    figures = [
        plot_agreement(between_questions(matrix), title='by two questions, mean over worlds and seeds'),
        plot_agreement(worlds, title='in two worlds, and (diagonal) with two seeds of one; mean over questions'),
    ]
    images = [Image.open(io.BytesIO(figure_png(figure))).convert('RGB') for figure in figures]
    both = Image.new('RGB', (sum(i.width for i in images), max(i.height for i in images)), 'white')
    left = 0
    for image in images:
        both.paste(image, (left, 0))
        left += image.width
    return both


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('out', type=Path, help='folder of a sweep')
    save(parser.parse_args().out)
