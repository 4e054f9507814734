/* Tests the CSV parser: headers, labels, weights, tables of other programs and of requests to a
 * server, and the messages that refuse a table. */
#include "formats/formats.h"
#include "support.h"

static weft_status csv(const char *text, const char *label, weft_csv *out)
{
    return weft_csv_parse("t.csv", text, strlen(text), label, NULL, NULL, out);
}

static void test_csv(void **state)
{
    (void)state;
    weft_csv c;
    assert_ok(csv("a,b,kind\r\n1,2,x\r\n\r\n3,4.5,\"y, \"\"z\"\"\"\r\n", NULL, &c));
    assert_true(c.has_header && c.rows == 2 && c.columns == 3 && c.classes == 2);
    assert_string_equal(c.class_names[1], "y, \"z\"");
    assert_true(c.values[3] == 4.5 && c.labels[0] == 0);
    weft_csv_free(&c);
    assert_ok(csv("2,0.5\n10,1.5\n2,2.5", "0", &c));
    assert_true(!c.has_header && c.rows == 3 && c.classes == 2 && c.labels[1] == 1);
    assert_string_equal(c.class_names[0], "2"); /* numbers are sorted by value, not as text */
    weft_csv_free(&c);
    assert_refused(csv("a,b,y\n1,2,0\n1,oops,1\n", NULL, &c), WEFT_ERR_FORMAT,
                   "t.csv:3: column 1 (b) holds 'oops'");
    assert_refused(csv("1,2,0\n1,nan,1\n", NULL, &c), WEFT_ERR_FORMAT,
                   "t.csv:2: column 1 holds 'nan'");
    assert_refused(csv("1,2,0\n1,2\n", NULL, &c), WEFT_ERR_FORMAT, "t.csv:2: has 2 columns");
    assert_refused(csv("a,b,y\n1,2,0\n", "z", &c), WEFT_ERR_ARGUMENT, "no column is named 'z'");
    assert_refused(csv("a,b,y\n1,2,0\n", "9", &c), WEFT_ERR_ARGUMENT, "columns are 0 to 2");
    assert_refused(csv("a,b\n", NULL, &c), WEFT_ERR_FORMAT, "no rows");
    assert_refused(csv("", NULL, &c), WEFT_ERR_FORMAT, "empty");
    assert_refused(csv("1,\"2", NULL, &c), WEFT_ERR_FORMAT, "does not end");
    assert_refused(csv("1,2,\n", NULL, &c), WEFT_ERR_FORMAT, "label is empty");
    assert_refused(csv("1\n2\n", NULL, &c), WEFT_ERR_FORMAT, "at least one feature");
}

/* Numbers are what pandas.read_csv (3.0) takes for numbers; others are texts. */
static void test_csv_numbers(void **state)
{
    (void)state;
    static const char *const numbers[] = {"+5",  "-5",   ".5",  "5.",      "-.5",    "+.5e3",
                                          "1e5", "1E+5", "007", "-007.50", "1e-400", "\" 5 \""};
    static const char *const texts[] = {"0x10",  "0X1p3", "1_000", "+-5",     "1e",     "1e+",
                                        "e5",    ".",     "+",     "infinit", "nan(1)", "1d5",
                                        "1 000", "5f",    "5L",    "1.2.3",   "--1",    "0b1",
                                        "1e5.0", "True",  "5%",    "$5"};
    char text[80], words[80];
    weft_csv c;
    for (size_t i = 0; i < WEFT_COUNT(numbers); i++) {
        (void)snprintf(text, sizeof(text), "a,y\n%s,0\n2,1\n", numbers[i]);
        assert_ok(csv(text, "y", &c));
        weft_csv_free(&c);
    }
    for (size_t i = 0; i < WEFT_COUNT(texts); i++) {
        (void)snprintf(text, sizeof(text), "a,y\n%s,0\n2,1\n", texts[i]);
        (void)snprintf(words, sizeof(words), "column 0 (a) holds '%s', a finite", texts[i]);
        assert_refused(csv(text, "y", &c), WEFT_ERR_FORMAT, words);
    }
    assert_ok(csv("1,16\n2,0x10\n3,1_6\n4,+16\n5,16\n", NULL, &c));
    assert_true(c.classes == 3 && c.labels[0] == c.labels[3]);
    weft_csv_free(&c);
}

