"""Manifests of `trainer launch --emit` for Kubernetes and Compose: their containers run here as the cluster would start
them, with the same variables, in networks of their own."""

import signal
import subprocess
import unittest

try:
    import yaml
except ImportError:
    yaml = None

from machines_test import SHARDED, SHORT, TwoNetworks
from support import TRAINER, until

SIZE = {"num_machines": 2}
GPUS = {"distributed_type": "MULTI_GPU", "use_cpu": False, "num_machines": 2, "num_processes": 4}


@unittest.skipIf(yaml is None, "PyYAML is not installed")
class Manifests(TwoNetworks):
    def emit(self, kind, *changes):
        config = self.job("output", SHORT, SHARDED, SIZE, *changes)
        done = subprocess.run([TRAINER, "launch", "--emit", kind, "--config_file", config.name, "--num_machines", "2"],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return yaml.safe_load(done.stdout)

    def setUp(self):
        super().setUp()
        self.secret = self.write("secret", "open sesame\n")
        self.secret.chmod(0o400)

    def run_containers(self, containers, name_of_first):
        """`containers`: arguments, working directory and variables of each machine's."""
        hosts = self.write("hosts", f"127.0.0.1 localhost\n10.99.0.1 {name_of_first}\n")
        runs = []
        for space, (arguments, folder, variables) in zip(self.spaces, containers):
            variables = {**variables, "TRAINER_SECRET_FILE": str(self.secret)}
            script = f'mount --bind {hosts} /etc/hosts; cd "{folder}"; exec "$0" "$@"'
            runs.append(self.trainer(*arguments, before=(
                "nsenter", f"--net=/run/netns/{space}", "unshare", "-m", "env",
                *(f"{name}={value}" for name, value in variables.items()), "sh", "-c", script)))
        self.finish(runs, 0)
        self.assertNotIn("TRAINER_SECRET is not set", runs[0].err)
        self.launch(self.job("expected", SHORT, SHARDED))
        self.assert_same_run(self.folder / "output", self.folder / "expected")

    def variables(self, container, **known):
        """The container's variables; `known` are those of the downward API."""
        return {entry["name"]: entry.get("value", known.get(entry["name"], "")) for entry in container["env"]}

    def check_pod(self, pod, gpus):
        container = pod["containers"][0]
        self.assertEqual(container["resources"]["limits"].get("nvidia.com/gpu", 0), gpus)
        mounts = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
        self.assertEqual(mounts.get("shm"), "/dev/shm" if gpus else None)
        self.assertEqual({volume["name"] for volume in pod["volumes"]}, set(mounts))
        self.assertEqual(mounts["work"], str(self.folder))
        self.assertEqual(self.variables(container)["TRAINER_SECRET_FILE"], f"{mounts['secret']}/secret")
        self.assertGreater(pod["terminationGracePeriodSeconds"], 25)  # checkpoint.grace_seconds

    def test_pytorchjob(self):
        job = self.emit("pytorchjob")
        replicas = job["spec"]["pytorchReplicaSpecs"]
        self.assertEqual([replicas[kind]["replicas"] for kind in ("Master", "Worker")], [1, 1])
        containers, first = [], f"{job['metadata']['name']}-master-0"
        for rank, kind in enumerate(("Master", "Worker")):
            self.assertEqual(replicas[kind]["restartPolicy"], "ExitCode")
            pod = replicas[kind]["template"]["spec"]
            self.check_pod(pod, 0)
            container = pod["containers"][0]
            # What the operator sets, as of version 1.9.
            port = next(port["containerPort"] for port in container["ports"] if port["name"] == "pytorchjob-port")
            added = {"PYTHONUNBUFFERED": "1", "MASTER_ADDR": first, "MASTER_PORT": port, "WORLD_SIZE": 2, "RANK": rank,
                     "PET_MASTER_ADDR": first, "PET_MASTER_PORT": port, "PET_NODE_RANK": rank,
                     "PET_NPROC_PER_NODE": "auto", "PET_NNODES": 2, "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
            containers.append((container["args"], container["workingDir"], {**self.variables(container), **added}))
        self.run_containers(containers, first)

    def test_jobset(self):
        job = self.emit("jobset")
        inner = job["spec"]["replicatedJobs"][0]["template"]["spec"]
        self.assertEqual((inner["completions"], inner["parallelism"], inner["completionMode"]), (2, 2, "Indexed"))
        self.assertEqual(inner["podFailurePolicy"]["rules"][0]["onExitCodes"]["values"], [1, 2, 3, 5, 7])
        pod = inner["template"]["spec"]
        self.check_pod(pod, 0)
        container = pod["containers"][0]
        name, group = job["metadata"]["name"], job["spec"]["replicatedJobs"][0]["name"]
        containers = [(container["args"], container["workingDir"],
                       {**self.variables(container, RANK=rank), "JOB_COMPLETION_INDEX": rank}) for rank in (0, 1)]
        self.run_containers(containers, f"{name}-{group}-0-0.{job['spec']['network']['subdomain']}")

    def test_compose(self):
        job = self.emit("compose")
        self.assertEqual(sorted(job["services"]), ["machine-0", "machine-1"])
        for service in job["services"].values():
            self.assertTrue(service["init"])
            self.assertEqual(service["environment"]["TRAINER_SECRET_FILE"], f"/run/secrets/{service['secrets'][0]}")
        self.run_containers([(service["command"], service["working_dir"], service["environment"])
                             for service in job["services"].values()], "machine-0")

    def test_gpus(self):
        for kind in ("pytorchjob", "jobset"):
            job = self.emit(kind, GPUS)
            pods = ([replica["template"]["spec"] for replica in job["spec"]["pytorchReplicaSpecs"].values()]
                    if kind == "pytorchjob"
                    else [job["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]])
            for pod in pods:
                self.check_pod(pod, 2)
        service = self.emit("compose", GPUS)["services"]["machine-1"]
        self.assertEqual(service["deploy"]["resources"]["reservations"]["devices"][0]["count"], 2)
        self.assertIn("shm_size", service)

    def check_container_serves(self, arguments):
        """The launcher in the container gets the port, and serves on all addresses of the container."""
        self.assertEqual(arguments[-2:], ["--metrics_address", "0.0.0.0"])

    def test_metrics_port(self):
        port = {"logging": {"metrics_port": 9401}}
        annotations = {"prometheus.io/scrape": "true", "prometheus.io/port": "9401", "prometheus.io/path": "/metrics"}
        pytorch, jobs = self.emit("pytorchjob", port)["spec"], self.emit("jobset", port)["spec"]
        templates = {"/healthz": [replica["template"] for replica in pytorch["pytorchReplicaSpecs"].values()],
                     "/readyz": [jobs["replicatedJobs"][0]["template"]["spec"]["template"]]}
        for path, pods in templates.items():
            for pod in pods:
                self.assertEqual(pod["metadata"]["annotations"], annotations)
                container = pod["spec"]["containers"][0]
                self.check_container_serves(container["args"])
                self.assertIn({"name": "metrics", "containerPort": 9401}, container["ports"])
                self.assertEqual(container["readinessProbe"]["httpGet"], {"path": path, "port": "metrics"})
        service = self.emit("compose", port)["services"]["machine-1"]
        self.check_container_serves(service["command"])
        self.assertEqual(service["expose"], ["9401"])
        run = self.start(self.job("served", {"training": {"max_steps": 100000}}, port))
        check = lambda: subprocess.run(service["healthcheck"]["test"][1:], capture_output=True, check=False).returncode
        self.assertNotEqual(check(), 0)
        until(lambda: check() == 0)
        run.kill_with(signal.SIGTERM)
        self.assertEqual(run.wait().code, 143, run.err)

    def test_an_unknown_kind_is_refused(self):
        config = self.job("output", SHORT, SHARDED)
        run = self.start(config, "--emit", "jobsett").wait()
        self.assertEqual(run.code, 2)
        self.assertIn("--emit jobsett: must be one of sbatch, pytorchjob, jobset, compose", run.err)


if __name__ == "__main__":
    unittest.main()
