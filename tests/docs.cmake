# Pages that are generated must be what the generator prints now.
add_executable(generate_activations ${PROJECT_SOURCE_DIR}/docs/generate_activations.cpp)
sinter_compile_options(generate_activations)
target_link_libraries(generate_activations PRIVATE sinter::sinter)
sinter_add_test(docs_activations docs
  sh -c "'$<TARGET_FILE:generate_activations>' | diff -u docs/activations.md -")
