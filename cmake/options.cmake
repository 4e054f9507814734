set(CMAKE_C_STANDARD 11)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

option(WEFT_TESTS "Build the tests" ON)
option(WEFT_BENCH "Build the benchmarks" ON)
option(WEFT_FUZZ "Build the fuzz targets (clang)" OFF)
option(WEFT_WERROR "Warnings are errors" ON)
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers, such as address or undefined")

find_package(OpenMP REQUIRED COMPONENTS C)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(CYAML REQUIRED IMPORTED_TARGET libcyaml)
pkg_check_modules(YAML REQUIRED IMPORTED_TARGET yaml-0.1)
pkg_check_modules(JANSSON REQUIRED IMPORTED_TARGET jansson)
pkg_check_modules(HWLOC REQUIRED IMPORTED_TARGET hwloc)
pkg_check_modules(ZMQ REQUIRED IMPORTED_TARGET libzmq)
# libzmq's pkg-config file passes the headers of Kerberos as -isystem, which CMake parses one way in the first configure
# and another way in the next, so the second build compiled everything again. zmq.h includes none of them.
set_target_properties(PkgConfig::ZMQ PROPERTIES INTERFACE_COMPILE_OPTIONS "" INTERFACE_INCLUDE_DIRECTORIES "${ZMQ_INCLUDEDIR}")
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(GNUTLS REQUIRED IMPORTED_TARGET gnutls)
pkg_check_modules(PNG REQUIRED IMPORTED_TARGET libpng)
pkg_check_modules(TURBOJPEG REQUIRED IMPORTED_TARGET libturbojpeg)
pkg_check_modules(ONIGURUMA REQUIRED IMPORTED_TARGET oniguruma)
# Without MPI everything is there but the engine of that name. AUTO looks for it at each configure, so what
# was installed since is found; ON insists. From here on WEFT_MPI is what came of it.
set(WEFT_MPI AUTO CACHE STRING "Ranks as MPI processes: ON, OFF, or AUTO where MPI is installed")
set_property(CACHE WEFT_MPI PROPERTY STRINGS AUTO ON OFF)
set(WEFT_MPI_MISSING "it was configured with WEFT_MPI=OFF")
if(WEFT_MPI STREQUAL "AUTO")
  find_package(MPI 3.1 QUIET COMPONENTS C)
  set(WEFT_MPI ${MPI_C_FOUND})
  set(WEFT_MPI_MISSING "MPI is not installed")
elseif(WEFT_MPI)
  find_package(MPI 3.1 REQUIRED COMPONENTS C)
endif()
if(NOT WEFT_MPI)
  message(STATUS "There will be no engine mpi: ${WEFT_MPI_MISSING}")
endif()
# Its own CMake package asks for OpenCL, which is not needed here.
find_library(DNNL_LIBRARY dnnl REQUIRED)
find_path(DNNL_INCLUDE dnnl.h REQUIRED)

add_library(weft_flags INTERFACE)
target_compile_definitions(weft_flags INTERFACE _GNU_SOURCE)
target_compile_options(weft_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wconversion -Wno-sign-conversion -Wshadow -Wcast-qual -Wpointer-arith
  -Wmissing-prototypes -Wstrict-prototypes -Wvla -Wundef -Wformat=2
  $<$<BOOL:${WEFT_WERROR}>:-Werror>
  $<$<CONFIG:Release>:$<IF:$<BOOL:$<TARGET_PROPERTY:WEFT_TEST>>,-O1,-O3>>
  # Without inlining gcc sees neither that a function sets its output nor how long a text can be.
  $<$<AND:$<C_COMPILER_ID:GNU>,$<BOOL:$<TARGET_PROPERTY:WEFT_TEST>>>:-Wno-maybe-uninitialized$<SEMICOLON>-Wno-format-truncation>)
# What grows with a job or a model is allocated where it is made: not on a stack, of which a thread may have little.
# A sanitizer makes frames larger, and tests may.
if(NOT WEFT_SANITIZE)
  set(WEFT_FRAME -Wframe-larger-than=6144)
endif()
# enum { WIDTH = 16 } is how C11 names a whole number, and numbers are multiplied with fractions.
if(CMAKE_C_COMPILER_ID STREQUAL "Clang")
  target_compile_options(weft_flags INTERFACE -Wno-enum-float-conversion)
endif()
if(WEFT_SANITIZE)
  target_compile_definitions(weft_flags INTERFACE WEFT_SANITIZED)
  target_compile_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all $<$<BOOL:$<TARGET_PROPERTY:WEFT_TEST>>:-O0>)
  target_link_options(weft_flags INTERFACE -fsanitize=${WEFT_SANITIZE})
endif()
# Valgrind does not know AVX-512, so its build leaves the choice of vector code to the compiler.
option(WEFT_PORTABLE "No code chosen at run time by processor" OFF)
if(WEFT_PORTABLE)
  target_compile_definitions(weft_flags INTERFACE WEFT_SANITIZED)
endif()
