"""logging.metrics_port: /metrics for Prometheus, /healthz and /readyz, served by the launcher of a run."""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
import unittest
import urllib.parse
import urllib.request

from machines_test import LONG, SECRET, SHARDED, free_port
from support import EndToEnd, last_step, read_lines, until

TWO = {**SHARDED, "num_processes": 2}
SAVING = {"checkpoint": {"save_steps": 3, "save_total_limit": 1}}


def get(port, path, method="GET"):
    """Status, headers and body; status 0 if nothing answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        response = connection.getresponse()
        return response.status, dict(response.getheaders()), response.read().decode()
    except OSError:
        return 0, {}, ""
    finally:
        connection.close()


def samples(page):
    """Values by name with labels; checks the form of each line."""
    values = {}
    for line in page.splitlines():
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert re.fullmatch(r'[a-zA-Z_:][a-zA-Z0-9_:]*(\{([a-z_]+="[^"]*",?)+\})?', name), line
            values[name] = float(value)
    return values


class Served(EndToEnd):
    def setUp(self):
        super().setUp()
        self.port = free_port()

    def start_job(self, *changes, flags=()):
        return self.start(self.job("output", LONG, TWO, *changes), "--metrics_port", str(self.port), *flags)

    def metrics(self):
        return samples(get(self.port, "/metrics")[2])

    def wait_until_ready(self):
        until(lambda: get(self.port, "/readyz")[0] == 200)

    def stop(self, run, code=143):
        os.kill(run.pid, signal.SIGTERM)
        self.assertEqual(run.wait().code, code, run.out + run.err)
        self.assert_nothing_runs()


class MetricsPage(Served):
    def test_values_are_those_of_the_run(self):
        run = self.start_job(SAVING)
        until(lambda: get(self.port, "/healthz")[0] == 200)
        self.assertEqual(get(self.port, "/readyz")[0], 503)
        self.assertIn(f"metrics at http://127.0.0.1:{self.port}/metrics\n", run.err)
        self.wait_until_ready()
        until(lambda: self.metrics().get("trainer_checkpoint_saves_total", 0) >= 2)
        values = self.metrics()
        line = next(line for line in read_lines(self.folder / "output")
                    if line["step"] == values["trainer_step"] and "loss" in line)
        for name, key in (("trainer_loss", "loss"), ("trainer_grad_norm", "grad_norm"), ("trainer_epoch", "epoch"),
                          ("trainer_learning_rate", "learning_rate"), ("trainer_tokens_total", "tokens"),
                          ("trainer_samples_total", "samples"), ("trainer_tokens_per_second", "tokens_per_second")):
            self.assertEqual(values[name], line[key], name)
        self.assertGreater(values["trainer_samples_total"], values["trainer_step"])
        self.assertEqual(values["trainer_ranks"], 2)
        self.assertEqual(values["trainer_ranks_alive"], 2)
        self.assertEqual(values["trainer_ready"], 1)
        self.assertEqual(values["trainer_checkpoint_save_failures_total"], 0)
        for rank in (0, 1):
            self.assertGreater(values[f'trainer_rank_resident_memory_bytes{{rank="{rank}"}}'], 1 << 20)
            self.assertLess(values[f'trainer_rank_last_progress_age_seconds{{rank="{rank}"}}'], 60)
        self.stop(run)
        self.assertEqual(get(self.port, "/healthz")[0], 0, "the port is closed")

    def test_requests(self):
        run = self.start_job()
        self.wait_until_ready()
        status, headers, body = get(self.port, "/metrics")
        self.assertEqual((status, headers["Content-Type"]), (200, "text/plain; version=0.0.4; charset=utf-8"))
        self.assertEqual(get(self.port, "/metrics", "HEAD")[::2], (200, ""))
        self.assertEqual(get(self.port, "/other")[0], 404)
        self.assertEqual(get(self.port, "/metrics", "POST")[0], 405)
        self.assertEqual(get(self.port, "/" + 9000 * "a")[0], 414)
        if shutil.which("curl"):
            answer = subprocess.run(["curl", "-sSf", f"http://127.0.0.1:{self.port}/metrics"], capture_output=True,
                                    text=True, check=True).stdout
            self.assertLessEqual(samples(body).keys(), samples(answer).keys(), "values are added as the run reports them")
        if shutil.which("promtool"):
            lint = subprocess.run(["promtool", "check", "metrics"], input=body, capture_output=True, text=True,
                                  check=False)
            self.assertEqual((lint.returncode, lint.stdout + lint.stderr), (0, ""))
        self.stop(run)

    def test_clients_that_misbehave_delay_nothing(self):
        run = self.start_job()
        self.wait_until_ready()
        before = last_step(self.folder / "output")
        clients = [socket.create_connection(("127.0.0.1", self.port)) for _ in range(100)]
        for number, client in enumerate(clients):
            try:
                client.sendall((b"", b"GET /metr", b"\x16\x03\x01\n\n", b"GET /metrics HTTP/1.1\r\n\r\n" * 200)[number % 4])
            except OSError:  # closed, as too many are open
                pass
        start = time.monotonic()
        self.assertEqual(get(self.port, "/healthz")[0], 200)
        self.assertLess(time.monotonic() - start, 5)
        until(lambda: last_step(self.folder / "output") > before + 3)
        for client in clients:
            client.close()
        self.stop(run)

    def test_not_ready_while_it_restarts(self):
        run = self.start_job({"max_restarts": 1}, SAVING)
        self.wait_until_ready()
        until(lambda: last_step(self.folder / "output") >= 4)
        os.kill(run.ranks()[1], signal.SIGKILL)
        until(lambda: get(self.port, "/readyz")[0] == 503)
        self.wait_until_ready()
        self.assertEqual(self.metrics()["trainer_restarts_total"], 1)
        self.stop(run)

    def test_a_port_in_use_ends_the_run_before_it_begins(self):
        with socket.create_server(("127.0.0.1", self.port)):
            run = self.start_job().wait()
        self.assertEqual(run.code, 4)
        self.assertIn(f"cannot serve metrics on 127.0.0.1:{self.port}: the port is in use by process {os.getpid()} (",
                      run.err)
        self.assertIn("set another logging.metrics_port (--metrics_port)", run.err)
        self.assertFalse((self.folder / "output").exists())

    def test_addresses(self):
        run = self.start_job(flags=("--metrics_address", "nowhere.invalid")).wait()
        self.assertEqual(run.code, 2)
        self.assertIn("cannot resolve the address nowhere.invalid (logging.metrics_address)", run.err)
        run = self.start_job(flags=("--metrics_address", "0.0.0.0"))
        self.wait_until_ready()
        self.assertIn("for everyone who can reach it", run.err)
        self.stop(run)

    def test_every_machine_serves_its_ranks(self):
        ports = (self.port, free_port())
        meeting = str(free_port())
        config = self.job("output", LONG, SHARDED)
        runs = [self.start(config, "--nnodes", "2", "--node_rank", str(number), "--master_addr", "127.0.0.1",
                           "--master_port", meeting, "--nproc_per_node", "2", "--metrics_port", str(port), before=SECRET)
                for number, port in enumerate(ports)]
        for port in ports:
            until(lambda: get(port, "/readyz")[0] == 200)  # pylint: disable=cell-var-from-loop
        first, second = (samples(get(port, "/metrics")[2]) for port in ports)
        for rank in range(4):
            name = f'trainer_rank_resident_memory_bytes{{rank="{rank}"}}'
            self.assertEqual((name in first, name in second), (rank < 2, rank >= 2))
        self.assertNotIn("trainer_step", second)
        os.kill(runs[1].pid, signal.SIGTERM)
        for run in runs:
            self.assertEqual(run.wait().code, 143, run.err)


@unittest.skipUnless(shutil.which("prometheus"), "prometheus is not installed (tools/setup.sh --peers)")
class Prometheus(Served):
    """A real Prometheus scrapes a real run."""

    def query(self, text):
        url = f"http://127.0.0.1:{self.server_port}/api/v1/query?" + urllib.parse.urlencode({"query": text})
        try:
            with urllib.request.urlopen(url, timeout=10) as answer:
                found = json.load(answer)["data"]["result"]
        except OSError:
            return None
        return float(found[0]["value"][1]) if found else None

    def test_scrapes(self):
        self.server_port = free_port()
        config = self.write("prometheus.yml", json.dumps({"scrape_configs": [
            {"job_name": "trainer", "scrape_interval": "200ms", "scrape_timeout": "200ms",
             "static_configs": [{"targets": [f"127.0.0.1:{self.port}"]}]}]}))
        server = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={self.folder}/tsdb",
                                   f"--web.listen-address=127.0.0.1:{self.server_port}"], stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.terminate)
        run = self.start_job(SAVING)
        until(lambda: (self.query("trainer_step") or 0) >= 3)
        self.assertEqual(self.query("up"), 1)
        until(lambda: (self.query("increase(trainer_samples_total[10s])") or 0) > 0)
        self.assertEqual(self.query("sum(trainer_ranks_alive)"), 2)
        self.assertEqual(self.query("count(trainer_rank_resident_memory_bytes)"), 2)
        self.assertIsNotNone(self.query("trainer_loss"))
        self.stop(run)
        until(lambda: self.query("up") == 0)


if __name__ == "__main__":
    unittest.main()