/* CSV files of other programs: with a byte order mark, with numbers as names of columns, and with
 * classes that are written both as whole numbers and with a fraction. */
static void test_csv_of_others(void **state)
{
    (void)state;
    weft_csv c;
    assert_ok(csv("\xEF\xBB\xBF"
                  "1,2,7\n3,4,8\n",
                  NULL, &c));
    assert_true(!c.has_header && c.rows == 2 && c.values[0] == 1);
    weft_csv_free(&c);
    assert_ok(csv("\xEF\xBB\xBFkind,a\n1,2\n", "kind", &c));
    assert_true(c.has_header && c.rows == 1 && c.label == 0);
    weft_csv_free(&c);
    assert_ok(csv("0,1,kind\n5,6,2\n5,7,3\n", "kind", &c));
    assert_true(c.has_header && c.rows == 2 && c.classes == 2 && c.label == 2);
    weft_csv_free(&c);
    assert_ok(csv("1,2\n1,2.0\n1,x\n1,10\n1,1e1\n", NULL, &c));
    assert_true(c.classes == 3 && c.labels[0] == 0 && c.labels[1] == 0);
    assert_true(c.labels[2] == 2 && c.labels[3] == 1 && c.labels[4] == 1);
    weft_csv_free(&c);
    assert_refused(csv("\xEF\xBB\xBF", NULL, &c), WEFT_ERR_FORMAT, "empty");
}

/* Row 1 is a header, or it is a row of numbers; one that is partly of numbers may be either. */
static void test_csv_header(void **state)
{
    (void)state;
    weft_csv c;
    const weft_csv_known measured = {
        .place = -1, .weight_place = -1, .id_place = -1, .measured = true};
    assert_refused(csv("1,,x\n3,4,y\n", NULL, &c), WEFT_ERR_FORMAT,
                   "t.csv:1: column 1 holds '', but column 0 holds a number; if row 1 is a header, "
                   "give label=NAME");
    assert_refused(csv("NA,2,x\n3,4,y\n", "2", &c), WEFT_ERR_FORMAT,
                   "t.csv:1: column 0 holds 'NA'");
    const char *text = "5,1,,2\n5,3,4,2\n";
    assert_refused(weft_csv_parse("t.csv", text, strlen(text), NULL, "0", &measured, &c),
                   WEFT_ERR_FORMAT, "t.csv:1: column 2 holds ''");
    text = "1,2,NA\n3,4,5\n";
    assert_refused(weft_csv_parse("t.csv", text, strlen(text), NULL, NULL, &measured, &c),
                   WEFT_ERR_FORMAT, "give target=NAME");
    assert_refused(csv("0,1,target\n5,6,2\n5,7,3\n", NULL, &c), WEFT_ERR_FORMAT,
                   "t.csv:1: column 2, the label, holds 'target', and a number in all other rows; "
                   "if row 1 is a header, give label=NAME");
    assert_ok(csv("0,1,b\n5,6,2\n5,7,b\n", NULL, &c));
    assert_true(!c.has_header && c.rows == 3 && c.classes == 2);
    weft_csv_free(&c);
    assert_ok(csv("0,1,2,3\n5,6,2,1\n0,1,2,0\n", NULL, &c));
    assert_true(c.has_header && c.rows == 2 && c.classes == 2);
    weft_csv_free(&c);
    assert_ok(csv("0,1,2.0,3\n5,6,2,1\n0,1,2,0\n", NULL, &c));
    assert_true(!c.has_header && c.rows == 3);
    weft_csv_free(&c);
    assert_ok(csv("1990,b,kind\n5,6,2\n5,7,3\n", "kind", &c));
    assert_true(c.has_header && c.rows == 2);
    weft_csv_free(&c);
    assert_ok(csv("1,2,\"\"\"x\"\"\"\n5,7,y\n", NULL, &c));
    assert_true(!c.has_header && c.rows == 2);
    weft_csv_free(&c);
}

