#!/usr/bin/env python3
"""Peer: Llama pretraining with PyTorch's pipeline parallelism (torch.distributed.pipelining), eager, Gloo on loopback.

  torchrun --nproc-per-node 2 torch_llama.py --schedule 1f1b --cut balanced --microbatches 8 --dtype bf16 --result FILE

Ranks connect as torchrun configures them, or through the file --store, without a publicly listening socket. Each writes a JSON object to
FILE.<rank>: the seconds of every step, and the losses on the rank with the head. A step runs from barrier to barrier: zero_grad, the
schedule, the optimizer. bf16 means bfloat16 parameters, gradients and moments, without float32 master weights; the gradient norm is neither
computed nor clipped. Both make the peer's step shorter than braid's.
"""
import argparse
import itertools
import json
import os
import time

import torch
import torch.distributed as dist
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules

from llama import Stage, add_model_arguments, loss_fn

SCHEDULES = {
    "gpipe": schedules.ScheduleGPipe,
    "1f1b": schedules.Schedule1F1B,
    "i1f1b": schedules.ScheduleInterleaved1F1B,
    "izb": schedules.ScheduleInterleavedZeroBubble,
    "zbv": schedules.ScheduleZBVZeroBubble,
    "dualpipev": getattr(schedules, "ScheduleDualPipeV", None),
}
V_SHAPED = ("zbv", "dualpipev")


def stages_of_rank(schedule, rank, world):
    if schedule in ("gpipe", "1f1b"):
        return [rank]
    return [rank, 2 * world - 1 - rank] if schedule in V_SHAPED else [rank, rank + world]


def head_in_layers(c):
    """The FLOPs of the head relative to a decoder layer."""
    projections = 2 * c.hidden * c.hidden * (1 + c.kv_heads / c.heads)
    return c.hidden * c.vocab / (projections + 3 * c.hidden * c.ffn + c.hidden * (c.seq + 1))


def cut_layers(c, world):
    """Decoder layers per stage: evenly, or minimising the work of the most loaded rank, including the head."""
    mine = [stages_of_rank(c.schedule, rank, world) for rank in range(world)]
    count = sum(map(len, mine))
    if c.cut == "even":
        return [c.layers // count + (stage < c.layers % count) for stage in range(count)]

    def load(cut):
        ranks = [sum(cut[stage] + (head_in_layers(c) if stage == count - 1 else 0) for stage in stages) for stages in mine]
        return max(ranks), max(cut), cut

    cuts = (cut for cut in itertools.product(range(1, c.layers + 1), repeat=count) if sum(cut) == c.layers)
    return list(min(cuts, key=load))


def parse():
    parser = argparse.ArgumentParser()
    add_model_arguments(parser)
    parser.add_argument("--schedule", default="1f1b", choices=SCHEDULES)
    parser.add_argument("--cut", default="even", choices=["even", "balanced"])
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=8)
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--dtype", default="fp32", choices=["fp32", "bf16"])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--store")
    parser.add_argument("--result", required=True)
    return parser.parse_args()


def main():
    c = parse()
    torch.set_num_threads(c.threads)
    torch.manual_seed(0)
    if c.store:
        dist.init_process_group("gloo", init_method=f"file://{c.store}", rank=int(os.environ["RANK"]), world_size=int(os.environ["WORLD_SIZE"]))
    else:
        dist.init_process_group("gloo")
    world, rank = dist.get_world_size(), dist.get_rank()
    cut = cut_layers(c, world)
    count = len(cut)
    mine = stages_of_rank(c.schedule, rank, world)
    dtype = torch.bfloat16 if c.dtype == "bf16" else torch.float32
    modules = [Stage(c, cut[s], s == 0, s == count - 1).to(dtype) for s in mine]
    adamw = torch.optim.AdamW([p for module in modules for p in module.parameters()], lr=1e-4, fused=True)
    batch = c.microbatch * c.microbatches
    tokens = torch.randint(0, c.vocab, (batch, c.seq + 1), generator=torch.Generator().manual_seed(1))
    inputs, labels = tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()
    stages = [pipelining.PipelineStage(module, s, count, torch.device("cpu")) for module, s in zip(modules, mine)]
    schedule = SCHEDULES[c.schedule](stages if len(stages) > 1 else stages[0], c.microbatches, loss_fn=loss_fn)

    seconds, means = [], []
    for _ in range(c.steps):
        dist.barrier()
        begin = time.perf_counter()
        adamw.zero_grad(set_to_none=True)
        losses = []
        schedule.step(*((inputs,) if 0 in mine else ()), **({"target": labels, "losses": losses} if count - 1 in mine else {}))
        adamw.step()
        dist.barrier()
        seconds.append(time.perf_counter() - begin)
        if losses:
            means.append(float(torch.stack([loss.detach() for loss in losses]).mean()))
    with open(f"{c.result}.{rank}", "w") as file:
        json.dump({"schedule": c.schedule, "cut": cut, "dtype": c.dtype, "rank": rank, "step_seconds": seconds, "losses": means,
                   "tokens_per_step": batch * c.seq, "torch": torch.__version__}, file)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
