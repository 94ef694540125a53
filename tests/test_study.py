"""The study of Atari probes, through the command line: real games, small budgets, killed on the way."""
import os, signal, subprocess, sys, time
from pathlib import Path

import nbformat, pytest, torch

from srlviz.core.scores import load_scores

SMOKE = dict(game='breakout', methods='majority,random_cnn,st_dim', encoder_frames='300', probe_frames='1200', epochs='6', probe_epochs='3')


def command(out, **parameters):
    return [str(Path(sys.executable).with_name('srlviz')), 'run', 'atari_probe', '--out', str(out)] + [w for k, v in (SMOKE | parameters).items() for w in ('-p', k, v)]


def run(out, **parameters): return subprocess.run(command(out, **parameters), capture_output=True, text=True, env=os.environ | {'OMP_NUM_THREADS': '1'})


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    out = tmp_path_factory.mktemp('study')
    done = run(out)
    assert done.returncode == 0, done.stdout + done.stderr
    return out, done


def test_a_study_leaves_notebook_page_and_scores(whole):
    out, done = whole
    assert 'st_dim' in done.stdout                                     # the table is printed
    scores, page = load_scores(out/'scores.csv'), (out/'atari_probe.html').read_text()
    assert {'majority', 'random_cnn', 'random_cnn · standardized', 'st_dim', 'st_dim · standardized'} <= set(scores.query("source == 'srlviz'")['method'])
    assert page.count('Plotly.newPlot(') >= 3 and 'src="http' not in page
    outputs = [o for c in nbformat.read(out/'atari_probe.ipynb', 4).cells if c.cell_type == 'code' for o in c.outputs]
    assert not any('application/vnd.jupyter.widget-view+json' in o.get('data', {}) for o in outputs)         # static forms only


def history(checkpoint): return torch.load(checkpoint, weights_only=True)['state']['history']


def test_a_killed_study_goes_on(whole, tmp_path):
    "SIGKILL to all its processes while ST-DIM learns: the second run goes on behind the epochs that were learned, and ends with the same scores."
    process = subprocess.Popen(command(tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT, start_new_session=True, env=os.environ | {'OMP_NUM_THREADS': '1'})
    while not (made := list(tmp_path.glob('encoders/st_dim*.pt'))): assert process.poll() is None; time.sleep(.02)
    os.killpg(process.pid, signal.SIGKILL); process.wait()
    for kernel in Path('/proc').glob('[0-9]*/cwd'):
        try:
            if os.readlink(kernel) == str(tmp_path): os.kill(int(kernel.parent.name), signal.SIGKILL)
        except OSError: pass
    assert not (tmp_path/'atari_probe.ipynb').exists()
    learned = history(made[0])
    assert 1 <= len(learned) < 6
    assert run(tmp_path).returncode == 0
    assert history(made[0])[:len(learned)] == learned and len(history(made[0])) == 6       # its seconds too: no epoch was learned again
    assert load_scores(tmp_path/'scores.csv').equals(load_scores(whole[0]/'scores.csv'))


@pytest.mark.parametrize('parameters, words', [
    (dict(gmae='pong'), "did you mean 'game'"),
    (dict(epochs='many'), 'parameter epochs of study atari_probe must be int'),
    (dict(game='pnog'), "did you mean 'pong'"),
    (dict(methods='majority,st_dmi'), "did you mean 'st_dim'"),
    (dict(probe_frames='0'), 'got 0'),
    (dict(protocol='papr'), "did you mean 'paper'"),
    (dict(norm='standardise'), "did you mean 'standardize'"),
])
def test_bad_parameters_are_named(parameters, words, tmp_path):
    done = run(tmp_path/'out', **parameters)
    assert done.returncode in (1, 2) and words in done.stdout + done.stderr
    assert not list(tmp_path.rglob('*.npz')) and not (tmp_path/'out'/'atari_probe.ipynb').exists()


def test_an_output_folder_that_cannot_be_written(tmp_path):
    (tmp_path/'file').write_text('in the way')
    done = run(tmp_path/'file'/'out')
    assert done.returncode == 2 and 'cannot write to the folder' in done.stdout + done.stderr
    assert (tmp_path/'file').read_text() == 'in the way'
