"""Layout and import rules of the repository.

Each rule is a function that takes a root folder and yields complaints, so that faults can be planted in a small tree.
"""

import ast, configparser, hashlib, importlib.util, json, re, subprocess, sys, tokenize
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
ROOMS = [
    'core',
    'envs',
    'data',
    'encoders',
    'memories',
    'agents',
    'evaluate',
    'figures',
    'widgets',
    'studies',
]  # the packages of srlviz; their folders in nbs are numbered in this order
ALLOWED_IMPORTS = {
    'core': [],
    'envs': ['core'],
    'data': ['core', 'envs'],
    'encoders': ['core'],
    'memories': ['core'],
    'agents': ['core'],
    'evaluate': ['core', 'agents'],
    'figures': ['core'],
    'widgets': ['core', 'agents', 'evaluate', 'figures'],
    'studies': ROOMS,
}
# written manually: __init__.py of packages that register tasks or keep published names importable, and the entry point
# of python -m srlviz
HANDWRITTEN = {Path('srlviz/__main__.py')} | {
    Path('srlviz') / f'{package}__init__.py'
    for package in ('', 'core/storage/', 'envs/', 'envs/pomdp/', 'envs/landing/', 'data/landing/')
}
STRAY_NAME = re.compile(r'^Untitled|-Copy\d*\.ipynb$')
TEXT_SUFFIXES = {
    '.py',
    '.ipynb',
    '.md',
    '.toml',
    '.ini',
    '.txt',
    '.js',
    '.css',
    '.csv',
    '.json',
    '.cfg',
    '.yml',
    '.yaml',
    '',
}
# written in pieces, so that this file does not break the rule
MACHINE_PATH = re.compile(
    '|'.join(
        [
            r'\.\./' + r'shared\b',
            '(?<![A-Za-z0-9_.])/wor' + r'k/\w',
            '/hom' + r'e/\w',
            '/roo' + r't/\w',
            '/User' + r's/\w',
            r'[A-Z]:\\+User' + 's',
        ]
    )
)


def rooms(root):
    return [(n, root / f'nbs/{i:02d}_{n}') for i, n in enumerate(ROOMS) if (root / f'nbs/{i:02d}_{n}').is_dir()]


@cache
def parse(text: str) -> ast.Module:
    "The syntax tree of a module, which no rule changes"
    return ast.parse(text)


def notebooks(root):
    return [
        (room, p) for room, d in rooms(root) for p in sorted(d.rglob('*.ipynb')) if '.ipynb_checkpoints' not in p.parts
    ]


def cells(path, kind='code'):
    return [c for c in json.loads(path.read_text(encoding='utf-8'))['cells'] if c['cell_type'] == kind]


def source(cell):
    return ''.join(cell['source'])


def directive(text, name):
    return re.search(rf'^#\s*\|\s*{name}\b:?[ \t]*(.*)$', text, re.M)


def target(path):
    return next((m[1].strip() for c in cells(path) if (m := directive(source(c), 'default_exp'))), None)


def modules(root):
    return sorted(p for p in (root / 'srlviz').rglob('*.py') if p.name != '_modidx.py')


def imported(text: str, package: list[str]) -> set[str]:
    """Return the rooms that code imports, at any level.

    `package` is the package of the code, for relative imports.
    """
    text = '\n'.join('' if re.match(r'[%!]', line) else line for line in text.splitlines())
    names = set()
    for node in ast.walk(parse(text)):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = '.'.join(base + ([node.module] if node.module else []))
            names |= {f'{base}.{a.name}' for a in node.names}
    return {n.split('.')[1] for n in names if n.startswith('srlviz.') and n.split('.')[1] in ROOMS}


def imports(root):
    "A room imports only what ALLOWED_IMPORTS lists; the root package imports only studies."
    for p in modules(root):
        package = ['srlviz', *p.relative_to(root / 'srlviz').parent.parts]
        if len(package) == 1:
            allowed = {'studies'}
        else:
            allowed = {package[1], *ALLOWED_IMPORTS.get(package[1], [])}
        for room in sorted(imported(p.read_text(encoding='utf-8'), package) - allowed):
            yield f'{p.relative_to(root)} imports {room}'


def module_name(root: Path, path: Path) -> str:
    "Return the name of a module: srlviz.core.files for srlviz/core/files.py, the package for its __init__.py."
    return '.'.join(path.relative_to(root).with_suffix('').parts).removesuffix('.__init__')


