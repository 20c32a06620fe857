"""The ``sundman`` command: samplers, networks and reports from the shell."""
