"""``python -m sundman.cli`` is the command ``sundman``."""

from sundman.cli.main import main

main()
