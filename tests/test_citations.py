"""Every sampler knows what to cite."""

import re

import pytest

import sundman
from sundman import citations

RECIPES = {
    "sgld": (sundman.sgld(1e-3), "welling2011"),
    "sa_sgld": (sundman.sa_sgld(1e-3, alpha=1.0, m=0.1, M=10.0, r=0.5), "rajpal2025"),
    "lm": (sundman.lm(1e-3), "leimkuhler2013rational"),
    "sghmc": (sundman.sghmc(1e-3), "chen2014"),
    "baoab": (sundman.baoab(1e-3), "leimkuhler2013robust"),
    "samadams": (sundman.samadams(1e-3), "leimkuhler2025"),
    "sgnht": (sundman.sgnht(1e-3), "ding2014"),
}


def test_every_recipe_can_be_cited():
    for name in sundman.recipes.RECIPES:
        assert name.replace("_", "-") in citations.names()


def test_every_integrator_can_be_cited():
    schemes = [name for name in sundman.integrators.__all__ if name.islower()]
    for name in {*schemes} - {"staged", "whitened"}:
        references = getattr(sundman.integrators, name).references
        assert references
        assert all(key in sundman.cite() for key in references)


def test_an_integrator_of_somebody_else_brings_its_own_entry():
    class Mine(sundman.integrators.euler_maruyama):
        references = ("@article{mine2026, title = {Mine}}", "welling2011sgld")

    entries = sundman.cite(sundman.compose(Mine(), sundman.clocks.constant(0.1)))
    assert "mine2026" in entries
    assert "welling2011sgld" in entries


def test_a_clock_and_an_integrator_bring_their_papers():
    mixed = sundman.compose(
        sundman.integrators.leimkuhler_matthews(), sundman.clocks.cyclical(1e-3, cycle=100)
    )
    assert "zhang2020" in sundman.cite(mixed)
    assert "leimkuhler2013rational" in sundman.cite(mixed)


@pytest.mark.parametrize("name", RECIPES)
def test_a_sampler_and_its_name_cite_the_same(name):
    sampler, paper = RECIPES[name]
    assert sundman.cite(sampler) == sundman.cite(name) == sundman.cite(getattr(sundman, name))
    assert paper in sundman.cite(name)
    assert "salmon2011" in sundman.cite(name)
    assert "@software{sundman" in sundman.cite(name)


def test_everything_is_in_all():
    every = sundman.cite()
    for name in citations.names():
        for entry in citations.entries(name):
            assert entry in every


def test_entries_are_balanced_and_their_keys_differ():
    entries = citations.entries()
    keys = [re.match(r"@\w+\{(\w+),", entry)[1] for entry in entries]
    assert len(set(keys)) == len(keys)
    for entry in entries:
        assert entry.count("{") == entry.count("}")
    assert f"version = {{{sundman.__version__}}}" in sundman.cite("sundman")


def test_an_unknown_name_is_refused():
    with pytest.raises(ValueError, match="must be one of"):
        sundman.cite("adam")
