#!/usr/bin/env python3
"""Stands in for the service manager in the lab: starts a program again 100 ms after it dies, as the
unit file does (Restart=always, RestartSec=100ms); SIGTERM ends the program and then itself."""
import signal
import subprocess
import sys
import time

ending = False
child = None


def end(_sig, _frame):
    global ending
    ending = True
    if child and child.poll() is None:
        child.terminate()


signal.signal(signal.SIGTERM, end)
while not ending:
    child = subprocess.Popen(sys.argv[1:])
    status = child.wait()
    if status == 78:  # EX_CONFIG: starting again would not help (RestartPreventExitStatus=78)
        sys.exit(78)
    if not ending:
        time.sleep(0.1)
