"""The third tutorial in a real JupyterLab: PlayWidget by key presses and clicks, EnvironmentExplorer by its menus and
its strips; what the page shows, and what the kernel then holds."""

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
    "One PlayWidget: on the page, and in the kernel by its name"

    def __init__(self, page, lab, name, k):
        self.page, self.lab, self.name = page, lab, name
        self.whole = page.locator('.srlviz-play').nth(k)
        self.root = self.whole.locator('.srlviz-board')
        self.root.scroll_into_view_if_needed()
        wait_for(lambda: self.root.get_attribute('data-shown') is not None, message='the first picture is drawn')

    def ask(self, what):
        return self.lab.evaluate(f'{self.name}.{what}')

    def steps(self):
        return self.ask('recorder.steps')

    def anew(self, task):
        "The first game of a task, by Python; the state is hidden"
        first = f"set_trait('task', {task!r})", "set_trait('reveal', False)", 'new_game(0)'
        self.lab.evaluate(f"[{', '.join(f'{self.name}.{what}' for what in first)}]")
        self.settled()
        return self

    def settled(self):
        wait_idle(self.page)
        wait_for(
            lambda: self.root.get_attribute('data-shown') == str(self.ask('board.shown')),
            message='the page shows what the kernel drew',
        )

    def begin(self, button):
        "Another game, by a button; until the page has it nothing may be pressed: a key meant for the old one is lost"
        game = self.ask('board.game')
        self.whole.get_by_role('button', name=button).click()
        wait_for(lambda: self.ask('board.game') > game and self.steps() == 0, message=button)
        self.settled()

    def choose(self, task):
        "Another task, by the menu"
        self.menu('Task').select_option(task)
        wait_for(lambda: self.ask('task') == f'{task}-easy' and self.steps() == 0, message=task)
        self.settled()

    def focus(self):
        self.root.focus()

    def press(self, key):
        "A key, and the step that it makes"
        n = self.steps()
        self.page.keyboard.press(key)
        wait_for(lambda: self.steps() == n + 1, message=f'{key} is a step')
        self.settled()

    def menu(self, label):
        return (
            self.whole.locator('.widget-dropdown')
            .filter(has=self.page.locator(f'label:text-is("{label}")'))
            .locator('select')
        )

    def at(self, x, y):
        "Where on the page a pixel of the picture is"
        self.root.scroll_into_view_if_needed()
        self.settled()
        box, (width, height) = self.root.locator('img').bounding_box(), self.ask('board.size')
        return box['x'] + x * box['width'] / width, box['y'] + y * box['height'] / height

    def click_target(self, action):
        "Press the place of the picture that means an action"
        x0, y0, x1, y1 = next(t['box'] for t in self.ask('board.targets') if t['action'] == action)
        n = self.steps()
        self.page.mouse.click(*self.at((x0 + x1) / 2, (y0 + y1) / 2))
        wait_for(lambda: self.steps() == n + 1, message=f'a press on {action} is a step')
        assert self.ask("recorder.last(1)[0]['action'].tolist()") == action
        self.settled()


@pytest.fixture
def cards(page, lab):
    return Board(page, lab, 'cards', 0).anew('RepeatPrevious-easy')


@pytest.fixture
def mines(page, lab):
    return Board(page, lab, 'mines', 1).anew('MineSweeper-easy')


def test_keys(cards):
    "Each key is the action that the environment gives it"
    cards.begin('same again')
    cards.focus()
    for key, action in (('h', 3), ('s', 0), ('d', 1), ('c', 2)):
        cards.press(key)
        assert cards.evaluate("recorder.last(1)[0]['action'].tolist()") == action
    cards.press('D')  # with shift or caps lock
    assert cards.page.locator('.jp-Notebook').first.evaluate(
        "n => !n.classList.contains('jp-mod-editMode')"
    )  # no key reached the notebook
    rows = cards.whole.locator('tbody tr')
    wait_for(
        lambda: rows.count() == 5 and 'diamonds' in rows.first.inner_text(),
        message='the last steps are listed, the newest first',
    )


def test_pointer(cards):
    cards.click_target(2)
    n = cards.steps()
    cards.page.mouse.click(*cards.at(3, 3))  # where nothing is
    wait_idle(cards.page)
    assert cards.steps() == n
    box = next(t['box'] for t in cards.evaluate('board.targets') if t['action'] == 1)
    cards.page.mouse.move(*cards.at((box[0] + box[2]) / 2, (box[1] + box[3]) / 2))
    ring = cards.root.locator('.srlviz-ring')
    wait_for(lambda: ring.is_visible(), message='what a press would mean is ringed')
    assert (
        abs(
            ring.bounding_box()['width']
            - (box[2] - box[0]) * cards.root.locator('img').bounding_box()['width'] / cards.evaluate('board.size')[0]
        )
        < 2
    )


