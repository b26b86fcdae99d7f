"""The memory of ranks asks for huge pages, which matrix products read faster."""

import os
import pathlib
import signal
import unittest
from unittest import mock

from support import EndToEnd, last_step, until

PAGES = pathlib.Path("/sys/kernel/mm/transparent_hugepage/enabled")
ASKED = "hg"  # of a mapping, in VmFlags: it asked for huge pages
SHARDED = {"distributed_type": "FSDP", "num_processes": 2,
           "fsdp_config": {"fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
                           "fsdp_transformer_layer_cls_to_wrap": "T5Block"}}
LONG = {"training": {"max_steps": 100000}, "evaluation": None, "checkpoint": {"save_steps": 0}}


def mappings_that_ask(pid):
    """Names of the mappings, such as [heap]."""
    found, name = set(), ""
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if not words[0].endswith(":"):
            name = " ".join(words[5:])
        elif words[0] == "VmFlags:" and ASKED in words:
            found.add(name)
    return found


@unittest.skipUnless(PAGES.exists(), f"this kernel has no huge pages: {PAGES} is missing")
class HugePages(EndToEnd):
    def mappings_of_a_rank(self, tunables):
        environment = {name: value for name, value in os.environ.items() if name != "GLIBC_TUNABLES"}
        if tunables:
            environment["GLIBC_TUNABLES"] = tunables
        with mock.patch.dict(os.environ, environment, clear=True):
            run = self.start(self.job("output", LONG, SHARDED))
        until(lambda: run.ended() or last_step(self.folder / "output") >= 1)
        found = mappings_that_ask(run.ranks()[1])
        run.kill_with(signal.SIGTERM)
        run.wait()
        return found

    def test_tensors_and_shared_weights_ask(self):
        found = self.mappings_of_a_rank("glibc.malloc.perturb=0")
        self.assertIn("[heap]", found)
        self.assertIn("/memfd:trainer shared weights (deleted)", found)

    def test_a_users_own_choice_stays(self):
        self.assertNotIn("[heap]", self.mappings_of_a_rank("glibc.malloc.hugetlb=0"))


if __name__ == "__main__":
    unittest.main()
