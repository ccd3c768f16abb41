"""Order of answer and opening."""
import tglab
from support import agent, check


def rounds(lab, family, transport, first, count):
    gateway = (tglab.GATEWAY6 if family == "6" else tglab.GATEWAY4)["agent1"]
    r = agent(lab, "agent1", "rounds", gateway, family, transport, first, count, timeout=180)
    check(r["failed"] == 0, f"{r['failed']} of {count} rounds failed, first: {r['why']}")
    check(r["lost_syn"] == 0, f"{r['lost_syn']} of {count} lost their first SYN")
    check(r["slowest_ms"] < 900, f"slowest connect {r['slowest_ms']} ms: a retransmission")


def test_c01_no_first_syn_lost_udp4(lab):
    rounds(lab, "4", "udp", 0, 2500)


def test_c01_no_first_syn_lost_tcp4(lab):
    rounds(lab, "4", "tcp", 2500, 2500)


def test_c01_no_first_syn_lost_udp6(lab):
    rounds(lab, "6", "udp", 0, 2500)


def test_c01_no_first_syn_lost_tcp6(lab):
    rounds(lab, "6", "tcp", 2500, 2500)
