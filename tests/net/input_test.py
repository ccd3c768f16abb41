"""Garbage, oversized and hostile bytes to every socket: neither crash nor slow-down."""
import os
import random
import socket
import subprocess
import time

import tglab
from support import agent, agent_result, agent_start, check, eventually

G4, G6 = tglab.GATEWAY4["agent1"], tglab.GATEWAY6["agent1"]

HOSTILE = """
import random, socket, struct, sys
random.seed(int(sys.argv[2]))
host, tcp = sys.argv[1], sys.argv[3] == "tcp"
good = bytes.fromhex("1234010000010000000000010361706906736561726368076578616d706c650000010001000029100000000000000000")[:-0 or None]
def body():
    k = random.randrange(6)
    if k == 0: return random.randbytes(random.randrange(0, 1500))
    if k == 1: return good[:random.randrange(len(good))]
    if k == 2:
        b = bytearray(good)
        for _ in range(random.randrange(1, 6)): b[random.randrange(len(b))] = random.randrange(256)
        return bytes(b)
    if k == 3: return good[:12] + bytes([0xc0, 12]) + good[13:]
    if k == 4: return good + random.randbytes(random.randrange(1, 3000))
    return good[:4] + struct.pack(">HHHH", *[random.randrange(65536) for _ in range(4)]) + good[12:]
family = socket.AF_INET6 if ":" in host else socket.AF_INET
for i in range(int(sys.argv[4])):
    try:
        if tcp:
            s = socket.create_connection((host, 53), 1)
            d = body()
            n = len(d) if random.random() < .7 else random.randrange(65536)
            s.sendall(struct.pack(">H", n) + d)
            if random.random() < .3: s.shutdown(socket.SHUT_WR)
            s.close()
        else:
            if i == 0: u = socket.socket(family, socket.SOCK_DGRAM)
            u.sendto(body(), (host, 53))
    except OSError:
        pass
"""


def pids(lab):
    return {p: lab.pid(p) for p in ("supervisor", "core", "resolver", "recorder", "control")}


def unharmed(lab, before):
    check(pids(lab) == before, f"processes died: {before} -> {pids(lab)}")
    for server in (G4, G6):
        for transport in ("udp", "tcp"):
            r = agent(lab, "agent1", "ask", server, "api.search.example", "A", transport)
            check(r.get("rcode") == 0 and r["ms"] < 200, f"{server} {transport}: {r}")


def test_hostile_dns(lab):
    before = pids(lab)
    for seed, (server, kind, count) in enumerate([(G4, "udp", 3000), (G6, "udp", 3000), (G4, "tcp", 300), (G6, "tcp", 300)]):
        p = lab.run("agent1", "python3", "-c", HOSTILE, server, seed, kind, count, timeout=90)
        check(p.returncode == 0, p.stderr)
    unharmed(lab, before)


def test_slow_and_many_tcp_clients(lab):
    before = pids(lab)
    p = lab.popen("agent1", "python3", "-c", f"""
import socket, time
held = []
for i in range(600):
    try:
        s = socket.create_connection(("{G4}", 53), 1); s.sendall(b"\\x00"); held.append(s)
    except OSError: pass
print(len(held), flush=True); time.sleep(20)
""", stdout=subprocess.PIPE, text=True)
    try:
        check(int(p.stdout.readline()) > 50, "connections were not made")
        r = agent(lab, "agent2", "ask", tglab.GATEWAY4["agent2"], "code.git.example", "A", "tcp")
        check(r.get("rcode") == 0 and r["ms"] < 500, f"another agent suffers: {r}")
        r = agent(lab, "agent1", "ask", G4, "api.search.example", "A")
        check(r.get("rcode") == 0 and r["ms"] < 200, f"UDP suffers: {r}")
    finally:
        p.kill()
        p.communicate()
    eventually(lambda: agent(lab, "agent1", "ask", G4, "api.search.example", "A", "tcp").get("rcode") == 0, "TCP again", 15)
    unharmed(lab, before)


