/* Frozen parameters, and learning-rate multipliers by leaf: PATTERN=FACTOR,... with patterns of the
 * names of parameters; of a parameter that several patterns match, the first one gives the factor.
 */
#include <fnmatch.h>
#include <math.h>

#include "optim/optim.h"

typedef struct named_factors {
    const char *text;
    const char *const *names;
    int count;
    bool all_used;
    double *factors; /* below 0: none yet */
} named_factors;

static weft_status split_piece(const char *text, char *piece, double *factor)
{
    char *equals = strrchr(piece, '=');
    if (!equals || equals == piece || !weft_parse_real(equals + 1, factor))
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "lr-multiplier '%s': '%s' is not of the form PATTERN=FACTOR, such as "
                         "'conv*=0.1'",
                         text, piece);
    if (!isfinite(*factor) || *factor < 0)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "lr-multiplier '%s': the factor '%s' must be a finite number of at least "
                         "0, which leaves a parameter as it is",
                         text, equals + 1);
    *equals = '\0';
    return WEFT_OK;
}

static weft_status take_piece(void *user, char *pattern)
{
    const named_factors *f = user;
    const char *other = NULL;
    double factor;
    bool used = false;
    WEFT_TRY(split_piece(f->text, pattern, &factor));
    for (int i = 0; i < f->count; i++) {
        if (fnmatch(pattern, f->names[i], 0) != 0) continue;
        if (f->factors[i] >= 0)
            other = f->names[i];
        else
            f->factors[i] = factor;
        used = used || other != f->names[i];
    }
    if (used || !f->all_used) return WEFT_OK;
    if (other)
        return weft_fail(WEFT_ERR_ARGUMENT,
                         "lr-multiplier: '%s' has no effect: each parameter that it matches, such "
                         "as '%s', is frozen or has the factor of an earlier pattern; put it "
                         "first, or leave it out",
                         pattern, other);
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "lr-multiplier: no parameter's name matches '%s'; weft inspect shows the "
                     "names",
                     pattern);
}

static weft_status freeze(void *user, char *pattern)
{
    const named_factors *f = user;
    bool used = false;
    for (int i = 0; i < f->count; i++)
        if (fnmatch(pattern, f->names[i], 0) == 0) {
            f->factors[i] = 0;
            used = true;
        }
    if (used || !f->all_used) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "freeze: no parameter's name matches '%s'; weft inspect shows the names",
                     pattern);
}

/* ARGUMENT: no parameter is left that would be trained. */
static weft_status check_left(const named_factors *f, const char *frozen)
{
    for (int i = 0; i < f->count; i++)
        if (f->factors[i] != 0) return WEFT_OK;
    if (f->count == 0 || !f->all_used) return WEFT_OK;
    return weft_fail(WEFT_ERR_ARGUMENT,
                     "freeze '%s' leaves none of the %d parameters to be trained; give patterns "
                     "that fewer names match",
                     frozen, f->count);
}

weft_status weft_multipliers(const weft_optimizer_options *o, const char *const *names, int count,
                             bool all_used, double *factors)
{
    named_factors f = {o->multipliers, names, count, all_used, factors};
    for (int i = 0; i < count; i++) factors[i] = -1;
    if (f.text && o->thaws) WEFT_TRY(weft_each_piece("lr-multiplier", f.text, take_piece, &f));
    if (o->frozen) WEFT_TRY(weft_each_piece("freeze", o->frozen, freeze, &f));
    if (o->frozen) WEFT_TRY(check_left(&f, o->frozen));
    if (f.text && !o->thaws) WEFT_TRY(weft_each_piece("lr-multiplier", f.text, take_piece, &f));
    for (int i = 0; i < count; i++)
        if (factors[i] < 0) factors[i] = 1;
    return WEFT_OK;
}
