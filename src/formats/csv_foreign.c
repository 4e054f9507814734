/* Tells files that are no tables in UTF-8, by how they begin or what bytes they have. */
#include "formats/csv_reader.h"

/* Whether a text begins as UTF-16 does: with its mark, or a character with a zero byte beside it.
 */
static bool starts_utf16(const unsigned char *text, size_t size)
{
    if (size < 2) return false;
    bool marked = memcmp(text, "\xFF\xFE", 2) == 0 || memcmp(text, "\xFE\xFF", 2) == 0;
    return marked || !text[0] != !text[1];
}

weft_status weft_csv_check_text(const char *name, const void *data, size_t size)
{
    static const struct {
        const char *begin, *words;
    } kinds[] = {{"PK\x03\x04", "is a zip archive, as workbooks of Excel (.xlsx) are; save the "
                                "sheet as CSV, or unpack the archive"},
                 {"\xD0\xCF\x11\xE0", "is a workbook of Excel; save the sheet as CSV"},
                 {"PAR1", "is a Parquet file; save it as CSV, as by "
                          "pandas.read_parquet(FILE).to_csv(NAME, index=False)"},
                 {"BZh", "is compressed by bzip2; unpack it, or compress the table by gzip"},
                 {"\xFD"
                  "7zXZ",
                  "is compressed by xz; unpack it, or compress the table by gzip"},
                 {"\x28\xB5\x2F\xFD", "is compressed by zstd; unpack it, or compress the table by "
                                      "gzip"},
                 {"[{", "is JSON; save it as CSV"},
                 {"{\"", "is JSON; save it as CSV"}};
    const unsigned char *text = data, *zero = size > 0 ? memchr(data, 0, size) : NULL;
    for (size_t i = 0; i < WEFT_COUNT(kinds); i++)
        if (size >= strlen(kinds[i].begin) &&
            memcmp(data, kinds[i].begin, strlen(kinds[i].begin)) == 0)
            return weft_fail(WEFT_ERR_FORMAT, "%s: %s", name, kinds[i].words);
    if (zero && starts_utf16(text, size))
        return weft_fail(WEFT_ERR_FORMAT,
                         "%s: looks like text in UTF-16, and tables are read in UTF-8; save it as "
                         "UTF-8",
                         name);
    if (!zero) return WEFT_OK;
    return weft_fail(WEFT_ERR_FORMAT, "%s: byte %zu is zero, so this is not text", name,
                     (size_t)(zero - text));
}

const char *weft_csv_unprintable(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    uint32_t point;
    for (size_t size = strlen(text), step; size > 0; at += step, size -= step) {
        step = weft_utf8_decode(at, size, &point);
        if (step == 0)
            return "is not in UTF-8, but perhaps in Windows-1252 or Latin-1; save the table as "
                   "UTF-8, as by iconv -f WINDOWS-1252 -t UTF-8";
    }
    return "must be without control characters";
}
