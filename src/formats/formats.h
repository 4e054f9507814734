/* Parsers of file formats: gzip, IDX, tar, NPY and CSV. They do not trust their input: sizes
 * are checked before they are multiplied, and messages name the file (`name`) and the position. */
#ifndef WEFT_FORMATS_FORMATS_H
#define WEFT_FORMATS_FORMATS_H

#include "base/base.h"

/* The largest number of different tokens. */
enum { WEFT_MOST_TOKENS = 1 << 20 };

/* --- gzip --- */

/* Whether data begin as those of gzip do. */
bool weft_is_gzip(const unsigned char *data, size_t size);
/* Maps a file; gzip data (RFC 1952) are decompressed and verified by their checksum. MEMORY: they
 * inflate to more than half of the memory, or to more than 1 GiB and 200 times their size. */
WEFT_PRIVATE_API weft_status weft_gzip_open(const char *path, weft_bytes *out) WEFT_NODISCARD;
/* Decompresses gzip data in memory. *out is freed with free(). MEMORY: they inflate to more than
 * `limit` bytes. */
WEFT_PRIVATE_API weft_status weft_gzip_inflate(const char *name, const void *data, size_t size,
                                               size_t limit, unsigned char **out,
                                               size_t *out_size) WEFT_NODISCARD;
/* Frees or unmaps the bytes of weft_gzip_open. */
WEFT_PRIVATE_API void weft_gzip_close(weft_bytes *bytes);

/* --- IDX: the format of MNIST --- */

typedef struct weft_idx {
    int type; /* 8 u8, 9 i8, 11 i16, 12 i32, 13 f32, 14 f64 */
    weft_shape shape;
    const unsigned char *data; /* big-endian; points into the parsed bytes */
} weft_idx;
weft_status weft_idx_parse(const char *name, const void *data, size_t size,
                           weft_idx *out) WEFT_NODISCARD;
/* Element i as a number. */
double weft_idx_get(const weft_idx *idx, int64_t i);

/* --- tar --- */

/* A file in an archive, in whose bytes its own are. */
typedef struct weft_tar_entry {
    char name[1024];           /* longer ones are cut */
    const unsigned char *data; /* NULL: there is no further file */
    size_t size;
} weft_tar_entry;
/* Takes the next file of an archive in memory from position *at on, which begins as 0. FORMAT: it
 * is cut off or damaged. */
weft_status weft_tar_next(const char *name, const unsigned char *data, size_t size, size_t *at,
                          weft_tar_entry *out) WEFT_NODISCARD;

/* json_text.c: sets *out to the text, or the digits of the whole number, that a JSON object has
 * under a key; the caller frees it. FORMAT: it has none. */
weft_status weft_json_text_at(const char *name, const void *data, size_t size, const char *key,
                              char **out) WEFT_NODISCARD;

/* --- NPY: one array of NumPy --- */

typedef struct weft_npy {
    char kind; /* 'f', 'i', 'u', 'b' as in NumPy's descr */
    int size;  /* bytes of an element */
    bool big;  /* big-endian */
    weft_shape shape;
    const unsigned char *data;
} weft_npy;
weft_status weft_npy_parse(const char *name, const void *data, size_t size,
                           weft_npy *out) WEFT_NODISCARD;
double weft_npy_get(const weft_npy *npy, int64_t i);

/* --- CSV (RFC 4180: quotes, doubled quotes; lines end with LF, CRLF or CR) --- */

/* The contents of a column. */
typedef enum weft_csv_kind {
    WEFT_CSV_OPEN, /* decided by the first value */
    WEFT_CSV_NUMBERS,
    WEFT_CSV_CATEGORIES,
    WEFT_CSV_DATES
} weft_csv_kind;

/* A table of labels that finds the number of the class that a label means. */
typedef struct weft_csv_class {
    const char *label; /* of the caller; NULL: an empty slot */
    uint64_t hash;
    int number;
} weft_csv_class;
typedef struct weft_csv_classes {
    weft_csv_class *slots;
    size_t capacity, count;
} weft_csv_classes;

/* How the dates of a column are written. */
typedef enum weft_csv_date_form {
    WEFT_CSV_ISO,  /* 2024-02-29, of ISO 8601 */
    WEFT_CSV_DMY,  /* 29.2.2024, 29/02/2024 or 29-02-2024 */
    WEFT_CSV_MDY,  /* 2/29/2024 */
    WEFT_CSV_EPOCH /* seconds since 1970 */
} weft_csv_date_form;

/* The contents of a feature column of a table that may have texts and gaps. */
typedef struct weft_csv_cells {
    weft_csv_kind kind;
    weft_csv_date_form form; /* of dates */
    int words;
    char **word; /* the different texts in order of appearance, unless they are known */
    size_t word_capacity;
    weft_csv_classes found;  /* of the words, or those of the training */
    int64_t line;            /* of the first text */
    int line_file, gap_file; /* whose lines they are */
    bool forced;             /* categories even of numbers */
    int64_t missing, gap;    /* values; the line of the first */
    int64_t unknown;         /* texts that the training had not */
    char *stranger;          /* the first of them */
} weft_csv_cells;

