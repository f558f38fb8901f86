#!/usr/bin/env python3
"""Runs `iota bench stage` and stage.py in turn, for each case, precision and number of threads, and prints their times
side by side. Needs only the standard library; PyTorch is used by stage.py. README.md says how to read the table."""

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys

STAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stage.py")
TIMES = (("forward_backward_time", "fwd+bwd"), ("forward_time", "fwd"), ("step_time", "step"))


def report(command):
    """What a command prints as JSON."""
    done = subprocess.run(command, stdout=subprocess.PIPE)
    if done.returncode != 0:
        sys.exit("compare.py: %s failed" % command[0])
    return json.loads(done.stdout)


def values(r):
    """The metrics of a report of one measurement."""
    return {result["metric"]: result["value"] for result in r["results"]}


def compare(options):
    """Measures in turn; returns the rows, and the configuration of both sides."""
    rows, ours, torch, numerics = [], {}, {}, {}
    for case in options.case:
        for precision in options.precision:
            for threads in options.threads:
                what = ["--case", case, "--precision", precision, "--threads", threads, "--json"]
                rounds = []
                for i in range(options.rounds):
                    ours = report([options.iota, "bench", "stage", *what])
                    torch = report([sys.executable, "-B", STAGE, *what])
                    numerics.update(ours["config"]["numerics"])
                    rounds.append((values(ours), values(torch)))
                    if sys.stderr.isatty():
                        print("%s %s, %s threads: round %d of %d" % (case, precision, threads, i + 1, options.rounds), file=sys.stderr)
                rows.append(row(case, precision, threads, rounds))
                if not options.json:
                    if len(rows) == 1:
                        print_heading()
                    print_row(rows[-1])
    config = {"rounds": options.rounds, "iota": {**ours["config"], "numerics": numerics}, "torch": torch["config"]}
    return {"name": "torch-compare", "config": config, "results": rows}


def row(case, precision, threads, rounds):
    """Medians of both sides, and the median of the rounds' ratios: torch's time over ours, so above 1 we are faster."""
    times = {}
    for metric, _ in TIMES:
        times[metric] = {
            "iota": statistics.median(a[metric] for a, _ in rounds),
            "torch": statistics.median(b[metric] for _, b in rounds),
            "ratio": statistics.median(b[metric] / a[metric] for a, b in rounds),
        }
    return {"case": case, "precision": precision, "threads": int(threads), "times": times}


def print_heading():
    print("Milliseconds; ratio is torch / iota: above 1, iota is faster.")
    print(" " * 28 + "".join(" | %-24s" % name for _, name in TIMES).rstrip())
    print("%-10s %-9s %7s" % ("case", "precision", "threads") + " | %8s %8s %6s" % ("iota", "torch", "ratio") * len(TIMES))


def print_row(r):
    line = "%-10s %-9s %7d" % (r["case"], r["precision"], r["threads"])
    for metric, _ in TIMES:
        t = r["times"][metric]
        line += " | %8.1f %8.1f %6.2f" % (t["iota"], t["torch"], t["ratio"])
    print(line, flush=True)


def print_versions(config):
    a, b = config["iota"], config["torch"]
    print("iota %s, %s kernels, numerics %s" % (a["version"], a["kernel"], ", ".join(sorted(a["numerics"].values()))))
    print("torch %s, %s %s, attention by %s, bf16 by %s" % (
        b["torch"], b["blas"] or "its own BLAS", b["kernel"], b["attention"], b["bf16"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    split = lambda text: text.split(",")
    parser.add_argument("--iota", default="bin/iota", help="the binary")
    parser.add_argument("--case", type=split, default=["reference"], help="comma list")
    parser.add_argument("--precision", type=split, default=["f32", "bf16"], help="comma list")
    parser.add_argument("--threads", type=split, default=sorted({"1", str(os.cpu_count() or 1)}), help="comma list")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of which the median counts")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds %d: use 1 or more" % options.rounds)
    if importlib.util.find_spec("torch") is None:
        sys.exit("compare.py: %s has no PyTorch: bench/torch/README.md says how to install it" % sys.executable)
    if not os.path.exists(options.iota):
        sys.exit("compare.py: there is no %s: build it with go build -o %s ./cmd/iota" % (options.iota, options.iota))
    result = compare(options)
    print(json.dumps(result, indent=2)) if options.json else print_versions(result["config"])


if __name__ == "__main__":
    main()
