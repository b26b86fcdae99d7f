"""Replayed updates of a run are bitwise equal; runs with `deterministic` are equal or refused."""

import json
import unittest

from support import EndToEnd, read_lines, results, snapshot

SHARDED = {"distributed_type": "FSDP", "num_processes": 2}
DETERMINISTIC = {"deterministic": True}


class Replayed(EndToEnd):
    def replay(self, steps, *more, codes=(0,)):
        run = self.trainer("replay", str(self.output), "--steps", steps, *more).wait()
        self.assertIn(run.code, codes, run.out + run.err)
        return run

    def check(self, *changes):
        self.output = self.folder / "output"
        self.launch(self.job("output", *changes))
        before = snapshot(self.output)
        said = self.replay("5:10", "--output_dir", str(self.folder / "again")).out
        self.assertIn("6 compared: all equal, bit for bit", said)  # updates 5 to 10
        self.assertIn("2 compared: all equal, bit for bit", said)  # checkpoint-6 and checkpoint-9
        self.assertEqual(snapshot(self.output), before)
        again = results(self.folder / "again")
        self.assertEqual([line["step"] for line in again], list(range(4, 11)))  # from checkpoint-3 on
        expected = [line for line in results(self.output) if "eval_loss" not in line]
        self.assertEqual(again, expected[3:10])

    def test_on_one_rank(self):
        self.check()

    def test_of_shards(self):
        self.check(SHARDED, DETERMINISTIC)

    def test_from_the_start(self):
        self.output = self.folder / "output"
        self.launch(self.job("output"))
        said = self.replay("1:2").out
        self.assertIn("2 compared: all equal", said)
        self.assertIn("none to compare", said)  # no checkpoint exists this early
        run = self.replay("1:2", codes=(2,))
        self.assertIn("holds an earlier replay", run.err)

    def test_reports_where_it_differs(self):
        self.output = self.folder / "output"
        self.launch(self.job("output"))
        path = self.output / "metrics.jsonl"
        lines = read_lines(self.output)
        changed = next(line for line in lines if line["step"] == 8 and "loss" in line)
        loss = changed["loss"]
        changed["loss"] = loss * (1 + 1e-15) if loss * (1 + 1e-15) != loss else loss * (1 + 1e-14)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        said = self.replay("7:9", codes=(1,)).out
        self.assertIn("3 compared: 1 differ", said)
        self.assertIn("update 8: loss was", said)

    def test_of_no_run(self):
        self.output = self.folder / "nothing"
        self.assertIn("is not a run", self.replay("1:2", codes=(3,)).err)
        self.assertIn("--steps must be A:B", self.replay("2:1", codes=(2,)).err)


class Deterministic(EndToEnd):
    def test_two_runs_are_equal_bit_for_bit(self):
        for name in "one", "two":
            self.launch(self.job(name, SHARDED, DETERMINISTIC))
        self.assertEqual(results(self.folder / "one"), results(self.folder / "two"))
        weights = [snapshot(self.folder / name / "checkpoint-12") for name in ("one", "two")]
        for name in weights[0]:
            if name.endswith(".safetensors"):
                self.assertEqual(weights[0][name], weights[1][name], name)

    def test_another_number_of_ranks_is_refused(self):
        self.launch(self.job("output", DETERMINISTIC, {"training": {"max_steps": 6}}))
        before = snapshot(self.folder / "output")
        run = self.start(self.job("output", DETERMINISTIC, SHARDED)).wait()
        self.assertEqual(run.code, 2, run.err)
        self.assertIn("ranks was 1 and is 2", run.err)
        self.assertIn("deterministic is true", run.err)
        after = snapshot(self.folder / "output")
        self.assertEqual({name: after[name] for name in before if name.startswith("checkpoint")},
                         {name: before[name] for name in before if name.startswith("checkpoint")})
        self.launch(self.job("output", SHARDED))

    def test_a_batch_size_by_free_memory_is_refused(self):
        run = self.start(self.job("output", DETERMINISTIC, {"training": {"auto_find_batch_size": True}})).wait()
        self.assertEqual(run.code, 2, run.err)
        self.assertIn("auto_find_batch_size", run.err)


if __name__ == "__main__":
    unittest.main()
