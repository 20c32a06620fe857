"""The bias of the step that a run states, held against the true one.

    python -m studies.nuts.step_bias

Seven densities with exact draws, each tuned once for every bias asked for, then 512 chains from
exact draws. The true bias of every observable is the average over all chains less the exact value;
what is stated is ``estimate.step_bias`` of all chains, and ``estimate.mean(...).bias`` of groups of
64 and of 4 chains. All in % of the observable's standard deviation. Written to
``results/step-bias.json`` as it comes; what is there is not run again.
"""

from __future__ import annotations

import dataclasses
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import sundman
from studies.nuts.auto_targets import rotated
from studies.report import settings
from sundman import estimate, targets

RESULT = Path(__file__).parent / "results" / "step-bias.json"
CHAINS, STEPS, THIN = 512, 10_000, 5
BIASES = (0.02, 0.06)
GROUPS = {64: 8, 4: 16}
TARGETS: dict[str, Callable[[], targets.Target]] = {
    "star": targets.star,
    "banana": targets.banana,
    "muller-brown": lambda: targets.muller_brown(temperature=2.0),
    "quartic": targets.quartic,
    "double-well": targets.double_well,
    "gaussian": lambda: targets.gaussian(20, 1e4),
    "rotated": rotated,
}


def part(draws: sundman.Draws, chains: slice) -> sundman.Draws:
    """Some of the chains."""
    return dataclasses.replace(
        draws,
        values=draws.values[chains],
        weight=draws.weight[chains],
        stats={name: draws.stats[name][chains] for name in ("work", "potential")},
        diverged_at=draws.diverged_at[chains],
        last=draws.last[chains],
    )


def measure(name: str, bias: float) -> dict[str, Any]:
    """All observables of a target."""
    target = TARGETS[name]()
    assert target.exact is not None
    names = [each for each in target.observables if each in target.truth]

    def collect(x: jax.Array) -> jax.Array:
        return jnp.stack([jnp.float32(target.observables[each](x)) for each in names])

    draws = sundman.sample(
        target,
        sundman.auto(bias=bias),
        init=target.exact(jax.random.key(3), CHAINS),
        per_chain=True,
        key=jax.random.key(5),
        chains=CHAINS,
        steps=STEPS,
        thin=THIN,
        collect=collect,
        stats=(),
        progress=False,
    )
    assert draws.tuning is not None
    truth = np.array([float(target.truth[each]) for each in names])
    whole, stated = draws.mean(), estimate.step_bias(draws)
    leaving = dataclasses.replace(draws, weight=np.asarray(draws.stats["dt"])).mean()
    assert stated is not None
    sd = np.sqrt(draws.variance())

    def share(x: Any) -> list[float]:
        return np.round(100 * x / sd, 4).tolist()

    columns = {
        str(size): [
            share(estimate.mean(part(draws, slice(i * size, (i + 1) * size))).bias)
            for i in range(number)
        ]
        for size, number in GROUPS.items()
    }
    return {
        "target": name,
        "bias": bias,
        "h": draws.tuning.chosen.h,
        "v": draws.tuning.windows[-1].v,
        "lost": int(draws.diverged.sum()),
        "scale": 100 * draws.tuning.bias,
        "observables": names,
        "true": share(whole.value - truth),
        "true_error": share(whole.error),
        "leaving": share(leaving.value - truth),
        "stated": share(stated.value),
        "stated_error": share(stated.error),
        "columns": columns,
    }


def summary(rows: list[dict[str, Any]], bias: float) -> None:
    """What the numbers say together."""
    rows = [row for row in rows if row["bias"] == bias]
    true, error, stated, own = (
        np.concatenate([row[key] for row in rows])
        for key in ("true", "true_error", "stated", "stated_error")
    )
    print(f"bias {bias}: {len(true)} observables, median true {np.median(np.abs(true)):.3f}")
    left = np.sqrt(np.mean((true - stated) ** 2)), np.sqrt(np.mean(error**2 + own**2))
    print(
        f"  rms of the true bias {np.sqrt(np.mean(true**2)):.2f}, less the stated one {left[0]:.2f}"
        f" (by chance {left[1]:.2f})"
    )
    scales = np.concatenate([np.full(len(row["true"]), row["scale"]) for row in rows])
    print(
        f"  0.35 sqrt(v): covers {np.mean(np.abs(true) - 2 * error < scales):.0%}, "
        f"median {np.median(scales):.3f}"
    )
    for size in GROUPS:
        column = np.concatenate([np.array(row["columns"][str(size)]) for row in rows], axis=1)
        covers = np.abs(true) - 2 * error < column
        print(
            f"  column of {size} chains: covers {covers.mean():.0%}, median {np.median(column):.3f}"
        )


def main() -> None:
    """Run what is missing."""
    warnings.simplefilter("ignore")
    rows = json.loads(RESULT.read_text())["rows"] if RESULT.exists() else []
    for bias in BIASES:
        for name in TARGETS:
            if any(row["target"] == name and row["bias"] == bias for row in rows):
                continue
            rows.append(row := measure(name, bias))
            RESULT.write_text(
                json.dumps(
                    {
                        "command": "python -m studies.nuts.step_bias",
                        "settings": settings(chains=CHAINS, steps=STEPS, thin=THIN),
                        "rows": rows,
                    },
                    indent=1,
                )
                + "\n"
            )
            print(f"{name} bias {bias}: h {row['h']:.3f}, v {row['v']:.1e}, lost {row['lost']}")
            for i, each in enumerate(row["observables"]):
                print(
                    f"  {each:10s} true {row['true'][i]:+.2f} ± {row['true_error'][i]:.2f}, stated "
                    f"{row['stated'][i]:+.2f} ± {row['stated_error'][i]:.2f}, "
                    f"leaving weights {row['leaving'][i]:+.2f}",
                    flush=True,
                )
        summary(rows, bias)


if __name__ == "__main__":
    main()
