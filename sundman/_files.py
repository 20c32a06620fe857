"""Files that are whole or not there."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path


def write_bytes(path: Path, content: bytes) -> None:
    """Replace a file at once: a crash leaves the old one or the new one, never a part."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def write_json(path: Path, content: object) -> None:
    """JSON, atomically; what JSON does not know is written as its repr."""
    text = json.dumps(content, indent=1, default=repr)
    write_bytes(path, text.encode())
