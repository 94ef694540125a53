"""The house rules of the repository.
Every rule is a function of a root folder that returns complaints, so that faults can be planted in a small tree."""

import ast, configparser, hashlib, importlib.util, json, re, subprocess, sys, tokenize
from collections import Counter
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
]  # the number of a room is its place
MAY = {
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
# what a package says for its modules: the tasks register themselves, and published names stay where they were; and the
# door of python -m srlviz
BY_HAND = {Path('srlviz/__main__.py')} | {
    Path('srlviz') / f'{package}__init__.py'
    for package in ('', 'core/storage/', 'envs/', 'envs/pomdp/', 'envs/landing/', 'data/landing/')
}
STRAY = re.compile(r'^Untitled|-Copy\d*\.ipynb$')
TEXT = {'.py', '.ipynb', '.md', '.toml', '.ini', '.txt', '.js', '.css', '.csv', '.json', '.cfg', '.yml', '.yaml', ''}
# spelled in pieces, or this file would break its own rule
MACHINE = re.compile(
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
    """The rooms that a piece of code imports, wherever in it;
    `package` is the package it stands in, for relative imports."""
    text = '\n'.join('' if re.match(r'[%!]', line) else line for line in text.splitlines())
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = '.'.join(base + ([node.module] if node.module else []))
            names |= {f'{base}.{a.name}' for a in node.names}
    return {n.split('.')[1] for n in names if n.startswith('srlviz.') and n.split('.')[1] in ROOMS}


def imports(root):
    "A room imports only what the table allows; the front door opens on one function of the studies."
    for p in modules(root):
        package = ['srlviz', *p.relative_to(root / 'srlviz').parent.parts]
        if len(package) == 1:
            bad = imported(p.read_text(encoding='utf-8'), package) - {'studies'}
        else:
            bad = imported(p.read_text(encoding='utf-8'), package) - {package[1], *MAY.get(package[1], [])}
        for room in sorted(bad):
            yield f'{p.relative_to(root)} imports {room}'


def module_name(root: Path, path: Path) -> str:
    "srlviz/core/files.py is srlviz.core.files, and a package's __init__.py is the package."
    return '.'.join(path.relative_to(root).with_suffix('').parts).removesuffix('.__init__')


def imported_modules(root: Path, path: Path, names: set[str]) -> set[str]:
    "The modules among `names` that a module imports, wherever in it."
    package = list(path.relative_to(root).parent.parts)
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = '.'.join(package[: len(package) + 1 - node.level]) if node.level else ''
            base = f'{base}.{node.module or ""}'.strip('.')
            found |= {f'{base}.{a.name}' if f'{base}.{a.name}' in names else base for a in node.names}
    return found & names - {module_name(root, path)}


def cycles(root):
    "No module is imported by one that it imports, directly or through others."
    paths = {module_name(root, p): p for p in modules(root)}
    graph = {name: imported_modules(root, p, {*paths}) for name, p in paths.items()}
    while free := {name for name, needs in graph.items() if not needs & graph.keys()}:
        graph = {name: needs for name, needs in graph.items() if name not in free}
    for name, needs in sorted(graph.items()):
        yield f"{name} is in a cycle of imports with, or needs one of, {', '.join(sorted(needs & graph.keys()))}"


def examples(root):
    "Example cells look at rooms with a smaller number only."
    for room, p in notebooks(root):
        for c in cells(p):
            if directive(source(c), 'exports?') or directive(source(c), 'exporti'):
                continue
            for other in sorted(imported(source(c), [])):
                if ROOMS.index(other) > ROOMS.index(room):
                    yield f'{p.relative_to(root)} looks at {other}: {source(c)[:60]!r}'


def mirror(root):
    "nbs/03_encoders/03_contrast.ipynb is srlviz.encoders.contrast, and nothing else exports."
    for room, p in notebooks(root):
        want = f'{room}.' + '.'.join(
            re.sub(r'^\d\d_', '', part) for part in p.relative_to(root / 'nbs').with_suffix('').parts[1:]
        )
        if not re.match(r'\d\d_[a-z]\w*$', p.stem):
            yield f'{p.relative_to(root)} is not named NN_name'
        if target(p) != want:
            yield f'{p.relative_to(root)} exports {target(p)}, not {want}'
        elif not (root / 'srlviz' / (want.replace('.', '/') + '.py')).exists():
            yield f'{p.relative_to(root)} was never exported'
    rest = [p for p in (root / 'nbs').rglob('*.ipynb') if p not in [q for _, q in notebooks(root)]]
    for p in rest:
        if target(p):
            yield f'{p.relative_to(root)} exports {target(p)} but stands in no room'
    for d in (root / 'nbs').iterdir():
        if d.is_dir() and re.match(r'\d', d.name) and d not in [r for _, r in rooms(root)]:
            yield f'nbs/{d.name} is no room'


def orphans(root):
    """Every module names a notebook that is there;
    nothing is written by hand but what BY_HAND names and the scripts of widgets."""
    for p in modules(root):
        text, name = p.read_text(encoding='utf-8'), p.relative_to(root)
        m = re.search(r'^# AUTOGENERATED! DO NOT EDIT! File to edit: (.+?)\.?$', text, re.M)
        if (
            m
            and not (p.parent / m[1]).exists()
            and not (root / 'srlviz' / m[1]).exists()
            and not (root / 'nbs' / m[1]).exists()
        ):
            yield f'{name} comes from {m[1]}, which is gone'
        if not m and name not in BY_HAND and text.strip():
            yield f'{name} was written by hand'


def stray(root):
    "No Untitled, no Copy, and no notebook outside nbs/."
    for p in root.rglob('*.ipynb'):
        parts = p.relative_to(root).parts
        if any(
            x.startswith(('.', '_')) or x in ('runs', 'build', 'dist', 'artefacts', 'node_modules') for x in parts[:-1]
        ):
            continue
        if STRAY.search(p.name) or parts[0] != 'nbs':
            yield str(p.relative_to(root))


def outputs(root):
    "Room notebooks carry no outputs."
    for _, p in notebooks(root):
        if any(c.get('outputs') or c.get('execution_count') for c in cells(p)):
            yield f'{p.relative_to(root)} carries outputs'


def settings(root):
    ini = configparser.ConfigParser(delimiters=['='])
    ini.read(root / 'settings.ini', encoding='utf-8')
    return ini['DEFAULT']


def version(root):
    "The version stands in srlviz/__init__.py; the citation and the changelog name the same one."
    have = re.search(r'__version__\s*=\s*["\'](.+?)["\']', (root / 'srlviz/__init__.py').read_text())[1]
    if 'version' in settings(root):
        yield 'settings.ini has a version, too'
    cited = re.search(r'^version: (.+)$', (root / 'CITATION.cff').read_text(encoding='utf-8'), re.M)[1]
    newest = re.search(r'^## \[(.+?)\]', (root / 'CHANGELOG.md').read_text(encoding='utf-8'), re.M)[1]
    for name, found in {'CITATION.cff': cited, 'CHANGELOG.md': newest}.items():
        if found != have:
            yield f'{name} says {found}, srlviz.__version__ {have}'


def notice(root):
    "NOTICE names every shipped data file, or its folder; and every vendored script, with its checksum."
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
                yield f'NOTICE does not name {name.as_posix()} with the checksum that it has'


def lock(root):
    "The lock pins every requirement within its range, for each Python, by checksum, and names no place to get it from."
    lines = []
    for file, hashes in {'lock': r'(\s+--hash=sha256:[0-9a-f]{64})+', 'torch': ''}.items():
        for line in (root / f'requirements-{file}.txt').read_text().replace('\\\n', ' ').splitlines():
            line = line.strip()
            if not line or line.startswith('#'):
                continue
            if not re.fullmatch(r'[A-Za-z0-9._-]+==[A-Za-z0-9.]+( ; .+?)?' + hashes, line):
                yield f'{line[:200]!r} of requirements-{file}.txt is no pin'
            if file == 'torch' and not line.startswith('torch=='):
                yield f'only torch has no checksums; got {line!r}'
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
            yield f'{req.name} is in the lock for some Pythons only'
        for pin in found:
            if not req.specifier.contains(pin, prereleases=True):
                yield f'the lock has {req.name}=={pin}, settings.ini wants {text}'


def tool(name):
    "A script of .ci as a module"
    spec = importlib.util.spec_from_file_location(name, ROOT / f'.ci/{name}.py')
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def pictures(root):
    "Tutorials and studies carry pictures of the code that they have."
    yield from tool('pictures').stale(root)


def readme(root):
    "README.md is what nbs/index.ipynb says."
    if (root / 'README.md').read_text(encoding='utf-8') != tool('sync').readme(root):
        yield 'README.md is not what nbs/index.ipynb generates: make readme'


def tracked(root):
    "What git holds or would take; all files where there is no git."
    r = subprocess.run(['git', 'ls-files', '-co', '--exclude-standard'], cwd=root, capture_output=True, text=True)
    found = (
        [root / f for f in r.stdout.splitlines()]
        if r.returncode == 0
        else [p for p in root.rglob('*') if not any(x.startswith('.') for x in p.relative_to(root).parts)]
    )
    return [p for p in found if p.is_file()]


def machines(root):
    "Nothing names a path of one machine."
    for p in tracked(root):
        if p.suffix not in TEXT or p.stat().st_size > 5e6:
            continue
        for i, line in enumerate(p.read_text(encoding='utf-8', errors='replace').splitlines(), 1):
            if m := MACHINE.search(line):
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
HTML_DOORS = re.compile(
    r'(?i)(inner|outer|adjacent|set)html|document\.write|srcdoc|createContextualFragment|DOMParser|\beval\('
)


def literal(node) -> bool:
    "A text that is written out, or a choice between two"
    if isinstance(node, ast.IfExp):
        return literal(node.body) and literal(node.orelse)
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def markup(root):
    """Words become markup in one place, the class SafeHTML in widgets/base.py;
    a Markup is written out where it stands, and no script sets HTML."""
    for p in modules(root):
        if p.relative_to(root / 'srlviz').parts[0] not in ('figures', 'widgets'):
            continue
        nodes, name = list(ast.walk(ast.parse(p.read_text(encoding='utf-8')))), p.relative_to(root)
        words = [
            b
            for n in nodes
            if isinstance(n, ast.ClassDef) and (p.name, n.name) == ('base.py', 'SafeHTML')
            for b in n.bases
        ]
        for n in nodes:
            called = getattr(n, 'attr', getattr(n, 'id', getattr(n, 'arg', getattr(n, 'name', ''))))
            if called in HTML_NAMES and n not in words:
                yield f'{name}: {called} beside SafeHTML of widgets/base.py'
            if isinstance(n, ast.Call) and ast.unparse(n.func).endswith('Markup') and not all(map(literal, n.args)):
                yield f'{name}: {ast.unparse(n)[:80]} is made of more than its own words'
    for p in sorted((root / 'srlviz').rglob('*.js')):
        for i, line in enumerate(p.read_text(encoding='utf-8').splitlines(), 1):
            if m := HTML_DOORS.search(line):
                yield f'{p.relative_to(root)}:{i}: {m[0]}'


PROCESSES = re.compile(
    r'\b(multiprocessing|ProcessPoolExecutor|getppid|get_memmapping_executor|get_reusable_executor|Popen|os\.fork)\b'
)


def processes(root):
    "Processes are started, and parents watched, in core/jobs/workers alone."
    for p in modules(root):
        if p.relative_to(root) == Path('srlviz/core/jobs/workers.py'):
            continue
        for i, line in enumerate(p.read_text(encoding='utf-8').splitlines(), 1):
            if m := PROCESSES.search(line):
                yield f'{p.relative_to(root)}:{i}: {m[0]}; use pool of srlviz.core.jobs.workers'


ASSERTING = 0.9  # cells that assert for each cell that exports, at least
WIDGETS = 'widgets'  # are tested in a browser
BLANK = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}


def exports(root):
    "Every cell that exports: (room, path, its text)."
    for room, p in notebooks(root):
        for c in cells(p):
            if directive(source(c), 'exports?') or directive(source(c), 'exporti'):
                yield room, p, source(c)


def asserting(root):
    "Every visible cell that would fail: (room, path)."
    for room, p in notebooks(root):
        for c in cells(p):
            text = source(c)
            shown = not any(directive(text, d) for d in ('exports?', 'exporti', 'hide'))
            if shown and re.search(r'^\s*(assert\b|assert_\w+\(|with pytest\.raises|check_\w+\()', text, re.M):
                yield room, p


def statistics(root) -> dict[str, dict]:
    "By room: cells that export, tokens a line, definitions that are called once, public names, asserting cells."
    found, uses = {}, Counter()
    trees = {p: ast.parse(p.read_text(encoding='utf-8')) for p in modules(root)}
    for tree in trees.values():
        uses.update(n.id for n in ast.walk(tree) if isinstance(n, ast.Name))
        uses.update(n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute))
    for room in ROOMS:
        n_cells = sum(r == room for r, *_ in exports(root))
        if not n_cells:
            continue
        tokens, lines, defined, public = 0, 0, [], 0
        for p, tree in trees.items():
            if p.relative_to(root / 'srlviz').parts[0] != room:
                continue
            with p.open(encoding='utf-8') as text:
                code = [t for t in tokenize.generate_tokens(text.readline) if t.type not in BLANK]
            tokens, lines = tokens + len(code), lines + len({t.start[0] for t in code})
            defined += [n.name for n in ast.walk(tree) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
            public += sum(
                not n.name.startswith('_') for n in tree.body if isinstance(n, ast.FunctionDef | ast.ClassDef)
            )
        once = sum(uses[name] == 1 for name in defined) / max(len(defined), 1)
        n_asserting = sum(r == room for r, _ in asserting(root))
        found[room] = dict(cells=n_cells, tokens=tokens / max(lines, 1), once=once, public=public)
        found[room]['asserting'] = n_asserting / n_cells
    return found


def directives(root):
    "No word to nbdev is left in what it exports: two cells that were merged carry one."
    for p in modules(root):
        for i, line in enumerate(p.read_text(encoding='utf-8').splitlines(), 1):
            if re.match(r'\s*#\s*\|', line):
                yield f'{p.relative_to(root)}:{i}: {line.strip()}'


def taught(root):
    "Ideas are followed by examples that can fail."
    found = [f for room, f in statistics(root).items() if room != WIDGETS]
    n_cells = sum(f['cells'] for f in found)
    if (rate := sum(f['asserting'] * f['cells'] for f in found) / max(n_cells, 1)) < ASSERTING:
        yield f'{rate:.2f} asserting cells for each cell that exports'


def heirs(root):
    "No class is there only to be the base of one other, which would be one class cut into two pages."
    bases, named, where = {}, {}, {}
    for p in modules(root):
        tree = ast.parse(p.read_text(encoding='utf-8'))
        for n in ast.walk(tree):
            if isinstance(n, ast.ClassDef):
                where[n.name] = p.relative_to(root)
                for b in n.bases:
                    bases.setdefault(ast.unparse(b).split('.')[-1], []).append(n.name)
        in_bases = {id(x) for n in ast.walk(tree) if isinstance(n, ast.ClassDef) for b in n.bases for x in ast.walk(b)}
        for n in ast.walk(tree):
            if isinstance(n, ast.Name) and id(n) not in in_bases:
                named[n.id] = named.get(n.id, 0) + 1
    family = {child for children in bases.values() if len(children) > 1 for child in children}  # one of several
    for name, children in bases.items():
        if name in where and len(children) == 1 and not named.get(name) and name not in family:
            yield f'{where[name]}: {name} has one heir, {children[0]}, and no other use'


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
    machines,
    markup,
    processes,
    directives,
    taught,
    heirs,
]