def imported_modules(root: Path, path: Path, names: set[str]) -> set[str]:
    "Return the modules among `names` that a module imports, at any level."
    package = list(path.relative_to(root).parent.parts)
    found = set()
    for node in ast.walk(parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = '.'.join(package[: len(package) + 1 - node.level]) if node.level else ''
            base = f'{base}.{node.module or ""}'.strip('.')
            found |= {f'{base}.{a.name}' if f'{base}.{a.name}' in names else base for a in node.names}
    return found & names - {module_name(root, path)}


def cycles(root):
    "There are no import cycles."
    paths = {module_name(root, p): p for p in modules(root)}
    graph = {name: imported_modules(root, p, {*paths}) for name, p in paths.items()}
    while free := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in free}
    for name, needs in sorted(graph.items()):
        yield f"{name} is in an import cycle, or imports from one: {', '.join(sorted(needs & graph.keys()))}"


def examples(root):
    "Example cells import only rooms with a smaller number."
    for room, p in notebooks(root):
        for c in cells(p):
            if directive(source(c), 'exports?') or directive(source(c), 'exporti'):
                continue
            for other in sorted(imported(source(c), [])):
                if ROOMS.index(other) > ROOMS.index(room):
                    yield f'{p.relative_to(root)} imports {other}: {source(c)[:60]!r}'


def mirror(root):
    "Each notebook of a room exports the module of its path, such as srlviz.encoders.contrast, and no other does."
    for room, p in notebooks(root):
        expected = f'{room}.' + '.'.join(
            re.sub(r'^\d\d_', '', part) for part in p.relative_to(root / 'nbs').with_suffix('').parts[1:]
        )
        if not re.match(r'\d\d_[a-z]\w*$', p.stem):
            yield f'{p.relative_to(root)} is not named NN_name'
        if target(p) != expected:
            yield f'{p.relative_to(root)} exports {target(p)}, not {expected}'
        elif not (root / 'srlviz' / (expected.replace('.', '/') + '.py')).exists():
            yield f'{p.relative_to(root)} was never exported'
    room_notebooks = [p for _, p in notebooks(root)]
    for p in (root / 'nbs').rglob('*.ipynb'):
        if p not in room_notebooks and target(p):
            yield f'{p.relative_to(root)} exports {target(p)} but is in no room'
    for d in (root / 'nbs').iterdir():
        if d.is_dir() and re.match(r'\d', d.name) and d not in [r for _, r in rooms(root)]:
            yield f'nbs/{d.name} is not a room'


def orphans(root):
    """Every module names an existing notebook.

    Only the modules in HANDWRITTEN and the scripts of widgets are written manually.
    """
    for p in modules(root):
        text, name = p.read_text(encoding='utf-8'), p.relative_to(root)
        m = re.search(r'^# AUTOGENERATED! DO NOT EDIT! File to edit: (.+?)\.?$', text, re.M)
        if (
            m
            and not (p.parent / m[1]).exists()
            and not (root / 'srlviz' / m[1]).exists()
            and not (root / 'nbs' / m[1]).exists()
        ):
            yield f'{name} is exported from {m[1]}, which does not exist'
        if not m and name not in HANDWRITTEN and text.strip():
            yield f'{name} was written manually'


def stray(root):
    "There are no Untitled or copied notebooks, and none outside nbs/."
    for p in root.rglob('*.ipynb'):
        parts = p.relative_to(root).parts
        if any(
            x.startswith(('.', '_')) or x in ('runs', 'build', 'dist', 'artefacts', 'node_modules') for x in parts[:-1]
        ):
            continue
        if STRAY_NAME.search(p.name) or parts[0] != 'nbs':
            yield str(p.relative_to(root))


def outputs(root):
    "Room notebooks have no outputs."
    for _, p in notebooks(root):
        if any(c.get('outputs') or c.get('execution_count') for c in cells(p)):
            yield f'{p.relative_to(root)} has outputs'


def settings(root):
    ini = configparser.ConfigParser(delimiters=['='])
    ini.read(root / 'settings.ini', encoding='utf-8')
    return ini['DEFAULT']


