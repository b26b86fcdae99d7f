# The libtorch at `torch_root`, in the layout of its wheel, as targets. Also used by the installed package.
file(STRINGS "${torch_root}/include/torch/headeronly/version.h" version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" version_numbers "${version_lines}")
list(JOIN version_numbers "." TRAINER_TORCH_VERSION)

add_library(c10 SHARED IMPORTED)
set_target_properties(c10 PROPERTIES IMPORTED_LOCATION "${torch_root}/lib/libc10.so")
add_library(torch_cpu SHARED IMPORTED)
set_target_properties(torch_cpu PROPERTIES IMPORTED_LOCATION "${torch_root}/lib/libtorch_cpu.so")
target_include_directories(torch_cpu SYSTEM INTERFACE "${torch_root}/include" "${torch_root}/include/torch/csrc/api/include")
# The OpenMP that libtorch brings: a second one would have threads of its own.
add_library(torch_gomp SHARED IMPORTED)
set_target_properties(torch_gomp PROPERTIES IMPORTED_LOCATION "${torch_root}/lib/libgomp.so.1")
target_link_libraries(torch_cpu INTERFACE c10 torch_gomp Threads::Threads)
# Its include folder contains a newer fmt than the system library; header-only use keeps the two apart.
target_compile_definitions(torch_cpu INTERFACE FMT_HEADER_ONLY=1)
# libtorch_cpu needs two small CUDA libraries at load time, which it finds through its own RPATH.
target_link_options(torch_cpu INTERFACE -Wl,--allow-shlib-undefined)