def test_c26_pipelined_and_split_tcp(lab):
    p = lab.run("agent1", "python3", "-c", """
import sys, socket, struct, time; sys.path.insert(0, sys.argv[1]); import agent
s = socket.create_connection((sys.argv[2], 53), 3); s.settimeout(5)
want = {}
out = b""
for i in range(50):
    ident, q = agent.query(f"h{i}.rounds.search.example" if i % 2 else "steal.evil.example", 1, ident=1000 + i)
    want[ident] = 0 if i % 2 else 3
    out += struct.pack(">H", len(q)) + q
for i in range(0, len(out), 7):
    s.sendall(out[i:i + 7])
    if i % 700 == 0: time.sleep(0.005)
s.shutdown(socket.SHUT_WR)
data = b""
while True:
    more = s.recv(65536)
    if not more: break
    data += more
while data:
    n = struct.unpack(">H", data[:2])[0]
    ident, r = agent.parse(data[2:2 + n]); data = data[2 + n:]
    assert want.pop(ident) == r["rcode"], (ident, r)
assert not want, want
""", tglab.ROOT / "tests/net", G4)
    check(p.returncode == 0, p.stderr[-800:])


def test_c45_queries_from_invented_addresses(fresh):
    """Their replies wait for neighbours that never answer; nobody else's do."""
    lab = fresh(change=lambda t: t.replace("queries_per_second: 5000", "queries_per_second: 500"))
    for family, subnet, count in ((tglab.GATEWAY4, "10.77.1.", 200), (tglab.GATEWAY6, "fd77:1::", 900)):
        agent(lab, "agent1", "ask", family["agent1"], "api.search.example", "A")  # makes neighbours
        flood = agent_start(lab, "agent1", "strangers", "5", family["agent1"], subnet, count)
        time.sleep(1)
        answers = [agent(lab, "agent2", "ask", family["agent2"], "code.git.example", "A") for _ in range(20)]
        flooded = agent_result(flood)
        check(flooded["sent"] > 2000, f"the flood did not flow: {flooded}")
        lost = [a for a in answers if a.get("rcode") != 0]
        check(not lost, f"{family['agent2']}: {len(lost)} of 20 unanswered: {lost[:1]}")


def test_hostile_control(lab):
    before = pids(lab)
    random.seed(7)
    path = str(lab.dir / "run/control.sock")
    bodies = [b"", b"\n", b"{}\n", b"[]\n", b"null\n", b'{"command":1}\n', b"{" * 100000 + b"\n", b"x" * 3000000, b"\x00" * 5000 + b"\n",
              b'{"command":"openings","client":"' + b"9" * 60000 + b'"}\n', b'{"command":"why","address":"::g"}\n']
    bodies += [os.urandom(random.randrange(1, 5000)) + b"\n" for _ in range(50)]
    for body in bodies:
        s = socket.socket(socket.AF_UNIX)
        s.settimeout(2)
        try:
            s.connect(path)
            s.sendall(body)
            s.shutdown(socket.SHUT_WR)
            while s.recv(65536):
                pass
        except OSError:
            pass
        s.close()
    held = []
    for _ in range(300):  # silent connections do not keep others out for good
        s = socket.socket(socket.AF_UNIX)
        try:
            s.connect(path)
            held.append(s)
        except OSError:
            break
    for s in held:
        s.close()
    eventually(lambda: lab.status().get("ready"), "status to answer", 10)
    unharmed(lab, before)


def test_control_socket_admits_by_mode(lab):
    mode = os.stat(lab.dir / "run/control.sock").st_mode & 0o777
    check(mode & 0o007 == 0, f"mode {mode:o} lets everybody in")
    p = lab.run("gateway", "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", lab.bin / "tidegate", "status",
                "--socket", lab.dir / "run/control.sock")
    check(p.returncode == 1 and p.stderr.strip(), f"nobody was let in: {p.returncode} {p.stdout}{p.stderr}")


def test_confinement(lab):
    """What the running processes may still do, as the kernel says."""
    for process, capabilities in (("core", 1 << 12), ("resolver", 0), ("recorder", 0), ("control", 0)):
        status = dict(line.split(":\t", 1) for line in open(f"/proc/{lab.pid(process)}/status").read().splitlines() if ":\t" in line)
        check(int(status["CapEff"], 16) == capabilities, f"{process}: CapEff {status['CapEff']}")
        check(int(status["CapPrm"], 16) == capabilities, f"{process}: CapPrm {status['CapPrm']}")
        check(status["NoNewPrivs"].strip() == "1", f"{process}: may gain privileges")
        check(status["Seccomp"].strip() == "2", f"{process}: no seccomp filter")
        check(status["Uid"].split()[0] != "0", f"{process} runs as root")
    uids = {open(f"/proc/{lab.pid(p)}/status").read().split("Uid:\t")[1].split()[0] for p in ("core", "resolver", "recorder", "control")}
    check(len(uids) == 4, f"uids are shared: {uids}")
