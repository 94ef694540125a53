"""Run tests in an environment with packages that are not in the lock: recipes of README and guides, nbgrader, tables,
or RLlib.

The paper of the guide is compiled by pdflatex (Debian: apt-get install texlive-latex-recommended chromium); where it is
missing, the last lines say what was skipped.

python .ci/recipes.py [arguments of pytest; default: tests of recipes and of real tables]
Environment: PIP_ARGS (more arguments for pip)

The environment .venv-recipes also sees the packages of the current one, and overrides them: RLlib needs another
Gymnasium.
"""

import os, shlex, subprocess, sys, sysconfig, venv
from configparser import ConfigParser
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / '.venv-recipes'
DATA = 'aeon==1.6.*', 'heartpy==1.2.*'  # for their files alone


def main(*arguments):
    python = VENV / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
    if not python.exists():
        venv.create(VENV, with_pip=True)
    site = sysconfig.get_path('purelib', vars=dict(base=str(VENV)))
    (Path(site) / 'srlviz-lock.pth').write_text(sysconfig.get_path('purelib') + '\n')
    ini = ConfigParser(delimiters=['='])
    ini.read(ROOT / 'settings.ini', encoding='utf-8')
    packages = [
        'stable-baselines3>=2.7',
        'sb3-contrib>=2.7',
        'nbgrader==0.9.*',
        *ini['DEFAULT']['rllib_requirements'].split(),
    ]
    pip = [python, '-m', 'pip', 'install', '-q', *shlex.split(os.environ.get('PIP_ARGS', '')), *packages]
    subprocess.run(pip, check=True)
    subprocess.run([*pip[: -len(packages)], '--no-deps', *DATA], check=True)
    env = os.environ | dict(OMP_NUM_THREADS='1')  # RLlib's threads wait for one another, which is many times slower
    tests = 'recipes', 'real_tables', 'probe_callback', 'paper'
    arguments = arguments or [f'tests/test_{name}.py' for name in tests]
    return subprocess.run([python, '-m', 'pytest', '-q', '-rs', *arguments], cwd=ROOT, env=env).returncode


if __name__ == '__main__':
    sys.exit(main(*sys.argv[1:]))
