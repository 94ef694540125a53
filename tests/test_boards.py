"""Boards of results: what `fits` promises opens, and shows the numbers of the chosen cell and its recording."""

from dataclasses import replace

import numpy as np, pandas as pd, pytest

import srlviz
from srlviz.core.files import sample_path
from srlviz.core.metrics import questions
from srlviz.core.names import catalog
from srlviz.core.recordings import Episode, Factor, Recording
from srlviz.core.results import Results, results_of_answers
from srlviz.core.scores import load_scores
from srlviz.evaluate.ask import ask
from srlviz.figures.scores.score_map import ScoreLayout, plot_scores
from srlviz.widgets.atari.dashboard import AtariDashboard
from srlviz.widgets.board import Board, ScoreBoard
from srlviz.widgets.cross_matrix import CrossMatrix
from srlviz.widgets.probe_heatmap import ProbeHeatmap
from srlviz.widgets.qedr_matrix import QEDRMatrix

BOARDS = [board for board in catalog('widgets').values() if issubclass(board, Board)]
PROBE, REGRESSION, QEDR = (questions()[name] for name in ('probe', 'regression', 'qedr'))
QUICK = PROBE.defaults | dict(epochs=3, patience=3)


def record(name: str = 'rooms', n: int = 10, seed: int = 0, text: bool = False):
    "A class and a number, and codes that know both"
    random, episodes, codes = np.random.default_rng(seed), [], []
    for _ in range(n):
        room, x = random.integers(0, 3, 30), random.normal(size=30).cumsum()
        factors = dict(room=room.astype(str) if text else room, x=x.astype('f4'))
        episodes.append(Episode(dict(vector=random.normal(size=(30, 3)).astype('f4')), factors=factors))
        known = np.eye(3)[room] + 0.3 * random.normal(size=(30, 3))
        codes.append(np.c_[known, x + 0.1 * random.normal(size=30)].astype('f4'))
    factors = [Factor('room', kind='categorical'), Factor('x', kind='continuous')]
    return Recording(episodes, name, None, factors).with_split(probe=0.4, valid=0.2, test=0.4), codes


ROOMS, CODES = record()
OTHER, OTHER_CODES = record('other', 6, 1)
CONSTANT = [np.ones_like(c) for c in CODES]
GAPS = [np.where(np.arange(30)[:, None] < 5, np.nan, c) for c in CODES]


def asked(codes, what, recording=ROOMS, **more) -> Results:
    codes = codes if isinstance(codes, dict) else dict(net=codes)
    return ask(codes, recording, what, progress=False, **more)


def several_seeds() -> Results:
    results = asked(CODES, dict(probe=PROBE(**QUICK)))
    again = results.scores.assign(seed=1, value=results.scores['value'] / 2)
    return replace(results, scores=pd.concat([results.scores, again], ignore_index=True))


ODD = dict(
    probe=lambda: asked(CODES, dict(probe=PROBE(**QUICK), regression=REGRESSION())),
    constant=lambda: asked(
        dict(net=CONSTANT, good=CODES),
        {'probe': PROBE(**QUICK | dict(norm='none')), 'probe · standardized': PROBE(**QUICK)},
    ),
    two_probes=lambda: asked(CODES, {'probe · fast': PROBE(**QUICK), 'probe · slow': PROBE(**QUICK | dict(epochs=6))}),
    text=lambda: asked(record(text=True)[1], ['probe', 'regression'], record(text=True)[0]),
    qedr=lambda: asked(CODES, ['qedr']),
    gaps=lambda: asked(GAPS, ['qedr']),
    two_qedr=lambda: asked(CODES, {'qedr · a': QEDR(), 'qedr · b': QEDR(tol=1e-5)}),
    seeds=several_seeds,
    only_reasons=lambda: asked(CODES, ['belief']),
    two_recordings=lambda: ask(
        dict(net=dict(rooms=CODES, other=OTHER_CODES)), [ROOMS, OTHER], ['selectivity'], progress=False
    ),
    without_answers=lambda: replace(asked(CODES, ['selectivity', 'rank']), answers={}, recordings={}),
)


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', ODD)
def test_a_board_that_fits_opens(name, tmp_path):
    results = ODD[name]()
    fitting = [board for board in BOARDS if board.fits(results)]
    for board in fitting:
        if len(results.scores) or board is not ScoreBoard:
            opened = board.of_results(results, interactive=True)
            assert all(figure.to_json() for figure in opened.figures())
    best = srlviz.explore(results, interactive=False)
    assert type(best) is max(fitting, key=lambda board: board.fits(results))
    assert best.to_html(tmp_path / 'board.html').stat().st_size


