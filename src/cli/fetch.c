/* weft fetch: gets the files of data sets that are known by a name. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "fetch.h"
#include "weft/data.h"

typedef struct fetch_options {
    char *from, *to, *sums;
} fetch_options;

static const weft_option fetch_table[] = {
    {.name = "from",
     .argument = "URL",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(fetch_options, from),
     .group = "Where",
     .help = "folder of a server that has the files, in place of the usual one"},
    {.name = "to",
     .argument = "DIR",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(fetch_options, to),
     .help = "folder for the files, in place of the one in which --data NAME looks for them"},
    {.name = "sums",
     .argument = "FILE",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(fetch_options, sums),
     .help = "SHA-256 of the files, as sha256sum writes them, for a server that has packed them "
             "anew"},
    {.name = NULL},
};

static const weft_option *table(const weft_context *context)
{
    (void)context;
    return fetch_table;
}

enum { MOST_FILES = 4 };

typedef struct known_set {
    const char *name, *url;
    struct {
        const char *name, *sum;
    } file[MOST_FILES];
} known_set;

static const known_set sets[] = {
    {"mnist",
     "https://storage.googleapis.com/cvdf-datasets/mnist",
     {{"train-images-idx3-ubyte.gz",
       "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"},
      {"train-labels-idx1-ubyte.gz",
       "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"},
      {"t10k-images-idx3-ubyte.gz",
       "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"},
      {"t10k-labels-idx1-ubyte.gz",
       "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}}},
    {"fashion-mnist",
     "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion",
     {{"train-images-idx3-ubyte.gz",
       "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84"},
      {"train-labels-idx1-ubyte.gz",
       "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845"},
      {"t10k-images-idx3-ubyte.gz",
       "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073"},
      {"t10k-labels-idx1-ubyte.gz",
       "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5"}}},
    {"cifar10",
     "https://www.cs.toronto.edu/~kriz",
     {{"cifar-10-binary.tar.gz",
       "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"}}},
};

static int complain(const char *path, const char *what)
{
    fprintf(stderr, "weft: %s: %s\n", path, what);
    return 1;
}

/* Makes a folder and those above it. */
static int make_folder(const char *path)
{
    char *own = strdup(path);
    if (!own) return complain(path, "out of memory");
    for (char *at = own + 1;; at++) {
        char was = *at;
        if (was != '/' && was != '\0') continue;
        *at = '\0';
        if (mkdir(own, 0777) != 0 && errno != EEXIST) {
            int code = complain(own, strerror(errno));
            free(own);
            return code;
        }
        *at = was;
        if (!was) break;
    }
    free(own);
    return 0;
}

static int fetch_one(const known_set *set, int i, const char *folder, const fetch_options *o)
{
    const char *name = set->file[i].name, *base = o->from ? o->from : set->url;
    char *url = NULL, *path = NULL, sum[SUM_TEXT + 1], size[32];
    long long fetched = 0;
    char *wrong = NULL;
    int code = 0;
    memcpy(sum, set->file[i].sum, sizeof(sum));
    if (o->sums) wrong = find_sum(o->sums, name, sum);
    if (wrong) {
        code = complain(o->sums, wrong);
        free(wrong);
        return code;
    }
    size_t end = strlen(base);
    while (end > 0 && base[end - 1] == '/') end--;
    if (asprintf(&url, "%.*s/%s", (int)end, base, name) < 0) url = NULL;
    if (asprintf(&path, "%s/%s", folder, name) < 0) path = NULL;
    if (!url || !path) {
        code = complain(name, "out of memory");
    } else {
        wrong = fetch_file(url, path, sum, &fetched);
        if (wrong)
            code = complain(path, wrong);
        else if (fetched > 0)
            printf("%s (%s)\n", path, bytes_text((double)fetched, size, sizeof(size)));
        else
            printf("%s is here\n", path);
        free(wrong);
    }
    flush_stdout();
    free(url);
    free(path);
    return code;
}

static int fetch_set(const known_set *set, const fetch_options *o)
{
    char *folder = NULL;
    if (!o->to) {
        weft_status status = weft_data_folder(set->name, &folder);
        if (status != WEFT_OK) return report_failure(status);
    }
    int code = make_folder(o->to ? o->to : folder);
    for (int i = 0; i < MOST_FILES && set->file[i].name && code == 0; i++)
        code = fetch_one(set, i, o->to ? o->to : folder, o);
    if (code == 0)
        printf("weft train --data %s%s%s\n", set->name, o->to ? ":" : "", o->to ? o->to : "");
    weft_free(folder);
    return code;
}

/* Says that no data set is given (name NULL) or has the name, and which there are. */
static void print_sets(const char *name)
{
    char shown[256];
    size_t count = sizeof(sets) / sizeof(sets[0]);
    fprintf(stderr, "weft: %s%s%s; there are ",
            name ? "no data set is named '" : "no data set is given",
            name ? weft_printable(name, shown, sizeof(shown)) : "", name ? "'" : "");
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "%s%s", i == 0 ? "" : i + 1 < count ? ", " : " and ", sets[i].name);
    fprintf(stderr, "\nTry 'weft help fetch'.\n");
}

static int run(weft_context *context, int argc, char **argv)
{
    fetch_options options = {0};
    const char *words[1];
    int count = 0, code = 2;
    (void)context;
    weft_status status = weft_options_init(fetch_table, &options);
    if (status == WEFT_OK)
        status = weft_options_parse(fetch_table, &options, argc, argv, 1, words, &count);
    const known_set *set = NULL;
    for (size_t i = 0; i < sizeof(sets) / sizeof(sets[0]) && count; i++)
        if (strcmp(sets[i].name, words[0]) == 0) set = &sets[i];
    if (status != WEFT_OK) {
        code = usage_failure("fetch");
    } else if (!set) {
        print_sets(count ? words[0] : NULL);
    } else {
        code = fetch_set(set, &options);
    }
    weft_options_free(fetch_table, &options);
    return code;
}

const command command_fetch = {
    .name = "fetch",
    .usage = "mnist | fashion-mnist | cifar10 [--from URL] [--to DIR] [--sums FILE]",
    .summary = "get the files of a data set",
    .text =
        "Fetches the files of a data set, which --data NAME then finds, and checks their SHA-256.\n"
        "Files that are there are left alone. Where a connection breaks, what came is kept as\n"
        "FILE.part, and the next try goes on behind it. Needs libcurl (Debian: libcurl4).\n"
        "--from names another server of the same files, such as one in a network of its own.",
    .examples = "  weft fetch fashion-mnist\n"
                "  weft fetch cifar10 --to data/cifar10\n"
                "  weft fetch mnist --from https://mirror.example/mnist\n",
    .table = table,
    .run = run,
    .tasks = TASKS_ALONE,
};