/* Labels are equal as numbers only where each whole number is a double of its own. */
static void test_csv_large_labels(void **state)
{
    (void)state;
    weft_csv c;
    assert_ok(csv("1,9007199254740993\n2,9007199254740992\n3,9007199254740992\n4,4e3\n5,4000\n"
                  "6,-9007199254740993\n7,-9007199254740992\n",
                  NULL, &c));
    assert_int_equal(c.classes, 5);
    assert_true(c.labels[0] != c.labels[1] && c.labels[1] == c.labels[2]);
    assert_true(c.labels[3] == c.labels[4] && c.labels[5] != c.labels[6]);
    weft_csv_free(&c);
    assert_false(weft_csv_same_class("9007199254740993", "9007199254740992"));
    assert_true(weft_csv_same_class("9007199254740991", "9007199254740991.0"));
}

/* A table may have 65,536 classes, as an npy file may, numbered in the order of their names; equal
 * numbers are one class in every form of theirs. */
static void test_csv_many_classes(void **state)
{
    (void)state;
    enum { MOST = 65536, FORMS = 3 };
    static const char *const ends[FORMS] = {"", ".0", "e0"};
    weft_text text = {0};
    weft_csv c;
    for (int f = 0; f < FORMS; f++)
        for (int i = 0; i < MOST; i++)
            weft_text_add(&text, "1,%d%s\n", (int)((int64_t)i * 40503 % MOST), ends[f]);
    weft_text_add(&text, "1,-0\n");
    assert_ok(weft_csv_parse("many", text.data, text.size, NULL, NULL, NULL, &c));
    assert_int_equal(c.classes, MOST);
    assert_int_equal(c.rows, FORMS * MOST + 1);
    for (int64_t r = 0; r < c.rows - 1; r++)
        if (c.labels[r] != r % MOST * 40503 % MOST) fail_msg("row %lld", (long long)r);
    assert_int_equal(c.labels[c.rows - 1], 0);
    weft_csv_free(&c);
    weft_text_add(&text, "1,one more\n");
    assert_refused(weft_csv_parse("many", text.data, text.size, NULL, NULL, NULL, &c),
                   WEFT_ERR_FORMAT,
                   "many:196610: more than 65536 different labels in column 1; is it the label?");
    free(text.data);
}

/* One column more than the features, without a name, is the label or the weight. */
static void test_csv_one_column_more(void **state)
{
    (void)state;
    const weft_csv_known known = {.features = 2,
                                  .place = 2,
                                  .weight_place = 0,
                                  .id_place = -1,
                                  .unlabelled = true,
                                  .measured = true};
    weft_csv c;
    const char *text = "9,1,2\n9,3,4\n", *named = "a,b,y\n1,2,9\n3,4,9\n";
    assert_refused(weft_csv_parse("t", text, strlen(text), NULL, NULL, &known, &c),
                   WEFT_ERR_ARGUMENT, "give target=N or weight=N");
    assert_ok(weft_csv_parse("t", text, strlen(text), NULL, "0", &known, &c));
    assert_true(c.label == -1 && c.features == 2 && c.values[0] == 1 && c.values[3] == 4);
    weft_csv_free(&c);
    assert_ok(weft_csv_parse("t", text, strlen(text), "0", NULL, &known, &c));
    assert_true(c.label == 0 && c.features == 2 && c.values[0] == 1 && c.values[3] == 4);
    weft_csv_free(&c);
    assert_ok(weft_csv_parse("t", named, strlen(named), NULL, NULL, &known, &c));
    assert_true(c.label == 2 && c.values[0] == 1 && c.values[3] == 4);
    weft_csv_free(&c);
}

/* A later table without names is refused if more than one column may be the missing one, whatever
 * training had; options make it certain. */
