/* load_policy_cases.h: what is written, and what the loader says of it, line for line.
 *
 * A report's line stands without "policy/tools/t.yaml:" (or agents.yaml, approvers.yaml).
 * An empty report: no fault, no warning.
 */
#ifndef TESTS_UNIT_LOAD_POLICY_CASES_H
#define TESTS_UNIT_LOAD_POLICY_CASES_H

static const struct case_row manifest_rows[] = {
    {"",
     "1:1: is empty; see tidegate.yaml(5) for what belongs here"},
    {"tool: t\n",
     "1:1: a manifest lacks \"version\"; add it\n"
     "1:1: a manifest lacks \"endpoints\"; add it\n"
     "1:1: warning: the tool has no owner; add it, so that a reviewer knows whom to ask"},
    {"version: 1\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "1:1: a manifest lacks \"tool\"; add it\n"
     "1:1: warning: the tool has no owner; add it, so that a reviewer knows whom to ask"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     ""},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: []\n",
     "5:12: warning: endpoints is empty; the tool can reach nothing"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints:\n",
     "5:11: endpoints is empty; write a list, or [] for none"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: {}\n",
     "5:12: endpoints must be a list (lines that start with \"- \"), not a mapping"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n",
     "1:1: a manifest lacks \"endpoints\"; add it"},
    {"tool: t\n"
     "version: 1\n"
     "purpose: p\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "1:7: warning: t@1 has no owner; add it, so that a reviewer knows whom to ask"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "1:7: warning: t@1 has no purpose; add it, so that a reviewer knows what the tool is for"},
    {"tool: t\n"
     "version: 1\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "1:7: warning: t@1 has no owner; add it, so that a reviewer knows whom to ask"},
    {"tool: my tool\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "1:7: tool \"my tool\" may hold letters, digits and -_. only"},
    {"tool: t@1\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "1:7: tool \"t@1\" may hold letters, digits and -_. only"},
    {"tool: t\n"
     "version: \"\"\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "2:10: version is empty; give it a value, or remove the line"},
    {"tool: t\n"
     "version: [1]\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "2:10: version must be one value, not a list"},
    {"tool: ttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "1:7: tool is longer than 64 bytes; shorten it"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2026-11-29\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: warning: t@1 expired on 2026-11-29 and is left out; have it reviewed and write a "
     "later date, or remove the file"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2026-11-30\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: warning: t@1 expired on 2026-11-30 and is left out; have it reviewed and write a "
     "later date, or remove the file"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2026-12-01\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     ""},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2027-02-29\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: expires \"2027-02-29\" is no date of the calendar; write one such as 2027-03-01"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2028-02-29\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     ""},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: tomorrow\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: expires \"tomorrow\" is no date of the calendar; write one such as 2027-03-01"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2027-13-01\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: expires \"2027-13-01\" is no date of the calendar; write one such as 2027-03-01"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2027-1-1\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: expires \"2027-1-1\" is no date of the calendar; write one such as 2027-03-01"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2027-01-0x\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: expires \"2027-01-0x\" is no date of the calendar; write one such as 2027-03-01"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 1969-01-01\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: expires \"1969-01-01\" is no date of the calendar; write one such as 2027-03-01"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "expires: 2100-02-29\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:10: expires \"2100-02-29\" is no date of the calendar; write one such as 2027-03-01"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "digest: sha256:0000000000000000000000000000000000000000000000000000000000000000\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     ""},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "digest: md5:00\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:9: digest \"md5:00\" is no SHA-256 digest; write sha256: and 64 lower-case hexadecimal "
     "digits, as sha256sum prints them"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "digest: sha256:00\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:9: digest \"sha256:00\" is no SHA-256 digest; write sha256: and 64 lower-case "
     "hexadecimal digits, as sha256sum prints them"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "colour: blue\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:1: unknown key \"colour\" in a manifest; it takes tool, version, digest, owner, purpose, "
     "expires, endpoints"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoint: []\n",
     "1:1: a manifest lacks \"endpoints\"; add it\n"
     "5:1: unknown key \"endpoint\" in a manifest; did you mean \"endpoints\"?"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "tool: u\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     "5:1: \"tool\" is given twice in a manifest (first at line 1); remove one"},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: >\n"
     "  two\n"
     "  lines\n"
     "endpoints: [ { name: a.example.com, protocol: https, data: public } ]\n",
     ""},
    {"tool: t\n"
     "version: 1\n"
     "owner: o\n"
     "purpose: p\n"
     "endpoints:\n"
     "  - { name: a.example.com, protocol: https, data: public }\n"
     "  - { name: b.example.com, protocol: https }\n"
     "  - { name: c.example.com, protocol: https }\n",
     "7:5: warning: an endpoint has no data class; add data: public, internal or confidential, "
     "so that a reviewer sees what may leave"},
    {"{tool: t, version: 1, owner: o, purpose: p, endpoints: [{name: a.example.com, protocol: "
     "https, data: public}]}\n",
     ""},
    {"tool: t\n"
     "version: 1\n"
     "  owner: o\n",
     "3:8: is not valid YAML: mapping values are not allowed in this context; check the "
     "indentation, the colons (\"key: value\") and the quotes here and in the line above"},
    {"tool: [t\n",
     "1:7: this [ is not closed or a comma is missing (line 2); write a comma between entries "
     "and ] at the end"},
    {"- a\n",
     "1:1: a manifest must be a mapping (lines of \"key: value\"), not a list"},
};

