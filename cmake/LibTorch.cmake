# Imported targets for the libtorch in the PyPI wheel, which tools/setup.sh unpacks. (The wheel's find_package(Torch)
# requires a CUDA toolkit.) A CPU program links only torch_cpu and c10.
set(TRAINER_DEPS "$ENV{TRAINER_DEPS}" CACHE PATH "Folder with the unpacked wheels (torch/, nvidia/), made by tools/setup.sh")
if(NOT TRAINER_DEPS)
  if(NOT "$ENV{XDG_CACHE_HOME}" STREQUAL "")
    set(TRAINER_DEPS "$ENV{XDG_CACHE_HOME}/trainer/deps")
  else()
    set(TRAINER_DEPS "$ENV{HOME}/.cache/trainer/deps")
  endif()
endif()
set(torch_root "${TRAINER_DEPS}/torch")
if(NOT EXISTS "${torch_root}/lib/libtorch_cpu.so")
  message(FATAL_ERROR "libtorch is not at ${torch_root}: run tools/setup.sh, or set TRAINER_DEPS to the folder it made.")
endif()

include(TorchTargets)

option(TRAINER_CUDA "Build libtrainer_cuda.so, for NVIDIA GPUs, with the libraries of `tools/setup.sh --cuda`" OFF)
if(TRAINER_CUDA)
  set(cuda_root "${TRAINER_DEPS}-cuda")
  if(NOT EXISTS "${cuda_root}/torch/lib/libtorch_cuda.so")
    message(FATAL_ERROR "TRAINER_CUDA is ON, but libtorch_cuda is not at ${cuda_root}: run tools/setup.sh --cuda.")
  endif()
  foreach(library IN ITEMS torch/lib/libtorch_cuda.so torch/lib/libc10_cuda.so nvidia/cu13/lib/libcudart.so.13)
    string(REGEX REPLACE ".*/lib(.*)\\.so.*" "\\1" name ${library})
    add_library(${name} SHARED IMPORTED)
    set_target_properties(${name} PROPERTIES IMPORTED_LOCATION "${cuda_root}/${library}")
  endforeach()
  target_link_libraries(torch_cuda INTERFACE torch_cpu c10_cuda cudart)
  target_include_directories(torch_cuda SYSTEM INTERFACE
                             "${cuda_root}/nvidia/cu13/include" "${cuda_root}/nvidia/nccl/include")
endif()

# A precompiled header for the files that use torch: it reduces compile time from 8 s to 2 s per file. GCC wants one for
# each level of optimization (it crashes if the header is made with -O1 and used with -O3), so there are two: torch_pch
# and, for targets of trainer_compile_fast, torch_pch_fast. All presets define NDEBUG, because libtorch was built with it.
foreach(header IN ITEMS torch_pch torch_pch_fast)
  file(CONFIGURE OUTPUT "${CMAKE_BINARY_DIR}/${header}.cpp" CONTENT "" @ONLY) # keeps an existing file's time
  add_library(${header} STATIC "${CMAKE_BINARY_DIR}/${header}.cpp")
  target_link_libraries(${header} PRIVATE torch_cpu trainer_flags) # must be the same flags as its users'
  target_precompile_headers(${header} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/torch_pch.h)
endforeach()
trainer_compile_fast(torch_pch_fast)
