"""Tests of FlightBrowser and FleetBrowser: their traits without a browser, and tutorial 5 in a real JupyterLab.

The browser tests press and drag as a user does, then compare the page with the state of the kernel.
"""

import io, json

import numpy as np, pandas as pd, pytest, traitlets
from PIL import Image
from support.lab import ROOT, SHOTS, reset_page, open_page, wait_for

from srlviz.core.recordings import Episode, Factor, Recording
from srlviz.figures.landing.flights import (
    find_sensors,
    fleet_table,
    glide_height,
    onsets,
    plot_fleet,
    plot_flight,
    plot_traces,
    sparks,
)
from srlviz.widgets.landing.flight_browser import FilmPlayer, FleetBrowser, FlightBrowser, find_flights, sensor_table

TUTORIAL = ROOT / 'nbs/tutorials/05_landings.ipynb'
TABLE = pd.DataFrame(
    dict(
        group=['gauges'] * 3 + ['engine'],
        name=['sim/a/speed', 'sim/a/still', 'sim/b/speed', 'sim/c/N1[0]'],
        units=['knots', '', 'feet', 'percent'],
        about=['how fast', 'never moves', 'another', 'fan'],
    )
)


FACTORS = [
    Factor('height', 'pose', 'continuous', 'm'),
    Factor('rel_engfir0', 'failures', 'continuous', label='engine 1 fire'),
    Factor('wind_speed_kt', 'weather', 'continuous', 'kt', 'wind rises'),
    Factor('wind_speed', 'conditions', 'continuous', 'kt', 'wind'),
]


def make_flight(seed=0, T=300, **factors):
    "Return a computed flight down the glide slope"
    t = np.arange(T) / 5
    rng = np.random.default_rng(seed)
    along = -4000 + 80 * t
    height = np.where(along < 300, glide_height(along), 0)
    sensors = np.stack([140 - t, 0 * t + 3, np.sin(t), t % 7], 1).astype(np.float32)
    defaults = dict(
        along_track=along,
        cross_track=20 * np.cos(t / 9),
        height=height,
        rel_engfir0=0.8 * (t >= 30),
        wind_speed_kt=0 * t,
        outcome='landed',
        reason='',
        airport='KSEA',
        runway='16L',
        wind_speed=float(seed),
    )
    return Episode(
        dict(sensors=sensors, frame=rng.integers(0, 255, (T, 32, 32, 3), np.uint8)),
        factors=defaults | factors,
        ended='terminated',
    )


def make_fleet():
    return Recording(
        [
            make_flight(0),
            make_flight(1, T=250, outcome='crashed', reason='hard'),
            make_flight(2, T=200, airport='EDDF', rel_engfir0=np.zeros(200)),
        ],
        name='three',
        hz=5,
        factors=FACTORS,
        split=['fit', 'test', 'fit'],
    )


def test_slider_and_film_share_one_step():
    "The step, the slider and the film agree; another flight starts at step 0"
    b = FlightBrowser(make_fleet(), TABLE, interactive=True)
    b.seek(1, 240)
    assert [b.t, b.player.value, b.episode, b.player.source['n']] == [240, 240, 1, 250] and 'hard' in b.facts.value
    b.picture = 640
    assert b.player.zoom == 20  # of 32 pixels
    b.episode = 2
    assert b.player.zoom == 20 and b.t == 0 and b.player.source['n'] == 200 and 'no perturbation' in b.facts.value
    with pytest.raises(traitlets.TraitError, match='0.*199'):
        b.t = 200
    xy = np.frombuffer(b.parts.cursor.xy, np.float32).reshape(2, 200, 2)
    assert xy[0, 0, 0] == -4 and (b.parts.cursor.rate, b.parts.cursor.n) == (5, 200)  # x in km, and x in seconds


