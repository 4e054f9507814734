/* Loads run files: YAML mappings from option names to values. */
#include "formats/formats.h"
#include "formats/yaml.h"

weft_status weft_options_load_text(const weft_option *table, void *target, const char *name,
                                   const void *data, size_t size)
{
    WEFT_NEED(table, target, name);
    weft_yaml *yaml;
    WEFT_TRY(weft_yaml_parse(name, data, size, table, NULL, NULL, &yaml));
    weft_status status = weft_yaml_apply(yaml, -1, target);
    weft_yaml_free(&yaml);
    return status;
}

weft_status weft_options_load(const weft_option *table, void *target, const char *path)
{
    WEFT_NEED(table, target, path);
    weft_bytes bytes;
    WEFT_TRY(weft_file_map(path, &bytes));
    weft_status status = weft_options_load_text(table, target, path, bytes.data, bytes.size);
    weft_file_unmap(&bytes);
    return status;
}
