"""Jobs of a real SLURM: three nodes with networks of their own on this machine (slurm.py)."""

import json
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import time
import unittest

from gpus_test import DRIVER, FAKE_NVML, gpu, linked_programs
from machines_test import SECRET
from slurm import KILL_WAIT, UNKNOWN_TO_DNS, Slurm, why_no_slurm
from support import EndToEnd, Run, TRAINER, last_step, merged, processes, until

SHARDED = {"distributed_type": "FSDP", "num_processes": 2, "fsdp_config": {"fsdp_version": 1}}
LONG = {"training": {"max_steps": 100000}, "evaluation": None, "checkpoint": {"save_steps": 0}}
SHORT = {"training": {"max_steps": 6}}
SOON = 40  # seconds in which a step has to end; without the ends under test it waits 600 s


@unittest.skipIf(why_no_slurm(), why_no_slurm())
class Jobs(EndToEnd):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.slurm = Slurm()
        cls.addClassCleanup(cls.slurm.stop)

    def step(self, config, *flags, nodes="node2,node3", launch=(), tasks=2, before=()):
        """Starts `srun … trainer launch` for one rank on each node."""
        return self.start(config, *launch, before=(*SECRET, self.slurm.programs / "srun", f"--nodelist={nodes}",
                                                   f"--ntasks={tasks}", "--mem=100", *flags, *before))

    def finish(self, run, code):
        deadline = time.monotonic() + SOON
        while not run.ended() and time.monotonic() < deadline:
            time.sleep(0.01)
        if not run.ended():
            self.fail(f"still running after {SOON} s:\n{run.out}{run.err}{self.slurm.log()}")
        self.assertEqual(run.code, code, run.out + run.err)
        return run.out + run.err

    def expected(self, *changes):
        self.launch(self.job("expected", SHORT, SHARDED, *changes))
        return self.folder / "expected"

    def launchers(self):
        """Process ids of the launchers by SLURM's rank."""
        return {int(environment["SLURM_PROCID"]): pid for pid, environment in processes(self.mark).items()
                if "SLURM_STEP_ID" in environment and "LOCAL_RANK" not in environment
                and pathlib.Path(f"/proc/{pid}/exe").resolve().name == "trainer"}


