"""`trainer test`: Accelerate's files as they are, with every kind of strategy, and what a configuration can lack."""

import subprocess
import unittest

from support import PATIENCE, SAMPLES, TRAINER, EndToEnd

ACCELERATE = """compute_environment: LOCAL_MACHINE
machine_rank: 0
main_training_function: main
mixed_precision: 'no'
num_machines: 1
num_processes: 2
use_cpu: true
"""
FSDP = "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: %s, fsdp_transformer_layer_cls_to_wrap: NoSuchBlock}\n"


class TestCommand(EndToEnd):
    def run_test(self, text, *flags, code=0):
        file = self.folder / "accelerate.yaml"
        file.write_text(ACCELERATE + text)
        done = subprocess.run([TRAINER, "test", "--config_file", file, *flags], cwd=self.folder, capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code:
            self.assertIn("The test failed", done.stderr)
            self.assertNotIn("success", done.stdout)
            return done.stderr
        self.assertTrue(done.stdout.rstrip("\n").split("\n")[-1].startswith("The test is a success: "), done.stdout)
        return done.stdout

    def test_strategies_of_accelerate(self):
        for text, row in ((FSDP % "FULL_SHARD", "FSDP FULL_SHARD"), (FSDP % "SHARD_GRAD_OP", "FSDP SHARD_GRAD_OP"),
                          ("distributed_type: MULTI_CPU\n", "MULTI_CPU"), ("distributed_type: 'NO'\nnum_processes: 1\n", "NO"),
                          ("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 1}\n", "FSDP SHARD_GRAD_OP"),
                          ("distributed_type: MEGATRON_LM\nmegatron_lm_config: {megatron_lm_tp_degree: 2, megatron_lm_pp_degree: 1}\n",
                           "MULTI_CPU, tp_size 2")):
            if "num_processes: 1" in text:
                text = text.replace("num_processes: 1\n", "")
                out = self.run_test(text, "--num_processes", "1")
                self.assertIn("(NO, 1 rank, CPU, mixed_precision no)", out)
            else:
                out = self.run_test(text)
            self.assertRegex(out, rf"(?m)^{row} ")

    def test_parallel_sizes_and_precisions(self):
        sizes = "distributed_type: %s\nparallelism_config: {%s}\n"
        for text, flags, cases in ((sizes % ("MULTI_CPU", "parallelism_config_tp_size: 3"), ("--num_processes", "3"), 6),
                                   (sizes % ("MULTI_CPU", "parallelism_config_pp_size: 2"), (), 4),
                                   (sizes % ("MULTI_CPU", "parallelism_config_cp_size: 2"), (), 4),
                                   (FSDP % "FULL_SHARD", ("--mixed_precision", "bf16"), 8),
                                   (FSDP % "FULL_SHARD", ("--mixed_precision", "fp16"), 8)):
            self.assertIn(f"All {cases} cases match", self.run_test(text, *flags))

    def test_the_model_and_the_data_of_a_file_are_not_used(self):
        self.run_test(f"distributed_type: MULTI_CPU\nmodel: {{path: missing}}\ndata: {{train: {{path: {SAMPLES}}}}}\n")
        self.assertFalse((self.folder / "trainer_output").exists())

    def test_a_machine_without_gpus(self):
        said = self.run_test("distributed_type: MULTI_GPU\n", "--set", "use_cpu=false", code=2)
        self.assertRegex(said, "accelerate.yaml: trains on GPUs, and this (build|machine) ")

    def test_problems_of_the_file(self):
        said = self.run_test("distributed_type: MULTI_CPU\nsed: 1\n", code=2)
        self.assertIn("accelerate.yaml:9:1: sed is not an option (did you mean 'seed'?)", said)
        self.assertNotIn("data.train.path", said)
        said = self.run_test("distributed_type: MULTI_CPU\nparallelism_config: {parallelism_config_tp_size: 3}\n", code=2)
        self.assertIn("tp_size", said)

    def test_a_machine_without_room_for_files(self):
        """The temporary output folder cannot be created."""
        file = self.folder / "accelerate.yaml"
        file.write_text(ACCELERATE + "distributed_type: MULTI_CPU\n")
        done = subprocess.run(["env", "TMPDIR=/nonexistent", TRAINER, "test", "--config_file", file], capture_output=True,
                              text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 4, done.stdout + done.stderr)
        self.assertIn("The test failed", done.stderr)


if __name__ == "__main__":
    unittest.main()
