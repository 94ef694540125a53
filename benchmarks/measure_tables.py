"""Fill the tables that ship: start or resume what is missing, in order of priority.

    make tables                        both cores until everything is there; a killed run resumes
    make tables DRY=1                  only say what is there, what is missing, and what it would cost
    make tables TABLES='matrix mmer'   some of them: matrix, mmer, landing, atari

What ships for the current versions is not measured again (`TRAINER_VERSION`, `MATRIX_VERSION`, `LANDING_VERSION`,
`ATARI_VERSION`). The CSV files in data_samples are written after each part. Hours are of one core, and estimates. A
part that fails does not stop the others; the exit code is 0 when nothing is missing.
"""

import argparse, time, traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pandas as pd


@dataclass
class Part:
    """Cells of a table that are measured together.

    Parameters
    ----------
    place : in the order of all parts: 1 first
    table, name : of the table, and of the part
    cells : their number;  missing : how many of them have to be measured
    hours : of a core, for what is missing
    run : function of the number of processes; measures what is missing, and writes the table
    """

    place: int
    table: str
    name: str
    cells: int
    missing: int
    hours: float
    run: Callable[[int], None]


def measure(study, grid, folder: Path, workers: int) -> None:
    "Run the trials of a grid that have no result; where all fail, say so: they stay missing"
    from srlviz.studies.run import StudyError
    from srlviz.studies.sweep import sweep

    try:
        sweep(study, grid, folder, workers=workers, retry=True)
    except StudyError as e:
        print(f'{study.name}: {e}', flush=True)


def all_parts(out: Path, tables: list[str]) -> list[Part]:
    "The parts of some tables (of all by default), in order"
    import measure_cross, measure_landing, measure_mmer, measure_scores

    found = []
    for script in (measure_cross, measure_mmer, measure_landing, measure_scores):
        found += [part for part in script.parts(out) if not tables or part.table in tables]
    return sorted(found, key=lambda part: part.place)


def overview(parts: list[Part]) -> pd.DataFrame:
    "What is there, what is missing, and its hours"
    rows = [(p.table, p.name, p.cells - p.missing, p.missing, round(p.hours, 1)) for p in parts]
    table = pd.DataFrame(rows, columns=['table', 'part', 'there', 'missing', 'core hours'])
    total = table[['there', 'missing', 'core hours']].sum()
    table.loc[len(table)] = ['', 'all', int(total['there']), int(total['missing']), round(total['core hours'], 1)]
    return table


def main(argv=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--dry', action='store_true', help='only print what is there and what is missing')
    parser.add_argument('--tables', nargs='*', default=[], choices=['matrix', 'mmer', 'landing', 'atari'])
    parser.add_argument('--workers', type=int, default=2)
    parser.add_argument('--out', type=Path, default=Path('runs/tables'), help='folder of the sweeps')
    args = parser.parse_args(argv)
    parts = all_parts(args.out, args.tables)
    print(overview(parts).to_string(index=False), flush=True)
    for part in [] if args.dry else parts:
        if part.missing:
            started = time.monotonic()
            print(f'{part.table}, {part.name}: {part.missing} cells, about {part.hours:.1f} core hours', flush=True)
            try:
                part.run(args.workers)
            except Exception:
                traceback.print_exc()
            print(f'{part.table}, {part.name}: {(time.monotonic() - started) / 60:.0f} minutes', flush=True)
    if not args.dry:
        parts = all_parts(args.out, args.tables)
        print(overview(parts).to_string(index=False), flush=True)
        raise SystemExit(any(part.missing for part in parts))


if __name__ == '__main__':
    main()
