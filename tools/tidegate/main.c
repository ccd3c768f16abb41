/* main.c: the `tidegate` command: which verb, its options, help. */
#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <string.h>

#include "tools/tidegate/cli.h"
#include "tools/tidegate/log.h"

enum { /* which options a command takes */
    TAKES_CONFIG = 1, TAKES_SOCKET = 2, TAKES_JSON = 4, TAKES_CLIENT = 8, TAKES_REMOTE = 16,
    TAKES_NAME = 32, TAKES_TYPE = 64, TAKES_FILES = 128, TAKES_ARGUMENT = 256,
};
#define INSTANCE (TAKES_CONFIG | TAKES_SOCKET)

static int version_main(const struct options *o) {
    (void)o;
    puts("tidegate " TIDEGATE_VERSION);
    return EXIT_OK;
}

static const struct command {
    const char *name;
    int (*run)(const struct options *o); /* NULL: takes its arguments itself */
    unsigned takes;
    const char *arguments, *summary, *more;
} commands[] = {
    {"check", check_main, TAKES_CONFIG | TAKES_JSON | TAKES_ARGUMENT, "[DIR | -c FILE] [--json]",
     "load a policy folder or a configuration; say every fault",
     "DIR is a policy folder alone; -c FILE a gateway.yaml with the folder it names (default:\n"
     TIDEGATE_SYSCONFDIR "/tidegate/gateway.yaml). Needs no daemon. Exit 1 when there are faults.\n"},
    {"explain", explain_main,
     INSTANCE | TAKES_JSON | TAKES_CLIENT | TAKES_NAME | TAKES_TYPE | TAKES_FILES | TAKES_ARGUMENT,
     "--client ADDRESS --name NAME [--type TYPE] [DIR | -c FILE] [--files] [--json]",
     "decide a query without asking it: rule, tool, mode, what would open",
     "By the policy in force when the daemon can be reached, else by the files; the last line of the\n"
     "first part says which. --files or DIR: by the files, whatever runs. Exit 1 when denied.\n"},
    {"why", why_main, INSTANCE | TAKES_JSON | TAKES_ARGUMENT, "ADDRESS [--json]",
     "which openings lead to an address: by whom, by which name, until when",
     "Exit 1 when there is none: packets there are denied.\n"},
    {"status", status_main, INSTANCE | TAKES_JSON, "[--json]",
     "the running gateway, what is wrong first", "Exit 1 when something is wrong.\n"},
    {"openings", openings_main, INSTANCE | TAKES_JSON | TAKES_CLIENT | TAKES_REMOTE,
     "[--client ADDRESS] [--remote ADDRESS] [--json]", "what is open now", ""},
    {"reload", reload_main, INSTANCE | TAKES_JSON, "[--json]",
     "load configuration and policy again: all or nothing",
     "When refused, prints every fault as file:line:column and exits 1; the last good policy stays.\n"},
    {"log", NULL, 0, "tail [...]", "read the audit log", ""},
    {"version", version_main, 0, "", "print the version", ""},
    {"help", NULL, 0, "[COMMAND]", "this, or more about one command", ""},
};
#define COMMANDS (sizeof commands / sizeof commands[0])

static const struct {
    const char *name;
    unsigned bit;
    bool value;
} option_names[] = {
    {"-c", TAKES_CONFIG, true},       {"--config", TAKES_CONFIG, true},
    {"--socket", TAKES_SOCKET, true}, {"--json", TAKES_JSON, false},
    {"--client", TAKES_CLIENT, true}, {"--remote", TAKES_REMOTE, true},
    {"--name", TAKES_NAME, true},     {"--type", TAKES_TYPE, true},
    {"--files", TAKES_FILES, false},  {"--help", 0, false},
};
#define OPTIONS (sizeof option_names / sizeof option_names[0])

int usage_error(const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fputs("tidegate: ", stderr);
    show_clean(stderr, text);
    fputc('\n', stderr);
    return EXIT_USAGE;
}

static void help_all(FILE *to) {
    fputs("usage: tidegate [-c FILE | --socket PATH] COMMAND [OPTIONS]\n\n", to);
    for (size_t i = 0; i < COMMANDS; i++)
        fprintf(to, "  %-9s %s\n", commands[i].name, commands[i].summary);
    fputs("\n-c FILE, --socket PATH: which gateway (default " TIDEGATE_SYSCONFDIR
          "/tidegate/gateway.yaml).\n"
          "Exit status: 0; 1 denied or failed; 2 usage. `tidegate help COMMAND` says more, and\n"
          "tidegate(1) all.\n",
          to);
}

static const struct command *command_find(const char *name) {
    for (size_t i = 0; i < COMMANDS; i++)
        if (!strcmp(name, commands[i].name)) return &commands[i];
    return NULL;
}

static int command_unknown(const char *name) {
    const char *names[COMMANDS + 1] = {NULL};
    for (size_t i = 0; i < COMMANDS; i++) names[i] = commands[i].name;
    const char *near = suggest(name, names);
    if (near) return usage_error("no command \"%s\"; did you mean \"%s\"?", name, near);
    return usage_error("no command \"%s\"; `tidegate help` lists them", name);
}

