"""Score tables, weights, checkpoints, labels, runways, notes and temporary places that somebody forged.

Each is named, none hangs, nothing else is touched.
"""

import configparser, importlib.metadata, io, json, math, os, re, threading, zipfile
from pathlib import Path

import gymnasium, numpy as np, pandas as pd, pytest, torch
from gymnasium.vector import SyncVectorEnv
from packaging.requirements import Requirement

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
from srlviz.studies.papers import atari, probing
from srlviz.studies.papers.agents import load_agent

ROOT = Path(__file__).parents[1]
needs_pipes = pytest.mark.skipif(not hasattr(os, 'mkfifo'), reason='this system has no named pipes')


def refused(says, path, f, *args, **kw):
    "A ValueError that names the file, and the place or the value in it that is wrong (`says`)"
    with pytest.raises(ValueError) as e:
        f(*args, **kw)
    assert str(path) in str(e.value) and re.search(says, str(e.value)), str(e.value)


def in_time(f, pipe, seconds=60):
    "What a function gives or raises; a failure, not a hang, if it waits for somebody to write to the pipe"
    told = []

    def run():
        try:
            told.append((f(), None))
        except BaseException as e:
            told.append((None, e))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # let it go
        pytest.fail(f'it waits for {pipe.name}', pytrace=False)
    value, error = told[0]
    if error is not None:
        raise error
    return value


# ---- score tables


def scores(n=6):
    of = dict(study='atari', task='pong', method='st_dim', metric='f1', norm='none', data='random', budget=8000)
    return pd.DataFrame([score_row(seed=i, value=0.1 + i / 10, **of) for i in range(n)])


PLAIN = scores().to_csv(index=False)
LAST = PLAIN.splitlines()[-1]
FORGED_SCORES = {
    'a cell too few': (PLAIN.replace('8000,2', '2'), 'line 4.*15.*14'),
    'a cell too many': (PLAIN.replace('8000,2', '8000,2,7'), 'line 4.*15.*16'),
    'a column that is gone': (scores().drop(columns='group').to_csv(index=False), "line 1.*'group'"),
    'a column twice': (PLAIN.replace('target', 'task', 1), "line 1.*'task'"),
    'an underscore in a value': (PLAIN.replace(',0.4', ',1_0'), "line 5, column value.*'1_0'"),
    'an underscore in a seed': (PLAIN.replace('8000,3,', '8000,1_0,'), "line 5, column seed.*'1_0'"),
    'a blank in a seed': (PLAIN.replace('8000,3,', '8000, 3,'), "line 5, column seed.*' 3'"),
    'a digit of another script': (PLAIN.replace('8000,3,', '8000,３,'), "line 5, column seed.*'３'"),
    'a seed without end': (PLAIN.replace('8000,3,', f'8000,{"9" * 30},'), 'line 5, column seed'),
    'an f1 of 99': (PLAIN.replace(',0.4', ',99'), 'line 5, column value.*f1.*99'),
    'an f1 below 0': (PLAIN.replace(',0.4', ',-0.4'), 'line 5, column value.*f1.*-0.4'),
    'not a number': (PLAIN.replace(',0.4', ',nan'), "line 5, column value.*'nan'"),
    'infinity': (PLAIN.replace(',0.4', ',inf'), "line 5, column value.*'inf'"),
    'a number too large': (PLAIN.replace(',0.4', ',1e999'), "line 5, column value.*'1e999'"),
    'one key twice': (PLAIN + LAST + '\n', 'line 8.*line 7'),
    'a study that is no name': (PLAIN.replace('atari', '../atari', 1), 'line 2, column study'),
    'a source that is none': (PLAIN.replace('srlviz', 'srlvis', 1), "line 2, column source.*'srlvis'"),
    'a width below 0': (PLAIN.replace(',0,none', ',-1,none', 1), 'line 2, column n_codes.*-1'),
    'a seed below all numbers': (PLAIN.replace('8000,3,', f'8000,-{"9" * 19},'), 'line 5, column seed'),
    'a width below all': (PLAIN.replace(',0,none', f',-{"9" * 19},none', 1), 'line 2, column n_codes'),
    'half a frame': (PLAIN.replace('8000,3,', '0.5,3,'), "line 5, column budget.*'0.5'"),
    'words in a method': (
        PLAIN.replace('st_dim', 'st_dim · ppo data', 1),
        'line 2, column method',
    ),
    'a cell of 200 kB': (PLAIN.replace('pong', 'p' * 200_000, 1), 'line 2'),
    'an escape sequence': (PLAIN.replace('pong', '\x1b[2Jpong', 1), 'line 2: .*x1b'),
    'a zero byte': (PLAIN.replace('pong', 'po\0ng', 1), 'line 2: .*x00'),
    'a quote that never ends': (PLAIN.replace('pong', '"pong', 1), 'line 2'),
    'bytes that are no text': (PLAIN.encode().replace(b'pong', b'p\xffng', 1), ''),
}


