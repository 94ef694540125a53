"""Make .venv ready, or check in 0.1 s that it is. Standard library only: this runs before anything is installed.

python3 .ci/setup.py [--browser]
Environment: PIP_ARGS (more arguments for pip), LOCK='' (loose ranges of settings.ini instead of the lock), CHROMIUM
(path of a browser).
"""

import hashlib, json, os, platform, re, shlex, shutil, signal, subprocess, sys, time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV, LOG = ROOT / '.venv', ROOT / '.venv-setup.log'
BIN = VENV / ('Scripts' if os.name == 'nt' else 'bin')
OURS, TORCH = ROOT / 'requirements-lock.txt', ROOT / 'requirements-torch.txt'
LOCK = ROOT / os.environ.get('LOCK', OURS.name)
OLDEST, NEWEST = (3, 11), (3, 14)  # what the lock is made for, see .ci/lock.py
KNOWN = 'Python 3.11 to 3.14 on Linux or Windows (x86-64), or macOS 14 or newer (Apple silicon)'
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
    "Run one command with its output in the log; show its elapsed time."
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
        printed = t0
        try:
            while p.poll() is None:
                time.sleep(0.2)
                if live:
                    print('  %-44s %4.0f s' % (name, time.time() - t0), end='\r', flush=True)
                elif time.time() - printed > 20:
                    printed = time.time()
                    print('  %-44s ... %.0f s' % (name, printed - t0), flush=True)
        finally:
            p.poll() is None and p.kill()
    print('  %-44s %4.0f s' % (name, time.time() - t0), flush=True)
    if p.returncode:
        output = LOG.read_text(encoding='utf-8', errors='replace')
        output = output[output.rindex('\n$ ') :]  # of this command
        lines = why(output, venv_python()) or output.splitlines()[-15:] + ['']
        stop(*lines + ['%s failed; full log: %s' % (name, LOG.relative_to(ROOT))])


OFFLINE = r'NewConnectionError|ConnectTimeoutError|ReadTimeoutError|NameResolutionError|ProxyError|SSLError'


def why(output, python):
    "An explanation of a known error in pip's log, and advice; nothing for other errors"
    proxy = "A proxy or an index of your own goes in PIP_ARGS: make setup PIP_ARGS='--index-url URL'"
    other = 'Another Python: make setup PYTHON=/path/to/it. Known to work: ' + KNOWN
    place = 'for Python %s on this system (%s)' % (python, platform.platform())
    if 'No space left on device' in output:
        return ['The disk is full: set-up takes 3 GB, and about 8 with the CUDA build of torch.']
    lacks = re.search(r'No matching distribution found for ([^\s=<>~!;]+)(?:==(\S+))?', output)
    if re.search(OFFLINE, output) and (lacks is None or 'from versions: none' in output):
        return ['The package index could not be reached.', proxy]
    if lacks:
        needs = re.search(r' %s Requires-Python ([^;\n]+)' % re.escape(lacks.group(2) or '?'), output)
        if needs:
            return ['%s wants Python %s; this is %s.' % (lacks.group(1), needs.group(1), python), other]
        return ['There is no %s %s %s.' % (lacks.group(1), lacks.group(2) or '', place), other]
    differs = re.search(r"Package '([^']+)' requires a different Python: \S+ not in '([^']+)'", output)
    if differs:
        return ['%s wants Python %s; this is %s.' % (differs.group(1), differs.group(2), python), other]
    built = re.findall(r'Failed building wheel for ([\w.-]+)', output) or re.findall(r'Collecting ([\w.-]+)', output)
    if 'error: subprocess-exited-with-error' in output and built:
        return ['There is no ready build of %s %s, and building it failed.' % (built[-1], place), other]
    return []


def python311():
    "Restart under a supported Python if this one is too old."
    if sys.version_info >= OLDEST:
        return
    known = ['python3.%d' % n for n in range(OLDEST[1], NEWEST[1] + 1)]
    newer = next((p for p in map(shutil.which, known) if p), None)
    if newer:
        os.execv(newer, [newer] + sys.argv)
    stop(
        'Python 3.11 or newer is needed; %s is %s.' % (sys.executable, sys.version.split()[0]),
        'Install one and name it: make demo PYTHON=/path/to/python3.11',
    )


