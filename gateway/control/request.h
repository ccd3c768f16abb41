/* request.h: one line of the control socket -> a checked request. Pure. */
#ifndef GATEWAY_CONTROL_REQUEST_H
#define GATEWAY_CONTROL_REQUEST_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/base/addr.h"
#include "gateway/base/name.h"

#define REQUEST_LINE_MAX 4096
#define REQUEST_ERROR_MAX 256

enum request_op { OP_STATUS, OP_OPENINGS, OP_WHY, OP_EXPLAIN, OP_RELOAD, OP_VERSION };

struct request {
    enum request_op op;
    struct addr client; /* explain; openings: filter, family 0 any */
    struct addr remote; /* why; openings: filter, family 0 any */
    struct name name;   /* explain */
    uint16_t type;      /* explain */
};

/* 0, or -EINVAL and one line of what is wrong. */
int request_parse(const char *line, size_t size, struct request *ret,
                  char error[REQUEST_ERROR_MAX]);

#endif
