"""The guide's table of what can be set in all worlds. After a change of what is settable, run this file."""

import re
from pathlib import Path

from srlviz.data.worlds.record import settable_table

GUIDE = Path(__file__).parents[1] / 'docs/guides/twins.md'
HEAD = '| world | settable, or why not |\n|---|---|\n'


def short(names):
    "Write numbered factors as one: `ago_0 to ago_3`"
    families = {}
    for name in names:
        stem = re.sub(r'_\d+$', '_', name)
        families.setdefault(stem, []).append(name)
    parts = [f'`{found[0]}`' if len(found) == 1 else f'`{found[0]} to {found[-1]}`' for found in families.values()]
    return ', '.join(parts)


def rows():
    return ''.join(f'| {name} | {short(row.settable) or row.reason} |\n' for name, row in settable_table().iterrows())


def parts():
    "The guide before its table, and the rows of the table"
    text = GUIDE.read_text(encoding='utf-8')
    before, _, found = text.partition(HEAD)
    return before + HEAD, found


def test_the_guide_has_every_world_and_what_can_be_set_there():
    _, found = parts()
    assert found == rows(), f'python {Path(__file__).name} writes the table'


def test_numbered_factors_are_one_entry():
    assert short(['answer', 'ago_0', 'ago_1', 'ago_2', 'card_7']) == '`answer`, `ago_0 to ago_2`, `card_7`'


if __name__ == '__main__':
    GUIDE.write_text(parts()[0] + rows(), encoding='utf-8')
