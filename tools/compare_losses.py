#!/usr/bin/env python3
"""Compares the losses of several runs at every step, bit for bit.

Takes NAME=FILE for each run, where FILE is its metrics.jsonl. Prints a Markdown table of some steps and how many steps differ from the
first run; exits with 1 if any does. Needs nothing but Python.
"""
import json
import sys

ROWS = 11


def losses(path):
    with open(path, encoding="utf-8") as lines:
        records = [json.loads(line) for line in lines]
    return {r["global_step"]: (r["loss"], r["grad_norm"]) for r in records if r["type"] == "train"}


def main(arguments):
    if len(arguments) < 2 or any("=" not in argument for argument in arguments):
        print("compare_losses: name at least two runs, as in 1F1B=out/a/metrics.jsonl ZBH1=out/b/metrics.jsonl", file=sys.stderr)
        return 2
    runs = dict(argument.split("=", 1) for argument in arguments)
    try:
        runs = {name: losses(path) for name, path in runs.items()}
    except (OSError, ValueError, KeyError) as error:
        print(f"compare_losses: {error}", file=sys.stderr)
        return 2
    first, *others = runs
    steps = sorted(runs[first])
    shown = sorted({steps[round(i * (len(steps) - 1) / (ROWS - 1))] for i in range(ROWS)}) if steps else []
    print("| step |", " | ".join(runs), "|")
    print("|---" * (len(runs) + 1) + "|")
    for step in shown:
        print(f"| {step} |", " | ".join(repr(run[step][0]) if step in run else "-" for run in runs.values()), "|")
    print()
    differing = False
    for name in others:
        count = sum(runs[name].get(step) != runs[first][step] for step in steps) + len(set(runs[name]) - set(steps))
        differing |= count > 0
        print(f"{name}: {count} of {len(steps)} steps differ from {first} in loss or gradient norm")
    return 1 if differing or not steps else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
