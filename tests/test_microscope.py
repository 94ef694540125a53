"""BeliefMicroscope and TwinExplorer: presses and keys in a real JupyterLab, and the page that the site shows."""

from pathlib import Path

import numpy as np
import pytest
import torch
import traitlets
from support.lab import SHOTS, assert_no_errors, notebook_of, open_page, reset_page, wait_for

import srlviz
from srlviz.agents.player import load_policy
from srlviz.core.files import sample_path
from srlviz.core.recordings import Episode, Recording
from srlviz.core.twins import Twins, with_twins
from srlviz.evaluate.ask import ask
from srlviz.evaluate.memories.edited_play import Change, EditedPlay
from srlviz.studies.explore import explore
from srlviz.widgets.agents.microscope import BeliefMicroscope
from srlviz.widgets.agents.mind_page import mind_data
from srlviz.widgets.agents.scenes import control_sentence
from srlviz.widgets.base import script
from srlviz.widgets.twin_explorer import TwinExplorer

CELL = """
import srlviz
scope = srlviz.explore('RepeatPrevious-easy', widget='BeliefMicroscope', factor='ago_1', seed=3, t=12)
scope
"""
START = '[scope.reset(), setattr(scope, "length", 1.0), setattr(scope, "second", ""), setattr(scope, "t", 12)] and None'
CHANGED = """(lambda p: p['edited'] and
    [t for t, (a, b) in enumerate(zip(p['original']['chosen'], p['edited']['chosen'])) if a != b]
)(scope.view.scene['panels'][0])"""


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(notebook_of(CELL.strip()))


@pytest.fixture(scope='module')
def opened(browser, lab):
    page = open_page(browser, lab)
    assert_no_errors(page)
    return page


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


@pytest.mark.browser
def test_keys_edit_the_memory_and_take_it_back(page, lab):
    "Arrows choose a row and a value, Enter edits, Backspace undoes; A puts another agent beside the first."
    canvas = page.locator('.srlviz-scope canvas')
    wait_for(lambda: canvas.count() == 1, message='the screen is drawn')
    canvas.focus()
    truth = lab.evaluate("scope.view.scene['panels'][0]['original']['truth'][13]")
    page.keyboard.press('ArrowRight')
    page.keyboard.press(str((truth + 1) % 4 + 1))  # the number of a value
    wait_for(lambda: lab.evaluate(CHANGED) == [15], message='the action that is due changed, and no other')
    assert lab.evaluate('scope.t') == 13
    said = page.locator('.srlviz-scope .srlviz-said')
    wait_for(lambda: 'as the memory says' in said.inner_text(), message='what it did is said')
    page.screenshot(path=SHOTS / 'microscope.png')
    page.keyboard.press('a')
    wait_for(lambda: lab.evaluate("[p['name'] for p in scope.view.scene['panels']]") == ['GRU', 'LSTM'])
    page.keyboard.press('Backspace')
    wait_for(lambda: lab.evaluate('len(scope.changes)') == 0, message='the edit is taken back')


@pytest.mark.browser
def test_a_press_on_a_value_edits_and_the_slider_changes_it(page, lab):
    "A press on a cell of the memory edits it; the slider makes the last push shorter."
    canvas = page.locator('.srlviz-scope canvas')
    wait_for(lambda: canvas.count() == 1)
    place = canvas.evaluate('c => [c.clientWidth, c.getBoundingClientRect().left, c.getBoundingClientRect().top]')
    rows = len(lab.evaluate("scope.view.scene['panels'][0]['original']['saw']"))
    width = min(34, (place[0] - 118 - 14) / rows)
    # below two lines of text, the posterior, and the heading of the agent: the first row of its memory
    y = place[2] + 4 + 2 * 27 + 4 * 15 + 7 + 5 + 22 + 7
    page.mouse.click(place[1] + 118 + 20.5 * width, y)
    wait_for(lambda: lab.evaluate('[c.t for _, c in scope.changes]') == [20], message='row 20 is edited')
    assert lab.evaluate('scope.changes[0][1].value') == 0
    page.locator('.srlviz-scope input[type=range]').fill('0.1')
    wait_for(lambda: lab.evaluate('scope.changes[0][1].length') == 0.1, message='the push is shorter')


