"""The strands that the benchmark compares: what braid runs, and what PyTorch runs against it."""
import dataclasses
import pathlib

PEERS = pathlib.Path(__file__).resolve().parent / "peers"


@dataclasses.dataclass(frozen=True)
class Variant:
    """One way in which a program runs the job: its options, as flags without the dashes."""
    name: str
    options: dict


@dataclasses.dataclass(frozen=True)
class Strand:
    """One axis of parallelism, over all ranks of a job. Of each side's variants the fastest takes part."""
    name: str
    title: str
    peer: pathlib.Path
    peer_variants: tuple
    braid_variants: tuple
    degree: str  # braid's option for the number of ranks of the axis
    divides_batch: bool  # each rank computes its part of the microbatches

    def braid_options(self, job, variant):
        microbatches = job.microbatches // job.ranks if self.divides_batch else job.microbatches
        return {self.degree: job.ranks, "gradient_accumulation_steps": microbatches, **variant.options}


def pipeline_variants():
    return tuple(Variant(f"{schedule}/{cut}", {"schedule": schedule, "cut": cut})
                 for schedule in ("1f1b", "gpipe", "i1f1b", "izb", "zbv") for cut in ("even", "balanced"))


def tensor_variants():
    return tuple(Variant(f"{loss}-loss/{norms}-norms", {"loss": loss, "norms": norms})
                 for loss in ("parallel", "whole") for norms in ("replicated", "sequence"))


def sharding_variants(*modes):
    return tuple(Variant(f"{mode}/{reduce}", {"mode": mode, "reduce": reduce}) for mode, reduce in modes)


def sharding(stage, peer_variants, reductions):
    return Strand(f"sharding{stage}", f"sharding 2, stage {stage}", PEERS / "torch_sharding.py", peer_variants,
                  tuple(Variant(reduce, {"sharding": f"stage{stage}", "sharding_reduce": reduce}) for reduce in reductions),
                  "sharding_parallel_degree", True)


STRANDS = {strand.name: strand for strand in (
    Strand("pp", "pp 2", PEERS / "torch_pp.py", pipeline_variants(), (Variant("1F1B", {"pipeline_schedule_mode": "1F1B"}),),
           "pipeline_parallel_degree", False),
    Strand("mp", "mp 2", PEERS / "torch_tp.py", tensor_variants(),
           (Variant("replicated-norms", {"sequence_parallel": 0}), Variant("sequence-norms", {"sequence_parallel": 1})),
           "tensor_parallel_degree", False),
    # Stages 1 and 2 keep whole weights, as DDP does, and FSDP2 without resharding between passes; "step" also keeps whole gradients.
    sharding(1, sharding_variants(("ddp-zero", "step"), ("fsdp-unsharded", "step")), ("step",)),
    sharding(2, sharding_variants(("ddp-zero", "step"), ("fsdp-unsharded", "step"), ("fsdp-unsharded", "microbatch")), ("step", "microbatch")),
    sharding(3, sharding_variants(("fsdp", "step"), ("fsdp", "microbatch")), ("step", "microbatch")),
)}
