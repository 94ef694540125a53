"""Tests of reading, listing, converting and running untrusted notebooks.

Reading, listing and converting run no code, running overwrites no file, and errors name the notebook.
"""

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
    "Write a study that appends `n` to ran.txt, and then runs `code`."
    parameters = new_code_cell("n: int = 1\nword: str = ''\nout: str = '.'", metadata=dict(tags=['parameters']))
    return write(
        folder / f'{name}.ipynb',
        new_markdown_cell(title),
        parameters,
        new_code_cell("open('ran.txt', 'a').write(f'{n}\\n')"),
        new_code_cell(code, metadata=dict(tags=['summary'])),
    )


def tree(folder):
    "Return the contents of a folder: name -> target of a link, hash of a file, or 'other'."

    def contents(path):
        if path.is_symlink():
            return os.readlink(path)
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else 'other'

    paths = [p for p in sorted(folder.rglob('*')) if p.is_symlink() or not p.is_dir()]
    return {str(p.relative_to(folder)): contents(p) for p in paths}


# ---- files that a run must not change


def user_file(path):
    path.write_text('<p>my own words</p>')


def user_notebook(path):
    write(path, new_markdown_cell('# my own words'))


def papermill_notebook(path):
    write(
        path,
        new_markdown_cell('x'),
        papermill=dict(version='2.7.0', input_path='a.ipynb', output_path=str(path), parameters={}),
    )


def result_of_another_study(path):
    write(path, new_markdown_cell('x'), srlviz=dict(study='dice', version='0.1.0'))


def link_to_file(path):
    user_file(path.parent / 'victim')
    path.symlink_to(path.parent / 'victim')


def broken_link(path):
    path.symlink_to(path.parent / 'nowhere')


def named_pipe(path):
    os.mkfifo(path)


def user_folder(path):
    path.mkdir()
    user_file(path / 'notes')


@pytest.mark.parametrize('name', ['tiny.ipynb', 'tiny.html', 'tiny.failed.ipynb'])
@pytest.mark.parametrize(
    'create',
    [
        user_file,
        user_notebook,
        papermill_notebook,
        result_of_another_study,
        link_to_file,
        broken_link,
        named_pipe,
        user_folder,
    ],
    ids=lambda f: f.__name__,
)
def test_existing_file_stays_and_nothing_runs(name, create, tmp_path):
    source = tiny(tmp_path, '1')
    out = tmp_path / 'out'
    out.mkdir()
    create(out / name)
    before = tree(out)
    with pytest.raises(FileExistsError, match=re.escape(str(out / name)) + '.*choose another folder'):
        run_study(source, {}, out, progress=False)
    assert tree(out) == before


