"""Tests that untrusted text injects nothing: each string that a file may contain is an attack.

They cover every figure, widget, static form and page. A script in a page of JupyterLab can run code on the machine, so
nothing may run, nothing may be requested, and no text may become an element. The first half checks what Python sends;
the second opens everything in a real JupyterLab and a real Chromium, and records what happens.
"""

import importlib, itertools, json, pkgutil, re
from contextlib import suppress
from html.parser import HTMLParser
from types import SimpleNamespace

import gymnasium, ipywidgets as W, numpy as np, pandas as pd, plotly.graph_objects as go, pytest
from gymnasium import spaces
from markupsafe import Markup
from traitlets import TraitError
from support.lab import ROOT, SHORT_TIMEOUTS, SHOTS, reset_page, wait_idle, notebook_of, open_page, wait_for

import srlviz.figures as figures
import srlviz.widgets.base as base
import srlviz.widgets.views as views
from srlviz.core.views.steps import Steps
from srlviz.core.recordings import Episode, Factor, Recording
from srlviz.core.scores import check_scores, score_row
from srlviz.evaluate.prediction.detection import calibration_table, detection_curves
from srlviz.evaluate.prediction.errors import confusion
from srlviz.figures.pictures import figure_bundle
from srlviz.figures.agents.rollouts import Strip
from srlviz.figures.scores.score_map import ScoreLayout

# ---- the attack: each string names the place where it is used


def evil(place: str) -> str:
    """Return a string that tries to leave an attribute, end a script, run a script, load a picture and link away.

    The second half has no slash, comma or underscore, so that code which cuts or rewrites names leaves it whole.
    """
    return (
        f"</script><script data-evil={place}>ran('{place}')</script>\"'><img data-evil={place} src=\"evil-{place}\" "
        f"onerror=\"ran('{place}')\"><a data-evil={place} href=\"http:evil-{place}\">{place}"
    )


MORE_ATTACKS = [
    '<svg onload="ran(1)">',
    '<a href="javascript:ran(2)">x</a>',
    '<a\thref="evil3" target="_self">x</a>',
    "<A HREF='evil4'>x",
    '<a href="http:evil5" popup="width=1">x</a>',
    '<<a href="http:evil6">x',
    '<b><a href="http:evil7">x</a></b>',
    '<b onclick="ran(8)">x</b>',
    '<span style="color:red" onclick="ran(9)">x</span>',
    '<br onmouseover="ran(10)">',
    '<span style="background:url(evil11)">x</span>',
    '<iframe srcdoc="<script>parent.ran(12)</script>"></iframe>',
    '<style>@import "evil13"</style>',
    '{{constructor.constructor("ran(14)")()}}',
    '${ran(15)}',
    '$\\href{javascript:ran(16)}{x}$',
    '&lt;a href="http:evil17"&gt;x&lt;/a&gt;',
    '<details open ontoggle="ran(18)">',
    '<math><a xlink:href="javascript:ran(19)">x',
]

# ---- recordings and tables as read from untrusted files

FACTORS = [evil('factor0'), evil('factor1')]


def film(T: int = 24, **extra_meta) -> Recording:
    "A recording of two episodes with frames and RAM, a mark on the frames, and an evil string in every text field"
    t = np.arange(T)

    def episode(i):
        frame = np.zeros((T, 40, 32, 3), np.uint8) + (t * 3 + i).astype(np.uint8)[:, None, None, None]
        obs = dict(
            frame=frame,
            ram=np.zeros((T, 128), np.uint8) + t.astype(np.uint8)[:, None],
            vector=np.eye(3, dtype=np.float32)[t % 3],
        )
        return Episode(obs, rewards=np.ones(T), factors={FACTORS[0]: t % 7, FACTORS[1]: t / T}, name=evil('episode'))

    factors = [
        Factor(FACTORS[0], evil('group0'), 'categorical', evil('unit0')),
        Factor(FACTORS[1], evil('group1'), 'continuous', evil('unit1')),
    ]
    pixel = dict(
        variable=FACTORS[0], object=evil('object'), axis='x', scale=1.0, offset=2.0, cross=5.0, low=None, high=None
    )
    recording = Recording(
        [episode(0), episode(1)],
        name=evil('recording'),
        hz=5,
        factors=factors,
        meta=dict(pixels=[pixel], game=evil('game')) | extra_meta,
    )
    recording.split = np.array([evil('split'), ''])  # what an overly trusting reader would let through
    for e in recording:
        e.ended = evil('ended')
    return recording


def table(method: str = evil('method'), tasks=('task0', 'task1'), protocol: str = '') -> pd.DataFrame:
    "Scores of two games, and the paper's; for the second game only means are known"
    groups = {FACTORS[0]: evil('group0'), FACTORS[1]: evil('group1'), evil('target'): evil('group1'), 'mean': 'all'}
    methods = [(method, 'none'), ('st_dim', 'none'), ('st_dim', 'standardize')]
    rows = []
    for k, task in enumerate(map(evil, tasks)):
        row = dict(study='atari', task=task, data='random')
        for (target, group), (m, norm), metric in itertools.product(groups.items(), methods, ('f1', 'accuracy')):
            if k == 0 or target == 'mean':
                score = dict(method=m, norm=norm, target=target, group=group, metric=metric)
                rows.append(score_row(**row, **score, protocol=protocol, value=0.5 + 0.1 * k))
        paper = dict(source='paper', method='st_dim', norm='none', seed=-1, metric='f1', value=0.7)
        rows.append(score_row(**row, **paper))
    return check_scores(pd.DataFrame(rows))


def predictions(recording: Recording):
    "Predictions of a probe for the last episode, two of them wrong"
    steps = recording.steps()
    truth = steps[steps['episode'] == 1].set_index(['episode', 't'])[FACTORS]
    predicted = truth.copy()
    predicted.iloc[5, 0] += 3
    predicted.iloc[15, 0] += 2
    return SimpleNamespace(truth=truth, predicted=predicted)


SENSORS = pd.DataFrame(
    dict(
        group=[evil('sensorgroup'), 'gauges', 'gauges'],
        name=[evil('sensor0'), 'sim/' + evil('sensor1'), 'sim/still'],
        units=[evil('sensorunit'), 'knots', ''],
        about=[evil('about'), '', ''],
    )
)


def flights(T: int = 60) -> Recording:
    t = np.arange(T) / 5
    truth = {
        'along_track': -4000 + 70 * t,
        'cross_track': 20 * np.cos(t / 9),
        'height': np.clip(225 - 3.67 * t, 0, None),
        'turbulence': 4.0 * (t >= 5),
        'wind_speed': 7.5,
        evil('timed'): t,
        evil('fixed'): 3.0,
        evil('word'): evil('value'),
        'corner_near_left_x': t,
        'corner_near_left_y': t,
        'outcome': evil('outcome'),
        'reason': evil('reason'),
        'airport': evil('airport'),
        'runway': evil('runway'),
    }
    sensors = np.stack([140 - 0.1 * t, np.sin(t), np.ones(T)], 1).astype(np.float32)

    def flight(k):
        return Episode(
            dict(sensors=sensors + k, frame=np.zeros((T, 24, 24, 3), np.uint8)),
            factors=truth | dict(wind_speed=7.5 + k),
            name=evil('flight'),
        )

    factors = [Factor(n, evil('group'), unit=evil('unit')) for n in truth]
    recording = Recording([flight(0), flight(1)], name=evil('fleet'), hz=5, factors=factors, split=['fit', 'test'])
    recording.split = np.array([evil('flightsplit'), 'test'])
    return recording


