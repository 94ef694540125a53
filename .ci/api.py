"""API pages of the site: each module's public names, from its source, with numpydoc's sections as lists.

Sources are parsed, not imported, so that signatures look as written and the site builds without torch.
"""

import ast, copy, json, re
from pathlib import Path

import pages

_SECTIONS = ('Parameters', 'Attributes', 'Traits', 'Returns', 'Yields', 'Raises')
_MAX_VALUE = 100  # characters of the value of a constant


class Index:
    """Public names of all modules, to resolve names in docstrings.

    Attributes
    ----------
    modules : name -> path
    sources, trees, names : module -> its notebook, its syntax tree, its public names
    imports, defined : module -> (name -> full name), (name -> definition)
    modules_of : name -> modules that define it
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
        self.modules_of = {}
        for module, definitions in self.defined.items():
            for name in definitions:
                self.modules_of.setdefault(name, []).append(module)

    def target(self, name: str, module: str) -> str:
        "Return the full name that a word in a docstring of a module refers to; '' if it is not known"
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
        owners = self.modules_of.get(plain, [])
        distinct = len(owners) == 1 and ('_' in plain or plain != plain.lower())
        return f'{owners[0]}.{plain}' if distinct else ''


def _public(tree: ast.Module) -> list[str]:
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == '__all__':
            return ast.literal_eval(node.value)
    return []


def _definitions(tree: ast.Module, names: list[str]) -> dict[str, ast.AST]:
    "Return the definitions of public names in a module, in the order of the source"
    definitions = {}
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            definitions[node.name] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            definitions[node.target.id] = node
        elif isinstance(node, ast.Assign):
            targets = [t for part in node.targets for t in getattr(part, 'elts', [part])]
            definitions |= {t.id: node for t in targets if isinstance(t, ast.Name)}
    return {name: node for name, node in definitions.items() if name in names}


def _imports(tree: ast.Module, module: str) -> dict[str, str]:
    "Return the names that a module imports from this package -> their full names"
    imports = {}
    package = module.split('.')[:-1]
    for node in tree.body:
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) + 1 - node.level] if node.level else []
            base = '.'.join([*base, *([node.module] if node.module else [])])
            imports |= {a.asname or a.name: f'{base}.{a.name}' for a in node.names}
    return imports


class _FullNames(ast.NodeTransformer):
    "Write names of this package in full, so that a type links to the right class; the site shows the last part"

    def __init__(self, index: Index, module: str):
        self.index, self.module = index, module
        self.imported = index.imports[module]

    def visit_Name(self, node: ast.Name):
        is_local = node.id in self.index.defined[self.module]
        full = f'{self.module}.{node.id}' if is_local else self.imported.get(node.id, '')
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
    "Convert the text of a docstring to Markdown: special characters are escaped, known names become links"

    def escape(part: str) -> str:
        part = re.sub(r'([*$\\])', r'\\\1', part)
        part = re.sub(r'<(?!https?:)', r'\\<', part)
        part = re.sub(r'(?<=\w)_(?=\s|$|[,.;:])', r'\\_', part)
        return re.sub(r'^(\s*)([#+:])(?=\s)', r'\1\\\2', part, flags=re.M)

    def link_code(match: re.Match) -> str:
        target = index.target(match[2], module)
        kind = 'mod' if target in index.modules else 'obj'
        return f'{{py:{kind}}}`{match[2]} <{target}>`' if target else match[0]

    source = index.sources[module]
    if '](' in text and source:
        text = pages.rewrite_links(index.root, index.page_of, source, f'api/{module}', text, {})
    pieces, start = [], 0
    for span in pages.CODE.finditer(text):
        before = escape(text[start : span.start()])
        pieces += [before + '\\' * before.endswith('}'), re.sub(r'^(`)(.+)`$', link_code, span[0], flags=re.S)]
        start = span.end()
    return ''.join([*pieces, escape(text[start:])])


def _sections(docstring: str) -> list[tuple[str, str]]:
    "Split a docstring into (name, text) of numpydoc's sections; the name of other text is ''"
    lines = docstring.splitlines()
    sections = [('', [])]
    for i, line in enumerate(lines):
        if i + 1 < len(lines) and line in _SECTIONS and re.fullmatch('-{3,}', lines[i + 1]):
            sections.append((line, []))
        elif re.fullmatch('-{3,}', line) and i and lines[i - 1] in _SECTIONS:
            continue
        else:
            if sections[-1][0] and re.match(r'[A-Z]\w+: ', line) and not lines[i - 1].strip():
                sections.append(('', []))  # "Source: ..." after a section
            sections[-1][1].append(line)
    return [(name, '\n'.join(body).strip('\n')) for name, body in sections]


def _entries(name: str, text: str) -> list[tuple[str, str]]:
    "Return the entries of a section, (name, description); the name may be ''"
    from numpydoc.docscrape import NumpyDocString

    kind = name if name in ('Returns', 'Yields') else 'Parameters'
    entries = []
    for entry in NumpyDocString(f'{kind}\n{"-" * len(kind)}\n{text}')[kind]:
        description = '\n'.join(filter(None, [entry.type, *entry.desc]))
        entries.append((entry.name, description))
    return entries


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
    "Return the directive of one public name"
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
    value = value if len(value) <= _MAX_VALUE else f'{value[:_MAX_VALUE]} …'
    options = [f':value: {json.dumps(value, ensure_ascii=False)}'] if value else []
    if isinstance(node, ast.AnnAssign):
        options.insert(0, f':type: {_annotation(node.annotation, index, module)}')
    return _directive('data', name, '', 6, tuple(options))


def _first_line(node: ast.AST | None, index: Index, module: str) -> str:
    "Return the first paragraph of a docstring as a cell of a table"
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
        references = [f'{{py:obj}}`{name} <{imported.get(name, name)}>`' for name in elsewhere]
        parts.append(f'Also available here: {", ".join(references)}')
    return '\n\n'.join(parts) + '\n'


def _front_door(root: Path) -> dict[str, str]:
    "Return the names of the package itself -> the modules that define them"
    tree = ast.parse((root / 'srlviz/__init__.py').read_text(encoding='utf-8'))
    for node in tree.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], 'id', '') == '_FRONT_DOOR':
            return {name: f'srlviz.{module}' for name, module in ast.literal_eval(node.value).items()}
    return {}


def api_pages(root: Path, page_of: dict[str, str]) -> dict[str, str]:
    """Write the API pages as Markdown.

    Parameters
    ----------
    page_of : path from the root -> page, of all pages made from files

    Returns
    -------
    dict : name of a page -> Markdown: 'api/index', 'api/srlviz.core', 'api/srlviz.core.files', ...
    """
    index = Index(root, page_of)
    markdown = {f'api/{module}': _module_page(module, index, page_of) for module in index.modules}
    packages = {}
    for module in index.modules:
        packages.setdefault('.'.join(module.split('.')[:2]), []).append(module)
    order = sorted((p.name for p in (root / 'nbs').glob('[0-9][0-9]_*') if p.is_dir()))
    ordered = [f'srlviz.{name[3:]}' for name in order if f'srlviz.{name[3:]}' in packages]
    ordered += [p for p in packages if p not in ordered]
    package_rows = []
    for package in ordered:
        members = sorted(packages[package])
        rows = []
        for module in members:
            first = _first_line(index.trees[module], index, module)
            rows.append(f'| [{module.removeprefix(package + ".")}]({module}.md) | {first} |')
        init = root / package.replace('.', '/') / '__init__.py'
        docstring = ast.get_docstring(ast.parse(init.read_text(encoding='utf-8'))) if init.is_file() else ''
        entries = [f'{m.removeprefix(package + ".")} <{m}>' for m in members]
        toctree = '\n'.join(['```{toctree}', ':hidden:', '', *entries, '```'])
        listing = '| module | |\n|---|---|\n' + '\n'.join(rows)
        parts = [f'# {package}', _markdown(docstring or '', index, members[0]), listing, toctree]
        markdown[f'api/{package}'] = '\n\n'.join(filter(None, parts)) + '\n'
        package_rows.append(f'| [{package}]({package}.md) | {len(members)} modules |')
    name_rows = []
    for name, module in _front_door(root).items():
        node = index.defined.get(module, {}).get(name)
        name_rows.append(f'| {{py:obj}}`srlviz.{name} <{module}.{name}>` | {_first_line(node, index, module)} |')
    intro = (
        'Public names by module, as `from srlviz.evaluate.qedr import qedr` imports them. Every module is written in a '
        'notebook, to which its page links.'
    )
    toctree = '\n'.join(['```{toctree}', ':hidden:', '', *ordered, '```'])
    parts = ['# API', intro, '## The package itself', '| name | |\n|---|---|\n' + '\n'.join(name_rows)]
    parts += ['## Packages', '| package | |\n|---|---|\n' + '\n'.join(package_rows), toctree]
    return markdown | {'api/index': '\n\n'.join(parts) + '\n'}
