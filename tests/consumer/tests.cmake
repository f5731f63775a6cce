# Registers what check.cmake does. The consumers never see nvcc: it takes no toolkit to use sinter.
add_executable(measure consumer/measure.cpp)
sinter_compile_options(measure)
set(consumer_arguments
  -DSOURCE=${PROJECT_SOURCE_DIR} -DWERROR=${SINTER_WERROR}
  -DWORK=${CMAKE_CURRENT_BINARY_DIR}/consumer -DGENERATOR=${CMAKE_GENERATOR}
  -DCXX=${CMAKE_CXX_COMPILER} -DSTRIP=${CMAKE_STRIP} -DINCLUDE=${SINTER_INCLUDE_DIR}
  -DMEASURE=$<TARGET_FILE:measure>)
foreach(check IN ITEMS installed_static installed_shared add_subdirectory FetchContent budget)
  add_test(NAME consumer_${check} COMMAND ${CMAKE_COMMAND} -DCHECK=${check} ${consumer_arguments}
    -P ${PROJECT_SOURCE_DIR}/tests/consumer/check.cmake)
  # They build in shared folders and use every processor.
  set_tests_properties(consumer_${check} PROPERTIES LABELS consumer TIMEOUT 900 RUN_SERIAL ON)
endforeach()
