"""Fill the tables that ship: start or resume what is missing, in order of priority.

    make tables                        both cores until everything is there; a killed run resumes
    make tables DRY=1                  only say what is there, what is missing, and what it would cost
    make tables TABLES='matrix mmer'   some of them: matrix, mmer, landing, atari

What ships for the current versions is not measured again (`TRAINER_VERSION`, `MATRIX_VERSION`, `LANDING_VERSION`,
`ATARI_VERSION`). The CSV files in data_samples are written after each part. Hours are of one core, and estimates.
"""

import argparse
import time
from collections.abc import Callable, Iterator
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
    seconds : of a core that one cell takes
    run : function of the number of processes; measures what is missing, and writes the table
    """

    place: int
    table: str
    name: str
    cells: int
    missing: int
    seconds: float
    run: Callable[[int], None]

    @property
    def hours(self) -> float:
        """Of a core, for what is missing"""
        return self.missing * self.seconds / 3600


def all_parts(out: Path, tables: list[str]) -> list[Part]:
    "The parts of some tables (of all by default), in order"
    import measure_cross, measure_landing, measure_mmer, measure_scores

    found: Iterator[Part] = (
        part for script in (measure_cross, measure_mmer, measure_landing, measure_scores) for part in script.parts(out)
    )
    return sorted((part for part in found if not tables or part.table in tables), key=lambda part: part.place)


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
            part.run(args.workers)
            print(f'{part.table}, {part.name}: {(time.monotonic() - started) / 60:.0f} minutes', flush=True)


if __name__ == '__main__':
    import measure_tables  # the scripts import the same module, with the same class

    measure_tables.main()
