"""What the benchmarks against sb3-contrib share: a table of works, each measured with both sides in turn."""

from __future__ import annotations

import json
from collections.abc import Sequence

from bench_peers import make_venv
from bench_ppo import HEADING, SB3_VENV, Work, compared, make_sb3_venv, options_of, print_shares, surroundings


def measure_beside_contrib(description: str, works: Sequence[Work], name: str) -> None:
    """Measures what the command line asks for, prints the table, and writes it to a file if that is wanted.

    Args:
        description: The script's docstring.
        works: What both sides can do, by the name of its part.
        name: What the names of both sides' scripts begin with.
    """
    options = options_of(description, [work.part for work in works])
    make_sb3_venv()
    make_venv(SB3_VENV, ["sb3-contrib==2.9.*"])
    about = surroundings(options.repeats)
    print("\n".join(f"{key}: {value}" for key, value in about.items()), flush=True)
    print(f"\n{HEADING}", flush=True)
    chosen = [work for work in works if work.part in options.parts]
    rates = [compared(work, options.repeats, quick=options.quick, name=name) for work in chosen]
    print_shares(rates)
    if options.json is not None:
        options.json.write_text(json.dumps({"about": about, "rates": rates}, indent=2) + "\n")
