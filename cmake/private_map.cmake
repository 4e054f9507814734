# Writes the version script of libweft.so: the functions that the rooms' headers mark with WEFT_PRIVATE_API are for
# libweft-serve of the same version alone:   cmake -DHEADERS=... -DVERSION=... -DOUT=... -P private_map.cmake
set(names)
foreach(header IN LISTS HEADERS)
  file(READ ${header} text)
  string(REGEX MATCHALL "\nWEFT_PRIVATE_API[^;(]*[ *\n]weft_[a-z0-9_]+\\(" marked "${text}")
  list(TRANSFORM marked REPLACE ".*[ *\n](weft_[a-z0-9_]+)\\(" "\\1")
  list(APPEND names ${marked})
endforeach()
list(SORT names)
list(JOIN names ";\n    " names)
file(WRITE ${OUT} "WEFT_PRIVATE_${VERSION} {\n    ${names};\n};\n")
