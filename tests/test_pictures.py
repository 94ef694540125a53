"""What a program executes keeps figures as plotly's JSON and PNG, and no widget; studies take what papermill gives."""

import json, subprocess, sys
from pathlib import Path

import nbformat, pytest
from nbformat.v4 import new_code_cell, new_notebook
from support.papermill_runs import SMALL, can_draw, user_environment

from srlviz.core.scores import load_scores
from srlviz.studies.notebooks import studies_folder, study_path

KERNEL = dict(name='python3', language='python', display_name='Python 3')
PLOTLY, WIDGET, PNG = 'application/vnd.plotly.v1+json', 'application/vnd.jupyter.widget-view+json', 'image/png'
FILM = """
import numpy as np, plotly.graph_objects as go
from srlviz.core.jobs.progress import Bar
from srlviz.core.recordings import Episode, Recording
from srlviz.figures.style import style
from srlviz.widgets.frames import FrameBrowser
frames = np.random.default_rng(0).integers(0, 256, (200, 64, 64)).astype(np.uint8)
film = Recording([Episode(dict(frame=frames), factors=dict(height=np.arange(200.)))], name='noise')
"""
CELLS = [
    FILM,
    'FrameBrowser(film)',
    "style(go.Figure(go.Bar(y=[1, 2]), dict(title='bars')))",
    'style(go.Figure(go.Scatter(y=[1, 2]))).show()',
    "for _ in Bar(range(3)): print('told')",
]


def run(*command, cwd, **environment):
    "A command as a user types it, away from the tree"
    words = [sys.executable, *map(str, command)]
    return subprocess.run(words, cwd=cwd, env=user_environment(**environment), capture_output=True, text=True)


def by_papermill(path, out):
    return ['-m', 'papermill', path, out / 'done.ipynb']


def by_nbclient(path, out):
    code = 'import nbclient, nbformat, sys; nb = nbformat.read(sys.argv[1], 4)\n'
    return ['-c', code + 'nbclient.execute(nb); nbformat.write(nb, sys.argv[2])', path, out / 'done.ipynb']


def by_nbconvert(path, out):
    to = ['--to', 'notebook', '--output-dir', out, '--output', 'done.ipynb']
    return ['-m', 'nbconvert', '--execute', *to, path]


def by_srlviz(path, out):
    return ['-m', 'srlviz.studies.cli', 'run', path, '--out', out]


def executed(how, folder, **environment):
    "The notebook that this leaves of CELLS"
    path, out = folder / 'done.ipynb', folder / 'out'
    out.mkdir()
    cells = [new_code_cell(source) for source in CELLS]
    nbformat.write(new_notebook(cells=cells, metadata=dict(kernelspec=KERNEL)), path)
    done = run(*how(path, out), cwd=folder, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return out / 'done.ipynb'


def kinds(path):
    "Of what each cell displays"
    return [[set(o.data) for o in c.outputs if 'data' in o] for c in nbformat.read(path, 4).cells]


@pytest.mark.parametrize('how', [by_papermill, by_nbclient, by_nbconvert, by_srlviz])
def test_a_program_leaves_figures_and_no_widget(how, tmp_path):
    figure = {PLOTLY, 'text/plain'} | ({PNG} if can_draw() else set())
    assert kinds(executed(how, tmp_path)) == [[], [figure], [figure], [figure], []]


def test_who_says_that_there_is_a_reader_gets_widgets(tmp_path):
    "And so the test above can fail"
    assert any(WIDGET in kind for kind in kinds(executed(by_nbclient, tmp_path, SRLVIZ_STATIC='0'))[1])


def test_without_chromium_plotlys_json_is_left(tmp_path):
    assert kinds(executed(by_nbclient, tmp_path, CHROMIUM='/bin/false'))[1:4] == 3 * [[{PLOTLY, 'text/plain'}]]


def test_papermill_gives_a_list_as_text_or_in_a_file(papermill, tmp_path):
    "papermill's own command, from another folder, with -p and with -f"
    study, without_speeds = 'studies/popgym_tasks', dict(fps_seconds=0, pictures='')
    given = SMALL[study] | without_speeds
    assert ',' in given['tasks']
    (tmp_path / 'params.yaml').write_text(json.dumps(given | dict(tasks=given['tasks'].split(','))))  # JSON is YAML
    path = study_path('popgym_tasks')
    by_f = run('-m', 'papermill', path, 'done.ipynb', '-f', 'params.yaml', cwd=tmp_path)
    assert by_f.returncode == 0, by_f.stderr
    table = lambda folder: load_scores(folder / 'scores.csv').query("metric != 'fps'").reset_index(drop=True)
    by_p = table(papermill(study).out)
    assert 'RepeatFirst-easy' in set(by_p['task']) and by_p.equals(table(tmp_path))


def test_papermill_is_refused_a_parameter_that_the_study_does_not_know(tmp_path):
    done = run('-m', 'papermill', study_path('atari_conditioning'), 'done.ipynb', '-p', 'metrics', 'f1', cwd=tmp_path)
    assert done.returncode == 1 and "parameter of this study 'metrics'; did you mean 'metric'" in done.stderr
    assert [p.name for p in tmp_path.iterdir()] == ['done.ipynb']  # nothing was made


def test_every_study_takes_its_parameters_first():
    for path in studies_folder().glob('*.ipynb'):
        code = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == 'code']
        assert 'take_parameters(globals())' in code[1].split('\n\n')[1], path.name  # right behind the imports


def test_the_command_says_where_a_study_lies(tmp_path):
    done = run('-m', 'srlviz.studies.cli', 'path', 'popgym_tasks', cwd=tmp_path)
    assert done.returncode == 0 and Path(done.stdout.strip()).samefile(study_path('popgym_tasks'))


def test_a_program_keeps_no_state_of_widgets(tmp_path):
    about = nbformat.read(executed(by_papermill, tmp_path), 4).metadata
    assert not any(part['state'] for part in about.get('widgets', {}).values())
