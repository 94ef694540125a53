"""Twins of Atari games: one variable differs, and the picture could occur in play."""

import numpy as np, pytest

from srlviz.core.checks.twins import check_twins
from srlviz.core.natural import naturalness, twin_naturalness
from srlviz.core.twins import UNTOUCHED, natural_values, with_twins
from srlviz.data.atari import record_atari
from srlviz.data.worlds.atari import AtariWorld
from srlviz.envs.atari import GAMES, RawAtari, annotations
from srlviz.envs.ram_twins import Setter, compared_variables, find_settable, play_moments, searched

FIVE = 'pong', 'breakout', 'freeway', 'boxing', 'bowling'


@pytest.fixture(scope='module')
def pong_play():
    return record_atari('pong', 2000, seed=7, n_streams=1, n_jobs=1, progress=False)


def drawn_after(frames, natural, variable='enemy_score', n=12):
    "Naturalness of twins of Pong that are drawn some frames after the write"
    raw, address = RawAtari('pong'), int(searched('pong')['address'][variable])
    seen = natural.steps()[variable].to_numpy()
    moment, value, own, pictures, untouched = [], [], [], [], []
    for m, _ in enumerate(play_moments(raw, n, seed=1)):
        setter = Setter(raw, {variable: address}, frames)
        for v in natural_values(seen).tolist():
            drawn, reason = setter.twin(variable, v)
            if not reason:
                moment.append(m)
                value.append(v)
                own.append(setter.own[variable])
                pictures.append(drawn.frame)
                untouched.append(setter.untouched.frame)
        setter.restore()
    play = np.concatenate([np.asarray(e.obs['frame'])[..., 0] for e in natural])
    return naturalness(np.stack(pictures), np.stack(untouched), moment, value, own, play, seen)


def test_score_of_pong_is_natural_after_four_frames_and_not_after_two(pong_play):
    mixed = drawn_after(2, pong_play)
    assert not mixed.looks_natural and mixed.auroc > 0.7 and mixed.equal < 0.5
    right = drawn_after(4, pong_play)
    assert right.looks_natural and right.equal == 1 and right.n == mixed.n


def test_twins_of_the_world_look_natural(pong_play):
    twins = AtariWorld('pong').twins('enemy_score', n=12, seed=3, progress=False)
    assert twin_naturalness(twins, 'enemy_score', pong_play).looks_natural


@pytest.mark.parametrize('game', FIVE)
def test_three_variables_or_more_follow_the_rules(game):
    world = AtariWorld(game)
    assert len(world.settable) >= 3
    quick = [f for f in world.settable if f not in compared_variables(game)]
    check_twins(world, quick[:3], n=2, seed=5)


@pytest.mark.parametrize('game', ['freeway', 'boxing'])
def test_every_tried_twin_is_made_or_counted(game):
    world = AtariWorld(game)
    twins = world.twins(n=2, progress=False)
    tried = 0
    for untouched in twins[(twins.table['factor'] == UNTOUCHED).to_numpy()]:
        for f in world.settable:
            values = [*map(int, searched(game)['values'][f].split())]
            tried += len(values) - values.count(untouched.factors[f][-1])  # its own value makes no twin
    made = (twins.table['factor'] != UNTOUCHED).sum()
    assert made + twins.left_out['n'].sum() == tried
    for e in twins:
        untouched = e if e.name.endswith(' part 1') else untouched
        assert e is untouched or (e.obs['frame'][-1] != untouched.obs['frame'][-1]).any(), e.name
        ram = e.obs['ram'][-1]
        for label in annotations(game=game).itertuples():
            assert e.factors[label.variable][-1] == ram[label.address]


def test_every_game_can_be_set_or_says_why_not():
    for game in GAMES:
        world = AtariWorld(game)
        assert set(searched(game).index) in ({*annotations(game=game)['variable']}, set())
        assert bool(world.settable) != bool(world.not_settable)
        if not world.settable:
            with pytest.raises(ValueError, match=game):
                world.twins(n=1, progress=False)


def test_history_is_shared_and_only_the_moment_differs():
    twins = AtariWorld('pong').twins('enemy_score', [11], n=2, length=4, progress=False)
    first, second = twins[0], twins[1]
    for name in 'frame', 'ram':
        a, b = first.obs[name], second.obs[name]
        assert len(a) == 4 and (a[:-1] == b[:-1]).all() and (a[-1] != b[-1]).any()
    assert (first.actions == second.actions).all() and (first.rewards == second.rewards).all()


def test_twins_join_a_recording(pong_play):
    recording = record_atari('pong', 400, progress=False).with_split(probe=0.6, valid=0.2, test=0.2)
    joined = with_twins(recording, AtariWorld('pong').twins('player_score', n=2, progress=False))
    assert (joined.split == 'twins').sum() >= 2


def test_values_that_do_not_occur_are_counted_or_refused():
    world = AtariWorld('pong')
    twins = world.twins('enemy_score', [3, 200], n=2, progress=False)
    assert ['enemy_score', 'the value does not occur in natural play', 2] in twins.left_out.values.tolist()
    for factor, values in ('enemy_score', [200]), ('enemy_score', [-1]), ('enemy_score', [1.5]):
        with pytest.raises(ValueError, match=f'{factor}.*{values[0]}'):
            world.twins(factor, values, n=1, progress=False)
    with pytest.raises(ValueError, match='length.*0'):
        world.twins('enemy_score', n=1, length=0, progress=False)


def test_search_finds_the_byte_that_is_drawn(pong_play):
    found = find_settable(pong_play, n=5).set_index('variable')
    assert found['address']['player_y'] == 60  # its label, byte 51, is a copy
    assert found['reason']['enemy_score'] == ''
    assert found['reason']['ball_y'] != ''  # the enemy follows the ball


@pytest.mark.parametrize('factor', [3, [], 'ball', ['player_y', 3]])
def test_what_is_no_settable_variable_is_refused(factor):
    with pytest.raises(ValueError, match='factor'):
        AtariWorld('pong').twins(factor, n=1, progress=False)
