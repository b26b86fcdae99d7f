"""Some of the system calls of a short run fail, one in each run; tools/system_calls.py makes all of them fail."""

import errno
import unittest

import failing_calls
from support import EndToEnd

# One call of each kind that once hung, crashed or misled, and of those that matter most. (The process, the function, the
# call, of how many: 0 is the first and 1 the last; the place in the list of its errors.)
POINTS = (("trainer", "send", 0, 0), ("trainer", "waitid", 0, 0), ("trainer", "waitpid", 1, 0), ("trainer", "pread", 0, 0),
          ("trainer", "flock", 0, 0), ("trainer", "flock", 0, 1), ("trainer", "write", 0, 0), ("trainer", "write", 0.5, 1),
          ("trainer", "write", 1, 2), ("trainer", "fork", 1, 0), ("trainer", "open", 1, 1), ("trainer", "fsync", 0, 0),
          ("trainer", "recv", 0, 0), ("trainer-prepare", "pthread_create", 0, 0), ("trainer-prepare", "pthread_create", 1, 0),
          ("trainer-prepare", "pread", 0, 0), ("trainer-prepare", "fsync", 0.5, 1), ("rank-0", "mmap", 0, 0),
          ("rank-0", "pthread_create", 0, 0), ("rank-0", "write", 0.5, 0), ("rank-0", "rename", 0.5, 0),
          ("rank-0", "open", 0, 0))

# Calls of the launchers' meeting: the leader's, trainer, and the follower's, trainer-1.
MEETING = (("trainer", "listen", 0), ("trainer", "accept", 0), ("trainer", "accept", 2), ("trainer", "recv", 0),
           ("trainer", "send", 0), ("trainer-1", "socket", 0), ("trainer-1", "connect", 0), ("trainer-1", "recv", 1),
           ("trainer-1", "send", 0))


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
                if fault.error == errno.ENOLCK:
                    self.assertEqual(outcome.kind, "exit 4")
                    self.assertIn("this file system has no locks (on Lustre, they need the mount option `flock`)", outcome.text)
                struck += outcome.struck
        self.assertGreaterEqual(struck, len(POINTS) - 3, "counts differ from run to run only a little")


    def test_meeting_of_two_machines(self):
        runs = failing_calls.Runs(self.folder, self.tokenizer, ranks=2, machines=2)
        for process, function, error in MEETING:
            count = runs.counts[process, function]
            for call in {1, count}:
                fault = failing_calls.Fault(process, function, call, failing_calls.ERRORS[function][error])
                with self.subTest(fault=str(fault)):
                    outcome = runs.fail(fault)
                    self.assertEqual(outcome.problems, [], outcome.text[-2000:])


if __name__ == "__main__":
    unittest.main()
