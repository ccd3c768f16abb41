/* scan.h: a file as text: encoding, control characters, tabs that indent. */
#ifndef GATEWAY_POLICY_LOAD_SCAN_H
#define GATEWAY_POLICY_LOAD_SCAN_H

#include "gateway/policy/load/fault.h"

/* `bytes` end in a NUL that `size` does not count. 0, or -1 after faults. */
int scan_text(struct faults *f, const struct source_file *file, const char *bytes, size_t size);

#endif
