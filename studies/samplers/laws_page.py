"""The tables of laws.json in the pages: each between ``<!-- laws: name -->`` and ``<!-- end -->``.

    python -m studies.samplers.laws_page [--result FILE] [--docs DIRECTORY]

A sentence that has a number of the file stands in its block, too, so that no number is copied by
hand. A block of a part that is not in the file says so.
"""

from __future__ import annotations

import argparse
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
RESULT = HERE / "results" / "laws.json"
PAGES = ("README.md", "laws.md")
BLOCK = re.compile(r"<!-- laws: (\w+) -->\n.*?<!-- end -->", re.DOTALL)

Values = Mapping[str, Any]


def _digits(error: float) -> int:
    """Decimals that show an error's first digit, and its second if the first is 1."""
    exponent = math.floor(math.log10(error))
    return max(-exponent + (error / 10.0**exponent < 1.95), 0)


def brackets(measured: Values, sign: str = "") -> str:
    """A value with the error of its last digits, as in .153(12)."""
    value, error = measured["value"], measured["error"]
    if not error > 0.0:
        return number(value, sign)
    digits = _digits(error)
    shown = f"{error:.{digits}f}" if error >= 1.0 else f"{error * 10**digits:.0f}"
    return number(value, sign, digits) + f"({shown})"


def number(value: float, sign: str = "", digits: int = 4) -> str:
    """A number without the zero before its point."""
    return re.sub(r"^([+-]?)0\.", r"\1.", f"{value:{sign}.{digits}f}")


def percent(measured: Values) -> str:
    """A relative error in percent with its standard error."""
    value, error = 100.0 * measured["value"], 100.0 * measured["error"]
    digits = _digits(error) if error > 0.0 else 1
    return f"{value:+.{digits}f} ± {error:.{digits}f}%"


def step(dt: float) -> str:
    """A mean step in three digits."""
    return f"{dt:.3g}" if dt >= 1e-3 else f"{dt:.2e}".replace("e-0", "e-")


def table(*rows: Iterable[str]) -> str:
    """Rows of cells, the first of them the header."""
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|---" * (lines[0].count(" | ") + 1) + "|", *lines[1:]])


def star(part: Values) -> str:
    """Bias at finite steps on the star."""
    settings, values = part["settings"], part["values"]
    rows = [
        (
            name,
            step(row["mean_dt"]),
            brackets(row["weighted"], "+"),
            brackets(row["unweighted"], "+") if "unweighted" in row else "",
        )
        for name, row in values["rows"].items()
    ]
    lost = {name: row["lost"] for name, row in values["rows"].items() if row["lost"]}
    text = (
        f"{settings['chains']} chains of {settings['steps']:,} steps after {settings['burn_in']:,} "
        "of burn-in, from exact draws; relative bias of $\\mathrm E[x^2 + y^2]$, "
        f"truth {values['truth']:.5f}.\n\n"
        + table(("", "mean dt", "weighted", "unweighted"), *rows)
    )
    for name, count in lost.items():
        text += f"\n\n{name} lost {count} of the chains; what they drew before counts."
    return text


def order(part: Values) -> str:
    """How the bias falls with the step."""
    values = part["values"]
    dtaus = ("0.04", "0.02", "0.01", "0.005")
    rows = []
    for name, row in values["rows"].items():
        cells = [brackets(row["biases"][d]) if d in row["biases"] else "" for d in dtaus]
        last = brackets(row["slope"]) if "slope" in row else f"tends to {brackets(row['limit'])}"
        rows.append((name, *cells, last))
    lm = values["fixed_lm"]
    return (
        table(("dtau", *(d.lstrip("0") for d in dtaus), "slope"), *rows)
        + "\n\nThe slopes of SA-SGLD are those from dtau = .02 on. "
        + "Leimkuhler-Matthews at a fixed step, $\\mathrm E[\\cos 2x]$ on "
        + "$x^2/2 + \\cos(2x)/2$, h = .4, .28 and .2: slope "
        + f"{brackets(lm['slope'])}; without Monte Carlo, from h = .1 to .05, "
        + f"{lm['exact_slope']:.2f}. On an adaptive clock it is first order, "
        + f"its bias at dtau = .02 {brackets(values['euler_over_lm'])} times smaller than Euler's."
    )


