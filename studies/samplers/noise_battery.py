"""A battery of statistical tests of the noise, at a larger scale than the test suite.

Every test gives a p-value, uniform on (0, 1) for a perfect generator. The battery runs with
the rounds in use, with the conservative 20, and with 8 as a comparison that shows what the
tests can see. It fails when a p-value of 13 rounds or more is below 1e-6, save those marked
with a star (see ``related``).

    python -m studies.samplers.noise_battery --draws 16777216 --output noise_battery.json
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tests" / "noise"))

import draws
import quality

from sundman.noise import threefry2x32
from sundman.noise.stream import CONSERVATIVE_ROUNDS, DEFAULT_ROUNDS

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]
Results = Iterator[tuple[str, float]]

COMPARISON_ROUNDS = 8
ROUNDS = (COMPARISON_ROUNDS, DEFAULT_ROUNDS, CONSERVATIVE_ROUNDS)
THRESHOLD = 1e-6
UNJUDGED = " *"
RELATED = {"by 1": (0, 1), "by 2^31": (0, 2**31), "by 2^31 twice": (2**31, 2**31)}
LAGS = range(1, 51)
BIRTHDAY_WORDS = 2**21
WIDTH = 1024


def law(normals: Floats) -> Results:
    """One number at a time: moments, distribution, cells, tails."""
    uniform = quality.uniforms(normals)
    yield "moments 1-6", quality.worst(quality.moment_scores(normals, quality.normal_moments(12)))
    yield "Kolmogorov-Smirnov", quality.kolmogorov_smirnov(uniform)
    for cells in (1000, 100_000):
        yield f"{cells} equal cells", quality.serial(uniform, cells)
    for threshold in (3.0, 4.0, 5.0):
        yield f"tail beyond {threshold:g} sigma", quality.tail(normals, threshold)


def neighbours(normals: Floats) -> Results:
    """Consecutive elements of one step."""
    squares, uniform = quality.standard_squares(normals), quality.uniforms(normals)
    yield "lags 1-50", quality.worst(quality.lag_scores(normals, LAGS))
    yield "lags 1-50 of squares", quality.worst(quality.lag_scores(squares, LAGS))
    yield (
        "normals with squares",
        quality.worst(quality.cross_scores(normals, squares, [*range(-20, 0), *range(1, 21)])),
    )
    yield "serial 2D", quality.serial(grouped(uniform, 2), 128)
    yield "serial 3D", quality.serial(grouped(uniform, 3), 25)
    yield "runs of one sign", quality.worst(np.array([quality.sign_changes(normals)]))
    yield "runs up and down", quality.worst(np.array([quality.turning_points(normals)]))


def rows(normals: Floats) -> Results:
    """The same and other elements of consecutive rows: steps, seeds or chains."""
    squares = quality.standard_squares(normals)
    yield "lags 1-50", quality.worst(quality.lag_scores(normals, LAGS, axis=0))
    yield "lags 1-50 of squares", quality.worst(quality.lag_scores(squares, LAGS, axis=0))
    yield "other elements", quality.worst(quality.diagonal_scores(normals, LAGS))
    uniform = quality.uniforms(normals).T.ravel()
    yield "serial 2D", quality.serial(grouped(uniform, 2), 128)
    yield "serial 3D", quality.serial(grouped(uniform, 3), 25)


def words(pairs: Words, later: Words) -> Results:
    """The 64 random bits of each element, and of the same element one step later."""
    yield "balance of 64 bits", quality.worst(quality.bit_balance(pairs))
    yield "Hamming weight", quality.hamming_weight(pairs)
    yield "bit correlations", quality.worst(quality.bit_correlations(pairs))
    yield "bits of next element", quality.worst(quality.bit_products(pairs[:-1], pairs[1:]))
    yield "bits of next step", quality.worst(quality.bit_products(pairs, later))
    yield "weight of change, element", quality.hamming_weight(pairs[::2] ^ pairs[1::2])
    yield "weight of change, step", quality.hamming_weight(pairs ^ later)
    for name, word in (("first", pairs[:, 0]), ("second", pairs[:, 1])):
        for order, turned in (("", word), (" bytes reversed", word.byteswap())):
            uniform = turned / 2.0**32
            yield f"gaps, {name}{order}", quality.gaps(uniform, 0.125)
            yield f"serial 2D, {name}{order}", quality.serial(grouped(uniform, 2), 256)
            yield f"birthdays, {name}{order}", quality.birthday_spacings(turned[:BIRTHDAY_WORDS])


def grouped(values: NDArray, size: int) -> NDArray:
    """Successive values in rows of ``size``, without overlap."""
    return values[: values.size // size * size].reshape(-1, size)


def encrypt(key: Array, counter: Words, rounds: int) -> Words:
    """The words of counters (rows) under one key."""
    return np.stack([np.asarray(word) for word in _encrypt(key, counter, rounds)], axis=1)


@partial(jax.jit, static_argnums=2)
def _encrypt(key: Array, counter: Array, rounds: int) -> tuple[Array, Array]:
    return threefry2x32((key[0], key[1]), (counter[:, 0], counter[:, 1]), rounds)


def cipher(key: Words, count: int, rounds: int) -> Results:
    """One input bit changed: each of 64 output bits should change half of the time."""
    for name, change in (("counter", flip_counter), ("key", flip_key)):
        changes = [change(key, count, bit, rounds) for bit in range(64)]
        scores = np.array([quality.bit_balance(changed) for changed in changes])
        yield f"avalanche, {name}", quality.worst(scores)
        yield f"weight of change, {name}", quality.hamming_weight(np.concatenate(changes))


def related(key: Words, count: int, rounds: int) -> Results:
    """Two keys and two counters with one sum, which makes the first four rounds coincide.

    Thirteen rounds do not hide this, 20 do. It is not judged, because keys made by ``fold`` or
    ``split`` do not meet so, and keys of nearby seeds only at elements some 2^30 apart.
    """
    counter = counters(count)
    for name, shift in RELATED.items():
        shifted = np.array(shift, np.uint32)
        first = encrypt(key, counter, rounds)
        second = encrypt(key + shifted, counter - shifted, rounds)
        both = np.stack([first[:, 0], second[:, 0]], axis=1) / 2.0**32
        yield f"{name}, bits{UNJUDGED}", quality.worst(quality.bit_products(first, second))
        yield f"{name}, first words{UNJUDGED}", quality.serial(both, 64)


def counters(count: int) -> Words:
    """The counters of the elements of step 0."""
    return np.stack([np.arange(count), np.zeros(count)], axis=1).astype(np.uint32)


def unit(bit: int) -> Words:
    """Two words with one bit set."""
    return np.array([1 << bit & 0xFFFFFFFF, 1 << bit >> 32], np.uint32)


def flip_counter(key: Words, count: int, bit: int, rounds: int) -> Words:
    """The change of the words when a bit of the counter changes, from 0 lest pairs repeat."""
    counter = counters(count)
    if bit < 32:
        index = counter[:, 0].astype(np.uint64)
        counter[:, 0] = (index >> bit << (bit + 1)) | (index & (2**bit - 1))
    return encrypt(key, counter, rounds) ^ encrypt(key, counter ^ unit(bit), rounds)


def flip_key(key: Words, count: int, bit: int, rounds: int) -> Words:
    """The change of the words when a bit of the key changes."""
    counter = counters(count)
    return encrypt(key, counter, rounds) ^ encrypt(key ^ unit(bit), counter, rounds)


def battery(count: int, seed: int, rounds: int) -> Results:
    """All tests of a generator with so many rounds."""
    with mock.patch("sundman.noise.stream.DEFAULT_ROUNDS", rounds):
        normals = draws.elements(count, seed=seed)
        yield from titled("law", law(normals))
        yield from titled("elements", neighbours(normals))
        height = count // WIDTH
        yield from titled("steps", rows(draws.by_step(height, WIDTH, seed=seed)))
        yield from titled("seeds", rows(draws.by_key(draws.seed_keys(height), WIDTH)))
        chains = draws.chain_keys(height, seed=seed)
        yield from titled("chains", rows(draws.by_key(chains, WIDTH)))
        pairs = [draws.word_pairs(count // 4, seed=seed, step=step) for step in (0, 1)]
        yield from titled("words", words(*pairs))
    key = np.asarray(draws.stream(seed).key)
    yield from titled("cipher", cipher(key, count // 256, rounds))
    yield from titled("related", related(key, count // 16, rounds))


def titled(title: str, results: Results) -> Results:
    """The results with a title before each name."""
    return ((f"{title}: {name}", p) for name, p in results)


def precision(count: int, seed: int) -> dict[str, float]:
    """Single-precision normals against the double-precision ones of the same key."""
    single = draws.elements(count, seed=seed)
    with jax.enable_x64(True):
        double = draws.elements(count, seed=seed, dtype=jnp.float64)
    error = np.abs(single - double)
    levels = (0.5, 0.99, 0.9999, 0.99999)
    found = {f"error quantile {q:g}": float(np.quantile(error, q)) for q in levels}
    return found | {
        "error largest": float(np.max(error)),
        "largest |z| drawn": float(np.max(np.abs(single))),
    }


def judged(column: dict[str, float]) -> list[str]:
    """The names of the tests that decide."""
    return [name for name in column if not name.endswith(UNJUDGED)]


def fails(column: dict[str, float]) -> bool:
    """Whether a p-value that decides is below the threshold."""
    return any(column[name] < THRESHOLD for name in judged(column))


def table(results: dict[int, dict[str, float]]) -> Table:
    """P-values, one row a test and one column a number of rounds."""
    shown = Table("test", title="p-values of the noise battery", caption="* shown, not judged")
    for rounds in results:
        note = " (comparison)" if rounds == COMPARISON_ROUNDS else ""
        shown.add_column(f"{rounds} rounds{note}", justify="right")
    for name in next(iter(results.values())):
        shown.add_row(name, *(coloured(column[name]) for column in results.values()))
    return shown


def coloured(p: float) -> str:
    """A p-value for the table, red when it fails."""
    return f"[bold red]{p:.2g}[/]" if p < THRESHOLD else f"{p:.4f}"


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2**24, help="normals in the largest tests")
    parser.add_argument("--seed", type=int, default=0, help="seed of the key")
    parser.add_argument("--output", type=Path, help="where to write the results as JSON")
    return parser.parse_args()


def report(options: argparse.Namespace, results: dict[int, dict[str, float]]) -> dict[str, Any]:
    """What the JSON file holds."""
    worst = {
        rounds: min(judged(column), key=column.__getitem__) for rounds, column in results.items()
    }
    return {
        "draws": options.draws,
        "seed": options.seed,
        "threshold": THRESHOLD,
        "versions": {"jax": jax.__version__, "numpy": np.__version__, "scipy": scipy.__version__},
        "precision": precision(min(options.draws, 2**24), options.seed),
        "worst": {
            rounds: {"test": name, "p": results[rounds][name]} for rounds, name in worst.items()
        },
        "p_values": results,
    }


def main() -> int:
    """Run, print and save the battery; the exit code is 1 when a test fails."""
    options, console, start = arguments(), Console(), time.perf_counter()
    results: dict[int, dict[str, float]] = {}
    for rounds in ROUNDS:
        with console.status(f"{rounds} rounds"):
            results[rounds] = dict(battery(options.draws, options.seed, rounds))
    console.print(table(results))
    found = report(options, results)
    for name, value in found["precision"].items():
        console.print(f"{name}: {value:.4g}")
    for rounds, case in found["worst"].items():
        console.print(f"worst of {rounds} rounds: p = {case['p']:.3g} ({case['test']})")
    for rounds, column in results.items():
        starred = [name for name in column if name.endswith(UNJUDGED) and column[name] < THRESHOLD]
        console.print(f"below the threshold but not judged, {rounds} rounds: {len(starred)}")
    console.print(f"{time.perf_counter() - start:.0f} s")
    if options.output:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(found, indent=2) + "\n")
    return int(any(fails(results[rounds]) for rounds in ROUNDS[1:]))


if __name__ == "__main__":
    sys.exit(main())
