"""The list of the modules that make decisions names what is there."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from tests.tools.mutant_list import EQUIVALENT, MODULES, ROOT, Module, breed, unknown_functions


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.path)
def test_a_module_has_the_functions_and_the_tests_that_are_listed(module: Module) -> None:
    assert unknown_functions(module, ast.parse((ROOT / module.path).read_bytes())) == set()
    paths = [name for name in module.tests if name.startswith("tests/")]
    assert paths
    assert [name for name in paths if not (ROOT / name).exists()] == []


def test_a_function_that_is_gone_is_told() -> None:
    tree = ast.parse("class Memory:\n    def follow(self): ...\n")
    module = replace(MODULES[0], functions=frozenset({"follow", "_seen"}))
    assert unknown_functions(module, tree) == {"_seen"}


def test_what_nobody_can_notice_is_a_change_that_is_made() -> None:
    assert EQUIVALENT.keys() - {mutant.key for mutant in breed()} == set()


def test_no_two_changes_have_one_key() -> None:
    keys = [mutant.key for mutant in breed()]
    assert sorted(set(keys)) == sorted(keys)