def clock(part: Values) -> str:
    """What the clock makes of gradient noise."""
    settings, values = part["settings"], part["values"]
    rows = values["rows"]

    def both(row: Values, name: str) -> str:
        return f"{brackets(row[name])} / {row[name + '_predicted']:.3f}"

    cells = rows.values()
    first = table(
        ("", *(f"d = {d}" for d in rows)),
        (
            "published order, theory as dtau → 0",
            *(f"{100 * row['limit']:.1f}% more" for row in cells),
        ),
        (
            f"published order at dtau = {settings['dtau']:g}",
            *(both(row, "published") for row in cells),
        ),
        ("full lag, same dtau", *(both(row, "full") for row in cells)),
    )
    names = {"none": "published order", "full": "full lag", "guarded": "guarded lag"}
    second = table(
        ("", "no memory", f"memory of {1 / settings['memory']:.0f} steps"),
        *(
            (names[lag], brackets(row["memoryless"]), brackets(row["memory"]))
            for lag, row in values["lags"].items()
        ),
    )
    return (
        f"$\\mathrm E[x^2]$, measured / predicted; {settings['chains']:,} chains for d = 1, fewer "
        f"in proportion for more:\n\n{first}\n\nIn one dimension at dtau = "
        f"{settings['coarse_dtau']:g}, where gradient noise gives SGLD {values['sgld']:.4f}:\n\n"
        f"{second}"
    )


def operators(part: Values) -> str:
    """Operators against samplers."""
    values = part["values"]

    def cell(row: Values, name: str) -> str:
        if name not in row:
            return ""
        return f"{number(row[name]['operator'], digits=5)} / {brackets(row[name]['sampler'])}"

    names = ("leaving", "arriving", "equal")
    rows = [
        (
            "exact gradient" if label == "sigma = 0" else label,
            *(cell(row, name) for name in names),
        )
        for label, row in values["rows"].items()
    ]
    sigma = part["settings"]["sigma"]
    limits = {name: 100 * value for name, value in values["limits"].items()}
    return (
        f"$\\mathrm E[x^2]$ from the operator / from the sampler, truth "
        f"{number(values['truth'], digits=5)}:\n\n"
        + table(("", "leaving", "arriving", "unweighted"), *rows)
        + f"\n\nWith sigma = {sigma:g} the bias of the published order tends to "
        + f"{limits['published']:+.1f}% as dtau → 0, that of the lagged clock to "
        + f"{limits['full']:+.1f}%, by the operator at two steps and a straight line."
    )


def stability(part: Values) -> str:
    """Chains lost."""
    settings = part["settings"]
    rows = [
        (name, "" if row["mean_dt"] is None else step(row["mean_dt"]), str(row["lost"]))
        for name, row in part["values"]["rows"].items()
    ]
    return (
        f"Chains lost of {settings['chains']} on the star from exact draws, in "
        f"{settings['steps']:,} steps; the mean step is that of the others:\n\n"
        + table(("", "mean step", "lost"), *rows)
    )


def blockwise(part: Values) -> str:
    """One zeta per tensor."""
    values = part["values"]
    rows = [
        (name, brackets(row["blockwise"]), brackets(row["one"]))
        for name, row in values["rows"].items()
    ]
    return (
        f"$U = (x^2 + y^2)/2 + 2x^2y^2$, $\\mathrm E[x^2 + y^2] = {values['truth']:.4f}$:\n\n"
        + table(("", "blockwise", "one zeta"), *rows)
    )


def minibatches(part: Values) -> str:
    """Linear regression by minibatches."""
    settings, values = part["settings"], part["values"]

    def both(row: Values, name: str) -> str:
        return f"{percent(row[name])} / {100 * row[name + '_predicted']:+.1f}%"

    rows = [
        (name, both(row, "whole"), both(row, "half"), brackets(row["ratio"]))
        for name, row in values["rows"].items()
    ]
    half = settings["step"] / 2
    shuffled = values["shuffled"]
    with_replacement = values["rows"]["SGLD, T = 1"]["half"]
    return (
        table(
            (
                "with replacement",
                f"dt = {settings['step']:g}, measured / predicted",
                f"dt = {half:g}",
                "ratio",
            ),
            *rows,
        )
        + f"\n\nIn shuffled epochs the noises of an epoch sum to zero: at dt = {half:g} and T = 1 "
        + f"the excess is {percent(shuffled['SGLD'])} with SGLD, {percent(with_replacement)} with "
        + f"replacement, and {percent(shuffled['SA-SGLD'])} with SA-SGLD."
    )


