"""record_status.py FILE COMMAND …: runs the command, which gets the signals of this process group, and writes its exit
code to FILE, or -N when signal N killed it."""

import os
import signal
import sys

file, *command = sys.argv[1:]
child = os.fork()
if child == 0:
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it
    os.execvp(command[0], command)
for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
    signal.signal(each, signal.SIG_IGN)
code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
with open(file + ".new", "w") as out:
    out.write(str(code))
os.rename(file + ".new", file)
