"""Words of strangers: each string that a file may bring is an attack, in every figure, widget, static form and page.

Script in a page of JupyterLab is code on the machine. So nothing may run, nothing may be asked for, and no word may
become an element. The first half looks at what Python sends; the second opens it all in a real JupyterLab and a real
Chromium, and listens.
"""

import importlib, itertools, json, pkgutil, re
from contextlib import suppress
from html.parser import HTMLParser
from types import SimpleNamespace

import gymnasium, ipywidgets as W, numpy as np, pandas as pd, plotly.graph_objects as go, pytest
from gymnasium import spaces
from markupsafe import Markup
from traitlets import TraitError
from support.lab import ROOT, SHOTS, reset_page, wait_idle, notebook_of, open_page, wait_for

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

# ---- the attack: each string names the place where it stands


def evil(place: str) -> str:
    """Leave an attribute, end a script, run a script, load a picture, link away.

    No slash, comma or underscore in the second half: what cuts or rewrites names leaves that half whole.
    """
    return (
        f"</script><script data-evil={place}>ran('{place}')</script>\"'><img data-evil={place} src=\"evil-{place}\" "
        f"onerror=\"ran('{place}')\"><a data-evil={place} href=\"http:evil-{place}\">{place}"
    )


MORE = [
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

# ---- what a stranger's files hold

FACTORS = [evil('factor0'), evil('factor1')]


def film(T: int = 24, **more) -> Recording:
    "A recording of two episodes with frames and memory, a mark on the frames, and an evil word wherever one may stand"
    t = np.arange(T)

    def episode(i):
        frame = np.zeros((T, 40, 32, 3), np.uint8) + (t * 3 + i).astype(np.uint8)[:, None, None, None]
        obs = dict(
            frame=frame,
            ram=np.zeros((T, 128), np.uint8) + t.astype(np.uint8)[:, None],
            vector=np.eye(3, dtype=np.float32)[t % 3],
        )
        return Episode(obs, rewards=np.ones(T), factors={FACTORS[0]: t % 7, FACTORS[1]: t / T}, name=evil('episode'))

    tell = [
        Factor(FACTORS[0], evil('group0'), 'categorical', evil('unit0')),
        Factor(FACTORS[1], evil('group1'), 'continuous', evil('unit1')),
    ]
    seen = dict(
        variable=FACTORS[0], object=evil('object'), axis='x', scale=1.0, offset=2.0, cross=5.0, low=None, high=None
    )
    made = Recording(
        [episode(0), episode(1)],
        name=evil('recording'),
        hz=5,
        factors=tell,
        meta=dict(pixels=[seen], game=evil('game')) | more,
    )
    made.split = np.array([evil('split'), ''])  # what a reader that is too trusting would let through
    for e in made:
        e.ended = evil('ended')
    return made


def table(method: str = evil('method'), tasks=('task0', 'task1'), protocol: str = '') -> pd.DataFrame:
    "Scores of two games, of one of which only means are known, and the paper's"
    groups = {FACTORS[0]: evil('group0'), FACTORS[1]: evil('group1'), evil('target'): evil('group1'), 'mean': 'all'}
    methods = [(method, 'none'), ('st_dim', 'none'), ('st_dim', 'standardize')]
    rows = []
    for k, task in enumerate(map(evil, tasks)):
        row = dict(study='atari', task=task, data='random')
        for (target, group), (m, norm), metric in itertools.product(groups.items(), methods, ('f1', 'accuracy')):
            if k == 0 or target == 'mean':
                of = dict(method=m, norm=norm, target=target, group=group, metric=metric)
                rows.append(score_row(**row, **of, protocol=protocol, value=0.5 + 0.1 * k))
        paper = dict(source='paper', method='st_dim', norm='none', seed=-1, metric='f1', value=0.7)
        rows.append(score_row(**row, **paper))
    return check_scores(pd.DataFrame(rows))


def answers(recording: Recording):
    "What a probe said of the last episode, wrong twice"
    steps = recording.steps()
    truth = steps[steps['episode'] == 1].set_index(['episode', 't'])[FACTORS]
    said = truth.copy()
    said.iloc[5, 0] += 3
    said.iloc[15, 0] += 2
    return SimpleNamespace(truth=truth, predicted=said)


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
        evil('told'): evil('value'),
        'corner_near_left_x': t,
        'corner_near_left_y': t,
        'outcome': evil('outcome'),
        'reason': evil('reason'),
        'airport': evil('airport'),
        'runway': evil('runway'),
    }
    sensors = np.stack([140 - 0.1 * t, np.sin(t), np.ones(T)], 1).astype(np.float32)
    one = lambda k: Episode(
        dict(sensors=sensors + k, frame=np.zeros((T, 24, 24, 3), np.uint8)),
        factors=truth | dict(wind_speed=7.5 + k),
        name=evil('flight'),
    )
    tell = [Factor(n, evil('group'), unit=evil('unit')) for n in truth]
    made = Recording([one(0), one(1)], name=evil('fleet'), hz=5, factors=tell, split=['fit', 'test'])
    made.split = np.array([evil('flightsplit'), 'test'])
    return made


