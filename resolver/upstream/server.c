/* server.c: round trip times, health and choice of upstreams. */
#include "resolver/upstream/server.h"

#include <string.h>

static const struct server *known(const struct servers *s, const struct addr *a, uint16_t port) {
    for (unsigned i = 0; i < s->count; i++)
        if (s->list[i].port == port && addr_equal(&s->list[i].address, a))
            return &s->list[i];
    return NULL;
}

unsigned servers_set(struct servers *s, const struct policy_gateway *g) {
    struct servers next = {.generation = s->generation + 1};
    for (unsigned i = 0; i < g->upstream_count; i++) {
        if (g->upstreams[i].tls_name[0])
            continue;
        struct server fresh = {.address = g->upstreams[i].address, .port = g->upstreams[i].port};
        const struct server *old = known(s, &fresh.address, fresh.port);
        next.list[next.count++] = old ? *old : fresh;
    }
    *s = next;
    return s->count;
}

int servers_choose(struct servers *s, uint32_t tried) {
    int best = -1;
    for (unsigned i = 0; i < s->count; i++) {
        const struct server *c = &s->list[i], *b = best < 0 ? NULL : &s->list[best];
        if (tried >> i & 1)
            continue;
        bool away = c->away > 0, best_away = b && b->away > 0;
        if (!b || (best_away && !away) ||
            (away == best_away && (away ? c->back < b->back : c->rtt < b->rtt)))
            best = (int)i;
    }
    for (unsigned i = 0; i < s->count; i++) /* 2 % a question: one ten times slower is tried again after about 115 */
        if ((int)i != best && !(tried >> i & 1))
            s->list[i].rtt -= s->list[i].rtt / 50;
    return best;
}

int servers_probe(struct servers *s, usec_t now) {
    for (unsigned i = 0; i < s->count; i++) {
        struct server *c = &s->list[i];
        if (c->away == 0 || c->probing || c->back > now)
            continue;
        c->probing = true;
        return (int)i;
    }
    return -1;
}

usec_t server_timeout(const struct server *s) {
    if (s->rtt == 0)
        return SERVER_TIMEOUT_FIRST;
    usec_t t = s->rtt + 4 * s->variation;
    return t < SERVER_TIMEOUT_MIN ? SERVER_TIMEOUT_MIN
           : t > SERVER_TIMEOUT_MAX ? SERVER_TIMEOUT_MAX
                                    : t;
}

void server_answered(struct server *s, usec_t rtt) {
    if (rtt == 0)
        rtt = 1;
    if (s->rtt == 0) {
        s->rtt = rtt;
        s->variation = rtt / 2;
    } else {
        usec_t off = rtt > s->rtt ? rtt - s->rtt : s->rtt - rtt;
        s->variation = (3 * s->variation + off) / 4;
        s->rtt = (7 * s->rtt + rtt) / 8;
    }
    s->fails = 0;
    s->away = 0;
    s->probing = false;
}

void server_failed(struct server *s, bool hard, usec_t now) {
    s->fails += hard ? SERVER_FAILS_DEAD : 1;
    /* Slower than it was: the others come first even before it counts as dead. */
    s->rtt = s->rtt == 0 ? SERVER_TIMEOUT_FIRST : s->rtt * 2;
    if (s->rtt > 4 * SERVER_TIMEOUT_MAX)
        s->rtt = 4 * SERVER_TIMEOUT_MAX;
    if (s->fails < SERVER_FAILS_DEAD)
        return;
    if (s->away > 0 && s->back > now) /* several questions in flight fail together: count once */
        return;
    s->away = s->away == 0 ? SERVER_AWAY_MIN : s->away * 2;
    if (s->away > SERVER_AWAY_MAX)
        s->away = SERVER_AWAY_MAX;
    s->back = now + s->away;
    s->probing = false;
}
