"""The shape of the code by package: what a reader meets in 100 or 1,000 lines. Nothing is a limit.

A line is one that has code; docstrings, comments and blank lines do not count.

    python benchmarks/readability.py [FOLDER] [--names] [--smoke]

FOLDER is any Python package (default: srlviz), so that others can be measured by the same script; `--names` lists the
private functions that are used once, the largest first, and the functions with ten parameters and more.
"""

import argparse
import ast
import io
import re
import statistics
import tokenize
from collections import Counter
from pathlib import Path

import nbformat
import pandas as pd

ROOT = Path(__file__).resolve().parents[1]
COMPREHENSIONS = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
NO_CODE = (
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
)
MANY = 10  # parameters of one function


def is_text(node) -> bool:
    "Whether a statement is a docstring"
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def code_tokens(source: str, tree: ast.Module) -> list:
    "The tokens of the code of a module"
    texts = {line for n in ast.walk(tree) if is_text(n) for line in range(n.lineno, n.end_lineno + 1)}
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token for token in tokens if token.type not in NO_CODE and token.start[0] not in texts]


def n_parameters(function) -> int:
    "Parameters of a function without self and cls"
    names = [a.arg for a in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return sum(name not in ('self', 'cls') for name in names)


def packages(folder: Path) -> dict[str, list[Path]]:
    "The modules of each package of a folder, '' for those directly in it"
    found = {}
    for path in sorted(folder.rglob('*.py')):
        if path.name == '_modidx.py':  # nbdev's index, which nobody reads
            continue
        parts = path.relative_to(folder).parts
        found.setdefault(parts[0] if len(parts) > 1 else '', []).append(path)
    return found


def counts(paths: list[Path], uses: Counter) -> tuple[dict, list[tuple[int, str]], list[tuple[int, str]]]:
    "Counts of some modules; (lines, name) of private functions used once; (parameters, name) of functions with many"
    n, once, many = Counter(), [], []
    for path in paths:
        source = path.read_text(encoding='utf-8')
        tree = ast.parse(source)
        tokens = code_tokens(source, tree)
        n['lines'] += len({token.start[0] for token in tokens})
        n['tokens'] += len(tokens)
        for node in ast.walk(tree):
            if isinstance(node, COMPREHENSIONS):
                n['comprehensions'] += 1
            elif isinstance(node, ast.Assign):
                n['tuples'] += isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple)
                n['lambdas'] += isinstance(node.targets[0], ast.Name) and isinstance(node.value, ast.Lambda)
            elif isinstance(node, ast.Call):
                n['dicts'] += isinstance(node.func, ast.Name) and node.func.id == 'dict' and bool(node.keywords)
                n['spreads'] += any(keyword.arg is None for keyword in node.keywords)
            elif isinstance(node, FUNCTIONS):
                place = f'{path.name}:{node.lineno} {node.name}'
                if node.name.startswith('_') and not node.name.endswith('__') and uses[node.name] == 1:
                    once.append((node.end_lineno - node.lineno + 1, place))
                if n_parameters(node) >= MANY:
                    many.append((n_parameters(node), place))
    return n, once, many


def used_names(folder: Path) -> Counter:
    "How often each name is used in a folder, as a name or an attribute"
    uses = Counter()
    for path in folder.rglob('*.py'):
        for node in ast.walk(ast.parse(path.read_text(encoding='utf-8'))):
            if isinstance(node, ast.Name):
                uses[node.id] += 1
            elif isinstance(node, ast.Attribute):
                uses[node.attr] += 1
    return uses


def export_cells() -> dict[str, list[int]]:
    "Characters of each exporting cell of our notebooks, by package"
    found = {}
    for path in (ROOT / 'nbs').rglob('*.ipynb'):
        if '.ipynb_checkpoints' in path.parts:
            continue
        cells = [c.source for c in nbformat.read(path, 4).cells if c.cell_type == 'code']
        name = next((m[1] for c in cells if (m := re.match(r'#\s*\|\s*default_exp (\S+)', c))), None)
        if name:
            sizes = [len(c) for c in cells if re.match(r'#\s*\|\s*export', c)]
            found.setdefault(name.split('.')[0] if '.' in name else '', []).extend(sizes)
    return found


def table(folder: Path) -> tuple[pd.DataFrame, list, list]:
    "The table, and the two lists of names"
    uses, rows, all_once, all_many = used_names(folder), [], [], []
    of_package = packages(folder)
    for name, paths in [*of_package.items(), ('all', [p for paths in of_package.values() for p in paths])]:
        n, once, many = counts(paths, uses)
        lines = max(n['lines'], 1)
        rows.append(
            {
                'package': name or '(top)',
                'lines': n['lines'],
                'tokens a line': n['tokens'] / lines,
                'comprehensions /100': 100 * n['comprehensions'] / lines,
                'tuple assignments /100': 100 * n['tuples'] / lines,
                'used once /1,000': 1000 * len(once) / lines,
                'dict(k=) /1,000': 1000 * n['dicts'] / lines,
                '** /1,000': 1000 * n['spreads'] / lines,
                'named lambdas': n['lambdas'],
                f'{MANY}+ parameters': len(many),
            }
        )
        if name == 'all':
            all_once, all_many = sorted(once, reverse=True), sorted(many, reverse=True)
    found = pd.DataFrame(rows).set_index('package')
    if folder == ROOT / 'srlviz':
        cells = export_cells()
        cells['all'] = [size for sizes in cells.values() for size in sizes]
        for name, sizes in cells.items():
            where = name or '(top)'
            if where in found.index:
                found.loc[where, 'cell, median'] = statistics.median(sizes)
                found.loc[where, 'cells > 4,000'] = sum(size > 4000 for size in sizes)
                found.loc[where, 'largest'] = max(sizes)
    return found, all_once, all_many


if __name__ == '__main__':
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('folder', nargs='?', type=Path, default=ROOT / 'srlviz')
    parser.add_argument('--names', action='store_true')
    parser.add_argument('--smoke', action='store_true', help='the same; it takes seconds')
    options = parser.parse_args()
    found, once, many = table(options.folder.resolve())
    print(found.round(1).to_string())
    if options.names:
        print('\nprivate functions used once\n' + '\n'.join(f'{n:5} {place}' for n, place in once))
        print(f'\nfunctions with {MANY} parameters and more\n' + '\n'.join(f'{n:5} {place}' for n, place in many))