static void test_csv_columns_missing(void **state)
{
    (void)state;
    const char *text[] = {"9,8\n7,6\n", "9,8,7\n6,5,4\n", "9,8,7,6\n5,4,3,2\n",
                          "9,8,7,6,5\n4,3,2,1,0\n"};
    for (int unlabelled = 0; unlabelled < 2; unlabelled++)
        for (int weight = 0; weight < 2; weight++)
            for (int id = 0; id < 2; id++)
                for (int columns = 2; columns <= 5; columns++) {
                    const weft_csv_known known = {.features = 2,
                                                  .place = 2,
                                                  .weight_place = weight ? 0 : -1,
                                                  .id_place = id ? 0 : -1,
                                                  .unlabelled = unlabelled,
                                                  .measured = true};
                    int open = weight + id + unlabelled, spare = columns - 2 - !unlabelled;
                    const char *table = text[columns - 2];
                    weft_csv c;
                    weft_status status =
                        weft_csv_parse("t", table, strlen(table), NULL, NULL, &known, &c);
                    bool fits = spare == 0 || spare == open;
                    if (status == WEFT_OK) weft_csv_free(&c);
                    assert_int_equal(status == WEFT_OK, fits);
                    if (spare <= 0 || spare >= open) continue;
                    assert_non_null(strstr(weft_last_message(), "counted from 0, or a header"));
                }
    const weft_csv_known known = {
        .features = 2, .place = 2, .weight_place = 0, .id_place = 0, .measured = true};
    weft_csv c;
    assert_ok(weft_csv_parse("t", text[2], strlen(text[2]), NULL, "0", &known, &c));
    assert_true(c.weight == 0 && c.id < 0 && c.values[0] == 8);
    weft_csv_free(&c);
}

/* A server's way to read a table: labels are skipped, and a table that is too long or too wide is
 * not read to its end. */
static void test_csv_of_requests(void **state)
{
    (void)state;
    static char a[] = "a", b[] = "b", *const names[] = {a, b};
    const weft_csv_known known = {.features = 2,
                                  .names = names,
                                  .label = "y",
                                  .place = 2,
                                  .weight_place = -1,
                                  .id_place = -1,
                                  .unlabelled = true,
                                  .label_ignored = true,
                                  .most_rows = 3,
                                  .most_columns = 5};
    weft_csv c;
    const char *text = "y,b,a\n,1,2\n\x80,3,4\nz,5,6\nz,seven,8\n\"";
    assert_ok(weft_csv_parse("t", text, strlen(text), NULL, NULL, &known, &c));
    assert_true(c.rows == 3 && c.label == 0 && !c.labels && c.classes == 0);
    assert_true(c.values[0] == 2 && c.values[5] == 5);
    weft_csv_free(&c);
    text = "a,b,y,,,,,,\"";
    assert_refused(weft_csv_parse("t", text, strlen(text), NULL, NULL, &known, &c), WEFT_ERR_FORMAT,
                   "t:1: has more than 5 columns");
    text = "a,b\n1,2\n1,2,3,4,5,6,\"";
    assert_refused(weft_csv_parse("t", text, strlen(text), NULL, NULL, &known, &c), WEFT_ERR_FORMAT,
                   "t:3: has more than 5 columns");
}

/* Each usual mark of a missing value is refused as a label; among words, those are classes that may
 * be meant as such. */
static void test_missing_labels(void **state)
{
    (void)state;
    static const struct {
        const char *mark;
        bool word; /* may be the name of a class */
    } marks[] = {{"nan", false},  {"NaN", false},  {"NA", false},   {"n/a", false},
                 {"#N/A", false}, {"<NA>", false}, {"NULL", false}, {"?", false},
                 {"None", true},  {"-", true},     {".", true}};
    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++)
        for (int words = 0; words < 2; words++) {
            char text[200];
            weft_csv c;
            (void)snprintf(text, sizeof(text), "a,y\n1,%s\n2,%s\n3,%s\n4,%s\n", words ? "b" : "0",
                           words ? "c" : "1", marks[i].mark, marks[i].mark);
            if (words && marks[i].word) {
                assert_ok(csv(text, NULL, &c));
                assert_int_equal(c.classes, 3);
                weft_csv_free(&c);
                continue;
            }
            assert_refused(csv(text, NULL, &c), WEFT_ERR_FORMAT, "marks a missing value");
            assert_non_null(strstr(weft_last_message(), marks[i].mark));
            assert_non_null(strstr(weft_last_message(), marks[i].word ? "in row 2" : "t.csv:4:"));
        }
}

