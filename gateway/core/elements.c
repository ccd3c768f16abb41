/* elements.c: transactions on the maps of openings. */
#include "gateway/core/elements.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/core/netlink.h"
#include "gateway/core/ruleset.h"

/* Userdata of an element is a list of (type, length, value) octets; type 0 is the comment that nft
 * shows, NUL included (libnftnl's udata.h). NFT_USERDATA_MAXLEN is 256, but the kernel counts userdata
 * with an octet of its own in one octet, so 254 are taken (seen: 255 is -EINVAL, 256 is lost). */
#define COMMENT_TYPE 0
#define USERDATA_MAX 254
#define COMMENT_TEXT_MAX (USERDATA_MAX - 3)

#define KEY4_SIZE 16 /* concatenated parts are padded to 4 octets each */
#define KEY6_SIZE 40
#define TIMEOUT_MAX_MS UINT64_C(604800000)

/* Largest element in a message: nests, key, data, timeout, comment; and what a message needs. */
#define ELEMENT_BYTES_MAX 400
#define MESSAGE_BYTES 64
/* A nested attribute has a 16-bit length. */
#define LIST_BYTES_MAX 60000
#define SOCKET_BUFFER (16 << 20)
#define FULL_TRIES 3

struct change {
    uint32_t mark;
    uint32_t now; /* the mark that the kernel has, 0: not known */
    uint32_t comment; /* offset in comments */
    uint64_t timeout_ms;
    struct element_key key;
    uint8_t op, comment_size; /* size with NUL; 0: none */
    bool absent;              /* to be deleted, and not there */
};

struct request {
    uint32_t first, count; /* changes */
    int result;
};

struct elements {
    struct netlink netlink;
    struct change *changes;
    size_t changes_size, changes_used;
    char *comments;
    size_t comments_size, comments_used;
    struct request requests[ELEMENTS_REQUESTS_MAX];
    unsigned requests_used, committed;
    uint8_t *batch;
    size_t batch_size, batch_used;
    uint32_t transactions;
    uint64_t retries;
};

/* Makes room for `need` items of `item` bytes; doubles. */
static int reserve(void **data, size_t *size, size_t need, size_t item) {
    if (need <= *size) return 0;
    size_t grown = *size ? *size : 64;
    while (grown < need) grown *= 2;
    void *moved = realloc(*data, grown * item);
    if (!moved) return -ENOMEM;
    *data = moved;
    *size = grown;
    return 0;
}

int elements_open(struct elements **ret) {
    struct elements *e = calloc(1, sizeof *e);
    int error = e ? netlink_open(&e->netlink, NETLINK_NETFILTER, 0, SOCKET_BUFFER) : -ENOMEM;
    if (error == 0) error = reserve((void **)&e->batch, &e->batch_size, 65536, 1);
    if (error < 0) {
        elements_close(e);
        return error;
    }
    *ret = e;
    return 0;
}

struct elements *elements_close(struct elements *e) {
    if (!e) return NULL;
    netlink_close(&e->netlink);
    free(e->changes);
    free(e->comments);
    free(e->batch);
    free(e);
    return NULL;
}

void elements_begin(struct elements *e) {
    e->requests_used = 0;
    e->changes_used = 0;
    e->comments_used = 0;
}

int elements_request(struct elements *e) {
    if (e->requests_used == ELEMENTS_REQUESTS_MAX) return -ENOSPC;
    e->requests[e->requests_used] = (struct request){.first = (uint32_t)e->changes_used};
    return (int)e->requests_used++;
}

void elements_cancel(struct elements *e) {
    if (e->requests_used == 0) return;
    e->requests_used--;
    e->changes_used = e->requests[e->requests_used].first;
}

unsigned elements_pending(const struct elements *e) { return (unsigned)e->changes_used; }
uint32_t elements_transactions(const struct elements *e) { return e->transactions; }
uint64_t elements_retries(const struct elements *e) { return e->retries; }

static bool key_valid(const struct element_key *k) {
    return addr_valid(&k->client) && addr_valid(&k->remote) &&
           k->client.family == k->remote.family && k->port != 0 && k->zero == 0 &&
           (k->protocol == IPPROTO_TCP || k->protocol == IPPROTO_UDP);
}

static bool change_valid(const struct element_change *c) {
    if (!key_valid(&c->key)) return false;
    if (c->op == ELEMENT_DELETE) return true;
    return (c->op == ELEMENT_ADD || c->op == ELEMENT_REFRESH) && c->mark != 0 &&
           c->timeout_ms >= 1 && c->timeout_ms <= TIMEOUT_MAX_MS &&
           (!c->name || c->name->length == 0 || name_valid(c->name));
}

