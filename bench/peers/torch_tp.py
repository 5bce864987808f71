#!/usr/bin/env python3
"""Peer: Llama pretraining with PyTorch's tensor parallelism (parallelize_module), eager, Gloo on loopback.

  torchrun --nproc-per-node 2 torch_tp.py --loss parallel --norms sequence --microbatches 8 --dtype bf16 --result FILE

The plan is torchtitan's: q, k, v, gate and up are column-wise, o and down row-wise, each block's input is prepared once for all its matrices;
embedding and head are divided along the vocabulary. training.py says what a step and a result are.
--loss parallel      cross-entropy of divided logits (loss_parallel); whole: logits are gathered
--norms sequence     norms and residuals divided along the sequence (SequenceParallel); replicated: whole on every rank
"""
import argparse
import contextlib

from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard
from torch.distributed.tensor.parallel import (ColwiseParallel, PrepareModuleInput, RowwiseParallel, SequenceParallel, loss_parallel,
                                               parallelize_module)

from llama import Stage, loss_fn
from training import adamw, add_arguments, batch_of, dtype_of, microbatch_rows, start, train


def parse():
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    parser.add_argument("--loss", default="parallel", choices=["parallel", "whole"])
    parser.add_argument("--norms", default="replicated", choices=["replicated", "sequence"])
    return parser.parse_args()


def parallelize(c, model, world):
    mesh = init_device_mesh("cpu", (world,))
    residual = Shard(1) if c.norms == "sequence" else Replicate()
    norm = SequenceParallel() if c.norms == "sequence" else None

    def block_input():
        return PrepareModuleInput(input_layouts=(residual,), desired_input_layouts=(Replicate(),))

    for layer in model.layers:
        layer.attention.heads //= world
        layer.attention.kv //= world
        plan = {"attention": block_input(), "mlp": block_input(), "n1": norm, "n2": norm,
                **{f"attention.{name}": ColwiseParallel() for name in ("q", "k", "v")}, "attention.o": RowwiseParallel(output_layouts=residual),
                **{f"mlp.{name}": ColwiseParallel() for name in ("gate", "up")}, "mlp.down": RowwiseParallel(output_layouts=residual)}
        parallelize_module(layer, mesh, {name: style for name, style in plan.items() if style})
    plan = {"embed": RowwiseParallel(input_layouts=Replicate(), output_layouts=residual), "norm": norm,
            "head": ColwiseParallel(input_layouts=residual, output_layouts=Shard(-1) if c.loss == "parallel" else Replicate(),
                                    use_local_output=c.loss == "whole")}
    parallelize_module(model, mesh, {name: style for name, style in plan.items() if style})


def main():
    c = parse()
    _, world = start(c)
    model = Stage(c, c.layers, True, True).to(dtype_of(c))
    parallelize(c, model, world)
    inputs, labels = batch_of(c)
    # A fused optimizer does not mix DTensors with the plain tensors of replicated norms.
    groups = [[p for p in model.parameters() if isinstance(p, DTensor) == divided] for divided in (True, False)]
    with_loss = loss_parallel if c.loss == "parallel" else contextlib.nullcontext

    def forward_and_backward():
        losses = []
        for index in range(c.microbatches):
            rows = microbatch_rows(c, index)
            with with_loss():
                loss = loss_fn(model(inputs[rows]), labels[rows])
                (loss / c.microbatches).backward()
            loss = loss.detach()
            losses.append(loss.full_tensor() if isinstance(loss, DTensor) else loss)
        return losses

    train(c, [adamw(group) for group in groups if group], forward_and_backward)


if __name__ == "__main__":
    main()
