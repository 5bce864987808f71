"""braid's schedule files against PyTorch's pipelining: its reader, validator, lowering and simulator accept what `braid schedule export`
writes, and braid accepts what PyTorch's own schedules write. BRAID_BUILD_DIR contains the program (build/ unless set), BRAID_PYTHON is a
Python with PyPI's torch (.deps/venv unless set)."""
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hf_environment

hf_environment.enter()

from torch.distributed.pipelining import schedules as torch_schedules

import hf_braid

# Every mode, with the chunks per rank that it can have.
MODES = {"FThenB": (1, 2), "1F1B": (1,), "Eager1F1B": (1,), "VPP": (2, 3), "ZBH1": (1,), "ZBH1-fused": (1,), "ZBH2": (1,),
         "InterleavedZB": (1, 2, 3), "DualPipeV": (2,), "ZBVPP": (2,), "V-Half": (2,), "V-Min": (2,), "auto": (1, 2)}
SHAPES = ((1, 1), (2, 5), (3, 6), (4, 8), (4, 12), (6, 13))
TIMES = "1,1.1,0.8,0.05"

# PyTorch's schedules of several stages per rank that accumulate weight gradients in ascending order, with their placement of stages.
SEVERAL = {"Interleaved1F1B": "loop", "InterleavedZeroBubble": "loop", "ZBVZeroBubble": "v", "DualPipeV": "v"}


