"""Deny stands through everything; service comes back by itself."""
import ctypes
import os
import signal
import socket
import subprocess
import time

import tglab
from support import Fail, agent, agent_result, agent_start, check, connects, eventually, skip
from tglab import EVIL4, EVIL6, web4, web6

G4 = tglab.GATEWAY4["agent1"]


def kill_under_load(lab, process):
    pid = lab.pid(process)
    check(pid, f"no process {process}")
    flood = agent_start(lab, "agent1", "flood", "5", EVIL4, EVIL6)
    load = agent_start(lab, "agent1", "serve-load", G4, "5")
    time.sleep(1.5)
    os.kill(pid, signal.SIGKILL)
    killed = time.monotonic()
    eventually(lambda: lab.pid(process) not in (None, pid), f"{process} to be started again", 4)
    flooded, served = agent_result(flood), agent_result(load)
    check(flooded["sent"] > 500, f"the flood did not flow: {flooded}")
    check(not lab.echo_hits(), f"denied packets passed: {lab.echo_hits()[:3]}")
    check(served["longest_gap_ms"] <= 2000, f"service was away for {served['longest_gap_ms']} ms")
    check(served["good"] > 50, f"{served}")
    lab.wait_ready(5)
    return time.monotonic() - killed


def test_c49_kill_resolver(fresh):
    kill_under_load(fresh(), "resolver")


def test_c49_kill_core(fresh):
    lab = fresh()
    agent(lab, "agent1", "ask", G4, "api.search.example", "A")
    kill_under_load(lab, "core")
    check(connects(lab, "agent1", web4(10))[0], "a live opening did not survive core's death")
    names = {o["name"] for o in lab.openings()}
    check("api.search.example" in names, f"the successor did not adopt it: {names}")


def test_c49_kill_recorder(fresh):
    kill_under_load(fresh(), "recorder")


def test_c49_kill_control(fresh):
    kill_under_load(fresh(), "control")


def test_c49_kill_supervisor(fresh):
    """The service manager's part is played by the lab (Restart=always, 100 ms)."""
    kill_under_load(fresh(), "supervisor")


def test_c48_acknowledgement_for_a_dead_resolver(fresh):
    """Core answers late what a killed resolver asked: its successor must not take that for its own ask,
    which core will refuse (more addresses than the client may have)."""
    lab = fresh(change=lambda t: t.replace("openings_per_client: 20000", "openings_per_client: 1"))
    core, resolver = lab.pid("core"), lab.pid("resolver")
    os.kill(core, signal.SIGSTOP)
    try:
        first = agent_start(lab, "agent1", "ask", G4, "api.search.example", "A")
        time.sleep(0.4)
        os.kill(resolver, signal.SIGKILL)
        eventually(lambda: lab.pid("resolver") not in (None, resolver), "a successor")
        second = agent_start(lab, "agent1", "ask", G4, "many.pkg.example", "A", "tcp")
        time.sleep(0.4)
    finally:
        os.kill(core, signal.SIGCONT)
    r = agent_result(second)
    first.kill()
    check(lab.openings(), "core never saw the first ask")
    check(r["rcode"] == 2 and not r["addresses"], f"told without an opening: {r}")


def descriptor_of(pid, number):
    """A descriptor of another process (pidfd_getfd(2)), as a socket."""
    process = os.pidfd_open(pid)
    got = ctypes.CDLL(None, use_errno=True).syscall(438, process, number, 0)
    os.close(process)
    check(got >= 0, f"pidfd_getfd: errno {ctypes.get_errno()}")
    return socket.socket(fileno=got)


