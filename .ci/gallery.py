"""Draw the pictures of the start page, and collect the words of its cards: data_samples/gallery.

.ci/gallery.py [TAB ...]     all entries, or those of some tabs; takes some minutes

A world is a frame of its sample; a representation its codes, or the state of a memory, over time; a question its score
on its example, beside the references: a bar each, grey for the references; without references its targets.
"""

import json, sys, warnings
from io import BytesIO
from pathlib import Path

import numpy as np
import plotly.colors as pc
from PIL import Image, ImageDraw, ImageOps

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from srlviz.core.views.cameras import pick_camera
from srlviz.studies import start_cards as cards
from srlviz.studies.start_cards import PICTURE, SHEET_COLUMNS, TABS, card_words, entries

GROUND, GREY, OURS, LIMIT = '#ffffff', '#9aa1a9', '#0072B2', '#1f2328'
STEPS, ROWS = 48, 24  # of codes


def of_world(name: str) -> Image.Image:
    recording = cards._worlds()[name].sample()
    camera = pick_camera(recording[0].obs)
    frame = np.asarray(recording[0].obs[camera][len(recording[0]) // 2])
    picture = Image.fromarray(frame[..., 0] if frame.shape[-1] == 1 else frame).convert('RGB')
    if dict(cards.entries('worlds'))[name] == 'game':
        return picture.resize(PICTURE, Image.Resampling.LANCZOS)  # an Atari's pixels are wide
    return ImageOps.pad(picture, PICTURE, Image.Resampling.LANCZOS, GROUND)


def heat(codes: np.ndarray) -> Image.Image:
    "Codes (T, n) over time, blue below their mean and red above it"
    x = codes[:STEPS].reshape(len(codes[:STEPS]), -1).T[:ROWS].astype(float)
    x = x - np.nanmean(x, 1, keepdims=True)
    z = np.clip(np.nan_to_num(x / (np.nanstd(x, 1, keepdims=True) + 1e-9)), -2, 2) / 4 + 0.5
    scale = pc.sample_colorscale('RdBu_r', np.linspace(0, 1, 256), colortype='tuple')
    lut = (np.array(scale) * 255).astype(np.uint8)
    return Image.fromarray(lut[(z * 255).astype(int)]).resize(PICTURE, Image.Resampling.NEAREST)


def of_representation(name: str) -> Image.Image:
    import torch

    from srlviz.core.names import catalog
    from srlviz.core.views.windows import windows
    from srlviz.data.worlds.record import sample

    if dict(entries('representations'))[name] == 'memory':
        torch.manual_seed(0)
        memory = catalog('memories')[name](6).eval()
        x = torch.as_tensor(np.eye(6, dtype=np.float32)[np.random.default_rng(0).integers(0, 6, STEPS)])[None]
        with torch.no_grad():
            y, _ = memory(x, None, torch.zeros(1, STEPS, dtype=torch.bool))
        return heat(y[0].numpy())
    encoder, _ = cards._built(name)
    recording = sample('approach' if getattr(encoder, 'inputs', None) else 'pong')
    if getattr(encoder, 'level', 'step') == 'episode':
        length = getattr(encoder, 'sequence_length', 40 if getattr(encoder, 'inputs', None) else 2)
        return heat(np.stack(encoder.encode(windows(recording[:1], length, 2)[:STEPS])))
    return heat(np.asarray(encoder.encode(recording[:1])[0]))


def of_question(name: str) -> Image.Image:
    from srlviz.core.metrics import questions
    from srlviz.studies.explore import example_answers

    question = questions()[name]
    question = question(**question.quick)
    answers = example_answers(question)[0]
    values = {}
    for row, answer in answers.items():
        first = answer[0] if isinstance(answer, (list, tuple)) else answer
        table = first.scores(study='own', task='own', method=row)
        of_metric = table[table['metric'] == question.headline]['value']
        values[row] = float(of_metric.mean()) if len(of_metric) else np.nan
    if len(values) == 1:  # an agent, a memory or an encoder, without references beside it
        return bars(**values_of_one(answers, question))
    colors = {row: GREY for row in ('constant', 'random', 'raw')} | dict(true_state=LIMIT)
    return bars([*values.values()], [colors.get(row, OURS) for row in values])


def values_of_one(answers: dict, question) -> dict:
    "What to draw of a question with one answer: its targets; its score and chance; returns of episodes; or its metrics"
    (answer,) = answers.values()
    answer = answer[0] if isinstance(answer, (list, tuple)) else answer
    values = answer.values(question.headline).dropna()
    targets = values.drop('mean', errors='ignore')
    _, level = answer.level(question.headline)
    best = question.metrics[question.headline].high
    if len(targets):
        return dict(values=[*targets], colors=[OURS] * len(targets), best=best)
    if level is not None:
        return dict(values=[values['mean'], level['mean']], colors=[OURS, GREY])
    if len(answer.truth):
        values = answer.truth.iloc[:, 0]
    else:  # metrics of several units, on a logarithmic scale
        values = [np.log10(1 + answer.values(metric)['mean']) for metric in answer.metrics]
    return dict(values=[*values], colors=[OURS] * len(values))


def bars(values: list, colors: list, best: float = np.nan) -> Image.Image:
    "Draw a bar for each value, up to the best value if it is finite"
    picture = Image.new('RGB', PICTURE, GROUND)
    draw = ImageDraw.Draw(picture)
    wide, tall = PICTURE
    top = best if np.isfinite(best) else np.nanmax([abs(v) for v in values] + [1e-9])
    thick = min(16, (tall - 8) // len(values))
    y = (tall - thick * len(values)) // 2
    for value, color in zip(values, colors):
        length = 0 if np.isnan(value) else abs(value) / top * (wide - 16)
        draw.rectangle((8, y + 2, 8 + max(1, length), y + thick - 3), color)
        y += thick
    draw.line((8, 4, 8, tall - 4), '#5b6169')
    return picture


DRAW = dict(worlds=of_world, representations=of_representation, questions=of_question)


def main(tabs):
    warnings.simplefilter('ignore')
    folder = ROOT / 'data_samples' / 'gallery'
    folder.mkdir(exist_ok=True)
    path = folder / 'words.json'
    for tab in tabs or TABS:
        names = [name for name, _ in entries(tab)]
        sheet = Image.new('RGB', (PICTURE[0] * SHEET_COLUMNS, PICTURE[1] * -(-len(names) // SHEET_COLUMNS)), GROUND)
        words = {}
        for i, name in enumerate(names):
            print(tab, name, flush=True)
            words[name] = card_words(tab, name)
            sheet.paste(DRAW[tab](name), (i % SHEET_COLUMNS * PICTURE[0], i // SHEET_COLUMNS * PICTURE[1]))
        png = BytesIO()
        sheet.quantize(256).save(png, 'PNG', optimize=True)
        (folder / f'{tab}.png').write_bytes(png.getvalue())
        known = json.loads(path.read_text(encoding='utf-8')) if path.exists() else {}
        known[tab] = words
        ordered = {tab: known[tab] for tab in TABS if tab in known}
        path.write_text(json.dumps(ordered, indent=0) + '\n', encoding='utf-8')


if __name__ == '__main__':
    main(sys.argv[1:])
