"""The command in this process, and the installed one in a process of its own.

Both share the compiled programs of the session.
"""

import io
import os
import signal
import subprocess
import sys
from pathlib import Path

import jax
import pytest
from PIL import Image

COMMAND = Path(sys.executable).with_name("sundman")
_CACHE_SETTINGS = (
    "jax_compilation_cache_dir",
    "jax_enable_compilation_cache",
    "jax_persistent_cache_min_compile_time_secs",
    "jax_persistent_cache_min_entry_size_bytes",
)


@pytest.fixture(scope="session")
def shell(tmp_path_factory):
    """Run the installed ``sundman ARGUMENTS``, for what only a process shows."""
    environment = {
        **os.environ,
        "COLUMNS": "200",
        "JAX_COMPILATION_CACHE_DIR": os.environ["SUNDMAN_TEST_COMPILED"],
        "XDG_CACHE_HOME": str(tmp_path_factory.mktemp("cache")),
    }
    for name in ("SUNDMAN_DATA_DIR", "SUNDMAN_DEBUG"):
        environment.pop(name, None)

    def run(*arguments, start=False, **more):
        call = [str(COMMAND), *map(str, arguments)]
        options = {"env": environment, "text": True, **more}
        if start:  # a shell's background jobs begin with Ctrl-C ignored, and hand that on
            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            try:
                return subprocess.Popen(
                    call, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options
                )
            finally:
                signal.signal(signal.SIGINT, before)
        return subprocess.run(call, capture_output=True, timeout=300, **options)

    return run


@pytest.fixture
def here(monkeypatch, tmp_path, capsys):
    """Run ``sundman ARGUMENTS`` in this process: exit code, standard output, standard error."""
    from sundman.cli import run

    before = {name: getattr(jax.config, name) for name in _CACHE_SETTINGS}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("JAX_COMPILATION_CACHE_DIR", os.environ["SUNDMAN_TEST_COMPILED"])
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("SUNDMAN_DATA_DIR", "SUNDMAN_DEBUG"):
        monkeypatch.delenv(name, raising=False)

    def command(*arguments):
        code = run([*map(str, arguments)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    yield command
    for name, value in before.items():
        jax.config.update(name, value)


@pytest.fixture
def blank_figures(request, monkeypatch):
    """Plot, but do not render: 0.3 s for each of dozens of figures, which tests/report looks at.

    With the slow tests they are rendered.
    """
    from sundman.report import figures

    if not request.config.option.markexpr.startswith("not slow"):
        return
    file = io.BytesIO()
    Image.new("RGB", (8, 8)).save(file, format="png")
    monkeypatch.setattr(figures, "png", lambda figure, **_: file.getvalue())


@pytest.fixture
def succeeds(here):
    """Run ``sundman ARGUMENTS`` in this process, which must succeed: standard output."""

    def command(*arguments):
        code, out, err = here(*arguments)
        assert code == 0, err
        assert "Traceback" not in out + err
        return out

    return command