@pytest.mark.parametrize('name', FORGED_SCORES)
@pytest.mark.variants
def test_a_forged_score_table_is_named(name, tmp_path):
    text, says = FORGED_SCORES[name]
    path = tmp_path / 'scores.csv'
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(says, path, load_scores, path)


def test_a_score_table_cut_at_the_end_of_any_line_is_noticed(tmp_path):
    path = save_scores(scores(), tmp_path / 'scores.csv')
    lines = path.read_bytes().splitlines(keepends=True)
    for n in range(len(lines)):
        path.write_bytes(b''.join(lines[:n]))
        refused('', path, load_scores, path)


def test_tables_of_others_are_read(tmp_path):
    "The shipped ones, and one from a spreadsheet: a mark, and other ends of lines; and ours is plain for others"
    assert len(load_scores(sample_path('atari_scores.csv'))) == 10383 and len(paper_scores()) == 2614
    path = tmp_path / 'scores.csv'
    path.write_bytes(b'\xef\xbb\xbf' + PLAIN.replace('\n', '\r\n').encode())
    assert load_scores(path).equals(scores())
    save_scores(scores(), path)
    assert pd.read_csv(path, keep_default_na=False).equals(scores()) and load_scores(path).equals(scores())


def test_a_huge_score_table_is_not_read(tmp_path):
    path = tmp_path / 'scores.csv'
    with open(path, 'wb') as f:
        f.truncate(2**30)  # a hole; no disk is needed
        f.seek(2**30)
        f.write(b'\n')
    refused('536,870,912', path, load_scores, path)


# ---- weights


@pytest.fixture
def weights(tmp_path):
    path = tmp_path / 'w.pt'
    save_weights(path, {'net': {'weight': torch.linspace(0, 1, 4096), 'bias': torch.ones(16)}}, {'seed': 0})
    return path


def test_a_flipped_bit_in_weights_is_noticed(weights):
    "Forty flips, all in the bytes of tensors: torch reads every one of them"
    whole, rng = weights.read_bytes(), np.random.default_rng(0)
    start = whole.index(torch.linspace(0, 1, 4096).numpy().tobytes())
    for at, bit in zip(rng.integers(start, start + 4 * 4096, 40), rng.integers(0, 8, 40)):
        changed = bytearray(whole)
        changed[at] ^= 1 << bit
        weights.write_bytes(changed)
        assert torch.load(weights, weights_only=True)['state']['net']['bias'].sum() == 16
        refused('', weights, load_weights, weights, {'seed': 0})


def repacked(path, **change):
    "Pack a file of weights anew, with other members"
    with zipfile.ZipFile(path) as z:
        members = {name: z.read(name) for name in z.namelist()}
    with zipfile.ZipFile(path, 'w') as z:
        for name, content in members.items():
            new = change.get(name.split('/')[-1].removesuffix('.pkl'), content)
            if new is not None:
                z.writestr(name, new)


CONFIG = b'X\x06\x00\x00\x00configX\x0b\x00\x00\x00{"seed": 0}'
# what torch.load(weights_only=True) executes: a zero for each of a billion bytes, and pairs of pairs, 2**40 in all
BYTES = (
    b'\x80\x02}(' + CONFIG + b'X\x05\x00\x00\x00state}X\x01\x00\x00\x00acbuiltins\nbytearray\nJ\x00\xca\x9a;\x85Rsu.'
)
LAUGHS = (
    b'\x80\x02}('
    + CONFIG
    + b'X\x05\x00\x00\x00state}X\x01\x00\x00\x00a)'
    + b''.join(b'q%ch%c\x86' % (i, i) for i in range(40))
    + b'su.'
)
FORGED_PICKLES = {
    'a billion bytes': (BYTES, "'builtins bytearray'"),
    'pairs of pairs of pairs': (LAUGHS, ''),
    'a counter': (
        b'\x80\x02}(' + CONFIG + b'X\x05\x00\x00\x00stateccollections\nCounter\n)Ru.',
        "'collections Counter'",
    ),
    'a command': (b'\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.', "'posix system'"),
    'no pickle': (b'state', ''),
    'another list': (b'\x80\x02]q\x00.', 'config, state'),
}


HOSTILE_PICKLES = [
    'a billion bytes',
    'pairs of pairs of pairs',
    'a counter',
    'a command',
]


def check_a_forged_list_of_weights_is_refused(name, weights):
    content, says = FORGED_PICKLES[name]
    repacked(weights, data=content)
    refused(says, weights, load_weights, weights, {'seed': 0})


@pytest.mark.parametrize('name', HOSTILE_PICKLES)
def test_a_pickle_that_runs_or_takes_memory_is_refused(name, weights):
    check_a_forged_list_of_weights_is_refused(name, weights)