def test_edits_are_of_one_agent_and_several_factors():
    "Edits of two factors act in turn; those of another agent do not touch this one; a new episode starts without."
    scope = BeliefMicroscope('RepeatPrevious-easy', seed=3, factor='ago_0', second='Elman', interactive=False)
    scope.press(0, t=10)
    scope.factor = 'ago_2'
    scope.press(1, t=20)
    assert [c.factor for c in scope.changes_of('GRU')] == ['ago_0', 'ago_2'] and not scope.changes_of('Elman')
    assert scope.view.scene['panels'][1]['edited'] is None
    assert [e['t'] for e in scope.view.scene['panels'][0]['edits']] == [20]  # those of the shown factor
    scope.press(2, t=20)  # replaces the one before
    assert [c.value for c in scope.changes_of('GRU')][1:] == [2]
    scope.seed = 4
    assert not scope.changes


@pytest.mark.parametrize('kind', ['class means', 'raw probe', 'LDA', 'subspace swap', 'twin'])
def test_a_random_push_as_long_stands_beside_each_edit(kind):
    "The control has the length of the edit; its count of changed actions is that of playing it, of the same actions."
    play = EditedPlay(load_policy(sample_path('agents') / 'RepeatPrevious-easy_GRU.safetensors'))
    course, change = play.play(0), Change(20, 'ago_3', 1.0, kind, 1.5)
    push = play.control(course, change)
    lengths = [np.linalg.norm(play.step(course, c, course.before[20])) for c in (change, push)]
    assert push.kind == 'random' and lengths[0] == pytest.approx(lengths[1], rel=1e-6) and lengths[0] > 0
    changed = np.sum(play.play_on(course, [push]).actions[21:] != course.actions[21:])
    later = len(course) - 21
    assert control_sentence(play, course, [change]) == f'A random push as long changes {changed} of {later}.'
    assert control_sentence(play, course, [push]) == ''


def test_what_cannot_be_edited_says_so():
    "No state, a factor that is not read, a value that no history has, the last row, names of no kind or agent."
    policy = load_policy(sample_path('agents') / 'RepeatPrevious-easy_MLP.safetensors')
    scope = BeliefMicroscope(policy, interactive=False)
    assert 'has no state' in scope.view.scene['panels'][0]['cannot']
    scope.method, scope.factor = 'GRU', 'ago_1'
    with pytest.raises(ValueError, match='steps with a later action'):
        scope.press(1, t=len(scope.course['GRU']) - 1)
    for name in 'kind', 'second', 'factor':
        with pytest.raises(traitlets.TraitError, match='choices|did you mean'):
            setattr(scope, name, 'nothing')
    with pytest.raises(ValueError, match='edits need an agent with a memory'):
        BeliefMicroscope(dict(codes=np.zeros((3, 2))), 'RepeatPrevious-easy', interactive=False)


def test_a_continuous_action_is_a_number():
    "A pendulum has no probabilities of actions: its torque is shown, and edits of what its memory says move it."
    scope = BeliefMicroscope('PositionOnlyPendulum-easy', interactive=False)
    line = scope.view.scene['panels'][0]['original']
    assert line['policy'] is None and isinstance(line['chosen'][0], str)
    scope.press(0, t=5)
    assert 'later actions changed' in scope.view.scene['panels'][0]['sentence'] and scope.figure().data


def test_the_page_of_the_site_is_current():
    "docs/_static/mind.html has the code of this version; python .ci/screenshot.py makes it again."
    page = (Path(__file__).parents[1] / 'docs/_static/mind.html').read_text(encoding='utf-8')
    assert script('mind.js', 'microscope.js') in page and "default-src 'none'" in page