def measurements(T: int = 30) -> Recording:
    "A recording of numbers only, whose modality and columns have evil names"
    t = np.arange(T)

    def episode(k):
        return Episode(
            {evil('modality'): np.stack([np.sin(t), t % 7 + k], 1)},
            rewards=np.ones(T),
            factors={FACTORS[0]: t % 2, FACTORS[1]: t / T},
            name=evil('measurement'),
        )

    factors = [
        Factor(FACTORS[0], evil('group0'), 'categorical', names=(evil('no'), evil('yes'))),
        Factor(FACTORS[1], evil('group1'), unit=evil('unit1')),
    ]
    meta = dict(columns=[evil('column0'), evil('column1')])
    return Recording([episode(0), episode(1)], name=evil('numbers'), factors=factors, meta=meta)


def fleet(recording: Recording) -> pd.DataFrame:
    "The table of flights as a manifest holds it, with an unknown event"
    rows = [
        dict(
            flight=i,
            name=evil('flightname'),
            split=evil('rowsplit'),
            seconds=12.0,
            outcome=evil('outcome') if i else 'crashed',
            reason=evil('reason'),
            airport=evil('airport'),
            runway=evil('runway'),
            wind_speed=7.5 + i,
            events=[(2.0, evil('event'), 0.5), (4.0, 'turbulence', 3.0)],
        )
        | {evil('condition'): float(i)}
        for i in range(len(recording))
    ]
    return pd.DataFrame(rows)


class Game(gymnasium.Env):
    "An environment with two actions that have evil names"

    observation_space, action_space = spaces.Box(0, 1, (2,), np.float32), spaces.Discrete(2)
    action_names, render_mode, metadata = (
        (evil('action0'), evil('action1')),
        'rgb_array',
        dict(render_modes=['rgb_array']),
    )

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        if action > 1:
            raise ValueError(evil('move'))
        return np.full(2, 0.5, np.float32), 1.0, False, False, {}

    def render(self):
        return np.zeros((20, 20, 3), np.uint8)


class PairEncoder:
    "An encoder whose loss has parts with evil names"

    def loss_map(self, previous, now):
        return {evil('part0'): np.ones((len(now), 2, 2)), evil('part1'): np.arange(4.0 * len(now)).reshape(-1, 2, 2)}


class FirstFrames:
    "A neighbour search that always returns the first frames"

    def of(self, episode, t, k, apart):
        return pd.DataFrame(dict(episode=[0] * k, t=range(k), distance=np.linspace(0, 1, k)))


def recall_table() -> pd.DataFrame:
    return pd.DataFrame(
        [
            dict(model=m, task=evil('recalltask'), delay=d, accuracy=0.9, chance=0.1)
            for m in ('GRU', evil('model'))
            for d in (1, 2)
        ]
    )


def cost_table() -> pd.DataFrame:
    return pd.DataFrame(
        [
            dict(model=m, metric=k, value=5.0, low=4.0, high=6.0)
            for m in ('GRU', evil('model'))
            for k in ('parameters', evil('costmetric'))
        ]
    )


# ---- every widget in its first state; `interact` then does what a user does


def plain_figure(text: str = evil('text')) -> go.Figure:
    "A figure with untrusted text in every place where plotly shows text"
    names = np.array([text, 'b'], object)
    fig = go.Figure(
        [
            go.Bar(
                x=names,
                y=[1, 2],
                text=names,
                customdata=names,
                name=text,
                hovertemplate='%{x}<br>%{customdata}<extra>%{fullData.name}</extra>',
            ),
            go.Scatter(
                x=names,
                y=[1, 2],
                hovertext=names,
                mode='markers+text',
                text=names,
                name=text,
                textposition='top center',
            ),
            go.Heatmap(
                x=names,
                y=[0, 1],
                z=[[1, 2], [3, 4]],
                text=[[text] * 2] * 2,
                texttemplate='%{text}',
                colorbar_title_text=text,
                xaxis='x2',
                yaxis='y2',
                showlegend=True,
                name=text,
            ),
            go.Pie(labels=names, values=[1, 2], domain=dict(x=[0.8, 1], y=[0.5, 1])),
            go.Table(header=dict(values=[text]), cells=dict(values=[names]), domain=dict(x=[0.8, 1], y=[0, 0.4])),
        ]
    )
    fig.update_layout(
        title=dict(text=text, subtitle_text=text),
        xaxis=dict(title=text, domain=[0, 0.35]),
        xaxis2=dict(title=text, domain=[0.45, 0.7], anchor='y2'),
        yaxis2=dict(anchor='x2'),
        yaxis=dict(title=text, tickvals=[1], ticktext=[text]),
        annotations=[dict(text=text, x=0, y=0, hovertext=text, showarrow=False)],
        legend_title_text=text,
        height=500,
        sliders=[dict(steps=[dict(label=text, method='skip')], currentvalue_prefix=text)],
        updatemenus=[dict(buttons=[dict(label=text, method='skip')])],
        shapes=[dict(type='rect', x0=0, x1=1, y0=0, y1=1, label_text=text)],
        images=[dict(source='http:evil-picture', x=0, y=0, sizex=1, sizey=1)],
    )
    return fig


def code_map(recording: Recording) -> SimpleNamespace:
    "A map of codes whose texts are untrusted"
    steps = recording.steps([])
    return SimpleNamespace(
        episode=steps['episode'].to_numpy(),
        t=steps['t'].to_numpy(),
        xy=np.random.default_rng(0).standard_normal((len(steps), 2)),
        drawn=np.ones(len(steps), bool),
        how='pca',
        axes=(evil('xaxis'), evil('yaxis')),
        description=evil('info'),
    )


def step_scores(recording: Recording) -> pd.DataFrame:
    steps = recording.steps([])
    values = {evil('stepscore'): np.arange(len(steps)) * 1.0, evil('verdict'): [evil('right')] * len(steps)}
    return pd.DataFrame(values, index=pd.MultiIndex.from_frame(steps))


