"""`trainer env`: a page for an issue, without any secret."""

import json
import os
import subprocess
import unittest
from unittest import mock

from secrets_test import HIDDEN, planted
from support import TRAINER


class Env(unittest.TestCase):
    def env(self, *flags):
        environment = dict(entry.split("=", 1) for entry in planted())
        return subprocess.run([TRAINER, "env", *flags], env={**os.environ, **environment}, capture_output=True, text=True,
                              check=True).stdout

    def test_no_output_contains_a_secret(self):
        for output in (self.env(), self.env("--json")):
            self.assertEqual([secret for secret in HIDDEN if secret in output], [])
            self.assertIn("NCCL_PLANTED_0", output)

    def test_json_agrees_with_the_machine(self):
        facts = json.loads(self.env("--json"))
        self.assertEqual(facts["cpu"]["cores_of_the_machine"], os.cpu_count())
        self.assertEqual(facts["system"]["architecture"], os.uname().machine)
        self.assertIn(facts["program"]["version"], self.env())

    def test_it_starts_no_worker(self):
        """A worker loads libtorch, which takes as long as all else that a command does."""
        with mock.patch.dict(os.environ, {"TRAINER_WORKER": "/nothing/here"}):
            self.assertIn("libtorch", self.env())


if __name__ == "__main__":
    unittest.main()
