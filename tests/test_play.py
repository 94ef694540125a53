"""Tests of PlayWidget and EnvironmentExplorer in a real JupyterLab, in the notebook of tutorial 3.

PlayWidget is used by keys and clicks, EnvironmentExplorer by its menus and its strips. The tests compare the page with
the state of the kernel.
"""

import pytest
from support.lab import ROOT, SHOTS, reset_page, wait_idle, open_page, wait_for

pytestmark = pytest.mark.browser
TUTORIAL = ROOT / 'nbs/tutorials/03_pomdps.ipynb'


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(TUTORIAL, "\nepisodes = 3     # the test presses buttons\n")


@pytest.fixture(scope='module')
def opened(browser, lab):
    return open_page(browser, lab)


START = """[
    *(explorer.set_trait(name, value) for name, value in dict(
        task='RepeatPrevious-easy', policy='remember', seed=0, reveal=True, factor='', against='').items()),
    explorer.seek(0, 0)]"""


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


class Board:
    "One PlayWidget: the k-th of the page, and the variable `name` in the kernel"

    def __init__(self, page, lab, name, k):
        self.page, self.lab, self.name = page, lab, name
        self.widget = page.locator('.srlviz-play').nth(k)
        self.root = self.widget.locator('.srlviz-board')
        self.root.scroll_into_view_if_needed()
        wait_for(lambda: self.root.get_attribute('data-shown') is not None, message='the first picture is drawn')

    def evaluate(self, expression):
        return self.lab.evaluate(f'{self.name}.{expression}')

    def steps(self):
        return self.evaluate('recorder.steps')

    def start_task(self, task):
        "Start the first game of a task from Python, with the state hidden"
        calls = [f"set_trait('task', {task!r})", "set_trait('reveal', False)", 'new_game(0)']
        self.lab.evaluate(f"[{', '.join(f'{self.name}.{call}' for call in calls)}]")
        self.wait_until_drawn()
        return self

    def wait_until_drawn(self):
        wait_idle(self.page)
        wait_for(
            lambda: self.root.get_attribute('data-shown') == str(self.evaluate('board.shown')),
            message='the page shows what the kernel drew',
        )

    def start_game(self, button):
        "Start another game by a button, and wait until the page shows it: a key pressed before then would be lost"
        game = self.evaluate('board.game')
        self.widget.get_by_role('button', name=button).click()
        wait_for(lambda: self.evaluate('board.game') > game and self.steps() == 0, message=button)
        self.wait_until_drawn()

    def choose_task(self, task):
        "Choose another task by the menu"
        self.menu('Task').select_option(task)
        wait_for(lambda: self.evaluate('task') == f'{task}-easy' and self.steps() == 0, message=task)
        self.wait_until_drawn()

    def focus(self):
        self.root.focus()

    def press(self, key):
        "Press a key, and wait for the step that it makes"
        n = self.steps()
        self.page.keyboard.press(key)
        wait_for(lambda: self.steps() == n + 1, message=f'{key} is a step')
        self.wait_until_drawn()

    def menu(self, label):
        return (
            self.widget.locator('.widget-dropdown')
            .filter(has=self.page.locator(f'label:text-is("{label}")'))
            .locator('select')
        )

    def point_at(self, x, y):
        "Return the position on the page of a pixel of the picture"
        self.root.scroll_into_view_if_needed()
        self.wait_until_drawn()
        box = self.root.locator('img').bounding_box()
        width, height = self.evaluate('board.size')
        return box['x'] + x * box['width'] / width, box['y'] + y * box['height'] / height

    def click_target(self, action):
        "Click the part of the picture that stands for an action"
        x0, y0, x1, y1 = next(t['box'] for t in self.evaluate('board.targets') if t['action'] == action)
        n = self.steps()
        self.page.mouse.click(*self.point_at((x0 + x1) / 2, (y0 + y1) / 2))
        wait_for(lambda: self.steps() == n + 1, message=f'a press on {action} is a step')
        assert self.evaluate("recorder.last(1)[0]['action'].tolist()") == action
        self.wait_until_drawn()


@pytest.fixture
def cards(page, lab):
    return Board(page, lab, 'cards', 0).start_task('RepeatPrevious-easy')


@pytest.fixture
def mines(page, lab):
    return Board(page, lab, 'mines', 1).start_task('MineSweeper-easy')


