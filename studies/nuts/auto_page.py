"""The table of studies/nuts/auto.py, on the screen and in README.md."""

from __future__ import annotations

from pathlib import Path
from typing import Any

METHODS = {
    "auto": "sundman, self-tuned",
    "nuts_diagonal": "NUTS, diagonal",
    "nuts_dense": "NUTS, dense",
    "mclmc": "MCLMC",
}
COLUMNS = (
    "posterior, method",
    "effective draws",
    "by chain means",
    "a second",
    "a processor second",
    "worst mean, sds",
    "worst sd",
    "failures",
    "verdict",
    "warm-up",
    "gradients",
)
TITLE, BEGIN, END = "Against NUTS and MCLMC", "<!-- auto.py: begin -->", "<!-- auto.py: end -->"


def _number(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value >= 1e-3 else "0"


def _bias(worst: dict[str, Any], unit: float, digits: int, suffix: str = "") -> str:
    bias, error = unit * worst["bias"], unit * worst["error"]
    if not abs(bias) < 1e4:
        return "meaningless"
    return f"{bias:+.{digits}f} ± {error:.{digits}f}{suffix}"


def cells(method: str, row: dict[str, Any]) -> list[str]:
    """A row of the table."""
    if "refused" in row:
        return [METHODS[method], "refused", *[""] * (len(COLUMNS) - 2)]
    mean, sd, astray = row["mean"], row["sd"], row.get("astray", 0)
    by_chains = 1000.0 * row["ess_of_chain_means"] / row["gradients_a_chain"] / 16
    return [
        METHODS[method],
        _number(row["ess_per_1000"]),
        _number(by_chains),
        _number(row["ess_per_second"]),
        _number(row["ess_per_processor_second"]),
        _bias(mean, 1.0, 3),
        _bias(sd, 100.0, 1, "%"),
        f"{row['failures']}" + (f"; {astray} chains astray" if astray else ""),
        {True: "good", False: "bad", None: ""}[row.get("ok")],
        f"{row['warm_up_a_chain']:,}",
        f"{row['gradients_a_chain']:,}",
    ]


def lines(result: dict[str, Any]) -> list[str]:
    """The table in Markdown."""
    table = [f"| {' | '.join(COLUMNS)} |", "|---" + "|---:" * (len(COLUMNS) - 1) + "|"]
    for posterior in result["posteriors"].values():
        table.append(f"| **{posterior['about']}** |{' |' * (len(COLUMNS) - 1)}")
        rows = posterior["rows"]
        table += [f"| {' | '.join(cells(m, rows[m]))} |" for m in METHODS if m in rows]
    return table


def print_rows(result: dict[str, Any]) -> None:
    """Print every row."""
    print("\n".join(lines(result)))


def write_section(result: dict[str, Any], page: Path) -> None:
    """Put the table between its two marks on the page, in a new section if there are none."""
    text = page.read_text() if page.exists() else f"# {TITLE}\n"
    if BEGIN not in text:
        text = f"{text.rstrip()}\n\n## {TITLE}\n\n{BEGIN}\n{END}\n"
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    table = "\n".join(lines(result))
    page.write_text(f"{before}{BEGIN}\n\n{table}\n\n{END}{after}")
