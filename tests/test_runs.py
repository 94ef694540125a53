"""RunMonitor in JupyterLab: another process writes runs to a folder, and the page shows them."""

import os, subprocess, sys

import pytest
from support.lab import notebook_of, open_page, wait_for

# writes a sweep of three trials: the first is done, the second waits for a line on stdin, and the third fails
WRITE_SWEEP = """
import json, os, sys, time
from pathlib import Path
from srlviz.core.jobs.learning_curves import curve_to, log_curve
from srlviz.core.jobs.runs import this_host

folder = Path(sys.argv[1])
keys = [f'{i:010x}-{"c" * 10}' for i in range(3)]

def start(i):
    place = folder / 'trials' / keys[i]
    place.mkdir(parents=True)
    claim = dict(host=this_host(), pid=os.getpid(), sweep='s', started=time.time())
    (place / 'claim.json').write_text(json.dumps(claim))
    return place

def end(i, status, **error):
    place, now = folder / 'trials' / keys[i], time.time()
    result = dict(layout=1, key=keys[i], parameters={}, status=status, error='', traceback='')
    (place / '.new').write_text(json.dumps(result | dict(started=now - 9, ended=now, seconds=9.0) | error))
    os.replace(place / '.new', place / 'result.json')
    (place / 'claim.json').unlink()

(folder / 'grids').mkdir(parents=True)
trials = [[k[:10], dict(lr=10.0 ** -i)] for i, k in enumerate(keys)]
(folder / 'grids/a.json').write_text(json.dumps(dict(grid={}, asked=1.0, trials=trials)))
(folder / 'sweep.json').write_text(json.dumps(dict(layout=1, study='demo', trial='m:f')))
with curve_to(start(0) / 'curve.csv'):
    for step in range(10): log_curve(step + 1, 10, loss=1 / (step + 1))
end(0, 'done')
with curve_to(start(1) / 'curve.csv'):
    log_curve(5, 10, loss=3)
    print('half', flush=True)
    input()
    log_curve(10, 10, loss=2)
end(1, 'done')
start(2)
end(2, 'failed', error='ValueError: no <b>', traceback='line 7 of <i>nothing')
"""


@pytest.mark.browser
def test_the_page_follows_a_sweep_of_another_process(browser, open_lab, tmp_path):
    folder = tmp_path / 'swept'
    cell = f'from srlviz.widgets.run_monitor import RunMonitor\nm = RunMonitor({str(folder)!r}, every=0.5)\nm'
    command = [sys.executable, '-c', WRITE_SWEEP, str(folder)]
    sweep = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert sweep.stdout.readline() == 'half\n'
    lab = open_lab(notebook_of(cell))
    try:
        page = open_page(browser, lab)
        monitor = page.locator('.srlviz-runs')

        def row(status):
            return monitor.locator('.srlviz-item', has_text=status)

        wait_for(
            lambda: row('running').count() == 1 and '50' in row('running').inner_text(),
            message='a trial is shown half done',
        )
        assert (row('done').count(), row('waiting').count()) == (1, 1)
        sweep.communicate('on\n', timeout=60)
        wait_for(lambda: row('failed').count() == 1 and row('done').count() == 2, message='all have ended')
        wait_for(
            lambda: 'all trials have ended' in monitor.inner_text(), message='the summary says that all have ended'
        )
        state = '[m.state, m.watching, [len(t.x) for t in m.views.plot.figure.data]]'
        wait_for(lambda: lab.evaluate(state) == ['done', False, [10, 2]], message='it no longer watches the folder')
        row('failed').click()
        traceback = monitor.locator('pre', has_text='line 7 of <i>nothing')
        wait_for(lambda: traceback.count() == 1, message='a click shows the traceback')
        assert 'ValueError: no <b>' in monitor.inner_text() and page.outside == [] and page.errors == []
    finally:
        sweep.kill()
