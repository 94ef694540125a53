"""Tests of MemoryExplorer: its traits without a browser, and tutorial 4 in a real JupyterLab.

The browser tests press what a user presses, then compare the page with the state of the kernel.
"""

import numpy as np, pytest, torch, traitlets
from support.lab import ROOT, SHOTS, reset_page, wait_idle, open_page, wait_for

from srlviz.agents.player import load_policy
from srlviz.core.files import sample_path
from srlviz.core.names import catalog
from srlviz.core.recordings import Episode, Recording
from srlviz.evaluate.memories.recall import saliency
from srlviz.widgets.agents.memory_explorer import MemoryExplorer, as_stream, passage

TUTORIAL = ROOT / 'nbs/tutorials/04_memories.ipynb'
NAMES = sorted(catalog('memories'))


@pytest.mark.parametrize('name', NAMES)
def test_explorer_shows_every_memory(name):
    "Each memory of the catalogue can be explored; inputs before a reset have a weight of exactly 0"
    e = MemoryExplorer(
        {name: catalog('memories')[name]}, 'abcab|cabca', saliency=saliency, n_hidden=16, t=9, interactive=True
    )
    assert e.resets == (5,) and e.weigh().shape == (10, 10)
    assert not e.weigh()[5:, :5].any() and not np.triu(e.weigh(), 1).any() and e.weigh().any()
    assert len(e.figure().data) >= 3 and e.passage().state.shape == (
        10,
        int(np.sum([np.prod(s) for s in e.passage().shapes])),
    )
    second_episode = passage(e.memory, e.now.x[5:], e.starts[5:])
    assert np.allclose(second_episode.output, e.passage().output[5:], atol=1e-5)
    e.show, e.log, e.channel = 'output', True, 3
    assert (
        'Output' in e.views.heat.figure.layout.title.text
        and 'output 3' in e.views.weights.figure.layout.title.text
        and e.views.weights.figure.layout.yaxis.type == 'log'
    )


def test_passage_equals_one_pass_over_the_sequence():
    "Step by step equals the whole sequence at once; the mode and the gradients of the memory stay unchanged"
    memory = catalog('memories')['LSTM'](3, 8).train()
    s = as_stream('abc|bca')
    stepwise = passage(memory, s.x, s.starts)
    y, state = memory(torch.tensor(s.x)[None], None, torch.tensor(s.starts)[None])
    assert np.allclose(stepwise.output, y[0].detach(), atol=1e-6)
    assert np.allclose(stepwise.state[-1], torch.cat(state, 1)[0].detach(), atol=1e-6)
    assert memory.training and all(p.grad is None for p in memory.parameters())


def test_slider_and_plots_share_one_step():
    "The slider, the three plots and the explorer share one step; another stream keeps it within bounds"
    e = MemoryExplorer(
        {'GRU': catalog('memories')['GRU']},
        {'long': 'abcabcabcabc', 'short': 'abc'},
        saliency=saliency,
        interactive=True,
    )
    e.t = 8
    views = e.views
    assert [e.menus.t.value, views.inputs.cursor, views.heat.cursor, views.weights.cursor] == [8, 8, 8, 8]
    assert len(views.weights.figure.data[0].x) == 9
    e.views.heat.cursor = 4  # as a drag does
    assert e.t == 4 and 't = 4' in e.status.value
    e.views.matrix.cursor = 7  # time is on the horizontal axis of the table of weights too
    assert e.t == 7
    e.resets = (10, 3)
    assert e.resets == (3, 10) and 'an episode that started at 3' in e.status.value
    e.stream = 'short'
    assert e.t == 2 and e.resets == () and e.menus.t.max == 2


def test_reset_cuts_off_the_past_and_can_be_undone():
    e = MemoryExplorer({'GRU': catalog('memories')['GRU']}, 'abcabc', saliency=saliency, t=4, interactive=True)
    original = e.weigh().copy()
    assert original[4, 0] > 0 and e.menus.again.disabled
    e.menus.cut.click()
    assert (
        e.resets == (4,)
        and e.weigh()[4, :4].sum() == 0
        and 'Only the current input' in e.status.value
        and not e.menus.again.disabled
    )
    e.menus.again.click()
    assert e.resets == () and np.array_equal(e.weigh(), original) and e.menus.again.disabled
    e.t = 0
    assert e.menus.cut.disabled
    e.toggle_reset(0)
    assert e.resets == ()


def test_saliency_is_computed_once_per_memory():
    "Saliency is computed once for each memory, stream and set of episodes, and kept when one is selected again"
    calls = []

    def counted(memory, x, starts, of=None):
        calls.append(starts.sum())
        return np.tri(len(x), dtype=np.float32)

    e = MemoryExplorer(
        {k: catalog('memories')[k] for k in ('GRU', 'MLP')}, 'abcabc', saliency=counted, interactive=True
    )
    for method in ('MLP', 'GRU', 'MLP'):
        e.method = method
    for t in range(6):
        e.t = t
    assert len(calls) == 2


