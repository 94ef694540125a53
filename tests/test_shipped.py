"""The files that ship with the package: scores, agents, encoders and matrices are complete and consistent."""

import json, re
from hashlib import sha256
from pathlib import Path

import numpy as np, pandas as pd, pytest

from srlviz.core.scores import SCORE_COLUMNS, load_scores
from srlviz.core.scores import paper_name, paper_scores
from srlviz.core.files import sample_path
from srlviz.core.names import catalog
from srlviz.envs.atari import GAMES, annotations
from srlviz.envs.pomdp.base import TASKS
from srlviz.evaluate.prediction.target_scores import unpredicted_targets
from srlviz.evaluate.probe import with_category_means
from srlviz.studies.matrix import matrix_results
from srlviz.studies.matrix.matrix_results import between_questions, between_seeds, between_worlds, shipped_matrix
from srlviz.studies.matrix.settings import SETTINGS
from srlviz.studies.papers.landing import BASELINES, gain_table, headline

SCORES = load_scores(sample_path('atari_scores.csv'))
NOTES = json.loads(sample_path('atari_scores.json').read_text())
ROOT = Path(__file__).parents[1]
COMMON_METHODS = ('majority', 'random_cnn', 'pixel_pred', 'st_dim')  # of all games, with the seed 0
REQUIRED = {('majority', 'none'), *((m, n) for m in ('random_cnn', 'st_dim') for n in ('none', 'standardize'))}


def notes_of(game, seed):
    "The notes on a game and a seed"
    return (NOTES['seeds'][str(seed)] if seed else NOTES['games'])[game]


def test_scores_have_all_games_and_methods():
    assert set(SCORES['source']) == {'srlviz'} and set(NOTES['games']) == set(GAMES) == set(SCORES['task']) - {'all'}
    for (game, seed), rows in SCORES[SCORES['task'] != 'all'].groupby(['task', 'seed']):
        assert seed or REQUIRED <= set(zip(rows['method'], rows['norm']))
        assert set(rows['method']) == set(notes_of(game, seed)['methods'])
    assert SCORES['value'].between(0, 1).all() and set(SCORES['metric']) == {'f1', 'accuracy', 'f1_macro'}


def test_scored_variables_are_those_kept_in_the_notes():
    labels = annotations().set_index(['game', 'variable'])['category']
    rows = SCORES[(SCORES['task'] != 'all') & (SCORES['target'] != 'mean')]
    for (game, seed), rows in rows.groupby(['task', 'seed']):
        notes = notes_of(game, seed)
        groups = rows.groupby(['method', 'norm', 'metric'])
        assert all(set(scores['target']) == set(notes['kept']) for _, scores in groups)
        assert all((notes['entropy'][v] >= 0.6) == (v in notes['kept']) for v in notes['entropy'])
        assert all(labels[game, r.target] == r.group for r in rows.drop_duplicates('target').itertuples())


def test_notes_have_the_settings_of_added_methods():
    "Budgets and arguments of each method that not all games have; every row has inputs, protocol, budget and codes"
    rows = SCORES[SCORES['task'] != 'all']
    for game, seed, method in rows[['task', 'seed', 'method']].drop_duplicates().itertuples(index=False):
        settings = notes_of(game, seed).get('added', {}).get(method)
        assert settings or (method in COMMON_METHODS and not seed), (game, seed, method)
        if settings:
            epochs = None if method in ('majority', 'random_cnn', 'ppo_features') else 5  # these are not trained here
            assert (settings['encoder']['seed'], settings['encoder'].get('epochs')) == (seed, epochs), (game, method)
            assert settings['probing'] == NOTES['budget']['probing']
    assert set(rows['inputs']) == {'frames'} and set(rows['protocol']) == {'paper'}
    assert set(rows['budget']) == {NOTES['budget']['encoder_frames']} and set(rows['n_codes']) <= {1, 256}


def test_means_equal_the_means_of_their_rows():
    keys = [c for c in SCORE_COLUMNS if c != 'value']
    computed = with_category_means(SCORES[SCORES['target'] != 'mean']).set_index(keys)['value']
    shipped = SCORES[SCORES['task'] != 'all'].set_index(keys)['value']
    assert set(computed.index) == set(shipped.index)
    assert np.allclose(computed, shipped.reindex(computed.index), atol=2e-4)  # rounded to four digits


