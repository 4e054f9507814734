include(CMakePackageConfigHelpers)

# Three components: the libraries weft and weft-serve, each with the headers that weft.h or serve.h lists, and the command.
file(GLOB WEFT_HEADERS RELATIVE ${PROJECT_SOURCE_DIR}/include CONFIGURE_DEPENDS include/weft/*.h)
file(STRINGS include/weft/serve.h WEFT_SERVE_HEADERS REGEX "^#include \"weft/")
list(TRANSFORM WEFT_SERVE_HEADERS REPLACE "^#include \"(.*)\"" "\\1")
list(APPEND WEFT_SERVE_HEADERS weft/serve.h)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS include/weft/serve.h)
foreach(header IN LISTS WEFT_HEADERS)
  set(component weft)
  if(header IN_LIST WEFT_SERVE_HEADERS)
    set(component weft-serve)
  endif()
  install(FILES include/${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/weft COMPONENT ${component})
endforeach()
if(TARGET weft_command)
  install(TARGETS weft_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT command)
  set(WEFT_COMPLETIONS ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(CODE "set(to \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX})
    execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/man $<TARGET_FILE:weft_command> \${to}/${CMAKE_INSTALL_MANDIR}
      COMMAND_ERROR_IS_FATAL ANY)
    file(MAKE_DIRECTORY \${to}/${WEFT_COMPLETIONS})
    execute_process(COMMAND $<TARGET_FILE:weft_command> help --bash OUTPUT_FILE \${to}/${WEFT_COMPLETIONS}/weft
      COMMAND_ERROR_IS_FATAL ANY)" COMPONENT command)
  install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT command)
endif()

# The OpenMP runtime that the compiler used, for static linking. Clang's lies in a folder of its own.
set(WEFT_OPENMP_LINK "")
foreach(name IN LISTS OpenMP_C_LIB_NAMES)
  if(NOT name STREQUAL "pthread")
    get_filename_component(directory "${OpenMP_${name}_LIBRARY}" DIRECTORY)
    string(APPEND WEFT_OPENMP_LINK " -L${directory} -l${name}")
  endif()
endforeach()
# What loads plug-ins, where that is not part of the C library.
set(WEFT_DL_LINK "")
foreach(name IN LISTS CMAKE_DL_LIBS)
  string(APPEND WEFT_DL_LINK " -l${name}")
endforeach()
# MPI, where it was built in; its package knows what it needs itself.
set(WEFT_MPI_LINK "")
if(WEFT_MPI)
  foreach(library IN LISTS MPI_C_LIBRARIES)
    get_filename_component(directory "${library}" DIRECTORY)
    get_filename_component(name "${library}" NAME_WE)
    string(REGEX REPLACE "^lib" "" name "${name}")
    string(APPEND WEFT_MPI_LINK " -L${directory} -l${name}")
  endforeach()
endif()
# Found from where the file lies, since cmake --install --prefix decides that after it was written.
file(RELATIVE_PATH WEFT_PC_UP "${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" WEFT_PC_UP "${WEFT_PC_UP}")
foreach(name weft weft-serve)
  configure_file(cmake/${name}.pc.in ${name}.pc @ONLY)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${name})
endforeach()

configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft COMPONENT weft)
