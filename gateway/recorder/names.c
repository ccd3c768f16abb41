/* names.c: mnemonics of the DNS registries (IANA "Domain Name System (DNS) Parameters"). */
#include <stdio.h>

#include "gateway/recorder/format.h"

const char *type_name(uint16_t type, char text[16]) {
    static const struct {
        uint16_t type;
        const char *name;
    } types[] = {
        {1, "A"},           {2, "NS"},          {5, "CNAME"},   {6, "SOA"},     {10, "NULL"},
        {12, "PTR"},        {13, "HINFO"},      {15, "MX"},     {16, "TXT"},    {17, "RP"},
        {18, "AFSDB"},      {24, "SIG"},        {25, "KEY"},    {28, "AAAA"},   {29, "LOC"},
        {33, "SRV"},        {35, "NAPTR"},      {36, "KX"},     {37, "CERT"},   {39, "DNAME"},
        {41, "OPT"},        {42, "APL"},        {43, "DS"},     {44, "SSHFP"},  {45, "IPSECKEY"},
        {46, "RRSIG"},      {47, "NSEC"},       {48, "DNSKEY"}, {49, "DHCID"},  {50, "NSEC3"},
        {51, "NSEC3PARAM"}, {52, "TLSA"},       {53, "SMIMEA"}, {55, "HIP"},    {59, "CDS"},
        {60, "CDNSKEY"},    {61, "OPENPGPKEY"}, {62, "CSYNC"},  {63, "ZONEMD"}, {64, "SVCB"},
        {65, "HTTPS"},      {99, "SPF"},        {104, "NID"},   {105, "L32"},   {106, "L64"},
        {107, "LP"},        {108, "EUI48"},     {109, "EUI64"}, {249, "TKEY"},  {250, "TSIG"},
        {251, "IXFR"},      {252, "AXFR"},      {255, "ANY"},   {256, "URI"},   {257, "CAA"},
        {258, "AVC"},       {261, "RESINFO"},   {32768, "TA"},  {32769, "DLV"},
    };
    for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
        if (types[i].type == type) return types[i].name;
    snprintf(text, 16, "TYPE%u", (unsigned)type);
    return text;
}

const char *rcode_name(uint32_t rcode, char text[16]) {
    switch (rcode) {
    case RC_NOERROR:
        return "NOERROR";
    case RC_FORMERR:
        return "FORMERR";
    case RC_SERVFAIL:
        return "SERVFAIL";
    case RC_NXDOMAIN:
        return "NXDOMAIN";
    case RC_NOTIMP:
        return "NOTIMP";
    case RC_REFUSED:
        return "REFUSED";
    case RC_BADVERS:
        return "BADVERS";
    }
    snprintf(text, 16, "RCODE%u", (unsigned)rcode);
    return text;
}