@pytest.mark.parametrize(
    'table, n, digest', [('atari_scores', 7119, 'ec99815db0830765'), ('paper_scores', 2614, 'defb6c1ddc915da9')]
)
def test_migration_lost_no_row_and_changed_no_value(table, n, digest):
    "The values of the shipped tables, in their order, are those of the earlier files of nine columns"
    rows = load_scores(sample_path(f'{table}.csv'))
    if table == 'atari_scores':
        rows = rows[(rows['seed'] == 0) & rows['method'].isin(COMMON_METHODS)]
    values = rows['value'].tolist()
    assert len(values) == n and sha256(' '.join(map(repr, values)).encode()).hexdigest()[:16] == digest


def test_aliases_of_tasks_are_the_names_of_the_paper():
    "Every alias under which a task is registered is the paper's name, and every task of the paper has one of ours"
    classes = {cls for cls, _ in TASKS.values()}
    assert all(paper_name(c.__name__) in (c.__name__, *c.aliases) for c in classes)
    assert {a for c in classes for a in c.aliases} == {paper_name(c.__name__) for c in classes if c.aliases}
    assert set(paper_scores('popgym').query("metric == 'mmer'")['task']) <= {paper_name(t) for t in TASKS}


def test_shipped_mmer_is_the_maximum_of_its_curve():
    "MMER is the largest mean return of an epoch; random and oracle returns are shipped too"
    table = load_scores(sample_path('popgym_mmer.csv'))
    key = ['task', 'method', 'inputs', 'protocol', 'seed']
    best = table[table['metric'] == 'epoch_return'].groupby(key)['value'].max()
    mmer = table[table['metric'] == 'mmer'].set_index(key)['value']
    assert len(mmer) >= 40 and mmer.index.is_unique and (best.reindex(mmer.index) == mmer).all()
    assert (table.loc[table['metric'] == 'mmer', 'budget'] == 1_499_136).all()
    assert {'random', 'oracle'} <= set(table['method']) and set(table['source']) == {'srlviz'}


def listed(names: list[str]) -> str:
    "'a, b and c'"
    *first, last = names
    return f'{", ".join(first)} and {last}' if first else last


def test_the_guide_says_what_the_shipped_returns_cover():
    table = load_scores(sample_path('popgym_mmer.csv'))
    rows = table[table['metric'].eq('mmer') & table['task'].str.endswith('-easy')]
    n_tasks = rows.groupby(['inputs', 'method', 'seed'])['task'].nunique()
    whole = n_tasks[n_tasks == 15].index.to_frame(index=False)
    n_seeds = whole[whole['inputs'] == ''].groupby('method')['seed'].nunique()
    missing = sorted({*catalog('memories')} - {*n_seeds.index})
    lacks = f' (not {listed(missing)})' if missing else ''
    words = f'{len(n_seeds)} of the {len(catalog("memories"))} memories{lacks} on the 15 easy tasks, one seed each'
    more = {'two': n_seeds.index[n_seeds == 2], 'three': n_seeds.index[n_seeds == 3]}
    words += ', and ' + ' and '.join(f'{n} of {listed(sorted(names))}' for n, names in more.items() if len(names))
    assert f'The shipped table has {words};' in text_of('docs/guides/popgym.md')
    assert {*whole.loc[whole['inputs'] == 'state', 'method']} == {'GRU', 'MLP'}


def test_shipped_agents_earn_the_returns_of_their_last_epochs():
    "Each within chance and what the last update may change, all of them on average"
    from srlviz.data.popgym import record_pomdp
    from srlviz.agents.player import load_agents

    table = load_scores(sample_path('popgym_mmer.csv'))
    rows = table[table['metric'].eq('epoch_return') & table['inputs'].eq('') & table['seed'].eq(0)]
    last = rows.sort_values('budget').groupby(['task', 'method'])['value'].last()
    agents = load_agents('shipped')
    assert len(agents) >= 40 and sum(f.stat().st_size for f in sample_path('agents').iterdir()) <= 6_000_000
    differences = {}
    for (task, memory), agent in agents.items():
        returns = [e.rewards.sum() for e in record_pomdp(task, 10, agent, seed=5, progress=False)]
        differences[task, memory] = np.mean(returns) - last[paper_name(task), memory]
        chance = 3 * np.std(returns, ddof=1) / 10**0.5
        assert abs(differences[task, memory]) < 0.15 + chance, (task, memory, differences[task, memory], chance)
    assert abs(np.mean([*differences.values()])) < 0.05


