/* policy_load_fuzz.c: any bytes as one of the operator's files. Whatever they are, reading ends,
 * every fault is one printable line, and a file without faults makes an image that opens.
 *
 * The first octet picks the file: g gateway.yaml, t a manifest, a agents.yaml, p approvers.yaml.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gateway/policy/load/model.h"
#include "gateway/policy/load/text.h"
#include "tests/fuzz/require.h"

static psl_ctx_t *suffixes; /* loaded once: it takes longer than everything else */

static void check_report(struct model *m) {
    char *report;
    size_t size;
    FILE *out = open_memstream(&report, &size);
    faults_print(&m->faults, out);
    fclose(out);
    unsigned lines = 0;
    for (size_t at = 0; at < size;) {
        uint32_t point;
        size_t octets = text_utf8(report + at, &point);
        require(octets > 0 && (point == '\n' || text_showable(point)));
        lines += point == '\n';
        at += octets;
    }
    require(lines == m->faults.count + (m->faults.faults + m->faults.warnings > m->faults.count));
    free(report);
}

static void check_image(struct model *m) {
    void *image;
    size_t size;
    struct policy p;
    if (!image_build(m, &image, &size)) return;
    require(policy_open(&p, image, size) == 0);
    free(image);
}

static void load(struct model *m, char kind, const struct source_file *file) {
    switch (kind) {
    case 'g':
        gateway_load(m, file);
        break;
    case 't':
        manifest_load(m, file);
        break;
    case 'a':
        agents_load(m, file);
        break;
    default:
        approvers_load(m, file);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct model m = {0};
    char path[64];
    if (!suffixes) suffixes = psl_load_file("conf/public_suffix_list.dat");
    require(suffixes != NULL);
    if (size < 1) return 0;
    int fd = memfd_create("policy", MFD_CLOEXEC);
    require(fd >= 0 && write(fd, data + 1, size - 1) == (ssize_t)size - 1);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct clock_fake fake = {.realtime = UINT64_C(1796000000) * USEC_PER_SEC};
    struct clock clock = clock_fake_of(&fake);
    model_start(&m, &clock);
    require(!m.faults.nomem);
    m.psl = suffixes;
    m.tools_incomplete = true; /* there are none: that is not what is looked for */
    gateway_defaults(&m);
    load(&m, (char)data[0], model_file(&m, path, "file.yaml"));
    check_report(&m);
    if (m.faults.faults == 0) check_image(&m);
    m.psl = NULL;
    model_end(&m);
    close(fd);
    return 0;
}
