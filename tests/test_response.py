"""Questions about twins: planted responses and mixtures, numbers and classes, moments as units, and what is refused."""

import numpy as np
import pandas as pd
import pytest

import srlviz
from srlviz.core.bootstrap import Draws
from srlviz.core.questions import Answer, is_number
from srlviz.core.recordings import Episode, Factor, Recording
from srlviz.core.twins import Twins, with_twins
from srlviz.encoders.custom import as_encoder
from srlviz.evaluate.questions.interventional import Interventional
from srlviz.evaluate.questions.factor_regression import FactorRegression
from srlviz.evaluate.questions.response import Response, responses

FACTORS = [Factor('x', kind='continuous'), Factor('byte'), Factor('suit', names=('clubs', 'hearts', 'spades'))]
NAMES = [f.name for f in FACTORS]


def perfect(values):
    "Codes (n, 5) of values (n, 3): x, the byte, and a column for each suit"
    x, byte, suit = values.T
    return np.column_stack([x, byte / 30, suit[:, None] == np.arange(3)])


def world(encode, n_moments=30, seed=0, rows=60, episodes=50):
    "Natural episodes of a number, a byte and a suit, all independent, and their twins"
    rng = np.random.default_rng(seed)

    def draw(n):
        return np.column_stack([rng.normal(size=n), rng.integers(0, 100, n), rng.integers(0, 3, n)])

    def episode(values):
        x, byte, suit = values.T
        factors = dict(x=x, byte=byte.astype(np.uint8), suit=suit.astype(int))
        return Episode(dict(vector=encode(values).astype(np.float32)), factors=factors)

    natural = Recording([episode(draw(rows)) for _ in range(episodes)], name='cards', factors=FACTORS)
    copies, moment, factor, value = [], [], [], []
    for i, now in enumerate(draw(n_moments)):
        changes = [('', np.nan, now)]
        for k, name in enumerate(NAMES):
            others = np.setdiff1d(np.arange(3), now[2]) if name == 'suit' else draw(3)[:, k]
            changes += [(name, v, np.where(np.arange(3) == k, v, now)) for v in others]
        for name, v, values in changes:
            copies.append(episode(np.vstack([draw(1), values])))  # the last row is the moment
            moment.append(i)
            factor.append(name)
            value.append(v)
    twins = Twins.build(copies, moment, factor, value, factors=FACTORS)
    return with_twins(natural.with_split(probe=0.6, valid=0.2, test=0.2), twins)


def asked(question, recording, **options):
    return question.ask([e.obs['vector'] for e in recording], recording, progress=False, **options)


def test_the_true_state_answers_to_itself_alone():
    answer = asked(Response(), world(perfect))
    assert np.allclose(answer.matrix, np.eye(3), atol=0.01) and [*answer.matrix.index] == NAMES
    assert (answer.values('own') > 0.99).all() and (answer.values('crosstalk') < 0.01).all()
    assert (answer.values('skill') > 0.99).all()


def test_a_constant_code_answers_to_nothing():
    answer = asked(Response(), world(lambda values: np.ones((len(values), 2))))
    assert not answer.matrix.any(axis=None)
    for metric in answer.metrics:
        assert (answer.values(metric) == 0).all()
    assert (answer.interval('own')[['low', 'high']] == 0).all(axis=None)


def test_random_codes_score_chance_for_numbers_and_classes():
    rng = np.random.default_rng(3)
    answer = asked(Response(), world(lambda values: rng.normal(size=(len(values), 4))))
    assert (answer.values('own').abs() < 0.2).all() and (answer.values('skill').abs() < 0.1).all()


def test_a_mixture_has_its_planted_responses():
    "One code of two independent numbers of deviation 1: .8 x + .6 y is read as .8 c for x and .6 c for y"
    std = np.sqrt((100**2 - 1) / 12)  # of the byte

    def mixed(values):
        return (0.8 * values[:, 0] + 0.6 * (values[:, 1] - 49.5) / std)[:, None]

    found = asked(Response(), world(mixed)).matrix
    assert np.allclose(found.loc[['x', 'byte'], ['x', 'byte']], [[0.64, 0.48], [0.48, 0.36]], atol=0.03)
    assert np.allclose(found.loc['suit', ['x', 'byte']], 0, atol=1e-6)
    assert np.allclose(asked(Response(), world(mixed)).values('crosstalk')[['x', 'byte']], 0.24, atol=0.02)  # of two


