/* Reads dates of ISO 8601, in the Gregorian calendar. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "formats/csv_cells.h"
#include "formats/csv_columns.h"

/* Takes `count` digits from *at. */
static bool digits(const char **at, int count, int *out)
{
    *out = 0;
    for (int i = 0; i < count; i++, (*at)++) {
        if (**at < '0' || **at > '9') return false;
        *out = 10 * *out + (**at - '0');
    }
    return true;
}

static bool take(const char **at, char c)
{
    if (**at != c) return false;
    (*at)++;
    return true;
}

static bool is_leap(int year)
{
    return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
}

static int month_days(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    return days[month - 1] + (month == 2 && is_leap(year));
}

/* Days of the years before `year`, from year 0. */
static int64_t years_before(int year)
{
    int64_t y = year, last = year - 1;
    return year == 0 ? 0 : y * 365 + last / 4 - last / 100 + last / 400 + 1;
}

static int64_t day_number(int year, int month, int day)
{
    int64_t days = years_before(year) - years_before(1970) + day - 1;
    for (int m = 1; m < month; m++) days += month_days(year, m);
    return days;
}

/* Takes hh:mm[:ss[.f]][Z|+hh:mm] up to the end of the text as a share of a day. */
static bool time_of_day(const char *at, double *share)
{
    int hour, minute, second = 0, ahead = 0, behind = 0;
    double fraction = 0, unit = 0.1;
    if (!digits(&at, 2, &hour) || !take(&at, ':') || !digits(&at, 2, &minute)) return false;
    if (take(&at, ':')) {
        if (!digits(&at, 2, &second)) return false;
        bool part = take(&at, '.');
        while (part && *at >= '0' && *at <= '9') {
            fraction += unit * (*at++ - '0');
            unit /= 10;
        }
    }
    if (hour > 23 || minute > 59 || second > 60) return false;
    if (*at == '+' || *at == '-') {
        int sign = *at++ == '+' ? 1 : -1, hours, minutes = 0;
        if (!digits(&at, 2, &hours) || (take(&at, ':') && !digits(&at, 2, &minutes))) return false;
        if (hours > 23 || minutes > 59) return false;
        ahead = sign * hours;
        behind = sign * minutes;
    } else {
        (void)take(&at, 'Z');
    }
    *share = ((hour - ahead) * 3600.0 + (minute - behind) * 60.0 + second + fraction) / 86400;
    return *at == '\0';
}

bool weft_csv_date(const char *text, double *days)
{
    int year, month, day;
    double share = 0;
    if (!digits(&text, 4, &year) || !take(&text, '-') || !digits(&text, 2, &month) ||
        !take(&text, '-') || !digits(&text, 2, &day))
        return false;
    if (month < 1 || month > 12 || day < 1 || day > month_days(year, month)) return false;
    if (*text == 'T' || *text == ' ') {
        if (!time_of_day(text + 1, &share)) return false;
    } else if (*text) {
        return false;
    }
    *days = (double)day_number(year, month, day) + share;
    return true;
}

void weft_csv_day(double days, int *year, int *month, int *day)
{
    int64_t number = (int64_t)floor(days) + years_before(1970);
    int y = (int)(number / 366);
    while (years_before(y + 1) <= number) y++;
    int left = (int)(number - years_before(y)), m = 1;
    while (left >= month_days(y, m)) left -= month_days(y, m++);
    *year = y;
    *month = m;
    *day = left + 1;
}

/* Whether a sign may group digits, and three of them follow. */
static bool groups(const char *at)
{
    if (!strchr(", '", *at)) return false;
    for (int i = 1; i <= 3; i++)
        if (!isdigit((unsigned char)at[i])) return false;
    return !isdigit((unsigned char)at[4]);
}

bool weft_csv_signed_number(const char *text)
{
    char plain[64];
    size_t size = 0;
    double number;
    for (const char *at = text; *at; at++) {
        unsigned char next = (unsigned char)at[1];
        bool sign = strchr("$%", *at) || (unsigned char)*at >= 0x80 || groups(at);
        bool blank = *at == ' ' && (next == '%' || next >= 0x80 ||
                                    (at > text && !isalnum((unsigned char)at[-1])));
        if (sign || blank) continue;
        if (size + 1 == sizeof(plain)) return false;
        plain[size++] = *at;
    }
    plain[size] = '\0';
    return size < strlen(text) && weft_csv_number(plain, false, &number);
}

/* Whether a text is a date, or three numbers between signs, as dates of other forms are. */
static bool is_date(const char *text)
{
    double days;
    return weft_csv_date(text, &days);
}

static bool is_other_date(const char *text)
{
    int a, b, c, used = 0;
    char first, second;
    return sscanf(text, "%2d%c%2d%c%4d%n", &a, &first, &b, &second, &c, &used) == 5 &&
           first == second && (first == '/' || (strchr(".-", first) && c >= 1000)) &&
           (!text[used] || text[used] == ' ');
}

bool weft_csv_advise(const weft_csv *csv, int j, char *out, size_t size)
{
    static const struct {
        bool (*is)(const char *text);
        const char *words;
        bool names;
    } forms[] = {{is_date, "its texts are dates, which are read as days by dates=", true},
                 {is_other_date,
                  "its texts look like dates, which are read as days if they are written as "
                  "2024-02-29, by dates=",
                  true},
                 {weft_csv_signed_number,
                  "its texts are numbers with other signs, as $, % or those that group digits; "
                  "without these they are read as numbers",
                  false}};
    enum { FEW = 3 }; /* texts that may be classes */
    const weft_csv_cells *c = csv->cells ? &csv->cells[j] : NULL;
    char name[128];
    if (!c || c->kind != WEFT_CSV_CATEGORIES || c->forced || !c->word || c->words < FEW)
        return false;
    for (size_t f = 0; f < WEFT_COUNT(forms); f++) {
        int k = 0;
        while (k < c->words && forms[f].is(c->word[k])) k++;
        if (k < c->words) continue;
        (void)weft_csv_option_name(csv, csv->order[j], name, sizeof(name));
        (void)snprintf(out, size, "%s%s", forms[f].words, forms[f].names ? name : "");
        return true;
    }
    return false;
}
