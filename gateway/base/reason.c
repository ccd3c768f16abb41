/* reason.c: look-ups in the table of reasons. */
#include "gateway/base/reason.h"

#include <stddef.h>

struct row {
    const char *tag, *text;
    enum reason_answer answer;
    int ede;
};

static const struct row rows[] = {
#define X(id, tag, answer, ede, text) {tag, text, answer, ede},
    REASON_TABLE(X)
#undef X
};

static const struct row *row_of(uint32_t value) {
    return reason_valid(value) ? &rows[value - REASON_BASE - 1] : NULL;
}

int reason_valid(uint32_t value) {
    return value > REASON_BASE && value < REASON_END;
}

const char *reason_tag(uint32_t value) {
    const struct row *r = row_of(value);
    return r ? r->tag : "unknown";
}

const char *reason_text(uint32_t value) {
    const struct row *r = row_of(value);
    return r ? r->text : "not a reason of this version";
}

enum reason_answer reason_answer(uint32_t value) {
    const struct row *r = row_of(value);
    return r ? r->answer : ANSWER_FAIL; /* never taken for an answer with data */
}

int reason_ede(uint32_t value) {
    const struct row *r = row_of(value);
    return r ? r->ede : EDE_NONE;
}