def logistic(part: Values) -> str:
    """Logistic regression against NUTS."""
    rows = part["values"]["rows"]
    return table(
        ("", "worst mean, posterior sds", "worst sd"),
        *((name, brackets(row["mean"], "+"), percent(row["sd"])) for name, row in rows.items()),
    )


def euler_and_lm(part: Values) -> str:
    """Errors on the star by mean step."""
    settings = part["settings"]
    rows = [
        (name, step(row["mean_dt"]), percent(row["bias"]))
        for name, row in part["values"]["rows"].items()
    ]
    return (
        f"Error of $\\mathrm E[x^2 + y^2]$ on the star, {settings['chains']} chains of "
        f"{settings['steps']:,} steps after {settings['burn_in']:,} of burn-in, from exact "
        "draws:\n\n" + table(("", "mean step", "error"), *rows)
    )


def samadams(part: Values) -> str:
    """SamAdams on the star."""
    settings, values = part["settings"], part["values"]
    return (
        f"On the star with gamma = {settings['gamma']:g} and the scale-free clock at a mean step "
        f"of {step(values['mean_dt'])}, $\\mathrm E[x^2y^2]$ is off by {percent(values['x2y2'])} "
        f"and $\\mathrm E[x\\cdot\\nabla U]$ by {percent(values['virial'])} ({settings['chains']} "
        f"chains of {settings['steps']:,} steps; the law is held by "
        "`tests/law/test_reference_values.py`)."
    )


def thermostats(part: Values) -> str:
    """Thermostats on the star."""
    settings = part["settings"]
    names = ("sa_sgnht", "sa_sghmc", "sgld")
    head = ("`sa_sgnht`", "`sa_sghmc`, no noise estimate", f"`sgld`, h = {settings['h']:g}")
    rows = [
        (sigma, *(percent(row[name]["bias"]) for name in names))
        for sigma, row in part["values"]["rows"].items()
    ]
    return table(("sigma", *head), *rows)


def noise_temperatures(part: Values) -> str:
    """Temperature of the positions under white gradient noise."""
    values = part["values"]
    rows = values["rows"]

    def cell(row: Values) -> str:
        return ", ".join(brackets(each) for each in row.values())

    first = rows["SGLD"]
    burnt = ", ".join(
        f"{brackets(each)} after {int(steps):,}" for steps, each in values["at_120"].items()
    )
    return (
        table(
            (
                "",
                f"Gaussian, sigma = {', '.join(first['gaussian'])}",
                f"star, sigma = {', '.join(first['star'])}",
            ),
            *((name, cell(row["gaussian"]), cell(row["star"])) for name, row in rows.items()),
        )
        + "\n\n$\\xi$ needs a burn-in to rise, the longer the more noise there is: on the star "
        + f"with sigma = 120 SGNHT has {burnt} steps of it."
    )


def per_coordinate(part: Values) -> str:
    """A thermostat for each coordinate."""
    values = part["values"]
    each, one = (" and ".join(map(brackets, values["rows"][name])) for name in ("each", "one"))
    predicted = " and ".join(number(value, digits=3) for value in values["predicted"])
    return (
        "With `per_coordinate=True` and noise of two sizes on two coordinates the temperatures are "
        f"{each} of the right one, with the scalar thermostat {one}, predicted {predicted} "
        "(`tests/law/test_thermostat.py`)."
    )


def psgld_quartic(part: Values) -> str:
    """The law of pSGLD on a line."""
    quartic = part["values"]["quartic"]
    operator, predicted, truth = (
        number(quartic[name]) for name in ("operator", "predicted", "truth")
    )
    return (
        "In one dimension without $\\Gamma$ the law tends to $e^{-U/T}/P$ as the step shrinks: on "
        f"the quartic $\\mathrm E[x^2]$ is then {operator} without memory, by a transfer operator "
        f"at two steps, and {predicted} by quadrature of that law, where {truth} is right."
    )


def psgld(part: Values) -> str:
    """Errors of pSGLD on the star."""
    rows = part["values"]["rows"]
    steps = next(iter(rows.values()))
    return table(
        ("h", *steps),
        *((name, *(brackets(row[h], "+") for h in steps)) for name, row in rows.items()),
    )


