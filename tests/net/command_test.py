"""What the command tells of a gateway that runs."""
import json

import tglab
from support import agent, check
from tglab import web4, web6

G4, G6 = tglab.GATEWAY4["agent2"], tglab.GATEWAY6["agent2"]
A4, A6 = tglab.AGENT4["agent2"], tglab.AGENT6["agent2"]
ANSWERS = {"NOERROR": (0, True), "NODATA": (0, False), "NXDOMAIN": (3, False)}

# agent2 has more IPv6 addresses than can be opened for a question over IPv4.
POLICY = {
    "agents.yaml": f"""agents:
  - {{ agent: builder, sources: [{A4}, "fd77:2::/64"], tools: [git, fixed] }}
deny: ["*.paste.example", code2.git.example]
""",
    "tools/fixed.yaml": f"""tool: fixed
version: 1
endpoints:
  - {{ address: {web4(20)}, protocol: http }}
  - {{ address: "{web6(0)}/120", protocol: tcp, port: 8443 }}
""",
}


def test_explain_says_what_is_answered(fresh):
    lab = fresh(policy=POLICY)
    for client, server, name, qtype, reason in (
            (A4, G4, "code.git.example", "A", "allowed"), (A6, G6, "Code.Git.Example.", "AAAA", "allowed"),
            (A6, G6, "code.git.example", "A", "allowed"), (A4, G4, "code.git.example", "AAAA", "no-family"),
            (A4, G4, "code.git.example", "MX", "type-not-listed"), (A4, G4, "code.git.example", "HTTPS", "type-bypass"),
            (A4, G4, "code2.git.example", "A", "deny-list"), (A4, G4, "x.code.git.example", "A", "not-listed"),
            (A6, G6, "use-application-dns.net", "A", "canary"), (A4, G4, "9.9.9.9.in-addr.arpa", "PTR", "ptr-unknown")):
        p = lab.tidegate("explain", "--client", client, "--name", name, "--type", qtype, "--json")
        told = json.loads(p.stdout)
        check(told["reason"] == reason and p.returncode == (reason != "allowed"), f"{name} {qtype}: {p.stdout}")
        r = agent(lab, "agent2", "ask", server, name, qtype)
        check((r["rcode"], bool(r["addresses"])) == ANSWERS[told["answer"]], f"{name} {qtype}: {told} but {r}")
        record = lab.records(kind="query")[-1]
        check(record["reason"] == reason, f"{name} {qtype}: recorded {record['reason']}")


def test_address_endpoints_are_listed_once(fresh):
    lab = fresh(policy=POLICY)
    for address, port in ((web4(20), 80), (web6(10), 8443)):
        p = lab.tidegate("why", address, "--json")
        found = json.loads(p.stdout)["openings"]
        check(len(found) == 1 and found[0]["static"] and found[0]["port"] == port, f"why {address}: {p.stdout}")
        check(found[0]["agent"] == "builder" and found[0]["rule"].startswith("tools/fixed.yaml:"), p.stdout)
    check(len(lab.openings()) == 2, f"{lab.openings()}")


def test_absent_interface_is_told(fresh):
    lab = fresh()
    lab.config.write_text(lab.config.read_text().replace("interface: eth2", "interface: eth9"))
    p = lab.tidegate("reload")
    said = (lab.dir / "gateway.out").read_text()
    check(p.returncode == 0 and "there is no interface eth9" in said, p.stderr + said)