def measured(T: int = 30) -> Recording:
    "A recording of numbers alone, whose modality and columns are called by a stranger"
    t = np.arange(T)
    one = lambda k: Episode(
        {evil('modality'): np.stack([np.sin(t), t % 7 + k], 1)},
        rewards=np.ones(T),
        factors={FACTORS[0]: t % 2, FACTORS[1]: t / T},
        name=evil('measurement'),
    )
    tell = [
        Factor(FACTORS[0], evil('group0'), 'categorical', names=(evil('no'), evil('yes'))),
        Factor(FACTORS[1], evil('group1'), unit=evil('unit1')),
    ]
    named = dict(columns=[evil('column0'), evil('column1')])
    return Recording([one(0), one(1)], name=evil('numbers'), factors=tell, meta=named)


def fleet(recording: Recording) -> pd.DataFrame:
    "The flights as a table that a manifest tells, events among them that nobody knows"
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
    "A game of two buttons with evil names"

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


class Pairs:
    "An encoder whose parts of the loss have evil names"

    def loss_map(self, before, now):
        return {evil('part0'): np.ones((len(now), 2, 2)), evil('part1'): np.arange(4.0 * len(now)).reshape(-1, 2, 2)}


class Near:
    "Neighbours of any frame: the first ones"

    def of(self, episode, t, k, apart):
        return pd.DataFrame(dict(episode=[0] * k, t=range(k), distance=np.linspace(0, 1, k)))


def recalls() -> pd.DataFrame:
    return pd.DataFrame(
        [
            dict(model=m, task=evil('recalltask'), delay=d, accuracy=0.9, chance=0.1)
            for m in ('GRU', evil('model'))
            for d in (1, 2)
        ]
    )


def costs() -> pd.DataFrame:
    return pd.DataFrame(
        [
            dict(model=m, metric=k, value=5.0, low=4.0, high=6.0)
            for m in ('GRU', evil('model'))
            for k in ('parameters', evil('costmetric'))
        ]
    )


# ---- every widget, as it is first seen; `follow` then does what a reader does


def plain_figure(words: str = evil('text')) -> go.Figure:
    "A figure with a stranger's word in every place of plotly that shows text"
    names = np.array([words, 'b'], object)
    fig = go.Figure(
        [
            go.Bar(
                x=names,
                y=[1, 2],
                text=names,
                customdata=names,
                name=words,
                hovertemplate='%{x}<br>%{customdata}<extra>%{fullData.name}</extra>',
            ),
            go.Scatter(
                x=names,
                y=[1, 2],
                hovertext=names,
                mode='markers+text',
                text=names,
                name=words,
                textposition='top center',
            ),
            go.Heatmap(
                x=names,
                y=[0, 1],
                z=[[1, 2], [3, 4]],
                text=[[words] * 2] * 2,
                texttemplate='%{text}',
                colorbar_title_text=words,
                xaxis='x2',
                yaxis='y2',
                showlegend=True,
                name=words,
            ),
            go.Pie(labels=names, values=[1, 2], domain=dict(x=[0.8, 1], y=[0.5, 1])),
            go.Table(header=dict(values=[words]), cells=dict(values=[names]), domain=dict(x=[0.8, 1], y=[0, 0.4])),
        ]
    )
    fig.update_layout(
        title=dict(text=words, subtitle_text=words),
        xaxis=dict(title=words, domain=[0, 0.35]),
        xaxis2=dict(title=words, domain=[0.45, 0.7], anchor='y2'),
        yaxis2=dict(anchor='x2'),
        yaxis=dict(title=words, tickvals=[1], ticktext=[words]),
        annotations=[dict(text=words, x=0, y=0, hovertext=words, showarrow=False)],
        legend_title_text=words,
        height=500,
        sliders=[dict(steps=[dict(label=words, method='skip')], currentvalue_prefix=words)],
        updatemenus=[dict(buttons=[dict(label=words, method='skip')])],
        shapes=[dict(type='rect', x0=0, x1=1, y0=0, y1=1, label_text=words)],
        images=[dict(source='http:evil-picture', x=0, y=0, sizex=1, sizey=1)],
    )
    return fig


def laid_out(recording: Recording) -> SimpleNamespace:
    "A map of codes whose words are not ours"
    steps = recording.steps([])
    look = dict(xy=np.random.default_rng(0).standard_normal((len(steps), 2)), drawn=np.ones(len(steps), bool))
    told = dict(how='pca', axes=(evil('xaxis'), evil('yaxis')), description=evil('said'))
    return SimpleNamespace(episode=steps['episode'].to_numpy(), t=steps['t'].to_numpy(), **look, **told)