def version(root):
    "Citation and changelog have the version of srlviz/__init__.py, and settings.ini has none."
    expected = re.search(r'__version__\s*=\s*["\'](.+?)["\']', (root / 'srlviz/__init__.py').read_text())[1]
    if 'version' in settings(root):
        yield 'settings.ini also has a version'
    cited = re.search(r'^version: (.+)$', (root / 'CITATION.cff').read_text(encoding='utf-8'), re.M)[1]
    newest = re.search(r'^## \[([0-9].*?)\]', (root / 'CHANGELOG.md').read_text(encoding='utf-8'), re.M)[1]
    for name, found in {'CITATION.cff': cited, 'CHANGELOG.md': newest}.items():
        if found != expected:
            yield f'{name} has version {found}, srlviz.__version__ is {expected}'


def notice(root):
    "NOTICE names every shipped data file or its folder, and every vendored script with its checksum."
    words = set(
        re.split(r'[\s,;()]+', (root / 'NOTICE').read_text(encoding='utf-8').replace('. ', ' ').replace('.\n', ' '))
    )
    for p in tracked(root):
        name = p.relative_to(root)
        if name.parts[0] == 'data_samples':
            folders = [f.as_posix() for f in name.parents if len(f.parts) > 1]
            if not words & {name.as_posix(), *folders}:
                yield f'NOTICE does not name {name.as_posix()}'
        elif 'vendor' in name.parts:
            if not {name.as_posix(), hashlib.sha256(p.read_bytes()).hexdigest()} <= words:
                yield f'NOTICE does not name {name.as_posix()} with its current checksum'


def lock(root):
    "The lock pins every requirement within its range, for each Python and by checksum, and names no package index."
    lines = []
    for file, hashes in {'lock': r'(\s+--hash=sha256:[0-9a-f]{64})+', 'torch': ''}.items():
        for line in (root / f'requirements-{file}.txt').read_text().replace('\\\n', ' ').splitlines():
            line = line.strip()
            if not line or line.startswith('#'):
                continue
            if not re.fullmatch(r'[A-Za-z0-9._-]+==[A-Za-z0-9.]+( ; .+?)?' + hashes, line):
                yield f'{line[:200]!r} of requirements-{file}.txt is not a pinned requirement'
            if file == 'torch' and not line.startswith('torch=='):
                yield f'only torch may have no checksums; got {line!r}'
            lines.append(line.partition(' --hash')[0].strip())
    pins, python = {}, {}
    for line in lines:
        pin, _, marker = line.partition(' ; ')
        name, _, version = pin.partition('==')
        pins.setdefault(canonicalize_name(name), []).append(version)
        python.setdefault(canonicalize_name(name), []).append(marker)
    for text in (settings(root)['requirements'] + ' ' + settings(root)['dev_requirements']).split():
        req = Requirement(text)
        found = pins.get(canonicalize_name(req.name), [])
        if not found:
            yield f'{req.name} is not in the lock'
        if len(found) == 1 and python[canonicalize_name(req.name)] != ['']:
            yield f'{req.name} is in the lock only for some Pythons'
        for pin in found:
            if not req.specifier.contains(pin, prereleases=True):
                yield f'the lock has {req.name}=={pin}, settings.ini requires {text}'


def tool(name):
    "Load a script of .ci as a module."
    spec = importlib.util.spec_from_file_location(name, ROOT / f'.ci/{name}.py')
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    return script


def pictures(root):
    "Tutorials and studies have pictures of their current code."
    yield from tool('pictures').stale(root)


def readme(root):
    "README.md is generated from nbs/index.ipynb."
    if (root / 'README.md').read_text(encoding='utf-8') != tool('sync').readme(root):
        yield 'README.md is not what nbs/index.ipynb generates: make readme'


def blocks(root):
    "A notebook shows the last line of a cell: a block of README or a guide that opens a widget ends with it."
    for p in [root / 'README.md', *sorted((root / 'docs/guides').glob('*.md'))]:
        for block in re.findall('```python\n(.*?)```', p.read_text(encoding='utf-8'), re.S):
            for line in block.splitlines()[:-1]:
                if re.match(r'(srlviz|\w+)\.explore\(', line):
                    yield f'{p.relative_to(root)}: not the last line of its block: {line[:60]}'


def tracked(root):
    "Return the files that git tracks or would add; all files where there is no repository."
    r = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=root, capture_output=True, text=True)
    if r.returncode == 0:
        found = [root / f for f in r.stdout.splitlines()]
    else:
        found = [p for p in root.rglob('*') if not any(x.startswith('.') for x in p.relative_to(root).parts)]
    return [p for p in found if p.is_file()]


