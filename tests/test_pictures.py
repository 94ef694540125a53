"""Notebooks executed by a program store figures as plotly's JSON and PNG, no widgets; papermill sets parameters."""

import json, subprocess, sys
from pathlib import Path

import nbformat, pytest
from nbformat.v4 import new_code_cell, new_notebook
from support.papermill_runs import SMALL, can_draw, user_environment
from support.selection import slow_except

from srlviz.core.scores import load_scores
from srlviz.studies.notebooks import studies_folder, study_path

KERNEL = dict(name='python3', language='python', display_name='Python 3')
PLOTLY, WIDGET, PNG = 'application/vnd.plotly.v1+json', 'application/vnd.jupyter.widget-view+json', 'image/png'
FILM = """
import numpy as np, plotly.graph_objects as go
from srlviz.core.jobs.progress import Bar
from srlviz.core.recordings import Episode, Recording
from srlviz.figures.style import style
from srlviz.widgets.frame_browser import FrameBrowser
frames = np.random.default_rng(0).integers(0, 256, (200, 64, 64)).astype(np.uint8)
film = Recording([Episode(dict(frame=frames), factors=dict(height=np.arange(200.)))], name='noise')
"""
CELLS = [
    FILM,
    'FrameBrowser(film)',
    "style(go.Figure(go.Bar(y=[1, 2]), dict(title='bars')))",
    'style(go.Figure(go.Scatter(y=[1, 2]))).show()',
    "for _ in Bar(range(3)): print('text')",
]


def run(*arguments, cwd, **environment):
    "Run Python as a user does, outside the checkout"
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, cwd=cwd, env=user_environment(**environment), capture_output=True, text=True)


def by_papermill(path, out):
    return ['-m', 'papermill', path, out / 'done.ipynb']


def by_nbclient(path, out):
    code = 'import nbclient, nbformat, sys; nb = nbformat.read(sys.argv[1], 4)\n'
    return ['-c', code + 'nbclient.execute(nb); nbformat.write(nb, sys.argv[2])', path, out / 'done.ipynb']


def by_nbconvert(path, out):
    output = ['--to', 'notebook', '--output-dir', out, '--output', 'done.ipynb']
    return ['-m', 'nbconvert', '--execute', *output, path]


def by_srlviz(path, out):
    return ['-m', 'srlviz.studies.cli', 'run', path, '--out', out]


def execute(make_arguments, folder, **environment):
    "Execute a notebook of CELLS with one of the functions above; return the path of the executed notebook"
    path = folder / 'done.ipynb'
    out = folder / 'out'
    out.mkdir()
    cells = [new_code_cell(source) for source in CELLS]
    nbformat.write(new_notebook(cells=cells, metadata=dict(kernelspec=KERNEL)), path)
    result = run(*make_arguments(path, out), cwd=folder, **environment)
    assert result.returncode == 0, result.stdout + result.stderr
    return out / 'done.ipynb'


def output_types(path):
    "Return the MIME types of each output of each cell"
    return [[set(o.data) for o in c.outputs if 'data' in o] for c in nbformat.read(path, 4).cells]


@pytest.mark.parametrize(
    'make_arguments', slow_except([by_papermill, by_srlviz], [by_papermill, by_srlviz, by_nbclient, by_nbconvert])
)
def test_executed_notebooks_have_figures_and_no_widget(make_arguments, tmp_path):
    figure = {PLOTLY, 'text/plain'} | ({PNG} if can_draw() else set())
    path = execute(make_arguments, tmp_path)
    assert output_types(path) == [[], [figure], [figure], [figure], []]
    assert not any(part['state'] for part in nbformat.read(path, 4).metadata.get('widgets', {}).values())


def test_srlviz_static_0_stores_widgets(tmp_path):
    "So the test above can fail"
    path = execute(by_nbclient, tmp_path, SRLVIZ_STATIC='0')
    assert any(WIDGET in types for types in output_types(path)[1])


def test_without_chromium_figures_are_plotlys_json(tmp_path):
    path = execute(by_nbclient, tmp_path, CHROMIUM='/bin/false')
    assert output_types(path)[1:4] == 3 * [[{PLOTLY, 'text/plain'}]]


def test_papermill_sets_a_list_as_text_or_from_a_file(tmp_path):
    "papermill's command with -p and with -f"
    parameters = new_code_cell("names: list = ['all']\nout: str = '.'", metadata=dict(tags=['parameters']))
    printed = new_code_cell('from srlviz.studies.run import take_parameters\ntake_parameters(globals())\nprint(names)')
    notebook = new_notebook(cells=[parameters, printed], metadata=dict(kernelspec=KERNEL))
    nbformat.write(notebook, tmp_path / 'names.ipynb')
    (tmp_path / 'names.yaml').write_text(json.dumps(dict(names=['a', 'b'])))  # JSON is YAML
    for options in ['-p', 'names', 'a,b'], ['-f', 'names.yaml']:
        result = run('-m', 'papermill', 'names.ipynb', 'done.ipynb', *options, cwd=tmp_path)
        assert result.returncode == 0, result.stderr
        assert nbformat.read(tmp_path / 'done.ipynb', 4).cells[-1].outputs[0].text == "['a', 'b']\n"


@pytest.mark.slow
def test_a_study_takes_a_list_as_text_or_from_a_file(papermill, tmp_path):
    "From another folder; the scores are equal"

    def table(folder):
        return load_scores(folder / 'scores.csv').query("metric != 'fps'").reset_index(drop=True)

    study = 'studies/popgym_tasks'
    parameters = SMALL[study] | dict(fps_seconds=0, pictures='')  # no speeds
    assert ',' in parameters['tasks']
    with_list = parameters | dict(tasks=parameters['tasks'].split(','))
    (tmp_path / 'params.yaml').write_text(json.dumps(with_list))  # JSON is YAML
    path = study_path('popgym_tasks')
    result = run('-m', 'papermill', path, 'done.ipynb', '-f', 'params.yaml', cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    with_p = table(papermill(study).out)
    assert 'RepeatFirst-easy' in set(with_p['task']) and with_p.equals(table(tmp_path))


def test_unknown_parameters_of_papermill_are_refused(tmp_path):
    result = run('-m', 'papermill', study_path('atari_conditioning'), 'done.ipynb', '-p', 'metrics', 'f1', cwd=tmp_path)
    assert result.returncode == 1 and "parameter of this study 'metrics'; did you mean 'metric'" in result.stderr
    assert [p.name for p in tmp_path.iterdir()] == ['done.ipynb']  # no results


def test_every_study_takes_its_parameters_after_the_imports():
    for path in studies_folder().glob('*.ipynb'):
        code = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == 'code']
        assert 'take_parameters(globals())' in code[1].split('\n\n')[1], path.name


def test_the_command_prints_the_path_of_a_study(tmp_path):
    result = run('-m', 'srlviz.studies.cli', 'path', 'popgym_tasks', cwd=tmp_path)
    assert result.returncode == 0 and Path(result.stdout.strip()).samefile(study_path('popgym_tasks'))