/* A file of a table, whose rows follow those of the files before. */
typedef struct weft_csv_file {
    char *name;
    int64_t first; /* its first row in the table */
    int *field;    /* [columns]: the field of a row that has the column; NULL: they are in order */
    char separator;
} weft_csv_file;

typedef struct weft_csv {
    int files;
    weft_csv_file *file; /* [files]; columns are numbered as in the first */
    int columns;
    int64_t rows; /* without the header */
    bool has_header;
    bool comma;       /* numbers may have a decimal comma, since fields are separated otherwise */
    char **header;    /* column names, or NULL */
    int label;        /* label column; -1: none */
    int weight;       /* column of sample weights; -1: none is used */
    int id;           /* column of identifiers; -1: none */
    int place;        /* label column, not counting those of weights and identifiers; -1: none */
    int weight_place; /* column of the weights, not counting that of identifiers; -1: none */
    int features;
    int *order; /* [features]: their columns */
    /* [rows, features]; NAN: missing. Categories have the number of their word; if these are known
     * and it is none of them, that of words. */
    double *values;
    weft_csv_cells *cells; /* [features]; NULL: all are numbers */
    char *dropped;         /* columns that were left out, numbers with + between; NULL */
    int ignored;           /* columns that training had not */
    int first_ignored;     /* the first of them */
    int32_t *labels;       /* [rows], class numbers; NULL: none */
    double *weights;       /* [rows], at least 0; NULL: none */
    int answers;           /* columns of the label or of targets; 0: the table has none */
    int *answer;           /* [answers]: these columns; the first is `label` */
    double *targets; /* [rows, answers], numbers; NULL: the label is a class, or there is none */
    char **ids;      /* [rows], the identifiers; NULL: none */
    int classes;
    char **class_names; /* sorted; numbers by value */
    int64_t *begin;     /* [rows]: where rows begin in the text of their file; NULL: not wanted */
} weft_csv;

/* The fields of a row, which are in `text`. */
typedef struct weft_csv_row {
    char *text, **fields;
    size_t count;
} weft_csv_row;

/* How a table of training may be read beside numbers. Columns are given by names or by numbers from
 * 0, as COLUMN+COLUMN; NULL: none. */
typedef struct weft_csv_rules {
    const char *drop;        /* are left out */
    const char *only;        /* the features alone */
    const char *categorical; /* categories, also if they are numbers */
    const char *dates;       /* ISO 8601 */
    const char *na;          /* marks of missing values beside the usual ones, MARK+MARK */
    bool parts;              /* parts of dates are features, too */
    bool gaps;               /* numbers may be missing */
    bool text_gaps;          /* texts may be missing */
    bool median;             /* which stands for a missing number; else the mean */
    bool flag;               /* a feature says that a number is missing */
    const char *embedding;   /* are embedded, COLUMN[:SIZE]+COLUMN[:SIZE] or all[:SIZE] */
    int rare;                /* categories of fewer rows have no feature of their own */
} weft_csv_rules;

/* table.h: how columns become features. */
typedef struct weft_table weft_table;

/* The columns of the table of training, which a later table must have as well. They are matched by
 * name, in any order, if both tables have names; otherwise by position. */
typedef struct weft_csv_known {
    int features;              /* 0: nothing is known */
    char *const *names;        /* [features], or NULL */
    const char *label;         /* its name; NULL if `names` is */
    int answers;               /* of training: several labels or targets */
    char *const *answer_names; /* [answers]; NULL: there was one, or they had no names */
    int place;                 /* as in weft_csv; -1: unknown */
    const char *weight;        /* name of the weights' column; NULL: none */
    int weight_place;          /* as in weft_csv; -1: none or unknown */
    const char *id;            /* name of the column of identifiers; NULL: none */
    int id_place;              /* that column, counting all; -1: none or unknown */
    const char
        *id_given; /* name or number (from 0) of that column in this table; NULL: not given */
    const weft_csv_rules *rules; /* of a table of training; NULL: it has numbers alone */
    const weft_table *table;     /* how it became features, with as many columns; NULL: numbers */
    int skip;                    /* lines before the table */
    bool unlabelled;             /* the label may be missing; weights are used only if requested */
    bool measured;               /* the label, called target, is numeric */
    bool several;                /* label= or target= gives several columns, COLUMN+COLUMN */
    bool binary;                 /* the numbers are labels of 0 and 1 */
    bool label_ignored;          /* the label's values are not read */
    int64_t most_rows;           /* rows beyond so many are not read; 0: all are */
    size_t most_columns;         /* a row with more is refused; 0: any number */
    bool begins;                 /* `begin` of the table is wanted */
} weft_csv_known;

