"""Everything public has its place in docs/api, and every room in docs/architecture.md."""

import importlib
import inspect
import pkgutil
import re
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest

import sundman
from docs import tables

ROOMS = (
    *("clocks", "clocks.monitors", "data", "diagnosis", "estimate", "gradients", "integrators"),
    *(
        "contrib",
        "contrib.integrators",
        "contrib.metric_tensors",
        "contrib.monitors",
        "metrics",
        "noise",
        "priors",
        "recipes",
        "targets",
        "watch",
    ),
)
PACKAGES = [sundman, *(importlib.import_module(f"sundman.{room}") for room in ROOMS)]
ROOT = Path(__file__).parents[1]


def shown() -> list[tuple[str, str]]:
    """(path, names) of what the pages show, with what the samplers fill in."""
    pages = (ROOT / "docs" / "api").glob("*.md")
    text = "\n".join(tables.filled(page.read_text()) for page in pages)
    return re.findall(r"^::: (\S+)(?:\n    options:\n      members: \[(.*)\])?", text, re.M)


SHOWN = shown()


def members(path: str, names: str) -> list[object]:
    """What a page shows of a module or a class: all that is public, if it does not say."""
    owner = pkgutil.resolve_name(path)
    if not isinstance(owner, ModuleType):
        if not names:
            return [owner]
        owner = importlib.import_module(path)
    listed = re.findall(r"\w+", names) or getattr(owner, "__all__", [*vars(owner)])
    return [owner, *(getattr(owner, name) for name in listed)]


PROTOCOLS = {
    sundman.clocks.Clock: ["init", "tick"],
    sundman.clocks.monitors.Monitor: ["init", "measure"],
    sundman.contrib.curvature.Curvature: ["__call__"],
    sundman.gradients.GradientEstimator: ["__call__", "evaluate"],
    sundman.integrators.Integrator: ["init", "move", "weigh"],
    sundman.likelihoods.Likelihood: ["log_hyper", "log_prob", "predict", "check_targets"],
    sundman.contrib.metric_tensors.Metric: ["root_times", "divergence", "root_divergence"],
    sundman.priors.Prior: ["hyper", "log_density", "of_squares"],
    sundman.watch.Watcher: ["start", "block", "event", "close"],
}


@pytest.mark.parametrize("path, names", SHOWN, ids=[path for path, _ in SHOWN])
def test_what_a_page_shows_is_there(path: str, names: str) -> None:
    assert all(each is not None for each in members(path, names))


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_all_that_is_public_is_on_a_page(package: ModuleType) -> None:
    on_pages = {id(each) for path, names in shown() for each in members(path, names)}
    public = {name: getattr(package, name) for name in package.__all__}
    missing = {name for name, each in public.items() if id(each) not in on_pages}
    assert {name for name in missing if callable(public[name])} == set()


MODULES = (
    *ROOMS,
    "contrib.curvature",
    "likelihoods",
    "models",
    "native",
    "plot",
    "posterior",
    "value",
)


def exported(module: ModuleType) -> Iterator[tuple[str, Callable[..., object], tuple[type, ...]]]:
    """Public functions of a module and methods of its classes, with the bases of the class."""
    own = [name for name, each in vars(module).items() if _belongs(each, module.__name__)]
    for name in getattr(module, "__all__", own):
        each = getattr(module, name)
        if _is_function(each):
            yield name, each, ()
        if inspect.isclass(each) and each.__module__.startswith("sundman"):
            for method, function in inspect.getmembers(each, _is_function):
                yield f"{name}.{method}", function, (*each.__mro__, *_kept(each))


def _kept(each: type) -> list[type]:
    """The protocols whose methods a class has."""
    return [p for p, methods in PROTOCOLS.items() if all(hasattr(each, name) for name in methods)]


def _is_function(each: object) -> bool:
    return inspect.isfunction(inspect.unwrap(getattr(each, "__func__", each)))


def _belongs(each: object, module: str) -> bool:
    return getattr(each, "__module__", None) == module and not each.__name__.startswith("_")


def explained(function: Callable[..., object]) -> bool:
    """Whether the documentation says what goes in, and what comes out if something does."""
    text = inspect.getdoc(function) or ""
    returned = inspect.signature(function).return_annotation in (None, "None", "Never")
    return "Args:" in text and (returned or "Returns:" in text or "Yields:" in text)


@pytest.mark.parametrize("room", ["", *MODULES])
def test_functions_of_three_parameters_or_more_explain_them(room: str) -> None:
    module = importlib.import_module(f"sundman.{room}".rstrip("."))
    for name, function, bases in exported(module):
        method = name.split(".")[-1]
        if method.startswith("_") or not function.__module__.startswith("sundman"):
            continue
        parameters = [*inspect.signature(function).parameters]
        if len([each for each in parameters if each not in ("self", "cls")]) < 3:
            continue
        inherited = [getattr(base, method) for base in bases if method in vars(base)]
        assert any(map(explained, inherited or [function])), f"{module.__name__}.{name}"


@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda protocol: protocol.__name__)
def test_what_a_user_may_implement_explains_each_argument(protocol: type) -> None:
    for name in PROTOCOLS[protocol]:
        method = getattr(protocol, name)
        text = inspect.getdoc(method) or ""
        for argument in [*inspect.signature(method).parameters][1:]:
            assert re.search(rf"^\s+\*{{0,2}}{argument}: ", text, re.MULTILINE), (name, argument)


def test_architecture_has_files_that_are_there_and_the_layers_that_the_linter_holds() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text()
    for path in re.findall(r"`(sundman/\S+\.py)`", text):
        assert (ROOT / path).exists(), path
    table: dict[int, set[str]] = {}
    for layer, line in re.findall(r"^\| (\d+) \| (.*?) \|", text, re.MULTILINE):
        table.setdefault(int(layer), set()).update(re.findall(r"`(\w+)`", line))
    rooms = {
        path.stem
        for path in (ROOT / "sundman").iterdir()
        if (path.suffix == ".py" and path.stem != "__init__") or (path / "__init__.py").exists()
    }
    assert set.union(*table.values()) == rooms
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = settings["contracts"][0]["layers"]
    assert table == {
        number: rooms & set(re.findall(r"\w+", layer))
        for number, layer in enumerate(reversed(layers), start=1)
    }
