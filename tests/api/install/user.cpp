// A C++ program that uses the installed library: it checks that weft.h compiles as C++, and that a
// misspelled data set name is refused with the right name.
#include <cstdio>
#include <cstring>
#include <weft/weft.h>

int main()
{
    weft_context *context = nullptr;
    if (weft_context_create(&context) != WEFT_OK) return 1;
    weft_dataset *data = nullptr;
    bool refused =
        weft_dataset_open(context, "glyhps", nullptr, nullptr, &data) == WEFT_ERR_ARGUMENT &&
        std::strstr(weft_last_message(), "glyphs");
    weft_context_destroy(&context);
    std::printf("weft %s from C++ %s\n", weft_version(), refused ? "works" : "is wrong");
    return !refused;
}
