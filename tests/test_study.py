"""The studies, through the command line: real games, small budgets, killed on the way."""

import os, re, subprocess, sys, time
from pathlib import Path

import nbformat, psutil, pytest, torch
from PIL import Image
from support.papermill_runs import SHIPPED, SMALL

from srlviz.core.scores import load_scores
from srlviz.studies.cli import main
from srlviz.studies.notebooks import study_path

PROBE = SMALL['studies/atari_probe']
DISPLAYED = 'display_data', 'execute_result'


def command(out, study='atari_probe', **parameters):
    return [str(Path(sys.executable).with_name('srlviz')), 'run', study, '--out', str(out)] + [
        w for k, v in parameters.items() for w in ('-p', k, str(v))
    ]


ALONE = dict(OMP_NUM_THREADS='1', CHROMIUM='/bin/false')  # figures as PNG are looked at elsewhere


def execute(out, study, cwd=None, **parameters):
    words = command(out, study, **parameters)
    return subprocess.run(words, capture_output=True, text=True, env=os.environ | ALONE, cwd=cwd)


def histories(folder):
    "What each checkpoint below a folder has learned, epoch by epoch"
    whole = [p for p in sorted(folder.rglob('*.pt')) if not p.name.startswith('.')]  # of the others one is written
    loaded = [torch.load(p, weights_only=True) for p in whole]
    return [at['state']['history'] for at in loaded if at.get('state', {}).get('history')]


def kill(process):
    "SIGKILL to a process and all that it started"
    for one in [*process.children(recursive=True), process]:
        one.kill()
    process.wait()


