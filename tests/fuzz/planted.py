"""Readers with one fault each, and one without: what the fuzzer has to see. `python -m fuzz.planted` tries them."""

import json, os, signal, subprocess, sys, time
from pathlib import Path

from . import run
from .plain import csv_with, integer
from .readers import Reader


def make(place):
    (place / 'sums.csv').write_text('name,n\na,1\nb,2\nc,3\n')


def good(place) -> dict:
    """Read a small table as a reader should."""
    path = place / 'sums.csv'
    if path.is_symlink() or not path.is_file():
        raise ValueError(f'{path} is no regular file')
    try:
        head, *rows = [line.split(',') for line in path.read_text('utf-8').splitlines()]
        table = {name: n for name, n in rows}
        if head != ['name', 'n'] or len(table) != 3 or '' in table or not all(map(integer(), table.values())):
            raise ValueError('it is something else')
    except ValueError as e:
        raise ValueError(f'{path} is damaged: {e}') from e
    return {'table': table}


def bare(place):
    return {'table': [line.split(',')[1] for line in (place / 'sums.csv').read_text().splitlines()]}


def _instead(fault):
    "A reader that does something else where it should say what is wrong"

    def touch(place):
        try:
            return good(place)
        except ValueError:
            return fault(place) or {'table': 'whatever'}

    return touch


def overwrite(place):
    (place.parent / 'victim' / 'keep').write_text('mine')


def away(place):
    Path(f'/tmp/srlviz-fuzz-planted-{os.getpid()}').mkdir()


def remove(place):
    (place / 'diary.txt').unlink()


def start_another(place):
    subprocess.run(['true'])


def hoard(place):
    with open(place / 'sums.csv', 'rb') if (place / 'sums.csv').is_file() else open(os.devnull, 'rb'):
        kept = bytearray(2**27)
    kept[::4096] = b'x' * len(kept[::4096])


def want(place):
    try:
        bytearray(2**40)
    except MemoryError as e:
        raise ValueError(f'{place}/sums.csv is damaged') from e


FAULTS = {
    'bare': bare,
    'silent': _instead(lambda place: None),
    'hang': _instead(lambda place: time.sleep(60)),
    'memory': _instead(hoard),
    'memory that was refused': _instead(want),
    'outside': _instead(overwrite),
    'outside, a file of the folder': _instead(remove),
    'outside, far away': _instead(away),
    'ran': _instead(start_another),
    'killed': _instead(lambda place: os.kill(os.getpid(), signal.SIGSEGV)),
}

_RULE = csv_with({'name': lambda v: bool(v), 'n': integer()}, rows='same', unique=('name',))
READERS = [Reader(name, 'csv', 'sums.csv', make, touch, _RULE) for name, touch in (FAULTS | {'good': good}).items()]


def main() -> None:
    """Print reader -> verdict -> number of cases."""
    import numpy, pandas, torch  # noqa: F401, E401

    run.MOST, run.ROOM = 2**26, 2**29  # less than in earnest
    out = {r.name: {} for r in READERS}
    cases = lambda r: range(56) if r.name == 'good' else [12] if r.name == 'hang' else [12, 14, 16, 20]
    for x in run.fuzz(READERS, cases, limit=8.0):
        out[x.reader][x.verdict] = out[x.reader].get(x.verdict, 0) + 1
    for left in Path('/tmp').glob('srlviz-fuzz-planted-*'):
        left.rmdir()
    print(json.dumps(out))


if __name__ == '__main__':
    sys.exit(main())
