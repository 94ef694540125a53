"""Notebooks of strangers: reading, listing, converting runs nothing; running loses no file; what is wrong is named."""

import copy, hashlib, json, os, random, re, signal, socket, subprocess, sys, threading, time
from pathlib import Path

import nbformat, pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output, new_raw_cell

from srlviz.studies.cli import main
from srlviz.studies.run import StudyError, list_studies, run_study, study_parameters, study_title, summary, to_html

KERNEL = dict(kernelspec=dict(name='python3', language='python', display_name='Python 3'))


def write(path, *cells, **metadata):
    nbformat.write(new_notebook(cells=list(cells), metadata=KERNEL | metadata), path)
    return path


def tiny(folder, code, name='tiny', title='# Tiny'):
    "A study that notes each of its runs in ran.txt, and then runs `code`."
    parameters = new_code_cell("n: int = 1\nword: str = ''\nout: str = '.'", metadata=dict(tags=['parameters']))
    return write(
        folder / f'{name}.ipynb',
        new_markdown_cell(title),
        parameters,
        new_code_cell("open('ran.txt', 'a').write(f'{n}\\n')"),
        new_code_cell(code, metadata=dict(tags=['summary'])),
    )


def tree(folder):
    "What lies in a folder: name -> where a link leads, or the hash of a file."
    kinds = lambda p: (
        os.readlink(p) if p.is_symlink() else hashlib.sha256(p.read_bytes()).hexdigest() if p.is_file() else 'other'
    )
    return {str(p.relative_to(folder)): kinds(p) for p in sorted(folder.rglob('*')) if p.is_symlink() or not p.is_dir()}


# ---- files that a run must not touch


def mine(path):
    path.write_text('<p>my own words</p>')


def a_notebook(path):
    write(path, new_markdown_cell('# my own words'))


def papermills(path):
    write(
        path,
        new_markdown_cell('x'),
        papermill=dict(version='2.7.0', input_path='a.ipynb', output_path=str(path), parameters={}),
    )


def of_another_study(path):
    write(path, new_markdown_cell('x'), srlviz=dict(study='dice', version='0.1.0'))


def a_link(path):
    mine(path.parent / 'victim')
    path.symlink_to(path.parent / 'victim')


def a_loose_link(path):
    path.symlink_to(path.parent / 'nowhere')


def a_pipe(path):
    os.mkfifo(path)


def a_folder(path):
    path.mkdir()
    mine(path / 'notes')


@pytest.mark.parametrize('name', ['tiny.ipynb', 'tiny.html', 'tiny.failed.ipynb'])
@pytest.mark.parametrize(
    'plant',
    [mine, a_notebook, papermills, of_another_study, a_link, a_loose_link, a_pipe, a_folder],
    ids=lambda f: f.__name__,
)
def test_a_foreign_file_stays_and_nothing_runs(name, plant, tmp_path):
    source = tiny(tmp_path, '1')
    (out := tmp_path / 'out').mkdir()
    plant(out / name)
    before = tree(out)
    with pytest.raises(FileExistsError, match=re.escape(str(out / name)) + '.*choose another folder'):
        run_study(source, {}, out, progress=False)
    assert tree(out) == before


@pytest.mark.parametrize('out', ['.', 'elsewhere', 'link'])
def test_the_notebook_that_runs_stays(out, tmp_path, monkeypatch):
    "By its own name, a hard link and a linked folder"
    source = tiny(tmp_path, '1')
    (tmp_path / 'elsewhere').mkdir()
    os.link(source, tmp_path / 'elsewhere' / 'tiny.ipynb')
    (tmp_path / 'link').symlink_to('.')
    before = tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(['run', 'tiny.ipynb', '--out', out]) == 2
    assert tree(tmp_path) == before


def test_a_lock_of_another_program_stays(tmp_path):
    source = tiny(tmp_path, '1')
    (out := tmp_path / 'out').mkdir()
    mine(out / '.srlviz-run.lock')
    with pytest.raises(FileExistsError):
        run_study(source, {}, out, progress=False)
    assert tree(out).keys() == {'.srlviz-run.lock'}


WORDS = '''"; open('pwned', 'w') #\\" ' {n} \\'\n\x1b]0;owned\x07\u202e'''


