"""Make .venv ready, or find in 0.1 s that it already is. Standard library only: this runs before anything is installed.

python3 .ci/setup.py [--browser]
Environment: PIP_ARGS (more arguments for pip), LOCK='' (loose ranges of settings.ini instead of the lock), CHROMIUM (a
browser of your own).
"""

import hashlib, json, os, shlex, shutil, signal, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV, LOG = ROOT / '.venv', ROOT / '.venv-setup.log'
BIN = VENV / ('Scripts' if os.name == 'nt' else 'bin')
LOCK = ROOT / os.environ.get('LOCK', 'requirements-lock.txt')
BROWSERS = [
    'chromium',
    'chromium-browser',
    'google-chrome',
    'google-chrome-stable',
    'chrome',
    '/Applications/Google Chrome.app/Contents/MacOS/Google Chrome',
    '/Applications/Chromium.app/Contents/MacOS/Chromium',
]
HEAVY = [
    *('torch', 'pandas', 'plotly.io', 'sklearn.linear_model', 'gymnasium', 'ale_py', 'ipywidgets', 'anywidget'),
    *('nbconvert', 'papermill', 'jupyterlab.labapp', 'ipykernel.kernelapp', 'pytest'),
]
START = time.time()


def stop(*lines):
    sys.exit('\n'.join(['srlviz set-up:'] + ['  ' + line for line in lines]))


def phase(name, *command):
    "Run one command with its output in the log; show that it lives, and for how long."
    t0, live = time.time(), sys.stdout.isatty()
    if live:
        print('  %-44s' % name, end='\r', flush=True)
    with open(LOG, 'ab') as log:
        log.write(('\n$ %s\n' % ' '.join(map(str, command))).encode())
        log.flush()
        p = subprocess.Popen(
            [str(c) for c in command],
            stdout=log,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            cwd=str(ROOT),
            env={**os.environ, 'DEBIAN_FRONTEND': 'noninteractive', 'PYTHONDONTWRITEBYTECODE': ''},
        )
        said = t0
        try:
            while p.poll() is None:
                time.sleep(0.2)
                if live:
                    print('  %-44s %4.0f s' % (name, time.time() - t0), end='\r', flush=True)
                elif time.time() - said > 20:
                    said = time.time()
                    print('  %-44s ... %.0f s' % (name, said - t0), flush=True)
        finally:
            p.poll() is None and p.kill()
    print('  %-44s %4.0f s' % (name, time.time() - t0), flush=True)
    if p.returncode:
        tail = LOG.read_text(encoding='utf-8', errors='replace').splitlines()[-15:]
        stop(*tail, '', '%s failed; the whole log is %s' % (name, LOG.relative_to(ROOT)))


def python311():
    "Restart under Python 3.11 or newer if this one is older."
    if sys.version_info >= (3, 11):
        return
    newer = next((p for p in map(shutil.which, ['python3.11', 'python3.12', 'python3.13', 'python3.14']) if p), None)
    if newer:
        os.execv(newer, [newer] + sys.argv)
    stop(
        'Python 3.11 or newer is needed; %s is %s.' % (sys.executable, sys.version.split()[0]),
        'Install one and name it: make demo PYTHON=/path/to/python3.11',
    )


def root_apt(*packages):
    "The apt-get command for these packages, and whether we may run it ourselves."
    command = 'apt-get install -y --no-install-recommends ' + ' '.join(packages)
    able = shutil.which('apt-get') and hasattr(os, 'geteuid') and os.geteuid() == 0
    return (command if able else 'sudo ' + command), able


def wanted():
    "What a ready venv is made of: changes when a requirement, this place or this recipe does."
    files = [LOCK, ROOT / 'settings.ini', ROOT / 'setup.py', ROOT / 'pyproject.toml']
    text = b''.join(f.read_bytes() for f in files if f.is_file())
    return {
        'files': hashlib.sha256(text).hexdigest()[:16],
        'place': str(VENV),
        'lock': LOCK.name if LOCK.is_file() else '',
    }


