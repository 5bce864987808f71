# Finds the libraries that braid is built with and that programs linking it need. Included by CMakeLists.txt and by the installed
# braidConfig.cmake.
#
# Inputs: BRAID_TORCH_DIR, BRAID_CUDA, BRAID_WITH_<NAME> as AUTO, ON or OFF and, for an installed braid, BRAID_TORCH_BUILT_WITH, the version
# of libtorch that it needs. Outputs: BRAID_MISSING, one sentence for each requirement that is missing; BRAID_TORCH_VERSION;
# BRAID_HAS_<NAME> ON or OFF; and, if nothing is missing, the imported targets braid::torch, braid::json and one for each optional library
# (Gloo's is GLOO_INCLUDE alone).
set(BRAID_MISSING "")

find_package(Threads QUIET)
if(NOT Threads_FOUND)
  list(APPEND BRAID_MISSING "the compiler has no threads library")
endif()

find_path(NLOHMANN_JSON_INCLUDE nlohmann/json.hpp)
if(NOT NLOHMANN_JSON_INCLUDE)
  list(APPEND BRAID_MISSING "nlohmann/json.hpp was not found: apt-get install nlohmann-json3-dev, or pass -DNLOHMANN_JSON_INCLUDE=FOLDER with the folder that holds nlohmann/json.hpp")
endif()

# libtorch: BRAID_TORCH_DIR is the folder `torch` of an unpacked or installed torch wheel.
if(NOT EXISTS ${BRAID_TORCH_DIR}/include/ATen/ATen.h OR NOT EXISTS ${BRAID_TORCH_DIR}/lib/libtorch_cpu.so)
  list(APPEND BRAID_MISSING "libtorch was not found in BRAID_TORCH_DIR=${BRAID_TORCH_DIR}: pass -DBRAID_TORCH_DIR=FOLDER with the folder `torch` of a torch wheel, which holds include/ and lib/")
endif()
set(BRAID_TORCH_VERSION "")
if(EXISTS ${BRAID_TORCH_DIR}/include/torch/headeronly/version.h)
  file(STRINGS ${BRAID_TORCH_DIR}/include/torch/headeronly/version.h version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
  string(REGEX REPLACE "[^0-9;]" "" BRAID_TORCH_VERSION "${version_lines}")
  string(REPLACE ";" "." BRAID_TORCH_VERSION "${BRAID_TORCH_VERSION}")
  # libtorch's C++ interface differs from one minor version to the next.
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor_version "${BRAID_TORCH_VERSION}")
  if(BRAID_TORCH_BUILT_WITH AND NOT BRAID_TORCH_BUILT_WITH MATCHES "^${minor_version}\\.")
    list(APPEND BRAID_MISSING "braid was built with libtorch ${BRAID_TORCH_BUILT_WITH}, but BRAID_TORCH_DIR=${BRAID_TORCH_DIR} holds ${BRAID_TORCH_VERSION}: pass -DBRAID_TORCH_DIR=FOLDER with a torch wheel of that version, or rebuild braid with this one")
  endif()
