"""Compare probes of representations of a task with the return of PPO on their frozen codes.

    python benchmarks/probing_control.py [--task RepeatPrevious-easy] [--budget 20000] [--runs 2] [--out CSV] [--smoke]

Does probing predict control? Representations are fitted as in the matrix, on its setting of the task. PPO reads the
codes of the episode so far and has no memory. The last line is the rank correlation of each question with the return,
with an interval over representations.
"""

import argparse, time

import pandas as pd, torch

from srlviz.evaluate.order import order_agreement
from srlviz.evaluate.questions.frozen_return import FrozenReturn
from srlviz.evaluate.ask import ask_all, code_questions
from srlviz.studies.matrix.representations import Budget, fitted, moment_codes
from srlviz.studies.matrix.settings import find_setting

REPRESENTATIONS = ('constant', 'raw', 'window_statistics', 'random', 'masked_autoencoder', 'GRU', 'supervised', 'agent')
QUESTIONS = ('probe', 'selectivity', 'description_length', 'rank')


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--task', default='RepeatPrevious-easy')
    parser.add_argument('--budget', type=int, default=20_000)
    parser.add_argument('--runs', type=int, default=2)
    parser.add_argument('--out')
    parser.add_argument('--smoke', action='store_true', help='smallest sizes, as a smoke test')
    args = parser.parse_args()
    representations = REPRESENTATIONS
    if args.smoke:
        representations = ('constant', 'raw', 'random')
        args.budget = 8_000
    torch.set_num_threads(1)
    setting = find_setting(args.task)
    recording = setting.data()
    history = int(recording.lengths[recording.split == 'test'].max())
    rows = []
    for name in representations:
        try:
            encoder = fitted(name, setting, recording, Budget())
        except ValueError as e:
            print(f'{name}: {e}')
            continue
        codes = moment_codes(encoder, setting, recording)
        answers, _ = ask_all(codes, setting.moments(recording), code_questions(QUESTIONS))
        row = dict(representation=name) | {q: a.value(a.question.headline) for q, a in answers.items()}
        start = time.process_time()
        question = FrozenReturn(args.task, args.budget, args.runs, history)
        answer = question.ask(encoder, progress=False)
        low, high = answer.interval('frozen_return')[['low', 'high']].iloc[0]
        row |= dict(frozen_return=answer.value('frozen_return'), low=low, high=high, cpu=time.process_time() - start)
        rows.append(row)
        print('  '.join(f'{k} {v:.3f}' if isinstance(v, float) else f'{v:20}' for k, v in row.items()), flush=True)
    table = pd.DataFrame(rows).set_index('representation')
    if args.out:
        table.to_csv(args.out)
    oriented = table[[*QUESTIONS, 'frozen_return']].assign(description_length=-table['description_length'])
    pairs = order_agreement(oriented)
    print(pairs[pairs['b'] == 'frozen_return'].drop(columns='tables').round(2).to_string(index=False))


if __name__ == '__main__':
    main()
