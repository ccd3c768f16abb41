"""The lab itself leaves nothing behind."""
import os
import subprocess
from pathlib import Path

import tglab
from support import check


def traces(name):
    return ([str(p) for p in Path("/run/netns").glob(f"tg-{name}-*")] + [str(p) for p in Path("/etc/netns").glob(f"tg-{name}-*")]
            + [str(p) for p in tglab.RUN.glob(name)])


def test_a_failed_start_leaves_nothing(fresh):
    try:
        fresh(change=lambda text: text.replace("uplink:", "uplnk:"))
    except tglab.LabError as e:
        check("ready" in str(e), f"failed for another reason: {e}")
    else:
        check(False, "a broken configuration came up")
    check(not traces(f"t{os.getpid()}x0"), f"left behind: {traces(f't{os.getpid()}x0')}")


def test_lab_command(lab):
    tool = tglab.ROOT / "tools/lab/lab"
    p = subprocess.run([tool, "exec", "--name", lab.name, "agent1", "curl", "-sS", "https://api.search.example/"],
                       capture_output=True, text=True)
    check(p.returncode == 0 and "hello from api" in p.stdout, p.stdout + p.stderr)
    p = subprocess.run([tool, "status"], capture_output=True, text=True)
    check(f"{lab.name}: gateway ready" in p.stdout, p.stdout)
    p = subprocess.run([tool, "up", "--name", "../x"], capture_output=True, text=True)
    check(p.returncode == 1 and len(p.stderr.splitlines()) == 1, p.stderr)
    p = subprocess.run([tool, "exec", "--name", "nosuch", "agent1", "true"], capture_output=True, text=True)
    check(p.returncode == 1 and "not up" in p.stderr, p.stderr)
