"""MkDocs hook: cross-reference roles of docstrings, such as :func:`name`, become plain code."""

import re

_ROLE = re.compile(r":(?:func|class|meth|mod|attr):(?=<code>)")


def on_page_content(html: str, **_: object) -> str:
    """Drop the roles that Markdown left in front of code."""
    return _ROLE.sub("", html)
