"""Test results of `srlviz.ask` and `srlviz.probe`: what is kept when they are saved, cut, renamed and joined."""

from dataclasses import replace

import numpy as np
import pytest

import srlviz
from srlviz.core.recordings import Episode, Factor, Recording
from srlviz.core.result_tables import latex_text
from srlviz.evaluate.questions.linear_probe import LinearProbe
from srlviz.evaluate.questions.regression import Regression

ASKED = dict(questions=[Regression(epochs=0), 'rank'], progress=False)


def walks(seed: int = 0, n_test: int = 2, name: str = 'walk') -> Recording:
    "Seven runs to learn from and `n_test` to test, with a number and a class"
    rows = np.random.default_rng(seed).normal(size=((7 + n_test) * 40, 2)).astype(np.float32)
    factors = dict(height=rows[:, 0], speed=rows[:, 1], side=(rows[:, 0] > 0).astype(int))
    about = [Factor('height', 'place'), Factor('speed', 'motion'), Factor('side', 'place')]
    walk = Recording.from_arrays(rows, episode=np.arange(len(rows)) // 40, factors=factors, about=about, name=name)
    return walk.replace(split=['probe'] * 5 + ['valid'] * 2 + ['test'] * n_test)


def codes_of(walk: Recording) -> list[np.ndarray]:
    return [episode.obs['vector'] for episode in walk]


class Rows:
    """The rows themselves."""

    level, code_version = 'step', '1'

    def fit(self, recording):
        self.fitted_ = True
        return self

    def encode(self, recording):
        return codes_of(recording)


def test_a_damaged_cached_answer_is_computed_again(tmp_path):
    first = srlviz.ask({'rows': Rows()}, walks(), cache=tmp_path, **ASKED)
    path = first.fitted['rows', 'walk'].files['rank']
    for content in b'no zip', path.read_bytes()[:-300]:
        path.write_bytes(content)
        again = srlviz.ask({'rows': Rows()}, walks(), cache=tmp_path, **ASKED)
        assert not again.reasons and again.scores.equals(first.scores)
        assert sum('rank' in note and 'damaged' in note for note in again.notes['walk']) == 1
    assert srlviz.ask({'rows': Rows()}, walks(), cache=tmp_path, **ASKED).notes == first.notes  # it is whole again


def test_values_that_training_lacks_are_noted_once_for_all_codes():
    recording = walks().with_split(probe=0.4, valid=0.2, test=0.4)
    episodes = [e.replace(factors=dict(room=np.full(len(e), s == 'test'))) for e, s in zip(recording, recording.split)]
    recording = recording.replace(episodes=episodes, factors=[Factor('room', kind='categorical')])
    codes = codes_of(recording)
    found = srlviz.ask({'a': codes, 'b': codes}, recording, ['probe'], progress=False)
    (note,) = (note for note in found.notes['walk'] if 'no row of' in note)
    assert 'room' in note and note in str(found)


def test_few_episodes_and_groups_are_kept_without_data(tmp_path):
    found = srlviz.ask({'rows': codes_of(walks())}, walks(), **ASKED)
    loaded = srlviz.load(found.save(tmp_path / 'small', data=False))
    intervals = loaded.intervals()
    assert intervals['low'].isna().all() and {*intervals['episodes'].dropna()} == {2}
    assert intervals.equals(found.intervals())
    assert 'mean of groups' in loaded.targets('r2_linear').index
    assert loaded.targets('r2_linear').equals(found.targets('r2_linear'))


def test_given_codes_leave_no_folder_of_encoders(tmp_path):
    found = srlviz.ask({'rows': codes_of(walks())}, walks(), **ASKED)
    for results in found, srlviz.load(found.save(tmp_path / 'first')):
        folder = results.save(tmp_path / 'walk' / str(id(results)))
        assert (folder / 'codes.npz').exists() and not (folder / 'encoders').exists()


def test_what_is_said_of_a_cell_goes_with_it():
    codes = codes_of(walks())
    gaps = [np.where(np.arange(40)[:, None] < 10, np.nan, rows) for rows in codes]
    two = dict(walk=walks(), other=walks(1, name='other'))
    found = srlviz.ask({'rows': dict(walk=codes, other=codes_of(two['other'])), 'gaps': dict(walk=gaps)}, two, **ASKED)
    text = repr(found.rename({'gaps': 'holes'}))
    assert 'holes, regression; holes, rank: left out, as a code or factor is NaN there' in text and 'gaps' not in text
    assert 'left out' not in repr(found.select('rows'))
    noted = found.select('rows')
    noted.notes['other'].append('of another walk')
    assert 'another walk' in repr(noted) and 'another walk' not in repr(noted.select(task='walk'))
    assert 'seconds' not in found.about


def test_recordings_of_one_name_and_shape_are_told_apart_when_joined(tmp_path):
    one, other = (srlviz.ask({name: codes_of(walks(i))}, walks(i), **ASKED) for i, name in enumerate('ab'))
    small = srlviz.load(other.save(tmp_path / 'small', data=False))
    for different in other, small:
        with pytest.raises(ValueError, match="recording 'walk': truth="):
            one | different
    same = srlviz.ask({'c': codes_of(walks(1))}, walks(1), **ASKED)
    assert (small | same).own == ['b', 'c']


def test_a_baseline_is_that_of_joined_parts_however_they_come(tmp_path):
    walk = walks(n_test=4)
    codes = dict(rows=codes_of(walk), noise=[np.random.default_rng(i).normal(size=(40, 2)) for i in range(11)])
    both = srlviz.ask(codes, walk, references=['noise'], baseline='noise', **ASKED)
    parts = [srlviz.ask({name: codes[name]}, walk, **ASKED) for name in codes]
    noise = srlviz.ask({'noise': codes['noise']}, walk, baseline='noise', **ASKED)
    rows = srlviz.load(parts[0].save(tmp_path / 'rows'))
    expected = both.intervals().set_index(['method', 'question', 'metric', 'target'])
    for joined in rows | noise, noise | rows, parts[0] | noise, noise | (rows | parts[1]):
        found = joined.intervals().set_index(['method', 'question', 'metric', 'target'])
        assert found.loc[expected.index].equals(expected) and joined.baseline == 'noise'
    assert (rows | parts[1]).intervals()['difference'].isna().all()


def test_a_table_has_a_column_for_a_method_of_any_name():
    codes = codes_of(walks(n_test=4))
    plain = srlviz.ask({'a': codes, 'b': [c[:, :1] for c in codes]}, walks(n_test=4), **ASKED)
    for name in 'metric', 'question', 'target', '− b':
        found = plain.rename({'a': name})
        for metric in '', 'r2_linear':
            table, expected = found.table('', metric), plain.table('', metric)
            assert table.to_numpy().tolist() == expected.to_numpy().tolist() and [*table][:2] == ['metric', name]
            assert found.to_latex('', metric) == plain.to_latex('', metric).replace(' a ', f' {latex_text(name)} ')


def test_a_name_in_a_table_for_a_paper_is_text():
    "No line of LaTeX begins with an argument, and no sign has a meaning of its own"
    found = srlviz.ask({'a': codes_of(walks(n_test=4))}, walks(n_test=4), **ASKED)
    for name in '[2pt]', '* x', '$x$', 'a & b', 'a | b', '&lt;', 'a\x85b', 'a\x9b2Jb', '\\':
        scores = found.scores.assign(target=found.scores['target'].replace('height', name))
        results = replace(found, scores=scores, answers={})
        latex, markdown = results.to_latex(metric='r2_linear'), results.to_markdown(metric='r2_linear')
        assert not any(line.startswith(('[', '*')) for line in latex.splitlines()) and latex.count(r'\\') == 4
        assert latex.replace('\n', '').isprintable() and markdown.replace('\n', '').isprintable()
        (row,) = [line for line in latex.splitlines() if latex_text(name) in line]
        assert row.replace(r'\&', '').count('&') == 1
        assert '$x$' not in latex and '$x$' not in markdown and '&lt;' not in markdown.replace(r'\&', '')
        assert {line.replace('\\\\', '').replace(r'\|', '').count('|') for line in markdown.splitlines()} == {3}


def test_constant_codes_are_not_called_standardized():
    probed = srlviz.probe(
        {'mine': Rows()}, walks(), norms=['standardize'], probing=dict(epochs=1), progress=False, baselines=['majority']
    )
    assert [*probed.labelled('f1')] == ['mine · standardized', 'majority']
    assert [*probed.targets('f1')] == ['mine · standardized', 'majority']
    assert [*probed.table(metric='f1')][1:] == ['mine · standardized', 'Majority']  # named as in figures


def test_a_question_without_factors_is_refused_before_anything_is_encoded():
    recording = walks()
    rooms = [e.replace(factors=dict(room=np.arange(len(e)) % 3)) for e in recording]
    recording = recording.replace(episodes=rooms, factors=[Factor('room', kind='categorical')])

    class Slow:
        def encode(self, recording):
            raise AssertionError('encoded')

    found = srlviz.ask({'slow': Slow()}, recording, ['regression'], progress=False)
    assert 'room' in found.reasons['slow', 'walk', 'regression']
    Slow.level = 'episode'
    found = srlviz.ask({'slow': Slow()}, walks(), ['regression'], progress=False)
    assert 'pool=None' in found.reasons['slow', 'walk', 'regression']
    with pytest.raises(ValueError, match=r'write Clock\(\), of srlviz'):
        srlviz.ask({'first': 'clock'}, recording, ['probe'])


def test_figure_table_and_print_have_one_mean_one_order_and_one_name():
    "The mean of three factors in two groups, with the interval of references, and the marks of the figure"
    x = np.random.default_rng(0).integers(0, 3, (1200, 3))
    groups = dict(player_y='agent', ball_x='ball', ball_y='ball')
    episodes = [Episode(dict(vector=part.astype('f4')), factors=dict(zip(groups, part.T))) for part in np.split(x, 20)]
    factors = [Factor(name, group, kind='categorical') for name, group in groups.items()]
    recording = Recording(episodes, factors=factors, name='pong')
    codes = {'my_net': [part[:, :1] for part in np.split(x, 20)], 'pca': [part[:, 1:] for part in np.split(x, 20)]}
    probe = LinearProbe(norm='standardize', protocol='fixed', n_classes=None, lr=0.01, epochs=1)
    results = srlviz.ask(codes, recording, [probe], references=['pca'], baseline='pca', progress=False)
    figure = results.explore(interactive=False).for_paper(351)
    mean = 'mean of 3 factors'
    assert mean in figure.layout.yaxis.ticktext[0] and mean in repr(results) and 'mean of groups' not in repr(results)
    table = results.table(metric='f1')
    assert [*table] == ['metric', 'my_net', '− PCA', 'PCA'] and [a.text for a in figure.layout.annotations] == [
        'my_net',
        'PCA',
    ]
    for name, text in zip(('my_net', 'PCA'), figure.data[2].text):
        assert table.loc[mean, name].startswith(f'{text} (')  # with an interval, that of a reference, too
    for words in results.to_latex(metric='f1'), repr(results), results.caption(), figure.layout.title.text:
        assert 'standardized codes' in words and 'raw' not in words
    assert '* not converged' in figure.layout.title.text and '{*} not converged' in results.to_latex(metric='f1')
    renamed = results.rename({'pca': 'Pca'})
    assert [a.text for a in renamed.explore(interactive=False).for_paper(351).layout.annotations] == ['my_net', 'Pca']
