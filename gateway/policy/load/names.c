/* names.c: name patterns as written -> canonical. The table of what is accepted is in DESIGN
 * section 4 and tidegate.yaml(5); every refusal says what to write instead.
 *
 * Names beyond ASCII go through libidn2 (IDNA2008, non-transitional, RFC 5891) and are told in both
 * forms, so that a look-alike is seen when the policy is reviewed. Public suffixes come from
 * libpsl: a wildcard right below one would allow names that anyone can register.
 */
#include <errno.h>
#include <idn2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/policy/load/model.h"
#include "gateway/policy/load/text.h"

#define WRITTEN_MAX 1000 /* bytes; 253 characters can take four each */
#define IDN_FLAGS   (IDN2_NFC_INPUT | IDN2_NONTRANSITIONAL)

/* One name on its way. */
struct pending {
    struct model *m;
    struct place at;
    bool deny; /* it is for the deny list */
    const char *written;
    char host[WRITTEN_MAX + 1]; /* without wildcard label and trailing dot; then in ASCII */
    struct policy_pattern pattern;
};

#define tell(p, ...) fault_add(&(p)->m->faults, (p)->at, __VA_ARGS__)

/* ---- what is not a name at all --------------------------------------------------------------- */

/* "[2001:db8::1]" or "2001:db8::1", with or without prefix length. */
static bool tell_address(const struct pending *p, const char *text) {
    char bare[ADDR_TEXT_MAX + 8];
    size_t size = strlen(text), skip = text[0] == '[';
    if (size >= sizeof bare) return false;
    memcpy(bare, text + skip, size - skip + 1);
    if (skip && strchr(bare, ']')) *strchr(bare, ']') = '\0';
    struct prefix prefix;
    if (prefix_parse(bare, &prefix) == -EINVAL) return false;
    if (p->deny) {
        tell(p,
             "\"%s\" is an address; remove it, addresses are denied unless a manifest lists them",
             shown(text).text);
    } else {
        tell(p, "\"%s\" is an address, not a name; write address: \"%s\"", shown(text).text, bare);
    }
    return true;
}

/* The host in a URL or a host:port, for the advice. */
static const char *host_in(const char *text, char host[WRITTEN_MAX + 1]) {
    const char *scheme = strstr(text, "://");
    const char *start = scheme ? scheme + 3 : text;
    size_t size = strcspn(start, "/?#");
    const char *user = memchr(start, '@', size);
    if (user) {
        size -= (size_t)(user + 1 - start);
        start = user + 1;
    }
    size_t host_size = strcspn(start, ":");
    if (host_size < size) size = host_size;
    memcpy(host, start, size);
    host[size] = '\0';
    return size > 0 ? host : "api.example.com";
}

static bool tell_form(const struct pending *p) {
    const char *text = p->written;
    char host[WRITTEN_MAX + 1];
    if (strstr(text, "://")) {
        tell(p, "\"%s\" is a URL; write the host name alone: %s", shown(text).text,
             shown(host_in(text, host)).text);
    } else if (tell_address(p, text)) {
        return true;
    } else if (strchr(text, '/')) {
        tell(p, "\"%s\" holds a path; write the host name alone: %s", shown(text).text,
             shown(host_in(text, host)).text);
    } else if (strchr(text, '@')) {
        tell(p, "\"%s\" is not a host name; write the host name alone: %s", shown(text).text,
             shown(host_in(text, host)).text);
    } else if (strchr(text, ':')) {
        tell(p, "\"%s\" holds a port; write name: %s and port: %s", shown(text).text,
             shown(host_in(text, host)).text, shown(strchr(text, ':') + 1).text);
    } else if (strpbrk(text, " \t")) {
        tell(p, "\"%s\" holds a space; write one name for each endpoint", shown(text).text);
    } else {
        return false;
    }
    return true;
}

/* ---- wildcards ------------------------------------------------------------------------------- */

static bool tell_wildcard(const struct pending *p, const char *rest) {
    if (strspn(p->written, "*.") == strlen(p->written)) {
        tell(p, "\"%s\" would match every name; list the names that are needed",
             shown(p->written).text);
        return true;
    }
    if (p->written[0] == '.') {
        tell(p,
             "\"%s\" starts with a dot; write **%s for all names below, and %s for the name itself",
             shown(p->written).text, shown(p->written).text, shown(p->written + 1).text);
        return true;
    }
    if (strchr(rest, '*')) {
        tell(p,
             "\"%s\" has a * outside of the leftmost label; write *. or **. in front of the name, "
             "or * inside the leftmost label",
             shown(p->written).text);
        return true;
    }
    return false;
}

