#!/usr/bin/env python3
"""Peer: Llama pretraining with PyTorch's pipeline parallelism (torch.distributed.pipelining), eager, Gloo on loopback.

  torchrun --nproc-per-node 2 torch_pp.py --schedule 1f1b --cut balanced --microbatches 8 --dtype bf16 --result FILE

training.py says what a step and a result are. Only the rank with the head knows the losses.
"""
import argparse
import itertools

import torch
from torch.distributed import pipelining
from torch.distributed.pipelining import schedules

from llama import Stage, loss_fn
from training import adamw, add_arguments, batch_of, dtype_of, start, train

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
    add_arguments(parser)
    parser.add_argument("--schedule", default="1f1b", choices=SCHEDULES)
    parser.add_argument("--cut", default="even", choices=["even", "balanced"])
    return parser.parse_args()


def main():
    c = parse()
    rank, world = start(c)
    cut = cut_layers(c, world)
    count = len(cut)
    mine = stages_of_rank(c.schedule, rank, world)
    # Every rank draws the weights of all stages, so that they do not depend on the cut and are those of the other peers.
    everything = [Stage(c, cut[s], s == 0, s == count - 1).to(dtype_of(c)) for s in range(count)]
    modules = [everything[s] for s in mine]
    del everything
    inputs, labels = batch_of(c)
    stages = [pipelining.PipelineStage(module, s, count, torch.device("cpu")) for module, s in zip(modules, mine)]
    schedule = SCHEDULES[c.schedule](stages if len(stages) > 1 else stages[0], c.microbatches, loss_fn=loss_fn)

    def forward_and_backward():
        losses = []
        schedule.step(*((inputs,) if 0 in mine else ()), **({"target": labels, "losses": losses} if count - 1 in mine else {}))
        return [loss.detach() for loss in losses]

    train(c, [adamw([p for module in modules for p in module.parameters()])], forward_and_backward, schedule=c.schedule, layers_per_stage=cut)


if __name__ == "__main__":
    main()