def widgets(interactive: bool) -> dict:
    from srlviz.envs.ram import RAMLab
    from srlviz.memories.recurrent import GRU
    from srlviz.widgets.atari.dashboard import AtariDashboard
    from srlviz.widgets.atari.loss_map import InfoNCEMap, NearestFrames
    from srlviz.widgets.landing.failure_explorer import FailureExplorer
    from srlviz.widgets.frame_browser import FrameBrowser
    from srlviz.widgets.landing.flight_browser import FleetBrowser, FlightBrowser, RowList
    from srlviz.widgets.codes_explorer import CodesExplorer
    from srlviz.widgets.agents.memory_explorer import MemoryExplorer
    from srlviz.widgets.agents.environment_explorer import EnvironmentExplorer, PlayWidget
    from srlviz.widgets.probe_heatmap import ProbeHeatmap
    from srlviz.widgets.qedr_matrix import QEDRMatrix
    from srlviz.widgets.atari.ram_explorer import RAMExplorer
    from srlviz.widgets.landing.reconstruction_browser import ReconstructionBrowser
    from srlviz.widgets.agents.mmer_dashboard import MMERDashboard
    from srlviz.widgets.sensor_browser import SensorBrowser
    from srlviz.widgets.table import TableBrowser
    from srlviz.widgets.landing.target_board import TargetTable
    from srlviz.widgets.workbench import Workbench

    options = dict(interactive=interactive)
    recording = film()
    results = {evil('method'): predictions(recording), 'st_dim': predictions(recording)}

    def open_game(game):
        if game == evil('task0'):
            return None, recording
        raise FileNotFoundError(evil('error'))

    def fail(obs):
        raise ValueError(evil('problem'))

    def predict(recording, box):
        return pd.DataFrame(dict(address=[49, 3], variable=[evil('label0'), ''], r2=[0.9, 0.1]))

    def equal_saliency(memory, x, starts, of=None):
        return np.tril(np.ones((len(x), len(x))))

    lab = RAMLab('pong', seed=0, steps=20)
    lab.labels = pd.DataFrame(dict(game='pong', variable=[evil('label0'), evil('label1')], address=[49, 54]))
    lab.game, lab.actions = evil('ramgame'), tuple(evil(f'act{i}') for i, _ in enumerate(lab.actions))
    fleet_recording = flights()
    maps = {evil('codes'): code_map(recording), 'st_dim': code_map(recording)}
    explorer = CodesExplorer(maps, recording, scores=step_scores(recording), beside='st_dim', **options)
    explorer.tag(evil('maptag'))
    built = dict(
        FrameBrowser=FrameBrowser(recording, **options),
        ProbeHeatmap=ProbeHeatmap(
            table(), results, recording, task=evil('task0'), method=evil('method'), factor=FACTORS[0], **options
        ),
        AtariDashboard=AtariDashboard(table(), open_game, task=evil('task0'), factor=FACTORS[0], **options),
        Failing=AtariDashboard(table(), lambda game: fail(game), task=evil('task0'), factor=evil('target'), **options),
        RAMExplorer=RAMExplorer(lab, recording, predict, **options),
        InfoNCEMap=InfoNCEMap(PairEncoder(), recording, n_pairs=4, **options),
        NearestFrames=NearestFrames(
            {evil('method'): FirstFrames(), 'st_dim': FirstFrames()}, recording, k=3, **options
        ),
        PlayWidget=PlayWidget(Game(), **options),
        EnvironmentExplorer=EnvironmentExplorer(
            'RepeatPrevious-easy',
            {evil('policy'): lambda obs: 0, evil('badpolicy'): fail},
            policy=evil('policy'),
            episodes=1,
            **options,
        ),
        MemoryExplorer=MemoryExplorer(
            {evil('model'): GRU, 'GRU': GRU},
            {evil('stream'): recording[0]},
            saliency=equal_saliency,
            recall=recall_table(),
            cost=cost_table(),
            n_hidden=3,
            steps=30,
            **options,
        ),
        MMERDashboard=MMERDashboard(
            returns(), {(evil('task'), evil('memory')): fail}, task=evil('task'), method=evil('memory'), **options
        ),
        SensorBrowser=SensorBrowser(measurements(), chosen=[0, 1, *FACTORS], **options),
        TableBrowser=TableBrowser(pd.DataFrame({evil('heading'): [evil('entry'), 'b']}), **options),
        FlightBrowser=FlightBrowser(fleet_recording, SENSORS, chosen=[0, 1, evil('timed')], **options),
        FleetBrowser=FleetBrowser(fleet_recording, fleet(fleet_recording), SENSORS, episode=1, **options),
        TargetTable=TargetTable(target_scores(), window_predictions(), fleet_recording, **options),
        FailureExplorer=FailureExplorer(window_predictions(), fleet_recording, **options),
        ReconstructionBrowser=ReconstructionBrowser(
            Recording(list(fleet_recording), name=evil('copy'), hz=5),
            {evil('encoder'): RepeatingEncoder(), evil('badencoder'): RepeatingEncoder(evil('encoding'))},
            **options,
        ),
        CodesExplorer=explorer,
    )
    codes = [np.arange(2.0 * len(e)).reshape(-1, 2) for e in recording]
    built['QEDRMatrix'] = QEDRMatrix(
        {evil('method'): [qedr_result(), qedr_result(0.1)]}, codes, recording.replace(split=None), **options
    )
    panes = {evil('tab'): FrameBrowser(recording, **options)}
    built['Workbench'] = Workbench(table(), None, recording, maps=maps, panes=panes, histograms=FACTORS, **options)
    built['Workbench'].map.tag(evil('benchtag'))
    if not interactive:
        return built
    pictures = np.asarray(recording[0].obs['frame'])
    player = views.FramePlayer(note=evil('note'))
    player.show(
        pictures,
        label=evil('film'),
        names=[evil('mark')],
        labels=[evil('marklabel')],
        colors=[evil('colour')],
        xy=np.zeros((len(pictures), 1, 2)),
        table=[dict(name=evil('row'), group=evil('rowgroup'), unit=evil('rowunit'))],
        table_values=np.zeros((len(pictures), 1)),
    )
    picker = views.FramePicker(label=evil('picker'))
    picker.show(pictures[:2], [evil('caption'), 'b'])
    columns = [
        dict(label=evil(f'column{k}'), kind=k, width=f'1fr; background: url(evil-{k})', title=evil(f'title{k}'))
        for k in ('text', 'number', 'tags', 'outcome')
    ]
    rows = RowList(
        columns=columns,
        rows=[[evil('cell'), evil('number'), [evil('tag')], [evil('kind'), evil('outcome')]]],
        shown=[0],
        titles=[evil('rowtitle')],
        label=evil('rows'),
        empty=evil('empty'),
        header=True,
    )
    status = base.SafeHTML()
    with pytest.raises(ValueError), base.busy(status, evil('work')):
        raise ValueError(evil('failure'))
    return built | dict(
        PlotView=views.PlotView(plain_figure(), label=evil('plot')),
        FramePlayer=player,
        FramePicker=picker,
        RowList=rows,
        busy=status,
        More=views.PlotView(plain_figure(' '.join(MORE_ATTACKS))),
    )


def interact(w: dict):
    "Do what a user does to change the texts of the widgets. A generator, so that a page can draw each step"
    heat = w['ProbeHeatmap']
    board = w['AtariDashboard']
    failing = w['Failing']
    ram = w['RAMExplorer']
    near = w['NearestFrames']
    environment = w['EnvironmentExplorer']
    heat.side.predictions.confusion_button.value = True
    heat.side.film.picker.picked = 0
    heat.side.film.picker.picks += 1
    yield
    heat.heat.clicked = dict(n=1, data=[evil('group0'), FACTORS[0], 'paper', 'st_dim'])
    heat.choose(evil('target'), evil('method'))
    yield
    board.factor = FACTORS[1]
    board.detail.probe.heat.clicked = dict(n=1, data=[evil('group1'), evil('target'), 'srlviz', evil('method')])
    yield  # a factor that is not in the recording
    board.task = evil('task1')  # no score of a single factor
    yield
    board.view, board.task = 'conditioning', evil('task0')
    failing.frames.press.click()
    failing.view = 'ranks'
    ram.grid.find()
    ram.region.find_bytes()
    ram.view = 'region'
    ram.address = 49
    yield
    ram.lab.effects = lambda: (_ for _ in ()).throw(ValueError(evil('emulator')))
    with pytest.raises(ValueError):
        ram.grid.find()
    near.lookup.neighbours = dict.fromkeys(
        near.lookup.neighbours, SimpleNamespace(of=lambda *_, **__: (_ for _ in ()).throw(ValueError(evil('search'))))
    )
    near.t = 3  # the status line shows the error
    with suppress(TraitError):
        environment.policy = evil('badpolicy')  # cannot play; the random policy does
    yield
    w['InfoNCEMap'].part = evil('part1')
    w['PlayWidget'].act(1)
    with pytest.raises(ValueError):
        w['PlayWidget'].act(7)
    w['MemoryExplorer'].method = 'GRU'
    w['MemoryExplorer'].against = evil('model')
    with pytest.raises(ValueError):
        w['MMERDashboard'].playing = True  # a task that cannot be created
    yield
    w['MMERDashboard'].show, w['MMERDashboard'].view = 'difference', 'ranking'
    w['MMERDashboard'].task = 'all'
    w['SensorBrowser'].against = 1
    w['SensorBrowser'].search = 'evil'
    w['FleetBrowser'].outcome = evil('outcome')
    w['FleetBrowser'].episode = 0
    w['FlightBrowser'].search = 'evil'
    yield
    w['TargetTable'].press(dict(data=[evil('inputs'), 'mte', 64, 'paper', 'wind']))
    w['TargetTable'].group = 'failures'
    w['TargetTable'].open_window(1)
    w['FailureExplorer'].open_row(0)
    w['QEDRMatrix'].by = FACTORS[1]
    w['QEDRMatrix'].points.clicked = dict(n=1, data=[1, 3])
    assert w['QEDRMatrix'].moment is not None
    with pytest.raises(ValueError):
        w['ReconstructionBrowser'].method = evil('badencoder')  # the status line shows the error
    w['CodesExplorer'].pane.view.hovered = dict(curve=0, i=3, data=[3, 0, 3], n=1)
    w['CodesExplorer'].select_episode()
    w['CodesExplorer'].factor = evil('verdict')
    w['CodesExplorer'].tag(evil('othertag'))
    bench = w['Workbench']
    bench.filter.bars.pressed = dict(name=FACTORS[0], bins=[1], extend=False, n=1)
    assert 0 < len(bench.steps) < bench.recording.n_steps and bench.map.described()
    bench.factor = FACTORS[1]
    bench.map.pane.view.hovered = dict(curve=0, i=3, data=[3, 0, 3], n=1)
    bench.explorers['Scores'].heat.clicked = dict(n=1, data=[evil('task0'), evil('method')])
    bench.left = evil('tab')
    yield