def test_chosen_sensors_and_factors_are_drawn():
    "They are drawn in the chosen order, listed beside the film, and marked in the list"
    b = FlightBrowser(make_fleet(), TABLE, chosen=[2, 'height', 0], interactive=True)
    height = b.picker.choices.index('height')
    assert [d.name for d in b.traces.figure.data] == ['speed', 'Height', 'speed'] and b.list.picked == [2, height, 0]
    assert b.chosen == (2, 'height', 0), 'the list keeps the order'
    b.list.picked = [height, 0, 3]  # 2 is removed, 3 is added
    assert b.chosen == ('height', 0, 3)
    b.parts.table.picked = 'height'
    assert b.chosen == (0, 3) and len(b.parts.table.rows.rows(0)) == 4 * 300 * len(b.parts.table.table)
    b.picker.clear.click()
    assert b.chosen == () and not b.list.picked and b.traces.figure.layout.annotations
    for wrong, pattern in (((9,), '9'), (('heigth',), 'height')):
        with pytest.raises(traitlets.TraitError, match=pattern):
            b.chosen = wrong


def test_group_search_and_varying_filter_the_list():
    b = FlightBrowser(make_fleet(), TABLE, interactive=True)
    b.group = 'gauges'
    assert b.list.shown == [0, 2] and '1 constant left out' in b.picker.found.value
    b.group = ''
    assert {b.picker.choices[i] for i in b.list.shown} == {0, 2, 3, *b.reading.timed} - {'seconds', 'wind_speed_kt'}
    b.search = 'moves NEVER'
    assert b.list.shown == []
    b.varying = False
    assert b.list.shown == [1]
    b.search, b.group = '', 'engine'
    assert b.list.shown == [3]
    assert find_sensors(TABLE, search='(').tolist() == [] and find_sensors(
        TABLE.drop(columns='about'), search='N1[0]'
    ).tolist() == [3]

    b.group, b.varying, b.search = '', True, 'tank'
    assert b.list.empty == 'no sensor matches'
    b.search = 'moves never'
    assert (
        b.list.shown == []
        and b.list.empty == '1 constant sensor matches; untick “only what varies in this episode” to see it'
    )


def test_sensors_are_chosen_by_name():
    "By short name, full name, column, factor, or a single one; an error for an unknown name suggests similar ones"
    b = FlightBrowser(
        make_fleet(), TABLE, chosen=['N1[0]', 'sim/b/speed', np.int64(0), 'height', 'N1[0]'], interactive=True
    )
    assert b.chosen == (3, 2, 0, 'height')
    b.chosen = 'still'
    assert b.chosen == (1,) and FlightBrowser(make_fleet(), TABLE, chosen=2, interactive=True).chosen == (2,)
    for wrong, pattern in (
        ('stil', 'still'),
        (['sim/c/N1[1]'], 'N1.*0'),
        ('along track', 'along_track'),
        ('speed', 'speed.*speed'),
        ([1.5], '1.5'),
        ('qqqq', 'qqqq'),
    ):
        with pytest.raises(traitlets.TraitError, match=pattern):
            b.chosen = wrong
    assert b.chosen == (1,)


def test_sensors_without_a_table_are_named():
    "By the columns in the recording's metadata, as the 1,090 sensors of the landings, or by number"
    wide = Episode(dict(sensors=np.zeros((5, 1090), np.float32)))
    first = FlightBrowser(wide, interactive=True).list.rows[0]
    assert sensor_table(Recording([wide]))['name'].is_unique and first == ['zulu_time_sec', 's', None]
    named = Recording(
        [make_flight()], meta=dict(columns=['sim/cockpit2/engine/indicators/N1_percent[0]', 'x', 'y', 'z'])
    )
    assert sensor_table(named)[['name', 'units', 'group']].fillna('').iloc[:2].to_numpy().tolist() == [
        ['sim/cockpit2/engine/indicators/N1_percent[0]', 'percent', 'engine'],
        ['x', '', 'sensors'],
    ]
    assert sensor_table(make_fleet())['name'].tolist() == ['sensor 0', 'sensor 1', 'sensor 2', 'sensor 3']
    f = FleetBrowser(named, interactive=True)
    f.episode = 0
    assert f.browser.chosen == (0,)