static int help_command(const struct command *c) {
    if (!strcmp(c->name, "log")) {
        char *arguments[] = {(char[]){"log"}, (char[]){"--help"}, NULL};
        return log_main(2, arguments, NULL);
    }
    printf("usage: tidegate %s%s%s\n\n%s\n", c->name, c->arguments[0] ? " " : "", c->arguments,
           c->summary);
    if (c->more[0]) printf("\n%s", c->more);
    if (c->takes & TAKES_SOCKET)
        puts("\n-c FILE, --socket PATH: which gateway (default " TIDEGATE_SYSCONFDIR
             "/tidegate/gateway.yaml).");
    return EXIT_OK;
}

static int help_main(int argc, char **argv) {
    if (argc < 2) {
        help_all(stdout);
        return EXIT_OK;
    }
    const struct command *c = command_find(argv[1]);
    return c ? help_command(c) : command_unknown(argv[1]);
}

static void option_set(struct options *o, unsigned bit, const char *value) {
    switch (bit) {
    case TAKES_CONFIG: o->config = value; break;
    case TAKES_SOCKET: o->socket = value; break;
    case TAKES_JSON: o->json = true; break;
    case TAKES_CLIENT: o->client = value; break;
    case TAKES_REMOTE: o->remote = value; break;
    case TAKES_NAME: o->name = value; break;
    case TAKES_TYPE: o->type = value; break;
    case TAKES_FILES: o->files = true; break;
    default: o->help = true; break;
    }
}

static int option_unknown(const char *what, const struct command *c) {
    const char *names[OPTIONS + 1];
    size_t count = 0;
    for (size_t i = 0; i < OPTIONS; i++)
        if (!c || !option_names[i].bit || (c->takes & option_names[i].bit))
            names[count++] = option_names[i].name;
    names[count] = NULL;
    const char *near = suggest(what, names), *of = c ? c->name : "tidegate";
    if (near && !strcmp(near, what)) return usage_error("%s belongs behind the command", what);
    if (near) return usage_error("%s takes no option \"%s\"; did you mean \"%s\"?", of, what, near);
    return usage_error("%s takes no option \"%s\"; see `tidegate help%s%s`", of, what,
                       c ? " " : "", c ? c->name : "");
}

/* Takes the option at argv[*at], "--name value" or "--name=value". 0 or EXIT_USAGE. */
static int option_take(int argc, char **argv, int *at, const struct command *c, unsigned takes,
                       struct options *o) {
    char *word = argv[*at], *equals = strncmp(word, "--", 2) ? NULL : strchr(word, '=');
    size_t length = equals ? (size_t)(equals - word) : strlen(word);
    for (size_t i = 0; i < OPTIONS; i++) {
        const char *name = option_names[i].name;
        if (strlen(name) != length || strncmp(name, word, length)) continue;
        if (option_names[i].bit && !(takes & option_names[i].bit)) break;
        const char *value = equals ? equals + 1 : NULL;
        if (value && !option_names[i].value) return usage_error("%s takes no value", name);
        if (!value && option_names[i].value && ++*at < argc) value = argv[*at];
        if (!value && option_names[i].value) return usage_error("%s needs a value", name);
        option_set(o, option_names[i].bit, value);
        return 0;
    }
    return option_unknown(word, c);
}

static int command_run(const struct command *c, int argc, char **argv, struct options *o) {
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-' && argv[i][1]) {
            if (!strcmp(argv[i], "-h")) o->help = true;
            else if (option_take(argc, argv, &i, c, c->takes, o)) return EXIT_USAGE;
        } else if (!(c->takes & TAKES_ARGUMENT) || o->argument) {
            return usage_error("%s: unexpected argument \"%s\"", c->name, argv[i]);
        } else {
            o->argument = argv[i];
        }
    }
    if (o->help) return help_command(c);
    /* Given before the command, for all of them alike. */
    if (o->socket && o->config) return usage_error("-c FILE or --socket PATH, not both");
    if (o->argument && o->config && c->run != why_main)
        return usage_error("a folder or -c FILE, not both");
    return c->run(o);
}

static int words_run(int argc, char **argv) {
    struct options o = {0};
    int at = 1;
    for (; at < argc && argv[at][0] == '-'; at++) {
        if (!strcmp(argv[at], "-h")) o.help = true;
        else if (!strcmp(argv[at], "--version") || !strcmp(argv[at], "-V")) break;
        else if (option_take(argc, argv, &at, NULL, INSTANCE, &o)) return EXIT_USAGE;
    }
    if (o.help) {
        help_all(stdout);
        return EXIT_OK;
    }
    if (at >= argc) {
        help_all(stderr);
        return EXIT_USAGE;
    }
    bool version = !strcmp(argv[at], "--version") || !strcmp(argv[at], "-V");
    const struct command *c = command_find(version ? "version" : argv[at]);
    if (!c) return command_unknown(argv[at]);
    if (!strcmp(c->name, "help")) return help_main(argc - at, argv + at);
    if (!strcmp(c->name, "log")) return log_main(argc - at, argv + at, o.config);
    return command_run(c, argc - at, argv + at, &o);
}

int main(int argc, char **argv) {
    setlocale(LC_ALL, "");
    int status = words_run(argc, argv);
    if (fflush(stdout) == 0 && !ferror(stdout)) return status;
    fprintf(stderr, "tidegate: standard output cannot be written: %s\n", strerror(errno));
    return status == EXIT_OK ? EXIT_DENIED : status;
}
