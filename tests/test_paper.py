"""What a paper takes from results: a figure as PDF, SVG or PNG, a table, and a caption, as LaTeX compiles them."""

import re, shutil, subprocess, sys
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest

import srlviz
from srlviz.core.result_tables import latex_text, value_words
from srlviz.figures.pictures import figure_png

GUIDE = Path(__file__).parents[1] / 'docs/guides/for_a_paper.md'


@pytest.fixture(scope='module')
def chromium():
    if figure_png(go.Figure()) is None:
        pytest.skip('figures are drawn by Chromium: apt-get install chromium')


@pytest.fixture(scope='module')
def results():
    "Two representations of three factors in 20 episodes; one of them lacks a factor, whose name needs escapes"
    x = np.random.default_rng(0).normal(size=(1200, 3))
    truth = {'player_y': x[:, 0], 'share_%': x[:, 1], 'Δ·speed': x[:, 2]}
    recording = srlviz.Recording.from_arrays(x, episode=np.arange(1200) // 60, factors=truth, name='log')
    codes = {'my_net & co': np.split(x, 20), 'part_of_it': np.split(x[:, :2], 20)}
    return srlviz.ask(codes, recording, ['regression'], baseline='part_of_it', progress=False)


@pytest.mark.parametrize('width, points', [('column', 234), (5.5, 396)])
def test_a_pdf_has_its_width_and_its_fonts(results, width, points, chromium, tmp_path):
    pdf = srlviz.save_figure(results, tmp_path / 'new' / 'figure.pdf', width).read_bytes()
    assert f'/MediaBox [0 0 {points} '.encode() in pdf and pdf.count(b'/Type /Page\n') == 1
    assert b'/FontFile2' in pdf


def test_letters_have_eight_points_at_every_width(results, chromium, tmp_path):
    for width in 'column', 'page':
        svg = srlviz.save_figure(results, tmp_path / 'figure.svg', width).read_text(encoding='utf-8')
        shown, drawn = re.search(r'<svg[^>]* width="([\d.]+)"[^>]*viewBox="0 0 ([\d.]+) ', svg).groups()
        points = 0.75 * float(shown) / float(drawn)  # of a pixel
        sizes = [points * float(size) for size in re.findall(r'font-size: ([\d.]+)px', svg)]
        assert sizes and 4.9 < min(sizes) and max(sizes) < 8.01 and sum(size > 7.9 for size in sizes) > len(sizes) / 2


def test_a_figure_for_a_paper_shows_no_selection(results):
    board = results.explore(widget='CrossMatrix', interactive=False)
    assert any(shape.name == 'chosen' for shape in board.figure().layout.shapes)
    assert not any(shape.name == 'chosen' for shape in board.for_paper(351).layout.shapes)


def test_the_menu_of_a_view_saves_and_replaces_nothing(results, chromium, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    board = results.explore(interactive=True)
    bar = next(part for part in board.children if 'srlviz-bar' in part._dom_classes)
    (choice,) = (part for part in bar.children if getattr(part, 'description', '') == 'save')
    for _ in range(2):
        choice.label = 'SVG, a column wide'
        (tmp_path / 'score_board.svg').write_text('mine')
    assert sorted(path.name for path in tmp_path.iterdir()) == ['score_board.svg', 'score_board_2.svg']
    assert (tmp_path / 'score_board.svg').read_text() == 'mine'
    assert str(tmp_path) in bar.children[-1].value and choice.value == ''


def test_without_chromium_one_sentence_says_what_to_install(tmp_path):
    code = "import plotly.graph_objects as go, srlviz; srlviz.save_figure(go.Figure(), 'figure.pdf')"
    done = subprocess.run(
        [sys.executable, '-c', code],
        cwd=tmp_path,
        env={'PATH': '', 'HOME': str(tmp_path), 'CHROMIUM': '/bin/false', 'PYTHONPATH': str(GUIDE.parents[2])},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1 and 'apt-get install chromium' in done.stderr.splitlines()[-1], done.stderr
    assert not (tmp_path / 'figure.pdf').exists()


def compiled(body: str, folder: Path) -> str:
    "Compile a document; return the log"
    if not shutil.which('pdflatex'):
        pytest.skip('no pdflatex: apt-get install texlive-latex-recommended')
    head = '\\documentclass[twocolumn]{article}\n\\usepackage{booktabs,graphicx}\n\\begin{document}\n'
    (folder / 'paper.tex').write_text(f'{head}{body}\n\\end{{document}}\n', encoding='utf-8')
    command = ['pdflatex', '-interaction=nonstopmode', '-halt-on-error', '-no-shell-escape', 'paper.tex']
    done = subprocess.run(command, cwd=folder, capture_output=True, timeout=120)
    log = done.stdout.decode(errors='replace')
    assert done.returncode == 0, log[-2000:]
    return log


def test_latex_compiles_table_caption_and_figure(results, chromium, tmp_path):
    srlviz.save_figure(results, tmp_path / 'figure.pdf', 3.1)
    caption = latex_text(results.caption(intervals=True))
    body = f'\\begin{{figure}}\\includegraphics{{figure.pdf}}\\caption{{{caption}}}\\end{{figure}}\n'
    for metric in '', 'r2_linear':
        table = results.to_latex(metric=metric, differences=False)
        body += f'\\begin{{table*}}{table}\\end{{table*}}\n'
    log = compiled(body, tmp_path)
    assert 'Overfull' not in log and 'Missing character' not in log, log
    assert '95\\% intervals over episodes' in caption and r'$\Delta$' in caption


def test_the_sentence_ends_with_a_paired_difference(results):
    row = results.intervals().set_index(['method', 'metric', 'target']).loc['my_net & co', 'r2_linear', 'mean']
    words = results.caption('my_net & co', versus='part_of_it')
    assert words.endswith(f' my_net & co − part_of_it, mean of 3 factors: {value_words(row, "difference")}.')


def test_the_guide_cites_this_version():
    assert f'Software, version {srlviz.__version__}}}' in GUIDE.read_text(encoding='utf-8')


@pytest.mark.slow
def test_the_paper_of_the_guide_compiles(chromium, tmp_path):
    text = GUIDE.read_text(encoding='utf-8').replace('```\n```python\n', '')
    (tmp_path / 'guide.py').write_text(re.search(r'^```python\n(.*?)^```', text, re.M | re.S)[1], encoding='utf-8')
    written = []
    for _ in range(2):  # a second run reads the answers of the first
        subprocess.run([sys.executable, 'guide.py'], cwd=tmp_path, check=True, timeout=600)
        written.append((tmp_path / 'results.tex').read_text(encoding='utf-8'))
    assert written[0] == written[1]
    assert 'Overfull' not in compiled('\\input{results.tex}', tmp_path)
