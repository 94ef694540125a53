"""Run the parts of `make check`, `make test` or `make slow` one after the other, and print how long each took.

python .ci/test.py [--browser | --slow] [--jobs N] [--notebooks 'NAME ...']
Each part prints its ten slowest tests. The first part that fails ends the run with its status. A test that presses in
a browser may fail because the machine was busy: one or two of them are repeated once, alone, and named at the end.
"""

import argparse, json, os, subprocess, sys, time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BIN = Path(sys.executable).parent
FAILED = '.pytest_cache/v/srlviz/failed'
LINTED = ['srlviz', 'nbs', 'tests', '.ci', 'benchmarks']


@dataclass
class Part:
    "Commands that belong together"

    name: str
    commands: list[list[str]]
    seconds: float = 0.0
    cpu_seconds: float = 0.0  # of all processes that the commands started and waited for
    repeated: list[str] = field(default_factory=list)  # browser tests that failed, and were run again

    def run(self) -> int:
        "Run the commands until one fails; return the status of the last one"
        print(f'srlviz: {self.name}', flush=True)
        start, cpu_start = time.monotonic(), cpu_seconds()
        env = os.environ | {'OMP_NUM_THREADS': '1'}
        (ROOT / FAILED).unlink(missing_ok=True)
        for command in self.commands:
            status = subprocess.run(command, cwd=ROOT, env=env).returncode
            if status:
                break
        if status == 1 and (ROOT / FAILED).exists():
            self.repeated = failed_in_browser()
        if self.repeated:
            status = subprocess.run([sys.executable, '-m', 'pytest', *self.repeated], cwd=ROOT, env=env).returncode
        self.seconds = time.monotonic() - start
        self.cpu_seconds = cpu_seconds() - cpu_start
        return status


def failed_in_browser() -> list[str]:
    "The tests that failed, if they are one or two, marked browser; otherwise none"
    failed = json.loads((ROOT / FAILED).read_text(encoding='utf-8'))  # test -> whether it is marked, see conftest.py
    return list(failed) if all(failed.values()) and len(failed) <= 2 else []


def cpu_seconds() -> float:
    "CPU seconds of all child processes that have ended"
    used = os.times()
    return used.children_user + used.children_system


def parts(options) -> list[Part]:
    "The parts for the options of the command line, in order"
    pytest = [sys.executable, '-m', 'pytest', '-n', str(options.jobs)]
    by_file = ['--dist', 'loadfile']  # see tests/conftest.py
    chromium = [sys.executable, '.ci/setup.py', '--browser']
    if options.slow:
        return [Part('slow tests and cells', [chromium, [*pytest, '-m', 'slow and not site', 'tests']])]
    in_sync = [sys.executable, '.ci/sync.py']
    ruff = [str(BIN / 'ruff'), 'check', '--quiet', '--output-format', 'concise', *LINTED]
    first = Part('modules, README and notebooks in sync; ruff', [in_sync, ruff])
    notebooks = options.notebooks.split()
    if notebooks:
        paths = [str(p.relative_to(ROOT)) for p in (ROOT / 'nbs').rglob('*.ipynb')]
        unknown = [name for name in notebooks if not any(name in path for path in paths)]
        if unknown:
            sys.exit(f'no notebook in nbs has {" or ".join(unknown)} in its path')
        files = [f'tests/test_{name}.py' for name in ('notebooks', 'papermill', 'course')]
        command = [*pytest, '-k', ' or '.join(notebooks), *files]
        return [first, Part(f'tests of {", ".join(notebooks)}', [command])]
    if options.browser:
        command = [*pytest, *by_file, '-m', 'not slow and not site', 'tests']
        return [first, Part('notebooks, tests, JupyterLab in Chromium, wheel', [chromium, command])]
    command = [*pytest, *by_file, '-m', 'not slow and not site and not browser and not wheel', 'tests']
    return [first, Part('notebooks and tests', [command])]


def table(done: list[Part]) -> str:
    "Wall and CPU seconds of each part"
    rows = [(p.name, p.seconds, p.cpu_seconds) for p in done]
    rows.append(('all', sum(r[1] for r in rows), sum(r[2] for r in rows)))
    lines = [f'{name:52} {seconds:8.0f} {cpu:8.0f}' for name, seconds, cpu in rows]
    return '\n'.join([f'{"part":52} {"wall, s":>8} {"CPU, s":>8}', *lines])


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--browser', action='store_true', help='browser tests and the wheel, too')
    parser.add_argument('--slow', action='store_true', help='the tests that the others leave out, and no others')
    parser.add_argument('--jobs', type=int, default=3)
    parser.add_argument('--notebooks', default='', help='only the tests of these notebooks')
    options = parser.parse_args()
    done = []
    for part in parts(options):
        status = part.run()
        done.append(part)
        if status:
            break
    print(table(done), flush=True)
    for name in [name for part in done for name in part.repeated]:
        print(f'failed at first, and then repeated alone: {name}', flush=True)
    sys.exit(status)