def step_scores(recording: Recording) -> pd.DataFrame:
    steps = recording.steps([])
    values = {evil('stepscore'): np.arange(len(steps)) * 1.0, evil('verdict'): [evil('right')] * len(steps)}
    return pd.DataFrame(values, index=pd.MultiIndex.from_frame(steps))


def widgets(interactive: bool) -> dict:
    from srlviz.envs.ram import RAMLab
    from srlviz.memories.recurrent import GRU
    from srlviz.widgets.atari.dashboard import AtariDashboard
    from srlviz.widgets.atari.codes import InfoNCEMap, NearestFrames
    from srlviz.widgets.landing.failures import FailureExplorer
    from srlviz.widgets.frames import FrameBrowser
    from srlviz.widgets.landing.flights import FleetBrowser, FlightBrowser, RowList
    from srlviz.widgets.maps import CodesExplorer
    from srlviz.widgets.agents.memories import MemoryExplorer
    from srlviz.widgets.agents.pomdp import EnvironmentExplorer, PlayWidget
    from srlviz.widgets.probe import ProbeHeatmap
    from srlviz.widgets.qedr import QEDRMatrix
    from srlviz.widgets.atari.ram import RAMExplorer
    from srlviz.widgets.landing.reconstructions import ReconstructionBrowser
    from srlviz.widgets.agents.returns import MMERDashboard
    from srlviz.widgets.sensors import SensorBrowser
    from srlviz.widgets.landing.targets import TargetTable
    from srlviz.widgets.workbench import Workbench

    how, recording = dict(interactive=interactive), film()
    results = {evil('method'): answers(recording), 'st_dim': answers(recording)}

    def open_game(game):
        if game == evil('task0'):
            return None, recording
        raise FileNotFoundError(evil('error'))

    def fails(obs):
        raise ValueError(evil('problem'))

    lab = RAMLab('pong', seed=0, steps=20)
    lab.labels = pd.DataFrame(dict(game='pong', variable=[evil('label0'), evil('label1')], address=[49, 54]))
    lab.game, lab.actions = evil('ramgame'), tuple(evil(f'act{i}') for i, _ in enumerate(lab.actions))
    predict = lambda recording, box: pd.DataFrame(dict(address=[49, 3], variable=[evil('label0'), ''], r2=[0.9, 0.1]))
    evenly = lambda memory, x, starts, of=None: np.tril(np.ones((len(x), len(x))))
    of_flights = flights()
    two = {evil('codes'): laid_out(recording), 'st_dim': laid_out(recording)}
    explorer = CodesExplorer(two, recording, scores=step_scores(recording), beside='st_dim', **how)
    explorer.tag(evil('maptag'))
    made = dict(
        FrameBrowser=FrameBrowser(recording, **how),
        ProbeHeatmap=ProbeHeatmap(
            table(), results, recording, task=evil('task0'), method=evil('method'), factor=FACTORS[0], **how
        ),
        AtariDashboard=AtariDashboard(table(), open_game, task=evil('task0'), factor=FACTORS[0], **how),
        Failing=AtariDashboard(table(), lambda game: fails(game), task=evil('task0'), factor=evil('target'), **how),
        RAMExplorer=RAMExplorer(lab, recording, predict, **how),
        InfoNCEMap=InfoNCEMap(Pairs(), recording, n_pairs=4, **how),
        NearestFrames=NearestFrames({evil('method'): Near(), 'st_dim': Near()}, recording, k=3, **how),
        PlayWidget=PlayWidget(Game(), **how),
        EnvironmentExplorer=EnvironmentExplorer(
            'RepeatPrevious-easy',
            {evil('policy'): lambda obs: 0, evil('badpolicy'): fails},
            policy=evil('policy'),
            episodes=1,
            **how,
        ),
        MemoryExplorer=MemoryExplorer(
            {evil('model'): GRU, 'GRU': GRU},
            {evil('stream'): recording[0]},
            saliency=evenly,
            recall=recalls(),
            cost=costs(),
            n_hidden=3,
            steps=30,
            **how,
        ),
        MMERDashboard=MMERDashboard(
            returns(), {(evil('task'), evil('memory')): fails}, task=evil('task'), method=evil('memory'), **how
        ),
        SensorBrowser=SensorBrowser(measured(), chosen=[0, 1, *FACTORS], **how),
        FlightBrowser=FlightBrowser(of_flights, SENSORS, chosen=[0, 1, evil('timed')], **how),
        FleetBrowser=FleetBrowser(of_flights, fleet(of_flights), SENSORS, episode=1, **how),
        TargetTable=TargetTable(target_scores(), told_windows(), of_flights, **how),
        FailureExplorer=FailureExplorer(told_windows(), of_flights, **how),
        ReconstructionBrowser=ReconstructionBrowser(
            Recording(list(of_flights), name=evil('again'), hz=5),
            {evil('encoder'): Repeats(), evil('badencoder'): Repeats(evil('encoding'))},
            **how,
        ),
        CodesExplorer=explorer,
    )
    codes = [np.arange(2.0 * len(e)).reshape(-1, 2) for e in recording]
    made['QEDRMatrix'] = QEDRMatrix(
        {evil('method'): [asked(), asked(0.1)]}, codes, recording.replace(split=None), **how
    )
    panes = {evil('tab'): FrameBrowser(recording, **how)}
    made['Workbench'] = Workbench(table(), None, recording, maps=two, panes=panes, histograms=FACTORS, **how)
    made['Workbench'].map.tag(evil('benchtag'))
    if not interactive:
        return made
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
    kinds = [
        dict(label=evil(f'column{k}'), kind=k, width=f'1fr; background: url(evil-{k})', title=evil(f'title{k}'))
        for k in ('text', 'number', 'tags', 'outcome')
    ]
    rows = RowList(
        columns=kinds,
        rows=[[evil('cell'), evil('number'), [evil('tag')], [evil('kind'), evil('outcome')]]],
        shown=[0],
        titles=[evil('rowtitle')],
        label=evil('rows'),
        empty=evil('empty'),
        header=True,
    )
    line = base.SafeHTML()
    with pytest.raises(ValueError), base.busy(line, evil('work')):
        raise ValueError(evil('failure'))
    return made | dict(
        PlotView=views.PlotView(plain_figure(), label=evil('plot')),
        FramePlayer=player,
        FramePicker=picker,
        RowList=rows,
        busy=line,
        More=views.PlotView(plain_figure(' '.join(MORE))),
    )