def test_twins_of_a_table_open_without_pictures():
    "Twins without a picture have no film; results without twins are refused."
    rng = np.random.default_rng(0)

    def row(x, y):
        return Episode(dict(vector=np.array([[x, y, x * y]], float)), factors=dict(x=np.array([x]), y=np.array([y])))

    natural = Recording([row(*rng.normal(size=2)) for _ in range(80)], name='room').with_split(probe=0.6, test=0.4)
    episodes, rows = [], []
    for moment in range(4):
        y = rng.normal()
        for factor, x in [('', np.nan), ('x', -1.0), ('x', 2.0)]:
            episodes.append(row(0.5 if factor == '' else x, y))
            rows.append((moment, factor, x))
    both = with_twins(natural, Twins.build(episodes, *zip(*rows), name='room'))
    codes = [np.asarray(e.obs['vector']) for e in both]
    results = ask(dict(table=codes), {'room': both}, ['response'], progress=False)
    twins = explore(results, widget='TwinExplorer')
    assert isinstance(twins, TwinExplorer) and twins.view.scene['columns'] == ['-1', '0.5', '2']
    assert [band['kind'] for band in twins.view.scene['blocks'][0]['bands']] == ['text']
    assert twins.view.scene['blocks'][0]['bands'][0]['cells'] == ['set to -1', 'was 0.5', 'set to 2']
    assert len(twins.figure().data) == 1 + 4
    with pytest.raises(ValueError, match="no answer to 'response'"):
        explore(ask(dict(table=codes), {'room': both}, ['probe'], progress=False), widget='TwinExplorer')


def test_numbers_keep_their_digits_and_agents_share_values():
    "Values of a number are not cut; an agent without a reading is drawn with the values of the one beside it."
    scope = BeliefMicroscope('RepeatPrevious-easy', factor='remaining_0', interactive=False)
    assert scope.view.scene['signs'] == [str(i) for i in range(14)]
    policies = {name: sample_path('agents') / f'RepeatPrevious-easy_{name}.safetensors' for name in ('MLP', 'GRU')}
    both = {name: load_policy(path) for name, path in policies.items()}
    scope = BeliefMicroscope(both, factor='answer', second='GRU', interactive=False)
    assert scope.view.scene['signs'] == ['♠', '♦', '♣', '♥']
    lines = [panel['original'] for panel in scope.view.scene['panels']]
    assert lines[0]['truth'] == lines[1]['truth'] and lines[0]['truth'][:3] == [-1] * 3
    assert np.mean([np.argmax(p) == v for p, v in zip(lines[1]['belief'][6:], lines[1]['truth'][6:])]) > 0.95
    with pytest.raises(ValueError, match='0 to 3; got 4'):
        scope.press(4, t=8, agent='GRU')
    with pytest.raises(ValueError, match='step 0'):
        scope.press(1, t=0, agent='GRU')  # its action is decided before anything is seen


def test_an_edit_of_an_agent_that_is_hidden_goes_with_it():
    "Only edits of agents on the screen can be undone; a direction that cannot be used stays as it was."
    scope = BeliefMicroscope('RepeatPrevious-easy', factor='ago_0', second='Elman', interactive=False)
    scope.press(0, t=8, agent='Elman')
    scope.second = 'LSTM'
    assert not scope.changes
    scope.factor = 'remaining_0'
    scope.press(3, t=8)
    with pytest.raises(ValueError, match='choose another direction'):
        scope.kind = 'LDA'
    assert scope.kind == 'class means' and scope.changes[0][1].kind == 'class means'
    scope.second = 'GRU'
    assert scope.second == ''


def test_a_press_takes_a_label_and_says_what_it_did():
    "A value is its label, sign or number; press returns the sentence, and what is no value or step is refused."
    scope = BeliefMicroscope('RepeatPrevious-easy', seed=3, factor='ago_1', interactive=False)
    said = scope.press('spades', t=12)
    assert said == scope.sentence and 'step 14: ♥ → ♠' in said and 'A random push as long changes' in said
    scope.press('♦', t=20)
    assert [change.value for _, change in scope.changes] == [0, 1]
    assert '%) at step 12.' in scope.sentence and '%) at step 20.' in scope.sentence
    for wrong in 'heart', 1.5, -1, 4, None:
        with pytest.raises(ValueError, match='value'):
            scope.press(wrong, t=12)
    for t in 1.5, 500:
        with pytest.raises(ValueError, match='500|1.5'):
            scope.press(1, t=t)
    with pytest.raises(ValueError, match='agent that is shown'):
        scope.press(1, t=12, agent='LSTM')
    with pytest.raises(traitlets.TraitError, match='0 to 50; got 500'):
        scope.t = 500
    scope.seed = 4
    assert scope.sentence == scope.view.scene['gone'] == 'The edits of episode 3 are removed.'
    scope.press('spades', t=12)
    scope.undo()
    assert 'No edit is left' in scope.sentence