def test_film_is_close_to_the_frames_and_may_be_missing():
    "The encoded film is close to the recorded frames; a flight without frames has a note, and still has its sensors"
    smooth = np.linspace(0, 255, 64).astype(np.uint8)[:, None, None] + np.zeros((40, 64, 64, 3), np.uint8)
    player = FilmPlayer(smooth)
    sheet = np.asarray(Image.open(io.BytesIO(player.encoded(1))))
    assert sheet.shape == (64, 8 * 64, 3) and abs(sheet[:, :64].astype(int) - smooth[32]).max() < 8
    without_frames = Episode({'sensors': make_flight().obs['sensors']}, factors=make_flight().factors)
    b = FlightBrowser(without_frames, TABLE, interactive=True)
    assert (b.player.source['n'], b.player.source['width'], b.player.note) == (300, 0, 'recorded without a camera')
    assert b.player.marks['names'] == [] and len(b.figure().data) > 5
    with pytest.raises(ValueError):
        FlightBrowser(Recording([]))
    with pytest.raises(ValueError, match='sensors'):
        FlightBrowser(Episode(dict(frame=np.zeros((2, 4, 4, 3), np.uint8))))
    unknown = FlightBrowser(
        Episode(dict(sensors=np.random.default_rng(0).random((50, 4), np.float32))), interactive=True
    )  # of an unknown world
    assert (
        unknown.chosen == (0, 1, 2, 3) and unknown.profile.layout.display == 'none' and len(unknown.figure().data) == 4
    )
    with pytest.raises(ValueError):
        plot_flight(unknown.reading.episode)


def test_traces_are_downsampled():
    "At most 2,000 points per trace, with the extremes, however long the flight; NaN and constants are accepted"
    v = np.zeros((50_000, 2), np.float32)
    v[33_333, 0] = 9
    v[:, 1] = np.nan
    fig = plot_traces(v, ['a', 'b'])
    assert all(len(d.x) <= 2000 for d in fig.data) and fig.data[0].y.max() == 9
    line = sparks(v)
    assert line.shape == (2, 48, 2) and line[0].max() == 254 and (line[1] == 255).all()
    assert len(sparks(np.zeros((3, 1)))[0]) == 48  # a flight shorter than the line


def test_a_fleet_opens_its_first_flight_beside_the_list():
    "Two seconds after the first failure; without one two seconds before touchdown, else at the first step"
    f = FleetBrowser(make_fleet(), sensors=TABLE, interactive=True)
    left, right = f.browser.sides.children
    assert (f.episode, f.browser.t) == (0, 160) and f.list in left.children and f.browser.parts.film in right.children
    assert f.list.rows[0] == [0, 'KSEA/16L', ['landed', 'landed'], ['engine 1 fire']]
    f.episode = 2  # it has no failure, and ends in the air
    assert f.browser.t == f.browser.player.value == 0
    alone = FleetBrowser(make_fleet(), sensors=TABLE, episode=-1, interactive=True)
    assert alone.browser is None and alone.place.children == (alone.list,) and len(alone.figures()) == 1


def test_numbers_of_a_step_have_the_decimals_of_their_range():
    "A small value of a wide range is 0.00, not -0.003409"
    table = FlightBrowser(make_fleet(), TABLE, chosen=[0, 2], interactive=True).parts.table.table
    assert {row['name']: row['digits'] for row in table if row['name'] in ('height', 'cross_track')} == dict(
        height=1, cross_track=2
    )


