/* Shares opened hardware between the devices of a process, so that each kernel is compiled once. */
#include "device/gpu/gpu.h"

static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;
static gpu_card *opened; /* the hardware that this process uses */

static weft_status open_card(const gpu_driver *driver, const char *which, gpu_card **out)
{
    char *own;
    size_t size = strlen(which) + 1;
    WEFT_TRY(weft->allocate(size, &own));
    memcpy(own, which, size);
    weft_status status = driver->open(which, out);
    if (status != WEFT_OK) {
        free(own);
        return status;
    }
    gpu_card *card = *out;
    card->driver = driver;
    card->which = own;
    pthread_mutex_init(&card->lock, NULL);
    card->next = opened;
    opened = card;
    return WEFT_OK;
}

weft_status gpu_card_take(const gpu_driver *driver, const char *which, gpu_card **out)
{
    weft_status status = WEFT_OK;
    pthread_mutex_lock(&opening);
    gpu_card *card = opened;
    while (card && (card->driver != driver || strcmp(card->which, which) != 0)) card = card->next;
    if (!card) status = open_card(driver, which, &card);
    if (status == WEFT_OK) {
        card->users++;
        *out = card;
    }
    pthread_mutex_unlock(&opening);
    return status;
}

void gpu_card_give(gpu_card *card)
{
    pthread_mutex_lock(&opening);
    if (--card->users == 0) {
        gpu_card **at = &opened;
        while (*at != card) at = &(*at)->next;
        *at = card->next;
        gpu_libraries_close(card);
        gpu_programs_free(card);
        pthread_mutex_destroy(&card->lock);
        free(card->which);
        card->driver->close(card);
    }
    pthread_mutex_unlock(&opening);
}
