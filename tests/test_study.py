"""Studies run from the command line and by papermill: resumed runs, refused parameters, scores of small budgets."""

import os, re, subprocess, sys, time
from pathlib import Path

import nbformat, psutil, pytest, torch
from nbformat.v4 import new_code_cell, new_markdown_cell
from PIL import Image
from support.papermill_runs import SHIPPED, SMALL

from srlviz.core.scores import load_scores
from srlviz.studies import run
from srlviz.studies.cli import main
from srlviz.studies.notebooks import study_path

PROBE = SMALL['studies/atari_probe']
DISPLAYED = 'display_data', 'execute_result'


def command(out, study='atari_probe', **parameters):
    options = [word for k, v in parameters.items() for word in ('-p', k, str(v))]
    return [str(Path(sys.executable).with_name('srlviz')), 'run', study, '--out', str(out), *options]


ENV = dict(OMP_NUM_THREADS='1', CHROMIUM='/bin/false')  # figures as PNG are tested elsewhere


def execute(out, study, cwd=None, **parameters):
    args = command(out, study, **parameters)
    return subprocess.run(args, capture_output=True, text=True, env=os.environ | ENV, cwd=cwd)


def histories(folder):
    "The history of training, by epoch, of each checkpoint below a folder"
    paths = [p for p in sorted(folder.rglob('*.pt')) if not p.name.startswith('.')]  # hidden ones are being written
    checkpoints = [torch.load(p, weights_only=True) for p in paths]
    return [c['state']['history'] for c in checkpoints if c.get('state', {}).get('history')]


def kill(process):
    "Send SIGKILL to a process and all its children"
    for p in [*process.children(recursive=True), process]:
        p.kill()
    process.wait()


FAILING = """
from pathlib import Path
from srlviz.core.scores import score_row
from srlviz.studies.run import take_parameters
from srlviz.studies.sweep import sweep

take_parameters(globals())


def toss(x: int):
    with open('ran', 'a') as f:
        f.write('x')
    return [score_row(study='toss', task=f'x{x}', method='coin', metric='heads', value=x)]


found = sweep(toss, dict(x=[1, 2]), Path(out) / 'trials', progress=False)
"""


@pytest.mark.slow  # two kernels
def test_a_failed_study_is_resumed_by_the_same_command(tmp_path, capsys):
    "It ends with 1, keeps the cells done, says what to look at, and computes no trial twice"
    cells = [
        new_code_cell("data: str = ''\nout: str = '.'", metadata=dict(tags=['parameters'])),
        new_markdown_cell('## Toss'),
        new_code_cell(FAILING),
        new_markdown_cell('## Read'),
        new_code_cell('print(Path(data).read_text())', metadata=dict(tags=['summary'])),
    ]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / 'toss.ipynb')
    line = ['run', str(tmp_path / 'toss.ipynb'), '-p', 'data', 'läuf 1.csv', '--out', str(tmp_path / 'out')]
    assert main(line) == 1
    assert "FileNotFoundError" in (error := capsys.readouterr().err) and "look at data = 'l" in error
    failed = nbformat.read(tmp_path / 'out' / 'toss.failed.ipynb', 4)
    first, *_, done, _, stopped = failed.cells
    assert 'in the section *Read*' in first.source and 'FileNotFoundError' in first.source and 'data =' in first.source
    assert done.execution_count and not any(o.output_type == 'error' for o in done.get('outputs', []))
    assert stopped.outputs[-1].ename == 'FileNotFoundError'
    (tmp_path / 'out' / 'läuf 1.csv').write_text('heads')
    assert main(line) == 0 and 'heads' in capsys.readouterr().out
    assert (tmp_path / 'out' / 'ran').read_text() == 'xx' and not (tmp_path / 'out' / 'toss.failed.ipynb').exists()


