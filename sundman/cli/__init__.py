"""The ``sundman`` command: samplers, networks and reports from the shell.

There is a folder for each of the large commands (``bnn``, ``toy`` and ``demo``); the small ones are
in ``app`` with the list of all. What they share: options, settings, samplers by name, output and
errors.
"""
