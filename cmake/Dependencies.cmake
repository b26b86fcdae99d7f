# External libraries: Packages.cmake finds Debian's, and LibTorch.cmake libtorch in the unpacked wheel.
include(Packages)
pkg_check_modules(libdw REQUIRED IMPORTED_TARGET libdw)           # native stacks of stuck ranks
pkg_check_modules(openmpi IMPORTED_TARGET ompi-c)                   # optional: training.ddp_backend: mpi
pkg_check_modules(libcurl IMPORTED_TARGET libcurl)                   # optional: logging.report_to: [mlflow]

find_file(TRAINER_CHART_LIBRARY chart.min.js PATHS /usr/share/javascript/chart.js NO_DEFAULT_PATH) # for report.html

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache caches the precompiled torch header only with this sloppiness. Without the folders in the hash, all checkouts
  # and build folders share their compiled files.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
find_program(MOLD mold)
if(MOLD)
  # Segments in pages of their own: mold 1.10 (Debian 12) may otherwise begin the read-only part of the data before its
  # first page, and such a program doesn't start ("cannot apply additional memory protection after relocation").
  add_link_options(-fuse-ld=mold -Wl,-z,separate-loadable-segments)
endif()

# The flags are the same everywhere: GCC only accepts the precompiled header under the flags it was made with. (-fPIC is
# one of them, even for programs.) The last options let GCC vectorize plain loops; none of them reorders sums.
add_library(trainer_flags INTERFACE)
target_compile_options(trainer_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wno-unused-parameter -Wno-missing-field-initializers
  -fPIC -fopenmp-simd -fno-math-errno -fno-trapping-math)

# An overflown buffer ends the process, and the tables of addresses can't be overwritten. No arithmetic changes. Checked by
# tools/check_hardening.py.
target_compile_options(trainer_flags INTERFACE -fstack-protector-strong -fstack-clash-protection
  $<$<CONFIG:RelWithDebInfo,Release>:-U_FORTIFY_SOURCE> $<$<CONFIG:RelWithDebInfo,Release>:-D_FORTIFY_SOURCE=3>)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_compile_options(trainer_flags INTERFACE -fcf-protection)
endif()
target_link_options(trainer_flags INTERFACE -Wl,-z,relro,-z,now)

# For code that is no part of a training step: files compile faster by a quarter if they use torch, by half otherwise.
function(trainer_compile_fast name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo,Release>:-O1>)
endfunction()

include(LibTorch)
