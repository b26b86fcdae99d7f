"""A dry run of tools/gpu_check.sh on a machine without a GPU: the simulated accelerator (tests/simulated) in place of
libtrainer_cuda.so, NVML by tests/support/fake_nvml.cpp, an `nvidia-smi` that shows the same GPUs, and one case of each
matrix. So the script's own logic works when a GPU is at hand for ten minutes."""

import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = pathlib.Path(os.environ.get("TRAINER_BIN", ROOT / "build/dev/bin/trainer")).parent
FAKE_NVML = os.environ.get("FAKE_NVML_FOLDER", "")
UUIDS = ["GPU-0000aaa0-1111-2222", "GPU-0000aaa1-1111-2222"]

NVIDIA_SMI = """#!/bin/sh
case "$*" in
  --list-gpus) printf 'GPU 0\\nGPU 1\\n' ;;
  *query-gpu=index*) printf '0, simulated device, 580.65.06, 4096 MiB\\n1, simulated device, 580.65.06, 4096 MiB\\n' ;;
  *query-gpu=name*) echo "simulated device" ;;
  *query-gpu=driver_version*) echo 580.65.06 ;;
  *query-gpu=memory.total*) echo "4096 MiB" ;;
  --id=0*query-gpu=uuid*) echo {first} ;;
  --id=1*query-gpu=uuid*) echo {second} ;;
  *) echo "nvidia-smi: unknown arguments: $*" >&2; exit 1 ;;
esac
"""


@unittest.skipUnless(FAKE_NVML, "FAKE_NVML_FOLDER does not name the folder of the fake libnvidia-ml.so.1")
class GpuCheck(unittest.TestCase):
    def setUp(self):
        self.build = pathlib.Path(tempfile.mkdtemp(dir=PROGRAMS.parent))
        self.addCleanup(shutil.rmtree, self.build)
        programs = self.build / "bin"
        programs.mkdir()
        for name in ("trainer", "trainer-worker", "trainer-prepare"):
            os.link(PROGRAMS / name, programs / name)
        os.link(PROGRAMS / "libtrainer_simulated.so", programs / "libtrainer_cuda.so")
        self.program("bin/gpu_test", "#!/bin/sh\n")
        self.program("nvidia-smi", NVIDIA_SMI.format(first=UUIDS[0], second=UUIDS[1]))
        gpus = [f"gpu|simulated device|{uuid}|00000000:{0x18 + i}:00.0|{i}|9.0|{4 << 30}|0" for i, uuid in enumerate(UUIDS)]
        (self.build / "nvml.txt").write_text("\n".join(["driver|580.65.06|13000", *gpus]) + "\n")

    def program(self, name, text):
        path = self.build / name
        path.write_text(text)
        path.chmod(0o755)

    def check(self, **variables):
        without = ("CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "TRAINER_ACCELERATOR_LIBRARY")
        environment = {name: value for name, value in os.environ.items() if name not in without}
        environment |= {"PATH": f"{self.build}:{os.environ['PATH']}", "LD_LIBRARY_PATH": FAKE_NVML,
                        "FAKE_NVML": str(self.build / "nvml.txt"), "TRAINER_SIMULATED_DEVICES": "2",
                        "GPU_CHECK_CASES": "GPT-2 LoRA FSDP FULL_SHARD 1 x1 bf16", **variables}
        return subprocess.run([ROOT / "tools/gpu_check.sh", self.build], env=environment, capture_output=True, text=True,
                              check=False)

    def test_every_step_runs(self):
        run = self.check()
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        for step in ("machine", "finding the GPUs", "gpu_test", "one rank over NCCL", "two ranks over Gloo",
                     "2 ranks over NCCL", "trainer launch on 2 GPUs", "a rank that dies", "trainer launch", "CUDA graphs",
                     "benchmark", "all checks passed"):
            self.assertIn(f"\n== {step}", run.stdout)
        self.assertRegex(run.stdout, r"the losses of 20 updates differ by at most 0\.0e\+00")
        self.assertRegex(run.stdout, r"the losses of 10 updates differ by at most")
        self.assertIn("not checked: the benchmark: no PYTHON was given", run.stdout)
        self.assertNotIn("several GPUs", run.stdout)

    def test_a_failing_check_fails_it(self):
        self.program("bin/gpu_test", "#!/bin/sh\nexit 3\n")
        run = self.check()
        self.assertEqual(run.returncode, 3, run.stdout + run.stderr)
        self.assertNotIn("all checks passed", run.stdout)

    def test_all_checks_together_have_a_limit(self):
        run = self.check(GPU_CHECK_SECONDS="0")
        self.assertEqual(run.returncode, 1, run.stdout + run.stderr)
        self.assertIn("The time for all checks is over", run.stderr)


if __name__ == "__main__":
    unittest.main()
