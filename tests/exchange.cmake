# Models given to other systems: ONNX files to onnx and onnxruntime, weights to torch and back. These
# are Python's, and not everybody's: without them the tests say so. SINTER_PYTHON names a python3 that
# has them, as one of a virtual environment after
# `pip install onnx onnxruntime safetensors numpy torch`.
find_package(Python3 QUIET COMPONENTS Interpreter)
set(SINTER_PYTHON "${Python3_EXECUTABLE}" CACHE FILEPATH "python3 with onnx, onnxruntime and torch")

add_executable(exchange_cases exchange/main.cpp exchange/cases.cpp)
target_link_libraries(exchange_cases PRIVATE sinter::sinter)
sinter_compile_options(exchange_cases)
sinter_compile_quickly(exchange_cases)

foreach(system IN ITEMS onnx torch)
  if(SINTER_PYTHON)
    sinter_add_test(exchange_${system} exchange ${SINTER_PYTHON} -B
      ${CMAKE_CURRENT_SOURCE_DIR}/exchange/check_${system}.py $<TARGET_FILE:exchange_cases>)
  else()
    sinter_add_test(exchange_${system} exchange
      ${CMAKE_COMMAND} -E echo "SKIPPED: there is no python3 (cmake -DSINTER_PYTHON=...)")
  endif()
  set_tests_properties(exchange_${system} PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED: ")
endforeach()
