"""Questions keep the rules of the protocol: all of the catalogue, and a third-party one, whose answer is saved."""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest
from support.one_notebook import run_with_notebook

from srlviz.agents.player import load_policy
from srlviz.core.bootstrap import Draws
from srlviz.core.files import sample_path
from srlviz.core.metrics import Metric, find_metric, questions
from srlviz.core.protocols import catalog, check_question
from srlviz.core.questions import Answer, Question
from srlviz.core.recordings import Episode, Recording
from srlviz.core.scores import check_scores, paper_scores
from srlviz.data.popgym import record_pomdp
from srlviz.evaluate.prediction.target_table import make_targets
from srlviz.evaluate.questions.belief_skill import BeliefSkill
from srlviz.evaluate.questions.edit import Edit
from srlviz.evaluate.questions.frozen_return import FrozenReturn
from srlviz.evaluate.questions.memories import Contamination, Cost, CreditShare, Recall
from srlviz.evaluate.questions.neighbour_agreement import NeighbourAgreement
from srlviz.evaluate.questions.linear_probe import LinearProbe
from srlviz.evaluate.questions.factor_regression import (
    AttributePredictability,
    DislibDCI,
    FactorRegression,
    MutualInformationGap,
)
from srlviz.evaluate.questions.agent_returns import ObservabilityGap, Returns
from srlviz.evaluate.questions.supervised_targets import SupervisedTargets
from srlviz.memories.recurrent import GRU

CODES = {  # with settings that suit a toy world
    'LinearProbe': LinearProbe(n_classes=2, lr=0.05, epochs=15),
    'FactorRegression': FactorRegression(),
    'MutualInformationGap': MutualInformationGap(bins=10),
    'AttributePredictability': AttributePredictability(),
    'NeighbourAgreement': NeighbourAgreement(n_queries=100),
}
SLOW_QUESTIONS = [FactorRegression('forest', max_depth=4), FactorRegression('boosting'), DislibDCI()]
SLOW_QUESTIONS += [FactorRegression(categories=('lamp', 'fan'))]


def agent():
    return load_policy(sample_path('agents') / 'RepeatPrevious-easy_GRU.safetensors')


def played_recording():
    return record_pomdp('RepeatPrevious-easy', 3, agent(), seed=5, progress=False)


def window_targets():
    "Codes that hold one target of random walks, and the table of targets"

    def walk(seed):
        rng = np.random.default_rng(seed)
        wind = rng.normal(10, 4) + rng.normal(0, 1, 60)
        fire = (np.arange(60) > 30) & (seed % 2 == 0)
        sensors = np.stack([wind, rng.normal(size=60), fire], 1).astype(np.float32)
        return Episode(dict(sensors=sensors), factors=dict(wind=wind, fire=fire), name=f'{seed}')

    split = ['fit'] * 10 + ['valid'] * 8 + ['probe'] * 12 + ['test'] * 10
    walks = Recording([walk(i) for i in range(40)], name='walks', hz=5, split=split)
    targets = make_targets(
        walks, dict(wind={'wind': 'wind'}, fail=['fire']), 10, how=dict(fail='max'), events=['fail'], progress=False
    )
    return [np.asarray(w.obs['sensors']).mean(0) for w in targets.windows], targets


def cards():
    "The cards themselves as codes, and the recording of cards"
    split = dict(probe=0.5, valid=0.2, test=0.3)
    recording = record_pomdp('RepeatPrevious-easy', 12, seed=5, split=split, progress=False)
    return [e.obs['vector'] for e in recording], recording


