# What `make dist` packs (scripts/dist): the objects of the build without MPI, linked anew with run paths of their own. DT_RPATH
# (not DT_RUNPATH) also holds for the libraries that libraries load, and comes before LD_LIBRARY_PATH.
if(WEFT_SANITIZE OR NOT WEFT_CLI OR NOT CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  return()
endif()
set(WEFT_DIST ${CMAKE_CURRENT_BINARY_DIR}/dist)
# weft_in_archive(TARGET FOLDER RUN_PATH)
function(weft_in_archive target folder run_path)
  set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "${run_path}"
    RUNTIME_OUTPUT_DIRECTORY ${WEFT_DIST}/${folder} LIBRARY_OUTPUT_DIRECTORY ${WEFT_DIST}/${folder})
  target_link_options(${target} PRIVATE LINKER:--disable-new-dtags)
endfunction()

# The library of what comes from the system: see scripts/packing/system_library.py. It is loaded before oneDNN and ZeroMQ.
set(WEFT_SYSTEM ${WEFT_DIST}/system)
add_custom_command(OUTPUT ${WEFT_SYSTEM}.c ${WEFT_SYSTEM}.map
  COMMAND ${CMAKE_COMMAND} -E make_directory ${WEFT_DIST}
  COMMAND python3 ${PROJECT_SOURCE_DIR}/scripts/packing/system_library.py ${WEFT_SYSTEM} $<TARGET_FILE:weft>
  DEPENDS weft scripts/packing/system_library.py scripts/packing/elf.py VERBATIM)
add_library(weft_dist_system SHARED ${WEFT_SYSTEM}.c)
weft_in_archive(weft_dist_system lib "/usr/lib/x86_64-linux-gnu:/usr/lib64:/usr/lib")
set_target_properties(weft_dist_system PROPERTIES OUTPUT_NAME weft-sys LINK_DEPENDS ${WEFT_SYSTEM}.map)
target_link_options(weft_dist_system PRIVATE LINKER:--version-script=${WEFT_SYSTEM}.map LINKER:--no-as-needed)
target_link_libraries(weft_dist_system PRIVATE stdc++ gcc_s)

add_library(weft_dist_no_mpi OBJECT ${WEFT_MPI_SOURCES})
weft_sources(weft_dist_no_mpi)
target_compile_definitions(weft_dist_no_mpi PRIVATE WEFT_SHARED)
target_link_libraries(weft_dist_no_mpi PRIVATE weft_flags ${WEFT_LIBRARIES_BUT_MPI})
set_target_properties(weft_dist_no_mpi PROPERTIES EXCLUDE_FROM_ALL ON)

add_library(weft_dist_library SHARED ${WEFT_OBJECTS_BUT_MPI} $<TARGET_OBJECTS:weft_dist_no_mpi>)
weft_linked(weft_dist_library weft -Wl,--no-as-needed weft_dist_system -Wl,--as-needed ${WEFT_LIBRARIES_BUT_MPI})
weft_private_names(weft_dist_library)
weft_in_archive(weft_dist_library lib "$ORIGIN/../lib")
add_library(weft_dist_serve SHARED $<TARGET_OBJECTS:weft_serve_objects>)
weft_linked(weft_dist_serve weft-serve weft_dist_library ${WEFT_SERVE_LIBRARIES})
weft_in_archive(weft_dist_serve lib "$ORIGIN/../lib")
add_executable(weft_dist $<TARGET_OBJECTS:weft_cli>)
set_target_properties(weft_dist PROPERTIES OUTPUT_NAME weft)
target_link_libraries(weft_dist PRIVATE weft_dist_serve weft_dist_library ${WEFT_LIBRARIES_BUT_MPI} ${WEFT_SERVE_LIBRARIES})
weft_in_archive(weft_dist bin "$ORIGIN/../lib")
