include(CMakePackageConfigHelpers)

install(DIRECTORY include/weft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(TARGET weft_command)
  install(TARGETS weft_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(CODE "execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/man $<TARGET_FILE:weft_command>
    \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_MANDIR}/man1 COMMAND_ERROR_IS_FATAL ANY)")
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
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

configure_package_config_file(cmake/weft-config.cmake.in weft-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
write_basic_package_version_file(weft-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/weft-config.cmake
  ${CMAKE_CURRENT_BINARY_DIR}/weft-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/weft)
