"""Make the shipped QEDR results of landing encoders (failures), encoders of four games (bytes) and memories of agents.

    python benchmarks/measure_qedr.py --landing RUNS [RUNS ...]    encoders of sweeps of landing_benchmark
    python benchmarks/measure_qedr.py --games --out OUT            make recordings and encoders; a killed run resumes
    python benchmarks/measure_qedr.py --memories                   six shipped agents, seconds

Writes matrices to data_samples/qedr/NAME.npz (lassos over alpha; a forest for few codes; for landings also the
computation of the released code), the columns of landings into data_samples/landing_benchmark.csv, all other scores
into data_samples/qedr.csv. Other rows stay; an encoder whose file exists is skipped: delete the file to compute it
again. About one minute per landing encoder, ten per game.
"""

import argparse
from pathlib import Path

import pandas as pd

from srlviz.agents.player import load_policy
from srlviz.core.files import read_json, sample_path
from srlviz.core.recordings import align
from srlviz.core.saving import load_encoder
from srlviz.core.scores import check_scores, load_scores, save_scores
from srlviz.data.landing import read_flights
from srlviz.data.popgym import record_pomdp
from srlviz.core.questions import save_answers
from srlviz.evaluate.qedr import category_names
from srlviz.evaluate.targets import landing_targets
from srlviz.studies.papers.landing import encoder_input, input_columns, set_name
from srlviz.evaluate.ask import encode, fit_encoder, keep_checkpoint
from srlviz.studies.methods import make_encoder
from srlviz.studies.papers.probing import record_game
from srlviz.studies.papers.qedr_columns import qedr_ways, byte_categories, qedr_rows, window_inputs

SAMPLES = sample_path('paper_scores.csv').parent
GAMES, METHODS = ('pong', 'bowling', 'boxing', 'breakout'), ('random_cnn', 'st_dim', 'vae', 'supervised')
BUDGET = dict(encoder_frames=8000, probe_frames=12000)  # as benchmarks/measure_scores.py
EPISODES = 120  # that each agent plays
ENCODER = dict(epochs=5, vae=dict(shrink=2))


def is_done(name: str) -> bool:
    return (SAMPLES / 'qedr' / f'{name}.npz').exists()


def save_results(results, rows: list[dict], name: str, table: str) -> None:
    "Save the matrices of one encoder, and add its scores to the table"
    save_answers(results, SAMPLES / 'qedr' / f'{name}.npz', items=False)
    path, new = SAMPLES / table, check_scores(pd.DataFrame(rows))
    new['value'] = new['value'].map(lambda v: float(f'{v:.5g}'))
    both = pd.concat([load_scores(path), new], ignore_index=True) if path.exists() else new
    save_scores(check_scores(both.drop_duplicates([c for c in both if c != 'value'], keep='last')), path)
    print(name, *results[4:5], *results[9:], sep='\n  ', flush=True)


def landing(folder: Path) -> None:
    questions = {}
    for result in sorted(folder.glob('trials/*/result.json')):
        p, file = read_json(result)['parameters'], result.with_name('encoder.safetensors')
        method = 'pca' if p['method'] == 'frame_pca' else p['method']
        name = f'landing_{method}_{p["inputs"]}'.replace(' ', '_')
        if not file.exists() or method == 'mean_baseline' or is_done(name):
            continue
        if (p['data'], p['protocol']) not in questions:
            flights = read_flights(p['data'])
            targets = landing_targets(flights, p['length'], protocol=p['protocol'])
            questions[p['data'], p['protocol']] = flights, targets
        flights, targets = questions[p['data'], p['protocol']]
        encoder = load_encoder(file)
        sensors = input_columns(flights, p['inputs'], p['protocol'])
        codes = encode(encoder, encoder_input(targets.windows, p['inputs'], p['every'], sensors))
        results = qedr_ways(*window_inputs(codes, targets), ('lasso', 'forest', 'xeval'), seed=p['seed'])
        columns = dict(inputs=p['inputs'], seed=p['seed'], method=method, data=set_name(flights, p['protocol']))
        columns['budget'] = int(flights['fit'].n_steps)
        rows = qedr_rows(results, study='landing', task='approach', group='failures', **columns)
        save_results(results, rows, name, 'landing_benchmark.csv')


def games(out: Path, names: list[str]) -> None:
    for game in names:
        fit, probe = record_game(game, **BUDGET, out=out)
        for method in METHODS:
            if is_done(f'atari_{game}_{method}'):
                continue
            encoder = make_encoder(method, quick=True, **ENCODER)
            keep_checkpoint(encoder, method, fit, out)
            codes = encode(fit_encoder(encoder, fit), probe)
            results = qedr_ways(*align(codes, probe), ['lasso'], categories=byte_categories(game))
            columns = dict(method=method, data='random', inputs='frames', budget=BUDGET['encoder_frames'])
            rows = qedr_rows(results, study='qedr', task=game, group='ram', **columns)
            save_results(results, rows, f'atari_{game}_{method}', 'qedr.csv')


def memories() -> None:
    for file in sorted((SAMPLES / 'agents').glob('*.safetensors')):
        task, memory = file.stem.split('_')
        agent = load_policy(file)
        played = record_pomdp(task, EPISODES, agent, split=dict(probe=0.7, valid=0.1, test=0.2))
        codes = agent.encode(played)
        if not codes[0].shape[1]:
            continue  # an MLP has no memory
        results = qedr_ways(*align(codes, played), ['lasso', 'forest'], categories=category_names(played))
        rows = qedr_rows(results, study='qedr', task=task, group='state', method=memory, data='own play')
        save_results(results, rows, f'popgym_{task}_{memory}', 'qedr.csv')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--landing', nargs='+', default=[], metavar='RUNS', help='folders of sweeps')
    parser.add_argument('--games', nargs='*', choices=GAMES, help='these, or all')
    parser.add_argument('--memories', action='store_true')
    parser.add_argument('--out', default='runs/qedr', help='recordings and encoders of games')
    args = parser.parse_args()
    for folder in args.landing:
        landing(Path(folder))
    if args.memories:
        memories()
    if args.games is not None:
        games(Path(args.out), args.games or GAMES)