def test_the_cells_done_are_kept_if_the_failure_cannot_be_explained(tmp_path, monkeypatch):
    part, failed = tmp_path / 'part.ipynb', tmp_path / 'toss.failed.ipynb'
    nbformat.write(nbformat.v4.new_notebook(cells=[new_code_cell('print(1)')]), part)

    def explain(*args):
        raise KeyError('metadata')

    monkeypatch.setattr(run, '_explain_failure', explain)
    error = run._failure_error(part, failed, 'toss', ValueError('too few'), {}, {})
    assert 'ValueError: too few' in str(error) and str(failed) in str(error)
    assert nbformat.read(failed, 4).cells[0].source == 'print(1)' and not part.exists()


def test_a_killed_study_is_resumed(papermill, tmp_path):
    """SIGKILL to all processes of a study while ST-DIM learns.

    The second run resumes after the epochs that were learned, and ends with the scores of an uninterrupted run by
    papermill's own command; it leaves notebook, page and table.
    """
    process = psutil.Popen(
        command(tmp_path, **PROBE),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        env=os.environ | ENV,
    )
    try:
        while not histories(tmp_path):
            assert process.poll() is None
            time.sleep(0.05)
    finally:
        kill(process)
    assert not (tmp_path / 'atari_probe.ipynb').exists()
    (learned,) = histories(tmp_path)
    assert 1 <= len(learned) < PROBE['epochs']
    second_run = execute(tmp_path, 'atari_probe', **PROBE)
    assert second_run.returncode == 0, second_run.stdout + second_run.stderr
    (history,) = histories(tmp_path)
    assert len(history) == PROBE['epochs']
    assert history[: len(learned)] == learned  # including the seconds: no epoch was learned twice
    uninterrupted = papermill('studies/atari_probe')
    assert load_scores(tmp_path / 'scores.csv').equals(load_scores(uninterrupted.out / 'scores.csv'))
    assert_notebook_page_and_scores(tmp_path, second_run.stdout)


def assert_notebook_page_and_scores(out, log):
    assert 'st_dim' in log  # the table is printed
    scores, page = load_scores(out / 'scores.csv'), (out / 'atari_probe.html').read_text()
    ours = set(scores.query("source == 'srlviz'")[['method', 'norm']].itertuples(index=False, name=None))
    assert ours == {('majority', 'none'), *((m, n) for m in ('random_cnn', 'st_dim') for n in ('none', 'standardize'))}
    assert page.count('<div class="plot"') >= 3 and 'src="http' not in page
    outputs = [o for c in nbformat.read(out / 'atari_probe.ipynb', 4).cells if c.cell_type == 'code' for o in c.outputs]
    widget = 'application/vnd.jupyter.widget-view+json'
    assert not any(widget in o.get('data', {}) for o in outputs)  # static forms only


