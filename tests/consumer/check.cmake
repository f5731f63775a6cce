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
  run(${CMAKE_COMMAND} --build ${folder} --target consumer)
  run(${folder}/consumer)
  message(STATUS "${CHECK}:\n${output}")
endfunction()

# install_and_use(KIND FLAGS...): sinter built with FLAGS, installed, and found there.
function(install_and_use kind)
  set(tree ${WORK}/${kind})
  file(REMOVE_RECURSE ${tree}/prefix ${tree}/consumer)
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${tree}/build -G ${GENERATOR} -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_CXX_COMPILER=${CXX} -DSINTER_CUDA=OFF -DSINTER_TESTS=OFF -DSINTER_EXAMPLES=OFF
    -DCMAKE_INSTALL_LIBDIR=lib ${ARGN})
  run(${CMAKE_COMMAND} --build ${tree}/build)
  run(${CMAKE_COMMAND} --install ${tree}/build --prefix ${tree}/prefix)
  build_consumer(${tree}/consumer -DCONSUMER_USES=find_package
    -DCMAKE_PREFIX_PATH=${tree}/prefix)
endfunction()

# check_size(LIBRARY): under 3 MB without debug symbols.
function(check_size library)
  run(${STRIP} --strip-debug -o ${WORK}/stripped ${library})
  file(SIZE ${WORK}/stripped bytes)
  message(STATUS "${library}: ${bytes} bytes without debug symbols")
  if(bytes GREATER 3000000)
    message(FATAL_ERROR "${library} has ${bytes} bytes, more than 3000000")
  endif()
endfunction()

file(MAKE_DIRECTORY ${WORK})
if(CHECK STREQUAL "installed_static")
  install_and_use(static -DBUILD_SHARED_LIBS=OFF)
  check_size(${WORK}/static/prefix/lib/libsinter.a)
elseif(CHECK STREQUAL "installed_shared")
  install_and_use(shared -DBUILD_SHARED_LIBS=ON)
  check_size(${WORK}/shared/prefix/lib/libsinter.so)
elseif(CHECK MATCHES "^(add_subdirectory|FetchContent)$")
  # Both put sinter's build into the same folder, with the same commands: it is compiled once.
  build_consumer(${WORK}/embedded -DCONSUMER_USES=${CHECK} -DCONSUMER_SINTER=${SOURCE}
    -DCMAKE_BUILD_TYPE=Debug)
elseif(CHECK STREQUAL "budget")
  run(${MEASURE} 5 400 ${CXX} -std=c++20 -O2 -I${INCLUDE} -c ${SOURCE}/tests/consumer/main.cpp
    -o ${WORK}/main.o)
  message(STATUS "one file with <sinter/sinter.h>: ${output}")
else()
  message(FATAL_ERROR "no check \"${CHECK}\"")
endif()