SUBJECTS = {
    'BeliefSkill': lambda: (BeliefSkill(), *cards()),
    'SupervisedTargets': lambda: (SupervisedTargets('linear'), *window_targets()),
    'Returns': lambda: (Returns(min_episodes=2), agent(), played_recording()),
    'ObservabilityGap': lambda: (ObservabilityGap(-0.5, 0.5, 'final_return'), agent(), played_recording()),
    'Contamination': lambda: (Contamination(k=3), agent(), played_recording()),
    'CreditShare': lambda: (CreditShare(by='gradient'), agent(), played_recording()[:1]),
    'Edit': lambda: (Edit(('ago_1', 'remaining_0'), **Edit.quick), agent(), played_recording()),
    'Recall': lambda: (Recall(steps=4, delays=(1, 2), test=32), GRU(8, 16), None),
    'FrozenReturn': lambda: (FrozenReturn(budget=2048, runs=2), np.asarray, None),
    'Cost': lambda: (Cost(batch=2, length=16, runs=2), GRU(8, 16), None),
}


@pytest.mark.parametrize('name', CODES)
def test_questions_about_codes_keep_the_rules(name):
    check_question(CODES[name])


@pytest.mark.slow
@pytest.mark.parametrize('question', SLOW_QUESTIONS, ids=repr)
def test_slow_questions_about_codes_keep_the_rules(question):
    check_question(question)


@pytest.mark.parametrize('name', SUBJECTS)
def test_questions_about_targets_agents_or_memories_keep_the_rules(name):
    check_question(*SUBJECTS[name]())


def test_every_other_question_keeps_the_rules():
    "Questions that are not listed above, with their defaults: a new one needs no line here"
    known = {*CODES, *SUBJECTS, *(type(q).__name__ for q in SLOW_QUESTIONS)}
    assert known <= {*catalog('questions')}
    for name, question in catalog('questions').items():
        if name not in known and question.needs == 'codes':
            check_question(question())


def test_a_metric_has_the_same_range_in_every_question():
    "The papers' tables lie within these ranges; values outside are refused"
    ranges = {}
    for question in questions().values():
        for name, metric in question.metrics.items():
            limits = (metric.low, metric.high, metric.better)
            assert ranges.setdefault(name, limits) == limits
    paper = paper_scores('atari')
    with pytest.raises(ValueError, match='f1'):
        check_scores(paper.assign(value=1.5)[paper['metric'] == 'f1'])
    assert find_metric('f1').chance == 'permuted'


def test_an_invalid_subject_of_a_question_is_refused():
    recording = played_recording()
    codes = agent().encode(recording)
    for question in (Contamination(), CreditShare()):
        with pytest.raises(ValueError, match=question.name):
            question.ask(codes, recording)
    with pytest.raises(ValueError, match='probe'):
        LinearProbe().ask(agent(), recording)
    with pytest.raises(ValueError, match='recall'):
        Recall().ask(5)


def _spread(answer, draws):
    return pd.DataFrame({'mean': np.full(len(draws), answer.about['rank'])})


@dataclass(frozen=True)
class Directions(Question):
    "A third-party question: how many directions do the codes use?"

    name = 'directions'
    cannot_tell = 'what the directions represent'
    metrics = dict(directions=Metric('Directions', _spread, low=1.0, high=np.inf, resampled=False))

    def fit(self, codes, factors, *, seed=0, progress=True):
        x = codes['test'] - codes['test'].mean(0)
        p = np.linalg.svd(x, compute_uv=False)
        p = p / p.sum() + 1e-12
        no_factors = factors['test'].iloc[:, :0]
        return Answer(self, no_factors, no_factors, about=dict(rank=float(np.exp(-(p * np.log(p)).sum()))))


def test_a_third_party_question_keeps_the_rules_and_its_answer_is_saved(tmp_path):
    check_question(Directions())
    from srlviz.core.checks.question import toy_recording

    toy = toy_recording()
    answer = Directions().ask([e.obs['vector'] for e in toy], toy)
    assert 2.5 < answer.value('directions') <= 3
    path = answer.save(tmp_path / 'rank.npz')
    assert Answer.load(path, Directions()).value('directions') == answer.value('directions')
    with pytest.raises(ValueError, match='directions'):  # a file never imports a third-party class
        Answer.load(path)
    rows = answer.scores(study='mine', task='switches', method='raw')
    assert rows['metric'].tolist() == ['directions']