def machine_paths(root):
    "No text file has a path of one machine."
    for p in tracked(root):
        if p.suffix not in TEXT_SUFFIXES or p.stat().st_size > 5e6:
            continue
        for i, line in enumerate(p.read_text(encoding='utf-8', errors='replace').splitlines(), 1):
            if m := MACHINE_PATH.search(line):
                yield f'{p.relative_to(root)}:{i}: {m[0]}'


HTML_NAMES = {
    'HTML',
    'HTMLMath',
    'Markdown',
    'Latex',
    'Javascript',
    'IFrame',
    'description_allow_html',
    '_repr_html_',
    '__html__',
}
HTML_SETTERS = re.compile(
    r'(?i)(inner|outer|adjacent|set)html|document\.write|srcdoc|createContextualFragment|DOMParser|\beval\('
)


def is_literal(node) -> bool:
    "Whether a node is a string literal, or a choice between string literals."
    if isinstance(node, ast.IfExp):
        return is_literal(node.body) and is_literal(node.orelse)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def markup(root):
    """Text becomes markup only in the class SafeHTML of widgets/base.py.

    A Markup has string literals as arguments, and no script sets HTML.
    """
    for p in modules(root):
        if p.relative_to(root / 'srlviz').parts[0] not in ('figures', 'widgets'):
            continue
        nodes = list(ast.walk(parse(p.read_text(encoding='utf-8'))))
        name = p.relative_to(root)
        bases_of_safe_html = []
        for n in nodes:
            if isinstance(n, ast.ClassDef) and (p.name, n.name) == ('base.py', 'SafeHTML'):
                bases_of_safe_html += n.bases
        for n in nodes:
            used = getattr(n, 'attr', getattr(n, 'id', getattr(n, 'arg', getattr(n, 'name', ''))))
            if used in HTML_NAMES and n not in bases_of_safe_html:
                yield f'{name}: {used} instead of SafeHTML of widgets/base.py'
            if isinstance(n, ast.Call) and ast.unparse(n.func).endswith('Markup') and not all(map(is_literal, n.args)):
                yield f'{name}: {ast.unparse(n)[:80]} has arguments that are not string literals'
    for p in sorted((root / 'srlviz').rglob('*.js')):
        for i, line in enumerate(p.read_text(encoding='utf-8').splitlines(), 1):
            if m := HTML_SETTERS.search(line):
                yield f'{p.relative_to(root)}:{i}: {m[0]}'


PROCESSES = re.compile(
    r'\b(multiprocessing|ProcessPoolExecutor|getppid|get_memmapping_executor|get_reusable_executor|Popen|os\.fork)\b'
)


def processes(root):
    "Only core/jobs/workers starts processes and watches parents; studies/sandbox starts those of third-party code."
    for p in modules(root):
        if p.relative_to(root).as_posix() in ('srlviz/core/jobs/workers.py', 'srlviz/studies/sandbox.py'):
            continue
        for i, line in enumerate(p.read_text(encoding='utf-8').splitlines(), 1):
            if m := PROCESSES.search(line):
                yield f'{p.relative_to(root)}:{i}: {m[0]}; use pool of srlviz.core.jobs.workers'


def warnings(root):
    "Only core/warn calls `warnings.warn`; the others call its `warn`, which names the line of the user."
    for p in modules(root):
        if p.relative_to(root) == Path('srlviz/core/warn.py'):
            continue
        for i, line in enumerate(p.read_text(encoding='utf-8').splitlines(), 1):
            if 'warnings.warn' in line:
                yield f'{p.relative_to(root)}:{i}: use warn of srlviz.core.warn'


MIN_ASSERTING = 0.9  # asserting cells per exporting cell
WIDGETS = 'widgets'  # has tests in a browser
BLANK_TOKENS = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def export_cells(root):
    "Yield (room, path, text) of every exporting cell."
    for room, p in notebooks(root):
        for c in cells(p):
            if directive(source(c), 'exports?') or directive(source(c), 'exporti'):
                yield room, p, source(c)


def asserting_cells(root):
    "Yield (room, path) of every visible cell with an assertion."
    for room, p in notebooks(root):
        for c in cells(p):
            text = source(c)
            is_visible = not any(directive(text, d) for d in ('exports?', 'exporti', 'hide'))
            if is_visible and re.search(r'^\s*(assert\b|assert_\w+\(|with pytest\.raises|check_\w+\()', text, re.M):
                yield room, p


