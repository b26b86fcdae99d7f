# Run by ctest, with `name`, `program`, `list` and `properties` set: adds one test per suite of a GoogleTest program.
if(NOT EXISTS "${program}")
  add_test("${name}" "${program}") # fails, and says that it isn't built
  return()
endif()
if(NOT EXISTS "${list}" OR "${program}" IS_NEWER_THAN "${list}")
  execute_process(COMMAND "${program}" --gtest_list_tests OUTPUT_VARIABLE cases RESULT_VARIABLE failed)
  if(failed)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${failed}")
  endif()
  file(WRITE "${list}" "${cases}")
endif()
file(STRINGS "${list}" suites REGEX "^[^ ]+\\.( *#.*)?$") # not googletest's first line, a sentence
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "\\..*" "" suite "${suite}")
  add_test("${name}.${suite}" "${program}" "--gtest_filter=${suite}.*")
  set_tests_properties("${name}.${suite}" PROPERTIES ${properties})
endforeach()