def follow(w: dict):
    "Do what a reader does: press what makes a widget say something else. A generator, so that a page may draw each"
    heat, board, failing, ram, near, world = (
        w[k]
        for k in ('ProbeHeatmap', 'AtariDashboard', 'Failing', 'RAMExplorer', 'NearestFrames', 'EnvironmentExplorer')
    )
    heat.side.predictions.confusion_button.value = True
    heat.side.film.picker.picked = 0
    heat.side.film.picker.picks += 1
    yield
    heat.heat.clicked = dict(n=1, data=[evil('group0'), FACTORS[0], 'paper', 'st_dim'])
    heat.choose(evil('target'), evil('method'))
    yield
    board.factor = FACTORS[1]
    board.detail.probe.heat.clicked = dict(n=1, data=[evil('group1'), evil('target'), 'srlviz', evil('method')])
    yield  # a factor that the recording does not know
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
    near.t = 3  # the line says what went wrong
    with suppress(TraitError):
        world.policy = evil('badpolicy')  # cannot play; random does
    yield
    w['InfoNCEMap'].part = evil('part1')
    w['PlayWidget'].act(1)
    with pytest.raises(ValueError):
        w['PlayWidget'].act(7)
    w['MemoryExplorer'].method = 'GRU'
    w['MemoryExplorer'].against = evil('model')
    with pytest.raises(ValueError):
        w['MMERDashboard'].playing = True  # a task that nobody can make
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
        w['ReconstructionBrowser'].method = evil('badencoder')  # the line says what went wrong
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


class Reader(HTMLParser):
    "What an HTML text would make in a page"

    def __init__(self, text: str):
        super().__init__()
        self.tags, self.attributes = [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(tag, name, value or '') for name, value in attrs]