def test_filters_and_buttons_open_and_close_flights():
    f = FleetBrowser(make_fleet(), sensors=TABLE, interactive=True)
    f.outcome = 'crashed'
    assert f.list.shown == [1] and len(f.found()) == 1 and '1 of 3 flights' in f.flights.words.value
    assert f.episode == f.browser.episode == 1  # the open flight is one of the list
    f.clear()
    f.event = 'none'
    assert f.list.shown == [2] == [f.episode]
    f.clear()
    f.condition = 'wind_speed'
    assert f.within == (0, 2) and f.menus.slider.layout.display == ''
    f.within = (0.5, 1.5)
    assert f.list.shown == [1]
    f.condition = 'seconds'
    assert f.within == (40, 60) and f.list.shown == [0, 1, 2]
    f.clear()
    f.list.picked = [2]
    assert f.episode == 2 == f.browser.episode and f.place.children == (f.browser,) and len(f.figure().data) == 3
    f.outcome = 'crashed'  # of a flight that is filtered out, the first of the list takes the place
    assert (f.episode, f.list.picked) == (1, [1])
    f.split = 'fit'  # no flight of this split crashed
    assert (f.episode, f.place.children, f.list.picked, f.list.shown) == (-1, (f.list,), [], [])
    f.clear()
    f.episode = 0
    f.flights.next.click()
    assert f.episode == f.browser.episode == 1 and len(f.list.columns) == 4
    f.flights.alone.click()
    assert f.episode == -1 and f.place.children == (f.list,) and f.list.picked == [] and len(f.list.columns) > 4
    for trait, wrong in dict(
        outcome='landet', airport='KSEB', split='tests', event='rel_engfir', condition='wind', episode=3
    ).items():
        with pytest.raises(traitlets.TraitError):
            setattr(f, trait, wrong)
    for wrong in ('landings', [make_flight()], None):
        with pytest.raises(ValueError, match=f'recording must be .*Recording.*; got .* .{type(wrong).__name__}.'):
            FleetBrowser(wrong)
        with pytest.raises(ValueError):
            FlightBrowser(wrong)
    with pytest.raises(ValueError, match='2.*3'):
        FleetBrowser(make_fleet(), fleet_table(make_fleet())[:2])


def test_fleet_with_a_table_opens_no_flight():
    "With the table of a stored set no flight is opened; its events override those of the flights"
    table = pd.DataFrame(
        dict(
            flight_id=list('abc'),
            n_frames=[300, 250, 200],
            outcome='landed',
            airport='EDDF',
            runway='07C',
            split='fit',
            conditions=[{}] * 3,
            events=[[dict(t=9.99, name='wind_speed_kt', value=15.0)], [], []],
        )
    )

    class Closed(Recording):
        def __iter__(self):
            raise AssertionError('a flight was opened')

    closed = Closed([*make_fleet()], hz=5, factors=FACTORS)
    f = FleetBrowser(closed, table, TABLE, interactive=True)
    assert f.list.rows[0][-1] == ['wind rises'] and find_flights(f.table, event='none').tolist() == [1, 2]
    f.episode = 0
    assert f.browser.events['t'].tolist() == [50] and 'wind rises' in f.browser.facts.value
    assert onsets(make_flight().factors)['t'].tolist() == [150]


def test_units_labels_rate_and_beams_come_from_the_recording():
    "A flight of an unknown world falls back to the built-in labels"
    steep = make_fleet().replace(hz=10, meta=dict(beams=dict(slope=4.5)))
    b = FlightBrowser(steep, TABLE, chosen=['height', 'rel_engfir0'], interactive=True)
    assert b.current().index.tolist() == ['Height', 'engine 1 fire'] and b.hz == 10 and 'from 15 s' in b.facts.value
    assert b.profile.figure.data[1].name == 'glide slope, 4.5°' and '4.5' in b.figure().to_json()
    assert 'wind (kt)' in [c['label'] for c in FleetBrowser(steep, episode=-1, interactive=True).list.columns]
    single = FlightBrowser(make_flight(), TABLE, interactive=True)
    assert single.hz == 5 and 'fire <i>from 30 s' in single.facts.value
    assert 'fire (rel_engfir0)' in single.parts.named
    assert FleetBrowser(make_fleet().replace(factors=None), interactive=True).list.rows[0][-1] == ['fire']
    with pytest.raises(ValueError, match='meta.*beams.*slope.*x'):
        FlightBrowser(steep.replace(meta=dict(beams=dict(slope='x'))), TABLE)


