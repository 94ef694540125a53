"""Recordings with several cameras, none of which is called 'frame': explorers, networks, encoders and the scorecard."""

import inspect, warnings

import numpy as np
import pandas as pd
import pytest
from torch import nn

import srlviz
from srlviz.core.recordings import Episode, Recording
from srlviz.core.views.cameras import take_camera
from srlviz.encoders.custom import as_encoder
from srlviz.encoders.frames.pca import FramePCA
from srlviz.encoders.sequences.batches import read_shapes
from srlviz.studies.matrix.settings import Setting
from srlviz.widgets.frame_browser import FrameBrowser
from srlviz.widgets.sensor_browser import SensorBrowser

from support.lab import SHOTS, notebook_of, open_page, wait_idle

IMPORTS = 'import numpy as np\nfrom srlviz.core.recordings import Episode, Recording\n\n'


def robot(n_episodes=6, n=30):
    "Record a block that moves right on the red picture from above, and down on the blue one of the wrist"
    rng, episodes = np.random.default_rng(0), []
    for _ in range(n_episodes):
        x = rng.integers(0, 24, n)
        top = np.full((n, 32, 32, 3), (200, 60, 40), np.uint8)
        wrist = np.full((n, 32, 32, 3), (30, 80, 200), np.uint8)
        for t in range(n):
            top[t, 12:20, x[t] : x[t] + 8] = 255
            wrist[t, x[t] : x[t] + 8, 12:20] = 250, 220, 40
        obs = dict(top=top, wrist=wrist, sensors=rng.normal(size=(n, 6)).astype('f4'))
        episodes.append(Episode(obs, factors=dict(x=x, joint=obs['sensors'][:, 0])))
    return Recording(episodes, name='robot', hz=10)


def test_a_recording_with_cameras_opens_with_pictures_and_a_menu_of_them():
    browser = srlviz.explore(robot())
    assert isinstance(browser, FrameBrowser) and browser.cameras.menu.options == ('top', 'wrist')
    assert srlviz.explore(robot(), camera='wrist').player.frames[0, 0, 0].tolist() == [30, 80, 200]
    numbers = robot().replace(episodes=[e.replace(obs=dict(sensors=e.obs['sensors'])) for e in robot()])
    assert isinstance(srlviz.explore(numbers), SensorBrowser)


def test_the_camera_stays_and_only_the_first_has_the_marks_of_the_recording():
    marks = pd.DataFrame(dict(t=[0], name='block', x=[1.0], y=[2.0]))
    pixels = dict(variable='x', object='block', axis='x', scale=1, offset=0, cross=16, low=0, high=32)
    recording = robot().replace(meta=dict(pixels=[pixels]))
    assert len(FrameBrowser(recording).reading.marked) == 30
    assert not len(FrameBrowser(recording, camera='wrist').reading.marked)
    browser = FrameBrowser(recording, marks=marks, camera='wrist')
    browser.episode = 3
    assert browser.camera == 'wrist' and len(browser.reading.marked) == 1


def test_a_sensor_browser_has_the_menu_too():
    browser = SensorBrowser(robot(), t=4, interactive=True)
    assert browser.player.frames[0, 0, 0].tolist() == [200, 60, 40]
    browser.cameras.menu.value = 'wrist'
    assert (browser.camera, browser.t, browser.player.frames[0, 0, 0].tolist()) == ('wrist', 4, [30, 80, 200])
    assert len(browser.figures()) == 1


def test_probe_reads_a_camera_with_one_warning_and_inputs_chooses_another():
    read = []

    def network(x):
        read.append(tuple(x[0, :, 0, 0].tolist()) if x.ndim == 4 else 'joints')
        return x.flatten(1)[:, :40]

    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter('always')
        srlviz.probe(as_encoder(network, scale=1), robot(4, 12), progress=False, baselines=())
    assert set(read) == {(200, 60, 40)}
    named = [str(w.message) for w in raised if 'cameras' in str(w.message)]
    assert len(named) == 1 and all(word in named[0] for word in ('top, wrist', "inputs='wrist'"))
    read.clear()
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        srlviz.probe(network, robot(4, 12), progress=False, baselines=(), inputs='wrist', scale=1)
    assert set(read) == {(30, 80, 200)}


def test_one_camera_under_another_name_is_read_without_a_warning():
    alone = take_camera(robot(), 'wrist').replace(name='alone')
    alone = alone.replace(
        episodes=[e.replace(obs=dict(screen=e.obs['frame'], sensors=e.obs['sensors'])) for e in alone]
    )
    with warnings.catch_warnings():
        warnings.simplefilter('error')
        assert as_encoder(nn.Flatten(), scale=1).encode(alone)[0].shape == (30, 32 * 32 * 3)


@pytest.mark.parametrize('refuse', [lambda r: FramePCA(n_codes=4).fit(r), lambda r: read_shapes(r, ['frame'], 'it')])
def test_encoders_of_the_kit_refuse_cameras_in_a_sentence_that_says_how_to_choose(refuse):
    with pytest.raises(ValueError, match="robot.*top, wrist.*take_camera.*'top'"):
        refuse(robot())
    chosen = take_camera(robot(), 'wrist')
    assert FramePCA(n_codes=4, pool=None).fit(chosen).encode(chosen)[0].shape == (30, 4)


def test_a_setting_of_the_scorecard_reads_a_camera_as_the_frame():
    with pytest.warns(UserWarning, match='top, wrist'):
        data = Setting('mine', robot()).data(0)
    assert list(data[0].obs) == ['frame'] and data[0].obs['frame'][0, 0, 0].tolist() == [200, 60, 40]
    data = Setting('mine', robot(), inputs='wrist').data(0)
    assert data[0].obs['frame'][0, 0, 0].tolist() == [30, 80, 200]
    assert list(Setting('mine', robot(), inputs='sensors').data(0)[0].obs) == ['sensors']


def test_frames_behind_a_score_follow_the_camera():
    one_pixel = nn.Sequential(nn.Flatten(), nn.AvgPool1d(192))  # does not know x, so that there are wrong predictions
    net = as_encoder(one_pixel, scale=255, size=(8, 8), inputs='top')
    heat = srlviz.explore(srlviz.probe({'net': net}, robot(), progress=False, baselines=()))
    heat.side.predictions.show('x', 'net')
    film = heat.side.film
    top = film.picker.images
    heat.side.browser.cameras.menu.value = 'wrist'
    assert len(top) and len(film.picker.images) == len(top) and film.picker.images != top
    assert film.frames(film.places)[0][0, 0].tolist() == [30, 80, 200]


@pytest.mark.browser
def test_the_menu_of_cameras_changes_the_picture(browser, open_lab):
    lab = open_lab(notebook_of(IMPORTS + inspect.getsource(robot), 'import srlviz\nw = srlviz.explore(robot())\nw'))
    page = open_page(browser, lab)
    pixel = """() => { const c = document.querySelector('.srlviz-frame-browser canvas');
        return [...c.getContext('2d').getImageData(3, 3, 1, 1).data].slice(0, 3) }"""
    assert page.evaluate(pixel) == [200, 60, 40]
    page.locator('.srlviz-frame-browser').screenshot(path=SHOTS / 'cameras_top.png')
    page.locator('.srlviz-frame-browser select:not(.srlviz-bar select)').first.select_option('wrist')
    wait_idle(page)
    page.wait_for_function(f'() => ({pixel})()[0] === 30')
    assert page.evaluate(pixel) == [30, 80, 200] and lab.evaluate('w.camera') == 'wrist'
    page.screenshot(path=SHOTS / 'cameras_wrist.png')