def statistics(root) -> dict[str, dict]:
    "Return by room: exporting cells, tokens per line, share of definitions called once, public names, asserting cells."
    found, uses = {}, Counter()
    trees = {p: parse(p.read_text(encoding='utf-8')) for p in modules(root)}
    for tree in trees.values():
        uses.update(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
        uses.update(n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute))
    exporting = Counter(room for room, *_ in export_cells(root))
    asserting = Counter(room for room, _ in asserting_cells(root))
    for room in ROOMS:
        n_cells = exporting[room]
        if not n_cells:
            continue
        tokens, lines, defined, public = 0, 0, [], 0
        for p, tree in trees.items():
            if p.relative_to(root / 'srlviz').parts[0] != room:
                continue
            with p.open(encoding='utf-8') as text:
                code = [t for t in tokenize.generate_tokens(text.readline) if t.type not in BLANK_TOKENS]
            tokens, lines = tokens + len(code), lines + len({t.start[0] for t in code})
            defined += [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            public += sum(
                not n.name.startswith('_') for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)
            )
        once = sum(uses[name] == 1 for name in defined) / max(len(defined), 1)
        found[room] = dict(cells=n_cells, tokens=tokens / max(lines, 1), once=once, public=public)
        found[room]['asserting'] = asserting[room] / n_cells
    return found


def directives(root):
    "Exported modules have no nbdev directives; two merged cells would leave one."
    for p in modules(root):
        for i, line in enumerate(p.read_text(encoding='utf-8').splitlines(), 1):
            if re.match(r'\s*#\s*\|', line):
                yield f'{p.relative_to(root)}:{i}: {line.strip()}'


def assertions(root):
    "Exporting cells are followed by examples with assertions."
    counted = set(ROOMS) - {WIDGETS}
    n_exporting = sum(room in counted for room, *_ in export_cells(root))
    n_asserting = sum(room in counted for room, _ in asserting_cells(root))
    rate = n_asserting / max(n_exporting, 1)
    if rate < MIN_ASSERTING:
        yield f'{rate:.2f} asserting cells per exporting cell'


def subclasses(root):
    "No class serves only as the base of a single other class, which would be one class cut in two."
    children_of, n_uses, paths = {}, {}, {}
    for p in modules(root):
        tree = parse(p.read_text(encoding='utf-8'))
        for n in ast.walk(tree):
            if isinstance(n, ast.ClassDef):
                paths[n.name] = p.relative_to(root)
                for b in n.bases:
                    children_of.setdefault(ast.unparse(b).split('.')[-1], []).append(n.name)
        in_bases = {id(x) for n in ast.walk(tree) if isinstance(n, ast.ClassDef) for b in n.bases for x in ast.walk(b)}
        for n in ast.walk(tree):
            if isinstance(n, ast.Name) and id(n) not in in_bases:
                n_uses[n.id] = n_uses.get(n.id, 0) + 1
    siblings = {child for children in children_of.values() if len(children) > 1 for child in children}
    for name, children in children_of.items():
        if name in paths and len(children) == 1 and not n_uses.get(name) and name not in siblings:
            yield f'{paths[name]}: {name} has one subclass, {children[0]}, and no other use'


RULES = [
    imports,
    cycles,
    examples,
    mirror,
    orphans,
    stray,
    outputs,
    pictures,
    version,
    notice,
    lock,
    readme,
    blocks,
    machine_paths,
    markup,
    processes,
    warnings,
    directives,
    assertions,
    subclasses,
]


@pytest.mark.parametrize('rule', RULES, ids=lambda r: r.__name__)
def test_the_repository_follows_the_rule(rule):
    assert list(rule(ROOT)) == []


def test_statistics_cover_every_room(capsys):
    "Statistics of the code are printed; the rule `assertions` limits the last column."
    found = statistics(ROOT)
    with capsys.disabled():
        print('\nroom       cells  tokens a line  called once  public names  asserting cells a cell')
        for room, f in found.items():
            print(f"{room:9} {f['cells']:6} {f['tokens']:14.1f} {f['once']:12.0%} {f['public']:13}", end='')
            print(f"{f['asserting']:24.2f}")
    assert set(found) == {room for room, _ in rooms(ROOT)}


