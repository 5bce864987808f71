"""Runs braid and PyTorch on the same job and reads their own measurements."""
import dataclasses
import json
import math
import os
import pathlib
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid"
# Each rank of either computes with one thread and communicates over loopback.
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONDONTWRITEBYTECODE": "1"}
OUTER = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclasses.dataclass(frozen=True)
class Job:
    """The model and batch that both train."""
    ranks: int = 2
    microbatches: int = 8
    microbatch: int = 1
    hidden: int = 512
    layers: int = 8
    heads: int = 8
    ffn: int = 1408
    seq: int = 512
    vocab: int = 8192

    def tokens_per_step(self):
        return self.microbatches * self.microbatch * self.seq


SMALL = Job(hidden=64, layers=4, heads=4, ffn=128, seq=64, vocab=512)


@dataclasses.dataclass(frozen=True)
class Steps:
    warmup: int
    timed: int

    def total(self):
        return self.warmup + self.timed


@dataclasses.dataclass(frozen=True)
class Measurement:
    step_seconds: list  # timed steps only
    losses: list
    peak_rss_bytes: int  # of the largest process
    more: dict

    def median_s(self):
        return statistics.median(self.step_seconds)


def flags(options):
    return [str(word) for name, value in options.items() for word in (f"--{name}", value)]


def braid_command(job, dtype, steps, output, parallel):
    """`parallel` holds the options of the strategy, gradient_accumulation_steps among them."""
    options = {
        "model_name_or_path": "braid/llama-tiny", "vocab_size": job.vocab, "hidden_size": job.hidden, "intermediate_size": job.ffn,
        "num_hidden_layers": job.layers, "num_attention_heads": job.heads, "num_key_value_heads": job.heads,
        "max_position_embeddings": job.seq, "max_seq_length": job.seq, "per_device_train_batch_size": job.microbatch, **parallel,
        "bf16": int(dtype == "bf16"), "learning_rate": 1e-4, "max_steps": steps.total(), "logging_steps": steps.total(), "do_train": 1,
        "synthetic_data": 1, "skip_export": 1, "num_threads": 1, "disable_tqdm": 1, "output_dir": output,
    }
    return [str(BRAID), "launch", "--nproc_per_node", str(job.ranks), "pretrain", *flags(options)]


def peer_command(job, dtype, steps, peer, variant, folder):
    options = {
        **variant.options, "dtype": "bf16" if dtype == "bf16" else "fp32", "layers": job.layers, "hidden": job.hidden, "heads": job.heads,
        "kv-heads": job.heads, "ffn": job.ffn, "vocab": job.vocab, "seq": job.seq, "microbatch": job.microbatch,
        "microbatches": job.microbatches, "steps": steps.total(), "threads": 1, "store": folder / "store", "result": folder / "result",
    }
    python = os.environ.get("BRAID_PYTHON") or str(ROOT / ".deps/venv/bin/python")
    return [python, str(peer), *flags(options)]


def wait_for(processes, timeout_s):
    """Waits until all have exited or one has failed. Returns the largest peak resident memory in bytes among those that exited, including
    their children, and the command that failed, if any."""
    peak_bytes, deadline, running = 0, time.monotonic() + timeout_s, list(processes)
    while running:
        if time.monotonic() > deadline:
            return peak_bytes, running[0].args
        for process in list(running):
            pid, status, usage = os.wait4(process.pid, os.WNOHANG)
            if pid == 0:
                continue
            running.remove(process)
            process.returncode = os.waitstatus_to_exitcode(status)
            peak_bytes = max(peak_bytes, usage.ru_maxrss * 1024)
            if process.returncode != 0:
                return peak_bytes, process.args
        time.sleep(0.05)
    return peak_bytes, None


def run(commands, timeout_s):
    """Starts all `commands` (argument list, added environment) at once and waits for them. Returns the largest peak resident memory of a
    process, in bytes. Raises RuntimeError with the end of the output if one fails or times out."""
    environment = {name: value for name, value in os.environ.items() if name not in OUTER}
    with tempfile.TemporaryFile("w+") as output:
        processes = []
        try:
            for command, added in commands:
                processes.append(subprocess.Popen(command, env={**environment, **ENVIRONMENT, **added}, stdin=subprocess.DEVNULL, stdout=output,
                                                  stderr=subprocess.STDOUT, start_new_session=True))
            peak_bytes, failed = wait_for(processes, timeout_s)
        finally:
            for process in processes:
                if process.returncode is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
        if failed:
            output.seek(0)
            raise RuntimeError(f"failed or took more than {timeout_s} s: {' '.join(failed)}\n{output.read()[-3000:]}")
    return peak_bytes


def check_losses(job, losses, who):
    """Guards against programs that skip work: the first loss must be that of an untrained model, and all must be finite."""
    if not losses or not all(map(math.isfinite, losses)) or abs(losses[0] - math.log(job.vocab)) > 0.5:
        raise RuntimeError(f"{who} did not train: losses {losses}, while an untrained model's first is about {math.log(job.vocab):.2f}")


def measure_braid(job, dtype, steps, strand, variant, timeout_s=1800):
    with tempfile.TemporaryDirectory(prefix="braid_bench_") as scratch:
        output = pathlib.Path(scratch, "out")
        peak_bytes = run([(braid_command(job, dtype, steps, output, strand.braid_options(job, variant)), {})], timeout_s)
        records = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    losses = [record["loss"] for record in records]
    check_losses(job, losses, f"braid ({variant.name})")
    timed = records[steps.warmup:]
    return Measurement([record["step_seconds"] for record in timed], losses, peak_bytes,
                       {"gemm_share": statistics.median(record["gemm_share"] for record in timed),
                        "max_allocated_bytes": [rank["max_allocated_bytes"] for rank in records[-1]["memory"]]})


def measure_peer(job, dtype, steps, strand, variant, timeout_s=1800):
    with tempfile.TemporaryDirectory(prefix="braid_bench_") as scratch:
        folder = pathlib.Path(scratch)
        command = peer_command(job, dtype, steps, strand.peer, variant, folder)
        peak_bytes = run([(command, {"RANK": str(rank), "WORLD_SIZE": str(job.ranks)}) for rank in range(job.ranks)], timeout_s)
        ranks = [json.loads((folder / f"result.{rank}").read_text()) for rank in range(job.ranks)]
    # Ranks with different parts of the batch know different losses.
    losses = [statistics.mean(of_step) for of_step in zip(*(rank["losses"] for rank in ranks if rank["losses"]))]
    check_losses(job, losses, f"PyTorch ({variant.name})")
    return Measurement(ranks[0]["step_seconds"][steps.warmup:], losses, peak_bytes,
                       {"torch": ranks[0]["torch"], **{name: ranks[0][name] for name in ("layers_per_stage",) if name in ranks[0]}})