@pytest.mark.parametrize('out', ['.', 'elsewhere', 'link'])
def test_source_notebook_is_not_overwritten(out, tmp_path, monkeypatch):
    "Written to its own folder, to a hard link of the notebook, and to a linked folder"
    source = tiny(tmp_path, '1')
    (tmp_path / 'elsewhere').mkdir()
    os.link(source, tmp_path / 'elsewhere' / 'tiny.ipynb')
    (tmp_path / 'link').symlink_to('.')
    before = tree(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(['run', 'tiny.ipynb', '--out', out]) == 2
    assert tree(tmp_path) == before


def test_lock_file_of_another_program_stays(tmp_path):
    source = tiny(tmp_path, '1')
    out = tmp_path / 'out'
    out.mkdir()
    user_file(out / '.srlviz-run.lock')
    with pytest.raises(FileExistsError):
        run_study(source, {}, out, progress=False)
    assert tree(out).keys() == {'.srlviz-run.lock'}


CODE_LIKE_TEXT = '''"; open('pwned', 'w') #\\" ' {n} \\'\n\x1b]0;owned\x07\u202e'''


@pytest.fixture(scope='module')
def finished_run(tmp_path_factory):
    """A successful run, and its base folder.

    A parameter looks like code, the output folder contains planted links and files, and the folder's name has a field
    that papermill would fill in.
    """
    base = tmp_path_factory.mktemp('run')
    source = tiny(base, 'print(repr(word)); print(word)')
    victim = base / 'victim'
    user_file(victim)
    out = base / 'a {n} b'
    out.mkdir()
    (base / 'a 1 b').mkdir()
    for name in '.tiny.part.ipynb', '.tiny.0123abcd.part.ipynb':
        (out / name).symlink_to(victim)
    for name in '.tiny.89abcdef.part.ipynb', '.tiny.html.89abcdef.html', '.tiny.notes.ipynb':
        user_file(out / name)
    return run_study(source, dict(word=CODE_LIKE_TEXT), out, progress=False), base


def test_planted_links_are_not_followed(finished_run):
    """Planted links stay, and the field in the folder's name is not filled in.

    Of the names that killed runs leave, files are removed; links and other names stay.
    """
    path, base = finished_run
    kept = {'.tiny.part.ipynb', '.tiny.0123abcd.part.ipynb', '.tiny.notes.ipynb'}
    assert (base / 'victim').read_text() == '<p>my own words</p>' and not list((base / 'a 1 b').iterdir())
    assert {p.name for p in path.parent.iterdir()} == kept | {'tiny.ipynb', 'tiny.html', 'ran.txt'}


def test_parameter_is_not_run_as_code(finished_run):
    path, base = finished_run
    assert summary(path).split('\n')[0] == repr(CODE_LIKE_TEXT) and not list(base.rglob('pwned'))


@pytest.mark.parametrize(
    'value',
    [
        '''{'"+open("pwned","w").name+"'}''',
        '''{("'\\\"+open('pwned','w').name+\\\"'",): 1}''',
        '''[b'"+open("pwned","w").name+"']''',
    ],
)
def test_parameter_without_a_safe_literal_is_refused(value, tmp_path, monkeypatch):
    "papermill quotes the text of sets, of bytes and of keys that are not strings without escaping it"
    monkeypatch.chdir(tmp_path)
    source = write(
        tmp_path / 'odd.ipynb', new_code_cell('which = None\nsome: list = []', metadata=dict(tags=['parameters']))
    )
    name = 'some' if value.startswith('[') else 'which'
    with pytest.raises(ValueError, match=f'parameter {name} of study odd'):
        run_study(source, {name: value}, tmp_path / 'out', progress=False)
    assert not (tmp_path / 'pwned').exists()


def test_results_name_their_study_and_generator(finished_run):
    path, _ = finished_run
    assert nbformat.read(path, 4).metadata['srlviz']['study'] == 'tiny' and '"input_path"' not in path.read_text()
    assert re.search(r'<meta name="generator" content="srlviz [\d.]+', path.with_suffix('.html').read_text()[:200])


RUN = """import sys, srlviz.core.files as files
from srlviz.studies.cli import main
files.PATIENCE = .5
sys.exit(main(sys.argv[1:]))"""


def test_second_run_into_a_folder_is_refused(tmp_path, capsys):
    """The second run reports the first and runs nothing, and the first keeps its result.

    A third run that fails replaces nothing, and its output has no control characters.
    """
    code = (
        "import time, pathlib\nif n == 3: raise ValueError('\\x1b]0;owned\\x07\\u202e' + word)\n"
        "while not pathlib.Path('go').exists(): time.sleep(.05)\nprint('run', n)"
    )
    source, out = tiny(tmp_path, code, title='# Tiny \x1b]0;owned\x07'), tmp_path / 'out'

    def start(n):
        command = [sys.executable, '-c', RUN, 'run', str(source), '-p', 'n', str(n), '--out', str(out)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    first = start(1)
    while not (out / 'ran.txt').exists():
        assert first.poll() is None
        time.sleep(0.05)
    second = start(2)
    _, stderr = second.communicate(timeout=300)
    assert second.returncode == 2 and 'another process is writing' in stderr
    (out / 'go').touch()
    stdout, _ = first.communicate(timeout=300)
    assert first.returncode == 0 and '\x1b' not in stdout
    assert (out / 'ran.txt').read_text() == '1\n' and summary(out / 'tiny.ipynb') == 'run 1'
    before = tree(out)
    with pytest.raises(StudyError) as e:
        run_study(source, dict(n=3, word='\n2'), out)
    output = str(e.value) + capsys.readouterr().out
    assert '\x1b' not in output and '\u202e' not in output and r'\x1b]0;owned\x07\u202e' in output
    after = tree(out)
    assert after.keys() - before.keys() == {'tiny.failed.ipynb'}
    assert all(after[k] == v for k, v in before.items() if k != 'ran.txt')


def test_file_created_during_a_run_stays(tmp_path):
    "A user saves a notebook of that name during the run; both it and the result are kept."
    source = tiny(tmp_path, "open('tiny.ipynb', 'w').write('mine'); print('done')")
    with pytest.raises(StudyError) as e:
        run_study(source, {}, tmp_path / 'out', progress=False)
    kept = Path(str(e.value).rpartition('notebook: ')[2])
    assert (tmp_path / 'out' / 'tiny.ipynb').read_text() == 'mine' and summary(kept) == 'done'


# ---- damaged notebooks, and files that are not notebooks

VALID = new_notebook(
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


def key_paths(x, path=()):
    "Yield the path of keys to each part of a JSON value."
    yield path
    for k, v in x.items() if isinstance(x, dict) else enumerate(x) if isinstance(x, list) else ():
        yield from key_paths(v, (*path, k))


def nested_list(n):
    "Return `n` nested lists"
    x = []
    for _ in range(n):
        x = [x]
    return x


def mutations():
    "Yield variants of a notebook: whole, a part replaced or deleted, truncated, a bit flipped, and malformed files."
    content = json.loads(nbformat.writes(VALID))
    text = json.dumps(content).encode()
    for path in key_paths(content):
        for value in (3, None, {}, 'x', [3], '\ud800', 'deleted') if path else ():
            new = copy.deepcopy(content)
            parent = new
            for k in path[:-1]:
                parent = parent[k]
            if value == 'deleted':
                del parent[path[-1]]
            else:
                parent[path[-1]] = value
            yield json.dumps(new).encode()
    for n in 200, 400, 900:
        new = copy.deepcopy(content)
        new['cells'][2]['outputs'][3]['data']['application/vnd.plotly.v1+json']['data'] = nested_list(n)
        yield json.dumps(new).encode()
        new = copy.deepcopy(content)
        new['metadata'] = dict(papermill=dict(parameters=dict(x=nested_list(n))))
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


def test_errors_name_the_damaged_notebook(tmp_path, monkeypatch):
    "Each reader succeeds or names the file in its error: about 600 files, 3,000 readings."
    monkeypatch.setattr('plotly.offline.get_plotlyjs', str)  # 5 MB a page
    path = tmp_path / 'odd.ipynb'
    unnamed = []
    n_errors = n_readings = 0
    for text in mutations():
        path.write_bytes(text)
        for name, read in READERS.items():
            n_readings += 1
            try:
                read(path)
            except (ValueError, OSError) as e:
                n_errors += 1
                if str(path) not in str(e):
                    unnamed.append((name, repr(e)[:90], text[:60]))
            except Exception as e:
                unnamed.append((name, repr(e)[:90], text[:60]))
    assert not unnamed, f'{len(unnamed)} of {n_readings} readings do not name the file, such as {unnamed[:4]}'
    assert n_errors > n_readings / 5 and not list(tmp_path.glob('.*'))


@pytest.mark.parametrize('text', [b'{', b'[]', b'{"cells": 3, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'])
def test_damaged_notebook_does_not_run(text, tmp_path):
    source = tmp_path / 'odd.ipynb'
    source.write_bytes(text)
    with pytest.raises(ValueError, match='odd.ipynb'):
        run_study(source, {}, tmp_path / 'out', progress=False)
    assert not (tmp_path / 'out').exists()


def test_notebook_above_the_size_limit_is_refused(tmp_path):
    "A sparse file one byte above the limit"
    path = tmp_path / 'large.ipynb'
    path.touch()
    os.truncate(path, 2**28 + 1)
    for read in READERS.values():
        with pytest.raises(ValueError, match='large.ipynb.*268,435,456'):
            read(path)


def test_named_pipe_does_not_hang(tmp_path, capsys):
    os.mkfifo(tmp_path / 'pipe.ipynb')
    tiny(tmp_path, '1')
    signal.alarm(60)  # ends the tests if it hangs
    try:
        listed = main(['list', '--studies', str(tmp_path)])
        ran = main(['run', 'pipe', '--studies', str(tmp_path)])
    finally:
        signal.alarm(0)
    output = capsys.readouterr()
    assert (listed, ran) == (1, 2)
    assert 'tiny: Tiny' in output.out and output.err.count('pipe.ipynb is not a regular file') == 2


# C0 without the line feed, DEL, C1, and marks of text direction
CONTROL_CHARACTERS = re.compile('[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]')
ESCAPES = 'a\x1b]0;owned\x07\x1b[2J\x9b1m\u202eb\rc'


def test_listing_escapes_control_characters_and_skips_broken_notebooks(tmp_path, capsys):
    "Control characters in title, file name, defaults and help, and a broken notebook among valid ones"
    text = f"n = 1  # help {ESCAPES}\nm: str = 'x{ESCAPES}'\nk = dict(a=1, b={ESCAPES!r}) = {ESCAPES}"
    write(
        tmp_path / f'name{ESCAPES}.ipynb'.replace('/', '_'),
        new_markdown_cell(f'# title {ESCAPES}'),
        new_code_cell(text, metadata=dict(tags=['parameters'])),
    )
    (tmp_path / f'broken{ESCAPES}.ipynb').write_text('{')
    tiny(tmp_path, '1', name='zebra')
    status = main(['list', '--studies', str(tmp_path)])
    output = capsys.readouterr()
    assert not CONTROL_CHARACTERS.search(output.out + output.err)
    assert r'title a\x1b]0;owned\x07\x9b1m\u202eb\rc' in output.out
    assert status == 1 and 'zebra: Tiny' in output.out and 'broken' in output.err.splitlines()[-1]
    assert main(['run', 'nothing' + ESCAPES, '--studies', str(tmp_path)]) == 2
    assert not CONTROL_CHARACTERS.search(capsys.readouterr().err)


def test_help_warns_that_running_a_notebook_runs_code(capsys):
    with pytest.raises(SystemExit):
        main(['run', '--help'])
    warning = 'Running a notebook runs its code'
    assert warning in ' '.join(capsys.readouterr().out.split()) and warning in run_study.__doc__


def test_conversion_time_is_not_quadratic(tmp_path):
    "Cases that took quadratic time: unclosed tags, changes of colour, environments of TeX"
    for text in '<img ' * 80_000, '<link ' * 80_000, 'href ' * 80_000, '<script ' * 80_000, '@import ' * 80_000:
        path = write(
            tmp_path / 'long.ipynb', new_code_cell('', outputs=[new_output('display_data', {'text/html': text})])
        )
        start = time.process_time()
        to_html(path, tmp_path / 'page.html')
        assert time.process_time() - start < 5, text[:8]
    for cell in (
        new_markdown_cell('\\begin{a}' * 50_000),
        new_markdown_cell('\\\\(' * 10_000),
        new_code_cell('', outputs=[new_output('stream', text='\x1b[1m<' * 200_000)]),
    ):
        path = write(tmp_path / 'long.ipynb', cell)
        start = time.process_time()
        to_html(path, tmp_path / 'page.html')
        assert time.process_time() - start < 5, str(cell)[:60]


# ---- pages with active content


def script(tag, remote):
    "JavaScript that reports in three ways that it ran"
    return f"(top.__pwned=top.__pwned||[]).push('{tag}');alert('{tag}');fetch('{remote}/{tag}')"


def markup(tag, remote):
    "HTML that runs a script in two ways"
    return f'<img src=x onerror="{script(tag, remote)}"><script>{script(tag + "-script", remote)}</script>'


def hostile_html(remote):
    "Return HTML outputs that try to run code, fetch, navigate, or leave their frame"
    js, tag = (lambda name: script(name, remote)), (lambda name: markup(name, remote))
    press = lambda target: f'<a target={target} href="{remote}/{target}">press</a>'
    quoted = js('srcdoc').replace('"', '&quot;')
    return [
        f'<script>{js("script")}</script>',
        tag('onerror'),
        f'<script src="{remote}/x.js"></script><link rel=stylesheet href="{remote}/x.css">'
        f'<img src="{remote}/x.png" srcset="{remote}/y.png 2x">'
        f'<video poster="{remote}/z.png" src="{remote}/v"></video>',
        f'<meta http-equiv=refresh content="0;url={remote}/refresh">',
        '<meta http-equiv="refresh" content="0;url=data:text/html,<script>alert(1)</script>">',
        f'<script>location="{remote}/location"</script><body onload="top.location=\'{remote}/top\'">',
        f'<iframe src="javascript:{js("frame")}"></iframe><iframe srcdoc="<script>{quoted}</script>"></iframe>',
        f'<iframe src="{remote}/f"></iframe>',
        f'<form action="{remote}/form" target=_top><input name=documentElement autofocus onfocus="{js("focus")}">'
        '<button>press</button></form>',
        f'<form action="javascript:{js("formjs")}"><button>press</button></form>',
        f'<a href="javascript:{js("anchor")}">press</a>' + ''.join(map(press, ('_top', '_parent', '_self', '_blank'))),
        f'<svg onload="{js("svg")}"><script>{js("svgscript")}</script>'
        f'<image href="{remote}/i.png"/><use href="{remote}/u.svg#x"/>'
        f'<a xlink:href="javascript:{js("svga")}"><text y=20>press</text></a>'
        f'<animate onbegin="{js("begin")}" attributeName=x dur=1s>'
        f'<a><set attributeName="h&#114;ef" to="{remote}/set"/><text y=40>press</text></a></svg>',
        f'<object data="{remote}/o"></object><embed src="{remote}/e">',
        '<object data="data:text/html,<script>alert(2)</script>"></object>',
        f'<style>@import "{remote}/s.css"; body {{ background: url({remote}/bg.png) }}'
        f'@font-face {{ font-family: f; src: url({remote}/f) }}</style>'
        '<p style="font-family: f">x',
        f'<link rel=preconnect href="{remote}"><link rel=dns-prefetch href="{remote}">'
        f'<link rel=prefetch href="{remote}/p">'
        f'<link rel=preload as=image href="{remote}/q"><LINK rel="icon" href="{remote}/icon">',
        f'<base href="{remote}/"><img src=base.png><a href=x>press</a>',
        f'<details open ontoggle="{js("toggle")}"><summary>x</summary></details>',
        f'<marquee onstart="{js("start")}">x</marquee>',
        f'"></iframe></div></main>{tag("breakout")}\'></iframe>{tag("breakout2")}',
        f'<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror={js("math")}&gt;">'
        f'{tag("math2")}',
        f'<template>{tag("template")}</template><noscript><p title="</noscript>{tag("noscript")}">',
        f'<!--><img src=x onerror="{js("comment")}">-->',
    ]


def hostile_svg(remote):
    "Return an SVG image that tries to run code and fetch"
    js = lambda name: script(name, remote)
    return (
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="40" height="40" '
        f'onload="{js("svgfile")}"><script>{js("svgfile2")}</script>'
        f'<image xlink:href="{remote}/svg.png" width="9" height="9"/><foreignObject width="9" height="9">'
        f'<body xmlns="http://www.w3.org/1999/xhtml"><img src="x" onerror="{js("foreign")}"/>'
        '</body></foreignObject></svg>'
    )


def hostile_markdown(remote):
    "Return Markdown that tries to run code and fetch"
    js, tag = (lambda name: script(name, remote)), (lambda name: markup(name, remote))
    return '\n\n'.join(
        [
            tag('markdown'),
            f'**a** {tag("inline")} [press](javascript:{js("md")})',
            '<javascript:alert(4)> [r] ![r]',
            '[press](java&#115;cript:alert(3)) [press](&#1;javascript:alert(3)) [press](<java\tscript:alert(3)>)',
            '[press](data:text/html,<script>alert(3)</script>) [press](vbscript:alert(3))',
            f'![a" onerror="{js("alt")}]({remote}/md.png "t\' onerror=\'alert(5)")',
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


def hostile_figures(remote):
    "Return Plotly figures whose texts, links and images try to run code and fetch"
    tag = lambda name: markup(name, remote)
    link = f'<a href="javascript:{script("plotlink", remote)}">press</a><a href="{remote}/plot">press</a>'
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
    picture = lambda name: dict(source=f'{remote}/{name}.png', x=0, y=1, sizex=1, sizey=1)
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
    "Return cells and metadata that try to run code, fetch or navigate in every field of a notebook"
    remote = f'http://127.0.0.1:{port}'
    js, tag = (lambda name: script(name, remote)), (lambda name: markup(name, remote))
    markdown, svg = hostile_markdown(remote), hostile_svg(remote)
    bundles = [{'text/html': h} for h in hostile_html(remote)] + [
        {'image/svg+xml': svg},
        {'text/html': svg},
        {'text/markdown': markdown},
        {'text/latex': tag('latex'), 'application/javascript': js('javascript'), 'text/plain': tag('plain')},
        {'image/png': f'aGk=" onerror="{js("png")}', 'text/plain': f'" onerror="{js("pngalt")}'},
        {'image/jpeg': 'aGk=', 'text/plain': f'" onerror="{js("jpegalt")}'},
        *({'application/vnd.plotly.v1+json': f} for f in hostile_figures(remote)),
    ]
    printed = [
        new_output('stream', text=f'{tag("stream")}\x1b[31m{tag("ansi")}\x1b["><script>alert(8)</script>m'),
        new_output('error', ename=tag('ename'), evalue=tag('evalue'), traceback=[tag('traceback')]),
    ]
    attachments = {
        'a.png': {'image/png" onerror="alert(9)': 'aGk='},
        'b.png': {'image/png': '"><script>alert(10)</script>'},
    }
    parameters_code = f"a: str = '{tag('default')}'  # \"{tag('help')}"
    cells = [
        new_markdown_cell(f'# {tag("heading")}\n\n{markdown}', attachments=attachments),
        new_code_cell(parameters_code, metadata=dict(tags=['parameters'])),
        new_code_cell(
            f'"""</pre></details>{tag("code")}"""', outputs=[new_output('display_data', b) for b in bundles] + printed
        ),
        new_raw_cell(tag('raw')),
    ]
    parameters = {tag('key'): tag('value'), 'b': {tag('deep'): 1}}
    return cells, dict(papermill=dict(parameters=parameters, start_time=tag('start'), duration=1.5))


# JavaScript: what a user can click, in the page and in its frames; links of the page to the web are allowed
CLICKABLE = '''() => {
  const own = 'a:not([href^=http]), header button', stored = 'a, button, input, summary, svg text';
  const found = [...document.querySelectorAll(own)];
  for (const f of document.querySelectorAll('iframe'))
    if (f.contentDocument) found.push(...f.contentDocument.querySelectorAll(stored));
  return found;
}'''
# JavaScript: click an element by script, and return its position for the mouse
CLICK = '''thing => {
  if (!thing || !thing.isConnected) return null;
  thing.scrollIntoView({ block: 'center' });
  const a = thing.getBoundingClientRect(), view = thing.ownerDocument.defaultView, frame = view && view.frameElement;
  const b = frame ? frame.getBoundingClientRect() : { x: 0, y: 0 };
  thing.click && thing.click();
  return [a.x + b.x + a.width/2, a.y + b.y + a.height/2];
}'''


@pytest.fixture
def server():
    "A port that records its connections, and the list of these"
    connections = []
    listener = socket.create_server(('127.0.0.1', 0))

    def answer():
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            connections.append(connection.getpeername())
            connection.close()

    threading.Thread(target=answer, daemon=True).start()
    yield listener.getsockname()[1], connections
    listener.close()


def visit(path, browser):
    "Open a page from disk and click everything clickable; return what ran, what was requested, and where it navigated"
    seen = dict(requested=[], refused=[], dialogs=[], navigated=[], opened=[])
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(60_000)
    context.on('request', lambda r: seen['requested'].append(r.url))
    context.on('requestfailed', lambda r: seen['refused'].append((r.url, r.failure)))
    context.on('page', lambda q: seen['opened'].append(q.url))
    page.on('download', lambda d: seen['opened'].append(d.url))
    page.on('dialog', lambda d: (seen['dialogs'].append(d.message), d.dismiss()))
    page.on('framenavigated', lambda f: seen['navigated'].append(f.url))
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
    for i in range(page.evaluate(f'({CLICKABLE})().length')):
        point = page.evaluate(f'i => ({CLICK})(({CLICKABLE})()[i])', i) if page.url == path.as_uri() else None
        if point:
            page.mouse.click(*point)
    page.wait_for_timeout(1000)
    seen |= dict(url=page.url, frames=[f.url for f in page.frames], headings=page.locator('h1').count())
    seen['pwned'] = page.evaluate('window.__pwned || []')
    context.close()
    return seen


@pytest.mark.browser
def test_page_of_a_hostile_notebook_runs_and_fetches_nothing(server, browser, tmp_path):
    '''In the page of a hostile notebook no script runs, nothing is fetched, and nothing navigates.

    The browser refuses every request that it sees. No connection arrives either: `<link rel=preconnect>` and refused
    frames connect without a request. The page and its frames stay, links lead to the web, figures draw and have no
    links, and frames have a height.
    '''
    port, connections = server
    cells, metadata = hostile_notebook(port)
    path = to_html(write(tmp_path / 'hostile.ipynb', *cells, **metadata), tmp_path / 'hostile.html')
    seen = visit(path, browser)
    page = path.as_uri()
    assert seen['pwned'] == [] and seen['dialogs'] == []
    refused = {page, *(u for u, reason in seen['refused'] if reason in ('csp', 'origin'))}
    assert [u for u in seen['requested'] if u not in refused and not u.startswith(('data:', 'blob:'))] == []
    assert connections == []
    assert seen['url'] == page and seen['opened'] == []
    assert {u.partition('#')[0] for u in seen['navigated'] + seen['frames']} <= {
        page,
        'about:srcdoc',
        'about:blank',
        '',
    }
    assert seen['hrefs'] and all(re.match('https?://', h) for h in seen['hrefs']) and seen['plotlinks'] == 0
    assert seen['drawn'] == 2 and seen['headings'] == 1
    assert len(seen['sizes']) > 15 and all(0 < h <= 20_000 for h in seen['sizes'])
