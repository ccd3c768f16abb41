/* overlap.c: prefixes that share addresses although they belong to different owners. */
#include <stdlib.h>
#include <string.h>

#include "gateway/policy/load/model.h"

static int compare(const void *a, const void *b) {
    const struct model_source *x = *(const struct model_source *const *)a;
    const struct model_source *y = *(const struct model_source *const *)b;
    int c = memcmp(&x->prefix, &y->prefix, sizeof x->prefix); /* family, address, length */
    if (c != 0) return c;
    return x < y ? -1 : 1; /* as written */
}

void overlaps_tell(struct model *m, const struct list *sources, const char *what,
                   const char *(*owner_name)(const struct model *, uint32_t)) {
    size_t count = sources->count;
    if (count < 2) return;
    const struct model_source **sorted = malloc(count * sizeof *sorted);
    if (!sorted) {
        m->faults.nomem = true;
        return;
    }
    for (size_t i = 0; i < count; i++) sorted[i] = list_at(sources, i);
    qsort(sorted, count, sizeof *sorted, compare);
    const struct model_source *wide = sorted[0]; /* the last one that no other holds */
    for (size_t i = 1; i < count; i++) {
        const struct model_source *s = sorted[i];
        if (!prefix_covers(&wide->prefix, &s->prefix)) {
            wide = s;
            continue;
        }
        /* The fault stands at the later of the two lines, and names the other. */
        const struct model_source *later = s > wide ? s : wide, *first = s > wide ? wide : s;
        char a[PREFIX_TEXT_MAX], b[PREFIX_TEXT_MAX];
        fault_add(&m->faults, later->at,
                  "%s %s overlaps %s of \"%s\" (line %u); an address belongs "
                  "to one of them only, so make them disjoint",
                  what, prefix_format(&later->prefix, a), prefix_format(&first->prefix, b),
                  shown(owner_name(m, first->owner)).text, first->at.line);
    }
    free(sorted);
}
