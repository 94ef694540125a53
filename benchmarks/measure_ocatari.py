"""Compare the positions of data_samples/atari_annotations.csv with the objects that OCAtari finds in random frames.

Both of its extractors (by colour, and from RAM) get the same frames; each visible variable is matched with the nearest
object of the same category. Written to data_samples/atari_agreement.csv: the share of frames within 4 pixels and the
median error, in pixels, over frames in which the object has a position, OCAtari finds any of its category, and the
nearest is not cut by an edge of the screen. `unseen` is the share of positions in frames in which OCAtari finds none of
a category that it finds in other frames, so the position may be wrong. It is empty for categories that OCAtari never
finds, and for games that were not measured again since the column was added.

    python benchmarks/measure_ocatari.py [game ...] [--frames 500] [--write]      --write with games: only their rows

OCAtari (pip install ocatari; MIT) needs an older NumPy: install it with --no-deps into a separate environment on top of
ours, with termcolor, scikit-image and matplotlib.
"""

import argparse, hashlib, importlib, re, warnings
from importlib.metadata import version

import numpy as np, pandas as pd
from srlviz.core.files import sample_path
from srlviz.core.views.overlays import episode_marks
from srlviz.envs.atari import GAMES, PIXEL_COLUMNS, RawAtari, annotations, factors_of, gym_id

FRAMES, NEAR = 500, 4  # a game; pixels
SORTS = {  # our object -> OCAtari's categories; what is not named here is called alike
    'asteroids': {'enemy': ['Asteroid'], 'player_missile': ['PlayerMissile'], 'player': ['Player']},
    'berzerk': {'enemy': ['Enemy'], 'player': ['Player']},
    'demonattack': {'enemy': ['Enemy', 'EnemyPart'], 'missile': ['PlayerMissile']},
    'freeway': {'enemy': ['Car'], 'player': ['Chicken']},
    'frostbite': {'.*iceflow': ['FloatingBlock'], 'enemy': ['Bird', 'Crab', 'Clam', 'GreenBird'], 'player': ['Player']},
    'montezumarevenge': {'enemy_skull': ['Skull'], 'player': ['Player']},
    'mspacman': {'enemy': ['Ghost'], 'player': ['Player']},
    'privateeye': {'agent': ['Player']},
    'riverraid': {'missile': ['PlayerMissile'], 'player': ['Player']},
    'seaquest': {
        'diver': ['Diver'],
        'enemy': ['Shark', 'Submarine', 'SurfaceSubmarine'],
        'missile': ['PlayerMissile'],
        'player': ['Player'],
    },
    'tennis': {'player|enemy': ['Player', 'Enemy']},  # who plays on which side changes
    'spaceinvaders': {'enemies': ['Alien'], '.*missile': ['Bullet'], 'player': ['Player']},
    'venture': {
        'player': ['Player'],
        'sprite': ['Hallmonsters', 'Goblin', 'Serpent', 'Wall', 'Skeleton', 'Yellow_Collectable'],
    },
    'yarsrevenge': {
        'enemy_qotile': ['Enemy', 'Swirl'],
        'player': ['Player'],
        'qotile_missile': ['Enemy_Missile'],
        'yar_missile': ['Player_Bullet'],
    },
}
ALL = {('spaceinvaders', 'enemies'): 36}  # the middle of so many together


def fingerprint():
    "A hash of everything that determines positions, in the current table"
    columns = ['game', 'variable', 'address', *PIXEL_COLUMNS[1:], 'when']
    table = annotations()[columns].to_csv(index=False, lineterminator='\n')
    return hashlib.sha256(table.encode()).hexdigest()[:16]


