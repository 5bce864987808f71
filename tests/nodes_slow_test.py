"""Runs across four hosts: the same losses as on one, the bytes on every link, what listens, who gets in, and what every node says when one
of them was started wrongly. BRAID_PYTHON is a Python with torch, for torchrun."""
import json
import math
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import network_hosts
import rendezvous_client

ROOT = pathlib.Path(__file__).resolve().parent.parent
BRAID = str(pathlib.Path(os.environ.get("BRAID_BUILD_DIR", ROOT / "build")).resolve() / "braid")
PYTHON = os.environ.get("BRAID_PYTHON", str(ROOT / ".deps" / "venv" / "bin" / "python"))
NODES = 4
PORT = 29500  # of several nodes, unless --master_port says otherwise

SIZES = ("--model_name_or_path braid/llama-tiny --synthetic_data 1 --num_hidden_layers 5 --max_seq_length 64 --per_device_train_batch_size 1 "
         "--gradient_accumulation_steps 4").split()
# How the ranks are divided: one rank on each host, so all messages of the pipeline cross. Ranks of a host are consecutive, and mp and
# sharding are inner to pp: with more ranks per host, their messages stay inside.
RANKS_PER_HOST = 1
DEGREES = ["--pipeline_parallel_degree", str(NODES)]

# One Ethernet frame's headers: Ethernet 14, IPv4 20, TCP with timestamps 32.
FRAME_BYTES = 66
SEGMENT_BYTES = 1500 - 52
# Gloo's header of an operation is at most this long.
OPERATION_BYTES = 64


