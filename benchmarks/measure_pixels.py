"""Measure where each localisation byte puts its sprite, and compare with (or rewrite)
data_samples/atari_annotations.csv.

From many states of a random rollout: write a few other values into the byte, run two emulator frames, and mark the
pixels that differ from the unchanged run for (almost) every other value. These pixels are the sprite at its true
position. Its centre is then regressed on the byte of the same instant. Accepted if the median residual is at most
1.5 px and 80% of states lie within 3 px (half of them, if the line is that of another sprite of the game).

    python benchmarks/measure_pixels.py [game ...] [--write] [--states 200]
"""

import argparse
import numpy as np, pandas as pd
from ale_py import ALEInterface, LoggerMode
from joblib import Parallel, delayed
from srlviz.core.files import sample_path
from srlviz.envs.atari import rom_path

# bytes that are copies of another one: write there, read here
SOURCES = {('pong', 51): 60, ('pong', 50): 21}
SHIFTS = np.array([-61, -43, -29, -19, 19, 29, 43, 61])


def states(ale, n, seed=0, every=12):
    "Yield `n` states of random play, one every few steps"
    rng, actions, start, i = np.random.default_rng(seed), ale.getMinimalActionSet(), ale.cloneSystemState(), 0
    action = actions[0]
    while n:
        if ale.game_over():
            ale.restoreSystemState(start)
        if i % 8 == 0 or rng.random() < 0.3:
            action = actions[rng.integers(len(actions))]
        ale.act(action)
        i += 1
        if i > 60 and i % every == 0:
            n -= 1
            state = ale.cloneSystemState()
            yield state
            ale.restoreSystemState(state)


def run_frames(ale, state, write=None, frames=2):
    "Screen and RAM some frames after a state, with a byte written first"
    ale.restoreSystemState(state)
    if write:
        ale.setRAM(*write)
    for _ in range(frames):
        ale.act(0)
    return ale.getScreenRGB().astype(np.int32) @ (1, 256, 65536), ale.getRAM()


def sprite(ale, state, address, plain, value, frames):
    "Pixels (H, W) of the sprite that `address` moves; they differ whatever else is written"
    differs = [run_frames(ale, state, (address, int(value + s) % 256), frames)[0] != plain for s in SHIFTS]
    count = np.sum(differs, 0)
    return count >= max(5, 0.7 * len(SHIFTS))


def measure(game, address, axis, n_states=300, frames=2, anywhere=False):
    """Regress the centre of the sprite on the byte.

    `anywhere`: first set the byte to a random value, for sprites that seldom move.

    Returns scale, offset, cross (pixel on the other axis if constant), low, high (of the byte), residual, inliers, n.
    """
    ale, source = emulator(game), SOURCES.get((game, address), address)
    rows, rng = [], np.random.default_rng(0)
    for state in states(ale, n_states):
        if anywhere:
            ale.restoreSystemState(state)
            ale.setRAM(source, int(rng.integers(256)))
            ale.act(0)
            state = ale.cloneSystemState()
        rows += centres(ale, state, address, source, frames)
    m = fit_affine(np.array(rows, float).reshape(-1, 5), axis)
    if rows and source != address:
        m['low'], m['high'] = min(r[0] for r in rows), max(r[0] for r in rows)
    return m


def emulator(game):
    ALEInterface.setLoggerMode(LoggerMode.Error)
    ale = ALEInterface()
    ale.setInt('random_seed', 0)
    ale.setFloat('repeat_action_probability', 0.0)
    ale.loadROM(rom_path(game))
    ale.reset_game()
    return ale


def centres(ale, state, address, source, frames):
    "Yield byte, column, row, width, height of the sprite in one state; nothing if it is not visible"
    plain, ram = run_frames(ale, state, frames=frames)
    y, x = np.nonzero(sprite(ale, state, source, plain, ram[source], frames))
    if not 2 <= len(x) <= 2500:
        return
    near = (abs(x - np.median(x)) <= 20) & (abs(y - np.median(y)) <= 24)  # without distant pixels that changed too
    x, y = x[near], y[near]
    if len(x) >= 2:
        yield (
            int(ram[address]),
            (x.min() + x.max()) / 2,
            (y.min() + y.max()) / 2,
            int(np.ptp(x)) + 1,
            int(np.ptp(y)) + 1,
        )


def fit_affine(rows, axis):
    "Fit centre = scale * byte + offset by consensus: the line through two states that is within 2 px of most states"
    if len(rows):
        # without sprites that are cut by an edge or half hidden
        rows = rows[(rows[:, 3:] >= 0.75 * np.quantile(rows[:, 3:], 0.75, 0)).all(1)]
    empty = dict(
        scale=np.nan, offset=np.nan, cross=np.nan, low=np.nan, high=np.nan, residual=np.nan, inliers=0.0, n=len(rows)
    )
    if len(rows) < 25:
        return empty
    v, c, o = rows[:, 0], rows[:, 1 if axis == 'x' else 2], rows[:, 2 if axis == 'x' else 1]
    if np.ptp(v) < 6:
        return empty
    rng, best = np.random.default_rng(0), None
    for _ in range(400):
        i, j = rng.integers(len(v), size=2)
        if abs(v[i] - v[j]) < 4:
            continue
        a = (c[i] - c[j]) / (v[i] - v[j])
        near = abs(c - a * v - (c[i] - a * v[i])) < 2
        if best is None or near.sum() > best.sum():
            best = near
    if best is None or np.ptp(v[best]) < 6:
        return empty
    a, b = np.polyfit(v[best], c[best], 1)
    rounded = np.round(a * 2) / 2  # hardware scales are multiples of a half
    if rounded and abs(rounded - a) < 0.06 * max(1, abs(a)):
        a = rounded
        b = np.median(c[best] - a * v[best])
    r = abs(c - a * v - b)
    cross = np.median(o[best]) if np.quantile(abs(o - np.median(o)), 0.9) < 1.6 else np.nan
    return dict(
        scale=a,
        offset=b,
        cross=cross,
        low=v[best].min(),
        high=v[best].max(),
        residual=np.median(r),
        inliers=(r < 3).mean(),
        n=len(v),
    )


