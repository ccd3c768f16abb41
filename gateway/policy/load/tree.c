/* tree.c: libyaml's events into a tree, without recursion.
 *
 * libcyaml would do the schema as well, but it stops at the first fault and keeps positions to
 * itself; an operator wants all faults of all files, each with line and column. So this reads the
 * events of libyaml, the parser below libcyaml, and the schema is checked on the tree.
 */
#include "gateway/policy/load/tree.h"

#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "gateway/base/arena.h"
#include "gateway/policy/load/scan.h"

#define TREE_BYTES_MAX (512u << 20)

struct tree {
    struct arena *arena;
    struct node *root;
};

struct open_node {
    struct node *node, *last; /* last child so far */
};

struct builder {
    struct faults *f;
    const struct source_file *file;
    struct tree *tree;
    struct open_node stack[TREE_DEPTH_MAX];
    unsigned depth, documents, nodes;
};

static struct place place_of(const struct builder *b, yaml_mark_t mark) {
    return (struct place){b->file, (uint32_t)mark.line + 1, (uint32_t)mark.column + 1};
}

/* ---- faults of the parser, in words ---------------------------------------------------------- */

/* The octet at a mark, whose column (and index) counts characters. */
static char byte_at(const char *bytes, size_t size, yaml_mark_t mark) {
    const char *at = bytes, *end = bytes + size;
    for (size_t line = 0; line < mark.line; line++) {
        at = memchr(at, '\n', (size_t)(end - at));
        if (!at) return '\0';
        at++;
    }
    for (size_t column = 0; at < end && column < mark.column; column++) {
        do at++;
        while (((uint8_t)*at & 0xc0) == 0x80);
    }
    return *at; /* the NUL behind the bytes at the very end */
}

/* A value that starts with a character YAML uses for itself. */
static int tell_special(struct builder *b, const char *bytes, size_t size, yaml_mark_t mark) {
    char c = byte_at(bytes, size, mark);
    struct place at = place_of(b, mark);
    if (c == '*') {
        fault_add(b->f, at, "a name that starts with * needs quotes; write \"*.example.com\"");
    } else if (c == '@' || c == '`' || c == '%' || c == '&' || c == '!' || c == '|' || c == '>') {
        fault_add(b->f, at, "a value that starts with %c needs quotes; write \"%c...\"", c, c);
    } else {
        return -1;
    }
    return 0;
}

static void tell_syntax(struct builder *b, const yaml_parser_t *parser, const char *bytes,
                        size_t size) {
    if (parser->error == YAML_MEMORY_ERROR) {
        b->f->nomem = true;
        return;
    }
    const char *problem = parser->problem ? parser->problem : "it cannot be read";
    const char *context = parser->context ? parser->context : "";
    bool alias = strstr(context, "alias") || strstr(context, "anchor") || strstr(context, "tag");
    yaml_mark_t start = alias ? parser->context_mark : parser->problem_mark;
    if (tell_special(b, bytes, size, start) == 0) return;
    struct place at = place_of(b, parser->problem_mark);
    bool quoted = strstr(context, "quoted scalar") != NULL;
    if (quoted) {
        at = place_of(b, parser->context_mark);
        fault_add(b->f, at,
                  "a quoted text is not valid YAML (%s); end it with the quote it starts "
                  "with, and write a backslash in \"...\" as \\\\",
                  problem);
    } else if (strstr(context, "flow") && b->depth > 0) {
        const struct node *open =
            b->stack[b->depth - 1].node; /* the innermost that is not closed */
        bool map = open->kind == NODE_MAP;
        fault_add(b->f, (struct place){b->file, open->line, open->column},
                  "this %c is not closed or a comma is missing (line %u); write a comma between "
                  "entries and %c at the end",
                  map ? '{' : '[', (unsigned)parser->problem_mark.line + 1, map ? '}' : ']');
    } else {
        fault_add(b->f, at,
                  "is not valid YAML: %s; check the indentation, the colons (\"key: "
                  "value\") and the quotes here and in the line above",
                  problem);
    }
}

/* ---- building -------------------------------------------------------------------------------- */

static struct node *attach(struct builder *b, enum node_kind kind, yaml_mark_t mark) {
    struct node *n = arena_alloc(b->tree->arena, sizeof *n);
    if (!n || ++b->nodes > TREE_NODES_MAX) {
        fault_add(b->f, place_of(b, mark), "the file has too many entries; split it up");
        return NULL;
    }
    struct place at = place_of(b, mark);
    n->kind = kind;
    n->line = at.line;
    n->column = at.column;
    if (b->depth == 0) {
        b->tree->root = n;
        return n;
    }
    struct open_node *parent = &b->stack[b->depth - 1];
    if (parent->last)
        parent->last->next = n;
    else
        parent->node->first = n;
    parent->last = n;
    parent->node->count++;
    return n;
}

