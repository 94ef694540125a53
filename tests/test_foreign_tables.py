"""Test forged score tables, weights, checkpoints, labels, runways, notes and temporary folders.

Each error names the file, no reader hangs, and no other file is changed.
"""

import configparser, importlib.metadata, io, json, math, os, re, threading, zipfile
from pathlib import Path

import gymnasium, numpy as np, pandas as pd, pytest, torch
from gymnasium.vector import SyncVectorEnv
from packaging.requirements import Requirement

import srlviz
from srlviz.agents.ppo import PPO, ActorCritic, PPOConfig
from srlviz.core.files import sample_path
from srlviz.core.recordings import load_recording
from srlviz.core.scores import load_scores, paper_scores
from srlviz.core.scores import save_scores, score_row
from srlviz.core.training import epoch_batches, load_weights, save_weights, seeded, train
from srlviz.data import atari as recorder
from srlviz.data.atari import game_returns, prune_factors, record_atari, split_episodes
from srlviz.encoders.frames.ppo_features import AGENT_FILE, PPOFeatures, agent_file, read_agent
from srlviz.envs.atari import annotations
from srlviz.envs.landing.runways import Runways
from srlviz.core.questions import Answer
from srlviz.evaluate.probe import linear_probe
from srlviz.memories.recurrent import GRU
from srlviz.studies.methods import make_encoder
from srlviz.studies.papers import probed_games, probing
from srlviz.studies.papers.agents import load_agent

ROOT = Path(__file__).parents[1]
needs_pipes = pytest.mark.skipif(not hasattr(os, 'mkfifo'), reason='this system has no named pipes')


def assert_refused(pattern, path, f, *args, **kw):
    "Assert that `f` raises a ValueError that names the file and matches `pattern` (the place or value that is wrong)"
    with pytest.raises(ValueError) as e:
        f(*args, **kw)
    assert str(path) in str(e.value) and re.search(pattern, str(e.value)), str(e.value)


def run_with_timeout(f, pipe, seconds=60):
    "Return what `f` returns or raise what it raises; fail, instead of hanging, if it waits for a writer of the pipe"
    outcomes = []

    def run():
        try:
            outcomes.append((f(), None))
        except BaseException as e:
            outcomes.append((None, e))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # unblock the reader, so that the thread ends
        pytest.fail(f'it waits for {pipe.name}', pytrace=False)
    value, error = outcomes[0]
    if error is not None:
        raise error
    return value


# ---- score tables


def scores(n=6):
    "Return a table of `n` valid scores, which differ in seed and value"
    columns = dict(study='atari', task='pong', method='st_dim', metric='f1', norm='none', data='random', budget=8000)
    return pd.DataFrame([score_row(seed=i, value=0.1 + i / 10, **columns) for i in range(n)])


VALID_SCORES = scores().to_csv(index=False)
LAST_SCORE = VALID_SCORES.splitlines()[-1]
FORGED_SCORES = {
    'a missing cell': (VALID_SCORES.replace('8000,2', '2'), 'line 4.*15.*14'),
    'an extra cell': (VALID_SCORES.replace('8000,2', '8000,2,7'), 'line 4.*15.*16'),
    'a missing column': (scores().drop(columns='group').to_csv(index=False), "line 1.*'group'"),
    'a duplicate column': (VALID_SCORES.replace('target', 'task', 1), "line 1.*'task'"),
    'an underscore in a value': (VALID_SCORES.replace(',0.4', ',1_0'), "line 5, column value.*'1_0'"),
    'an underscore in a seed': (VALID_SCORES.replace('8000,3,', '8000,1_0,'), "line 5, column seed.*'1_0'"),
    'a blank in a seed': (VALID_SCORES.replace('8000,3,', '8000, 3,'), "line 5, column seed.*' 3'"),
    'a digit of another script': (VALID_SCORES.replace('8000,3,', '8000,３,'), "line 5, column seed.*'３'"),
    'a seed of 30 digits': (VALID_SCORES.replace('8000,3,', f'8000,{"9" * 30},'), 'line 5, column seed'),
    'an f1 of 99': (VALID_SCORES.replace(',0.4', ',99'), 'line 5, column value.*f1.*99'),
    'an f1 below 0': (VALID_SCORES.replace(',0.4', ',-0.4'), 'line 5, column value.*f1.*-0.4'),
    'not a number': (VALID_SCORES.replace(',0.4', ',nan'), "line 5, column value.*'nan'"),
    'infinity': (VALID_SCORES.replace(',0.4', ',inf'), "line 5, column value.*'inf'"),
    'a number too large': (VALID_SCORES.replace(',0.4', ',1e999'), "line 5, column value.*'1e999'"),
    'a duplicate key': (VALID_SCORES + LAST_SCORE + '\n', 'line 8.*line 7'),
    'a path for a study': (VALID_SCORES.replace('atari', '../atari', 1), 'line 2, column study'),
    'an unknown source': (VALID_SCORES.replace('srlviz', 'srlvis', 1), "line 2, column source.*'srlvis'"),
    'a width below 0': (VALID_SCORES.replace(',0,none', ',-1,none', 1), 'line 2, column n_codes.*-1'),
    'a seed below the smallest integer': (VALID_SCORES.replace('8000,3,', f'8000,-{"9" * 19},'), 'line 5, column seed'),
    'a width below the smallest integer': (
        VALID_SCORES.replace(',0,none', f',-{"9" * 19},none', 1),
        'line 2, column n_codes',
    ),
    'a fractional budget': (VALID_SCORES.replace('8000,3,', '0.5,3,'), "line 5, column budget.*'0.5'"),
    'a sentence for a method': (
        VALID_SCORES.replace('st_dim', 'st_dim · ppo data', 1),
        'line 2, column method',
    ),
    'a cell of 200 kB': (VALID_SCORES.replace('pong', 'p' * 200_000, 1), 'line 2'),
    'an escape sequence': (VALID_SCORES.replace('pong', '\x1b[2Jpong', 1), 'line 2: .*x1b'),
    'a zero byte': (VALID_SCORES.replace('pong', 'po\0ng', 1), 'line 2: .*x00'),
    'an unclosed quote': (VALID_SCORES.replace('pong', '"pong', 1), 'line 2'),
    'invalid UTF-8': (VALID_SCORES.encode().replace(b'pong', b'p\xffng', 1), ''),
}


