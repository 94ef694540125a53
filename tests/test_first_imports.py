"""What the first opening of anything imports: torch where it is needed, its compiler when something compiles."""

import subprocess
import sys

FIRST = """
import sys
from pathlib import Path
import srlviz
from srlviz.studies.explore import subject_of

srlviz.explore(interactive=False)
srlviz.explore('pong', interactive=False)
Path('runs').mkdir()
Path('runs/sweep.json').write_text('{}')
assert subject_of('runs').kind == 'runs'
assert 'torch' not in sys.modules and 'scipy.stats' not in sys.modules
from srlviz.core.names import catalog
import torch

assert len(catalog('memories')) > 10
from srlviz.memories.recurrent import GRU

memory = GRU(2, 3)
memory(torch.zeros(4, 5, 2), None, torch.zeros(4, 5, dtype=torch.bool))
assert 'torch._dynamo' not in sys.modules
"""


def test_nothing_imports_torch_or_its_compiler_before_they_are_needed(tmp_path):
    done = subprocess.run([sys.executable, '-c', FIRST], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