# ---- what Python sends

TAGS = {'span', 'b', 'i', 'pre', 'code', 'div', 'table', 'thead', 'tbody', 'tr', 'td', 'th', 'details', 'summary'}
CLASSES = {'badge', 'srlviz-facts', 'srlviz-hint', 'srlviz-gain', 'srlviz-loss', 'srlviz-zero'}
PLOTLY = re.compile(
    r'<[\s/<]*(?:(?:a|img|script|svg|iframe|style|details|math)\b|(?:b|br|span)\s[^>]*(?:on\w+=|url))', re.I
)


class ElementCollector(HTMLParser):
    "Parser that collects the elements and attributes of an HTML text"

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or '') for name, value in attrs]


def unsafe_html(text: str) -> list[str]:
    "Return the elements and attributes that srlviz does not write itself"
    parsed = ElementCollector(text)
    foreign = [tag for tag in parsed.tags if tag not in TAGS]
    allowed = dict(
        role=re.compile('status|alert|note'),
        style=re.compile('[-a-zA-Z0-9:;,.%# ]*'),
        scope=re.compile('row'),
        open=re.compile(''),
        **{
            'class': re.compile('|'.join(CLASSES)),
            'aria-busy': re.compile('true|false'),
            'data-outcome': re.compile('(?s).*'),
        },
    )
    return foreign + [
        f'{tag} {name}={value}'
        for tag, name, value in parsed.attributes
        if name not in allowed or not allowed[name].fullmatch(value)
    ]


def strings(x):
    if isinstance(x, str):
        yield x
    elif isinstance(x, dict):
        yield from itertools.chain(*map(strings, x.values()), *map(strings, x))
    elif isinstance(x, (list, tuple)):
        yield from itertools.chain(*map(strings, x))
    elif isinstance(x, np.ndarray):
        yield from strings(x.tolist())


def unsafe_figure(content) -> list[str]:
    "Return texts that plotly would read as more than bold, italic and line breaks, and the sources of remote pictures"
    content = json.loads(content) if isinstance(content, str) else content
    pictures = [i.get('source', '') for i in (content.get('layout', {}).get('images') or [])]
    return [t for t in strings(content) if PLOTLY.search(t)] + [
        p for p in pictures if p and not p.startswith('data:image/')
    ]


def parts(widget) -> list:
    return [widget, *itertools.chain.from_iterable(map(parts, getattr(widget, 'children', ())))]


def unsafe(widget) -> list[str]:
    "Return everything unsafe that a widget and its parts send to a page"
    found = []
    for w in parts(widget):
        if isinstance(w, (W.HTML, W.HTMLMath, W.Label)):
            found += unsafe_html(w.value)
        if isinstance(w, views.PlotView):
            found += unsafe_figure(w.fig_json)
        if getattr(w, 'description_allow_html', False):
            found.append(f'{w} takes HTML for a description')
        found += [f'class {c}' for c in getattr(w, '_dom_classes', ()) if 'evil' in c]
        if 'evil' in str(getattr(w, 'description', '')):  # descriptions are typeset
            found.append(f'description {w.description}')
    return found


def parts_not_creatable(widget) -> list[str]:
    "Return the parts that a page cannot create, because an attribute such as `keys` hides one that ipywidgets needs"
    required = {'_model_module', '_model_name', '_view_module', '_view_name'}
    return [repr(w) for w in parts(widget) if not required <= set(w.get_state())]


def test_part_that_no_page_can_create_is_detected():
    class Hiding(W.HTML):
        keys = ['value']

    assert parts_not_creatable(W.VBox([W.HBox([Hiding()])])) and parts_not_creatable(W.VBox([W.HBox([W.HTML()])])) == []


def test_checks_detect_an_attack():
    "The checks that the tests below rely on find an attack where there is one"
    assert (
        unsafe_html(evil('x'))
        and unsafe_html('<b onclick=x>')
        and unsafe_html('<span style="background:url(x)">')
        and unsafe_html('<span class="jp-x">')
    )
    assert not unsafe_html('<span role="status" aria-busy="true">a &lt;img&gt; <b>x</b></span>')
    assert (
        unsafe_figure(plain_figure().to_dict())
        and unsafe_figure(plain_figure('<a href="x">').to_dict())
        and unsafe_figure(dict(layout=dict(images=[dict(source='http:x')])))
    )
    assert (
        unsafe(W.VBox([W.HTML(evil('x'))]))
        and unsafe(W.Button(description=evil('x')))
        and not unsafe(W.HTML(Markup('{}').format(evil('x'))))
    )


def target_scores() -> pd.DataFrame:
    "Scores of an untrusted encoder on a target and on a failure, and the paper's"
    row = dict(study='landing', task='approach', target='wind', group='targets', metric='mse', value=0.5, seed=0)
    row |= dict(source='srlviz', inputs=evil('inputs'), n_codes=64, protocol=evil('head'))
    rows = [row | dict(method=evil('method')), row | dict(method='mean_baseline', n_codes=0, inputs='')]
    rows += [r | dict(group='failures', target=evil('broken'), metric='auroc') for r in rows]
    rows += [row | dict(method='mte', source='paper', seed=-1, protocol='')]
    return check_scores(pd.DataFrame(rows).assign(data='', norm='', budget=0))


def window_predictions() -> dict:
    "Predictions of a head for windows of the flights, with evil names"
    windows = pd.DataFrame(dict(flight=evil('flight'), episode=[0, 0, 1, 1], start=[0, 20, 0, 20]))
    broken = np.array([0.0, 1, 0, 1])[:, None]
    predictions = SimpleNamespace(
        windows=windows,
        names=dict(wind=['wind'], fail=[evil('broken')]),
        truth=dict(wind=broken + 4, fail=broken),
        predicted=dict(wind=broken * 2, fail=broken[::-1] / 2),
        units=lambda target, z: z,
        present=pd.DataFrame({evil('broken'): broken[:, 0] > 0}),
    )
    return {(evil('method'), 64, evil('inputs')): predictions}


