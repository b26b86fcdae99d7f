# External libraries: Debian's through find_package or pkg-config; LibTorch.cmake adds libtorch from the unpacked wheel.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)       # regular expressions in tokenizer.json and of adapters
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)   # Unicode normalization
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)       # file names of prepared data
pkg_check_modules(libdw REQUIRED IMPORTED_TARGET libdw)           # native stacks of stuck ranks
find_package(ZLIB REQUIRED)
pkg_check_modules(openmpi IMPORTED_TARGET ompi-c)                   # optional: training.ddp_backend: mpi
pkg_check_modules(libcurl IMPORTED_TARGET libcurl)                   # optional: logging.report_to: [mlflow]
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)               # authentication, signatures, and TLS between machines
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp) # yaml-cpp before 0.8
endif()

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
