"""trainer-tracker against a real `mlflow server`, without a run: metrics.jsonl is written by the tests. Skipped where no
MLflow is installed; MLFLOW names its program."""

import base64
import http.server
import json
import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

from support import PATIENCE, TRAINER, peer, until

MLFLOW = peer("mlflow")
TRACKER = os.environ.get("TRACKER") or TRAINER and str(pathlib.Path(TRAINER).with_name("trainer-tracker"))
SETTINGS = "seed: 7\ntraining:\n  learning_rate: 0.01      # job.yaml:3\nlora:\n  target_modules:\n  - q\n  - v\n"


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def line(step):
    return {"step": step, "epoch": step / 10, "loss": 2.5 / step, "learning_rate": 0.01, "order_digest": "ab"}


class Server:
    """An `mlflow server` in `folder`."""

    def __init__(self, folder, port=None):
        self.folder, self.port = folder, port or free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def start(self):
        self.log = open(self.folder / "server.log", "a")
        # In a group of its own: it starts workers.
        self.process = subprocess.Popen(
            [MLFLOW, "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "1",
             "--backend-store-uri", f"sqlite:///{self.folder}/runs.db", "--artifacts-destination", f"{self.folder}/files"],
            stdout=self.log, stderr=self.log, start_new_session=True)
        until(self.answers, 5 * PATIENCE)  # it makes a database first
        return self

    def answers(self):
        try:
            return urllib.request.urlopen(self.url + "/health", timeout=5).status == 200
        except OSError:
            time.sleep(0.2)
            return False

    def stop(self):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.log.close()

    def get(self, call, **values):
        url = f"{self.url}/api/2.0/mlflow/{call}?{urllib.parse.urlencode(values)}"
        return json.load(urllib.request.urlopen(url, timeout=30))

    def experiment(self, name):
        """Its id; None if there is none of this name."""
        try:
            return self.get("experiments/get-by-name", experiment_name=name)["experiment"]["experiment_id"]
        except urllib.error.HTTPError:
            return None

    def runs(self, experiment):
        body = json.dumps({"experiment_ids": [experiment]}).encode()
        request = urllib.request.Request(self.url + "/api/2.0/mlflow/runs/search", body, {"Content-Type": "application/json"})
        return json.load(urllib.request.urlopen(request, timeout=30)).get("runs", [])

    def history(self, run, key):
        found = self.get("metrics/get-history", run_id=run["info"]["run_id"], metric_key=key)
        # A run has no "metrics" before the first is there.
        return [(metric["step"], metric["value"]) for metric in found.get("metrics", [])]


def pairs(found):
    return {pair["key"]: pair["value"] for pair in found}


