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
CATEGORIES = {  # our object -> OCAtari's categories; objects that are not listed have the same name in both
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
    'tennis': {'player|enemy': ['Player', 'Enemy']},  # the players change sides
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
GROUP_SIZES = {('spaceinvaders', 'enemies'): 36}  # the position is the middle of so many objects


def fingerprint():
    "A hash of everything that determines positions, in the current table"
    columns = ['game', 'variable', 'address', *PIXEL_COLUMNS[1:], 'when']
    table = annotations()[columns].to_csv(index=False, lineterminator='\n')
    return hashlib.sha256(table.encode()).hexdigest()[:16]


def play(game, n, seed=0, every=7):
    "Frames (n, 210, 160, 3) and RAM (n, 128) of random play, every few steps"
    raw, rng, action, i = RawAtari(game), np.random.default_rng(seed), 0, 0
    frames, rams = np.empty((n, 210, 160, 3), np.uint8), np.empty((n, 128), np.uint8)
    raw.reset()
    for i in range(n * every):
        if raw.over:
            raw.reset(int(rng.integers(2, 31)))
        if rng.random() < 0.3:
            action = int(rng.integers(len(raw.actions)))
        raw.step(action)
        if i % every == every - 1:
            raw.ale.getScreenRGB(frames[i // every])
            raw.ale.getRAM(rams[i // every])
    return frames, rams


def boxes(game, frames, rams):
    "The objects of both extractors: frame, category, left, top, width, height, and whether it is `cut`"
    from ocatari.ram.extract_ram_info import detect_objects_ram, init_objects
    from ocatari.vision.extract_vision_info import detect_objects_vision

    name, found = gym_id(game)[4:-3], []
    for extractor in ('ram', 'vision'):
        try:
            importlib.import_module(f'ocatari.{extractor}.{name.lower()}')
            objects = init_objects(name, False)
            for t, (frame, ram) in enumerate(zip(frames, rams)):
                if extractor == 'ram':
                    detect_objects_ram(objects, ram.astype(int), name, False)
                else:
                    objects = init_objects(name, False, vision=True)
                    detect_objects_vision(objects, frame, name, False)
                for o in objects:
                    if o and o.category != 'NoObject':
                        found.append((t, o.category, *map(float, o.xywh)))
        except (AttributeError, TypeError, KeyError, ImportError, ValueError, IndexError) as e:
            print(f'{game}: OCAtari {extractor}: {type(e).__name__}: {e}')
    found = pd.DataFrame(found, columns=['t', 'category', 'x', 'y', 'w', 'h'])
    cut = [is_cut(b['x'], b['w']) | is_cut(b['y'], b['h']) for _, b in found.groupby('category')]
    return found.assign(cut=pd.concat(cut)) if cut else found.assign(cut=False)


def is_cut(start, size):
    "Boxes at the edge of the area of their category and smaller than others: partly off the screen"
    end, largest = start + size, size.max()
    is_moving = np.ptp(start) > 2 * largest
    return is_moving & (size < largest) & ((start <= start.min() + 1) | (end >= end.max() - 1))


def categories_of(game, name):
    for pattern, categories in CATEGORIES.get(game, {}).items():
        if re.match(pattern, name):
            return categories
    return [name.capitalize()]


def agreement(game, n):
    "One row per variable with a mapping: frames, share within 4 px, median error in px, share of unseen"
    frames, rams = play(game, n)
    table, found_boxes = annotations(game=game), boxes(game, frames, rams)
    marks = episode_marks(table.to_dict('records'), factors_of(game, rams), {'ram': rams})
    errors_of, unseen = {}, {}
    for name, positions in marks.dropna(how='all', subset=['x', 'y']).groupby('name'):
        candidates = found_boxes[found_boxes['category'].isin(categories_of(game, name))]
        group_size = GROUP_SIZES.get((game, name))
        frames_of = {t: b[['x', 'y', 'w', 'h', 'cut']].to_numpy(float) for t, b in candidates.groupby('t')}
        if frames_of:
            unseen[name] = round(float((~positions['t'].isin(frames_of)).mean()), 3)
        for t, x, y in positions[['t', 'x', 'y']].itertuples(index=False):
            if t not in frames_of:
                continue
            x0, y0, w, h, cut = frames_of[t].T
            middle = np.stack([x0 + (w - 1) / 2, y0 + (h - 1) / 2], 1)  # (boxes, 2)
            if group_size:
                first = middle[: len(middle) // 2]  # boxes of the first extractor
                middle, cut = (first.min(0, keepdims=True) + first.max(0, keepdims=True)) / 2, np.zeros(1)
                if len(first) != group_size:
                    continue
            errors = np.abs(middle - np.array([x, y]))  # NaN on an axis that is unknown
            nearest = np.nanmax(errors, 1).argmin()
            if not cut[nearest]:
                errors_of.setdefault(name, []).append(errors[nearest])
    for r in table[table['scale'].notna()].itertuples():
        errors = np.array(errors_of.get(r.object, np.empty((0, 2))))[:, int(r.axis == 'y')]
        if len(errors):
            within, median = round(float((errors <= NEAR).mean()), 3), float(np.median(errors))
        else:
            within, median = np.nan, np.nan
        result = dict(frames=len(errors), within_4=within, median=median, unseen=unseen.get(r.object, np.nan))
        yield dict(game=game, variable=r.variable, **result)


def store(table, games, frames):
    "Write the table; for some games, only their rows in the existing table, if it is of the current positions"
    path = sample_path('atari_annotations.csv').with_name('atari_agreement.csv')
    header = f"# marks {fingerprint()}; OCAtari {version('ocatari')}; {frames} frames a game\n"
    if games:
        with open(path) as f:
            if f.readline() != header:
                raise SystemExit('the table is of other marks, frames or another OCAtari: measure all games')
        stored = pd.read_csv(path, comment='#')
        table = pd.concat([table[table['game'] == g] if g in games else stored[stored['game'] == g] for g in GAMES])
    with open(path, 'w', newline='') as f:
        f.write(header)
        table.to_csv(f, index=False, lineterminator='\n')


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument('games', nargs='*')
    parser.add_argument('--frames', type=int, default=FRAMES)
    parser.add_argument('--write', action='store_true')
    args = parser.parse_args()
    warnings.simplefilter('ignore')
    table = pd.DataFrame([row for game in args.games or GAMES for row in agreement(game, args.frames)])
    print(table.to_string())
    measured = table[table['frames'] >= 20]
    print(
        f"{len(measured)} of {len(table)} seen in 20 frames; "
        f"{(measured['within_4'] >= 0.98).sum()} agree in 98% of them"
    )
    if args.write:
        store(table, args.games, args.frames)