endif()
if(BRAID_CUDA)
  find_package(CUDAToolkit QUIET)
  if(NOT CUDAToolkit_FOUND)
    list(APPEND BRAID_MISSING "the CUDA toolkit was not found: install it, or pass -DCUDAToolkit_ROOT=FOLDER")
  endif()
  file(GLOB cuda_wheel_includes LIST_DIRECTORIES true ${BRAID_TORCH_DIR}/../nvidia/*/include)
  find_path(NCCL_INCLUDE nccl.h HINTS ${cuda_wheel_includes} ${CUDAToolkit_INCLUDE_DIRS})
  if(NOT NCCL_INCLUDE)
    list(APPEND BRAID_MISSING "nccl.h was not found: it comes with the wheel nvidia-nccl-cu13, or with libnccl-dev")
  endif()
endif()

find_library(SENTENCEPIECE_LIBRARY sentencepiece)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train)
find_path(SENTENCEPIECE_INCLUDE sentencepiece_processor.h)
find_package(yaml-cpp QUIET)
find_library(HIGHWAY_LIBRARY hwy)
find_path(HIGHWAY_INCLUDE hwy/highway.h)
find_package(ZLIB QUIET)
# The wheel contains c10d's Gloo backend but not Gloo's headers; Debian's provide the declarations, and its library is not linked.
find_path(GLOO_INCLUDE gloo/context.h)

# Sets BRAID_HAS_<name> from BRAID_WITH_<name> and the results of find_* that the library needs.
macro(braid_optional name package)
  set(BRAID_HAS_${name} ON)
  foreach(result ${ARGN})
    if(NOT ${result})
      set(BRAID_HAS_${name} OFF)
    endif()
  endforeach()
  if("${BRAID_WITH_${name}}" STREQUAL "OFF")
    set(BRAID_HAS_${name} OFF)
  elseif("${BRAID_WITH_${name}}" STREQUAL "ON" AND NOT BRAID_HAS_${name})
    list(APPEND BRAID_MISSING "BRAID_WITH_${name} is ON, but the library was not found: apt-get install ${package}")
  endif()
endmacro()
braid_optional(SENTENCEPIECE libsentencepiece-dev SENTENCEPIECE_LIBRARY SENTENCEPIECE_TRAIN_LIBRARY SENTENCEPIECE_INCLUDE)
braid_optional(YAML libyaml-cpp-dev yaml-cpp_FOUND)
braid_optional(HIGHWAY libhwy-dev HIGHWAY_LIBRARY HIGHWAY_INCLUDE)
braid_optional(ZLIB zlib1g-dev ZLIB_FOUND)
braid_optional(GLOO libgloo-dev GLOO_INCLUDE)

if(BRAID_MISSING)
  return()
endif()

add_library(braid::json INTERFACE IMPORTED)
target_include_directories(braid::json INTERFACE ${NLOHMANN_JSON_INCLUDE})

add_library(braid::torch INTERFACE IMPORTED)
target_include_directories(braid::torch INTERFACE ${BRAID_TORCH_DIR}/include ${BRAID_TORCH_DIR}/include/torch/csrc/api/include)
# at::parallel_for is OpenMP's, in the headers: without the flag it runs serially. libtorch brings the same libgomp.so.1.
target_compile_options(braid::torch INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fopenmp>)
target_link_options(braid::torch INTERFACE -fopenmp "LINKER:-rpath-link,${BRAID_TORCH_DIR}/lib")
target_link_libraries(braid::torch INTERFACE ${BRAID_TORCH_DIR}/lib/libtorch_cpu.so ${BRAID_TORCH_DIR}/lib/libc10.so)
file(GLOB cuda_wheel_libs LIST_DIRECTORIES true ${BRAID_TORCH_DIR}/../nvidia/*/lib)
foreach(dir ${cuda_wheel_libs})
  target_link_options(braid::torch INTERFACE "LINKER:-rpath,${dir}" "LINKER:-rpath-link,${dir}")
endforeach()
if(BRAID_CUDA)
  target_include_directories(braid::torch INTERFACE ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE})
  # The linker would otherwise drop libtorch_cuda, which registers its kernels when it is loaded.
  target_link_libraries(braid::torch INTERFACE "-Wl,--no-as-needed" ${BRAID_TORCH_DIR}/lib/libtorch_cuda.so
    ${BRAID_TORCH_DIR}/lib/libc10_cuda.so "-Wl,--as-needed" CUDA::cudart)
  # A wheel unpacked for CPU use only has no cuBLAS, cuDNN or NCCL next to it; they are needed when the program starts, not here.
  target_link_options(braid::torch INTERFACE "LINKER:--allow-shlib-undefined")
  target_compile_definitions(braid::torch INTERFACE BRAID_CUDA=1 USE_C10D_NCCL=1)
endif()

if(BRAID_HAS_SENTENCEPIECE)
  add_library(braid::sentencepiece INTERFACE IMPORTED)
  target_include_directories(braid::sentencepiece INTERFACE ${SENTENCEPIECE_INCLUDE})
  target_link_libraries(braid::sentencepiece INTERFACE ${SENTENCEPIECE_LIBRARY} ${SENTENCEPIECE_TRAIN_LIBRARY})
endif()
if(BRAID_HAS_YAML)
  add_library(braid::yaml INTERFACE IMPORTED)
  target_link_libraries(braid::yaml INTERFACE yaml-cpp)
endif()
if(BRAID_HAS_HIGHWAY)
  add_library(braid::highway INTERFACE IMPORTED)
  target_include_directories(braid::highway INTERFACE ${HIGHWAY_INCLUDE})
  target_link_libraries(braid::highway INTERFACE ${HIGHWAY_LIBRARY})
endif()
if(BRAID_HAS_ZLIB)
  add_library(braid::zlib INTERFACE IMPORTED)
  target_link_libraries(braid::zlib INTERFACE ZLIB::ZLIB)
endif()