@pytest.mark.parametrize('name', FORGED_SCORES)
@pytest.mark.variants
def test_a_forged_score_table_is_refused(name, tmp_path):
    text, pattern = FORGED_SCORES[name]
    path = tmp_path / 'scores.csv'
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    assert_refused(pattern, path, load_scores, path)


def test_a_score_table_truncated_after_any_line_is_refused(tmp_path):
    path = save_scores(scores(), tmp_path / 'scores.csv')
    lines = path.read_bytes().splitlines(keepends=True)
    for n in range(len(lines)):
        path.write_bytes(b''.join(lines[:n]))
        assert_refused('', path, load_scores, path)


def test_shipped_and_spreadsheet_score_tables_are_read(tmp_path):
    "Shipped tables, and one with a byte order mark and CRLF as spreadsheets write it; pandas reads what we save"
    shipped = sample_path('atari_scores.csv')
    assert len(load_scores(shipped)) == len(pd.read_csv(shipped)) > 10_000 and len(paper_scores()) == 2614
    path = tmp_path / 'scores.csv'
    path.write_bytes(b'\xef\xbb\xbf' + VALID_SCORES.replace('\n', '\r\n').encode())
    assert load_scores(path).equals(scores())
    save_scores(scores(), path)
    assert pd.read_csv(path, keep_default_na=False).equals(scores()) and load_scores(path).equals(scores())


def test_a_huge_score_table_is_refused(tmp_path):
    path = tmp_path / 'scores.csv'
    with open(path, 'wb') as f:
        f.truncate(2**30)  # a sparse file: it needs no disk space
        f.seek(2**30)
        f.write(b'\n')
    assert_refused('536,870,912', path, load_scores, path)


# ---- weights


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / 'w.pt'
    save_weights(path, {'net': {'weight': torch.linspace(0, 1, 4096), 'bias': torch.ones(16)}}, {'seed': 0})
    return path


def test_a_flipped_bit_in_weights_is_refused(weights):
    "Flip forty bits in the bytes of tensors, one at a time: torch itself reads every changed file"
    original = weights.read_bytes()
    rng = np.random.default_rng(0)
    start = original.index(torch.linspace(0, 1, 4096).numpy().tobytes())
    for at, bit in zip(rng.integers(start, start + 4 * 4096, 40), rng.integers(0, 8, 40)):
        changed = bytearray(original)
        changed[at] ^= 1 << bit
        weights.write_bytes(changed)
        assert torch.load(weights, weights_only=True)['state']['net']['bias'].sum() == 16
        assert_refused('', weights, load_weights, weights, {'seed': 0})


def repack(path, **change):
    "Rewrite a file of weights with other members"
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    with zipfile.ZipFile(path, 'w') as z:
        for name, content in members.items():
            new = change.get(name.split('/')[-1].removesuffix('.pkl'), content)
            if new is not None:
                z.writestr(name, new)


CONFIG = b'X\x06\x00\x00\x00configX\x0b\x00\x00\x00{"seed": 0}'
# pickles that torch.load(weights_only=True) executes: a bytearray of a billion zeros, and nested pairs, 2**40 in all
BILLION_BYTES = (
    b'\x80\x02}(' + CONFIG + b'X\x05\x00\x00\x00state}X\x01\x00\x00\x00acbuiltins\nbytearray\nJ\x00\xca\x9a;\x85Rsu.'
)
NESTED_PAIRS = (
    b'\x80\x02}('
    + CONFIG
    + b'X\x05\x00\x00\x00state}X\x01\x00\x00\x00a)'
    + b''.join(b'q%ch%c\x86' % (i, i) for i in range(40))
    + b'su.'
)
FORGED_PICKLES = {
    'a billion bytes': (BILLION_BYTES, "'builtins bytearray'"),
    'pairs of pairs of pairs': (NESTED_PAIRS, ''),
    'a counter': (
        b'\x80\x02}(' + CONFIG + b'X\x05\x00\x00\x00stateccollections\nCounter\n)Ru.',
        "'collections Counter'",
    ),
    'a command': (b'\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.', "'posix system'"),
    'not a pickle': (b'state', ''),
    'a pickled list': (b'\x80\x02]q\x00.', 'config, state'),
}


HOSTILE_PICKLES = [
    'a billion bytes',
    'pairs of pairs of pairs',
    'a counter',
    'a command',
]


def check_forged_pickle(name, weights):
    content, pattern = FORGED_PICKLES[name]
    repack(weights, data=content)
    assert_refused(pattern, weights, load_weights, weights, {'seed': 0})