def one_agent_of_each_memory():
    files = sorted(sample_path('agents').glob('*.safetensors'))
    return list({p.stem.rpartition('_')[2]: p for p in files}.values())


@pytest.mark.parametrize('path', one_agent_of_each_memory(), ids=lambda p: p.stem)
def test_explorer_opens_shipped_agents(path):
    "An agent loaded from its file plays its task; the explorer shows its inputs, its memory states and the weights"
    agent = load_policy(path)
    e = MemoryExplorer(agent, saliency=saliency, steps=24, t=9, interactive=True)
    assert agent.task in e.stream and e.now.x.shape == (len(e.starts), agent.n_in) and e.method in path.stem
    assert e.passage().state.shape == (len(e.now.x), agent.n_codes) and np.diag(e.weigh()).all()
    assert len(e.figure().data) >= 3


def test_invalid_arguments_and_traits_are_refused():
    GRU = catalog('memories')['GRU']
    with pytest.raises(ValueError):
        MemoryExplorer({})
    with pytest.raises(ValueError, match='mine'):
        MemoryExplorer({'mine': GRU(3, 4)}, np.zeros((5, 2)))
    with pytest.raises(ValueError, match='flat'):
        MemoryExplorer({'GRU': GRU}, Episode(dict(frame=np.zeros((2, 4, 4, 3), np.uint8))))
    with pytest.raises(ValueError):
        MemoryExplorer({'GRU': GRU}, np.zeros(5))
    with pytest.raises(ValueError):
        MemoryExplorer({'GRU': GRU}, '| |')
    e = MemoryExplorer({'GRU': GRU}, 'abc', interactive=True)
    for trait, wrong, pattern in (
        ('method', 'gru', 'GRU'),
        ('stream', 'x', 'stream'),
        ('t', 3, '0.*2'),
        ('resets', (0,), None),
        ('channel', 99, '0.*31'),
    ):
        with pytest.raises(traitlets.TraitError, match=pattern):
            setattr(e, trait, wrong)

    def broken(memory, x, starts, of=None):
        raise RuntimeError('no such gradient')

    with pytest.raises(RuntimeError):
        MemoryExplorer({'GRU': GRU}, 'abc', saliency=broken, interactive=True)


def test_static_form_is_one_figure(tmp_path):
    "Without interaction the explorer is one figure; its page needs no network"
    stream = Recording([Episode(dict(vector=np.eye(4, dtype=np.float32)), factors=dict(card=np.arange(4)))] * 2)
    e = MemoryExplorer({'GRU': catalog('memories')['GRU']}, stream, saliency=saliency, t=6, interactive=False)
    assert e.resets == (4,) and 'application/vnd.jupyter.widget-view+json' not in e._repr_mimebundle_()
    page = e.to_html(tmp_path / 'memory.html').read_text(encoding='utf-8')
    assert 'Weight of each past input' in page and 'src="http' not in page


# in a browser


@pytest.fixture(scope='module')
def lab(open_lab):
    return open_lab(
        TUTORIAL, "\nsteps, episodes = 60, 16     # the test presses buttons; nothing needs to be learned\n"
    )


@pytest.fixture(scope='module')
def opened(browser, lab):
    return open_page(browser, lab)


START = """[
    *(explorer.set_trait(name, value) for name, value in dict(
        method='GRU, first', stream='two episodes', against='', panel='steps', show='state', channel=-1, log=False,
        resets=(16,), t=12).items()),
    watch.set_trait('panel', 'steps')]"""


@pytest.fixture
def page(opened, lab):
    yield from reset_page(opened, lab, START)


def drawn_explorer(page, k=0):
    "Return the k-th MemoryExplorer of the page, once its plots are drawn"
    widget = page.locator('.srlviz-memory-explorer').nth(k)
    widget.scroll_into_view_if_needed()
    plots = widget.locator('.js-plotly-plot')
    wait_for(
        lambda: plots.count() >= 4 and all(p.evaluate("g => !!g._fullLayout?.xaxis?._length") for p in plots.all()),
        message='all plots are drawn',
    )
    wait_idle(page)
    return widget


def menu(widget, name):
    wait_idle(widget.page)
    return (
        widget.locator('.widget-dropdown').filter(has=widget.page.locator(f'label:text-is("{name}")')).locator('select')
    )


def cursors(widget):
    return [p.get_attribute('data-cursor') for p in widget.locator('.srlviz-plot').all()[:3]]


def point_at(plot, x):
    return plot.evaluate(
        "(g, x) => { const r = g.getBoundingClientRect(), l = g._fullLayout; return [r.left + l.xaxis._offset + "
        "l.xaxis.c2p(x), r.top + l.yaxis._offset + l.yaxis._length/2] }",
        x,
    )


