/* The double of NVRTC: its "binary" is a line and the source. Variables of the environment:
 *
 *   FAKE_NVRTC_VERSION  10 major + minor, 130
 *   FAKE_NVRTC_ARCHS    the architectures, such as 75,80,90
 *   FAKE_NVRTC_LOG      compiling fails with this log
 *   FAKE_NVRTC_USED     a file, which gets the options of each source
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda/api.h"
#include "fake.h"
#include "magic.h"

struct _nvrtcProgram {
    char *source;
};

static const char *setting(const char *name, const char *otherwise)
{
    const char *text = getenv(name);
    return text ? text : otherwise;
}

cu_result nvrtcVersion(int *major, int *minor)
{
    int version = atoi(setting("FAKE_NVRTC_VERSION", "130"));
    *major = version / 10;
    *minor = version % 10;
    return 0;
}

static int archs(int *to)
{
    int count = 0;
    for (const char *at = setting("FAKE_NVRTC_ARCHS", "75,80,90,100"); at; count++) {
        if (to) to[count] = atoi(at);
        at = strchr(at, ',');
        if (at) at++;
    }
    return count;
}

cu_result nvrtcGetNumSupportedArchs(int *out)
{
    *out = archs(NULL);
    return 0;
}

cu_result nvrtcGetSupportedArchs(int *out)
{
    (void)archs(out);
    return 0;
}

cu_result nvrtcCreateProgram(nvrtc_program *out, const char *source, const char *name, int headers,
                             const char *const *texts, const char *const *names)
{
    (void)name;
    (void)texts;
    (void)names;
    size_t size = strlen(FAKE_MAGIC) + strlen(source) + 1;
    if (headers != 0 || !(*out = calloc(1, sizeof(**out))) || !((*out)->source = malloc(size)))
        return 1;
    (void)snprintf((*out)->source, size, "%s%s", FAKE_MAGIC, source);
    return 0;
}

cu_result nvrtcDestroyProgram(nvrtc_program *program)
{
    free((*program)->source);
    free(*program);
    *program = NULL;
    return 0;
}

cu_result nvrtcCompileProgram(nvrtc_program program, int count, const char *const *options)
{
    (void)program;
    const char *path = getenv("FAKE_NVRTC_USED");
    FILE *file = path ? fopen(path, "a") : NULL;
    for (int i = 0; i < count && file; i++)
        (void)fprintf(file, "%s%s", options[i], i == count - 1 ? "\n" : " ");
    if (file) (void)fclose(file);
    return getenv("FAKE_NVRTC_LOG") ? 6 : 0;
}

cu_result nvrtcGetProgramLogSize(nvrtc_program program, size_t *out)
{
    (void)program;
    *out = strlen(setting("FAKE_NVRTC_LOG", "")) + 1;
    return 0;
}

cu_result nvrtcGetProgramLog(nvrtc_program program, char *out)
{
    (void)program;
    memcpy(out, setting("FAKE_NVRTC_LOG", ""), strlen(setting("FAKE_NVRTC_LOG", "")) + 1);
    return 0;
}

cu_result nvrtcGetCUBINSize(nvrtc_program program, size_t *out)
{
    *out = strlen(program->source) + 1;
    return 0;
}

cu_result nvrtcGetCUBIN(nvrtc_program program, char *out)
{
    memcpy(out, program->source, strlen(program->source) + 1);
    return 0;
}

cu_result nvrtcGetPTXSize(nvrtc_program program, size_t *out)
{
    return nvrtcGetCUBINSize(program, out);
}

cu_result nvrtcGetPTX(nvrtc_program program, char *out)
{
    return nvrtcGetCUBIN(program, out);
}