def test_a_killed_study_goes_on(papermill, tmp_path):
    """SIGKILL to all its processes while ST-DIM learns.

    The second run goes on behind the epochs that were learned, and ends with the scores that papermill's own command
    comes to without an end in between; it leaves notebook, page and table.
    """
    process = psutil.Popen(
        command(tmp_path, **PROBE),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        env=os.environ | ALONE,
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
    done = execute(tmp_path, 'atari_probe', **PROBE)
    assert done.returncode == 0, done.stdout + done.stderr
    (history,) = histories(tmp_path)
    assert len(history) == PROBE['epochs']
    assert history[: len(learned)] == learned  # its seconds too: no epoch was learned again
    whole = papermill('studies/atari_probe')
    assert load_scores(tmp_path / 'scores.csv').equals(load_scores(whole.out / 'scores.csv'))
    leaves_notebook_page_and_scores(tmp_path, done.stdout)


def leaves_notebook_page_and_scores(out, log):
    assert 'st_dim' in log  # the table is printed
    scores, page = load_scores(out / 'scores.csv'), (out / 'atari_probe.html').read_text()
    ours = set(scores.query("source == 'srlviz'")[['method', 'norm']].itertuples(index=False, name=None))
    assert ours == {('majority', 'none'), *((m, n) for m in ('random_cnn', 'st_dim') for n in ('none', 'standardize'))}
    assert page.count('<div class="plot"') >= 3 and 'src="http' not in page
    outputs = [o for c in nbformat.read(out / 'atari_probe.ipynb', 4).cells if c.cell_type == 'code' for o in c.outputs]
    widget = 'application/vnd.jupyter.widget-view+json'
    assert not any(widget in o.get('data', {}) for o in outputs)  # static forms only


# what is wrong is named: by the command before any kernel starts, and by the study before any work
@pytest.mark.parametrize(
    'parameters, words',
    [
        (dict(gmae='pong'), "did you mean 'game'"),
        (dict(epochs='many'), 'parameter epochs of study atari_probe must be int'),
        (dict(game='pnog'), "did you mean 'pong'"),
    ],
)
def test_bad_parameters_are_told_by_the_command(parameters, words, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv('CHROMIUM', ALONE['CHROMIUM'])
    status = main(command(tmp_path / 'out', **PROBE | parameters)[1:])
    assert status in (1, 2) and words in ''.join(capsys.readouterr())
    assert not list(tmp_path.rglob('*.npz')) and not (tmp_path / 'out' / 'atari_probe.ipynb').exists()


def run_cells(study, **parameters):
    "The cells of a study in this process, as a kernel runs them, with papermill's cell behind the parameters"
    code = [c for c in nbformat.read(study_path(study), 4).cells if c.cell_type == 'code']
    given = '# Parameters\n' + '\n'.join(f'{k} = {v!r}' for k, v in parameters.items())
    first = [c.source for c in code if 'parameters' in c.metadata.get('tags', [])]
    space = dict(In=[''], __name__='__main__')
    for source in [*first, given, *(c.source for c in code if c.source not in first)]:
        space['In'].append(source)
        exec(source, space)


@pytest.mark.parametrize(
    'study, parameters, words',
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
def test_a_study_names_bad_parameters(study, parameters, words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    small = SMALL[f'studies/{study}'] | parameters
    with pytest.raises(ValueError, match=re.escape(words)):
        run_cells(study, **small | dict(out='out'))
    made = {p.relative_to(tmp_path / 'out').parts[0] for p in tmp_path.rglob('*') if p.is_file()}
    assert made <= ({'recordings'} if 'probe_frames' in parameters else set())  # the encoder's frames come first


def test_an_output_folder_that_cannot_be_written(tmp_path, capsys):
    (tmp_path / 'file').write_text('in the way')
    assert main(command(tmp_path / 'file' / 'out', **PROBE)[1:]) == 2
    assert 'cannot write to the folder' in ''.join(capsys.readouterr())
    assert (tmp_path / 'file').read_text() == 'in the way'


COLUMN = """
class Column:
    def fit(self, recording): return self
    def encode(self, recording): return [e.obs['frame'][:, ::10, 140, 0] for e in recording]
"""


def test_a_strangers_encoder_on_a_game_of_ones_own(tmp_path):
    "A module and a table of labels in the folder that the command is given in; the 23rd game has no paper beside it"
    (tmp_path / 'mine.py').write_text(COLUMN)
    labels = 'game,variable,address,category,kind\nkangaroo,player_x,17,agent_localization,raw\n'
    (tmp_path / 'own labels.csv').write_text(labels + 'kangaroo,player_y,16,agent_localization,raw\n')
    asked = dict(game='kangaroo', version='own labels.csv', methods='majority,mine:Column', curve='')
    done = execute(tmp_path / 'out', 'atari_probe', tmp_path, **PROBE | asked)
    assert done.returncode == 0, done.stdout + done.stderr
    scores = load_scores(tmp_path / 'out' / 'scores.csv')
    assert set(scores['method']) == {'majority', 'column'} and set(scores['task']) == {'kangaroo'}
    assert {'player_x', 'player_y'} <= set(scores['target']) and set(scores['source']) == {'srlviz'}
    assert not [p for p in (tmp_path / 'out').rglob('*') if 'own' in p.name.split('-')]  # no path is a name


def test_tables_of_the_paper(papermill):
    "Two games side by side, one of them also as the agent that comes with the package plays it"
    ran = papermill('studies/atari_tables')
    ours = load_scores(ran.out / 'scores.csv').query("source == 'srlviz'")
    f1 = ours.query("metric == 'f1'")
    assert set(f1[['data', 'method', 'norm']].itertuples(index=False, name=None)) == {
        *((d, 'majority', 'none') for d in ('random', 'ppo')),
        *((d, 'random_cnn', n) for d in ('random', 'ppo') for n in ('none', 'standardize')),
        *(('ppo', 'ppo_features', n) for n in ('none', 'standardize')),
    }
    assert set(ours.loc[ours['data'] == 'ppo', 'task']) == {SHIPPED}
    assert set(ours['task']) == {'pong', SHIPPED}  # no mean over all games of two
    assert set(f1['budget']) == {300} and set(f1['inputs']) == {'frames'}
    assert all(f'Table {n}.' in ran.printed for n in (2, 3, 4, 6, 7, 8, 9, 10, 11, 12))
    assert not list(ran.out.rglob('cache/*.npy'))  # unpacked frames are gone


def test_pages_of_a_score_table(papermill):
    "Of the table that another study left, and of what a study computes itself"
    for study in 'atari_conditioning', 'atari_ablations':
        ran = papermill(f'studies/{study}')
        assert sum('application/vnd.plotly.v1+json' in data for data in ran.shown) >= 2
    assert SHIPPED in papermill('studies/atari_conditioning').printed
    ours = load_scores(ran.out / 'scores.csv').query("source == 'srlviz'")
    assert set(ours['method']) == {'static_dim', 'global_t_dim'} and set(ours['task']) == {'pong'}


def test_tasks_of_popgym(papermill):
    "Two tasks, before anything is learned: the script of RepeatFirst knows the answer, chance meets one suit in four."
    ran = papermill('studies/popgym_tasks')
    assert 'above the best model of the paper on Battleship-easy (+' in ran.printed
    assert 'RepeatFirst-easy (+0.00)' not in ran.printed
    assert "2 tasks; random returns within 3 standard errors of popgym's on 2 of 2" in ran.printed
    scores, printed = load_scores(ran.out / 'scores.csv'), load_scores(ran.out / 'paper_scores.csv')
    assert set(scores['source']) == {'srlviz'} and set(printed['source']) == {'paper'}
    fps = scores.query("metric == 'fps'").set_index(['task', 'method', 'protocol', 'data'])['value']
    speed = lambda method, protocol: fps['RepeatFirst-easy', method, protocol, 'here']
    assert speed('srlviz', 'batched') > speed('srlviz', 'single') > speed('popgym', 'single')
    fps = printed.query("metric == 'fps'").set_index(['task', 'method', 'protocol', 'data'])['value']
    assert fps['RepeatFirst', 'popgym', '', 'laptop'] == 155_201
    ours = scores.query("metric != 'fps'").set_index(['task', 'method', 'metric'])['value']
    script = ours['RepeatFirst-easy', 'oracle']
    assert script['return'] == pytest.approx(1) and script['return_se'] < 1e-9
    by_chance = ours['RepeatFirst-easy', 'random', 'return']
    assert abs(by_chance + 0.5) < 0.04  # 3/4 wrong, 1/4 right; one standard error is .009
    assert ours['Battleship-easy', 'oracle', 'return'] > 0.2 > 0 > ours['Battleship-easy', 'random', 'return']
    assert {'RepeatFirst-easy', 'Battleship-easy'} <= set(printed['task'])
    assert Image.open(ran.out / 'tasks.png').width == 1600


def test_memories_of_popgym(papermill):
    """After sixty lessons a GRU knows the first token four steps later; a network without memory guesses one of eight.

    Parameters and state are counted.
    """
    scores = load_scores(papermill('studies/popgym_memories').out / 'scores.csv').query("source == 'srlviz'")
    scores = scores.set_index(['method', 'target', 'metric'])['value']
    assert scores['GRU', 'delay 4', 'accuracy'] > 0.9
    assert abs(scores['MLP', 'delay 4', 'accuracy'] - 1 / 8) < 0.06  # of 512 answers: one standard error is .015
    assert scores['GRU', 'mean', 'parameters'] == 3 * 256 * (128 + 256 + 2)
    assert [scores[m, 'mean', 'state floats'] for m in ('MLP', 'GRU')] == [0, 256]