def test_thousands_of_flights_are_listed_from_a_table():
    "The paper's 8,011 flights in a table are listed and filtered without opening them"
    rng = np.random.default_rng(0)
    n = 8011
    flight = make_flight(T=50)

    class Many(list):
        lengths = np.full(n, 50)

        def __len__(self):
            return n

        def __getitem__(self, i):
            return flight

    table = pd.DataFrame(
        dict(
            flight_id=[f'{i:06}' for i in range(n)],
            n_frames=50,
            outcome=rng.choice(['landed', 'crashed'], n),
            airport=rng.choice(['EDDF', 'KSEA'], n),
            runway='07',
            split='fit',
            wind_speed=rng.random(n),
            events=[[]] * n,
        )
    )
    f = FleetBrowser(Recording(Many(), hz=5, split=['fit'] * n), table, TABLE, interactive=True)
    f.condition = 'wind_speed'
    f.within = (0.2, 0.3)
    assert f.list.shown == np.flatnonzero(table['wind_speed'].between(0.2, 0.3)).tolist() and len(f.figure().data) == 2
    f.episode = int(f.list.shown[-1])
    assert f.browser.episode == f.list.shown[-1]
    assert f.browser.episodes.episode.max == n - 1  # too many for a menu


def test_static_forms_are_figures(tmp_path):
    "Without interaction the browsers are figures; a page of them needs no network"
    b = FlightBrowser(make_fleet(), TABLE, interactive=False)
    f = FleetBrowser(make_fleet(), sensors=TABLE, interactive=False)
    for w in b, f:
        assert 'application/vnd.jupyter.widget-view+json' not in w._repr_mimebundle_()
    page = b.to_html(tmp_path / 'flight.html').read_text(encoding='utf-8')
    assert 'localizer, one dot' in page and 'engine 1 fire' in page and 'src="http' not in page
    json.loads(plot_flight(make_flight(), [0, 3], TABLE).to_json())
    json.loads(plot_fleet(fleet_table(make_fleet())).to_json())


# in a browser


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(TUTORIAL, "\nsize = 64     # the test needs no detailed film\n")


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    lab.evaluate('globals().update(initial_chosen=browser.chosen)')
    return page


START = """[
    *(browser.set_trait(name, value) for name, value in dict(
        group='', search='', varying=True, picture=264, against=-1, chosen=initial_chosen).items()),
    browser.seek(0, 0), broken.seek(2, 0), flights.clear(), flights.set_trait('episode', -1)]"""


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


def drawn_flight(page, k=0):
    "Return the k-th FlightBrowser of the page, once its plots and its film are drawn"
    widget = page.locator('.srlviz-flight').nth(k)
    widget.scroll_into_view_if_needed()
    plots = widget.locator('.js-plotly-plot')
    wait_for(
        lambda: plots.count() == 3 and all(p.evaluate('g => !!g._fullLayout?.xaxis?._length') for p in plots.all()),
        message='the three plots are drawn',
    )
    wait_for(
        lambda: widget.locator('.srlviz-player').get_attribute('data-frame') is not None, message='the film is drawn'
    )
    return widget


def shown_steps(widget):
    return [
        widget.locator('.srlviz-player').get_attribute('data-frame'),
        *(p.get_attribute('data-step') for p in widget.locator('.srlviz-plot').all()),
    ]


def wait_until_at(widget, lab, t, name='browser'):
    wait_for(
        lambda: shown_steps(widget) == [str(t)] * 4 and lab.evaluate(f'{name}.t') == t,
        message=f'film, dots, line and kernel are at step {t}',
    )


def seek(widget, lab, t, name='browser'):
    "Move a browser to a known step"
    lab.evaluate(f'{name}.seek({name}.episode, {t})')
    wait_until_at(widget, lab, t, name)


def point_at(plot, x):
    return plot.evaluate(
        '(g, x) => { const r = g.getBoundingClientRect(), l = g._fullLayout; '
        'return [r.left + l.xaxis._offset + l.xaxis.c2p(x), r.top + l.yaxis._offset + l.yaxis._length/2] }',
        x,
    )


@pytest.mark.browser
def test_press_on_a_trace_moves_to_its_step(page, lab):
    widget = drawn_flight(page)
    seek(widget, lab, 10)
    page.mouse.click(*point_at(widget.locator('.js-plotly-plot').nth(2), 30.0))
    wait_until_at(widget, lab, 150)
    cell = widget.locator('tr[data-name=seconds] td').last
    wait_for(lambda: cell.inner_text() == '30.0 s', message='the table beside the film follows')
    widget.screenshot(path=SHOTS / 'flight_browser.png')


