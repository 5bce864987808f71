"""Runs across four hosts: the same losses as on one, the bytes on every link, what listens, who gets in, and what every node says when one
of them was started wrongly. BRAID_PYTHON is a Python with torch, for torchrun."""
import json
import math
import os
import pathlib
import re
import secrets
import shlex
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


def degrees(mp=1, sharding=1, pp=1, dp=1):
    return ["--tensor_parallel_degree", str(mp), "--sharding", "stage1", "--sharding_parallel_degree", str(sharding),
            "--pipeline_parallel_degree", str(pp), "--data_parallel_degree", str(dp)]


# Ranks of a host are consecutive, and mp and sharding are the inner axes: only messages of pp and dp go from host to host.
HYBRID = {"ranks": 4, "degrees": degrees(mp=2, sharding=2, pp=4)}
HYBRID_WITH_DP = {"ranks": 4, "degrees": degrees(mp=2, sharding=2, pp=2, dp=2)}
TWO_RANKS = {"ranks": 2, "degrees": degrees(mp=2, pp=2, dp=2)}
ONE_RANK = {"ranks": 1, "degrees": degrees(pp=4)}

# One Ethernet frame's headers: Ethernet 14, IPv4 20, TCP with timestamps 32.
FRAME_BYTES = 66
SEGMENT_BYTES = 1500 - 52
# Gloo's header of an operation is at most this long.
OPERATION_BYTES = 64


def rounds(collective, members):
    """The messages of a collective to each of the other members."""
    return 2 if collective == "all_reduce_sum" and members > 2 else 1


class Flow:
    """Messages of a step and their bytes."""

    def __init__(self):
        self.count, self.bytes = 0, 0

    def add(self, count, size):
        self.count += count
        self.bytes += size