/* A way to write a table. */
typedef struct dialect {
    const char *end, *first, *separator, *quote, *blank;
    bool decimal;          /* features have a decimal comma */
    int id, weight, label; /* places of these columns; -1: there is none */
} dialect;

/* Writes a column of a row (row -1: of the header); features have the number 10 * row + feature. */
static void add_cell(weft_text *text, const dialect *d, int row, int column, int *feature)
{
    char word[32];
    if (column == d->id)
        (void)snprintf(word, sizeof(word), row < 0 ? "id" : "r%d", row);
    else if (column == d->weight)
        (void)snprintf(word, sizeof(word), row < 0 ? "w" : "%d.5", row);
    else if (column == d->label)
        (void)snprintf(word, sizeof(word), row < 0 ? "y" : "c%d", row % 3);
    else if (row < 0)
        (void)snprintf(word, sizeof(word), "x%d", (*feature)++);
    else
        (void)snprintf(word, sizeof(word), d->decimal ? "%d,0" : "%d", 10 * row + (*feature)++);
    weft_text_add(text, "%s%s%s%s%s%s", column ? d->separator : "", d->blank, d->quote, word,
                  d->quote, *d->quote ? d->blank : "");
}

static void check_dialect(const dialect *d, bool header, bool numbers)
{
    enum { ROWS = 7, FEATURES = 3 };
    int columns = FEATURES + (d->id >= 0) + (d->weight >= 0) + 1;
    char label[16], weight[16], id[16];
    weft_text text = {0};
    weft_csv c;
    weft_text_add(&text, "%s%s", d->first, *d->first ? d->end : "");
    for (int row = header ? -1 : 0; row < ROWS; row++) {
        int feature = 0;
        for (int column = 0; column < columns; column++) add_cell(&text, d, row, column, &feature);
        weft_text_add(&text, "%s", row + 1 < ROWS || row % 2 ? d->end : "");
    }
    (void)snprintf(label, sizeof(label), numbers ? "%d" : "y", d->label);
    (void)snprintf(weight, sizeof(weight), numbers ? "%d" : "w", d->weight);
    (void)snprintf(id, sizeof(id), numbers ? "%d" : "id", d->id);
    const weft_csv_known known = {
        .place = -1, .weight_place = -1, .id_place = -1, .id_given = d->id < 0 ? NULL : id};
    weft_status status = weft_csv_parse("t.csv", text.data, text.size, label,
                                        d->weight < 0 ? NULL : weight, &known, &c);
    if (status != WEFT_OK) fail_msg("%s in:\n%s", weft_last_message(), text.data);
    assert_true(c.rows == ROWS && c.features == FEATURES && c.classes == 3);
    assert_true(c.has_header == header && c.label == d->label && c.weight == d->weight &&
                c.id == d->id);
    for (int i = 0; i < ROWS; i++) {
        char word[16];
        (void)snprintf(word, sizeof(word), "r%d", i);
        for (int j = 0; j < FEATURES; j++) assert_true(c.values[FEATURES * i + j] == 10 * i + j);
        assert_int_equal(c.labels[i], i % 3);
        if (d->weight >= 0) assert_true(c.weights[i] == i + 0.5);
        if (d->id >= 0) assert_string_equal(c.ids[i], word);
    }
    weft_csv_free(&c);
    free(text.data);
}

/* One table is read from every way in which programs write it, wherever label, weight and
 * identifier are. */
