"""Build the documentation site in docs/_build/html: python3 .ci/docs.py [--linkcheck]

Environment: PIP_ARGS (more arguments for pip). Sphinx and its theme are in a separate environment, .venv-docs,
because the lock is for packages that run and test srlviz. Notebooks are not executed: the site shows their stored
outputs. A warning, a broken link, or anything that a page would load from another host is an error.
"""

import os, posixpath, re, shlex, subprocess, sys, time, venv
from configparser import ConfigParser
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parents[1]
VENV = ROOT / '.venv-docs'
BUILD = ROOT / 'docs/_build'
TAG = re.compile(r'<(a|link|script|img|iframe|source|video|audio|object|embed|form)\b([^>]*)>')
ATTRIBUTE = re.compile(r'\b(href|src|srcset|data|action|poster)="([^"]*)"')
STYLE = re.compile(r'url\(\s*["\']?([^"\')]+)|@import\s+["\']([^"\']+)')
REMOTE = re.compile(r'(?:https?:)?//', re.I)


def environment() -> Path:
    "Create or update .venv-docs, and return its Python"
    python = VENV / ('Scripts/python.exe' if os.name == 'nt' else 'bin/python')
    ini = ConfigParser(delimiters=['='])
    ini.read(ROOT / 'settings.ini', encoding='utf-8')
    packages = ini['DEFAULT']['docs_requirements'].split()
    stamp = VENV / 'installed.txt'
    content = '\n'.join([str(VENV), *packages])
    if not stamp.is_file() or stamp.read_text() != content:
        print('srlviz: installing Sphinx in .venv-docs', flush=True)
        venv.create(VENV, with_pip=True, clear=True)
        pip = [str(python), '-m', 'pip', 'install', '-q', '--disable-pip-version-check']
        subprocess.run([*pip, *shlex.split(os.environ.get('PIP_ARGS', '')), *packages], check=True)
        stamp.write_text(content)
    return python


def is_remote(target: str) -> bool:
    return bool(REMOTE.match(target))


def problems(html: Path) -> list[str]:
    "Return the errors of built pages: links to missing pages or anchors, and resources of other hosts"
    texts = {p.relative_to(html).as_posix(): p.read_text(encoding='utf-8') for p in html.rglob('*.html')}
    ids = {name: set(re.findall(r'\b(?:id|name)="([^"]+)"', text)) for name, text in texts.items()}
    errors = []
    for name, text in texts.items():
        for tag, attributes in TAG.findall(text):
            for attribute, target in ATTRIBUTE.findall(attributes):
                target = target.replace('&amp;', '&')
                if is_remote(target):
                    if tag != 'a':
                        errors.append(f'{name}: <{tag} {attribute}="{target}"> is loaded from another host')
                    continue
                if re.match(r'[a-z]+:', target, re.I) or (tag, attribute) == ('a', 'data'):
                    continue
                path, _, anchor = target.partition('#')
                path = unquote(path.partition('?')[0])
                linked = posixpath.normpath(posixpath.join(posixpath.dirname(name), path)) if path else name
                if linked not in texts and not (html / linked).is_file():
                    errors.append(f'{name}: {target} does not exist')
                elif anchor and linked in ids and unquote(anchor) not in ids[linked]:
                    errors.append(f'{name}: {target} has no such anchor')
    for style in html.rglob('*.css'):
        for urls in STYLE.findall(style.read_text(encoding='utf-8')):
            errors += [f'{style.name}: {url} is loaded from another host' for url in urls if is_remote(url)]
    return errors


def sphinx(builder: str, out: Path):
    arguments = ['-b', builder, '-q', '-W', '--keep-going', '-j', 'auto', '-d', str(BUILD / 'doctrees')]
    env = os.environ | dict(SRLVIZ_ROOT=str(ROOT))
    command = [sys.executable, '-m', 'sphinx', *arguments, str(BUILD / 'source'), str(out)]
    returncode = subprocess.run(command, env=env).returncode
    if returncode:
        sys.exit(returncode)


def main():
    start = time.time()
    sys.path[:0] = [str(ROOT), str(ROOT / '.ci')]
    import api, pages

    from srlviz.core.glossary import GLOSSARY

    files = pages.site_pages(ROOT)
    try:
        names = pages.assemble(ROOT, BUILD / 'source', GLOSSARY, api.api_pages(ROOT, files))
    except pages.BrokenLink as e:
        sys.exit(str(e))
    pages.clear_if_changed(BUILD, names)
    sphinx('html', BUILD / 'html')
    errors = problems(BUILD / 'html')
    if errors:
        sys.exit('\n'.join(['problems of the built pages:', *sorted(set(errors))]))
    if '--linkcheck' in sys.argv:
        sphinx('linkcheck', BUILD / 'linkcheck')
    size = sum(p.stat().st_size for p in (BUILD / 'html').rglob('*') if p.is_file()) / 2**20
    n = len(list((BUILD / 'html').rglob('*.html')))
    print(f'docs/_build/html/index.html: {n} pages, {size:.0f} MiB, {time.time() - start:.0f} s')


if __name__ == '__main__':
    if Path(sys.prefix).resolve() != VENV.resolve():
        sys.exit(subprocess.run([str(environment()), __file__, *sys.argv[1:]]).returncode)
    main()