def test_crosstalk_sees_a_reading_that_follows_the_square_of_another_factor():
    """The code is c = x + .7 (b^2 - 1), b the byte in deviations around its mean: x is read as c / var(c).

    The slope over b is 0; with m4 the fourth moment of b, the size of the movement is .7 sqrt(m4 - 1) / var(c).
    """
    std, m4 = np.sqrt((100**2 - 1) / 12), 9 / 5  # of a uniform factor

    def bent(values):
        return (values[:, 0] + 0.7 * (((values[:, 1] - 49.5) / std) ** 2 - 1))[:, None]

    answer = asked(Response(), world(bent, n_moments=300, episodes=100))
    cell = answer.parts['matrix'].set_index(['changed', 'read']).loc[('byte', 'x')]
    expected = 0.7 * np.sqrt(m4 - 1) / (1 + 0.49 * (m4 - 1))
    assert abs(cell['response']) < 0.05 and abs(cell['moves'] - expected) < 0.04 and 0.4 < expected
    assert abs(answer.values('crosstalk')['x'] - expected / 2) < 0.02  # the suit, the other of two, moves nothing


def test_an_overshoot_is_as_wrong_as_an_undershoot():
    "A number that is read at 1.2 times its change, and one that is read backwards three times as far"
    index = pd.MultiIndex.from_tuples([(0, 0)] * 3, names=['episode', 't'])
    truth = pd.DataFrame(dict(x=[0.0, 1, 0], y=[0.0, 0, 1]), index)
    read = pd.DataFrame(dict(x=[0.0, 1.2, 0], y=[0.0, 0, -3]), index)
    factors = pd.DataFrame(dict(factor=['x', 'y'], std=1.0, skill=1.0))
    answer = Answer(Response(), truth, read, dict(changed=np.array(['', 'x', 'y']), factors=factors))
    assert np.allclose(answer.values('own'), [0.8, -1, -0.1]) and not answer.values('crosstalk').any()


def test_codes_that_move_twice_too_far_are_told_from_those_that_stay():
    "Natural codes are the state; in twins codes move twice as far, or stay: `own` is 0 for both, not the matrix"
    recording = world(perfect)
    codes = [e.obs['vector'] for e in recording]
    number = np.flatnonzero(recording.split == 'twins')
    untouched = {}
    for i in number:
        moment, factor, _ = recording.meta['twins']['rows'][recording[i].name]
        if factor == '':
            untouched[moment] = codes[i]
    moved = {}
    for name, factor in ('twice', 2), ('stays', 0):
        moved[name] = list(codes)
        for i in number:
            rest = untouched[recording.meta['twins']['rows'][recording[i].name][0]]
            moved[name][i] = np.concatenate([codes[i][:-1], rest[-1:] + factor * (codes[i] - rest)[-1:]])
    answers = {name: Response().ask(c, recording, progress=False) for name, c in moved.items()}
    for name, response in dict(twice=2, stays=0).items():
        assert abs(answers[name].values('own')['x']) < 0.02
        assert abs(answers[name].matrix.loc['x', 'x'] - response) < 0.02
    assert 'Nearness' in Response.metrics['own'].label


def test_an_answer_says_which_twins_it_is_of_and_results_print_it():
    recording = world(perfect, n_moments=6)
    results = srlviz.ask({'state': [e.obs['vector'] for e in recording]}, recording, ['response'], progress=False)
    assert 'asked of 48 twins of 6 moments' in str(results)


def test_one_changed_factor_has_a_reason_instead_of_disentanglement():
    recording = world(perfect, n_moments=6)
    rows = recording.meta['twins']['rows']
    kept = [i for i, e in enumerate(recording) if recording.split[i] != 'twins' or rows[e.name][1] in ('', 'x')]
    recording = recording[kept]
    codes = [e.obs['vector'] for e in recording]
    answer = Interventional().ask(codes, recording, progress=False)
    assert list(answer.importance) == ['x'] and np.isnan(answer.value('interventional_disentanglement'))
    results = srlviz.ask({'state': codes}, recording, ['interventional'], progress=False)
    reason = results.reasons['state', recording.name, 'interventional']
    assert 'x alone was changed' in reason and reason in str(results)


def test_twins_alone_and_subjects_of_another_kind_are_refused_with_the_way_out():
    recording = world(perfect, n_moments=4)
    twins = Twins.of(recording)
    codes = [e.obs['vector'] for e in twins]
    for alone in twins, twins.with_split(probe=0.6, valid=0.2, test=0.2):
        with pytest.raises(ValueError, match='twins alone.*with_twins'):
            Response().ask(codes, alone)
    reasons = srlviz.ask({'state': codes, 'x': codes}, twins, ['response'], progress=False).reasons
    assert all('with_twins' in reason for reason in reasons.values())
    encoder = as_encoder(lambda x: x)
    with pytest.raises(ValueError, match='an encoder. Pass encoder.encode.recording.$'):
        Response().ask(encoder, recording)
    with pytest.raises(ValueError, match="'edit' is not about codes.*questions.edit"):
        srlviz.ask({'state': codes}, recording, ['edit'])
    plain = Recording([*twins], 'cards', meta=twins.meta, factors=twins.factors)
    with pytest.raises(ValueError, match='Twins.of'):
        with_twins(recording[recording.split != 'twins'], plain)
    with pytest.raises(ValueError, match='pong.*cards'):
        with_twins(recording[recording.split != 'twins'], srlviz.twins('pong', 'player_y', n=1, progress=False))


