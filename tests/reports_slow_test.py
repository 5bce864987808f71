"""What --report_to writes, read back by the programs it is for: tensorboard, visualdl and wandb of PyPI. BRAID_BUILD_DIR holds the program
(build/ unless set), BRAID_PYTHON is a Python with these packages (.deps/venv unless set)."""
import http.server
import importlib.util
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import threading
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import hf_environment

hf_environment.enter(needed=("tensorboard", "visualdl", "wandb", "absl"))

from tensorboard.backend.event_processing.event_accumulator import SCALARS, TENSORS, EventAccumulator
from wandb.proto import wandb_internal_pb2
from wandb.sdk.internal.datastore import DataStore

# The package's own __init__ imports its web server.
visualdl = types.ModuleType("visualdl")
visualdl.__path__ = importlib.util.find_spec("visualdl").submodule_search_locations
sys.modules["visualdl"] = visualdl
from visualdl.reader.reader import LogReader

import hf_braid

STEPS = 8


def curve_name(key):
    key = key.lower().replace(" ", "_")
    return "eval/" + key.removeprefix("eval_") if key.startswith("eval_") else "train/" + key


def seconds(clock):
    total = 0
    for part in clock.split(":"):
        total = 60 * total + int(part)
    return total


def logged_curves(log):
    """{curve: [(step, value as printed), ...]} of every line of the log that consists of values."""
    curves = {}
    for line in log.splitlines():
        text = line.partition("] - ")[2]
        if not re.match(r"(loss|eval_loss|train_runtime): ", text):
            continue
        pairs = [pair.split(": ", 1) for pair in text.split(", ")]
        step = next((int(value) for key, value in pairs if key == "global_step"), STEPS)
        for key, value in pairs:
            value = seconds(value) if key == "eta" else float(value.split()[0])
            curves.setdefault(curve_name(key), []).append((step, value))
    return curves


def single(value):
    return struct.unpack("f", struct.pack("f", value))[0]


def wandb_records(path):
    store = DataStore()
    store.open_for_scan(str(path))
    while (data := store.scan_data()) is not None:
        record = wandb_internal_pb2.Record()
        record.ParseFromString(data)
        yield record


class Service(http.server.BaseHTTPRequestHandler):
    """As much of wandb's server as `wandb sync` needs; keeps what it uploads."""
    protocol_version = "HTTP/1.1"
    uploaded = []

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = {}
        if self.path.endswith("/graphql"):
            answer = {"data": {}}
            if "upsertBucket" in body["query"]:
                variables = body["variables"]
                project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": "someone"}}
                bucket = {"id": "b", "name": variables["name"], "displayName": variables["displayName"], "description": None, "config": "{}",
                          "sweepName": None, "historyLineCount": 0, "project": project}
                answer["data"]["upsertBucket"] = {"bucket": bucket, "inserted": True}
        else:
            self.uploaded.append(body)
        answer = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