def test_dir_lists_lazy_names():
    "Names that are imported on first use are in dir(srlviz), for completion by Tab."
    code = 'import sys, srlviz; print("probe" in dir(srlviz), "__version__" in dir(srlviz), "torch" in sys.modules)'
    assert subprocess.check_output([sys.executable, '-c', code], text=True).split() == ['True', 'True', 'False']


def test_import_loads_no_heavy_packages():
    code = 'import sys, srlviz; print([m for m in ("torch", "pandas", "numpy", "plotly") if m in sys.modules])'
    assert subprocess.check_output([sys.executable, '-c', code], text=True).strip() == '[]'


# ---- the same rules on a small repository, without faults and with each fault planted once


STUDY = 'nbs/studies/one.ipynb'


def write_notebook(path, *sources, outputs=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    nb_cells = []
    for i, text in enumerate(sources):
        cell = dict(cell_type='code', id=f'c{i}', metadata={}, source=text)
        if text.startswith('# '):
            cell['cell_type'] = 'markdown'
        else:
            cell |= dict(outputs=list(outputs), execution_count=None)
        nb_cells.append(cell)
    path.write_text(json.dumps(dict(cells=nb_cells, metadata={}, nbformat=4, nbformat_minor=5)))


def write_module(path, exported_from, code=''):
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / '__init__.py').touch()
    header = f'# AUTOGENERATED! DO NOT EDIT! File to edit: {exported_from}.\n' if exported_from else ''
    path.write_text(header + code)


@pytest.fixture
def repository(tmp_path):
    "A small repository that follows every rule."
    write_notebook(
        tmp_path / 'nbs/00_core/01_recordings.ipynb',
        '#| default_exp core.recordings',
        '#| export\nclass Episode: pass',
        'assert Episode()',
    )
    write_notebook(
        tmp_path / 'nbs/03_encoders/03_contrast.ipynb',
        '#| default_exp encoders.contrast',
        '#| export\nfrom srlviz.core.recordings import Episode',
        'from srlviz.data.atari import x\n%time x\nassert x',
    )
    write_notebook(tmp_path / 'nbs/studies/one.ipynb', 'import srlviz')
    metadata = dict(srlviz=dict(pictures=tool('pictures').fingerprint(json.loads((tmp_path / STUDY).read_text()))))
    edit(tmp_path, STUDY, '"metadata": {}, "nbformat"', f'"metadata": {json.dumps(metadata)}, "nbformat"')
    write_notebook(tmp_path / 'nbs/index.ipynb', '# srlviz\n\nIn one line.')
    write_module(tmp_path / 'srlviz/core/recordings.py', '../../nbs/00_core/01_recordings.ipynb')
    write_module(
        tmp_path / 'srlviz/encoders/contrast.py',
        '../../nbs/03_encoders/03_contrast.ipynb',
        'from ..core.recordings import Episode\nfrom .frames import f\nimport numpy.data\n',
    )
    (tmp_path / 'srlviz/__init__.py').write_text('__version__ = "0.1.0"\n')
    script = hashlib.sha256(b'').hexdigest()
    (tmp_path / 'NOTICE').write_text(
        f'Ours: data_samples/one.csv, data_samples/flights (all)\nTheirs: srlviz/widgets/vendor/x.js, {script}.\n'
    )
    for name in ('data_samples/one.csv', 'data_samples/flights/meta/two.csv', 'srlviz/widgets/vendor/x.js'):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text('')
    (tmp_path / 'CITATION.cff').write_text('cff-version: 1.2.0\nversion: 0.1.0\n')
    (tmp_path / 'CHANGELOG.md').write_text('# Changelog\n\n## [0.1.0] - 2026-11-24\n\n## [0.0.1]\n')
    (tmp_path / 'settings.ini').write_text(
        '[DEFAULT]\nrequirements = numpy>=1.26 scikit_learn>=1 torch>=2\ndev_requirements = nbdev>=3,<4\n'
    )
    checked = f' \\\n    --hash=sha256:{script} \\\n    --hash=sha256:{script}\n'
    pins = ('numpy==2.4.6', 'scikit-learn==1.9.1', 'nbdev==3.3.26')
    (tmp_path / 'requirements-lock.txt').write_text('# a remark\n' + ''.join(pin + checked for pin in pins))
    (tmp_path / 'requirements-torch.txt').write_text('# a remark\ntorch==2.13.0\n')
    (tmp_path / 'README.md').write_text('# srlviz\n\nIn one line.\n')
    return tmp_path


