"""Calls the command `rlrun` in the test's own process."""

from click.testing import CliRunner, Result

from rlrun.cli.main import cli


def rlrun(*words: object, stdin: str = "") -> Result:
    """Runs the command and returns its exit code and what it printed."""
    return CliRunner().invoke(cli, [str(word) for word in words], input=stdin)