static const struct case_row agents_rows[] = {
    {"",
     "1:1: is empty; see tidegate.yaml(5) for what belongs here"},
    {"agents: []\n",
     "1:9: warning: agents is empty; every client is refused"},
    {"deny: []\n",
     "1:1: agents.yaml lacks \"agents\"; add it"},
    {"agents:\n",
     "1:8: agents is empty; write a list, or [] for none"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n"
     "deny: x.example\n",
     "3:7: deny must be a list; write [x.example]"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n"
     "deny: [\"*.com\", com, x.example, 8.8.8.8]\n",
     "3:8: \"*.com\" would match names that anyone can get, since com is a top-level domain; "
     "write a longer name, as in *.example.com, or list the names\n"
     "3:17: \"com\" is a public suffix; write a name below it, as in api.example.com\n"
     "3:33: \"8.8.8.8\" is an address; remove it, addresses are denied unless a manifest lists "
     "them"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n"
     "allow: []\n",
     "3:1: unknown key \"allow\" in agents.yaml; it takes agents, deny"},
    {"agents:\n"
     "  - a\n",
     "2:5: an agent must be a mapping (lines of \"key: value\"), not a single value"},
    {"agents:\n"
     "  - { agent: a }\n",
     "2:5: an agent lacks \"sources\"; add it\n"
     "2:5: an agent lacks \"tools\"; add it"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: t }\n",
     "2:50: tools must be a list; write [t]"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [] }\n",
     ""},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [tt] }\n",
     "2:51: unknown tool \"tt\"; did you mean \"t\"?"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t@2] }\n",
     "2:51: unknown tool \"t@2\"; did you mean \"t@1\"?"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t@1] }\n",
     ""},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t, t@1] }\n",
     "2:54: tool \"t@1\" is listed twice; remove one"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [completely-different] }\n",
     "2:51: unknown tool \"completely-different\"; add its manifest to tools/, or remove it here"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [T] }\n",
     "2:51: unknown tool \"T\"; did you mean \"t\"?"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [{t: 1}] }\n",
     "2:51: tool must be one value, not a mapping"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [v] }\n",
     "2:51: tool \"v\" has several versions; write v@1 or v@2"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [v@1, v@2, v@3] }\n",
     "2:61: unknown tool \"v@3\"; did you mean \"v@1\"?"},
    {"agents:\n"
     "  - { agent: a, sources: [], tools: [t] }\n",
     "2:26: sources is empty; write the agent's addresses"},
    {"agents:\n"
     "  - { agent: a, sources: 10.77.1.16, tools: [t] }\n",
     "2:26: sources must be a list; write [10.77.1.16]"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.2.1], tools: [t] }\n",
     "2:27: source 10.77.2.1 is in none of the agent subnets; correct it, or add its subnet to "
     "gateway.yaml"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.0.0/16], tools: [t] }\n",
     "2:27: source 10.77.0.0/16 is in none of the agent subnets; correct it, or add its subnet "
     "to gateway.yaml"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.17/28], tools: [t] }\n",
     "2:27: source \"10.77.1.17/28\" has bits set behind its length; write 10.77.1.16/28, or "
     "10.77.1.17 for the one address"},
    {"agents:\n"
     "  - { agent: a, sources: [host.example.com], tools: [t] }\n",
     "2:27: source \"host.example.com\" is no address or prefix; write one such as 10.77.1.0/24 "
     "or \"fd77:1::/64\""},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28, 10.77.1.20], tools: [t] }\n",
     "2:42: source 10.77.1.20/32 overlaps 10.77.1.16/28 of \"a\" (line 2); an address belongs to "
     "one of them only, so make them disjoint"},
    {"agents:\n"
     "  - { agent: a, sources: [\"::1\"], tools: [t] }\n",
     "2:27: source ::1 is in none of the agent subnets; correct it, or add its subnet to "
     "gateway.yaml"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n"
     "  - { agent: b, sources: [10.77.1.16/29, 10.77.1.64/26], tools: [] }\n"
     "  - { agent: c, sources: [10.77.1.0/24], tools: [] }\n",
     "4:27: source 10.77.1.0/24 overlaps 10.77.1.16/28 of \"a\" (line 2); an address belongs to "
     "one of them only, so make them disjoint\n"
     "4:27: source 10.77.1.0/24 overlaps 10.77.1.16/29 of \"b\" (line 3); an address belongs to "
     "one of them only, so make them disjoint\n"
     "4:27: source 10.77.1.0/24 overlaps 10.77.1.64/26 of \"b\" (line 3); an address belongs to "
     "one of them only, so make them disjoint"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n"
     "  - { agent: b, sources: [10.77.1.16/28], tools: [] }\n",
     "3:27: source 10.77.1.16/28 overlaps 10.77.1.16/28 of \"a\" (line 2); an address belongs to "
     "one of them only, so make them disjoint"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t] }\n"
     "  - { agent: a, sources: [10.77.1.32], tools: [] }\n",
     "3:14: agent \"a\" is defined twice (first at line 2); write all its sources and tools in "
     "one entry"},
    {"agents:\n"
     "  - { agent: a b, sources: [10.77.1.16/28], tools: [t] }\n",
     "2:14: agent \"a b\" may hold letters, digits and -_. only"},
    {"agents:\n"
     "  - { agent: , sources: [10.77.1.16/28], tools: [t] }\n",
     "2:14: agent is empty; give it a value, or remove the line"},
    {"agents:\n"
     "  - { name: a, sources: [10.77.1.16/28], tools: [t] }\n",
     "2:5: an agent lacks \"agent\"; add it\n"
     "2:7: unknown key \"name\" in an agent; it takes agent, sources, tools, mode"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t], mode: observe }\n",
     "2:61: mode observe is not supported in this version; write enforce, or leave it out"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t], mode: shadow }\n",
     "2:61: mode shadow is not supported in this version; write enforce, or leave it out"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t], mode: enforced }\n",
     "2:61: mode is \"enforced\"; write enforce, or leave it out"},
    {"agents:\n"
     "  - { agent: a, sources: [10.77.1.16/28], tools: [t], mode: enforce }\n",
     ""},
};

