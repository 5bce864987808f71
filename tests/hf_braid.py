"""Runs braid for the tests that compare it with Hugging Face's transformers."""
import json
import os
import pathlib
import subprocess

from hf_environment import ROOT

BRAID = pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid"
TIMEOUT_S = 300
# Variables that an outer launch or terminal may have set.
DROPPED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "BRAID_PROGRESS", "COLUMNS")


def braid(*words):
    """braid's standard output, as bytes. Raises AssertionError with its output if it fails."""
    environment = {name: value for name, value in os.environ.items() if name not in DROPPED}
    environment["OMP_NUM_THREADS"] = "1"
    done = subprocess.run([BRAID, *(word if isinstance(word, bytes) else str(word) for word in words)], stdin=subprocess.DEVNULL,
                          capture_output=True, env=environment, timeout=TIMEOUT_S, check=False)
    said = (done.stdout + done.stderr).decode(errors="replace")
    assert done.returncode == 0, f"braid {words} ended with {done.returncode}:\n{said}"
    return done.stdout


def flags(options):
    return [word for name, value in options.items() for word in (f"--{name}", value)]


def pretrain(output, ranks, **options):
    """Trains on `ranks` ranks. Returns the training records of metrics.jsonl."""
    launch = [] if ranks == 1 else ["launch", "--nproc_per_node", ranks, "--log_dir", output / "log"]
    braid(*launch, "pretrain", *flags({"output_dir": output, "pipeline_parallel_degree": ranks, "do_train": 1, "disable_tqdm": 1, **options}))
    records = map(json.loads, (output / "metrics.jsonl").read_text().splitlines())
    return [record for record in records if record["type"] == "train"]
