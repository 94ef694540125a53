"""RunMonitor in a real JupyterLab: another process fills a folder of runs, and the page shows it."""

import os, subprocess, sys

import pytest
from support.lab import notebook_of, open_page, wait_for

# a sweep of three trials, by hand: the first is done, the second goes on when it is told to, and the third fails
FILL = """
import json, os, sys, time
from pathlib import Path
from srlviz.core.jobs.curves import curve_to, log_curve
from srlviz.core.jobs.runs import this_host

folder = Path(sys.argv[1])
keys = [f'{i:010x}-{"c" * 10}' for i in range(3)]

def begin(i):
    place = folder / 'trials' / keys[i]
    place.mkdir(parents=True)
    who = dict(host=this_host(), pid=os.getpid(), sweep='s', started=time.time())
    (place / 'claim.json').write_text(json.dumps(who))
    return place

def end(i, status, **more):
    place, now = folder / 'trials' / keys[i], time.time()
    about = dict(layout=1, key=keys[i], parameters={}, status=status, error='', traceback='')
    (place / '.new').write_text(json.dumps(about | dict(started=now - 9, ended=now, seconds=9.0) | more))
    os.replace(place / '.new', place / 'result.json')
    (place / 'claim.json').unlink()

(folder / 'grids').mkdir(parents=True)
trials = [[k[:10], dict(lr=10.0 ** -i)] for i, k in enumerate(keys)]
(folder / 'grids/a.json').write_text(json.dumps(dict(grid={}, asked=1.0, trials=trials)))
(folder / 'sweep.json').write_text(json.dumps(dict(layout=1, study='demo', trial='m:f')))
with curve_to(begin(0) / 'curve.csv'):
    for step in range(10): log_curve(step + 1, 10, loss=1 / (step + 1))
end(0, 'done')
with curve_to(begin(1) / 'curve.csv'):
    log_curve(5, 10, loss=3)
    print('half', flush=True)
    input()
    log_curve(10, 10, loss=2)
end(1, 'done')
begin(2)
end(2, 'failed', error='ValueError: no <b>', traceback='line 7 of <i>nothing')
"""


@pytest.mark.browser
def test_the_page_shows_what_another_process_does(browser, open_lab, tmp_path):
    folder = tmp_path / 'swept'
    cell = f'from srlviz.widgets.runs import RunMonitor\nm = RunMonitor({str(folder)!r}, every=0.5)\nm'
    fill = [sys.executable, '-c', FILL, str(folder)]
    sweep = subprocess.Popen(fill, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    assert sweep.stdout.readline() == 'half\n'
    lab = open_lab(notebook_of(cell))
    try:
        page = open_page(browser, lab)
        monitor = page.locator('.srlviz-runs')
        row = lambda status: monitor.locator('.srlviz-item', has_text=status)
        wait_for(
            lambda: row('running').count() == 1 and '50' in row('running').inner_text(), message='half of one is seen'
        )
        assert (row('done').count(), row('waiting').count()) == (1, 1)
        sweep.communicate('on\n', timeout=60)
        wait_for(lambda: row('failed').count() == 1 and row('done').count() == 2, message='all have ended')
        wait_for(lambda: 'all trials have ended' in monitor.inner_text(), message='the words say so')
        assert lab.evaluate('[m.state, m.watching, [len(t.x) for t in m.views.plot.figure.data]]') == [
            'done',
            False,
            [10, 2],
        ]
        row('failed').click()
        pressed = monitor.locator('pre', has_text='line 7 of <i>nothing')
        wait_for(lambda: pressed.count() == 1, message='a press tells the traceback')
        assert 'ValueError: no <b>' in monitor.inner_text() and page.outside == [] and page.errors == []
    finally:
        sweep.kill()
