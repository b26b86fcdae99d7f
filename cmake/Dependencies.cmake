# External libraries: Debian's by find_package or pkg-config, libtorch from the unpacked wheel by LibTorch.cmake.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(sentencepiece REQUIRED IMPORTED_TARGET sentencepiece)
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)       # the regular expressions of tokenizer.json
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)   # Unicode normalisation
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)       # names of prepared data
pkg_check_modules(libdw REQUIRED IMPORTED_TARGET libdw)           # the stack of a rank that stands still
find_package(ZLIB REQUIRED)
pkg_check_modules(openmpi IMPORTED_TARGET ompi-c)                   # optional: training.ddp_backend: mpi
find_package(OpenSSL REQUIRED COMPONENTS Crypto)                   # what machines prove to each other
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp) # yaml-cpp before 0.8
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The precompiled torch header needs the sloppiness to be cached at all. Without the folders in the hash, every
  # checkout and build folder finds what another one compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
      CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  add_compile_options(-fpch-preprocess)
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

# The same flags everywhere: the precompiled header is only accepted under the flags it was made with. (-fPIC,
# also for programs, is one of them.) The last options let plain loops become vector code; none of them reorders sums.
add_library(trainer_flags INTERFACE)
target_compile_options(trainer_flags INTERFACE
  -Wall -Wextra -Wpedantic -Wno-unused-parameter -Wno-missing-field-initializers
  -fPIC -fopenmp-simd -fno-math-errno -fno-trapping-math)

include(LibTorch)