def test_a_repository_without_faults_follows_all_rules(repository):
    assert [complaint for rule in RULES for complaint in rule(repository)] == []


def edit(root, name, old, new):
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


def write_widget(root, code, name='board'):
    write_module(root / f'srlviz/widgets/{name}.py', '../../nbs/00_core/01_recordings.ipynb', code)


FAULTS = {
    'upward import': (
        imports,
        lambda r: edit(r, 'srlviz/encoders/contrast.py', 'from .frames', 'from ..widgets.frame_browser'),
    ),
    'import in a function': (
        imports,
        lambda r: edit(
            r, 'srlviz/core/recordings.py', '\n', '\ndef f():\n    import srlviz.envs.atari as a\n    return a\n'
        ),
    ),
    'room from package': (
        imports,
        lambda r: edit(r, 'srlviz/encoders/contrast.py', 'from .frames import f', 'from .. import evaluate'),
    ),
    'room in the root': (imports, lambda r: edit(r, 'srlviz/__init__.py', '\n', '\nfrom .core import recordings\n')),
    'two modules import each other': (
        cycles,
        lambda r: edit(r, 'srlviz/core/recordings.py', '\n', '\ndef f():\n    from ..encoders import contrast\n'),
    ),
    'example looks ahead': (
        examples,
        lambda r: edit(
            r, 'nbs/00_core/01_recordings.ipynb', '"assert Episode()"', '"from srlviz.envs.atari import AtariFactors"'
        ),
    ),
    'path does not mirror': (
        mirror,
        lambda r: edit(r, 'nbs/00_core/01_recordings.ipynb', 'core.recordings', 'core.episodes'),
    ),
    'no default_exp': (
        mirror,
        lambda r: edit(r, 'nbs/00_core/01_recordings.ipynb', '#| default_exp core.recordings', '1'),
    ),
    'never exported': (mirror, lambda r: (r / 'srlviz/core/recordings.py').unlink()),
    'no number': (mirror, lambda r: (r / 'nbs/00_core/01_recordings.ipynb').rename(r / 'nbs/00_core/recordings.ipynb')),
    'study exports': (
        mirror,
        lambda r: edit(r, 'nbs/studies/one.ipynb', 'import srlviz', '#| default_exp studies.one'),
    ),
    'room with a wrong number': (mirror, lambda r: (r / 'nbs/03_encoders').rename(r / 'nbs/04_encoders')),
    'notebook renamed': (
        orphans,
        lambda r: (r / 'nbs/03_encoders/03_contrast.ipynb').rename(r / 'nbs/03_encoders/04_contrast.ipynb'),
    ),
    'module by hand': (orphans, lambda r: write_module(r / 'srlviz/core/extra.py', '', 'x = 1\n')),
    'untitled': (stray, lambda r: write_notebook(r / 'nbs/tutorials/Untitled3.ipynb')),
    'copy': (stray, lambda r: write_notebook(r / 'nbs/studies/one-Copy1.ipynb')),
    'notebook outside': (stray, lambda r: write_notebook(r / 'scratch.ipynb')),
    'outputs': (
        outputs,
        lambda r: write_notebook(r / 'nbs/00_core/01_recordings.ipynb', '#| default_exp core.recordings', outputs=[{}]),
    ),
    'changed after its pictures': (pictures, lambda r: edit(r, STUDY, 'import srlviz', 'import srlviz.core')),
    'no pictures': (pictures, lambda r: write_notebook(r / STUDY, 'import srlviz')),
    'two versions': (version, lambda r: edit(r, 'settings.ini', '[DEFAULT]', '[DEFAULT]\nversion = 0.1.0')),
    'cited version': (version, lambda r: edit(r, 'CITATION.cff', 'version: 0.1.0', 'version: 0.2.0')),
    'version without changes': (version, lambda r: edit(r, 'srlviz/__init__.py', '0.1.0', '0.2.0')),
    'data of unknown origin': (notice, lambda r: (r / 'data_samples/three.csv').write_text('')),
    'vendored script that changed': (notice, lambda r: (r / 'srlviz/widgets/vendor/x.js').write_text('1')),
    'unknown vendored script': (notice, lambda r: (r / 'srlviz/widgets/vendor/y.js').write_text('')),
    'not in the lock': (lock, lambda r: edit(r, 'requirements-lock.txt', 'nbdev==', 'nbdevs==')),
    'not in the lock for all': (
        lock,
        lambda r: edit(r, 'requirements-lock.txt', 'nbdev==3.3.26', "nbdev==3.3.26 ; python_full_version < '3.12'"),
    ),
    'no checksum': (lock, lambda r: (r / 'requirements-lock.txt').open('a').write('zarr==3.1\n') and None),
    'more than torch': (lock, lambda r: (r / 'requirements-torch.txt').open('a').write('zarr==3.1\n') and None),
    'torch out of range': (lock, lambda r: edit(r, 'requirements-torch.txt', '2.13.0', '1.13.0')),
    'out of range': (lock, lambda r: edit(r, 'requirements-lock.txt', 'numpy==2.4.6', 'numpy==1.24')),
    'lock names an index': (
        lock,
        lambda r: edit(r, 'requirements-lock.txt', '# a remark', '--index-url https://example.org'),
    ),
    'stale README': (readme, lambda r: edit(r, 'README.md', 'one', 'two')),
    'a widget nobody sees': (
        blocks,
        lambda r: edit(r, 'README.md', 'one', '```python\nsrlviz.explore(a)\nsrlviz.explore(b)\n```'),
    ),
    'machine path': (machine_paths, lambda r: edit(r, 'README.md', 'one', 'see /hom' + 'e/me/x')),
    'a process of its own': (
        processes,
        lambda r: edit(r, 'srlviz/encoders/contrast.py', 'import numpy', 'import multiprocessing.pool, numpy'),
    ),
    'a warning at a line of ours': (
        warnings,
        lambda r: edit(
            r, 'srlviz/encoders/contrast.py', 'import numpy', 'import warnings; warnings.warn("x"); import numpy'
        ),
    ),
    'two cells in one': (directives, lambda r: write_widget(r, 'x = 1\n\n\n#| export\ny = 2\n')),
    'HTML beside SafeHTML': (markup, lambda r: write_widget(r, 'import ipywidgets as W\nline = W.HTML("a")\n')),
    'HTML in a view': (
        markup,
        lambda r: write_widget(r, 'import ipywidgets as W\nclass Line(W.HTML): pass\n', 'views'),
    ),
    'HTML in a description': (markup, lambda r: write_widget(r, 'button = W.Button(description_allow_html=True)\n')),
    'Markup of data': (markup, lambda r: write_widget(r, 'def say(name): return Markup(f"<b>{name}</b>")\n')),
    'no example': (assertions, lambda r: edit(r, 'nbs/03_encoders/03_contrast.ipynb', 'assert x', 'x')),
    'one heir': (subclasses, lambda r: write_widget(r, 'class _Half: pass\nclass Whole(_Half): pass\n')),
    'Markup of a name': (markup, lambda r: write_widget(r, 'def say(name): return markupsafe.Markup(name)\n')),
    'script sets HTML': (markup, lambda r: (r / 'srlviz/core/list.js').write_text('node.innerHTML = name;\n')),
    'shared folder': (machine_paths, lambda r: edit(r, 'nbs/index.ipynb', 'In one', 'In ../' + 'shared/')),
}