def adam_sgld(part: Values) -> str:
    """Errors of AdamSGLD on the quartic."""
    rows = part["values"]["rows"]
    steps = next(iter(rows.values()))
    return table(
        ("betas", *(f"h = {h}" for h in steps)),
        *((name, *(brackets(row[h], "+") for h in steps)) for name, row in rows.items()),
    )


def metrics(part: Values) -> str:
    """Metrics without their divergence."""
    values = part["values"]
    sgrld, sgrhmc = values["sgrld"], values["sgrhmc"]
    return (
        f"On the quartic with $M = 1 + x^2$, where $\\mathrm E[x^2]$ is {number(values['truth'])}, "
        f"`sgrld` tends to {number(sgrld['operator'])} (transfer operator at two steps; predicted "
        f"by quadrature {number(sgrld['predicted'])}) and `sgrhmc` to "
        f"{brackets(sgrhmc['sampler'])} (two steps; predicted {number(sgrhmc['predicted'])}; "
        "`tests/law/test_riemannian.py`)."
    )


def replica_exchange(part: Values) -> str:
    """Replica exchange on two wells."""
    values = part["values"]
    biases = ", ".join(brackets(each, "+") for each in values["biases"].values())
    steps = ", ".join(values["biases"])
    right, swap = values["right"], values["swap"]
    return (
        f"$\\mathrm E[x^2]$ on two wells is off by {biases} at h = {steps}. Begun in the well that "
        f"holds {number(right['truth'], digits=3)}, it gives that well "
        f"{brackets(right['replica_exchange'])}, SGLD in the same time {brackets(right['sgld'])}. "
        "With noise in the energies, as of minibatches, one swap changes $\\mathrm E[U]/T$ by "
        f"{brackets(swap['corrected'], '+')} with the correction by `energy_variance`, by "
        f"{brackets(swap['uncorrected'], '+')} without "
        "(`tests/law/test_replica_exchange.py`)."
    )


def cycles(part: Values) -> str:
    """Cycles on two wells."""
    values = part["values"]
    return (
        f"Of two equal wells the one not begun in gets {brackets(values['equal'])}, with SGLD "
        f"{brackets(values['sgld'])}. A tilted well that holds "
        f"{number(values['tilted_truth'], digits=3)} got {brackets(values['tilted'])} "
        "(`tests/law/test_cyclical.py`): the shares are those of the exploration."
    )


def contour(part: Values) -> str:
    """Contour SGLD on two wells."""
    values = part["values"]
    names = {
        "default": "by default",
        "learn": "with `learn`",
        "gain_power": "with a gain that falls like $n^{-.75}$",
        "sgld": "SGLD",
    }
    rows = [
        (shown, brackets(values["rows"][n]["right"]), brackets(values["rows"][n]["above_4T"]))
        for n, shown in names.items()
    ]
    truth = number(values["truth"], digits=3)
    return table(("", f"share of a well that has {truth}", "steps above 4T"), *rows)


def contour_trap(part: Values) -> str:
    """Empty bins below the least energy."""
    settings, trap = part["settings"], part["values"]["trap"]
    return (
        f"With noise of standard deviation {settings['trap_sigma']:g} on $U = x^2/2$ and "
        f"h = {settings['trap_h']:g} the variance is off from that of SGLD with the same noise by "
        f"{percent(trap['-5'])} with five units of empty bins, and by {percent(trap['0'])} without."
    )


def monitors(part: Values) -> str:
    """Monitors of the clock."""
    rows = part["values"]["rows"]
    steps = next(iter(rows.values()))
    return table(
        ("monitor", *(f"dtau = {dtau}" for dtau in steps)),
        *((name, *(percent(row[dtau]) for dtau in steps)) for name, row in rows.items()),
    )


def monitor_steps(part: Values) -> str:
    """Mean steps under gradient noise."""
    exact, norm, known, estimated = (
        f"{part['values']['steps'][name]['value']:.4f}"
        for name in ("exact", "norm", "known", "estimated")
    )
    return (
        f"With gradient noise of standard deviation {part['settings']['sigma']:g} on a Gaussian in "
        f"ten dimensions, the mean step of the plain norm is {norm}, without noise {exact}: the "
        f"clock takes noise for steepness. Corrected it is {known} (known noise) or {estimated} "
        "(estimated)."
    )


