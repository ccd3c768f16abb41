#!/usr/bin/env python3
"""Runs inside an agent's namespace, as the code an agent would run. Each verb prints one JSON line.

  rounds GATEWAY FAMILY TRANSPORT FIRST COUNT   resolve hN.rounds.search.example, connect at once
  flood SECONDS ADDRESS...                      UDP and SYNs to addresses that must not be reached
  raw KINDS SOURCE DESTINATIONS                 crafted packets (gre,sctp,fragment,...), each three times
  strangers SECONDS GATEWAY SUBNET COUNT        queries from addresses of the subnet that nobody has
  ask GATEWAY NAME TYPE [tcp]                   one query: rcode, addresses, ttl, ede, milliseconds
  ask-all GATEWAY TRANSPORT NAMES TYPES         each of the names for each type; the answers by "name type"
  serve-load GATEWAY SECONDS                    resolve and connect until the time is up; count outcomes
"""
import json
import random
import socket
import struct
import subprocess
import sys
import time

TYPES = {"A": 1, "NS": 2, "CNAME": 5, "SOA": 6, "PTR": 12, "MX": 15, "TXT": 16, "AAAA": 28,
         "SVCB": 64, "HTTPS": 65, "ANY": 255}


def query(name, qtype, ident=None, edns=True):
    ident = random.randrange(65536) if ident is None else ident
    labels = b"".join(bytes([len(p)]) + p.encode() for p in name.rstrip(".").split(".")) + b"\0"
    out = struct.pack(">HHHHHH", ident, 0x0100, 1, 0, 0, 1 if edns else 0) + labels + struct.pack(">HH", qtype, 1)
    return ident, out + (b"\0\0\x29\x04\xd0\0\0\0\0\0\0" if edns else b"")


def skip_name(m, i):
    while m[i]:
        if m[i] >= 0xC0:
            return i + 2
        i += 1 + m[i]
    return i + 1


def parse(m):
    ident, flags, qd, an, ns, ar = struct.unpack(">HHHHHH", m[:12])
    i = 12
    for _ in range(qd):
        i = skip_name(m, i) + 4
    out = {"rcode": flags & 15, "tc": bool(flags & 0x200), "addresses": [], "ttl": None, "ede": None}
    for _ in range(an + ns + ar):
        i = skip_name(m, i)
        rtype, _, ttl, size = struct.unpack(">HHIH", m[i:i + 10])
        data = m[i + 10:i + 10 + size]
        i += 10 + size
        if rtype in (1, 28):
            out["addresses"].append(socket.inet_ntop(socket.AF_INET if rtype == 1 else socket.AF_INET6, data))
            out["ttl"] = ttl if out["ttl"] is None else min(ttl, out["ttl"])
        elif rtype == 41:
            while len(data) >= 4:
                code, n = struct.unpack(">HH", data[:4])
                if code == 15:
                    out["ede"] = [struct.unpack(">H", data[4:6])[0], data[6:4 + n].decode(errors="replace")]
                data = data[4 + n:]
    return ident, out


class Asker:
    """One UDP socket or one TCP connection, used for many queries."""

    def __init__(self, server, tcp=False, timeout=3):
        family = socket.AF_INET6 if ":" in server else socket.AF_INET
        self.tcp, self.server = tcp, server
        self.s = socket.socket(family, socket.SOCK_STREAM if tcp else socket.SOCK_DGRAM)
        self.s.settimeout(timeout)
        self.s.connect((server, 53))
        if tcp:
            self.s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def ask(self, name, qtype):
        ident, q = query(name, qtype)
        if self.tcp:
            self.s.sendall(struct.pack(">H", len(q)) + q)
            size = struct.unpack(">H", self._exactly(2))[0]
            return parse(self._exactly(size))[1]
        self.s.send(q)
        while True:
            got, out = parse(self.s.recv(4096))
            if got == ident:
                return out

    def _exactly(self, n):
        data = b""
        while len(data) < n:
            more = self.s.recv(n - len(data))
            if not more:
                raise OSError("closed by the gateway")
            data += more
        return data