class Reports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.run_folder = pathlib.Path(cls.folder.name) / "run"
        cls.training = hf_braid.pretrain(
            cls.run_folder, 2, model_name_or_path="braid/llama-tiny", vocab_size=384, synthetic_data=1, max_seq_length=32,
            per_device_train_batch_size=1, gradient_accumulation_steps=2, max_steps=STEPS, logging_steps=1, do_eval=1, eval_steps=3,
            eval_iters=2, skip_export=1, report_to="all", run_name="a \"name\", with ä")
        cls.log = (cls.run_folder / "log" / "workerlog.0").read_text()
        cls.curves = logged_curves(cls.log)
        cls.options = json.loads((cls.run_folder / "run.json").read_text())["options"]

    def only(self, pattern):
        found = list(self.run_folder.glob(pattern))
        self.assertEqual(len(found), 1, f"{pattern}: {found}")
        return found[0]

    def compare(self, curves, rounded):
        """`curves` has every value of the log at its step, and of losses the very number of metrics.jsonl."""
        self.assertEqual(set(curves), set(self.curves))
        self.assertGreater(len(curves), 20)
        for name, points in curves.items():
            self.assertEqual([step for step, _ in points], [step for step, _ in self.curves[name]], name)
            for (step, got), (_, printed) in zip(points, self.curves[name]):
                slack = 0.51 if name == "train/eta" else 1e-3 * abs(printed) + 6e-4
                self.assertLessEqual(abs(got - printed), slack, f"{name} at step {step}")
        self.assertEqual([value for _, value in curves["train/loss"]], [rounded(record["loss"]) for record in self.training])
        norms = [rounded(record["grad_norm"]) for record in self.training]
        self.assertEqual([value for _, value in curves["train/grad_norm"]], norms)

    def test_the_log_has_every_step_and_evaluation(self):
        self.assertEqual([step for step, _ in self.curves["train/loss"]], list(range(1, STEPS + 1)))
        self.assertEqual([step for step, _ in self.curves["eval/loss"]], [3, 6, 8])

    def test_tensorboard(self):
        events = EventAccumulator(str(self.only("runs/*/events.out.tfevents.*")), size_guidance={SCALARS: 0, TENSORS: 0})
        events.Reload()
        tags = events.Tags()
        self.compare({tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in tags["scalars"]}, single)
        self.assertEqual(set(tags["tensors"]), {"args/text_summary", "model_config/text_summary"})
        self.assertEqual(events.SummaryMetadata("args/text_summary").plugin_data.plugin_name, "text")
        text = events.Tensors("args/text_summary")[0].tensor_proto.string_val[0].decode()
        self.assertEqual(json.loads(text.removeprefix("```json\n").removesuffix("\n```")), self.options)

    def test_visualdl(self):
        reader = LogReader(file_path=str(self.only("runs/*/vdlrecords.*.log")))
        tags = reader.get_tags()
        self.compare({tag: [(v.id, v.value) for v in reader.get_data("scalar", tag)] for tag in tags["scalar"]}, single)
        self.assertEqual(json.loads(reader.get_data("text", "args")[0].text.encoded_text_string), self.options)
        self.assertEqual(json.loads(reader.get_data("text", "model_config")[0].text.encoded_text_string)["vocab_size"], 384)
        self.assertEqual(reader.get_data("meta_data", "meta_data_tag")[0].meta_data.display_name, self.options["run_name"])

    def test_wandb(self):
        records = list(wandb_records(self.only("wandb/offline-run-*/run-*.wandb")))
        self.assertEqual([record.num for record in records], list(range(1, len(records) + 1)))
        run = next(record.run for record in records if record.HasField("run"))
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        self.assertEqual(config.pop("model_config")["vocab_size"], 384)
        self.assertEqual(config, self.options)
        self.assertEqual(run.display_name, self.options["run_name"])
        curves = {}
        for number, history in enumerate(record.history for record in records if record.HasField("history")):
            items = {item.nested_key[0]: json.loads(item.value_json) for item in history.item}
            self.assertEqual((history.step.num, items.pop("_step")), (number, number))
            self.assertGreater(items.pop("_timestamp"), 1.7e9)
            self.assertGreaterEqual(items.pop("_runtime"), 0)
            has_step = "train/train_runtime" not in items  # the last line names no step: its curve has one all the same
            for name, value in items.items():
                if has_step or name != "train/global_step":
                    curves.setdefault(name, []).append((items["train/global_step"], value))
        self.compare(curves, float)
        self.assertEqual(records[-1].exit.exit_code, 0)
        self.assertTrue(records[-1].HasField("exit"))

    def test_wandb_sync_uploads_it(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Service)
        self.addCleanup(server.server_close)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.shutdown)
        environment = os.environ | {"WANDB_BASE_URL": f"http://127.0.0.1:{server.server_address[1]}", "WANDB_API_KEY": "a" * 40,
                                    "WANDB_ERROR_REPORTING": "false", "HOME": self.folder.name}
        code = "import sys; from wandb.cli.cli import cli; sys.argv[0] = 'wandb'; cli()"
        done = subprocess.run([sys.executable, "-c", code, "sync", str(self.only("wandb/offline-run-*"))], env=environment,
                              cwd=self.folder.name, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("... done", done.stdout + done.stderr)
        lines = []
        for body in Service.uploaded:
            lines += body.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
        losses = [row["train/loss"] for row in map(json.loads, lines) if "train/loss" in row]
        self.assertEqual(losses, [record["loss"] for record in self.training])
        self.assertTrue(any(body.get("complete") and body["exitcode"] == 0 for body in Service.uploaded))

    def test_perplexity_is_of_the_loss(self):
        for (_, loss), (_, perplexity) in zip(self.curves["eval/loss"], self.curves["eval/ppl"]):
            self.assertAlmostEqual(perplexity, math.exp(loss), delta=1e-3 * perplexity)


if __name__ == "__main__":
    unittest.main()