class RepeatingEncoder:
    "An encoder that reconstructs every row as the first one, or raises an error with the text `fault`"

    def __init__(self, fault: str = ''):
        self.fault = fault

    def reconstruct(self, recording):
        if self.fault:
            raise ValueError(self.fault)
        return [{k: np.repeat(np.asarray(v[:1]), len(e), 0) for k, v in e.obs.items()} for e in recording]


QEDR_PARTS = ('disentanglement', 'completeness', 'informativeness')


def dci_scores() -> dict:
    "Disentanglement, completeness and informativeness of two codes and the factors"
    return dict(
        disentanglement=SimpleNamespace(overall=0.5, per_code=[0.5, 1.0], share=[0.4, 0.6]),
        completeness=SimpleNamespace(overall=0.5, per_factor=[0.5, 0.5]),
        informativeness=SimpleNamespace(overall=0.5, per_factor=[0.5, 0.5], train=[0.4, 0.4]),
    )


def qedr_result(alpha: float = 0.02) -> SimpleNamespace:
    "QEDR scores of a lasso on codes of the film, with evil names"
    importance = pd.DataFrame([[1.0, 0.5], [0, 2]], columns=FACTORS)
    return SimpleNamespace(
        importance=importance,
        weights=-importance,
        regressor='lasso',
        alpha=alpha,
        constant=(evil('constant'),),
        **dci_scores(),
    )


def returns() -> pd.DataFrame:
    "Returns of a memory and a task with evil names: our scores, the learning curve, random play, and the paper's"
    row = dict(study='popgym', task=evil('task'), method=evil('memory'), target='return', group='all')
    rows = [row | dict(source='srlviz', seed=s, metric='mmer', value=0.5 + s / 9) for s in (0, 1)]
    rows += [row | dict(source='srlviz', seed=0, metric='epoch_return', budget=b, value=0.1) for b in (10, 20)]
    rows += [row | dict(source='paper', seed=-1, metric=m, value=0.3) for m in ('mmer', 'mmer_std')]
    rows += [row | dict(source='srlviz', method=m, seed=0, metric='return', value=0.2) for m in ('random', 'oracle')]
    rows += [r | dict(task=evil('other')) for r in rows]
    defaults = dict(data='', inputs='', n_codes=0, norm='', protocol='', budget=0)
    return check_scores(pd.DataFrame([defaults | r for r in rows]))


def edit_scene():
    "A scene of an agent whose names and words are evil"
    line = dict(saw=[evil('saw')], truth=[0], posterior=[[1.0, 0.0]], belief=[[1.0, 0.0]], policy=[[1.0, 0.0]])
    line |= dict(chosen=[0], right=[1], total=1.0)
    signs = [evil('s0'), evil('s1')]
    panel = dict(name=evil('agent'), original=line, edited=line, edits=[dict(t=0, value=1)], sentence=evil('words'))
    factors = [dict(name='f', label=evil('label'))]
    return dict(factors=factors, factor='f', signs=signs, action_signs=signs, panels=[panel])


def response_table():
    "The matrix of an answer to `response`, of evil factors"
    pairs = [(evil(a), evil(b)) for a in 'xy' for b in 'xy']
    rows = [dict(changed=a, read=b, response=0.5, low=0.4, high=0.6, moves=0.5, n=3, follows=False) for a, b in pairs]
    return pd.DataFrame(rows)


