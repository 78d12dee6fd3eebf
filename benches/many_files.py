#!/usr/bin/env python3
"""How soon a run begins to train, and in how much memory, on a set of very many files that are not
listed, from a store that answers at once.

    cargo build --release && benches/many_files.py --files 50000000 --runs 3

Reads what the runs saved: the time from the start of the process to the end of its first step, and the
most memory it had. Prints the median of the runs and the worst.
"""

import argparse
import json
import pathlib
import statistics
import subprocess
import tempfile


def run(program, files, folder):
    options = [
        "dataset.skip_listing=true",
        "storage.storage_options.simulate_io=true",
        "train.total_training_steps=50",
        "train.epochs=1",
        f"output.folder={folder}",
    ]
    command = [program, "run", "retinanet_b200", "--np", "4", "--files", str(files), "--quiet"]
    for option in options:
        command += ["--set", option]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    figures = json.loads((folder / "summary.json").read_text())["feedrate"]
    return figures["time_to_first_step_seconds"], figures["client_peak_rss_bytes"] / 2**20


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--files", type=int, nargs="+", default=[6_000, 50_000_000])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--program", default="target/release/feedrate")
    args = parser.parse_args()
    print(f"{'files':>12}  {'first step after s':>20}  {'peak MiB':>16}")
    for files in args.files:
        measured = []
        for _ in range(args.runs):
            with tempfile.TemporaryDirectory() as folder:
                measured.append(run(args.program, files, pathlib.Path(folder)))
        shown = [f"{statistics.median(v):.2f} ({max(v):.2f})" for v in zip(*measured)]
        print(f"{files:>12,}  {shown[0]:>20}  {shown[1]:>16}")


if __name__ == "__main__":
    main()