# the command names the error before any kernel starts, or the study before it computes anything
@pytest.mark.parametrize(
    'parameters, message',
    [
        (dict(gmae='pong'), "did you mean 'game'"),
        (dict(epochs='many'), 'parameter epochs of study atari_probe must be int'),
        (dict(game='pnog'), "did you mean 'pong'"),
    ],
)
def test_the_command_names_invalid_parameters(parameters, message, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('CHROMIUM', ENV['CHROMIUM'])
    status = main(command(tmp_path / 'out', **PROBE | parameters)[1:])
    assert status in (1, 2) and message in ''.join(capsys.readouterr())
    assert not list(tmp_path.rglob('*.npz')) and not (tmp_path / 'out' / 'atari_probe.ipynb').exists()


def run_cells(study, **parameters):
    "Run the cells of a study in this process as a kernel does, with papermill's cell after that of the parameters"
    code = [c for c in nbformat.read(study_path(study), 4).cells if c.cell_type == 'code']
    injected = '# Parameters\n' + '\n'.join(f'{k} = {v!r}' for k, v in parameters.items())
    defaults = [c.source for c in code if 'parameters' in c.metadata.get('tags', [])]
    namespace = dict(In=[''], __name__='__main__')
    for source in [*defaults, injected, *(c.source for c in code if c.source not in defaults)]:
        namespace['In'].append(source)
        exec(source, namespace)


@pytest.mark.parametrize(
    'study, parameters, message',
    [
        ('atari_probe', dict(methods='majority,st_dmi'), "did you mean 'st_dim'"),
        ('atari_probe', dict(probe_frames='0'), 'got 0'),
        ('atari_probe', dict(protocol='papr'), "did you mean 'paper'"),
        ('atari_probe', dict(version='fixd'), "did you mean 'fixed'"),
        ('atari_probe', dict(methods='majority,nowhere:Encoder'), "'nowhere:Encoder' cannot be imported"),
        ('atari_probe', dict(norm='standardise'), "did you mean 'standardize'"),
        ('atari_tables', dict(games='pong', agents='shipped'), "no agent of pong in 'shipped'"),
        ('popgym_tasks', dict(tasks='RepeatFrist-easy'), "did you mean 'RepeatFirst-easy'"),
        ('popgym_tasks', dict(episodes='1'), 'at least 2 episodes, got episodes=1'),
    ],
)
def test_a_study_names_invalid_parameters(study, parameters, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    all_parameters = SMALL[f'studies/{study}'] | parameters | dict(out='out')
    with pytest.raises(ValueError, match=re.escape(message)):
        run_cells(study, **all_parameters)
    written = {p.relative_to(tmp_path / 'out').parts[0] for p in tmp_path.rglob('*') if p.is_file()}
    # the frames of the encoder are recorded before `probe_frames` is checked
    assert written <= ({'recordings'} if 'probe_frames' in parameters else set())


def test_an_output_folder_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / 'file').write_text('in the way')
    assert main(command(tmp_path / 'file' / 'out', **PROBE)[1:]) == 2
    assert 'cannot write to the folder' in ''.join(capsys.readouterr())
    assert (tmp_path / 'file').read_text() == 'in the way'


COLUMN = """
class Column:
    def fit(self, recording): return self
    def encode(self, recording): return [e.obs['frame'][:, ::10, 140, 0] for e in recording]
"""


@pytest.mark.slow
def test_a_user_can_add_an_encoder_and_a_labelled_game(tmp_path):
    "A module and a table of labels in the working directory of the command; the 23rd game has no scores of the paper"
    (tmp_path / 'mine.py').write_text(COLUMN)
    labels = 'game,variable,address,category,kind\nkangaroo,player_x,17,agent_localization,raw\n'
    (tmp_path / 'own labels.csv').write_text(labels + 'kangaroo,player_y,16,agent_localization,raw\n')
    parameters = dict(game='kangaroo', version='own labels.csv', methods='majority,mine:Column', curve='')
    process = execute(tmp_path / 'out', 'atari_probe', tmp_path, **PROBE | parameters)
    assert process.returncode == 0, process.stdout + process.stderr
    scores = load_scores(tmp_path / 'out' / 'scores.csv')
    assert set(scores['method']) == {'majority', 'column'} and set(scores['task']) == {'kangaroo'}
    assert {'player_x', 'player_y'} <= set(scores['target']) and set(scores['source']) == {'srlviz'}
    assert not [p for p in (tmp_path / 'out').rglob('*') if 'own' in p.name.split('-')]  # no path is used as a name


def test_atari_tables_have_the_rows_of_two_games_and_agents(papermill):
    "Two games, one of them also played by the shipped agent"
    result = papermill('studies/atari_tables')
    ours = load_scores(result.out / 'scores.csv').query("source == 'srlviz'")
    f1 = ours.query("metric == 'f1'")
    assert set(f1[['data', 'method', 'norm']].itertuples(index=False, name=None)) == {
        *((d, 'majority', 'none') for d in ('random', 'ppo')),
        *((d, 'random_cnn', n) for d in ('random', 'ppo') for n in ('none', 'standardize')),
        *(('ppo', 'ppo_features', n) for n in ('none', 'standardize')),
    }
    assert set(ours.loc[ours['data'] == 'ppo', 'task']) == {SHIPPED}
    assert set(ours['task']) == {'pong', SHIPPED}  # no mean over all games from two
    assert set(f1['budget']) == {300} and set(f1['inputs']) == {'frames'}
    assert all(f'Table {n}.' in result.printed for n in (2, 3, 4, 6, 7, 8, 9, 10, 11, 12))
    assert not list(result.out.rglob('cache/*.npy'))  # unpacked frames are deleted


def test_atari_conditioning_and_ablations_show_figures_of_scores(papermill):
    "Of the score table of another study, and of scores that the study computes itself"
    for study in 'atari_conditioning', 'atari_ablations':
        result = papermill(f'studies/{study}')
        assert sum('application/vnd.plotly.v1+json' in data for data in result.shown) >= 2
    assert SHIPPED in papermill('studies/atari_conditioning').printed
    ours = load_scores(result.out / 'scores.csv').query("source == 'srlviz'")
    assert set(ours['method']) == {'static_dim', 'global_t_dim'} and set(ours['task']) == {'pong'}


def test_popgym_tasks_have_oracle_random_and_speed_scores(papermill):
    "Two tasks without training: the oracle of RepeatFirst knows the answer; a random policy guesses one suit in four."
    result = papermill('studies/popgym_tasks')
    assert 'above the best model of the paper on Battleship-easy (+' in result.printed
    assert 'RepeatFirst-easy (+0.00)' not in result.printed
    assert "2 tasks; random returns within 3 standard errors of popgym's on 2 of 2" in result.printed
    scores, paper = load_scores(result.out / 'scores.csv'), load_scores(result.out / 'paper_scores.csv')
    assert set(scores['source']) == {'srlviz'} and set(paper['source']) == {'paper'}
    fps = scores.query("metric == 'fps'").set_index(['task', 'method', 'protocol', 'data'])['value']
    batched = fps['RepeatFirst-easy', 'srlviz', 'batched', 'here']
    single = fps['RepeatFirst-easy', 'srlviz', 'single', 'here']
    popgym = fps['RepeatFirst-easy', 'popgym', 'single', 'here']
    assert batched > single > popgym
    fps = paper.query("metric == 'fps'").set_index(['task', 'method', 'protocol', 'data'])['value']
    assert fps['RepeatFirst', 'popgym', '', 'laptop'] == 155_201
    ours = scores.query("metric != 'fps'").set_index(['task', 'method', 'metric'])['value']
    oracle = ours['RepeatFirst-easy', 'oracle']
    assert oracle['return'] == pytest.approx(1) and oracle['return_se'] < 1e-9
    random_return = ours['RepeatFirst-easy', 'random', 'return']
    assert abs(random_return + 0.5) < 0.04  # 3/4 wrong, 1/4 right; one standard error is .009
    assert ours['Battleship-easy', 'oracle', 'return'] > 0.2 > 0 > ours['Battleship-easy', 'random', 'return']
    assert {'RepeatFirst-easy', 'Battleship-easy'} <= set(paper['task'])
    assert Image.open(result.out / 'tasks.png').width == 1600


def test_popgym_memories_have_recall_parameters_and_state(papermill):
    """After sixty lessons a GRU recalls the first token four steps later; a network without memory guesses.

    It guesses one of eight tokens. The parameters and the floats of the state are counted.
    """
    scores = load_scores(papermill('studies/popgym_memories').out / 'scores.csv').query("source == 'srlviz'")
    scores = scores.set_index(['method', 'target', 'metric'])['value']
    assert scores['GRU', 'delay 4', 'accuracy'] > 0.9
    assert abs(scores['MLP', 'delay 4', 'accuracy'] - 1 / 8) < 0.06  # of 512 answers: one standard error is .015
    assert scores['GRU', 'mean', 'parameters'] == 3 * 256 * (128 + 256 + 2)
    assert [scores[m, 'mean', 'state floats'] for m in ('MLP', 'GRU')] == [0, 256]
