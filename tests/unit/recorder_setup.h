/* recorder_setup.h: what the recorder's tests share: a policy image from YAML, a directory of their
 * own, messages, and a reader that holds every line against the field table.
 */
#ifndef TESTS_UNIT_RECORDER_SETUP_H
#define TESTS_UNIT_RECORDER_SETUP_H

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/policy/load/load.h"
#include "gateway/policy/policy.h"
#include "gateway/proto/proto.h"
#include "gateway/recorder/fields.h"

/* ---- directories and files ----------------------------------------------------------------- */

struct place {
    char path[64];
    int fd; /* O_PATH, as the supervisor hands it over */
};

static inline struct place place_make(void) {
    struct place p;
    snprintf(p.path, sizeof p.path, "/tmp/tg-recorder-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(p.path));
    p.fd = open(p.path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    ck_assert_int_ge(p.fd, 0);
    return p;
}

static inline void place_remove(struct place *p) {
    DIR *d = opendir(p->path);
    for (struct dirent *e; d != NULL && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') unlinkat(dirfd(d), e->d_name, 0);
    if (d != NULL) closedir(d);
    rmdir(p->path);
    close(p->fd);
}

static inline void file_put(const char *directory, const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "ae");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    ck_assert_int_eq(fclose(f), 0);
}

/* The whole file, with a NUL; NULL if there is none. The caller frees it. */
static inline char *file_get(const char *directory, const char *name, size_t *ret_size) {
    char path[320], *text = NULL;
    size_t size = 0, room = 0;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *f = fopen(path, "re");
    if (f == NULL) return NULL;
    do {
        room = room == 0 ? 65536 : 2 * room;
        text = realloc(text, room + 1);
        ck_assert_ptr_nonnull(text);
        size += fread(text + size, 1, room - size, f);
    } while (size == room);
    fclose(f);
    text[size] = '\0';
    if (ret_size != NULL) *ret_size = size;
    return text;
}

/* ---- policy -------------------------------------------------------------------------------- */

/* A sealed memfd with agents research (10.77.1.16/28, fd77:1::/64; tool web-search) and build
 * (10.77.2.0/24), under `when_full`; `salt` makes images that differ. */
static inline int image_make(const char *when_full, const char *salt) {
    struct place p = place_make();
    char config[2048], path[128], tools[128], line[512];
    snprintf(tools, sizeof tools, "%s/policy", p.path);
    mkdir(tools, 0700);
    snprintf(tools, sizeof tools, "%s/policy/tools", p.path);
    mkdir(tools, 0700);
    snprintf(config, sizeof config,
             "agents:\n"
             "  - interface: eth1\n"
             "    subnets: [10.77.0.0/16, \"fd77:1::/64\"]\n"
             "uplink: { interface: eth0, masquerade: true }\n"
             "upstreams:\n"
             "  - { address: 198.51.100.54 }\n"
             "log: { directory: /var/log/tidegate, when_full: %s }\n"
             "policy: %s/policy\n",
             when_full, p.path);
    file_put(p.path, "gateway.yaml", config);
    file_put(p.path, "policy/agents.yaml",
             "agents:\n"
             "  - { agent: research, sources: [10.77.1.16/28, \"fd77:1::/64\"], tools: [web-search] }\n"
             "  - { agent: build, sources: [10.77.2.0/24], tools: [web-search] }\n"
             "deny: [ \"*.pastebin.example\" ]\n");
    snprintf(line, sizeof line,
             "tool: web-search\nversion: 1.4.2\nowner: o@example.com\npurpose: \"%s\"\n"
             "endpoints:\n  - { name: api.search.example, protocol: https, data: public }\n",
             salt);
    file_put(p.path, "policy/tools/web-search.yaml", line);
    snprintf(path, sizeof path, "%s/gateway.yaml", p.path);
    struct load_source source = {.config = path, .public_suffix_list = "conf/public_suffix_list.dat"};
    struct load_result result;
    ck_assert_msg(load_policy(&source, stderr, &result) == 0, "the test's policy does not load");
    int fd = memfd_create("image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, result.image, result.size), (ssize_t)result.size);
    fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL);
    load_result_free(&result);
    snprintf(path, sizeof path, "%s/policy/tools/web-search.yaml", p.path);
    unlink(path);
    rmdir(tools);
    snprintf(path, sizeof path, "%s/policy/agents.yaml", p.path);
    unlink(path);
    snprintf(path, sizeof path, "%s/policy", p.path);
    rmdir(path);
    place_remove(&p);
    return fd;
}

/* ---- messages ------------------------------------------------------------------------------ */

static inline struct addr address(const char *text) {
    struct addr a;
    ck_assert_int_eq(addr_parse(text, &a), 0);
    return a;
}

static inline struct name name_of(const char *text) {
    struct name n;
    memset(&n, 0, sizeof n);
    ck_assert_int_eq(name_from_text(text, &n), 0);
    return n;
}

#define TEST_TIME (UINT64_C(1796045820) * USEC_PER_SEC + 123456) /* 2026-11-30T13:37:00.123456Z */

static inline void query_fill(struct msg_query *q, uint64_t policy, const char *name) {
    q->time = TEST_TIME;
    q->policy = policy;
    q->ref = 0x1122334455667788u;
    q->client = address("10.77.1.17");
    q->client_port = 40000;
    q->type = TYPE_A;
    q->name = name_of(name);
    q->reason = REASON_NOT_LISTED;
    q->rcode = RC_NXDOMAIN;
    q->agent = 0;
    q->endpoint = q->deny = POLICY_NONE;
}

static inline void denied_fill(struct msg_denied *d, uint16_t port) {
    const uint8_t packet[] = {0x45, 0, 0, 60, 0, 1, 0, 0, 64, 6, 0, 0, 10, 77, 1, 17, 203, 0, 113, 7,
                              0xc0, 1, (uint8_t)(port >> 8), (uint8_t)port};
    d->time = TEST_TIME;
    d->reason = REASON_NO_OPENING;
    d->interface = 3;
    memcpy(d->interface_name, "eth1", 5);
    d->protocol = 4;
    d->length = sizeof packet;
    memcpy(d->bytes, packet, sizeof packet);
}

static inline void flow_fill(struct msg_flow *f, uint64_t policy) {
    f->time = TEST_TIME;
    f->policy = policy;
    f->id = 77;
    f->client = address("fd77:1::17");
    f->remote = address("2001:db8::7");
    f->client_port = 40000;
    f->remote_port = 443;
    f->protocol = 6;
    f->mark = 0x40001;
    f->name = name_of("api.search.example");
    f->bytes_out = 1000;
    f->bytes_in = UINT64_MAX;
    f->packets_out = 10;
    f->packets_in = 20;
    f->duration_usec = 1500000;
    f->end = FLOW_REVOKED;
}

/* ---- records ------------------------------------------------------------------------------- */

static inline bool value_fits(const json_t *v, enum field_type type) {
    size_t i;
    json_t *item;
    switch (type) {
    case FIELD_TYPE_TIME:
        return json_is_string(v) && json_string_length(v) == 27;
    case FIELD_TYPE_TEXT:
        return json_is_string(v);
    case FIELD_TYPE_ADDRESS: {
        struct addr a;
        return json_is_string(v) && addr_parse(json_string_value(v), &a) == 0;
    }
    case FIELD_TYPE_NUMBER:
        return json_is_integer(v) && json_integer_value(v) >= 0;
    case FIELD_TYPE_TEXTS:
        json_array_foreach(v, i, item) if (!json_is_string(item)) return false;
        return json_is_array(v);
    case FIELD_TYPE_NUMBERS:
        json_array_foreach(v, i, item) if (!json_is_integer(item)) return false;
        return json_is_array(v);
    }
    return false;
}

static inline const char *record_text_of(const json_t *record, enum field f) {
    return json_string_value(json_object_get(record, field_table[f].name));
}

static inline uint64_t record_number_of(const json_t *record, enum field f) {
    return (uint64_t)json_integer_value(json_object_get(record, field_table[f].name));
}

/* Parses one line and holds it against the table: exactly the fields of its kind, in order, each of
 * its type or null; ASCII without controls. The caller drops the result. */
static inline json_t *record_check(const char *line, size_t size) {
    json_error_t error;
    for (size_t i = 0; i < size; i++)
        ck_assert_msg(line[i] >= 0x20 && line[i] < 0x7f, "byte 0x%02x in a record",
                      (unsigned char)line[i]);
    json_t *record = json_loadb(line, size, JSON_REJECT_DUPLICATES, &error);
    ck_assert_msg(json_is_object(record), "not JSON: %s: %.*s", error.text, (int)size, line);
    const char *kind = record_text_of(record, FIELD_KIND), *key;
    ck_assert_ptr_nonnull(kind);
    enum record_kind k = 0;
    while (k < KIND_COUNT && strcmp(kind_name(k), kind) != 0) k++;
    ck_assert_msg(k < KIND_COUNT, "kind %s is not documented", kind);
    void *at = json_object_iter(record);
    for (enum field f = 0; f < FIELD_TOTAL; f++) {
        if (!(field_table[f].kinds & 1u << k)) continue;
        ck_assert_msg(at != NULL, "%s lacks %s", kind, field_table[f].name);
        key = json_object_iter_key(at);
        ck_assert_str_eq(key, field_table[f].name);
        const json_t *v = json_object_iter_value(at);
        ck_assert_msg(json_is_null(v) || value_fits(v, field_table[f].type),
                      "%s of %s has another type", key, kind);
        at = json_object_iter_next(record, at);
    }
    ck_assert_msg(at == NULL, "%s has the undocumented field %s", kind, json_object_iter_key(at));
    return record;
}

typedef void record_fn(void *ctx, const json_t *record);

/* Checks every line of a file. Returns how many there are. */
static inline size_t records_each(const char *directory, const char *name, record_fn *each, void *ctx) {
    size_t size = 0, count = 0;
    char *text = file_get(directory, name, &size);
    if (text == NULL) return 0;
    for (char *line = text; line < text + size; count++) {
        char *end = memchr(line, '\n', (size_t)(text + size - line));
        ck_assert_msg(end != NULL, "%s ends in an unfinished record", name);
        json_t *record = record_check(line, (size_t)(end - line));
        if (each != NULL) each(ctx, record);
        json_decref(record);
        line = end + 1;
    }
    free(text);
    return count;
}

#endif
