"""Write requirements-lock.txt and requirements-torch.txt: one set of versions for every Python and system of srlviz.

python .ci/lock.py [--upgrade]
Locked versions are kept if the ranges of settings.ini allow it; --upgrade takes the newest. uv, from PATH or installed
temporarily, resolves for all Pythons and systems at once.
"""

import os, re, shutil, subprocess, sys, tempfile, venv
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LOCK = ROOT / 'requirements-lock.txt'
TORCH = ROOT / 'requirements-torch.txt'
OLDEST = '3.11'
PYTHONS = ['3.11.0', '3.11.9', '3.12', '3.13', '3.14']
SYSTEMS = ['x86_64-manylinux_2_28', 'x86_64-pc-windows-msvc', 'aarch64-apple-darwin']  # as uv calls them
HEAD = """\
# What `requirements` and `dev_requirements` of settings.ini resolve to on Python 3.11 (any 3.11) to 3.14, for Linux and
# Windows on x86-64 and macOS 14 on Apple silicon: each has a ready build of every package. Written by `make lock`.
# It names everything but torch (requirements-torch.txt), so install it with --no-deps; pip then compares the checksums.
"""
HEAD_TORCH = """\
# The version of torch, installed after requirements-lock.txt. It has no checksums: of the same version, PyTorch's index
# of CPU builds has other files than PyPI. The CUDA packages, which PyPI's build for Linux needs, are left out: torch
# itself names them, to the digit. Written by `make lock`.
"""
LEFT_OUT = re.compile(r"nvidia-|cuda-|triton\b|.*; .*sys_platform == 'emscripten'$")
PIN = re.compile(r"[a-z0-9-]+==[A-Za-z0-9.]+( ; [a-z0-9_.'<>=!*() -]+)?", re.IGNORECASE)
HASH = re.compile('--hash=sha256:[0-9a-f]{64}')


def find_uv(folder: Path) -> str:
    "Return uv from PATH, or install it into a new environment in `folder`"
    uv = shutil.which('uv')
    if uv:
        return uv
    venv.create(folder, with_pip=True)
    scripts = folder / ('Scripts' if sys.platform == 'win32' else 'bin')
    subprocess.run([scripts / 'python', '-m', 'pip', 'install', '-q', '--disable-pip-version-check', 'uv'], check=True)
    return str(scripts / 'uv')


def resolve(uv: str, requirements: list[str], previous: str, *options: str) -> str:
    "Return a lock for all Pythons and systems; versions of `previous` are kept where possible"
    with tempfile.TemporaryDirectory() as d:
        source = Path(d, 'requirements.in')
        lock = Path(d, 'lock.txt')
        source.write_text('\n'.join(requirements))
        lock.write_text(previous)
        arguments = ['--universal', '--python-version', OLDEST, '--generate-hashes', '--no-header', '--no-annotate']
        arguments += ['--quiet', *options]
        subprocess.run([uv, 'pip', 'compile', *arguments, source, '-o', lock], cwd=d, check=True)
        return lock.read_text()


def entries(lock: str) -> dict[str, list[str]]:
    "Return the pins of a lock, except LEFT_OUT, with their checksums: 'name==version ; marker' -> hashes"
    hashes_of = {}
    for entry in lock.replace('\\\n', ' ').splitlines():
        pin, *hashes = re.split(r'\s+(?=--hash)', entry.strip())
        if LEFT_OUT.match(pin):
            continue
        if not PIN.fullmatch(pin) or not hashes or not all(HASH.fullmatch(h.strip()) for h in hashes):
            sys.exit(f'uv wrote an entry that is not name==version with checksums: {entry[:200]!r}')
        hashes_of[pin] = [h.strip() for h in hashes]
    return hashes_of


def check_builds(uv: str, *locks: Path) -> None:
    "Check that every package has a ready build on every Python and system of the lock"
    with tempfile.TemporaryDirectory() as d:
        for python in PYTHONS:
            for system in SYSTEMS:
                install = ['--dry-run', '--quiet', '--only-binary', ':all:', '--target', d]
                target = ['--python-version', python, '--python-platform', system]
                env = {**os.environ, 'MACOSX_DEPLOYMENT_TARGET': '14.0'}
                files = [word for lock in locks for word in ('-r', lock)]
                if subprocess.run([uv, 'pip', 'install', *install, *target, *files], cwd=d, env=env).returncode:
                    sys.exit(f'the lock does not install on Python {python}, {system}')


def main(*options: str) -> None:
    ini = ConfigParser(delimiters=['='])
    ini.read(ROOT / 'settings.ini', encoding='utf-8')
    requirements = [*ini['DEFAULT']['requirements'].split(), *ini['DEFAULT']['dev_requirements'].split()]
    previous = ''.join(path.read_text() for path in (LOCK, TORCH) if path.is_file())
    with tempfile.TemporaryDirectory() as d:
        uv = find_uv(Path(d, 'uv'))
        hashes_of = entries(resolve(uv, requirements, previous, *options))
        torch = [pin for pin in hashes_of if pin.startswith('torch==')]
        if len(torch) != 1 or ';' in torch[0]:
            sys.exit(f'one version of torch for all Pythons and systems is expected; uv returned {torch}')
        lines = [' \\\n    '.join([pin, *hashes]) for pin, hashes in hashes_of.items() if pin not in torch]
        new, new_torch = Path(d, LOCK.name), Path(d, TORCH.name)
        new.write_text(HEAD + '\n'.join(lines) + '\n')
        new_torch.write_text(HEAD_TORCH + torch[0] + '\n')
        check_builds(uv, new, new_torch)
        LOCK.write_text(new.read_text())
        TORCH.write_text(new_torch.read_text())
    print(f'{LOCK.name}: {len(lines)} packages, for Python {", ".join(PYTHONS)} on {", ".join(SYSTEMS)}')


if __name__ == '__main__':
    main(*sys.argv[1:])
