/* Checks the options of weft compare: of one strategy, of strategies, and of files. */
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "compare.h"

/* Refuses options of the comparison as a whole, such as --target, in a single run. */
bool compare_words_fit(const char *words)
{
    static const char *const own[] = {"cluster", "strategies", "target", "plot",
                                      "quiet",   "progress",   "sweep"};
    for (const char *w = words; *w;) {
        size_t size = strcspn(w, "= \t\n");
        for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
            if (strlen(own[i]) == size && strncmp(own[i], w, size) == 0) {
                fprintf(stderr,
                        "weft: strategy '%s': %s is no option of one run, but of the comparison or "
                        "of none; leave it out there\nTry 'weft help compare'.\n",
                        words, own[i]);
                return false;
            }
        w += strcspn(w, " \t\n");
        w += strspn(w, " \t\n");
    }
    return true;
}

bool compare_given_once(int argc, char *const *argv)
{
    static const char *const once[] = {"--sweep", "--strategies"};
    for (size_t k = 0; k < sizeof(once) / sizeof(once[0]); k++) {
        size_t size = strlen(once[k]);
        int times = 0;
        for (int i = 0; i < argc; i++)
            times +=
                strncmp(argv[i], once[k], size) == 0 && (!argv[i][size] || argv[i][size] == '=');
        if (times < 2) continue;
        fprintf(stderr,
                "weft: %s is given %d times; give it once, with --strategies 'A; B' for several "
                "strategies, each of which runs with each value of a sweep\nTry 'weft help "
                "compare'.\n",
                once[k], times);
        return false;
    }
    return true;
}

bool compare_files_fit(const weft_option *table, const weft_compare_options *given,
                       const weft_compare_options *usual)
{
    static const char *const own[] = {"target", "plot", "quiet", "metric"};
    for (const weft_option *o = table; o->name; o++) {
        char *is = NULL, *was = NULL;
        bool fits = false;
        for (size_t i = 0; i < sizeof(own) / sizeof(*own); i++)
            fits = fits || strcmp(o->name, own[i]) == 0;
        if (!fits && weft_options_get(table, given, o->name, &is) == WEFT_OK &&
            weft_options_get(table, usual, o->name, &was) == WEFT_OK)
            fits = is == was || (is && was && strcmp(is, was) == 0);
        weft_free(is);
        weft_free(was);
        if (fits) continue;
        fprintf(
            stderr,
            "weft: --%s has no effect on runs that are files of metrics; leave it out, or leave "
            "the files out\nTry 'weft help compare'.\n",
            o->name);
        return false;
    }
    return true;
}

static void exchange_text(char **a, char **b)
{
    char *kept = *a;
    *a = *b;
    *b = kept;
}

void compare_leave_outputs(weft_compare_options *all, weft_compare_options *words)
{
    weft_output_choice *o = &all->base.train.output, *given = &words->base.train.output;
    const weft_output_choice kept = *o;
    *o = *given;
    *given = kept;
    exchange_text(&o->metric, &given->metric);
    exchange_text(&o->keep_best, &given->keep_best);
    o->evaluate_every = kept.evaluate_every;
    all->base.train.show.best = true;
}
