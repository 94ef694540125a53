"""What `make test` runs of a long list of cases; the rest is marked slow and runs in `make slow`."""

import pytest


def slow_except(quick, cases) -> list:
    "Parameters for a test of each case: slow but for the quick ones"
    missing = set(quick) - set(cases)
    assert not missing, f'no such case: {missing}'
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]


def one_of_each(family, cases) -> list:
    "Parameters for a test of each case: slow but for the first case of each family; `family` gives a case's family"
    first = {}
    for case in cases:
        first.setdefault(family(case), case)
    return slow_except(set(first.values()), cases)