FIGURES = dict(
    plot_loss_map=lambda f: f(
        np.ones((2, 2)),
        np.zeros((80, 80), np.uint8),
        np.zeros((80, 80), np.uint8),
        captions=[evil('a'), evil('b'), evil('c')],
        title=evil('t'),
    ),
    plot_patches=lambda f: f([np.zeros((8, 8), np.uint8)], [evil('caption')], title=evil('t')),
    plot_neighbours=lambda f: f(
        np.zeros((8, 8), np.uint8),
        {evil('m'): FirstFrames().of(0, 0, 2, 0).assign(**{evil('f'): 1.0})},
        {evil('m'): [np.zeros((8, 8), np.uint8)] * 2},
        caption=evil('c'),
        factors=pd.Series({evil('f'): 2.0}),
        title=evil('t'),
    ),
    plot_ram=lambda f: f(
        np.arange(128),
        pd.DataFrame(dict(variable=[evil('v')], address=[3])),
        previous=np.zeros(128),
        selected=3,
        title=evil('t'),
    ),
    plot_effects=lambda f: f(
        pd.DataFrame(
            [
                dict(address=a, variable=evil('v'), n_pixels=4, x0=0, y0=0, x1=2, y1=2, dx=1.0, dy=1.0)
                for a in range(128)
            ]
        ),
        title=evil('t'),
    ),
    plot_difference=lambda f: f(np.zeros((8, 8), np.uint8), np.ones((8, 8), np.uint8), captions=[evil('a'), evil('b')]),
    plot_gallery=lambda f: f({evil('k'): {evil('n'): np.zeros((8, 8, 3), np.uint8)}}, title=evil('t')),
    plot_predictors=lambda f: f(pd.DataFrame(dict(address=[3], variable=[evil('v')], r2=[0.5])), title=evil('t')),
    plot_matrix=lambda f: f(
        pd.DataFrame({evil('q'): [0.5, np.nan]}, index=[evil('m'), 'b']),
        pd.DataFrame({evil('q'): [1.0, np.nan]}, index=[evil('m'), 'b']),
        metrics={evil('q'): evil('metric')},
        names={evil('q'): evil('n')},
        reasons={('b', evil('q')): evil('reason')},
        title=evil('t'),
    ),
    plot_agreement=lambda f: f(
        pd.DataFrame(dict(a=[(evil('a'), 'x')], b=[evil('b')], value=[0.5], low=[0.1], high=[0.9], n=[4])),
        title=evil('t'),
    ),
    plot_frame=lambda f: f(
        np.zeros((8, 8), np.uint8), pd.DataFrame(dict(name=[evil('n')], x=[1.0], y=[2.0])), title=evil('t')
    ),
    plot_factor_strip=lambda f: f([1, 2], name=evil('n'), unit=evil('u')),
    plot_code_map=lambda f: f(
        code_map(film(4)),
        [evil('v'), 'b'] * 4,
        name=evil('n'),
        tags={evil('tag'): Steps([0], [2])},
        steps=Steps([1], [2]),
        title=evil('t'),
    ),
    plot_contact_sheet=lambda f: f(
        [np.zeros((8, 8), np.uint8)] * 2,
        marks=pd.DataFrame(dict(t=[0], name=[evil('n')], x=[1.0], y=[2.0])),
        captions=[evil('c'), 'd'],
        values=[1, 2],
        name=evil('n'),
        unit=evil('u'),
        title=evil('t'),
    ),
    plot_games_heatmap=lambda f: f(table(), selected=(evil('task0'), evil('method')), paper=[]),
    plot_categories=lambda f: f(table()),
    plot_conditioning=lambda f: f(table('vae')),
    plot_rank_change=lambda f: f(table(protocol=evil('variant'))),
    plot_ablations=lambda f: f(table('global_t_dim'), by='game'),
    plot_learning_curve=lambda f: f(
        pd.DataFrame([dict(label=evil('m'), n_frames=n, value=0.5, low=0.4, high=0.6, n_seeds=3) for n in (10, 20)]),
    ),
    plot_scores=lambda f: f(
        table(),
        'task',
        'label',
        metric='f1',
        layout=ScoreLayout(score_words=evil('s'), unit=evil('u'), title=evil('t'), notes=[evil('n')]),
        means=True,
    ),
    plot_intervals=lambda f: f(pd.DataFrame(dict(label=[evil('m')], value=0.5, series=evil('s'))), axis=evil('axis')),
    plot_profile=lambda f: f(
        pd.DataFrame(dict(method=evil('m'), threshold=[0, 1], share=[1, 0])), axis=evil('axis'), title=evil('t')
    ),
    plot_confusion=lambda f: f(confusion([0, 1], [1, 1]), factor=evil('v'), method=evil('m')),
    plot_traces=lambda f: f(np.ones((9, 2)), [evil('n'), 'b'], [evil('u'), ''], events=EVENT, title=evil('t')),
    plot_descent=lambda f: f(flights()[0], events=EVENT),
    plot_map=lambda f: f(flights()[0], events=EVENT),
    plot_film=lambda f: f(flights()[0], title=evil('t')),
    plot_flight=lambda f: f(flights()[0], [0, 1], SENSORS, events=EVENT),
    plot_fleet=lambda f: f(fleet(flights())),
    plot_progress=lambda f: f(failed_trials()),
    plot_curves=lambda f: f(
        pd.DataFrame(dict(label=evil('m'), steps=[1, 2], value=0.5)),
        'steps',
        axes=(evil('x'), evil('y')),
        title=evil('t'),
    ),
    plot_run_curves=lambda f: f(
        pd.DataFrame(dict(key=['k0', 'k0'], step=[1, 2], name=evil('loss'), value=0.5)), failed_trials(), evil('loss')
    ),
    plot_failures=lambda f: f(failed_trials()),
    plot_returns_heatmap=lambda f: f(returns(), selected=(evil('task'), evil('memory'))),
    plot_return_bars=lambda f: f(returns(), evil('task'), highlight=evil('memory')),
    plot_return_curves=lambda f: f(returns()),
    plot_return_boxes=lambda f: f(returns()),
    plot_return_ranking=lambda f: f(returns(), highlight=evil('memory')),
    plot_memory_returns=lambda f: f(returns(), evil('memory')),
    plot_paper_agreement=lambda f: f(returns(), selected=(evil('task'), evil('memory'))),
    plot_return_profiles=lambda f: f(
        pd.DataFrame(dict(method=evil('m'), threshold=[0, 1], share=[1, 0], low=0, high=1))
    ),
    plot_target_table=lambda f: f(target_scores(), selected=(evil('inputs'), evil('method'), 64, 'ours', 'wind')),
    plot_target_gains=lambda f: f(
        pd.DataFrame(
            dict(
                method=evil('method'),
                n_codes=64,
                inputs=[evil('inputs'), evil('other')],
                target=evil('target'),
                value=0.1,
                low=0.0,
                high=0.2,
            )
        ),
        title=evil('title'),
    ),
    plot_target_ranking=lambda f: f(target_scores(), 'wind', selected=(evil('inputs'), evil('method'), 64)),
    plot_predicted=lambda f: f(
        np.ones(2), np.zeros(2), pd.DataFrame(dict(flight=evil('flight'), start=[0, 5])), name=evil('n'), unit=evil('u')
    ),
    plot_sensor_predictions=lambda f: f(np.ones((9, 2)), np.zeros((9, 2)), [evil('n'), 'b'], [evil('u'), '']),
    plot_errors=lambda f: f({evil('what'): {evil('m'): np.ones(9), 'b': np.ones(9)}}),
    plot_reconstruction=lambda f: f(*[np.zeros((4, 8, 8), np.uint8)] * 2, title=evil('t')),
    plot_failure_curves=lambda f: f(
        {evil('m'): detection_curves([True, False], [1.0, 0.0])}, threshold=0.5, title=evil('t')
    ),
    plot_both_kinds=lambda f: f([True, False], [1.0, 0.0], 0.5, title=evil('t')),
    plot_calibration=lambda f: f(
        {evil('m'): calibration_table([1.0, 0.0], [1.0, 0.0])}, axes=(evil('x'), evil('y')), title=evil('t')
    ),
    plot_qedr_matrix=lambda f: f(
        qedr_result().importance, constant=[evil('constant')], **dci_scores(), title=evil('t')
    ),
    plot_alpha_curve=lambda f: f(pd.DataFrame(dict(alpha=[0.01, 0.1], n_used=[2, 1]) | dict.fromkeys(QEDR_PARTS, 0.5))),
    plot_code_factor=lambda f: f(
        [1.0, 2.0],
        [0, 1],
        [evil('value'), 'b'],
        names=(evil('no'), evil('yes')),
        title=evil('n'),
        by_title=evil('third'),
    ),
    plot_recall=lambda f: f(recall_table(), title=evil('t')),
    plot_recall_map=lambda f: f(recall_table(), title=evil('t')),
    plot_cost=lambda f: f(cost_table(), title=evil('t')),
    plot_state=lambda f: f(np.eye(4)),
    plot_saliency=lambda f: f(np.eye(4), title=evil('t')),
    plot_weights=lambda f: f([1.0, 2], other=[1, 1], names=(evil('n'), evil('o'))),
    plot_observability_gap=lambda f: f(gap_table()),
    plot_gap_closed=lambda f: f(
        pd.DataFrame(dict(method=[evil('m')], closed=0.5, low=0.1, high=0.9, pooled=0.5, tasks=2))
    ),
    plot_contamination=lambda f: f(
        pd.DataFrame(dict(method=[evil('m')] * 2, quantity='policy', t=[0, 1], median=0.5, low=0.0, high=1.0)),
        title=evil('t'),
    ),
    plot_credit=lambda f: f(np.eye(3), np.eye(3, dtype=bool), title=evil('t')),
    plot_credit_shares=lambda f: f(
        pd.DataFrame(dict(method=[evil('m')], of='policy', share=0.5, chance=0.1, task=evil('task0')))
    ),
    plot_edits=lambda f: f(edit_table(), title=evil('t')),
    plot_edit_curves=lambda f: f(edit_table(), title=evil('t')),
    plot_edited_play=lambda f: f(edit_scene(), title=evil('t')),
    plot_readings=lambda f: f({evil('m'): [(np.arange(3.0), np.ones(3))]}, factor=evil('v'), title=evil('t')),
    plot_responses=lambda f: f(response_table()),
    plot_probe_heatmap=lambda f: f(table(), game=evil('task0'), selected=(FACTORS[0], evil('method'))),
    plot_probe_trace=lambda f: f([0, 1], [1, 1], factor=evil('v'), method=evil('m')),
    plot_rollout=lambda f: f(
        np.ones(3),
        {evil('heading'): Strip(np.ones((3, 1)), [evil('n')], [evil('g')], {evil('n'): [evil('v0'), evil('v1')]})},
        name=evil('player'),
        against={evil('other'): np.ones(2)},
        title=evil('t'),
    ),
)


def failed_trials() -> pd.DataFrame:
    "Two failed trials whose parameters and errors are evil"
    return pd.DataFrame(
        dict(key=['k0', 'k1'], status='failed', method=[evil('m'), evil('n')], started=1.0, error=evil('error'))
    )


def edit_table() -> pd.DataFrame:
    "A table as the question edit has it, with an evil factor and an evil direction"
    row = dict(factor=evil('factor'), direction=evil('m'), shift=1.0, cosine=0.5, length=1.0)
    row |= {column + end: 0.5 for column in ('success', 'other') for end in ('', '_low', '_high')}
    return pd.DataFrame([row, row | dict(direction='twin')])


