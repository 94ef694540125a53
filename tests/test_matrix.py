"""The cross matrix of representations, questions and worlds, with third-party rows and columns; and its widget."""

from dataclasses import replace

import numpy as np, pytest
from support.lab import SHOTS, assert_no_errors, notebook_of, open_page, wait_for
from torch import nn

from srlviz.core.recordings import Recording
from srlviz.core.twins import Twins, twin_table, with_twins
from srlviz.encoders.custom import as_encoder
from srlviz.evaluate.questions.shift import with_shift
from srlviz.memories.recurrent import GRU
from srlviz.evaluate.ask import ask, ask_all, code_questions
from srlviz.studies.matrix.representations import AtMoments, Budget, fitted, moment_codes
from srlviz.studies.matrix.scorecard import scorecard
from srlviz.studies.matrix.settings import SETTINGS, find_setting


def test_third_party_worlds_and_representations_are_evaluated():
    "A Gymnasium environment by its id; a torch module, a function, a memory and arrays."
    setting = find_setting('CartPole-v1', n=40, every=2, length=6)
    recording = setting.data()
    assert [f.name for f in recording.factors] and setting.name == 'CartPole-v1'
    net = nn.Linear(4, 3)
    rows = {
        'module': net,
        'function': lambda x: x[:, :2],
        'memory': GRU(4, 8),
        'arrays': [np.asarray(e.obs['vector']) for e in recording],
    }
    for name, representation in rows.items():
        if name == 'arrays':
            codes = [rows[:: setting.every] for rows in representation]
        else:
            at_moments = AtMoments(representation, setting, {setting.name: recording}, Budget(epochs=1))
            codes = at_moments.fit(recording).encode(setting.moments(recording))
        answers, reasons = ask_all(codes, setting.moments(recording), code_questions(['selectivity', 'regression']))
        assert set(answers) == {'selectivity', 'regression'} and not reasons, name
    assert answers['regression'].value('r2_linear') > 0.99  # the observation is the state


def test_shuffled_observations_change_only_later_codes():
    setting = find_setting('RepeatPrevious-easy', n=12, length=5)
    recording = setting.data()
    changed = recording.replace(
        episodes=[e.replace(obs={k: np.r_[v[:20], v[:19:-1]] for k, v in e.obs.items()}) for e in recording]
    )
    for name in ('masked_autoencoder', 'S6', 'agent', 'window_statistics'):
        encoder = fitted(name, setting, recording, Budget(epochs=1))
        a, b = (moment_codes(encoder, setting, r) for r in (recording, changed))
        assert all(np.allclose(x[:20], y[:20], atol=1e-5) for x, y in zip(a, b)), name
        assert any(not np.allclose(x[20:], y[20:], atol=1e-5) for x, y in zip(a, b)), name


