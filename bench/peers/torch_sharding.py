#!/usr/bin/env python3
"""Peer: Llama pretraining with PyTorch's sharded data parallelism, eager, Gloo on loopback.

  torchrun --nproc-per-node 2 torch_sharding.py --mode fsdp --reduce step --microbatches 8 --dtype bf16 --result FILE

--mode ddp-zero        DistributedDataParallel with ZeroRedundancyOptimizer: states divided, as in ZeRO stage 1
--mode fsdp-unsharded  FSDP2 (fully_shard of every layer) with parameters gathered once a step (reshard_after_forward=False, and none after
                       the backward pass before the step's last)
--mode fsdp            FSDP2 with parameters gathered for every pass and freed after it, as in ZeRO stage 3
--reduce step          gradients are summed locally and reduced after the step's last microbatch (no_sync, set_requires_gradient_sync)
--reduce microbatch    gradients are reduced after every microbatch
training.py says what a step and a result are. Rank r of N computes microbatches r, r + N, ...
"""
import argparse
import contextlib

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from llama import Stage, loss_fn
from training import adamw, add_arguments, batch_of, dtype_of, microbatch_rows, start, train


def parse():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--mode", default="fsdp", choices=["ddp-zero", "fsdp-unsharded", "fsdp"])
    parser.add_argument("--reduce", default="step", choices=["step", "microbatch"])
    return parser.parse_args()


def with_ddp(model):
    """The module to call, its optimizer, and the context of a microbatch."""
    net = DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-4, fused=True)
    return net, optimizer, lambda reduces, last: contextlib.nullcontext() if reduces else net.no_sync()


def with_fsdp(model, world, frees):
    """The same for FSDP2. As by default, what is outside the layers (embedding, norm and head) stays gathered from forward to backward."""
    mesh = init_device_mesh("cpu", (world,))
    for layer in model.layers:
        fully_shard(layer, mesh=mesh, reshard_after_forward=frees)
    fully_shard(model, mesh=mesh, reshard_after_forward=None if frees else False)

    def microbatch(reduces, last):
        model.set_requires_gradient_sync(reduces)
        model.set_reshard_after_backward(frees or last)
        return contextlib.nullcontext()

    return model, adamw(model.parameters()), microbatch


def main():
    c = parse()
    rank, world = start(c)
    model = Stage(c, c.layers, True, True).to(dtype_of(c))
    net, optimizer, microbatch = with_ddp(model) if c.mode == "ddp-zero" else with_fsdp(model, world, c.mode == "fsdp")
    inputs, labels = batch_of(c)
    mine = range(rank, c.microbatches, world)

    def forward_and_backward():
        losses = []
        for index in mine:
            rows, last = microbatch_rows(c, index), index == mine[-1]
            with microbatch(c.reduce == "microbatch" or last, last):
                loss = loss_fn(net(inputs[rows]), labels[rows])
                (loss / len(mine)).backward()
            losses.append(loss.detach())
        return losses

    train(c, [optimizer], forward_and_backward)


if __name__ == "__main__":
    main()