@pytest.mark.parametrize('rule', RULES, ids=lambda r: r.__name__)
def test_house(rule):
    assert list(rule(ROOT)) == []


def test_statistics(capsys):
    "Prints what a reader carries; `taught` holds the last column."
    found = statistics(ROOT)
    with capsys.disabled():
        print('\nroom       cells  tokens a line  called once  public names  asserting cells a cell')
        for room, f in found.items():
            print(f"{room:9} {f['cells']:6} {f['tokens']:14.1f} {f['once']:12.0%} {f['public']:13}", end='')
            print(f"{f['asserting']:24.2f}")
    assert set(found) == {room for room, _ in rooms(ROOT)}


def test_front_door_is_offered():
    "What is imported when it is asked for is offered by Tab all the same"
    code = 'import sys, srlviz; print("probe" in dir(srlviz), "__version__" in dir(srlviz), "torch" in sys.modules)'
    assert subprocess.check_output([sys.executable, '-c', code], text=True).split() == ['True', 'True', 'False']


def test_light_import():
    code = 'import sys, srlviz; print([m for m in ("torch", "pandas", "numpy", "plotly") if m in sys.modules])'
    assert subprocess.check_output([sys.executable, '-c', code], text=True).strip() == '[]'


# ---- the same rules on a small house, sound and with each fault planted once


