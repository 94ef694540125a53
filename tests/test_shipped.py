"""The scores that come with the package: complete, consistent with notes and labels, reachable where installed."""

import json, re
from hashlib import sha256
from pathlib import Path

import numpy as np, pandas as pd, pytest

from srlviz.core.scores import SCORE_COLUMNS, load_scores
from srlviz.core.scores import paper_name, paper_scores
from srlviz.core.files import sample_path
from srlviz.envs.atari import GAMES, annotations
from srlviz.envs.pomdp.base import TASKS
from srlviz.evaluate.prediction.target_scores import unpredicted_targets
from srlviz.evaluate.probe import with_category_means
from srlviz.studies.matrix.results import shipped_matrix
from srlviz.studies.matrix.settings import SETTINGS
from srlviz.studies.papers.landing import BASELINES, gain_table, headline

SCORES, NOTES = load_scores(sample_path('atari_scores.csv')), json.loads(sample_path('atari_scores.json').read_text())
ROOT = Path(__file__).parents[1]
FIRST = ('majority', 'random_cnn', 'pixel_pred', 'st_dim')  # of all games, with the seed 0
EVERYWHERE = {('majority', 'none'), *((m, n) for m in ('random_cnn', 'st_dim') for n in ('none', 'standardize'))}


def noted(game, seed):
    "What is noted of a game and a seed"
    return (NOTES['seeds'][str(seed)] if seed else NOTES['games'])[game]


def test_all_games_and_methods_are_there():
    assert set(SCORES['source']) == {'srlviz'} and set(NOTES['games']) == set(GAMES) == set(SCORES['task']) - {'all'}
    for (game, seed), rows in SCORES[SCORES['task'] != 'all'].groupby(['task', 'seed']):
        assert seed or EVERYWHERE <= set(zip(rows['method'], rows['norm']))
        assert set(rows['method']) == set(noted(game, seed)['methods'])
    assert SCORES['value'].between(0, 1).all() and set(SCORES['metric']) == {'f1', 'accuracy', 'f1_macro'}


def test_the_variables_are_those_that_the_notes_kept():
    labels = annotations().set_index(['game', 'variable'])['category']
    rows = SCORES[(SCORES['task'] != 'all') & (SCORES['target'] != 'mean')]
    for (game, seed), rows in rows.groupby(['task', 'seed']):
        about = noted(game, seed)
        assert all(set(of['target']) == set(about['kept']) for _, of in rows.groupby(['method', 'norm', 'metric']))
        assert all((about['entropy'][v] >= 0.6) == (v in about['kept']) for v in about['entropy'])
        assert all(labels[game, r.target] == r.group for r in rows.drop_duplicates('target').itertuples())


def test_the_notes_say_how_what_was_added_was_made():
    "Budgets and arguments of each method beyond those of all games; and every row says what it is of"
    rows = SCORES[SCORES['task'] != 'all']
    for game, seed, method in rows[['task', 'seed', 'method']].drop_duplicates().itertuples(index=False):
        made = noted(game, seed).get('added', {}).get(method)
        assert made or (method in FIRST and not seed), (game, seed, method)
        if made:
            epochs = None if method in ('majority', 'random_cnn', 'ppo_features') else 5  # these do not learn here
            assert (made['encoder']['seed'], made['encoder'].get('epochs')) == (seed, epochs), (game, method)
            assert made['probing'] == NOTES['budget']['probing']
    assert set(rows['inputs']) == {'frames'} and set(rows['protocol']) == {'paper'}
    assert set(rows['budget']) == {NOTES['budget']['encoder_frames']} and set(rows['n_codes']) <= {1, 256}


def test_means_are_the_means_of_what_is_there():
    keys = [c for c in SCORE_COLUMNS if c != 'value']
    again = with_category_means(SCORES[SCORES['target'] != 'mean']).set_index(keys)['value']
    theirs = SCORES[SCORES['task'] != 'all'].set_index(keys)['value']
    assert set(again.index) == set(theirs.index) and np.allclose(
        again, theirs.reindex(again.index), atol=2e-4
    )  # rounded to four digits


