"""Launchers started by mpirun, srun or torchrun, one for each rank: the first one of a machine runs its ranks, and the
others exit with its code."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from machines_test import free_port
from support import EndToEnd, last_step, processes, until

RANKS = 3
SHARDED = {"distributed_type": "FSDP", "num_processes": RANKS, "fsdp_config": {"fsdp_version": 1}}
LONG = {"training": {"max_steps": 100000}, "evaluation": None, "checkpoint": {"save_steps": 0}}
SHORT = {"training": {"max_steps": 6}}
AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}


class Starting(EndToEnd):
    def expected(self, *changes):
        self.launch(self.job("expected", SHORT, SHARDED, *changes))
        return self.folder / "expected"

    def ranks_of_run(self):
        """Process ids of the ranks, by rank; excludes the launchers, which have RANK too."""
        return {int(environment["RANK"]): pid for pid, environment in processes(self.mark).items()
                if "RANK" in environment and pathlib.Path(f"/proc/{pid}/exe").resolve().name == "trainer-worker"}


class Variables(Starting):
    """As torchrun sets them."""

    def start_ranks(self, config, *flags, per_machine=RANKS, order=None, **changes):
        """Starts a launcher for each rank, with torchrun's variables; returns them by rank."""
        job = {"WORLD_SIZE": RANKS, "LOCAL_WORLD_SIZE": per_machine, "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": free_port(), **changes}
        runs = {}
        for rank in order or range(RANKS):
            variables = {**job, "RANK": rank, "LOCAL_RANK": rank % per_machine}
            runs[rank] = self.start(config, *flags,
                                    before=("env", *(f"{name}={value}" for name, value in variables.items())))
        return runs

    def finish(self, runs, code):
        for rank, run in runs.items():
            self.assertEqual(run.wait().code, code, f"rank {rank}: {run.out}{run.err}")
        self.assert_nothing_runs()

    def test_same_results_in_any_starting_order(self):
        runs = self.start_ranks(self.job("output", SHORT, SHARDED), order=(2, 1, 0))
        self.finish(runs, 0)
        self.assert_same_run(self.folder / "output", self.expected())
        said = runs[0].out + runs[0].err
        self.assertIn("RANK=0 WORLD_SIZE=3 LOCAL_RANK=0 LOCAL_WORLD_SIZE=3 by torchrun: read as rank 0 of 3; this "
                      "process runs ranks 0 to 2, and the other 2 on this machine wait for it", said)
        for rank in (1, 2):
            self.assertEqual(runs[rank].out + runs[rank].err, "")

    def test_a_rank_on_each_machine(self):
        runs = self.start_ranks(self.job("output", SHORT, SHARDED), per_machine=1)
        self.finish(runs, 0)
        self.assert_same_run(self.folder / "output", self.expected())

    def test_the_starter_sets_the_number_of_ranks(self):
        runs = self.start_ranks(self.job("output", SHORT, SHARDED, {"num_processes": 2}))
        self.finish(runs, 0)
        self.assert_same_run(self.folder / "output", self.expected())

    def test_other_numbers_are_refused_by_all(self):
        runs = self.start_ranks(self.job("output", SHORT, SHARDED), "--num_processes", "2")
        self.finish(runs, 2)
        self.assertIn("num_processes is 2 (--num_processes)", runs[0].err)
        self.assertIn("makes it 3", runs[0].err)

    def test_a_dead_rank_ends_all(self):
        runs = self.start_ranks(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        os.kill(self.ranks_of_run()[1], signal.SIGKILL)
        self.finish(runs, 137)

    def test_stopped_as_mpirun_does_it(self):
        """Every process gets the signal; the run is saved once."""
        runs = self.start_ranks(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        for run in runs.values():
            os.kill(run.pid, signal.SIGTERM)
        self.finish(runs, 143)
        self.assertTrue(list((self.folder / "output").glob("checkpoint-*/manifest.json")))

    def test_a_killed_first_process_leaves_nothing(self):
        runs = self.start_ranks(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        runs.pop(0).kill()
        self.finish(runs, 6)
        self.assertIn("was lost", runs[1].err)


@unittest.skipUnless(shutil.which("mpirun"), "mpirun is not installed")
class Mpirun(Starting):
    def start_by_mpirun(self, config, *flags):
        os.environ.update(AS_ROOT)
        return self.start(config, before=("mpirun", "--oversubscribe", "-n", str(RANKS), *flags))

    def test_same_numbers(self):
        run = self.start_by_mpirun(self.job("output", SHORT, SHARDED)).wait()
        self.assertEqual(run.code, 0, run.out + run.err)
        self.assertIn("by mpirun: read as rank 0 of 3", run.out + run.err)
        self.assert_same_run(self.folder / "output", self.expected())

    def test_a_wrong_option_is_reported_once(self):
        os.environ.update(AS_ROOT)
        run = self.start(self.job("output", SHORT, SHARDED), "--set", "training.max_stepz=3",
                         before=("mpirun", "--oversubscribe", "-n", str(RANKS))).wait()
        self.assertEqual(run.code, 2, run.err)
        self.assertEqual(run.err.count("training.max_stepz is not an option"), 1, run.err)

    def test_a_dead_rank_ends_all(self):
        run = self.start_by_mpirun(self.job("output", LONG, SHARDED))
        until(lambda: last_step(self.folder / "output") >= 2)
        os.kill(self.ranks_of_run()[1], signal.SIGKILL)
        self.assertEqual(run.wait().code, 137, run.out + run.err)
        self.assertIn("killed by signal 9 (SIGKILL)", run.out + run.err)
        self.assert_nothing_runs()

    def test_ranks_run_where_mpirun_put_them(self):
        if len(os.sched_getaffinity(0)) != 2:
            self.skipTest("requires exactly two CPUs")
        run = self.start_by_mpirun(self.job("output", LONG, SHARDED), "--bind-to", "core:overload-allowed")
        until(lambda: last_step(self.folder / "output") >= 2)
        places = {rank: os.sched_getaffinity(pid) for rank, pid in self.ranks_of_run().items()}
        self.assertEqual(sorted(places), list(range(RANKS)))
        self.assertEqual({len(place) for place in places.values()}, {1})
        self.assertEqual(len(set.union(*places.values())), 2, "all ranks are bound to one CPU")
        os.kill(run.pid, signal.SIGTERM)
        run.wait()
        self.assert_nothing_runs()


class ByElastic(Starting):
    """Started by torchrun's agent, which needs Python and PyTorch; the ranks don't."""

    STARTER = ()

    def start_by_agent(self, config, *flags):
        return self.start(config, before=(*self.STARTER, *flags))

    def check_interrupted(self, *flags):
        """Ctrl-C goes to everything in the terminal's group; the agent passes it on to its processes."""
        run = self.start(self.job("output", LONG, SHARDED), before=("setsid", *self.STARTER, *flags))
        until(lambda: last_step(self.folder / "output") >= 2)
        os.killpg(run.pid, signal.SIGINT)
        run.wait()
        outcome = json.loads((self.folder / "output/outcome.json").read_text())
        self.assertEqual((outcome["code"], outcome["cause"]), (130, "interrupted"), run.out + run.err)
        self.assertTrue(list((self.folder / "output").glob("checkpoint-*/manifest.json")), run.out + run.err)
        self.assert_nothing_runs()

    def check_wrong_option(self, *flags):
        run = self.start(self.job("output", SHORT, SHARDED), "--set", "training.max_stepz=3",
                         before=(*self.STARTER, *flags)).wait()
        self.assertNotEqual(run.code, 0)
        self.assertEqual(run.err.count("training.max_stepz is not an option (did you mean 'max_steps'?)"), 1, run.err)
        self.assertFalse((self.folder / "output").exists())

    def check_same_numbers(self, *flags):
        run = self.start_by_agent(self.job("output", SHORT, SHARDED), *flags).wait()
        self.assertEqual(run.code, 0, run.out + run.err)
        self.assertIn("by torchrun: read as rank 0 of 3", run.out + run.err)
        self.assert_same_run(self.folder / "output", self.expected())
        self.assert_nothing_runs()


@unittest.skipUnless(shutil.which("torchrun"), "torchrun is not installed (pip install torch)")
class Torchrun(ByElastic):
    STARTER = ("torchrun", "--no-python")
    ONE_AGENT = ("--standalone", "--nproc-per-node", str(RANKS))

    def test_same_numbers(self):
        self.check_same_numbers(*self.ONE_AGENT)

    def test_interrupted(self):
        self.check_interrupted(*self.ONE_AGENT)

    def test_a_wrong_option_is_reported_once(self):
        self.check_wrong_option(*self.ONE_AGENT)

    def test_two_agents(self):
        """Both on this machine: each has a first process that runs its ranks."""
        four = {"num_processes": 4}
        config = self.job("output", SHORT, SHARDED, four)
        endpoint = f"127.0.0.1:{free_port()}"
        agents = [self.start_by_agent(config, "--nnodes", "2", "--nproc-per-node", "2", "--rdzv-backend", "c10d",
                                      "--rdzv-endpoint", endpoint, "--rdzv-id", self.mark) for _ in range(2)]
        for agent in agents:
            self.assertEqual(agent.wait().code, 0, agent.out + agent.err)
        self.assert_same_run(self.folder / "output", self.expected(four))
        self.assert_nothing_runs()

    def test_a_dead_rank_ends_all(self):
        run = self.start_by_agent(self.job("output", LONG, SHARDED), *self.ONE_AGENT)
        until(lambda: last_step(self.folder / "output") >= 2)
        os.kill(self.ranks_of_run()[1], signal.SIGKILL)
        self.assertNotEqual(run.wait().code, 0)
        self.assertIn("killed by signal 9 (SIGKILL)", run.out + run.err)
        self.assert_nothing_runs()

    def test_its_restart_resumes_from_the_checkpoint(self):
        medium = {"training": {"max_steps": 40}, "evaluation": None, "data": {"validation": None},
                  "checkpoint": {"save_steps": 5}}
        run = self.start_by_agent(self.job("output", medium, SHARDED), "--max-restarts", "1", *self.ONE_AGENT)
        until(lambda: last_step(self.folder / "output") >= 7)
        os.kill(self.ranks_of_run()[2], signal.SIGKILL)
        self.assertEqual(run.wait().code, 0, run.out + run.err)
        self.assertRegex(run.out + run.err, r"resuming from .*checkpoint-\d+")
        self.launch(self.job("expected", medium, SHARDED))
        self.assert_same_run(self.folder / "output", self.folder / "expected")

    def test_stopped(self):
        """torchrun passes SIGTERM on to every process; the run is saved once."""
        run = self.start_by_agent(self.job("output", LONG, SHARDED), *self.ONE_AGENT)
        until(lambda: last_step(self.folder / "output") >= 2)
        run.kill_with(signal.SIGTERM)
        run.wait()
        self.assertTrue(list((self.folder / "output").glob("checkpoint-*/manifest.json")), run.out + run.err)
        self.assert_nothing_runs()


@unittest.skipUnless(shutil.which("accelerate"), "accelerate is not installed (pip install accelerate)")
class Accelerate(ByElastic):
    STARTER = ("accelerate", "launch", "--no_python", "--multi_gpu")

    def ranks(self, count=RANKS):
        return "--num_processes", str(count), "--main_process_port", str(free_port())

    def test_same_numbers(self):
        self.check_same_numbers(*self.ranks())

    def test_interrupted(self):
        self.check_interrupted(*self.ranks())

    def test_a_wrong_option_is_reported_once(self):
        self.check_wrong_option(*self.ranks())

    def test_two_machines(self):
        four = {"num_processes": 4}
        config, ranks = self.job("output", SHORT, SHARDED, four), self.ranks(4)
        agents = [self.start_by_agent(config, *ranks, "--num_machines", "2", "--machine_rank", str(machine),
                                      "--main_process_ip", "127.0.0.1") for machine in range(2)]
        for agent in agents:
            self.assertEqual(agent.wait().code, 0, agent.out + agent.err)
        self.assert_same_run(self.folder / "output", self.expected(four))
        self.assert_nothing_runs()


def slurm_works():
    try:
        return subprocess.run(["srun", "-n1", "true"], capture_output=True, check=False, timeout=20).returncode == 0
    except (FileNotFoundError, subprocess.TimeoutExpired):
        return False


@unittest.skipUnless(slurm_works(), "SLURM is not available")
class Srun(Starting):
    def test_same_numbers(self):
        run = self.start(self.job("output", SHORT, SHARDED), before=("srun", "-n", str(RANKS), "--overcommit")).wait()
        self.assertEqual(run.code, 0, run.out + run.err)
        self.assertIn("by srun: read as rank 0 of 3", run.out + run.err)
        self.assert_same_run(self.folder / "output", self.expected())


if __name__ == "__main__":
    unittest.main()
