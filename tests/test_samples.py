"""Every file that ships opens as what it is."""

import pytest
import srlviz
from srlviz.core.files import sample_path

FOLDER = sample_path('.')
OPENS = {
    'agent_edits.csv': 'TableBrowser',
    'agent_verdicts.csv': 'TableBrowser',
    'atari_agreement.csv': 'TableBrowser',
    'atari_annotations.csv': 'TableBrowser',
    'atari_probe_size.csv': 'AtariDashboard',
    'atari_scores.csv': 'AtariDashboard',
    'atari_twins.csv': 'TableBrowser',
    'cross_evaluation': 'CrossMatrix',
    'cross_evaluation/results.json': 'CrossMatrix',
    'cross_evaluation/scores.csv': 'CrossMatrix',
    'landing_benchmark.csv': 'TargetTable',
    'landing_paper.csv': 'TableBrowser',
    'landing_sensors.csv': 'TableBrowser',
    'landing_training.csv': 'TableBrowser',
    'landings': 'FleetBrowser',
    'landings/meta/columns.csv': 'TableBrowser',
    'landings/meta/factors.csv': 'TableBrowser',
    'metric_stress.csv': 'TableBrowser',
    'paper_names.csv': 'TableBrowser',
    'paper_scores.csv': 'TableBrowser',
    'pomdp_tasks.csv': 'TableBrowser',
    'pong_sample.npz': 'FrameBrowser',
    'popgym_mmer.csv': 'MMERDashboard',
    'qedr.csv': 'ScoreBoard',
    'qedr/atari_pong_st_dim.npz': 'QEDRMatrix',
}
OF_MANY = ('agents', 'encoders', 'qedr')  # folders of files that open one by one
ABOUT = {'atari_scores.json', 'landing_benchmark.json', 'popgym_mmer.json'}  # how the table of the same name was made
WEIGHTS = {'freeway_agent.pt'}  # of Stable-Baselines3, for PPOFeatures
PICTURES = {'gallery'}  # of the start page


@pytest.mark.filterwarnings('error')
@pytest.mark.parametrize('name', OPENS)
def test_a_shipped_file_opens_as_what_it_is(name, tmp_path):
    opened = srlviz.explore(FOLDER / name, interactive=False)
    assert type(opened).__name__ == OPENS[name]
    assert opened.figure().data
    if OPENS[name] == 'TableBrowser':
        assert opened.to_html(tmp_path / 'page.html').stat().st_size


def test_no_shipped_file_is_forgotten():
    names = {path.name for path in FOLDER.iterdir() if not path.name.startswith('.')}
    assert names == {name for name in OPENS if '/' not in name} | {*OF_MANY} | ABOUT | WEIGHTS | PICTURES


def test_scores_of_several_studies_name_them():
    "They are listed; one of them opens in its own board"
    table = srlviz.explore(FOLDER / 'paper_scores.csv', interactive=True)
    assert "study='popgym'" in table.status.value.unescape()
    assert type(srlviz.explore(FOLDER / 'paper_scores.csv', study='landing')).__name__ == 'TargetTable'
    with pytest.raises(ValueError, match='atarri.*atari'):
        srlviz.explore(FOLDER / 'paper_scores.csv', study='atarri')


def test_rows_in_time_stay_a_recording(tmp_path):
    "Numbers, a time stamp first, or named columns are steps; a list of words is a table"
    rows = dict(when=['2024-01-01 10:00:00', '2024-01-01 10:00:01', '2024-01-01 10:00:02'], x=[1, 2, 4], y=[3, 1, 2])
    log = tmp_path / 'log.csv'
    for first in ('when', ''):
        names = [first, 'x', 'y'] if first else ['x', 'y']
        log.write_text('\n'.join([','.join(names), *[','.join(str(rows[n][k]) for n in names) for k in range(3)]]))
        assert type(srlviz.explore(log)).__name__ == 'SensorBrowser'
    log.write_text('run,x,y\na,1,3\na,2,1\nb,4,2\n')
    listed = srlviz.explore(log, interactive=True)
    assert type(listed).__name__ == 'TableBrowser' and 'episode=' in listed.status.value
    assert type(srlviz.explore(log, episode='run')).__name__ == 'SensorBrowser'