static void test_csv_dialects(void **state)
{
    (void)state;
    static const char *const ends[] = {"\n", "\r\n", "\r"}, *const blanks[] = {"", " ", "\t "},
                             *const firsts[] = {"", "sep=,", "SEP=;", "sep=\t", ";", "\t", "|"};
    static const int places[][3] = {{-1, -1, 3}, {-1, -1, 0}, {0, -1, 4}, {0, 1, 2}, {5, 4, 3},
                                    {2, 0, 5},   {-1, 0, 4},  {4, -1, 0}, {3, 5, 1}, {1, 3, 0}};
    for (size_t e = 0; e < 3; e++)
        for (size_t f = 0; f < WEFT_COUNT(firsts); f++)
            for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++)
                for (int quoted = 0; quoted < 2; quoted++) {
                    bool said = strlen(firsts[f]) > 1; /* else the lines show it */
                    char separator[2] = {said ? firsts[f][4] : *firsts[f] ? *firsts[f] : ',', 0};
                    const char *blank = blanks[(e + f + p) % (separator[0] == '\t' ? 2 : 3)];
                    const dialect d = {ends[e],      said ? firsts[f] : "",
                                       separator,    quoted ? "\"" : "",
                                       blank,        *separator != ',' && p % 2 == 0,
                                       places[p][0], places[p][1],
                                       places[p][2]};
                    check_dialect(&d, true, false);
                    check_dialect(&d, true, true);
                    check_dialect(&d, false, true);
                }
    weft_csv c;
    assert_refused(csv("a,y\r1,0\r2,\r", NULL, &c), WEFT_ERR_FORMAT,
                   "t.csv:3: column 1 (y), the last one");
    assert_refused(csv("sep=;\na;y\n1;0\n2;\n", NULL, &c), WEFT_ERR_FORMAT,
                   "t.csv:4: column 1 (y), the last one");
    const weft_csv_known id = {.place = -1, .weight_place = -1, .id_place = -1, .id_given = "1"};
    const char *text = "1,2,3\n4,5,6\n";
    assert_refused(weft_csv_parse("t", text, strlen(text), NULL, "1", &id, &c), WEFT_ERR_ARGUMENT,
                   "column 1 is given as the id and as the weight");
    assert_refused(weft_csv_parse("t", text, strlen(text), "1", NULL, &id, &c), WEFT_ERR_ARGUMENT,
                   "column 1 is given as the id, and as the label or target");
}

/* A later table has the identifiers where training had them, or lacks them. */
static void test_later_identifiers(void **state)
{
    (void)state;
    static char a[] = "a", b[] = "b", *const names[] = {a, b};
    weft_csv_known known = {.features = 2,
                            .names = names,
                            .label = "y",
                            .place = 2,
                            .weight_place = -1,
                            .id = "",
                            .id_place = 0};
    static const struct {
        const char *text;
        int id;
    } tables[] = {{",a,b,y\n7,1,2,0\n8,3,4,1\n", 0},
                  {"b,a,,y\n2,1,7,0\n4,3,8,1\n", 2},
                  {"a,b,y\n1,2,0\n3,4,1\n", -1},
                  {"7,1,2,0\n8,3,4,1\n", 0},
                  {"1,2,0\n3,4,1\n", -1},
                  {"y,b,a\n0,2,1\n1,4,3\n", -1}};
    for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
        weft_csv c;
        const char *text = tables[i].text;
        assert_ok(weft_csv_parse("t", text, strlen(text), NULL, NULL, &known, &c));
        assert_int_equal(c.id, tables[i].id);
        for (int j = 0; j < 4; j++) assert_true(c.values[j] == j + 1);
        assert_true(c.labels[0] == 0 && c.labels[1] == 1);
        if (c.id >= 0) assert_string_equal(c.ids[1], "8");
        weft_csv_free(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_csv),
        cmocka_unit_test(test_csv_numbers),
        cmocka_unit_test(test_csv_of_others),
        cmocka_unit_test(test_csv_header),
        cmocka_unit_test(test_csv_large_labels),
        cmocka_unit_test(test_csv_many_classes),
        cmocka_unit_test(test_csv_one_column_more),
        cmocka_unit_test(test_csv_columns_missing),
        cmocka_unit_test(test_csv_of_requests),
        cmocka_unit_test(test_missing_labels),
        cmocka_unit_test(test_csv_dialects),
        cmocka_unit_test(test_later_identifiers),
    };
    return cmocka_run_group_tests_name("csv", tests, NULL, NULL);
}
