/* Descriptions of models for fuzz targets that parse requests; no model is trained. */
#ifndef WEFT_TESTS_FUZZ_ABOUT_H
#define WEFT_TESTS_FUZZ_ABOUT_H

#include "serve/front/http_internal.h"

/* Returns one of ten model descriptions: five, each with one output and with three. */
static inline weft_servable_info fuzz_about(uint8_t choice)
{
    static char a[] = "a", b[] = "b", no[] = "no", yes[] = "yes", *columns[] = {a, b},
                *classes[] = {no, yes};
    weft_servable_info about = {.name = "m",
                                .version = 1,
                                .model = "mlp",
                                .real = WEFT_F32,
                                .limit = 8,
                                .most_rows = 8,
                                .inputs = 1,
                                .input[0] = {.name = "x", .dtype = WEFT_F32},
                                .policy = "greedy"};
    static weft_model_output output[2][3];
    weft_shape *sample = &about.input[0].shape;
    switch (choice % 5) {
    case 0:
        *sample = weft_shape_of(3, (int64_t[]){1, 3, 2});
        about.classes = 10;
        about.bytes = true;
        break;
    case 1:
        *sample = weft_shape_of(3, (int64_t[]){3, 2, 2});
        about.classes = 3;
        break;
    case 2:
        *sample = weft_shape_of(1, (int64_t[]){2});
        about.classes = 2;
        about.table = true;
        about.class_names = classes;
        about.column_names = columns;
        about.label_name = "y";
        about.label_column = 3;
        break;
    case 3: /* tokens with lengths, and a class for each position */
        *sample = weft_shape_of(1, (int64_t[]){3});
        about.input[0].dtype = WEFT_I32;
        about.input[0].values = 5;
        about.inputs = 2;
        about.input[1] = (weft_input){.name = "lengths", .dtype = WEFT_I32, .values = 4};
        about.tokens = true;
        about.classes = 2;
        about.positions = 3;
        break;
    default:
        *sample = weft_shape_of(1, (int64_t[]){2});
        about.table = true;
        about.targets = 2;
        about.real = WEFT_F64;
        break;
    }
    int64_t each = about.targets ? about.targets : about.classes;
    weft_model_output *o = output[choice / 5 % 2];
    o[0] = (weft_model_output){.name = "prediction", .dtype = about.real};
    o[0].shape = about.positions ? weft_shape_of(2, (int64_t[]){about.positions, each})
                                 : weft_shape_of(1, &each);
    o[1] = (weft_model_output){.name = "more", .dtype = WEFT_I32};
    o[2] = (weft_model_output){.name = "z", .dtype = WEFT_F32, .shape = {2, {3, 1}}};
    about.output = o;
    about.output_count = choice / 5 % 2 ? 3 : 1;
    about.outputs = WEFT_MAX(about.positions, 1) * (about.targets ? about.targets : about.classes);
    return about;
}

#endif