@pytest.fixture(scope='module')
def done(tmp_path_factory):
    "A good run, with a parameter like code, into a folder with traps, whose name has a field for papermill to fill in"
    here = tmp_path_factory.mktemp('run')
    source, victim = tiny(here, 'print(repr(word)); print(word)'), here / 'victim'
    mine(victim)
    (out := here / 'a {n} b').mkdir()
    (here / 'a 1 b').mkdir()
    for name in '.tiny.part.ipynb', '.tiny.0123abcd.part.ipynb':
        (out / name).symlink_to(victim)
    for name in '.tiny.89abcdef.part.ipynb', '.tiny.html.89abcdef.html', '.tiny.notes.ipynb':
        mine(out / name)
    return run_study(source, dict(word=WORDS), out, progress=False), here


def test_a_planted_link_is_not_followed(done):
    "Nor is a field of the folder's name filled in; of what killed runs leave files go, links and other names stay."
    path, here = done
    left = {'.tiny.part.ipynb', '.tiny.0123abcd.part.ipynb', '.tiny.notes.ipynb'}
    assert (here / 'victim').read_text() == '<p>my own words</p>' and not list((here / 'a 1 b').iterdir())
    assert {p.name for p in path.parent.iterdir()} == left | {'tiny.ipynb', 'tiny.html', 'ran.txt'}


def test_a_parameter_stays_a_value(done):
    path, here = done
    assert summary(path).split('\n')[0] == repr(WORDS) and not list(here.rglob('pwned'))


@pytest.mark.parametrize(
    'value',
    [
        '''{'"+open("pwned","w").name+"'}''',
        '''{("'\\\"+open('pwned','w').name+\\\"'",): 1}''',
        '''[b'"+open("pwned","w").name+"']''',
    ],
)
def test_a_value_that_is_no_literal_for_papermill_is_refused(value, tmp_path, monkeypatch):
    "papermill puts the text of a set, of bytes, or of a key that is no text between quotes, as it is"
    monkeypatch.chdir(tmp_path)
    source = write(
        tmp_path / 'odd.ipynb', new_code_cell('which = None\nsome: list = []', metadata=dict(tags=['parameters']))
    )
    name = 'some' if value.startswith('[') else 'which'
    with pytest.raises(ValueError, match=f'parameter {name} of study odd'):
        run_study(source, {name: value}, tmp_path / 'out', progress=False)
    assert not (tmp_path / 'pwned').exists()


def test_results_say_whose_they_are(done):
    path, _ = done
    assert nbformat.read(path, 4).metadata['srlviz']['study'] == 'tiny' and '"input_path"' not in path.read_text()
    assert re.search(r'<meta name="generator" content="srlviz [\d.]+', path.with_suffix('.html').read_text()[:200])


RUN = """import sys, srlviz.core.files as files
from srlviz.studies.cli import main
files.PATIENCE = .5
sys.exit(main(sys.argv[1:]))"""