def run_answer():
    "Returns of five episodes in three epochs"
    episodes = pd.DataFrame({'step': [4, 9, 13, 18, 30], 'return': [0, 1, 0.5, 1, -1.0]})
    return Returns(epoch_steps=10, min_episodes=2).ask(episodes)


def cost_answer():
    "Costs of a small memory, with an end of an interval below zero"
    answer = Cost(batch=2, length=16, runs=3, device='cpu').ask(GRU(8, 16))
    answer.parts['costs'].loc[2, 'low'] = -1.0
    return answer


RUN = dict(study='mine', task='pole', method='GRU', seed=3, data='here')


@pytest.mark.parametrize('items', [True, False])
def test_rows_of_a_run_and_of_costs_come_from_answers_also_from_saved_ones(tmp_path, items):
    run, costs = run_answer(), cost_answer()
    rows = run.run_scores(**RUN)
    values = rows.set_index('metric')['value']
    for name in ('mmer', 'mmer_split', 'final_return'):
        assert values[name] == run.value(name)
    epochs = rows[rows['metric'] == 'epoch_return']
    assert epochs['budget'].tolist() == [10, 20, 30] and epochs['value'].max() == run.value('mmer')
    assert set(rows['target']) == {'return'} and set(rows['seed']) == {3} and 'return' not in set(rows['metric'])
    loaded = type(run).load(run.save(tmp_path / 'run.npz', items))
    assert loaded.run_scores(**RUN).equals(rows)
    measured = costs.interval_scores(**RUN)
    times = measured[measured['metric'] == 'training time (ms)'].set_index('target')['value']
    assert list(times.index) == ['mean', 'low', 'high'] and times['low'] == 0
    assert times['mean'] == costs.value('training time (ms)')
    again = type(costs).load(costs.save(tmp_path / 'cost.npz', items)).interval_scores(**RUN)
    assert again.drop(columns='value').equals(measured.drop(columns='value'))
    assert np.allclose(again['value'], measured['value'])


def without(table, column):
    return table.drop(columns=column)


def as_text(table, column):
    return table.astype({column: str})


@pytest.mark.parametrize('damage', [without, as_text])
@pytest.mark.parametrize(
    'answer, part, column', [(run_answer, 'epochs', 'mean_return'), (cost_answer, 'costs', 'high')]
)
def test_a_forged_table_of_a_run_or_of_costs_is_refused(tmp_path, answer, part, column, damage):
    forged = answer()
    forged.parts[part] = damage(forged.parts[part], column)
    with pytest.raises(ValueError, match=f'{part}.*{column}'):
        Answer.load(forged.save(tmp_path / 'forged.npz'))


def test_costs_of_an_unknown_type_are_refused():
    with pytest.raises(ValueError, match='dtype.*float16.*bfloat16'):
        Cost(dtype='float16').ask(GRU(8, 16))


def test_recall_of_a_study_is_that_of_its_answer():
    "One number: the metric of the question, the table of `recall`, and the row of the study"
    from srlviz.evaluate.memories.recall import recall
    from srlviz.studies.papers.pomdps import memory_trial

    learned = dict(delays=(1, 3), n_hidden=16, steps=5)
    answer = Recall('copy', **learned).ask(GRU, seed=2, progress=False)
    rows = pd.DataFrame(memory_trial('GRU', 'copy', seed=2, **learned))
    accuracy = rows[rows['metric'] == 'accuracy'].set_index('target')['value']
    assert accuracy.equals(answer.values('recall').drop('mean').rename_axis('target').rename('value'))
    assert accuracy.tolist() == recall(GRU, 'copy', seed=2, progress=False, **learned)['accuracy'].tolist()
    assert rows['metric'].tolist() == ['accuracy', 'accuracy', 'seconds'] and set(rows['n_codes']) == {16}