def test_a_question_is_asked_about_the_factors_of_its_kind():
    "Nothing is cut into classes: the probe leaves numbers out, the regression classes, and each says so."
    rng = np.random.default_rng(0)
    x = rng.normal(size=(240, 2)).astype(np.float32)
    factors = dict(number=x[:, 0].astype(float), kind=(x[:, 1] > 0).astype(int))
    recording = Recording.from_arrays(dict(vector=x), episode=np.arange(240) // 10, factors=factors)
    recording = recording.with_split(valid=0.2, probe=0.5, test=0.3)
    codes = [e.obs['vector'] for e in recording]
    answers, reasons = ask_all(codes, recording, code_questions(['probe', 'regression', 'selectivity']))
    assert not reasons and [*answers['probe'].truth] == ['kind'] and [*answers['regression'].truth] == ['number']
    assert answers['probe'].about['left_out'] == {'factor number': 240}
    assert {*answers['selectivity'].truth} == {'number', 'kind'}
    _, reasons = ask_all(codes, recording.replace(factors=recording.factors[:1]), code_questions(['probe']))
    assert 'number' in reasons['probe'] and 'classes' in reasons['probe']


def test_errors_and_reasons_name_the_bad_input():
    "One code, one factor, constant factors, episodes of length 1, an unknown condition, an unknown layer."
    rng = np.random.default_rng(0)
    n = 60
    factors = dict(a=rng.integers(0, 2, n), b=np.zeros(n, int))
    obs = dict(vector=rng.normal(size=(n, 1)).astype(np.float32))
    single = Recording.from_arrays(obs, episode=np.arange(n), factors=factors)
    single = single.with_split(fit=0.3, valid=0.1, probe=0.3, test=0.3)
    answers, reasons = ask_all([e.obs['vector'] for e in single], single, code_questions())
    assert {'shift', 'mig', 'belief', 'reward_action'} <= set(reasons) and 'probe' in answers
    assert all(isinstance(reason, str) and len(reason) > 10 for reason in reasons.values()), reasons
    codes = dict(code=[e.obs['vector'] for e in single])
    table = ask(codes, dict(single=single), [*answers], progress=False).scores
    assert np.isfinite(table['value']).all() and set(table['group']) == set(answers)
    with pytest.raises(ValueError, match='fog'):
        find_setting('pong', condition='fog', n=64).data()
    with pytest.raises(ValueError, match='split'):
        with_shift(single.replace(split=[''] * n), single)
    with pytest.raises(ValueError, match='conv2'):
        as_encoder(nn.Sequential(nn.Linear(1, 2)), layer='conv2').encode(single)


def test_shipped_settings_can_be_recorded():
    "A recording of a tenth of the size has the factors, splits and one kind of observations."
    for name in ('pong', 'RepeatPrevious-easy'):
        recording = find_setting(name, n=SETTINGS[name].n // 10).data()
        assert {'fit', 'valid', 'probe', 'test', 'shifted', 'twins'} <= {*recording.split}
        assert set(SETTINGS[name].factors) <= {f.name for f in recording.factors}
        assert len(recording[0].obs) == 1


TWINS = ('response', 'interventional')


def test_questions_about_twins_are_asked_in_a_world_that_sets_factors():
    "The true state answers to itself alone, a constant to nothing."
    setting = find_setting('RepeatPrevious-easy', n=20, factors=('ago_0', 'ago_1'), twins=6)
    recording = setting.data()
    own = {}
    for row in ('constant', 'true_state', 'agent', 'belief'):
        what = AtMoments(row, setting, {setting.name: recording}, Budget(epochs=1))
        codes = what.fit(recording).encode(setting.moments(recording))
        answers, reasons = ask_all(codes, setting.moments(recording), code_questions(TWINS))
        assert not reasons
        own[row] = answers['response'].value('own')
    assert own['true_state'] > 0.99 and own['belief'] > 0.9
    assert abs(own['constant']) < 1e-9 < own['agent']


def test_encoders_learn_nothing_from_twins():
    """With twins and without them, codes of all other episodes are equal, up to the rounding of another batch.

    The episodes are long enough for two windows each; learning from twins would change the codes by far more.
    """
    setting = find_setting('RepeatPrevious-medium', n=10, factors=('ago_0', 'ago_1'), twins=6, length=8)
    for row in ('masked_autoencoder', 'GRU', 'window_statistics', 'true_state'):
        codes = []
        for s in (replace(setting, twins=0), setting):
            recording = s.data()
            what = AtMoments(row, s, {s.name: recording}, Budget(epochs=1))
            codes.append(what.fit(recording).encode(s.moments(recording)))
        assert len(codes[0]) == 10 < len(codes[1])
        assert all(np.allclose(a, b, rtol=0, atol=1e-6) for a, b in zip(*codes)), row


def test_twins_are_moments_of_the_setting():
    "Rows are thinned from the first one, and the last row of a twin stays; its window has as many rows as others."
    setting = find_setting('pong', n=320, twins=2, condition='', factors=('player_y', 'ball_x'))
    recording = setting.data()
    twins = recording['twins']
    assert (twins.lengths == 9).all() and {*twin_table(recording)['factor']} <= {'', 'player_y', 'ball_x'}
    of_moments = setting.moments(recording)
    for whole, moments in zip(twins, of_moments['twins']):
        assert whole.factors['player_y'][-1] == moments.factors['player_y'][-1]
    assert twin_table(of_moments).equals(twin_table(recording))
    task = find_setting('RepeatPrevious-easy', n=10, twins=12, every=3)
    assert ((task.data()['twins'].lengths - 1) % 3 == 0).all()


@pytest.mark.parametrize(
    'setting, words',
    [
        (dict(what='MountainCar-v0', n=10), 'settable'),
        (dict(what='RepeatPrevious-easy', n=10, factors=('answer',)), 'ago_0'),
        (dict(what='pong', n=320, condition='', record=dict(ram=dict(enemy_y=100))), 'ram'),
    ],
)
def test_a_setting_without_twins_says_why(setting, words):
    recording = find_setting(**setting).data()
    assert 'twins' not in recording.split and words in recording.meta['no_twins']
    codes = [np.zeros((len(e), 1)) for e in recording]
    answers, reasons = ask_all(codes, recording, code_questions([*TWINS]))
    assert not answers and reasons == dict.fromkeys(TWINS, recording.meta['no_twins'])


def test_a_scorecard_scores_twins_and_says_why_there_are_none():
    "Twins of a recording are kept, few of them are enough; a table has none."
    rng = np.random.default_rng(0)
    x = rng.normal(size=(6000, 2)).astype(np.float32)
    factors = dict(a=x[:, 0].astype(float), b=x[:, 1].astype(float))
    plain = Recording.from_arrays(dict(vector=x), name='numbers', episode=np.arange(6000) // 100, factors=factors)
    plain = plain.with_split(fit=0.2, valid=0.1, probe=0.4, test=0.3)
    pairs = [((e, 0), (e, 1)) for e in range(20)]
    twins = Twins.from_pairs(plain, pairs, 'a', follows=('b',))
    options = dict(questions=[*TWINS, 'regression'], references=('constant',), progress=False)
    card = scorecard('raw', with_twins(plain, twins), **options)
    (why,) = {key: words for key, words in card.reasons.items() if key[0] == 'raw'}.items()
    assert why[0] == ('raw', 'numbers', 'interventional')  # one factor is set: nothing to tell apart
    none = scorecard('raw', plain, **options)
    assert 'recorded' in none.reasons['raw', 'numbers', 'response']
    old = none.scores.set_index(['method', 'group', 'metric', 'target'])['value']
    new = card.scores.set_index(['method', 'group', 'metric', 'target'])['value']
    assert new[old.index].equals(old) and new['raw', 'response', 'own', 'mean'] > 0.99


CELL = """
from srlviz.core.checks.question import toy_recording
from dataclasses import replace
from srlviz.evaluate.ask import ask
from srlviz.widgets.cross_matrix import CrossMatrix
toy = toy_recording()
state = [e.obs['vector'] for e in toy]
codes = dict(constant=[0 * x for x in state], half=[x[:, :2] for x in state], state=state)
asked = ['selectivity', 'description_length']
results = ask(codes, dict(switches=toy), asked, references=['constant'], progress=False)
reasons = {('film', 'switches', 'selectivity'): 'film reads frames; switches has <b>vector</b>'}
board = CrossMatrix(replace(results, reasons=reasons))
board
"""

CELL_PLACE = """(g, [row, column]) => {
    const heat = g._fullData[0], r = g.getBoundingClientRect(), l = g._fullLayout;
    for (let i = 0; i < heat.z.length; i++) for (let j = 0; j < heat.z[i].length; j++) {
        const data = heat.customdata?.[i]?.[j];
        if (data?.[0] !== row || data?.[1] !== column) continue;
        const x = l.xaxis.c2p((heat.x[j] + heat.x[j + 1]) / 2), y = l.yaxis.c2p((heat.y[i] + heat.y[i + 1]) / 2);
        return [r.left + l.xaxis._offset + x, r.top + l.yaxis._offset + y];
    }
    throw new Error('no such cell');
}"""


@pytest.mark.browser
def test_a_click_opens_the_answer_and_the_moment(browser, open_lab):
    lab = open_lab(notebook_of(CELL.strip()))
    page = open_page(browser, lab)
    assert_no_errors(page)
    board = page.locator('.jp-OutputArea .js-plotly-plot:visible').first
    page.mouse.click(*board.evaluate(CELL_PLACE, ['half', 'selectivity']))
    wait_for(lambda: lab.evaluate('[board.method, board.question, board.factor]') == ['half', 'selectivity', 'fan'])
    step = lab.evaluate('[board.episode, board.t]')
    items = 'board.answer.items.set_index(["factor", "episode", "t"]).loc[("fan", board.episode, board.t)]'
    assert lab.evaluate(f'bool({items}["truth"] != {items}["predicted"])')
    assert lab.evaluate('[board.moment.episode, board.moment.t]') == step
    page.mouse.click(*board.evaluate(CELL_PLACE, ['film', 'selectivity']))
    wait_for(lambda: page.get_by_text('Film: film reads frames').count(), message='the reason is shown')
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
    box = page.locator('.jp-OutputArea-output:visible').last.bounding_box()
    for plot in page.locator('.jp-OutputArea .js-plotly-plot:visible').all():
        inner = plot.bounding_box()
        assert inner['x'] + inner['width'] <= box['x'] + box['width'] + 1
    page.screenshot(path=SHOTS / 'matrix.png')
    assert_no_errors(page)