def test_results_of_answers_keep_questions_apart():
    "Answers to one question with two sets of arguments are two questions, and scores name the question"
    few, many = (QEDR(alpha=alpha).ask(CODES, ROOMS, progress=False) for alpha in (0.01, 0.5))
    results = results_of_answers(dict(a=few, b=many), ROOMS)
    assert sorted(q.alpha for q in results.questions.values()) == [0.01, 0.5]
    probe = PROBE(**QUICK).ask(CODES, ROOMS, progress=False)
    results = results_of_answers(dict(net=probe), ROOMS)
    assert set(results.scores['group']) == {'probe'}
    assert results.targets('f1').loc['room', 'net'] == pytest.approx(probe.values('f1')['room'])
    with pytest.raises(ValueError, match='net.*two'):
        results_of_answers(dict(net=[probe, probe]), ROOMS)


def test_labels_are_of_their_recording():
    "Codes that are constant in one recording keep both probes apart in another"
    codes = dict(net=dict(rooms=CONSTANT, other=OTHER_CODES))
    kinds = {'probe': PROBE(**QUICK | dict(norm='none')), 'probe · standardized': PROBE(**QUICK)}
    results = ask(codes, [ROOMS, OTHER], kinds, progress=False)
    assert [*results.targets('f1', 'other')] == ['net', 'net · standardized']
    assert len(results.labelled('f1', 'other')) == 2 and [*results.targets('f1', 'rooms')] == ['net']


def test_a_cell_opens_the_answer_to_its_question():
    results = asked(CODES, dict(probe=PROBE(**QUICK), regression=REGRESSION()))
    board = ScoreBoard.of_results(results, interactive=True)
    for metric, target, question in ('f1', 'room', 'probe'), ('r2_linear', 'x', 'regression'):
        board.metric = metric
        board.press(dict(data=[target, 'net']))
        assert board.answer.question.name == question and board.factor == target
    board.metric = 'f1'
    board.press(dict(data=['room', 'net']))
    board.press(dict(data=[None, 'net']))  # a mean has no predictions
    assert board.answer is None and board.factor == ''


def test_probes_of_several_seeds_are_not_shown_as_one():
    assert not ProbeHeatmap.fits(several_seeds())


def test_a_recording_that_is_missing_shows_no_moment():
    results = ODD['two_recordings']()
    board = CrossMatrix(replace(results, recordings=dict(other=OTHER)), interactive=True)
    board.set_cell(task='rooms')
    assert board.moment.layout.display == 'none' and len(board.figures()) == len(board.detail_figures()) + 1
    board.set_cell(task='other')
    assert board.moment.layout.display == '' and board.moment.recording is OTHER
    assert (board.moment.episode, board.moment.t) == (board.episode, board.t)


def test_points_follow_the_recording():
    board = QEDRMatrix(QEDR().ask(CODES, ROOMS, progress=False), CODES, ROOMS, interactive=True)
    before = board.points.figure.data[0].y
    changed = [e.replace(factors={k: -np.asarray(v) for k, v in e.factors.items()}) for e in ROOMS]
    board.recording = ROOMS.replace(episodes=changed)
    assert np.allclose(board.points.figure.data[0].y, -np.asarray(before))


def test_answers_without_episodes_open_without_steps():
    rows = {split: np.concatenate([c for c, s in zip(CODES, ROOMS.split) if s == split]) for split in ROOMS.split}
    truth = {}
    for split in rows:
        parts = [e.factors['room'] for e, s in zip(ROOMS, ROOMS.split) if s == split]
        truth[split] = pd.DataFrame(dict(room=np.concatenate(parts)))
    answer = PROBE(**QUICK).fit(rows, truth, seed=0, progress=False)
    heat = ProbeHeatmap.of_results(results_of_answers(dict(net=answer)), interactive=True)
    heat.choose('room', heat.method)
    board = ScoreBoard.of_results(results_of_answers(dict(net=answer)), interactive=True)
    board.press(dict(data=['room', 'net']))
    assert heat.figures() and board.figures() and heat.factor == board.factor == 'room'
    assert results_of_answers(dict(net=answer)).intervals()['low'].isna().all()