def test_keys_are_actions(cards):
    "Each key is the action that the environment assigns to it"
    cards.start_game('same again')
    cards.focus()
    for key, action in (('h', 3), ('s', 0), ('d', 1), ('c', 2)):
        cards.press(key)
        assert cards.evaluate("recorder.last(1)[0]['action'].tolist()") == action
    cards.press('D')  # with shift or caps lock
    assert cards.page.locator('.jp-Notebook').first.evaluate(
        "n => !n.classList.contains('jp-mod-editMode')"
    )  # no key reached the notebook
    rows = cards.widget.locator('tbody tr')
    wait_for(
        lambda: rows.count() == 5 and 'diamonds' in rows.first.inner_text(),
        message='the last steps are listed, the newest first',
    )


def test_clicks_on_targets_are_actions(cards):
    cards.click_target(2)
    n = cards.steps()
    cards.page.mouse.click(*cards.point_at(3, 3))  # where no target is
    wait_idle(cards.page)
    assert cards.steps() == n
    box = next(t['box'] for t in cards.evaluate('board.targets') if t['action'] == 1)
    cards.page.mouse.move(*cards.point_at((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
    ring = cards.root.locator('.srlviz-ring')
    wait_for(lambda: ring.is_visible(), message='the target under the pointer is ringed')
    assert (
        abs(
            ring.bounding_box()['width']
            - (box[2] - box[0]) * cards.root.locator('img').bounding_box()['width'] / cards.evaluate('board.size')[0]
        )
        < 2
    )


def test_backspace_undoes_a_step(cards):
    cards.focus()
    cards.press('h')
    before, n = cards.evaluate('recorder.total'), cards.steps()
    cards.press('s')
    cards.page.keyboard.press('Backspace')
    wait_for(lambda: cards.steps() == n, message='the step is undone')
    assert cards.evaluate('recorder.total') == before and cards.evaluate('recorder.undone') == 1
    cards.wait_until_drawn()


def test_hidden_state_is_shown_on_request_and_recorded(cards):
    "The hidden state is shown only on request, and the recording has a flag that it was shown"
    cards.focus()
    cards.press('h')
    width = cards.evaluate('board.size')[0]
    assert cards.evaluate("recording().meta['looked'][-1]") is False
    box = cards.widget.get_by_role('checkbox', name='show hidden state')
    box.check()
    wait_for(lambda: cards.evaluate('reveal') is True and cards.evaluate('board.size')[0] > 1.5 * width)
    cards.wait_until_drawn()
    wait_for(
        lambda: cards.root.locator('img').evaluate('i => i.naturalWidth') == cards.evaluate('board.size')[0],
        message='the picture holds both panels',
    )
    cards.widget.screenshot(path=SHOTS / 'play_cards.png')
    box.uncheck()
    wait_for(lambda: cards.evaluate('board.size')[0] == width)
    cards.wait_until_drawn()
    assert cards.evaluate("recording().meta['looked'][-1]") is True


def test_game_is_played_to_its_end_and_recorded(cards):
    "Keys play a game to its end, and Enter starts the next; both are recorded"
    cards.start_game('new game')
    seed = cards.evaluate('seed')  # the board has the keyboard focus, without a click
    while not cards.evaluate('recorder.ended'):
        cards.page.keyboard.press('sdch'[cards.steps() % 4])
    cards.wait_until_drawn()
    wait_for(
        lambda: 'over after 51 steps' in cards.root.locator('.srlviz-over').inner_text(),
        message='the page shows the end of the game',
    )
    cards.widget.screenshot(path=SHOTS / 'play_over.png')
    cards.page.keyboard.press('h')  # too late: nothing happens
    cards.page.keyboard.press('Enter')
    wait_for(lambda: cards.evaluate('seed') == seed + 1 and cards.steps() == 0, message='the next game')
    assert (
        cards.evaluate('recording().lengths.tolist()')[-1] == 51
        and cards.evaluate("recording()[len(cards.recording()) - 1].ended") == 'terminated'
    )


def test_saved_games_load_unchanged(cards, lab):
    "Two games, one with an undone step and a shown state, are the same after saving and loading"
    cards.focus()
    for key in 'hsd':
        cards.press(key)
    cards.page.keyboard.press('Backspace')
    wait_for(lambda: cards.steps() == 2, message='a step is undone')
    lab.evaluate("[cards.set_trait('reveal', on) for on in (True, False)]")
    cards.start_game('new game')
    for key in 'ch':
        cards.press(key)
    assert lab.evaluate("[cards.recording().meta[k][-2:] for k in ('undone', 'looked')]") == [[1, 0], [True, False]]
    actions = "a[0].actions.tolist() == b[0].actions.tolist()"
    frames = "bool((a[0].obs['frame'][:] == b[0].obs['frame'][:]).all())"
    compare = f"(lambda a, b: [a.meta == b.meta, {actions}, {frames}])"
    load = "__import__('srlviz.core.recordings', fromlist=['x']).load_recording"
    assert lab.evaluate(
        f"{compare}(cards.recording(), {load}(cards.recording().save(__import__('tempfile').mkdtemp() + '/mine.npz')))"
    ) == [True, True, True]


def test_menu_changes_the_task(cards):
    "The menu opens a maze, walked with the arrow keys; a key that is held down makes one step at a time"
    cards.choose_task('LabyrinthExplore')
    cards.focus()
    for key, action in (('ArrowRight', 1), ('ArrowDown', 3), ('ArrowLeft', 0), ('ArrowUp', 2)):
        cards.press(key)
        assert cards.evaluate("recorder.last(1)[0]['action'].tolist()") == action
    before = cards.steps()
    cards.root.evaluate(
        """r => { for (let i = 0; i < 30; i++)
            r.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowDown', repeat: i > 0, bubbles: true })) }"""
    )
    wait_for(lambda: cards.steps() > before)
    cards.wait_until_drawn()
    assert cards.steps() == before + 1
    cards.widget.screenshot(path=SHOTS / 'play_maze.png')


def test_slider_and_keys_set_a_continuous_action(cards):
    "A pendulum takes an action between two bounds, from the slider or from a key"
    cards.choose_task('PositionOnlyPendulum')
    bar = cards.root.locator('input[type=range]')
    bar.focus()
    cards.page.keyboard.press('End')
    assert bar.input_value() == '2'
    cards.page.keyboard.press('Enter')
    wait_for(lambda: cards.steps() == 1, message='Enter is a step')
    assert cards.evaluate("recorder.last(1)[0]['action'].tolist()") == [2]
    cards.wait_until_drawn()
    cards.focus()
    cards.press('ArrowDown')
    assert cards.evaluate("recorder.last(1)[0]['action'].tolist()") == [0]
    cards.widget.screenshot(path=SHOTS / 'play_pendulum.png')


def test_tiles_are_opened_by_pointer_and_keyboard(mines):
    "One tile is opened by the pointer, and another by arrow keys and Enter"
    mines.click_target([3, 3])
    mines.page.mouse.move(5, 5)
    mines.wait_until_drawn()
    mines.focus()
    mines.page.keyboard.press('ArrowRight')  # the first key only shows the position
    ring = mines.root.locator('.srlviz-ring')
    wait_for(lambda: ring.is_visible(), message='the keyboard position is ringed')
    for key in ('ArrowRight', 'ArrowDown'):
        mines.page.keyboard.press(key)
    mines.press('Enter')
    assert mines.evaluate("recorder.last(1)[0]['action'].tolist()") == [1, 1]
    mines.widget.screenshot(path=SHOTS / 'play_mines.png')


# whether the rollout is there: the kernel plays it in a thread while this test evaluates expressions
PLAYED = '(explorer.task, explorer.policy, explorer.seed) in explorer.played'


def menu(page, name):
    wait_idle(page)  # the kernel may have sent other options
    return (
        page.locator('.srlviz-environment-explorer .widget-dropdown')
        .filter(has=page.locator(f'label:text-is("{name}")'))
        .locator('select')
    )


def explorer_player(page):
    "Return the player of EnvironmentExplorer, once its first frame is drawn"
    player = page.locator('.srlviz-environment-explorer .srlviz-player')
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') is not None, message='the first frame is drawn')
    wait_idle(page)
    return player


def test_policies_are_compared_on_one_seed(page, lab):
    "Each policy plays the same seed; their mean returns are listed together"
    explorer_player(page)
    for name in ('same', 'oracle', 'random'):
        menu(page, 'Policy').select_option(name)
        wait_for(
            lambda: (
                lab.evaluate('explorer.policy') == name
                and lab.evaluate(f'{PLAYED} and len(explorer.rollout.episode)') == 51
            ),
            message=name,
        )
    status = page.locator('.srlviz-environment-explorer .srlviz-status')
    wait_for(
        lambda: all(p in status.inner_text() for p in ('remember +1', 'oracle +1', 'random −')),
        message='all means are shown',
    )


def test_strips_player_and_kernel_share_one_step(page, lab):
    "A press in the strips moves the picture; the space bar plays it; the cursor follows"
    player = explorer_player(page)
    strips = page.locator('.srlviz-environment-explorer .srlviz-plot')
    graph = strips.locator('.js-plotly-plot')
    wait_for(
        lambda: graph.count() and graph.evaluate("g => !!g._fullLayout?.xaxis?._length"), message='the strips are drawn'
    )
    strips.scroll_into_view_if_needed()
    wait_idle(page)
    x, y = graph.evaluate(
        """g => { const r = g.getBoundingClientRect(), l = g._fullLayout;
            return [r.left + l.xaxis._offset + l.xaxis.c2p(30), r.top + l.yaxis3._offset + 12] }"""
    )
    page.mouse.click(x, y)
    wait_for(
        lambda: (
            player.get_attribute('data-frame') == '30'
            and lab.evaluate('explorer.t') == 30
            and strips.get_attribute('data-cursor') == '30'
        ),
        message='picture, kernel and line are at step 30',
    )
    player.locator('.srlviz-stage').click()
    page.keyboard.press('Space')
    wait_for(lambda: int(player.get_attribute('data-frame')) > 33, message='it plays')
    page.keyboard.press('Space')
    t = wait_for(
        lambda: (
            (t := int(player.get_attribute('data-frame')))
            == lab.evaluate('explorer.t')
            == int(strips.get_attribute('data-cursor'))
            and t
        ),
        message='all stop at one step',
    )
    assert t > 33
    page.locator('.srlviz-environment-explorer').screenshot(path=SHOTS / 'explorer_cards.png')


def test_row_selects_a_factor_and_checkbox_hides_the_state(page, lab):
    player = explorer_player(page)
    player.get_by_role('button', name='answer', exact=True).click()
    wait_for(
        lambda: (
            lab.evaluate('explorer.factor') == 'answer' and lab.evaluate('len(explorer.plot.figure.data[2].y)') == 1
        ),
        message='a press on a row shows it alone',
    )
    box = page.locator('.srlviz-environment-explorer').get_by_role('checkbox')
    t = lab.evaluate('explorer.t')
    width = player.locator('canvas').first.evaluate('c => c.width')
    box.uncheck()
    wait_for(
        lambda: (
            player.locator('canvas').first.evaluate('c => c.width') < width and lab.evaluate('explorer.reveal') is False
        ),
        message='the hidden state is not shown',
    )
    wait_idle(page)
    wait_for(lambda: int(player.get_attribute('data-frame')) == t, message='at the same step')
    assert not player.get_by_role('button', name='answer', exact=True).count()
    box.check()
    wait_for(lambda: lab.evaluate('explorer.reveal'))


def test_controls_set_task_policy_seed_and_episode(page, lab):
    menu(page, 'Task').select_option('LabyrinthEscape')
    wait_for(lambda: lab.evaluate('explorer.task') == 'LabyrinthEscape-easy', message='the menu sets the task')
    menu(page, 'Policy').select_option('oracle')
    wait_for(
        lambda: (
            lab.evaluate(f'[explorer.policy, {PLAYED} and explorer.rollout.episode.ended]') == ['oracle', 'terminated']
        ),
        message='it finds the way out',
    )
    player = explorer_player(page)
    seed = page.locator('.srlviz-environment-explorer .widget-text').filter(has=page.locator('label:text-is("Seed")'))
    seed.locator('input').fill('5')
    page.keyboard.press('Enter')
    wait_for(lambda: lab.evaluate('explorer.seed') == 5, message='another seed')
    menu(page, 'Episode').select_option(index=2)
    wait_for(lambda: lab.evaluate('explorer.episode') == 2)
    wait_idle(page)  # a key pressed earlier would go to the previous episode
    player.locator('.srlviz-stage').click()
    page.keyboard.press('End')
    wait_for(
        lambda: (
            lab.evaluate('explorer.t')
            == lab.evaluate('len(explorer.rollout.episode)')
            == int(player.get_attribute('data-frame'))
        ),
        message='the moment after the last action',
    )
    page.locator('.srlviz-environment-explorer').screenshot(path=SHOTS / 'explorer_maze.png')
    lab.evaluate(
        "[setattr(explorer, 'episode', 1), setattr(explorer, 't', 7)]"
    )  # in one call, while the page still opens the episode
    wait_for(lambda: player.get_attribute('data-frame') == '7', message='the page shows that step')
    wait_idle(page)
    assert lab.evaluate('[explorer.episode, explorer.t]') == [1, 7] and player.get_attribute('data-frame') == '7'


def test_notebook_sends_no_requests_and_raises_no_errors(opened):
    "While it ran, no request left this machine and no script failed; the fixture `page` checks this in every test"
    assert opened.errors_on_load == ([], [])
