/* client.h: what one client may ask: a rate and a number of queries in flight. A bounded table; who
 * has been quiet long enough to be as good as new makes room first.
 */
#ifndef RESOLVER_FLOW_CLIENT_H
#define RESOLVER_FLOW_CLIENT_H

#include <stdint.h>
#include <sys/queue.h>

#include "gateway/base/addr.h"
#include "gateway/base/clock.h"

struct query;
TAILQ_HEAD(query_list, query);

struct client {
    struct addr addr; /* family 0: all unknown clients together */
    struct client *next;
    TAILQ_ENTRY(client) used; /* in order of last use */
    usec_t filled;            /* when the buckets were last filled */
    usec_t credit, excess;    /* buckets, as time saved up: at most a second */
    uint32_t pending;
    struct query_list queries; /* in flight */
};

struct clients;

struct clients *clients_new(uint32_t max, uint64_t seed);
struct clients *clients_free(struct clients *c); /* takes NULL; returns NULL */

/* The client's entry, made when it is new. NULL when there is no room or no memory: the caller drops
 * the query. */
struct client *clients_get(struct clients *c, const struct addr *addr, usec_t now);

enum client_rate { RATE_OK, RATE_OVER, RATE_FLOOD };
/* Takes one query's worth out of the bucket of `rate` a second (burst: a second's worth). What does
 * not fit is OVER, and comes out of a second bucket; what does not fit there either is FLOOD. */
enum client_rate client_take(struct client *c, uint32_t rate, usec_t now);

#endif
