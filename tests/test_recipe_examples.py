"""The example in the documentation of every recipe is run as it is printed."""

from __future__ import annotations

import doctest
import inspect

import jax
import optax
import pytest

import sundman
from sundman.recipes import RECIPES

GLOBALS = {"jax": jax, "optax": optax, "sundman": sundman}


@pytest.mark.parametrize("name", list(RECIPES))
def test_the_example_gives_what_it_says(name: str) -> None:
    parser, runner = doctest.DocTestParser(), doctest.DocTestRunner()
    text = inspect.getdoc(RECIPES[name].make) or ""
    example = parser.get_doctest(text, dict(GLOBALS), name, None, None)
    assert example.examples, f"{name} has no example"
    printed: list[str] = []
    runner.run(example, out=printed.append)
    assert not runner.summarize(verbose=False).failed, "".join(printed)


@pytest.mark.parametrize("name", list(RECIPES))
def test_arguments_and_what_is_returned_are_explained(name: str) -> None:
    recipe = RECIPES[name]
    text = inspect.getdoc(recipe.make) or ""
    assert "\nReturns:\n" in text
    arguments = text.split("\nArgs:\n")[1].split("\n\n")[0]
    for parameter in inspect.signature(recipe.make).parameters:
        assert f"{parameter}" in arguments, f"{name} does not explain {parameter}"
