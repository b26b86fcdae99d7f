"""What users see about GPUs, on a machine that has none: NVML is tests/support/fake_nvml.cpp, which the program finds as
it finds NVIDIA's, by the loader's path. The GPU library is an empty file, so runs end where ranks would load it."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import unittest

from support import PATIENCE, TRAINER, EndToEnd, last_step, until

DONE, USAGE, MACHINE = 0, 2, 4
FAKE_NVML = os.environ.get("FAKE_NVML_FOLDER", "")
H100 = ("NVIDIA H100 80GB HBM3", "9.0", 80 << 30)
A100 = ("NVIDIA A100-SXM4-40GB", "8.0", 40 << 30)
DRIVER = "driver|580.65.06|13000"
GPUS = {"distributed_type": "MULTI_GPU", "use_cpu": False, "num_processes": 2}
ALONE = {"distributed_type": "NO", "use_cpu": False}


def gpu(minor, card=H100, used=0):
    name, capability, total = card
    return f"gpu|{name}|GPU-{0xaaa0 + minor:08x}-1111|00000000:{0x18 + minor:02X}:00.0|{minor}|{capability}|{total}|{used}"


def linked_programs(gpus=None):
    """A folder of the programs' own, beside theirs, for another GPU library: `gpus`, one of theirs, or none yet."""
    programs = pathlib.Path(TRAINER).parent
    folder = pathlib.Path(tempfile.mkdtemp(dir=programs.parent))
    for name in ("trainer", "trainer-worker", "trainer-prepare"):
        os.link(programs / name, folder / name)
    if gpus is not None:
        os.link(programs / gpus, folder / "libtrainer_cuda.so")
    return folder


