# Builds and runs the consumer of this folder in one way, named by CHECK; see tests.cmake.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output
    ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    list(JOIN ARGV " " command)
    message(FATAL_ERROR "${command}\nended with ${status}:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

# build_consumer(FOLDER FLAGS...)
function(build_consumer folder)
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/consumer -B ${folder} -G ${GENERATOR}
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CUDA_COMPILER=NOTFOUND ${ARGN})
  run(${CMAKE_COMMAND} --build ${folder} --target consumer beside)
  foreach(program IN ITEMS consumer beside)
    run(${folder}/${program})
    message(STATUS "${CHECK}, ${program}:\n${output}")
  endforeach()
endfunction()

# install_and_use(FLAGS...): the library for the CPU, installed and found there. Both kinds of it are
# built in one folder, from the same objects.
function(install_and_use)
  file(REMOVE_RECURSE ${WORK}/${CHECK})
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${WORK}/library -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${CXX} -DSINTER_CUDA=OFF -DSINTER_TESTS=OFF -DSINTER_EXAMPLES=OFF
    -DSINTER_WERROR=${WERROR} ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK}/library)
  run(${CMAKE_COMMAND} --install ${WORK}/library --prefix ${WORK}/${CHECK}/prefix)
  build_consumer(${WORK}/${CHECK}/consumer -DCONSUMER_USES=find_package
    -DCMAKE_PREFIX_PATH=${WORK}/${CHECK}/prefix)
endfunction()

file(MAKE_DIRECTORY ${WORK})
if(CHECK STREQUAL "installed_static")
  install_and_use(-DBUILD_SHARED_LIBS=OFF)
elseif(CHECK STREQUAL "installed_shared")
  install_and_use(-DBUILD_SHARED_LIBS=ON)
  run(${STRIP} -o ${WORK}/stripped ${WORK}/library/libsinter.so)
  file(SIZE ${WORK}/stripped bytes)
  message(STATUS "the library, stripped: ${bytes} bytes (at most 3000000)")
  if(bytes GREATER 3000000)
    message(FATAL_ERROR "the library is too large")
  endif()
elseif(CHECK MATCHES "^(add_subdirectory|FetchContent)$")
  # Both put sinter's build into the same folder, with the same commands: it is compiled once.
  build_consumer(${WORK}/embedded -DCONSUMER_USES=${CHECK} -DCONSUMER_SINTER=${SOURCE}
    -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=)  # without debugging information
elseif(CHECK STREQUAL "budget")
  run(${MEASURE} 5 400 ${CXX} -std=c++20 -O2 -I${INCLUDE} -c ${SOURCE}/tests/consumer/main.cpp
    -o ${WORK}/main.o)
  message(STATUS "one file with <sinter/sinter.h>: ${output}")
else()
  message(FATAL_ERROR "no check \"${CHECK}\"")
endif()
