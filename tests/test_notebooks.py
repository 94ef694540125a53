"""Run the example cells of every room notebook against the exported module.

Cells marked `#| slow` run in `make slow`. nbdev-test runs the export cells instead, and so never sees the module that
users import: `make slow` tries the notebooks with it, too.
"""

import importlib, re, subprocess, sys
from pathlib import Path

import nbformat, pytest

NBS = Path(__file__).parents[1] / 'nbs'
SKIP = {'export', 'exporti', 'exports', 'default_exp', 'notest'}


def room_notebooks():
    return sorted(p for p in NBS.glob('[0-9][0-9]_*/**/*.ipynb') if '.ipynb_checkpoints' not in p.parts)


def directives(src):
    return {m[1].lower(): m[2].strip() for m in re.finditer(r'^#\s*\|\s*([\w-]+):?[ \t]*(.*)$', src, re.M)}


@pytest.fixture
def shell(tmp_path, monkeypatch):
    "An IPython shell that leaves nothing in the home folder."
    monkeypatch.setenv('IPYTHONDIR', str(tmp_path))
    monkeypatch.setenv('IN_TEST', '1')
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    sh = InteractiveShell(
        user_ns={'__name__': '__main__'},
        config=Config(HistoryManager=dict(enabled=False), InteractiveShell=dict(colors='nocolor')),
    )
    sh.display_formatter.active_types = ['text/plain']
    yield sh
    sh.restore_sys_module_state()


def code_cells(path):
    "Code cells with their directives"
    return [(c, directives(c.source)) for c in nbformat.read(path, 4).cells if c.cell_type == 'code']


def run_examples(path, shell, skip):
    "Run the cells of a notebook in the namespace of its module, except those with a directive of `skip`"
    cells = code_cells(path)
    name = next(d['default_exp'] for _, d in cells if 'default_exp' in d)
    module = importlib.import_module(f'srlviz.{name}')
    shell.user_ns.update({k: v for k, v in vars(module).items() if not k.startswith('__')})
    before = set(path.parent.iterdir())
    for c, d in cells:
        if skip & d.keys() or d.get('eval', '').lower() == 'false':
            continue
        result = shell.run_cell(c.source, store_history=False)
        if not result.success:
            error = result.error_before_exec or result.error_in_exec
            pytest.fail(f'{path.relative_to(NBS)}, cell {c.id}: {error!r}\n{c.source}', pytrace=False)
    created = set(path.parent.iterdir()) - before
    left = {p for p in created if p.suffix != '.ipynb' and not p.name.startswith(('.', '_'))}
    assert not left, f'the examples left files in the tree: {left}'


@pytest.mark.parametrize('path', room_notebooks(), ids=lambda p: str(p.relative_to(NBS)))
def test_notebook(path, shell, monkeypatch):
    monkeypatch.chdir(path.parent)
    run_examples(path, shell, SKIP | {'slow'})


WITH_SLOW_CELLS = [p for p in room_notebooks() if any('slow' in d for _, d in code_cells(p))]


@pytest.mark.slow
@pytest.mark.parametrize('path', WITH_SLOW_CELLS, ids=lambda p: str(p.relative_to(NBS)))
def test_notebook_with_its_slow_cells(path, shell, monkeypatch):
    monkeypatch.chdir(path.parent)
    run_examples(path, shell, SKIP)


@pytest.mark.slow
@pytest.mark.parametrize('path', room_notebooks(), ids=lambda p: str(p.relative_to(NBS)))
def test_a_page_runs_live(path):
    """A notebook runs from its own cells, without its module, as nbdev-test runs it and as its author does.

    Each in a process of its own: a page that defines tasks registers them for all later pages of its process.
    """
    nbdev_test = Path(sys.executable).with_name('nbdev-test')
    command = [nbdev_test, '--n-workers', '0', path]
    r = subprocess.run(command, capture_output=True, text=True, cwd=NBS.parent)
    assert r.returncode == 0 and 'Success' in r.stdout, r.stdout[-2000:] + r.stderr[-6000:]
