"""Atari annotations, tested in the emulator: setting a byte of RAM moves the right sprite.

And the wrapper AtariFactors in vector environments of Gymnasium.
"""

import runpy
from pathlib import Path

import ale_py, gymnasium, numpy as np, pandas as pd, pytest

from srlviz.core.files import sample_path
from srlviz.envs.atari import GAMES, AtariFactors, RawAtari, annotations, gym_id, pixel_position
from srlviz.envs.ram import RAMLab

gymnasium.register_envs(ale_py)
BENCHMARK = runpy.run_path(Path(__file__).parents[1] / 'benchmarks/measure_ocatari.py')
COPIES = {('pong', 51): 60, ('pong', 50): 21}  # copied each frame from the byte given: write to that one
OFFSETS = (-67, -53, -41, -31, -23, -17, -11, 11, 17, 23, 31, 41, 53, 67)


def lab_at(game, steps=100, seed=0):
    return RAMLab(game, seed=seed, steps=steps)


def effect(lab, address, change):
    "Return the pixels (y, x) that differ when `change`, a number to add or a function of the byte, is applied to it."
    value = int(lab.ram[address])
    changed = change(value) if callable(change) else value + change
    return np.nonzero(lab.effect_map(address, changed % 256))


def rows(lab, address, change):
    return set(effect(lab, address, change)[0].tolist())


def centres(lab, address, value, frames=(1, 2)):
    """Return column and row of the middle of a sprite at each emulator frame; None where there is none.

    The sprite is what is drawn when the byte has `value`, and not drawn for most other values.
    """

    def draw(v):
        return lab._frozen.draw(frames, (address, v % 256), rgb=False)  # (frames, 210, 160), colour numbers

    shown, differs = draw(value), np.zeros((len(frames), 210, 160), np.uint8)
    for offset in OFFSETS:
        differs += shown != draw(value + offset)
    return [middle(d > 0.7 * len(OFFSETS)) for d in differs]


def middle(marked):
    "Return column and row of the middle of the marked pixels (210, 160) near their median; None if they are no sprite."
    y, x = np.nonzero(marked)
    if not 2 <= len(x) <= 2500:
        return None
    near = (abs(x - np.median(x)) <= 20) & (abs(y - np.median(y)) <= 24)
    return ((x[near].min() + x[near].max()) / 2, (y[near].min() + y[near].max()) / 2) if near.sum() > 1 else None


def moved(lab, address, delta):
    """Return how far the sprite of a byte moves when `delta` is added, at the first emulator frame that draws it.

    None if it is never drawn.
    """
    for frames in (1, 2, 3):
        before, after = (centres(lab, address, int(lab.ram[address]) + d, (frames,))[0] for d in (0, delta))
        if None not in (before, after):
            return after[0] - before[0], after[1] - before[1]


# ---- corrected annotations
def test_demonattack_cannon_is_byte_16():
    "Byte 16 moves the cannon, byte 22 (the paper's player_x) the shot, which is above it."
    cannon, lab = set(range(174, 186)), lab_at('demonattack', 40)
    lab.step(lab.actions.index('FIRE'))
    assert cannon & rows(lab, 16, 8) and not cannon & rows(lab, 22, 8)
    lab.step(0)
    assert rows(lab, 22, 8) and max(rows(lab, 22, 8)) < 174


def test_spaceinvaders_byte_16_lowers_the_invaders():
    """Adding one to byte 16 lowers the invaders.

    Byte 24 (the paper's) moves none of them, and byte 9 (the paper's missiles_y) moves nothing.
    """
    lab = lab_at('spaceinvaders', 60)
    changed = rows(lab, 16, 1)
    assert min(changed) >= 31 and max(changed) < 150 and len(effect(lab, 16, 1)[0]) > 500
    for address in (24, 9):
        for change in (1, 8, -8, 40):
            assert all(r >= 185 for r in rows(lab, address, change))  # byte 24 redraws the cannon, or nothing


@pytest.mark.parametrize('shot', ['player_missile', 'enemy_missile_0', 'enemy_missile_1'])
def test_spaceinvaders_shot_bytes_move_the_shots(shot):
    "Adding 8 to the column of a shot moves it 8 pixels right; adding 8 to its row moves it 16 pixels down."
    address = annotations(game='spaceinvaders').set_index('variable')['address']
    i = shot[-2:] if shot[-1].isdigit() else ''
    name = shot.removesuffix(i)
    x, y = address[f'{name}_x{i}'], address[f'{name}_y{i}']
    n_found = 0
    for steps in range(40, 160, 8):
        lab = lab_at('spaceinvaders', steps)
        across, down = moved(lab, x, 8), moved(lab, y, 8)
        if None not in (across, down):
            n_found += np.allclose([across, down], [(8, 0), (0, 16)], atol=2)  # a bomb twists as it falls
    assert n_found >= 1


