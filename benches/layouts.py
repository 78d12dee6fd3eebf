#!/usr/bin/env python3
"""What it makes of a run how its ranks are laid out over processes: the same ranks in one process, in a
process each, and in two processes, run by turns.

    CARGO_TARGET_DIR=target/mpi cargo build --release --features mpi
    benches/layouts.py --program target/mpi/release/feedrate --runs 5

Starts the program's own S3 server, makes the data set once, and plays every layout in every round,
since machines drift: what can be compared are the figures of one round. Prints the median of each figure
with the worst beside it, and the median of its ratios to one process in the same round.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from embedded import server

WORKLOAD = "retinanet_b200"

# Key of the figures, how it is shown, and which end of the samples is the worst.
FIGURES = [
    ("au_percent_mean", "AU %", "{:.2f}", min),
    ("wall_au_percent_mean", "wall AU %", "{:.2f}", min),
    ("wall_samples_per_second_mean", "samples/s", "{:.1f}", min),
    ("client_cpu_seconds_per_gib", "client CPU-s/GiB", "{:.3f}", max),
    ("client_peak_rss_bytes", "client MiB", "{:.0f}", max),
    ("time_to_first_step_seconds", "first step s", "{:.3f}", max),
]


def layouts(ranks: int, launcher: list[str]) -> dict[str, tuple[list[str], list[str]]]:
    """What stands before the program's name, and behind its other arguments, by the layout's name."""

    def processes(number: int) -> tuple[list[str], list[str]]:
        return [*launcher, "-n", str(number)], ["--ranks-per-process", str(ranks // number)]

    return {
        f"1 process × {ranks}": ([], ["--np", str(ranks)]),
        f"{ranks} processes × 1": processes(ranks),
        f"2 processes × {ranks // 2}": processes(2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=pathlib.Path, required=True, help="feedrate, with MPI")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--np", type=int, default=4, help="ranks, an even number")
    parser.add_argument("--files", type=int, default=6000)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--mpirun", default="mpirun --allow-run-as-root --oversubscribe --bind-to none")
    options = parser.parse_args()
    if options.np < 2 or options.np % 2:
        parser.error("--np must be even")

    program = options.program.resolve()
    data = [WORKLOAD, "--bucket", "feedrate", "--files", str(options.files), "--quiet"]
    kinds = layouts(options.np, shlex.split(options.mpirun))
    rounds: list[dict[str, dict[str, float]]] = []
    with tempfile.TemporaryDirectory(prefix="feedrate-bench-") as folder:
        folder = pathlib.Path(folder)
        with server(program, folder) as (_, environment):

            def call(command: list) -> bytes:
                done = subprocess.run(
                    command, check=True, stdout=subprocess.PIPE, env=environment, cwd=folder
                )
                return done.stdout

            call([program, "datagen", *data])
            run = [program, "run", *data, "--epochs", str(options.epochs), "--json"]
            for number in range(1, options.runs + 1):
                print(f"round {number} of {options.runs}", file=sys.stderr)
                # Who comes first changes, so that no layout always has the same neighbours.
                turn = number % len(kinds)
                order = [*kinds][turn:] + [*kinds][:turn]
                figures = {}
                for kind in order:
                    before, behind = kinds[kind]
                    figures[kind] = json.loads(call([*before, *run, *behind]))
                rounds.append(figures)

    for figures in (figures for one in rounds for figures in one.values()):
        figures["client_peak_rss_bytes"] /= 2**20
    show(rounds, list(kinds))


def show(rounds: list[dict[str, dict[str, float]]], kinds: list[str]) -> None:
    print(f"median (worst) [median of the ratios to {kinds[0]}] of {len(rounds)} rounds\n")
    print("| ranks in | " + " | ".join(title for _, title, *_ in FIGURES) + " |")
    print("|---" * (len(FIGURES) + 1) + "|")
    for kind in kinds:
        cells = []
        for key, _, form, worst in FIGURES:
            values = [one[kind][key] for one in rounds]
            ratios = [one[kind][key] / one[kinds[0]][key] for one in rounds]
            cell = f"{form.format(statistics.median(values))} ({form.format(worst(values))})"
            if kind != kinds[0]:
                cell += f" [{statistics.median(ratios):.3f}]"
            cells.append(cell)
        print(f"| {kind} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