class Nodes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.hosts = network_hosts.Hosts(NODES)
        cls.addClassCleanup(cls.hosts.close)

    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.out = pathlib.Path(scratch.name)
        self.secret = secrets.token_hex(32)
        self.secret_file = self.out / "secret"
        self.secret_file.touch(mode=0o600)
        self.secret_file.write_text(self.secret + "\n")

    def pretrain(self, *extra, steps=3, degrees=DEGREES):
        return ["pretrain", *SIZES, *degrees, "--max_steps", str(steps), "--do_train", "--skip_export", "1", "--logging_steps", "1",
                "--overwrite_output_dir", "1", "--output_dir", str(self.out / "run"), *extra]

    def launcher(self, k, **changed):
        options = {"nnodes": NODES, "node_rank": k, "master_addr": self.hosts.address(0), "nproc_per_node": RANKS_PER_HOST,
                   "secret_file": self.secret_file, "log_dir": self.out / f"log{k}"} | changed
        return [BRAID, "launch", *(word for name, value in options.items() for word in (f"--{name}", str(value)))]

    def start(self, k, command, **more_environment):
        env = {name: value for name, value in os.environ.items() if not re.match("BRAID_RUN|RANK|WORLD_SIZE|MASTER|LOCAL", name)}
        process = subprocess.Popen(self.hosts.on(k, command), env=env | {"OMP_NUM_THREADS": "1"} | more_environment, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.wait()
        process.stdout.close()

    def start_all(self, *extra, steps=3):
        return [self.start(k, self.launcher(k) + self.pretrain(*extra, steps=steps)) for k in range(NODES)]

    def finish(self, processes, timeout=300):
        return [process.communicate(timeout=timeout)[0] for process in processes]

    def succeed(self, processes):
        texts = self.finish(processes)
        self.assertEqual([process.returncode for process in processes], [0] * len(processes), "\n".join(texts))
        return texts

    def losses(self):
        return [json.loads(line)["loss"] for line in (self.out / "run" / "metrics.jsonl").read_text().splitlines()]

    def sent(self):
        return [self.hosts.sent_bytes(k) for k in range(NODES)]

    def wait_for_step(self, step, processes):
        metrics = self.out / "run" / "metrics.jsonl"
        end = time.monotonic() + 120
        while not (metrics.exists() and len(metrics.read_text().splitlines()) >= step):
            for process in processes:
                self.assertIsNone(process.poll(), process.poll() is not None and process.communicate()[0])
            self.assertLess(time.monotonic(), end, f"step {step} was not reached")
            time.sleep(0.05)

    def planned(self):
        """[(messages sent, their bytes, messages received, their bytes)] a step that cross from and to each host, and the bytes of the
        gathering at the end of the step."""
        done = subprocess.run([BRAID, "pretrain", *SIZES, *DEGREES, "--dry_run", "json"], check=True, capture_output=True, text=True)
        plan = json.loads(done.stdout)
        crossing = []
        for host in range(NODES):
            mine = range(host * RANKS_PER_HOST, (host + 1) * RANKS_PER_HOST)
            messages = [m for rank in mine for m in plan["ranks"][rank]["messages"] if m["peer"] not in mine]
            crossing.append(tuple(sum(m[what] for m in messages if m["direction"] == direction)
                                  for direction in ("send", "receive") for what in ("count", "bytes")))
        return crossing, plan["all_gather_bytes"]

    def test_losses_are_those_of_one_host_and_links_carry_what_the_plan_says(self):
        alone = self.start(0, [BRAID, "launch", "--nproc_per_node", str(NODES * RANKS_PER_HOST), *self.pretrain(steps=12)])
        before = self.sent()
        self.succeed([alone])
        self.assertEqual(self.sent(), before, "ranks of one host send nothing to the network")
        expected = self.losses()
        self.assertEqual(len(expected), 12)

        totals = {}
        for steps in (2, 12):
            before = self.sent()
            self.succeed(self.start_all(steps=steps))
            totals[steps] = [after - b for after, b in zip(self.sent(), before)]
            self.assertEqual(self.losses()[0], expected[0])
        self.assertEqual(self.losses(), expected)

        crossing, gathered = self.planned()
        self.assertGreater(min(sent_bytes for _, sent_bytes, _, _ in crossing), 0)
        for host, (sends, sent_bytes, receives, received_bytes) in enumerate(crossing):
            # At the least, each link carried the payload of every step.
            self.assertGreaterEqual(totals[12][host], 12 * sent_bytes)
            # At the most, in ten steps more: Gloo announces each message at both ends and puts a header before it; the gathering passes
            # every rank's part once around the ring of hosts, as NODES - 1 messages; each is cut into segments, each of which may be
            # acknowledged by a frame of its own. What differs between the beginnings of the two runs (attempts to connect before rank 0
            # is there, frames of the kernel) fits in `slack`.
            around = NODES - 1
            operations_out = 2 * sends + receives + 3 * around
            operations_in = 2 * receives + sends + 3 * around
            segments_out = math.ceil(sent_bytes / SEGMENT_BYTES) + sends + operations_out
            segments_in = math.ceil(received_bytes / SEGMENT_BYTES) + receives + operations_in
            most = (sent_bytes + around * gathered + operations_out * OPERATION_BYTES + (segments_out + segments_in) * FRAME_BYTES)
            slack = 16 << 10
            with self.subTest(host=host):
                self.assertLessEqual(totals[12][host] - totals[2][host], 10 * most + slack)
                self.assertLess(most, 1.25 * sent_bytes, "the overhead that is allowed is a small part")

    def test_what_listens_who_gets_in_and_where_the_secret_appears(self):
        processes = self.start_all(steps=100000)
        self.wait_for_step(2, processes)
        gloo = {len(self.hosts.listening(k)) - (1 if k == 0 else 0) for k in range(NODES)}
        self.assertEqual(len(gloo), 1, "every rank has as many sockets for its peers as the others")
        self.assertGreater(min(gloo), 0)
        for k in range(NODES):
            found = self.hosts.listening(k)
            self.assertEqual({address for address, _ in found}, {self.hosts.address(k)}, "only the address in the shared network")
            self.assertEqual([port for _, port in found if port == PORT], [PORT] if k == 0 else [])

        # Strangers on host 3: garbage, silence, another secret, far more connections than rank 0 keeps.
        stranger = f"""
import socket, sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import rendezvous_client
address = ({self.hosts.address(0)!r}, {PORT})
held = [socket.create_connection(address) for _ in range(300)]
for _ in range(50):
    with socket.create_connection(address) as noise:
        noise.sendall(b"GET / HTTP/1.1" + bytes(50))
try:
    rendezvous_client.Rank(*address, b"not the secret of this run")
except PermissionError as error:
    print(error)
"""
        done = subprocess.run(self.hosts.on(3, [sys.executable, "-c", stranger]), capture_output=True, text=True, timeout=120)
        self.assertEqual((done.stdout, done.returncode), ("rank 0 rejects the proof\n", 0), done.stderr)
        rendezvous = subprocess.run(self.hosts.on(2, [sys.executable, "-c", f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
import os, rendezvous_client
rendezvous_client.Rank({self.hosts.address(0)!r}, {PORT}, os.environ["BRAID_RUN_SECRET"].encode())
print("in")
"""]), env=os.environ | {"BRAID_RUN_SECRET": self.secret}, capture_output=True, text=True, timeout=120)
        self.assertEqual(rendezvous.stdout, "in\n", "who knows the secret gets in meanwhile: " + rendezvous.stderr)
        steps = len(self.losses())
        self.wait_for_step(steps + 3, processes)

        lines = [path.read_bytes() for path in pathlib.Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
        self.assertTrue(any(b"--secret_file" in line for line in lines))
        self.assertFalse(any(self.secret.encode() in line for line in lines), "the secret is on a command line")
        for process in processes:
            process.send_signal(signal.SIGTERM)
        texts = self.succeed(processes)
        self.assertIn(f"rejected a connection from {self.hosts.address(3)}: ", texts[0])
        for path in self.out.rglob("*"):
            if path.is_file() and path != self.secret_file:
                self.assertNotIn(self.secret.encode(), path.read_bytes(), path)
        self.assertNotIn(self.secret, "".join(texts))

    def test_ranks_of_one_host_listen_on_the_loopback_device_only(self):
        process = self.start(1, [BRAID, "launch", "--nproc_per_node", "2", *self.pretrain(degrees=["--pipeline_parallel_degree", "2"], steps=100000)])
        self.wait_for_step(2, [process])
        self.assertEqual({address for address, _ in self.hosts.listening(1)}, {"127.0.0.1"})
        process.send_signal(signal.SIGTERM)
        self.succeed([process])

    def faulty(self, launchers, expected, seconds, extra=None):
        """Starts one command per host. Within `seconds` each must fail, before step 1, with output that matches its `expected`."""
        begin = time.monotonic()
        processes = [self.start(k, launcher) if launcher else None for k, launcher in enumerate(launchers)]
        for k, process in enumerate(processes):
            if process is None:
                continue
            output = process.communicate(timeout=120)[0]
            self.assertNotEqual(process.returncode, 0, output)
            self.assertRegex(output, expected[k] if isinstance(expected, list) else expected, f"host {k}")
            self.assertNotIn("report this message", output)
        self.assertLess(time.monotonic() - begin, seconds)
        self.assertFalse((self.out / "run" / "metrics.jsonl").exists(), "no step was trained")

    # Long enough for all ranks to start here, and for a fault that is found at once to end well before it.
    LONG, SHORT = ("--dist_timeout", "100"), ("--dist_timeout", "10")

    def node(self, k, *extra, **changed):
        return self.launcher(k, **changed) + self.pretrain(*(extra or self.LONG))

    def test_a_wrong_master_address(self):
        nodes = [self.node(k, *self.SHORT) for k in range(NODES)]
        nodes[2] = self.node(2, *self.SHORT, master_addr=self.hosts.address(1))
        absent = "rank 2 of 4 did not arrive within 10 s"
        found_none = rf"rank 2 found no rank 0 at {re.escape(self.hosts.address(1))} port {PORT} within 10 s \(Connection refused\)"
        self.faulty(nodes, [absent, absent, found_none, absent], 60)

    def test_a_master_address_of_no_host(self):
        nodes = [self.node(k, *self.SHORT, master_addr="10.77.0.99") for k in range(NODES)]
        self.faulty(nodes, [r"cannot listen on 10.77.0.99 .*not an address of this machine"] + ["found no rank 0 at 10.77.0.99"] * 3, 60)

    def test_a_missing_node(self):
        self.faulty([self.node(k, *self.SHORT) if k != 3 else None for k in range(NODES)], "rank 3 of 4 did not arrive within 10 s", 60)

    def test_two_nodes_of_rank_0(self):
        nodes = [self.node(k) for k in range(NODES)]
        nodes[1] = self.node(0, log_dir=self.out / "log1")
        self.faulty(nodes, r"rank 0 is taken by process \d+ on host0, and process \d+ on host1 was started as rank 0 too", 60)

    def test_two_nodes_of_another_rank(self):
        nodes = [self.node(k) for k in range(NODES)]
        nodes[2] = self.node(1, log_dir=self.out / "log2")
        self.faulty(nodes, r"rank 1 is taken by process \d+ on host[12], and process \d+ on host[12] was started as rank 1 too", 60)

    def test_a_node_with_another_world_size(self):
        nodes = [self.node(k) for k in range(NODES)]
        nodes[3] = self.launcher(4, nnodes=5) + self.pretrain(*self.LONG, degrees=["--pipeline_parallel_degree", "5"])
        self.faulty(nodes, "world size: ranks 0, 1, 2 have '4', rank 4 has '5'", 60)

    def test_a_node_with_other_options(self):
        nodes = [self.node(k) for k in range(NODES)]
        nodes[2] = self.node(2, *self.LONG, "--learning_rate", "0.125")
        self.faulty(nodes, "configuration: .*rank 2 has '[^']*learning_rate[ :]*0.125", 60)

    def test_a_node_with_another_braid(self):
        nodes = [self.node(k) for k in range(NODES)]
        nodes[3] = ["env", f"BRAID_RUN_SECRET={self.secret}", sys.executable, rendezvous_client.__file__, self.hosts.address(0), str(PORT),
                    "99", "9.9.9"]
        ours = re.search(r"\d+\.\d+\.\d+", subprocess.run([BRAID, "--version"], capture_output=True, text=True, check=True).stdout)[0]
        said = rf"rank 3 at {re.escape(self.hosts.address(3))} runs braid 9.9.9 with startup protocol 99, but rank 0 runs braid {ours} "
        self.faulty(nodes, [said] * 3 + [f"rank 0 runs braid {ours} with startup protocol 1"], 60)

    def test_a_node_with_another_secret(self):
        other = self.out / "other"
        other.touch(mode=0o600)
        other.write_text(secrets.token_hex(32))
        nodes = [self.node(k, *self.SHORT) for k in range(NODES)]
        nodes[3] = self.node(3, *self.SHORT, secret_file=other)
        absent = (r"rank 3 of 4 did not arrive within 10 s.*connections without the run's secret came from "
                  rf"{re.escape(self.hosts.address(3))}")
        self.faulty(nodes, [absent] * 3 + ["rank 3 was rejected at .*BRAID_RUN_SECRET is not the same here as for rank 0"], 60)

    def test_no_secret(self):
        nodes = [[word for word in self.launcher(k) if "secret" not in word] + self.pretrain() for k in range(NODES)]
        self.faulty(nodes, "--nnodes 4 needs the run's secret, the same on every node: pass --secret_file FILE, or set BRAID_RUN_SECRET", 60)
        ranks = [["env", f"RANK={k}", "WORLD_SIZE=4", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", f"MASTER_ADDR={self.hosts.address(0)}",
                  f"MASTER_PORT={PORT}", BRAID, *self.pretrain()] for k in range(NODES)]
        self.faulty(ranks, "the ranks run on several nodes, but BRAID_RUN_SECRET is not set", 60)

    def test_torchrun_starts_the_same_run(self):
        self.succeed(self.start_all())
        expected = self.losses()
        torchruns = [self.start(k, [PYTHON, "-m", "torch.distributed.run", "--no-python", "--nnodes", str(NODES), "--node-rank", str(k),
                                    "--nproc-per-node", str(RANKS_PER_HOST), "--rdzv-backend", "static", "--master-addr",
                                    self.hosts.address(0), "--master-port", "29731", BRAID, *self.pretrain()],
                                BRAID_RUN_SECRET=self.secret) for k in range(NODES)]
        self.succeed(torchruns)
        self.assertEqual(self.losses(), expected)


if __name__ == "__main__":
    network_hosts.enter()
    unittest.main()
