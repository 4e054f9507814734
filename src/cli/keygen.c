/* weft keygen: generates the key pair of a member of an elastic run. */
#include <stdio.h>

#include "cli.h"
#include "weft/keys.h"

static const weft_option no_options[] = {{.name = NULL}};

static int run(weft_context *context, int argc, char **argv)
{
    const char *path = NULL;
    char key[WEFT_KEY_TEXT];
    char nothing;
    int words = 0;
    (void)context;
    if (weft_options_parse(no_options, &nothing, argc, argv, 1, &path, &words) != WEFT_OK)
        return usage_failure("keygen");
    if (!words) {
        fprintf(stderr, "weft: keygen needs the name of the file for the secret key\n"
                        "Try 'weft help keygen'.\n");
        return 2;
    }
    weft_status status = weft_keys_make(path, key);
    if (status != WEFT_OK) return report_failure(status);
    printf("%s  the secret key, for its owner alone\n%s.pub  the public key, for others:\n%s\n",
           path, path, key);
    return 0;
}

const command command_keygen = {
    .name = "keygen",
    .usage = "FILE",
    .summary = "generate the key pair of a member of an elastic run",
    .text = "Writes a secret key to FILE, readable by its owner alone, and its public key to\n"
            "FILE.pub. An existing file is never replaced. A file with the lines of several .pub\n"
            "files is a list of admitted keys (--allow); '#' begins a comment.",
    .examples = "  weft keygen alice.key\n"
                "  cat alice.key.pub bob.key.pub > allowed\n",
    .run = run,
};