class PlannedTraffic:
    """What the plan says of a step, by host k: sent[k] and received[k] over its link, inside[k] from its ranks to one another, inner[k] the
    bytes that its ranks send over mp and over sharding. Then gathered, the bytes of each rank in the gathering of all ranks at the end of
    the step, and around, how often such a part goes from a rank to the next."""

    def __init__(self, ranks_per_host, words):
        done = subprocess.run([BRAID, "pretrain", *SIZES, *words, "--dry_run", "json"], check=True, capture_output=True, text=True)
        plan = json.loads(done.stdout)
        self.gathered = plan["all_gather_bytes"]
        self.sent, self.received, self.inside = ([Flow() for _ in range(NODES)] for _ in range(3))
        self.inner = [{"mp": 0, "sharding": 0} for _ in range(NODES)]
        mesh = plan["mesh"]  # from the innermost axis to the outermost
        for rank in range(math.prod(mesh.values())):
            place, rest = {}, rank
            for axis, degree in mesh.items():
                rest, place[axis] = divmod(rest, degree)
            mine = plan["ranks"][place["pp"] * mesh["mp"] + place["mp"]]

            def add(axis, peer, count, size):
                stride = math.prod(degree for inner, degree in mesh.items() if list(mesh).index(inner) < list(mesh).index(axis))
                here, there = rank // ranks_per_host, (rank + (peer - place[axis]) * stride) // ranks_per_host
                if here == there:
                    self.inside[here].add(count, size)
                else:
                    self.sent[here].add(count, size)
                    self.received[there].add(count, size)

            for message in mine["messages"]:
                if message["direction"] == "send":
                    add("pp", message["peer"], message["count"], message["bytes"])
            for message in mine["collectives"]:
                axis, others = message["axis"], mesh[message["axis"]] - 1
                for peer in range(mesh[axis]):
                    if peer != place[axis]:
                        add(axis, peer, message["count"] * rounds(message["collective"], others + 1), message["bytes"] / others)
                if axis in self.inner[0]:
                    self.inner[rank // ranks_per_host][axis] += message["bytes"]
        self.around = math.prod(mesh.values()) - 1


def most_bytes(sent, received, around, gathered):
    """The most that goes out over a link in a step. Gloo announces each message at both ends and puts a header before it; the gathering
    passes every rank's part once around the ring of ranks, as `around` messages; each is cut into segments, each of which may be
    acknowledged by a frame of its own."""
    operations_out = 2 * sent.count + received.count + 3 * around
    operations_in = 2 * received.count + sent.count + 3 * around
    segments_out = math.ceil(sent.bytes / SEGMENT_BYTES) + sent.count + operations_out
    segments_in = math.ceil(received.bytes / SEGMENT_BYTES) + received.count + operations_in
    return sent.bytes + around * gathered + operations_out * OPERATION_BYTES + (segments_out + segments_in) * FRAME_BYTES


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

    def pretrain(self, *extra, steps=3, of=ONE_RANK):
        return ["pretrain", *SIZES, *of["degrees"], "--max_steps", str(steps), "--do_train", "--skip_export", "1", "--logging_steps", "1",
                "--overwrite_output_dir", "1", "--output_dir", str(self.out / "run"), *extra]

    def launcher(self, k, **changed):
        options = {"nnodes": NODES, "node_rank": k, "master_addr": self.hosts.address(0), "nproc_per_node": 1,
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

    def start_all(self, of, steps=3):
        return [self.start(k, self.launcher(k, nproc_per_node=of["ranks"]) + self.pretrain(of=of, steps=steps)) for k in range(NODES)]

    def finish(self, processes, timeout=300):
        return [process.communicate(timeout=timeout)[0] for process in processes]

    def succeed(self, processes):
        texts = self.finish(processes)
        self.assertEqual([process.returncode for process in processes], [0] * len(processes), "\n".join(texts))
        return texts

    def losses(self):
        return [json.loads(line)["loss"] for line in (self.out / "run" / "metrics.jsonl").read_text().splitlines()]

    def sent(self, device="eth0"):
        return [self.hosts.sent_bytes(k, device) for k in range(NODES)]

    def wait_for_step(self, step, processes):
        metrics = self.out / "run" / "metrics.jsonl"
        end = time.monotonic() + 240
        while not (metrics.exists() and len(metrics.read_text().splitlines()) >= step):
            for process in processes:
                self.assertIsNone(process.poll(), process.poll() is not None and process.communicate()[0])
            self.assertLess(time.monotonic(), end, f"step {step} was not reached")
            time.sleep(0.05)

    def compare_with_one_host(self, of):
        alone = self.start(0, [BRAID, "launch", "--nproc_per_node", str(NODES * of["ranks"]), *self.pretrain(of=of, steps=12)])
        before = self.sent()
        self.succeed([alone])
        self.assertEqual(self.sent(), before, "ranks of one host send nothing to the network")
        expected = self.losses()
        self.assertEqual(len(expected), 12)

        links, loopbacks = {}, {}
        for steps in (2, 12):
            before, before_inside = self.sent(), self.sent("lo")
            self.succeed(self.start_all(of, steps=steps))
            links[steps] = [after - b for after, b in zip(self.sent(), before)]
            loopbacks[steps] = [after - b for after, b in zip(self.sent("lo"), before_inside)]
            self.assertEqual(self.losses()[0], expected[0])
        self.assertEqual(self.losses(), expected)

        plan = PlannedTraffic(of["ranks"], of["degrees"])
        # What differs between the beginnings of the two runs (attempts to connect before rank 0 is there, frames of the kernel).
        slack = 16 << 10
        for host in range(NODES):
            sent, received, inside = plan.sent[host], plan.received[host], plan.inside[host]
            link, loopback = (bytes_of[12][host] - bytes_of[2][host] for bytes_of in (links, loopbacks))
            most = most_bytes(sent, received, plan.around, plan.gathered)
            # Both ends of a connection over the loopback device count there. Its segments are larger, so this is more than enough.
            most_inside = most_bytes(inside, inside, (of["ranks"] - 1) * plan.around, plan.gathered)
            if os.environ.get("BRAID_SHOW_BYTES"):
                print(f"host {host}, bytes a step: link {link / 10:.0f}, planned {sent.bytes:.0f}, at most {most:.0f}; "
                      f"loopback {loopback / 10:.0f}, planned {inside.bytes:.0f}, at most {most_inside:.0f}; within {plan.inner[host]}")
            with self.subTest(host=host):
                self.assertGreater(sent.bytes, 0)
                self.assertEqual(sum(plan.inner[host].values()), inside.bytes, "mp and sharding, and nothing else, stay inside")
                self.assertGreaterEqual(links[12][host], 12 * sent.bytes)
                self.assertLessEqual(link, 10 * most + slack)
                self.assertGreaterEqual(loopbacks[12][host], 12 * inside.bytes)
                self.assertLessEqual(loopback, 10 * most_inside + slack)
                # The bound is so tight that not even what one rank sends over mp or over sharding could cross without breaking it.
                for axis, inner_bytes in plan.inner[host].items():
                    self.assertLess(10 * (most - sent.bytes) + slack, 10 * inner_bytes / of["ranks"], axis)

    def test_mp_and_sharding_inside_hosts_and_pp_across(self):
        self.compare_with_one_host(HYBRID)

    def test_mp_and_sharding_inside_hosts_and_pp_and_dp_across(self):
        self.compare_with_one_host(HYBRID_WITH_DP)

    def test_what_listens_who_gets_in_and_where_the_secret_appears(self):
        processes = self.start_all(HYBRID, steps=100000)
        self.wait_for_step(2, processes)
        for k in range(NODES):
            found = self.hosts.listening(k)
            self.assertEqual([address for address, port in found if port == PORT], [self.hosts.address(k)] if k == 0 else [])
            gloo = [address for address, port in found if port != PORT]
            # Each rank is in four groups: of all ranks and of the pipeline, which cross; of mp and of sharding, which do not.
            self.assertEqual(gloo, [self.hosts.address(k)] * (2 * HYBRID["ranks"]) + ["127.0.0.1"] * (2 * HYBRID["ranks"]))

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
        process = self.start(1, [BRAID, "launch", "--nproc_per_node", "2", *self.pretrain(of={"degrees": degrees(mp=2)}, steps=100000)])
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

    def node(self, k, *extra, of=ONE_RANK, **changed):
        return self.launcher(k, nproc_per_node=of["ranks"], **changed) + self.pretrain(*(extra or self.LONG), of=of)

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
        nodes[3] = self.launcher(4, nnodes=5) + self.pretrain(*self.LONG, of={"degrees": degrees(pp=5)})
        self.faulty(nodes, "world size: ranks 0 to 2 have 4, rank 4 has 5", 60)

    def test_a_node_with_other_options(self):
        nodes = [self.node(k) for k in range(NODES)]
        nodes[2] = self.node(2, *self.LONG, "--learning_rate", "0.125")
        self.faulty(nodes, r"the ranks do not agree: learning_rate: ranks 0, 1, 3 have \S+, rank 2 has 0.125; give all ranks the same options", 60)

    def with_other_file(self, k, path, content, command):
        """`command`, for host k alone with other content at `path`."""
        other = self.out / f"other{k}"
        other.write_bytes(content)
        return ["unshare", "--mount", "sh", "-c", 'mount --bind "$1" "$2" && shift 2 && exec "$@"', "sh", str(other), str(path), *command]

    def test_a_node_with_other_files(self):
        data = self.out / "data"
        corpus = self.out / "corpus.txt"
        corpus.write_text("A text of this test. " * 400)
        subprocess.run([BRAID, "data", "prepare", "--input", str(corpus), "--output_prefix", str(data / "text"), "--tokenizer", "byte"],
                       check=True, capture_output=True)
        content = (data / "text.bin").read_bytes()

        def node(k):
            words = self.node(k, "--input_dir", str(data / "text"), "--split", "1,0,0", *self.LONG, of=TWO_RANKS)
            at = words.index("--synthetic_data")
            return words[:at] + words[at + 2:]

        nodes = [node(k) for k in range(NODES)]
        nodes[2] = self.with_other_file(2, data / "text.bin", content[:-2] + b"\0\0", nodes[2])
        said = (rf"the machines do not hold the same files: {re.escape(str(data / 'text.bin'))} is sha256:\w+ \({len(content)} bytes\) on "
                r"host0 \(rank 0\), host1 \(rank 2\), host3 \(rank 6\), but sha256:\w+ \(\d+ bytes\) on host2 \(rank 4\); copy them")
        self.faulty(nodes, said, 60)
        nodes[2] = node(2)
        nodes[1] = self.with_other_file(1, data / "text.idx", b"", nodes[1])
        self.faulty(nodes, r"text.idx is sha256:\w+ .* but sha256:e3b0c44298fc1c149afbf4c8996fb924 \(0 bytes\) on host1 \(rank 2\)", 60)

    # What is wrong on one machine alone, and found there before the ranks meet.
    def test_a_node_that_cannot_run(self):
        for k in (2, 0):
            with self.subTest(k):
                nodes = [self.node(other) for other in range(NODES)]
                nodes[k] = ["env", "GLOO_SOCKET_IFNAME=eth9", *nodes[k]]
                self.faulty(nodes, "GLOO_SOCKET_IFNAME='eth9' in the environment: this machine has no network interface 'eth9'", 60)

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

    def test_two_nodes_of_the_same_ranks(self):
        nodes = [self.node(k, of=TWO_RANKS) for k in range(NODES)]
        nodes[2] = self.node(1, of=TWO_RANKS, log_dir=self.out / "log2")
        self.faulty(nodes, r"rank 2 is taken by process \d+ on host[12], and process \d+ on host[12] was started as rank 2 too", 60)

    def test_a_node_with_other_degrees(self):
        nodes = [self.node(k, of=TWO_RANKS) for k in range(NODES)]
        nodes[2] = self.node(2, of={"ranks": 2, "degrees": degrees(sharding=2, pp=2, dp=2)})
        self.faulty(nodes, r"tensor_parallel_degree: ranks 0 to 3, 6, 7 have 2, ranks 4, 5 have 1", 60)

    def losses_of_braid_launch(self):
        """The losses of TWO_RANKS on each host, started by braid launch."""
        self.succeed(self.start_all(TWO_RANKS))
        expected = self.losses()
        (self.out / "run" / "metrics.jsonl").unlink()
        return expected

    def test_torchrun_starts_the_same_run(self):
        expected = self.losses_of_braid_launch()
        torchruns = [self.start(k, [PYTHON, "-m", "torch.distributed.run", "--no-python", "--nnodes", str(NODES), "--node-rank", str(k),
                                    "--nproc-per-node", str(TWO_RANKS["ranks"]), "--rdzv-backend", "static", "--master-addr",
                                    self.hosts.address(0), "--master-port", "29731", BRAID, *self.pretrain(of=TWO_RANKS)],
                                BRAID_RUN_SECRET=self.secret) for k in range(NODES)]
        self.succeed(torchruns)
        self.assertEqual(self.losses(), expected)

    def test_mpirun_starts_the_same_run(self):
        expected = self.losses_of_braid_launch()
        # In place of ssh: mpirun calls it with an address and what to run there.
        agent = self.out / "agent"
        cases = "".join(f"{self.hosts.address(k)}) exec {shlex.join(self.hosts.on(k, ['sh', '-c']))} \"$*\" ;;\n" for k in range(NODES))
        agent.write_text(f"#!/bin/sh\nhost=$1\nshift\ncase $host in\n{cases}esac\n")
        agent.chmod(0o700)
        hosts = ",".join(f"{self.hosts.address(k)}:{TWO_RANKS['ranks']}" for k in range(NODES))
        mpirun = self.start(0, ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_agent", str(agent), "--host", hosts, "--bind-to", "none",
                                "-np", str(NODES * TWO_RANKS["ranks"]), "-x", "BRAID_RUN_SECRET", "-x", f"MASTER_ADDR={self.hosts.address(0)}",
                                "-x", "OMP_NUM_THREADS", BRAID, *self.pretrain(of=TWO_RANKS)], BRAID_RUN_SECRET=self.secret)
        self.succeed([mpirun])
        self.assertEqual(self.losses(), expected)


if __name__ == "__main__":
    network_hosts.enter()
    unittest.main()