def exported(*words):
    """What export writes, or None if the mode does not support the shape."""
    done = subprocess.run([hf_braid.BRAID, "schedule", "export", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode in (0, 2), done.stderr
    return done.stdout if done.returncode == 0 else None


def without_processes(ranks, stages_per_rank, placement):
    """Those attributes of rank 0's stages that PyTorch's schedules read before they run."""
    indices = [0, 2 * ranks - 1] if placement == "v" else [chunk * ranks for chunk in range(stages_per_rank)]
    return [types.SimpleNamespace(stage_index=index, num_stages=ranks * stages_per_rank, group_size=ranks, group_rank=0, has_backward=True,
                                  submod=None, is_first=index == 0, is_last=index == ranks * stages_per_rank - 1) for index in indices]


def parts_of(actions):
    """Compound actions split into parts, as PyTorch runs them by default; its simulator does not support them."""
    return [part for action in actions if action is not None for part in action.sub_actions or (action,)]


def lower_and_simulate(order, ranks, stages, microbatches):
    """PyTorch's own steps from the compute actions of all ranks to a schedule that runs. Raises if one rejects them."""
    rank_of_stage = torch_schedules._validate_schedule(order, ranks, stages, microbatches)
    lowered = torch_schedules._add_send_recv({rank: list(actions) for rank, actions in order.items()}, rank_of_stage.__getitem__, stages)
    with_waits = torch_schedules._add_wait_send(lowered)
    torch_schedules._validate_send_waits(with_waits)
    return torch_schedules._simulate_comms_compute(with_waits, rank_of_stage.__getitem__, stages)


class Exported(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "schedule.csv"

    def load(self, ranks, chunks, microbatches):
        """PyTorch's runtime with braid's file, read, validated and lowered by its own _load_csv."""
        runtime = torch_schedules._PipelineScheduleRuntime(without_processes(ranks, chunks, "loop"), microbatches)
        runtime._load_csv(str(self.file), format="compute_only")
        return runtime

    def test_every_mode_is_named_here(self):
        said = hf_braid.braid("schedule", "show", "--help").decode()
        names = re.search(r"One of ([^;]*);", said)[1]
        self.assertEqual({name.strip() for name in names.split(",")}, set(MODES))

    def test_pytorch_reads_validates_lowers_and_simulates_every_mode(self):
        read = {mode: 0 for mode in MODES}
        for mode, chunk_counts in MODES.items():
            for ranks, microbatches in SHAPES:
                for chunks in chunk_counts:
                    with self.subTest(mode, ranks=ranks, microbatches=microbatches, chunks=chunks):
                        text = exported("--mode", mode, "--pp", ranks, "--micro", microbatches, "--chunks", chunks, "--times", TIMES)
                        if text is None:
                            continue
                        self.file.write_text(text)
                        read[mode] += 1
                        order = {rank: [torch_schedules._Action.from_str(cell) for cell in row.split(",")]
                                 for rank, row in enumerate(text.splitlines())}
                        steps = lower_and_simulate(order, ranks, ranks * chunks, microbatches)
                        for rank, actions in order.items():
                            computed = [action for action in steps[rank] if action is not None and action.is_compute_op]
                            self.assertEqual(computed, actions, "PyTorch runs our order")
                        self.assertEqual(self.load(ranks, chunks, microbatches).pipeline_order, order)
        # A mode may reject a shape, but not most of them.
        for mode, count in read.items():
            self.assertGreater(2 * count, len(SHAPES) * len(MODES[mode]), mode)

    def test_the_check_sees_a_damaged_file(self):
        text = exported("--mode", "ZBH1", "--pp", 3, "--micro", 4)
        for damaged in (text.replace("1W2", "1W1", 1), text.replace("0F0,0F1", "0F1,0F0", 1).replace("0F0", "0F9", 1)):
            self.file.write_text(damaged)
            with self.assertRaises(AssertionError):
                self.load(3, 1, 4)


class Written(unittest.TestCase):
    """Written by PyTorch, read by braid."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.file = pathlib.Path(folder.name) / "torch.csv"

    def simulated(self):
        return hf_braid.braid("schedule", "simulate", "--mode", f"csv:{self.file}", "--times", TIMES).decode()

    def test_schedules_of_several_stages_per_rank(self):
        for name, placement in SEVERAL.items():
            for ranks, microbatches in ((2, 4), (3, 6), (4, 8), (4, 16)):
                with self.subTest(name, ranks=ranks, microbatches=microbatches):
                    made = torch_schedules.get_schedule_class(name)(without_processes(ranks, 2, placement), microbatches)
                    made._dump_csv(str(self.file), format="compute_only")
                    self.assertIn(f"{ranks} ranks, 2 chunks each, {microbatches} microbatches", self.simulated())

    def test_schedules_of_one_stage_per_rank(self):
        # These have no writer of their own, and their order includes the reduction of data parallelism: the rest is the compute part.
        # PyTorch's table of 1F1B, which it does not run, starts the last rank at the second forward: that row is omitted.
        for name, ours, rows_alike in (("1F1B", "1F1B", -1), ("GPipe", "FThenB", None)):
            for ranks, microbatches in ((2, 4), (4, 8)):
                with self.subTest(name, ranks=ranks, microbatches=microbatches):
                    made = torch_schedules.get_schedule_class(name)(without_processes(ranks, 1, "loop")[0], microbatches)
                    rows = [",".join(str(a) for a in made.pipeline_order[rank] if a is not None and a.is_compute_op)
                            for rank in range(ranks)]
                    text = exported("--mode", ours, "--pp", ranks, "--micro", microbatches)
                    self.assertEqual(rows[:rows_alike], text.splitlines()[:rows_alike])

    def test_what_braid_does_not_run_is_rejected_with_the_reason(self):
        for name, form, reason in (("LoopedBFS", "compute_only", "must add up in ascending order"),
                                   ("Interleaved1F1B", "compute_comms", "compute_only format")):
            with self.subTest(name):
                made = torch_schedules.get_schedule_class(name)(without_processes(2, 2, "loop"), 4)
                made._dump_csv(str(self.file), format=form)
                done = subprocess.run([hf_braid.BRAID, "schedule", "simulate", "--mode", f"csv:{self.file}"], capture_output=True,
                                      text=True, timeout=60, check=False)
                self.assertEqual(done.returncode, 2)
                self.assertIn(reason, done.stderr)


if __name__ == "__main__":
    unittest.main()