def root_apt(*packages):
    "The apt-get command for these packages, and whether this process may run it."
    command = 'apt-get install -y --no-install-recommends ' + ' '.join(packages)
    able = shutil.which('apt-get') and hasattr(os, 'geteuid') and os.geteuid() == 0
    return (command if able else 'sudo ' + command), able


def wanted():
    "A stamp of the requirements, this path and this script, which a ready venv has."
    files = [LOCK, TORCH, ROOT / 'settings.ini', ROOT / 'setup.py', ROOT / 'pyproject.toml']
    text = b''.join(f.read_bytes() for f in files if f.is_file())
    return {
        'files': hashlib.sha256(text).hexdigest()[:16],
        'place': str(VENV),
        'lock': LOCK.name if LOCK.is_file() else '',
    }


def have():
    "The stamp of a working venv; None if there is none or it is broken."
    try:
        stamp = json.loads((VENV / 'ready.json').read_text())
        subprocess.run(
            [str(BIN / 'python'), '-c', 'import pip'], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return stamp if stamp['place'] == str(VENV) else None  # a venv that was moved does not work
    except (OSError, ValueError, KeyError, subprocess.CalledProcessError):
        return None


def venv_python():
    "The version of the Python of .venv, such as 3.11.2"
    code = 'import platform; print(platform.python_version())'
    try:
        return subprocess.check_output([str(BIN / 'python'), '-c', code], universal_newlines=True).strip()
    except OSError:  # there is none yet
        return platform.python_version()


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
                stop(
                    '%s cannot make virtual environments. On Debian or Ubuntu:' % sys.executable,
                    command,
                    'without root: another Python that can, make setup PYTHON=/path/to/it',
                )
            phase('apt-get update', 'apt-get', 'update')
            phase('python-venv', *command.split())
        shutil.rmtree(str(VENV), ignore_errors=True)
        phase('virtual environment', sys.executable, '-m', 'venv', VENV)
    else:
        print('srlviz: requirements changed, updating .venv (log: %s)' % LOG.name, flush=True)
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
    fits = tuple(map(int, venv_python().split('.')[:2])) <= NEWEST
    if not fits:
        print('  %s is for %s: using the ranges of settings.ini' % (LOCK.name, KNOWN))
    if LOCK.is_file() and fits:
        if LOCK == OURS:  # which names everything, with checksums, but torch
            phase('packages of %s' % LOCK.name, *pip, '--no-compile', '--no-deps', '--require-hashes', '-r', LOCK)
            phase('torch', *pip, '--no-compile', '-r', TORCH)
        else:
            phase('packages of %s' % LOCK.name, *pip, '--no-compile', '-r', LOCK)
        phase('srlviz itself', *pip, '--no-deps', '-e', '.')
        phase('first import (writes bytecode)', BIN / 'python', '-c', 'import ' + ', '.join(HEAVY))
    else:
        phase('packages, loose ranges', *pip, '-e', '.[dev]')
    (VENV / 'ready.json').write_text(json.dumps(want))
    print('  set-up took %.0f s' % (time.time() - START), flush=True)


def find_browser():
    return shutil.which(os.environ.get('CHROMIUM') or '') or next((p for p in map(shutil.which, BROWSERS) if p), None)


def browser():
    "Find or install Chromium for the browser tests, or print the command that installs it."
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
    print('srlviz: installing Chromium', flush=True)
    phase('apt-get update', 'apt-get', 'update')
    phase('chromium', *command.split())
    if not find_browser():
        stop(
            'The Chromium that apt-get installed does not run (on Ubuntu it is a snap). Either:',
            '.venv/bin/playwright install --with-deps chromium && export '
            'PLAYWRIGHT_BROWSERS_PATH=~/.cache/ms-playwright',
            'or set CHROMIUM=/path/to/chromium',
        )


def alone():
    "Wait until no other set-up runs in this folder (if the system supports locks)."
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
