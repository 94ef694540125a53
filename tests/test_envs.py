"""Every POMDP in the catalogue: contract, reproducible episodes, named hidden factors, bad input, compiled kernels."""

import os, shutil, subprocess, sys, types
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from support.selection import one_of_each

import srlviz.envs  # noqa: F401 - registers the tasks
from srlviz.core.protocols import catalog, check_pomdp
from srlviz.envs.kernels import callees, scope_of
from srlviz.envs.pomdp import base as pomdp
from srlviz.envs.pomdp.base import TASKS, POMDPVector, make_task, make_tasks

CLASSES = catalog('envs')
CANONICAL_TASKS = [t for t, (cls, _) in TASKS.items() if t.startswith(cls.__name__)]  # without aliases
ROOT = Path(__file__).parents[1]


def environment_of(task: str) -> str:
    return task.partition('-')[0]


def module_of(task: str) -> str:
    "The family of a task or environment: cards, boards, mazes, control"
    return CLASSES[environment_of(task)].__module__


def test_every_class_is_registered_at_every_difficulty():
    assert len(CANONICAL_TASKS) == sum(len(cls.difficulties) for cls in CLASSES.values()) >= 48
    assert {cls for cls, _ in TASKS.values()} == set(CLASSES.values())
    for alias in 'StatelessCartPole', 'NoisyStatelessCartPole', 'StatelessPendulum', 'NoisyStatelessPendulum':
        assert f'{alias}-hard' in TASKS


@pytest.mark.parametrize('name', CLASSES)
def test_every_class_keeps_the_contract(name):
    cls = CLASSES[name]
    check_pomdp(cls, lambda difficulty, n: POMDPVector(cls, n, difficulty=difficulty), episodes=1, steps=120)


def play(envs, steps: int) -> list:
    "All outputs of a batch under actions that depend only on the index of the environment and the step."
    space, rows = envs.single_action_space, []
    moves = []
    for i in range(envs.num_envs):
        space.seed(i)
        moves.append([space.sample() for _ in range(steps)])
    obs, _ = envs.reset(seed=7)
    for t in range(steps):
        rows.append(obs)
        obs, *ends, info = envs.step(np.stack([m[t] for m in moves]))
        rows += [*ends, info.get('final_obs')]
    return rows


def first(rows, n: int) -> list:
    return [r if r is None else tuple(x[:n] for x in r) if isinstance(r, tuple) else r[:n] for r in rows]


def same(a, b) -> bool:
    if a is None or b is None:
        return a is b
    if isinstance(a, tuple):
        return all(map(same, a, b))
    return np.array_equal(a, b)


@pytest.mark.parametrize('flat', [False, True], ids=['plain', 'flat'])
@pytest.mark.parametrize('task', [t for t in CANONICAL_TASKS if t.endswith('easy')])
def test_episodes_do_not_depend_on_the_batch_size(task, flat):
    """At N = 1, 7 and 64, and in a second run, environment i plays the same episodes.

    Final observations are compared where an episode ended.
    """
    runs = [play(make_tasks(task, n, flat=flat, autoreset_mode='SameStep'), 130) for n in (1, 7, 64, 64)]
    assert all(map(same, runs[2], runs[3]))
    for n, run in zip((1, 7), runs):
        for k, (a, b) in enumerate(zip(run, first(runs[2], n))):
            if k % 5 != 4:
                assert same(a, b)
            elif a is not None:
                done = run[k - 2] | run[k - 1]
                assert same(*(tuple(x[done] for x in v) if isinstance(v, tuple) else v[done] for v in (a, b)))


def rows_of(value, n: int) -> list:
    "The rows of a batch, of a tuple of batches, or of the object array in which Gymnasium keeps final observations."
    if isinstance(value, tuple):
        return [tuple(int(v[i]) for v in value) for i in range(n)]
    return [v.tolist() if isinstance(v, np.ndarray) else v for v in value]


@pytest.mark.parametrize('flat', [False, True], ids=['plain', 'flat'])
@pytest.mark.parametrize('mode', AutoresetMode)
def test_autoreset_equals_that_of_gymnasium(mode, flat):
    "In each mode a batch returns what Gymnasium's batch of the single environments returns, masked resets included."
    for task in (t for t in CANONICAL_TASKS if t.endswith('easy')):
        envs = gymnasium.make_vec(f'srlviz/{task}-v0', 4, autoreset_mode=mode, flat=flat)
        reference = SyncVectorEnv([lambda: make_task(task, flat=flat)] * 4, autoreset_mode=mode)
        assert envs.metadata['autoreset_mode'] == reference.metadata['autoreset_mode']
        envs.action_space.seed(1)
        a, b = envs.reset(seed=5)[0], reference.reset(seed=5)[0]
        for t in range(230 if 'Labyrinth' not in task else 1030):
            assert same(a, b) and (isinstance(a, tuple) or a.dtype == b.dtype), (task, t)
            actions = envs.action_space.sample()
            a, *ends, info = envs.step(actions)
            b, *reference_ends, reference_info = reference.step(actions)
            assert all(map(np.array_equal, ends, reference_ends)), (task, t)
            done = ends[1] | ends[2]
            expected = mode == AutoresetMode.SAME_STEP and done.any()
            assert ('final_obs' in info) == ('final_obs' in reference_info) == expected
            if 'final_obs' in info:
                final, reference_final = rows_of(info['final_obs'], 4), rows_of(reference_info['final_obs'], 4)
                assert all(np.array_equal(final[i], reference_final[i]) for i in np.flatnonzero(done)), (task, t)
            if mode == AutoresetMode.DISABLED and done.any():
                a, b = (e.reset(options=dict(reset_mask=done))[0] for e in (envs, reference))
        if mode != AutoresetMode.SAME_STEP:  # a masked reset with a seed, in the middle of episodes
            mask = np.array([True, False, False, True])
            a, b = (e.reset(seed=11, options=dict(reset_mask=mask))[0] for e in (envs, reference))
            assert same(a, b)


