/* build.h: the image under construction; private to build.c and index.c. */
#ifndef GATEWAY_POLICY_LOAD_BUILD_H
#define GATEWAY_POLICY_LOAD_BUILD_H

#include "gateway/policy/image.h"
#include "gateway/policy/load/model.h"

struct build {
    struct model *m;
    struct policy view; /* of the block, before it is complete */
    uint8_t *image;
    struct image_header *header;

    struct list text;          /* char */
    struct words offsets;      /* text -> offset */
    struct list statics;       /* struct policy_static */
    struct list rules;         /* struct image_rule */
    struct list bases;         /* uint8_t */
    struct list postings;      /* struct image_posting */
    struct list deny_postings; /* uint32_t */
    uint32_t *tool_index;      /* tool of the model -> tool of the image; POLICY_NONE: left out */
};

static inline void *build_section(struct build *b, enum image_section s) {
    return b->image + b->header->spans[s].offset;
}

/* index.c: rules and postings from the model, before the layout is known. */
bool index_rules(struct build *b);
/* Fills keys, directories, clients and sorted tools once the elements are in place. */
bool index_fill(struct build *b);

#endif
