# C for the messages between processes, made by protoc-c from src/**/*.proto.
find_program(PROTOC_C protoc-c REQUIRED)
pkg_check_modules(PROTOBUF_C REQUIRED IMPORTED_TARGET libprotobuf-c)
set(WEFT_PROTO_DIR ${CMAKE_CURRENT_BINARY_DIR}/proto)
file(MAKE_DIRECTORY ${WEFT_PROTO_DIR})
set(WEFT_PROTO_SOURCES)
foreach(proto src/exchange/ps/ps.proto src/exchange/gossip/gossip.proto
        src/membership/membership.proto)
  get_filename_component(name ${proto} NAME_WE)
  get_filename_component(folder ${proto} DIRECTORY)
  set(made ${WEFT_PROTO_DIR}/${name}.pb-c.c)
  add_custom_command(OUTPUT ${made} ${WEFT_PROTO_DIR}/${name}.pb-c.h
    COMMAND ${PROTOC_C} --c_out=${WEFT_PROTO_DIR} --proto_path=${CMAKE_CURRENT_SOURCE_DIR}/${folder}
      ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
    DEPENDS ${proto} VERBATIM)
  list(APPEND WEFT_PROTO_SOURCES ${made})
endforeach()
add_library(weft_proto OBJECT ${WEFT_PROTO_SOURCES})
set_target_properties(weft_proto PROPERTIES C_VISIBILITY_PRESET hidden POSITION_INDEPENDENT_CODE ON)
target_link_libraries(weft_proto PUBLIC PkgConfig::PROTOBUF_C)
target_include_directories(weft_proto INTERFACE ${WEFT_PROTO_DIR})