ONE = 'nbs/studies/one.ipynb'


def notebook(path, *sources, outputs=()):
    path.parent.mkdir(parents=True, exist_ok=True)
    nb_cells = [
        dict(
            cell_type='markdown' if s.startswith('# ') else 'code',
            id=f'c{i}',
            metadata={},
            source=s,
            **({} if s.startswith('# ') else dict(outputs=list(outputs), execution_count=None)),
        )
        for i, s in enumerate(sources)
    ]
    path.write_text(json.dumps(dict(cells=nb_cells, metadata={}, nbformat=4, nbformat_minor=5)))


def module(path, come_from, code=''):
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / '__init__.py').touch()
    path.write_text((f'# AUTOGENERATED! DO NOT EDIT! File to edit: {come_from}.\n' if come_from else '') + code)


@pytest.fixture
def house(tmp_path):
    notebook(
        tmp_path / 'nbs/00_core/01_recordings.ipynb',
        '#| default_exp core.recordings',
        '#| export\nclass Episode: pass',
        'assert Episode()',
    )
    notebook(
        tmp_path / 'nbs/03_encoders/03_contrast.ipynb',
        '#| default_exp encoders.contrast',
        '#| export\nfrom srlviz.core.recordings import Episode',
        'from srlviz.data.atari import x\n%time x\nassert x',
    )
    notebook(tmp_path / 'nbs/studies/one.ipynb', 'import srlviz')
    of = dict(srlviz=dict(pictures=tool('pictures').fingerprint(json.loads((tmp_path / ONE).read_text()))))
    edit(tmp_path, ONE, '"metadata": {}, "nbformat"', f'"metadata": {json.dumps(of)}, "nbformat"')
    notebook(tmp_path / 'nbs/index.ipynb', '# srlviz\n\nIn one line.')
    module(tmp_path / 'srlviz/core/recordings.py', '../../nbs/00_core/01_recordings.ipynb')
    module(
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


def test_sound_house(house):
    assert [c for rule in RULES for c in rule(house)] == []


def edit(root, name, old, new):
    text = (root / name).read_text()
    assert old in text
    (root / name).write_text(text.replace(old, new))


def drawn(root, code, name='board'):
    module(root / f'srlviz/widgets/{name}.py', '../../nbs/00_core/01_recordings.ipynb', code)


FAULTS = {
    'upward import': (
        imports,
        lambda r: edit(r, 'srlviz/encoders/contrast.py', 'from .frames', 'from ..widgets.frames'),
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
    'module by hand': (orphans, lambda r: module(r / 'srlviz/core/extra.py', '', 'x = 1\n')),
    'untitled': (stray, lambda r: notebook(r / 'nbs/tutorials/Untitled3.ipynb')),
    'copy': (stray, lambda r: notebook(r / 'nbs/studies/one-Copy1.ipynb')),
    'notebook outside': (stray, lambda r: notebook(r / 'scratch.ipynb')),
    'outputs': (
        outputs,
        lambda r: notebook(r / 'nbs/00_core/01_recordings.ipynb', '#| default_exp core.recordings', outputs=[{}]),
    ),
    'changed after its pictures': (pictures, lambda r: edit(r, ONE, 'import srlviz', 'import srlviz.core')),
    'no pictures': (pictures, lambda r: notebook(r / ONE, 'import srlviz')),
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
    'machine path': (machines, lambda r: edit(r, 'README.md', 'one', 'see /hom' + 'e/me/x')),
    'a process of its own': (
        processes,
        lambda r: edit(r, 'srlviz/encoders/contrast.py', 'import numpy', 'import multiprocessing.pool, numpy'),
    ),
    'two cells in one': (directives, lambda r: drawn(r, 'x = 1\n\n\n#| export\ny = 2\n')),
    'HTML beside SafeHTML': (markup, lambda r: drawn(r, 'import ipywidgets as W\nline = W.HTML("a")\n')),
    'HTML in a view': (markup, lambda r: drawn(r, 'import ipywidgets as W\nclass Line(W.HTML): pass\n', 'views')),
    'HTML in a description': (markup, lambda r: drawn(r, 'button = W.Button(description_allow_html=True)\n')),
    'Markup of data': (markup, lambda r: drawn(r, 'def say(name): return Markup(f"<b>{name}</b>")\n')),
    'no example': (taught, lambda r: edit(r, 'nbs/03_encoders/03_contrast.ipynb', 'assert x', 'x')),
    'one heir': (heirs, lambda r: drawn(r, 'class _Half: pass\nclass Whole(_Half): pass\n')),
    'Markup of a name': (markup, lambda r: drawn(r, 'def say(name): return markupsafe.Markup(name)\n')),
    'script sets HTML': (markup, lambda r: (r / 'srlviz/core/list.js').write_text('node.innerHTML = name;\n')),
    'shared folder': (machines, lambda r: edit(r, 'nbs/index.ipynb', 'In one', 'In ../' + 'shared/')),
}


@pytest.mark.parametrize('fault', FAULTS)
def test_fault_is_caught(fault, house):
    rule, plant = FAULTS[fault]
    plant(house)
    assert list(rule(house))


def unescaped(source: str) -> list[str]:
    "What would show a name of somebody's file as HTML: a Styler, or Markdown or HTML of anything but plain text"
    found = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        if '.style.' in name or 'Styler' in name:
            found.append(ast.unparse(node))
        written = all(isinstance(x, ast.Constant) for x in node.args)
        if name.rpartition('.')[2] in ('Markdown', 'HTML', 'Latex', 'Javascript') and not written:
            found.append(ast.unparse(node))
    return found


def test_nothing_is_shown_unescaped():
    for odd in ('t.style.format({})', 't.style\\\n.hide()', "Markdown(f'{name}')", 'display(HTML(page))'):
        assert unescaped(odd), odd
    assert not unescaped("Markdown('**bold**')\nmenu.style.description_width = 'initial'")
    for folder in ('studies', 'tutorials', 'course', '08_widgets'):
        for path in sorted((ROOT / 'nbs' / folder).rglob('*.ipynb')):
            for cell in json.loads(path.read_text(encoding='utf-8'))['cells']:
                if cell['cell_type'] == 'code':
                    assert not unescaped(''.join(cell['source'])), path.name