def test_step_back(cards):
    cards.focus()
    cards.press('h')
    before, n = cards.evaluate('recorder.total'), cards.steps()
    cards.press('s')
    cards.page.keyboard.press('Backspace')
    wait_for(lambda: cards.steps() == n, message='the step is taken back')
    assert cards.evaluate('recorder.total') == before and cards.evaluate('recorder.undone') == 1
    cards.settled()


def test_curtain(cards):
    "The hidden state is shown only when it is asked for, and the recording tells that it was"
    cards.focus()
    cards.press('h')
    wide = cards.evaluate('board.size')[0]
    assert cards.evaluate("recording().meta['looked'][-1]") is False
    box = cards.whole.get_by_role('checkbox', name='show hidden state')
    box.check()
    wait_for(lambda: cards.evaluate('reveal') is True and cards.evaluate('board.size')[0] > 1.5 * wide)
    cards.settled()
    wait_for(
        lambda: cards.root.locator('img').evaluate('i => i.naturalWidth') == cards.evaluate('board.size')[0],
        message='the picture holds both panels',
    )
    cards.whole.screenshot(path=SHOTS / 'play_cards.png')
    box.uncheck()
    wait_for(lambda: cards.evaluate('board.size')[0] == wide)
    cards.settled()
    assert cards.evaluate("recording().meta['looked'][-1]") is True


def test_a_whole_game(cards):
    "To its end by keys; Enter begins the next; both are recorded"
    cards.begin('new game')
    seed = cards.evaluate('seed')  # the board has the keyboard: nobody has to press in it first
    while not cards.evaluate('recorder.ended'):
        cards.page.keyboard.press('sdch'[cards.steps() % 4])
    cards.settled()
    wait_for(
        lambda: 'over after 51 steps' in cards.root.locator('.srlviz-over').inner_text(), message='the page says so'
    )
    cards.whole.screenshot(path=SHOTS / 'play_over.png')
    cards.page.keyboard.press('h')  # too late: nothing happens
    cards.page.keyboard.press('Enter')
    wait_for(lambda: cards.evaluate('seed') == seed + 1 and cards.steps() == 0, message='the next game')
    assert (
        cards.evaluate('recording().lengths.tolist()')[-1] == 51
        and cards.evaluate("recording()[len(cards.recording()) - 1].ended") == 'terminated'
    )


def test_a_game_is_a_recording(cards, lab):
    "Two games, in one of them a step taken back and a look at the state: saved and loaded, they are the same"
    cards.focus()
    for key in 'hsd':
        cards.press(key)
    cards.page.keyboard.press('Backspace')
    wait_for(lambda: cards.steps() == 2, message='a step is taken back')
    lab.evaluate("[cards.set_trait('reveal', on) for on in (True, False)]")
    cards.begin('new game')
    for key in 'ch':
        cards.press(key)
    assert lab.evaluate("[cards.recording().meta[k][-2:] for k in ('undone', 'looked')]") == [[1, 0], [True, False]]
    actions = "a[0].actions.tolist() == b[0].actions.tolist()"
    frames = "bool((a[0].obs['frame'][:] == b[0].obs['frame'][:]).all())"
    keep = f"(lambda a, b: [a.meta == b.meta, {actions}, {frames}])"
    load = "__import__('srlviz.core.recordings', fromlist=['x']).load_recording"
    assert lab.evaluate(
        f"{keep}(cards.recording(), {load}(cards.recording().save(__import__('tempfile').mkdtemp() + '/mine.npz')))"
    ) == [True, True, True]


def test_another_task(cards):
    "By the menu: a maze, walked with the arrow keys; a key that is held never runs ahead"
    cards.choose('LabyrinthExplore')
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
    cards.settled()
    assert cards.steps() == before + 1
    cards.whole.screenshot(path=SHOTS / 'play_maze.png')


def test_a_slider(cards):
    "A pendulum: an action between two bounds, by slider and by key"
    cards.choose('PositionOnlyPendulum')
    bar = cards.root.locator('input[type=range]')
    bar.focus()
    cards.page.keyboard.press('End')
    assert bar.input_value() == '2'
    cards.page.keyboard.press('Enter')
    wait_for(lambda: cards.steps() == 1, message='Enter is a step')
    assert cards.evaluate("recorder.last(1)[0]['action'].tolist()") == [2]
    cards.settled()
    cards.focus()
    cards.press('ArrowDown')
    assert cards.evaluate("recorder.last(1)[0]['action'].tolist()") == [0]
    cards.whole.screenshot(path=SHOTS / 'play_pendulum.png')


