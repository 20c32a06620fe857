"""Importing sundman brings in nothing that only plots, examples or comparisons need."""

import subprocess
import sys

HEAVY = {"arviz", "blackjax", "equinox", "flax", "matplotlib", "rich", "sklearn", "torch"}


def test_importing_sundman_is_light():
    code = "import sys, sundman; print(*{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert "sundman" in loaded
    assert not loaded & HEAVY
