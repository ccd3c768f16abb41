/* scarce.h: makes malloc() fail when a test says so. Included by the one file of a test program;
 * the definition here takes the place of the C library's, or the sanitizer's, which it calls.
 */
#ifndef TESTS_UNIT_SCARCE_H
#define TESTS_UNIT_SCARCE_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdlib.h>

static bool memory_is_scarce;

void *malloc(size_t size) {
    static void *(*next)(size_t);
    if (!next)
        *(void **)&next = dlsym(RTLD_NEXT, "malloc");
    return memory_is_scarce ? NULL : next(size);
}

#endif
