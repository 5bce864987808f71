#!/usr/bin/env python3
"""Peer on one device: a plain eager PyTorch loop that trains the same Llama on random tokens.

--precision autocast  float32 parameters, gradients and moments, bfloat16 computation under torch.autocast: the recipe that matches
                      braid's bf16 (float32 master weights and gradients)
--precision pure      everything in bfloat16, including moments: less memory and work than braid
Both: fused AdamW, gradients clipped to norm 1, scaled_dot_product_attention. Prints one JSON object: the seconds of every step, peak memory.
"""
import argparse
import json
import time

import torch
import torch.nn as nn

from llama import Stage, add_model_arguments, loss_fn


def parse():
    parser = argparse.ArgumentParser()
    add_model_arguments(parser)
    parser.add_argument("--microbatch", type=int, default=1)
    parser.add_argument("--microbatches", type=int, default=1)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--precision", default="autocast", choices=["autocast", "pure"])
    parser.add_argument("--device", default="cuda", choices=["cuda", "cpu"])
    return parser.parse_args()


def main():
    c = parse()
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    device = torch.device(c.device)
    with device:
        model = Stage(c, c.layers, True, True)
        for module in model.modules():
            if isinstance(module, (nn.Linear, nn.Embedding)):
                nn.init.normal_(module.weight, std=0.02)
    if c.precision == "pure":
        model = model.to(torch.bfloat16)
    adamw = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    generator = torch.Generator().manual_seed(1)
    autocast = torch.autocast(c.device, torch.bfloat16, enabled=c.precision == "autocast")
    seconds, losses = [], []
    for _ in range(c.steps):
        begin = time.perf_counter()
        tokens = torch.randint(0, c.vocab, (c.microbatches, c.microbatch, c.seq + 1), generator=generator).to(device)
        adamw.zero_grad(set_to_none=True)
        total = torch.zeros((), device=device)
        for text in tokens:
            with autocast:
                loss = loss_fn(model(text[:, :-1]), text[:, 1:])
            (loss / c.microbatches).backward()
            total += loss.detach()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        adamw.step()
        losses.append(total.item() / c.microbatches)  # waits for the device
        seconds.append(time.perf_counter() - begin)
    peak = {"max_allocated_bytes": torch.cuda.max_memory_allocated(), "max_reserved_bytes": torch.cuda.max_memory_reserved()} if c.device == "cuda" else {}
    print(json.dumps({"precision": c.precision, "device": torch.cuda.get_device_name() if c.device == "cuda" else "cpu",
                      "torch": torch.__version__, "parameters": sum(p.numel() for p in model.parameters()), "step_seconds": seconds,
                      "losses": losses, **peak}))


if __name__ == "__main__":
    main()
