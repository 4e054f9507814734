/* A program outside the source tree that uses both installed libraries: it lists the batching
 * policies of a context and forecasts the latency of one, and of a server has the options. */
#include <stdio.h>
#include <string.h>
#include <weft/serve.h>
#include <weft/weft.h>

int main(void)
{
    weft_context *context = NULL;
    weft_forecast forecast = {0};
    weft_forecast_options options;
    const int64_t rows = 1;
    const double seconds = 0.001;
    if (weft_context_create(&context) != WEFT_OK) return 1;
    /* libweft knows the kind, and libweft-serve the entries. */
    int before = weft_context_name(context, WEFT_KIND_POLICY, 0) != NULL;
    weft_status status = weft_serve_register(context);
    weft_forecast_options_init(&options);
    options.policy = weft_context_name(context, WEFT_KIND_POLICY, 0);
    options.curve_rows = &rows;
    options.curve_times = &seconds;
    options.curve_sizes = 1;
    options.requests = 100;
    if (status == WEFT_OK) status = weft_forecast_run(context, &options, NULL, NULL, &forecast);
    int right = !before && forecast.requests == 100 && weft_server_table(context)[0].name;
    if (status != WEFT_OK) fprintf(stderr, "%s\n", weft_last_message());
    weft_context_destroy(&context);
    printf("weft-serve %s %s\n", weft_version(), right ? "works" : "is wrong");
    return !right;
}
