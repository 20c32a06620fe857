"""HTML from text: every character that comes from outside passes through ``escape``."""

from __future__ import annotations

import html
import re
from typing import Any

_CODE = re.compile(r"`([^`\n]+)`")
_BARS = re.compile(r"[▁-█]{3,}")


def escape(text: Any) -> str:
    """Text as it may stand in HTML, in an element or in an attribute."""
    return html.escape(str(text), quote=True)


def element(name: str, *content: str, **attributes: Any) -> str:
    """An element around content that is HTML already; attributes are escaped here.

    A trailing underscore is dropped from an attribute's name and others become hyphens
    (``class_``, ``aria_label``); an attribute that is None is left out.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{''.join(content)}</{name}>"


def inline(text: str) -> str:
    """A line of text; what stands between backticks is code, and bars are left to the eye."""
    coded = _CODE.sub(r"<code>\1</code>", escape(text))
    return _BARS.sub(r'<span class="bars" aria-hidden="true">\g<0></span>', coded)


def paragraphs(text: str) -> str:
    """Paragraphs of a text, which blank lines separate."""
    parts = (part.strip() for part in re.split(r"\n\s*\n", text))
    return "\n".join(element("p", inline(part)) for part in parts if part)