def gap_table() -> pd.DataFrame:
    "A table as `gap_closed` returns it, with evil names of tasks and of the method"
    row = dict(
        task=evil('task0'), method=evil('m'), value=0.5, blind=0.0, fully_observable=1.0, gap=1.0, closed=0.5, reason=''
    )
    row |= dict(twin=evil('twin'))
    return pd.DataFrame([row, row | dict(task=evil('task1'), closed=np.nan, reason=evil('reason'))])


EVENT = pd.DataFrame(dict(t=[3], name=[evil('event')], value=[1.0], text=[evil('eventtext')]))


def plot_functions() -> dict:
    modules = [m.name for m in pkgutil.walk_packages(figures.__path__, f'{figures.__name__}.') if not m.ispkg]
    found = [importlib.import_module(name) for name in modules]
    return {name: getattr(m, name) for m in found for name in m.__all__ if name.startswith('plot_')}


# figures that show no name from the caller
NAMELESS = {
    'plot_ablations',
    'plot_alpha_curve',
    'plot_conditioning',
    'plot_progress',
    'plot_rank_change',
    'plot_state',
}


def test_every_figure_is_tested():
    assert set(FIGURES) == set(plot_functions())


@pytest.mark.parametrize('name', FIGURES)
def test_figure_is_safe(name):
    "Each figure is safe as plotly displays it, without a widget"
    fig = FIGURES[name](plot_functions()[name])
    assert 'evil' in fig.to_json() or name in NAMELESS
    assert unsafe_figure(fig.to_dict()) == []


def test_texts_set_after_styling_are_safe():
    fig = figures.style.style(go.Figure()).update_layout(title=evil('late')).add_annotation(text=evil('later'))
    assert (
        unsafe_figure(views.PlotView(fig).fig_json) == []
        and unsafe_figure(figure_bundle(fig)['application/vnd.plotly.v1+json']) == []
    )


@pytest.mark.parametrize('attack', MORE_ATTACKS)
def test_more_attacks_are_escaped(attack):
    status = base.SafeHTML(attack)
    view = views.PlotView(plain_figure(attack))
    assert unsafe(status) == [] and unsafe(view) == [] and ElementCollector(status.value).tags == []
    status.show_message(attack, attack)
    parsed = ElementCollector(status.value)
    assert parsed.tags == ['span'] and [a[:2] for a in parsed.attributes] == [('span', 'role')]


@pytest.mark.parametrize('name', ['score<10', 'score&lt;10', 'a<b>c', *map(evil, 'ab'), *MORE_ATTACKS])
def test_press_returns_the_original_name(name):
    "A name as the page holds it is translated back to the name in the table"
    view = views.PlotView(go.Figure(go.Heatmap(z=[[1.0]], customdata=[[[name, 'srlviz', name]]])))
    sent = json.loads(view.fig_json)['data'][0]['customdata'][0][0]
    view.set_state(dict(clicked=dict(curve=0, i=[0, 0], data=sent, n=1)))
    assert view.clicked['data'] == [name, 'srlviz', name]


def test_press_on_an_escaped_name_selects_it():
    "A dashboard whose names must be translated reacts to a press like any other"
    from srlviz.widgets.atari.dashboard import AtariDashboard

    board = AtariDashboard(table(), task=evil('task0'), interactive=True)
    cells = json.loads(board.detail.probe.heat.fig_json)['data'][0]['customdata']
    cell = next(c for row in cells for c in row if views.original(c[1]) == FACTORS[1] and c[2] == 'srlviz')
    board.detail.probe.heat.set_state(dict(clicked=dict(n=1, data=cell)))
    assert board.factor == FACTORS[1]


# places whose text the user can read in a widget at some point of `interact`
READABLE = [
    'failure',
    'work',
    'problem',
    'label0',
    'model',
    'task0',
    'task1',
    'target',
    'factor0',
    'factor1',
    'method',
    'action1',
    'policy',
    'badpolicy',
    'emulator',
    'search',
    'outcome',
    'reason',
    'runway',
    'flightsplit',
    'event',
    'fixed',
    'word',
    'value',
    'move',
    'flight',
    'inputs',
    'encoder',
    'encoding',
]


def test_widgets_are_safe_and_show_untrusted_names():
    "In their first state, and after each step of the user; untrusted names can be read"
    built = widgets(True)
    readable = set()
    for k, _ in enumerate(itertools.chain('0', interact(built))):
        for name, w in built.items():
            assert unsafe(w) == [], (name, k)
            assert parts_not_creatable(w) == [], (name, k)
            for part in parts(w):
                if isinstance(part, W.HTML):
                    readable |= {place for place in READABLE if f'data-evil={place}&gt;' in part.value}
    assert readable == set(READABLE)


def test_own_markup_is_kept():
    "Markup of srlviz itself is not escaped, next to text that is"
    from srlviz.widgets.atari.dashboard import AtariDashboard

    board = AtariDashboard(table(), task=evil('task0'), interactive=True)
    assert (
        ElementCollector(board.status.value).tags == ['span', 'pre']
        and 'AtariDashboard(scores, open_game)</pre>' in board.status.value
    )
    assert unsafe(board) == []


@pytest.fixture(scope='module')
def static_widgets():
    return widgets(False)


@pytest.fixture(scope='module')
def pages(static_widgets, tmp_path_factory):
    folder = tmp_path_factory.mktemp('pages')
    paths = {name: w.to_html(folder / f'{name}.html', title=evil('pagetitle')) for name, w in static_widgets.items()}
    all_figures = [f for w in static_widgets.values() for f in w.figures()]
    all_figures += [plain_figure(), plain_figure(' '.join(MORE_ATTACKS))]
    return paths | dict(everything=base.write_page(folder / 'everything.html', all_figures, title=evil('pagetitle')))


def test_static_forms_are_safe(static_widgets):
    for name, w in static_widgets.items():
        for kind, content in w._repr_mimebundle_().items():
            if kind == 'text/html':
                assert unsafe_html(content) == [], name
            if kind == 'application/vnd.plotly.v1+json':
                assert unsafe_figure(content) == [], name


def test_pages_are_safe(pages):
    for name, path in pages.items():
        text = path.read_text(encoding='utf-8')
        parsed = ElementCollector(text)
        n_figures = text.count('class="plotly-graph-div"')
        known = {'html', 'head', 'meta', 'title', 'style', 'body', 'main', 'h1', 'div', 'script'}
        assert n_figures and set(parsed.tags) <= known, name
        assert len([t for t in parsed.tags if t == 'script']) <= 1 + 2 * n_figures, name
        assert [a for a in parsed.attributes if 'evil' in f'{a}' or a[1].startswith('on')] == [], name


# ---- what happens in a browser

PICTURE = re.compile(r'data:image/(png|webp|jpeg|gif);base64,[\w+/=]*')  # base64 may contain any four letters by chance

LISTEN = """(() => {
    window.heard = [];
    window.ran = place => { window.heard.push('ran: ' + place); };
    const asks = ['href', 'xlink:href', 'src', 'srcdoc', 'action', 'formaction', 'data', 'background', 'poster'];
    const look = e => {
        if (e.nodeType !== 1) return;
        const say = what => window.heard.push(e.localName + ' ' + what);
        if (e.hasAttribute('data-evil')) say('is an element: ' + e.getAttribute('data-evil'));
        for (const { name, value: text } of e.attributes) {
            const value = /^data:image\\/(png|webp|jpeg|gif);base64,[\\w+/=]*$/.test(text) ? '' : text;      // no words
            const acts = asks.includes(name) || name.startsWith('on');
            if (acts && /evil|ran\\(/.test(value)) say(name + '=' + value);
            if (name === 'style' && /evil/.test(value) && /url/.test(value)) say(name + '=' + value);
            if (name === 'class' && /evil/.test(value)) say(name + '=' + value);
        }
    };
    window.lookAll = () => document.querySelectorAll('*').forEach(look);
    const within = node => { look(node); node.querySelectorAll?.('*').forEach(look); };
    new MutationObserver(changes => changes.forEach(c => c.addedNodes.forEach(within)))
        .observe(document, { subtree: true, childList: true });
})()"""