def test_a_class_that_is_read_by_chance_counts_nothing():
    "Hearts is read in the twin and in the untouched row: the reading has not moved to it"
    index = pd.MultiIndex.from_tuples([(0, 0), (0, 0), (1, 0), (1, 0)], names=['episode', 't'])
    truth = pd.DataFrame(dict(suit=[0, 1, 2, 1]), index)
    changed, std = np.array(['', 'suit', '', 'suit']), pd.Series(dict(suit=1.0))
    for read, expected in ([0, 1, 2, 1], 1), ([1, 1, 1, 1], 0), ([0, 1, 1, 1], 0.5), ([1, 0, 1, 0], -1):
        found = responses(truth, pd.DataFrame(dict(suit=read), index), changed, std, Draws.whole([0, 0, 1, 1]))
        assert found[0, 0, 0] == expected, read


def test_resamples_of_moments_agree_with_repeated_rows():
    rng = np.random.default_rng(4)
    recording = world(lambda values: perfect(values) + 0.8 * rng.normal(size=(len(values), 5)), n_moments=8)
    answer = asked(Response(), recording)
    moment = answer.truth.index.get_level_values('episode')
    draws = Draws.of(moment, 3, seed=1)
    std = answer.parts['factors'].set_index('factor')['std']
    found = responses(answer.truth, answer.predicted, answer.parts['changed'], std, draws)
    for k, counts in enumerate(draws.counts.astype(int)):
        rows, copies = [], []
        for number, m in enumerate(np.repeat(draws.units, counts)):
            of_moment = np.flatnonzero(moment == m)
            rows.append(of_moment)
            copies += [(number, 0)] * len(of_moment)
        rows = np.concatenate(rows)
        index = pd.MultiIndex.from_tuples(copies, names=['episode', 't'])
        tables = [table.iloc[rows].set_axis(index) for table in (answer.truth, answer.predicted)]
        again = responses(*tables, answer.parts['changed'][rows], std, Draws.whole(index.get_level_values(0)))
        np.testing.assert_allclose(found[k], again[0])
    interval = answer.interval('own').set_index('target')
    assert (interval['n'] == 8).all() and interval.loc['suit', 'low'] < interval.loc['suit', 'high']


def test_a_factor_that_follows_is_no_crosstalk():
    recording = world(perfect)
    linked = []
    for e in recording:
        linked.append(e.replace(factors=dict(e.factors, tens=np.floor(e.factors['byte'] / 10))))
    factors = [*recording.factors, Factor('tens', kind='continuous')]
    answer = asked(Response(), recording.replace(episodes=linked, factors=factors))
    table = answer.parts['matrix'].set_index(['changed', 'read'])
    assert table.index[table['follows']].tolist() == [('byte', 'tens')]
    assert table.loc[('byte', 'tens'), 'response'] > 0.9 and answer.values('crosstalk')['tens'] < 0.05


def test_a_changed_factor_counts_although_it_repeats_one_that_was_not_changed():
    "As the card of three steps ago, which is the answer that is due"
    recording = world(lambda values: perfect(values)[:, 1:])
    doubled = [e.replace(factors=dict(due=e.factors['x']) | dict(e.factors)) for e in recording]
    factors = [Factor('due', kind='continuous'), *recording.factors]
    answer = asked(Response(), recording.replace(episodes=doubled, factors=factors))
    assert answer.about['counted_once'] == dict(x='due')
    own = answer.values('own')
    assert [*own.index] == [*NAMES, 'mean'] and abs(own['x']) < 0.1 and abs(own['mean'] - 2 / 3) < 0.1


def test_an_argument_makes_a_byte_a_class():
    recording = world(lambda values: np.column_stack([values[:, 0], values[:, 1] % 2]))
    two_values = []
    for e in recording:
        two_values.append(e.replace(factors=dict(e.factors, byte=e.factors['byte'] % 2)))
    recording = recording.replace(episodes=two_values)
    as_number, as_class = asked(Response(), recording), asked(Response('byte'), recording)
    assert is_number(as_number.truth['byte']) and not is_number(as_class.truth['byte'])
    assert as_class.values('own')['byte'] == 1 and abs(as_number.values('own')['byte'] - 1) < 0.01
    with pytest.raises(ValueError, match='bytes'):
        asked(Response(('bytes',)), recording)