@pytest.mark.parametrize('name', [k for k in FORGED_PICKLES if k not in HOSTILE_PICKLES])
@pytest.mark.variants
def test_a_forged_list_of_weights_is_refused(name, weights):
    check_a_forged_list_of_weights_is_refused(name, weights)


FORGED_STATES = {
    'NaN': ({'net': {'w': torch.tensor([0, math.nan])}}, "'net.w'"),
    'a tensor that is larger than its bytes': (
        {'w': torch.zeros(1).expand(2**40)},
        "'w'",
    ),
    'a sparse tensor': ({'w': torch.eye(3).to_sparse()}, ''),
    'a list': ([torch.zeros(2)], "'state'"),
    'a set': ({'w': {1, 2}}, ''),
}


HOSTILE_STATES = [
    'a tensor that is larger than its bytes',
    'a set',
]


def check_a_state_that_is_none_is_refused(name, tmp_path):
    state, says = FORGED_STATES[name]
    torch.save({'config': '{}', 'state': state}, path := tmp_path / 'w.pt')
    refused(says, path, load_weights, path, {})


@pytest.mark.parametrize('name', HOSTILE_STATES)
def test_a_state_of_objects_or_without_end_is_refused(name, tmp_path):
    check_a_state_that_is_none_is_refused(name, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED_STATES if k not in HOSTILE_STATES])
@pytest.mark.variants
def test_a_state_that_is_none_is_refused(name, tmp_path):
    check_a_state_that_is_none_is_refused(name, tmp_path)


def test_packed_and_foreign_members_are_refused(weights):
    with zipfile.ZipFile(weights) as z:
        members = {name: z.read(name) for name in z.namelist()}
    for kind, extra, says in (
        (zipfile.ZIP_DEFLATED, {}, ''),
        (zipfile.ZIP_STORED, {'w/code/x.py': b'1'}, 'x.py'),
    ):
        with zipfile.ZipFile(weights, 'w', kind) as z:
            for name, content in (members | extra).items():
                z.writestr(name, content)
        refused(says, weights, load_weights, weights, {'seed': 0})


def test_weights_of_before_are_still_read():
    about, network = read_agent()
    assert about['game'] == 'freeway' and all(bool(x.isfinite().all()) for x in network.values())
    assert load_agent().policy().identity.startswith('freeway ')


# ---- agents, checkpoints, results, memories


def forge_agent(path, about=None, network=None):
    there = load_weights(agent_file(), AGENT_FILE)
    save_weights(
        path, dict(about=there['about'] | (about or {}), network=there['network'] | (network or {})), AGENT_FILE
    )


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
    'nothing to see': (dict(about={'shrink': 100}), 'shrink'),
    'words for numbers': (dict(about={'n_actions': 'three'}), "'n_actions'.*'three'"),
    'weights that are words': (dict(network={'policy.bias': 'none'}), "'policy.bias'"),
    'layers of another network': (dict(network={'base.local.0.weight': torch.zeros(32, 1, 8, 9)}), 'local.0.weight'),
}


LARGE_AGENTS = [
    'a network of 16 million features',
    'a network of a million features',
    'a screen of a billion pixels',
]


def check_a_forged_agent_is_named(name, tmp_path):
    how, says = FORGED_AGENTS[name]
    forge_agent(path := tmp_path / 'agent.pt', **how)
    refused(says, path, load_agent, path)


@pytest.mark.parametrize('name', LARGE_AGENTS)
def test_an_agent_that_takes_gigabytes_is_named(name, tmp_path):
    check_a_forged_agent_is_named(name, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED_AGENTS if k not in LARGE_AGENTS])
@pytest.mark.variants
def test_a_forged_agent_is_named(name, tmp_path):
    check_a_forged_agent_is_named(name, tmp_path)


def test_an_encoder_does_not_take_an_agent_with_nan(tmp_path):
    forge_agent(path := tmp_path / 'agent.pt', network={'base.linear.bias': torch.full((256,), math.nan)})
    refused(
        "'network.base.linear.bias'",
        path,
        PPOFeatures(weights=path).fit,
        load_recording(sample_path('pong_sample.npz')),
    )


def line(checkpoint, epochs=3):
    "A line is fitted, or goes on from a checkpoint"
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


FORGED_COURSES = {
    'no history': (dict(history=None), "'history'"),
    'a history of nothing': (dict(history=[{}]), "'epoch'"),
    'a best value that is a word': (dict(best='low'), "'best'.*'low'"),
    'weights of another module': (dict(module={'weight': torch.ones(9)}), 'weight'),
    'best weights of another module': (dict(best_state={'weight': torch.ones(9)}), 'weight'),
    'a step that is a word': (dict(scheduler={'last_epoch': 'first'}), "last_epoch.*'first'"),
    'an optimiser without weights': (dict(optimizer={'state': {}, 'param_groups': []}), 'param_groups'),
    'moments of nothing': (dict(moments={'step': torch.tensor(1.0)}), "'exp_avg'"),
    'moments of another shape': (
        dict(moments=dict.fromkeys(('step', 'exp_avg', 'exp_avg_sq'), torch.zeros(()))),
        r"\b(step|exp_avg)\b",
    ),
}


