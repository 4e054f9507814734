# Plug-ins for devices that compile kernels: one set of kernels (src/device/gpu) and a driver each. The texts of the kernels are
# embedded, and a driver opens the library of its hardware itself, so that nothing else links it.
find_path(WEFT_OPENCL_HEADERS CL/cl.h)
file(GLOB WEFT_GPU_TEXTS CONFIGURE_DEPENDS src/device/gpu/kernels/*.cl)
set(WEFT_GPU_EMBEDDED ${CMAKE_CURRENT_BINARY_DIR}/gpu_texts.c)
add_custom_command(OUTPUT ${WEFT_GPU_EMBEDDED}
  COMMAND ${CMAKE_COMMAND} "-DTEXTS=${WEFT_GPU_TEXTS}" -DOUT=${WEFT_GPU_EMBEDDED}
    -P ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake
  DEPENDS ${WEFT_GPU_TEXTS} cmake/embed_texts.cmake VERBATIM)
file(GLOB WEFT_GPU CONFIGURE_DEPENDS src/device/gpu/*.c)
add_library(weft_gpu OBJECT ${WEFT_GPU} ${WEFT_GPU_EMBEDDED})
target_include_directories(weft_gpu PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(weft_gpu PRIVATE ${WEFT_FRAME})
target_link_libraries(weft_gpu PRIVATE weft_flags Threads::Threads)
set_target_properties(weft_gpu PROPERTIES POSITION_INDEPENDENT_CODE ON C_VISIBILITY_PRESET hidden)
# A driver: the plug-in libweft-NAME.so.
function(weft_gpu_driver name)
  file(GLOB sources CONFIGURE_DEPENDS src/device/${name}/*.c)
  add_library(weft_${name} MODULE ${sources} $<TARGET_OBJECTS:weft_gpu>)
  target_include_directories(weft_${name} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  target_compile_options(weft_${name} PRIVATE ${WEFT_FRAME})
  target_link_libraries(weft_${name} PRIVATE weft_flags Threads::Threads m ${CMAKE_DL_LIBS})
  set_target_properties(weft_${name} PROPERTIES OUTPUT_NAME weft-${name} C_VISIBILITY_PRESET hidden)
  # It calls the library through its services alone.
  if(NOT WEFT_SANITIZE)
    target_link_options(weft_${name} PRIVATE LINKER:--no-undefined)
  endif()
  install(TARGETS weft_${name} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT weft)
endfunction()
weft_gpu_driver(cuda)
if(NOT WEFT_OPENCL_HEADERS)
  message(STATUS "CL/cl.h is not installed (Debian: opencl-headers), so the device opencl is not built")
  return()
endif()
weft_gpu_driver(opencl)
target_include_directories(weft_opencl SYSTEM PRIVATE ${WEFT_OPENCL_HEADERS})