def test_channels_that_a_process_shut_down(fresh):
    """It costs that process and the one at the other end a restart, and nobody else anything. Descriptor
    3 of each leads to core, or the supervisor; 4 of the resolver leads to the recorder."""
    lab = fresh()
    ends = (("resolver", 3, "core"), ("resolver", 4, "recorder"), ("recorder", 3, "core"),
            ("control", 3, "core"), ("core", 3, "core"))
    for process, number, other in ends:
        before = lab.pid(process), lab.pid(other)
        with descriptor_of(before[0], number) as channel:
            channel.shutdown(socket.SHUT_RDWR)
        agent(lab, "agent1", "ask", G4, "steal.evil.example", "A")  # makes use of the channels
        eventually(lambda: lab.pid(process) not in (None, before[0])
                   and lab.pid(other) not in (None, before[1]), f"{process} and {other} to be back", 8)
        eventually(lambda: agent(lab, "agent1", "ask", G4, "api.search.example", "A").get("rcode") == 0,
                   f"service after {process} shut channel {number}", 8)
        lab.wait_ready(5)
    lab.stop_gateway()
    check("stopped" in (lab.dir / "gateway.out").read_text(), "no orderly stop")


def test_sigterm_leaves_it_closed(fresh):
    lab = fresh()
    agent(lab, "agent1", "ask", G4, "api.search.example", "A")
    lab.stop_gateway()
    eventually(lambda: not lab.pid("supervisor") and not lab.pid("core"), "all processes to end")
    check("policy drop" in lab.run("gateway", "nft", "list", "chain", "inet", "tidegate", "forward").stdout,
          "the ruleset is gone")
    for address in (EVIL4, EVIL6):
        check(not connects(lab, "agent1", address, 5000, 1)[0], "open after the stop")
    check(not lab.echo_hits(), "packets passed")
    lab.start_gateway()
    check(agent(lab, "agent1", "ask", G4, "api.search.example", "A")["rcode"] == 0, "not serving after a new start")


def broken_by_hand(lab, *nft):
    """A hand breaks the ruleset; nothing denied passes and all is whole again within 2 s."""
    agent(lab, "agent1", "ask", G4, "api.search.example", "A")
    check(connects(lab, "agent1", web4(10))[0], "not open at first")
    flood = agent_start(lab, "agent1", "flood", "4", EVIL4, EVIL6)
    time.sleep(0.7)
    before = lab.status().get("repairs", 0)
    p = lab.run("gateway", "nft", *nft)
    check(p.returncode == 0, f"nft {' '.join(nft)}: {p.stderr}")
    broken = time.monotonic()
    eventually(lambda: lab.status().get("repairs", 0) > before, "the repair", 2)
    check(connects(lab, "agent1", web4(10), timeout=1)[0], "the opening is not back")
    took = time.monotonic() - broken
    check(took <= 2, f"whole again only after {took:.1f} s")
    flooded = agent_result(flood)
    check(flooded["sent"] > 500, f"{flooded}")
    check(agent(lab, "agent1", "ask", G4, "api.search.example", "A")["rcode"] == 0, "not answering")
    eventually(lambda: lab.records(kind="loss"), "a record of it")


def test_c53_flush_ruleset(fresh):
    lab = fresh()
    broken_by_hand(lab, "flush", "ruleset")
    check(not lab.echo_hits(), f"passed meanwhile: {lab.echo_hits()[:3]}")


def test_c53_delete_table(fresh):
    lab = fresh()
    broken_by_hand(lab, "delete", "table", "inet", "tidegate")
    check(not lab.echo_hits(), f"passed meanwhile: {lab.echo_hits()[:3]}")


def test_c53_flush_chain(fresh):
    lab = fresh()
    broken_by_hand(lab, "flush", "chain", "inet", "tidegate", "forward")
    check(not lab.echo_hits(), f"passed meanwhile: {lab.echo_hits()[:3]}")


def test_c53_foreign_accept_rule_is_removed(fresh):
    """Root can open what it likes; the gateway notices and takes it back."""
    lab = fresh()
    broken_by_hand(lab, "insert", "rule", "inet", "tidegate", "forward", "accept")
    hits = len(lab.echo_hits())
    agent(lab, "agent1", "flood", "0.5", EVIL4, EVIL6)
    check(len(lab.echo_hits()) == hits, "still open")


