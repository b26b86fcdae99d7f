# The files of a folder are compiled together, up to 24 at a time (a unity build), because most of a file's time goes into
# headers and templates that the others use as well: 25 files of engine/parallel take 32 s, one of them 6 s. A name in a
# nameless namespace must therefore be unique in its library.
option(TRAINER_UNITY "Compile the files of a folder together; OFF: an edited file compiles faster" ON)
function(trainer_unity name)
  get_target_property(sources ${name} SOURCES)
  list(LENGTH sources files)
  math(EXPR units "(${files} + 23) / 24")
  math(EXPR files "(${files} + ${units} - 1) / ${units}")
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${TRAINER_UNITY} UNITY_BUILD_BATCH_SIZE ${files})
endfunction()

# Twice as fast to compile: for code that is no part of a training step. Not for files that use torch: GCC's precompiled
# header wants the flags it was made with.
function(trainer_compile_fast name)
  target_compile_options(${name} PRIVATE $<$<CONFIG:RelWithDebInfo,Release>:-O1>)
endfunction()

# trainer_library(NAME SOURCES a.cpp … [DEPENDS layer …] [LIBRARIES external …] [TORCH] [COMPILE_FAST])
# One static library per folder. DEPENDS names the layers below it. It is the only place that states the dependencies
# between layers (tools/check_layers.py checks every #include against it).
function(trainer_library name)
  cmake_parse_arguments(ARG "TORCH;COMPILE_FAST" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  if(ARG_COMPILE_FAST)
    trainer_compile_fast(${name})
  endif()
  trainer_unity(${name})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES} fmt::fmt PRIVATE trainer_flags)
  if(ARG_TORCH)
    target_link_libraries(${name} PUBLIC torch_cpu)
    target_precompile_headers(${name} REUSE_FROM torch_pch)
  endif()
endfunction()

# trainer_test(NAME SOURCES a_test.cpp … DEPENDS layer … [TORCH] [EACH_CASE] [EACH_FILE])
# ctest runs every case by itself, but a whole suite at once if the program uses torch, whose start takes half a second.
# EACH_CASE: by itself all the same, for cases that take long. EACH_FILE: files are compiled by themselves, because each
# has its own helpers by the same names.
function(trainer_test name)
  cmake_parse_arguments(ARG "TORCH;EACH_CASE;EACH_FILE" "PREFIX" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(NOT ARG_EACH_FILE)
    trainer_unity(${name})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} ${ARG_LIBRARIES} source_dir GTest::gtest_main trainer_flags)
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE torch_cpu)
    target_precompile_headers(${name} REUSE_FROM torch_pch)
  else()
    trainer_compile_fast(${name})
  endif()
  if(ARG_TORCH AND NOT ARG_EACH_CASE)
    set(include "${CMAKE_CURRENT_BINARY_DIR}/${name}_suites.cmake")
    file(GENERATE OUTPUT "${include}" CONTENT "set(name ${name})
set(program \"$<TARGET_FILE:${name}>\")
set(list \"${CMAKE_CURRENT_BINARY_DIR}/${name}_cases.txt\")
set(properties TIMEOUT 600 ENVIRONMENT OMP_NUM_THREADS=1)
include(\"${PROJECT_SOURCE_DIR}/cmake/DiscoverSuites.cmake\")
")
    set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES "${include}")
  else()
    gtest_discover_tests(${name} TEST_PREFIX "${ARG_PREFIX}" NO_PRETTY_VALUES DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
      PROPERTIES TIMEOUT 300 ENVIRONMENT OMP_NUM_THREADS=1)
  endif()
endfunction()
