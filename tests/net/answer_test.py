"""What agents are told."""
import tglab
from support import agent, check, connects
from tglab import web4, web6

G4, G6 = tglab.GATEWAY4["agent1"], tglab.GATEWAY6["agent1"]


def ask(lab, name, qtype="A", server=G4, transport="udp", role="agent1"):
    return agent(lab, role, "ask", server, name, qtype, transport)


def test_allowed_on_both_families_and_transports(lab):
    for server in (G4, G6):
        for transport in ("udp", "tcp"):
            for qtype, address in (("A", web4(10)), ("AAAA", web6(10))):
                r = ask(lab, "api.search.example", qtype, server, transport)
                check(r["rcode"] == 0 and r["addresses"] == [address], f"{qtype} over {transport} from {server}: {r}")
    for address in (web4(10), web6(10)):
        good, _ = connects(lab, "agent1", address)
        check(good, f"no connection to {address}")


def test_c30_denied_at_once_with_reason(lab):
    for server in (G4, G6):
        for transport in ("udp", "tcp"):
            r = ask(lab, "steal.evil.example", "A", server, transport)
            check(r["rcode"] == 3, f"{r}")
            check(r["ede"] and r["ede"][0] == 15 and "not-listed" in r["ede"][1], f"no reason in {r}")
            check(r["ms"] < 100, f"took {r['ms']} ms")


def test_c16_case_and_dot(lab):
    for name in ("API.search.EXAMPLE", "api.search.example."):
        r = ask(lab, name)
        check(r["rcode"] == 0 and r["addresses"] == [web4(10)], f"{name}: {r}")


def test_c17_c18_wildcards_stop_at_labels(lab):
    for name, rcode in (("eu.cdn.search.example", 0), ("cdn.search.example", 3), ("a.eu.cdn.search.example", 3),
                        ("evilcdn.search.example", 3), ("xapi.search.example", 3), ("search.example", 3)):
        r = ask(lab, name)
        check(r["rcode"] == rcode, f"{name}: {r}")


def test_c22_search_list_names(lab):
    for name in ("db", "db.corp.example.com.lan", "api.search.example.lan"):
        r = ask(lab, name)
        check(r["rcode"] == 3 and r["ms"] < 100, f"{name}: {r}")


def test_c23_chains(lab):
    r = ask(lab, "www.search.example")
    check(r["addresses"] == [web4(10)], f"one hop: {r}")
    r = ask(lab, "partner.search.example")
    check(r["addresses"] == [web4(20)], f"a chain to another domain is decided by the name asked: {r}")
    r = ask(lab, "c4.search.example")  # c4..c12: eight hops
    check(r["rcode"] == 0 and r["addresses"] == [web4(10)], f"eight hops: {r}")
    r = ask(lab, "c1.search.example")  # eleven
    check(r["rcode"] != 0 and not r["addresses"], f"eleven hops: {r}")
    r = ask(lab, "hop.search.example")
    check(r["rcode"] == 3 and "chain-denied" in r["ede"][1], f"a denied hop: {r}")


def test_c34_forbidden_addresses_refuse_the_whole(lab):
    for name in ("inside.search.example", "meta.search.example", "mixed.search.example"):
        r = ask(lab, name)
        check(r["rcode"] == 3 and not r["addresses"] and "rebinding" in r["ede"][1], f"{name}: {r}")
    check(not [o for o in lab.openings() if o["name"] == "mixed.search.example"], "mixed opened something")


def test_c28_https_and_svcb_are_nodata(lab):
    for qtype in ("HTTPS", "SVCB"):
        r = ask(lab, "api.search.example", qtype)
        check(r["rcode"] == 0 and not r["addresses"], f"{qtype}: {r}")


def test_c29_other_types_need_the_manifest(lab):
    for qtype in ("TXT", "MX", "NS", "10", "65280"):
        r = ask(lab, "api.search.example", qtype)
        check(r["rcode"] == 0 and not r["addresses"] and r["ede"], f"{qtype}: {r}")
    p = lab.run("agent1", "dig", "+short", f"@{G4}", "mail.search.example", "MX")
    check(p.stdout.split() == ["10", "api.search.example."], f"listed MX: {p.stdout!r}")


def test_c25_many_addresses_truncate_then_tcp(lab):
    r = ask(lab, "many.pkg.example")
    check(r["tc"] and not r["addresses"], f"over UDP: {r}")
    r = ask(lab, "many.pkg.example", transport="tcp")
    check(len(r["addresses"]) == len(tglab.MANY), f"over TCP: {len(r['addresses'])} addresses")
    for address in (r["addresses"][0], r["addresses"][-1]):
        check(connects(lab, "agent1", address)[0], f"no connection to {address}")
    p = lab.run("agent1", "dig", "+short", f"@{G4}", "large.pkg.example", "TXT")
    check(p.stdout.count("x") == 14 * 250, f"large TXT: {len(p.stdout)} characters")


def test_c31_no_aaaa_is_nodata(lab):
    r = ask(lab, "v4only.search.example", "AAAA")
    check(r["rcode"] == 0 and not r["addresses"], f"{r}")


def test_reverse_from_own_openings_only(lab):
    ask(lab, "api.search.example")
    name = ".".join(reversed(web4(10).split("."))) + ".in-addr.arpa"
    p = lab.run("agent1", "dig", "+short", f"@{G4}", name, "PTR")
    check(p.stdout.strip() != "" and p.stdout.strip().endswith(".example."), f"own opening: {p.stdout!r}")
    r = ask(lab, name, "PTR", server=tglab.GATEWAY4["agent2"], role="agent2")
    check(r["rcode"] == 3, f"another's opening: {r}")


def test_c09_ttl_floor_and_ceiling(lab):
    r = ask(lab, "zero.search.example")
    check(r["rcode"] == 0 and 1 <= r["ttl"] <= 5, f"TTL 0: {r}")
    check(connects(lab, "agent1", r["addresses"][0])[0], "no connection after a TTL of 0")
    r = ask(lab, "long.search.example")
    check(3590 <= r["ttl"] <= 3600, f"TTL of ten days: {r}")


def test_canary(lab):
    for name in ("use-application-dns.net", "mask.icloud.com", "mask-h2.icloud.com"):
        r = ask(lab, name)
        check(r["rcode"] == 3 and "canary" in r["ede"][1], f"{name}: {r}")


def test_unknown_client_is_refused(lab):
    lab.ip("agent1", "address", "add", "10.77.1.200/24", "dev", "eth0")
    try:
        p = lab.run("agent1", "dig", "-b", "10.77.1.200", "+tries=1", f"@{G4}", "api.search.example")
        check("REFUSED" in p.stdout and "EDE: 18" in p.stdout, p.stdout)
    finally:
        lab.ip("agent1", "address", "del", "10.77.1.200/24", "dev", "eth0")