@pytest.mark.parametrize('wrap', ['NormalizeObservation', 'FlattenObservation', 'RescaleObservation'])
def test_vector_wrappers_of_gymnasium_accept_a_batch(wrap):
    "They wrap the batch of `make_vec`, and their observations keep the space across episodes."
    envs = gymnasium.make_vec('srlviz/RepeatFirst-easy-v0', num_envs=3, flat=True)
    options = dict(min_obs=np.float32(0), max_obs=np.float32(1)) if wrap == 'RescaleObservation' else {}
    wrapped = getattr(gymnasium.wrappers.vector, wrap)(envs, **options)
    obs, _ = wrapped.reset(seed=0)
    for _ in range(120):
        assert np.shape(obs) == (3, 10) and np.isfinite(obs).all()
        obs, *_ = wrapped.step(wrapped.action_space.sample())


@pytest.mark.parametrize('task', CANONICAL_TASKS)
def test_invalid_actions_are_refused_and_change_no_state(task):
    envs, env = make_tasks(task, 4), make_task(task)
    envs.reset(seed=0)
    env.reset(seed=0)
    saved, good = envs.snapshot(), envs.action_space.sample()
    low = good.copy()
    fractional = good.astype(float)
    if isinstance(env.action_space, gymnasium.spaces.Box):
        low[2], fractional[2] = np.nan, np.inf
    else:
        low[2], fractional = -1, good + 0.5
    huge = good.copy()
    huge[3] = np.nan if huge.dtype.kind == 'f' else 2**40
    for bad, pattern in (
        (low, '2'),
        (huge, '3'),
        (fractional, 'dtype|environment 2'),
        (good[:3], None),
        (good[..., None], None),
        (None, None),
        ('left', None),
    ):
        with pytest.raises(ValueError, match=pattern):
            envs.step(bad)
        assert (envs.snapshot() == saved).all()
    for bad in low[2], huge[3], None, 'left', good, [0, 1, 2, 3, 4]:
        with pytest.raises(ValueError):
            env.step(bad)
    assert (env.snapshot() == saved[:1]).all()  # environment 0 of the batch has the same seed
    with pytest.raises(ValueError, match='options'):
        envs.reset(options={'side': 1})
    with pytest.raises(gymnasium.error.ResetNeeded):
        make_tasks(task, 2).step(good[:2])


@pytest.mark.parametrize('task', one_of_each(environment_of, CANONICAL_TASKS))
def test_hidden_factors_have_names(task):
    "Every factor has a note, every value of a category a name, every column a name."
    envs = make_tasks(task, 16)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    notes, observed = envs.task.factor_notes, {name: set() for name in envs.factors()}
    assert set(notes) == set(observed)
    for _ in range(60):
        for name, values in envs.factors().items():
            assert values[0].size == len(notes[name].columns) or not notes[name].columns
            observed[name] |= set(np.unique(values).tolist()) if notes[name].names else set()
        envs.step(envs.action_space.sample())
    assert all(values <= set(range(-1, len(notes[name].names))) for name, values in observed.items())
    assert all(note.label for note in notes.values()) and envs.task.tags


def test_unknown_names_suggest_the_nearest():
    with pytest.raises(ValueError, match='RepeatPrevious-hard'):
        make_task('RepeatPrevius-hard')
    with pytest.raises(ValueError, match=r'\bmedium\b'):
        CLASSES['Battleship']('mediun')
    with pytest.raises(ValueError, match='RepeatPrevious.*deck'):
        make_task('RepeatPrevious-hard', deck=3)
    with pytest.raises(gymnasium.error.NameNotFound, match='RepeatPrevious-hard'):
        gymnasium.make('srlviz/RepeatPrevious-hrad-v0')


class Row:
    "A record with its fields as attributes, as in the kernels."

    def __init__(self, e):
        self.__dict__['e'] = e

    def __getattr__(self, name):
        return self.e[name]

    def __setattr__(self, name, value):
        self.e[name] = value


