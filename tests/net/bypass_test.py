"""Ways around the gateway: each over IPv4 and IPv6, judged by what the other end sees."""
import time

import tglab
from support import Capture, agent, check, connects
from tglab import AGENT4, AGENT6, EVIL4, EVIL6, FOREIGN4, FOREIGN6, web4, web6

FAMILIES = ((tglab.GATEWAY4, EVIL4, FOREIGN4, web4, AGENT4), (tglab.GATEWAY6, EVIL6, FOREIGN6, web6, AGENT6))


def resolve(lab, name="api.search.example"):
    for gateway, qtype in ((tglab.GATEWAY4["agent1"], "A"), (tglab.GATEWAY6["agent1"], "AAAA")):
        r = agent(lab, "agent1", "ask", gateway, name, qtype)
        check(r["rcode"] == 0, f"{name} {qtype}: {r}")


def refused(lab, role, address, port):
    good, took = connects(lab, role, address, port)
    check(not good, f"{role} reached {address} port {port}")
    check(took < 1.0, f"{role} to {address} port {port}: refused only after {took:.1f} s")


def test_direct_address(lab):
    for _, evil, _, _, _ in FAMILIES:
        for port in (22, 80, 443, 5000):
            refused(lab, "agent1", evil, port)
    check(not lab.echo_hits(), f"reached: {lab.echo_hits()}")


def test_c37_another_agents_opening(lab):
    resolve(lab)
    for _, _, _, web, _ in FAMILIES:
        check(connects(lab, "agent1", web(10))[0], "agent1's own opening does not work")
        refused(lab, "agent2", web(10), 443)


def test_c38_another_port_or_protocol(lab):
    resolve(lab)
    before = len(lab.echo_hits())
    for _, _, _, web, sources in FAMILIES:
        for port in (80, 8443, 22, 5000):
            refused(lab, "agent1", web(10), port)
        agent(lab, "agent1", "raw", "udp", sources["agent1"], web(10))
        agent(lab, "agent1", "flood", "0.2", web(10))
    check(len(lab.echo_hits()) == before, f"reached: {lab.echo_hits()[before:]}")


def test_c36_foreign_resolver_is_redirected(lab):
    for gateway, _, foreign, _, _ in FAMILIES:
        with Capture(lab) as capture:
            for transport in ("udp", "tcp"):
                r = agent(lab, "agent1", "ask", foreign, "steal.evil.example", "A", transport)
                check(r.get("rcode") == 3 and r["ede"], f"{foreign} {transport}: {r}")
                r = agent(lab, "agent1", "ask", foreign, "api.search.example", "A", transport)
                check(r.get("addresses") == [web4(10)], f"{foreign} {transport}: {r}")
        sent = [p for p in capture.packets() if foreign in p[2:4]]
        check(not sent, f"packets to {foreign}: {sent[:2]}")


def test_c36_encrypted_dns_is_rejected_fast(lab):
    for _, evil, foreign, _, _ in FAMILIES:
        for address in (foreign, evil):
            refused(lab, "agent1", address, 853)
    check(not lab.echo_hits(), f"reached: {lab.echo_hits()}")


def captured(lab, role_of_sender, kinds, source, *destinations):
    with Capture(lab) as capture:
        r = agent(lab, role_of_sender, "raw", kinds, source, ",".join(destinations))
        check(r["sent"] == 3 * len(kinds.split(",")) * len(destinations), f"{r}")
    return [p for p in capture.packets() if p[3] in destinations]


def test_c39_spoofed_sources(lab):
    """agent2 sends in agent1's name to what agent1 has open, and from nowhere."""
    resolve(lab)
    for _, _, _, web, sources in FAMILIES:
        agent(lab, "agent2", "ask", tglab.GATEWAY4["agent2"], "code.git.example", "A")
        check(captured(lab, "agent1", "syn443", sources["agent1"], web(10)), "the same packet from agent1 itself")
        check(not captured(lab, "agent2", "syn443", sources["agent1"], web(10)), "agent2 spoofed agent1")
        stranger = "8.8.4.4" if "." in web(10) else "2a0e:7700:99::1"
        check(not captured(lab, "agent1", "syn443", stranger, web(10)), "a stranger's source passed")


def test_c41_other_protocols(lab):
    resolve(lab)
    agent(lab, "agent1", "ask", tglab.GATEWAY4["agent1"], "api.search.example", "A")
    for _, evil, _, web, sources in FAMILIES:
        got = captured(lab, "agent1", "gre,esp,sctp,echo,proto253,udp,syn,ack443,fragment,options", sources["agent1"],
                       evil, web(10))
        check(not got, f"passed: {got[:3]}")


def test_c40_routing_header(lab):
    resolve(lab)
    agent(lab, "agent1", "ask", tglab.GATEWAY4["agent1"], "api.search.example", "A")
    check(not captured(lab, "agent1", "routing", AGENT6["agent1"], web6(10)), "a routing header passed")


def test_c42_gateway_and_neighbours(lab):
    listener = lab.popen("gateway", "python3", "-c", """
import socket, time
for f, h in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    for p in (22, 8080):
        s = socket.socket(f); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if f == socket.AF_INET6: s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        s.bind((h, p)); s.listen(5); globals()[f"s{f}{p}"] = s
time.sleep(60)
""")
    try:
        time.sleep(0.5)
        check(connects(lab, "gateway", "127.0.0.1", 22)[0], "the listener is not there")
        for gateway, _, _, _, sources in FAMILIES:
            uplink = tglab.UPLINK4 if "." in sources["agent1"] else tglab.UPLINK6
            for address in (gateway["agent1"], gateway["agent2"], uplink):
                for port in (22, 8080):
                    good, _ = connects(lab, "agent1", address, port, 0.4)
                    check(not good, f"agent1 reached the gateway's {address} port {port}")
            good, _ = connects(lab, "agent1", sources["agent2"], 22, 1)
            check(not good, "agent1 reached agent2")
    finally:
        listener.kill()
        listener.wait()


def test_unsolicited_from_the_uplink(lab):
    """The lab's internet has routes to the agents; nothing it starts may get to them."""
    for address in (AGENT4["agent1"], AGENT6["agent1"]):
        with Capture(lab, "agent1") as capture:
            good, _ = connects(lab, "internet", address, 22, 1)
            check(not good, "a connection from the internet came about")
        got = [p for p in capture.packets() if p[3] == address and p[1] in (6, 17)]
        check(not got, f"reached the agent: {got[:1]}")


def test_multicast_and_link_local(lab):
    for destination in ("ff0e::5", "ff05::1:3"):
        with Capture(lab) as capture:
            lab.run("agent1", "python3", "-c", "import socket,sys\ns=socket.socket(socket.AF_INET6,socket.SOCK_DGRAM)\n"
                    "s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 9)\n"
                    "s.sendto(b'x',(sys.argv[1],5000,0,2))", destination)
        check(not [p for p in capture.packets() if p[3] == destination], f"{destination} left the uplink")
