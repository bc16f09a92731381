"""Makes ``python -m rlrun`` the same as the ``rlrun`` command."""

from rlrun.cli.main import main

main()