HOVER = """async () => {      // a pointer over the first, a middle and the last point of each trace of each plot
    const ours = await globalThis.__srlviz_plotly, P = ours ?? globalThis.Plotly;
    let drawn = 0;
    for (const g of document.querySelectorAll('.js-plotly-plot')) {
        for (const [k, trace] of (g._fullData ?? []).entries()) {
            const z = trace.z, n = (z ?? trace.x ?? trace.y ?? []).length;
            for (const i of new Set([0, n >> 1, n - 1])) {
                try {
                    if (z) {      // of a map, where the pointer is
                        const of = a => g._fullLayout[trace[a + 'axis'].replace(a, a + 'axis')]._length;
                        const at = (i + 0.5) / n;
                        P.Fx.hover(g, { xpx: of('x') * at, ypx: of('y') * at }, trace.xaxis + trace.yaxis);
                    } else P.Fx.hover(g, [{ curveNumber: k, pointNumber: i }]);
                } catch { continue; }
                drawn += g.querySelectorAll('.hoverlayer text').length;
            }
        }
        try { P.Fx.unhover(g); } catch { }
    }
    return drawn;
}"""

PRESS = """() => ['.srlviz-item', '.srlviz-picker button', '.srlviz-player tbody button', '.srlviz-rows-head button',
                  '.widget-toggle-button', '.srlviz-actions button']
    .map(what => [...document.querySelectorAll(what)].map(e => e.click()).length)"""


def monitored(browser):
    "Return a browser whose pages record what runs, what becomes an element, and what is requested"

    def new_page(**options):
        page = browser.new_page(**options)
        page.add_init_script(LISTEN)
        page.evil_requests = []
        page.dialogs = []

        def record_request(request):
            if 'evil' in request.url and not PICTURE.fullmatch(request.url):
                page.evil_requests.append(request.url)

        def record_dialog(dialog):
            page.dialogs.append(dialog.message)
            dialog.dismiss()

        page.on('request', record_request)
        page.on('dialog', record_dialog)
        return page

    return SimpleNamespace(new_page=new_page)


def recorded_events(page) -> list[str]:
    "Return all that was recorded in a page and its frames"
    events = page.evil_requests + page.dialogs
    for frame in page.frames:
        events += frame.evaluate(
            "() => { window.lookAll?.(); return [...new Set(window.heard ?? ['nobody listens'])] }"
        )
    return events


def notebook():
    "A notebook that shows every widget, and the static form of each"
    start = f'import sys; sys.path.insert(0, {str(ROOT / "tests")!r})'
    cells = [
        start,
        'import test_payloads as p\nfrom IPython.display import display\nw = p.widgets(True)',
        'assert list(w) == p.widget_names()',
    ]
    cells += [f'w[{name!r}]' for name in widget_names()]
    cells += [
        'for explorer in p.explorers(w): display(p.figure_bundle(explorer.figure()), raw=True)',
        'display(p.figures.style.style(p.plain_figure()))',
    ]
    return notebook_of(*cells)


def explorers(w) -> list:
    return [widget for widget in w.values() if isinstance(widget, base.Explorer)]


def widget_names() -> list[str]:
    return [
        'FrameBrowser',
        'ProbeHeatmap',
        'AtariDashboard',
        'Failing',
        'RAMExplorer',
        'InfoNCEMap',
        'NearestFrames',
        'PlayWidget',
        'EnvironmentExplorer',
        'MemoryExplorer',
        'MMERDashboard',
        'SensorBrowser',
        'TableBrowser',
        'FlightBrowser',
        'FleetBrowser',
        'TargetTable',
        'FailureExplorer',
        'ReconstructionBrowser',
        'CodesExplorer',
        'QEDRMatrix',
        'Workbench',
        'PlotView',
        'FramePlayer',
        'FramePicker',
        'RowList',
        'busy',
        'More',
    ]


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook())


@pytest.fixture(scope='module')
def opened(browser, lab):
    "The notebook as opened on a very slow machine: anywidget abandons every model, after 1 ms instead of 2 s"
    return open_page(monitored(browser), lab, before=lambda page: page.add_init_script(SHORT_TIMEOUTS))


START = "setattr(w['PlotView'], 'figure', p.plain_figure())"


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


@pytest.mark.browser
def test_browser_detects_an_attack(browser):
    "The monitored browser that the tests below use records an attack where there is one"
    page = monitored(browser).new_page()
    page.route('**/*', lambda r: r.fulfill(body='<p>', content_type='text/html'))
    page.goto('http://127.0.0.1:9/')
    page.evaluate("words => { document.body.innerHTML = words }", evil('planted'))
    events = wait_for(lambda: any('ran' in e for e in recorded_events(page)) and recorded_events(page), 10)
    assert any('evil-planted' in url for url in page.evil_requests)
    assert any('a href=http:evil-planted' in e for e in events)
    page.close()


@pytest.mark.browser
def test_notebook_runs_without_errors_on_short_timeouts(opened):
    assert opened.errors_on_load == ([], []) and opened.evaluate('window.late') > 20


@pytest.mark.browser
def test_widgets_in_jupyterlab_are_safe(page, lab):
    assert recorded_events(page) == []
    wait_idle(page)
    assert page.evaluate(HOVER) > 50, 'hover texts are drawn'
    assert recorded_events(page) == []
    lab.evaluate("globals().update(interactions=p.interact(w))")
    while lab.evaluate("next(interactions, 'done')") != 'done':
        wait_idle(page)
        page.evaluate(HOVER)
        assert recorded_events(page) == []
    assert min(page.evaluate(PRESS)) > 0, 'everything that can be pressed is there'
    wait_idle(page)
    page.evaluate(HOVER)
    assert recorded_events(page) == []
    assert 'evil-text' in page.locator('.srlviz-plot').nth(-2).text_content(), 'untrusted text is shown as text'


@pytest.mark.browser
def test_press_on_a_bar_returns_its_name(page, lab):
    "The bar of a factor that is really called score<10 returns that name when pressed"
    from playwright.sync_api import Error

    name = 'score<10'
    lab.evaluate(f"setattr(w['PlotView'], 'figure', p.go.Figure(p.go.Bar(x=['a'], y=[1], customdata=[{name!r}])))")
    wait_idle(page)
    bar = page.locator('.srlviz-plot').nth(-2).locator('.bars path').first

    def press_returns_name():
        "Press the bar; `wait_for` repeats the press if the notebook above has moved the bar meanwhile"
        bar.scroll_into_view_if_needed()
        try:
            bar.click(force=True)
        except Error:  # it has moved out of the view
            return False
        wait_idle(page)
        return lab.evaluate("w['PlotView'].clicked.get('data')") == name

    wait_for(press_returns_name, message='the press returns the name in the table')
    page.screenshot(path=SHOTS / 'payloads.png')


@pytest.mark.browser
def test_pages_in_a_browser_are_safe(browser, pages):
    "One page of a widget, and one with the figures of all widgets"
    page = monitored(browser).new_page()
    for name in ('AtariDashboard', 'everything'):
        page.goto(pages[name].as_uri())
        page.wait_for_function("[...document.querySelectorAll('.plotly-graph-div')].every(g => g._fullLayout)")
        assert page.evaluate(HOVER) > 5, 'hover texts are drawn'
        assert recorded_events(page) == [], name
    page.close()