def have():
    "The stamp of a venv that works; None if there is none or it is broken."
    try:
        stamp = json.loads((VENV / 'ready.json').read_text())
        subprocess.run(
            [str(BIN / 'python'), '-c', 'import pip'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return stamp if stamp['place'] == str(VENV) else None  # a venv that was moved does not work
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError):
        return None


def venv():
    want, stamp = wanted(), have()
    if stamp == want:
        return
    python311()
    LOG.write_bytes(b'')
    if stamp is None:
        print('srlviz: setting up .venv with Python %s (log: %s)' % (sys.version.split()[0], LOG.name), flush=True)
        try:
            import ensurepip  # noqa: F401
        except ImportError:
            command, able = root_apt('python%d.%d-venv' % sys.version_info[:2])
            if not able:
                stop('This Python cannot make virtual environments. On Debian or Ubuntu:', command)
            phase('apt-get update', 'apt-get', 'update')
            phase('python-venv', *command.split())
        shutil.rmtree(str(VENV), ignore_errors=True)
        phase('virtual environment', sys.executable, '-m', 'venv', VENV)
    else:
        print('srlviz: requirements changed, bringing .venv up to date (log: %s)' % LOG.name, flush=True)
        (VENV / 'ready.json').unlink()
    pip = [
        BIN / 'python',
        '-m',
        'pip',
        'install',
        '--disable-pip-version-check',
        '--progress-bar',
        'off',
    ] + shlex.split(os.environ.get('PIP_ARGS', ''))
    version = subprocess.check_output(
        [str(BIN / 'python'), '-c', 'import sys; print("%d.%d" % sys.version_info[:2])'], universal_newlines=True
    ).strip()
    if version == '3.11' and LOCK.is_file():
        phase(
            '%d packages of %s' % (sum('==' in line for line in LOCK.read_text().splitlines()), LOCK.name),
            *pip,
            '--no-compile',
            '-r',
            LOCK,
        )
        phase('srlviz itself', *pip, '--no-deps', '-e', '.')
        phase('first import (writes bytecode)', BIN / 'python', '-c', 'import ' + ', '.join(HEAVY))
    else:
        phase('packages, loose ranges (Python %s)' % version, *pip, '-e', '.[dev]')
    (VENV / 'ready.json').write_text(json.dumps(want))
    print('  set-up took %.0f s' % (time.time() - START), flush=True)


def find_browser():
    return shutil.which(os.environ.get('CHROMIUM') or '') or next((p for p in map(shutil.which, BROWSERS) if p), None)


def browser():
    "Chromium for the browser tests: found, installed, or the one command that does it."
    if find_browser() or os.environ.get('PLAYWRIGHT_BROWSERS_PATH'):
        return
    command, able = root_apt('chromium', 'fonts-dejavu-core')
    if not able:
        stop(
            'The browser tests need Chromium. On Debian:',
            command,
            'elsewhere:',
            '.venv/bin/playwright install chromium && export PLAYWRIGHT_BROWSERS_PATH=~/.cache/ms-playwright',
        )
    print('srlviz: no Chromium here, installing it', flush=True)
    phase('apt-get update', 'apt-get', 'update')
    phase('chromium', *command.split())
    if not find_browser():
        stop(
            'apt-get installed no Chromium that runs (on Ubuntu it is a snap). Either:',
            '.venv/bin/playwright install --with-deps chromium && export '
            'PLAYWRIGHT_BROWSERS_PATH=~/.cache/ms-playwright',
            'or set CHROMIUM=/path/to/one',
        )


def alone():
    "Wait until no other set-up works in this folder (where the system can say so)."
    try:
        import fcntl
    except ImportError:
        return
    held = open(str(ROOT / '.venv-setup.lock'), 'w')
    fcntl.flock(held, fcntl.LOCK_EX)
    return held  # free again when this process ends


if __name__ == '__main__':
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if have() != wanted():
        held = alone()
        venv()
    if '--browser' in sys.argv:
        browser()
