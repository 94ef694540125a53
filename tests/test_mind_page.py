"""The offline page against Python, in Chromium: networks, rules, posteriors, twins and edited episodes are the same."""

import base64
import copy
import re

import gymnasium
import numpy as np
import pytest
import torch

from srlviz.agents.player import load_policy
from srlviz.core.files import sample_path
from srlviz.evaluate.memories.edited_play import CHANGE_KINDS, RANDOM, TWIN, Change, EditedPlay
from srlviz.widgets.agents.microscope import BeliefMicroscope, timeline
from srlviz.widgets.agents.mind_page import mind_data, packed, write_mind

pytestmark = pytest.mark.browser

TASKS = ('RepeatPrevious-easy', 'RepeatFirst-easy', 'MineSweeper-easy')
AGENTS = [path.stem for task in TASKS for path in sorted(sample_path('agents').glob(f'{task}_*.safetensors'))]
N_EPISODES = 40  # that teach the probes


@pytest.fixture(scope='module')
def opened():
    "Agents by the names of their files, each opened once"
    found = {}

    def opened(name):
        if name not in found:
            found[name] = EditedPlay(load_policy(sample_path('agents') / f'{name}.safetensors'), episodes=N_EPISODES)
        return found[name]

    return opened


@pytest.fixture(scope='module')
def written(opened, tmp_path_factory):
    "A page with two agents"
    data = mind_data([opened('RepeatPrevious-easy_GRU'), opened('RepeatPrevious-easy_MLP')], episodes=4)
    return write_mind(tmp_path_factory.mktemp('mind') / 'mind.html', data), data


@pytest.fixture(scope='module')
def page(browser, written):
    "The page, whose engine answers for other data too"
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.goto(written[0].as_uri())
    page.wait_for_selector('canvas')
    yield page
    context.close()


def floats(text):
    return np.frombuffer(base64.b64decode(text), '<f4')


LOGITS = """([agent, observations, lengths]) => {
    const network = new Network(agent), rows = rowsOf(decoded(observations), lengths.reduce((a, b) => a + b, 0));
    const found = [], width = agent.reads.length;
    let k = 0;
    for (const length of lengths) {
        let memory = new Float32Array(network.n_codes);
        for (let t = 0; t < length; t++) {
            const step = network.step(rows[k++], memory);
            memory = step.memory;
            found.push(...step.logits);
        }
    }
    const bytes = new Uint8Array(Float32Array.from(found).buffer);
    let text = '';
    for (let i = 0; i < bytes.length; i += 30000) text += String.fromCharCode(...bytes.subarray(i, i + 30000));
    return btoa(text);
}"""


def torch_logits(network, rows, is_played):
    "Logits of an agent whose memory reads whole episodes"
    with torch.no_grad():
        y, _ = network.memory(network.inward(rows), None)
        return network.policy(y).numpy()[is_played]


def logit_errors(play, page, n_episodes) -> tuple[float, float, float]:
    """Compare logits in episodes that the agent plays: the largest difference between those of the page and of torch in
    float64; of the page and of torch in float32; and of torch in these two."""
    player = play.player
    played = player.play(n_episodes, seed=0)
    T = len(played.records)
    is_played = np.arange(T) < played.lengths[:, None]
    obs = player.make(num_envs=1).unwrapped.task.obs_of(played.records.T[is_played])
    rows = torch.zeros(n_episodes, T, obs.shape[1])
    rows[torch.from_numpy(is_played)] = torch.from_numpy(obs)
    rows = rows[:, :, player.columns]
    single = torch_logits(player.network, rows, is_played)
    double = torch_logits(copy.deepcopy(player.network).double(), rows.double(), is_played)
    agent = mind_data(play, factors=[play.factors[0]], episodes=1)['agents'][0]
    found = floats(page.evaluate(LOGITS, [agent, packed(obs, 'u1'), played.lengths.tolist()])).reshape(single.shape)
    assert np.array_equal(obs, obs.astype('u1')) and single.std() > 0.1 and player.network.scale is None
    return tuple(float(np.abs(a - b).max()) for a, b in ((found, double), (found, single), (single, double)))


def check_logits(name, errors):
    "The page is within 1e-5 of what torch computes in float64, and of float32 but for torch's own rounding"
    double, single, rounding = errors
    print(f'{name}: {double:.1e} from float64, {single:.1e} from float32, which differ by {rounding:.1e}')
    assert double < 1e-5 and single < max(1e-5, 1.5 * rounding)


