"""Run the README's recipes, also those whose packages the lock does not have, in an environment of their own.

python .ci/recipes.py        Environment: PIP_ARGS (more arguments for pip)

It lies in .venv-recipes, sees the packages of the environment that runs this, and goes before them: RLlib asks for
another Gymnasium.
"""

import os, shlex, subprocess, sys, sysconfig, venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PLACE, PACKAGES = ROOT / '.venv-recipes', ('stable-baselines3>=2.7', 'ray[rllib]>=2.50')


def main():
    python = PLACE / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
    if not python.exists():
        venv.create(PLACE, with_pip=True)
    where = sysconfig.get_path('purelib', vars=dict(base=str(PLACE)))
    (Path(where) / 'srlviz-lock.pth').write_text(sysconfig.get_path('purelib') + '\n')
    pip = [python, '-m', 'pip', 'install', '-q', *shlex.split(os.environ.get('PIP_ARGS', '')), *PACKAGES]
    subprocess.run(pip, check=True)
    return subprocess.run([python, '-m', 'pytest', '-q', 'tests/test_recipes.py', *sys.argv[1:]], cwd=ROOT).returncode


if __name__ == '__main__':
    sys.exit(main())