@pytest.mark.parametrize('name', HOSTILE_PICKLES)
def test_a_pickle_that_runs_code_or_exhausts_memory_is_refused(name, weights):
    check_forged_pickle(name, weights)


@pytest.mark.parametrize('name', [k for k in FORGED_PICKLES if k not in HOSTILE_PICKLES])
@pytest.mark.variants
def test_a_forged_pickle_of_weights_is_refused(name, weights):
    check_forged_pickle(name, weights)


FORGED_STATES = {
    'NaN': ({'net': {'w': torch.tensor([0, math.nan])}}, "'net.w'"),
    'a tensor larger than its bytes': (
        {'w': torch.zeros(1).expand(2**40)},
        "'w'",
    ),
    'a sparse tensor': ({'w': torch.eye(3).to_sparse()}, ''),
    'a list': ([torch.zeros(2)], "'state'"),
    'a set': ({'w': {1, 2}}, ''),
}


HOSTILE_STATES = [
    'a tensor larger than its bytes',
    'a set',
]


def check_forged_state(name, tmp_path):
    state, pattern = FORGED_STATES[name]
    torch.save({'config': '{}', 'state': state}, path := tmp_path / 'w.pt')
    assert_refused(pattern, path, load_weights, path, {})


@pytest.mark.parametrize('name', HOSTILE_STATES)
def test_a_state_with_objects_or_huge_tensors_is_refused(name, tmp_path):
    check_forged_state(name, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED_STATES if k not in HOSTILE_STATES])
@pytest.mark.variants
def test_an_invalid_state_is_refused(name, tmp_path):
    check_forged_state(name, tmp_path)


def test_compressed_and_unknown_members_are_refused(weights):
    with zipfile.ZipFile(weights) as z:
        members = {name: z.read(name) for name in z.namelist()}
    for kind, extra, pattern in (
        (zipfile.ZIP_DEFLATED, {}, ''),
        (zipfile.ZIP_STORED, {'w/code/x.py': b'1'}, 'x.py'),
    ):
        with zipfile.ZipFile(weights, 'w', kind) as z:
            for name, content in (members | extra).items():
                z.writestr(name, content)
        assert_refused(pattern, weights, load_weights, weights, {'seed': 0})


def test_weights_of_a_previous_version_are_still_read():
    about, network = read_agent()
    assert about['game'] == 'freeway' and all(bool(x.isfinite().all()) for x in network.values())
    assert load_agent().policy().identity.startswith('freeway ')


# ---- agents, checkpoints, results, memories


def forge_agent(path, about=None, network=None):
    "Save the shipped agent with other metadata or weights"
    shipped = load_weights(agent_file(), AGENT_FILE)
    forged = dict(about=shipped['about'] | (about or {}), network=shipped['network'] | (network or {}))
    save_weights(path, forged, AGENT_FILE)


FORGED_AGENTS = {
    'NaN': (dict(network={'policy.bias': torch.full((3,), math.nan)}), "'network.policy.bias'"),
    'infinity': (
        dict(network={'policy.bias': torch.full((3,), math.inf)}),
        "'policy.bias'",
    ),
    'a network of 16 million features': (
        dict(about={'n_codes': 2**24}),
        "'n_codes'.*16777216",
    ),
    'a network of a million features': (dict(about={'n_codes': 2**20}), "'base.linear.weight'"),
    'a screen of a billion pixels': (dict(about={'size': [30_000, 30_000]}), "'size'"),
    'a screen that shrinks to nothing': (dict(about={'shrink': 100}), 'shrink'),
    'text for a number': (dict(about={'n_actions': 'three'}), "'n_actions'.*'three'"),
    'text for weights': (dict(network={'policy.bias': 'none'}), "'policy.bias'"),
    'layers of another network': (dict(network={'base.local.0.weight': torch.zeros(32, 1, 8, 9)}), 'local.0.weight'),
}


LARGE_AGENTS = [
    'a network of 16 million features',
    'a network of a million features',
    'a screen of a billion pixels',
]


def check_forged_agent(name, tmp_path):
    changes, pattern = FORGED_AGENTS[name]
    path = tmp_path / 'agent.pt'
    forge_agent(path, **changes)
    assert_refused(pattern, path, load_agent, path)


@pytest.mark.parametrize('name', LARGE_AGENTS)
def test_an_agent_that_needs_gigabytes_is_refused(name, tmp_path):
    check_forged_agent(name, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED_AGENTS if k not in LARGE_AGENTS])
@pytest.mark.variants
def test_a_forged_agent_is_refused(name, tmp_path):
    check_forged_agent(name, tmp_path)


def test_an_encoder_refuses_an_agent_with_nan(tmp_path):
    forge_agent(path := tmp_path / 'agent.pt', network={'base.linear.bias': torch.full((256,), math.nan)})
    assert_refused(
        "'network.base.linear.bias'",
        path,
        PPOFeatures(weights=path).fit,
        load_recording(sample_path('pong_sample.npz')),
    )


def fit_line(checkpoint, epochs=3):
    "Fit a line, resuming from the checkpoint if it exists"
    x = torch.linspace(-1, 1, 16)[:, None]
    with seeded(0):
        module = torch.nn.Linear(1, 1)

    def loss(m, rows):
        return ((m(x[rows]) - x[rows]) ** 2).mean()

    def valid(m):
        return m.weight.item()

    return train(
        module,
        loss,
        lambda e: epoch_batches(np.arange(16), 8, 0, e),
        epochs=epochs,
        checkpoint=checkpoint,
        validate=valid,
        plateau=dict(patience=1),
        progress=False,
    )


