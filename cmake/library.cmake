# Sources by room, lowest first. The reference kernels are compiled once for each precision.
file(GLOB WEFT_SOURCES CONFIGURE_DEPENDS
  src/base/*.c src/comm/*.c src/graph/*.c src/ops/*.c src/device/*.c src/device/cpu/*.c src/device/cpu/onednn/*.c
  src/device/fake_remote/*.c
  src/optim/*.c src/formats/*.c src/data/*.c src/models/*.c src/rewrite/*.c src/program/*.c src/compress/*.c src/actor/*.c src/membership/*.c src/exchange/*.c src/exchange/gossip/*.c
  src/exchange/ps/*.c src/exchange/ps/range/*.c src/exchange/ps/server/*.c src/exchange/ps/client/*.c src/exchange/ps/host/*.c
  src/checkpoint/*.c src/learner/*.c src/job/*.c src/train/*.c src/train/sim/*.c src/train/elastic/*.c src/train/engine/*.c
  src/serve/*.c src/serve/batch/*.c src/serve/http/*.c src/serve/front/*.c src/load/*.c)
file(GLOB WEFT_REFERENCE CONFIGURE_DEPENDS src/device/reference/*.c)
list(REMOVE_ITEM WEFT_REFERENCE ${CMAKE_CURRENT_SOURCE_DIR}/src/device/reference/device.c
  ${CMAKE_CURRENT_SOURCE_DIR}/src/device/reference/mixed_types.c)
list(APPEND WEFT_SOURCES src/device/reference/device.c src/device/reference/mixed_types.c)

function(weft_sources target)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE ${WEFT_FRAME})
  if(NOT WEFT_SANITIZE)
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
  endif()
endfunction()
# Tests see the library's own functions, so they link it statically. A sanitizer makes that slow, a hundred times over, and
# such a library is not shipped: there it exports all functions and is linked once.
set(WEFT_FOR_TESTS weft_static)
if(WEFT_SANITIZE)
  set(WEFT_FOR_TESTS weft)
endif()

foreach(real float double)
  add_library(weft_reference_${real} OBJECT ${WEFT_REFERENCE})
  weft_sources(weft_reference_${real})
  target_compile_definitions(weft_reference_${real} PRIVATE WEFT_REAL=${real} WEFT_SHARED)
  target_link_libraries(weft_reference_${real} PRIVATE weft_flags)
  # Most of what tests compute is here; a sanitizer's build optimizes the rest little, since it is compiled more than run.
  if(WEFT_SANITIZE)
    target_compile_options(weft_reference_${real} PRIVATE -O2)
  endif()
endforeach()
# Both ends of a link must come to the same numbers, so nothing is contracted.
file(GLOB WEFT_COMPRESS CONFIGURE_DEPENDS src/compress/kernels/*.c)
foreach(real float double)
  add_library(weft_compress_${real} OBJECT ${WEFT_COMPRESS})
  weft_sources(weft_compress_${real})
  target_compile_definitions(weft_compress_${real} PRIVATE WEFT_REAL=${real} WEFT_SHARED)
  target_compile_options(weft_compress_${real} PRIVATE -ffp-contract=off -fno-math-errno -fno-trapping-math)
  target_link_libraries(weft_compress_${real} PRIVATE weft_flags)
endforeach()
# Vector code needs to know that nobody looks at errno and traps.
file(GLOB WEFT_CPU CONFIGURE_DEPENDS src/device/cpu/*.c)
set_source_files_properties(${WEFT_CPU} PROPERTIES COMPILE_OPTIONS "-fno-math-errno;-fno-trapping-math")
# Products of rows are sums of multiply-adds, which the standard's mode does not contract by itself.
set_property(SOURCE src/device/cpu/tile.c src/device/cpu/attention.c src/device/cpu/attention_grad.c
  src/device/cpu/recurrence.c src/device/cpu/recurrence_grad.c
  APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=fast)
# Every platform must draw the same glyphs.
set_source_files_properties(src/data/glyphs.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
add_library(weft_objects OBJECT ${WEFT_SOURCES})
weft_sources(weft_objects)
target_compile_definitions(weft_objects PRIVATE WEFT_SHARED)
set(WEFT_LIBRARIES ${DNNL_LIBRARY} PkgConfig::CYAML PkgConfig::YAML PkgConfig::JANSSON PkgConfig::HWLOC ZLIB::ZLIB
  OpenMP::OpenMP_C Threads::Threads m ${CMAKE_DL_LIBS} PkgConfig::PROTOBUF_C PkgConfig::ZMQ PkgConfig::XXHASH
  PkgConfig::GNUTLS PkgConfig::PNG PkgConfig::TURBOJPEG)
# Oniguruma has functions of its own under the names of POSIX (regcomp): the C library's come first.
list(APPEND WEFT_LIBRARIES c PkgConfig::ONIGURUMA)
if(WEFT_MPI)
  list(APPEND WEFT_LIBRARIES MPI::MPI_C)
  file(GLOB WEFT_MPI_SOURCES CONFIGURE_DEPENDS src/comm/mpi*.c)
  set_source_files_properties(${WEFT_MPI_SOURCES} PROPERTIES COMPILE_DEFINITIONS WEFT_MPI)
  # MPICH's constants for "no status" look to gcc like arrays that are too small.
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    set_source_files_properties(${WEFT_MPI_SOURCES} PROPERTIES COMPILE_OPTIONS -Wno-stringop-overflow)
  endif()
endif()
target_link_libraries(weft_objects PRIVATE weft_flags ${WEFT_LIBRARIES})
add_dependencies(weft_objects weft_proto)
target_include_directories(weft_objects SYSTEM PRIVATE ${WEFT_PROTO_DIR})

set(WEFT_OBJECTS $<TARGET_OBJECTS:weft_objects> $<TARGET_OBJECTS:weft_reference_float>
  $<TARGET_OBJECTS:weft_reference_double> $<TARGET_OBJECTS:weft_compress_float> $<TARGET_OBJECTS:weft_compress_double>
  $<TARGET_OBJECTS:weft_proto>)
add_library(weft SHARED ${WEFT_OBJECTS})
add_library(weft_static STATIC ${WEFT_OBJECTS})
foreach(target weft weft_static)
  weft_sources(${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME weft VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
endforeach()
target_compile_definitions(weft PUBLIC $<INSTALL_INTERFACE:>)
# The static library that is installed is one object whose only global names are those of the public headers, so that no
# name of a program can collide with one of the library's own. Tests link the other one, which shows all names.
if(NOT WEFT_SANITIZE AND CMAKE_OBJCOPY)
  set(WEFT_ARCHIVE ${CMAKE_CURRENT_BINARY_DIR}/public/libweft.a)
  add_custom_command(OUTPUT ${WEFT_ARCHIVE}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/public
    COMMAND ${CMAKE_LINKER} -r -o public/weft.o --whole-archive $<TARGET_FILE:weft_static>
    COMMAND ${CMAKE_OBJCOPY} --localize-hidden public/weft.o
    COMMAND ${CMAKE_COMMAND} -E rm -f ${WEFT_ARCHIVE}
    COMMAND ${CMAKE_AR} rcs ${WEFT_ARCHIVE} public/weft.o
    DEPENDS weft_static WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} VERBATIM)
  add_custom_target(weft_archive ALL DEPENDS ${WEFT_ARCHIVE})
endif()
target_link_libraries(weft PRIVATE weft_flags ${WEFT_LIBRARIES})
target_link_libraries(weft_static PRIVATE weft_flags ${WEFT_LIBRARIES})

file(GLOB WEFT_CLI CONFIGURE_DEPENDS src/cli/*.c)
if(WEFT_CLI)
  add_executable(weft_command ${WEFT_CLI})
  set_target_properties(weft_command PROPERTIES OUTPUT_NAME weft)
  target_include_directories(weft_command PRIVATE src/cli)
  target_compile_options(weft_command PRIVATE ${WEFT_FRAME})
  target_link_libraries(weft_command PRIVATE weft_flags weft_static ${WEFT_LIBRARIES})
endif()