@pytest.mark.parametrize(
    'table, n, digest', [('atari_scores', 7119, 'ec99815db0830765'), ('paper_scores', 2614, 'defb6c1ddc915da9')]
)
def test_migration_lost_no_row_and_changed_no_value(table, n, digest):
    "The values of the shipped tables, in their order, are those of the files of nine columns before"
    rows = load_scores(sample_path(f'{table}.csv'))
    if table == 'atari_scores':
        rows = rows[(rows['seed'] == 0) & rows['method'].isin(FIRST)]
    values = rows['value'].tolist()
    assert len(values) == n and sha256(' '.join(map(repr, values)).encode()).hexdigest()[:16] == digest


def test_our_names_and_the_papers_are_those_of_the_tasks():
    "The second names under which tasks are registered are the paper's, and all of its tasks have one of ours"
    classes = {cls for cls, _ in TASKS.values()}
    assert all(paper_name(c.__name__) in (c.__name__, *c.aliases) for c in classes)
    assert {a for c in classes for a in c.aliases} == {paper_name(c.__name__) for c in classes if c.aliases}
    assert set(paper_scores('popgym').query("metric == 'mmer'")['task']) <= {paper_name(t) for t in TASKS}


def test_the_shipped_returns_are_those_of_their_curves():
    "MMER is the largest epoch of each curve; no memory is outside of what its task pays"
    table = load_scores(sample_path('popgym_mmer.csv'))
    key = ['task', 'method', 'inputs', 'protocol', 'seed']
    best = table[table['metric'] == 'epoch_return'].groupby(key)['value'].max()
    told = table[table['metric'] == 'mmer'].set_index(key)['value']
    assert len(told) >= 40 and told.index.is_unique and (best.reindex(told.index) == told).all()
    assert (table.loc[table['metric'] == 'mmer', 'budget'] == 1_499_136).all()
    assert {'random', 'oracle'} <= set(table['method']) and set(table['source']) == {'srlviz'}


def test_the_shipped_agents_play_as_their_scores_say():
    from srlviz.data.popgym import record_pomdp
    from srlviz.agents.player import load_agents

    table = load_scores(sample_path('popgym_mmer.csv'))
    last = table[table['metric'].eq('final_return') & table['inputs'].eq('')].set_index(['task', 'method'])['value']
    agents = load_agents('shipped')
    assert len(agents) == 6 and all(f.stat().st_size < 200_000 for f in sample_path('agents').iterdir())
    for (task, memory), agent in agents.items():
        seen = record_pomdp(task, 10, agent, seed=5, progress=False)
        earned = np.mean([e.rewards.sum() for e in seen])
        assert abs(earned - last[paper_name(task), memory]) < 0.2, (task, memory, earned)


LANDING = load_scores(sample_path('landing_benchmark.csv'))


def test_landing_scores_are_of_encoders_beside_a_mean_of_the_same_flights():
    assert set(LANDING['source']) == {'srlviz'} and set(LANDING['study']) == {'landing'}
    errors = LANDING[(LANDING['metric'] == 'mse') & (LANDING['group'] == 'targets')]
    for (data, head), rows in errors.groupby(['data', 'protocol']):
        assert {'wind', 'turb', 'land', 'auto', 'fail'} == set(rows.loc[rows['method'] == 'mean_baseline', 'target'])
        mean = rows[rows['method'] == 'mean_baseline'].set_index('target')['value']
        best = rows[rows['method'] != 'mean_baseline'].groupby('target')['value'].min()
        assert head == 'knn' or (best['auto'] < mean['auto'] and best['turb'] < mean['turb']), (data, head)
    known = {
        *paper_scores('landing')['method'],
        'masked_autoencoder',
        'pca',
        'signed_resnet34_ae',
        'residual_conv1d_ae',
    }
    known |= {*BASELINES}
    assert set(LANDING['method']) <= known and LANDING['value'].notna().all()


def words_of(*names: str) -> str:
    "The text of the README or of guides, without line breaks"
    return ' '.join(' '.join((ROOT / name).read_text(encoding='utf-8').split()) for name in names)


def test_the_guide_has_the_headline_of_the_shipped_landings():
    text = words_of('docs/guides/landing.md')
    assert headline(LANDING[LANDING['data'] == '2000 flights']) in text


def test_gains_of_landings_have_intervals_and_no_unpredicted_target():
    gains = gain_table(LANDING[LANDING['protocol'] == 'mlp'])
    assert gains.notna().all(axis=None) and (gains['method'] != 'pca_statistics').all()
    assert (gains['low'] <= gains['high']).all()
    for (data, inputs), of in gains.groupby(['data', 'inputs']):
        of_set = LANDING[LANDING['data'] == data]
        unpredicted = set(unpredicted_targets(of_set[of_set['inputs'].isin(['', inputs])])) & set(of['target'])
        # computed before intervals of skill were corrected for the number of methods
        assert unpredicted == ({'land'} if 'paper protocol' in data else set()), data


