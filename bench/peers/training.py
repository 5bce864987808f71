"""What the parallel peers share: their arguments, the process group, the batch, the timed steps and the result.

Ranks connect as torchrun configures them, or through the file --store, without a publicly listening socket. Each writes a JSON object to
FILE.<rank> of --result FILE: the seconds of every step, and the mean loss of every step on the ranks that know it. A step runs from barrier
to barrier: zero_grad, forward and backward of all microbatches, the optimizer. bf16 means bfloat16 parameters, gradients and moments, without
float32 master weights; the gradient norm is neither computed nor clipped. Both make the peer's step shorter than braid's.
"""
import json
import os
import time

import torch
import torch.distributed as dist

from llama import add_model_arguments


def add_arguments(parser):
    add_model_arguments(parser)
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=8, help="of all ranks together")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--store")
    parser.add_argument("--result", required=True)


def start(c):
    """Joins the process group. Returns this rank and the number of ranks."""
    torch.set_num_threads(c.threads)
    torch.manual_seed(0)
    if c.store:
        dist.init_process_group("gloo", init_method=f"file://{c.store}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    else:
        dist.init_process_group("gloo")
    return dist.get_rank(), dist.get_world_size()


def dtype_of(c):
    return torch.bfloat16 if c.dtype == "bf16" else torch.float32


def batch_of(c):
    """(inputs, labels) of a step, the same on every rank."""
    batch = c.microbatch * c.microbatches
    tokens = torch.randint(0, c.vocab, (batch, c.seq + 1), generator=torch.Generator().manual_seed(1))
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def microbatch_rows(c, index):
    return slice(index * c.microbatch, (index + 1) * c.microbatch)


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=1e-4, fused=True)


def train(c, optimizers, forward_and_backward, **more):
    """Times `c.steps` steps and writes the result, with `more`. `forward_and_backward` runs a step's microbatches and returns their losses,
    detached, or none on a rank that does not know them."""
    seconds, means = [], []
    for _ in range(c.steps):
        dist.barrier()
        begin = time.perf_counter()
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        losses = forward_and_backward()
        for optimizer in optimizers:
            optimizer.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
        if losses:
            means.append(float(torch.stack(losses).mean()))
    with open(f"{c.result}.{dist.get_rank()}", "w") as file:
        json.dump({"dtype": c.dtype, "rank": dist.get_rank(), "step_seconds": seconds, "losses": means, "torch": torch.__version__, **more}, file)
    dist.destroy_process_group()
