# The library: one target, the CPU kernels' inner loops compiled once for each instruction set.
find_package(Threads REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(ZLIB REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.9 REQUIRED)

file(GLOB SINTER_SOURCES CONFIGURE_DEPENDS
  runtime/*.cpp kernels/*.cpp kernels/cpu/*.cpp autograd/*.cpp layers/*.cpp training/*.cpp)
file(GLOB SINTER_ISA_SOURCES CONFIGURE_DEPENDS kernels/cpu/isa/*.cpp)
if(CMAKE_CXX_FLAGS MATCHES "-fsanitize=thread")
  set(SINTER_THREAD_SANITIZED ON)
  list(FILTER SINTER_SOURCES EXCLUDE REGEX "/team_openmp\\.cpp$")
else()
  list(FILTER SINTER_SOURCES EXCLUDE REGEX "/team_std\\.cpp$")
endif()
# ThreadSanitizer watches one copy of the inner loops and fuzzing watches readers: they get no others,
# which take longest to compile.
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND NOT SINTER_THREAD_SANITIZED
    AND NOT SINTER_FUZZ)
  list(FILTER SINTER_SOURCES EXCLUDE REGEX "_other\\.cpp$")
  set(SINTER_CPU_PATHS baseline avx2 avx512)
else()
  list(FILTER SINTER_SOURCES EXCLUDE REGEX "_x86\\.cpp$")
  set(SINTER_CPU_PATHS baseline)
endif()
if(SINTER_HAS_CUDA)
  file(GLOB SINTER_CUDA_SOURCES CONFIGURE_DEPENDS runtime/cuda/*.cpp runtime/cuda/*.cu
    kernels/cuda/*.cpp kernels/cuda/*.cu kernels/cuda/tile/*.cpp kernels/cuda/tile/*.cu)
  file(GLOB SINTER_TYPED_SOURCES CONFIGURE_DEPENDS kernels/cuda/typed/*.cu)
  list(FILTER SINTER_CUDA_SOURCES EXCLUDE REGEX "/absent\\.cpp$")
else()
  set(SINTER_CUDA_SOURCES runtime/cuda/absent.cpp)
endif()

add_library(sinter ${SINTER_SOURCES} ${SINTER_CUDA_SOURCES})
add_library(sinter::sinter ALIAS sinter)

if(CMAKE_CXX_FLAGS MATCHES "-fsanitize")
  set(SINTER_SANITIZED ON)
endif()

# g++ 12 sees overlapping copies in "literal" + std::string (GCC bug 105651).
set(SINTER_FALSE_WARNINGS
  $<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:${CMAKE_CXX_COMPILER_VERSION},13>>:-Wno-restrict>)

# What every compilation of ours needs; nothing of it reaches a consumer but C++20 and the headers.
function(sinter_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  target_include_directories(${target} PUBLIC $<BUILD_INTERFACE:${SINTER_INCLUDE_DIR}>
    $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wpedantic;-Wshadow;-Wconversion;-Wno-sign-conversion>
    ${SINTER_FALSE_WARNINGS}
    $<$<AND:$<BOOL:${SINTER_WERROR}>,$<COMPILE_LANGUAGE:CXX>>:-Werror>)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF POSITION_INDEPENDENT_CODE ON
    CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON CUDA_EXTENSIONS OFF)
endfunction()

# No loop over elements is in these rooms, but many sentences put together: compiled for size they
# take a third of the room. Not what every step goes through: there, calls of small functions count.
set(small_sources ${SINTER_SOURCES})
list(FILTER small_sources INCLUDE REGEX "/(autograd|layers|training)/[^/]+$|/(tuning_cache|durable_file).cpp$")
list(FILTER small_sources EXCLUDE REGEX
  "/(arithmetic|autocast|deferred|draw|layer_functions|losses|tape|activations|linear|module|parameter|sequential|optimizers).cpp$")
set_source_files_properties(${small_sources} PROPERTIES
  COMPILE_OPTIONS $<$<CONFIG:Release>:-Os>)
# Loops in float64 whose sums have an order, and many calls: copies for vectors double the code.
set_source_files_properties(runtime/tensor.cpp kernels/cpu/attention.cpp kernels/cpu/batch_norm.cpp
  kernels/cpu/rows.cpp PROPERTIES COMPILE_OPTIONS $<$<CONFIG:Release>:-O2>)
# Its loops are written in vectors: what the compiler makes vectors of beside them is tails.
set_source_files_properties(kernels/cpu/isa/activations.cpp PROPERTIES
  COMPILE_OPTIONS -fno-tree-vectorize)

sinter_compile_options(sinter)
# A shared library's table of symbols and its jumps through it hold ours alone, a tenth less to load;
# and both kinds of library are made of the same objects.
set_target_properties(sinter PROPERTIES DEFINE_SYMBOL "")
if(CMAKE_SYSTEM_NAME STREQUAL "Linux" AND BUILD_SHARED_LIBS)
  target_link_options(sinter PRIVATE
    LINKER:--version-script=${CMAKE_CURRENT_LIST_DIR}/exports.map,--gc-sections)
  set_property(TARGET sinter APPEND PROPERTY LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/exports.map)
endif()
target_link_libraries(sinter PRIVATE Threads::Threads OpenMP::OpenMP_CXX ZLIB::ZLIB
  spdlog::spdlog $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
if(SINTER_HAS_CUDA)
  target_link_libraries(sinter PRIVATE CUDA::cudart_static CUDA::cublasLt)
  set_source_files_properties(kernels/ops.cpp PROPERTIES COMPILE_DEFINITIONS SINTER_HAS_CUDA)
  # Kernels that are compiled once for each storage type.
  foreach(type IN ITEMS float float16 bfloat16)
    add_library(sinter_cuda_${type} OBJECT ${SINTER_TYPED_SOURCES})
    sinter_compile_options(sinter_cuda_${type})
    target_compile_definitions(sinter_cuda_${type} PRIVATE SINTER_STORAGE=${type})
    target_link_libraries(sinter_cuda_${type} PRIVATE CUDA::cudart_static)
    target_sources(sinter PRIVATE $<TARGET_OBJECTS:sinter_cuda_${type}>)
  endforeach()
endif()
set_source_files_properties(runtime/build_info.cpp PROPERTIES COMPILE_DEFINITIONS
  "SINTER_VERSION=\"${PROJECT_VERSION}\";SINTER_CUDA_STATE=\"${SINTER_CUDA_STATE}\";SINTER_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\"")

# Generic tuning for every copy: -march=native and the znver tunings of g++ 12 split chains of
# fused multiply-adds and lose a fifth of the speed of a matrix product.
set(SINTER_FLAGS_baseline "")
set(SINTER_FLAGS_avx2 -mavx2 -mfma)
set(SINTER_FLAGS_avx512 -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx2 -mfma)
foreach(path IN LISTS SINTER_CPU_PATHS)
  add_library(sinter_cpu_${path} OBJECT ${SINTER_ISA_SOURCES})
  sinter_compile_options(sinter_cpu_${path})
  target_compile_definitions(sinter_cpu_${path} PRIVATE SINTER_CPU_PATH=${path})
  # Sanitizers watch the baseline copy, which is the same source; the others would take minutes more.
  # The loops must vectorise: no errno from sqrt, no traps to keep in order. The wide copies are
  # optimised in every build type, so that no weak symbol of theirs is left for the linker to merge.
  target_compile_options(sinter_cpu_${path} PRIVATE ${SINTER_FLAGS_${path}} -fno-math-errno
    -fno-trapping-math $<$<NOT:$<STREQUAL:${path},baseline>>:-O3;-fno-sanitize=all>
    # Most of what tests run: at -O1 they would take twice the time under sanitizers.
    $<$<AND:$<STREQUAL:${path},baseline>,$<BOOL:${SINTER_SANITIZED}>>:-O2>
    # g++ 12 warns of its own avx512 headers: GCC PR105593
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized;-Wno-uninitialized>)
  target_sources(sinter PRIVATE $<TARGET_OBJECTS:sinter_cpu_${path}>)
endforeach()
