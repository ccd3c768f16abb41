/* vet.c: the checks between an upstream's answer and anything that acts on it. */
#include "resolver/vet/vet.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CLASS_IN       1
#define TYPE_SIG       24
#define TYPE_NXT       30
#define TYPE_RRSIG     46
#define TYPE_NSEC      47
#define VET_OTHERS_MAX 256 /* records of a non-address answer */

struct vetted {
    unsigned references;
    enum vetted_kind kind;
    uint32_t ttl;
    unsigned chain_count, addr_count, other_count;
    size_t bytes; /* of this block */
    const struct wire_hop *chain;
    const struct addr *addrs;
    const struct wire_record *others;
};

/* What is found on the way from the name asked; points into the answer. */
struct walk {
    const struct wire_answer *answer;
    const struct name *asked;
    uint16_t type;
    const struct name *at; /* the end of the chain so far */
    struct wire_hop chain[VET_CHAIN_MAX];
    unsigned chain_count;
    struct addr addrs[VET_ADDRS_MAX];
    unsigned addr_count;
    const struct wire_record *others[VET_OTHERS_MAX];
    unsigned other_count;
    size_t others_bytes;
    uint32_t ttl;
};

static bool type_is_address(uint16_t type) {
    return type == TYPE_A || type == TYPE_AAAA;
}

/* Types there is no answer to: 0, OPT, the query-only and meta types (RFC 6895 section 3.1), and
 * SVCB and HTTPS, whose hints would lead around the control. Policy turns these away long before;
 * here nothing depends on that. */
static bool type_has_answer(uint16_t type) {
    return type != 0 && type != TYPE_OPT && type != TYPE_SVCB && type != TYPE_HTTPS &&
           (type < 128 || type > 255);
}

/* RFC 4034 section 2.5, RFC 2535 section 2.3.5: signatures and denial may stand beside a CNAME. */
static bool type_beside_cname(uint16_t type) {
    return type == TYPE_RRSIG || type == TYPE_NSEC || type == TYPE_SIG || type == TYPE_NXT;
}

static void ttl_lower(struct walk *w, uint32_t ttl) {
    if (ttl < w->ttl) w->ttl = ttl;
}

/* RFC 6672 section 2.2: `name`, which is below `owner`, with that tail replaced by `target`. */
static bool name_substituted(const struct name *name, const struct name *owner,
                             const struct name *target, const struct name *claimed) {
    size_t head = (size_t)(name->length - owner->length);
    return head + target->length == claimed->length &&
           memcmp(claimed->wire, name->wire, head) == 0 &&
           memcmp(claimed->wire + head, target->wire, target->length) == 0;
}

/* Every DNAME above the name must produce exactly the CNAME at the name; `cname` may be NULL. */
static int dnames_check(struct walk *w, const struct wire_record *cname) {
    for (unsigned i = 0; i < w->answer->count; i++) {
        const struct wire_record *r = &w->answer->records[i];
        if (r->type != TYPE_DNAME || name_equal(&r->owner, w->at) || !name_within(w->at, &r->owner))
            continue;
        if (r->class != CLASS_IN || !cname ||
            !name_substituted(w->at, &r->owner, &r->target, &cname->target))
            return -REASON_BAD_ANSWER;
        ttl_lower(w, r->ttl);
    }
    return 0;
}

/* The CNAME to follow from where we are, in *ret; NULL at the chain's end. */
static int cname_find(struct walk *w, const struct wire_record **ret) {
    const struct wire_record *cname = NULL;
    bool beside = false;
    for (unsigned i = 0; i < w->answer->count; i++) {
        const struct wire_record *r = &w->answer->records[i];
        if (!name_equal(&r->owner, w->at)) continue;
        if (r->class != CLASS_IN) return -REASON_BAD_ANSWER;
        if (r->type == TYPE_CNAME) {
            if (cname) return -REASON_BAD_ANSWER;
            cname = r;
        } else if (!type_beside_cname(r->type)) {
            beside = true;
        }
    }
    if (cname && beside) return -REASON_BAD_ANSWER;
    int error = dnames_check(w, cname);
    if (error == 0)
        *ret = w->type == TYPE_CNAME ? NULL : cname; /* who asks for the CNAME gets it */
    return error;
}

/* Whether the name was on the chain before. */
static bool name_visited(const struct walk *w, const struct name *name) {
    if (name_equal(name, w->asked)) return true;
    for (unsigned i = 0; i < w->chain_count; i++)
        if (name_equal(name, w->chain[i].target)) return true;
    return false;
}

static int chain_follow(struct walk *w) {
    for (;;) {
        const struct wire_record *cname = NULL;
        int error = cname_find(w, &cname);
        if (error < 0 || !cname) return error;
        if (w->chain_count == VET_CHAIN_MAX || name_visited(w, &cname->target))
            return -REASON_BAD_ANSWER;
        w->chain[w->chain_count++] = (struct wire_hop){&cname->target, cname->ttl};
        w->at = &cname->target;
        ttl_lower(w, cname->ttl);
    }
}

static int addr_take(struct walk *w, const struct wire_record *r) {
    if (r->type != w->type || !addr_valid(&r->addr) ||
        r->addr.family != (r->type == TYPE_A ? 4 : 6))
        return -REASON_BAD_ANSWER;
    ttl_lower(w, r->ttl);
    for (unsigned i = 0; i < w->addr_count; i++)
        if (addr_equal(&w->addrs[i], &r->addr)) return 0;
    if (w->addr_count == VET_ADDRS_MAX) return -REASON_NAME_CAP;
    w->addrs[w->addr_count++] = r->addr;
    return 0;
}

