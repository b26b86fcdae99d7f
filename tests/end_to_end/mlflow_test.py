"""A run that reports to a real MLflow server: trained, interrupted and resumed."""

import os
import pathlib
import signal
import tempfile
import unittest
from unittest import mock

from support import EndToEnd, last_step, read_lines, until
from tracker_test import MLFLOW, Server, free_port, pairs

REPORTS = {"logging": {"report_to": ["mlflow", "tensorboard"]}}


class Unreachable(EndToEnd):
    """Without MLflow."""

    def test_a_server_that_is_away_does_not_stop_a_run(self):
        url = f"http://somebody:hunter2@127.0.0.1:{free_port()}"
        with mock.patch.dict(os.environ, {"MLFLOW_TRACKING_URI": url}):
            run = self.launch(self.job("output", REPORTS, {"training": {"max_steps": 2}}))
        self.assertEqual(last_step(self.folder / "output"), 2)
        self.assertLessEqual(run.err.count("warning: MLflow"), 1, run.err)  # none if the run was faster than its first try
        self.assertIn("MLflow at http://127.0.0.1", run.err)
        self.assertNotIn("hunter2", run.err + run.out)
        for path in (self.folder / "output").rglob("*"):
            self.assertNotIn(b"hunter2", path.read_bytes() if path.is_file() else b"", path)


@unittest.skipUnless(MLFLOW, "mlflow is not installed (tools/setup.sh --peers), and MLFLOW does not name it")
class Mlflow(EndToEnd):
    def test_an_interrupted_run_continues_in_the_same_one(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        server = Server(pathlib.Path(place.name)).start()
        self.addCleanup(server.stop)
        output = self.folder / "output"
        job = self.job("output", REPORTS, {"training": {"max_steps": 2000}, "checkpoint": {"save_steps": 100}})
        variables = {"MLFLOW_TRACKING_URI": server.url, "MLFLOW_EXPERIMENT_NAME": "speech", "MLFLOW_RUN_NAME": "first"}
        with mock.patch.dict(os.environ, variables):
            run = self.start(job)
            until(lambda: last_step(output) > 20)
            run.kill_with(signal.SIGINT)
            self.assertEqual(run.wait().code, 130, run.err)
            experiment = server.experiment("speech")
            [found] = server.runs(experiment)
            self.assertEqual((found["info"]["status"], found["info"]["run_name"]), ("KILLED", "first"))
            stopped = last_step(output)
            self.launch(self.job("output", REPORTS, {"training": {"max_steps": stopped + 3},
                                                     "checkpoint": {"save_steps": 100}}))
        [found] = server.runs(experiment)
        self.assertEqual(found["info"]["status"], "FINISHED")
        lines = [line for line in read_lines(output) if "learning_rate" in line]
        self.assertEqual(server.history(found, "loss"), [(line["step"], line["loss"]) for line in lines])
        self.assertEqual(pairs(found["data"]["params"])["data.task"], "seq2seq_lm")
        listed = server.get("artifacts/list", run_id=found["info"]["run_id"])["files"]
        self.assertEqual({"report.html", "metrics.jsonl", "config.resolved.yaml", "README.md"},
                         {file["path"] for file in listed})


if __name__ == "__main__":
    unittest.main()
