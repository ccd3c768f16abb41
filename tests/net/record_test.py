"""The record: every decision and every packet is accounted for, with its agent, tool and rule."""
import subprocess
import time

import tglab
from support import agent, check, connects, eventually
from tglab import EVIL4, EVIL6, web4, web6

G4 = tglab.GATEWAY4["agent1"]


def test_query_records(lab):
    r = agent(lab, "agent1", "ask", G4, "mail.search.example", "A")
    check(r["rcode"] == 0, f"{r}")
    record = eventually(lambda: lab.records(kind="query", name="mail.search.example"), "the record")[-1]
    for key, value in (("agent", "research"), ("decision", "allow"), ("source", tglab.AGENT4["agent1"]), ("type", "A")):
        check(record.get(key) == value, f"{key}: {record.get(key)!r}")
    check("web-search" in record["tool"] and "1.4.2" in record["tool"], f"tool {record['tool']}")
    check(record["answers"] == [web4(10)], f"answers {record['answers']}")
    r = agent(lab, "agent1", "ask", G4, "record.evil.example", "A")
    ref = r["ede"][1].rsplit("ref=", 1)[1]
    record = eventually(lambda: lab.records(kind="query", ref=ref), f"the record {ref} the client was told")[-1]
    check(record["decision"] == "deny" and record["reason"] == "not-listed" and record["name"] == "record.evil.example", f"{record}")


def test_every_query_once(lab):
    before = len(lab.records(kind="query"))
    r = agent(lab, "agent1", "rounds", G4, "4", "udp", 4000, 300)
    check(r["failed"] == 0, f"{r}")
    eventually(lambda: len(lab.records(kind="query")) >= before + 300, "300 records")
    time.sleep(0.5)
    check(len(lab.records(kind="query")) == before + 300, f"{len(lab.records(kind='query')) - before} records for 300 queries")


def test_sequence_has_no_holes(lab):
    numbers = [r["sequence"] for r in lab.records()]
    check(numbers == list(range(numbers[0], numbers[0] + len(numbers))), "holes or repeats in the sequence")
    check(len(numbers) > 3, "hardly any records")


def test_denied_packets(lab):
    for address in (EVIL4, EVIL6):
        check(not connects(lab, "agent1", address, 5000, 1)[0], "reached")
        source = (tglab.AGENT6 if ":" in address else tglab.AGENT4)["agent1"]
        record = eventually(lambda a=address: lab.records(kind="denied-packet", remote=a, port=5000), f"the record for {address}")[-1]
        for key, value in (("agent", "research"), ("source", source), ("protocol", "tcp"), ("decision", "deny"), ("reason", "no-opening")):
            check(record.get(key) == value, f"{key}: {record.get(key)!r}")


def test_flow_bytes(fresh):
    lab = fresh()  # in a shared one another name may lead to the same address, and for longer
    for flag, address in (("-4", web4(20)), ("-6", web6(20))):
        p = lab.run("agent1", "curl", flag, "-sS", "-o", "/dev/null", "https://files.pkg.example/package.tar")
        check(p.returncode == 0, p.stderr)
        lab.run("gateway", "conntrack", "-D", "-f", "ipv6" if ":" in address else "ipv4", "-d", address)
        record = eventually(lambda a=address: lab.records(kind="flow", remote=a, port=443), f"the flow to {address}", 10)[-1]
        check(record["agent"] == "research" and "packages" in record["tool"], f"{record}")
        check(record["name"] == "files.pkg.example", f"name {record['name']}")
        check(100000 < record["bytes_in"] < 130000, f"bytes_in {record['bytes_in']} for a file of 100,000")
        check(300 < record["bytes_out"] < 20000, f"bytes_out {record['bytes_out']}")


def test_log_tail_follows(lab):
    p = lab.popen("gateway", lab.bin / "tidegate", "log", "tail", "-f", "-n", "0", "--directory", lab.log.parent,
                  stdout=subprocess.PIPE, text=True)
    try:
        time.sleep(0.5)
        agent(lab, "agent1", "ask", G4, "follow.evil.example", "A")
        line = p.stdout.readline()
        while "follow.evil.example" not in line:
            line = p.stdout.readline()
        check("research" in line and "not-listed" in line, line)
    finally:
        p.kill()
        p.communicate()


def test_why_and_explain_agree_with_reality(lab):
    agent(lab, "agent1", "ask", G4, "api.search.example", "A")
    p = lab.tidegate("why", web4(10))
    check(p.returncode == 0 and "api.search.example" in p.stdout and "research" in p.stdout, p.stdout + p.stderr)
    p = lab.tidegate("why", EVIL4)
    check(p.returncode == 1, f"exit {p.returncode}: {p.stdout}")
    for name, code in (("api.search.example", 0), ("steal.evil.example", 1), ("drop.paste.example", 1)):
        p = lab.tidegate("explain", "--client", tglab.AGENT4["agent1"], "--name", name)
        check(p.returncode == code, f"explain {name}: exit {p.returncode}: {p.stdout}{p.stderr}")
        r = agent(lab, "agent1", "ask", G4, name, "A")
        check((r["rcode"] == 0) == (code == 0), f"{name}: explain says {code}, the answer {r}")