static bool glob_set(struct pending *p, const char *label, size_t size) {
    if (size > NAME_LABEL_MAX) {
        tell(p, "\"%s\" has a label of more than 63 characters; no name can match it",
             shown(p->written).text);
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char c = label[i];
        if (c >= 'A' && c <= 'Z') c = (char)(c - 'A' + 'a');
        if (c == '*' && i > 0 && label[i - 1] == '*') {
            tell(p, "\"%s\" has ** inside a label; write one *", shown(p->written).text);
            return false;
        }
        if ((uint8_t)c >= 0x80) {
            tell(p,
                 "\"%s\" has * beside letters that are not ASCII, which has no meaning in the DNS; "
                 "list the names one by one",
                 shown(p->written).text);
            return false;
        }
        if (!strchr("abcdefghijklmnopqrstuvwxyz0123456789-_*", c)) {
            tell(p, "\"%s\" may hold letters, digits, - and _ only", shown(p->written).text);
            return false;
        }
        p->pattern.glob[i] = (uint8_t)c;
    }
    p->pattern.kind = PATTERN_GLOB;
    p->pattern.glob_length = (uint8_t)size;
    return true;
}

/* Takes the wildcard label off; p->host gets the rest. */
static bool split_wildcard(struct pending *p) {
    const char *text = p->written, *rest = text;
    size_t label = strcspn(text, ".");
    if (memchr(text, '*', label)) rest = text[label] == '.' ? text + label + 1 : text + label;
    if (tell_wildcard(p, rest)) return false;
    if (rest != text) {
        if (label == 1)
            p->pattern.kind = PATTERN_ONE;
        else if (label == 2 && text[1] == '*')
            p->pattern.kind = PATTERN_DEEP;
        else if (!glob_set(p, text, label))
            return false;
    }
    size_t size = strlen(rest);
    if (size > 0 && rest[size - 1] == '.') size--;
    memcpy(p->host, rest, size);
    p->host[size] = '\0';
    if (size == 0) {
        tell(p, "\"%s\" would match every name; list the names that are needed",
             shown(p->written).text);
        return false;
    }
    return true;
}

/* ---- to ASCII -------------------------------------------------------------------------------- */

static bool to_ascii(struct pending *p) {
    char *ascii = NULL;
    int rc = idn2_to_ascii_8z(p->host, &ascii, IDN_FLAGS);
    if (rc != IDN2_OK) {
        tell(p,
             "\"%s\" is no valid internationalised name (%s); correct it, or write its xn-- form",
             shown(p->written).text, idn2_strerror(rc));
        return false;
    }
    size_t size = strlen(ascii);
    bool fits = size <= WRITTEN_MAX;
    if (fits) {
        fault_warn(&p->m->faults, p->at, "\"%s\" is %s in the DNS", shown(p->host).text,
                   shown(ascii).text);
        memcpy(p->host, ascii, size + 1);
    } else {
        tell(p, "\"%s\" is longer than 253 characters in the DNS; no name can match it",
             shown(p->written).text);
    }
    idn2_free(ascii);
    return fits;
}

/* Tells an xn-- name in the form people read. One that does not decode is still a name. */
static void show_decoded(struct pending *p) {
    char *unicode = NULL;
    if (idn2_to_unicode_8z8z(p->host, &unicode, 0) != IDN2_OK) return;
    if (strcasecmp(unicode, p->host) != 0) {
        fault_warn(&p->m->faults, p->at, "\"%s\" is %s in Unicode", shown(p->host).text,
                   shown(unicode).text);
    }
    idn2_free(unicode);
}

static bool check_labels(const struct pending *p) {
    const char *label = p->host;
    for (;;) {
        size_t size = strcspn(label, ".");
        if (size == 0) {
            tell(p, "\"%s\" has an empty label; write one dot between labels",
                 shown(p->written).text);
            return false;
        }
        if (size > NAME_LABEL_MAX) {
            tell(p, "\"%s\" has a label of more than 63 characters; no name can match it",
                 shown(p->written).text);
            return false;
        }
        if (label[size] == '\0') return true;
        label += size + 1;
    }
}

static bool check_charset(const struct pending *p) {
    for (const char *c = p->host; *c != '\0'; c++) {
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.", *c)) {
            tell(p, "\"%s\" may hold letters, digits, - and _ only", shown(p->written).text);
            return false;
        }
    }
    return true;
}

/* What programs take for an IPv4 address (WHATWG URL, "ends in a number"), or for the name on the
 * search list of whoever asks. */
static bool check_last_label(const struct pending *p) {
    const char *dot = strrchr(p->host, '.');
    const char *last = dot ? dot + 1 : p->host;
    if (strspn(last, "0123456789") == strlen(last)) {
        tell(p,
             "\"%s\" ends in a number, as addresses do; write a name, or address: for an address",
             shown(p->written).text);
        return false;
    }
    if (!dot && p->pattern.kind == PATTERN_EXACT &&
        !psl_is_public_suffix2(p->m->psl, p->host, PSL_TYPE_ICANN | PSL_TYPE_NO_STAR_RULE)) {
        tell(p, "\"%s\" is a single label; write the full name, as in %s.example.com",
             shown(p->written).text, shown(p->host).text);
        return false;
    }
    return true;
}

