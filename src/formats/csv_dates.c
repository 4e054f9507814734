/* Reads dates of ISO 8601, in the Gregorian calendar. */
#include <math.h>

#include "formats/csv_cells.h"

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