def test_other_tables_are_left_alone(lab):
    lab.run("gateway", "nft", "add", "table", "ip", "mine")
    lab.run("gateway", "nft", "add", "chain", "ip", "mine", "x")
    time.sleep(0.6)
    check("chain x" in lab.run("gateway", "nft", "list", "table", "ip", "mine").stdout, "another's table was changed")
    check(agent(lab, "agent1", "ask", G4, "api.search.example", "A")["rcode"] == 0, "not answering")
    lab.run("gateway", "nft", "delete", "table", "ip", "mine")


def test_barrier_is_repaired(fresh):
    lab = fresh()
    lab.run("gateway", "ip", "rule", "flush")
    lab.run("gateway", "ip", "rule", "add", "lookup", "main", "priority", "32766")
    eventually(lambda: "blackhole" in lab.run("gateway", "ip", "rule").stdout, "the routing barrier", 5)


def test_c54_stale_openings_are_removed_at_start(fresh):
    lab = fresh()
    lab.stop_gateway()
    p = lab.run("gateway", "nft", "add", "element", "inet", "tidegate", "open4",
                "{ 10.77.1.17 . %s . tcp . 5000 timeout 1h : 0x00990099 }" % EVIL4)
    check(p.returncode == 0, p.stderr)
    check(connects(lab, "agent1", EVIL4, 5000, 1)[0], "the element does nothing: nothing is tested")
    lab.start_gateway()
    left = lab.run("gateway", "nft", "list", "map", "inet", "tidegate", "open4").stdout
    check(EVIL4 not in left, "a stale opening survived the start")
    hits = len(lab.echo_hits())
    check(not connects(lab, "agent1", EVIL4, 5000, 1)[0], "still open")
    check(len(lab.echo_hits()) == hits, "a packet passed")


def test_c55_interface_appears_late(fresh):
    lab = fresh(gateway=False)
    lab.ip("gateway", "link", "set", "eth1", "name", "away1")
    lab.start_gateway()
    check(not connects(lab, "agent1", EVIL4, 5000, 1)[0] and not lab.echo_hits(), "open through an unknown interface")
    lab.ip("gateway", "link", "set", "away1", "down")
    lab.ip("gateway", "link", "set", "away1", "name", "eth1")
    lab.ip("gateway", "link", "set", "eth1", "up")
    lab.ip("gateway", "-6", "address", "replace", "fd77:1::1/64", "dev", "eth1", "nodad")
    eventually(lambda: agent(lab, "agent1", "ask", G4, "api.search.example", "A").get("rcode") == 0, "service", 5)
    check(connects(lab, "agent1", web4(10))[0], "no connection")


def served(lab):
    """Both families: an answer, and a connection to what it says."""
    for gateway, qtype, address in ((G4, "A", web4(10)), (tglab.GATEWAY6["agent1"], "AAAA", web6(10))):
        if agent(lab, "agent1", "ask", gateway, "api.search.example", qtype, timeout=20).get("rcode") != 0:
            return False
        if not connects(lab, "agent1", address, timeout=1)[0]:
            return False
    return True


def denied_throughout(lab, *steps):
    """Takes the steps, and packets that no rule allows flow all the while. None may arrive."""
    flood = agent_start(lab, "agent1", "flood", "4", EVIL4, EVIL6)
    time.sleep(0.5)
    for step in steps:
        step()
        time.sleep(0.7)
    flooded = agent_result(flood)
    check(flooded["sent"] > 500, f"the flood did not flow: {flooded}")
    check(not lab.echo_hits(), f"denied packets passed: {lab.echo_hits()[:3]}")


def test_c55_interface_is_renamed_and_comes_back(fresh):
    lab = fresh()
    check(served(lab), "not serving at first")

    def rename(old, new):
        lab.ip("gateway", "link", "set", old, "down")
        lab.ip("gateway", "link", "set", old, "name", new)
        lab.ip("gateway", "link", "set", new, "up")
        lab.ip("gateway", "-6", "address", "replace", f"{tglab.GATEWAY6['agent1']}/64", "dev", new, "nodad")

    def under_another_name():
        rename("eth1", "away1")
        check(not connects(lab, "agent1", web4(10), timeout=1)[0], "an opening holds for another interface")
        check(not served(lab), "served through an interface of another name")

    denied_throughout(lab, under_another_name, lambda: rename("away1", "eth1"))
    eventually(lambda: served(lab), "service", 10)