def test_a_board(mines):
    "A tile by the pointer, and another by arrows and Enter"
    mines.click_target([3, 3])
    mines.page.mouse.move(5, 5)
    mines.settled()
    mines.focus()
    mines.page.keyboard.press('ArrowRight')  # the first key shows where it is
    ring = mines.root.locator('.srlviz-ring')
    wait_for(lambda: ring.is_visible(), message='the keyboard has a place')
    for key in ('ArrowRight', 'ArrowDown'):
        mines.page.keyboard.press(key)
    mines.press('Enter')
    assert mines.evaluate("recorder.last(1)[0]['action'].tolist()") == [1, 1]
    mines.whole.screenshot(path=SHOTS / 'play_mines.png')


# JupyterLab plays in a thread beside what is asked here
PLAYED = '(explorer.task, explorer.policy, explorer.seed) in explorer.played'


def menu(page, name):
    wait_idle(page)  # the kernel may have sent other choices
    return (
        page.locator('.srlviz-environment-explorer .widget-dropdown')
        .filter(has=page.locator(f'label:text-is("{name}")'))
        .locator('select')
    )


def explorer(page):
    player = page.locator('.srlviz-environment-explorer .srlviz-player')
    player.scroll_into_view_if_needed()
    wait_for(lambda: player.get_attribute('data-frame') is not None, message='the first frame is drawn')
    wait_idle(page)
    return player


def test_policies(page, lab):
    "The same seed, played by others; their means stand side by side"
    explorer(page)
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
        message='all means are told',
    )


def test_linked(page, lab):
    "A press in the strips moves the picture; the space bar plays it; the cursor follows"
    player, strips = explorer(page), page.locator('.srlviz-environment-explorer .srlviz-plot')
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
        message='picture, kernel and line are at 30',
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


def test_hidden(page, lab):
    player = explorer(page)
    player.get_by_role('button', name='answer', exact=True).click()
    wait_for(
        lambda: (
            lab.evaluate('explorer.factor') == 'answer' and lab.evaluate('len(explorer.plot.figure.data[2].y)') == 1
        ),
        message='a press on a row shows it alone',
    )
    box = page.locator('.srlviz-environment-explorer').get_by_role('checkbox')
    t, wide = lab.evaluate('explorer.t'), player.locator('canvas').first.evaluate('c => c.width')
    box.uncheck()
    wait_for(
        lambda: (
            player.locator('canvas').first.evaluate('c => c.width') < wide and lab.evaluate('explorer.reveal') is False
        ),
        message='the curtain is closed',
    )
    wait_idle(page)
    wait_for(lambda: int(player.get_attribute('data-frame')) == t, message='at the same step')
    assert not player.get_by_role('button', name='answer', exact=True).count()
    box.check()
    wait_for(lambda: lab.evaluate('explorer.reveal'))


def test_another_world(page, lab):
    menu(page, 'Task').select_option('LabyrinthEscape')
    wait_for(lambda: lab.evaluate('explorer.task') == 'LabyrinthEscape-easy', message='the menu sets the task')
    menu(page, 'Policy').select_option('oracle')
    wait_for(
        lambda: (
            lab.evaluate(f'[explorer.policy, {PLAYED} and explorer.rollout.episode.ended]') == ['oracle', 'terminated']
        ),
        message='it finds the way out',
    )
    player = explorer(page)
    seed = page.locator('.srlviz-environment-explorer .widget-text').filter(has=page.locator('label:text-is("Seed")'))
    seed.locator('input').fill('5')
    page.keyboard.press('Enter')
    wait_for(lambda: lab.evaluate('explorer.seed') == 5, message='another seed')
    menu(page, 'Episode').select_option(index=2)
    wait_for(lambda: lab.evaluate('explorer.episode') == 2)
    wait_idle(page)  # a key before that is meant for the episode before
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
    )  # in one go, while the page still opens the episode
    wait_for(lambda: player.get_attribute('data-frame') == '7', message='the page shows that step')
    wait_idle(page)
    assert lab.evaluate('[explorer.episode, explorer.t]') == [1, 7] and player.get_attribute('data-frame') == '7'


def test_alone(opened):
    "No request left this machine, and no script failed, as the notebook ran; `page` sees to it in every test"
    assert opened.errors_on_load == ([], [])