def bounded_noise(part: Values) -> str:
    """Bias by the law of the noise."""
    values = part["values"]
    steps = list(values["exact"])
    names = {
        "gaussian": "normals",
        "three_point": "`three_point`",
        "two_point": "`two_point`",
    }
    return table(
        ("", *(f"h = {h}" for h in steps)),
        (
            "normals, by a transfer operator",
            *(number(values["exact"][h], "+", 5) for h in steps),
        ),
        *(
            (shown, *(brackets(values["rows"][name][h], "+") for h in steps))
            for name, shown in names.items()
        ),
    )


def coverage(part: Values) -> str:
    """Coverage of the intervals of single chains."""
    values = part["values"]["rows"]
    usual, rare = ("x²", "r²", "U"), ("x⁴", "outer", "grad2")
    rare_names = "x⁴, \\|x\\| or \\|y\\| > 1, \\|grad U\\|²"
    shown = (
        ("Gaussian, SGLD: x, x², U", "gaussian, 1", ("x", "x²", "U")),
        ("five times as long", "gaussian, 5", ("x", "x²", "U")),
        ("star, SA-SGLD, weighted: x², r², U", "star, 1", usual),
        (f"the same, rare or skewed: {rare_names}", "star, 1", rare),
        ("five times as long: x², r², U", "star, 5", usual),
        ("five times as long, rare or skewed", "star, 5", rare),
    )
    rows = [
        (
            label,
            ", ".join(f"{values[name][each]['ess']:.0f}" for each in names),
            ", ".join(f"{100 * values[name][each]['coverage']['value']:.1f}%" for each in names),
            ", ".join(f"{values[name][each]['error_over_spread']['value']:.2f}" for each in names),
        )
        for label, name, names in shown
    ]
    head = ("run", "effective draws per chain", "coverage", "error / true spread")
    return table(head, *rows)


# From the name of a block to its part and what it shows of it.
BLOCKS: dict[str, tuple[str, Callable[[Values], str]]] = {
    "star": ("star", star),
    "order": ("order", order),
    "clock": ("clock", clock),
    "operators": ("operators", operators),
    "stability": ("stability", stability),
    "blockwise": ("blockwise", blockwise),
    "minibatches": ("minibatches", minibatches),
    "logistic": ("logistic", logistic),
    "euler_and_lm": ("euler_and_lm", euler_and_lm),
    "samadams": ("samadams", samadams),
    "thermostats": ("thermostats", thermostats),
    "noise_temperatures": ("noise_temperatures", noise_temperatures),
    "per_coordinate": ("per_coordinate", per_coordinate),
    "psgld_quartic": ("psgld", psgld_quartic),
    "psgld": ("psgld", psgld),
    "adam_sgld": ("adam_sgld", adam_sgld),
    "metrics": ("metrics", metrics),
    "replica_exchange": ("replica_exchange", replica_exchange),
    "cycles": ("cycles", cycles),
    "contour": ("contour", contour),
    "contour_trap": ("contour", contour_trap),
    "monitors": ("monitors", monitors),
    "monitor_steps": ("monitors", monitor_steps),
    "bounded_noise": ("bounded_noise", bounded_noise),
    "coverage": ("coverage", coverage),
}


def filled(text: str, result: Values) -> str:
    """A page with every block made from the result."""

    def block(match: re.Match[str]) -> str:
        name = match[1]
        part, write = BLOCKS[name]
        if part in result["parts"]:
            inside = write(result["parts"][part])
        else:
            inside = f"Not measured yet: `python -m studies.samplers.laws --parts {part}`."
        return f"<!-- laws: {name} -->\n\n{inside}\n\n<!-- end -->"

    return BLOCK.sub(block, text)


def read(path: Path = RESULT) -> Values:
    """The result; one without parts if nothing was measured yet."""
    return json.loads(path.read_text()) if path.exists() else {"quick": False, "parts": {}}


def main() -> None:
    """Write the pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--result", type=Path, default=RESULT)
    options = parser.parse_args()
    result = read(options.result)
    for name in PAGES:
        page = HERE / name
        page.write_text(filled(page.read_text(), result))


if __name__ == "__main__":
    main()
