"""Programs of the laws run for long."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def every_law_is_optimised(optimised):
    pass
