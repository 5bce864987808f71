#!/usr/bin/env python3
"""Compares a braid run on one GPU with plain PyTorch loops: tokens/s, MFU and peak memory. tools/gpu_check calls it.

  gpu_report.py --metrics metrics.jsonl --peer FILE... --warmup 10 --tokens-per-step 32768 --gpu "NVIDIA H200" <the model's sizes>

FILE holds what bench/peers/torch_plain.py prints. MFU counts 6 N + 6 L n d (s + 1) operations per token, where N is the number of parameters of all
matrices except the embedding, against the GPU's dense bf16 peak.
"""
import argparse
import json
import pathlib
import statistics

PEAK_TFLOPS = {"H100": 989, "H200": 989, "H800": 989, "GH200": 989, "A100": 312, "A800": 312, "B200": 2250, "L40S": 362, "L40": 181}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--metrics", type=pathlib.Path, required=True)
    parser.add_argument("--peer", type=pathlib.Path, nargs="*", default=[])
    parser.add_argument("--warmup", type=int, required=True)
    parser.add_argument("--gpu", default="", help="its name; empty: no MFU")
    parser.add_argument("--peak-tflops", type=float, help="of the GPU in bf16 without sparsity; unset: from its name")
    parser.add_argument("--tokens-per-step", type=int, required=True)
    for name in ("layers", "hidden", "heads", "kv-heads", "ffn", "vocab", "seq"):
        parser.add_argument(f"--{name}", type=int, required=True)
    return parser.parse_args()


def flops_per_token(c):
    head_dim = c.hidden // c.heads
    layer = 2 * c.hidden * head_dim * (c.heads + c.kv_heads) + 3 * c.hidden * c.ffn
    return 6 * (c.layers * layer + c.hidden * c.vocab) + 6 * c.layers * c.hidden * (c.seq + 1)


def peak_tflops(c):
    if c.peak_tflops:
        return c.peak_tflops
    words = c.gpu.replace("-", " ").split()
    return next((peak for name, peak in PEAK_TFLOPS.items() if name in words), None)


def braid_run(path):
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {"name": "braid", "step_seconds": [record["step_seconds"] for record in records], "losses": [record["loss"] for record in records],
            **{name: records[-1]["memory"][0][name] for name in ("max_allocated_bytes", "max_reserved_bytes")}}


def peer_run(path):
    run = json.loads(path.read_text().splitlines()[-1])
    return {"name": f"PyTorch, {run['precision']}", **run}


def column(c, run):
    step = statistics.median(run["step_seconds"][c.warmup:])
    rate = c.tokens_per_step / step
    peak = peak_tflops(c)

    def size(name):
        if name not in run:
            return "-"
        return f"{run[name] / 2**30:.2f} GiB" if run[name] >= 2**30 else f"{run[name] / 2**20:.2f} MiB"

    return [run["name"], f"{step:.4f}", f"{rate:.0f}", f"{rate * flops_per_token(c) / 1e12:.1f}",
            f"{rate * flops_per_token(c) / peak / 1e12:.1%}" if peak else "-", size("max_allocated_bytes"), size("max_reserved_bytes"),
            f"{run['losses'][0]:.3f} {run['losses'][-1]:.3f}", str(len(run["step_seconds"]))]


def main():
    c = parse()
    rows = ["", "s per step, median", "tokens/s", "TFLOP/s", "MFU", "peak allocated", "peak reserved", "first and last loss", "steps"]
    columns = [column(c, run) for run in [braid_run(c.metrics), *map(peer_run, c.peer)]]
    print(f"{c.gpu or 'no GPU'}; {c.tokens_per_step} tokens per step; the first {c.warmup} steps are excluded; MFU against "
          f"{peak_tflops(c) or 'unknown'} TFLOP/s")
    for name, *values in zip(rows, *columns):
        print(f"{name:22}" + "".join(f"{value:>20}" for value in values))


if __name__ == "__main__":
    main()
