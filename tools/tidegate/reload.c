/* reload.c: `tidegate reload`: all of the new policy, or nothing and every fault. */
#include "tools/tidegate/cli.h"

int reload_main(const struct options *o) {
    char room[32];
    json_t *answer = instance_ask_one(o, json_pack("{s:s}", "op", "reload"));
    if (!answer) return EXIT_DENIED;
    bool good = json_is_true(json_object_get(answer, "ok"));
    if (o->json) {
        show_json(answer);
    } else {
        files_report(json_object_get(answer, "report"), stderr);
        if (good) {
            fputs("reloaded: policy ", stdout);
            show_digest(json_object_get(answer, "policy"));
            printf(" is in force; revoked openings %lld, flows %lld\n",
                   (long long)json_integer_value(json_object_get(answer, "openings_revoked")),
                   (long long)json_integer_value(json_object_get(answer, "flows_revoked")));
        } else {
            fputs("tidegate: not reloaded: ", stderr);
            show_clean(stderr, show_value(json_object_get(answer, "error"), room, sizeof room));
            fputc('\n', stderr);
        }
    }
    json_decref(answer);
    return good ? EXIT_OK : EXIT_DENIED;
}
