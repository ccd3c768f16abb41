/* value.h: from nodes to values: schemas of mappings, and the kinds of scalars the files hold.
 *
 * Every reader tells its fault where the node stands and returns false; *ret is then untouched, so
 * that a caller can read on with a default and find further faults.
 */
#ifndef GATEWAY_POLICY_LOAD_VALUE_H
#define GATEWAY_POLICY_LOAD_VALUE_H

#include "gateway/base/addr.h"
#include "gateway/policy/load/tree.h"

struct reader {
    struct faults *f;
    const struct source_file *file;
};

struct key {
    const char *name;
    bool required;
};

static inline struct place node_place(const struct reader *r, const struct node *n) {
    return (struct place){r->file, n->line, n->column};
}

/* Sorts a mapping's values by `keys`; values[i] stays NULL when a key is absent. Tells unknown,
 * repeated and missing keys. `what` names it in faults: "an endpoint". False: no mapping at all. */
bool map_read(const struct reader *r, const struct node *n, const char *what,
              const struct key *keys, size_t count, const struct node **values);

/* The scalar of a key, without a word about anything: for what is left of a file behind a fault, so
 * `n` may be NULL. NULL: not there. */
const char *map_peek(const struct node *n, const char *name);

/* Whether the node is a list; *ret is its first entry (NULL: an empty list). */
bool list_read(const struct reader *r, const struct node *n, const char *what,
               const struct node **ret);

/* A scalar that is not empty, at most `most` bytes. The text lives as long as the tree. */
bool text_read(const struct reader *r, const struct node *n, const char *what, size_t most,
               const char **ret);
/* One word of letters, digits and the `extra` characters. */
bool word_read(const struct reader *r, const struct node *n, const char *what, const char *extra,
               size_t most, const char **ret);
bool bool_read(const struct reader *r, const struct node *n, const char *what, uint32_t *ret);
bool number_read(const struct reader *r, const struct node *n, const char *what, uint32_t least,
                 uint32_t most, uint32_t *ret);
/* 30s, 5m, 1h; in seconds. */
bool duration_read(const struct reader *r, const struct node *n, const char *what, uint32_t least,
                   uint32_t most, uint32_t *ret);
/* One of `choices`; *ret is its number. */
bool choice_read(const struct reader *r, const struct node *n, const char *what,
                 const char *const *choices, size_t count, uint32_t *ret);
bool prefix_read(const struct reader *r, const struct node *n, const char *what,
                 struct prefix *ret);
bool addr_read(const struct reader *r, const struct node *n, const char *what, struct addr *ret);
/* 2027-03-01, as days since 1970-01-01. */
bool date_read(const struct reader *r, const struct node *n, const char *what, int64_t *ret);

/* Decimal digits without sign, spaces or leading zero, up to `most`. */
bool digits_parse(const char *text, size_t size, uint32_t most, uint32_t *ret);
/* Names of the ranges in a set of bits, "private, loopback". Returns `text`. */
const char *ranges_text(uint32_t ranges, char text[128]);

#endif
