"""What a run shows on a terminal and elsewhere."""

import io
import re
import sys

import pytest
from rich.console import Console

from sundman.watch import progress as module
from sundman.watch.events import BlockReport, Summary
from sundman.watch.progress import (
    Pace,
    Progress,
    count,
    duration,
    figure,
    fraction,
    progress_watcher,
)

STATS = {
    "dt": Summary(3.4e-4, 1e-4, 1e-3),
    "zeta": Summary(12.5, 0.5, 40.0),
    "potential": Summary(12345.6, 12000.0, 13000.0),
    "temperature": Summary(0.987, -1.5, 3.2),
}


def report(seconds: float, steps: int, **changes) -> BlockReport:
    base = BlockReport("sampling", 1, steps, 1000, steps, 1000, 4, 0, seconds, STATS)
    return base._replace(**changes)


def terminal() -> Console:
    return Console(file=io.StringIO(), force_terminal=True, width=80)


def plain() -> Console:
    return Console(file=io.StringIO(), force_terminal=False, width=80)


def raw(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def text(console: Console) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", raw(console))


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "0"),
        (0.25, "0.25"),
        (37.4, "37"),
        (9500, "9500"),
        (9999.7, "10.0 k"),
        (12_345, "12.3 k"),
        (999_600, "1.00 M"),
        (1.2e6, "1.20 M"),
        (99.97e6, "100 M"),
        (3.456e9, "3.46 G"),
    ],
)
def test_counts(number, shown):
    assert count(number) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0"),
        (0.98765, "0.988"),
        (-1.23456, "-1.235"),
        (12345.6, "12346"),
        (3.4e-4, "3.40e-4"),
        (-2.5e7, "-2.50e7"),
        (float("nan"), "-"),
        (float("inf"), "-"),
    ],
)
def test_figures(value, shown):
    assert figure(value) == shown


def test_durations():
    shown = [duration(s) for s in (None, 0.4, 59.6, 61, 3723)]
    assert shown == ["-:--", "0:00", "1:00", "1:01", "1:02:03"]


def test_eta_leaves_out_compiling_and_the_distant_past():
    pace = Pace()
    pace.add(report(30.0, 10))  # half a minute of it compiling
    assert pace.left(report(30.0, 10)) is None
    pace.add(report(31.0, 20))
    assert pace.left(report(31.0, 20)) == pytest.approx(98.0)
    for second in range(1, 201):  # now at half the speed
        pace.add(report(31.0 + second, 20 + 5 * second))
    assert pace.steps == pytest.approx(5.0)


def test_a_new_stage_is_timed_anew_and_until_then_keeps_the_old_pace():
    pace = Pace()
    pace.add(report(1.0, 100, stage="burn-in", draws=0))
    pace.add(report(2.0, 200, stage="burn-in", draws=0))
    pace.add(report(20.0, 300))
    assert pace.steps == pytest.approx(100.0)
    pace.add(report(21.0, 350))
    assert pace.steps == pytest.approx(50.0)


def test_draws_are_counted_when_the_number_of_steps_is_unknown():
    pace = Pace()
    pace.add(report(1.0, 5000, total_steps=None, draws=100))
    last = report(2.0, 9000, total_steps=None, draws=200)
    pace.add(last)
    assert fraction(last) == 0.2
    assert pace.left(last) == pytest.approx(8.0)


def test_live_display_says_all_there_is_within_80_columns():
    console = terminal()
    shown = Progress(console)
    shown.start({"temperature": 1.5})
    shown.block(report(1.0, 100))
    shown.block(report(2.0, 420, diverged=3))
    shown.event("checkpoint", "checkpoint at draw 420")
    shown.block(report(3.0, 740, diverged=3))
    seen = text(console)
    shown.close(True)
    for part in ("sampling", "74%", "0:03", "ETA 0:01", "740 of 1000 draws", "320 steps/s"):
        assert part in seen
    for part in ("2960 gradients", "3.40e-4", "1.00e-4 to 0.001", "12.5", "12346", "0.987"):
        assert part in seen
    assert "sampler's T = 1.5" in seen
    assert "!! 3 of 4 chains DIVERGED !!" in seen
    assert "checkpoint at draw 420" in seen
    assert "done" in text(console)
    assert max(len(row) for row in re.split(r"[\r\n]", text(console))) <= 80


def test_live_display_is_not_drawn_for_every_block():
    console = terminal()
    shown = Progress(console)
    shown.start({})
    for i in range(1000):
        shown.block(report(i * 1e-3, i))
    shown.close(True)
    # At 0 s, at 0.5 s, and at the end, where rich draws once more as it stops.
    assert text(console).count("gradients") == 4


