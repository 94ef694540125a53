"""API pages of the site: each module's public names, from its source, with numpydoc's sections as lists.

Sources are read, not imported, so that signatures look as they are written and the site builds without torch.
"""

import ast, copy, json, re
from pathlib import Path

import pages

_SECTIONS = ('Parameters', 'Attributes', 'Traits', 'Returns', 'Yields', 'Raises')
_LONG = 100  # characters of the value of a constant


class Index:
    """Public names of all modules, to resolve names in docstrings.

    Attributes: modules, name -> path; and of each module: sources (its notebook), trees (syntax), names (public),
    imports (name -> full name), defined (name -> definition); where, name -> modules that define it
    """

    def __init__(self, root: Path, page_of: dict[str, str]):
        self.root = root
        self.page_of = page_of
        self.modules = pages.modules(root)
        self.sources = {m: pages.notebook_of(root, p) for m, p in self.modules.items()}
        self.trees = {m: ast.parse((root / p).read_text(encoding='utf-8')) for m, p in self.modules.items()}
        self.names = {m: _public(tree) for m, tree in self.trees.items()}
        self.imports = {m: _imports(tree, m) for m, tree in self.trees.items()}
        self.defined = {m: _definitions(self.trees[m], self.names[m]) for m in self.modules}
        self.where = {}
        for module, found in self.defined.items():
            for name in found:
                self.where.setdefault(name, []).append(module)

    def target(self, name: str, module: str) -> str:
        "The full name of what a word in a docstring of a module refers to; '' if it is not known"
        plain = name.removesuffix('()')
        if not re.fullmatch(r'[A-Za-z_][\w.]*', plain):
            return ''
        if plain in self.modules:
            return plain
        owner, _, last = plain.rpartition('.')
        if owner in self.modules and last in self.defined[owner]:
            return plain
        if plain in self.defined[module]:
            return f'{module}.{plain}'
        several = self.where.get(plain, [])
        distinct = len(several) == 1 and ('_' in plain or plain != plain.lower())
        return f'{several[0]}.{plain}' if distinct else ''


