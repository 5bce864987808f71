#!/usr/bin/env python3
"""Trains a tiny Llama with each strand of a strategy and compares every step with one rank's. tools/gpu_check calls it.

  gpu_strands.py --braid build-gpu/braid --device cuda --gpus 2 --out out/gpu_check/strands

--gpus N    N >= 2: mp, sharding, pp and dp over N GPUs (the largest power of two up to 8), one rank on each, through NCCL.
            1: two ranks share the GPU. NCCL rejects that on one host, so each rank says that it is a host of its own (NCCL_HOSTID), and
            messages go through loopback. If NCCL rejects this too, that is printed, and each strand runs at degree 1.
--device cpu  the same with 2 ranks and Gloo; --gpus 1 starts them as on a shared GPU.
Then, on one rank, recomputation, an optimizer offloaded to pinned memory (on CPUs: to a file), and float16. Exits with 1 if a run fails or differs.
"""
import argparse
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import time

from measure import OUTER, flags

STEPS = 5
SEQUENCES = 8  # of a step, over all ranks
MODEL = {"model_name_or_path": "braid/llama-tiny", "num_hidden_layers": 8, "hidden_size": 128, "num_attention_heads": 8, "num_key_value_heads": 8,
         "intermediate_size": 256, "vocab_size": 512, "max_seq_length": 64, "per_device_train_batch_size": 1}
RUN = {"synthetic_data": 1, "learning_rate": 0.001, "max_steps": STEPS, "logging_steps": STEPS, "do_train": 1, "skip_export": 1, "disable_tqdm": 1,
       "num_threads": 1, "overwrite_output_dir": 1, "dist_timeout": 60}
TIMEOUT_S = 120
# Relative to one rank's float32. Strands add up the same products in another order: some 2^-24 in each of some hundred sums that an activation
# passes through, of either sign. What is lost, added twice or sent to a wrong place changes a loss or a gradient's norm by percents.
BOUND = 2.0 ** -14
# float16 rounds each of them by 2^-11.
HALF_BOUND = 2.0 ** -6
# How NCCL and c10d word it.
REJECTIONS = ("Duplicate GPU detected", "ncclInvalidUsage", "invalid usage")


