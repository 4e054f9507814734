/* Reads dates, of ISO 8601 and of other forms, in the Gregorian calendar. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <strings.h>

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

/* Takes one digit or two. */
static bool one_or_two(const char **at, int *out)
{
    return digits(at, isdigit((unsigned char)**at) && isdigit((unsigned char)(*at)[1]) ? 2 : 1,
                  out);
}

/* Takes AM or PM, if it is there, of an hour from 1 to 12. */
static bool half_of_day(const char **at, int *hour)
{
    const char *half = *at + strspn(*at, " ");
    bool late = strncasecmp(half, "PM", 2) == 0;
    if (!late && strncasecmp(half, "AM", 2) != 0) return true;
    *at = half + 2;
    bool fits = *hour >= 1 && *hour <= 12;
    *hour = *hour % 12 + 12 * late;
    return fits;
}

/* Takes hh:mm[:ss[.f]][Z|+hh:mm] up to the end of the text as a share of a day; strict: as ISO 8601
 * has it. */
static bool time_of_day(const char *at, bool strict, double *share)
{
    int hour, minute, second = 0, ahead = 0, behind = 0;
    double fraction = 0, unit = 0.1;
    if (!(strict ? digits(&at, 2, &hour) : one_or_two(&at, &hour)) || !take(&at, ':') ||
        !digits(&at, 2, &minute))
        return false;
    if (take(&at, ':')) {
        if (!digits(&at, 2, &second)) return false;
        bool part = take(&at, '.');
        while (part && *at >= '0' && *at <= '9') {
            fraction += unit * (*at++ - '0');
            unit /= 10;
        }
    }
    if (!strict && !half_of_day(&at, &hour)) return false;
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

static bool is_day(int year, int month, int day)
{
    return month >= 1 && month <= 12 && day >= 1 && day <= month_days(year, month);
}

/* Takes a day of three numbers, and what may follow. */
static bool calendar_day(const char *text, weft_csv_date_form form, double *days)
{
    int year, month, day, *first = form == WEFT_CSV_DMY ? &day : &month,
                          *second = form == WEFT_CSV_DMY ? &month : &day;
    double share = 0;
    if (form == WEFT_CSV_ISO) {
        if (!digits(&text, 4, &year) || !take(&text, '-') || !digits(&text, 2, &month) ||
            !take(&text, '-') || !digits(&text, 2, &day))
            return false;
    } else {
        if (!one_or_two(&text, first) || !*text || !strchr("./-", *text)) return false;
        char sign = *text++;
        if (!one_or_two(&text, second) || !take(&text, sign) || !digits(&text, 4, &year))
            return false;
    }
    if (!is_day(year, month, day)) return false;
    if (*text == 'T' || *text == ' ') {
        if (!time_of_day(text + 1, form == WEFT_CSV_ISO, &share)) return false;
    } else if (*text) {
        return false;
    }
    *days = (double)day_number(year, month, day) + share;
    return true;
}

bool weft_csv_date(const char *text, weft_csv_date_form form, double *days)
{
    if (form != WEFT_CSV_EPOCH) return calendar_day(text, form, days);
    if (!weft_csv_number(text, false, days)) return false;
    *days /= 86400;
    return *days >= (double)day_number(0, 1, 1) && *days < (double)day_number(10000, 1, 1);
}

static const struct {
    const char *name, *example;
} forms_of_dates[] = {[WEFT_CSV_ISO] = {"iso", "2024-02-29 or 2024-02-29T18:30:00"},
                      [WEFT_CSV_DMY] = {"dmy", "29.2.2024, with the day first"},
                      [WEFT_CSV_MDY] = {"mdy", "2/29/2024, with the month first"},
                      [WEFT_CSV_EPOCH] = {"epoch", "seconds since 1970, up to the year 9999"}};

const char *weft_csv_date_name(int form, const char **example)
{
    bool known = form >= 0 && form < (int)WEFT_COUNT(forms_of_dates);
    *example = known ? forms_of_dates[form].example : NULL;
    return known ? forms_of_dates[form].name : NULL;
}

bool weft_csv_date_listed(const char *list, const char *name, int column, int *form)
{
    char entry[WEFT_CSV_ENTRY];
    const char *known, *example;
    while (weft_csv_next_entry(&list, entry)) {
        char *colon = strrchr(entry, ':');
        *form = WEFT_CSV_ISO;
        if (weft_csv_listed(entry, name, column)) return true; /* a name may have a colon */
        if (!colon) continue;
        *colon = '\0';
        if (!weft_csv_listed(entry, name, column)) continue;
        while ((known = weft_csv_date_name(*form, &example)) && strcmp(known, colon + 1) != 0)
            ++*form;
        if (!known) *form = -1;
        return true;
    }
    return false;
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

/* Whether a text is a date of some form, but not a number. */
static bool is_date(const char *text, weft_csv_date_form form)
{
    double days;
    return form != WEFT_CSV_EPOCH && weft_csv_date(text, form, &days);
}

/* Whether a text is a date whose year has two digits. */
static bool is_short_date(const char *text)
{
    int a, b, c, used = 0;
    char first, second;
    return sscanf(text, "%2d%c%2d%c%2d%n", &a, &first, &b, &second, &c, &used) == 5 &&
           first == second && first == '/' && (!text[used] || text[used] == ' ');
}

/* Advises a form of dates that all texts of a column have. */
static bool advise_dates(const weft_csv *csv, int j, char *out, size_t size)
{
    const weft_csv_cells *c = &csv->cells[j];
    char name[128];
    const char *form, *example;
    bool all[WEFT_COUNT(forms_of_dates)];
    (void)weft_csv_option_name(csv, csv->order[j], name, sizeof(name));
    for (int f = 0; f < (int)WEFT_COUNT(forms_of_dates); f++) {
        all[f] = true;
        for (int k = 0; k < c->words && all[f]; k++)
            all[f] = is_date(c->word[k], (weft_csv_date_form)f);
    }
    int f = 0;
    while ((form = weft_csv_date_name(f, &example)) && !all[f]) f++;
    int k = 0;
    while (k < c->words && is_short_date(c->word[k])) k++;
    if (!form && k == c->words)
        (void)snprintf(out, size,
                       "its texts look like dates, which are read as days by dates=%s:dmy or :mdy "
                       "if their years have four digits",
                       name);
    if (!form) return k == c->words;
    (void)snprintf(out, size, "its texts are dates, which are read as days by dates=%s%s%s%s%s",
                   name, f ? ":" : "", f ? form : "",
                   all[WEFT_CSV_DMY] && all[WEFT_CSV_MDY] ? " or :" : "",
                   all[WEFT_CSV_DMY] && all[WEFT_CSV_MDY] ? "mdy" : "");
    return true;
}

bool weft_csv_advise(const weft_csv *csv, int j, char *out, size_t size)
{
    enum { FEW = 3 }; /* texts that may be classes */
    const weft_csv_cells *c = csv->cells ? &csv->cells[j] : NULL;
    int k = 0;
    if (!c || c->kind != WEFT_CSV_CATEGORIES || c->forced || !c->word || c->words < FEW)
        return false;
    if (advise_dates(csv, j, out, size)) return true;
    while (k < c->words && weft_csv_signed_number(c->word[k])) k++;
    if (k < c->words) return false;
    (void)snprintf(out, size,
                   "its texts are numbers with other signs, as $, %% or those that group "
                   "digits; without these they are read as numbers");
    return true;
}