def test_a_factor_may_be_called_all():
    episodes = [e.replace(factors=dict(all=e.factors['x'], x=-e.factors['x'])) for e in ROOMS]
    recording = ROOMS.replace(episodes=episodes, factors=[Factor(name, kind='continuous') for name in ('all', 'x')])
    board = ScoreBoard.of_results(asked(CODES, ['regression'], recording), interactive=True)
    other = ScoreBoard.of_results(asked(CODES, ['regression'], recording), interactive=True)
    srlviz.widgets.base.link(board, other)
    board.press(dict(data=['all', 'net']))
    assert board.factor == other.factor == 'all' and 'all' in board.details[0].figure.layout.title.text
    (frame,) = (s for s in board.heat.figure.layout.shapes if s.line.width == 3)
    heat = board.heat.figure.data[0]
    row = [tuple(line[0]) for line in heat.customdata].index(('all', 'net'))
    assert (frame.y0, frame.y1) == (heat.y[row], heat.y[row + 1])
    board.press(dict(data=[None, 'net']))
    assert board.factor == '' and board.details[0].figure.layout.title.text.split('<br>')[0] == 'Mean'


def test_a_row_without_a_score_has_its_cause_and_no_mean():
    episodes = [e.replace(factors=dict(e.factors, still=np.ones(30, 'f4'), y=-e.factors['x'])) for e in ROOMS]
    recording = ROOMS.replace(episodes=episodes, factors=[Factor(name) for name in ('x', 'y', 'still')])
    figure = ScoreBoard.of_results(asked(CODES, ['neighbours'], recording), interactive=True).plot_map()
    (words,) = {words for line in figure.data[1].hovertext for words in line if 'no number' in words}
    assert 'still' in words and 'the same in all steps' in words
    assert [words for words in figure.layout.yaxis.ticktext if 'Mean' in words] == [
        '<b>Mean of 2 factors</b>'
    ]  # as tables of results name it


BLANK = [], [''], ['', ''], ['', '', '', '']
MALFORMED = ['no such row', 'net'], ['', 'no such row', '', 'net'], [-5, 99], ['x', 0], [[], {}], [0, None, 3, 4, 5]


@pytest.mark.filterwarnings('ignore')
@pytest.mark.parametrize('name', ['probe', 'qedr', 'two_recordings'])
def test_a_press_of_no_cell_changes_nothing(name):
    results = ODD[name]()
    for kind in (board for board in BOARDS if board.fits(results)):
        board = kind.of_results(results, interactive=True)
        before = {c.name: getattr(board, c.name) for c in board.choices}
        for data in (*BLANK, *(MALFORMED if kind is not ScoreBoard else ())):
            board.press(dict(data=data))
            assert {c.name: getattr(board, c.name) for c in board.choices} == before, (kind, data)


def test_a_press_of_no_point_of_qedr_changes_nothing():
    board = QEDRMatrix.of_results(ODD['qedr'](), interactive=True)
    before = board.alpha, board.episode, board.t
    for data in (*BLANK, *MALFORMED[2:]):
        board.points.clicked = board.curve.clicked = dict(data=data)
    assert (board.alpha, board.episode, board.t) == before


@pytest.mark.filterwarnings('ignore')
def test_a_press_sets_code_and_factor_at_once():
    "Linked explorers never see the new factor beside the old code, which they would draw."
    board = QEDRMatrix.of_results(ODD['qedr'](), interactive=True)
    factors = board.offers('factor')
    code = next(c for c in board.offers('code') if c != board.code)
    factor = next(f for f in factors if f != board.factor)
    seen = []
    board.observe(lambda _: seen.append((board.code, board.factor)), ['code', 'factor'])
    board.press(dict(data=[code, factors.index(factor)]))
    assert set(seen) == {(code, factor)}


