# The layers' CUDA kernels (models/nn/cuda), compiled by the nvcc of `tools/setup.sh --cuda`, whose version is that of the
# libraries. CMake's own support for CUDA isn't used: nvcc is called for these files only.
if(TRAINER_CUDA)
  find_program(TRAINER_NVCC nvcc PATHS ${TRAINER_DEPS}-cuda/nvidia/cu13/bin NO_DEFAULT_PATH REQUIRED)
endif()
# Machine code for T4, A100, H100 and B200, and PTX, which drivers compile for newer ones. The oldest is that of
# engine/base/gpu_faults.h. (tools/check_kernels.py reads these flags.)
set(TRAINER_CUDA_FLAGS -std=c++20 -O3 -Werror all-warnings -Xcompiler=-fPIC,-Wall,-Wextra
  -gencode arch=compute_75,code=sm_75 -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90
  -gencode arch=compute_100,code=sm_100 -gencode arch=compute_100,code=compute_100)

# trainer_cuda_kernels(TARGET a.cu …): adds the kernels to a target.
function(trainer_cuda_kernels target)
  set(folder ${PROJECT_SOURCE_DIR}/models/nn/cuda)
  file(GLOB headers CONFIGURE_DEPENDS ${folder}/*.h)
  foreach(name IN LISTS ARGN)
    set(object ${CMAKE_CURRENT_BINARY_DIR}/${name}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${TRAINER_NVCC} ${TRAINER_CUDA_FLAGS} -I${PROJECT_SOURCE_DIR} -c ${folder}/${name} -o ${object}
      DEPENDS ${folder}/${name} ${headers} ${PROJECT_SOURCE_DIR}/models/nn/kernel_table.h
              ${PROJECT_SOURCE_DIR}/models/nn/activation.h ${PROJECT_SOURCE_DIR}/models/nn/philox.h
      COMMENT "nvcc ${name}" VERBATIM)
    target_sources(${target} PRIVATE ${object})
  endforeach()
endfunction()
