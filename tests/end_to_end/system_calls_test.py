"""Some of the system calls of a short run fail, one in each run; tools/system_calls.py makes all of them fail."""

import unittest

import failing_calls
from support import EndToEnd

# One call of each kind that once hung, crashed or misled, and of those that matter most. (The process, the function, the
# call, of how many: 0 is the first and 1 the last; the place in the list of its errors.)
POINTS = (("trainer", "send", 0, 0), ("trainer", "waitid", 0, 0), ("trainer", "waitpid", 1, 0), ("trainer", "pread", 0, 0),
          ("trainer", "flock", 0, 0), ("trainer", "fork", 1, 0), ("trainer", "open", 1, 1), ("trainer", "fsync", 0, 0),
          ("trainer", "recv", 0, 0), ("trainer-prepare", "pthread_create", 0, 0), ("trainer-prepare", "pthread_create", 1, 0),
          ("trainer-prepare", "pread", 0, 0), ("trainer-prepare", "fsync", 0.5, 1), ("rank-0", "mmap", 0, 0),
          ("rank-0", "pthread_create", 0, 0), ("rank-0", "write", 0.5, 0), ("rank-0", "rename", 0.5, 0),
          ("rank-0", "open", 0, 0))


@unittest.skipUnless(failing_calls.LIBRARY, "FAILING_CALLS_LIBRARY is not set: the path of libfailing_calls.so")
class SystemCalls(EndToEnd):
    def test_a_call_that_fails_ends_the_run_clearly_or_changes_nothing(self):
        runs = failing_calls.Runs(self.folder, self.tokenizer, ranks=1)
        self.assertLess(runs.counts["trainer", "poll"], 5000, "the launcher waits instead of looking all the time")
        struck = 0
        for process, function, place, error in POINTS:
            count = runs.counts[process, function]
            fault = failing_calls.Fault(process, function, 1 + round(place * (count - 1)),
                                        failing_calls.ERRORS[function][error])
            with self.subTest(fault=str(fault)):
                outcome = runs.fail(fault)
                self.assertEqual(outcome.problems, [], outcome.text[-2000:])
                struck += outcome.struck
        self.assertGreaterEqual(struck, len(POINTS) - 3, "counts differ from run to run only a little")


if __name__ == "__main__":
    unittest.main()