def is_hardware_scale(m):
    return abs(m['scale']) >= 1 and m['scale'] * 2 % 1 == 0


def is_accepted(m):
    return m['n'] >= 25 and m['residual'] <= 1.5 and m['inliers'] >= 0.8 and is_hardware_scale(m)


def matches_sibling(m, others):
    """Whether half of the states are on the line that is accepted for another sprite of the game.

    One kernel draws both sprites; the other states are hidden or doubled.
    """
    return (
        m['n'] >= 25
        and m['inliers'] >= 0.5
        and is_hardware_scale(m)
        and any(o['scale'] == m['scale'] and abs(o['offset'] - m['offset']) <= 2 for o in others)
    )


def measure_best(game, address, axis, n_states):
    "Try each delay, since a flickering or overwritten sprite shows in one of them; then extend the range of the line"
    best = None
    for anywhere, frames in ((False, 2), (False, 1), (False, 3), (True, 1)):
        m = measure(game, address, axis, n_states, frames, anywhere) | dict(frames=frames)
        if best is None or m['inliers'] > best['inliers']:
            best = m
        if is_accepted(best):
            break
    return widen(game, address, axis, best) if is_accepted(best) else best


def widen(game, address, axis, m, n_states=100):
    "Extend low and high by states in which the byte was first set to a random value, up to the second miss in a row"
    if (game, address) in SOURCES:
        return m
    ale, rng, hits = emulator(game), np.random.default_rng(0), {}
    for state in states(ale, n_states, every=9):
        ale.restoreSystemState(state)
        ale.setRAM(address, int(rng.integers(256)))
        ale.act(0)
        for v, *centre in centres(ale, ale.cloneSystemState(), address, address, m['frames']):
            hits[v] = abs(centre[axis == 'y'] - m['scale'] * v - m['offset']) < 3
    for side, step in (('low', -1), ('high', 1)):
        misses = 0
        for v in sorted((v for v in hits if (v - m[side]) * step > 0), key=lambda v: v * step):
            misses = 0 if hits[v] else misses + 1
            if hits[v]:
                m[side] = v
            if misses == 2:
                break
    return m


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('games', nargs='*')
    parser.add_argument('--write', action='store_true')
    parser.add_argument('--states', type=int, default=200)
    args = parser.parse_args()
    numbers = ['scale', 'offset', 'cross', 'low', 'high']
    path = sample_path('atari_annotations.csv')
    table = pd.read_csv(path, keep_default_na=False, na_values={c: [''] for c in numbers})
    rows = table[
        (table['axis'] != '')
        & ~table['evidence'].str.startswith('wrong')
        & (table['game'].isin(args.games) if args.games else True)
    ]
    keys = list(dict.fromkeys(rows[['game', 'address', 'axis']].itertuples(index=False, name=None)))
    found = dict(zip(keys, Parallel(n_jobs=-1)(delayed(measure_best)(*k, args.states) for k in keys)))
    for i, r in rows.iterrows():
        m = found[r.game, r.address, r.axis]
        ok = is_accepted(m) or matches_sibling(
            m, [o for (g, _, x), o in found.items() if (g, x) == (r.game, r.axis) and is_accepted(o)]
        )
        both = table[(table['game'] == r.game) & (table['object'] == r.object) & (table['axis'] != r.axis)]
        if len(both) and r.game != 'pong':
            m = m | dict(cross=np.nan)  # the other axis has its own variable
        previous = f"{r.scale:6.2f} {r.offset:7.1f}" if not np.isnan(r.scale) else '  unknown'
        print(
            f"{r.game:17s}{r.variable:30s}{'ok' if ok else '--'} n {m['n']:4d} scale {m['scale']:6.2f} offset "
            f"{m['offset']:7.1f} cross {m['cross']:6.1f} bytes {m['low']:4.0f}-{m['high']:3.0f} residual "
            f"{m['residual']:5.2f} within 3 px {m['inliers']:.2f}   table: {previous}"
        )
        if any(method in r.evidence for method in ('by colour', 'the mark is', 'any value')):
            continue  # found by the sprite's colour, or in a narrower range
        if ok and (m['scale'], m['offset']) == (r.scale, r.offset):
            m = m | dict(low=min(m['low'], r.low), high=max(m['high'], r.high))
        for c in numbers:
            table.at[i, c] = round(m[c], 2) if ok else np.nan
    if args.write:
        table.to_csv(path, index=False)