def rounds(gateway, family, transport, first, count):
    asker = Asker(gateway, transport == "tcp")
    af = socket.AF_INET6 if family == "6" else socket.AF_INET
    lost = failed = 0
    slowest = 0.0
    why = ""
    for i in range(int(first), int(first) + int(count)):
        answer = asker.ask(f"h{i}.rounds.search.example", 28 if family == "6" else 1)
        if answer["rcode"] or len(answer["addresses"]) != 1:
            failed += 1
            why = why or f"h{i}: {answer}"
            continue
        s = socket.socket(af, socket.SOCK_STREAM)
        s.settimeout(5)
        start = time.monotonic()
        try:
            s.connect((answer["addresses"][0], 443))
        except OSError as e:
            failed += 1
            why = why or f"h{i}: {answer['addresses'][0]}: {e}"
            s.close()
            continue
        slowest = max(slowest, time.monotonic() - start)
        # struct tcp_info: tcpi_total_retrans is the u32 at offset 100 (include/uapi/linux/tcp.h)
        info = s.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        lost += struct.unpack("I", info[100:104])[0] > 0
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    return {"rounds": int(count), "lost_syn": lost, "failed": failed, "slowest_ms": round(slowest * 1000, 1), "why": why}


def flood(seconds, *addresses):
    """At most 1,000 packets a second, so that a gap of a few milliseconds would be seen."""
    end = time.monotonic() + float(seconds)
    sockets = []
    for a in addresses:
        af = socket.AF_INET6 if ":" in a else socket.AF_INET
        u = socket.socket(af, socket.SOCK_DGRAM)
        u.setblocking(False)
        sockets.append((u, a))
    sent = errors = 0
    while time.monotonic() < end:
        for u, a in sockets:
            try:
                u.sendto(b"flood", (a, 5000))
                sent += 1
            except OSError:
                errors += 1
            if sent % 10 == 0:
                t = socket.socket(u.family, socket.SOCK_STREAM)
                t.setblocking(False)
                t.connect_ex((a, 5000))
                t.close()
        time.sleep(0.002)
    return {"sent": sent, "errors": errors}


def checksum(data):
    data += b"\0" * (len(data) % 2)
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip4(proto, src, dst, payload, flags=0, options=b""):
    size = 20 + len(options)
    head = struct.pack(">BBHHHBBH4s4s", 0x40 + size // 4, 0, size + len(payload), random.randrange(65536), flags,
                       64, proto, 0, socket.inet_aton(src), socket.inet_aton(dst)) + options
    return head[:10] + struct.pack(">H", checksum(head)) + head[12:] + payload


def ip6(proto, src, dst, payload):
    return struct.pack(">IHBB", 0x60000000, len(payload), proto, 64) + socket.inet_pton(
        socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst) + payload


def pseudo(src, dst, proto, payload):
    if ":" in src:
        return socket.inet_pton(socket.AF_INET6, src) + socket.inet_pton(socket.AF_INET6, dst) + struct.pack(
            ">II", len(payload), proto) + payload
    return socket.inet_aton(src) + socket.inet_aton(dst) + struct.pack(">BBH", 0, proto, len(payload)) + payload


def udp(src, dst, dport, data=b"raw", sport=40000):
    d = struct.pack(">HHHH", sport, dport, 8 + len(data), 0) + data
    return d[:6] + struct.pack(">H", checksum(pseudo(src, dst, 17, d)) or 0xFFFF) + d[8:]


def tcp(src, dst, dport, flags=2, sport=40000):
    d = struct.pack(">HHIIBBHHH", sport, dport, 1000, 1000, 0x50, flags, 65535, 0, 0)
    return d[:16] + struct.pack(">H", checksum(pseudo(src, dst, 6, d))) + d[18:]


def crafted(kind, src, dst):
    six = ":" in src
    make = ip6 if six else ip4
    bodies = {
        "udp": lambda: make(17, src, dst, udp(src, dst, 5000)),
        "syn": lambda: make(6, src, dst, tcp(src, dst, 5000)),
        "ack443": lambda: make(6, src, dst, tcp(src, dst, 443, 0x10, sport=40001)),  # part of no flow
        "syn443": lambda: make(6, src, dst, tcp(src, dst, 443)),
        "gre": lambda: make(47, src, dst, b"\0\0\x08\0" + b"x" * 20),
        "esp": lambda: make(50, src, dst, b"\0\0\0\1\0\0\0\1" + b"x" * 24),
        "sctp": lambda: make(132, src, dst, struct.pack(">HHII", 4000, 443, 0, 0) + b"\1\0\0\4"),
        "echo": lambda: make(58, src, dst, icmp6(src, dst)) if six else make(1, src, dst, icmp4()),
        "proto253": lambda: make(253, src, dst, b"x" * 32),
        "fragment": lambda: (make(44, src, dst, struct.pack(">BBHI", 17, 0, 1, 77) + udp(src, dst, 5000)) if six
                             else ip4(17, src, dst, udp(src, dst, 5000), flags=0x2000)),
        "options": lambda: (make(60, src, dst, b"\x11\0\1\4\0\0\0\0" + udp(src, dst, 5000)) if six
                            else ip4(17, src, dst, udp(src, dst, 5000), options=b"\x07\x07\x04\0\0\0\0\0")),
        "routing": lambda: make(43, src, dst, b"\x11\x02\x00\x01\0\0\0\0" + socket.inet_pton(
            socket.AF_INET6, dst) + udp(src, dst, 5000)),
    }
    return bodies[kind]()