def test_spaceinvaders_lives_are_byte_73():
    "Byte 73 always holds the number of lives; the paper's byte 125 never does."
    raw, rng = RawAtari('spaceinvaders'), np.random.default_rng(1)
    raw.reset()
    while not raw.over:
        ram = raw.ale.getRAM()
        assert ram[73] == raw.lives and ram[125] > 200
        raw.step(rng.integers(len(raw.actions)))


def test_montezuma_inventory_is_byte_65():
    """Each bit of byte 65 draws an object in the inventory, in the rows below the score.

    Byte 61 (the paper's) flips the skull.
    """
    lab, inventory, skull = lab_at('montezumarevenge', 30), set(range(28, 43)), set(range(166, 180))
    for bit in range(8):
        changed = rows(lab, 65, lambda v: v ^ 1 << bit)
        assert changed and changed <= inventory
    flipped = rows(lab, 61, lambda v: v ^ 8)
    assert flipped and flipped <= skull


def test_montezuma_byte_62_is_a_clock():
    """Byte 62 counts from 0 to 15 and restarts, by one every 8 emulator frames, without any action.

    It is a clock, not a state of the room.
    """
    raw = RawAtari('montezumarevenge')
    raw.reset()
    values = []
    for _ in range(256):
        raw.ale.act(0)
        values.append(int(raw.ale.getRAM()[62]))
    steps = np.diff(values[:140])
    steps = steps[steps != 0]
    assert set(values) == set(range(16)) and set(steps % 16) == {1} and len(steps) == 18


def test_berzerk_has_eight_robots():
    "Eight robots are drawn from bytes 56 to 63 and 65 to 72; nothing is drawn from byte 64."
    drawn = set()
    for seed in range(4):
        for steps in (12, 300, 700):
            lab = lab_at('berzerk', steps, seed)
            drawn |= {a for a in range(56, 73) if len(effect(lab, a, 8)[0])}
    assert 64 not in drawn and drawn >= {*range(56, 62), *range(65, 71)}


def test_privateeye_byte_97_lifts_the_player():
    "Byte 97 lifts the detective; byte 86 (the paper's) moves nothing."
    for steps in (0, 100):
        lab = lab_at('privateeye', steps)
        assert len(effect(lab, 97, 8)[0]) > 40 and not any(rows(lab, 86, d) for d in (8, -8, 40))


def test_spaceinvaders_mark_is_the_middle_of_the_formation():
    "The mark of the invaders is the middle of their full formation, for any value of its two bytes."
    for steps in (0, 60, 100):
        lab = lab_at('spaceinvaders', steps)
        assert lab.ram[17] == 36  # all invaders are alive
        for dx, drops in ((0, 0), (8, 0), (0, 5), (0, 1)):
            picture = lab.poke(26, int(lab.ram[26]) + dx, 2) if dx else lab.poke(16, int(lab.ram[16]) + drops, 2)
            y, x = np.nonzero((picture[20:180] == (134, 134, 29)).all(-1))
            assert (x.min() + x.max()) / 2 == pixel_position('spaceinvaders', 'enemies_x', int(lab.ram[26]) + dx)
            assert (y.min() + y.max()) / 2 + 20 == pixel_position(
                'spaceinvaders', 'enemies_y', int(lab.ram[16]) + drops
            )


def test_frostbite_marks_are_the_middle_of_a_floe():
    "The mark of a row of floes is the middle of the second of three floes, which are 16 pixels wide."
    raw, rng, hits = RawAtari('frostbite'), np.random.default_rng(0), []
    raw.reset()
    rows_of = annotations(game='frostbite').query("object.str.endswith('iceflow')")
    assert len(rows_of) == 4
    for t in range(400):
        if raw.over:
            raw.reset()
        raw.step(rng.integers(len(raw.actions)))
        picture, ram = raw.ale.getScreenRGB(), raw.ale.getRAM()
        for r in rows_of.itertuples():
            if not r.low <= ram[r.address] <= r.high:
                continue
            row = picture[int(r.cross)]
            is_floe = (row == 214).all(-1) | (row == (84, 138, 210)).all(-1)  # white, or blue after a jump on it
            left = int(pixel_position('frostbite', r.variable, ram[r.address]) - 7.5)
            hits.append(
                is_floe[left : left + 16].all() and not is_floe[left - 1] and not is_floe[left + 16 : left + 17].any()
            )
    assert len(hits) > 1000 and np.mean(hits) > 0.95


