"""The studies, through the command line: real games, small budgets, killed on the way."""

import json, os, signal, subprocess, sys, time
from pathlib import Path

import nbformat, pytest, torch
from PIL import Image

from srlviz.core.scores import load_scores
from srlviz.encoders.ppo_features import read_agent

SMOKE = dict(
    game='breakout',
    methods='majority,random_cnn,st_dim',
    encoder_frames='300',
    probe_frames='1200',
    epochs='6',
    probe_epochs='3',
    curve='200,600',
)
SHIPPED = read_agent()[0]['game']  # of the agent that comes with the package


def command(out, study='atari_probe', **parameters):
    return [str(Path(sys.executable).with_name('srlviz')), 'run', study, '--out', str(out)] + [
        w for k, v in parameters.items() for w in ('-p', k, v)
    ]


def execute(out, study, **parameters):
    return subprocess.run(
        command(out, study, **parameters), capture_output=True, text=True, env=os.environ | {'OMP_NUM_THREADS': '1'}
    )


def run(out, **parameters):
    return execute(out, 'atari_probe', **SMOKE | parameters)


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp('study')
    done = run(out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done


def test_a_study_leaves_notebook_page_and_scores(whole):
    out, done = whole
    assert 'st_dim' in done.stdout  # the table is printed
    scores, page = load_scores(out / 'scores.csv'), (out / 'atari_probe.html').read_text()
    ours = set(scores.query("source == 'srlviz'")[['method', 'norm']].itertuples(index=False, name=None))
    assert ours == {('majority', 'none'), *((m, n) for m in ('random_cnn', 'st_dim') for n in ('none', 'standardize'))}
    assert page.count('<div class="plot"') >= 3 and 'src="http' not in page
    outputs = [o for c in nbformat.read(out / 'atari_probe.ipynb', 4).cells if c.cell_type == 'code' for o in c.outputs]
    assert not any(
        'application/vnd.jupyter.widget-view+json' in o.get('data', {}) for o in outputs
    )  # static forms only


def history(checkpoint):
    return torch.load(checkpoint, weights_only=True)['state']['history']


def test_a_killed_study_goes_on(whole, tmp_path):
    """SIGKILL to all its processes while ST-DIM learns.

    The second run goes on behind the epochs that were learned, and ends with the same scores.
    """
    process = subprocess.Popen(
        command(tmp_path, **SMOKE),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=os.environ | {'OMP_NUM_THREADS': '1'},
    )
    while not (made := list(tmp_path.glob('encoders/st_dim*.pt'))):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for kernel in Path('/proc').glob('[0-9]*/cwd'):
        try:
            if os.readlink(kernel) == str(tmp_path):
                os.kill(int(kernel.parent.name), signal.SIGKILL)
        except OSError:
            pass
    assert not (tmp_path / 'atari_probe.ipynb').exists()
    learned = history(made[0])
    assert 1 <= len(learned) < 6
    assert run(tmp_path).returncode == 0
    assert (
        history(made[0])[: len(learned)] == learned and len(history(made[0])) == 6
    )  # its seconds too: no epoch was learned again
    assert load_scores(tmp_path / 'scores.csv').equals(load_scores(whole[0] / 'scores.csv'))


@pytest.mark.parametrize(
    'parameters, words',
    [
        (dict(gmae='pong'), "did you mean 'game'"),
        (dict(epochs='many'), 'parameter epochs of study atari_probe must be int'),
        (dict(game='pnog'), "did you mean 'pong'"),
        (dict(methods='majority,st_dmi'), "did you mean 'st_dim'"),
        (dict(probe_frames='0'), 'got 0'),
        (dict(protocol='papr'), "did you mean 'paper'"),
        (dict(norm='standardise'), "did you mean 'standardize'"),
    ],
)
def test_bad_parameters_are_named(parameters, words, tmp_path):
    done = run(tmp_path / 'out', **parameters)
    assert done.returncode in (1, 2) and words in done.stdout + done.stderr
    assert not list(tmp_path.rglob('*.npz')) and not (tmp_path / 'out' / 'atari_probe.ipynb').exists()


def test_an_output_folder_that_cannot_be_written(tmp_path):
    (tmp_path / 'file').write_text('in the way')
    done = run(tmp_path / 'file' / 'out')
    assert done.returncode == 2 and 'cannot write to the folder' in done.stdout + done.stderr
    assert (tmp_path / 'file').read_text() == 'in the way'


@pytest.fixture(scope='module')
def grid(tmp_path_factory):
    "Two games side by side, one of them also as the agent that comes with the package plays it"
    out = tmp_path_factory.mktemp('grid')
    done = execute(
        out,
        'atari_tables',
        games=f'pong,{SHIPPED}',
        methods='majority,random_cnn',
        encoder_frames='300',
        probe_frames='900',
        epochs='1',
        probe_epochs='2',
        agents='shipped',
        n_jobs='2',
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_tables_of_the_paper(grid):
    scores, page = load_scores(grid / 'scores.csv'), (grid / 'atari_tables.html').read_text()
    ours = scores.query("source == 'srlviz'")
    f1 = ours.query("metric == 'f1'")
    assert set(f1[['data', 'method', 'norm']].itertuples(index=False, name=None)) == {
        *((d, 'majority', 'none') for d in ('random', 'ppo')),
        *((d, 'random_cnn', n) for d in ('random', 'ppo') for n in ('none', 'standardize')),
        *(('ppo', 'ppo_features', n) for n in ('none', 'standardize')),
    }
    assert set(ours.loc[ours['data'] == 'ppo', 'task']) == {SHIPPED}
    assert set(ours['task']) == {'pong', SHIPPED}  # no mean over all games of two
    assert set(f1['budget']) == {300} and set(f1['inputs']) == {'frames'}
    assert all(f'Table {n}' in page for n in (1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12))
    about = json.loads((grid / f'{SHIPPED}-ppo' / 'about.json').read_text())
    assert (
        set(about['kept']) | set(about['pruned']) == set(about['entropy'])
        and about['methods']['ppo_features']['cpu_seconds'] > 0
        and about['packages']['ale-py']
    )
    assert (
        not list(grid.glob('recordings/*/cache')) and len(list(grid.glob('recordings/*'))) == 6
    )  # unpacked frames are gone


@pytest.mark.parametrize('study', ['atari_conditioning', 'atari_ablations'])
def test_pages_of_a_score_table(study, grid, tmp_path):
    done = execute(tmp_path, study, scores=str(grid / 'scores.csv'), games=f'pong,{SHIPPED}')
    assert done.returncode == 0, done.stdout + done.stderr
    assert SHIPPED in done.stdout and (tmp_path / f'{study}.html').read_text().count('<div class="plot"') >= 2


def test_an_agent_that_is_not_there_is_named(tmp_path):
    done = execute(tmp_path / 'out', 'atari_tables', games='pong', agents='shipped')
    assert (
        done.returncode == 1
        and "no agent of pong in 'shipped'" in done.stdout + done.stderr
        and not list(tmp_path.rglob('*.npz'))
    )


def test_tasks_of_popgym(tmp_path):
    "Two tasks, before anything is learned: the script of RepeatFirst knows the answer, chance meets one suit in four."
    done = execute(
        tmp_path, 'popgym_tasks', tasks='RepeatFirst-easy,Battleship-easy', episodes='200', oracle_episodes='3'
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = done.stdout + (tmp_path / 'popgym_tasks.html').read_text()
    assert 'above the best model of the paper on Battleship-easy (+' in told and 'RepeatFirst-easy (+0.00)' not in told
    assert '2 tasks; random returns within 3 standard errors of popgym\'s on 2 of 2' in done.stdout
    scores = load_scores(tmp_path / 'scores.csv')
    fps = scores.query("metric == 'fps'").set_index(['task', 'source', 'method', 'protocol', 'data'])['value']
    speed = lambda method, protocol: fps['RepeatFirst-easy', 'srlviz', method, protocol, 'here']
    assert speed('srlviz', 'batched') > speed('srlviz', 'single') > speed('popgym', 'single')
    assert fps['RepeatFirst', 'paper', 'popgym', '', 'laptop'] == 155_201
    ours = scores.query("source == 'srlviz' and metric != 'fps'").set_index(['task', 'method', 'metric'])['value']
    assert (
        ours['RepeatFirst-easy', 'oracle', 'return'] == pytest.approx(1)
        and ours['RepeatFirst-easy', 'oracle', 'return_se'] < 1e-9
    )
    assert (
        abs(ours['RepeatFirst-easy', 'random', 'return'] + 0.5) < 0.04
    )  # 3/4 wrong, 1/4 right; one standard error is .009
    assert ours['Battleship-easy', 'oracle', 'return'] > 0.2 > 0 > ours['Battleship-easy', 'random', 'return']
    assert {'RepeatFirst-easy', 'Battleship-easy'} <= set(scores.query("source == 'paper'")['task'])
    assert (tmp_path / 'popgym_tasks.html').read_text().count('<div class="plot"') >= 1 and Image.open(
        tmp_path / 'tasks.png'
    ).width == 1600


def test_memories_of_popgym(tmp_path):
    """After sixty lessons a GRU knows the first token four steps later; a network without memory guesses one of eight.

    Parameters and state are counted.
    """
    done = execute(
        tmp_path, 'popgym_memories', methods='MLP,GRU', tasks='first', delays='1,4', steps='60', length='16', runs='3'
    )
    assert done.returncode == 0, done.stdout + done.stderr
    scores = (
        load_scores(tmp_path / 'scores.csv')
        .query("source == 'srlviz'")
        .set_index(['method', 'target', 'metric'])['value']
    )
    assert (
        scores['GRU', 'delay 4', 'accuracy'] > 0.9 and abs(scores['MLP', 'delay 4', 'accuracy'] - 1 / 8) < 0.06
    )  # of 512 answers: one standard error is .015
    assert scores['GRU', 'mean', 'parameters'] == 3 * 256 * (128 + 256 + 2) and [
        scores[m, 'mean', 'state floats'] for m in ('MLP', 'GRU')
    ] == [0, 256]
    assert (tmp_path / 'popgym_memories.html').read_text().count('<div class="plot"') >= 1


@pytest.mark.parametrize(
    'parameters, words',
    [
        (dict(tasks='RepeatFrist-easy'), "did you mean 'RepeatFirst-easy'"),
        (dict(episodes='1'), 'at least 2 episodes, got episodes=1'),
    ],
)
def test_bad_parameters_of_popgym_are_named(parameters, words, tmp_path):
    done = execute(tmp_path, 'popgym_tasks', **parameters)
    assert done.returncode == 1 and words in done.stdout + done.stderr and not (tmp_path / 'scores.csv').exists()
