/* load_endpoint_cases.h: what is written, and what the loader says of it, line for line.
 *
 * A report's line stands without "policy/tools/t.yaml:" (the endpoint is at line 6).
 * An empty report: no fault, no warning.
 */
#ifndef TESTS_UNIT_LOAD_ENDPOINT_CASES_H
#define TESTS_UNIT_LOAD_ENDPOINT_CASES_H

static const struct case_row endpoint_rows[] = {
    {"{ name: api.example.com, protocol: https, data: public }",
     ""},
    {"{ name: .example.com, protocol: https, data: public }",
     "6:13: \".example.com\" starts with a dot; write **.example.com for all names below, and "
     "example.com for the name itself"},
    {"{ name: \"*\", protocol: https, data: public }",
     "6:13: \"*\" would match every name; list the names that are needed"},
    {"{ name: \"**\", protocol: https, data: public }",
     "6:13: \"**\" would match every name; list the names that are needed"},
    {"{ name: \"*.\", protocol: https, data: public }",
     "6:13: \"*.\" would match every name; list the names that are needed"},
    {"{ name: \".\", protocol: https, data: public }",
     "6:13: \".\" would match every name; list the names that are needed"},
    {"{ name: \"*.com\", protocol: https, data: public }",
     "6:13: \"*.com\" would match names that anyone can get, since com is a top-level domain; "
     "write a longer name, as in *.example.com, or list the names"},
    {"{ name: \"**.co.uk\", protocol: https, data: public }",
     "6:13: \"**.co.uk\" would match names that anyone can get, since co.uk is a public suffix; "
     "write a longer name, as in *.example.co.uk, or list the names"},
    {"{ name: com, protocol: https, data: public }",
     "6:13: \"com\" is a public suffix; write a name below it, as in api.example.com"},
    {"{ name: co.uk, protocol: https, data: public }",
     "6:13: \"co.uk\" is a public suffix; write a name below it, as in api.example.co.uk"},
    {"{ name: \"*.github.io\", protocol: https, data: public }",
     "6:13: \"*.github.io\" would match names that anyone can get, since github.io is a public "
     "suffix; write a longer name, as in *.example.github.io, or list the names"},
    {"{ name: github.io, protocol: https, data: public }",
     ""},
    {"{ name: s3.amazonaws.com, protocol: https, data: public }",
     ""},
    {"{ name: \"api-*.com\", protocol: https, data: public }",
     "6:13: \"api-*.com\" would match names that anyone can get, since com is a top-level "
     "domain; write a longer name, as in *.example.com, or list the names"},
    {"{ name: \"*.foo.ck\", protocol: https, data: public }",
     "6:13: \"*.foo.ck\" would match names that anyone can get, since foo.ck is a public suffix; "
     "write a longer name, as in *.example.foo.ck, or list the names"},
    {"{ name: \"*.test\", protocol: https, data: public }",
     "6:13: \"*.test\" would match names that anyone can get, since test is a top-level domain; "
     "write a longer name, as in *.example.test, or list the names"},
    {"{ name: *.example.com, protocol: https, data: public }",
     "6:13: a name that starts with * needs quotes; write \"*.example.com\""},
    {"{ name: a.*.example.com, protocol: https, data: public }",
     "6:13: \"a.*.example.com\" has a * outside of the leftmost label; write *. or **. in front "
     "of the name, or * inside the leftmost label"},
    {"{ name: \"*.a.*.example.com\", protocol: https, data: public }",
     "6:13: \"*.a.*.example.com\" has a * outside of the leftmost label; write *. or **. in "
     "front of the name, or * inside the leftmost label"},
    {"{ name: \"a**b.example.com\", protocol: https, data: public }",
     "6:13: \"a**b.example.com\" has ** inside a label; write one *"},
    {"{ name: \"***.example.com\", protocol: https, data: public }",
     "6:13: \"***.example.com\" has ** inside a label; write one *"},
    {"{ name: example.*, protocol: https, data: public }",
     "6:13: \"example.*\" has a * outside of the leftmost label; write *. or **. in front of the "
     "name, or * inside the leftmost label"},
    {"{ name: \"API-*.Example.COM.\", protocol: https, data: public }",
     ""},
    {"{ name: http://example.com/x, protocol: https, data: public }",
     "6:13: \"http://example.com/x\" is a URL; write the host name alone: example.com"},
    {"{ name: \"https://user:pw@www.example.com:8443/a?b\", protocol: https, data: public }",
     "6:13: \"https://user:pw@www.example.com:8443/a?b\" is a URL; write the host name alone: "
     "www.example.com"},
    {"{ name: example.com/path, protocol: https, data: public }",
     "6:13: \"example.com/path\" holds a path; write the host name alone: example.com"},
    {"{ name: \"example.com:443\", protocol: https, data: public }",
     "6:13: \"example.com:443\" holds a port; write name: example.com and port: 443"},
    {"{ name: user@example.com, protocol: https, data: public }",
     "6:13: \"user@example.com\" is not a host name; write the host name alone: example.com"},
    {"{ name: a b.example.com, protocol: https, data: public }",
     "6:13: \"a b.example.com\" holds a space; write one name for each endpoint"},
    {"{ name: 203.0.113.7, protocol: https, data: public }",
     "6:13: \"203.0.113.7\" is an address, not a name; write address: \"203.0.113.7\""},
    {"{ name: 203.0.113.0/24, protocol: https, data: public }",
     "6:13: \"203.0.113.0/24\" is an address, not a name; write address: \"203.0.113.0/24\""},
    {"{ name: \"2001:db8::1\", protocol: https, data: public }",
     "6:13: \"2001:db8::1\" is an address, not a name; write address: \"2001:db8::1\""},
    {"{ name: \"[2001:db8::1]\", protocol: https, data: public }",
     "6:13: \"[2001:db8::1]\" is an address, not a name; write address: \"2001:db8::1\""},
    {"{ name: \"[2001:db8::1]:443\", protocol: https, data: public }",
     "6:13: \"[2001:db8::1]:443\" is an address, not a name; write address: \"2001:db8::1\""},
    {"{ name: 203.0.113, protocol: https, data: public }",
     "6:13: \"203.0.113\" ends in a number, as addresses do; write a name, or address: for an "
     "address"},
    {"{ name: localhost, protocol: https, data: public }",
     "6:13: \"localhost\" is a single label; write the full name, as in localhost.example.com"},
    {"{ name: a..example.com, protocol: https, data: public }",
     "6:13: \"a..example.com\" has an empty label; write one dot between labels"},
    {"{ name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com, "
     "protocol: https, data: public }",
     "6:13: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com\" has "
     "a label of more than 63 characters; no name can match it"},
    {"{ name: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa*.example.com\", "
     "protocol: https, data: public }",
     "6:13: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa*.example.com\" "
     "has a label of more than 63 characters; no name can match it"},
    {"{ name: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com, protocol: https, data: public }",
     "6:13: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...\" is longer than 253 characters in the DNS; no name can match it"},
    {"{ name: \"*.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.example.com\", protocol: https, data: public }",
     ""},
    {"{ name: _sip._tcp.example.com, types: [SRV], protocol: https, data: public }",
     ""},
    {"{ name: a$b.example.com, protocol: https, data: public }",
     "6:13: \"a$b.example.com\" may hold letters, digits, - and _ only"},
    {"{ name: \"a$*.example.com\", protocol: https, data: public }",
     "6:13: \"a$*.example.com\" may hold letters, digits, - and _ only"},
    {"{ name: \"a\\\\.b.example.com\", protocol: https, data: public }",
     "6:13: \"a\\.b.example.com\" may hold letters, digits, - and _ only"},
    {"{ name: bücher.example.com, protocol: https, data: public }",
     "6:13: warning: \"bücher.example.com\" is xn--bcher-kva.example.com in the DNS"},
    {"{ name: \"*.BÜCHER.example.com\", protocol: https, data: public }",
     "6:13: warning: \"BÜCHER.example.com\" is xn--bcher-kva.example.com in the DNS"},
    {"{ name: \"bü*.example.com\", protocol: https, data: public }",
     "6:13: \"bü*.example.com\" has * beside letters that are not ASCII, which has no meaning in "
     "the DNS; list the names one by one"},
    {"{ name: xn--bcher-kva.example.com, protocol: https, data: public }",
     "6:13: warning: \"xn--bcher-kva.example.com\" is bücher.example.com in Unicode"},
    {"{ name: straße.example.com, protocol: https, data: public }",
     "6:13: warning: \"straße.example.com\" is xn--strae-oqa.example.com in the DNS"},
    {"{ name: \"www。example.com\", protocol: https, data: public }",
     "6:13: warning: \"www。example.com\" is www.example.com in the DNS"},
    {"{ name: \"*.рф\", protocol: https, data: public }",
     "6:13: \"*.рф\" would match names that anyone can get, since xn--p1ai is a top-level "
     "domain; write a longer name, as in *.example.xn--p1ai, or list the names\n"
     "6:13: warning: \"рф\" is xn--p1ai in the DNS"},
    {"{ name: \"a\xcc\x80\xcc\x81-.☃.example.com\", protocol: https, data: public }",
     "6:13: \"a\xcc\x80\xcc\x81-.☃.example.com\" is no valid internationalised name (string "
     "start/ends with forbidden hyphen); correct it, or write its xn-- form"},
    {"{ name: xn--0.example.com, protocol: https, data: public }",
     ""},
    {"{ name: \"１２７.０.０.１\", protocol: https, data: public }",
     "6:13: \"１２７.０.０.１\" ends in a number, as addresses do; write a name, or address: for an "
     "address\n"
     "6:13: warning: \"１２７.０.０.１\" is 127.0.0.1 in the DNS"},
    {"{ name: \"a＊b.example.com\", protocol: https, data: public }",
     "6:13: \"a＊b.example.com\" may hold letters, digits, - and _ only\n"
     "6:13: warning: \"a＊b.example.com\" is a*b.example.com in the DNS"},
    {"{ name: üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü.example.com, protocol: https, data: public }",
     "6:13: \"üüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüüü...\" is no valid "
     "internationalised name (punycode encoded data will be too large); correct it, or write its "
     "xn-- form"},
    {"{ name: [a.example.com], protocol: https, data: public }",
     "6:13: the name must be one value, not a list"},
    {"{ name: , protocol: https, data: public }",
     "6:13: the name is empty; give it a value, or remove the line"},
    {"{ name: a.example.com, address: 8.8.8.8, protocol: https, data: public }",
     "6:37: an endpoint has a name or an address, not both; write two endpoints"},
    {"{ protocol: https, data: public }",
     "6:5: an endpoint lacks \"name\" (or \"address\"); add one"},
    {"{ name: a.example.com, data: public }",
     "6:5: an endpoint lacks \"protocol\"; add it"},
    {"a.example.com",
     "6:5: an endpoint must be a mapping (lines of \"key: value\"), not a single value"},
    {"[a]",
     "6:5: an endpoint must be a mapping (lines of \"key: value\"), not a list"},
    {"{ nme: a.example.com, protocol: https, data: public }",
     "6:5: an endpoint lacks \"name\" (or \"address\"); add one\n"
     "6:7: unknown key \"nme\" in an endpoint; did you mean \"name\"?"},
    {"{ name: a.example.com, protocol: https, comment: x, data: public }",
     "6:45: unknown key \"comment\" in an endpoint; it takes name, address, protocol, port, "
     "types, data, ranges"},
    {"{ name: a.example.com, name: b.example.com, protocol: https, data: public }",
     "6:28: \"name\" is given twice in an endpoint (first at line 6); remove one"},
    {"{ name: a.example.com, protocol: ssh, data: public }",
     "6:38: protocol is \"ssh\"; write https, http, quic, tcp or udp"},
    {"{ name: a.example.com, protocol: HTTPS, data: public }",
     "6:38: protocol is \"HTTPS\"; write https, http, quic, tcp or udp"},
    {"{ name: a.example.com, protocol: tcp, data: public }",
     "6:38: tcp needs a port; add port: and a number, range or list"},
    {"{ name: a.example.com, protocol: udp, data: public }",
     "6:38: udp needs a port; add port: and a number, range or list"},
    {"{ name: a.example.com, protocol: https, port: 443, data: public }",
     "6:51: https is tcp port 443 already; remove port, or write protocol: tcp with the port"},
    {"{ name: a.example.com, protocol: quic, port: 443, data: public }",
     "6:50: quic is udp port 443 already; remove port, or write protocol: udp with the port"},
    {"{ name: a.example.com, protocol: [tcp], port: 1, data: public }",
     "6:38: protocol must be one value, not a list"},
    {"{ name: a.example.com, protocol: tcp, port: 0, data: public }",
     "6:49: port is \"0\"; write a number from 1 to 65535, a range as in 8000-8010, or a list of "
     "them"},
    {"{ name: a.example.com, protocol: tcp, port: 65536, data: public }",
     "6:49: port is \"65536\"; write a number from 1 to 65535, a range as in 8000-8010, or a "
     "list of them"},
    {"{ name: a.example.com, protocol: tcp, port: [80, 80], data: public }",
     "6:54: port 80 is listed twice; remove one"},
    {"{ name: a.example.com, protocol: tcp, port: 90-80, data: public }",
     "6:49: port range 90-80 runs backwards; write 80-90"},
    {"{ name: a.example.com, protocol: tcp, port: 1-64, data: public }",
     "6:49: port 53 is DNS, which the gateway answers itself wherever it is sent; remove the "
     "port, names resolve without it"},
    {"{ name: a.example.com, protocol: tcp, port: 1000-1064, data: public }",
     "6:49: more than 64 ports in one endpoint; list only those that are used, or write several "
     "endpoints"},
    {"{ name: a.example.com, protocol: tcp, port: 80-90-100, data: public }",
     "6:49: port is \"80-90-100\"; write a number from 1 to 65535, a range as in 8000-8010, or a "
     "list of them"},
    {"{ name: a.example.com, protocol: tcp, port: http, data: public }",
     "6:49: port is \"http\"; write a number from 1 to 65535, a range as in 8000-8010, or a list "
     "of them"},
    {"{ name: a.example.com, protocol: tcp, port: [], data: public }",
     "6:49: port is an empty list; write the ports that are used"},
    {"{ name: a.example.com, protocol: tcp, port: {a: 1}, data: public }",
     "6:49: port must be one value, not a mapping"},
    {"{ name: a.example.com, protocol: tcp, port: 080, data: public }",
     "6:49: port is \"080\"; write a number from 1 to 65535, a range as in 8000-8010, or a list "
     "of them"},
    {"{ name: a.example.com, protocol: tcp, port: 53, data: public }",
     "6:49: port 53 is DNS, which the gateway answers itself wherever it is sent; remove the "
     "port, names resolve without it"},
    {"{ name: a.example.com, protocol: udp, port: [853, 40-60], data: public }",
     "6:50: port 853 is encrypted DNS, which would go around the gateway; remove the port, names "
     "resolve without it\n"
     "6:55: port 53 is DNS, which the gateway answers itself wherever it is sent; remove the "
     "port, names resolve without it"},
    {"{ name: a.example.com, protocol: tcp, port: 80-, data: public }",
     "6:49: port is \"80-\"; write a number from 1 to 65535, a range as in 8000-8010, or a list "
     "of them"},
    {"{ name: a.example.com, protocol: tcp, port: 1-99999, data: public }",
     "6:49: port is \"1-99999\"; write a number from 1 to 65535, a range as in 8000-8010, or a "
     "list of them"},
    {"{ name: a.example.com, types: [HTTPS], protocol: https, data: public }",
     "6:36: type HTTPS cannot be allowed: it would carry addresses around the control; remove "
     "it, clients do without"},
    {"{ name: a.example.com, types: [SVCB, ANY, \"*\", OPT, AXFR, PTR, CNAME, \"NULL\", "
     "TYPE65280], protocol: https, data: public }",
     "6:36: type SVCB cannot be allowed: it would carry addresses around the control; remove it, "
     "clients do without\n"
     "6:42: type ANY cannot be allowed: it is answered minimally (RFC 8482); list the types that "
     "are needed\n"
     "6:47: type * cannot be allowed: it stands for ANY; list the types that are needed\n"
     "6:52: type OPT cannot be allowed: it is no record of a zone; remove it\n"
     "6:57: type AXFR cannot be allowed: zones are not transferred; list the types that are "
     "needed\n"
     "6:63: type PTR cannot be allowed: it is answered from live openings; remove it\n"
     "6:68: type CNAME cannot be allowed: chains are followed anyway; remove it\n"
     "6:75: type NULL cannot be allowed: it only carries data; remove it\n"
     "6:83: unknown record type \"TYPE65280\"; write types such as A, AAAA, MX, TXT or SRV"},
    {"{ name: a.example.com, types: [], protocol: https, data: public }",
     "6:35: types is empty; list the types, or remove it for A, AAAA"},
    {"{ name: a.example.com, types: MX, protocol: https, data: public }",
     "6:35: types must be a list; write [MX]"},
    {"{ name: a.example.com, types: [mx, MX], protocol: https, data: public }",
     "6:40: type MX is listed twice; remove one"},
    {"{ name: a.example.com, types: [A, NS, SOA, HINFO, MX, TXT, RP, AFSDB, AAAA, LOC, SRV, "
     "NAPTR, KX, CERT, DS, SSHFP, TLSA], protocol: https, data: public }",
     "6:119: more than 16 types in one endpoint; list only those that are used"},
    {"{ name: a.example.com, types: [[A]], protocol: https, data: public }",
     "6:36: type must be one value, not a list"},
    {"{ address: 8.8.8.8, protocol: https, data: public }",
     ""},
    {"{ address: 8.8.8.8/24, protocol: https, data: public }",
     "6:16: address \"8.8.8.8/24\" has bits set behind its length; write 8.8.8.0/24, or 8.8.8.8 "
     "for the one address"},
    {"{ address: 8.8.8.0/33, protocol: https, data: public }",
     "6:16: address \"8.8.8.0/33\" has too many bits; IPv4 has at most /32, IPv6 /128"},
    {"{ address: dns.example.com, protocol: https, data: public }",
     "6:16: address \"dns.example.com\" is no address or prefix; write one such as 10.77.1.0/24 "
     "or \"fd77:1::/64\""},
    {"{ address: 10.0.0.1, protocol: https, data: public }",
     "6:16: address 10.0.0.1/32 holds private addresses, which are not public; write another, or "
     "add ranges: [private] if that is meant"},
    {"{ address: 10.0.0.1, protocol: https, ranges: [private], data: public }",
     ""},
    {"{ address: 127.0.0.1, protocol: https, ranges: [private], data: public }",
     "6:16: address 127.0.0.1/32 holds loopback addresses, which no endpoint may reach; write a "
     "prefix without them"},
    {"{ address: 0.0.0.0/0, protocol: https, ranges: [private, documentation], data: public }",
     "6:16: address 0.0.0.0/0 holds unspecified, loopback, link-local, multicast, reserved "
     "addresses, which no endpoint may reach; write a prefix without them"},
    {"{ address: 10.77.1.9, protocol: https, ranges: [private], data: public }",
     "6:16: address 10.77.1.9/32 overlaps the agent subnet 10.77.1.0/24; agents reach nothing "
     "there"},
    {"{ address: 10.0.0.0/8, protocol: https, ranges: [private], data: public }",
     "6:16: address 10.0.0.0/8 overlaps the agent subnet 10.77.1.0/24; agents reach nothing there"},
    {"{ address: 169.254.169.254, protocol: http, ranges: [link-local], data: public }",
     "6:16: address 169.254.169.254/32 holds link-local addresses, which no endpoint may reach; "
     "write a prefix without them\n"
     "6:58: range is \"link-local\"; write private or documentation"},
    {"{ address: \"fd77:1::5\", protocol: https, ranges: [private], data: public }",
     "6:16: address fd77:1::5/128 overlaps the agent subnet fd77:1::/64; agents reach nothing "
     "there"},
    {"{ address: 192.0.2.1, protocol: https, data: public }",
     "6:16: address 192.0.2.1/32 holds documentation addresses, which are not public; write "
     "another, or add ranges: [documentation] if that is meant"},
    {"{ address: 192.168.5.1, protocol: https, ranges: [private], data: public }",
     "6:16: address 192.168.5.1/32 overlaps the management subnet 192.168.5.0/24; agents reach "
     "nothing there"},
    {"{ address: 8.8.8.8, protocol: https, types: [A], data: public }",
     "6:49: types is for names, an address has no records; remove it"},
    {"{ address: \"64:ff9b::808:808\", protocol: https, data: public }",
     "6:16: address 64:ff9b::808:808/128 holds embedded addresses, which no endpoint may reach; "
     "write a prefix without them"},
    {"{ address: 8.8.0.0/16, protocol: https, ranges: private, data: public }",
     "6:53: ranges must be a list; write [private]"},
    {"{ address: \"2000::/3\", protocol: https, data: public }",
     "6:16: address 2000::/3 holds embedded, reserved addresses, which no endpoint may reach; "
     "write a prefix without them"},
    {"{ name: a.example.com, protocol: https, data: top secret }",
     "6:51: data \"top secret\" may hold letters, digits and -_ only"},
    {"{ name: a.example.com, protocol: https, data: }",
     "6:51: data is empty; give it a value, or remove the line"},
    {"{ name: a.example.com, protocol: https, ranges: [], data: public }",
     ""},
    {"{ name: a.example.com, protocol: https, data: public }\n"
     "  - { name: A.example.com., protocol: https, data: public }",
     "7:5: the same endpoint stands at line 6; remove one"},
    {"{ name: a.example.com, protocol: https, data: public }\n"
     "  - { name: a.example.com, protocol: tcp, port: 443, types: [AAAA, A], data: public }",
     "7:5: the same endpoint stands at line 6; remove one"},
    {"{ name: a.example.com, protocol: tcp, port: 80, data: public }\n"
     "  - { name: a.example.com, protocol: tcp, port: 81, data: public }",
     ""},
    {"{ name: |\n"
     "      a.example.com\n"
     "    , protocol: https, data: public }",
     "6:13: a value that starts with | needs quotes; write \"|...\""},
    {"name: a.example.com\n"
     "    protocol: https\n"
     "    data: public",
     ""},
    {"name: a.example.com\n"
     "   protocol: https",
     "7:4: is not valid YAML: did not find expected '-' indicator; check the indentation, the "
     "colons (\"key: value\") and the quotes here and in the line above"},
    {"{ name: a.example.com, protocol: https\n"
     "  - { name: b.example.com, protocol: https, data: public }",
     "6:5: this { is not closed or a comma is missing (line 7); write a comma between entries "
     "and } at the end"},
    {"{ name: \"*.example.com, protocol: https, data: public }",
     "6:13: a quoted text is not valid YAML (found unexpected end of stream); end it with the "
     "quote it starts with, and write a backslash in \"...\" as \\\\"},
};

#endif