def test_a_matrix_of_several_worlds_opens_with_them_side_by_side(tmp_path):
    "On the question with most worlds, sorted by the mean; what lacks a world comes last and says so; a page has all"
    scores = {  # question -> representation -> score in each world
        'rank': dict(first=(9.0, None), second=(1.0, None)),
        'selectivity': dict(low=(0.3, 0.1), half=(None, 0.9), high=(0.4, 0.6)),
    }
    results = ask(dict(net=CODES), ROOMS, ['rank', 'selectivity'], progress=False)
    row = results.scores.iloc[0]
    rows = []
    for question, methods in scores.items():
        metric = results.questions[question].headline
        for method, values in methods.items():
            for task, value in zip('ab', values):
                if value is not None:
                    key = dict(method=method, task=task, group=question, metric=metric, target='mean', value=value)
                    rows.append({**row, **key})
    results = replace(results, scores=pd.DataFrame(rows), answers={}, recordings={})
    board = CrossMatrix(results, interactive=True)
    assert (board.view, board.question) == ('worlds', 'selectivity')
    assert [*board.map_values().index][:3] == ['high', 'low', 'half']
    assert 'Mean' in board.figure().layout.xaxis.ticktext[0]
    hover = np.ravel(board.figure().data[0].hovertext)
    assert any('it has 1 of the 2 worlds' in words for words in hover)
    board.press(dict(data=['low', '']))
    assert board.method == 'low' and board.task == 'a'
    titles = [figure.layout.title.text or '' for figure in board.figures()]
    assert titles[0].startswith('Selectivity') and titles[1].startswith('Rank')
    board.question = 'rank'
    assert [*board.map_values().index][:2] == ['first', 'second']
    assert '' not in board.map_values()  # one world has no mean over worlds
    board.view = 'questions'
    assert [figure.layout.title.text[:1] for figure in board.figures()[:2]] == ['a', 'b']
    page = board.to_html(tmp_path / 'page.html').read_text()
    assert '<h2>a</h2>' in page and '<h2>b</h2>' in page


def test_methods_with_some_games_are_shown_by_choice():
    "The map of 22 games has methods with all of them; a menu leads to the others, on the games that these have"
    board = AtariDashboard(load_scores(sample_path('atari_scores.csv')), interactive=True)

    def methods() -> set:
        return {cell[2].partition(' · ')[0] for row in board.figure().data[0].customdata for cell in row} - {''}

    heat = board.plot_map(**board.room())
    assert 'st_dim' in methods() and 'jsd_st_dim' not in methods() and heat.data[2].textfont.size > 7.9
    assert {'raw', 'std.'} <= {*heat.layout.xaxis.ticktext} and 'ST-DIM' in [a.text for a in heat.layout.annotations]
    board.coverage = 'some games'
    assert 'jsd_st_dim' in methods() and 'st_dim' not in methods() and len(board.figure().layout.yaxis.ticktext) == 6
    board.view = 'ranks'
    assert board.coverages() == ['all games'] == [board.coverage]


def test_names_of_columns_do_not_touch():
    "Each is narrower than its column, or all are vertical"
    for name in 'Random CNN', 'Supervised', 'Reconstruct':
        table = pd.DataFrame(dict(task='pong', method=[name, name[::-1]], value=0.5, metric='f1', source='srlviz'))
        axis = plot_scores(table, layout=ScoreLayout(column_words=lambda key: key[0])).layout.xaxis
        longest = max(len(line) for words in axis.ticktext for line in words.split('<br>'))
        assert axis.tickangle or 0.6 * axis.tickfont.size * longest + 6 <= 66 + 1e-9, name


def test_an_answer_without_a_name_is_not_headed_by_a_metric_that_is_not_shown():
    "The metric is in the menu and the title; the only column is the answer, not 'Selectivity'"
    (answer,) = asked(CODES, ['selectivity']).answers.values()
    board = srlviz.explore(answer, ROOMS, metric='beyond_episode')
    assert set(board.scores['method']) == {'answer'}
    words = [a.text for a in board.figure().layout.annotations] + list(board.figure().layout.xaxis.ticktext or [])
    assert not any('Selectivity' in word for word in words if word), words
