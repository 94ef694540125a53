"""Planted faults: readers with one fault each, which the fuzzer has to detect, and one reader without a fault.

`python -m fuzz.planted` runs the fuzzer on them and prints the verdicts.
"""

import json, os, signal, subprocess, sys, time
from pathlib import Path

from . import plain, run
from .plain import csv_with, integer
from .readers import Reader


def make(place):
    (place / 'sums.csv').write_text('name,n\na,1\nb,2\nc,3\n')


def good(place) -> dict:
    """Read a small table correctly."""
    path = place / 'sums.csv'
    if path.is_symlink() or not path.is_file():
        raise ValueError(f'{path} is not a regular file')
    try:
        head, *rows = [line.split(',') for line in path.read_text('utf-8').splitlines()]
        table = {name: n for name, n in rows}
        if head != ['name', 'n'] or len(table) != 3 or '' in table or not all(map(integer(), table.values())):
            raise ValueError('unexpected content')
    except ValueError as e:
        raise ValueError(f'{path} is damaged: {e}') from e
    return {'table': table}


def read_unchecked(place):
    return {'table': [line.split(',')[1] for line in (place / 'sums.csv').read_text().splitlines()]}


def _on_error(fault):
    "Return a reader that calls `fault` instead of raising an error"

    def touch(place):
        try:
            return good(place)
        except ValueError:
            return fault(place) or {'table': 'whatever'}

    return touch


def overwrite(place):
    (place.parent / 'victim' / 'keep').write_text('mine')


def make_folder(place):
    Path(f'/tmp/srlviz-fuzz-planted-{os.getpid()}').mkdir()


def remove_file(place):
    (place / 'diary.txt').unlink()


def start_another(place):
    subprocess.run(['true'])


def use_memory(place):
    with open(place / 'sums.csv', 'rb') if (place / 'sums.csv').is_file() else open(os.devnull, 'rb'):
        kept = bytearray(2**27)
    kept[::4096] = b'x' * len(kept[::4096])


def allocate_too_much(place):
    try:
        bytearray(2**40)
    except MemoryError as e:
        raise ValueError(f'{place}/sums.csv is damaged') from e


def draw_unchecked(place):
    try:
        good(place)
    except ValueError:
        raise KeyError('a') from None


FAULTS = {
    'bare': read_unchecked,
    'silent': _on_error(lambda place: None),
    'hang': _on_error(lambda place: time.sleep(60)),
    'memory': _on_error(use_memory),
    'memory that was refused': _on_error(allocate_too_much),
    'outside': _on_error(overwrite),
    'outside, a file of the folder': _on_error(remove_file),
    'outside, far away': _on_error(make_folder),
    'ran': _on_error(start_another),
    'killed': _on_error(lambda place: os.kill(os.getpid(), signal.SIGSEGV)),
}

_RULE = csv_with({'name': lambda v: bool(v), 'n': integer()}, rows='same', unique=('name',))
READERS = [Reader(name, 'csv', 'sums.csv', make, touch, _RULE) for name, touch in (FAULTS | {'good': good}).items()]

READERS.append(
    Reader('undrawn', 'csv', 'sums.csv', make, _on_error(lambda place: None), plain.always, draw=draw_unchecked)
)


def main() -> None:
    """Print reader -> verdict -> number of cases, as JSON."""
    import numpy, pandas, torch  # noqa: F401, E401

    run.MAX_MEMORY = 2**26  # smaller limits than those of real readers
    run.MAX_ADDRESS_SPACE = 2**29
    counts = {r.name: {} for r in READERS}
    cases = lambda r: range(56) if r.name == 'good' else [12] if r.name == 'hang' else [12, 14, 16, 20]
    for x in run.fuzz(READERS, cases, limit=8.0):
        counts[x.reader][x.verdict] = counts[x.reader].get(x.verdict, 0) + 1
    for folder in Path('/tmp').glob('srlviz-fuzz-planted-*'):
        folder.rmdir()
    print(json.dumps(counts))


if __name__ == '__main__':
    sys.exit(main())