def test_it_opens_at_an_episode_that_can_be_edited():
    "The first episode of MineSweeper ends at once; asked for, it is shown, and says that it has no step to edit."
    scope = BeliefMicroscope('MineSweeper-easy', interactive=False)
    assert len(scope.course['GRU']) >= 8 and scope.seed > 0
    scope = BeliefMicroscope('MineSweeper-easy', seed=0, interactive=False)
    assert scope.seed == 0 and len(scope.course['GRU']) == 1
    assert 'ends with its first action' in scope.view.scene['panels'][0]['cannot']
    with pytest.raises(ValueError, match='ends with its first action'):
        scope.press(1, t=0)
    scope.factor = 'left'  # a number
    assert {*scope.view.scene['off']} == {'LDA', 'twin'}


class _Own(torch.nn.Module):
    "A network as a user writes it, with the state of its GRU on axis 0 or, as torch has it, on axis 1"

    n_in = 10

    def __init__(self, axis: int):
        super().__init__()
        self.gru, self.head, self.axis = torch.nn.GRU(10, 6, batch_first=True), torch.nn.Linear(6, 4), axis

    def initial_state(self, n):
        return torch.zeros(1, n, 6).movedim(1, self.axis)

    def read(self, obs):
        return obs

    def memory(self, x, state):
        y, state = self.gru(x, state.movedim(self.axis, 1).contiguous())
        return y, state.movedim(1, self.axis)

    def policy(self, y):
        return self.head(y)


def test_a_network_of_ones_own_opens_with_a_task():
    "explore takes a network and the name of its task or a recording of it; a wrong layout of the state is named."
    scope = explore(_Own(0), 'RepeatPrevious-easy', widget='BeliefMicroscope', factor='ago_0', interactive=False)
    assert scope.method == '_Own' and 'GRU' in scope.view.scene['agents']
    scope = explore(
        {'mine': _Own(0)}, srlviz.record('RepeatPrevious-easy', 1), widget='BeliefMicroscope', factor='ago_0'
    )
    assert scope.method == 'mine' and scope.play.player.n_codes == 6
    with pytest.raises(ValueError, match=r'initial_state.* \(1, 2, 6\); expected .*axis 0'):
        explore(_Own(1), 'RepeatPrevious-easy', widget='BeliefMicroscope')
    with pytest.raises(ValueError, match='no agent ships'):
        explore('CountRecall-easy', widget='BeliefMicroscope')


def test_agents_on_other_tasks_are_named():
    "The microscope shows agents on one task, and says which it leaves out; one of another task cannot be the second."
    both = {
        name: load_policy(sample_path('agents') / f'{name}-easy_GRU.safetensors')
        for name in ('RepeatPrevious', 'RepeatFirst')
    }
    scope = explore(both, widget='BeliefMicroscope', task='RepeatPrevious-easy', factor='ago_0')
    assert scope.method == 'RepeatPrevious' and 'RepeatFirst-easy' in scope.status.value
    with pytest.raises(ValueError, match='different tasks'):
        explore(both, widget='BeliefMicroscope', second='RepeatFirst')


def test_a_page_asks_for_what_is_there():
    "Unknown factors and agents of a page are refused; a network without a task is opened by its name."
    network = load_policy(sample_path('agents') / 'RepeatPrevious-easy_GRU.safetensors').network_
    scope = BeliefMicroscope(network, 'RepeatPrevious-easy', factor='ago_0', interactive=False)
    assert scope.play.player.name == 'RepeatPrevious-easy'
    for wrong in dict(factor='answer'), dict(second='nobody'), dict(factors=[]):
        with pytest.raises(ValueError, match='unknown|factors is empty'):
            mind_data(scope.play, **dict(factors=['ago_0']) | wrong)
