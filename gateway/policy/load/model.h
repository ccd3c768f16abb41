/* model.h: everything the files said, between reading and building the image. */
#ifndef GATEWAY_POLICY_LOAD_MODEL_H
#define GATEWAY_POLICY_LOAD_MODEL_H

#include <libpsl.h>

#include "gateway/base/arena.h"
#include "gateway/base/clock.h"
#include "gateway/policy/load/value.h"
#include "gateway/policy/load/words.h"
#include "gateway/policy/policy.h"

/* Attribution marks have 14 bits for the subject and 18 for the endpoint, 0 is neither. */
#define MODEL_AGENTS_MAX    16383u
#define MODEL_ENDPOINTS_MAX 262143u
#define MODEL_SUBNETS_MAX   256u
#define MODEL_FILES_MAX     20000u

/* A growing array. */
struct list {
    void *items;
    size_t count, capacity, item_size;
};

struct model_source { /* source of an agent, or subnet of an interface */
    struct prefix prefix;
    struct place at;
    uint32_t owner; /* agent; interface, or POLICY_INTERFACES_MAX for management */
};

struct model_endpoint {
    struct policy_endpoint out;    /* indexes of texts and patterns are filled in by the builder */
    struct policy_pattern pattern; /* base.length 0: an address endpoint */
    const char *pattern_text, *data;
    struct place at;
};

struct model_tool {
    const char *name, *version, *owner, *purpose;
    const char *full; /* name@version */
    struct place at;
    uint32_t endpoint_first, endpoint_count;
    bool expired;   /* known, so that naming it is no fault, but left out of the image */
    bool addresses; /* has address endpoints */
    bool several;   /* the first of its name, and there is another version */
};

struct model_agent {
    const char *name;
    struct place at;
    uint32_t source_first, source_count;
    uint32_t tool_first, tool_count; /* in agent_tools */
    uint32_t mode;
};

struct model_deny {
    struct policy_pattern pattern;
    const char *text;
    struct place at;
};

struct model {
    struct faults faults;
    struct arena *arena; /* names, paths, texts */
    unsigned files;      /* the order of faults */
    unsigned files_over; /* manifests past MODEL_FILES_MAX */
    psl_ctx_t *psl;
    int64_t today;  /* days since 1970-01-01, UTC */
    bool appliance; /* gateway.yaml was read: sources can be held against subnets */

    struct policy_gateway gateway;
    struct place policy_at; /* where `policy:` stands */
    bool policy_guessed;    /* from a file with a fault: no word if it is not there */

    struct list subnets;     /* struct model_source */
    struct list tools;       /* struct model_tool */
    struct list endpoints;   /* struct model_endpoint */
    struct list agents;      /* struct model_agent */
    struct list sources;     /* struct model_source */
    struct list agent_tools; /* uint32_t: tool */
    struct list denies;      /* struct model_deny */

    struct words tool_versions; /* name@version -> tool */
    struct words tool_names;    /* name -> the first tool of that name */
    bool tools_incomplete; /* a manifest's tool is not known for its faults: naming one is no fault
                            */
};

/* An empty model; nomem is set when even that failed. `clock` as in struct load_source. */
void model_start(struct model *m, const struct clock *clock);
void model_end(struct model *m);

/* One zeroed item more; NULL (and nomem) when out of memory. */
void *list_add(struct model *m, struct list *l);
/* Several items at the end. */
bool list_append(struct model *m, struct list *l, const void *items, size_t count);
static inline void *list_at(const struct list *l, size_t i) {
    return (char *)l->items + i * l->item_size;
}
/* Memory and a copy of text that last as long as the model; NULL (and nomem). */
void *model_alloc(struct model *m, size_t size);
const char *model_text(struct model *m, const char *text);
const char *model_join(struct model *m, const char *a, const char *b, const char *c);
struct source_file *model_file(struct model *m, const char *path, const char *relative);

/* Reads, parses and hands over the root of one file; tells an empty one. Behind a fault that ends
 * the reading, `broken` (or NULL) gets what came before it, which may be nothing (NULL). The tree
 * lives only meanwhile: what stays is copied. */
typedef void document_fn(struct model *m, const struct reader *r, const struct node *root);
void document_load(struct model *m, const struct source_file *file, document_fn *whole,
                   document_fn *broken);

/* ---- the readers, in the order of their use; faults go to m->faults ---- */

/* names.c: a name pattern of an endpoint or of the deny list. */
bool pattern_read(struct model *m, const struct reader *r, const struct node *n, bool deny,
                  struct policy_pattern *ret);
bool suffixes_load(struct model *m, const char *path);

/* gateway.c */
void gateway_defaults(struct model *m);
void gateway_load(struct model *m, const struct source_file *file);

/* manifest.c, endpoint.c, ports.c */
void manifest_load(struct model *m, const struct source_file *file);
void endpoint_read(struct model *m, const struct reader *r, const struct node *n);
bool protocol_read(const struct reader *r, const struct node *protocol, const struct node *port,
                   struct policy_endpoint *e);
bool types_read(const struct reader *r, const struct node *n, struct policy_endpoint *e);

/* agents.c, approvers.c */
void agents_load(struct model *m, const struct source_file *file);
void approvers_load(struct model *m, const struct source_file *file);

/* Tells sources (or subnets) that overlap. `what` in faults: "source". */
void overlaps_tell(struct model *m, const struct list *sources, const char *what,
                   const char *(*owner_name)(const struct model *, uint32_t));

/* key.c: the 16-byte keys, by BLAKE2b. */
void key_of_agent(const char *name, uint8_t ret[POLICY_KEY_SIZE]);
void key_of_endpoint(const struct model_tool *tool, struct model_endpoint *e);

/* ---- building ---- */

/* static.c: the elements of all address endpoints, sorted as the image wants them. */
bool statics_make(struct model *m, struct list *ret);
/* build.c: the image, malloc()ed. False: nomem, or a fault (too large). */
bool image_build(struct model *m, void **ret, size_t *ret_size);

#endif
