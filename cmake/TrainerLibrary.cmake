# Files of a folder are compiled eight at a time (a unity build): most of the time of a file of ours goes into the headers
# it includes. So a name in a nameless namespace stands once in a folder.
option(TRAINER_UNITY "Compile several files of a folder at once" ON)
set(unity_properties UNITY_BUILD ${TRAINER_UNITY} UNITY_BUILD_BATCH_SIZE 8)

# trainer_library(NAME SOURCES a.cpp … [DEPENDS layer …] [LIBRARIES external …] [TORCH])
# One static library per folder. DEPENDS names the layers below it. It is the only place that states the dependencies
# between layers (tools/check_layers.py checks every #include against it).
function(trainer_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(${name} STATIC ${ARG_SOURCES})
  set_target_properties(${name} PROPERTIES ${unity_properties})
  target_include_directories(${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PUBLIC ${ARG_DEPENDS} ${ARG_LIBRARIES} fmt::fmt PRIVATE trainer_flags)
  if(ARG_TORCH)
    target_link_libraries(${name} PUBLIC torch_cpu)
    target_precompile_headers(${name} REUSE_FROM torch_pch)
  endif()
endfunction()

# trainer_test(NAME SOURCES a_test.cpp … DEPENDS layer … [TORCH] [EACH_FILE_ALONE])
function(trainer_test name)
  cmake_parse_arguments(ARG "TORCH;EACH_FILE_ALONE" "PREFIX" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  if(NOT ARG_EACH_FILE_ALONE)
    set_target_properties(${name} PROPERTIES ${unity_properties})
  endif()
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} ${ARG_LIBRARIES} GTest::gtest_main trainer_flags)
  target_compile_definitions(${name} PRIVATE TRAINER_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(ARG_TORCH)
    target_link_libraries(${name} PRIVATE torch_cpu)
    target_precompile_headers(${name} REUSE_FROM torch_pch)
  endif()
  gtest_discover_tests(${name} TEST_PREFIX "${ARG_PREFIX}" DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 
    PROPERTIES TIMEOUT 300 ENVIRONMENT OMP_NUM_THREADS=1)
endfunction()
