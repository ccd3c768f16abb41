#!/usr/bin/env python3
"""The lab's witness: takes TCP connections and UDP packets on ports that agents should not reach,
answers them, and writes down each, so that a test sees what got through and not what a log says."""
import selectors
import socket
import sys

TCP = (22, 853, 5000, 8080)
UDP = (443, 853, 5000)

log = open(sys.argv[1], "a", buffering=1)
sel = selectors.DefaultSelector()
for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
    for kind, ports in ((socket.SOCK_STREAM, TCP), (socket.SOCK_DGRAM, UDP)):
        for port in ports:
            s = socket.socket(family, kind)
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                s.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            hosts = [host]
            if port == 853 and kind == socket.SOCK_STREAM:  # unbound has 853 on its own addresses
                hosts = ["185.199.66.6"] if family == socket.AF_INET else ["2a0e:7700:66::6"]
            s.bind((hosts[0], port))
            if kind == socket.SOCK_STREAM:
                s.listen(64)
            s.setblocking(False)
            sel.register(s, selectors.EVENT_READ, (kind, port))
while True:
    for key, _ in sel.select():
        kind, port = key.data
        try:
            if kind == socket.SOCK_STREAM:
                c, peer = key.fileobj.accept()
                log.write(f"tcp {port} from {peer[0]}\n")
                c.settimeout(1)
                c.sendall(b"reached\n")
                c.close()
            else:
                data, peer = key.fileobj.recvfrom(2048)
                log.write(f"udp {port} from {peer[0]}\n")
                key.fileobj.sendto(b"reached\n", peer)
        except OSError:
            pass