class Folder(unittest.TestCase):
    """The output_dir of a run, and the tracker that follows it."""

    def setUp(self):
        if not TRACKER or not os.path.exists(TRACKER):
            self.skipTest("trainer-tracker is not built: libcurl4-openssl-dev is not installed")
        self.place = tempfile.TemporaryDirectory()
        self.addCleanup(self.place.cleanup)
        self.folder = pathlib.Path(self.place.name)
        self.output = self.folder / "my-run"
        self.output.mkdir()

    def write(self, *lines):
        with open(self.output / "metrics.jsonl", "a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def follow(self, url, resumes=False, **environment):
        tracker = subprocess.Popen(
            [TRACKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**{k: v for k, v in os.environ.items() if not k.startswith("MLFLOW_")}, "MLFLOW_TRACKING_URI": url,
                 **environment})
        tracker.stdin.write(json.dumps({"output_dir": str(self.output), "resumes": resumes, "version": "9.9"}) + "\n")
        tracker.stdin.flush()
        refusal = tracker.stdout.read()
        self.assertEqual(refusal, "")
        return tracker

    def end(self, tracker, status):
        """What it printed."""
        return tracker.communicate(status + "\n" if status else None, timeout=PATIENCE)[1]


@unittest.skipUnless(MLFLOW, "mlflow is not installed (tools/setup.sh --peers), and MLFLOW does not name it")
class MlflowServer(Folder):
    """One server for all tests, each with an experiment of its own."""

    @classmethod
    def setUpClass(cls):
        cls.server_place = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.server_place.cleanup)
        cls.server = Server(pathlib.Path(cls.server_place.name)).start()
        cls.addClassCleanup(lambda: cls.server.stop())

    def follow(self, resumes=False, **environment):
        return super().follow(self.server.url, resumes, MLFLOW_EXPERIMENT_NAME=self.id(), **environment)

    def runs(self):
        found = self.server.experiment(self.id())
        return self.server.runs(found) if found else []

    def test_a_run_and_its_resumption(self):
        tracker = self.follow(MLFLOW_RUN_NAME="named", MLFLOW_TAGS='{"team": "speech"}')
        (self.output / "config.resolved.yaml").write_text(SETTINGS)
        self.write(*map(line, range(1, 4)), {"step": 3, "epoch": 0.3, "eval_loss": 1.5},
                   {"step": 3, "straggler": "slow", "rank": 1, "machine": 0, "factor": 2.0})
        until(lambda: self.runs() and len(self.server.history(self.runs()[0], "loss")) == 3)
        self.assertEqual(self.runs()[0]["info"]["status"], "RUNNING")
        (self.output / "report.html").write_text("<html>")
        said = self.end(tracker, "KILLED")
        [run] = self.runs()
        self.assertIn(f"/runs/{run['info']['run_id']}", said)
        self.assertEqual((run["info"]["status"], run["info"]["run_name"]), ("KILLED", "named"))
        self.assertEqual(pairs(run["data"]["params"]),
                         {"seed": "7", "training.learning_rate": "0.01", "lora.target_modules": "[q, v]"})
        tags = pairs(run["data"]["tags"])
        self.assertEqual((tags["team"], tags["trainer.version"]), ("speech", "9.9"))
        self.assertEqual(self.server.history(run, "eval_loss"), [(3, 1.5)])
        files = {found["path"] for found in self.server.get("artifacts/list", run_id=run["info"]["run_id"])["files"]}
        self.assertEqual(files, {"report.html", "config.resolved.yaml", "metrics.jsonl"})

        # Resumed from step 2: update 3 is repeated, and must not be sent twice.
        (self.output / "new").write_text("".join(json.dumps(line(step)) + "\n" for step in (1, 2)))
        (self.output / "new").rename(self.output / "metrics.jsonl")
        tracker = self.follow(resumes=True)
        self.write(line(3), line(4))
        self.end(tracker, "FINISHED")
        [run] = self.runs()
        self.assertEqual(run["info"]["status"], "FINISHED")
        self.assertEqual(self.server.history(run, "loss"), [(step, 2.5 / step) for step in (1, 2, 3, 4)])

    def test_a_new_run_in_an_old_folder(self):
        self.write(line(1), line(2))
        tracker = self.follow()
        (self.output / "new").write_text("")
        (self.output / "new").rename(self.output / "metrics.jsonl")
        self.write({**line(1), "loss": 7.0})
        until(self.runs)  # a busy server takes longer than the end of a run may
        self.end(tracker, "FAILED")
        [run] = self.runs()
        self.assertEqual((run["info"]["status"], self.server.history(run, "loss")), ("FAILED", [(1, 7.0)]))

    def test_the_server_goes_away_and_returns(self):
        tracker = self.follow()
        self.write(line(1))
        until(lambda: self.runs() and self.server.history(self.runs()[0], "loss"))
        self.server.stop()
        for step in range(2, 200):
            self.write(line(step))
        time.sleep(3)  # several attempts
        self.server.start()
        until(lambda: len(self.server.history(self.runs()[0], "loss")) == 199)
        said = self.end(tracker, "FINISHED")
        self.assertEqual(said.count("warning"), 1, said)
        self.assertEqual(self.runs()[0]["info"]["status"], "FINISHED")

    def test_a_killed_launcher(self):
        tracker = self.follow()
        self.write(line(1))
        until(self.runs)
        tracker.stdin.close()
        tracker.wait(PATIENCE)
        tracker.stdout.close()
        tracker.stderr.close()
        [run] = self.runs()
        self.assertEqual((run["info"]["status"], self.server.history(run, "loss")), ("KILLED", [(1, 2.5)]))