class Steps(Jobs):
    def start_two(self, *flags):
        """Two jobs on the same nodes; machine 1 of the first one comes late, so that its machine 0 still listens."""
        late = ("sh", "-c", '[ $SLURM_PROCID = 0 ] || sleep 2; exec "$0" "$@"')
        first = self.step(self.job("one", SHORT, SHARDED), launch=flags, before=late)
        until(lambda: "waiting for machine 1" in first.err)
        return first, self.step(self.job("two", SHORT, SHARDED), launch=flags)

    def test_two_jobs_that_share_their_nodes(self):
        runs = self.start_two()
        expected = self.expected()
        for run, name in zip(runs, ("one", "two")):
            said = self.finish(run, 0)
            self.assertIn("by srun: read as rank 0 of 2", said)
            self.assert_same_run(self.folder / name, expected)

    def test_two_jobs_with_one_port(self):
        first, second = self.start_two("--main_process_port", "29500")
        said = self.finish(second, 6)
        self.assertRegex(said, r"two jobs meet at node2:29500: machine 1 \(node3, .*\) has SLURM job \d+, step 0, and "
                               r"machine 0 has SLURM job \d+, step 0\n.*set another main_process_port")
        self.assertIn("the port is in use by process", said)
        self.finish(first, 0)

    def test_several_tasks_on_a_node(self):
        four = {"num_processes": 4}
        run = self.step(self.job("output", SHORT, SHARDED), "--ntasks-per-node=2", tasks=4)
        self.assertIn("the other 1 on this machine wait for it", self.finish(run, 0))
        self.assert_same_run(self.folder / "output", self.expected(four))

    def test_two_nodes_without_a_secret(self):
        """srun passes the variables of the shell on; the message says which one is missing."""
        run = self.start(self.job("output", SHORT, SHARDED), before=(self.slurm.programs / "srun", "--nodelist=node2,node3",
                                                                     "--ntasks=2", "--mem=100"))
        said = self.finish(run, 2)
        self.assertIn("trainer launch --new_secret trainer-secret", said)
        self.assertFalse((self.folder / "output").exists())

    def test_a_node_whose_name_only_slurm_knows(self):
        run = self.step(self.job("output", SHORT, SHARDED), nodes=f"{UNKNOWN_TO_DNS},node2")
        said = self.finish(run, 0)
        self.assertIn(f"{UNKNOWN_TO_DNS} is {self.slurm.address(UNKNOWN_TO_DNS)} (SLURM's NodeAddr)", said)
        self.assert_same_run(self.folder / "output", self.expected())

    def start_with_bad_rank(self, rank):
        """One task gets a configuration that it refuses."""
        good, bad = self.job("good", SHORT, SHARDED), self.job("bad", SHORT, SHARDED, {"training": {"optim": "none"}})
        words = " ".join(map(shlex.quote, map(str, (TRAINER, "launch", "--config_file"))))
        script = self.write("tasks.sh", f"if [ $SLURM_PROCID = {rank} ]; then exec {words} {bad}; fi\n"
                                        f"exec {words} {good}\n")
        return self.trainer(before=(*SECRET, self.slurm.programs / "srun", "--nodelist=node2,node3", "--ntasks=2", "sh",
                                    script))

    def test_a_refused_configuration_on_machine_1_ends_the_step(self):
        said = self.finish(self.start_with_bad_rank(1), 2)
        self.assertIn("machine 1", said)

    def test_a_refused_configuration_on_machine_0_ends_the_step(self):
        self.finish(self.start_with_bad_rank(0), 2)

    def check_killed(self, rank, *changes):
        run = self.step(self.job("output", LONG, SHARDED, {"max_restarts": 3}, *changes))
        until(lambda: last_step(self.folder / "output") >= 2)
        os.kill(self.launchers()[rank], signal.SIGKILL)
        begin = time.monotonic()
        said = self.finish(run, 137)  # srun's: the largest of the tasks'
        self.assertIn("srun does not restart it", said)
        self.assertLess(time.monotonic() - begin, 10)

    def test_a_killed_launcher_is_not_waited_for(self):
        self.check_killed(1)

    def test_a_killed_first_launcher_is_not_waited_for(self):
        self.check_killed(0)

    def test_a_killed_rank_is_restarted(self):
        run = self.step(self.job("output", {"max_restarts": 3, "training": {"max_steps": 60}, "evaluation": None,
                                            "checkpoint": {"save_steps": 5}}, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 7)
        os.kill(run.ranks()[1], signal.SIGKILL)
        self.assertIn("restart 1 of 3", self.finish(run, 0))

    def cancel(self, *flags):
        self.slurm.run("scancel", *flags, self.slurm.run("squeue", "--noheader", "-o", "%A").split()[0])

    def test_scancel_saves(self):
        run = self.step(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        self.cancel()
        self.finish(run, 143)
        self.assertTrue(list((self.folder / "output").glob("checkpoint-*/manifest.json")))

    def test_a_save_that_slurm_would_kill_is_reported(self):
        os.environ["TRAINER_INJECT"] = "stop:rank=0,step=3,file=2"
        self.addCleanup(os.environ.pop, "TRAINER_INJECT")
        run = self.step(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 4)
        self.cancel()
        said = self.finish(run, 143)
        self.assertIn(f"SLURM kills the job within {KILL_WAIT} s (KillWait)", said)
        self.assertIn(f"save abandoned after {KILL_WAIT - 1} s: SLURM kills a job {KILL_WAIT} s after SIGTERM", said)
        self.assertEqual(json.loads((self.folder / "output/outcome.json").read_text())["code"], 143)
        self.assertFalse(list((self.folder / "output").glob("checkpoint-*")))


@unittest.skipUnless(FAKE_NVML, "FAKE_NVML_FOLDER does not name the folder of the fake libnvidia-ml.so.1")
class BoundGpus(Jobs):
    """SLURM gives its tasks two GPUs on each node (slurm.py), which NVML (fake) describes; ranks train on simulated ones."""
    GPUS = {"distributed_type": "FSDP", "use_cpu": False, "num_processes": 4}

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.programs = linked_programs("libtrainer_simulated.so")
        cls.addClassCleanup(shutil.rmtree, cls.programs)

    def step_on_gpus(self, *flags, tasks=4, changes=()):
        config = self.job("output", SHORT, self.GPUS, *changes)
        nvml = self.write("nvml.txt", "\n".join([DRIVER, gpu(0), gpu(1)]) + "\n")
        run = Run([*SECRET, f"LD_LIBRARY_PATH={FAKE_NVML}", f"FAKE_NVML={nvml}", self.slurm.programs / "srun",
                   "--nodelist=node2,node3", f"--ntasks={tasks}", f"--ntasks-per-node={tasks // 2}", "--mem=100", *flags,
                   self.programs / "trainer", "launch", "--config_file", config], self.mark, self.folder)
        self.addCleanup(run.close)
        return run

    def check_trained(self, run, gpus):
        """On both nodes, with these GPUs."""
        said = self.finish(run, 0)
        self.assertEqual(said.count(f"the 2 ranks of this machine train, in their order, on GPUs {gpus}"), 2, said)
        self.assertEqual(last_step(self.folder / "output"), 6)

    def test_a_task_for_each_gpu(self):
        self.check_trained(self.step_on_gpus("--gpus-per-task=1"), "0 and 1")

    def test_tasks_bound_in_another_order(self):
        self.check_trained(self.step_on_gpus("--gpus-per-node=2", "--gpu-bind=map_gpu:1,0"), "1 and 0")

    def test_tasks_that_share_the_gpus_of_their_node(self):
        self.check_trained(self.step_on_gpus("--gpus-per-node=2", "--gpu-bind=none"), "0 and 1")

    def test_a_task_for_each_node(self):
        self.check_trained(self.step_on_gpus("--gpus-per-node=2", tasks=2, changes=({"num_machines": 2},)), "0 and 1")

    def test_fewer_gpus_than_tasks(self):
        said = self.finish(self.step_on_gpus("--gpus-per-node=1"), 2)
        self.assertIn("the 2 processes of this machine were given 1 GPU, and each needs its own", said)
        self.assertIn("srun: --gpus-per-task=1, or --gpus-per-node=2 with --gpu-bind=none", said)
        self.assertFalse((self.folder / "output").exists())


class Submitted(Jobs):
    """Scripts written by `trainer launch --emit sbatch`."""

    def script(self, config, *flags):
        done = subprocess.run([TRAINER, "launch", "--emit", "sbatch", "--config_file", config.name, *flags],
                              cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return self.write(f"{config.stem}.sh", done.stdout)

    def submit(self, config, *flags):
        return self.slurm.submit("--mem=100", "--nodelist=node2,node3", *flags, self.script(config),
                                 env={**os.environ, "TRAINER_END_TO_END": self.mark})

    def log_of(self, name):
        return "".join(path.read_text() for path in self.folder.glob(f"{name}-*.log"))

    def wait_for_state(self, job, *states):
        try:
            return until(lambda: self.slurm.job(job)["JobState"] in states and self.slurm.job(job))
        except AssertionError:
            self.fail(f"not in {states}: {self.slurm.job(job)}\n{self.slurm.log()}")

    def test_same_numbers(self):
        two = {"num_machines": 2, "num_processes": 4}
        job = self.submit(self.job("output", SHORT, SHARDED, two))
        state = self.wait_for_state(job, "COMPLETED", "FAILED")
        self.assertEqual(state["JobState"], "COMPLETED", self.log_of("output"))
        said = self.log_of("output")
        self.assertIn("by srun: read as machine 0 of 2, with 2 ranks each", said)
        self.assertNotIn("TRAINER_SECRET is not set", said)
        self.assertFalse(list(self.folder.glob(".trainer-secret*")))
        self.assert_same_run(self.folder / "output", self.expected({"num_processes": 4}))

    def check_requeued(self, *flags):
        medium = {"training": {"max_steps": 60}, "evaluation": None, "data": {"validation": None},
                  "checkpoint": {"save_steps": 0}}
        job = self.submit(self.job("output", medium, SHARDED, {"num_machines": 2}))
        until(lambda: last_step(self.folder / "output") >= 3)
        self.slurm.run("scancel", "--signal=USR1", *flags, job)
        state = self.wait_for_state(job, "PENDING", "FAILED", "COMPLETED")
        self.assertEqual((state["JobState"], state["Restarts"]), ("PENDING", "1"), self.log_of("output"))
        # SLURM lets it wait (EXPIRES). Started earlier, on request, it can meet its first start's script, which the node
        # has still to remove; then it neither runs nor ends.
        self.assertEqual(self.wait_for_state(job, "FAILED", "COMPLETED")["JobState"], "COMPLETED")
        self.assertIn("stopped on SIGUSR1", self.log_of("output"))
        self.launch(self.job("expected", medium, SHARDED))
        self.assert_same_run(self.folder / "output", self.folder / "expected")

    def test_usr1_saves_and_requeues(self):
        self.check_requeued()

    def test_usr1_to_the_batch_shell_saves_and_requeues(self):
        self.check_requeued("--batch")

    def test_a_canceled_job_is_saved_and_not_requeued(self):
        job = self.submit(self.job("output", LONG, SHARDED, {"num_machines": 2}))
        until(lambda: last_step(self.folder / "output") >= 2)
        self.slurm.run("scancel", job)
        self.assertEqual(self.wait_for_state(job, "CANCELLED", "PENDING", "FAILED")["JobState"], "CANCELLED")
        until(lambda: not processes(self.mark))
        self.assertTrue(list((self.folder / "output").glob("checkpoint-*/manifest.json")), self.log_of("output"))
        self.assertFalse(list(self.folder.glob(".trainer-secret*")))

    def test_gpus_are_requested(self):
        config = self.job("output", SHORT, {"distributed_type": "MULTI_GPU", "use_cpu": False, "num_machines": 2,
                                            "num_processes": 4})
        script = self.script(config)
        self.assertIn("\n#SBATCH --gres=gpu:2\n", script.read_text())
        self.slurm.run("sbatch", "--test-only", script)
        script.write_text(script.read_text().replace("gpu:2", "gpu:3"))  # the nodes have two
        with self.assertRaises(AssertionError):
            self.slurm.run("sbatch", "--test-only", script)


if __name__ == "__main__":
    unittest.main()