@unittest.skipUnless(FAKE_NVML, "FAKE_NVML_FOLDER does not name the folder of the fake libnvidia-ml.so.1")
class Gpus(EndToEnd):
    @classmethod
    def setUpClass(cls):
        """A copy of the programs that supports GPUs."""
        super().setUpClass()
        cls.programs = linked_programs()
        cls.addClassCleanup(shutil.rmtree, cls.programs)
        (cls.programs / "libtrainer_cuda.so").touch()

    def run_on(self, lines, command, *changes, flags=(), **variables):
        """Runs a command on a machine that NVML describes by `lines`."""
        config = self.job("output", *changes)
        nvml = self.folder / "nvml.txt"
        nvml.write_text("\n".join(lines) + "\n")
        without = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID")
        environment = {name: value for name, value in os.environ.items() if name not in without}
        environment |= {"LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML": str(nvml), **variables}
        return subprocess.run([self.programs / "trainer", command, "--config_file", config, *flags], env=environment,
                              cwd=self.folder, capture_output=True, text=True, timeout=PATIENCE, check=False)

    def refused(self, code, lines, *changes, **variables):
        """The block of a launch that ends before anything is written."""
        run = self.run_on(lines, "launch", *changes, **variables)
        self.assertEqual(run.returncode, code, run.stdout + run.stderr)
        self.assertFalse((self.folder / "output").exists())
        self.assertLessEqual(len(run.stderr.strip().split("\n")), 6, run.stderr)
        return run.stderr

    def test_a_machine_without_gpus(self):
        self.assertIn("trains on GPUs, and this machine shows no NVIDIA GPU", self.refused(USAGE, [DRIVER], GPUS))

    def test_too_few_for_the_ranks(self):
        said = self.refused(USAGE, [DRIVER, gpu(0), gpu(1)], GPUS, {"num_processes": 3})
        self.assertIn("3 ranks per machine need a GPU each, but this machine has 2", said)
        said = self.refused(USAGE, [DRIVER, gpu(0), gpu(1)], GPUS, CUDA_VISIBLE_DEVICES="1,7,0")
        self.assertIn("2 ranks per machine need a GPU each, but CUDA_VISIBLE_DEVICES '1,7,0' selects 1 of 2", said)

    def test_gpu_ids_outside_the_visible_ones(self):
        said = self.refused(USAGE, [DRIVER, gpu(0), gpu(1), gpu(2)], GPUS, {"gpu_ids": "0,1"},
                            CUDA_VISIBLE_DEVICES="GPU-0000aaa1,GPU-0000aaa2")
        self.assertIn("which excludes GPU 0", said)

    def test_a_driver_that_does_not_match_its_library(self):
        said = self.refused(MACHINE, ["init|18"], GPUS)
        self.assertIn("the NVIDIA driver does not work: Driver/library version mismatch", said)

    def test_an_old_driver(self):
        for changes in (GPUS, ALONE):
            said = self.refused(MACHINE, ["driver|550.54.14|12040", gpu(0), gpu(1)], changes)
            self.assertIn("driver 550.54.14 supports CUDA 12.4, but this build needs CUDA 13.0", said)

    def test_an_old_gpu(self):
        said = self.refused(MACHINE, [DRIVER, gpu(0), gpu(1, ("Tesla V100-SXM2-16GB", "7.0", 16 << 30))], GPUS)
        self.assertIn("GPU 1 (Tesla V100-SXM2-16GB, 16 GiB) has compute capability 7.0, but this build is for 7.5", said)

    def test_a_full_gpu(self):
        full = [DRIVER, gpu(0), gpu(1, used=(80 << 30) - (256 << 20)), f"process|{os.getpid()}|{79 << 30}"]
        said = self.refused(MACHINE, full, GPUS)
        self.assertIn("GPU 1 (NVIDIA H100 80GB HBM3, 80 GiB) is full: 256 MiB of 80 GiB are free", said)
        name = pathlib.Path("/proc/self/comm").read_text().strip()
        self.assertIn(f"it is used by process {os.getpid()} ({name}, 79 GiB)", said)

    def test_a_plan_that_a_gpu_has_no_room_for(self):
        """Its GPU isn't full, but what others leave of it is less than a rank needs."""
        large = {"model": {"config": {"d_model": 1024, "d_ff": 4096, "num_layers": 24, "num_decoder_layers": 24}}}
        two = [DRIVER, gpu(0), gpu(1, used=74 << 30)]
        for changes in ({}, {"training": {"auto_find_batch_size": True}}):
            said = self.refused(MACHINE, two, GPUS, large, changes)
            self.assertRegex(said, r"this rank needs [0-9.]+ GiB of GPU memory, but only 6\.0 GiB are free")
            self.assertIn("GPU 1 (NVIDIA H100 80GB HBM3, 80 GiB): 74 GiB of 80 GiB are in use by other processes", said)
        run = self.run_on([DRIVER, gpu(0), gpu(1)], "launch", GPUS, large)
        self.assertIn("libtrainer_cuda.so cannot be loaded", run.stderr, "it fits")

    def test_commands_with_a_device_flag(self):
        full = [DRIVER, gpu(0, used=(80 << 30) - (256 << 20))]
        for lines, said in (([DRIVER], "--device cuda: this machine shows no NVIDIA GPU"),
                            (["driver|550.54.14|12040", gpu(0)], "but this build needs CUDA 13.0"),
                            (full, "is full: 256 MiB of 80 GiB are free")):
            for words in (("generate", str(self.folder), "--prompt", "a"), ("selftest", "--num_processes", "1")):
                nvml = self.write("nvml.txt", "\n".join(lines) + "\n")
                run = subprocess.run([self.programs / "trainer", *words, "--device", "cuda"], capture_output=True, text=True,
                                     env={**os.environ, "LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML": str(nvml)},
                                     timeout=PATIENCE, check=False)
                self.assertEqual(run.returncode, MACHINE, run.stderr)
                self.assertIn(said, run.stderr)

    def test_launch_prints_the_gpus_and_warns_of_different_ones(self):
        run = self.run_on([DRIVER, gpu(0), gpu(1, A100, used=8 << 30)], "launch", GPUS)
        self.assertEqual(run.returncode, MACHINE, run.stderr)
        for text in ("the ranks use different GPUs, NVIDIA H100 80GB HBM3 (80 GiB) and NVIDIA A100-SXM4-40GB (40 GiB)",
                     "GPU 1 (NVIDIA A100-SXM4-40GB, 40 GiB): 8.0 GiB of 40 GiB are in use by other processes",
                     "the 2 ranks of this machine train, in their order, on GPU 0 (NVIDIA H100 80GB HBM3, 80 GiB) and "
                     "GPU 1 (NVIDIA A100-SXM4-40GB, 40 GiB), driver 580.65.06",
                     "libtrainer_cuda.so cannot be loaded"):
            self.assertIn(text, run.stderr)

    def test_a_rank_for_each_gpu_unless_the_file_says_how_many(self):
        three = [DRIVER, gpu(0), gpu(1), gpu(2)]
        for changes, variables, said in (
                ({}, {}, "the 3 ranks of this machine train, in their order, on GPUs 0, 1 and 2"),
                ({}, {"CUDA_VISIBLE_DEVICES": "2,0"}, "the 2 ranks of this machine train, in their order, on GPUs 2 and 0"),
                ({"gpu_ids": "1,2"}, {}, "the 2 ranks of this machine train, in their order, on GPUs 1 and 2")):
            run = self.run_on(three, "launch", GPUS, {"num_processes": None, **changes}, **variables)
            self.assertEqual(run.returncode, MACHINE, run.stderr)
            self.assertIn(said, run.stderr)
        explained = self.run_on(three, "explain", GPUS, {"num_processes": None}).stdout
        self.assertIn("num_processes: 3  # one for each GPU of this machine", explained)
        self.assertIn("num_processes is required when distributed_type is MULTI_GPU",
                      self.refused(USAGE, [DRIVER], GPUS, {"num_processes": None}))
        self.assertIn("num_processes is required when distributed_type is MULTI_GPU",
                      self.refused(USAGE, three, GPUS, {"num_processes": None, "num_machines": 2,
                                                        "main_process_ip": "127.0.0.1"}))

    def test_one_process_without_a_gpu_trains_on_the_cpu_and_reports_it(self):
        run = self.run_on([DRIVER], "launch", ALONE)
        self.assertEqual(run.returncode, DONE, run.stderr)
        self.assertIn("training on the CPU: use_cpu is false, but this machine shows no NVIDIA GPU", run.stderr)
        self.assertIn("rank 0 trains on the CPU", (self.folder / "output/logs/rank-0.log").read_text())

    def test_tasks_of_srun_with_gpus_of_their_own(self):
        job = {"SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2", "SLURM_JOB_ID": str(os.getpid()),
               "SLURM_STEP_ID": "0", "SLURM_GPUS_ON_NODE": "2", "SLURM_STEP_GPUS": "0,1"}
        config = self.job("output", GPUS)
        machine = [DRIVER, gpu(0), gpu(1)]

        def start(task, lines, visible):
            nvml = self.folder / f"nvml-{task}.txt"
            nvml.write_text("\n".join(lines) + "\n")
            environment = {**os.environ, **job, "SLURM_PROCID": str(task), "SLURM_LOCALID": str(task),
                           "LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML": str(nvml), "CUDA_VISIBLE_DEVICES": visible}
            return subprocess.Popen([self.programs / "trainer", "launch", "--config_file", config], env=environment,
                                    cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)

        def first_says(*tasks):
            runs = [start(task, *given) for task, given in enumerate(tasks)]
            texts = [run.communicate(timeout=PATIENCE)[1] for run in runs]
            self.assertEqual(len({run.returncode for run in runs}), 1, texts)
            return texts[0], runs[0].returncode

        said, code = first_says((machine, "1"), (machine, "0"))
        self.assertIn("train, in their order, on GPUs 1 and 0 (NVIDIA H100 80GB HBM3, 80 GiB each)", said)
        self.assertEqual(code, MACHINE, "the empty library")
        said, code = first_says(([DRIVER, gpu(0)], "0"), ([DRIVER, gpu(1)], "0"))  # cgroups: each is number 0
        self.assertIn("process 1 of this machine was given the GPU GPU-0000aaa1-1111, which process 0", said)
        self.assertEqual(code, USAGE)
        said, code = first_says(([DRIVER, gpu(0)], "0"), ([DRIVER, gpu(0)], "0"))
        self.assertIn("the 2 processes of this machine were given 1 GPU, and each needs its own", said)

    def test_check_shows_devices_and_what_is_wrong_with_them(self):
        run = self.run_on([DRIVER, gpu(0), gpu(1, A100)], "check", GPUS)
        self.assertEqual(run.returncode, DONE, run.stdout + run.stderr)
        words = " ".join(run.stdout.split())
        self.assertIn("GPU 0 (NVIDIA H100 80GB HBM3, 80 GiB) and GPU 1 (NVIDIA A100-SXM4-40GB, 40 GiB)", words)
        self.assertIn("of the 40 GiB of NVIDIA A100-SXM4-40GB", words)
        run = self.run_on(["driver|550.54.14|12040", gpu(0), gpu(1)], "check", GPUS, flags=("--json",))
        report = json.loads(run.stdout)
        self.assertIn("supports CUDA 12.4, but this build needs CUDA 13.0", report["missing"][0])
        self.assertIn("driver 550.54.14", report["devices"][0])


