"""Write requirements-lock.txt: one set of versions for every Python and system of srlviz.

python .ci/lock.py [--upgrade]
Locked versions are kept if the ranges of settings.ini allow it; --upgrade takes the newest. uv resolves for all Pythons
and systems at once; it is taken from PATH, or installed temporarily.
"""

import os, re, shutil, subprocess, sys, tempfile, venv
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / 'requirements-lock.txt'
OLDEST = '3.11'
PYTHONS = ['3.11.0', '3.11.9', '3.12', '3.13', '3.14']
SYSTEMS = ['x86_64-manylinux_2_28', 'x86_64-pc-windows-msvc', 'aarch64-apple-darwin']  # as uv calls them
HEAD = """\
# What `requirements` and `dev_requirements` of settings.ini resolve to on Python 3.11 (any 3.11) to 3.14, for Linux and
# Windows on x86-64 and macOS 14 on Apple silicon: each has a ready build of every package. Written by `make lock`.
# The CUDA packages of torch are left out: torch itself names them, to the digit, where it needs them.
"""
ELSEWHERE = re.compile(r"nvidia-|cuda-|triton\b|.*; .*sys_platform == 'emscripten'$")
PIN = re.compile(r"[a-z0-9-]+==[A-Za-z0-9.]+( ; [a-z0-9_.'<>=!*() -]+)?", re.IGNORECASE)


def find_uv(folder: Path) -> str:
    "uv from PATH, or installed into a new environment in `folder`"
    if found := shutil.which('uv'):
        return found
    venv.create(folder, with_pip=True)
    scripts = folder / ('Scripts' if sys.platform == 'win32' else 'bin')
    subprocess.run([scripts / 'python', '-m', 'pip', 'install', '-q', '--disable-pip-version-check', 'uv'], check=True)
    return str(scripts / 'uv')


def resolve(uv: str, requirements: list[str], before: str, *options: str) -> str:
    "The lines of a lock for all Pythons and systems; versions of `before` are kept where they can be"
    with tempfile.TemporaryDirectory() as d:
        source, lock = Path(d, 'requirements.in'), Path(d, 'lock.txt')
        source.write_text('\n'.join(requirements))
        lock.write_text(before)
        arguments = ['--universal', '--python-version', OLDEST, '--no-header', '--no-annotate', '--quiet', *options]
        subprocess.run([uv, 'pip', 'compile', *arguments, source, '-o', lock], cwd=d, check=True)
        return lock.read_text()


def check_builds(uv: str, lock: Path) -> None:
    "Every package has a ready build on every Python and system that the lock is for"
    with tempfile.TemporaryDirectory() as d:
        for python in PYTHONS:
            for system in SYSTEMS:
                install = ['--dry-run', '--quiet', '--only-binary', ':all:', '--target', d]
                target = ['--python-version', python, '--python-platform', system]
                env = {**os.environ, 'MACOSX_DEPLOYMENT_TARGET': '14.0'}
                if subprocess.run([uv, 'pip', 'install', *install, *target, '-r', lock], cwd=d, env=env).returncode:
                    sys.exit(f'the lock does not install on Python {python}, {system}')


def main(*options: str) -> None:
    ini = ConfigParser(delimiters=['='])
    ini.read(ROOT / 'settings.ini', encoding='utf-8')
    requirements = [*ini['DEFAULT']['requirements'].split(), *ini['DEFAULT']['dev_requirements'].split()]
    with tempfile.TemporaryDirectory() as d:
        uv, new = find_uv(Path(d, 'uv')), Path(d, LOCK.name)
        lines = resolve(uv, requirements, LOCK.read_text() if LOCK.is_file() else '', *options).splitlines()
        pins = [line for line in lines if not ELSEWHERE.match(line)]
        if odd := [line for line in pins if not PIN.fullmatch(line)]:
            sys.exit(f'uv wrote a line that is not name==version: {odd[0]!r}')
        new.write_text(HEAD + '\n'.join(pins) + '\n')
        check_builds(uv, new)
        LOCK.write_text(new.read_text())
    print(f'{LOCK.name}: {len(pins)} lines, for Python {", ".join(PYTHONS)} on {", ".join(SYSTEMS)}')


if __name__ == '__main__':
    main(*sys.argv[1:])