# ---- kinds of bytes
@pytest.mark.parametrize(
    'game, address, policy',
    [
        ('breakout', 77, None),
        ('freeway', 103, 'UP'),
        ('mspacman', 120, None),
        ('asteroids', 62, None),
        ('pong', 13, None),
    ],
)
def test_bcd_bytes_hold_decimal_digits(game, address, policy):
    "Decimal digits are never a to f: after 09 or 90 a score becomes 10 or 00; that of Pong is binary and becomes 0a."
    kind = annotations(game=game).set_index('address').loc[address, 'kind']
    raw, rng, values = RawAtari(game), np.random.default_rng(1), []
    raw.reset()
    for _ in range(40):
        raw.step(rng.integers(len(raw.actions)))
    raw.ale.setRAM(address, 0x90 if game == 'mspacman' else 0x09)
    for t in range(700):
        if t % 6 == 0:
            action = raw.actions.index(policy) if policy else rng.integers(len(raw.actions))
        raw.step(action)
        values.append(int(raw.ale.getRAM()[address]))
    after = next(v for v in values if v != values[0])
    assert (after & 15 <= 9 and after >> 4 <= 9) == (kind == 'BCD') and (kind == 'BCD') == (game != 'pong')


@pytest.mark.parametrize(
    'game, address', [(r.game, r.address) for r in annotations().itertuples() if r.kind == 'derived']
)
def test_derived_bytes_are_overwritten(game, address):
    "Within four frames a derived byte loses what is written to it."
    raw, rng = RawAtari(game), np.random.default_rng(0)
    raw.reset()
    for _ in range(10):
        for _ in range(30):
            raw.step(rng.integers(len(raw.actions)))
        if raw.over:
            raw.reset()
        state, after = raw.ale.cloneSystemState(), []
        for add in (0, 37):
            raw.ale.restoreSystemState(state)
            raw.ale.setRAM(address, (int(raw.ale.getRAM()[address]) + add) % 256)
            for _ in range(4):
                raw.ale.act(0)
            after.append(int(raw.ale.getRAM()[address]))
        raw.ale.restoreSystemState(state)
        assert after[0] == after[1]


def test_num_lives_is_the_count_of_the_emulator():
    "num_lives is the emulator's count, or one less, except in the frames of a death."
    for r in annotations().query("variable == 'num_lives'").itertuples():
        raw, rng, differences = RawAtari(r.game), np.random.default_rng(0), []
        raw.reset()
        for t in range(300):
            if raw.over:
                raw.reset()
            raw.step(rng.integers(len(raw.actions)))
            differences.append(raw.lives - int(raw.ale.getRAM()[r.address]))
        assert np.mean(np.array(differences) == (0 if r.game == 'spaceinvaders' else 1)) > 0.95, r.game


# ---- pixels
def test_marks_are_on_their_sprites():
    """The annotated mark is on the sprite of its byte.

    This holds for at least one state of every variable with a visible mapping, and for nearly all states.
    """
    table, found = annotations(), []
    groups = (table['object'] == 'enemies') | table['object'].str.endswith('iceflow')  # have other tests
    table = table[table['scale'].notna() & ~groups]
    for game, of_game in table.groupby('game'):
        lab = RAMLab(game, steps=0)
        for steps, seed in ((40, 0), (150, 1), (400, 2), (700, 3)):
            lab.restart(seed, steps)
            for r in of_game.itertuples():
                value = int(lab.ram[r.address])
                if not r.low <= value <= r.high:
                    continue
                source = COPIES.get((game, r.address), r.address)
                distances = [
                    abs(centre[r.axis == 'y'] - float(pixel_position(game, r.variable, value, ram=lab.ram)))
                    for centre in centres(lab, source, int(lab.ram[source]))
                    if centre
                ]
                if distances:
                    found.append((game, r.variable, min(distances)))  # some pictures are one frame late
    found = pd.DataFrame(found, columns=['game', 'variable', 'distance'])
    best = found.groupby(['game', 'variable'])['distance'].min()
    assert set(best.index.get_level_values(0)) == set(table['game'])
    far = best[best > 3].to_string()  # fast shots; small rocks in Asteroids
    assert len(best) > 90 and (found['distance'] <= 3).mean() > 0.85, far
    assert (best <= 3).mean() > 0.9 and best.max() <= 12, far


# ---- the wrapper
def factors(info):
    return {k: v for k, v in info['factors'].items() if not k.startswith('_')}


