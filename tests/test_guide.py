"""The guide to adding a sampler, to the letter: a module, an export, a row, a paragraph."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest

import sundman
from docs import tables
from sundman.recipes import overdamped, registry

TESTS = Path(__file__).parent
GUIDE = (TESTS.parent / "docs" / "adding.md").read_text()
MODULE, EXPORT, ROW = re.findall(r"```python\n(.*?)```", GUIDE, flags=re.S)
(PARAGRAPH,) = re.findall(r"```markdown\n(.*?)```", GUIDE, flags=re.S)
NAME = "sundman.integrators._tamed"


@pytest.fixture(scope="module", autouse=True)
def followed() -> Iterator[None]:
    """``tamed`` as an integrator, its recipe exported, with its row in the battery; then undone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(TESTS / "law"))
        import samplers

        module = types.ModuleType(NAME)
        patch.setitem(sys.modules, NAME, module)
        exec(MODULE, module.__dict__)
        patch.setattr(sundman.integrators, "tamed", module.Tamed, raising=False)
        patch.setattr(sundman.integrators, "__all__", [*sundman.integrators.__all__, "tamed"])
        patch.setattr(sundman, "__all__", [*sundman.__all__, "tamed_sgld"])
        exports = dict(overdamped.__dict__)
        exec(EXPORT, exports)
        patch.setattr(sundman, "tamed_sgld", exports["tamed_sgld"], raising=False)
        patch.setitem(samplers.SAMPLERS, "tamed_sgld", None)
        exec(ROW, dict(samplers.__dict__))
        yield
        del registry.RECIPES["tamed_sgld"]


def command(*arguments: str) -> int:
    from sundman.cli import run

    return run(arguments)


@pytest.mark.slow
def test_the_new_sampler_has_the_right_law() -> None:
    from family import biases

    found = biases("tamed_sgld", "plane", 0.3, noisy=False)
    for bias in found.values():
        assert abs(bias.at_half) > 0.01, "the battery must see its first-order bias"
        assert abs(bias.at_half) <= bias.explained, str(bias)


def test_the_new_sampler_keeps_the_contract() -> None:
    import test_samplers as contract

    contract.test_is_an_optax_transformation("tamed_sgld")
    contract.test_same_key_same_path_other_key_other_path("tamed_sgld")
    contract.test_vmap_over_chains_is_separate_chains("tamed_sgld")


def test_the_new_sampler_is_a_value() -> None:
    tamed = sundman.tamed_sgld
    assert tamed(1e-3) == tamed(1e-3) != tamed(2e-3)
    assert repr(tamed(1e-3, 0.5)) == (
        "sundman.compose(integrators.tamed(0.5), clocks.constant(0.001))"
    )
    assert tamed(sundman.LearningRate(0.1)).in_time(100).settings["h"] == pytest.approx(1e-3)
    assert (tamed(1.0).weak_order, tamed(1.0).kinetic, tamed(1.0).biased) == (1, False, False)
    assert jax.vmap(tamed)(jnp.array([1e-3, 2e-3])).stacked == 2


@pytest.mark.slow
def test_the_command_line_knows_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from sundman.cli import options, samplers

    monkeypatch.setattr(options, "use_compilation_cache", lambda wanted: None)
    assert "tamed-sgld" in samplers.names()
    few = ["--width", "4", "--depth", "1", "--epochs", "2", "--output", str(tmp_path / "out")]
    assert command("bnn", "digits", "--sampler", "tamed-sgld", *few) == 0
    assert "tamed-sgld" in capsys.readouterr().out
    page = (tmp_path / "out" / "report.html").read_text()
    assert "tamed" in page
    assert "hutzenthaler2012strong" in page
    assert command("bnn", "--help") == 0
    assert "tamed-sgld" in capsys.readouterr().out
    assert command("cite", "tamed-sgld") == 0
    assert "Hutzenthaler" in capsys.readouterr().out


def test_networks_take_it() -> None:
    from sundman.cli.bnn.plan import make_plan
    from sundman.cli.settings import Request

    plan = make_plan(Request(in_options={"name": "digits", "sampler": "tamed-sgld"}))
    assert plan.name == "tamed-sgld"
    assert plan.sampler.integrator == sundman.integrators.tamed(1.0)


def test_it_is_cited() -> None:
    for asked in (sundman.tamed_sgld(1e-3), "tamed-sgld", "tamed_sgld", sundman.tamed_sgld):
        assert "Hutzenthaler" in sundman.cite(asked)


@pytest.mark.long
def test_a_run_and_its_report_call_it_by_its_name(tmp_path: Path) -> None:
    from sundman import report

    star = sundman.targets.star()
    draws = sundman.sample(
        star, sundman.tamed_sgld(1e-3), key=jax.random.key(0), steps=100, store=tmp_path / "run"
    )
    assert draws.settings["sampler"] == "tamed SGLD"
    found = report.of_run(tmp_path / "run")
    assert "tamed SGLD" in found.title
    report.write(found, tmp_path / "page.html")
    assert "hutzenthaler2012strong" in (tmp_path / "page.html").read_text()


def test_the_tables_have_it_and_the_pages_are_out_of_date() -> None:
    row = "| `tamed_sgld` |  |  | tamed Euler-Maruyama | 1 |"
    assert row in tables.short().splitlines()
    assert "Hutzenthaler, Jentzen, Kloeden (2012)" in tables.full()
    root = TESTS.parent
    assert {str(path.relative_to(root)) for path in tables.outdated()} == {
        *("README.md", "docs/samplers.md", "docs/cli.md"),
        "docs/api/samplers.md",
    }


def test_the_citations_have_it() -> None:
    import test_citations as citations

    citations.test_every_recipe_can_be_cited()
    citations.test_every_integrator_can_be_cited()
    citations.test_everything_is_in_all()
    citations.test_entries_are_balanced_and_their_keys_differ()


def test_the_api_pages_have_it() -> None:
    import test_api_pages as pages

    pages.test_all_that_is_public_is_on_a_page(sundman)
    pages.test_all_that_is_public_is_on_a_page(sundman.integrators)
    for path, names in pages.shown():
        pages.test_what_a_page_shows_is_there(path, names)


def test_stored_paths_are_those_that_there_were() -> None:
    from golden import test_golden

    test_golden.test_what_is_stored_is_a_case()


def test_its_example_row_and_paragraph_are_what_others_have() -> None:
    import test_recipe_examples as examples
    import test_sampler_tables
    import test_sampler_values as values

    examples.test_arguments_and_what_is_returned_are_explained("tamed_sgld")
    examples.test_the_example_gives_what_it_says("tamed_sgld")
    values.test_equal_settings_make_equal_samplers("tamed_sgld")
    test_sampler_tables.test_every_recipe_is_in_every_table()
    page = (TESTS.parent / "docs" / "samplers.md").read_text()
    test_sampler_tables.check_paragraphs(f"{page}\n{PARAGRAPH}")