def wrong_html(text: str) -> list[str]:
    "Elements and attributes that are not ours"
    read = Reader(text)
    foreign = [tag for tag in read.tags if tag not in TAGS]
    allowed = dict(
        role=re.compile('status|alert'),
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
        for tag, name, value in read.attributes
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


def wrong_figure(content) -> list[str]:
    "Texts of a figure that plotly would read as more than bold, italic and line breaks; pictures from elsewhere"
    content = json.loads(content) if isinstance(content, str) else content
    pictures = [i.get('source', '') for i in (content.get('layout', {}).get('images') or [])]
    return [t for t in strings(content) if PLOTLY.search(t)] + [
        p for p in pictures if p and not p.startswith('data:image/')
    ]


def parts(widget) -> list:
    return [widget, *itertools.chain.from_iterable(map(parts, getattr(widget, 'children', ())))]


def wrong(widget) -> list[str]:
    "All that is wrong with what a widget and its parts send to a page"
    found = []
    for w in parts(widget):
        if isinstance(w, (W.HTML, W.HTMLMath, W.Label)):
            found += wrong_html(w.value)
        if isinstance(w, views.PlotView):
            found += wrong_figure(w.fig_json)
        if getattr(w, 'description_allow_html', False):
            found.append(f'{w} takes HTML for a description')
        found += [f'class {c}' for c in getattr(w, '_dom_classes', ()) if 'evil' in c]
        found += [
            f'description {w.description}' for _ in 'x' if 'evil' in str(getattr(w, 'description', ''))
        ]  # descriptions are typeset
    return found


def unmade(widget) -> list[str]:
    "The parts that a page could not make: an attribute of theirs, such as `keys`, hides what ipywidgets asks for"
    whole = {'_model_module', '_model_name', '_view_module', '_view_name'}
    return [repr(w) for w in parts(widget) if not whole <= set(w.get_state())]


def test_a_part_that_no_page_can_make_is_seen():
    class Hiding(W.HTML):
        keys = ['value']

    assert unmade(W.VBox([W.HBox([Hiding()])])) and unmade(W.VBox([W.HBox([W.HTML()])])) == []


def test_the_readers_see_an_attack():
    "What the tests below look for is found where it is"
    assert (
        wrong_html(evil('x'))
        and wrong_html('<b onclick=x>')
        and wrong_html('<span style="background:url(x)">')
        and wrong_html('<span class="jp-x">')
    )
    assert not wrong_html('<span role="status" aria-busy="true">a &lt;img&gt; <b>x</b></span>')
    assert (
        wrong_figure(plain_figure().to_dict())
        and wrong_figure(plain_figure('<a href="x">').to_dict())
        and wrong_figure(dict(layout=dict(images=[dict(source='http:x')])))
    )
    assert (
        wrong(W.VBox([W.HTML(evil('x'))]))
        and wrong(W.Button(description=evil('x')))
        and not wrong(W.HTML(Markup('{}').format(evil('x'))))
    )


def target_scores() -> pd.DataFrame:
    "Scores of a stranger's encoder on targets and on a failure of his, and the paper's"
    row = dict(study='landing', task='approach', target='wind', group='targets', metric='mse', value=0.5, seed=0)
    row |= dict(source='srlviz', inputs=evil('inputs'), n_codes=64, protocol=evil('head'))
    rows = [row | dict(method=evil('method')), row | dict(method='mean_baseline', n_codes=0, inputs='')]
    rows += [r | dict(group='failures', target=evil('broken'), metric='auroc') for r in rows]
    rows += [row | dict(method='mte', source='paper', seed=-1, protocol='')]
    return check_scores(pd.DataFrame(rows).assign(data='', norm='', budget=0))


def told_windows() -> dict:
    "What a head said of windows of the flights, in names of a stranger's"
    windows = pd.DataFrame(dict(flight=evil('flight'), episode=[0, 0, 1, 1], start=[0, 20, 0, 20]))
    names, broken = dict(wind=['wind'], fail=[evil('broken')]), np.array([0.0, 1, 0, 1])[:, None]
    truth, predicted = dict(wind=broken + 4, fail=broken), dict(wind=broken * 2, fail=broken[::-1] / 2)
    told = dict(windows=windows, names=names, truth=truth, predicted=predicted, units=lambda target, z: z)
    present = pd.DataFrame({evil('broken'): broken[:, 0] > 0})
    return {(evil('method'), 64, evil('inputs')): SimpleNamespace(**told, present=present)}


class Repeats:
    "An encoder that says the first row again, or that it cannot"

    def __init__(self, fault: str = ''):
        self.fault = fault

    def reconstruct(self, recording):
        if self.fault:
            raise ValueError(self.fault)
        return [{k: np.repeat(np.asarray(v[:1]), len(e), 0) for k, v in e.obs.items()} for e in recording]


QEDR_PARTS = ('disentanglement', 'completeness', 'informativeness')


def overall() -> dict:
    "D, C and I of two codes and the factors"
    return dict(
        disentanglement=SimpleNamespace(overall=0.5, per_code=[0.5, 1.0], share=[0.4, 0.6]),
        completeness=SimpleNamespace(overall=0.5, per_factor=[0.5, 0.5]),
        informativeness=SimpleNamespace(overall=0.5, per_factor=[0.5, 0.5], train=[0.4, 0.4]),
    )


def asked(alpha: float = 0.02) -> SimpleNamespace:
    "What a lasso made of codes of the film, in names of a stranger's"
    table = pd.DataFrame([[1.0, 0.5], [0, 2]], columns=FACTORS)
    told = dict(importance=table, weights=-table, regressor='lasso', alpha=alpha, constant=(evil('constant'),))
    return SimpleNamespace(**told, **overall())


def returns() -> pd.DataFrame:
    "Returns of a stranger's memory on his task: ours, its curve, random play, and the paper's"
    row = dict(study='popgym', task=evil('task'), method=evil('memory'), target='return', group='all')
    rows = [row | dict(source='srlviz', seed=s, metric='mmer', value=0.5 + s / 9) for s in (0, 1)]
    rows += [row | dict(source='srlviz', seed=0, metric='epoch_return', budget=b, value=0.1) for b in (10, 20)]
    rows += [row | dict(source='paper', seed=-1, metric=m, value=0.3) for m in ('mmer', 'mmer_std')]
    rows += [row | dict(source='srlviz', method=m, seed=0, metric='return', value=0.2) for m in ('random', 'oracle')]
    rows += [r | dict(task=evil('other')) for r in rows]
    whole = dict(data='', inputs='', n_codes=0, norm='', protocol='', budget=0)
    return check_scores(pd.DataFrame([whole | r for r in rows]))


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
        {evil('m'): Near().of(0, 0, 2, 0).assign(**{evil('f'): 1.0})},
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
    plot_catalogue=lambda f: f({evil('k'): [evil('n')]}, title=evil('t')),
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
        laid_out(film(4)),
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
    plot_scores=lambda f: f(table(), 'task', 'label', metric='f1', title=evil('t')),
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
    plot_progress=lambda f: f(trials()),
    plot_curves=lambda f: f(
        pd.DataFrame(dict(label=evil('m'), steps=[1, 2], value=0.5)),
        'steps',
        axes=(evil('x'), evil('y')),
        title=evil('t'),
    ),
    plot_run_curves=lambda f: f(
        pd.DataFrame(dict(key=['k0', 'k0'], step=[1, 2], name=evil('loss'), value=0.5)), trials(), evil('loss')
    ),
    plot_failures=lambda f: f(trials()),
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
    plot_qedr_matrix=lambda f: f(asked().importance, constant=[evil('constant')], **overall(), title=evil('t')),
    plot_alpha_curve=lambda f: f(pd.DataFrame(dict(alpha=[0.01, 0.1], n_used=[2, 1]) | dict.fromkeys(QEDR_PARTS, 0.5))),
    plot_code_factor=lambda f: f(
        [1.0, 2.0],
        [0, 1],
        [evil('value'), 'b'],
        names=(evil('no'), evil('yes')),
        title=evil('n'),
        by_title=evil('third'),
    ),
    plot_recall=lambda f: f(recalls(), title=evil('t')),
    plot_recall_map=lambda f: f(recalls(), title=evil('t')),
    plot_cost=lambda f: f(costs(), title=evil('t')),
    plot_state=lambda f: f(np.eye(4)),
    plot_saliency=lambda f: f(np.eye(4), title=evil('t')),
    plot_weights=lambda f: f([1.0, 2], other=[1, 1], names=(evil('n'), evil('o'))),
    plot_observability_gap=lambda f: f(gaps()),
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
    plot_probe_heatmap=lambda f: f(table(), game=evil('task0'), selected=(FACTORS[0], evil('method'))),
    plot_probe_trace=lambda f: f([0, 1], [1, 1], factor=evil('v'), method=evil('m')),
    plot_rollout=lambda f: f(
        np.ones(3),
        {evil('heading'): Strip(np.ones((3, 1)), [evil('n')], [evil('g')], {evil('n'): [evil('v0'), evil('v1')]})},
        name=evil('who'),
        against={evil('other'): np.ones(2)},
        title=evil('t'),
    ),
)


