"""How long openings live."""
import subprocess
import time

import tglab
from support import agent, check, connects, eventually
from tglab import web4, web6

G4 = tglab.GATEWAY4["agent1"]


def ask(lab, name, qtype="A"):
    return agent(lab, "agent1", "ask", G4, name, qtype)


def test_c08_c11_expiry_and_download(lab):
    """The opening ends; a running download does not; a new flow needs a new answer, which opens again."""
    for qtype, address, flag in (("A", web4(11), "-4"), ("AAAA", web6(11), "-6")):
        r = ask(lab, "slow.search.example", qtype)
        check(r["addresses"] == [address] and r["ttl"] <= 5, f"{r}")
        download = lab.popen("agent1", "curl", flag, "-sS", "--max-time", "40", "-o", "/dev/null", "-w", "%{size_download}",
                             "https://slow.search.example/slow", stdout=subprocess.PIPE, text=True)
        time.sleep(9)
        check(not connects(lab, "agent1", address)[0], f"{address}: still open after its time")
        check(download.poll() is None, "the download ended before its opening: nothing was tested")
        r = ask(lab, "slow.search.example", qtype)
        check(connects(lab, "agent1", address)[0], "a new answer does not open again")
        size = download.communicate(timeout=40)[0]
        check(download.returncode == 0 and size == "240000", f"{download.returncode}: {size} bytes")


def test_c07_an_answer_extends_the_deadline(lab):
    ask(lab, "short.search.example")
    time.sleep(4)
    for _ in range(4):  # asked again and again it must not end
        r = ask(lab, "short.search.example")
        check(connects(lab, "agent1", r["addresses"][0])[0], "closed although just answered")
        time.sleep(2)


def test_c12_grace_after_the_ttl(lab):
    r = ask(lab, "short.search.example")
    time.sleep(r["ttl"] + 0.7)  # the client's cache ends now; grace is 2 s
    check(connects(lab, "agent1", r["addresses"][0])[0], "no grace")


def test_ttl_never_outlives_the_opening(lab):
    end = time.monotonic() + 8
    while time.monotonic() < end:
        r = ask(lab, "short.search.example")
        mine = [o for o in lab.openings("--client", tglab.AGENT4["agent1"]) if o["remote"] == r["addresses"][0]]
        check(mine, "answered without an opening")
        check(r["ttl"] <= min(o["remaining"] for o in mine), f"TTL {r['ttl']}, opening {mine}")
        time.sleep(0.3)


def test_c13_families_are_independent(lab):
    ask(lab, "api.search.example", "A")
    r = ask(lab, "v4only.search.example", "AAAA")
    check(r["rcode"] == 0, f"{r}")
    ask(lab, "api.search.example", "AAAA")
    check(connects(lab, "agent1", web4(10))[0] and connects(lab, "agent1", web6(10))[0], "one family evicted the other")


def test_c14_reload_cuts_only_what_it_revokes(fresh):
    lab = fresh()
    slow, other = (lab.popen("agent1", "curl", "-sS", "--max-time", "40", "-o", "/dev/null", "-w", "%{size_download}",
                             f"https://{host}/slow", stdout=subprocess.PIPE, text=True)
                   for host in ("slow.search.example", "files.pkg.example"))
    for name, qtype in (("slow.search.example", "A"), ("slow.search.example", "AAAA")):
        ask(lab, name, qtype)
    time.sleep(1)
    tool = lab.policy / "tools/web-search.yaml"
    tool.write_text("".join(s for s in tool.read_text().splitlines(True) if "slow." not in s))
    p = lab.tidegate("reload")
    check(p.returncode == 0, f"reload: {p.stdout}{p.stderr}")
    for address in (web4(11), web6(11)):
        check(not connects(lab, "agent1", address)[0], f"{address} is still open")
    flows = "".join(lab.run("gateway", "conntrack", "-L", "-f", f, "-d", a).stdout
                    for f, a in (("ipv4", web4(11)), ("ipv6", web6(11))))
    check("ESTABLISHED" not in flows, f"flow of a revoked endpoint: {flows}")
    check(ask(lab, "slow.search.example")["rcode"] == 3, "the name is still answered")
    size = other.communicate(timeout=40)[0]
    check(other.returncode == 0 and size == "240000", f"the other download was touched: {other.returncode} {size}")
    check(slow.poll() is None or slow.returncode != 0, "the revoked download finished")
    slow.kill()
    slow.communicate()


def test_reload_loses_no_query(lab):
    load = lab.popen("agent1", "python3", tglab.ROOT / "tests/net/agent.py", "serve-load", G4, "4",
                     stdout=subprocess.PIPE, text=True)
    manifest = lab.policy / "tools/git.yaml"
    before = manifest.read_text()
    try:
        for i in range(8):
            manifest.write_text(before + f"  - {{ name: r{i}.git.example, protocol: https, data: public }}\n")
            check(lab.tidegate("reload").returncode == 0, "reload failed")
            time.sleep(0.3)
    finally:
        manifest.write_text(before)
        lab.tidegate("reload")
    import json
    r = json.loads(load.communicate(timeout=30)[0])
    check(r["bad"] == 0 and r["good"] > 100, f"{r}")


def test_c51_bad_manifest_changes_nothing(lab):
    bad = lab.policy / "tools/broken.yaml"
    for text, part in (("tool: x\nversion: [\n", "broken.yaml:"), ("tool: x\nversion: 1\nendpoints:\n  - { nam: a.b }\n", "broken.yaml:4:"),
                       ("\x00\x01", "broken.yaml:"), ("", "broken.yaml:")):
        bad.write_text(text)
        p = lab.tidegate("reload")
        bad.unlink()
        check(p.returncode == 1 and part in p.stdout + p.stderr, f"{text!r}: exit {p.returncode}: {p.stdout}{p.stderr}")
        check(ask(lab, "api.search.example")["rcode"] == 0, "the last good policy is gone")
    eventually(lambda: lab.records(kind="policy", decision="deny") or lab.records(kind="policy"), "a record of it")