@pytest.mark.parametrize('name', FORGED_COURSES)
@pytest.mark.variants
def test_a_forged_checkpoint_is_named(name, tmp_path):
    change, says = FORGED_COURSES[name]
    line(path := tmp_path / 'line.pt', epochs=2)
    saved = load_weights(path, {})
    if moments := change.pop('moments', None):
        change = dict(optimizer=saved['optimizer'] | dict(state={0: moments}))
    save_weights(path, saved | change, {})
    refused(says, path, line, path)


def test_a_forged_checkpoint_of_an_agent_is_named(tmp_path):
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
    for change, says in [
        (dict(history=saved['history'] * 2), '8 updates'),
        (dict(history=[{}] * 2), "'update'"),
        (dict(recent=None), "'recent'"),
        (dict(network={}), 'network|weight'),
        (dict(optimizer={}), "'state'"),
    ]:
        save_weights(path, saved | change, stamp)
        refused(says, path, learn)


@pytest.fixture
def result(tmp_path):
    rng = np.random.default_rng(0)
    codes = {s: rng.normal(size=(40, 3)).astype(np.float32) for s in ('probe', 'valid', 'test')}
    index = pd.MultiIndex.from_product([[0], range(40)], names=['episode', 't'])
    factors = {s: pd.DataFrame({'a': rng.integers(0, 4, 40), 'b': rng.integers(0, 4, 40)}, index=index) for s in codes}
    linear_probe(codes, factors, n_classes=4, epochs=1, progress=False).save(path := tmp_path / 'result.npz')
    return path


FORGED_RESULTS = {  # array -> what is in its place
    'weights with NaN': ({'weight': np.full((2, 4, 3), math.nan)}, "'weight'"),
    'three of forty rows': ({'truth@t': np.zeros(3, int)}, "'truth@t'"),
    'fewer predictions': ({'predicted/': np.zeros((39, 2), int)}, "'predicted"),
    'values that are no classes': ({'truth/': np.full((40, 2), 0.5)}, "'truth'"),
    'a history with a short column': ({'history/1': np.zeros(1)}, "'history/1'"),
    'biases of another probe': ({'bias': np.zeros((3, 4))}, "'bias'"),
    'no weights': ({'weight': None}, "'weight'"),
    'a pickle': ({'weight': np.array([{'x': 1}], object)}, 'weight'),
}
FORGED_HEADERS = {  # where in the header, what is there, what an error names
    'one name for both variables': (('tables', 'truth', 'columns'), ['a', 'a'], 'truth'),
    'a norm that there is not': (('arguments', 'norm'), 'best', 'norm'),
    'an argument that there is not': (('arguments', 'code'), 'print(1)', 'code'),
    'a question that there is not': (('question',), 'os:system', 'os:system'),
    'a header of another thing': (('format',), 'srlviz encoder', 'format'),
    'more rows than there are': (('tables', 'truth', 'rows'), 10**9, 'truth'),
    'rows that are no number': (('tables', 'truth', 'rows'), 'many', 'rows'),
    'an array that is not there': (('arrays',), ['weight', 'bias', 'error_correlation', '../x'], '../x'),
    'other codes than weights': (('about', 'n_codes'), 10**6, 'n_codes'),
}


@pytest.mark.parametrize('name', FORGED_RESULTS)
@pytest.mark.variants
def test_a_forged_result_is_named(name, result):
    change, says = FORGED_RESULTS[name]
    with np.load(result) as z:
        arrays = dict(z) | {f'0/{k}': v for k, v in change.items()}
    np.savez(result, **{k: v for k, v in arrays.items() if v is not None})
    refused(says, result, Answer.load, result)


@pytest.mark.parametrize('name', FORGED_HEADERS)
def test_a_forged_header_of_an_answer_is_named(name, result):
    place, value, says = FORGED_HEADERS[name]
    with np.load(result) as z:
        arrays = dict(z)
    header = json.loads(str(arrays['0/header']))
    part = header
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    np.savez(result, **arrays | {'0/header': np.array(json.dumps(header))})
    refused(says, result, Answer.load, result)


def test_a_result_that_declares_more_than_it_has_is_named(result):
    "A header that asks for 400 GB"
    with zipfile.ZipFile(result) as z:
        members = {name: z.read(name) for name in z.namelist()}
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, dict(descr='<i8', fortran_order=False, shape=(25 * 10**9, 2)))
    with zipfile.ZipFile(result, 'w') as z:
        for name, content in (members | {'0/truth/.npy': header.getvalue()}).items():
            z.writestr(name, content)
    refused('truth', result, Answer.load, result)


