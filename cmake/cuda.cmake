# Decides whether sinter is built with CUDA. Sets SINTER_HAS_CUDA and SINTER_CUDA_STATE, the words
# that build_info() reports.
if(NOT SINTER_CUDA MATCHES "^(AUTO|ON|OFF)$")
  message(FATAL_ERROR "SINTER_CUDA is \"${SINTER_CUDA}\": expected AUTO, ON or OFF")
endif()

set(SINTER_HAS_CUDA OFF)
if(SINTER_CUDA STREQUAL "OFF")
  set(_sinter_why_not "SINTER_CUDA=OFF")
else()
  # Before the language is enabled: left alone, CMake would ask for one default architecture, and a
  # machine that builds need not have a GPU to ask.
  # Code for 8.0 runs on 8.6 and 8.9 as well; newer GPUs compile what is virtual.
  # Not cached in a subproject: the choice is ours, not the parent's.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES "75-real;80-real;90-real;90-virtual")
    if(PROJECT_IS_TOP_LEVEL)
      set(CMAKE_CUDA_ARCHITECTURES "${CMAKE_CUDA_ARCHITECTURES}"
        CACHE STRING "CUDA architectures to build for")
    endif()
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  find_package(CUDAToolkit QUIET)
  if(CMAKE_CUDA_COMPILER AND CUDAToolkit_FOUND)
    enable_language(CUDA)
    set(SINTER_HAS_CUDA ON)
    # CMake 3.25 knows no C++20 flag for nvcc and would drop the request without a word.
    if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
    endif()
  elseif(NOT CMAKE_CUDA_COMPILER)
    set(_sinter_why_not "no CUDA compiler (nvcc) was found")
  else()
    set(_sinter_why_not "nvcc was found but not the CUDA toolkit's headers and libraries")
  endif()
endif()

if(SINTER_HAS_CUDA)
  list(JOIN CMAKE_CUDA_ARCHITECTURES "," _sinter_architectures)
  set(SINTER_CUDA_STATE "yes, toolkit ${CUDAToolkit_VERSION} for ${_sinter_architectures}")
  message(STATUS "sinter: with CUDA ${CUDAToolkit_VERSION} for ${_sinter_architectures}")
elseif(SINTER_CUDA STREQUAL "ON")
  # A line that begins with a blank is not wrapped.
  message(FATAL_ERROR " SINTER_CUDA=ON, but ${_sinter_why_not}.\n"
    " Install the CUDA toolkit, or name its compiler with -DCMAKE_CUDA_COMPILER=/path/to/nvcc,\n"
    " or configure with -DSINTER_CUDA=OFF for a build that runs on the CPU only.")
else()
  set(SINTER_CUDA_STATE "no, ${_sinter_why_not}")
  message(STATUS "sinter: CPU only, because ${_sinter_why_not}")
endif()