def test_encoders_that_ship_read_the_flights_that_ship():
    from srlviz.core.saving import load_encoder
    from srlviz.data.landing import read_flights

    flights, shelf = read_flights(sample_path('landings'))['test'], sample_path('encoders')
    files = sorted(shelf.glob('*.safetensors'))
    assert len(files) == 3 and all(f.stat().st_size < 1_000_000 for f in files)
    for file in files:
        encoder = load_encoder(file)
        assert np.shape(encoder.encode(flights, progress=False)) == (len(flights), 32)
        said = encoder.reconstruct(flights[:1], progress=False)[0]['sensors']
        true, scale = np.asarray(flights[0].obs['sensors']), encoder.scale
        error = np.nanmean((scale.scale(said) - scale.scale(true)) ** 2)
        assert error < np.mean(scale.scale(true) ** 2), file.name  # better than the mean


QEDR_SCORES = load_scores(sample_path('qedr.csv'))


def test_matrices_that_ship_give_the_scores_that_ship():
    from srlviz.core.questions import load_answers

    shelf = sample_path('qedr')
    both = pd.concat([LANDING[LANDING['metric'] == 'disentanglement'], QEDR_SCORES])
    files = sorted(shelf.glob('*.npz'))
    assert sum(f.stat().st_size for f in files) < 5_000_000
    for file in files:
        world, name = file.stem.split('_', 1)
        rows = both[(both['target'] == 'mean') & (both['metric'] == 'disentanglement')]
        if world == 'landing':
            who = rows['method'] + '_' + rows['inputs'].str.replace(' ', '_')
        else:
            who = rows['task'] + '_' + rows['method']
        rows = rows[who == name].set_index('protocol')['value']
        results = {r.protocol: r for r in load_answers(file)}
        assert {'lasso 0.02', 'lasso 0.001'} <= set(results) and set(rows.index) <= set(results), file.name
        for protocol, value in rows.items():
            assert np.isclose(results[protocol].disentanglement.overall, value, atol=1e-4), (file.name, protocol)


def test_the_released_codes_columns_are_flat_and_ours_are_not():
    "What the paper's columns look like comes out of its released code for any encoder: .05 to .16, as the paper has it"
    rows = LANDING[(LANDING['target'] == 'mean') & (LANDING['metric'] == 'disentanglement')]
    by = {way: rows.loc[rows['protocol'] == way, 'value'] for way in ('lasso xeval', 'lasso 0.02')}
    paper = paper_scores('landing').query("metric == 'disentanglement' and n_codes == 64")['value']
    assert len(by['lasso xeval']) >= 10 and by['lasso xeval'].between(paper.min() - 0.02, paper.max() + 0.02).all()
    assert np.ptp(by['lasso 0.02']) > 5 * np.ptp(by['lasso xeval'])


def test_the_guide_pivots_without_mixing():
    "A cell of the table that the guide makes is the mean over seeds, and over nothing else"
    blocks = re.findall(
        r'^```python\n(.*?)^```', (ROOT / 'docs/guides/studies.md').read_text(encoding='utf-8'), re.M | re.S
    )
    (code,) = [b for b in blocks if 'pivot_table' in b]
    exec(code, space := {})
    cells = space['scores'].groupby(['task', 'target', 'method', 'norm'])
    assert (cells['seed'].nunique() == cells.size()).all() and cells.ngroups > 1000


def test_the_matrix_is_whole_and_the_readme_says_what_it_shows():
    matrix = shipped_matrix()
    assert set(matrix.worlds) == {*SETTINGS} and matrix.scores['method'].nunique() >= 12
    answered = set(map(tuple, matrix.scores[['method', 'task', 'group']].to_numpy()))
    for world in matrix.worlds:
        for method in matrix.scores['method'].unique():
            for question in matrix.questions:
                assert ((method, world, question) in answered) != ((method, world, question) in matrix.reasons)
    lines = matrix.headline()
    assert all(line in words_of('docs/guides/matrix.md') for line in lines)
    agreement = [line for line in lines if 'agree by a rank correlation' in line]
    assert len(agreement) == 2 and all(line in words_of('README.md') for line in agreement)
