# The external libraries of trainer-worker but libtorch, through find_package or pkg-config. Also used by the installed
# package.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(CLI11 REQUIRED)
find_package(PkgConfig REQUIRED)
find_path(SENTENCEPIECE_INCLUDE sentencepiece_processor.h REQUIRED)
find_library(SENTENCEPIECE_LIBRARY sentencepiece REQUIRED)
find_library(SENTENCEPIECE_TRAIN_LIBRARY sentencepiece_train REQUIRED)
if(NOT TARGET sentencepiece::sentencepiece) # Debian 13's .pc file asks for protobuf's, which its package doesn't install
  add_library(sentencepiece::sentencepiece INTERFACE IMPORTED)
  set_target_properties(sentencepiece::sentencepiece PROPERTIES
    INTERFACE_INCLUDE_DIRECTORIES ${SENTENCEPIECE_INCLUDE}
    INTERFACE_LINK_LIBRARIES "${SENTENCEPIECE_LIBRARY};${SENTENCEPIECE_TRAIN_LIBRARY}")
endif()
pkg_check_modules(pcre2 REQUIRED IMPORTED_TARGET libpcre2-8)       # regular expressions in tokenizer.json and of adapters
pkg_check_modules(utf8proc REQUIRED IMPORTED_TARGET libutf8proc)   # Unicode normalization
pkg_check_modules(zstd REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(xxhash REQUIRED IMPORTED_TARGET libxxhash)       # file names of prepared data
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto SSL)               # authentication, signatures, and TLS between machines
if(NOT TARGET yaml-cpp::yaml-cpp)
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp) # yaml-cpp before 0.8
endif()