@pytest.mark.browser
def test_press_moves_all_plots(page, lab):
    "A press in the plot of the state moves the line in all three plots, the slider and the status line"
    widget = drawn_explorer(page)
    state = widget.locator('.js-plotly-plot').nth(1)

    def axis_extents():
        return [
            p.evaluate("g => [g._fullLayout.xaxis._offset, g._fullLayout.xaxis._length].map(Math.round).join()")
            for p in widget.locator('.js-plotly-plot').all()[:3]
        ]

    wait_for(lambda: len(set(axis_extents())) == 1, message='the time axes of the plots are aligned')
    wait_idle(page)
    page.mouse.click(*point_at(state, 20))
    wait_for(
        lambda: lab.evaluate('explorer.t') == 20 and cursors(widget) == ['20'] * 3,
        message='kernel and lines are at step 20',
    )
    wait_for(
        lambda: 't = 20, step 5 of an episode that started at 16' in widget.locator('.srlviz-status').inner_text(),
        message='the status line shows the step',
    )
    widget.screenshot(path=SHOTS / 'memory_explorer.png')


@pytest.mark.browser
def test_arrow_key_moves_one_step(page, lab):
    widget = drawn_explorer(page)
    lab.evaluate("setattr(explorer, 't', 20)")
    wait_for(lambda: cursors(widget) == ['20'] * 3)
    wait_idle(page)
    widget.locator('.noUi-handle, [role=slider]').first.focus()
    page.keyboard.press('ArrowRight')
    wait_for(
        lambda: lab.evaluate('explorer.t') == 21 and cursors(widget) == ['21'] * 3, message='the arrow key is a step'
    )


@pytest.mark.browser
def test_button_starts_an_episode_and_another_undoes_it(page, lab):
    "A new episode cuts off the past, in the kernel and on the page; another button restores the original episodes"
    widget = drawn_explorer(page)
    lab.evaluate("setattr(explorer, 't', 24)")
    wait_idle(page)
    button = widget.get_by_role('button', name='start an episode at t = 24')
    wait_for(lambda: button.count(), message='the button names the step')
    button.click()
    wait_for(
        lambda: lab.evaluate('[list(explorer.resets), float(explorer.weigh()[24, :24].sum())]') == [[16, 24], 0],
        message='the past is cut off',
    )
    wait_for(lambda: 'Only the current input' in widget.locator('.srlviz-status').inner_text())
    widget.screenshot(path=SHOTS / 'memory_reset.png')
    widget.get_by_role('button', name='original episodes').click()
    wait_for(lambda: lab.evaluate('list(explorer.resets)') == [16], message='the original episodes are restored')


@pytest.mark.browser
def test_menu_selects_a_memory_without_state(page, lab):
    "The menu selects the MLP, and the page shows that it has no state"
    widget = drawn_explorer(page)
    menu(widget, 'Memory').select_option('MLP, first')
    wait_for(
        lambda: (
            lab.evaluate('explorer.method') == 'MLP, first'
            and 'no state' in widget.locator('.srlviz-memory-facts').inner_text()
        ),
        message='the facts of the MLP',
    )
    wait_for(
        lambda: 'has no state' in widget.locator('.js-plotly-plot').nth(1).inner_text(),
        message='a note instead of a state',
    )
    wait_for(
        lambda: 'Only the current input' in widget.locator('.srlviz-status').inner_text(),
        message='past inputs have no weight',
    )
    widget.screenshot(path=SHOTS / 'memory_mlp.png')
    widget.get_by_role('button', name='its output').click()
    wait_for(
        lambda: (
            lab.evaluate('explorer.show') == 'output'
            and 'Output after each step' in widget.locator('.js-plotly-plot').nth(1).inner_text()
        ),
        message='its output is shown',
    )
    menu(widget, 'Weight for').select_option('output 2')
    wait_for(
        lambda: (
            lab.evaluate('explorer.channel') == 2
            and 'output 2' in widget.locator('.js-plotly-plot').nth(2).inner_text()
        ),
        message='the weights for one output',
    )


@pytest.mark.browser
def test_recall_and_cost_panels_mark_the_model(page, lab):
    "The last explorer of the tutorial shows cards, recall and cost, with the model marked"
    widget = drawn_explorer(page, 2)
    wait_for(
        lambda: widget.locator('.js-plotly-plot').count() == 4,
        message='three plots over time, and the table of weights',
    )
    for panel in ('Cost', 'Recall'):
        widget.get_by_role('button', name=panel, exact=True).click()
        wait_for(
            lambda: lab.evaluate('watch.panel') == panel.lower() and widget.locator('.js-plotly-plot').count() == 2
        )
    wait_idle(page)
    assert lab.evaluate(
        "[t.line.width for t in watch.views.of_table['recall'].figure.data if t.name == 'GRU'][0] > "
        "[t.line.width for t in watch.views.of_table['recall'].figure.data if t.name == 'MLP'][0]"
    )
    page.wait_for_timeout(600)
    widget.screenshot(path=SHOTS / 'memory_cards.png')


@pytest.mark.browser
def test_notebook_sends_no_requests_and_raises_no_errors(opened):
    "While it ran, no request left this machine and no script failed; the fixture `page` checks this in every test"
    assert opened.errors_on_load == ([], [])