@unittest.skipUnless(FAKE_NVML, "FAKE_NVML_FOLDER does not name the folder of the fake libnvidia-ml.so.1")
class NvmlThreads(EndToEnd):
    """NVIDIA's library may start threads that stay. The launcher must get its signals nevertheless: the end of a rank, and
    requests to stop, which would end it at once on a thread that doesn't block them."""

    def setUp(self):
        super().setUp()
        self.programs = linked_programs("libtrainer_simulated.so")
        self.addCleanup(shutil.rmtree, self.programs)
        nvml = self.write("nvml.txt", "\n".join([DRIVER, gpu(0)]) + "\n")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": FAKE_NVML, "FAKE_NVML": str(nvml), "FAKE_NVML_THREAD": "1"}

    def command(self, steps):
        return [self.programs / "trainer", "launch", "--config_file",
                self.job("output", ALONE, {"training": {"max_steps": steps}, "evaluation": None, "data": {"validation": None},
                                           "checkpoint": {"save_steps": 1000}}),
                "--set", "checkpoint.resume_from_checkpoint=false", "--set", f"output_dir={self.folder / 'output'}"]

    def test_ends_of_ranks_are_noticed(self):
        for _ in range(6):
            shutil.rmtree(self.folder / "output", ignore_errors=True)
            subprocess.run(self.command(1), env=self.environment, check=True, capture_output=True, timeout=PATIENCE)

    def test_a_request_to_stop_is_followed(self):
        for _ in range(3):
            shutil.rmtree(self.folder / "output", ignore_errors=True)
            run = subprocess.Popen(self.command(100000), env=self.environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.addCleanup(run.kill)
            until(lambda: last_step(self.folder / "output") > 1)
            run.send_signal(signal.SIGTERM)
            said, _ = run.communicate(timeout=PATIENCE)
            self.assertEqual(run.returncode, 143, said)
            self.assertIn(b"kept: ", said)


if __name__ == "__main__":
    unittest.main()
