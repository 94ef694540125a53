"""FlightBrowser and FleetBrowser: their traits without a browser, and the fifth tutorial in a real JupyterLab.

What a reader presses and drags, what the page shows, what the kernel then holds.
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
from srlviz.widgets.landing.flights import FilmPlayer, FleetBrowser, FlightBrowser, find_flights, sensor_table

TUTORIAL = ROOT / 'nbs/tutorials/05_landings.ipynb'
TABLE = pd.DataFrame(
    dict(
        group=['gauges'] * 3 + ['engine'],
        name=['sim/a/speed', 'sim/a/still', 'sim/b/speed', 'sim/c/N1[0]'],
        units=['knots', '', 'feet', 'percent'],
        about=['how fast', 'never moves', 'another', 'fan'],
    )
)


KNOWN = [
    Factor('height', 'pose', 'continuous', 'm'),
    Factor('rel_engfir0', 'failures', 'continuous', label='engine 1 fire'),
    Factor('wind_speed_kt', 'weather', 'continuous', 'kt', 'wind rises'),
    Factor('wind_speed', 'conditions', 'continuous', 'kt', 'wind'),
]


def made(seed=0, T=300, **factors):
    "A flight down the glide slope, by arithmetic"
    t, rng = np.arange(T) / 5, np.random.default_rng(seed)
    along = -4000 + 80 * t
    height = np.where(along < 300, glide_height(along), 0)
    sensors = np.stack([140 - t, 0 * t + 3, np.sin(t), t % 7], 1).astype(np.float32)
    told = dict(
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
        factors=told | factors,
        ended='terminated',
    )


def fleet():
    return Recording(
        [
            made(0),
            made(1, T=250, outcome='crashed', reason='hard'),
            made(2, T=200, airport='EDDF', rel_engfir0=np.zeros(200)),
        ],
        name='three',
        hz=5,
        factors=KNOWN,
        split=['fit', 'test', 'fit'],
    )


def test_one_step():
    "The step, the slider and the film are one; another flight begins at its beginning"
    b = FlightBrowser(fleet(), TABLE, interactive=True)
    b.seek(1, 240)
    assert [b.t, b.player.value, b.episode, b.player.source['n']] == [240, 240, 1, 250] and 'hard' in b.facts.value
    b.picture = 640
    assert b.player.zoom == 20  # of 32 pixels
    b.episode = 2
    assert b.player.zoom == 20 and b.t == 0 and b.player.source['n'] == 200 and 'no perturbation' in b.facts.value
    with pytest.raises(traitlets.TraitError, match='0.*199'):
        b.t = 200
    xy = np.frombuffer(b.parts.cursor.xy, np.float32).reshape(2, 200, 2)
    assert xy[0, 0, 0] == -4 and (b.parts.cursor.rate, b.parts.cursor.n) == (5, 200)  # over km, and over seconds


def test_what_is_drawn():
    "What is chosen is drawn in that order, told beside the film, and marked in the list; a factor may be chosen too"
    b = FlightBrowser(fleet(), TABLE, chosen=[2, 'height', 0], interactive=True)
    height = b.picker.choices.index('height')
    assert [d.name for d in b.traces.figure.data] == ['speed', 'Height', 'speed'] and b.list.picked == [2, height, 0]
    assert b.chosen == (2, 'height', 0), 'the list keeps the order'
    b.list.picked = [height, 0, 3]  # 2 is taken away, 3 comes
    assert b.chosen == ('height', 0, 3)
    b.parts.table.picked = 'height'
    assert b.chosen == (0, 3) and len(b.parts.table.rows.rows(0)) == 4 * 300 * len(b.parts.table.table)
    b.picker.clear.click()
    assert b.chosen == () and not b.list.picked and b.traces.figure.layout.annotations
    for wrong, words in (((9,), '9'), (('heigth',), 'height')):
        with pytest.raises(traitlets.TraitError, match=words):
            b.chosen = wrong


def test_find():
    b = FlightBrowser(fleet(), TABLE, interactive=True)
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


def test_chosen_by_name():
    "As the list shows them, in full, as columns, factors, or a single one; what is unknown names what is near"
    b = FlightBrowser(fleet(), TABLE, chosen=['N1[0]', 'sim/b/speed', np.int64(0), 'height', 'N1[0]'], interactive=True)
    assert b.chosen == (3, 2, 0, 'height')
    b.chosen = 'still'
    assert b.chosen == (1,) and FlightBrowser(fleet(), TABLE, chosen=2, interactive=True).chosen == (2,)
    for wrong, words in (
        ('stil', 'still'),
        (['sim/c/N1[1]'], 'N1.*0'),
        ('along track', 'along_track'),
        ('speed', 'speed.*speed'),
        ([1.5], '1.5'),
        ('qqqq', 'qqqq'),
    ):
        with pytest.raises(traitlets.TraitError, match=words):
            b.chosen = wrong
    assert b.chosen == (1,)


def test_known_sensors():
    "Without a table: the names that the recording tells, the 1,090 of the landings, or numbers"
    wide = Episode(dict(sensors=np.zeros((5, 1090), np.float32)))
    first = FlightBrowser(wide, interactive=True).list.rows[0]
    assert sensor_table(Recording([wide]))['name'].is_unique and first == ['zulu_time_sec', 's', None]
    told = Recording([made()], meta=dict(columns=['sim/cockpit2/engine/indicators/N1_percent[0]', 'x', 'y', 'z']))
    assert sensor_table(told)[['name', 'units', 'group']].fillna('').iloc[:2].to_numpy().tolist() == [
        ['sim/cockpit2/engine/indicators/N1_percent[0]', 'percent', 'engine'],
        ['x', '', 'sensors'],
    ]
    assert sensor_table(fleet())['name'].tolist() == ['sensor 0', 'sensor 1', 'sensor 2', 'sensor 3']
    f = FleetBrowser(told, interactive=True)
    f.episode = 0
    assert f.browser.chosen == (0,)


def test_film_and_no_film():
    "The film comes near to what was recorded; a flight without one says so and still has its sensors"
    smooth = np.linspace(0, 255, 64).astype(np.uint8)[:, None, None] + np.zeros((40, 64, 64, 3), np.uint8)
    player = FilmPlayer(smooth)
    sheet = np.asarray(Image.open(io.BytesIO(player.encoded(1))))
    assert sheet.shape == (64, 8 * 64, 3) and abs(sheet[:, :64].astype(int) - smooth[32]).max() < 8
    bare = Episode({'sensors': made().obs['sensors']}, factors=made().factors)
    b = FlightBrowser(bare, TABLE, interactive=True)
    assert (b.player.source['n'], b.player.source['width'], b.player.note) == (300, 0, 'recorded without a camera')
    assert b.player.marks['names'] == [] and len(b.figure().data) > 5
    with pytest.raises(ValueError):
        FlightBrowser(Recording([]))
    with pytest.raises(ValueError, match='sensors'):
        FlightBrowser(Episode(dict(frame=np.zeros((2, 4, 4, 3), np.uint8))))
    unknown = FlightBrowser(
        Episode(dict(sensors=np.random.default_rng(0).random((50, 4), np.float32))), interactive=True
    )  # of nobody's world
    assert (
        unknown.chosen == (0, 1, 2, 3) and unknown.profile.layout.display == 'none' and len(unknown.figure().data) == 4
    )
    with pytest.raises(ValueError):
        plot_flight(unknown.reading.episode)


def test_little_is_sent():
    "At most 2,000 points a trace, extremes among them, however long the flight; NaN and constants too"
    v = np.zeros((50_000, 2), np.float32)
    v[33_333, 0] = 9
    v[:, 1] = np.nan
    fig = plot_traces(v, ['a', 'b'])
    assert all(len(d.x) <= 2000 for d in fig.data) and fig.data[0].y.max() == 9
    line = sparks(v)
    assert line.shape == (2, 48, 2) and line[0].max() == 254 and (line[1] == 255).all()
    assert len(sparks(np.zeros((3, 1)))[0]) == 48  # a flight shorter than the line


def test_fleet():
    f = FleetBrowser(fleet(), sensors=TABLE, interactive=True)
    f.outcome = 'crashed'
    assert f.list.shown == [1] and len(f.found()) == 1 and '1 of 3 flights' in f.flights.words.value
    f.clear()
    f.event = 'none'
    assert f.list.shown == [2]
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
    f.outcome = 'crashed'  # what is filtered out is closed
    assert (f.episode, f.place.layout.display, f.list.picked, f.list.layout.display) == (-1, 'none', [], '')
    f.clear()
    f.episode = 0
    f.flights.next.click()
    assert f.episode == f.browser.episode == 1 and f.list.layout.display == 'none'
    f.flights.back.click()
    assert f.episode == -1 and f.place.layout.display == 'none' and f.list.picked == []
    for trait, wrong in dict(
        outcome='landet', airport='KSEB', split='tests', event='rel_engfir', condition='wind', episode=3
    ).items():
        with pytest.raises(traitlets.TraitError):
            setattr(f, trait, wrong)
    for wrong in ('landings', [made()], None):
        with pytest.raises(ValueError, match=f'Recording or an Episode; got .* .{type(wrong).__name__}.'):
            FleetBrowser(wrong)
        with pytest.raises(ValueError):
            FlightBrowser(wrong)
    with pytest.raises(ValueError, match='2.*3'):
        FleetBrowser(fleet(), fleet_table(fleet())[:2])


def test_told_by_a_table():
    "A table of a stored set opens no flight, and its events win"
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

    whole = Closed([*fleet()], hz=5, factors=KNOWN)
    f = FleetBrowser(whole, table, TABLE, interactive=True)
    assert f.list.rows[0][-1] == ['wind rises'] and find_flights(f.table, event='none').tolist() == [1, 2]
    f.episode = 0
    assert f.browser.events['t'].tolist() == [50] and 'wind rises' in f.browser.facts.value
    assert onsets(made().factors)['t'].tolist() == [150]


def test_words_and_beams_are_those_of_the_recording():
    "Units, words, rate and beams come from the recording; a flight of nobody's world is called by what is known"
    steep = fleet().replace(hz=10, meta=dict(beams=dict(slope=4.5)))
    b = FlightBrowser(steep, TABLE, chosen=['height', 'rel_engfir0'], interactive=True)
    assert b.current().index.tolist() == ['Height', 'engine 1 fire'] and b.hz == 10 and 'from 15 s' in b.facts.value
    assert b.profile.figure.data[1].name == 'glide slope, 4.5°' and '4.5' in b.figure().to_json()
    assert 'wind (kt)' in [c['label'] for c in FleetBrowser(steep, interactive=True).list.columns]
    lone = FlightBrowser(made(), TABLE, interactive=True)
    assert lone.hz == 5 and 'fire <i>from 30 s' in lone.facts.value and 'fire (rel_engfir0)' in lone.parts.named
    assert FleetBrowser(fleet().replace(factors=None), interactive=True).list.rows[0][-1] == ['fire']
    with pytest.raises(ValueError, match='meta.*beams.*slope.*x'):
        FlightBrowser(steep.replace(meta=dict(beams=dict(slope='x'))), TABLE)


def test_a_thousand_flights():
    "The paper's 8,011 flights, as a table tells them: nothing is opened, and the list is there at once"
    rng, n, one = np.random.default_rng(0), 8011, made(T=50)

    class Many(list):
        lengths = np.full(n, 50)

        def __len__(self):
            return n

        def __getitem__(self, i):
            return one

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
    assert f.browser.episodes.episode.max == n - 1  # a menu of so many would be no menu


def test_static(tmp_path):
    "Without a reader to touch them they are figures; a page of them needs no network"
    b, f = FlightBrowser(fleet(), TABLE, interactive=False), FleetBrowser(fleet(), sensors=TABLE, interactive=False)
    for w in b, f:
        assert 'application/vnd.jupyter.widget-view+json' not in w._repr_mimebundle_()
    page = b.to_html(tmp_path / 'flight.html').read_text(encoding='utf-8')
    assert 'Path over the runway' in page and 'engine 1 fire' in page and 'src="http' not in page
    json.loads(plot_flight(made(), [0, 3], TABLE).to_json())
    json.loads(plot_fleet(fleet_table(fleet())).to_json())


# in a browser


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(TUTORIAL, "\nsize = 64     # the test needs no fine film\n")


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    lab.evaluate('globals().update(begun=browser.chosen)')
    return page


START = """[
    *(browser.set_trait(name, value) for name, value in dict(
        group='', search='', varying=True, picture=264, against=-1, chosen=begun).items()),
    browser.seek(0, 0), broken.seek(2, 0), flights.clear(), flights.set_trait('episode', -1)]"""


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


def flight(page, k=0):
    "A browser on the page, all drawn"
    whole = page.locator('.srlviz-flight').nth(k)
    whole.scroll_into_view_if_needed()
    plots = whole.locator('.js-plotly-plot')
    wait_for(
        lambda: plots.count() == 3 and all(p.evaluate('g => !!g._fullLayout?.xaxis?._length') for p in plots.all()),
        message='the three plots are drawn',
    )
    wait_for(
        lambda: whole.locator('.srlviz-player').get_attribute('data-frame') is not None, message='the film is there'
    )
    return whole


def steps(whole):
    return [
        whole.locator('.srlviz-player').get_attribute('data-frame'),
        *(p.get_attribute('data-step') for p in whole.locator('.srlviz-plot').all()),
    ]


def all_at(whole, lab, t, name='browser'):
    wait_for(
        lambda: steps(whole) == [str(t)] * 4 and lab.evaluate(f'{name}.t') == t,
        message=f'film, dots, line and kernel are at {t}',
    )


def go(whole, lab, t, name='browser'):
    "Begin a test at a known step"
    lab.evaluate(f'{name}.seek({name}.episode, {t})')
    all_at(whole, lab, t, name)


def at(plot, x):
    return plot.evaluate(
        '(g, x) => { const r = g.getBoundingClientRect(), l = g._fullLayout; '
        'return [r.left + l.xaxis._offset + l.xaxis.c2p(x), r.top + l.yaxis._offset + l.yaxis._length/2] }',
        x,
    )


@pytest.mark.browser
def test_a_press_on_a_trace(page, lab):
    whole = flight(page)
    go(whole, lab, 10)
    page.mouse.click(*at(whole.locator('.js-plotly-plot').nth(2), 30.0))
    all_at(whole, lab, 150)
    cell = whole.locator('tr[data-name=seconds] td').last
    wait_for(lambda: cell.inner_text() == '30 s', message='the table beside the film follows')
    whole.screenshot(path=SHOTS / 'flight_browser.png')


@pytest.mark.browser
def test_a_drag_on_the_path(page, lab):
    "A drag over the profile takes the film along; let go, the pointer does nothing"
    whole = flight(page)
    go(whole, lab, 10)
    profile, along = (
        whole.locator('.js-plotly-plot').first,
        np.array(lab.evaluate("sound.factors['along_track'].tolist()")) / 1000,
    )
    page.mouse.move(*at(profile, -4))
    page.mouse.down()
    page.mouse.move(*at(profile, -3), steps=4)
    page.mouse.move(*at(profile, -2), steps=4)
    page.mouse.up()
    t = int(
        wait_for(
            lambda: (
                (s := steps(whole))
                and len(set(s)) == 1
                and s[0] != '10'
                and lab.evaluate('browser.t') == int(s[0])
                and s[0]
            ),
            message='film, dots, line and kernel agree',
        )
    )
    assert abs(along[t] + 2) < 0.05
    page.mouse.move(*at(profile, -4), steps=3)
    page.keyboard.press('Shift')  # the page has handled what came before
    assert steps(whole) == [str(t)] * 4


@pytest.mark.browser
def test_play_and_keys(page, lab):
    whole = flight(page)
    go(whole, lab, 20)
    player = whole.locator('.srlviz-player')
    player.locator('[data-do=play]').click()
    wait_for(
        lambda: (
            int(player.get_attribute('data-frame')) > 26
            and lab.evaluate('[browser.player.playing, browser.t > 24]') == [True, True]
        ),
        message='the film runs, and the kernel knows',
    )
    page.keyboard.press('Space')
    wait_for(
        lambda: player.get_attribute('data-playing') == 'false' and lab.evaluate('browser.player.playing') is False,
        message='space stops it',
    )
    t = int(player.get_attribute('data-frame'))
    all_at(whole, lab, t)
    for key, by in (('ArrowRight', 1), ('PageDown', 10), ('ArrowLeft', -1)):
        page.keyboard.press(key)
        t += by
        all_at(whole, lab, t)


@pytest.mark.browser
def test_the_film_is_the_flight(page, lab):
    "What the canvas shows is what the camera saw, up to the loss of JPEG"
    whole = flight(page)
    go(whole, lab, 400)
    drawn = whole.locator('.srlviz-stage canvas').first.evaluate(
        "c => Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data.filter((_, i) => i % 4 < 3))"
    )
    true = np.array(lab.evaluate("sound.obs['frame'][400].ravel().tolist()"))
    assert abs(np.array(drawn) - true).mean() < 6


def rows(whole):
    return int(whole.locator('.srlviz-rows').first.get_attribute('data-shown'))


@pytest.mark.browser
def test_search_and_draw(page, lab):
    "Search, press, and the sensor is drawn; press again, and it is gone"
    whole = flight(page)
    many, before = rows(whole), lab.evaluate('list(browser.chosen)')
    whole.get_by_placeholder('search').fill('PITCH electric pilot')
    wait_for(
        lambda: (
            0 < rows(whole) < many
            and rows(whole) == len(lab.evaluate('browser.list.shown'))
            and lab.evaluate('browser.search') == 'PITCH electric pilot'
        ),
        message='fewer sensors',
    )
    line = whole.locator('.srlviz-item').first
    column, name = int(line.get_attribute('data-row')), line.locator('span').first.inner_text()
    assert column not in before and line.locator('svg path').get_attribute('d')
    line.click()
    wait_for(
        lambda: (
            lab.evaluate('list(browser.chosen)') == [*before, column]
            and name in whole.locator('.js-plotly-plot').nth(2).inner_text()
            and line.get_attribute('aria-selected') == 'true'
        ),
        message='drawn',
    )
    whole.screenshot(path=SHOTS / 'flight_search.png')
    body = whole.locator('.srlviz-rows-body').first
    body.focus()
    page.keyboard.press('Home')
    page.keyboard.press('Enter')
    wait_for(
        lambda: (
            lab.evaluate('list(browser.chosen)') == before
            and name not in whole.locator('.js-plotly-plot').nth(2).inner_text()
        ),
        message='taken away by keyboard',
    )
    whole.get_by_placeholder('search').fill('')
    wait_for(lambda: rows(whole) == many and lab.evaluate('browser.search') == '', message='all sensors again')
    group = whole.locator('.srlviz-sensor-picker .widget-dropdown select').first
    group.select_option(next(o for o in group.locator('option').all_inner_texts() if o.startswith('gauges')))
    wait_for(
        lambda: (
            lab.evaluate('browser.group') == 'gauges' and rows(whole) == len(lab.evaluate('browser.list.shown')) < many
        ),
        message='one group',
    )


@pytest.mark.browser
def test_another_flight(page, lab):
    "The second browser holds three flights; its menu changes film, plots and words"
    whole = flight(page, 1)
    wait_for(
        lambda: (
            lab.evaluate('broken.episode') == 2
            and 'elevator servo' in whole.locator('.srlviz-facts').first.inner_text()
        ),
        message='the flight it began with',
    )
    whole.locator('.widget-dropdown select').first.select_option(index=1)
    wait_for(
        lambda: (
            lab.evaluate('broken.episode') == 1
            and 'engine 2 out' in whole.locator('.srlviz-facts').first.inner_text()
            and 'engine 2 out' in whole.locator('.js-plotly-plot').nth(2).inner_text()
        ),
        message='the engine that failed',
    )
    n = lab.evaluate('len(engine)')
    wait_for(lambda: whole.locator('.srlviz-total').inner_text().strip() == f'/ {n - 1}', message='its own length')
    go(whole, lab, 210, 'broken')
    whole.screenshot(path=SHOTS / 'flight_engine.png')


def dot_off(plot):
    "How far (pixels) the dot of a plot stands from the last of its path that is drawn there"
    return plot.evaluate("""p => { const g = p.querySelector('.js-plotly-plot'), l = g._fullLayout,
            d = p.querySelector('.srlviz-dot'),
            path = g._fullData.find(c => c.name === 'path'), t = +p.dataset.step;
        const k = [...path.customdata].findIndex(c => c[0] === t);
        return Math.hypot(parseFloat(d.style.left) - l.xaxis._offset - l.xaxis.c2p(path.x[k]),
            parseFloat(d.style.top) - l.yaxis._offset - l.yaxis.c2p(path.y[k])) }""")


@pytest.mark.browser
def test_a_narrower_window(page, lab):
    "Drawn again and narrowed, the plots keep their height, and the dots stay on the path"
    whole = flight(page, 1)
    lab.evaluate('broken.seek(1, 0)')
    go(whole, lab, 250, 'broken')
    plots = whole.locator('.js-plotly-plot')
    width = lambda: plots.first.evaluate('g => g._fullLayout.width')
    tall = [p.bounding_box()['height'] for p in plots.all()]
    try:
        for window in (1150, 1240, 1330):
            before = width()
            page.set_viewport_size(dict(width=window, height=1250))
            wait_for(
                lambda: width() != before and all(dot_off(p) < 2 for p in whole.locator('.srlviz-plot').all()[:2]),
                message='the dots follow',
            )
            assert [p.bounding_box()['height'] for p in plots.all()] == tall and min(tall) >= 120
    finally:
        page.set_viewport_size(dict(width=1400, height=1250))


def listed(fleet):
    return (
        fleet.locator('.srlviz-rows')
        .first.locator('.srlviz-item')
        .evaluate_all('rows => rows.map(r => +r.dataset.row)')
    )  # in one look: rows come and go


@pytest.mark.browser
def test_a_fleet(page, lab):
    "Filter, sort, and open a flight"
    fleet = page.locator('.srlviz-fleet')
    fleet.scroll_into_view_if_needed()
    n = lab.evaluate('len(fleet)')
    wait_for(lambda: listed(fleet) == list(range(n)), message='all flights are listed')
    outcome = fleet.locator('.widget-dropdown select').first
    outcome.select_option(next(o for o in outcome.locator('option').all_inner_texts() if o.startswith('Landed')))
    some = lab.evaluate("[i for i, o in enumerate(flights.table['outcome']) if o == 'landed']")
    wait_for(
        lambda: (
            lab.evaluate('flights.outcome') == 'landed'
            and listed(fleet) == some
            and f'{len(some)} of {n} flights' in fleet.inner_text()
        ),
        message='those that landed',
    )
    seconds = lab.evaluate("flights.table['seconds'].tolist()")
    fleet.get_by_role('button', name='sort by seconds').click()
    wait_for(lambda: listed(fleet) == sorted(some, key=lambda i: (round(seconds[i], 1), i)), message='in order of time')
    first = listed(fleet)[0]
    fleet.locator('.srlviz-item').first.click()
    wait_for(
        lambda: (
            lab.evaluate('flights.episode') == first
            and fleet.locator('.srlviz-flight').count() == 1
            and fleet.locator('.srlviz-item.picked').first.get_attribute('data-row') == str(first)
        ),
        message='the flight opens',
    )
    whole = fleet.locator('.srlviz-flight')
    wait_for(
        lambda: (
            whole.locator('.srlviz-player').get_attribute('data-frame') == '0'
            and whole.locator('.js-plotly-plot').count() == 3
        ),
        message='its film and its plots',
    )
    fleet.screenshot(path=SHOTS / 'fleet.png')
    fleet.get_by_role('button', name='back to the list').click()
    wait_for(
        lambda: lab.evaluate('flights.episode') == -1 and listed(fleet) and not whole.is_visible(),
        message='the list again',
    )
    fleet.get_by_role('button', name='all flights').click()
    wait_for(lambda: lab.evaluate('flights.outcome') == '' and len(listed(fleet)) == n, message='all again')


@pytest.mark.browser
def test_what_happened_fits(page, lab):
    "However narrow the list, what does not fit is counted, in sight, and told by the pointer"
    fleet = page.locator('.srlviz-fleet')
    fleet.scroll_into_view_if_needed()
    events, rows = lab.evaluate('[r[-1] for r in flights.list.rows]'), fleet.locator('.srlviz-rows').first
    look = """list => [...list.querySelectorAll('.srlviz-item .tags')].map(c => ({
        row: +c.closest('.srlviz-item').dataset.row, title: c.title, tags: [...c.children].map(t => t.textContent),
        out: [...c.children].some(t => t.getBoundingClientRect().right > list.getBoundingClientRect().right) }))"""

    def fits():
        seen = rows.evaluate(look)  # in one look: rows come and go
        happened = [events[c['row']] for c in seen]
        assert [c['title'] for c in seen] == [', '.join(e) for e in happened]
        return (
            not any(c['out'] for c in seen)
            and all(
                c['tags'] == e or c['tags'][-1] == f"+{len(e) - len(c['tags']) + 1}" for c, e in zip(seen, happened)
            )
            and seen
        )

    try:
        page.set_viewport_size(dict(width=1020, height=1250))
        wait_for(
            lambda: (seen := fits()) and any(c['tags'] and c['tags'][-1].startswith('+') for c in seen),
            message='what does not fit is counted',
        )
        fleet.screenshot(path=SHOTS / 'fleet_narrow.png')
    finally:
        page.set_viewport_size(dict(width=1400, height=1250))


@pytest.mark.browser
def test_alone(opened):
    "No request left this machine, and no script failed, as the notebook ran; `page` sees to it in every test"
    assert opened.errors_on_load == ([], [])
