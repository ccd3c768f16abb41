/* log.c: `tidegate log tail`: options, which records are wanted, and where the log is. */
#include "tools/tidegate/log.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/recorder/fields.h"
#include "tools/tidegate/cli.h"
#include "tools/tidegate/log_files.h"
#include "tools/tidegate/log_show.h"

#define DEFAULT_LOG "/var/log/tidegate"
#define FOLLOW_PAUSE_MSEC 200
#define LAST_DEFAULT 10

struct tail {
    const char *agent, *kind, *decision, *name; /* NULL: any */
    const char *directory, *config;
    size_t last;
    bool follow, json, local, help;
    /* The last ones, gathered backwards. */
    char **lines;
    size_t count, room;
    uint64_t corrupt;
};

static const char help[] =
    "usage: tidegate log tail [option ...]\n"
    "\n"
    "Prints the last records of the audit log, from its files; no daemon is needed.\n"
    "\n"
    "  -n, --lines N         how many (10), or \"all\"\n"
    "  -f, --follow          goes on with records as they come, over rotations\n"
    "      --agent NAME      only of this agent\n"
    "      --kind KIND       only of this kind: query, flow, denied-packet, start, stop,\n"
    "                        policy, loss\n"
    "      --decision WHICH  only allow, or only deny\n"
    "      --name NAME       only with this domain name, as it is in the log (xn--...);\n"
    "                        * stands for anything\n"
    "      --json            the records as they stand, see tidegate-log(5)\n"
    "      --local           times of the local time zone, not UTC\n"
    "  -d, --directory DIR   where the log is, or\n"
    "  -c, --config FILE     the gateway.yaml that says where\n"
    "\n"
    "Exit status: 0, 1 if there is no log or something in it is not a record, 2 usage.\n";

/* ---- which records ------------------------------------------------------------------------- */

static bool equals(const json_t *record, const char *key, const char *wanted) {
    const char *text = json_string_value(json_object_get(record, key));
    return wanted == NULL || (text != NULL && strcmp(text, wanted) == 0);
}

static bool wanted(const struct tail *t, const json_t *record) {
    const char *name = json_string_value(json_object_get(record, "name"));
    if (!equals(record, "agent", t->agent) || !equals(record, "kind", t->kind)) return false;
    if (!equals(record, "decision", t->decision)) return false;
    if (t->name == NULL) return true;
    /* Backslashes in names are escapes of ours, not of the pattern. */
    return name != NULL && fnmatch(t->name, name, FNM_CASEFOLD | FNM_NOESCAPE) == 0;
}

/* The record of a line, or NULL: it is none, which was said. */
static json_t *record_of(struct tail *t, const char *file, const char *line, size_t size) {
    json_t *record = json_loadb(line, size, JSON_REJECT_DUPLICATES, NULL);
    if (json_is_object(record) && json_is_string(json_object_get(record, "kind"))) return record;
    json_decref(record);
    char start[41];
    size_t shown = size < sizeof start - 1 ? size : sizeof start - 1;
    for (size_t i = 0; i < shown; i++) start[i] = line[i] != '\0' ? line[i] : '?';
    start[shown] = '\0';
    fprintf(stderr, "tidegate: %s: not a record, skipped: ", file);
    show_clean(stderr, start);
    fprintf(stderr, "%s\n", size > shown ? " ..." : "");
    t->corrupt++;
    return NULL;
}

static void print(const struct tail *t, const json_t *record, const char *line, size_t size) {
    if (!t->json) {
        log_show(record, t->local);
        return;
    }
    fwrite(line, 1, size, stdout);
    putchar('\n');
}

/* ---- the last ones, and the next ----------------------------------------------------------- */

static bool gather(void *ctx, const char *file, const char *line, size_t size) {
    struct tail *t = ctx;
    json_t *record = record_of(t, file, line, size);
    bool take = record != NULL && wanted(t, record);
    json_decref(record);
    if (!take) return false;
    if (t->count == t->room) {
        t->room = t->room == 0 ? 64 : t->room * 2;
        char **lines = reallocarray(t->lines, t->room, sizeof *lines);
        if (lines == NULL) abort();
        t->lines = lines;
    }
    char *copy = strndup(line, size);
    if (copy == NULL) abort();
    t->lines[t->count++] = copy;
    return true;
}

static void print_gathered(struct tail *t) {
    while (t->count > 0) {
        char *line = t->lines[--t->count];
        json_t *record = json_loads(line, 0, NULL);
        print(t, record, line, strlen(line));
        json_decref(record);
        free(line);
    }
    free(t->lines);
    t->lines = NULL;
}

static bool print_next(void *ctx, const char *file, const char *line, size_t size) {
    struct tail *t = ctx;
    json_t *record = record_of(t, file, line, size);
    bool take = record != NULL && wanted(t, record);
    if (take) print(t, record, line, size);
    json_decref(record);
    return take;
}

/* Waits a little; true when the reader of standard output is gone, however quiet the log is. */
static bool pause_or_gone(void) {
    struct pollfd out = {.fd = STDOUT_FILENO};
    return poll(&out, 1, FOLLOW_PAUSE_MSEC) > 0 && (out.revents & (POLLERR | POLLHUP | POLLNVAL));
}

