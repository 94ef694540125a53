"""Untrusted files: readers name the fault in a damaged file (a sample; `make fuzz` runs all mutations)."""

import json, os, subprocess, sys
from pathlib import Path

import pytest

from fuzz import mutate, public, run

TESTS = Path(__file__).parent
pytestmark = pytest.mark.skipif(sys.platform != 'linux', reason='the fuzzer forks, and reads /proc')


def fuzz(*arguments, module='fuzz'):
    "Run the fuzzer in a process of its own, which has few threads and forks well"
    paths = [str(TESTS), *filter(None, [os.environ.get('PYTHONPATH')])]
    return subprocess.run(
        [sys.executable, '-m', module, *map(str, arguments)],
        cwd=TESTS.parent,
        capture_output=True,
        text=True,
        env=os.environ | {'PYTHONPATH': os.pathsep.join(paths)},
    )


@pytest.mark.parametrize('options', [['--quick'], pytest.param([], marks=pytest.mark.slow)], ids=['each kind', 'all'])
def test_readers_name_the_fault_in_damaged_files(options):
    "Five mutations of three hundred, the same at each run: of one reader for each kind of file, of all in `make slow`"
    r = fuzz('--sample', 5, *options)
    assert r.returncode == 0, r.stdout + r.stderr


def test_every_reader_has_a_specimen():
    "Every public function that reads files is called when the specimens are read, or public.py gives the reason"
    r = fuzz('--called')
    assert r.returncode == 0, r.stderr
    called = {tuple(place) for place in json.loads(r.stdout)}
    without = {name for name, place in public.file_readers().items() if place not in called}
    assert without == {*public.ELSEWHERE}, 'a row in readers.py for each, or a reason in public.py'


@pytest.mark.slow
def test_the_fuzzer_finds_planted_faults():
    "In readers without checks, silent, slow, greedy, or writing elsewhere; and none in a good one"
    r = fuzz(module='fuzz.planted')
    assert r.returncode == 0, r.stderr
    found = json.loads(r.stdout)
    assert set(found.pop('good')) == {'named', 'harmless', 'plain values'}
    for reader, verdicts in found.items():
        assert set(verdicts) == {reader.split(',')[0].split(' ')[0]}, (reader, verdicts)


@pytest.mark.parametrize(
    'kind, data', [('json', b'{"a": [1, 2], "b": {"c": "d"}}'), ('csv', b'a,b\n1,2\n3,4\n'), ('text', b'a\nb\n')]
)
def test_a_case_is_repeatable(kind, data, tmp_path):
    "The number of the case and the seed determine the mutation; another seed makes another"

    def changed(case, seed, name):
        victim, path = tmp_path / name / 'victim', tmp_path / name / 'case' / 'deep' / 'file'
        path.parent.mkdir(parents=True)
        victim.mkdir()
        path.write_bytes(data)
        mutation = mutate.apply(kind, case, path, run.case_rng('toy', case, seed), victim)
        return mutation, path.read_bytes() if path.is_file() else None

    cases = range(len(mutate.MENUS[kind]))
    runs = [[changed(c, seed, f'{kind}{k}-{c}') for c in cases] for k, seed in enumerate((0, 0, 1))]
    assert [mutation.replace('0-', '1-') for mutation, _ in runs[0]] == [mutation for mutation, _ in runs[1]]
    assert sum(x[1] == y[1] for x, y in zip(runs[0], runs[1])) > 0.8 * len(cases)
    assert sum(x == y for x, y in zip(runs[0], runs[2])) < 0.5 * len(cases)