@pytest.mark.parametrize('name', AGENTS)
def test_logits_are_those_of_torch(name, opened, page):
    check_logits(name, logit_errors(opened(name), page, 12))


@pytest.mark.slow
@pytest.mark.parametrize('name', AGENTS)
def test_logits_are_those_of_torch_in_a_thousand_episodes(name, opened, page):
    check_logits(name, logit_errors(opened(name), page, 1000))


RULES = """([name, parameters, starts, actions, factors]) => {
    const rules = new RULES[name](parameters);
    return starts.map((hidden, i) => {
        let s = rules.start(hidden);
        const states = [s];
        for (const action of actions[i]) {
            s = rules.step(s, action);
            states.push(s);
            if (s.ended) break;
        }
        const rows = states.slice(0, -1), f = factors;
        return {
            obs: states.map(s => flatObservation(rules, s)), saw: rows.map(s => rules.saw(s)),
            reward: states.map(s => s.reward), ended: states.map(s => s.ended),
            factors: Object.fromEntries(f.map(({ name }) => [name, states.map(s => rules.value(s, name))])),
            posterior: i < 30 && Object.fromEntries(f.map(({ name, values }) => (
                [name, rules.posterior(rows, name, values)]))),
        };
    });
}"""


@pytest.mark.parametrize('greedy', [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize('task', TASKS)
def test_rules_are_those_of_python(task, greedy, opened, page):
    play = opened(f'{task}_GRU')
    player, n = play.player, 200
    envs = player.make(num_envs=n)
    obs, _ = envs.reset(seed=5)
    envs.action_space.seed(3)
    memory, rows, played = player.first(n), [envs.snapshot()], []
    for _ in range(player.task.max_steps):
        actions, memory = player.step(obs, memory) if greedy else (envs.action_space.sample(), memory)
        obs = envs.step(actions)[0]
        played.append(actions.reshape(n, -1))
        rows.append(envs.snapshot())
    R, A = np.stack(rows, 1), np.stack(played, 1)  # (n, T + 1), (n, T, n_columns)
    ends = R['terminated'] | R['truncated']
    lengths = ends.argmax(1)  # an episode ends in this row
    names = list(player.factors(R[0]))
    readings = {name: play.reading(name) for name in names}
    factors = [
        dict(
            name=name,
            values=np.unique(player.factors(R.ravel())[name]).tolist() if isinstance(r, str) else r.values.tolist(),
        )
        for name, r in readings.items()
    ]
    field = 'deck' if 'deck' in R.dtype.names else 'hidden'
    starts = R[:, 0][field].reshape(n, -1).tolist()
    parameters = dict(player.task.parameters)
    found = page.evaluate(RULES, [task.split('-')[0], parameters, starts, A.tolist(), factors])
    flat = envs.unwrapped.task
    for i in range(n):
        last = lengths[i] + 1
        records, episode = R[i, :last], found[i]
        assert np.array_equal(episode['obs'], flat.obs_of(records))
        assert np.array_equal(episode['reward'], records['reward'])
        ended = np.where(records['terminated'], 'terminated', np.where(records['truncated'], 'truncated', ''))
        assert episode['ended'] == ended.tolist()
        truth = player.factors(records)
        assert all(np.array_equal(episode['factors'][name], truth[name]) for name in names)
        assert episode['saw'] == play.words.saw(records[:-1])
        if not episode['posterior']:
            continue
        beliefs = player.task.beliefs_of(records[:-1]['obs'], A[i, : last - 1])
        for name, values in ((f['name'], np.array(f['values'])) for f in factors):
            belief = beliefs[name]
            if hasattr(belief, 'values'):
                expected = np.stack([belief.probabilities[:, belief.values == v].sum(1) for v in values], 1)
                assert np.allclose(episode['posterior'][name], expected, atol=1e-9)
            else:
                nearest = np.abs(values - belief.mean[:, None]).min(1)
                off = np.abs(values[np.argmax(episode['posterior'][name], 1)] - belief.mean)
                assert np.allclose(off, nearest) and (belief.variance == 0).all()


def test_posterior_of_a_large_board(page):
    task = gymnasium.make('srlviz/MineSweeper-hard-v0').unwrapped
    envs = gymnasium.make_vec('srlviz/MineSweeper-hard-v0', num_envs=1, flat=True, copy=True)
    envs.reset(seed=4)
    start = envs.snapshot()
    clear = np.argwhere(start[0]['hidden'] == 0)[::5][:8]
    rows = [start]
    for action in clear:
        envs.step(action[None])
        rows.append(envs.snapshot())
    records = np.concatenate(rows)[:-1]
    beliefs = task.beliefs_of(records['obs'], clear)
    names = [f'mines_{i}' for i in range(0, 64, 7)]
    factors = [dict(name=name, values=[0, 1]) for name in names]
    start = start['hidden'].reshape(1, -1).tolist()
    (found,) = page.evaluate(RULES, ['MineSweeper', dict(task.parameters), start, [clear.tolist()], factors])
    for name in names:
        assert np.allclose(found['posterior'][name], beliefs[name].probabilities[: len(clear)], atol=1e-9)


FUTURES = """([data, edits]) => {
    const [mind] = new Engine(data).minds;
    return edits.map(({ seed, factor, changes }) => {
        try {
            for (const change of changes) mind.check(seed, change);
        } catch (problem) {
            return { refused: problem.message };
        }
        return mind.timeline(mind.playOn(mind.play(seed), changes), factor);
    });
}"""
TWINS = """([data, edits]) => {
    const [mind] = new Engine(data).minds;
    return edits.map(({ seed, changes: [change] }) => {
        try {
            return [...mind.twin(mind.play(seed), change)];
        } catch (problem) {
            return problem.message;
        }
    });
}"""


def draw_edits(play, seeds, n, kinds, rng):
    "Random edits of readable factors, one or two in an episode: pairs of Python's and the page's"
    names = [f for f in play.factors if not isinstance(play.reading(f), str) and play.reading(f).is_readable]
    pairs = []
    for _ in range(n):
        seed = int(rng.choice(seeds))
        course = play.play(seed)
        if len(course) < 3:
            continue
        changes, wire = [], []
        for _ in range(rng.integers(1, 3)):
            factor = str(rng.choice(names[:6] if rng.random() < 0.5 else names))
            reading = play.reading(factor)
            t, place = int(rng.integers(len(course) - 1)), int(rng.integers(len(reading.values)))
            kind, length = str(rng.choice(kinds)), float(rng.choice([1.0, 1.0, 0.5, 1.7]))
            changes.append(Change(t, factor, float(reading.values[place]), kind, length))
            wire.append(dict(t=t, factor=factor, place=place, kind=kind, length=length))
        order = np.argsort([c.t for c in changes], kind='stable')
        pairs.append(
            (
                course,
                [changes[i] for i in order],
                dict(seed=seed, factor=changes[0].factor, changes=[wire[i] for i in order]),
            )
        )
    return pairs


@pytest.mark.parametrize(
    'name',
    [
        pytest.param(name, marks=() if name.endswith('GRU') else pytest.mark.slow)
        for name in AGENTS
        if not name.endswith('MLP')
    ],
)
def test_edited_episodes_are_those_of_python(name, opened, page):
    play, rng = opened(name), np.random.default_rng(7)
    data = mind_data(play, episodes=8)
    kinds = [kind for kind in CHANGE_KINDS if kind not in (RANDOM, 'subspace swap')]
    pairs = draw_edits(play, [episode['seed'] for episode in data['episodes']], 40, kinds, rng)
    found = page.evaluate(FUTURES, [data, [edit for *_, edit in pairs]])
    actions, beliefs, n_played = [], [], 0
    for (course, changes, edit), line in zip(pairs, found):
        try:
            edited = play.play_on(course, changes)
        except ValueError as problem:
            assert 'refused' in line, (changes, problem)
            continue
        assert 'refused' not in line, (changes, line)
        n_played += 1
        chosen = play.player.numbers(edited.actions)
        expected = timeline(play, edited, edit['factor'])
        n = min(len(chosen), len(line['chosen']))
        actions.append(chosen[:n] == np.array(line['chosen'][:n]))
        if not actions[-1].all():
            continue
        assert line['chosen'] == expected['chosen'] and line['right'] == expected['right']
        assert line['saw'] == expected['saw'] and line['truth'] == expected['truth']
        assert abs(line['total'] - expected['total']) < 1e-4
        for key in ('belief', 'policy', 'posterior'):
            for t, (a, b) in enumerate(zip(line[key], expected[key], strict=True)):
                assert (a is None) == (b is None)
                if a is not None:
                    beliefs.append(np.abs(np.array(a) - b).max())
                    assert beliefs[-1] < 2e-4, (key, t, changes)
    assert n_played >= 15 and np.concatenate(actions).mean() >= 0.999


def test_twins_are_those_of_python(opened, page):
    for name in ('RepeatPrevious-easy_LSTM', 'RepeatFirst-easy_GRU', 'MineSweeper-easy_GRU'):
        play, rng = opened(name), np.random.default_rng(2)
        data = mind_data(play, episodes=6)
        pairs = draw_edits(play, range(6), 40, [TWIN], rng)
        wire = [dict(seed=edit['seed'], changes=[edit['changes'][0]]) for *_, edit in pairs]
        twins = page.evaluate(TWINS, [data, wire])
        n_found = 0
        for (course, changes, _), twin in zip(pairs, twins):
            try:
                expected = play.twin(course, changes[0])
            except ValueError:
                assert isinstance(twin, str)
                continue
            n_found += 1
            assert not isinstance(twin, str), (changes[0], twin)
            assert np.allclose(twin, expected, atol=1e-5)
        assert n_found >= 5, name


SCENES = """([data, asked]) => {
    const engine = new Engine(data);
    return [engine.scene(), ...asked.map(([what, ...given]) => engine[what](...given))];
}"""


def test_scenes_are_those_of_the_widget(opened, page):
    names = ('GRU', 'Elman', 'MLP')
    plays = {name: opened(f'RepeatPrevious-easy_{name}') for name in names}
    data = mind_data(plays, episodes=4)
    agents = {name: load_policy(sample_path('agents') / f'RepeatPrevious-easy_{name}.safetensors') for name in names}
    scope = BeliefMicroscope(agents)
    scope._opened = plays
    scope.factor = scope._first_factor()
    wanted = (scope.scene()['panels'][0]['original']['truth'][12] + 1) % 4
    asked = [
        ('set', 'second', 'Elman'),
        ('press', 0, 12, wanted),
        ('press', 1, 12, wanted, 'twin'),
        ('press', 0, 20, 1),
        ('set', 'length', 0.5),
        ('set', 'factor', 'remaining_1'),
        ('set', 'factor', 'ago_1'),
        ('press', 0, 30, 2),
        ('undo',),
        ('set', 'episode', 2),
        ('set', 'agent', 'MLP'),
        ('reset',),
    ]
    scenes = page.evaluate(SCENES, [data, asked])
    expected = [scope.scene()]
    for what, *given in asked:
        if what == 'press':
            panel, t, value, *kind = given
            scope._answer(dict(kind='press', panel=panel, t=t, value=value, how=(kind or [''])[0]))
        elif what == 'set':
            scope._answer(dict(kind='set', name=given[0], value=given[1]))
        else:
            scope._answer(dict(kind=what))
        expected.append(scope.scene())
    for step, a, b in zip([('start',), *asked], scenes, expected, strict=True):
        for key in (
            'title',
            'task',
            'episode',
            'factor',
            'agent',
            'second',
            'kinds',
            'kind',
            'length',
            'actions',
            'action_signs',
            'words',
            'note',
            'off',
            'gone',
        ):
            assert a[key] == b[key], (step, key)
        if a['agent'] != 'MLP':  # whose values are those of the other agents, not of this episode
            assert (a['values'], a['signs']) == (b['values'], b['signs']), step
        assert [f['label'] for f in a['factors']] == [f['label'] for f in b['factors']]
        for p, q in zip(a['panels'], b['panels'], strict=True):
            for key in ('name', 'edits', 'sentence', 'cannot'):
                assert p[key] == q[key], (step, key)
            without_count = [re.sub(r'change(s?) \d+', r'change\1 n', panel['control']) for panel in (p, q)]
            assert without_count[0] == without_count[1], step  # each has random directions of its own
            for line in ('original', 'edited'):
                assert (p[line] is None) == (q[line] is None)
                if p[line]:
                    assert all(p[line][key] == q[line][key] for key in ('saw', 'chosen', 'right')), step


def test_what_cannot_be_done_is_said(written, page):
    refused = """([data, panel, t, value, kind, second]) => {
        const engine = new Engine(data);
        if (second) engine.set('second', second);
        try { engine.press(panel, t, value, kind); } catch (problem) { return problem.message; }
        return engine.scene().panels[panel].edits.length;
    }"""
    data = written[1]
    assert page.evaluate(refused, [data, 0, 12, 1, '', '']) == 1
    assert 'steps with a later action are 0 to 49' in page.evaluate(refused, [data, 0, 50, 1, '', ''])
    assert 'has no state' in page.evaluate(refused, [data, 1, 12, 1, '', 'MLP'])
    assert (
        'no history has' in page.evaluate(refused, [data, 0, 49, 1, 'twin', ''])
        or page.evaluate(refused, [data, 0, 49, 1, 'twin', '']) == 1
    )


@pytest.mark.parametrize('theme', ['light', 'dark'])
def test_the_page_works_alone(theme, written, browser):
    path, data = written
    text = path.read_text(encoding='utf-8')
    assert set(re.findall(r'https?://[\w./]*', text)) <= {'http://www.w3.org/2000/svg'}
    assert "default-src 'none'" in text and len(text) < 2_000_000
    context = browser.new_context(color_scheme=theme)
    page, requested, errors = context.new_page(), [], []
    page.on('request', lambda r: requested.append(r.url))
    page.on('pageerror', lambda e: errors.append(str(e)))
    page.on('console', lambda m: errors.append(m.text) if m.type == 'error' else None)
    page.goto(path.as_uri())
    page.wait_for_selector('canvas')
    assert page.get_attribute('body', 'data-jp-theme-light') == str(theme == 'light').lower()
    undo = page.get_by_role('button', name='Undo')
    assert undo.is_disabled()
    page.locator('canvas').focus()
    for value in range(4):  # by the keyboard: of three of the four suits the memory does not say this already
        page.keyboard.press(str(value + 1))
    assert undo.is_enabled() and 'step 6' in page.locator('.srlviz-said').inner_text()
    page.keyboard.press('Backspace')
    assert 'No edit is left' in page.locator('.srlviz-said').inner_text()
    page.keyboard.press('End')
    page.keyboard.press('1')
    assert 'steps with a later action' in page.locator('p[role=alert]').inner_text()
    page.keyboard.press('n')
    assert 'episode 1' in page.locator('.srlviz-scope-head').inner_text()
    assert errors == [] and requested == [path.as_uri()]
    context.close()


def test_pages_of_all_agents_are_small(opened, tmp_path):
    for task in TASKS:
        plays = [opened(name) for name in AGENTS if name.startswith(task)]
        path = write_mind(tmp_path / f'{task}.html', mind_data(plays))
        print(f'{task}: {len(plays)} agents in {path.stat().st_size / 1e6:.2f} MB')
        assert path.stat().st_size <= 2_000_000


def test_other_tasks_have_recorded_edits(opened, page, browser, tmp_path):
    play = opened('HigherLower-easy_GRU')
    data = mind_data(play)
    (recorded,) = (agent['recorded'] for agent in data['agents'])
    keys = list(recorded['edits'])
    t, value = map(int, keys[len(keys) // 2].split(','))
    scenes = page.evaluate(SCENES, [data, [('press', 0, t + recorded['leads'], value), ('undo',)]])
    assert 'Recorded edits only' in scenes[0]['note'] and scenes[2]['panels'][0]['edited'] is None
    course = play.play(0)
    reading = play.reading(recorded['factor'])
    edited = play.play_on(course, [Change(t, recorded['factor'], reading.values[value])])
    for line, played in ((scenes[1]['panels'][0]['original'], course), (scenes[1]['panels'][0]['edited'], edited)):
        expected = timeline(play, played, recorded['factor'])
        for key in ('saw', 'truth', 'chosen', 'right', 'total'):
            assert line[key] == expected[key], key
        for key in ('belief', 'policy'):
            for a, b in zip(line[key], expected[key], strict=True):
                assert (a is None) == (b is None) and (a is None or np.abs(np.array(a) - b).max() < 0.003)
    path = write_mind(tmp_path / 'other.html', data)
    assert path.stat().st_size <= 2_000_000 and 'All of it runs in this page' not in path.read_text(encoding='utf-8')
    context = browser.new_context()
    alone = context.new_page()
    alone.goto(path.as_uri())
    alone.wait_for_selector('canvas')
    for name in 'Swap with a twin', 'Next episode':  # what cannot work is disabled, and says why
        button = alone.get_by_role('button', name=name)
        assert button.is_disabled() and 'recorded edits only' in button.get_attribute('title')
    assert alone.locator('input[type=range]').is_disabled() and alone.get_by_label('Direction').is_disabled()
    assert 'one at a time' in alone.locator('.srlviz-scope-words').last.inner_text()
    context.close()