FORGED_CHECKPOINTS = {
    'no history': (dict(history=None), "'history'"),
    'an empty history entry': (dict(history=[{}]), "'epoch'"),
    'text for the best value': (dict(best='low'), "'best'.*'low'"),
    'weights of another module': (dict(module={'weight': torch.ones(9)}), 'weight'),
    'best weights of another module': (dict(best_state={'weight': torch.ones(9)}), 'weight'),
    'text for a step': (dict(scheduler={'last_epoch': 'first'}), "last_epoch.*'first'"),
    'an optimiser without weights': (dict(optimizer={'state': {}, 'param_groups': []}), 'param_groups'),
    'missing moments': (dict(moments={'step': torch.tensor(1.0)}), "'exp_avg'"),
    'moments of another shape': (
        dict(moments=dict.fromkeys(('step', 'exp_avg', 'exp_avg_sq'), torch.zeros(()))),
        r"\b(step|exp_avg)\b",
    ),
}


@pytest.mark.parametrize('name', FORGED_CHECKPOINTS)
@pytest.mark.variants
def test_a_forged_checkpoint_is_refused(name, tmp_path):
    change, pattern = FORGED_CHECKPOINTS[name]
    path = tmp_path / 'line.pt'
    fit_line(path, epochs=2)
    saved = load_weights(path, {})
    if moments := change.pop('moments', None):
        change = dict(optimizer=saved['optimizer'] | dict(state={0: moments}))
    save_weights(path, saved | change, {})
    assert_refused(pattern, path, fit_line, path)


def test_a_forged_checkpoint_of_an_agent_is_refused(tmp_path):
    config = PPOConfig(total_steps=4 * 2 * 8, num_envs=2, num_steps=8, segment=2, update_epochs=1, num_minibatches=1)

    def learn(stop=None):
        with seeded(0):
            network = ActorCritic(torch.nn.Linear(4, 8), 8, 2)
        learner = PPO(
            SyncVectorEnv([lambda: gymnasium.make('CartPole-v1')] * 2), network, config, device='cpu', checkpoint=path
        )
        return learner if stop else learner.learn(progress=False)

    path = tmp_path / 'pole.pt'
    learn()
    stamp = learn(stop=True).checkpoint.stamp
    saved = load_weights(path, stamp)
    for change, pattern in [
        (dict(history=saved['history'] * 2), '8 updates'),
        (dict(history=[{}] * 2), "'update'"),
        (dict(recent=None), "'recent'"),
        (dict(network={}), 'network|weight'),
        (dict(optimizer={}), "'state'"),
    ]:
        save_weights(path, saved | change, stamp)
        assert_refused(pattern, path, learn)


@pytest.fixture
def result(tmp_path):
    rng = np.random.default_rng(0)
    codes = {s: rng.normal(size=(40, 3)).astype(np.float32) for s in ('probe', 'valid', 'test')}
    index = pd.MultiIndex.from_product([[0], range(40)], names=['episode', 't'])
    factors = {s: pd.DataFrame({'a': rng.integers(0, 4, 40), 'b': rng.integers(0, 4, 40)}, index=index) for s in codes}
    linear_probe(codes, factors, n_classes=4, epochs=1, progress=False).save(path := tmp_path / 'result.npz')
    return path


FORGED_RESULTS = {  # case -> (array -> its replacement), pattern of the error
    'weights with NaN': ({'weight': np.full((2, 4, 3), math.nan)}, "'weight'"),
    'three rows of forty': ({'truth@t': np.zeros(3, int)}, "'truth@t'"),
    'fewer predictions': ({'predicted/': np.zeros((39, 2), int)}, "'predicted"),
    'values that are not classes': ({'truth/': np.full((40, 2), 0.5)}, "'truth'"),
    'a history with a short column': ({'history/1': np.zeros(1)}, "'history/1'"),
    'biases of another probe': ({'bias': np.zeros((3, 4))}, "'bias'"),
    'no weights': ({'weight': None}, "'weight'"),
    'a pickle': ({'weight': np.array([{'x': 1}], object)}, 'weight'),
}
FORGED_HEADERS = {  # case -> path of a field in the header, its forged value, pattern of the error
    'one name for both variables': (('tables', 'truth', 'columns'), ['a', 'a'], 'truth'),
    'an unknown norm': (('arguments', 'norm'), 'best', 'norm'),
    'an unknown argument': (('arguments', 'code'), 'print(1)', 'code'),
    'an unknown question': (('question',), 'os:system', 'os:system'),
    'the header of an encoder': (('format',), 'srlviz encoder', 'format'),
    'too many rows': (('tables', 'truth', 'rows'), 10**9, 'truth'),
    'text for the number of rows': (('tables', 'truth', 'rows'), 'many', 'rows'),
    'an unknown array': (('arrays',), ['weight', 'bias', 'error_correlation', '../x'], '../x'),
    'more codes than weights': (('about', 'n_codes'), 10**6, 'n_codes'),
}


@pytest.mark.parametrize('name', FORGED_RESULTS)
@pytest.mark.variants
def test_a_forged_result_is_refused(name, result):
    change, pattern = FORGED_RESULTS[name]
    with np.load(result) as z:
        arrays = dict(z) | {f'0/{k}': v for k, v in change.items()}
    np.savez(result, **{k: v for k, v in arrays.items() if v is not None})
    assert_refused(pattern, result, Answer.load, result)


