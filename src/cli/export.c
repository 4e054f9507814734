/* weft export: writes the weights of a checkpoint to a safetensors file or a folder. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "weft/output.h"

typedef struct export_options {
    char *output, *folder;
    bool quiet;
} export_options;

static const weft_option export_table[] = {
    {.name = "output",
     .letter = 'o',
     .argument = "FILE[:MAP]",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(export_options, output),
     .group = "Output",
     .help = "file to write (default: weights.safetensors); - is standard output. FILE:torch: with "
             "the names and layouts of PyTorch; FILE:MAP: those of a file of rules, as --init"},
    {.name = "folder",
     .letter = 'f',
     .argument = "DIR",
     .kind = WEFT_OPT_STRING,
     .offset = offsetof(export_options, folder),
     .help = "folder to write in place of a file: weights and model description, for weft serve "
             "and weft predict"},
    {.name = "quiet",
     .letter = 'q',
     .kind = WEFT_OPT_FLAG,
     .offset = offsetof(export_options, quiet),
     .help = "print errors only"},
    {.name = NULL},
};

static const weft_option *table(const weft_context *context)
{
    (void)context;
    return export_table;
}

/* Suffixes of files with models or arrays that an export is not. */
static const char other_formats[] =
    "onnx ort pt pt2 pth ckpt pkl pickle joblib h5 hdf5 keras pb tflite npz npy mat gguf ggml "
    "mlmodel mlpackage msgpack params pdparams";

/* Cuts FILE:MAP in two, and returns MAP: an existing file, or a word. NULL: there is none; 12.st
 * of run-9:12.st is none, unless it is a file. */
static const char *cut_map(char *output)
{
    char *colon = output ? strrchr(output, ':') : NULL;
    if (!colon || colon == output) return NULL;
    if (strpbrk(colon, "./") && access(colon + 1, F_OK) != 0) return NULL;
    *colon = '\0';
    return colon + 1;
}

/* Writes the export, and prints its name. */
static int export(weft_context *context, const char *checkpoint, const export_options *o,
                  const char *map)
{
    const char *to = o->folder ? o->folder : o->output ? o->output : "weights.safetensors";
    int code = report_failure(o->folder ? weft_checkpoint_export_folder(context, checkpoint, to)
                              : map ? weft_checkpoint_export_mapped(context, checkpoint, map, to)
                                    : weft_checkpoint_export(context, checkpoint, to));
    if (code == 0 && !o->quiet && (o->folder || !weft_output_is_standard(to)))
        printf("wrote %s\n", to);
    return code;
}

static int run(weft_context *context, int argc, char **argv)
{
    export_options options = {0};
    const char *words[1];
    int count = 0, code;
    weft_status status = weft_options_init(export_table, &options);
    if (status == WEFT_OK)
        status = weft_options_parse(export_table, &options, argc, argv, 1, words, &count);
    const char *map = cut_map(options.output);
    if (status != WEFT_OK) {
        code = usage_failure("export");
    } else if (count == 0) {
        fprintf(stderr, "weft: no checkpoint is given\nTry 'weft help export'.\n");
        code = 2;
    } else if (options.output && options.folder) {
        fprintf(stderr, "weft: --output and --folder are both given, and an export is either a "
                        "file or a folder; give one of them\nTry 'weft help export'.\n");
        code = 2;
    } else if (!suffix_fits("export", "output", options.output ? options.output : "", other_formats,
                            "a safetensors file", ".safetensors") ||
               !suffix_fits("export", "folder", options.folder ? options.folder : "", other_formats,
                            "a folder with weights.safetensors and model.json", "")) {
        code = 2;
    } else {
        code = export(context, words[0], &options, map);
    }
    weft_options_free(export_table, &options);
    return code;
}

const command command_export = {
    .name = "export",
    .usage = "CHECKPOINT [-o FILE[:MAP] | -f DIR]",
    .summary = "write a checkpoint's weights as one safetensors file",
    .text =
        "Writes safetensors, whatever the file is called; a suffix of another format is refused.\n"
        "Tensors are row-major and have their own names, such as conv1/weight [32, 1, 5, 5] and\n"
        "fc1/weight [1024 inputs, 1024 outputs]. With FILE:torch they are those of PyTorch,\n"
        "such as fc1.weight [1024 outputs, 1024 inputs], so that load_state_dict of a network of\n"
        "the same layers takes them: for resnet, vgg, densenet, googlenet, mobilenet and vit that\n"
        "of torchvision. A model with layers that have other weights there, such as lstm, is\n"
        "refused. FILE:MAP reads a file of rules as --init does, and writes what these would\n"
        "read. With --folder, model.json beside the weights describes the network, the shape of\n"
        "its data and the names of its classes; such a folder can be evaluated and served like a\n"
        "checkpoint.",
    .examples = "  weft export runs/a/latest -o weights.safetensors\n"
                "  weft export runs/a/latest -o weights.safetensors:torch\n"
                "  weft export runs/a/latest --folder digits\n",
    .table = table,
    .run = run,
    .tasks = TASKS_ALONE,
};
