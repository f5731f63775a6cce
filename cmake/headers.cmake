# Headers are reached as <sinter/...> by everybody. In the build tree that is a folder of links to
# the rooms of the source tree, so no generic folder name ("runtime", "layers") is ever on an
# include path.
set(SINTER_ROOMS runtime kernels autograd layers training)
set(SINTER_INCLUDE_DIR ${CMAKE_CURRENT_BINARY_DIR}/include)
file(MAKE_DIRECTORY ${SINTER_INCLUDE_DIR}/sinter)
foreach(_entry IN LISTS SINTER_ROOMS ITEMS sinter.h)
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR}/${_entry} ${SINTER_INCLUDE_DIR}/sinter/${_entry}
    SYMBOLIC)
endforeach()