@pytest.mark.parametrize('name', FORGED_HEADERS)
def test_a_forged_header_of_an_answer_is_refused(name, result):
    place, value, pattern = FORGED_HEADERS[name]
    with np.load(result) as z:
        arrays = dict(z)
    header = json.loads(str(arrays['0/header']))
    part = header
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    np.savez(result, **arrays | {'0/header': np.array(json.dumps(header))})
    assert_refused(pattern, result, Answer.load, result)


def test_a_result_that_declares_more_data_than_it_has_is_refused(result):
    "The header of an array declares 400 GB"
    with zipfile.ZipFile(result) as z:
        members = {name: z.read(name) for name in z.namelist()}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, dict(descr='<i8', fortran_order=False, shape=(25 * 10**9, 2)))
    with zipfile.ZipFile(result, 'w') as z:
        for name, content in (members | {'0/truth/.npy': header.getvalue()}).items():
            z.writestr(name, content)
    assert_refused('truth', result, Answer.load, result)


def test_a_memory_refuses_nan_and_an_invalid_configuration():
    state = GRU(2, 3).state_dict()
    name = next(k for k, v in state.items() if v.is_floating_point())
    for change, pattern in (
        ({name: state[name] * math.nan}, f"'{name}' hold NaN"),
        ({'_extra_state': torch.tensor([123], dtype=torch.uint8)}, None),
    ):
        with pytest.raises(ValueError, match=pattern):
            GRU(2, 3).load_state_dict(state | change)


# ---- labels and runways

VALID_LABELS = annotations(game='pong').to_csv(index=False)
LABELS_HEADER = 'game,variable,address,category,kind,object,axis,scale,offset,low,high\n'
FORGED_LABELS = {
    'a duplicate row': (
        VALID_LABELS + VALID_LABELS.splitlines()[1] + '\n',
        f'line {len(VALID_LABELS.splitlines()) + 1}, column variable',
    ),
    'a duplicate variable under another spelling of the game': (
        LABELS_HEADER + 'mspacman,x,1,misc,raw,,,,,,\nms_pacman,x,2,misc,raw,,,,,,\n',
        'line 3, column variable',
    ),
    'address 128': (LABELS_HEADER + 'pong,x,128,misc,raw,,,,,,\n', 'line 2, column address.*128'),
    'address -1': (LABELS_HEADER + 'pong,x,-1,misc,raw,,,,,,\n', 'line 2, column address.*-1'),
    'an underscore in an address': (LABELS_HEADER + 'pong,x,1_0,misc,raw,,,,,,\n', "line 2, column address.*'1_0'"),
    'no address': (LABELS_HEADER + 'pong,x,,misc,raw,,,,,,\n', "line 2, column address.*''"),
    'a scale that is NaN': (LABELS_HEADER + 'pong,x,1,misc,raw,ball,x,nan,0,0,9\n', "line 2, column scale.*'nan'"),
    'text for a scale': (LABELS_HEADER + 'pong,x,1,misc,raw,ball,x,wide,0,0,9\n', "line 2, column scale.*'wide'"),
    'low above high': (LABELS_HEADER + 'pong,x,1,misc,raw,ball,x,1,0,9,0\n', 'line 2, column low'),
    'a missing cell': (LABELS_HEADER + 'pong,x,1,misc\n', 'line 2.*11'),
    'a misspelled column': (LABELS_HEADER.replace('scale', 'sacle'), "line 1.*'sacle'"),
    'a duplicate column': (LABELS_HEADER.replace('scale', 'kind'), "line 1.*'kind'"),
    'a missing column': (LABELS_HEADER.replace('kind,', ''), 'line 1.*kind'),
    'an unknown kind': (LABELS_HEADER + 'pong,x,1,misc,bcdd,,,,,,\n', "line 2, column kind.*'bcdd'"),
    'an unknown game': (LABELS_HEADER + 'pnog,x,1,misc,raw,,,,,,\n', 'line 2, column game'),
    'an escape sequence': (LABELS_HEADER + 'pong,\x1b[2J,1,misc,raw,,,,,,\n', 'line 2: .*x1b'),
    'an empty file': ('', ''),
    'an image': ('\x89PNG\r\n\x1a\n\0\0', ''),
}


@pytest.mark.parametrize('name', FORGED_LABELS)
@pytest.mark.variants
def test_a_forged_label_file_is_refused(name, tmp_path):
    text, pattern = FORGED_LABELS[name]
    path = tmp_path / 'labels.csv'
    path.write_text(text, encoding='utf-8')
    assert_refused(pattern, path, annotations, str(path))


def test_the_error_of_a_label_file_with_many_faults_is_short(tmp_path):
    "The file has thousands of errors, for each of which the nearest known name is searched"
    path = tmp_path / 'labels.csv'
    path.write_text(
        LABELS_HEADER
        + ''.join(f'pnog,v{i},{i % 128},{"|".join(map(str, range(200)))},raw,,,,,,\n' for i in range(2000))
    )
    with pytest.raises(ValueError) as e:
        annotations(str(path))
    assert len(str(e.value).splitlines()) < 50 and len(str(e.value)) < 20_000