def trials() -> pd.DataFrame:
    "Two trials that failed, of parameters that are evil"
    return pd.DataFrame(
        dict(key=['k0', 'k1'], status='failed', method=[evil('m'), evil('n')], started=1.0, error=evil('error'))
    )


def gaps() -> pd.DataFrame:
    "What `gap_closed` gives, of a task and a method of a stranger's"
    row = dict(
        task=evil('task0'), method=evil('m'), value=0.5, blind=0.0, fully_observable=1.0, gap=1.0, closed=0.5, said=''
    )
    row |= dict(twin=evil('twin'))
    return pd.DataFrame([row, row | dict(task=evil('task1'), closed=np.nan, reason=evil('reason'))])


EVENT = pd.DataFrame(dict(t=[3], name=[evil('event')], value=[1.0], text=[evil('eventtext')]))


def plots() -> dict:
    modules = [m.name for m in pkgutil.walk_packages(figures.__path__, f'{figures.__name__}.') if not m.ispkg]
    found = [importlib.import_module(name) for name in modules]
    return {name: getattr(m, name) for m in found for name in m.__all__ if name.startswith('plot_')}


# figures that show no name of the caller's
NAMELESS = {
    'plot_ablations',
    'plot_alpha_curve',
    'plot_conditioning',
    'plot_progress',
    'plot_rank_change',
    'plot_state',
}


def test_every_figure_is_asked():
    assert set(FIGURES) == set(plots())


@pytest.mark.parametrize('name', FIGURES)
def test_figure(name):
    "Displayed by itself, as plotly displays it"
    fig = FIGURES[name](plots()[name])
    assert 'evil' in fig.to_json() or name in NAMELESS
    assert wrong_figure(fig.to_dict()) == []