def test_a_new_stage_is_shown_at_once():
    console = terminal()
    shown = Progress(console)
    shown.start({})
    shown.block(report(1.0, 100, stage="burn-in", draws=0, stats={}))
    shown.block(report(1.1, 200))
    assert "sampling" in text(console)
    shown.close(True)


def test_what_is_printed_to_a_file_during_a_run_stays_there(capsys):
    console = terminal()
    shown = Progress(console)
    shown.start({})
    print("a result")
    shown.close(True)
    assert capsys.readouterr().out == "a result\n"
    assert "a result" not in text(console)


@pytest.mark.parametrize("ok", [True, False])
def test_the_terminal_is_given_back(ok):
    console = terminal()
    stderr = sys.stderr
    shown = Progress(console)
    shown.start({})
    assert sys.stderr is not stderr
    shown.block(report(1.0, 100))
    shown.close(ok)
    shown.close(ok)
    assert sys.stderr is stderr
    assert raw(console).rindex("\x1b[?25h") > raw(console).rindex("\x1b[?25l")  # the cursor
    assert ("done" if ok else "stopped") in text(console)


def test_the_terminal_is_given_back_when_there_is_no_block():
    console = terminal()
    shown = Progress(console)
    shown.start({})
    shown.close(False)
    assert "\x1b[?25h" in raw(console)


def test_events_stay_above_the_live_display():
    console = terminal()
    shown = Progress(console)
    shown.start({})
    shown.event("divergence", "chain [3] diverged at draw 7", chain=3)
    shown.close(True)
    assert "sundman: chain [3] diverged at draw 7" in text(console)


def test_lines_elsewhere_come_at_intervals_with_a_first_and_a_last():
    console = plain()
    shown = Progress(console)
    shown.start({})
    for second in range(1, 26):
        shown.block(report(float(second), 40 * second))
    shown.event("checkpoint", "not worth a line")
    shown.close(True)
    rows = text(console).splitlines()
    assert re.findall(r"(\d+)%", text(console)) == ["4", "44", "84", "100"]
    assert len(rows) == 4
    assert rows[-1].startswith("sundman: done 100%; 1000 of 1000 draws; 0:25; 40 steps/s")
    assert "ETA 0:04" in rows[-2]
    assert "\x1b" not in raw(console)


def test_a_quiet_display_says_nothing_of_a_short_run():
    console = plain()
    shown = Progress(console, quiet=True)
    shown.start({})
    for second in range(1, 10):
        shown.block(report(float(second), second))
    shown.event("divergence", "said by a warning as well")
    shown.close(True)
    assert text(console) == ""


def test_a_quiet_display_speaks_of_a_long_run():
    console = plain()
    shown = Progress(console, quiet=True)
    shown.start({})
    for second in range(1, 26):
        shown.block(report(float(second), second))
    shown.event("interrupted", "interrupted at draw 25")
    shown.close(False)
    rows = text(console).splitlines()
    assert [row.split(";")[0] for row in rows] == [
        "sundman: sampling 1%",
        "sundman: sampling 2%",
        "sundman: interrupted at draw 25",
        "sundman: stopped 2%",
    ]


def test_choice_of_display(capsys):
    assert progress_watcher(False) is None
    for progress, expected in ((None, 0), (True, 2)):
        shown = progress_watcher(progress)
        assert shown is not None
        shown.start({})
        shown.block(report(1.0, 500))
        shown.close(True)
        out, err = capsys.readouterr()
        assert out == ""
        assert len(err.splitlines()) == expected
    console = plain()
    shown = progress_watcher(console)
    assert shown is not None
    shown.block(report(1.0, 500))
    assert "50%" in text(console)


def test_forced_colour_is_no_terminal(capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = Progress()
    shown.start({})
    shown.block(report(1.0, 500))
    shown.close(True)
    assert "\x1b" not in capsys.readouterr().err


def test_lines_need_no_rich(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "rich.console", None)
    assert module._stderr_console() is None
    shown = Progress()
    shown.start({})
    shown.block(report(1.0, 500))
    shown.close(True)
    assert "50%" in capsys.readouterr().err


def test_wrong_arguments_are_named():
    with pytest.raises(TypeError, match=r"progress must be .* got 'yes'"):
        progress_watcher("yes")  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"interval must be a positive .* got 0"):
        Progress(interval=0)


def test_a_short_run_leaves_a_terminal_alone():
    stream = io.StringIO()
    shown = Progress(Console(file=stream, force_terminal=True, width=80), quiet=True)
    shown.start({})
    shown.block(report(0.3, 1000))
    shown.close(True)
    assert stream.getvalue() == ""
    shown.start({})
    shown.block(report(1.3, 1000))
    shown.close(True)
    assert "100%" in stream.getvalue()
