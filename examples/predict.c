/* Predictions within a program: loads a checkpoint, reads rows of numbers from standard input, and
 * prints the class of each, or the numbers that are predicted.
 *
 *   cc examples/predict.c $(pkg-config --cflags --libs weft-serve) -o predict
 *   ./predict runs/own/latest <rows */
#include <stdio.h>
#include <stdlib.h>
#include <weft/serve.h>
#include <weft/weft.h>

static void check(weft_status status)
{
    if (status == WEFT_OK) return;
    fprintf(stderr, "%s\n", weft_last_message());
    exit(1);
}

int main(int argc, char **argv)
{
    weft_context *context;
    weft_service *service;
    weft_service_options options;
    weft_servable_info info;
    weft_inference_request request;
    if (argc != 2) return fprintf(stderr, "usage: predict CHECKPOINT <ROWS\n"), 2;

    check(weft_context_create(&context));
    weft_service_options_init(&options);
    options.times = "none";
    check(weft_service_create(context, &options, &service));
    check(weft_service_load(service, "model", argv[1]));
    weft_servable *model = weft_service_hold(service, "model", 0);
    weft_servable_describe(model, &info);

    size_t size = (size_t)weft_shape_elements(&info.input[0].shape), read = 0;
    double *row = calloc(size, sizeof(*row)), *out = calloc((size_t)info.outputs, sizeof(*out));
    if (!row || !out) return 1;
    weft_inference_request_init(&request);
    request.rows = 1;
    request.x_double = row;
    request.prediction = out;
    while (scanf("%lf", &row[read]) == 1) {
        if (++read < size) continue;
        read = 0;
        check(weft_servable_predict(model, &request, NULL));
        int best = 0;
        for (int c = 1; c < info.classes; c++)
            if (out[c] > out[best]) best = c;
        if (info.classes > 0 && info.class_names)
            printf("%s %.4f\n", info.class_names[best], out[best]);
        if (info.classes > 0 && !info.class_names) printf("%d %.4f\n", best, out[best]);
        for (int t = 0; t < info.targets; t++)
            printf("%g%c", out[t], t + 1 < info.targets ? ' ' : '\n');
    }
    free(row);
    free(out);
    weft_servable_release(&model);
    weft_service_destroy(&service);
    weft_context_destroy(&context);
    return 0;
}