def _public(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == '__all__':
            return ast.literal_eval(node.value)
    return []


def _definitions(tree: ast.Module, names: list[str]) -> dict[str, ast.AST]:
    "Where public names are defined in a module, in the order of the source"
    found = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found[node.target.id] = node
        elif isinstance(node, ast.Assign):
            targets = [t for part in node.targets for t in getattr(part, 'elts', [part])]
            found |= {t.id: node for t in targets if isinstance(t, ast.Name)}
    return {name: node for name, node in found.items() if name in names}


def _imports(tree: ast.Module, module: str) -> dict[str, str]:
    "Names that a module imports from this package -> their full names"
    found, package = {}, module.split('.')[:-1]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = '.'.join([*base, *([node.module] if node.module else [])])
            found |= {a.asname or a.name: f'{base}.{a.name}' for a in node.names}
    return found


class _FullNames(ast.NodeTransformer):
    "Write names of this package in full, so that a type links to the right class; the site shows the last part"

    def __init__(self, index: Index, module: str):
        self.index, self.module = index, module
        self.imported = index.imports[module]

    def visit_Name(self, node: ast.Name):
        own = node.id in self.index.defined[self.module]
        full = f'{self.module}.{node.id}' if own else self.imported.get(node.id, '')
        owner, _, last = full.rpartition('.')
        known = last in self.index.defined.get(owner, {})
        return ast.parse(full, mode='eval').body if known else node


def _annotation(node: ast.AST, index: Index, module: str) -> str:
    return ast.unparse(_FullNames(index, module).visit(copy.deepcopy(node)))


def _signature(node: ast.FunctionDef, method: bool, index: Index, module: str) -> str:
    arguments = copy.deepcopy(node.args)
    for part in ast.walk(arguments):
        if isinstance(part, ast.arg) and part.annotation is not None:
            part.annotation = _FullNames(index, module).visit(part.annotation)
    if method and not any(getattr(d, 'id', '') == 'staticmethod' for d in node.decorator_list):
        del (arguments.posonlyargs or arguments.args)[:1]
    returns = f' -> {_annotation(node.returns, index, module)}' if node.returns else ''
    return f'({ast.unparse(arguments)}){returns}'


def _is_plain_record(node: ast.ClassDef) -> bool:
    "Whether the fields of a class are the arguments of its constructor"
    decorators = [ast.unparse(d) for d in node.decorator_list]
    bases = [ast.unparse(b) for b in node.bases]
    return any('dataclass' in d for d in decorators) or 'NamedTuple' in bases


def _constructor(node: ast.ClassDef, index: Index, module: str) -> str:
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == '__init__':
            return _signature(part, True, index, module).partition(' -> ')[0]
    if _is_plain_record(node):
        fields = [
            f'{part.target.id}: {_annotation(part.annotation, index, module)}'
            + (f' = {ast.unparse(part.value)}' if part.value else '')
            for part in node.body
            if isinstance(part, ast.AnnAssign) and not part.target.id.startswith('_')
        ]
        return f'({", ".join(fields)})'
    return ''


def _markdown(text: str, index: Index, module: str) -> str:
    "The text of a docstring as Markdown: signs that mean something there are escaped, known names become links"

    def escaped(part: str) -> str:
        part = re.sub(r'([*$\\])', r'\\\1', part)
        part = re.sub(r'<(?!https?:)', r'\\<', part)
        part = re.sub(r'(?<=\w)_(?=\s|$|[,.;:])', r'\\_', part)
        return re.sub(r'^(\s*)([#+:])(?=\s)', r'\1\\\2', part, flags=re.M)

    def code(match: re.Match) -> str:
        target = index.target(match[2], module)
        kind = 'mod' if target in index.modules else 'obj'
        return f'{{py:{kind}}}`{match[2]} <{target}>`' if target else match[0]

    source = index.sources[module]
    if '](' in text and source:
        text = pages.rewritten(index.root, index.page_of, source, f'api/{module}', text, {})
    pieces, start = [], 0
    for span in pages.CODE.finditer(text):
        before = escaped(text[start : span.start()])
        pieces += [before + '\\' * before.endswith('}'), re.sub(r'^(`)(.+)`$', code, span[0], flags=re.S)]
        start = span.end()
    return ''.join([*pieces, escaped(text[start:])])


def _sections(docstring: str) -> list[tuple[str, str]]:
    "Split a docstring into (name, text) of numpydoc's sections; the name of other text is ''"
    lines, found = docstring.splitlines(), [('', [])]
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and line in _SECTIONS and re.fullmatch('-{3,}', lines[i + 1]):
            found.append((line, []))
        elif re.fullmatch('-{3,}', line) and i and lines[i - 1] in _SECTIONS:
            continue
        else:
            if found[-1][0] and re.match(r'[A-Z]\w+: ', line) and not lines[i - 1].strip():
                found.append(('', []))  # "Source: ..." after a section
            found[-1][1].append(line)
    return [(name, '\n'.join(body).strip('\n')) for name, body in found]


def _entries(name: str, text: str) -> list[tuple[str, str]]:
    "The entries of a section, (name, description); the name may be ''"
    from numpydoc.docscrape import NumpyDocString

    kind = name if name in ('Returns', 'Yields') else 'Parameters'
    found = []
    for entry in NumpyDocString(f'{kind}\n{"-" * len(kind)}\n{text}')[kind]:
        description = '\n'.join(filter(None, [entry.type, *entry.desc]))
        found.append((entry.name, description))
    return found


def _docstring(node: ast.AST, index: Index, module: str) -> str:
    parts = []
    for section, text in _sections(ast.get_docstring(node) or ''):
        if not section:
            parts.append(_markdown(text, index, module))
            continue
        parts.append(f'**{section}**')
        for names, description in _entries(section, text):
            body = _markdown(description, index, module)
            label = ', '.join(f'`{name.strip()}`' for name in names.split(',') if name.strip())
            definition = f': {body}'.replace('\n', '\n  ')
            parts.append(f'{label}\n{definition}' if label and body else label or body)
    return '\n\n'.join(filter(None, parts))


def _directive(kind: str, head: str, body: str, ticks: int, options: tuple = ()) -> str:
    fence = '`' * ticks
    head = re.sub(r'\s+', ' ', head)
    return '\n'.join([f'{fence}{{py:{kind}}} {head}', *options, '', body, fence])


def _member(node: ast.FunctionDef, index: Index, module: str) -> str:
    decorators = {ast.unparse(d).split('(')[0].split('.')[-1] for d in node.decorator_list}
    body = _docstring(node, index, module)
    if decorators & {'property', 'cached_property'}:
        options = (f':type: {_annotation(node.returns, index, module)}',) if node.returns else ()
        return _directive('property', node.name, body, 5, options)
    options = tuple(f':{d}:' for d in ('classmethod', 'staticmethod') if d in decorators)
    return _directive('method', node.name + _signature(node, True, index, module), body, 5, options)


def _entry(name: str, node: ast.AST, index: Index, module: str) -> str:
    "One public name"
    if isinstance(node, ast.FunctionDef):
        return _directive('function', name + _signature(node, False, index, module), _docstring(node, index, module), 6)
    if isinstance(node, ast.ClassDef):
        bases = [b for b in map(ast.unparse, node.bases) if b not in ('object', 'NamedTuple')]
        known = [_markdown(f'`{b}`', index, module) for b in bases]
        body = [f'Bases: {", ".join(known)}'] if bases else []
        body.append(_docstring(node, index, module))
        for part in node.body:
            is_setter = any(ast.unparse(d).endswith('.setter') for d in getattr(part, 'decorator_list', ()))
            if isinstance(part, ast.FunctionDef) and not part.name.startswith('_') and not is_setter:
                body.append(_member(part, index, module))
        return _directive('class', name + _constructor(node, index, module), '\n\n'.join(filter(None, body)), 6)
    value = ast.unparse(node.value) if node.value is not None else ''
    value = value if len(value) <= _LONG else f'{value[:_LONG]} …'
    options = [f':value: {json.dumps(value, ensure_ascii=False)}'] if value else []
    if isinstance(node, ast.AnnAssign):
        options.insert(0, f':type: {_annotation(node.annotation, index, module)}')
    return _directive('data', name, '', 6, tuple(options))


def _first_line(node: ast.AST | None, index: Index, module: str) -> str:
    "The first paragraph of a docstring as a cell of a table"
    text = (ast.get_docstring(node) or '') if node is not None else ''
    return _markdown(text.split('\n\n')[0].replace('\n', ' '), index, module).replace('|', '\\|')


def _module_page(module: str, index: Index, page_of: dict[str, str]) -> str:
    tree = index.trees[module]
    source = index.sources[module]
    parts = [f'# {module}', _markdown(ast.get_docstring(tree) or '', index, module)]
    if source in page_of:
        parts.append(f'Notebook with explanations, examples and tests: [`{source}`](../{page_of[source]}.ipynb)')
        parts.append(f'```{{toctree}}\n:hidden:\n\n/{page_of[source]}\n```')
    elif source:
        parts.append(f'Notebook: `{source}`')
    parts.append(f'```{{py:module}} {module}\n```')
    imported = index.imports[module]
    for name, node in index.defined[module].items():
        parts.append(_entry(name, node, index, module))
    elsewhere = [name for name in index.names[module] if name not in index.defined[module]]
    if elsewhere:
        words = [f'{{py:obj}}`{name} <{imported.get(name, name)}>`' for name in elsewhere]
        parts.append(f'Also available here: {", ".join(words)}')
    return '\n\n'.join(parts) + '\n'


def _front_door(root: Path) -> dict[str, str]:
    "Names of the package itself -> the modules that define them"
    tree = ast.parse((root / 'srlviz/__init__.py').read_text(encoding='utf-8'))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == '_FRONT_DOOR':
            return {name: f'srlviz.{module}' for name, module in ast.literal_eval(node.value).items()}
    return {}


def api_pages(root: Path, page_of: dict[str, str]) -> dict[str, str]:
    """Make the API pages.

    Parameters
    ----------
    page_of : path from the root -> page, of all pages made from files

    Returns
    -------
    dict : name of a page -> Markdown: 'api/index', 'api/srlviz.core', 'api/srlviz.core.files', ...
    """
    index = Index(root, page_of)
    made = {f'api/{module}': _module_page(module, index, page_of) for module in index.modules}
    packages = {}
    for module in index.modules:
        packages.setdefault('.'.join(module.split('.')[:2]), []).append(module)
    order = sorted((p.name for p in (root / 'nbs').glob('[0-9][0-9]_*') if p.is_dir()))
    ranked = [f'srlviz.{name[3:]}' for name in order if f'srlviz.{name[3:]}' in packages]
    ranked += [p for p in packages if p not in ranked]
    table = []
    for package in ranked:
        members = sorted(packages[package])
        rows = []
        for module in members:
            first = _first_line(index.trees[module], index, module)
            rows.append(f'| [{module.removeprefix(package + ".")}]({module}.md) | {first} |')
        own = root / package.replace('.', '/') / '__init__.py'
        words = ast.get_docstring(ast.parse(own.read_text(encoding='utf-8'))) if own.is_file() else ''
        entries = [f'{m.removeprefix(package + ".")} <{m}>' for m in members]
        tree = '\n'.join(['```{toctree}', ':hidden:', '', *entries, '```'])
        listing = '| module | |\n|---|---|\n' + '\n'.join(rows)
        head = [f'# {package}', _markdown(words or '', index, members[0]), listing, tree]
        made[f'api/{package}'] = '\n\n'.join(filter(None, head)) + '\n'
        table.append(f'| [{package}]({package}.md) | {len(members)} modules |')
    door = []
    for name, module in _front_door(root).items():
        node = index.defined.get(module, {}).get(name)
        door.append(f'| {{py:obj}}`srlviz.{name} <{module}.{name}>` | {_first_line(node, index, module)} |')
    intro = (
        'Public names by module, as `from srlviz.evaluate.qedr import qedr` imports them. Every module is written in a '
        'notebook, to which its page links.'
    )
    tree = '\n'.join(['```{toctree}', ':hidden:', '', *ranked, '```'])
    parts = ['# API', intro, '## The package itself', '| name | |\n|---|---|\n' + '\n'.join(door)]
    parts += ['## Packages', '| package | |\n|---|---|\n' + '\n'.join(table), tree]
    return made | {'api/index': '\n\n'.join(parts) + '\n'}