def test_answers_about_two_recordings_cannot_be_compared():
    from srlviz.core.checks.question import toy_recording

    recordings = toy_recording(), toy_recording(seed=1)
    answers = [FactorRegression().ask([e.obs['vector'] for e in r], r) for r in recordings]
    with pytest.raises(ValueError, match='recordings'):
        answers[0].compare(answers[1], 'informativeness')
    with pytest.raises(ValueError, match='completeness'):
        answers[0].interval('completeness')
    assert answers[0].is_uninformative is False


def test_random_codes_are_marked_uninformative():
    "The disentanglement of 64 random codes is far from 0, and so is that of permuted episodes"
    from srlviz.core.checks.question import toy_recording

    toy = toy_recording(40)
    noise = [np.random.default_rng(i).normal(size=(len(e), 64)) for i, e in enumerate(toy)]
    answer = FactorRegression(alpha=0.002).ask(noise, toy)
    assert answer.is_uninformative and answer.value('disentanglement') > 0.2
    assert abs(answer.value('disentanglement') - answer.chance('disentanglement')['mean']) < 0.15


def test_a_weighted_bootstrap_equals_one_of_repeated_rows():
    rng = np.random.default_rng(0)
    unit, values = np.repeat(np.arange(7), 5), rng.normal(size=(35, 2))
    draws = Draws.of(unit, 4, seed=3)
    for weights, mean in zip(next(draws.items()).astype(int), draws.means(values)):
        np.testing.assert_allclose(np.repeat(values, weights, axis=0).mean(0), mean)


CENTROID = '''
from dataclasses import dataclass

import numpy as np
import pandas as pd

from srlviz.core.metrics import Metric
from srlviz.core.questions import Answer, Question


def right(answer, draws):
    return pd.DataFrame(draws.means((answer.truth == answer.predicted).to_numpy()), columns=list(answer.truth))


@dataclass(frozen=True)
class NearestCentroid(Question):
    """Of which class is the mean of the codes nearest?"""

    name = 'centroid'
    reads = 'classes'
    cannot_tell = 'classes apart that have the same mean'
    metrics = dict(nearest=Metric('Share of nearest centroids that are right', right, chance='permuted'))

    def fit(self, codes, factors, *, seed=0, progress=True):
        predicted = {}
        for name, column in factors['probe'].items():
            classes = np.unique(column)
            means = np.stack([codes['probe'][column == c].mean(0) for c in classes])
            distance = ((codes['test'][:, None] - means) ** 2).sum(2)
            predicted[name] = classes[distance.argmin(1)]
        test = factors['test']
        return Answer(self, test, pd.DataFrame(predicted, test.index), about=dict(seed=seed))
'''
ASK_CENTROID = '''
import numpy as np
import srlviz
from srlviz.core.protocols import catalog
from srlviz.core.recordings import Recording
from srlviz.studies.cli import listing

srlviz.check(catalog('questions')['NearestCentroid']())
rng = np.random.default_rng(0)
x = rng.normal(size=(6000, 2)).astype(np.float32)
factors = dict(number=x[:, 0].astype(float), side=(x[:, 1] > 0).astype(int))
world = Recording.from_arrays(dict(vector=x), episode=np.arange(6000) // 30, factors=factors, name='sides')
world = world.with_split(probe=0.5, valid=0.1, test=0.4)
codes = [e.obs['vector'] for e in world]
only_numbers = world.replace(factors=world.factors[:1])
for recording in world, only_numbers:
    card = srlviz.scorecard(codes, [recording], questions=['centroid'], references=(), progress=False)
    print(card.table().to_dict('list') or next(iter(card.reasons.values())))
print(srlviz.explore(catalog('questions')['NearestCentroid']) is not None)
'''


def test_one_notebook_adds_a_question(tmp_path):
    "It is checked, asked by name in a scorecard about classes, refused about numbers, and opened with its example."
    of_class, of_number, opened = run_with_notebook(tmp_path, 'evaluate.questions.centroid', CENTROID, ASK_CENTROID)[
        -3:
    ]
    assert 'Share of nearest centroids that are right' in of_class and '.9' in of_class
    assert 'about classes, and all factors are numbers (number)' in of_number
    assert opened == 'True'
