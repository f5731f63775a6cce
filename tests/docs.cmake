# Pages that are generated must be what the generator prints now.
set(pages activations)
if(SINTER_HAS_CUDA)
  list(APPEND pages ops)  # else the table knows of no CUDA kernels
endif()
foreach(page ${pages})
  add_executable(generate_${page} ${PROJECT_SOURCE_DIR}/docs/generate_${page}.cpp)
  sinter_compile_options(generate_${page})
  target_link_libraries(generate_${page} PRIVATE sinter::sinter)
  sinter_add_test(docs_${page} docs
    sh -c "'$<TARGET_FILE:generate_${page}>' | diff -u docs/${page}.md -")
endforeach()