def test_two_runs_into_one_folder(tmp_path, capsys):
    """The second says so and runs nothing; the first keeps its result. A third that fails replaces nothing, and what it
    says cannot move the terminal."""
    wait = (
        "import time, pathlib\nif n == 3: raise ValueError('\\x1b]0;owned\\x07\\u202e' + word)\n"
        "while not pathlib.Path('go').exists(): time.sleep(.05)\nprint('run', n)"
    )
    source, out = tiny(tmp_path, wait, title='# Tiny \x1b]0;owned\x07'), tmp_path / 'out'
    begin = lambda n: subprocess.Popen(
        [sys.executable, '-c', RUN, 'run', str(source), '-p', 'n', str(n), '--out', str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    first = begin(1)
    while not (out / 'ran.txt').exists():
        assert first.poll() is None
        time.sleep(0.05)
    second = begin(2)
    said = second.communicate(timeout=300)
    assert second.returncode == 2 and 'another process is writing' in said[1]
    (out / 'go').touch()
    said = first.communicate(timeout=300)
    assert (
        first.returncode == 0
        and '\x1b' not in said[0]
        and (out / 'ran.txt').read_text() == '1\n'
        and summary(out / 'tiny.ipynb') == 'run 1'
    )
    before = tree(out)
    with pytest.raises(StudyError) as e:
        run_study(source, dict(n=3, word='\n2'), out)
    assert (
        '\x1b' not in (shown := str(e.value) + capsys.readouterr().out)
        and '\u202e' not in shown
        and r'\x1b]0;owned\x07\u202e' in shown
    )
    after = tree(out)
    assert after.keys() - before.keys() == {'tiny.failed.ipynb'} and all(
        after[k] == v for k, v in before.items() if k != 'ran.txt'
    )


def test_a_file_that_comes_while_a_study_runs_stays(tmp_path):
    "A user saves a notebook of that name meanwhile: it stays, and the result is not lost either."
    source = tiny(tmp_path, "open('tiny.ipynb', 'w').write('mine'); print('done')")
    with pytest.raises(StudyError) as e:
        run_study(source, {}, tmp_path / 'out', progress=False)
    kept = Path(str(e.value).rpartition('notebook: ')[2])
    assert (tmp_path / 'out' / 'tiny.ipynb').read_text() == 'mine' and summary(kept) == 'done'


# ---- notebooks that are damaged, or were never notebooks

GOOD = new_notebook(
    metadata=KERNEL,
    cells=[
        new_markdown_cell('# A title\n\n![x](attachment:a.png)', attachments={'a.png': {'image/png': 'aGk='}}),
        new_code_cell('n: int = 3  # how many', metadata=dict(tags=['parameters'])),
        new_code_cell(
            'x',
            metadata=dict(tags=['summary']),
            outputs=[
                new_output('stream', text='printed'),
                new_output('error', ename='E', evalue='v', traceback=['t']),
                new_output('execute_result', {'text/plain': 'shown', 'text/html': '<b>shown</b>'}),
                new_output(
                    'display_data',
                    {'application/vnd.plotly.v1+json': dict(data=[dict(y=[1, 2])], layout=dict(title=dict(text='t')))},
                ),
                new_output('display_data', {'image/png': 'aGk='}),
            ],
        ),
    ],
)


def places(x, at=()):
    yield at
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from places(v, (*at, k))


def deep(n):
    x = []
    for _ in range(n):
        x = [x]
    return x


def mutations():
    "The file as it is; each of its parts replaced by something else, or gone; cuts and flipped bits."
    content = json.loads(nbformat.writes(GOOD))
    text = json.dumps(content).encode()
    for at in places(content):
        for value in (3, None, {}, 'x', [3], '\ud800', 'gone') if at else ():
            new = copy.deepcopy(content)
            inside = new
            for k in at[:-1]:
                inside = inside[k]
            if value == 'gone':
                del inside[at[-1]]
            else:
                inside[at[-1]] = value
            yield json.dumps(new).encode()
    for n in 200, 400, 900:
        new = copy.deepcopy(content)
        new['cells'][2]['outputs'][3]['data']['application/vnd.plotly.v1+json']['data'] = deep(n)
        yield json.dumps(new).encode()
        new = copy.deepcopy(content)
        new['metadata'] = dict(papermill=dict(parameters=dict(x=deep(n))))
        yield json.dumps(new).encode()
    r = random.Random(0)
    for _ in range(40):
        yield text[: r.randrange(len(text))]
    for _ in range(60):
        flipped = bytearray(text)
        i = r.randrange(len(text))
        flipped[i] ^= 1 << r.randrange(8)
        yield bytes(flipped)
    for n in 50_000, 500_000:
        yield b'[' * n
        yield b'{"cells":' * n
    yield from (
        b'',
        b'\0' * 1000,
        b'\xff\xfe{}',
        b'\x89PNG\r\n',
        b'"x"',
        b'NaN',
        b'1' * 5000,
        b'{"nbformat": 3, "worksheets": []}',
        b'{"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [{}]}',
    )


READERS = dict(
    study_parameters=study_parameters,
    study_title=study_title,
    summary=summary,
    to_html=lambda p: to_html(p, p.with_suffix('.out')),
    list_studies=lambda p: list_studies(p.parent),
)


def test_a_damaged_notebook_is_named(tmp_path, monkeypatch):
    "Every reader works, or says which file it is about; some 600 files, 3,000 readings."
    monkeypatch.setattr('plotly.offline.get_plotlyjs', str)  # 5 MB a page
    path, bare, told, n = tmp_path / 'odd.ipynb', [], 0, 0
    for text in mutations():
        path.write_bytes(text)
        for name, read in READERS.items():
            n += 1
            try:
                read(path)
            except (ValueError, OSError) as e:
                told += 1
                if str(path) not in str(e):
                    bare.append((name, repr(e)[:90], text[:60]))
            except Exception as e:
                bare.append((name, repr(e)[:90], text[:60]))
    assert not bare, f'{len(bare)} of {n} are bare, such as {bare[:4]}'
    assert told > n / 5 and not list(tmp_path.glob('.*'))


@pytest.mark.parametrize('text', [b'{', b'[]', b'{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'])
def test_a_damaged_notebook_does_not_run(text, tmp_path):
    (source := tmp_path / 'odd.ipynb').write_bytes(text)
    with pytest.raises(ValueError, match='odd.ipynb'):
        run_study(source, {}, tmp_path / 'out', progress=False)
    assert not (tmp_path / 'out').exists()


def test_a_large_notebook_is_refused(tmp_path):
    "One byte above the limit, and all of it a hole in the disk"
    path = tmp_path / 'large.ipynb'
    path.touch()
    os.truncate(path, 2**28 + 1)
    for read in READERS.values():
        with pytest.raises(ValueError, match='large.ipynb.*268,435,456'):
            read(path)


def test_a_named_pipe_does_not_hang(tmp_path, capsys):
    os.mkfifo(tmp_path / 'pipe.ipynb')
    tiny(tmp_path, '1')
    signal.alarm(60)  # ends the tests if it hangs
    try:
        listed, ran = (main([*words, '--studies', str(tmp_path)]) for words in (['list'], ['run', 'pipe']))
    finally:
        signal.alarm(0)
    said = capsys.readouterr()
    assert (
        (listed, ran) == (1, 2) and 'tiny: Tiny' in said.out and said.err.count('pipe.ipynb is not a regular file') == 2
    )


# C0 but the line's end, DEL, C1, and marks of direction
ORDERS = re.compile('[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]')
ORDER = 'a\x1b]0;owned\x07\x1b[2J\x9b1m\u202eb\rc'


def test_a_listing_moves_no_terminal_and_goes_on(tmp_path, capsys):
    "Title, name, defaults and helps of a stranger, a log of papermill's, and a broken notebook among the others"
    text = f"n = 1  # help {ORDER}\nm: str = 'x{ORDER}'\nk = dict(a=1, b={ORDER!r}) = {ORDER}"
    write(
        tmp_path / f'name{ORDER}.ipynb'.replace('/', '_'),
        new_markdown_cell(f'# title {ORDER}'),
        new_code_cell(text, metadata=dict(tags=['parameters'])),
    )
    (tmp_path / f'broken{ORDER}.ipynb').write_text('{')
    tiny(tmp_path, '1', name='zebra')
    status = main(['list', '--studies', str(tmp_path)])
    said = capsys.readouterr()
    assert not ORDERS.search(said.out + said.err) and r'title a\x1b]0;owned\x07\x9b1m\u202eb\rc' in said.out
    assert status == 1 and 'zebra: Tiny' in said.out and 'broken' in said.err.splitlines()[-1]
    assert main(['run', 'nothing' + ORDER, '--studies', str(tmp_path)]) == 2 and not ORDERS.search(
        capsys.readouterr().err
    )


def test_help_warns_that_running_a_notebook_runs_code(capsys):
    with pytest.raises(SystemExit):
        main(['run', '--help'])
    words = 'Running a notebook runs its code'
    assert words in ' '.join(capsys.readouterr().out.split()) and words in run_study.__doc__


def test_conversion_takes_time_in_proportion(tmp_path):
    "What took the square of the length: pictures without end, changes of colour, environments of TeX"
    for text in '<img ' * 80_000, '<link ' * 80_000, 'href ' * 80_000, '<script ' * 80_000, '@import ' * 80_000:
        path = write(
            tmp_path / 'long.ipynb', new_code_cell('', outputs=[new_output('display_data', {'text/html': text})])
        )
        begin = time.process_time()
        to_html(path, tmp_path / 'page.html')
        assert time.process_time() - begin < 5, text[:8]
    for cell in (
        new_markdown_cell('\\begin{a}' * 50_000),
        new_markdown_cell('\\\\(' * 10_000),
        new_code_cell('', outputs=[new_output('stream', text='\x1b[1m<' * 200_000)]),
    ):
        path = write(tmp_path / 'long.ipynb', cell)
        begin = time.process_time()
        to_html(path, tmp_path / 'page.html')
        assert time.process_time() - begin < 5, str(cell)[:60]


# ---- a page that would like to run


def runs(tag, away):
    "A script that says so in three ways"
    return f"(top.__pwned=top.__pwned||[]).push('{tag}');alert('{tag}');fetch('{away}/{tag}')"


def markup(tag, away):
    return f'<img src=x onerror="{runs(tag, away)}"><script>{runs(tag + "-script", away)}</script>'


def hostile_html(away):
    "HTML of outputs: what runs, fetches, leaves, or breaks out of a frame"
    js, tag = (lambda name: runs(name, away)), (lambda name: markup(name, away))
    press = lambda target: f'<a target={target} href="{away}/{target}">press</a>'
    quoted = js('srcdoc').replace('"', '&quot;')
    return [
        f'<script>{js("script")}</script>',
        tag('onerror'),
        f'<script src="{away}/x.js"></script><link rel=stylesheet href="{away}/x.css">'
        f'<img src="{away}/x.png" srcset="{away}/y.png 2x">'
        f'<video poster="{away}/z.png" src="{away}/v"></video>',
        f'<meta http-equiv=refresh content="0;url={away}/refresh">',
        '<meta http-equiv="refresh" content="0;url=data:text/html,<script>alert(1)</script>">',
        f'<script>location="{away}/location"</script><body onload="top.location=\'{away}/top\'">',
        f'<iframe src="javascript:{js("frame")}"></iframe><iframe srcdoc="<script>{quoted}</script>"></iframe>',
        f'<iframe src="{away}/f"></iframe>',
        f'<form action="{away}/form" target=_top><input name=documentElement autofocus onfocus="{js("focus")}">'
        '<button>press</button></form>',
        f'<form action="javascript:{js("formjs")}"><button>press</button></form>',
        f'<a href="javascript:{js("anchor")}">press</a>' + ''.join(map(press, ('_top', '_parent', '_self', '_blank'))),
        f'<svg onload="{js("svg")}"><script>{js("svgscript")}</script>'
        f'<image href="{away}/i.png"/><use href="{away}/u.svg#x"/>'
        f'<a xlink:href="javascript:{js("svga")}"><text y=20>press</text></a>'
        f'<animate onbegin="{js("begin")}" attributeName=x dur=1s>'
        f'<a><set attributeName="h&#114;ef" to="{away}/set"/><text y=40>press</text></a></svg>',
        f'<object data="{away}/o"></object><embed src="{away}/e">',
        '<object data="data:text/html,<script>alert(2)</script>"></object>',
        f'<style>@import "{away}/s.css"; body {{ background: url({away}/bg.png) }}'
        f'@font-face {{ font-family: f; src: url({away}/f) }}</style>'
        '<p style="font-family: f">x',
        f'<link rel=preconnect href="{away}"><link rel=dns-prefetch href="{away}"><link rel=prefetch href="{away}/p">'
        f'<link rel=preload as=image href="{away}/q"><LINK rel="icon" href="{away}/icon">',
        f'<base href="{away}/"><img src=base.png><a href=x>press</a>',
        f'<details open ontoggle="{js("toggle")}"><summary>x</summary></details>',
        f'<marquee onstart="{js("start")}">x</marquee>',
        f'"></iframe></div></main>{tag("breakout")}\'></iframe>{tag("breakout2")}',
        f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror={js("math")}&gt;">'
        f'{tag("math2")}',
        f'<template>{tag("template")}</template><noscript><p title="</noscript>{tag("noscript")}">',
        f'<!--><img src=x onerror="{js("comment")}">-->',
    ]


def hostile_svg(away):
    js = lambda name: runs(name, away)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="40" height="40" '
        f'onload="{js("svgfile")}"><script>{js("svgfile2")}</script>'
        f'<image xlink:href="{away}/svg.png" width="9" height="9"/><foreignObject width="9" height="9">'
        f'<body xmlns="http://www.w3.org/1999/xhtml"><img src="x" onerror="{js("foreign")}"/>'
        '</body></foreignObject></svg>'
    )


def hostile_markdown(away):
    js, tag = (lambda name: runs(name, away)), (lambda name: markup(name, away))
    return '\n\n'.join(
        [
            tag('markdown'),
            f'**a** {tag("inline")} [press](javascript:{js("md")})',
            '<javascript:alert(4)> [r] ![r]',
            '[press](java&#115;cript:alert(3)) [press](&#1;javascript:alert(3)) [press](<java\tscript:alert(3)>)',
            '[press](data:text/html,<script>alert(3)</script>) [press](vbscript:alert(3))',
            f'![a" onerror="{js("alt")}]({away}/md.png "t\' onerror=\'alert(5)")',
            '![x](data:image/svg+xml;base64,PHN2Zy8+" onerror="alert(6)) ![x](attachment:a.png) ![x](attachment:b.png)',
            f'```mermaid\n{tag("mermaid")}\n```',
            f'```x" onclick="alert(7)"><script>alert(7)</script>\n{tag("fence")}\n```',
            f'| {tag("cell")} |\n|---|\n| {tag("cell2")} |',
            f'$${tag("math3")}$$ and ${tag("math4")}$',
            f'- [ ] {tag("task")}\n',
            f'word\n: {tag("definition")}',
            f'\\begin{{{tag("tex")}}}x\\end{{{tag("tex")}}}',
            f'[r]: <javascript:{js("ref")}> "{tag("reftitle")}"',
        ]
    )


def hostile_figures(away):
    tag = lambda name: markup(name, away)
    link = f'<a href="javascript:{runs("plotlink", away)}">press</a><a href="{away}/plot">press</a>'
    trace = dict(
        type='scatter',
        x=[0, 1],
        y=[0, 1],
        mode='markers+text',
        name=tag('name') + link,
        text=[link, tag('text')],
        hovertext=[link, link],
        hovertemplate='%{text}' + link,
        customdata=[link],
        meta=[link],
    )
    picture = lambda name: dict(source=f'{away}/{name}.png', x=0, y=1, sizex=1, sizey=1)
    layout = dict(
        title=dict(text=tag('title') + link),
        annotations=[dict(text=tag('note') + link, x=0, y=0)],
        images=[picture('layout')],
        template=dict(layout=dict(images=[picture('template')])),
        height=300,
        width=500,
        xaxis=dict(ticktext=[link, tag('tick')], tickvals=[0, 1], title=dict(text=link)),
        updatemenus=[dict(buttons=[dict(label=tag('menu') + link, method='skip')])],
    )
    return [
        dict(data=[trace], layout=layout),
        dict(data=[trace], layout=dict(title=dict(text=f'</script>{tag("close")}<!--<script>'), height=300)),
    ]


def hostile_notebook(port):
    "Cells and metadata with something to run, to fetch or to leave for in every place that a notebook has"
    away = f'http://127.0.0.1:{port}'
    js, tag = (lambda name: runs(name, away)), (lambda name: markup(name, away))
    words, svg = hostile_markdown(away), hostile_svg(away)
    bundles = [{'text/html': h} for h in hostile_html(away)] + [
        {'image/svg+xml': svg},
        {'text/html': svg},
        {'text/markdown': words},
        {'text/latex': tag('latex'), 'application/javascript': js('javascript'), 'text/plain': tag('plain')},
        {'image/png': f'aGk=" onerror="{js("png")}', 'text/plain': f'" onerror="{js("pngalt")}'},
        {'image/jpeg': 'aGk=', 'text/plain': f'" onerror="{js("jpegalt")}'},
        *({'application/vnd.plotly.v1+json': f} for f in hostile_figures(away)),
    ]
    printed = [
        new_output('stream', text=f'{tag("stream")}\x1b[31m{tag("ansi")}\x1b["><script>alert(8)</script>m'),
        new_output('error', ename=tag('ename'), evalue=tag('evalue'), traceback=[tag('traceback')]),
    ]
    attached = {
        'a.png': {'image/png" onerror="alert(9)': 'aGk='},
        'b.png': {'image/png': '"><script>alert(10)</script>'},
    }
    declared = f"a: str = '{tag('default')}'  # \"{tag('help')}"
    cells = [
        new_markdown_cell(f'# {tag("heading")}\n\n{words}', attachments=attached),
        new_code_cell(declared, metadata=dict(tags=['parameters'])),
        new_code_cell(
            f'"""</pre></details>{tag("code")}"""', outputs=[new_output('display_data', b) for b in bundles] + printed
        ),
        new_raw_cell(tag('raw')),
    ]
    given = {tag('key'): tag('value'), 'b': {tag('deep'): 1}}
    return cells, dict(papermill=dict(parameters=given, start_time=tag('start'), duration=1.5))


# what a reader can press, in the page and in its frames; a link of the page to the web is the reader's own wish
THINGS = '''() => {
  const own = 'a:not([href^=http]), header button', stored = 'a, button, input, summary, svg text';
  const found = [...document.querySelectorAll(own)];
  for (const f of document.querySelectorAll('iframe'))
    if (f.contentDocument) found.push(...f.contentDocument.querySelectorAll(stored));
  return found;
}'''
# press it as a script does, and give its place for the mouse
PRESS = '''thing => {
  if (!thing || !thing.isConnected) return null;
  thing.scrollIntoView({ block: 'center' });
  const a = thing.getBoundingClientRect(), view = thing.ownerDocument.defaultView, frame = view && view.frameElement;
  const b = frame ? frame.getBoundingClientRect() : { x: 0, y: 0 };
  thing.click && thing.click();
  return [a.x + b.x + a.width/2, a.y + b.y + a.height/2];
}'''


@pytest.fixture
def server():
    "A port that counts who calls"
    calls, door = [], socket.create_server(('127.0.0.1', 0))

    def answer():
        while True:
            try:
                caller, _ = door.accept()
            except OSError:
                return
            calls.append(caller.getpeername())
            caller.close()

    threading.Thread(target=answer, daemon=True).start()
    yield door.getsockname()[1], calls
    door.close()


def visit(path, browser):
    "Open a page from the disk and press all that can be pressed; what ran, what was asked, and where it went"
    seen = dict(asked=[], refused=[], dialogs=[], moved=[], opened=[])
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(60_000)
    context.on('request', lambda r: seen['asked'].append(r.url))
    context.on('requestfailed', lambda r: seen['refused'].append((r.url, r.failure)))
    context.on('page', lambda q: seen['opened'].append(q.url))
    page.on('download', lambda d: seen['opened'].append(d.url))
    page.on('dialog', lambda d: (seen['dialogs'].append(d.message), d.dismiss()))
    page.on('framenavigated', lambda f: seen['moved'].append(f.url))
    page.goto(path.as_uri())
    page.wait_for_timeout(4000)
    seen['sizes'] = page.evaluate("[...document.querySelectorAll('iframe')].map(f => f.offsetHeight)")
    seen['drawn'] = page.evaluate(
        "[...document.querySelectorAll('.plot')].filter(p => p.querySelector('.main-svg')).length"
    )
    page.screenshot(path=str(path.with_suffix('.png')), full_page=True)
    for point in page.locator('.plot .points path').all()[:2]:
        point.hover(force=True)
    page.wait_for_timeout(500)
    seen['plotlinks'] = page.locator('.plot a').count()
    seen['hrefs'] = page.evaluate("[...document.querySelectorAll('main a[href]')].map(a => a.getAttribute('href'))")
    for i in range(page.evaluate(f'({THINGS})().length')):
        place = page.evaluate(f'i => ({PRESS})(({THINGS})()[i])', i) if page.url == path.as_uri() else None
        if place:
            page.mouse.click(*place)
    page.wait_for_timeout(1000)
    seen |= dict(url=page.url, frames=[f.url for f in page.frames], headings=page.locator('h1').count())
    seen['pwned'] = page.evaluate('window.__pwned || []')
    context.close()
    return seen


@pytest.mark.browser
def test_nothing_of_a_notebook_runs_or_calls_or_leaves(server, browser, tmp_path):
    '''A notebook with something to run, to fetch or to leave for in every place that it has. In its page none of it
    runs; what the browser sees of it, it refuses; no connection comes (`<link rel=preconnect>`, and frames that are
    refused, make one without a request); the page and its frames stay; links lead to the web; figures draw and have no
    links, and frames have a height.'''
    port, calls = server
    cells, metadata = hostile_notebook(port)
    path = to_html(write(tmp_path / 'hostile.ipynb', *cells, **metadata), tmp_path / 'hostile.html')
    seen, own = visit(path, browser), path.as_uri()
    assert seen['pwned'] == [] and seen['dialogs'] == []
    refused = {own, *(u for u, why in seen['refused'] if why in ('csp', 'origin'))}
    assert [u for u in seen['asked'] if u not in refused and not u.startswith(('data:', 'blob:'))] == [] and calls == []
    assert seen['url'] == own and seen['opened'] == []
    assert {u.partition('#')[0] for u in seen['moved'] + seen['frames']} <= {own, 'about:srcdoc', 'about:blank', ''}
    assert seen['hrefs'] and all(re.match('https?://', h) for h in seen['hrefs']) and seen['plotlinks'] == 0
    assert seen['drawn'] == 2 and seen['headings'] == 1
    assert len(seen['sizes']) > 15 and all(0 < h <= 20_000 for h in seen['sizes'])
