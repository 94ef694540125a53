"""Command line of the fuzzer: `python -m tests.fuzz` or `python tests/fuzz` mutates files and judges their readers."""

import argparse, csv, gc, json, os, random, sys, tempfile, time
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
sys.path.append(str(HERE.parents[1]))


def main(argv=None) -> int:
    """Run cases, print the table and each bad case; 1 if there is one."""
    parser = argparse.ArgumentParser('python -m tests.fuzz', description=__doc__)
    parser.add_argument(
        '--reader', action='append', help='readers whose name starts with this; repeatable (default: all)'
    )
    parser.add_argument('--quick', action='store_true', help='only the first reader of each kind of file')
    parser.add_argument('--cases', type=int, default=300, help='number of cases of each reader (default: 300)')
    parser.add_argument('--sample', type=int, help='run a random sample of this size, drawn with the seed')
    parser.add_argument('--case', type=int, action='append', help='run only this case; repeatable')
    parser.add_argument('--seed', type=int, default=0, help='seed of the mutations (default: 0)')
    parser.add_argument('--jobs', type=int, default=1, help='number of parallel processes (default: 1)')
    parser.add_argument('--limit', type=float, default=10.0, help='seconds per case (default: 10)')
    parser.add_argument('--csv', type=Path, help='save the table')
    parser.add_argument('--all', type=Path, help='save every case as CSV while running')
    parser.add_argument('--list', action='store_true', help='list the readers and exit')
    parser.add_argument('--called', action='store_true', help='list the functions that the readers call and exit')
    args = parser.parse_args(argv)
    if not hasattr(os, 'fork') or sys.platform != 'linux':
        print('the fuzzer needs Linux: it forks and reads /proc')
        return 3
    preload()
    from fuzz import run
    from fuzz.readers import READERS

    chosen = [r for r in READERS if not args.reader or any(r.name.startswith(x) for x in args.reader)]
    if args.quick:
        chosen = list({r.kind: r for r in reversed(chosen)}.values())
    if args.list or not chosen:
        print('\n'.join(r.name for r in chosen or READERS))
        return int(not args.list)
    if args.called:
        print(json.dumps(sorted(run.called(chosen))))
        return 0
    return report(args, chosen, run)


_IMPORTS = '''av ale_py nbconvert.filters nbformat numcodecs numpy pandas papermill PIL.Image plotly.offline pyarrow.csv
pyarrow.parquet pygments.formatters pygments.lexers sklearn.metrics torch zarr srlviz.core.recordings
srlviz.core.scores srlviz.data.atari srlviz.data.landing srlviz.data.landing.published
srlviz.encoders.frames.ppo_features srlviz.envs.landing.runways srlviz.evaluate.probe srlviz.memories.recurrent
srlviz.studies.papers.agents srlviz.studies.run safetensors.torch srlviz.agents.player srlviz.data.lerobot
srlviz.data.importers srlviz.evaluate.maps srlviz.evaluate.qedr srlviz.evaluate.returns srlviz.evaluate.targets
srlviz.studies.sweeps.store srlviz.studies.matrix.scorecard srlviz.studies.explore
srlviz.studies.matrix.matrix_results srlviz.core.saved_results srlviz.core.results_0_2 srlviz.evaluate.ask
srlviz.widgets.codes_explorer srlviz.widgets.cross_matrix srlviz.widgets.workbench'''


def preload() -> None:
    """Import the modules that readers and widgets use once, before forking."""
    for variable in ('OMP_NUM_THREADS', 'OPENBLAS_NUM_THREADS', 'MKL_NUM_THREADS', 'TQDM_DISABLE'):
        os.environ[variable] = '1'
    for name in _IMPORTS.split():
        import_module(name)
    from fuzz.readers import draw_policy, policy

    with tempfile.TemporaryDirectory() as folder:
        policy(Path(folder))
        draw_policy(Path(folder))  # numba unpickles its own functions when a task is first played
    gc.freeze()


def report(args, chosen, run) -> int:
    """Run the cases, print the table and the bad cases, and save CSV; 1 if a case is bad."""

    def cases(r):
        if args.case:
            return args.case
        if args.sample is None:
            return range(args.cases)
        return sorted(random.Random(f'{args.seed} {r.name}').sample(range(args.cases), args.sample))

    start = time.monotonic()
    with open(args.all or os.devnull, 'w', newline='', encoding='utf-8', errors='backslashreplace') as f:
        rows = csv.writer(f)
        rows.writerow(run.Result._fields)
        results = run.fuzz(chosen, cases, args.seed, args.jobs, args.limit, lambda r: (rows.writerow(r), f.flush()))
    table, bad = run.table(results), [r for r in results if r.verdict in run.BAD]
    if args.csv:
        table.to_csv(args.csv)
    for r in results if args.case else bad:
        print(f'{r.reader} | case {r.case} | {r.mutation} | {r.verdict} | {r.message}')
    print(table.to_string())
    summary = f'{len(results)} cases in {time.monotonic() - start:.0f} s, {len(bad)} bad'
    if bad:
        summary += '; to repeat one: python -m tests.fuzz --reader READER --case NUMBER'
        if args.seed:
            summary += f' --seed {args.seed}'
    print(summary)
    return int(bool(bad))


if __name__ == '__main__':
    sys.exit(main())