def test_a_memory_does_not_take_nan_nor_a_configuration_that_is_none():
    state = GRU(2, 3).state_dict()
    name = next(k for k, v in state.items() if v.is_floating_point())
    for change, says in (
        ({name: state[name] * math.nan}, f"'{name}' hold NaN"),
        ({'_extra_state': torch.tensor([123], dtype=torch.uint8)}, None),
    ):
        with pytest.raises(ValueError, match=says):
            GRU(2, 3).load_state_dict(state | change)


# ---- labels and runways

LABELS = annotations(game='pong').to_csv(index=False)
HEAD = 'game,variable,address,category,kind,object,axis,scale,offset,low,high\n'
FORGED_LABELS = {
    'a row twice': (
        LABELS + LABELS.splitlines()[1] + '\n',
        f'line {len(LABELS.splitlines()) + 1}, column variable',
    ),
    'a variable twice, the game spelled otherwise': (
        HEAD + 'mspacman,x,1,misc,raw,,,,,,\nms_pacman,x,2,misc,raw,,,,,,\n',
        'line 3, column variable',
    ),
    'address 128': (HEAD + 'pong,x,128,misc,raw,,,,,,\n', 'line 2, column address.*128'),
    'address -1': (HEAD + 'pong,x,-1,misc,raw,,,,,,\n', 'line 2, column address.*-1'),
    'an underscore in an address': (HEAD + 'pong,x,1_0,misc,raw,,,,,,\n', "line 2, column address.*'1_0'"),
    'no address': (HEAD + 'pong,x,,misc,raw,,,,,,\n', "line 2, column address.*''"),
    'a scale that is NaN': (HEAD + 'pong,x,1,misc,raw,ball,x,nan,0,0,9\n', "line 2, column scale.*'nan'"),
    'a scale that is a word': (HEAD + 'pong,x,1,misc,raw,ball,x,wide,0,0,9\n', "line 2, column scale.*'wide'"),
    'bytes out of order': (HEAD + 'pong,x,1,misc,raw,ball,x,1,0,9,0\n', 'line 2, column low'),
    'a cell too few': (HEAD + 'pong,x,1,misc\n', 'line 2.*11'),
    'a column that is misspelled': (HEAD.replace('scale', 'sacle'), "line 1.*'sacle'"),
    'a column twice': (HEAD.replace('scale', 'kind'), "line 1.*'kind'"),
    'a column that is gone': (HEAD.replace('kind,', ''), 'line 1.*kind'),
    'an unknown kind': (HEAD + 'pong,x,1,misc,bcdd,,,,,,\n', "line 2, column kind.*'bcdd'"),
    'an unknown game': (HEAD + 'pnog,x,1,misc,raw,,,,,,\n', 'line 2, column game'),
    'an escape sequence': (HEAD + 'pong,\x1b[2J,1,misc,raw,,,,,,\n', 'line 2: .*x1b'),
    'nothing': ('', ''),
    'a picture': ('\x89PNG\r\n\x1a\n\0\0', ''),
}


@pytest.mark.parametrize('name', FORGED_LABELS)
@pytest.mark.variants
def test_a_forged_file_of_labels_is_named(name, tmp_path):
    text, says = FORGED_LABELS[name]
    path = tmp_path / 'labels.csv'
    path.write_text(text, encoding='utf-8')
    refused(says, path, annotations, str(path))


def test_a_file_of_faults_is_told_in_short(tmp_path):
    "Thousands of faults, each with the nearest name to look for"
    path = tmp_path / 'labels.csv'
    path.write_text(
        HEAD + ''.join(f'pnog,v{i},{i % 128},{"|".join(map(str, range(200)))},raw,,,,,,\n' for i in range(2000))
    )
    with pytest.raises(ValueError) as e:
        annotations(str(path))
    assert len(str(e.value).splitlines()) < 50 and len(str(e.value)) < 20_000