def test_c55_addresses_go_and_come_back(fresh):
    lab = fresh()
    check(served(lab), "not serving at first")

    def agents_side():
        lab.ip("gateway", "address", "flush", "dev", "eth1")
        check(not connects(lab, "agent1", EVIL4, 5000, 1)[0], "open without an address")
        lab._address("gateway", "eth1", f"{G4}/24", f"{tglab.GATEWAY6['agent1']}/64")

    def uplink():
        lab.ip("gateway", "address", "flush", "dev", "eth0")
        check(not connects(lab, "agent1", web4(10), timeout=1)[0], "a connection without an uplink address")
        lab._address("gateway", "eth0", f"{tglab.UPLINK4}/24", f"{tglab.UPLINK6}/64")
        lab.ip("gateway", "route", "add", "default", "via", "185.199.0.1")
        lab.ip("gateway", "-6", "route", "replace", "default", "via", "2a0e:7700::1")

    denied_throughout(lab, agents_side, uplink)
    eventually(lambda: served(lab), "service", 10)


def test_c57_disk_full_stops_new_openings(fresh):
    lab = fresh(gateway=False)
    log = lab.dir / "log"
    log.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tidegate-test", str(log)]).returncode:
        skip("no tmpfs can be mounted here")
    try:
        lab.start_gateway()
        check(agent(lab, "agent1", "ask", G4, "h1.rounds.search.example", "A")["rcode"] == 0, "not serving")
        filler = log / "filler"
        with open(filler, "wb", buffering=0) as f:
            try:
                while f.write(b"\0" * 4096):
                    pass
            except OSError:
                pass
        def refused():
            r = agent(lab, "agent1", "ask", G4, f"h{int(time.monotonic() * 1000) % 4000}.rounds.search.example", "A")
            return r.get("rcode") == 2 and r["ede"] and "log-full" in r["ede"][1]
        eventually(refused, "refusal of new openings", 8)
        check(agent(lab, "agent1", "ask", G4, "steal.evil.example", "A")["rcode"] == 3, "denial is not a matter of the log")
        check(not lab.status().get("log_ok", True), "status does not show it")
        filler.unlink()
        eventually(lambda: agent(lab, "agent1", "ask", G4, "h77.rounds.search.example", "A").get("rcode") == 0,
                   "service to resume", 8)
        eventually(lambda: lab.records(kind="loss"), "a record of it", 5)
    finally:
        lab.down()
        if subprocess.run(["umount", str(log)], capture_output=True).returncode:
            subprocess.run(["umount", "-l", str(log)], capture_output=True)
        lab.down()


def test_upstream_failover(fresh):
    lab = fresh()
    lab.stop("unbound-a", signal.SIGKILL)
    for i in range(5):
        r = agent(lab, "agent1", "ask", G4, f"h{i}.rounds.search.example", "A")
        check(r.get("rcode") == 0, f"one upstream is left, yet {r}")
    lab.stop("unbound-b", signal.SIGKILL)
    r = agent(lab, "agent1", "ask", G4, "h900.rounds.search.example", "A", timeout=15)
    if "error" not in r:
        check(r["rcode"] == 2 and r["ede"] and r["ede"][0] in (22, 23), f"{r}")
    lab.start_upstreams()
    eventually(lambda: agent(lab, "agent1", "ask", G4, "h901.rounds.search.example", "A").get("rcode") == 0, "recovery", 15)


def test_two_gateways_side_by_side(fresh):
    a, b = fresh(), fresh()
    for lab in (a, b):
        check(agent(lab, "agent1", "ask", G4, "api.search.example", "A")["rcode"] == 0, f"{lab.name} does not answer")
    a.down()
    check(agent(b, "agent1", "ask", G4, "api.search.example", "A")["rcode"] == 0, "the other lab went with it")