def play(game, n, seed=0, every=7):
    "Frames (n, 210, 160, 3) and RAM (n, 128) of random play, every few steps"
    raw, rng, held, i = RawAtari(game), np.random.default_rng(seed), 0, 0
    frames, rams = np.empty((n, 210, 160, 3), np.uint8), np.empty((n, 128), np.uint8)
    raw.reset()
    for i in range(n * every):
        if raw.over:
            raw.reset(int(rng.integers(2, 31)))
        if rng.random() < 0.3:
            held = int(rng.integers(len(raw.actions)))
        raw.step(held)
        if i % every == every - 1:
            raw.ale.getScreenRGB(frames[i // every])
            raw.ale.getRAM(rams[i // every])
    return frames, rams


def boxes(game, frames, rams):
    "The objects of both extractors: frame, category, left, top, width, height, and whether it is `cut`"
    from ocatari.ram.extract_ram_info import detect_objects_ram, init_objects
    from ocatari.vision.extract_vision_info import detect_objects_vision

    name, seen = gym_id(game)[4:-3], []
    for room in ('ram', 'vision'):
        try:
            importlib.import_module(f'ocatari.{room}.{name.lower()}')
            objects = init_objects(name, False)
            for t, (frame, ram) in enumerate(zip(frames, rams)):
                if room == 'ram':
                    detect_objects_ram(objects, ram.astype(int), name, False)
                else:
                    objects = init_objects(name, False, vision=True)
                    detect_objects_vision(objects, frame, name, False)
                for o in objects:
                    if o and o.category != 'NoObject':
                        seen.append((t, o.category, *map(float, o.xywh)))
        except (AttributeError, TypeError, KeyError, ImportError, ValueError, IndexError) as e:
            print(f'{game}: OCAtari {room}: {type(e).__name__}: {e}')
    seen = pd.DataFrame(seen, columns=['t', 'sort', 'x', 'y', 'w', 'h'])
    cut = [is_cut(of['x'], of['w']) | is_cut(of['y'], of['h']) for _, of in seen.groupby('sort')]
    return seen.assign(cut=pd.concat(cut)) if cut else seen.assign(cut=False)


def is_cut(start, size):
    "Boxes at the edge of the area of their category and smaller than others: partly off the screen"
    end, whole = start + size, size.max()
    far = np.ptp(start) > 2 * whole
    return far & (size < whole) & ((start <= start.min() + 1) | (end >= end.max() - 1))


def sorts_of(game, name):
    for pattern, sorts in SORTS.get(game, {}).items():
        if re.match(pattern, name):
            return sorts
    return [name.capitalize()]


def agreement(game, n):
    "One row per variable with a mapping: frames, share within 4 px, median error in px, share of unseen"
    frames, rams = play(game, n)
    table, seen = annotations(game=game), boxes(game, frames, rams)
    marks = episode_marks(table.to_dict('records'), factors_of(game, rams), {'ram': rams})
    off, unseen = {}, {}
    for name, of in marks.dropna(how='all', subset=['x', 'y']).groupby('name'):
        of_sort, whole = seen[seen['sort'].isin(sorts_of(game, name))], ALL.get((game, name))
        frames_of = {t: b[['x', 'y', 'w', 'h', 'cut']].to_numpy(float) for t, b in of_sort.groupby('t')}
        if frames_of:
            unseen[name] = round(float((~of['t'].isin(frames_of)).mean()), 3)
        for t, x, y in of[['t', 'x', 'y']].itertuples(index=False):
            if t not in frames_of:
                continue
            x0, y0, w, h, cut = frames_of[t].T
            middle = np.stack([x0 + (w - 1) / 2, y0 + (h - 1) / 2], 1)  # (boxes, 2)
            if whole:
                one = middle[: len(middle) // 2]  # of the first extractor
                middle, cut = (one.min(0, keepdims=True) + one.max(0, keepdims=True)) / 2, np.zeros(1)
                if len(one) != whole:
                    continue
            apart = np.abs(middle - np.array([x, y]))  # NaN on an axis that is unknown
            nearest = np.nanmax(apart, 1).argmin()
            if not cut[nearest]:
                off.setdefault(name, []).append(apart[nearest])
    for r in table[table['scale'].notna()].itertuples():
        errors = np.array(off.get(r.object, np.empty((0, 2))))[:, int(r.axis == 'y')]
        if len(errors):
            within, median = round(float((errors <= NEAR).mean()), 3), float(np.median(errors))
        else:
            within, median = np.nan, np.nan
        found = dict(frames=len(errors), within_4=within, median=median, unseen=unseen.get(r.object, np.nan))
        yield dict(game=game, variable=r.variable, **found)


def store(found, games, frames):
    "Write the table; for some games, only their rows in the existing table, if it is of the current positions"
    path = sample_path('atari_annotations.csv').with_name('atari_agreement.csv')
    about = f"# marks {fingerprint()}; OCAtari {version('ocatari')}; {frames} frames a game\n"
    if games:
        with open(path) as f:
            if f.readline() != about:
                raise SystemExit('marks, OCAtari or frames are others than those of the table: measure all games')
        kept = pd.read_csv(path, comment='#')
        found = pd.concat([found[found['game'] == g] if g in games else kept[kept['game'] == g] for g in GAMES])
    with open(path, 'w', newline='') as f:
        f.write(about)
        found.to_csv(f, index=False, lineterminator='\n')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('games', nargs='*')
    parser.add_argument('--frames', type=int, default=FRAMES)
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    found = pd.DataFrame([row for game in args.games or GAMES for row in agreement(game, args.frames)])
    print(found.to_string())
    of = found[found['frames'] >= 20]
    print(f"{len(of)} of {len(found)} seen in 20 frames; {(of['within_4'] >= 0.98).sum()} agree in 98% of them")
    if args.write:
        store(found, args.games, args.frames)