def test_texts_set_after_the_style():
    fig = figures.style.style(go.Figure()).update_layout(title=evil('late')).add_annotation(text=evil('later'))
    assert (
        wrong_figure(views.PlotView(fig).fig_json) == []
        and wrong_figure(figure_bundle(fig)['application/vnd.plotly.v1+json']) == []
    )


@pytest.mark.parametrize('word', MORE)
def test_more_kinds_of_attack(word):
    line, view = base.SafeHTML(word), views.PlotView(plain_figure(word))
    assert wrong(line) == [] and wrong(view) == [] and Reader(line.value).tags == []
    line.show_message(word, word)
    assert Reader(line.value).tags == ['span'] and [a[:2] for a in Reader(line.value).attributes] == [('span', 'role')]


@pytest.mark.parametrize('name', ['score<10', 'score&lt;10', 'a<b>c', *map(evil, 'ab'), *MORE])
def test_a_press_gives_the_name(name):
    "What the page holds of a name comes back as the name that stands in the table"
    view = views.PlotView(go.Figure(go.Heatmap(z=[[1.0]], customdata=[[[name, 'srlviz', name]]])))
    sent = json.loads(view.fig_json)['data'][0]['customdata'][0][0]
    view.set_state(dict(clicked=dict(curve=0, i=[0, 0], data=sent, n=1)))
    assert view.clicked['data'] == [name, 'srlviz', name]


def test_a_press_on_such_a_name_chooses_it():
    "A dashboard whose names need translation answers a press as any other"
    from srlviz.widgets.atari.dashboard import AtariDashboard

    board = AtariDashboard(table(), task=evil('task0'), interactive=True)
    cells = json.loads(board.detail.probe.heat.fig_json)['data'][0]['customdata']
    said = next(c for row in cells for c in row if views.original(c[1]) == FACTORS[1] and c[2] == 'srlviz')
    board.detail.probe.heat.set_state(dict(clicked=dict(n=1, data=said)))
    assert board.factor == FACTORS[1]


SAID = [
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
    'told',
    'value',
    'move',
    'flight',
    'inputs',
    'encoder',
    'encoding',
]


def test_widgets():
    "As they are first seen, and after each thing that a reader does; what a stranger called his things can be read"
    alive, said = widgets(True), set()
    for k, _ in enumerate(itertools.chain('0', follow(alive))):
        for name, w in alive.items():
            assert wrong(w) == [], (name, k)
            assert unmade(w) == [], (name, k)
            said |= {
                place
                for place in SAID
                for p in parts(w)
                if isinstance(p, W.HTML) and f'data-evil={place}&gt;' in p.value
            }
    assert said == set(SAID)


def test_our_own_markup_is_markup():
    "What we wrote ourselves looks as it did, beside words that are not ours"
    from srlviz.widgets.atari.dashboard import AtariDashboard

    board = AtariDashboard(table(), task=evil('task0'), interactive=True)
    assert (
        Reader(board.status.value).tags == ['span', 'pre']
        and 'AtariDashboard(scores, open_game)</pre>' in board.status.value
    )
    assert wrong(board) == []


@pytest.fixture(scope='module')
def still():
    return widgets(False)


@pytest.fixture(scope='module')
def pages(still, tmp_path_factory):
    folder = tmp_path_factory.mktemp('pages')
    made = {name: w.to_html(folder / f'{name}.html', title=evil('pagetitle')) for name, w in still.items()}
    drawn = [f for w in still.values() for f in w.figures()] + [plain_figure(), plain_figure(' '.join(MORE))]
    return made | dict(everything=base.write_page(folder / 'everything.html', drawn, title=evil('pagetitle')))


def test_static_forms(still):
    for name, w in still.items():
        for kind, content in w._repr_mimebundle_().items():
            if kind == 'text/html':
                assert wrong_html(content) == [], name
            if kind == 'application/vnd.plotly.v1+json':
                assert wrong_figure(content) == [], name


def test_pages(pages):
    for name, path in pages.items():
        read, figures_ = Reader(text := path.read_text(encoding='utf-8')), text.count('class="plotly-graph-div"')
        known = {'html', 'head', 'meta', 'title', 'style', 'body', 'main', 'h1', 'div', 'script'}
        assert figures_ and set(read.tags) <= known, name
        assert len([t for t in read.tags if t == 'script']) <= 1 + 2 * figures_, name
        assert [a for a in read.attributes if 'evil' in f'{a}' or a[1].startswith('on')] == [], name


# ---- what a browser makes of it

PICTURE = re.compile(r'data:image/(png|webp|jpeg|gif);base64,[\w+/=]*')  # base64 holds any four letters sooner or later

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