STRIPS = (
    'id,airport_ident,length_ft,width_ft,surface,lighted,closed,'
    'le_ident,le_latitude_deg,le_longitude_deg,le_elevation_ft,le_displaced_threshold_ft,'
    'he_ident,he_latitude_deg,he_longitude_deg,he_elevation_ft,he_displaced_threshold_ft\n'
    '1,XAAA,9843,150,ASP,1,0,09,0,10,0,,27,0,10.026949,0,\n'
)
FORGED_RUNWAYS = {
    'a cell too few': (STRIPS.replace('9843,150', '150'), 'line 2.*17'),
    'a cell too many': (STRIPS.replace('9843,', '9843,9843,'), 'line 2.*17'),
    'a strip twice': (STRIPS + STRIPS.splitlines()[1], "line 3, column id.*'1'"),
    'a column twice': (STRIPS.replace('surface', 'closed'), 'surface'),
    'another column twice': (
        STRIPS.replace('id,airport', 'closed,airport'),
        "line 1.*'closed'",
    ),
    'an underscore': (STRIPS.replace('9843', '9_843'), "line 2, column length_ft.*'9_843'"),
    'NaN': (STRIPS.replace('9843', 'nan'), "line 2, column length_ft.*'nan'"),
    'infinity': (STRIPS.replace('9843', '1e999'), "line 2, column length_ft.*'1e999'"),
    'a length of nothing': (STRIPS.replace('9843', '0'), 'position, length or name'),
    'digits of another script': (STRIPS.replace(',09,', ',0９,'), 'position, length or name'),
    'a path for an airport': (STRIPS.replace('XAAA', '../../x'), 'airport'),
    'a zero byte': (STRIPS.replace('XAAA', 'XA\0A'), 'line 2: .*x00'),
    'a quote that never ends': (STRIPS.replace('XAAA', '"XAAA'), 'line 2'),
}


HOSTILE_RUNWAYS = [
    'a path for an airport',
]


def check_a_forged_file_of_runways_is_named(name, tmp_path):
    text, says = FORGED_RUNWAYS[name]
    path = tmp_path / 'runways.csv'
    path.write_text(text, encoding='utf-8')
    refused(says, path, Runways.from_ourairports, path)


@pytest.mark.parametrize('name', HOSTILE_RUNWAYS)
def test_a_runway_that_leaves_its_folder_is_named(name, tmp_path):
    check_a_forged_file_of_runways_is_named(name, tmp_path)


@pytest.mark.parametrize('name', [k for k in FORGED_RUNWAYS if k not in HOSTILE_RUNWAYS])
@pytest.mark.variants
def test_a_forged_file_of_runways_is_named(name, tmp_path):
    check_a_forged_file_of_runways_is_named(name, tmp_path)


def test_a_sound_file_of_runways_is_read(tmp_path):
    (tmp_path / 'runways.csv').write_text(STRIPS)
    assert [r.key for r in Runways.from_ourairports(tmp_path / 'runways.csv')] == ['XAAA/09', 'XAAA/27']


# ---- pipes, which nobody writes to

READERS = {
    'scores.csv': load_scores,
    'w.pt': lambda p: load_weights(p, {}),
    'labels.csv': lambda p: annotations(str(p)),
    'runways.csv': Runways.from_ourairports,
    'result.npz': Answer.load,
    'line.pt': line,
    'kept.json': lambda p: prune_factors(load_recording(sample_path('pong_sample.npz')), file=p),
}


@needs_pipes
@pytest.mark.parametrize('name', READERS)
def test_a_pipe_is_not_waited_for(name, tmp_path):
    os.mkfifo(path := tmp_path / name)
    refused('', path, in_time, lambda: READERS[name](path), path, 20)


@pytest.fixture
def places(tmp_path, monkeypatch):
    "A shared folder for temporary files and a user's own folder, apart from those of this machine"
    for name, variable in ('shared', 'TMPDIR'), ('own', 'XDG_RUNTIME_DIR'):
        (tmp_path / name).mkdir()
        monkeypatch.setenv(variable, str(tmp_path / name))
    monkeypatch.setattr(recorder.tempfile, 'tempdir', None)
    return tmp_path


@needs_pipes
def test_a_pipe_in_the_shared_temporary_folder_stops_no_recording(places):
    (places / 'shared/srlviz-record-abcd1234').mkdir()
    os.mkfifo(pipe := places / 'shared/srlviz-record-abcd1234/lock')
    assert in_time(lambda: record_atari('pong', 8, n_streams=1, n_jobs=1, progress=False), pipe).n_steps == 8


def test_nothing_of_others_is_removed_from_the_shared_temporary_folder(places):
    "Folders named as ours, a link of such a name, and locks in the user's own folder that name other things"
    precious = places / 'precious'
    names = [places / 'shared' / f'srlviz-record-{k}' for k in ('abcd1234', '0123456789ab')]
    for folder in precious, *names:
        folder.mkdir()
        (folder / 'lock').touch()
        (folder / 'data').write_text('all')
    link = places / 'shared/srlviz-record-ffffffffffff'
    link.symlink_to(precious, target_is_directory=True)
    (places / 'own/srlviz').mkdir()
    for i, text in enumerate(
        [str(link), str(precious), 'srlviz-record-0123456789ab', str(places / 'shared'), '\0', '']
    ):
        (places / f'own/srlviz/srlviz-record-{i:012}.lock').write_text(text)
    record_atari('pong', 8, n_streams=1, n_jobs=1, progress=False)
    assert all((folder / 'data').read_text() == 'all' for folder in (precious, *names)) and link.is_symlink()
    assert not list(places.glob('own/srlviz/*'))


