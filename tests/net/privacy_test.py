"""What leaves the uplink: nothing for a denied name; nothing but (allowed name, type) otherwise."""
import random

import tglab
from support import Capture, agent, check, dns_question

G4, G6 = tglab.GATEWAY4["agent1"], tglab.GATEWAY6["agent1"]
EMPTY_OPT = b"\0\0\x29"


def queries(capture):
    for _, protocol, source, destination, data in capture.packets():
        if source in (tglab.UPLINK4, tglab.UPLINK6):
            yield protocol, destination, data


def test_no_packet_for_denied_names(lab):
    agent(lab, "agent1", "ask", G4, "api.search.example", "A")
    names = ("steal.evil.example", "c2VjcmV0LWRhdGE.evil.example", "db", "xn--bcher-kva.example", "drop.paste.example",
             "xapi.search.example", "_dns.resolver.arpa")
    types = ("A", "AAAA", "TXT", "HTTPS", "ANY", "NS", "65280")
    with Capture(lab) as capture:
        for server in (G4, G6):
            for transport in ("udp", "tcp"):
                answers = agent(lab, "agent1", "ask-all", server, transport, ",".join(names), ",".join(types))
                bad = {q: a for q, a in answers.items() if a["rcode"] != 3}
                check(len(answers) == len(names) * len(types) and not bad, f"{bad}")
    sent = list(queries(capture))
    check(not sent, f"{len(sent)} packets left, first to {sent[:1]}")


def test_only_name_and_type_for_allowed_names(lab):
    names = [f"P{random.randrange(10**6)}x{i}.cDn.SeArch.eXample" for i in range(20)]
    with Capture(lab) as capture:
        for name in names:
            lab.run("agent1", "dig", "+tries=1", f"@{G4}", name, "A", "+subnet=203.0.113.7/32",
                    "+cookie=0011223344556677", "+nsid", "+dnssec", "+cdflag", "+ednsopt=65001:68656c6c6f")
    asked = []
    for protocol, destination, data in queries(capture):
        check(destination in (tglab.UPSTREAM4, tglab.UPSTREAM_B4), f"a packet to {destination}")
        if protocol != 17:
            continue
        name, qtype, additional, rest = dns_question(data[8:])
        asked.append(name)
        check(name == name.lower(), f"the client's case left: {name}")
        check(qtype == 1, f"type {qtype} for {name}")
        check(additional == 1 and rest[:3] == EMPTY_OPT and rest[-2:] == b"\0\0" and len(rest) == 11,
              f"EDNS options left: {rest.hex()}")
        check(rest[5:9] == b"\0\0\0\0", f"EDNS flags of the client left: {rest.hex()}")
    wanted = {name.lower() for name in names}
    check(set(asked) == wanted, f"asked {set(asked) ^ wanted}")


def test_c35_ports_and_ids_differ(lab):
    with Capture(lab) as capture:
        lab.run("agent1", "python3", "-c", """
import sys; sys.path.insert(0, sys.argv[1]); import agent
a = agent.Asker(sys.argv[2])
for i in range(300): a.ask(f"port{i}.cdn.search.example", 1)
""", tglab.ROOT / "tests/net", G4)
    pairs = [(int.from_bytes(d[0:2], "big"), int.from_bytes(d[8:10], "big")) for p, _, d in queries(capture) if p == 17]
    check(len(pairs) >= 300, f"only {len(pairs)} queries")
    ports, ids = {p for p, _ in pairs}, {i for _, i in pairs}
    check(len(ports) > len(pairs) * 0.95, f"{len(ports)} ports in {len(pairs)} queries")
    check(len(ids) > len(pairs) * 0.95, f"{len(ids)} ids in {len(pairs)} queries")
    check(max(ports) - min(ports) > 15000, f"ports only {min(ports)}..{max(ports)}")