def test_interventions_recover_a_planted_mixture():
    weights = np.random.default_rng(1).normal(size=(8, 2))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    std = np.sqrt((100**2 - 1) / 12)
    answer = asked(Interventional(), world(lambda v: (v[:, :2] - [0, 49.5]) / [1, std] @ weights.T, episodes=100))
    assert np.abs(answer.importance[['x', 'byte']] - np.abs(weights)).max(axis=None) < 0.02
    assert (answer.importance['suit'] == 0).all()


def test_random_functions_of_the_state_are_at_chance():
    def random_codes(values):
        return np.stack([np.random.default_rng(row.view(np.uint64)).normal(size=64) for row in values])

    recording = world(random_codes, episodes=30, rows=30)
    by_twins, by_lasso = asked(Interventional(), recording), asked(FactorRegression(), recording, permuted=False)
    for name in 'disentanglement', 'completeness':
        metric = f'interventional_{name}'
        assert abs(by_twins.value(metric) - by_twins.chance(metric)['mean']) < 0.03
    assert by_lasso.value('disentanglement') > 0.25


@pytest.mark.parametrize('question', [Response(), Interventional()], ids=repr)
def test_questions_about_twins_keep_their_answers_and_count_what_they_leave_out(question, tmp_path):
    recording = world(perfect, n_moments=6)
    codes = [e.obs['vector'] for e in recording]
    first = int(np.flatnonzero(recording.split == 'twins')[0])
    gone = [c * np.nan if i == first else c for i, c in enumerate(codes)]  # the first moment
    answer = question.ask(gone, recording, progress=False)
    assert answer.about['left_out'] == {'rows of twins': 1, 'twins without their moment': 8}
    assert type(answer) is type(Answer.load(answer.save(tmp_path / 'a.npz')))
    plain = recording[recording.split != 'twins']
    with pytest.raises(ValueError, match='twins'):
        asked(question, plain)
    aligned, factors = question.pair(codes, recording)
    with pytest.raises(ValueError, match='twins'):
        question.answer(aligned, {s: t for s, t in factors.items() if s != 'twins'}, progress=False)


def without_untouched(recording):
    "Leave out the first untouched episode"
    first = int(np.flatnonzero(recording.split == 'twins')[0])
    return recording[[i for i in range(len(recording)) if i != first]]


@pytest.mark.parametrize('question', [Response(), Interventional()])
def test_twins_without_their_moment_are_counted_and_a_moment_that_is_untouched_twice_is_refused(question):
    recording = world(perfect)
    answer = asked(question, without_untouched(recording))
    assert answer.about['left_out'] == {'twins without their moment': 8}
    about = recording.meta['twins']
    rows = dict(about['rows'])
    rows['moment 0, part 2'] = [0, '', None]
    with pytest.raises(ValueError, match='moment 0 untouched twice'):
        asked(question, recording.replace(meta=dict(twins=dict(about, rows=rows))))


FORGED_PARTS = {  # of an answer to `Response`: part, and what is done to it
    'responses as text': ('matrix', lambda t: t.astype(dict(response=str))),
    'no interval': ('matrix', lambda t: t.drop(columns='low')),
    'no factor that was changed': ('matrix', lambda t: t.drop(columns='changed')),
    'other names': ('matrix', lambda t: t.assign(changed='x')),
    'another order': ('matrix', lambda t: t[::-1].reset_index(drop=True)),
    'other responses': ('matrix', lambda t: t.assign(response=t['response'] + 1)),
    'no pairs': ('matrix', lambda t: t[:0]),
    'deviations as text': ('factors', lambda t: t.astype(dict(std=str))),
    'other deviations': ('factors', lambda t: t.assign(std=t['std'] * [2, 1, 1])),
    'a factor less': ('factors', lambda t: t[1:].reset_index(drop=True)),
    'fewer rows': ('changed', lambda a: a[1:]),
    'numbers for names': ('changed', lambda a: np.arange(len(a))),
    'unknown names': ('changed', lambda a: np.where(a == '', '', 'y')),
}


@pytest.mark.parametrize('attack', FORGED_PARTS)
def test_a_forged_answer_is_refused(attack, tmp_path):
    answer = asked(Response(), world(perfect, n_moments=6, rows=10))
    answer.value_table()  # as it was
    part, change = FORGED_PARTS[attack]
    answer.parts[part] = change(answer.parts[part])
    with pytest.raises(ValueError, match='forged.npz') as e:
        Answer.load(answer.save(tmp_path / 'forged.npz'))
    assert '\n' not in str(e.value)


@pytest.mark.parametrize('change', [lambda t: -t, lambda t: t * np.nan, lambda t: t.astype(str), lambda t: t[:0]])
def test_a_forged_importance_is_refused(change, tmp_path):
    answer = asked(Interventional(), world(perfect, n_moments=6, rows=10))
    answer.value_table()  # as it was
    answer.parts['importance'] = change(answer.parts['importance'])
    with pytest.raises(ValueError, match='forged.npz'):
        Answer.load(answer.save(tmp_path / 'forged.npz'))