LANDING = load_scores(sample_path('landing_benchmark.csv'))


def test_landing_scores_are_compared_with_a_mean_of_the_same_flights():
    assert set(LANDING['source']) == {'srlviz'} and set(LANDING['study']) == {'landing'}
    errors = LANDING[(LANDING['metric'] == 'mse') & (LANDING['group'] == 'targets')]
    for (data, head, _), rows in errors.groupby(['data', 'protocol', 'seed']):
        assert {'wind', 'turb', 'land', 'auto', 'fail'} == set(rows.loc[rows['method'] == 'mean_baseline', 'target'])
        mean = rows[rows['method'] == 'mean_baseline'].set_index('target')['value']
        best = rows[rows['method'] != 'mean_baseline'].groupby('target')['value'].min()
        assert head == 'knn' or (best['auto'] < mean['auto'] and best['turb'] < mean['turb']), (data, head)
    known = {*paper_scores('landing')['method'], *BASELINES}
    known |= {'masked_autoencoder', 'pca', 'signed_resnet34_ae', 'residual_conv1d_ae'}
    assert set(LANDING['method']) <= known and LANDING['value'].notna().all()


def text_of(*names: str) -> str:
    "The text of the README or of guides, without line breaks"
    return ' '.join(' '.join((ROOT / name).read_text(encoding='utf-8').split()) for name in names)


def test_the_guide_quotes_the_headline_of_the_landing_scores():
    text = text_of('docs/guides/landing.md')
    assert headline(LANDING[LANDING['data'] == '2000 flights']) in text


def test_gains_of_landings_have_intervals_and_no_unpredicted_target():
    gains = gain_table(LANDING[LANDING['protocol'] == 'mlp'])
    assert gains.notna().all(axis=None) and (gains['method'] != 'pca_statistics').all()
    assert (gains['low'] <= gains['high']).all()
    for (data, inputs), rows in gains.groupby(['data', 'inputs']):
        scores = LANDING[LANDING['data'] == data]
        unpredicted = set(unpredicted_targets(scores[scores['inputs'].isin(['', inputs])])) & set(rows['target'])
        # these scores were computed before intervals of skill were corrected for the number of methods
        assert unpredicted == ({'land'} if 'paper protocol' in data else set()), data


def test_shipped_encoders_reconstruct_the_shipped_flights():
    from srlviz.core.saving import load_encoder
    from srlviz.data.landing import read_flights

    flights = read_flights(sample_path('landings'))['test']
    files = sorted(sample_path('encoders').glob('*.safetensors'))
    assert len(files) == 3 and all(f.stat().st_size < 1_000_000 for f in files)
    for file in files:
        encoder = load_encoder(file)
        assert np.shape(encoder.encode(flights, progress=False)) == (len(flights), 32)
        reconstructed = encoder.reconstruct(flights[:1], progress=False)[0]['sensors']
        true, scale = np.asarray(flights[0].obs['sensors']), encoder.scale
        error = np.nanmean((scale.scale(reconstructed) - scale.scale(true)) ** 2)
        assert error < np.mean(scale.scale(true) ** 2), file.name  # better than predicting the mean


QEDR_SCORES = load_scores(sample_path('qedr.csv'))


def test_shipped_matrices_have_the_shipped_scores():
    from srlviz.core.questions import load_answers

    scores = pd.concat([LANDING[(LANDING['metric'] == 'disentanglement') & (LANDING['seed'] == 0)], QEDR_SCORES])
    files = sorted(sample_path('qedr').glob('*.npz'))
    assert sum(f.stat().st_size for f in files) < 5_000_000
    for file in files:
        world, name = file.stem.split('_', 1)
        rows = scores[(scores['target'] == 'mean') & (scores['metric'] == 'disentanglement')]
        if world == 'landing':
            labels = rows['method'] + '_' + rows['inputs'].str.replace(' ', '_')
        else:
            labels = rows['task'] + '_' + rows['method']
        rows = rows[labels == name].set_index('protocol')['value']
        results = {r.protocol: r for r in load_answers(file)}
        assert {'lasso 0.02', 'lasso 0.001'} <= set(results) and set(rows.index) <= set(results), file.name
        for protocol, value in rows.items():
            assert np.isclose(results[protocol].disentanglement.overall, value, atol=1e-4), (file.name, protocol)


