/* Prints a confusion matrix or, if it is too wide for a line, the pairs of classes that are most
 * confused, and the metrics by class; writes them as JSON. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "weft/output.h"

enum { NAME = 128 }; /* bytes of a printed name */

static const char *class_text(char *const *names, int c, char *out, size_t size)
{
    if (names) return weft_printable(names[c], out, size);
    (void)snprintf(out, size, "%d", c);
    return out;
}

/* The number of characters of a UTF-8 text. */
static int width_of(const char *text)
{
    int width = 0;
    for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

static int64_t cell(const weft_report *r, int t, int p)
{
    return r->confusion[(size_t)t * (size_t)r->classes + (size_t)p];
}

/* Prints a text in a column of `width` characters; a negative width aligns it to the left. */
static void print_column(const char *text, int width)
{
    int blanks = (width < 0 ? -width : width) - width_of(text);
    if (blanks < 0) blanks = 0;
    if (width < 0)
        printf("%s%*s", text, blanks, "");
    else
        printf("%*s%s", blanks, "", text);
}

/* The width of a column of the matrix, which fits each name and number with a space before it. */
static int column_width(const weft_report *r)
{
    size_t cells = (size_t)r->classes * (size_t)r->classes;
    char name[NAME];
    int width = 6;
    for (size_t i = 0; i < cells; i++) {
        int own = 1 + snprintf(NULL, 0, "%lld", (long long)r->confusion[i]);
        if (own > width) width = own;
    }
    for (int c = 0; c < r->classes; c++) {
        int own = 1 + width_of(class_text(r->class_names, c, name, sizeof(name)));
        if (own > width) width = own;
    }
    return width;
}

static void print_matrix(const weft_report *r, int width)
{
    char name[NAME];
    printf("\nconfusion in samples (rows: true class, columns: predicted)\n%*s", width, "");
    for (int c = 0; c < r->classes; c++)
        print_column(class_text(r->class_names, c, name, sizeof(name)), width);
    printf("\n");
    for (int t = 0; t < r->classes; t++) {
        print_column(class_text(r->class_names, t, name, sizeof(name)), width);
        for (int c = 0; c < r->classes; c++) printf("%*lld", width, (long long)cell(r, t, c));
        printf("\n");
    }
}

/* Samples of class `t` that were predicted as class `p`. */
typedef struct confused {
    int t, p;
    int64_t samples, of; /* of all samples of class `t` */
} confused;

static bool more_confused(const confused *a, const confused *b)
{
    if (a->samples != b->samples) return a->samples > b->samples;
    return a->of < b->of; /* the larger share */
}

/* Lists the pairs with the most samples, at most `most`; *all: the number of pairs with samples.
 * Pairs that are alike stay in the order of their classes. */
static int find_confused(const weft_report *r, int most, confused *list, int *all)
{
    int count = 0;
    *all = 0;
    for (int t = 0; t < r->classes; t++) {
        int64_t of = 0;
        for (int p = 0; p < r->classes; p++) of += cell(r, t, p);
        for (int p = 0; p < r->classes; p++) {
            confused own = {t, p, cell(r, t, p), of};
            if (t == p || own.samples == 0) continue;
            (*all)++;
            int at = count;
            while (at > 0 && more_confused(&own, &list[at - 1])) at--;
            if (at == most) continue;
            if (count < most) count++;
            memmove(&list[at + 1], &list[at], (size_t)(count - 1 - at) * sizeof(*list));
            list[at] = own;
        }
    }
    return count;
}

static void print_confused(const weft_report *r)
{
    enum { MOST = 20 };
    static const char *const heads[] = {"true class", "predicted"};
    confused list[MOST];
    char name[NAME];
    int all, count = find_confused(r, MOST, list, &all), width[2];
    if (count == 0) {
        printf("\nno sample of the %d classes is predicted as another class\n", r->classes);
        return;
    }
    printf("\nclasses most confused, of %d (the whole matrix: --json)\n", r->classes);
    for (int k = 0; k < 2; k++) {
        width[k] = width_of(heads[k]);
        for (int i = 0; i < count; i++) {
            int c = k ? list[i].p : list[i].t;
            int own = width_of(class_text(r->class_names, c, name, sizeof(name)));
            if (own > width[k]) width[k] = own;
        }
        print_column(heads[k], -width[k] - 2);
    }
    printf("%9s  share of the true class\n", "samples");
    for (int i = 0; i < count; i++) {
        print_column(class_text(r->class_names, list[i].t, name, sizeof(name)), -width[0] - 2);
        print_column(class_text(r->class_names, list[i].p, name, sizeof(name)), -width[1] - 2);
        printf("%9lld  %21.1f %%\n", (long long)list[i].samples,
               100 * (double)list[i].samples / (double)list[i].of);
    }
    if (all > count) printf("and %d more pair%s\n", all - count, weft_plural(all - count));
}

void print_confusion(const weft_report *r)
{
    int width = column_width(r);
    if ((int64_t)width * (r->classes + 1) <= progress_columns())
        print_matrix(r, width);
    else
        print_confused(r);
}

void print_json_string(const char *text)
{
    char *json = NULL;
    if (weft_json_string(text, &json) == WEFT_OK) printf("%s", json);
    weft_free(json);
}

void print_confusion_json(const weft_report *r)
{
    printf(",\"class_names\":%s", r->class_names ? "[" : "null");
    for (int c = 0; r->class_names && c < r->classes; c++) {
        if (c) printf(",");
        print_json_string(r->class_names[c]);
    }
    printf("%s,\"confusion\":%s", r->class_names ? "]" : "", r->confusion ? "[" : "null");
    for (int t = 0; r->confusion && t < r->classes; t++) {
        printf("%s[", t ? "," : "");
        for (int p = 0; p < r->classes; p++)
            printf("%s%lld", p ? "," : "", (long long)cell(r, t, p));
        printf("]");
    }
    if (r->confusion) printf("]");
}

/* --- metrics by class --- */

/* A class, or a label, with its figures; those behind COMMON are of labels. */
typedef struct entry {
    const char *name, *title;
    double value;
} entry;
enum { COMMON = 4, BY_LABEL = 6 };

/* Sets the figures of class or label c; returns their number. */
static int figures_of(const weft_report *r, int c, entry out[BY_LABEL])
{
    const weft_label_figures *l = r->by_label ? &r->by_label[c] : NULL;
    const weft_class_figures *f = l ? &l->ones : &r->by_class[c];
    const entry all[BY_LABEL] = {{"precision", "precision", f->precision},
                                 {"recall", "recall", f->recall},
                                 {"f1", "f1", f->f1},
                                 {"support", "support", f->support},
                                 {"accuracy", "accuracy", l ? l->accuracy : 0},
                                 {"auc", "AUC", l ? l->auc : 0}};
    memcpy(out, all, sizeof(all));
    return l ? BY_LABEL : COMMON;
}

/* The text of column i; support is a weight. */
static const char *entry_text(const entry *e, int i, char *out, size_t size)
{
    if (isnan(e->value)) return "-";
    if (i + 1 != COMMON) return score_text(e->value, out, size);
    (void)snprintf(out, size, "%.10g", e->value);
    return out;
}

void print_by_class(const weft_report *r)
{
    char name[NAME], number[64];
    entry all[BY_LABEL];
    int width = 5, count = r->by_label ? r->targets : r->classes;
    for (int c = 0; c < count; c++) {
        int own = width_of(class_text(r->class_names, c, name, sizeof(name)));
        if (own > width) width = own;
    }
    printf("\n");
    print_column(r->by_label ? "label" : "class", -width);
    for (int i = 0, n = figures_of(r, 0, all); i < n; i++) print_column(all[i].title, 11);
    printf("\n");
    for (int c = 0; c < count; c++) {
        print_column(class_text(r->class_names, c, name, sizeof(name)), -width);
        for (int i = 0, n = figures_of(r, c, all); i < n; i++)
            print_column(entry_text(&all[i], i, number, sizeof(number)), 11);
        printf("\n");
    }
}

static void print_entries_json(const weft_report *r, int count)
{
    char number[32];
    entry all[BY_LABEL];
    for (int c = 0; c < count; c++) {
        printf(c > 0 ? ",{" : "{");
        if (r->by_label && r->class_names) {
            printf("\"name\":");
            print_json_string(r->class_names[c]);
            printf(",");
        }
        for (int i = 0, n = figures_of(r, c, all); i < n; i++)
            printf("%s\"%s\":%s", i > 0 ? "," : "", all[i].name,
                   weft_json_real(all[i].value, 9, number, sizeof(number)));
        printf("}");
    }
    printf("]");
}

void print_by_class_json(const weft_report *r)
{
    printf(",\"by_class\":[");
    print_entries_json(r, r->classes);
}

void print_labels_json(const weft_report *r)
{
    printf(",\"labels\":[");
    print_entries_json(r, r->targets);
}