def test_what_a_killed_recording_left_is_removed(places):
    left = places / 'shared/srlviz-record-0123456789ab'
    left.mkdir()
    (left / 'frame').write_text('rows')
    (places / 'own/srlviz').mkdir()
    (places / 'own/srlviz/srlviz-record-0123456789ab.lock').write_text(str(left))
    record_atari('pong', 8, n_streams=1, n_jobs=1, progress=False)
    assert (
        not left.exists() and not list(places.glob('shared/srlviz-record-*')) and not list(places.glob('own/srlviz/*'))
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
    refused('', out / place, record, out)
    assert [p.name for p in precious.iterdir()] == ['data'] and [p.name for p in out.iterdir()] == [place.split('/')[0]]


FORGED_NOTES = {
    'a list': ('[]', 'game'),
    'half of it': ('{"game": "po', ''),
    'a nest': ('[' * 100_000, ''),
    'other types': (
        json.dumps(dict(game=1, policy='random', version='fixed', steps=40, seed=0, n_streams=1)),
        "'game'",
    ),
}


@pytest.mark.parametrize('name', FORGED_NOTES)
@pytest.mark.variants
def test_a_forged_note_of_a_recording_is_named(name, tmp_path):
    text, says = FORGED_NOTES[name]
    (tmp_path / 'out/meta').mkdir(parents=True)
    (note := tmp_path / 'out/meta/request.json').write_text(text)
    refused(says, note, record, tmp_path / 'out')


@needs_pipes
def test_a_pipe_for_a_note_is_not_waited_for(tmp_path):
    (tmp_path / 'out/meta').mkdir(parents=True)
    os.mkfifo(note := tmp_path / 'out/meta/request.json')
    refused('', note, in_time, lambda: record(tmp_path / 'out'), note, 20)


def test_episodes_that_others_left_are_named(tmp_path):
    out = tmp_path / 'out'
    note = dict(game='pong', policy='random', version='fixed', steps=40, seed=0, n_streams=1)
    record(out)
    there = json.loads((out / 'meta/info.json').read_text())['meta']
    (out / 'meta/info.json').unlink()
    (out / 'meta/request.json').write_text(
        json.dumps({k: v for k, v in there.items() if k in (*note, 'rom', 'rom_md5', 'frame_skip')})
    )
    (out / 'partial').mkdir()
    for key, length in ('evil', 10), ('s00-g00000-l00', 'many'), ('s00-g00000-l00', -5):
        (p := out / 'partial' / f'{key}.json').write_text(
            json.dumps(dict(key=key, length=length, ended='terminated', name=key, files={}, features={}, factors={}))
        )
        refused('', out, record, out)
        p.unlink()


def test_names_and_protocols_of_strangers_are_named():
    rec = load_recording(sample_path('pong_sample.npz'))
    rec.meta = rec.meta | {'protocol': 7}
    with pytest.raises(ValueError):
        split_episodes(rec, probe=0.5, test=0.5)
    rec[0].name = 'first'
    episode = rec[0]
    episode.name = 'first'
    with pytest.raises(ValueError, match='first'):
        game_returns(type(rec)([episode]))


def test_a_file_of_labels_does_not_lead_a_recording_out_of_its_folder(tmp_path, monkeypatch):
    "The version is a path; it does not become one in the folder of recordings"
    (tmp_path / 'x').mkdir()
    (tmp_path / 'labels.csv').write_text(LABELS)
    monkeypatch.chdir(tmp_path)
    seen = []

    def capture(*args, out, **kw):
        seen.append(Path(out))
        raise InterruptedError

    monkeypatch.setattr(probing, 'record_atari', capture)
    for version in 'x/../labels.csv', str(tmp_path / 'labels.csv'), 'x/../../' + tmp_path.name + '/labels.csv':
        with pytest.raises(InterruptedError):
            probing.record_game('pong', 8, 8, out=tmp_path / 'out', version=version)
    assert {p.resolve().parent for p in seen} == {(tmp_path / 'out/recordings').resolve()} and len(seen) == 3
    assert len({p.name.rpartition('.')[0] for p in seen}) == 1  # under a temporary name each


def opened(out, results):
    "Open what a trial has left, of which somebody else wrote the notes"
    found = dict(results=results, key='a-b', parameters={})
    return atari.ProbedGames(scores(), {'pong': {'methods': {'majority': found}}}, pd.DataFrame(), None, out).open(
        'pong'
    )


def test_notes_of_a_study_lead_to_no_file_elsewhere(tmp_path, result):
    (tmp_path / 'out/trials/a-b').mkdir(parents=True)
    for path in f'../../../{result.name}', str(result):
        with pytest.raises(ValueError, match=re.escape(path[:10])):  # a long name is cut
            opened(tmp_path / 'out', {'majority': path})
    (tmp_path / 'out/trials/a-b/results').symlink_to(result.parent, target_is_directory=True)
    with pytest.raises(ValueError, match='results is a symbolic link'):
        opened(tmp_path / 'out', {'majority': f'results/{result.name}'})


def test_frames_are_not_unpacked_through_a_link(tmp_path):
    for name in 'out', 'precious':
        (tmp_path / name).mkdir()
    (tmp_path / 'out/cache').symlink_to(tmp_path / 'precious', target_is_directory=True)
    asked = dict(game='pong', encoder_frames=8, probe_frames=8, version='fixed', agents='')
    refused('', tmp_path / 'out/cache', probing.ProbeTrial().recordings, asked, tmp_path / 'out')
    assert not list((tmp_path / 'precious').iterdir())


@pytest.mark.parametrize('place', ['results', 'encoders'])
def test_probes_are_not_written_through_a_link(place, tmp_path):
    sample = load_recording(sample_path('pong_sample.npz'))
    (tmp_path / 'out').mkdir()
    (tmp_path / 'precious').mkdir()
    (tmp_path / 'out' / place).symlink_to(tmp_path / 'precious', target_is_directory=True)
    probe = split_episodes(sample, probe=0.4, valid=0.3, test=0.3)
    method = {'results': 'majority', 'encoders': 'st_dim'}[place]
    refused(
        '',
        tmp_path / 'out' / place,
        probing.probe_methods,
        [method],
        sample,
        probe,
        out=tmp_path / 'out',
        encoder=dict(epochs=1) if place == 'encoders' else None,
        probing=dict(epochs=1),
        progress=False,
    )
    assert not list((tmp_path / 'precious').iterdir())


KEPT = dict(kept=[], entropy={}, pruned={}, duplicates=0, packages={})
NOTES = dict(game=KEPT, method='majority', results={}, unconverged={}, caveats=dict(constant=0, unseen=0))
FORGED_TRIALS = {
    'a list': ([], ''),
    'words for numbers': (dict(about=NOTES | dict(game=KEPT | dict(entropy='high'))), "'entropy'.*'high'"),
    'a method without results': (
        dict(about={k: v for k, v in NOTES.items() if k != 'results'}),
        "'results'",
    ),
    'a game without entropy': (dict(about=NOTES | dict(game={})), "'kept'"),
    'columns of two lengths': (dict(scores=dict(task=['pong'], value=[])), ''),
    'scores of another game': (dict(parameters=dict(game='boxing')), "'pong'.*boxing"),
}


@pytest.mark.parametrize('name', FORGED_TRIALS)
@pytest.mark.variants
def test_forged_results_of_a_trial_are_named(name, tmp_path):
    forged, says = FORGED_TRIALS[name]
    (path := tmp_path / 'trials/a-b/result.json').parent.mkdir(parents=True)
    good = dict(parameters=dict(game='pong'), about=NOTES, seconds=1.0, cpu_seconds=1.0, packages={})
    good['scores'] = scores().to_dict('list')
    path.write_text(json.dumps(good | forged if isinstance(forged, dict) else forged))
    refused(says, path, atari._result, tmp_path, 'a-b')


# ---- what is asked for

HOLES = {
    'jupyterlab': '4.2.4',
    'nbconvert': '7.17.0',
    'torch': '2.9.1',
    'numcodecs': '0.16.5',
    'pillow': '12.2.0',
    'pyarrow': '23.0.0',
    'tqdm': '4.66.2',
}


@pytest.mark.parametrize('package', HOLES)
def test_versions_with_known_holes_are_excluded(package):
    ini = configparser.ConfigParser(delimiters=['='])
    ini.read(ROOT / 'settings.ini', encoding='utf-8')
    asked = {r.name: r for r in map(Requirement, ini['DEFAULT']['requirements'].split())}
    assert not asked[package].specifier.contains(HOLES[package]), f'{asked[package]} lets {HOLES[package]} in'
    assert package in (ROOT / 'SECURITY.md').read_text(encoding='utf-8'), 'a floor has its reason in SECURITY.md'


def test_the_codec_pickle_is_shut():
    "What SECURITY.md says of numcodecs: asked for by name, as the metadata of an array do, it decodes nothing"
    import numcodecs

    with pytest.raises(Exception, match='disabled|unsafe'):
        numcodecs.get_codec({'id': 'pickle'}).decode(b'N.')


@pytest.mark.parametrize('package, words', [('ale-py', 'GPL-2.0-only'), ('jsbsim', 'LGPL')])
def test_the_readme_says_the_licences_that_packages_state(package, words):
    stated = importlib.metadata.metadata(package)
    told = [stated.get('License-Expression') or '', *(c for c in stated.get_all('Classifier') or [] if 'License' in c)]
    assert any(words in text for text in told), told
    assert re.search(rf'{package} is under (the )?{words}', (ROOT / 'README.md').read_text(encoding='utf-8'))
