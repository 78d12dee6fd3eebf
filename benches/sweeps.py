#!/usr/bin/env python3
"""Runs the same sweep several times and prints, for each NP, the median with the worst beside it.

    benches/sweeps.py --runs 5 -- sweep retinanet_b200 --np 1,2,4,8

Everything behind `--` goes to the release binary as it is. One sweep is a sample of a shared and
noisy machine; medians of several, and the worst, are what can be compared.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BINARY = ROOT / "target" / "release" / "feedrate"

# Figure of sweep.json, how it is shown, and which end of the samples is the worst.
FIGURES = [
    ("au_percent_mean", "AU %", "{:.2f}", min),
    ("wall_au_percent_mean", "wall AU %", "{:.2f}", min),
    ("samples_per_second_mean", "samples/s", "{:.1f}", min),
    ("io_mib_per_second_mean", "MiB/s", "{:.1f}", min),
    ("scaling_efficiency_percent", "efficiency %", "{:.2f}", min),
    ("client_cpu_seconds_per_gib", "client CPU-s/GiB", "{:.3f}", max),
    ("client_peak_rss_bytes", "client MiB", "{:.0f}", max),
    ("time_to_first_step_seconds", "first step s", "{:.3f}", max),
]


def sweep(arguments: list[str]) -> dict:
    with tempfile.TemporaryDirectory(prefix="feedrate-bench-") as results:
        command = [BINARY, *arguments, "--results-dir", results, "--quiet", "--json"]
        finished = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        return json.loads(finished.stdout)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("arguments", nargs="+", help="what the binary is called with")
    options = parser.parse_args()

    subprocess.run(["cargo", "build", "--release", "--locked"], cwd=ROOT, check=True)
    samples: dict[int, dict[str, list[float]]] = {}
    for number in range(1, options.runs + 1):
        print(f"sweep {number} of {options.runs}", file=sys.stderr)
        for run in sweep(options.arguments)["runs"]:
            for key, *_ in FIGURES:
                value = run.get(key)
                if value is not None:
                    if key.endswith("_bytes"):
                        value /= 2**20
                    samples.setdefault(run["np"], {}).setdefault(key, []).append(value)

    print(f"feedrate {' '.join(options.arguments)}: median (worst) of {options.runs}\n")
    print("| NP | " + " | ".join(title for _, title, *_ in FIGURES) + " |")
    print("|---" * (len(FIGURES) + 1) + "|")
    for np, figures in samples.items():
        cells = []
        for key, _, form, worst in FIGURES:
            values = figures.get(key)
            cells.append(
                f"{form.format(statistics.median(values))} ({form.format(worst(values))})"
                if values
                else "-"
            )
        print(f"| {np} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
