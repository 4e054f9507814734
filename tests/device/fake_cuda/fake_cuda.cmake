# The doubles of libcuda.so.1, of NVRTC and of libraries, in folders that tests of the device cuda name: the first in LD_LIBRARY_PATH, the others as
# packages of the environment of Python in VIRTUAL_ENV.
set(WEFT_FAKE_CUDA ${CMAKE_BINARY_DIR}/fake_cuda)
set(folder ${CMAKE_CURRENT_LIST_DIR})
add_library(fake_cuda MODULE ${folder}/calls.c ${folder}/memory.c ${folder}/modules.c)
add_library(fake_nvrtc MODULE ${folder}/nvrtc.c)
add_library(fake_cublaslt MODULE ${folder}/cublaslt.c ${folder}/library.c)
add_library(fake_cudnn MODULE ${folder}/cudnn.c ${folder}/library.c)
add_library(fake_nccl MODULE ${folder}/nccl.c ${folder}/library.c)
foreach(name fake_cuda fake_nvrtc fake_cublaslt fake_cudnn fake_nccl)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_include_directories(${name} SYSTEM PRIVATE ${WEFT_OPENCL_HEADERS})
  target_link_libraries(${name} PRIVATE weft_flags Threads::Threads ${CMAKE_DL_LIBS})
endforeach()
set_target_properties(fake_cuda PROPERTIES OUTPUT_NAME cuda SUFFIX .so.1 C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${WEFT_FAKE_CUDA})
set(packages ${WEFT_FAKE_CUDA}/python/lib/python3.11/site-packages/nvidia)
set_target_properties(fake_nvrtc PROPERTIES OUTPUT_NAME nvrtc SUFFIX .so.13 C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${packages}/cu13/lib)
set_target_properties(fake_cublaslt PROPERTIES OUTPUT_NAME cublasLt SUFFIX .so.13 C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${packages}/cublas/lib)
set_target_properties(fake_cudnn PROPERTIES OUTPUT_NAME cudnn SUFFIX .so.9 C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${packages}/cudnn/lib)
set_target_properties(fake_nccl PROPERTIES OUTPUT_NAME nccl SUFFIX .so.2 C_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY ${packages}/nccl/lib)