def listening(browser):
    "A browser whose pages note what runs, what becomes an element, and what is asked for"

    def new_page(**how):
        page = browser.new_page(**how)
        page.add_init_script(LISTEN)
        page.asked, page.dialogs = [], []
        page.on(
            'request', lambda r: page.asked.append(r.url) if 'evil' in r.url and not PICTURE.fullmatch(r.url) else None
        )
        page.on('dialog', lambda d: (page.dialogs.append(d.message), d.dismiss()))
        return page

    return SimpleNamespace(new_page=new_page)


def heard(page) -> list[str]:
    "All that happened in a page, and in the frames within it"
    return (
        page.asked
        + page.dialogs
        + [
            h
            for f in page.frames
            for h in f.evaluate("() => { window.lookAll?.(); return [...new Set(window.heard ?? ['nobody listens'])] }")
        ]
    )


def notebook():
    "A notebook that shows every widget, and the static form of each"
    start = f'import sys; sys.path.insert(0, {str(ROOT / "tests")!r})'
    cells = [
        start,
        'import test_payloads as p\nfrom IPython.display import display\nw = p.widgets(True)',
        'assert list(w) == p.widgets_shown()',
    ]
    cells += [f'w[{name!r}]' for name in widgets_shown()]
    cells += [
        'for one in p.static_parts(w): display(p.figure_bundle(one.figure()), raw=True)',
        'display(p.figures.style.style(p.plain_figure()))',
    ]
    return notebook_of(*cells)


def static_parts(w) -> list:
    return [one for one in w.values() if isinstance(one, base.Explorer)]


def widgets_shown() -> list[str]:
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


ALL_LATE = '''(() => {
    const timeout = AbortSignal.timeout.bind(AbortSignal);
    AbortSignal.timeout = () => (window.late = (window.late ?? 0) + 1, timeout(1));
})()'''


@pytest.fixture(scope='module')
def opened(browser, lab):
    "As on the slowest machine: anywidget gives up every model, after 1 ms instead of 2 s"
    return open_page(listening(browser), lab, before=lambda page: page.add_init_script(ALL_LATE))


START = "setattr(w['PlotView'], 'figure', p.plain_figure())"


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


@pytest.mark.browser
def test_the_browser_hears_an_attack(browser):
    "What the tests below listen for is heard where it is"
    page = listening(browser).new_page()
    page.route('**/*', lambda r: r.fulfill(body='<p>', content_type='text/html'))
    page.goto('http://127.0.0.1:9/')
    page.evaluate("words => { document.body.innerHTML = words }", evil('planted'))
    found = wait_for(lambda: any('ran' in h for h in heard(page)) and heard(page), 10)
    assert any('evil-planted' in h for h in page.asked) and any('a href=http:evil-planted' in h for h in found)
    page.close()


@pytest.mark.browser
def test_as_the_notebook_ran(opened):
    assert opened.errors_on_load == ([], []) and opened.evaluate('window.late') > 20


@pytest.mark.browser
def test_in_jupyterlab(page, lab):
    assert heard(page) == []
    wait_idle(page)
    assert page.evaluate(HOVER) > 50, 'hover texts are drawn'
    assert heard(page) == []
    lab.evaluate("globals().update(moves=p.follow(w))")
    while lab.evaluate("next(moves, 'done')") != 'done':
        wait_idle(page)
        page.evaluate(HOVER)
        assert heard(page) == []
    assert min(page.evaluate(PRESS)) > 0, 'everything that can be pressed is there'
    wait_idle(page)
    page.evaluate(HOVER)
    assert heard(page) == []
    assert 'evil-text' in page.locator('.srlviz-plot').nth(-2).text_content(), 'the words are shown as text'


@pytest.mark.browser
def test_a_real_press(page, lab):
    "A factor that is honestly called score<10 is chosen by pressing its bar"
    name = 'score<10'
    lab.evaluate(f"setattr(w['PlotView'], 'figure', p.go.Figure(p.go.Bar(x=['a'], y=[1], customdata=[{name!r}])))")
    wait_idle(page)
    bar = page.locator('.srlviz-plot').nth(-2).locator('.bars path').first

    def pressed():
        "Press again if the notebook above has moved the bar meanwhile"
        bar.scroll_into_view_if_needed()
        bar.click(force=True)
        wait_idle(page)
        return lab.evaluate("w['PlotView'].clicked.get('data')") == name

    wait_for(pressed, message='the name as it is in the table')
    page.screenshot(path=SHOTS / 'payloads.png')


@pytest.mark.browser
def test_pages_in_a_browser(browser, pages):
    "One page of a widget, and one with the figures of all the others"
    page = listening(browser).new_page()
    for name in ('AtariDashboard', 'everything'):
        page.goto(pages[name].as_uri())
        page.wait_for_function("[...document.querySelectorAll('.plotly-graph-div')].every(g => g._fullLayout)")
        assert page.evaluate(HOVER) > 5, 'hover texts are drawn'
        assert heard(page) == [], name
    page.close()