static int other_take(struct walk *w, const struct wire_record *r) {
    if (w->other_count == VET_OTHERS_MAX || r->rdata_size > VET_OTHERS_BYTES_MAX - w->others_bytes)
        return -REASON_BAD_ANSWER;
    ttl_lower(w, r->ttl);
    w->others_bytes += r->rdata_size;
    w->others[w->other_count++] = r;
    return 0;
}

/* The records at the chain's end. An address beside a question for something else is passed over
 * like any record nobody asked for; an A in an answer to AAAA is a lie about the question. */
static int end_take(struct walk *w) {
    bool address = type_is_address(w->type);
    for (unsigned i = 0; i < w->answer->count; i++) {
        const struct wire_record *r = &w->answer->records[i];
        int error = 0;
        if (!name_equal(&r->owner, w->at)) continue;
        if (address && type_is_address(r->type))
            error = addr_take(w, r);
        else if (!address && r->type == w->type)
            error = other_take(w, r);
        if (error < 0) return error;
    }
    return 0;
}

/* RFC 2308 section 5: as long as the SOA says, and no SOA (or one of another place in the tree):
 * not at all. */
static void negative_ttl(struct walk *w) {
    bool says = w->answer->has_soa && name_within(w->at, &w->answer->soa_owner);
    ttl_lower(w, says ? w->answer->soa_ttl : 0);
}

/* Header of the block, then arrays in order of alignment, then names, addresses and octets. */
static size_t block_size(const struct walk *w) {
    return sizeof(struct vetted) + w->other_count * sizeof(struct wire_record) +
           w->chain_count * (sizeof(struct wire_hop) + sizeof(struct name)) +
           w->addr_count * sizeof(struct addr) + w->others_bytes;
}

static struct vetted *vetted_make(const struct walk *w, enum vetted_kind kind) {
    _Static_assert(sizeof(struct vetted) % _Alignof(struct wire_record) == 0, "no padding");
    _Static_assert(sizeof(struct wire_record) % _Alignof(struct wire_hop) == 0, "no padding");
    struct vetted *v = malloc(block_size(w));
    if (!v) return NULL;
    struct wire_record *others = (struct wire_record *)(v + 1);
    struct wire_hop *chain = (struct wire_hop *)(others + w->other_count);
    struct name *names = (struct name *)(chain + w->chain_count);
    struct addr *addrs = (struct addr *)(names + w->chain_count);
    uint8_t *octets = (uint8_t *)(addrs + w->addr_count);

    *v = (struct vetted){.references = 1,
                         .kind = kind,
                         .ttl = w->ttl,
                         .bytes = block_size(w),
                         .chain_count = w->chain_count,
                         .addr_count = w->addr_count,
                         .other_count = w->other_count,
                         .chain = chain,
                         .addrs = addrs,
                         .others = others};
    for (unsigned i = 0; i < w->chain_count; i++) {
        names[i] = *w->chain[i].target;
        chain[i] = (struct wire_hop){&names[i], w->chain[i].ttl};
    }
    memcpy(addrs, w->addrs, w->addr_count * sizeof *addrs);
    for (unsigned i = 0; i < w->other_count; i++) {
        others[i] = *w->others[i];
        others[i].rdata = octets;
        memcpy(octets, w->others[i]->rdata, w->others[i]->rdata_size);
        octets += w->others[i]->rdata_size;
    }
    return v;
}

static enum vetted_kind kind_of(const struct walk *w) {
    if (w->answer->extended_rcode == RC_NXDOMAIN) return VETTED_NXDOMAIN;
    if (w->addr_count > 0) return VETTED_ADDRS;
    return w->other_count > 0 ? VETTED_OTHERS : VETTED_NODATA;
}

int vet_answer(const struct name *name, uint16_t type, const struct wire_answer *answer,
               struct vetted **ret) {
    struct walk w = {.answer = answer, .asked = name, .type = type, .at = name, .ttl = UINT32_MAX};
    if (!type_has_answer(type) || answer->truncated) return -REASON_BAD_ANSWER;
    if (answer->extended_rcode != RC_NOERROR && answer->extended_rcode != RC_NXDOMAIN)
        return -REASON_UPSTREAM_ERROR;
    int error = chain_follow(&w);
    if (error == 0) error = end_take(&w);
    if (error < 0) return error;
    bool data = w.addr_count + w.other_count > 0;
    if (data && answer->extended_rcode == RC_NXDOMAIN) return -REASON_BAD_ANSWER;
    if (!data) negative_ttl(&w);
    struct vetted *v = vetted_make(&w, kind_of(&w));
    if (!v) return -ENOMEM;
    *ret = v;
    return 0;
}

struct vetted *vetted_ref(struct vetted *v) {
    v->references++;
    return v;
}

struct vetted *vetted_unref(struct vetted *v) {
    if (v && --v->references == 0) free(v);
    return NULL;
}

enum vetted_kind vetted_kind(const struct vetted *v) {
    return v->kind;
}
uint32_t vetted_ttl(const struct vetted *v) {
    return v->ttl;
}
size_t vetted_bytes(const struct vetted *v) {
    return v->bytes;
}

unsigned vetted_chain(const struct vetted *v, const struct wire_hop **ret) {
    *ret = v->chain;
    return v->chain_count;
}

unsigned vetted_addrs(const struct vetted *v, const struct addr **ret) {
    *ret = v->addrs;
    return v->addr_count;
}

unsigned vetted_others(const struct vetted *v, const struct wire_record **ret) {
    *ret = v->others;
    return v->other_count;
}