VALID_RUNWAYS = (
    'id,airport_ident,length_ft,width_ft,surface,lighted,closed,'
    'le_ident,le_latitude_deg,le_longitude_deg,le_elevation_ft,le_displaced_threshold_ft,'
    'he_ident,he_latitude_deg,he_longitude_deg,he_elevation_ft,he_displaced_threshold_ft\n'
    '1,XAAA,9843,150,ASP,1,0,09,0,10,0,,27,0,10.026949,0,\n'
)
FORGED_RUNWAYS = {
    'a missing cell': (VALID_RUNWAYS.replace('9843,150', '150'), 'line 2.*17'),
    'an extra cell': (VALID_RUNWAYS.replace('9843,', '9843,9843,'), 'line 2.*17'),
    'a duplicate runway': (VALID_RUNWAYS + VALID_RUNWAYS.splitlines()[1], "line 3, column id.*'1'"),
    'a duplicate column': (VALID_RUNWAYS.replace('surface', 'closed'), 'surface'),
    'a second duplicate column': (
        VALID_RUNWAYS.replace('id,airport', 'closed,airport'),
        "line 1.*'closed'",
    ),
    'an underscore': (VALID_RUNWAYS.replace('9843', '9_843'), "line 2, column length_ft.*'9_843'"),
    'NaN': (VALID_RUNWAYS.replace('9843', 'nan'), "line 2, column length_ft.*'nan'"),
    'infinity': (VALID_RUNWAYS.replace('9843', '1e999'), "line 2, column length_ft.*'1e999'"),
    'a length of 0': (VALID_RUNWAYS.replace('9843', '0'), 'position, length or name'),
    'digits of another script': (VALID_RUNWAYS.replace(',09,', ',0９,'), 'position, length or name'),
    'a path for an airport': (VALID_RUNWAYS.replace('XAAA', '../../x'), 'airport'),
    'a zero byte': (VALID_RUNWAYS.replace('XAAA', 'XA\0A'), 'line 2: .*x00'),
    'an unclosed quote': (VALID_RUNWAYS.replace('XAAA', '"XAAA'), 'line 2'),
}


HOSTILE_RUNWAYS = [
    'a path for an airport',
]


def check_forged_runways(name, tmp_path):
    text, pattern = FORGED_RUNWAYS[name]
    path = tmp_path / 'runways.csv'
    path.write_text(text, encoding='utf-8')
    assert_refused(pattern, path, Runways.from_ourairports, path)


@pytest.mark.parametrize('name', HOSTILE_RUNWAYS)
def test_a_runway_with_an_outside_path_is_refused(name, tmp_path):
    check_forged_runways(name, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED_RUNWAYS if k not in HOSTILE_RUNWAYS])
@pytest.mark.variants
def test_a_forged_runway_file_is_refused(name, tmp_path):
    check_forged_runways(name, tmp_path)


def test_a_valid_runway_file_is_read(tmp_path):
    (tmp_path / 'runways.csv').write_text(VALID_RUNWAYS)
    assert [r.key for r in Runways.from_ourairports(tmp_path / 'runways.csv')] == ['XAAA/09', 'XAAA/27']


# ---- pipes without a writer

READERS = {
    'scores.csv': load_scores,
    'w.pt': lambda p: load_weights(p, {}),
    'labels.csv': lambda p: annotations(str(p)),
    'runways.csv': Runways.from_ourairports,
    'result.npz': Answer.load,
    'line.pt': fit_line,
    'kept.json': lambda p: prune_factors(load_recording(sample_path('pong_sample.npz')), file=p),
}


@needs_pipes
@pytest.mark.parametrize('name', READERS)
def test_readers_do_not_wait_for_a_pipe(name, tmp_path):
    os.mkfifo(path := tmp_path / name)
    assert_refused('', path, run_with_timeout, lambda: READERS[name](path), path, 20)


@pytest.fixture
def temporary_folders(tmp_path, monkeypatch):
    "The parent of a shared temporary folder (shared) and of a user's runtime folder (own), both set in the environment"
    for name, variable in ('shared', 'TMPDIR'), ('own', 'XDG_RUNTIME_DIR'):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setattr(recorder.tempfile, 'tempdir', None)
    return tmp_path


@needs_pipes
def test_a_pipe_in_the_shared_temporary_folder_does_not_block_recording(temporary_folders):
    (temporary_folders / 'shared/srlviz-record-abcd1234').mkdir()
    os.mkfifo(pipe := temporary_folders / 'shared/srlviz-record-abcd1234/lock')
    assert run_with_timeout(lambda: record_atari('pong', 8, n_streams=1, n_jobs=1, progress=False), pipe).n_steps == 8


def test_third_party_files_in_the_shared_temporary_folder_are_kept(temporary_folders):
    "Folders that are named like ours, a link of such a name, and locks of the user that name other paths"
    precious = temporary_folders / 'precious'
    names = [temporary_folders / 'shared' / f'srlviz-record-{k}' for k in ('abcd1234', '0123456789ab')]
    for folder in precious, *names:
        folder.mkdir()
        (folder / 'lock').touch()
        (folder / 'data').write_text('all')
    link = temporary_folders / 'shared/srlviz-record-ffffffffffff'
    link.symlink_to(precious, target_is_directory=True)
    (temporary_folders / 'own/srlviz').mkdir()
    for i, text in enumerate(
        [str(link), str(precious), 'srlviz-record-0123456789ab', str(temporary_folders / 'shared'), '\0', '']
    ):
        (temporary_folders / f'own/srlviz/srlviz-record-{i:012}.lock').write_text(text)
    record_atari('pong', 8, n_streams=1, n_jobs=1, progress=False)
    assert all((folder / 'data').read_text() == 'all' for folder in (precious, *names)) and link.is_symlink()
    assert not list(temporary_folders.glob('own/srlviz/*'))


