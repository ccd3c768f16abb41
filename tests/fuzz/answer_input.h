/* answer_input.h: takes id and question from the message itself, so that the fuzzer gets past the
 * check that they fit. */
#ifndef TESTS_FUZZ_ANSWER_INPUT_H
#define TESTS_FUZZ_ANSWER_INPUT_H

#include "resolver/wire/wire.h"

struct answer_input {
    uint16_t id, type;
    struct name name;
};

static inline bool answer_input_read(const uint8_t *data, size_t size, struct answer_input *ret) {
    if (size < 12)
        return false;
    int length = name_from_wire(data + 12, size - 12, &ret->name);
    if (length < 0 || size < 12 + (size_t)length + 4)
        return false;
    ret->id = (uint16_t)(data[0] << 8 | data[1]);
    ret->type = (uint16_t)(data[12 + length] << 8 | data[12 + length + 1]);
    return true;
}

#endif