def test_disentanglement_varies_little_with_the_released_code_and_much_with_ours():
    "The released code of the paper gives .05 to .16 for any encoder, the range of the paper's own columns"
    rows = LANDING[(LANDING['target'] == 'mean') & (LANDING['metric'] == 'disentanglement')]
    released = rows.loc[rows['protocol'] == 'lasso xeval', 'value']
    ours = rows.loc[rows['protocol'] == 'lasso 0.02', 'value']
    paper = paper_scores('landing').query("metric == 'disentanglement' and n_codes == 64")['value']
    assert len(released) >= 10 and released.between(paper.min() - 0.02, paper.max() + 0.02).all()
    assert np.ptp(ours) > 5 * np.ptp(released)


def test_the_pivot_table_of_the_guide_averages_over_seeds_only():
    guide = (ROOT / 'docs/guides/studies.md').read_text(encoding='utf-8')
    blocks = re.findall(r'^```python\n(.*?)^```', guide, re.M | re.S)
    (code,) = [b for b in blocks if 'pivot_table' in b]
    namespace = {}
    exec(code, namespace)
    cells = namespace['scores'].groupby(['task', 'target', 'method', 'norm'])
    assert (cells['seed'].nunique() == cells.size()).all() and cells.ngroups > 1000


def test_the_matrix_is_complete_and_its_headline_is_in_the_guides():
    matrix = shipped_matrix()
    assert len(matrix.tasks) == 11 and {*SETTINGS} <= set(matrix.tasks) and matrix.scores['method'].nunique() >= 15
    answered = set(map(tuple, matrix.scores[['method', 'task', 'group']].to_numpy()))
    for world in matrix.tasks:
        for method in matrix.scores['method'].unique():
            for question in matrix.questions:
                assert ((method, world, question) in answered) != ((method, world, question) in matrix.reasons)
    lines = matrix_results.headline(matrix)
    assert all(line in text_of('docs/guides/matrix.md') for line in lines)
    agreement = [line for line in lines if ' agree by ' in line]
    assert len(agreement) == 3 and all(line in text_of('README.md') for line in agreement)
    ceilings = between_seeds(matrix)
    by_world = ceilings.set_index('a')['value']
    assert (by_world.drop('approach-film') > 0.7).all() and by_world.mean() > 0.75
    assert by_world['approach-film'] < 0.5  # 150 flights; the guide says so
    assert abs(between_worlds(matrix)['value'].mean()) < 0.2


def test_the_guides_say_how_far_families_of_worlds_and_of_questions_agree():
    matrix = shipped_matrix()
    by_time = ['RepeatFirst-easy', 'CountRecall-easy', 'HigherLower-easy', 'MultiarmedBandit-easy']
    by_sight = ['RepeatPrevious-easy', 'Concentration-easy', 'PositionOnlyCartPole-easy', 'pong']
    worlds, questions = between_worlds(matrix), between_questions(matrix)

    def words(is_meant: pd.Series, pairs: pd.DataFrame) -> str:
        return f'{pairs.loc[is_meant, "value"].mean():.2f}'.replace('0.', '.')

    within, across = [], worlds['a'].isin(by_time) & worlds['b'].isin(by_sight)
    across |= worlds['a'].isin(by_sight) & worlds['b'].isin(by_time)
    for family in (by_time, by_sight):
        within.append(words(worlds['a'].isin(family) & worlds['b'].isin(family), worlds))
    linear = questions[['a', 'b']].isin(['regression', 'selectivity', 'shift']).all(axis=1)
    for guide in ('README.md', 'docs/guides/matrix.md'):
        text = text_of(guide)
        assert (
            f'where much can be told from the time alone and the clock is among the first, agree by {within[0]};'
            in text
        )
        assert f'where what was seen decides, by {within[1]}; one of each by {words(across, worlds)}.' in text
        assert f'score one linear fit, and agree by {words(linear, questions)};' in text
        assert f'the other pairs agree by {words(~linear & questions["value"].notna(), questions)}.' in text