def degrees(mp=1, sharding=1, pp=1, dp=1, stage=0, **more):
    return {"tensor_parallel_degree": mp, "sharding": f"stage{stage}", "sharding_parallel_degree": sharding, "pipeline_parallel_degree": pp,
            "data_parallel_degree": dp, "gradient_accumulation_steps": SEQUENCES // (sharding * dp), **more}


def strands(ranks):
    """{name: options} over `ranks` ranks; of one rank: what the strand runs on each of them."""
    found = {f"mp {ranks}": degrees(mp=ranks)}
    if ranks > 1:
        found[f"mp {ranks}, sequence parallel"] = degrees(mp=ranks, sequence_parallel=1)
    for stage in (1, 2, 3):
        found[f"sharding {ranks}, stage {stage}"] = degrees(sharding=ranks, stage=stage)
    for schedule in ("1F1B", "ZBH1"):
        found[f"pp {ranks}, {schedule}"] = degrees(pp=ranks, pipeline_schedule_mode=schedule)
    if ranks > 1:
        found[f"dp {ranks}"] = degrees(dp=ranks)
    if ranks >= 4:
        found[f"mp 2 x sharding {ranks // 2}, stage 3"] = degrees(mp=2, sharding=ranks // 2, stage=3)
        found[f"mp 2 x pp {ranks // 2}"] = degrees(mp=2, pp=ranks // 2)
    if ranks >= 8:
        found[f"mp 2 x sharding 2 x pp {ranks // 4}"] = degrees(mp=2, sharding=2, pp=ranks // 4, stage=1)
    return found


class Failed(Exception):
    pass


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Runner:
    def __init__(self, options):
        self.options, self.count = options, 0
        self.environment = {name: value for name, value in os.environ.items() if name not in OUTER}

    def processes(self, ranks, shares, arguments):
        """[(words, environment)] of what to start."""
        pretrain = ["pretrain", *arguments, "--device", self.options.device]
        if ranks == 1:
            return [([self.options.braid, *pretrain], {})]
        if not shares:
            return [([self.options.braid, "launch", "--nproc_per_node", str(ranks), *pretrain], {})]
        common = {"WORLD_SIZE": str(ranks), "LOCAL_WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()),
                  "BRAID_LOCAL_DEVICE": "0", "NCCL_SOCKET_IFNAME": "lo", "NCCL_DEBUG": "WARN"}
        return [([self.options.braid, *pretrain], {**common, "RANK": str(rank), "LOCAL_RANK": str(rank), "NCCL_HOSTID": f"rank{rank}"})
                for rank in range(ranks)]

    def run(self, ranks, shares, strategy):
        """The records of the steps of one run. Raises Failed with the end of its log."""
        self.count += 1
        folder = self.options.out / str(self.count)
        folder.mkdir(parents=True, exist_ok=True)
        arguments = flags({**MODEL, **RUN, **strategy, "output_dir": folder / "run"})
        log = folder / "log"
        with open(log, "w") as output:
            started = [subprocess.Popen(words, env={**self.environment, **added}, stdin=subprocess.DEVNULL, stdout=output,
                                        stderr=subprocess.STDOUT, start_new_session=True)
                       for words, added in self.processes(ranks, shares, arguments)]
            end = time.monotonic() + TIMEOUT_S
            try:
                codes = [process.wait(timeout=max(1, end - time.monotonic())) for process in started]
            except subprocess.TimeoutExpired:
                codes = [f"none within {TIMEOUT_S} s"]
            finally:
                for process in started:
                    if process.poll() is None:
                        os.killpg(process.pid, signal.SIGKILL)
                        process.wait()
        if any(code != 0 for code in codes):
            raise Failed(f"exit codes {codes}, log {log}:\n{log.read_text(errors='replace')[-3000:]}")
        records = [json.loads(line) for line in (folder / "run/metrics.jsonl").read_text().splitlines()]
        if len(records) != STEPS:
            raise Failed(f"{len(records)} of {STEPS} steps in {folder / 'run/metrics.jsonl'}")
        return records


def difference(records, expected):
    """The largest relative difference of a loss or gradient norm."""
    return max(abs(mine[key] / theirs[key] - 1) for mine, theirs in zip(records, expected) for key in ("loss", "grad_norm"))


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--braid", required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--gpus", type=int, default=2, help="visible GPUs")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for logs")
    options = parser.parse_args()
    if options.gpus < 1:
        parser.error("--gpus must be >= 1")
    return options


def main():
    options = parse()
    runner = Runner(options)
    shares = options.gpus == 1
    ranks = 2 if options.device == "cpu" or shares else min(8, 1 << (options.gpus.bit_length() - 1))

    def check(name, ranks, strategy, bound=BOUND):
        begin = time.monotonic()
        try:
            records = runner.run(ranks, shares, strategy)
        except Failed as error:
            raise Failed(f"{name}: {error}") from None
        largest = difference(records, expected)
        print(f"{name:44} {'2 on one device' if shares and ranks > 1 else ranks:>16} {records[-1]['loss']:10.6f} {largest:12.1e} "
              f"{time.monotonic() - begin:8.1f} s", flush=True)
        if not largest <= bound:
            raise Failed(f"{name}: a loss or gradient norm differs by {largest:.1e} of one rank's; at most {bound:.1e} is rounding")

    def check_all(ranks):
        for name, strategy in strands(ranks).items():
            check(name, ranks, strategy)

    print(f"{'strand':44} {'ranks':>16} {'last loss':>10} {'difference':>12} {'took':>10}")
    expected = runner.run(1, False, degrees())
    if len({record["loss"] for record in expected}) != STEPS:
        raise Failed("one rank does not train: two steps have the same loss")
    try:
        check_all(ranks)
    except Failed as error:
        # NCCL's objection comes with the first run of two ranks; whatever fails later is not about sharing.
        if not (shares and runner.count == 2 and any(words in str(error) for words in REJECTIONS)):
            raise
        print("NCCL rejects two ranks on one GPU: each strand runs at degree 1")
        check_all(1)
    check("recomputation", 1, {**degrees(), "recompute": 1})
    check("offload", 1, {**degrees(), "sharding": "stage1 offload"})
    check("float16", 1, {**degrees(), "fp16": 1}, HALF_BOUND)


if __name__ == "__main__":
    try:
        main()
    except Failed as error:
        sys.exit(f"gpu_strands: {error}")