def test_leftovers_of_a_killed_recording_are_removed(temporary_folders):
    leftover = temporary_folders / 'shared/srlviz-record-0123456789ab'
    leftover.mkdir()
    (leftover / 'frame').write_text('rows')
    (temporary_folders / 'own/srlviz').mkdir()
    (temporary_folders / 'own/srlviz/srlviz-record-0123456789ab.lock').write_text(str(leftover))
    record_atari('pong', 8, n_streams=1, n_jobs=1, progress=False)
    assert (
        not leftover.exists()
        and not list(temporary_folders.glob('shared/srlviz-record-*'))
        and not list(temporary_folders.glob('own/srlviz/*'))
    )


# ---- folders of recordings and studies


def record(out):
    return record_atari('pong', 40, n_streams=1, n_jobs=1, out=out, progress=False)


@pytest.mark.parametrize('place', ['meta', 'partial', 'frames', 'frames/frame', 'steps', 'cache'])
def test_a_recording_is_not_written_through_a_link(place, tmp_path):
    out, precious = tmp_path / 'out', tmp_path / 'precious'
    precious.mkdir()
    (precious / 'data').write_text('all')
    (out / place).parent.mkdir(parents=True)
    (out / place).symlink_to(precious, target_is_directory=True)
    assert_refused('', out / place, record, out)
    assert [p.name for p in precious.iterdir()] == ['data'] and [p.name for p in out.iterdir()] == [place.split('/')[0]]


FORGED_NOTES = {
    'a list': ('[]', 'game'),
    'truncated JSON': ('{"game": "po', ''),
    'deeply nested JSON': ('[' * 100_000, ''),
    'wrong types': (
        json.dumps(dict(game=1, policy='random', version='fixed', steps=40, seed=0, n_streams=1)),
        "'game'",
    ),
}


@pytest.mark.parametrize('name', FORGED_NOTES)
@pytest.mark.variants
def test_a_forged_note_of_a_recording_is_refused(name, tmp_path):
    text, pattern = FORGED_NOTES[name]
    (tmp_path / 'out/meta').mkdir(parents=True)
    (note := tmp_path / 'out/meta/request.json').write_text(text)
    assert_refused(pattern, note, record, tmp_path / 'out')


@needs_pipes
def test_recording_does_not_wait_for_a_pipe_in_place_of_a_note(tmp_path):
    (tmp_path / 'out/meta').mkdir(parents=True)
    os.mkfifo(note := tmp_path / 'out/meta/request.json')
    assert_refused('', note, run_with_timeout, lambda: record(tmp_path / 'out'), note, 20)


def test_forged_partial_episodes_are_refused(tmp_path):
    out = tmp_path / 'out'
    note = dict(game='pong', policy='random', version='fixed', steps=40, seed=0, n_streams=1)
    record(out)
    meta = json.loads((out / 'meta/info.json').read_text())['meta']
    (out / 'meta/info.json').unlink()
    (out / 'meta/request.json').write_text(
        json.dumps({k: v for k, v in meta.items() if k in (*note, 'rom', 'rom_md5', 'frame_skip')})
    )
    (out / 'partial').mkdir()
    for key, length in ('evil', 10), ('s00-g00000-l00', 'many'), ('s00-g00000-l00', -5):
        p = out / 'partial' / f'{key}.json'
        p.write_text(
            json.dumps(dict(key=key, length=length, ended='terminated', name=key, files={}, features={}, factors={}))
        )
        assert_refused('', out, record, out)
        p.unlink()


def test_invalid_names_and_protocols_are_refused():
    rec = load_recording(sample_path('pong_sample.npz'))
    rec.meta = rec.meta | {'protocol': 7}
    with pytest.raises(ValueError):
        split_episodes(rec, probe=0.5, test=0.5)
    rec[0].name = 'first'
    episode = rec[0]
    episode.name = 'first'
    with pytest.raises(ValueError, match='first'):
        game_returns(type(rec)([episode]))


def test_a_label_file_does_not_move_a_recording_out_of_its_folder(tmp_path, monkeypatch):
    "The version is a path; it must not become a path in the folder of recordings"
    (tmp_path / 'x').mkdir()
    (tmp_path / 'labels.csv').write_text(VALID_LABELS)
    monkeypatch.chdir(tmp_path)
    outs = []

    def capture(*args, out, **kw):
        outs.append(Path(out))
        raise InterruptedError

    monkeypatch.setattr(probing, 'record_atari', capture)
    for version in 'x/../labels.csv', str(tmp_path / 'labels.csv'), 'x/../../' + tmp_path.name + '/labels.csv':
        with pytest.raises(InterruptedError):
            probing.record_game('pong', 8, 8, out=tmp_path / 'out', version=version)
    assert {p.resolve().parent for p in outs} == {(tmp_path / 'out/recordings').resolve()} and len(outs) == 3
    assert len({p.name.rpartition('.')[0] for p in outs}) == 1  # each has a temporary ending


def open_trial(out, results):
    "Open the results of a trial whose notes are forged"
    notes = dict(results=results, key='a-b', parameters={})
    games = probed_games.ProbedGames(scores(), {'pong': {'methods': {'majority': notes}}}, pd.DataFrame(), None, out)
    return games.open('pong')


