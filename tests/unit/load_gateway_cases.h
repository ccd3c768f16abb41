/* load_gateway_cases.h: what is written, and what the loader says of it, line for line.
 *
 * A report's line stands without "gateway.yaml:".
 * An empty report: no fault, no warning.
 */
#ifndef TESTS_UNIT_LOAD_GATEWAY_CASES_H
#define TESTS_UNIT_LOAD_GATEWAY_CASES_H

#define BASE                                                                                       \
    "agents:\n"                                                                                    \
    "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"                          \
    "uplink: { interface: eth0 }\n"                                                                \
    "upstreams: [ { address: 9.9.9.9 } ]\n"                                                        \
    "policy: policy\n"

static const struct case_row gateway_rows[] = {
    {"",
     "1:1: is empty; see tidegate.yaml(5) for what belongs here"},
    {"# only a comment\n",
     "1:1: is empty; see tidegate.yaml(5) for what belongs here"},
    {"---\n",
     "2:1: gateway.yaml is empty; write lines of \"key: value\", or remove it"},
    {"just text\n",
     "1:1: gateway.yaml must be a mapping (lines of \"key: value\"), not a single value"},
    {"- a\n"
     "- b\n",
     "1:1: gateway.yaml must be a mapping (lines of \"key: value\"), not a list"},
    {"agents\n",
     "1:1: gateway.yaml must be a mapping (lines of \"key: value\"), not a single value"},
    {BASE "dnss: { deny: nxdomain }\n",
     "6:1: unknown key \"dnss\" in gateway.yaml; did you mean \"dns\"?"},
    {BASE "colour: blue\n",
     "6:1: unknown key \"colour\" in gateway.yaml; it takes agents, uplink, management, "
     "upstreams, dns, log, policy, state, runtime, limits, name"},
    {BASE "policy: other\n",
     "6:1: \"policy\" is given twice in gateway.yaml (first at line 5); remove one"},
    {"uplink: { interface: eth0 }\n",
     "1:1: gateway.yaml lacks \"agents\"; add it\n"
     "1:1: gateway.yaml lacks \"upstreams\"; add it\n"
     "1:1: the policy folder \"/etc/tidegate/policy\" cannot be opened: No such file or "
     "directory; correct the path, or make the folder with agents.yaml and tools/"},
    {BASE "dns: { deny: drop, min_lifetime: 30, max_lifetime: 2d, grace: 301s, canaries: yes }\n",
     "6:14: deny is \"drop\"; write nxdomain, refused or nodata\n"
     "6:34: min_lifetime is \"30\" without a unit; write 30s, 30m or 30h\n"
     "6:52: max_lifetime is \"2d\"; write a duration such as 30s, 5m or 1h\n"
     "6:63: grace is 301s; write a duration from 0s to 5m\n"
     "6:79: canaries is \"yes\"; write true or false"},
    {BASE "dns: { min_lifetime: 2h, max_lifetime: 1h }\n",
     "6:22: min_lifetime (7200s) is above max_lifetime (3600s); lower the one or raise the other"},
    {BASE "dns: { max_lifetime: 10s }\n",
     "6:22: min_lifetime (30s) is above max_lifetime (10s); lower the one or raise the other"},
    {BASE "dns: { min_lifetime: 0s, max_lifetime: 25h, grace: -1s }\n",
     "6:22: min_lifetime is 0s; write a duration from 1s to 24h\n"
     "6:40: max_lifetime is 25h; write a duration from 1s to 24h\n"
     "6:52: grace is \"-1s\"; write a duration such as 30s, 5m or 1h"},
    {BASE "dns: { min_lifetime: 99999999999s, grace: 1.5m }\n",
     "6:22: min_lifetime is \"99999999999s\"; write a duration such as 30s, 5m or 1h\n"
     "6:43: grace is \"1.5m\"; write a duration such as 30s, 5m or 1h"},
    {BASE "dns: 5\n",
     "6:6: dns must be a mapping (lines of \"key: value\"), not a single value"},
    {BASE "dns:\n",
     "6:5: dns is empty; write lines of \"key: value\", or remove it"},
    {BASE "dns: [a]\n",
     "6:6: dns must be a mapping (lines of \"key: value\"), not a list"},
    {BASE "dns: { deny: [nxdomain], grace: {a: 1} }\n",
     "6:14: deny must be one value, not a list\n"
     "6:33: grace must be one value, not a mapping"},
    {BASE "dns: { deny: }\n",
     "6:14: deny is empty; give it a value, or remove the line"},
    {BASE "log: { directory: log, when_full: block, segment_bytes: 1, keep: 0 }\n",
     "6:19: log directory \"log\" is relative; write the whole path, from /\n"
     "6:35: when_full is \"block\"; write refuse or drop\n"
     "6:57: segment_bytes is \"1\"; write a number from 4096 to 1073741824\n"
     "6:66: keep is \"0\"; write a number from 1 to 100000"},
    {BASE "log: { segment_bytes: 0x100000, keep: 012 }\n",
     "6:23: segment_bytes is \"0x100000\"; write a number from 4096 to 1073741824\n"
     "6:39: keep is \"012\"; write a number from 1 to 100000"},
    {BASE "state: var\n"
     "runtime: ./run\n",
     "6:8: state \"var\" is relative; write the whole path, from /\n"
     "7:10: runtime \"./run\" is relative; write the whole path, from /"},
    {BASE "runtime: /rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\n",
     "6:10: runtime is longer than 94 bytes; shorten it"},
    {BASE "state: /ssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssssss\n",
     "6:8: state is longer than 255 bytes; shorten it"},
    {BASE "limits: { openings_per_client: 0, addresses_per_name: 257, queries_per_second: many, "
     "pending_per_client: 65536 }\n",
     "6:32: openings_per_client is \"0\"; write a number from 1 to 1000000\n"
     "6:55: addresses_per_name is \"257\"; write a number from 1 to 256\n"
     "6:80: queries_per_second is \"many\"; write a number from 1 to 1000000\n"
     "6:106: pending_per_client is \"65536\"; write a number from 1 to 65535"},
    {BASE "name: my gateway\n",
     "6:7: name \"my gateway\" may hold letters, digits and -_. only"},
    {BASE "name: gw-1.example\n",
     ""},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth1 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:22: uplink interface \"eth1\" is an agent interface too; agents need an interface of "
     "their own"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: lo }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:22: interface \"lo\" is the gateway itself; write the interface that faces the network"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: a-very-long-interface }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:22: interface \"a-very-long-interface\" has more than 15 characters; write the kernel's "
     "name for it (see ip link)"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: \"eth 0\" }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:22: interface \"eth 0\" may hold letters, digits, . _ and - only"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0, masquerade: on, ipv6: maybe, mtu: 1500 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:40: masquerade is \"on\"; write true or false\n"
     "3:50: ipv6 is \"maybe\"; write auto, yes or no\n"
     "3:57: unknown key \"mtu\" in uplink; it takes interface, masquerade, ipv6"},
    {BASE "management: { interface: eth1, subnets: [192.168.1.0/24] }\n",
     "6:26: management interface \"eth1\" is an agent interface too; agents need an interface of "
     "their own"},
    {BASE "management: { interface: eth2 }\n",
     "6:13: management lacks \"subnets\"; add it"},
    {BASE "management: { interface: eth2, subnets: [10.77.1.128/25] }\n",
     "6:42: subnet 10.77.1.128/25 overlaps 10.77.1.0/24 of \"eth1\" (line 2); an address belongs "
     "to one of them only, so make them disjoint"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "  - { interface: eth1, subnets: [10.77.2.0/24] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:18: interface \"eth1\" is listed twice; write all its subnets in one entry"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "  - { interface: eth2, subnets: [10.77.0.0/16] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:34: subnet 10.77.0.0/16 overlaps 10.77.1.0/24 of \"eth1\" (line 2); an address belongs "
     "to one of them only, so make them disjoint"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.1/24, 10.77.1.0/33, 10.77.1, \"fe80::/64\", "
     "127.0.0.0/8, 0.0.0.0/0] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "2:34: subnet \"10.77.1.1/24\" has bits set behind its length; write 10.77.1.0/24, or "
     "10.77.1.1 for the one address\n"
     "2:48: subnet \"10.77.1.0/33\" has too many bits; IPv4 has at most /32, IPv6 /128\n"
     "2:62: subnet \"10.77.1\" is no address or prefix; write one such as 10.77.1.0/24 or "
     "\"fd77:1::/64\"\n"
     "2:71: subnet fe80::/64 holds link-local addresses, from which nothing is routed; write the "
     "network that is there\n"
     "2:84: subnet 127.0.0.0/8 holds loopback addresses, from which nothing is routed; write the "
     "network that is there\n"
     "2:97: subnet 0.0.0.0/0 holds unspecified, loopback, link-local, multicast addresses, from "
     "which nothing is routed; write the network that is there"},
    {"agents:\n"
     "  - { interface: eth1, subnets: 10.77.1.0/24 }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "2:33: subnets must be a list; write [10.77.1.0/24]"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "2:33: subnets is empty; write at least one"},
    {"agents:\n"
     "  - { interface: eth1, subnets: { a: b } }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "2:33: subnets must be a list (lines that start with \"- \"), not a mapping"},
    {"agents: []\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "1:9: agents is empty; write at least one interface"},
    {"agents: eth1\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "1:9: agents must be a list; write [eth1]"},
    {"agents: [ eth1 ]\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "1:11: an entry of agents must be a mapping (lines of \"key: value\"), not a single value"},
    {"agents: [{ interface: e0, subnets: [10.88.0.0/24] }, { interface: e1, subnets: "
     "[10.88.1.0/24] }, { interface: e2, subnets: [10.88.2.0/24] }, { interface: e3, subnets: "
     "[10.88.3.0/24] }, { interface: e4, subnets: [10.88.4.0/24] }, { interface: e5, subnets: "
     "[10.88.5.0/24] }, { interface: e6, subnets: [10.88.6.0/24] }, { interface: e7, subnets: "
     "[10.88.7.0/24] }, { interface: e8, subnets: [10.88.8.0/24] }, { interface: e9, subnets: "
     "[10.88.9.0/24] }, { interface: e10, subnets: [10.88.10.0/24] }, { interface: e11, subnets: "
     "[10.88.11.0/24] }, { interface: e12, subnets: [10.88.12.0/24] }, { interface: e13, "
     "subnets: [10.88.13.0/24] }, { interface: e14, subnets: [10.88.14.0/24] }, { interface: "
     "e15, subnets: [10.88.15.0/24] }, { interface: e16, subnets: [10.88.16.0/24] }]\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "1:726: more than 16 agent interfaces; put several networks behind one"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: []\n"
     "policy: policy\n",
     "4:12: upstreams is empty; write at least one, as in - { address: 198.51.100.53 }"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9, port: 853, tls: dns.quad9.net } ]\n"
     "policy: policy\n",
     "4:50: DNS over TLS upstreams are not supported in this version; remove tls and port, and "
     "use a resolver reached over a trusted path"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 }, { address: 9.9.9.9, port: 53 }, { address: "
     "dns.example.com }, { port: 53 }, { address: 10.77.1.5 }, { address: 224.0.0.1 }, { "
     "address: 9.9.9.10, port: 0 } ]\n"
     "policy: policy\n",
     "4:47: upstream 9.9.9.9 is listed twice; remove one\n"
     "4:79: upstream address \"dns.example.com\" is no address; write one such as 198.51.100.53 "
     "or \"2001:db8::53\"\n"
     "4:98: an upstream lacks \"address\"; add it\n"
     "4:123: upstream address 10.77.1.5 is in an agent subnet; an agent must not answer for the "
     "others, use a resolver behind the uplink\n"
     "4:147: upstream address 224.0.0.1 is multicast; write the resolver's own address\n"
     "4:187: port is \"0\"; write a number from 1 to 65535"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [{ address: 9.9.9.1 }, { address: 9.9.9.2 }, { address: 9.9.9.3 }, { address: "
     "9.9.9.4 }, { address: 9.9.9.5 }, { address: 9.9.9.6 }, { address: 9.9.9.7 }, { address: "
     "9.9.9.8 }, { address: 9.9.9.9 }]\n"
     "policy: policy\n",
     "4:189: more than 8 upstreams; remove some"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 }\n"
     "policy: policy\n",
     "4:12: this [ is not closed or a comma is missing (line 5); write a comma between entries "
     "and ] at the end"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: nowhere\n",
     "5:9: the policy folder \"nowhere\" cannot be opened: No such file or directory; correct "
     "the path, or make the folder with agents.yaml and tools/"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: gateway.yaml\n",
     "5:9: the policy folder \"gateway.yaml\" cannot be opened: it is no directory; correct the "
     "path, or make the folder with agents.yaml and tools/"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy:\n",
     "5:8: policy is empty; give it a value, or remove the line"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink:\n"
     "\tinterface: eth0\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "4:1: is indented with a tab, which YAML does not allow; use spaces"},
    {"agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: &up { interface: eth0 }\n"
     "management: *up\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     "3:9: anchors (&up) are not allowed; write the value out at each place\n"
     "4:13: *up is an alias in YAML; put a name that starts with * in quotes, and write other "
     "values out"},
    {BASE "---\n"
     "agents: []\n",
     "6:1: a second document starts here; one file holds one (remove ---, or use two files)"},
    {BASE "name: !!str gw\n",
     "6:7: tags (!...) are not allowed; remove it"},
    {BASE "? { a: b }\n"
     ": c\n",
     "6:3: a key of gateway.yaml must be a plain word"},
    {BASE "? [a]\n"
     ": c\n",
     "6:3: a key of gateway.yaml must be a plain word"},
    {BASE "name: 'gw\n",
     "6:7: a quoted text is not valid YAML (found unexpected end of stream); end it with the "
     "quote it starts with, and write a backslash in \"...\" as \\\\"},
    {BASE "name: \"g\\w\"\n",
     "6:7: a quoted text is not valid YAML (found unknown escape character); end it with the "
     "quote it starts with, and write a backslash in \"...\" as \\\\"},
    {BASE "name: \"g\\0w\"\n",
     "6:7: the text holds a control character; remove it"},
    {BASE "name: \"g\\u202ew\"\n",
     "6:7: name \"g\\xe2\\x80\\xaew\" may hold letters, digits and -_. only"},
    {BASE "name: @gw\n",
     "6:7: a value that starts with @ needs quotes; write \"@...\""},
    {BASE "name: `gw\n",
     "6:7: a value that starts with ` needs quotes; write \"`...\""},
    {BASE "name: %gw\n",
     "6:7: a value that starts with % needs quotes; write \"%...\""},
    {BASE "name: a: b\n",
     "6:8: is not valid YAML: mapping values are not allowed in this context; check the "
     "indentation, the colons (\"key: value\") and the quotes here and in the line above"},
    {BASE "  name: gw\n",
     "6:7: is not valid YAML: mapping values are not allowed in this context; check the "
     "indentation, the colons (\"key: value\") and the quotes here and in the line above"},
    {BASE "dns: [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]\n",
     "6:13: is nested deeper than anything needs to be; see tidegate.yaml(5) for what belongs "
     "here"},
    {"\xef\xbb\xbf""agents:\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\n"
     "uplink: { interface: eth0 }\n"
     "upstreams: [ { address: 9.9.9.9 } ]\n"
     "policy: policy\n",
     ""},
    {"agents:\r\n"
     "  - { interface: eth1, subnets: [10.77.1.0/24, \"fd77:1::/64\"] }\r\n"
     "uplink: { interface: eth0 }\r\n"
     "upstreams: [ { address: 9.9.9.9 } ]\r\n"
     "policy: policy\r\n",
     ""},
    {BASE "# café\n",
     ""},
    {BASE "name: gw\xe2\x80\x8b\n",
     "6:9: holds a character that hides or reorders text (see Unicode bidirectional and "
     "zero-width characters); remove it, or write a name as xn--..."},
    {BASE "x: \x1b[31m\n",
     "6:4: holds a control character; remove it"},
    {BASE "name: \xff\xfe\n"
     "# \xc3\n",
     "6:7: holds a byte that is not UTF-8; save the file as UTF-8\n"
     "6:8: holds a byte that is not UTF-8; save the file as UTF-8\n"
     "7:3: holds a byte that is not UTF-8; save the file as UTF-8"},
};

#endif