@pytest.mark.browser
def test_drag_on_the_profile_moves_the_film(page, lab):
    "A drag over the profile moves the film; after the release the pointer does nothing"
    widget = drawn_flight(page)
    seek(widget, lab, 10)
    profile = widget.locator('.js-plotly-plot').first
    along = np.array(lab.evaluate("sound.factors['along_track'].tolist()")) / 1000
    page.mouse.move(*point_at(profile, -4))
    page.mouse.down()
    page.mouse.move(*point_at(profile, -3), steps=4)
    page.mouse.move(*point_at(profile, -2), steps=4)
    page.mouse.up()

    def agreed_step():
        steps = shown_steps(widget)
        agreed = len(set(steps)) == 1 and steps[0] != '10' and lab.evaluate('browser.t') == int(steps[0])
        return agreed and steps[0]

    t = int(wait_for(agreed_step, message='film, dots, line and kernel agree'))
    assert abs(along[t] + 2) < 0.05
    page.mouse.move(*point_at(profile, -4), steps=3)
    page.keyboard.press('Shift')  # the page has handled the moves before this key
    assert shown_steps(widget) == [str(t)] * 4


@pytest.mark.browser
def test_play_button_and_keys_move_the_film(page, lab):
    widget = drawn_flight(page)
    seek(widget, lab, 20)
    player = widget.locator('.srlviz-player')
    player.locator('[data-do=play]').click()
    wait_for(
        lambda: (
            int(player.get_attribute('data-frame')) > 26
            and lab.evaluate('[browser.player.playing, browser.t > 24]') == [True, True]
        ),
        message='the film plays, and the kernel has its state',
    )
    page.keyboard.press('Space')
    wait_for(
        lambda: player.get_attribute('data-playing') == 'false' and lab.evaluate('browser.player.playing') is False,
        message='space stops it',
    )
    t = int(player.get_attribute('data-frame'))
    wait_until_at(widget, lab, t)
    for key, by in (('ArrowRight', 1), ('PageDown', 10), ('ArrowLeft', -1)):
        page.keyboard.press(key)
        t += by
        wait_until_at(widget, lab, t)


@pytest.mark.browser
def test_film_shows_the_recorded_frames(page, lab):
    "The canvas shows the recorded frame, up to the loss of JPEG"
    widget = drawn_flight(page)
    seek(widget, lab, 400)
    drawn = widget.locator('.srlviz-stage canvas').first.evaluate(
        "c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((_, i) => i % 4 < 3))"
    )
    true = np.array(lab.evaluate("sound.obs['frame'][400].ravel().tolist()"))
    assert abs(np.array(drawn) - true).mean() < 6


def n_rows(widget):
    return int(widget.locator('.srlviz-rows').first.get_attribute('data-shown'))


@pytest.mark.browser
def test_sensor_is_found_drawn_and_removed(page, lab):
    "A sensor found by search is drawn by a press, and removed by the keyboard"
    widget = drawn_flight(page)
    n_sensors = n_rows(widget)
    before = lab.evaluate('list(browser.chosen)')
    widget.get_by_placeholder('search').fill('PITCH electric pilot')
    wait_for(
        lambda: (
            0 < n_rows(widget) < n_sensors
            and n_rows(widget) == len(lab.evaluate('browser.list.shown'))
            and lab.evaluate('browser.search') == 'PITCH electric pilot'
        ),
        message='fewer sensors',
    )
    line = widget.locator('.srlviz-item').first
    column = int(line.get_attribute('data-row'))
    name = line.locator('span').first.inner_text()
    assert column not in before and line.locator('svg path').get_attribute('d')
    line.click()
    wait_for(
        lambda: (
            lab.evaluate('list(browser.chosen)') == [*before, column]
            and name in widget.locator('.js-plotly-plot').nth(2).inner_text()
            and line.get_attribute('aria-selected') == 'true'
        ),
        message='drawn',
    )
    widget.screenshot(path=SHOTS / 'flight_search.png')
    body = widget.locator('.srlviz-rows-body').first
    body.focus()
    page.keyboard.press('Home')
    page.keyboard.press('Enter')
    wait_for(
        lambda: (
            lab.evaluate('list(browser.chosen)') == before
            and name not in widget.locator('.js-plotly-plot').nth(2).inner_text()
        ),
        message='removed by keyboard',
    )
    widget.get_by_placeholder('search').fill('')
    wait_for(lambda: n_rows(widget) == n_sensors and lab.evaluate('browser.search') == '', message='all sensors again')
    group = widget.locator('.srlviz-sensor-picker .widget-dropdown select').first
    group.select_option(next(o for o in group.locator('option').all_inner_texts() if o.startswith('gauges')))
    wait_for(
        lambda: (
            lab.evaluate('browser.group') == 'gauges'
            and n_rows(widget) == len(lab.evaluate('browser.list.shown')) < n_sensors
        ),
        message='one group',
    )


