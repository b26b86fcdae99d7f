"""`trainer profile`."""

import collections
import json
import signal
import unittest

from support import EndToEnd, until

PHASES = {"data", "forward", "backward", "exchange", "clipping", "optimizer", "other"}


class Profile(EndToEnd):
    def profile(self, *words, code=0):
        run = self.trainer("profile", *words).wait()
        self.assertEqual(run.code, code, run.out + run.err)
        return run

    def measured(self, name, **changes):
        """The JSON of a profile of 3 updates after 1."""
        file = self.job(name, changes)
        found = json.loads(self.profile(file, "--json", "--steps", "3", "--warmup", "1").out)
        self.assertFalse((self.folder / name).exists(), "it wrote into output_dir")
        return found

    def check_phases(self, found):
        self.assertEqual(set(found["phases"]), PHASES)
        self.assertAlmostEqual(sum(phase["seconds"] for phase in found["phases"].values()), found["seconds"])
        for name in ("forward", "backward", "optimizer"):
            self.assertGreater(found["phases"][name]["seconds"], 0, name)
        for phase in found["phases"].values():
            self.assertGreaterEqual(phase["slowest_seconds"], phase["seconds"])

    def test_one_rank(self):
        found = self.measured("one")
        self.check_phases(found)
        self.assertEqual((found["ranks"], found["steps"], found["warmup"]), (1, 3, 1))
        self.assertEqual(found["phases"]["exchange"]["seconds"], 0)
        self.assertLessEqual(sum(one["seconds"] for one in found["operators"]), found["recorded_seconds"])
        products = [one for one in found["operators"] if one["work"] == "product"]
        self.assertTrue(products)
        self.assertAlmostEqual(sum(one["flops"] for one in products), found["product_flops"])
        self.assertGreater(found["peak_flops"], 0)
        self.assertGreater(found["share"]["product"], 0)
        self.assertIn("attention", {one["work"] for one in found["operators"]})

    def test_several_ranks(self):
        for changes in ({"distributed_type": "MULTI_CPU"}, {"distributed_type": "FSDP"}):
            found = self.measured(changes["distributed_type"].lower(), num_processes=2, **changes)
            self.check_phases(found)
            self.assertEqual(found["ranks"], 2)
            self.assertGreater(found["phases"]["exchange"]["seconds"], 0)

    def test_an_existing_output_dir_stays_as_it_is(self):
        file = self.job("run", {})
        self.launch(file)
        before = {path: path.stat().st_mtime_ns for path in (self.folder / "run").rglob("*")}
        self.profile(file, "--steps", "1", "--warmup", "0")
        self.assertEqual(before, {path: path.stat().st_mtime_ns for path in (self.folder / "run").rglob("*")})

    def test_the_text_fits_80_columns(self):
        file = self.job("run", {"distributed_type": "MULTI_CPU", "num_processes": 2})
        text = self.profile(file, "--steps", "2", "--warmup", "1").out
        self.assertEqual([line for line in text.splitlines() if len(line) > 80], [])
        for word in ("forward", "slowest rank", "aten::mm", "FLOP/s", "memory", "recording operators"):
            self.assertIn(word, text)

    def test_the_trace_keeps_the_rules_of_its_format(self):
        file, trace = self.job("run", {}), self.folder / "trace.json"
        self.profile(file, "--steps", "2", "--warmup", "1", "--trace", trace)
        events = json.loads(trace.read_text())["traceEvents"]
        open_spans, flows, complete = collections.defaultdict(list), collections.Counter(), []
        for event in events:
            self.assertIn(event["ph"], "XBEMCisftbne", event)
            self.assertIsInstance(event["name"], str)
            self.assertIn("pid", event)
            if event["ph"] != "M":
                self.assertGreaterEqual(float(event["ts"]), 0)
            if event["ph"] == "X":
                self.assertGreaterEqual(float(event["dur"]), 0)
                complete.append(event)
            if event["ph"] in "sf":
                flows[event["id"]] += 1
        # Complete events of a thread must nest; timestamps are rounded to nanoseconds.
        for event in sorted(complete, key=lambda one: (float(one["ts"]), -float(one["dur"]))):
            stack = open_spans[event["pid"], event["tid"]]
            begin, end = float(event["ts"]), float(event["ts"]) + float(event["dur"])
            while stack and stack[-1] <= begin + 0.002:
                stack.pop()
            if stack and event.get("cat") != "Trace":
                self.assertLessEqual(end, stack[-1] + 0.002, event)
            stack.append(end)
        self.assertTrue(all(count >= 2 for count in flows.values()))
        names = collections.Counter(event["name"] for event in complete)
        for phase in ("data", "forward", "backward", "clipping", "optimizer"):
            self.assertEqual(names[phase], 2, phase)
        self.assertGreater(names["aten::mm"], 0)

    def test_it_stops_when_asked(self):
        run = self.trainer("profile", self.job("run", {}), "--steps", "10000")
        until(lambda: "updates" in run.err)
        run.kill_with(signal.SIGINT)
        self.assertEqual(run.wait().code, 130, run.err)

    def test_mistakes_are_explained_together(self):
        file = self.job("run", {})
        run = self.profile(file, "--steps", "0", "--warmup", "-1", "--trace", self.folder, code=2)
        for text in ("--steps 0", "--warmup -1", "is a folder"):
            self.assertIn(text, run.err)
        several = self.job("several", {"distributed_type": "MULTI_CPU", "num_processes": 2, "num_machines": 2,
                                       "main_process_ip": "127.0.0.1", "main_process_port": 29511})
        run = self.profile(several, code=2)
        self.assertIn("measures one", run.err)
        run = self.profile(file, "--step", "1", code=2)
        self.assertIn("did you mean '--steps'?", run.err)


if __name__ == "__main__":
    unittest.main()
