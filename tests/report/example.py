"""A report with every kind of element, and with text that would break a careless page."""

import math
import struct
import zlib

import numpy as np

from sundman.report import Figure, Report, Section, Table, Verdict

HOSTILE = "<script>alert('x')</script>"
MARKUP = '"><img src=x onerror=alert(1)> & </style></table>'
LONG = "no_blank_in_this_name_" * 12


def picture(width=320, height=200):
    """A grey PNG, made by hand."""

    def chunk(name, content):
        checksum = struct.pack(">I", zlib.crc32(name + content))
        return struct.pack(">I", len(content)) + name + content + checksum

    rows = b"".join(b"\0" + bytes((x + y) % 256 for x in range(width)) for y in range(height))
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def example():
    verdicts = [
        Verdict("SA-SGLD beats SGLD on the star", "bias of -4%", "-18.6%", "1.1%", "partly"),
        Verdict(f"A claim with {HOSTILE}", MARKUP, LONG, "0.1", "does not reproduce", "Noted."),
        Verdict("Weights are needed", "yes", "11.4 errors apart", "0.02", "reproduces"),
        Verdict("On ImageNet, too", "76.1%", "–", "–", "not tested", "No such data here."),
    ]
    wide = Table(
        f"Wide {MARKUP}",
        ["sampler", *(f"column number {i}" for i in range(14)), ""],
        [["SGLD", *(f"{i}.25 ± 0.01" for i in range(14)), "✓ good"]] * 3,
        "Scrolls inside its own box.",
    )
    words = Table("Words", ["name", "note"], [[HOSTILE, LONG], ["b", "with `code` in it"]])
    figures = [
        Figure(f"Figure {HOSTILE}", f"Grey {MARKUP}", picture(), "A caption."),
        Figure("Second", "A grey square", picture(200, 200)),
        Figure("Wide", "A grey band", picture(600, 200), LONG),
    ]
    settings = {
        HOSTILE: MARKUP,
        "step": np.float32(0.25),
        "limit": math.inf,
        "missing": math.nan,
        "nothing": None,
        "seeds": list(range(1000)),
        "lost": [-1] * 64,
        "sampler": {"clock": {"dtau": 1e-3}, "lag": "none"},
        LONG: LONG,
    }
    return Report(
        title=f"An example & {HOSTILE}",
        summary=f"Two of four claims hold. {MARKUP} {LONG}\n\nA second paragraph.",
        command=f"sundman experiment star --seed 1 --name '{HOSTILE}' --out {LONG}",
        settings=settings,
        made={"sundman": "0.1.0", "date": "2026-01-01", "seed": 20260101, "wall time": "2 min"},
        verdicts=verdicts,
        sections=[
            Section("Tables", "First.\n\nSecond.", [wide, words]),
            Section(f"Figures {MARKUP}", "", [], figures),
            Section("Only words", "Nothing else."),
        ],
        citations=["@misc{a,\n  title = {A & B}\n}", f"@misc{{b, note = {{{HOSTILE}}}}}"],
    )
