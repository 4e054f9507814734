# Sources by room, lowest first: those of libweft, and those of libweft-serve, which stands on it. The reference kernels are
# compiled once for each precision.
file(GLOB WEFT_SOURCES CONFIGURE_DEPENDS
  src/base/*.c src/comm/*.c src/graph/*.c src/ops/*.c src/device/*.c src/device/cpu/*.c src/device/cpu/onednn/*.c
  src/device/fake_remote/*.c
  src/optim/*.c src/formats/*.c src/formats/picture/*.c src/data/*.c src/data/augment/*.c src/models/*.c src/rewrite/*.c src/program/*.c src/compress/*.c src/actor/*.c src/cost/*.c src/membership/*.c src/exchange/*.c src/exchange/gossip/*.c
  src/exchange/ps/*.c src/exchange/ps/range/*.c src/exchange/ps/server/*.c src/exchange/ps/client/*.c src/exchange/ps/host/*.c
  src/checkpoint/*.c src/learner/*.c src/job/*.c src/train/*.c src/train/sim/*.c src/train/elastic/*.c src/train/engine/*.c src/train/estimate/*.c
  src/train/strategies/*.c)
# The engine mpi, which is compiled without MPI, too (cmake/dist.cmake).
file(GLOB WEFT_MPI_SOURCES CONFIGURE_DEPENDS src/comm/mpi*.c)
list(REMOVE_ITEM WEFT_SOURCES ${WEFT_MPI_SOURCES})
file(GLOB WEFT_SERVE_SOURCES CONFIGURE_DEPENDS
  src/load/*.c src/serve/*.c src/serve/batch/*.c src/serve/http/*.c src/serve/front/*.c)
file(GLOB WEFT_REFERENCE CONFIGURE_DEPENDS src/device/reference/*.c)
foreach(once device mixed_types moves)
  list(REMOVE_ITEM WEFT_REFERENCE ${CMAKE_CURRENT_SOURCE_DIR}/src/device/reference/${once}.c)
  list(APPEND WEFT_SOURCES src/device/reference/${once}.c)
endforeach()

function(weft_sources target)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(${target} PRIVATE ${WEFT_FRAME})
  if(NOT WEFT_SANITIZE)
    set_target_properties(${target} PROPERTIES C_VISIBILITY_PRESET hidden)
    # No program replaces an exported function, so the library may inline its own.
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  endif()
endfunction()
# Tests see the library's own functions, so they link it statically. A sanitizer makes that slow, a hundred times over, and
# such a library is not shipped: there it exports all functions and is linked once.
set(WEFT_FOR_TESTS weft_serve_static weft_static)
if(WEFT_SANITIZE)
  set(WEFT_FOR_TESTS weft_serve weft)
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
  src/device/cpu/recurrence.c src/device/cpu/recurrence_gates.c src/device/cpu/recurrence_grad.c
  src/device/cpu/winograd.c src/device/cpu/winograd_grad.c
  APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=fast)
# Every platform must draw the same glyphs.
set_source_files_properties(src/data/glyphs.c PROPERTIES COMPILE_OPTIONS -ffp-contract=off)
add_library(weft_objects OBJECT ${WEFT_SOURCES})
weft_sources(weft_objects)
target_compile_definitions(weft_objects PRIVATE WEFT_SHARED)
set(WEFT_LIBRARIES ${DNNL_LIBRARY} PkgConfig::CYAML PkgConfig::YAML PkgConfig::JANSSON PkgConfig::HWLOC ZLIB::ZLIB
  OpenMP::OpenMP_C Threads::Threads m ${CMAKE_DL_LIBS} PkgConfig::PROTOBUF_C PkgConfig::ZMQ PkgConfig::XXHASH PkgConfig::PNG PkgConfig::TURBOJPEG
)
# Oniguruma has functions of its own under the names of POSIX (regcomp): the C library's come first.
list(APPEND WEFT_LIBRARIES c PkgConfig::ONIGURUMA)
set(WEFT_LIBRARIES_BUT_MPI ${WEFT_LIBRARIES})
target_link_libraries(weft_objects PRIVATE weft_flags ${WEFT_LIBRARIES})
add_library(weft_mpi_objects OBJECT ${WEFT_MPI_SOURCES})
if(WEFT_MPI)
  list(APPEND WEFT_LIBRARIES MPI::MPI_C)
  target_compile_definitions(weft_mpi_objects PRIVATE WEFT_MPI)
  # MPICH's constants for "no status" look to gcc like arrays that are too small.
  if(CMAKE_C_COMPILER_ID STREQUAL "GNU")
    target_compile_options(weft_mpi_objects PRIVATE -Wno-stringop-overflow)
  endif()
endif()
set_property(SOURCE src/base/plugin.c APPEND PROPERTY COMPILE_DEFINITIONS
  WEFT_LIBRARY_FOLDER="${CMAKE_INSTALL_LIBDIR}")
weft_sources(weft_mpi_objects)
target_compile_definitions(weft_mpi_objects PRIVATE WEFT_SHARED)
target_link_libraries(weft_mpi_objects PRIVATE weft_flags ${WEFT_LIBRARIES})
add_dependencies(weft_objects weft_proto)
target_include_directories(weft_objects SYSTEM PRIVATE ${WEFT_PROTO_DIR})
add_library(weft_serve_objects OBJECT ${WEFT_SERVE_SOURCES})
weft_sources(weft_serve_objects)
target_compile_definitions(weft_serve_objects PRIVATE WEFT_SHARED)
set(WEFT_SERVE_LIBRARIES PkgConfig::JANSSON Threads::Threads m PkgConfig::GNUTLS)
target_link_libraries(weft_serve_objects PRIVATE weft_flags ${WEFT_SERVE_LIBRARIES})

set(WEFT_OBJECTS_BUT_MPI $<TARGET_OBJECTS:weft_objects> $<TARGET_OBJECTS:weft_reference_float>
  $<TARGET_OBJECTS:weft_reference_double> $<TARGET_OBJECTS:weft_compress_float> $<TARGET_OBJECTS:weft_compress_double>
  $<TARGET_OBJECTS:weft_proto>)
set(WEFT_OBJECTS ${WEFT_OBJECTS_BUT_MPI} $<TARGET_OBJECTS:weft_mpi_objects>)
# weft_linked(TARGET NAME LINK...): a library of objects, libNAME, and what it links.
function(weft_linked target name)
  weft_sources(${target})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} VERSION ${PROJECT_VERSION}
    SOVERSION ${PROJECT_VERSION_MAJOR})
  target_link_libraries(${target} PRIVATE weft_flags ${ARGN})
  get_target_property(type ${target} TYPE)
  if(type STREQUAL "SHARED_LIBRARY" AND NOT WEFT_SANITIZE) # clang leaves the functions of its sanitizers to the program
    target_link_options(${target} PRIVATE LINKER:--no-undefined LINKER:-Bsymbolic-functions)
  endif()
endfunction()
# weft_library(TARGET NAME OBJECTS... LINK...): the shared library libNAME.so, and the static one that tests link. They are
# installed as the component NAME.
function(weft_library target name)
  cmake_parse_arguments(L "" "" "OBJECTS;LINK" ${ARGN})
  add_library(${target} SHARED ${L_OBJECTS})
  add_library(${target}_static STATIC ${L_OBJECTS})
  foreach(library ${target} ${target}_static)
    weft_linked(${library} ${name} ${L_LINK})
  endforeach()
  # The static library that is installed is one object whose only global names are those that the shared one exports, so
  # that no name of a program can collide with one of the library's own. Tests link the other one, which shows all names.
  if(NOT WEFT_SANITIZE AND CMAKE_OBJCOPY)
    set(archive ${CMAKE_CURRENT_BINARY_DIR}/public/lib${name}.a)
    add_custom_command(OUTPUT ${archive}
      COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_CURRENT_BINARY_DIR}/public
      COMMAND ${CMAKE_LINKER} -r -o public/${name}.o --whole-archive $<TARGET_FILE:${target}_static>
      COMMAND ${CMAKE_OBJCOPY} --localize-hidden public/${name}.o
      COMMAND ${CMAKE_COMMAND} -E rm -f ${archive}
      COMMAND ${CMAKE_AR} rcs ${archive} public/${name}.o
      DEPENDS ${target}_static WORKING_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR} VERBATIM)
    add_custom_target(${target}_archive ALL DEPENDS ${archive})
    install(FILES ${archive} DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name})
  else()
    install(TARGETS ${target}_static ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name})
  endif()
  install(TARGETS ${target} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT ${name} NAMELINK_COMPONENT ${name})
endfunction()
weft_library(weft weft OBJECTS ${WEFT_OBJECTS} LINK ${WEFT_LIBRARIES})
weft_library(weft_serve weft-serve OBJECTS $<TARGET_OBJECTS:weft_serve_objects> LINK ${WEFT_SERVE_LIBRARIES})
target_link_libraries(weft_serve PUBLIC weft)
target_link_libraries(weft_serve_static PUBLIC weft_static)
target_compile_definitions(weft PUBLIC $<INSTALL_INTERFACE:>)
# What libweft-serve uses besides the public functions has a version node of its own.
set(WEFT_PRIVATE_MAP ${CMAKE_CURRENT_BINARY_DIR}/weft.map)
file(GLOB_RECURSE WEFT_ROOM_HEADERS CONFIGURE_DEPENDS src/*.h)
add_custom_command(OUTPUT ${WEFT_PRIVATE_MAP}
  COMMAND ${CMAKE_COMMAND} "-DHEADERS=${WEFT_ROOM_HEADERS}" -DVERSION=${PROJECT_VERSION} -DOUT=${WEFT_PRIVATE_MAP}
    -P ${PROJECT_SOURCE_DIR}/cmake/private_map.cmake
  DEPENDS ${WEFT_ROOM_HEADERS} cmake/private_map.cmake VERBATIM)
add_custom_target(weft_private_map DEPENDS ${WEFT_PRIVATE_MAP})
function(weft_private_names target)
  add_dependencies(${target} weft_private_map)
  set_target_properties(${target} PROPERTIES LINK_DEPENDS ${WEFT_PRIVATE_MAP})
  target_link_options(${target} PRIVATE LINKER:--version-script=${WEFT_PRIVATE_MAP})
endfunction()
weft_private_names(weft)

file(GLOB WEFT_CLI CONFIGURE_DEPENDS src/cli/*.c)
if(WEFT_CLI)
  add_library(weft_cli OBJECT ${WEFT_CLI})
  target_include_directories(weft_cli PRIVATE src/cli include)
  target_compile_options(weft_cli PRIVATE ${WEFT_FRAME})
  target_link_libraries(weft_cli PRIVATE weft_flags ${WEFT_LIBRARIES} ${WEFT_SERVE_LIBRARIES})
  add_executable(weft_command $<TARGET_OBJECTS:weft_cli>)
  set_target_properties(weft_command PROPERTIES OUTPUT_NAME weft)
  target_link_libraries(weft_command PRIVATE weft_flags weft_serve_static weft_static ${WEFT_LIBRARIES} ${WEFT_SERVE_LIBRARIES})
endif()
