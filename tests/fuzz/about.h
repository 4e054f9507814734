/* Descriptions of models for fuzz targets that parse requests; no model is trained. */
#ifndef WEFT_TESTS_FUZZ_ABOUT_H
#define WEFT_TESTS_FUZZ_ABOUT_H

#include "serve/front/http_internal.h"

/* Returns one of four model descriptions. */
static inline weft_servable_info fuzz_about(uint8_t choice)
{
    static char a[] = "a", b[] = "b", no[] = "no", yes[] = "yes", *columns[] = {a, b},
                *classes[] = {no, yes};
    weft_servable_info about = {.name = "m",
                                .version = 1,
                                .model = "mlp",
                                .real = WEFT_F32,
                                .limit = 8,
                                .policy = "greedy"};
    switch (choice % 4) {
    case 0:
        about.sample = weft_shape_of(3, (int64_t[]){1, 3, 2});
        about.classes = 10;
        about.bytes = true;
        break;
    case 1:
        about.sample = weft_shape_of(3, (int64_t[]){3, 2, 2});
        about.classes = 3;
        break;
    case 2:
        about.sample = weft_shape_of(1, (int64_t[]){2});
        about.classes = 2;
        about.class_names = classes;
        about.column_names = columns;
        about.label_name = "y";
        about.label_column = 3;
        break;
    default:
        about.sample = weft_shape_of(1, (int64_t[]){2});
        about.targets = 2;
        about.real = WEFT_F64;
        break;
    }
    return about;
}

#endif