@pytest.mark.parametrize('fault', FAULTS)
def test_fault_is_caught(fault, repository):
    rule, plant = FAULTS[fault]
    plant(repository)
    assert list(rule(repository))


def unescaped(source: str) -> list[str]:
    "Return the calls that could show text of a user's file as HTML: a Styler, or Markdown or HTML of non-literals."
    found = []
    for node in ast.walk(parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if '.style.' in name or 'Styler' in name:
            found.append(ast.unparse(node))
        has_literals_only = all(isinstance(x, ast.Constant) for x in node.args)
        if name.rpartition('.')[2] in ('Markdown', 'HTML', 'Latex', 'Javascript') and not has_literals_only:
            found.append(ast.unparse(node))
    return found


def test_nothing_is_shown_unescaped():
    for code in ('t.style.format({})', 't.style\\\n.hide()', "Markdown(f'{name}')", 'display(HTML(page))'):
        assert unescaped(code), code
    assert not unescaped("Markdown('**bold**')\nmenu.style.description_width = 'initial'")
    for folder in ('studies', 'tutorials', 'course', '08_widgets'):
        for path in sorted((ROOT / 'nbs' / folder).rglob('*.ipynb')):
            for cell in json.loads(path.read_text(encoding='utf-8'))['cells']:
                if cell['cell_type'] == 'code':
                    assert not unescaped(''.join(cell['source'])), path.name
