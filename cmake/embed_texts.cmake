# Writes the texts of kernels as arrays of C:   cmake -DTEXTS=... -DOUT=... -P embed_texts.cmake
set(code "/* Made from src/device/gpu/kernels. */\n#include \"device/gpu/gpu.h\"\n")
foreach(file IN LISTS TEXTS)
  get_filename_component(name ${file} NAME_WE)
  file(READ ${file} bytes HEX)
  string(REGEX REPLACE "(..)" "0x\\1," bytes "${bytes}")
  string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
  string(APPEND code "static const char ${name}_bytes[] = {\n${bytes}0};\n"
    "const gpu_text gpu_text_${name} = {\"${name}\", ${name}_bytes};\n")
endforeach()
file(WRITE ${OUT} "${code}")