def raw(kinds, src, destinations):
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    route = [line.split() for line in open("/proc/net/arp")][1:]
    mac = next((r[3] for r in route if r[5] == "eth0" and r[3] != "00:00:00:00:00:00"), None)
    if mac is None:
        raise SystemExit("no neighbour: ask the gateway something first")
    to = ("eth0", 0x86DD if ":" in src else 0x0800, 0, 0, bytes.fromhex(mac.replace(":", "")))
    sent = 0
    for dst in destinations.split(","):
        for kind in kinds.split(","):
            for _ in range(3):
                sent += s.sendto(crafted(kind, src, dst), to) > 0
    return {"sent": sent}


def strangers(seconds, gateway, subnet, count):
    """Queries from `count` addresses of the subnet that nobody has, 600 a second in all."""
    s = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
    out = subprocess.run(["ip", "neigh", "show", gateway], capture_output=True, text=True).stdout.split()
    mac = bytes.fromhex(out[out.index("lladdr") + 1].replace(":", ""))
    six, sent = ":" in gateway, 0
    start = time.monotonic()
    while time.monotonic() < start + float(seconds):
        src = f"{subnet}{sent % int(count) + 1000:x}" if six else f"{subnet}{sent % int(count) + 30}"
        datagram = udp(src, gateway, 53, query("steal.evil.example", 1)[1], sport=1024 + sent % 60000)
        s.sendto((ip6 if six else ip4)(17, src, gateway, datagram), ("eth0", 0x86DD if six else 0x0800, 0, 0, mac))
        sent += 1
        if sent > (time.monotonic() - start) * 600:
            time.sleep(0.005)
    return {"sent": sent}


def icmp4():
    d = struct.pack(">BBHHH", 8, 0, 0, 1, 1) + b"tunnel" * 4
    return d[:2] + struct.pack(">H", checksum(d)) + d[4:]


def icmp6(src, dst):
    d = struct.pack(">BBHHH", 128, 0, 0, 1, 1) + b"tunnel" * 4
    return d[:2] + struct.pack(">H", checksum(pseudo(src, dst, 58, d))) + d[4:]


def ask(gateway, name, qtype, transport="udp"):
    start = time.monotonic()
    try:
        out = Asker(gateway, transport == "tcp").ask(name, TYPES.get(qtype) or int(qtype))
    except OSError as e:
        out = {"error": str(e)}
    out["ms"] = round((time.monotonic() - start) * 1000, 1)
    return out


def ask_all(gateway, transport, names, types):
    asker = Asker(gateway, transport == "tcp")
    return {f"{n} {t}": asker.ask(n, TYPES.get(t) or int(t)) for n in names.split(",") for t in types.split(",")}


def serve_load(gateway, seconds):
    """Resolve-then-connect until the time is up; says when it last failed and first worked again."""
    end = time.monotonic() + float(seconds)
    good = bad = 0
    longest = 0.0
    last_good = time.monotonic()
    i = 0
    while time.monotonic() < end:
        i += 1
        try:
            a = Asker(gateway, timeout=0.4)
            answer = a.ask(f"h{i % 4000}.rounds.search.example", 1)
            a.s.close()
            if answer["rcode"]:
                raise OSError(f"rcode {answer['rcode']}")
            s = socket.create_connection((answer["addresses"][0], 443), timeout=1)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
            good += 1
            now = time.monotonic()
            longest = max(longest, now - last_good)
            last_good = now
        except OSError:
            bad += 1
            time.sleep(0.02)
    longest = max(longest, time.monotonic() - last_good)
    return {"good": good, "bad": bad, "longest_gap_ms": round(longest * 1000)}


if __name__ == "__main__":
    verb = sys.argv[1].replace("-", "_")
    print(json.dumps(globals()[verb](*sys.argv[2:])))