def test_notes_of_a_study_that_name_outside_files_are_refused(tmp_path, result):
    (tmp_path / 'out/trials/a-b').mkdir(parents=True)
    for path in f'../../../{result.name}', str(result):
        with pytest.raises(ValueError, match=re.escape(path[:10])):  # a long name is cut
            open_trial(tmp_path / 'out', {'majority': path})
    (tmp_path / 'out/trials/a-b/results').symlink_to(result.parent, target_is_directory=True)
    with pytest.raises(ValueError, match='results is a symbolic link'):
        open_trial(tmp_path / 'out', {'majority': f'results/{result.name}'})


def test_frames_are_not_unpacked_through_a_link(tmp_path):
    for name in 'out', 'precious':
        (tmp_path / name).mkdir()
    (tmp_path / 'out/cache').symlink_to(tmp_path / 'precious', target_is_directory=True)
    parameters = dict(game='pong', encoder_frames=8, probe_frames=8, version='fixed', agents='')
    assert_refused('', tmp_path / 'out/cache', probing.ProbeTrial().recordings, parameters, tmp_path / 'out')
    assert not list((tmp_path / 'precious').iterdir())


@pytest.mark.parametrize('place', ['results', 'encoders'])
def test_probes_are_not_written_through_a_link(place, tmp_path):
    sample = load_recording(sample_path('pong_sample.npz'))
    (tmp_path / 'out').mkdir()
    (tmp_path / 'precious').mkdir()
    (tmp_path / 'out' / place).symlink_to(tmp_path / 'precious', target_is_directory=True)
    probe = split_episodes(sample, probe=0.4, valid=0.3, test=0.3)
    method, arguments = {'results': ('majority', {}), 'encoders': ('st_dim', dict(epochs=1))}[place]
    assert_refused(
        '',
        tmp_path / 'out' / place,
        srlviz.ask,
        {method: make_encoder(method, **arguments)},
        probe,
        probing.probe_questions(probing=dict(epochs=1)),
        fit=sample,
        cache=tmp_path / 'out',
        progress=False,
    )
    assert not list((tmp_path / 'precious').iterdir())


GAME_NOTES = dict(kept=[], entropy={}, pruned={}, duplicates=0, packages={})
NOTES = dict(game=GAME_NOTES, method='majority', results={}, unconverged={}, caveats=dict(constant=0, unseen=0))
FORGED_TRIALS = {
    'a list': ([], ''),
    'text for a number': (dict(about=NOTES | dict(game=GAME_NOTES | dict(entropy='high'))), "'entropy'.*'high'"),
    'a method without results': (
        dict(about={k: v for k, v in NOTES.items() if k != 'results'}),
        "'results'",
    ),
    'a game without entropy': (dict(about=NOTES | dict(game={})), "'kept'"),
    'columns of different lengths': (dict(scores=dict(task=['pong'], value=[])), ''),
    'scores of another game': (dict(parameters=dict(game='boxing')), "'pong'.*boxing"),
}


@pytest.mark.parametrize('name', FORGED_TRIALS)
@pytest.mark.variants
def test_forged_results_of_a_trial_are_refused(name, tmp_path):
    forged, pattern = FORGED_TRIALS[name]
    path = tmp_path / 'trials/a-b/result.json'
    path.parent.mkdir(parents=True)
    valid = dict(parameters=dict(game='pong'), about=NOTES, seconds=1.0, cpu_seconds=1.0, packages={})
    valid['scores'] = scores().to_dict('list')
    path.write_text(json.dumps(valid | forged if isinstance(forged, dict) else forged))
    assert_refused(pattern, path, probed_games._result, tmp_path, 'a-b')


# ---- requirements and licences

VULNERABLE_VERSIONS = {
    'jupyterlab': '4.2.4',
    'nbconvert': '7.17.0',
    'torch': '2.9.1',
    'numcodecs': '0.16.5',
    'pillow': '12.2.0',
    'pyarrow': '23.0.0',
    'tqdm': '4.66.2',
}


@pytest.mark.parametrize('package', VULNERABLE_VERSIONS)
def test_versions_with_known_vulnerabilities_are_excluded(package):
    ini = configparser.ConfigParser(delimiters=['='])
    ini.read(ROOT / 'settings.ini', encoding='utf-8')
    requirements = {r.name: r for r in map(Requirement, ini['DEFAULT']['requirements'].split())}
    vulnerable = VULNERABLE_VERSIONS[package]
    assert not requirements[package].specifier.contains(vulnerable), f'{requirements[package]} allows {vulnerable}'
    assert package in (ROOT / 'SECURITY.md').read_text(encoding='utf-8'), 'SECURITY.md gives no reason for the minimum'


def test_the_codec_pickle_is_disabled():
    "SECURITY.md: numcodecs refuses to decode with `pickle`, even if it is requested by name, as array metadata do"
    import numcodecs

    with pytest.raises(Exception, match='disabled|unsafe'):
        numcodecs.get_codec({'id': 'pickle'}).decode(b'N.')


@pytest.mark.parametrize('package, words', [('ale-py', 'GPL-2.0-only'), ('jsbsim', 'LGPL')])
def test_the_readme_states_the_licences_of_packages(package, words):
    metadata = importlib.metadata.metadata(package)
    licences = [metadata.get('License-Expression') or '']
    licences += [c for c in metadata.get_all('Classifier') or [] if 'License' in c]
    assert any(words in text for text in licences), licences
    assert re.search(rf'{package} is under (the )?{words}', (ROOT / 'README.md').read_text(encoding='utf-8'))
