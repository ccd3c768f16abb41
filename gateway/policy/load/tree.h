/* tree.h: one YAML file as a tree of nodes that know where they stand.
 *
 * A small subset of YAML, on purpose: block and flow lists and mappings, plain and quoted scalars.
 * Anchors, aliases, tags, several documents and keys that are not plain words are refused, so what
 * a reviewer sees in a file is what is in it.
 */
#ifndef GATEWAY_POLICY_LOAD_TREE_H
#define GATEWAY_POLICY_LOAD_TREE_H

#include "gateway/policy/load/fault.h"

#define TREE_FILE_MAX  (16u << 20) /* bytes */
#define TREE_NODES_MAX 4000000u
#define TREE_DEPTH_MAX 8

enum node_kind {
    NODE_TEXT,
    NODE_LIST,
    NODE_MAP,
    NODE_BROKEN, /* a fault has been told: readers say nothing more about it */
};

struct node {
    enum node_kind kind;
    uint32_t line, column;
    uint32_t count;           /* children; of a mapping: keys and values */
    const char *text;         /* of a scalar */
    const struct node *first; /* child; a mapping's children are key, value, key, value */
    const struct node *next;  /* sibling */
};

struct tree;

/* Reads a whole regular file into malloc()ed memory, with a NUL after it. 0, or -1 after a fault.
 */
int file_read(struct faults *f, const struct source_file *file, char **ret, size_t *ret_size);

/* Parses. 0, or -1 after a fault behind which nothing could be read; *ret then holds what came
 * before it (its last mapping may lack a value) and serves only to avoid faults that follow from
 * faults. NULL when there is nothing. */
int tree_parse(struct faults *f, const struct source_file *file, const char *bytes, size_t size,
               struct tree **ret);
/* NULL: an empty file. */
const struct node *tree_root(const struct tree *t);
void tree_free(struct tree *t); /* takes NULL */

#endif