class Rows(list):
    size = property(len)


def plain(template, names: dict):
    "A template of srlviz.envs.pomdp.base as a plain Python function."
    scope = scope_of(template, names)
    ours = {k: plain(f, names) for k, f in callees(template, scope).items() if f.__globals__ is vars(pomdp)}
    return types.FunctionType(template.__code__, scope | ours)


@pytest.mark.parametrize('task', one_of_each(module_of, [t for t in CANONICAL_TASKS if t.endswith('easy')]))
def test_kernels_stay_in_bounds(task):
    """Without compilation the kernels return the same, and no index is out of bounds: NumPy would refuse it."""
    mode = 'SameStep' if 'Re' in task else 'NextStep'
    envs = make_tasks(task, 3, flat=True, autoreset_mode=mode)
    envs.reset(seed=0)
    envs.action_space.seed(0)
    t, R = envs.task, envs.snapshot()
    sizes = t.obs_layout.sizes, t.act_layout.sizes
    names = dict(
        reset1=t.reset1, step1=t.step1, OBS=t.obs_layout.codes, ACT=t.act_layout.codes, SCALAR=t.act_layout.scalar
    )
    step, write = plain(pomdp._step_flat, names), plain(pomdp._flat_all, names)
    rows, *ends = t.step_buffers(3)
    rows, hot, final = rows + 7, np.full_like(envs._rows.hot, 7), rows.copy()
    records = Rows(map(Row, R))
    with np.errstate(over='ignore'):  # the random stream overflows by design
        write(*sizes, records, rows, hot)
        for _ in range(120):
            actions = envs.action_space.sample()
            obs, *compiled, _ = envs.step(actions)
            step(mode == 'SameStep', *sizes, records, actions, rows, hot, *ends, final)
            assert all(np.allclose(a, b, atol=1e-5) for a, b in zip((obs, *compiled), (rows, *ends)))
        plain(pomdp._reset_all, names)(records, np.ones(3, bool))
    envs.reset()
    assert (R['rng'] == envs.snapshot()['rng']).all()


READ_ONLY = """
import errno, tempfile
def refuse(*args, **kwargs): raise OSError(errno.EROFS, 'Read-only file system')
tempfile.TemporaryFile = refuse  # numba tests by it whether a folder is writable; root may write to any
import srlviz.envs, gymnasium
env = gymnasium.make('srlviz/RepeatPrevious-easy-v0')
env.reset(seed=0)
env.step(1)
print(srlviz.envs.__file__, env.unwrapped._step_kernel._cache)
"""


def test_a_read_only_install_compiles_without_warnings(tmp_path):
    "Compiled code cannot be cached, so it is compiled each time."
    shutil.copytree(ROOT / 'srlviz', tmp_path / 'srlviz', ignore=shutil.ignore_patterns('__pycache__'))
    process = subprocess.run(
        [sys.executable, '-c', READ_ONLY],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        env=os.environ | {'PYTHONDONTWRITEBYTECODE': '1'},
    )
    output = process.stdout
    assert str(tmp_path) in output and 'NullCache' in output, output + process.stderr[-2000:]
    assert process.stderr == '' and not list(tmp_path.rglob('*.nbi'))


LENGTH = """
import sys, gymnasium, srlviz.envs
for difficulty in sys.argv[1:]:
    env = gymnasium.make(f'srlviz/RepeatPrevious-{difficulty}-v0')
    env.reset(seed=0)
    print(next(t for t in range(1, 999) if env.step(0)[2]), end=' ')
"""


@pytest.mark.slow
def test_cached_machine_code_of_two_processes_is_not_confused(tmp_path):
    "numba numbers records as a process meets them; two difficulties compiled apart stay distinct in a third process"
    env = os.environ | dict(NUMBA_CACHE_DIR=str(tmp_path))
    lengths = [
        subprocess.check_output([sys.executable, '-c', LENGTH, *difficulties], env=env, text=True).split()
        for difficulties in (['easy'], ['hard'], ['easy', 'hard'], ['hard', 'easy'])
    ]
    assert lengths == [['51'], ['155'], ['51', '155'], ['155', '51']]
    for kind in 'nbi', 'nbc':  # a full disk leaves half of an index or of machine code: it is compiled again
        for file in tmp_path.rglob(f'*.{kind}'):
            file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        process = subprocess.run([sys.executable, '-c', LENGTH, 'easy'], env=env, text=True, capture_output=True)
        assert process.stdout.split() == ['51'], process.stderr[-2000:]


def test_disabling_the_compiler_raises():
    "There is no uncompiled mode: with NUMBA_DISABLE_JIT the error names the variable."
    env = os.environ | dict(NUMBA_DISABLE_JIT='1')
    process = subprocess.run([sys.executable, '-c', LENGTH, 'easy'], env=env, text=True, capture_output=True)
    assert process.returncode and 'NUMBA_DISABLE_JIT' in process.stderr.splitlines()[-1]
