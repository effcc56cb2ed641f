"""`python -m tests.verdicts [--points N] [--seed S] [--runtime NAME]... [--examples]`: false safety and false alarms, by runtime."""

from __future__ import annotations

import argparse
import random
import sys
import time
from concurrent.futures import ProcessPoolExecutor

from tests.verdicts.running import WORLDS, Tally, run


def main(arguments: list[str]) -> int:
    """0 when nothing that was called safe happened otherwise."""
    parser = argparse.ArgumentParser(prog="python -m tests.verdicts", description=__doc__)
    parser.add_argument("--points", type=int, default=10_000, help="crash points for each runtime")
    parser.add_argument("--seed", default="", help="any text; the same text makes the same worlds")
    parser.add_argument("--runtime", action="append", choices=sorted(WORLDS), help="only this one; may be repeated")
    parser.add_argument("--examples", action="store_true", help="one example of every kind")
    parser.add_argument("--jobs", type=int, default=2)
    given = parser.parse_args(arguments)
    seed = given.seed or f"{random.SystemRandom().getrandbits(48):012x}"
    say(f"seed {seed}, {given.points:,} crash points for each runtime")
    say(
        f"{'runtime':12} {'runs':>7} {'crashes':>8} {'exports':>8} {'false safe':>10} {'false alarms':>13} {'unavoidable':>12} {'s':>6}"
    )
    tallies = []
    with ProcessPoolExecutor(given.jobs) as pool:
        for tally, seconds in pool.map(timed, [(name, given.points, seed) for name in given.runtime or WORLDS]):
            tallies.append(tally)
            say(row(tally, seconds))
    for tally in tallies:
        say(*details(tally, examples=given.examples))
    return 1 if any(t.safe for t in tallies) else 0


def timed(job: tuple[str, int, str]) -> tuple[Tally, float]:
    started = time.perf_counter()
    return run(job[0], points=job[1], seed=job[2]), time.perf_counter() - started


def row(tally: Tally, seconds: float) -> str:
    alarms, blind = sum(tally.alarms.values()), sum(tally.blind.values())
    return (
        f"{tally.runtime:12} {tally.runs:7,} {tally.points:8,} {tally.exports:8,} {sum(tally.safe.values()):10,} "
        f"{alarms / max(tally.exports, 1):13.2%} {blind / max(tally.exports, 1):12.2%} {seconds:6.1f}"
    )


def details(tally: Tally, *, examples: bool) -> list[str]:
    left_out = WORLDS[tally.runtime].leaves_out
    made = [f"\n{tally.runtime}", *([f"  not made: {left_out}"] if left_out else [])]
    for title, found in (
        ("FALSE SAFE", tally.safe),
        ("false alarm", tally.alarms),
        ("unavoidable", tally.blind),
        ("no trace", tally.silent),
    ):
        for kind, times in found.most_common():
            made.append(f"  {title:12} {times:7,}  {kind}")
            if examples or title == "FALSE SAFE":
                key = f"unavoidable: {kind}" if found is tally.blind else kind
                made.append(f"               {tally.examples[key]}")
    return made


def say(*lines: str) -> None:
    for line in lines:
        sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
