"""What net tests share: running agent.py inside a namespace, captures of the uplink, checks."""
import json
import struct
import subprocess
import sys
import time
from pathlib import Path

AGENT = Path(__file__).resolve().parent / "agent.py"


class Fail(Exception):
    pass


class Skip(Exception):
    pass


def skip(why):
    raise Skip(why)


def check(good, message):
    if not good:
        raise Fail(message)


def eventually(done, what, seconds=5.0):
    end = time.monotonic() + seconds
    while True:
        value = done()
        if value:
            return value
        if time.monotonic() > end:
            raise Fail(f"not within {seconds} s: {what}")
        time.sleep(0.02)


def agent(lab, role, *argv, timeout=120):
    p = lab.run(role, sys.executable, AGENT, *argv, timeout=timeout)
    if p.returncode:
        raise Fail(f"agent.py {' '.join(map(str, argv))}: {p.stderr.strip()[-500:]}")
    return json.loads(p.stdout)


def agent_start(lab, role, *argv):
    return lab.popen(role, sys.executable, AGENT, *map(str, argv), stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE, text=True)


def agent_result(process, timeout=120):
    out, err = process.communicate(timeout=timeout)
    if process.returncode:
        raise Fail(f"agent.py: {err.strip()[-500:]}")
    return json.loads(out)


def connects(lab, role, address, port=443, timeout=3):
    """Whether a TCP connection comes about; and how long that took to know."""
    start = time.monotonic()
    p = lab.run(role, sys.executable, "-c",
                "import socket,sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), float(sys.argv[3]))",
                address, port, timeout, timeout=timeout + 5)
    return p.returncode == 0, time.monotonic() - start


class Capture:
    """Packets on an interface of a namespace, from `with` to its end."""

    def __init__(self, lab, role="internet", interface="eth0"):
        self.lab, self.role, self.interface = lab, role, interface
        self.path = lab.dir / f"capture-{time.monotonic_ns()}.pcap"

    def __enter__(self):
        self.process = self.lab.popen(self.role, "tcpdump", "-Z", "root", "-i", self.interface, "-U",
                                      "--immediate-mode", "-s", "0", "-w", self.path,
                                      stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if "listening on" in line:
                return self
        raise Fail("tcpdump did not start")

    def __exit__(self, *_):
        time.sleep(0.15)
        self.process.terminate()
        self.process.wait()
        self.process.stderr.close()

    def packets(self):
        """(version, protocol, source, destination, transport bytes), fragments and ND left out."""
        data = self.path.read_bytes()
        i = 24
        while i + 16 <= len(data):
            size = struct.unpack("<I", data[i + 8:i + 12])[0]
            frame = data[i + 16:i + 16 + size]
            i += 16 + size
            kind, ip = frame[12:14], frame[14:]
            if kind == b"\x08\x00":
                yield 4, ip[9], ".".join(map(str, ip[12:16])), ".".join(map(str, ip[16:20])), ip[(ip[0] & 15) * 4:]
            elif kind == b"\x86\xdd":
                import ipaddress
                yield (6, ip[6], str(ipaddress.IPv6Address(ip[8:24])), str(ipaddress.IPv6Address(ip[24:40])), ip[40:])


def dns_question(message):
    """(name in the case on the wire, type, additional count, EDNS option bytes) of a query."""
    labels, i = [], 12
    while message[i]:
        labels.append(message[i + 1:i + 1 + message[i]].decode())
        i += 1 + message[i]
    qtype = struct.unpack(">H", message[i + 1:i + 3])[0]
    rest = message[i + 5:]
    return ".".join(labels), qtype, struct.unpack(">H", message[10:12])[0], rest