class Refused(Folder):
    """Servers that are not there, or refuse: the run's end waits only some seconds."""

    def test_nothing_listens(self):
        self.write(line(1))
        tracker = self.follow(f"http://somebody:hunter2@127.0.0.1:{free_port()}/")
        said = self.end(tracker, "FINISHED")
        self.assertEqual(tracker.returncode, 0)
        self.assertIn("doesn't have all of this run", said)
        self.assertNotIn("hunter2", said + "".join(path.read_text() for path in self.output.iterdir()))

    def test_servers_that_lie(self):
        """A run's end waits no more than some seconds for any of them, and no answer gets far."""
        def never_ends(handler):
            try:
                while True:
                    handler.wfile.write(b"x" * 65536)
            except OSError:
                pass  # the tracker had enough

        answers = {
            "garbage": lambda handler: handler.wfile.write(b"\x00\xff not HTTP\r\n\r\n"),
            "no JSON": lambda handler: answer(handler, b"<html>hello</html>"),
            "other JSON": lambda handler: answer(handler, b'{"run": [{"info": 7}], "experiment": "none"}'),
            "deep JSON": lambda handler: answer(handler, b"[" * 100000),
            "half an answer": lambda handler: answer(handler, b"{", length=1000),
            "a huge answer": lambda handler: (answer(handler, b"{", length=1 << 40), never_ends(handler)),
            "a redirect to itself": lambda handler: answer(handler, b"", 302, Location=handler.path),
            "a redirect to a file": lambda handler: answer(handler, b"", 302, Location="file:///etc/passwd"),
            "silence": lambda handler: time.sleep(30),
        }

        def answer(handler, body, status=200, length=None, **headers):
            handler.send_response(status)
            for name, value in {"Content-Length": length or len(body), **headers}.items():
                handler.send_header(name, str(value))
            handler.end_headers()
            handler.wfile.write(body)

        for name, lie in answers.items():
            with self.subTest(name):
                class Handler(http.server.BaseHTTPRequestHandler):
                    def do_POST(self):
                        lie(self)

                    do_GET = do_POST

                    def log_message(self, *_):
                        pass

                server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
                server.daemon_threads = True
                server.handle_error = lambda *_: None  # the tracker closed the connection
                threading.Thread(target=server.serve_forever, daemon=True).start()
                self.write(line(1))
                tracker = self.follow(f"http://127.0.0.1:{server.server_port}")
                time.sleep(0.5)  # the first attempt has begun
                said = self.end(tracker, "FINISHED")
                server.shutdown()
                server.server_close()
                self.assertEqual(tracker.returncode, 0, said)
                self.assertIn("doesn't have all of this run", said)
                self.assertNotIn("root:", said)

    def test_wrong_password(self):
        seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                seen.append(self.headers["Authorization"])
                self.send_response(401)
                self.end_headers()

            def log_message(self, *_):
                pass

        server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        tracker = self.follow(f"http://somebody:hunter%202@127.0.0.1:{server.server_port}")
        until(lambda: seen)
        said = self.end(tracker, "FINISHED")
        self.assertEqual(seen[0], "Basic " + base64.b64encode(b"somebody:hunter 2").decode())
        self.assertIn("HTTP status 401", said)
        self.assertNotIn("hunter", said)


if __name__ == "__main__":
    unittest.main()