@pytest.mark.parametrize('kind', ['Sync', 'Async', 'make_vec'])
@pytest.mark.parametrize('frameskip', [True, False])
def test_vector_environments_return_the_same_factors(kind, frameskip):
    "Vector environments of both kinds return the factors of a single environment, for both kinds of ids."
    if kind == 'make_vec':
        vector_env = gymnasium.make_vec(
            gym_id('boxing', frameskip), 2, vectorization_mode='sync', wrappers=[AtariFactors]
        )
    else:
        vector_env = getattr(gymnasium.vector, f'{kind}VectorEnv')(
            [lambda: AtariFactors(gymnasium.make(gym_id('boxing', frameskip)))] * 2
        )
    env = AtariFactors(gymnasium.make(gym_id('boxing', frameskip)))
    try:
        for t in range(30):
            info = (vector_env.reset(seed=[3, 4]) if t == 0 else vector_env.step(np.array([3, 5])))[-1]
            single = (env.reset(seed=3) if t == 0 else env.step(3))[-1]
            assert {k: v[0] for k, v in factors(info).items()} == single['factors'] and len(single['factors']) == 7
        assert (
            info['factors']['player_y'][0] != info['factors']['player_y'][1]
            or info['factors']['player_x'][0] != info['factors']['player_x'][1]
        )
    finally:
        vector_env.close()
        env.close()


@pytest.mark.parametrize('mode', list(gymnasium.vector.AutoresetMode), ids=lambda m: m.name)
def test_autoreset_returns_factors_of_the_first_frame(mode):
    "A reset game returns the factors of its first frame; same-step autoreset also keeps those of the last frame."
    vector_env = gymnasium.vector.SyncVectorEnv(
        [lambda: AtariFactors(gymnasium.make('ALE/Freeway-v5', max_episode_steps=12))] * 2, autoreset_mode=mode
    )
    _, info = vector_env.reset(seed=0)
    first = int(info['factors']['player_y'][0])
    for t in range(40):
        *_, truncated, info = vector_env.step(np.array([1, 1]))
        current = int(info['factors']['player_y'][0])
        assert set(factors(info)) == set(annotations(game='freeway')['variable'])
        if truncated.any():
            if mode.name == 'SAME_STEP':
                assert current == first < info['final_info']['factors']['player_y'][0]
            else:
                assert current > first
            if mode.name == 'DISABLED':
                reset_info = vector_env.reset(options={'reset_mask': truncated})[-1]
                assert (reset_info['factors']['player_y'] == first).all()
            if mode.name == 'NEXT_STEP':
                assert vector_env.step(np.array([1, 1]))[-1]['factors']['player_y'][0] == first
    vector_env.close()


@pytest.mark.parametrize('game', GAMES)
def test_every_game_returns_its_annotated_factors(game):
    env = AtariFactors(gymnasium.make(gym_id(game)))
    _, info = env.reset(seed=0)
    assert list(info['factors']) == annotations(game=game)['variable'].tolist()
    env.close()


# ---- agreement with OCAtari
def test_marks_agree_with_ocatari():
    """The results of benchmarks/measure_ocatari.py were measured with the current marks, and nearly all marks agree.

    After a change of a mark, rerun it with --write.
    """
    header = sample_path('atari_agreement.csv').read_text().splitlines()[0]
    table = annotations()
    assert header.startswith(f'# marks {BENCHMARK["fingerprint"]()}; OCAtari 2.'), (
        'run benchmarks/measure_ocatari.py --write'
    )
    found = pd.read_csv(sample_path('atari_agreement.csv'), comment='#')
    located = table[table['scale'].notna()]
    assert list(zip(found['game'], found['variable'])) == list(zip(located['game'], located['variable']))
    frequent = found[found['frames'] >= 20].set_index(['game', 'variable'])
    assert len(frequent) >= 130 and (frequent['within_4'] >= 0.98).sum() >= 116
    # shots of Space Invaders are drawn in every other frame
    low = {g for g, _ in frequent.index[frequent['within_4'] < 0.9]}
    assert low <= {'spaceinvaders', 'qbert', 'seaquest', 'frostbite'}
    corrected = ['tennis', 'asteroids', 'demonattack', 'pong']
    assert (frequent.loc[corrected, 'within_4'] >= 0.98).all() and (frequent.loc[corrected, 'median'] <= 2.5).all()
    # share of marks where OCAtari finds no such object; measured for three games. It misses some balls of Tennis
    unseen = found.set_index('game')['unseen']
    assert (unseen[['demonattack', 'asteroids']] == 0).all() and unseen['tennis'].max() < 0.1
