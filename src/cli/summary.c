#include "summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

typedef struct row {
    char *name;
    weft_layer_summary layer;
} row;

typedef struct rows {
    row *at;
    size_t count, capacity;
    bool failed; /* there was no memory for a row */
    int64_t parameters, frozen;
    double flops, bytes;
} rows;

static void take_layer(void *user, const weft_layer_summary *layer)
{
    rows *r = user;
    if (r->count == r->capacity) {
        size_t more = r->capacity ? 2 * r->capacity : 64;
        row *larger = realloc(r->at, more * sizeof(*larger));
        r->failed = r->failed || !larger;
        if (!larger) return;
        r->at = larger;
        r->capacity = more;
    }
    row *next = &r->at[r->count++];
    *next = (row){.name = strdup(layer->name), .layer = *layer};
    r->failed = r->failed || !next->name;
    r->parameters += layer->parameters;
    r->frozen += layer->frozen;
    r->flops += layer->flops;
    r->bytes += layer->activation_bytes;
}

/* --- as a table --- */

static const char *shape_text(const weft_shape *s, char *out, size_t size)
{
    size_t used = 0;
    (void)snprintf(out, size, "1");
    for (int d = 0; d < s->rank && used < size; d++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%lld", d ? "x" : "", (long long)s->dim[d]);
    return out;
}

/* A count with a comma before each three digits. */
static const char *count_text(double count, char *out, size_t size)
{
    char digits[40];
    size_t used = 0, all = (size_t)snprintf(digits, sizeof(digits), "%.0f", count);
    for (size_t i = 0; i < all && used + 2 < size; i++) {
        if (i > 0 && (all - i) % 3 == 0) out[used++] = ',';
        out[used++] = digits[i];
    }
    out[used] = '\0';
    return out;
}

static void widen(int *width, const char *text)
{
    int own = (int)strlen(text);
    if (own > *width) *width = own;
}

static void print_table(const rows *r)
{
    char text[5][64];
    int name = (int)strlen("layer"), kind = (int)strlen("kind"), shape = (int)strlen("output");
    for (size_t i = 0; i < r->count; i++) {
        widen(&name, r->at[i].name);
        widen(&kind, r->at[i].layer.kind);
        widen(&shape, shape_text(&r->at[i].layer.output, text[0], sizeof(text[0])));
    }
    printf("%-*s  %-*s  %-*s  %13s  %15s  %12s\n", name, "layer", kind, "kind", shape, "output",
           "parameters", "FLOP", "bytes");
    for (size_t i = 0; i < r->count; i++) {
        const weft_layer_summary *l = &r->at[i].layer;
        printf("%-*s  %-*s  %-*s  %13s  %15s  %12s%s\n", name, r->at[i].name, kind, l->kind, shape,
               shape_text(&l->output, text[0], sizeof(text[0])),
               count_text((double)l->parameters, text[1], sizeof(text[1])),
               count_text(l->flops, text[2], sizeof(text[2])),
               count_text(l->activation_bytes, text[3], sizeof(text[3])),
               l->frozen == 0               ? ""
               : l->frozen == l->parameters ? "  frozen"
                                            : "  partly frozen");
    }
    printf("%-*s  %-*s  %-*s  %13s  %15s  %12s\n", name, "in all", kind, "", shape, "",
           count_text((double)r->parameters, text[1], sizeof(text[1])),
           count_text(r->flops, text[2], sizeof(text[2])),
           count_text(r->bytes, text[3], sizeof(text[3])));
    printf("\n%s parameters are trained and %s frozen; FLOP and bytes of activations are those of "
           "a forward pass of one sample\n",
           count_text((double)(r->parameters - r->frozen), text[0], sizeof(text[0])),
           count_text((double)r->frozen, text[1], sizeof(text[1])));
}

/* --- as JSON --- */

static void print_figures(int64_t parameters, int64_t frozen, double flops, double bytes)
{
    printf("\"parameters\":%lld,\"frozen\":%lld,\"flops\":%.0f,\"activation_bytes\":%.0f",
           (long long)parameters, (long long)frozen, flops, bytes);
}

static void print_json(const rows *r)
{
    printf("{\"layers\":[");
    for (size_t i = 0; i < r->count; i++) {
        const weft_layer_summary *l = &r->at[i].layer;
        printf("%s{\"name\":", i ? ",\n " : "");
        print_json_string(r->at[i].name);
        printf(",\"kind\":");
        print_json_string(l->kind);
        printf(",\"output\":[");
        for (int d = 0; d < l->output.rank; d++)
            printf("%s%lld", d ? "," : "", (long long)l->output.dim[d]);
        printf("],");
        print_figures(l->parameters, l->frozen, l->flops, l->activation_bytes);
        printf("}");
    }
    printf("],\n");
    print_figures(r->parameters, r->frozen, r->flops, r->bytes);
    printf("}\n");
}

int summary_print(weft_context *context, const weft_train_options *options, const char *checkpoint,
                  const char *input, int classes, bool json)
{
    rows r = {.count = 0};
    weft_status status = checkpoint
                             ? weft_checkpoint_summary(context, checkpoint, take_layer, &r)
                             : weft_train_summary(context, options, input, classes, take_layer, &r);
    int code = report_failure(status);
    if (code == 0 && r.failed) {
        fprintf(stderr, "weft: inspect: not enough memory\n");
        code = 1;
    }
    if (code == 0) (json ? print_json : print_table)(&r);
    for (size_t i = 0; i < r.count; i++) free(r.at[i].name);
    free(r.at);
    return code;
}