static int tail_run(struct tail *t, const char *directory) {
    struct log_files f;
    int r = log_files_open(&f, directory);
    if (r == 0) {
        r = log_files_last(&f, t->last, gather, t);
        print_gathered(t);
        if (r == -ENOENT && t->follow) r = 0; /* it may come */
        while (r == 0 && t->follow) {
            if (fflush(stdout) != 0 || pause_or_gone()) break; /* nobody reads any more */
            r = log_files_follow(&f, print_next, t);
        }
        log_files_close(&f);
    }
    if (r < 0)
        fprintf(stderr, "tidegate: %s: %s\n", directory,
                r == -ENOENT ? "there is no log here; name its directory with -d" : strerror(-r));
    if (fflush(stdout) != 0 || ferror(stdout)) r = -EIO;
    return r < 0 || t->corrupt > 0 ? EXIT_DENIED : EXIT_OK;
}

/* ---- options ------------------------------------------------------------------------------- */

/* Says what is wrong with the command line. */
static int complain(const char *format, const char *what) {
    char text[256];
    snprintf(text, sizeof text, format, what);
    fputs("tidegate: ", stderr);
    show_clean(stderr, text);
    fputs("; see `tidegate log --help`\n", stderr);
    return EXIT_USAGE;
}

static bool kind_known(const char *kind) {
#define X(id, name, text) || strcmp(kind, name) == 0
    return false KIND_TABLE(X);
#undef X
}

static int parse_last(const char *text, size_t *ret) {
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (strcmp(text, "all") == 0) {
        *ret = SIZE_MAX;
        return 0;
    }
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0) return -EINVAL;
    *ret = n;
    return 0;
}

static int parse(struct tail *t, int argc, char **argv) {
    enum { AGENT = 256, KIND, DECISION, NAME, JSON, LOCAL };
    static const struct option options[] = {
        {"lines", required_argument, NULL, 'n'},  {"follow", no_argument, NULL, 'f'},
        {"agent", required_argument, NULL, AGENT}, {"kind", required_argument, NULL, KIND},
        {"decision", required_argument, NULL, DECISION},
        {"name", required_argument, NULL, NAME},  {"json", no_argument, NULL, JSON},
        {"local", no_argument, NULL, LOCAL},      {"directory", required_argument, NULL, 'd'},
        {"config", required_argument, NULL, 'c'}, {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    optind = 0; /* glibc: begin anew, main() may have used it */
    for (int c; (c = getopt_long(argc, argv, ":n:fd:c:h", options, NULL)) != -1;) {
        switch (c) {
        case 'n':
            if (parse_last(optarg, &t->last) < 0)
                return complain("-n takes a number or \"all\", not \"%s\"", optarg);
            break;
        case 'f': t->follow = true; break;
        case 'd': t->directory = optarg; break;
        case 'c': t->config = optarg; break;
        case 'h': t->help = true; break;
        case AGENT: t->agent = optarg; break;
        case KIND: t->kind = optarg; break;
        case DECISION: t->decision = optarg; break;
        case NAME: t->name = optarg; break;
        case JSON: t->json = true; break;
        case LOCAL: t->local = true; break;
        case ':': return complain("%s needs a value", argv[optind - 1]);
        default: return complain("log tail takes no option \"%s\"", argv[optind - 1]);
        }
    }
    if (optind < argc) return complain("\"%s\" is not an option", argv[optind]);
    if (t->directory != NULL && t->config != NULL) return complain("%s and -c exclude each other", "-d");
    if (t->kind != NULL && !kind_known(t->kind)) return complain("no kind \"%s\"", t->kind);
    if (t->decision != NULL && strcmp(t->decision, "allow") != 0 && strcmp(t->decision, "deny") != 0)
        return complain("--decision is allow or deny, not \"%s\"", t->decision);
    return EXIT_OK;
}

/* The directory that the configuration names, in `room`. NULL: it cannot be loaded, `report`ed. */
static const char *directory_of(const char *config, char room[POLICY_PATH_MAX], bool report) {
    const struct options o = {.config = config};
    struct files f;
    const char *what;
    int r = files_load(&o, &f, &what);
    if (r == 0) {
        snprintf(room, POLICY_PATH_MAX, "%s", policy_gateway(&f.policy)->log_directory);
    } else if (report) {
        files_report(f.report, stderr);
        fprintf(stderr, "tidegate: %s does not load; name the directory of the log with -d\n", what);
    }
    files_free(&f);
    return r == 0 ? room : NULL;
}

int log_main(int argc, char **argv, const char *config) {
    struct tail t = {.last = LAST_DEFAULT, .config = config};
    char room[POLICY_PATH_MAX];
    if (argc >= 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    if (argc < 2) return complain("%s", "log needs a verb: tail");
    if (strcmp(argv[1], "tail") != 0) return complain("\"log %s\" is not known", argv[1]);
    int status = parse(&t, argc - 1, argv + 1);
    if (status != EXIT_OK) return status;
    if (t.help) {
        fputs(help, stdout);
        return EXIT_OK;
    }
    const char *standard = TIDEGATE_SYSCONFDIR "/tidegate/gateway.yaml";
    const char *directory = t.directory;
    if (directory == NULL && t.config != NULL) {
        directory = directory_of(t.config, room, true);
        if (directory == NULL) return EXIT_DENIED;
    }
    if (directory == NULL && access(standard, R_OK) == 0)
        directory = directory_of(standard, room, false);
    return tail_run(&t, directory != NULL ? directory : DEFAULT_LOG);
}
