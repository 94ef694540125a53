"""Format, export and clean every notebook, write README.md from nbs/index.ipynb, and fail if that changed anything.

A tree in which all notebooks are exported and clean passes, committed or not. With --write the changes are expected.
"""

import hashlib, subprocess, sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HANDWRITTEN = ('tests', 'benchmarks', '.ci')  # not exported from notebooks


def readme(root: Path) -> str:
    "Return the text of README.md, from nbs/index.ipynb"
    from nbconvert import MarkdownExporter

    body, _ = MarkdownExporter().from_filename(str(root / 'nbs/index.ipynb'))
    return body.strip() + '\n'


def contents(root: Path) -> dict[str, str]:
    "Return the hash of every file that is compared"
    kinds = [('srlviz', '*.py'), ('nbs', '*.ipynb'), *((d, '*.py') for d in HANDWRITTEN)]
    files = [p for d, kind in kinds for p in (root / d).rglob(kind) if '.ipynb_checkpoints' not in p.parts]
    files = [p for p in files if p.name != '_modidx.py']  # nbdev's index of symbols, which git ignores
    files.append(root / 'README.md')
    return {str(p.relative_to(root)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files if p.exists()}


def sync(root: Path) -> list[str]:
    "Update modules and README from the notebooks; return the changed files"
    before = contents(root)
    handwritten = [d for d in HANDWRITTEN if (root / d).is_dir()]
    for name, *arguments in (
        ('ruff', 'format', '--quiet', 'nbs', *handwritten),
        ('nbdev-export',),
        ('nbdev-clean',),
    ):
        subprocess.run([str(Path(sys.executable).with_name(name)), *arguments], cwd=root, check=True)
    if (root / 'nbs/index.ipynb').exists():
        text, target = readme(root), root / 'README.md'
        if not target.exists() or target.read_text(encoding='utf-8') != text:
            target.write_text(text, encoding='utf-8')
    after = contents(root)
    return sorted(f for f in before | after if before.get(f) != after.get(f))


if __name__ == '__main__':
    changed = sync(ROOT)
    for f in changed:
        print('  ' + f)
    if changed and '--write' not in sys.argv:
        sys.exit(
            'These files did not match their notebooks and have been updated: check the changes (git diff), then run '
            'this again.'
        )