/* Keeps the name as text; one too long for a comment is left out. */
static int comment_store(struct elements *e, const struct name *name, struct change *change) {
    char text[NAME_TEXT_MAX];
    if (!name || name->length == 0) return 0;
    int length = name_to_text(name, text, sizeof text);
    if (length < 0) return length;
    if (length > COMMENT_TEXT_MAX) return 0;
    size_t size = (size_t)length + 1;
    int error = reserve((void **)&e->comments, &e->comments_size, e->comments_used + size, 1);
    if (error < 0) return error;
    memcpy(e->comments + e->comments_used, text, size);
    change->comment = (uint32_t)e->comments_used;
    change->comment_size = (uint8_t)size;
    e->comments_used += size;
    return 0;
}

int elements_put(struct elements *e, const struct element_change *change) {
    int error;
    if (e->requests_used == 0 || !change_valid(change)) return -EINVAL;
    if (e->changes_used == ELEMENTS_CHANGES_MAX) return -ENOSPC;
    error = reserve((void **)&e->changes, &e->changes_size, e->changes_used + 1,
                    sizeof *e->changes);
    if (error < 0) return error;
    struct change *c = &e->changes[e->changes_used];
    *c = (struct change){.op = (uint8_t)change->op, .key = change->key, .mark = change->mark,
                         .now = change->was ? change->was : change->mark,
                         .timeout_ms = change->timeout_ms};
    if (change->op != ELEMENT_DELETE) {
        error = comment_store(e, change->name, c);
        if (error < 0) return error;
    }
    e->changes_used++;
    e->requests[e->requests_used - 1].count++;
    return 0;
}

/* ---- building ---------------------------------------------------------------------------- */

static struct nlmsghdr *head_put(struct elements *e, uint16_t type, uint16_t flags, uint8_t family,
                                 uint16_t resource) {
    struct nlmsghdr *m = mnl_nlmsg_put_header(e->batch + e->batch_used);
    struct nfgenmsg *g = mnl_nlmsg_put_extra_header(m, sizeof *g);
    m->nlmsg_type = type;
    m->nlmsg_flags = NLM_F_REQUEST | flags;
    m->nlmsg_seq = netlink_sequence(&e->netlink);
    g->nfgen_family = family;
    g->version = NFNETLINK_V0;
    g->res_id = htons(resource);
    return m;
}