/* Says what is refused about a node: anchors and tags. */
static bool plain_node(struct builder *b, const yaml_event_t *e, const yaml_char_t *anchor,
                       const yaml_char_t *tag) {
    struct place at = place_of(b, e->start_mark);
    if (anchor) {
        fault_add(b->f, at, "anchors (&%s) are not allowed; write the value out at each place",
                  shown((const char *)anchor).text);
    }
    if (tag) fault_add(b->f, at, "tags (!...) are not allowed; remove it");
    return !anchor && !tag;
}

/* Block scalars may have several lines; they are one line here. */
static bool set_text(struct builder *b, struct node *n, const yaml_event_t *e) {
    size_t size = e->data.scalar.length;
    const char *value = (const char *)e->data.scalar.value;
    while (size > 0 && value[size - 1] == '\n') size--;
    char *text = arena_alloc(b->tree->arena, size + 1);
    if (!text) {
        fault_add(b->f, place_of(b, e->start_mark), "the file has too much text; split it up");
        return false;
    }
    for (size_t i = 0; i < size; i++) {
        char c = value[i] == '\n' || value[i] == '\t' ? ' ' : value[i];
        if ((uint8_t)c < 0x20 || c == 0x7f) {
            fault_add(b->f, place_of(b, e->start_mark),
                      "the text holds a control character; remove it");
            n->kind = NODE_BROKEN;
            return true;
        }
        text[i] = c;
    }
    n->text = text;
    return true;
}

static bool open_node(struct builder *b, enum node_kind kind, const yaml_event_t *e) {
    if (b->depth == TREE_DEPTH_MAX) {
        fault_add(b->f, place_of(b, e->start_mark),
                  "is nested deeper than anything needs to be; "
                  "see tidegate.yaml(5) for what belongs here");
        return false;
    }
    struct node *n = attach(b, kind, e->start_mark);
    if (!n) return false;
    b->stack[b->depth++] = (struct open_node){.node = n};
    return true;
}

/* One event; false: stop. */
static bool take(struct builder *b, const yaml_event_t *e) {
    struct node *n;
    switch (e->type) {
    case YAML_DOCUMENT_START_EVENT:
        if (b->documents++ == 0) return true;
        fault_add(
            b->f, place_of(b, e->start_mark),
            "a second document starts here; one file holds one (remove ---, or use two files)");
        return false;
    case YAML_ALIAS_EVENT:
        fault_add(b->f, place_of(b, e->start_mark),
                  "*%s is an alias in YAML; put a name that "
                  "starts with * in quotes, and write other values out",
                  shown((const char *)e->data.alias.anchor).text);
        return attach(b, NODE_BROKEN, e->start_mark) != NULL;
    case YAML_SCALAR_EVENT:
        n = attach(b, NODE_TEXT, e->start_mark);
        if (!n) return false;
        if (!plain_node(b, e, e->data.scalar.anchor, e->data.scalar.tag)) n->kind = NODE_BROKEN;
        return set_text(b, n, e);
    case YAML_SEQUENCE_START_EVENT:
        plain_node(b, e, e->data.sequence_start.anchor, e->data.sequence_start.tag);
        return open_node(b, NODE_LIST, e);
    case YAML_MAPPING_START_EVENT:
        plain_node(b, e, e->data.mapping_start.anchor, e->data.mapping_start.tag);
        return open_node(b, NODE_MAP, e);
    case YAML_SEQUENCE_END_EVENT:
    case YAML_MAPPING_END_EVENT:
        b->depth--;
        return true;
    default:
        return true;
    }
}

static bool parse(struct builder *b, yaml_parser_t *parser, const char *bytes, size_t size) {
    for (;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event)) {
            tell_syntax(b, parser, bytes, size);
            return false;
        }
        bool end = event.type == YAML_STREAM_END_EVENT;
        bool more = take(b, &event);
        yaml_event_delete(&event);
        if (!more) return false;
        if (end) return true;
    }
}

int tree_parse(struct faults *f, const struct source_file *file, const char *bytes, size_t size,
               struct tree **ret) {
    *ret = NULL;
    if (scan_text(f, file, bytes, size) < 0) return -1;
    struct tree *t = calloc(1, sizeof *t);
    if (t) t->arena = arena_new(TREE_BYTES_MAX);
    yaml_parser_t parser;
    if (!t || !t->arena || !yaml_parser_initialize(&parser)) {
        f->nomem = true;
        tree_free(t);
        return -1;
    }
    /* A byte order mark is no part of the text (the parser skips it only when it guesses). */
    size_t mark = size >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    yaml_parser_set_input_string(&parser, (const unsigned char *)bytes + mark, size - mark);
    yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
    struct builder b = {.f = f, .file = file, .tree = t};
    bool complete = parse(&b, &parser, bytes + mark, size - mark);
    yaml_parser_delete(&parser);
    *ret = t;
    return complete ? 0 : -1;
}

const struct node *tree_root(const struct tree *t) {
    return t->root;
}

void tree_free(struct tree *t) {
    if (!t) return;
    if (t->arena) arena_free(t->arena);
    free(t);
}