@pytest.mark.browser
def test_menu_opens_another_flight(page, lab):
    "The second browser has three flights; its menu changes film, plots and facts"
    widget = drawn_flight(page, 1)
    wait_for(
        lambda: (
            lab.evaluate('broken.episode') == 2
            and 'elevator servo' in widget.locator('.srlviz-facts').first.inner_text()
        ),
        message='the initial flight',
    )
    widget.locator('.widget-dropdown select:not(.srlviz-bar select)').first.select_option(index=1)
    wait_for(
        lambda: (
            lab.evaluate('broken.episode') == 1
            and 'engine 2 out' in widget.locator('.srlviz-facts').first.inner_text()
            and 'engine 2 out' in widget.locator('.js-plotly-plot').nth(2).inner_text()
        ),
        message='the engine that failed',
    )
    n = lab.evaluate('len(engine)')
    wait_for(
        lambda: widget.locator('.srlviz-total').inner_text().strip() == f'/ {n - 1}',
        message='the length of that flight',
    )
    seek(widget, lab, 210, 'broken')
    widget.screenshot(path=SHOTS / 'flight_engine.png')


def dot_distance(plot):
    "Return the distance (pixels) of the dot of a plot from the point of its path at that step"
    return plot.evaluate("""p => { const g = p.querySelector('.js-plotly-plot'), l = g._fullLayout,
            d = p.querySelector('.srlviz-dot'),
            path = g._fullData.find(c => c.name === 'path'), t = +p.dataset.step;
        const k = [...path.customdata].findIndex(c => c[0] === t);
        return Math.hypot(parseFloat(d.style.left) - l.xaxis._offset - l.xaxis.c2p(path.x[k]),
            parseFloat(d.style.top) - l.yaxis._offset - l.yaxis.c2p(path.y[k])) }""")


@pytest.mark.browser
def test_dots_stay_on_the_path_when_the_window_is_resized(page, lab):
    "The plots are redrawn with the same height, and the dots stay on the path"
    widget = drawn_flight(page, 1)
    lab.evaluate('broken.seek(1, 0)')
    seek(widget, lab, 250, 'broken')
    plots = widget.locator('.js-plotly-plot')
    heights = [p.bounding_box()['height'] for p in plots.all()]

    def width():
        return plots.first.evaluate('g => g._fullLayout.width')

    try:
        for window in (1150, 1240, 1330):
            before = width()
            page.set_viewport_size(dict(width=window, height=1250))
            wait_for(
                lambda: (
                    width() != before and all(dot_distance(p) < 2 for p in widget.locator('.srlviz-plot').all()[:2])
                ),
                message='the dots follow',
            )
            assert [p.bounding_box()['height'] for p in plots.all()] == heights and min(heights) >= 120
    finally:
        page.set_viewport_size(dict(width=1400, height=1250))


def listed_rows(fleet):
    return (
        fleet.locator('.srlviz-rows')
        .first.locator('.srlviz-item')
        .evaluate_all('rows => rows.map(r => +r.dataset.row)')
    )  # in one call: rows come and go