static const struct case_row approvers_rows[] = {
    {"approvers: [ { name: security, key: "
     "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 } ]\n"
     "quorum: 1\n",
     "1:1: warning: approvals are not enforced in this version; manifests count without "
     "signatures"},
    {"approvers: [ { name: security, key: RWQf6 }, { name: security, key: "
     "RWQf6LRCGA9i53mlYecO4IzT51TGPpvWucNSCh1CBM0QTaLn73Y7GFO3 }, { nam: x } ]\n"
     "quorum: 4\n",
     "1:37: key \"RWQf6\" is no minisign public key; write the last line of the .pub file, 56 "
     "characters from RW on\n"
     "1:54: approver \"security\" is listed twice (first at line 1); remove one\n"
     "1:129: an approver lacks \"name\"; add it\n"
     "1:129: an approver lacks \"key\"; add it\n"
     "1:131: unknown key \"nam\" in an approver; did you mean \"name\"?\n"
     "2:9: quorum is 4, but there are 3 approvers; lower it, or add approvers\n"
     "1:1: warning: approvals are not enforced in this version; manifests count without "
     "signatures"},
    {"approvers: []\n"
     "quorum: 0\n",
     "2:9: quorum is \"0\"; write a number from 1 to 100\n"
     "1:1: warning: approvals are not enforced in this version; manifests count without "
     "signatures"},
    {"quorum: 1\n",
     "1:1: approvers.yaml lacks \"approvers\"; add it\n"
     "1:1: warning: approvals are not enforced in this version; manifests count without "
     "signatures"},
    {"approvers: x\n",
     "1:12: approvers must be a list; write [x]\n"
     "1:1: warning: approvals are not enforced in this version; manifests count without "
     "signatures"},
    {"x\n",
     "1:1: approvers.yaml must be a mapping (lines of \"key: value\"), not a single value"},
};

#endif
