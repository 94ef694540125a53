"""Every study and every tutorial runs by papermill's own command, in a folder that is not the repository.

The time of each is printed at the end of the tests (conftest.py); small parameters are in support/papermill_runs.py.
"""

import json, tempfile
from pathlib import Path

import pytest
from nbformat.v4 import new_code_cell, new_output
from support.papermill_runs import ROOT, SMALL, PapermillRun, can_draw, notebooks, run_once, table

from srlviz.core.names import catalog_names
from srlviz.core.scores import load_scores
from srlviz.studies.run import study_parameters

PLOTLY, WIDGET, PNG = 'application/vnd.plotly.v1+json', 'application/vnd.jupyter.widget-view+json', 'image/png'
# what a study leaves beside its notebook
TABLES = {'studies/atari_conditioning': [], 'studies/landing_dataset': ['flights.csv', 'table1.csv', 'table2.csv']}
OF_STUDY = ['scores.csv']


def faults(cells, draws: bool, places=()):
    "Faults of an executed notebook; `draws`: PNGs can be made; `places`: paths that it must not name"
    outputs = [o for c in cells for o in c.outputs]
    shown = [o.data for o in outputs if 'data' in o]
    words = json.dumps([{k: v for k, v in (o.get('data') or o).items() if k != PNG} for o in outputs])
    if lacks := [c.source[:60] for c in cells if c.execution_count is None]:
        yield f'did not run: {lacks}'
    if any(o.output_type == 'error' for o in outputs) or 'Traceback (most recent call last)' in words:
        yield 'a traceback'
    if any(WIDGET in data for data in shown):
        yield 'a widget, which does not work without a kernel'
    figures = [data for data in shown if PLOTLY in data]
    if not figures and not any(PNG in data for data in shown):
        yield 'no figure'
    if draws and not all(PNG in data for data in figures):
        yield 'a figure without PNG'
    yield from (f'names {place}' for place in places if place in words)


def machine(*more) -> set[str]:
    "Places of this machine"
    return {str(p) for p in (ROOT, Path.home(), tempfile.gettempdir(), *more)} - {'/'}


@pytest.mark.parametrize('name', notebooks())
def test_by_papermill(name, papermill):
    ran = papermill(name)
    assert list(faults(ran.cells, can_draw(), machine(ran.folder))) == []
    assert not any(part['state'] for part in ran.metadata.get('widgets', {}).values())
    left = TABLES.get(name, OF_STUDY) if name.startswith('studies/') else []
    assert set(left) <= {p.name for p in ran.out.iterdir()}
    if 'scores.csv' in left:
        assert set(load_scores(ran.out / 'scores.csv')['source']) == {'srlviz'}  # a paper's are in paper_scores.csv
    if not name.startswith('studies/'):
        assert [p.name for p in ran.out.iterdir()] == ['done.ipynb']  # tutorials and lessons leave nothing


@pytest.mark.slow
@pytest.mark.parametrize('environment', catalog_names('envs'))
def test_the_third_tutorial_takes_any_task(environment, tmp_path, monkeypatch):
    tasks = dict.fromkeys(('card_task', 'board_task'), f'{environment}-easy')
    name = 'tutorials/03_pomdps'
    monkeypatch.setitem(SMALL, name, SMALL[name] | tasks)
    run_once(name, tmp_path)


def test_each_has_small_parameters():
    "Every study, tutorial and lesson has a line in SMALL, with names of its parameters only"
    missing = ', '.join(sorted(set(notebooks()) - SMALL.keys()))
    assert not missing, f'{missing}: add its parameters to SMALL of tests/support/papermill_runs.py'
    removed = ', '.join(sorted(SMALL.keys() - set(notebooks())))
    assert not removed, f'SMALL of tests/support/papermill_runs.py names notebooks that do not exist: {removed}'
    for name, parameters in SMALL.items():
        assert parameters.keys() <= study_parameters(ROOT / f'nbs/{name}.ipynb').keys(), name


# ---- each fault is found

FIGURE = new_output('display_data', {PLOTLY: {}, PNG: 'aGk=', 'text/plain': 'Figure'})


def cell(*outputs, source='1', n=1):
    return new_code_cell(source, outputs=list(outputs), execution_count=n)


FAULTS = {
    'did not run': [cell(FIGURE), cell(n=None)],
    'a traceback': [cell(FIGURE, new_output('error', ename='E', evalue='v', traceback=[]))],
    'a widget': [cell(FIGURE, new_output('display_data', {WIDGET: {}, 'text/plain': 'Box()'}))],
    'no figure': [cell(new_output('stream', text='hello'))],
    'a figure without PNG': [cell(FIGURE), cell(new_output('display_data', {PLOTLY: {}}))],
    'names /here': [cell(FIGURE, new_output('stream', text='saved /here/scores.csv'))],
}


def test_a_sound_notebook_has_no_faults():
    assert list(faults([cell(FIGURE), cell()], True, ['/here'])) == []


@pytest.mark.parametrize('fault', FAULTS)
def test_a_planted_fault_is_found(fault):
    (found,) = faults(FAULTS[fault], True, ['/here'])
    assert found.startswith(fault)


def test_a_failed_notebook_is_reported(tmp_path, monkeypatch):
    "With papermill's own output; it is not run again for the next test that needs it"
    log, name = "there is no metric 'f2'", 'studies/atari_conditioning'
    runs = iter([PapermillRun(name, str(tmp_path), log, code=1, seconds=1.0, cpu_seconds=1.0, memory=1)])
    monkeypatch.setattr('support.papermill_runs.papermill', lambda *_: next(runs))
    for _ in range(2):
        with pytest.raises(AssertionError, match=f'papermill ended {name} with 1:\n{log}'):
            run_once(name, tmp_path)
    with pytest.raises(AssertionError, match='studies/new.*SMALL.*papermill_runs.py'):
        run_once('studies/new', tmp_path)


def test_the_table_has_the_longest_first():
    usage = dict(cpu_seconds=1.5, memory=2e9)
    lines = table([dict(name='short', seconds=1.0) | usage, dict(name='long', seconds=20.25) | usage]).splitlines()
    assert [line.split()[0] for line in lines] == ['notebook', 'long', 'short', 'all']
    assert lines[1].split()[1:] == ['20.2', '1.5', '2,000'] and lines[-1].split()[1:] == ['21.2', '3.0', '2,000']
