# The doubles of libcuda.so.1 and of NVRTC, in folders that tests of the device cuda name: the first in LD_LIBRARY_PATH, the second as
# a package of the environment of Python in VIRTUAL_ENV.
set(WEFT_FAKE_CUDA ${CMAKE_BINARY_DIR}/fake_cuda)
set(folder ${CMAKE_CURRENT_LIST_DIR})
add_library(fake_cuda MODULE ${folder}/calls.c ${folder}/memory.c ${folder}/modules.c)
add_library(fake_nvrtc MODULE ${folder}/nvrtc.c)
foreach(name fake_cuda fake_nvrtc)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(${name} SYSTEM PRIVATE ${WEFT_OPENCL_HEADERS})
  target_link_libraries(${name} PRIVATE weft_flags Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${WEFT_FAKE_CUDA})
set_target_properties(fake_nvrtc PROPERTIES OUTPUT_NAME nvrtc SUFFIX .so.13 C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${WEFT_FAKE_CUDA}/python/lib/python3.11/site-packages/nvidia/cu13/lib)