def test_the_guide_says_what_methods_have_on_all_games():
    "F1 on raw and standardized codes, and the paper's on raw codes"
    names = dict(supervised='Supervised', st_dim='ST-DIM', cpc='CPC', random_cnn='a random network')
    names |= dict(pixel_pred='PixelPred', vae='VAE')

    def means(scores: pd.DataFrame) -> pd.Series:
        rows = scores.query(
            "metric == 'f1' and group == 'all' and target == 'mean' and task != 'all' and data != 'ppo'"
        )
        assert (
            rows[rows['method'].isin(names) & rows['norm'].eq('none')].groupby('method')['task'].nunique().eq(22).all()
        )
        by_game = rows.groupby(['method', 'norm', 'task'])['value'].mean()  # over seeds, as figures do
        return by_game.groupby(level=['method', 'norm']).mean().map('{:.2f}'.format).str.removeprefix('0')

    scores = load_scores(sample_path('atari_scores.csv'))
    ours, paper = means(scores), means(paper_scores('atari'))
    text = text_of('docs/guides/atari.md')
    for method, name in names.items():
        assert f'{name} {ours[method, "none"]} and {ours[method, "standardize"]},' in text
    assert f'the most frequent value {ours["majority", "none"]}.' in text
    *first, last = (paper[method].iloc[0] for method in (*names, 'majority'))
    assert f'The paper, on raw codes: {", ".join(first)} and {last}.' in text


def test_the_readme_says_what_the_edits_of_shipped_agents_did():
    "Its first picture, and the section `Knows or uses?`: the tables of the study `use`, of all tasks"
    edits = pd.read_csv(sample_path('agent_edits.csv')).query(
        "task == 'RepeatPrevious-easy' and memory == 'GRU' and due"
    )
    verdicts = pd.read_csv(sample_path('agent_verdicts.csv')).query("task == 'RepeatPrevious-easy'")
    text = text_of('README.md')

    def written(value: float) -> str:
        "As the README writes a number: .06, 0, 1.00"
        digits = f'{value:.2f}'.removeprefix('0')
        return '0' if digits == '.00' else digits

    def ends(values: pd.Series) -> str:
        "Smallest and largest value"
        return ' to '.join(dict.fromkeys(map(written, values)))

    def of(kind: str, column: str) -> pd.Series:
        return edits.loc[edits['direction'] == kind, column].agg(['min', 'max'])

    assert set(edits['factor']) == {f'ago_{k}' for k in range(4)} and edits['n'].between(299, 300).all()
    moved = edits[edits['direction'].isin(['standardised probe', 'class means'])]
    assert f'the due action follows in {ends(moved["success"].agg(["min", "max"]))}' in text
    assert f'a random push of the same length in {ends(of("random", "success"))}' in text
    assert f"The same probe's shortest step in raw units does it in {ends(of('raw probe', 'success'))}" in text
    assert f'linear discriminant analysis in {of("LDA", "success")["max"]:.3f} at most'.replace('0.', '.') in text
    lengths = f'{ends(of("raw probe", "length"))} and {ends(of("LDA", "length"))}'
    assert f"These steps are short, {lengths} of the twin's change" in text
    assert f'do it in {ends(of("raw probe", "long_success"))} and {ends(of("LDA", "long_success"))}' in text
    left = verdicts[verdicts['factor'].str.startswith('remaining')].set_index('memory')
    assert set(left.loc['GRU', 'verdict']) == {'known and unused'} and (left.loc['GRU', 'best'] == 0).all()
    assert f'can be read as well (R² {ends(left.loc["GRU", "skill"].agg(["min", "max"]))})' in text
    assert f'lets a probe read them, too ({ends(left.loc["Elman", "skill"].agg(["min", "max"]))})' in text
    assert f'at most {ends(left.loc["Elman", "follows"].abs().agg(["max"]))} of the difference' in text
    assert f"(the GRU's by {ends(left.loc['GRU', 'follows'].agg(['min', 'max']))})" in text
    assert all(words.startswith('not held') for words in left.loc['Elman', 'verdict'])
    assert f'{left.loc["GRU", "best_high"].max():.2f} of the actions'.replace('0.', '.') in text