@pytest.mark.browser
def test_fleet_is_filtered_sorted_and_opened(page, lab):
    fleet = page.locator('.srlviz-fleet')
    fleet.scroll_into_view_if_needed()
    n = lab.evaluate('len(fleet)')
    wait_for(lambda: listed_rows(fleet) == list(range(n)), message='all flights are listed')
    outcome = fleet.locator('.widget-dropdown select:not(.srlviz-bar select)').first
    outcome.select_option(next(o for o in outcome.locator('option').all_inner_texts() if o.startswith('Landed')))
    landed = lab.evaluate("[i for i, o in enumerate(flights.table['outcome']) if o == 'landed']")
    wait_for(
        lambda: (
            lab.evaluate('flights.outcome') == 'landed'
            and listed_rows(fleet) == landed
            and f'{len(landed)} of {n} flights' in fleet.inner_text()
        ),
        message='the flights that landed',
    )
    seconds = lab.evaluate("flights.table['seconds'].tolist()")
    fleet.get_by_role('button', name='sort by seconds').click()
    wait_for(
        lambda: listed_rows(fleet) == sorted(landed, key=lambda i: (round(seconds[i], 1), i)),
        message='in order of time',
    )
    first = listed_rows(fleet)[0]
    fleet.locator('.srlviz-item').first.click()
    wait_for(
        lambda: (
            lab.evaluate('flights.episode') == first
            and fleet.locator('.srlviz-flight').count() == 1
            and fleet.locator('.srlviz-item.picked').first.get_attribute('data-row') == str(first)
        ),
        message='the flight opens',
    )
    widget = fleet.locator('.srlviz-flight')
    wait_for(
        lambda: (
            widget.locator('.srlviz-player').get_attribute('data-frame') == str(lab.evaluate('flights.browser.t'))
            and widget.locator('.js-plotly-plot').count() == 3
        ),
        message='its film and its plots',
    )
    fleet.screenshot(path=SHOTS / 'fleet.png')
    fleet.get_by_role('button', name='list alone').click()
    wait_for(
        lambda: lab.evaluate('flights.episode') == -1 and listed_rows(fleet) and not widget.count(),
        message='the list alone',
    )
    fleet.get_by_role('button', name='all flights').click()
    wait_for(
        lambda: lab.evaluate('flights.outcome') == '' and len(listed_rows(fleet)) == n, message='all flights again'
    )


@pytest.mark.browser
def test_events_that_do_not_fit_are_counted(page, lab):
    "However narrow the list, the number of hidden events is visible, and their names are in the tooltip"
    fleet = page.locator('.srlviz-fleet')
    fleet.scroll_into_view_if_needed()
    events = lab.evaluate('[r[-1] for r in flights.list.rows]')
    rows = fleet.locator('.srlviz-rows').first
    look = """list => [...list.querySelectorAll('.srlviz-item .tags')].map(c => ({
        row: +c.closest('.srlviz-item').dataset.row, title: c.title, tags: [...c.children].map(t => t.textContent),
        out: [...c.children].some(t => t.getBoundingClientRect().right > list.getBoundingClientRect().right) }))"""

    def fits():
        seen = rows.evaluate(look)  # in one call: rows come and go
        row_events = [events[c['row']] for c in seen]
        assert [c['title'] for c in seen] == [', '.join(e) for e in row_events]
        return (
            not any(c['out'] for c in seen)
            and all(
                c['tags'] == e or c['tags'][-1] == f"+{len(e) - len(c['tags']) + 1}" for c, e in zip(seen, row_events)
            )
            and seen
        )

    try:
        page.set_viewport_size(dict(width=1020, height=1250))
        wait_for(
            lambda: (seen := fits()) and any(c['tags'] and c['tags'][-1].startswith('+') for c in seen),
            message='events that do not fit are counted',
        )
        fleet.screenshot(path=SHOTS / 'fleet_narrow.png')
    finally:
        page.set_viewport_size(dict(width=1400, height=1250))


@pytest.mark.browser
def test_notebook_sends_no_requests_and_raises_no_errors(opened):
    "While it ran, no request left this machine and no script failed; the fixture `page` checks this in every test"
    assert opened.errors_on_load == ([], [])