/* csv_cells.c: makes room for the columns' contents, with what is known of their kinds. */
weft_status weft_csv_cells_open(const char *file, const weft_csv_known *known,
                                weft_csv *csv) WEFT_NODISCARD;

/* csv_weight.c: decides from the first row, in line `line`, which column is which, and sets
 * columns, has_header, label, weight, id, the places, features and order. ARGUMENT: a column is
 * missing or unexpected; the message names it. */
weft_status weft_csv_columns(const char *file, int64_t line, char **fields, int count,
                             const char *label, const char *weight, const weft_csv_known *known,
                             weft_csv *csv) WEFT_NODISCARD;

/* Parses a table. label: name or number (from 0) of the label column; NULL: the label column of
 * `known` (may be NULL), else the last one. weight: name or number of the column of sample weights;
 * NULL: that of `known`, else none. The first row is a header if no feature or numeric target in it
 * is a number, if it contains the name of the label or all known feature names, or if a table of
 * training has the numbers of three or more columns there, 0, 1, 2 and so on. A byte order
 * mark is skipped. Commas, semicolons, tabs or bars separate the fields, as the first lines show or
 * a first line sep=; says; unless commas do, they may be decimal signs. Blanks around a quoted
 * field are skipped. With rules or a description of training, columns may have texts, dates and
 * gaps; a column of numbers and other texts is refused unless it is said to have categories.
 * FORMAT: the text is malformed, only some of these are numbers, or a
 * label is a mark of a missing value; the message names line and column. ARGUMENT: a column is
 * missing or unexpected, or may be label or weight. */
WEFT_PRIVATE_API weft_status weft_csv_parse(const char *name, const void *data, size_t size,
                                            const char *label, const char *weight,
                                            const weft_csv_known *known,
                                            weft_csv *out) WEFT_NODISCARD;
WEFT_PRIVATE_API void weft_csv_free(weft_csv *csv);
/* Parses a table of several files with the same columns, which later ones with a header may have in
 * another order: a text for each, in their order; what `begin` is given must stay until the end. */
typedef struct weft_csv_parser weft_csv_parser;
weft_status weft_csv_begin(const char *label, const char *weight, const weft_csv_known *known,
                           weft_csv_parser **out) WEFT_NODISCARD;
/* As weft_csv_parse; FORMAT also: the columns are not those of the first file. */
weft_status weft_csv_add(weft_csv_parser *parser, const char *name, const void *data,
                         size_t size) WEFT_NODISCARD;
/* Frees *parser and sets it to NULL. out: gets the table; NULL: it is not wanted. */
weft_status weft_csv_end(weft_csv_parser **parser, weft_csv *out) WEFT_NODISCARD;
/* The file that has a row. */
const weft_csv_file *weft_csv_file_of(const weft_csv *csv, int64_t row);
/* Whether the first row of a text, behind `skip` lines, has this field. */
bool weft_csv_has_name(const void *data, size_t size, int skip, const char *name);
/* csv_foreign.c: FORMAT: a file is no text in UTF-8, as how it begins shows. */
weft_status weft_csv_check_text(const char *name, const void *data, size_t size) WEFT_NODISCARD;
/* A clause for messages on a text that cannot be printed. */
const char *weft_csv_unprintable(const char *text);
/* The number, from 0 as in options, of column i in the file that is being read, for messages. */
int weft_csv_shown(const weft_csv *csv, int i);
/* Writes "column 3 (price)" of column i, with its number in the file that is being read. */
enum { WEFT_CSV_COLUMN = 128 };
const char *weft_csv_column(const weft_csv *csv, int i, char room[WEFT_CSV_COLUMN]);
/* Column i of the file as options name it, by name or number. */
const char *weft_csv_option_name(const weft_csv *csv, int i, char *room, size_t size);
/* Reads the fields of a row again from the texts that were parsed, [files], of which `begin` is
 * known. The caller frees *out with weft_csv_row_free, also after a failure. */
weft_status weft_csv_fields(const weft_csv *csv, const weft_bytes *text, int64_t row,
                            weft_csv_row *out) WEFT_NODISCARD;
void weft_csv_row_free(weft_csv_row *row);
/* csv_classes.c: whether two labels mean the same class: equal text, or equal numbers below 2^53.
 */
bool weft_csv_same_class(const char *a, const char *b);
/* The number of the class; -1: there is none. */
int weft_csv_classes_find(const weft_csv_classes *classes, const char *label);
/* Adds a label, which the table does not copy; one whose class is there already changes nothing. */
weft_status weft_csv_classes_add(weft_csv_classes *classes, const char *label,
                                 int number) WEFT_NODISCARD;
void weft_csv_classes_free(weft_csv_classes *classes);

#endif
