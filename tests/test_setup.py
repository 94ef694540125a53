"""Messages of `make setup` when pip fails: a sentence, and what to do."""

import importlib.util
from pathlib import Path

import pytest

SETUP = Path(__file__).parents[1] / '.ci/setup.py'
# lines of pip 23 and 26, shortened
TOO_OLD = """\
ERROR: Ignored the following versions that require a different python version: 4.0 Requires-Python >=3.11.5; 4.1.1 \
Requires-Python >=3.11.5; 4.2 Requires-Python >=3.12
ERROR: Could not find a version that satisfies the requirement soupsieve==4.1.1 (from versions: 0.4, 0.5, 2.10)
ERROR: No matching distribution found for soupsieve==4.1.1"""
DIFFERENT = "ERROR: Package 'newer' requires a different Python: 3.11.2 not in '>=3.12'"
NO_BUILD = """\
ERROR: Could not find a version that satisfies the requirement torch==2.13.0 (from versions: 2.9.0)
ERROR: No matching distribution found for torch==2.13.0"""
OFFLINE = """\
WARNING: Retrying (Retry(total=0)) after connection broken by 'NewConnectionError('refused')': /simple/six/
ERROR: Could not find a version that satisfies the requirement six (from versions: none)
ERROR: No matching distribution found for six"""
BUILDING = """\
Collecting jsbsim==1.3.3
Collecting numpy==2.4.6
  Building wheel for jsbsim (pyproject.toml): finished with status 'error'
  error: subprocess-exited-with-error
  ERROR: Failed building wheel for jsbsim"""
METADATA = """\
Collecting jsbsim==1.3.3
Collecting ale-py==0.12.1
  error: subprocess-exited-with-error
  Getting requirements to build wheel did not run successfully.
error: metadata-generation-failed"""


@pytest.fixture(scope='module')
def setup():
    spec = importlib.util.spec_from_file_location('setup_of_srlviz', SETUP)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    'log, sentence',
    [
        (TOO_OLD, 'soupsieve wants Python >=3.11.5; this is 3.11.2.'),
        (DIFFERENT, 'newer wants Python >=3.12; this is 3.11.2.'),
        (NO_BUILD, 'There is no torch 2.13.0 for Python 3.11.2 on this system'),
        (OFFLINE, 'The package index could not be reached.'),
        (OFFLINE.splitlines()[0] + '\n' + TOO_OLD, 'soupsieve wants Python >=3.11.5'),  # reached at the second try
        (BUILDING, 'There is no ready build of jsbsim for Python 3.11.2'),
        (METADATA, 'There is no ready build of ale-py for Python 3.11.2'),
        ("OSError: [Errno 28] No space left on device", 'The disk is full'),
    ],
)
def test_known_failures_are_explained_in_a_sentence(setup, log, sentence):
    message = setup.why(log, '3.11.2')
    assert message[0].startswith(sentence)
    assert 'PYTHON=' in ' '.join(message) or 'PIP_ARGS=' in ' '.join(message) or 'disk' in message[0]


def test_unknown_failures_have_no_explanation(setup):
    "`make setup` then shows the end of pip's output"
    assert setup.why('Segmentation fault', '3.11.2') == []


def test_setup_parses_on_an_old_python():
    "The script that reports a Python as too old must run there: no syntax newer than Python 3.6."
    import ast

    ast.parse(SETUP.read_text(encoding='utf-8'), feature_version=(3, 6))
