#!/usr/bin/env python3
"""How fast a set is generated through the embedded server, and in how much memory one large file is.

    cargo build --release
    benches/generation.py --runs 5

The set is UNet3D's, in the memory of a server on the same machine, a new one for each run. The large
files are made in a folder, and through a server that keeps its objects in one; they are deleted at once.
Prints the median of each figure with the worst beside it.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile

from embedded import server

ROOT = pathlib.Path(__file__).resolve().parent.parent
BUCKET = ("--bucket", "feedrate")

# Name, workload, samples of a file of 1 GiB, and other settings.
LARGE = [
    ("Parquet, Flux's schema", "flux_b200", 496, []),
    ("Parquet, DLRM's schema", "dlrm_b200", 1_398_101, []),
    ("indexed binary", "megatron_deepspeed_LLNL", 524_288, []),
]


def cpu_seconds(process: subprocess.Popen) -> float:
    """What a process that still runs took of the cores."""
    fields = pathlib.Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def datagen(program: pathlib.Path, environment: dict, arguments: list) -> dict:
    """What a generation says of itself, the most memory it had, in MiB, and the time of cores it took."""
    command = [program, "datagen", *arguments, "--quiet", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment) as process:
        summary = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"feedrate datagen {shlex.join(map(str, arguments))}: exit code {process.returncode}")
    cpu = usage.ru_utime + usage.ru_stime
    return json.loads(summary) | {"peak_mib": usage.ru_maxrss / 1024, "cpu_seconds": cpu}


def show(values: list[float], form: str, worst) -> str:
    return f"{form.format(statistics.median(values))} ({form.format(worst(values))})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "target/release/feedrate")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=32, help="of the set, 140 MiB each")
    parser.add_argument("--gib", type=int, nargs="*", default=[1, 4], help="sizes of the large files")
    options = parser.parse_args()
    program = options.program.resolve()

    # A set's memory is freed with its server.
    rates, client, servers = [], [], []
    for number in range(options.runs):
        print(f"set {number + 1} of {options.runs}", file=sys.stderr)
        with tempfile.TemporaryDirectory(prefix="feedrate-bench-") as folder:
            with server(program, pathlib.Path(folder), *BUCKET) as (process, environment):
                arguments = ["unet3d_b200", "--bucket", "feedrate", "--files", str(options.files)]
                made = datagen(program, environment, arguments)
                gib = made["bytes"] / 2**30
                servers.append(cpu_seconds(process) / gib)
        rates.append(gib / made["seconds"])
        client.append(made["cpu_seconds"] / gib)
    print(f"median (worst) of {options.runs}\n")
    print("| unet3d_b200 | GiB/s | client CPU-s/GiB | server CPU-s/GiB |")
    print("|---|---|---|---|")
    cells = [show(rates, "{:.2f}", min), *(show(cpu, "{:.3f}", max) for cpu in (client, servers))]
    print(f"| {options.files} files | " + " | ".join(cells) + " |\n")

    if not options.gib:
        return
    print("| one file of | GiB | MiB of memory into a folder | through a server |")
    print("|---|---|---|---|")
    for name, workload, samples, settings in LARGE:
        for gib in options.gib:
            arguments = [workload, "--files", "1", *settings]
            arguments += ["--set", f"dataset.num_samples_per_file={samples * gib}"]
            peaks, sizes = {"folder": [], "server": []}, []
            for number in range(options.runs):
                print(f"{name}, {gib} GiB: {number + 1} of {options.runs}", file=sys.stderr)
                with tempfile.TemporaryDirectory(prefix="feedrate-bench-") as folder:
                    made = datagen(program, os.environ, [*arguments, "--local", folder])
                    peaks["folder"].append(made["peak_mib"])
                    sizes.append(made["bytes"])
                with tempfile.TemporaryDirectory(prefix="feedrate-bench-") as folder:
                    objects = pathlib.Path(folder) / "objects"
                    objects.mkdir()
                    with server(
                        program, pathlib.Path(folder), *BUCKET, "--dir", objects
                    ) as (_, environment):
                        made = datagen(program, environment, [*arguments, "--bucket", "feedrate"])
                        peaks["server"].append(made["peak_mib"])
            cells = [show(peaks[kind], "{:.0f}", max) for kind in ("folder", "server")]
            print(f"| {name} | {sizes[0] / 2**30:.2f} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