static bool to_base(struct pending *p) {
    if (!text_is_ascii(p->host) && !to_ascii(p)) return false;
    if (!check_labels(p) || !check_charset(p) || !check_last_label(p)) return false;
    /* One label at least stands in front of a wildcard's base, with its length octet. */
    size_t in_front = p->pattern.kind == PATTERN_GLOB    ? p->pattern.glob_length + 1u
                      : p->pattern.kind == PATTERN_EXACT ? 0
                                                         : 2;
    if (name_from_text(p->host, &p->pattern.base) < 0 ||
        p->pattern.base.length + in_front > NAME_WIRE_MAX) {
        tell(p, "\"%s\" is longer than 253 characters in the DNS; no name can match it",
             shown(p->written).text);
        return false;
    }
    return true;
}

/* ---- public suffixes ------------------------------------------------------------------------- */

/* A registry's suffix (com, co.uk) is refused as a name as well. One from the private section
 * (s3.amazonaws.com) is often a host of its own that tools call, so as a name it is accepted; a
 * wildcard right below it would take in everyone's names and is refused like any other. */
static bool check_suffix(const struct pending *p) {
    char host[NAME_TEXT_MAX];
    name_to_text(&p->pattern.base, host, sizeof host);
    bool icann = psl_is_public_suffix2(p->m->psl, host, PSL_TYPE_ICANN) != 0;
    if (p->pattern.kind == PATTERN_EXACT) {
        if (!icann) return true;
        tell(p, "\"%s\" is a public suffix; write a name below it, as in api.example.%s",
             shown(p->written).text, host);
        return false;
    }
    if (!icann && !psl_is_public_suffix2(p->m->psl, host, PSL_TYPE_PRIVATE)) return true;
    tell(p,
         "\"%s\" would match names that anyone can get, since %s is a %s; write a longer name, as "
         "in "
         "*.example.%s, or list the names",
         shown(p->written).text, host, strchr(host, '.') ? "public suffix" : "top-level domain",
         host);
    return false;
}

bool pattern_read(struct model *m, const struct reader *r, const struct node *n, bool deny,
                  struct policy_pattern *ret) {
    struct pending p = {.m = m, .at = node_place(r, n), .deny = deny};
    if (!text_read(r, n, "the name", WRITTEN_MAX, &p.written)) return false;
    if (tell_form(&p) || !split_wildcard(&p)) return false;
    bool had_ascii = text_is_ascii(p.host);
    if (!to_base(&p) || !check_suffix(&p)) return false;
    if (had_ascii && strcasestr(p.host, "xn--")) show_decoded(&p);
    *ret = p.pattern;
    return true;
}

/* ---- the list -------------------------------------------------------------------------------- */

/* The list beside the build tree of this executable, so that it works before installation. */
static const char *list_of_tree(struct model *m) {
    char path[POLICY_PATH_MAX + 64];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 1);
    if (size <= 0) return NULL;
    path[size] = '\0';
    char *slash = strrchr(path, '/');
    if (!slash) return NULL;
    *slash = '\0';
    return model_join(m, path, "/../../conf/public_suffix_list.dat", "");
}

bool suffixes_load(struct model *m, const char *path) {
    static const char installed[] = TIDEGATE_DATADIR "/public_suffix_list.dat";
    const char *use = path ? path : installed;
    if (!path && access(installed, R_OK) < 0) {
        const char *beside = list_of_tree(m);
        if (beside && access(beside, R_OK) == 0) use = beside;
    }
    const struct source_file *file = model_file(m, use, "");
    if (!file) return false;
    char *bytes;
    size_t size;
    if (file_read(&m->faults, file, &bytes, &size) < 0) {
        fault_add(&m->faults, (struct place){file, 1, 1},
                  "the list of public suffixes is needed to "
                  "judge wildcards; install it there, or make it with tools/update-psl");
        return false;
    }
    FILE *stream = size > 0 ? fmemopen(bytes, size, "r") : NULL;
    if (stream) {
        m->psl = psl_load_fp(stream);
        fclose(stream);
    }
    free(bytes);
    /* Anything parses as such a list, an empty file too; com is in every real one. */
    if (!m->psl || psl_suffix_count(m->psl) < 1000) {
        fault_add(&m->faults, (struct place){file, 1, 1},
                  "is no list of public suffixes; make it with tools/update-psl");
        return false;
    }
    return true;
}
