/* Says which checkpoints are there in place of one that is damaged, absent or cannot be read. */
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "checkpoint/folder.h"

weft_status weft_folder_offer_previous(const char *folder, weft_status status)
{
    char *directory, offer[512] = "";
    int64_t *steps = NULL, this_step = -1;
    int count = 0;
    if (weft_strdup(folder, &directory) != WEFT_OK) return status;
    char *slash = strrchr(directory, '/');
    bool latest = slash && strcmp(slash, "/latest") == 0; /* a folder, or a file */
    if (latest) this_step = INT64_MAX;
    if (latest ||
        (slash && strncmp(slash + 1, "step-", 5) == 0 && weft_parse_int(slash + 6, &this_step))) {
        weft_error found = {0};
        *slash = '\0';
        weft_error_catch(&found, status);
        if (weft_checkpoint_list(directory, &steps, &count) != WEFT_OK) count = 0;
        for (int i = 0; i < count && !offer[0]; i++)
            if (steps[i] < this_step)
                (void)snprintf(offer, sizeof(offer), "; the one before is %s/step-%lld%s",
                               directory, (long long)steps[i],
                               status == WEFT_ERR_FORMAT
                                   ? " (remove the damaged folder to resume from it)"
                                   : "");
        status = weft_fail(status, "%s%s", found.message,
                           offer[0] ? offer : "; there is none before it");
        free(steps);
    }
    free(directory);
    return status;
}

bool weft_folder_leads_nowhere(const char *path, char *target, size_t size)
{
    ssize_t length = weft_file_exists(path) ? -1 : readlink(path, target, size - 1);
    if (length >= 0) target[length] = '\0';
    return length >= 0;
}

/* Appends the checkpoints that are complete in a directory, and the newest as the one to give. */
static void offer_whole(const char *directory, weft_text *text)
{
    enum { MOST = 8 };
    int64_t *steps;
    int count;
    if (weft_checkpoint_list(directory, &steps, &count) != WEFT_OK) count = 0;
    for (int i = 0; i < WEFT_MIN(count, MOST); i++) {
        const char *before = i ? ", " : "; complete checkpoints there: ";
        weft_text_add(text, "%sstep-%lld", before, (long long)steps[i]);
    }
    if (count > MOST) weft_text_add(text, " and %d older ones", count - MOST);
    if (count > 0)
        weft_text_add(text, "; give %s/step-%lld", directory, (long long)steps[0]);
    else
        weft_text_add(text, "; give a folder that weft train --checkpoint wrote");
    free(steps);
}

weft_status weft_folder_fail_empty(const char *path)
{
    char *own, *latest, *sentence, target[300];
    weft_text text = {0};
    WEFT_TRY(weft_strdup(path, &own));
    for (size_t n = strlen(own); n > 1 && own[n - 1] == '/'; n--) own[n - 1] = '\0';
    weft_status status = weft_format(&latest, "%s/latest", own);
    if (status != WEFT_OK) {
        free(own);
        return status;
    }
    weft_text_add(&text, "%s: holds no checkpoint", path);
    if (weft_folder_leads_nowhere(own, target, sizeof(target)))
        weft_text_add(&text, ", since it is a link to %s, which is absent", target);
    else if (weft_folder_leads_nowhere(latest, target, sizeof(target)))
        weft_text_add(&text, ", since its latest is a link to %s, which is absent", target);
    else
        weft_text_add(&text, " (no index.json, no latest, no step-N)");
    offer_whole(dirname(own), &text);
    free(own);
    free(latest);
    WEFT_TRY(weft_text_take(&text, &sentence));
    status = weft_fail(WEFT_ERR_IO, "%s", sentence);
    free(sentence);
    return status;
}
