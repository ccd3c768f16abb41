/* approvers.c: policy/approvers.yaml. Its form is checked; signatures are not looked at in this
 * version, and a warning says so, since an operator who wrote the file expects that they are.
 */
#include <string.h>

#include "gateway/policy/load/model.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* A public key as minisign prints it: base64 of "Ed", 8 bytes of key id, 32 bytes of key. */
static void key_check(const struct reader *r, const struct node *n) {
    static const char base64[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *text;
    if (!text_read(r, n, "key", 256, &text)) return;
    if (strlen(text) == 56 && strncmp(text, "RW", 2) == 0 && strspn(text, base64) == 56) return;
    fault_add(r->f, node_place(r, n),
              "key \"%s\" is no minisign public key; write the last line of "
              "the .pub file, 56 characters from RW on",
              shown(text).text);
}

static void approver_read(struct model *m, const struct reader *r, const struct node *n,
                          struct words *names) {
    static const struct key keys[] = {{"name", true}, {"key", true}};
    const struct node *v[COUNT(keys)];
    const char *name;
    if (!map_read(r, n, "an approver", keys, COUNT(keys), v)) return;
    if (v[1]) key_check(r, v[1]);
    if (!v[0] || !word_read(r, v[0], "name", "-_.@", 64, &name)) return;
    bool new;
    const struct words_slot *slot = words_add(names, name, n->line, &new);
    if (!slot)
        m->faults.nomem = true;
    else if (!new) {
        fault_add(r->f, node_place(r, v[0]),
                  "approver \"%s\" is listed twice (first at line %u); "
                  "remove one",
                  name, slot->value);
    }
}

static void approvers_read(struct model *m, const struct reader *r, const struct node *root) {
    static const struct key keys[] = {{"approvers", true}, {"quorum", false}};
    const struct node *v[COUNT(keys)], *n;
    uint32_t count = 0, quorum;
    if (!map_read(r, root, "approvers.yaml", keys, COUNT(keys), v)) return;
    if (v[0] && list_read(r, v[0], "approvers", &n)) {
        struct words names = {0};
        for (; n; n = n->next, count++) approver_read(m, r, n, &names);
        words_free(&names);
        if (v[1] && number_read(r, v[1], "quorum", 1, 100, &quorum) && quorum > count) {
            fault_add(r->f, node_place(r, v[1]),
                      "quorum is %u, but there are %u approvers; lower "
                      "it, or add approvers",
                      quorum, count);
        }
    }
    fault_warn(r->f, node_place(r, root),
               "approvals are not enforced in this version; manifests count without signatures");
}

void approvers_load(struct model *m, const struct source_file *file) {
    document_load(m, file, approvers_read, NULL);
}
