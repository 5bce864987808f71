"""Who started the ranks, and what their environment says: places that launchers state are used or contradicted aloud, values of the
environment are checked like flags, and an output_dir has one run at a time."""
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
LAUNCHERS = ("RANK", "WORLD_SIZE", "LOCAL_", "GROUP_", "MASTER_", "OMPI_", "PMI", "MPI_", "MV2_", "SLURM_", "BRAID_RUN", "OMP_", "GLOO_")


def environment(**changes):
    clean = {key: value for key, value in os.environ.items() if not key.startswith(LAUNCHERS)}
    return clean | {"OMP_NUM_THREADS": "1"} | changes


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


class Launchers(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = pathlib.Path(scratch.name)

    def pretrain(self, *extra, steps=2):
        return [BRAID, "pretrain", "--model_name_or_path", "braid/llama-tiny", "--num_hidden_layers", "2", "--hidden_size", "32",
                "--intermediate_size", "64", "--num_attention_heads", "2", "--num_key_value_heads", "2", "--head_dim", "16",
                "--vocab_size", "384", "--synthetic_data", "1", "--skip_export", "1", "--max_seq_length", "16",
                "--per_device_train_batch_size", "1", "--gradient_accumulation_steps", "2", "--max_steps", str(steps), "--logging_steps", str(steps),
                "--do_train", "--output_dir", str(self.out / "run"), *extra]

    def start(self, command, **changes):
        process = subprocess.Popen(command, env=environment(**changes), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.stdout.close()
        process.wait()

    def run_one(self, command, code, **changes):
        process = self.start(command, **changes)
        output = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, code, output)
        self.assertNotIn("bug in braid", output)
        return output

    def run_ranks(self, environments, codes=(0, 0), words=((), ())):
        processes = [self.start(self.pretrain("--pipeline_parallel_degree", "2", *extra), **one) for one, extra in zip(environments, words)]
        outputs = [process.communicate(timeout=120)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], list(codes), "\n".join(outputs))
        return outputs

    def steps(self):
        return [json.loads(line)["global_step"] for line in (self.out / "run" / "metrics.jsonl").read_text().splitlines()]

    def wait_for_step(self, step, process):
        metrics = self.out / "run" / "metrics.jsonl"
        while not (metrics.exists() and len(metrics.read_text().splitlines()) >= step):
            self.assertIsNone(process.poll(), process.poll() is not None and process.communicate()[0])
            time.sleep(0.02)

    def test_variables_of_mpi_launchers_make_one_run(self):
        for name, of_rank in {
            "mpiexec (PMI)": lambda k: {"PMI_RANK": k, "PMI_SIZE": "2", "PMI_FD": "7", "MPI_LOCALRANKID": k, "MPI_LOCALNRANKS": "2"},
            "MVAPICH2": lambda k: {"MV2_COMM_WORLD_RANK": k, "MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_LOCAL_RANK": k,
                                   "MV2_COMM_WORLD_LOCAL_SIZE": "2"}}.items():
            with self.subTest(name):
                port = {"MASTER_PORT": free_port()}
                outputs = self.run_ranks([of_rank(str(k)) | port for k in range(2)], words=[("--overwrite_output_dir", "1")] * 2)
                for k in range(2):
                    self.assertIn(f"rank {k} of 2, local rank {k} of 2 on node 0, as the variables of {name} say", outputs[k])
                self.assertEqual(self.steps(), [1, 2])

    def test_what_cannot_be_used_is_an_error_with_the_cure(self):
        pmi = {"PMI_RANK": "1", "PMI_SIZE": "4", "MPI_LOCALRANKID": "1", "MPI_LOCALNRANKS": "4"}
        for changes, said in [
            ({"PMIX_RANK": "1", "PMIX_NAMESPACE": "prte@1"}, "PMIX_RANK=1 in the environment states a rank"),
            ({"SLURM_NTASKS": "8", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}, "SLURM_NTASKS is 8, but this is the batch script's own process"),
            (pmi | {"RANK": "0", "WORLD_SIZE": "1"}, "RANK=0 and WORLD_SIZE=1 in the environment contradict PMI_RANK=1 and PMI_SIZE=4"),
            ({"RANK": "abc", "WORLD_SIZE": "1"}, "RANK='abc'"),
            ({"RANK": "2", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"},
             "RANK must be below WORLD_SIZE (2), got 2"),
            ({"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}, "LOCAL_RANK is not set"),
            ({"RANK": "0", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "99999"},
             "MASTER_PORT must be in [1, 65535], got 99999"),
            ({"RANK": "0", "WORLD_SIZE": "1", "BRAID_LOCAL_DEVICE": "gpu0"}, "BRAID_LOCAL_DEVICE='gpu0'"),
        ]:
            with self.subTest(said):
                self.assertIn(said, self.run_one(self.pretrain(), 2, **changes))
                self.assertFalse((self.out / "run").exists())

    def test_one_process_in_a_shell_of_an_allocation_is_said_to_be_one(self):
        output = self.run_one(self.pretrain(), 0, SLURM_NTASKS="4", SLURM_JOB_ID="7")
        self.assertIn("one rank: a single process: SLURM_NTASKS is 4, but srun did not start it", output)

    def test_threads_of_the_environment_are_checked(self):
        for value in ("0", "abc", "-3", "1e9", "1000000000", "4,x"):
            with self.subTest(value):
                self.assertIn(f"OMP_NUM_THREADS='{value}' in the environment must be a whole number",
                              self.run_one(self.pretrain(), 2, OMP_NUM_THREADS=value))
                self.assertIn(f"OMP_NUM_THREADS='{value}'", self.run_one([BRAID, "launch", *self.pretrain()[1:]], 2, OMP_NUM_THREADS=value))
        self.assertIn("with 2 compute threads", self.run_one(self.pretrain(), 0, OMP_NUM_THREADS="2,1"))

    def test_cores_follow_the_affinity_mask(self):
        core = str(min(os.sched_getaffinity(0)))
        launch = [BRAID, "launch", "--nproc_per_node", "1", "/bin/true"]
        changes = environment()
        del changes["OMP_NUM_THREADS"]
        done = subprocess.run(["taskset", "--cpu-list", core, *launch], env=changes, capture_output=True, text=True, timeout=60)
        self.assertIn("OMP_NUM_THREADS=1 (1 core)", done.stderr)
        crowded = subprocess.run(["taskset", "--cpu-list", core, BRAID, "launch", "--nproc_per_node", "3", "/bin/true"], env=changes,
                                 capture_output=True, text=True, timeout=60)
        self.assertIn("3 ranks on 1 core: ", crowded.stderr)

    def test_an_interface_that_is_not_there_is_named_with_those_that_are(self):
        outputs = self.run_ranks([{"PMI_RANK": str(k), "PMI_SIZE": "2", "MPI_LOCALRANKID": str(k), "MPI_LOCALNRANKS": "2",
                                   "GLOO_SOCKET_IFNAME": "eth77"} for k in range(2)], codes=(2, 2))
        for output in outputs:
            self.assertRegex(output, r"GLOO_SOCKET_IFNAME='eth77' .* no network interface 'eth77' .*it has .*\(127\.0\.0\.1\)")

    def test_launch_says_what_of_the_environment_it_does_not_use(self):
        output = self.run_one([BRAID, "launch", "--nproc_per_node", "1", "/bin/true"], 0, MASTER_PORT="29577", WORLD_SIZE="4")
        self.assertIn("MASTER_PORT=29577 in the environment is not used: the ranks meet at port ", output)
        self.assertIn("WORLD_SIZE=4 in the environment is not used: braid launch sets it for each rank", output)
        self.assertIn("mpiexec (PMI) has started this launcher 4 times (this is number 1), and each starts a run of its own",
                      self.run_one([BRAID, "launch", "/bin/true"], 0, PMI_RANK="1", PMI_SIZE="4"))

    def test_options_that_differ_are_named_with_their_ranks(self):
        port = free_port()
        ranks = [{"RANK": str(k), "WORLD_SIZE": "2", "LOCAL_RANK": str(k), "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": port} for k in range(2)]
        outputs = self.run_ranks(ranks, codes=(76, 76), words=(("--seed", "1"), ("--seed", "2", "--learning_rate", "0.25")))
        for output in outputs:
            self.assertRegex(output, r"the ranks do not agree: learning_rate: rank 0 has \S+, rank 1 has 0.25; seed: rank 0 has 1, "
                                     r"rank 1 has 2; give all ranks the same options")
            self.assertNotIn("hidden_size", output)

    def test_a_second_run_in_an_output_dir_is_rejected_while_the_first_lives(self):
        first = self.start(self.pretrain(steps=1000000))
        self.wait_for_step(2, first)
        for extra in ((), ("--overwrite_output_dir", "1")):
            output = self.run_one(self.pretrain(*extra), 2)
            self.assertRegex(output, rf"--output_dir {self.out}/run is in use: process {first.pid} on \S+, started 20\S+ \S+ UTC "
                                     r"\(braid pretrain\)")
        self.wait_for_step(len(self.steps()) + 2, first)
        first.send_signal(signal.SIGKILL)  # nobody is left who could remove anything
        first.wait()
        self.run_one(self.pretrain("--overwrite_output_dir", "1"), 0)
        self.assertEqual(self.steps(), [1, 2])
        self.assertFalse((self.out / "run" / "run.lock").exists())

    def test_of_runs_that_start_at_once_one_writes(self):
        processes = [self.start(self.pretrain("--overwrite_output_dir", "1", steps=1000000)) for _ in range(4)]
        while sum(process.poll() is None for process in processes) > 1:
            time.sleep(0.02)
        left = [process for process in processes if process.poll() is None]
        self.assertEqual(len(left), 1)
        self.wait_for_step(2, left[0])
        for process in processes:
            if process is not left[0]:
                output = process.communicate()[0]
                self.assertEqual(process.returncode, 2, output)
                self.assertIn("is in use: ", output)
        left[0].send_signal(signal.SIGTERM)
        left[0].communicate(timeout=60)
        steps = self.steps()
        self.assertEqual(steps, list(range(1, len(steps) + 1)))


if __name__ == "__main__":
    unittest.main()
