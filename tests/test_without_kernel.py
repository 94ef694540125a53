"""Widgets without a kernel: it is busy or has ended, or the notebook is not trusted or was exported as HTML."""

import json, re

import pytest
from support.lab import SHOTS, notebook_of, open_page, wait_for
from nbconvert import HTMLExporter

pytestmark = pytest.mark.browser

BROWSER = """from srlviz.core.files import sample_path
from srlviz.core.recordings import load_recording
from srlviz.widgets.frame_browser import FrameBrowser
browser = FrameBrowser(load_recording(sample_path('pong_sample.npz')))
browser"""
PICTURE = '.jp-OutputArea-child:has(img.jp-needs-light-background)'


def save_and_read(page, lab):
    "Save the notebook, and return its contents."
    page.evaluate("() => { window.jupyterapp.commands.execute('docmanager:save'); return null }")
    wait_for(lambda: page.locator('.jp-mod-current.jp-mod-dirty').count() == 0, message='the notebook is saved')
    return json.loads((lab.folder / 'notebook.ipynb').read_text())


def test_plots_are_drawn_while_a_later_cell_runs(browser, open_lab):
    lab = open_lab(
        notebook_of(BROWSER, "import pathlib, time\nwhile not pathlib.Path('drawn').exists(): time.sleep(.1)")
    )
    observed = {}

    def observe(page):
        drawn = "() => document.querySelector('.srlviz-plot')?.dataset.drawn"
        observed['drawn'] = wait_for(lambda: page.evaluate(drawn), message='the plot is drawn while the kernel is busy')
        observed['busy'] = page.locator('.jp-InputPrompt').last.inner_text()
        (lab.folder / 'drawn').touch()

    open_page(browser, lab, meanwhile=observe)
    assert int(observed['drawn']) >= 1 and '*' in observed['busy']


@pytest.mark.parametrize('trusted', [True, False])
def test_a_saved_notebook_and_its_page_show_a_picture_without_a_kernel(browser, open_lab, trusted):
    lab = open_lab(notebook_of(BROWSER, "browser.t = 7"))
    page = open_page(browser, lab)
    wait_for(lambda: page.locator(PICTURE).count() == 1, message='the picture is stored')
    assert not page.locator(PICTURE).is_visible(), 'a live widget hides its picture'
    nb = save_and_read(page, lab)
    kinds = [sorted(o['data']) for o in nb['cells'][1]['outputs']]
    assert kinds[-1] == ['image/png', 'text/plain'] and 'widgets' not in nb['metadata']
    assert len(json.dumps(nb)) < 400_000
    page.close()
    html, _ = HTMLExporter().from_filename(str(lab.folder / 'notebook.ipynb'))
    assert len(re.findall('<img[^>]*data:image/png;base64', html)) == 1
    if not trusted:  # like a notebook received by mail, whose signature does not match
        nb['cells'][0]['source'] = 'x = 1'
        (lab.folder / 'notebook.ipynb').write_text(json.dumps(nb))
    lab.end_kernels()
    page = browser.new_page(viewport=dict(width=1400, height=900))
    lab.open(page, '&kernel=none')
    page.wait_for_selector(PICTURE, timeout=60_000)
    wait_for(lambda: page.locator(PICTURE).is_visible(), message='the picture is visible')
    page.wait_for_timeout(1500)
    page.screenshot(path=SHOTS / f'without_kernel_{"trusted" if trusted else "untrusted"}.png')
    visible = [e for e in page.locator('.jp-OutputArea-output').all() if e.is_visible()]
    assert not [e for e in visible if re.search('not found|<style|Loading', e.inner_text())]


NO_PICTURE = BROWSER.replace(
    'browser = FrameBrowser',
    """class Pictureless(FrameBrowser):
    def figure(self):
        raise ValueError('the kernel is too busy to draw it')
browser = Pictureless""",
)
SENTENCE = 'This view appears when its cell is run.'


def test_a_notebook_saved_without_a_picture_has_a_sentence_in_its_place(browser, open_lab):
    lab = open_lab(notebook_of(NO_PICTURE))
    page = open_page(browser, lab)
    page.wait_for_timeout(2500)  # the sentence would be visible by now
    assert not page.get_by_text(SENTENCE).is_visible(), 'a live widget hides the sentence'
    save_and_read(page, lab)
    page.close()
    assert SENTENCE in HTMLExporter().from_filename(str(lab.folder / 'notebook.ipynb'))[0]
    lab.end_kernels()
    page = browser.new_page(viewport=dict(width=1400, height=900))
    lab.open(page, '&kernel=none')
    wait_for(lambda: page.get_by_text(SENTENCE).is_visible(), message='the sentence is visible')
    page.screenshot(path=SHOTS / 'without_picture.png')
    page.close()


def test_a_widget_whose_kernel_has_ended_says_to_run_its_cell_again(browser, open_lab):
    page = open_page(browser, open_lab(notebook_of(BROWSER)))
    sentences = "es => es.map(e => getComputedStyle(e, '::before').content)"
    end = "async how => { await window.jupyterapp.shell.currentWidget.sessionContext[how](); }"

    def is_told(told=True):
        above = page.locator('.srlviz-explorer').evaluate_all(sentences)
        return above and told == any('Run its cell again' in words for words in above)

    assert is_told(False)
    page.evaluate(end, 'restartKernel')
    wait_for(is_told, message='the kernel is restarted')
    page.evaluate("() => { window.jupyterapp.commands.execute('notebook:run-all-cells'); return null }")
    wait_for(lambda: is_told(False), message='the cell is run again')
    page.evaluate(end, 'shutdown')
    wait_for(is_told, message='the kernel is shut down')
