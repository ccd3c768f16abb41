/* rrtype.c: names of DNS record types (IANA registry "Resource Record (RR) TYPEs"). */
#include "gateway/control/rrtype.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

static const struct {
    uint16_t type;
    const char *name;
} names[] = {
    {1, "A"},        {2, "NS"},          {5, "CNAME"},    {6, "SOA"},     {10, "NULL"},
    {12, "PTR"},     {13, "HINFO"},      {15, "MX"},      {16, "TXT"},    {17, "RP"},
    {18, "AFSDB"},   {28, "AAAA"},       {29, "LOC"},     {33, "SRV"},    {35, "NAPTR"},
    {37, "CERT"},    {39, "DNAME"},      {43, "DS"},      {44, "SSHFP"},  {46, "RRSIG"},
    {47, "NSEC"},    {48, "DNSKEY"},     {50, "NSEC3"},   {51, "NSEC3PARAM"},
    {52, "TLSA"},    {53, "SMIMEA"},     {59, "CDS"},     {60, "CDNSKEY"}, {61, "OPENPGPKEY"},
    {64, "SVCB"},    {65, "HTTPS"},      {99, "SPF"},     {255, "ANY"},   {256, "URI"},
    {257, "CAA"},
};

int rrtype_parse(const char *text, uint16_t *ret) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcasecmp(text, names[i].name)) continue;
        *ret = names[i].type;
        return 0;
    }
    if (strncasecmp(text, "TYPE", 4) || text[4] < '0' || text[4] > '9') return -EINVAL;
    char *end;
    unsigned long value = strtoul(text + 4, &end, 10);
    if (*end || end - text > 9 || value > UINT16_MAX) return -EINVAL;
    *ret = (uint16_t)value;
    return 0;
}

const char *rrtype_format(uint16_t type, char text[RRTYPE_TEXT_MAX]) {
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].type == type) {
            snprintf(text, RRTYPE_TEXT_MAX, "%s", names[i].name);
            return text;
        }
    snprintf(text, RRTYPE_TEXT_MAX, "TYPE%u", type);
    return text;
}