static void batch_start(struct elements *e) {
    e->batch_used = 0;
    struct nlmsghdr *m = head_put(e, NFNL_MSG_BATCH_BEGIN, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    e->batch_used += m->nlmsg_len;
}

/* Ends the transaction and asks for the one acknowledgement: `last` is the last message in it. */
static void batch_end(struct elements *e, struct nlmsghdr *last) {
    last->nlmsg_flags |= NLM_F_ACK;
    struct nlmsghdr *m = head_put(e, NFNL_MSG_BATCH_END, 0, AF_UNSPEC, NFNL_SUBSYS_NFTABLES);
    e->batch_used += m->nlmsg_len;
}

static void key_put(struct nlmsghdr *m, const struct element_key *k) {
    uint8_t key[KEY6_SIZE] = {0};
    size_t size = k->client.family == 4 ? 4 : 16;
    uint16_t port = htons(k->port);
    memcpy(key, k->client.bytes, size);
    memcpy(key + size, k->remote.bytes, size);
    key[2 * size] = k->protocol;
    memcpy(key + 2 * size + 4, &port, sizeof port);
    struct nlattr *nest = mnl_attr_nest_start(m, NFTA_SET_ELEM_KEY);
    mnl_attr_put(m, NFTA_DATA_VALUE, 2 * size + 8, key);
    mnl_attr_nest_end(m, nest);
}

/* `full`: with timeout and comment; without, an element that only has to exist for a moment. */
static void element_put(struct elements *e, struct nlmsghdr *m, const struct change *c, bool add,
                        bool full) {
    struct nlattr *nest = mnl_attr_nest_start(m, NFTA_LIST_ELEM);
    key_put(m, &c->key);
    if (add) {
        /* Marks are in host order in a register, hence in the element. */
        uint32_t mark = full ? c->mark : c->now;
        struct nlattr *data = mnl_attr_nest_start(m, NFTA_SET_ELEM_DATA);
        mnl_attr_put(m, NFTA_DATA_VALUE, sizeof mark, &mark);
        mnl_attr_nest_end(m, data);
    }
    if (add && full) {
        mnl_attr_put_u64(m, NFTA_SET_ELEM_TIMEOUT, htobe64(c->timeout_ms));
        if (c->comment_size > 0) {
            uint8_t udata[USERDATA_MAX] = {COMMENT_TYPE, c->comment_size};
            memcpy(udata + 2, e->comments + c->comment, c->comment_size);
            mnl_attr_put(m, NFTA_SET_ELEM_USERDATA, 2u + c->comment_size, udata);
        }
    }
    mnl_attr_nest_end(m, nest);
}

struct list {
    struct nlmsghdr *message; /* the one being filled, NULL: none */
    struct nlattr *nest;
};

static void list_end(struct elements *e, struct list *l, struct nlmsghdr **last) {
    if (!l->message) return;
    mnl_attr_nest_end(l->message, l->nest);
    e->batch_used += l->message->nlmsg_len;
    *last = l->message;
    *l = (struct list){0};
}

static void list_begin(struct elements *e, struct list *l, bool add, bool exclusive, int family) {
    uint16_t type = add ? NFT_MSG_NEWSETELEM : NFT_MSG_DELSETELEM;
    uint16_t flags = add ? (uint16_t)(NLM_F_CREATE | (exclusive ? NLM_F_EXCL : 0)) : 0;
    l->message = head_put(e, (uint16_t)(NFNL_SUBSYS_NFTABLES << 8 | type), flags, NFPROTO_INET, 0);
    mnl_attr_put_strz(l->message, NFTA_SET_ELEM_LIST_TABLE, RULESET_TABLE);
    mnl_attr_put_strz(l->message, NFTA_SET_ELEM_LIST_SET, family == 4 ? "open4" : "open6");
    l->nest = mnl_attr_nest_start(l->message, NFTA_SET_ELEM_LIST_ELEMENTS);
}

enum list_kind { LIST_ENSURE, LIST_DELETE, LIST_ADD };

static bool list_takes(enum list_kind kind, const struct change *c) {
    if (c->absent) return false;
    return kind == LIST_ADD ? c->op != ELEMENT_DELETE : c->op != ELEMENT_ADD;
}

/* One list of a request, of this family. */
static void request_list(struct elements *e, const struct request *r, int family,
                         enum list_kind kind, struct nlmsghdr **last) {
    struct list l = {0};
    bool add = kind != LIST_DELETE;
    for (uint32_t i = 0; i < r->count; i++) {
        const struct change *c = &e->changes[r->first + i];
        if (c->key.client.family != family || !list_takes(kind, c)) continue;
        if (l.message && l.message->nlmsg_len > LIST_BYTES_MAX) list_end(e, &l, last);
        if (!l.message) list_begin(e, &l, add, kind == LIST_ADD, family);
        element_put(e, l.message, c, add, kind == LIST_ADD);
    }
    list_end(e, &l, last);
}

/* Room for the whole of a batch, before pointers into it are taken. */
static int batch_reserve(struct elements *e, size_t changes, size_t requests) {
    size_t need = changes * (2 * ELEMENT_BYTES_MAX + 3 * MESSAGE_BYTES) +
                  requests * 4 * MESSAGE_BYTES + 4 * MESSAGE_BYTES + LIST_BYTES_MAX;
    return reserve((void **)&e->batch, &e->batch_size, need, 1);
}

static int batch_send(struct elements *e, struct nlmsghdr *last) {
    if (!last) return 0; /* nothing to change */
    batch_end(e, last);
    int error = netlink_batch(&e->netlink, e->batch, e->batch_used, last->nlmsg_seq, NULL);
    if (error == 0) e->transactions++;
    return error;
}

/* Notes which mark the kernel has, so that an add of it is a no-op. */
static void change_look(struct elements *e, struct change *c) {
    struct element element;
    int found = elements_get(e, &c->key, &element);
    if (found == 1) c->now = element.mark;
    /* One that is not there takes any mark for the moment. */
    else c->now = c->mark ? c->mark : UINT32_MAX;
    c->absent = c->op == ELEMENT_DELETE && found == 0;
}

/* All requests in one transaction, believing what the caller believes. */
static int group_send(struct elements *e) {
    struct nlmsghdr *last = NULL;
    int error = batch_reserve(e, e->changes_used, e->requests_used);
    if (error < 0) return error;
    for (size_t i = 0; i < e->changes_used; i++)
        if (e->changes[i].now == 0) change_look(e, &e->changes[i]);
    batch_start(e);
    for (unsigned i = 0; i < e->requests_used; i++)
        for (int family = 4; family <= 6; family += 2)
            for (enum list_kind kind = LIST_ENSURE; kind <= LIST_ADD; kind++)
                request_list(e, &e->requests[i], family, kind, &last);
    return batch_send(e, last);
}

static void single_put(struct elements *e, const struct change *c, bool add, bool exclusive,
                       bool full, struct nlmsghdr **last) {
    struct list l = {0};
    list_begin(e, &l, add, exclusive, c->key.client.family);
    element_put(e, l.message, c, add, full);
    list_end(e, &l, last);
}

/* Add, delete, add, change by change, so that even a key that comes twice is right. */
static int request_send(struct elements *e, const struct request *r) {
    struct nlmsghdr *last = NULL;
    int error = batch_reserve(e, r->count, 1);
    if (error < 0) return error;
    for (uint32_t i = 0; i < r->count; i++) change_look(e, &e->changes[r->first + i]);
    batch_start(e);
    for (uint32_t i = 0; i < r->count; i++) {
        const struct change *c = &e->changes[r->first + i];
        if (c->absent) continue;
        single_put(e, c, true, false, false, &last);
        single_put(e, c, false, false, false, &last);
        if (c->op != ELEMENT_DELETE) single_put(e, c, true, true, true, &last);
    }
    return batch_send(e, last);
}

static bool request_has(const struct elements *e, const struct request *r, enum element_op op) {
    for (uint32_t i = 0; i < r->count; i++)
        if (e->changes[r->first + i].op == op) return true;
    return false;
}

/* Tries each request alone. Every refusal is dear, so what is known to fail is not tried: all when the
 * map is gone, what adds when the map was full for several. */
static void requests_retry(struct elements *e, unsigned requests) {
    unsigned full = 0;
    bool gone = false;
    e->retries++;
    for (unsigned i = 0; i < requests; i++) {
        struct request *r = &e->requests[i];
        bool adds = request_has(e, r, ELEMENT_ADD);
        if (r->count == 0) r->result = 0;
        else if (gone && (adds || request_has(e, r, ELEMENT_REFRESH))) r->result = -ENOENT;
        else if (full >= FULL_TRIES && adds) r->result = -ENFILE;
        else r->result = request_send(e, r);
        /* All begin with an add, so this is not about an element. */
        gone = gone || r->result == -ENOENT;
        full += r->result == -ENFILE;
    }
}

int elements_commit(struct elements *e) {
    unsigned requests = e->requests_used;
    int done = 0, error = e->changes_used > 0 ? group_send(e) : 0;

    for (unsigned i = 0; i < requests; i++) e->requests[i].result = error;
    if (error < 0 && error != -ENOBUFS) requests_retry(e, requests);
    for (unsigned i = 0; i < requests; i++) done += e->requests[i].result == 0;
    e->committed = requests;
    elements_begin(e);
    return error == -ENOBUFS ? error : done;
}

int elements_result(const struct elements *e, unsigned request) {
    return request < e->committed ? e->requests[request].result : -EINVAL;
}

/* ---- reading ----------------------------------------------------------------------------- */

static struct nlmsghdr *query_head(uint64_t space[32], int family) {
    struct nlmsghdr *m = mnl_nlmsg_put_header(space);
    struct nfgenmsg *g = mnl_nlmsg_put_extra_header(m, sizeof *g);
    m->nlmsg_type = NFNL_SUBSYS_NFTABLES << 8 | NFT_MSG_GETSETELEM;
    *g = (struct nfgenmsg){.nfgen_family = NFPROTO_INET, .version = NFNETLINK_V0};
    mnl_attr_put_strz(m, NFTA_SET_ELEM_LIST_TABLE, RULESET_TABLE);
    mnl_attr_put_strz(m, NFTA_SET_ELEM_LIST_SET, family == 4 ? "open4" : "open6");
    return m;
}

struct dump {
    element_fn fn;
    void *ctx;
    int family, count;
};

static const struct nlattr *nested_find(const struct nlattr *nest, uint16_t type) {
    const struct nlattr *a;
    if (!nest) return NULL;
    mnl_attr_for_each_nested(a, nest) if (mnl_attr_get_type(a) == type) return a;
    return NULL;
}

static void key_read(const struct nlattr *attr, int family, struct element_key *ret) {
    const struct nlattr *value = nested_find(attr, NFTA_DATA_VALUE);
    size_t size = family == 4 ? 4 : 16;
    if (!value || mnl_attr_get_payload_len(value) != 2 * size + 8) return;
    const uint8_t *key = mnl_attr_get_payload(value);
    ret->client = family == 4 ? addr_from4(key) : addr_from6(key);
    ret->remote = family == 4 ? addr_from4(key + size) : addr_from6(key + size);
    ret->protocol = key[2 * size];
    ret->port = (uint16_t)(key[2 * size + 4] << 8 | key[2 * size + 5]);
}

static void comment_read(const struct nlattr *attr, struct name *ret) {
    const uint8_t *udata = mnl_attr_get_payload(attr);
    size_t size = mnl_attr_get_payload_len(attr);
    for (size_t at = 0; at + 2 <= size && at + 2 + udata[at + 1] <= size; at += 2 + udata[at + 1]) {
        char text[256] = {0};
        if (udata[at] != COMMENT_TYPE) continue;
        memcpy(text, udata + at + 2, udata[at + 1]);
        if (name_from_text(text, ret) < 0) *ret = (struct name){0};
        return;
    }
}

/* Whether the element lives: the kernel still shows those that ran out and were not collected. */
static bool element_read(const struct nlattr *nest, int family, struct element *element) {
    const struct nlattr *a, *data = NULL;
    bool timed = false;

    mnl_attr_for_each_nested(a, nest) {
        uint16_t type = mnl_attr_get_type(a), size = mnl_attr_get_payload_len(a);
        if (type == NFTA_SET_ELEM_KEY) key_read(a, family, &element->key);
        if (type == NFTA_SET_ELEM_DATA) data = nested_find(a, NFTA_DATA_VALUE);
        if (type == NFTA_SET_ELEM_TIMEOUT && size == 8) timed = be64toh(mnl_attr_get_u64(a)) != 0;
        if (type == NFTA_SET_ELEM_EXPIRATION && size == 8)
            element->remaining_ms = be64toh(mnl_attr_get_u64(a));
        if (type == NFTA_SET_ELEM_USERDATA) comment_read(a, &element->name);
    }
    if (data && mnl_attr_get_payload_len(data) == sizeof element->mark)
        memcpy(&element->mark, mnl_attr_get_payload(data), sizeof element->mark);
    return !timed || element->remaining_ms > 0;
}

static int element_give(struct dump *d, const struct nlattr *nest) {
    struct element element = {0};
    if (!element_read(nest, d->family, &element)) return 0;
    d->count++;
    return d->fn(d->ctx, &element);
}

static int dump_message(void *ctx, const struct nlmsghdr *m) {
    const struct nlattr *list, *a;
    mnl_attr_for_each(list, m, sizeof(struct nfgenmsg)) {
        if (mnl_attr_get_type(list) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
        mnl_attr_for_each_nested(a, list) {
            int error = element_give(ctx, a);
            if (error < 0) return error;
        }
    }
    return 0;
}

struct get {
    struct element element;
    int family;
    bool found;
};

static int get_take(void *ctx, const struct nlmsghdr *m) {
    struct get *g = ctx;
    const struct nlattr *list, *a;
    mnl_attr_for_each(list, m, sizeof(struct nfgenmsg)) {
        if (mnl_attr_get_type(list) != NFTA_SET_ELEM_LIST_ELEMENTS) continue;
        mnl_attr_for_each_nested(a, list) {
            g->element = (struct element){0};
            g->found = element_read(a, g->family, &g->element);
        }
    }
    return 0;
}

int elements_get(struct elements *e, const struct element_key *key, struct element *ret) {
    struct get g = {.family = key->client.family};
    uint64_t space[32];
    struct nlmsghdr *m = query_head(space, key->client.family);
    struct nlattr *list = mnl_attr_nest_start(m, NFTA_SET_ELEM_LIST_ELEMENTS);
    struct nlattr *nest = mnl_attr_nest_start(m, NFTA_LIST_ELEM);
    key_put(m, key);
    mnl_attr_nest_end(m, nest);
    mnl_attr_nest_end(m, list);
    int error = netlink_query(&e->netlink, m, get_take, &g);
    /* The kernel says -ENOENT for a missing element as well as for a missing map. */
    if (error == -ENOENT) return 0;
    if (error < 0) return error;
    if (!g.found) return 0;
    *ret = g.element;
    return 1;
}

int elements_dump(struct elements *e, int family, element_fn fn, void *ctx) {
    struct dump d = {.fn = fn, .ctx = ctx, .family = family};
    uint64_t space[32];
    struct nlmsghdr *m = query_head(space, family);
    m->nlmsg_flags = NLM_F_DUMP;
    int error = netlink_query(&e->netlink, m, dump_message, &d);
    return error < 0 ? error : d.count;
}
