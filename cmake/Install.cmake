# cmake --install build/release [--prefix DIR] [--component NAME]
#   programs: PREFIX/lib/trainer/bin with the programs and plug-ins, which find each other in that folder, and a link
#             PREFIX/bin/trainer; PREFIX/share/doc/trainer, and PREFIX/share/trainer with the examples; manual pages
#             in PREFIX/share/man/man1, and completions where bash, zsh and fish look for them
#   libtorch: PREFIX/lib/trainer/{torch,nvidia,pyarrow}, in the wheels' layout, through which the libraries find each other
#   development: find_package(trainer), for programs of one's own that add to it (docs/adding_a_model.md): PREFIX/include/trainer,
#             PREFIX/lib/trainer/development and PREFIX/lib/cmake/trainer
# The folder is relocatable: every library is found relative to the program. A Python package with `bin` uses the libtorch
# of the environment it is installed in (the second entry of the path).
set(trainer_rpath "$ORIGIN/../torch/lib:$ORIGIN/../../torch/lib:$ORIGIN/../lib:$ORIGIN/../pyarrow:$ORIGIN/../../pyarrow")
set(programs trainer trainer-prepare trainer-worker)
if(TARGET trainer-tracker)
  list(APPEND programs trainer-tracker)
endif()
set(plugins)
foreach(name IN ITEMS trainer_arrow trainer_mpi trainer_cuda)
  if(TARGET ${name})
    list(APPEND plugins ${name})
  endif()
endforeach()
set_target_properties(${programs} ${plugins} PROPERTIES INSTALL_RPATH "${trainer_rpath}")

install(TARGETS ${programs} RUNTIME DESTINATION lib/trainer/bin COMPONENT programs)
if(plugins)
  install(TARGETS ${plugins} LIBRARY DESTINATION lib/trainer/bin COMPONENT programs)
endif()
install(CODE [[
  file(MAKE_DIRECTORY "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin")
  file(CREATE_LINK ../lib/trainer/bin/trainer "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/bin/trainer" SYMBOLIC)
]] COMPONENT programs)
# The program itself writes them, so that they fit it.
install(CODE "set(trainer \"${CMAKE_BINARY_DIR}/bin/trainer\")" COMPONENT programs)
install(CODE [[
  set(share "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/share")
  execute_process(COMMAND "${trainer}" man --all "${share}/man/man1" COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
  foreach(place IN ITEMS "bash:bash-completion/completions/trainer" "zsh:zsh/site-functions/_trainer"
                         "fish:fish/vendor_completions.d/trainer.fish")
    string(REGEX MATCH "^[a-z]+" shell "${place}")
    string(REGEX REPLACE "^[a-z]+:" "${share}/" file "${place}")
    cmake_path(GET file PARENT_PATH folder)
    file(MAKE_DIRECTORY "${folder}")
    execute_process(COMMAND "${trainer}" completion ${shell} OUTPUT_FILE "${file}" COMMAND_ERROR_IS_FATAL ANY)
  endforeach()
]] COMPONENT programs)
file(GLOB wheel_licenses "${TRAINER_DEPS}/*.dist-info")
install(DIRECTORY ${wheel_licenses} DESTINATION share/doc/trainer/licenses COMPONENT libtorch)
install(FILES README.md DESTINATION share/doc/trainer COMPONENT programs)
install(DIRECTORY docs DESTINATION share/doc/trainer COMPONENT programs)
install(DIRECTORY configs DESTINATION share/trainer COMPONENT programs)
install(DIRECTORY data/examples DESTINATION share/trainer/data COMPONENT programs)

if(TARGET parquet)
  install(FILES ${arrow_libraries} ${parquet_libraries} DESTINATION lib/trainer/pyarrow COMPONENT libtorch)
  file(GLOB arrow_licenses "${TRAINER_DEPS}-arrow/*.dist-info")
  install(DIRECTORY ${arrow_licenses} DESTINATION share/doc/trainer/licenses COMPONENT libtorch)
endif()

# The CUDA libraries go into the same tree, in the layout of the wheels.
install(DIRECTORY "${TRAINER_DEPS}/torch/lib" DESTINATION lib/trainer/torch COMPONENT libtorch)
install(DIRECTORY "${TRAINER_DEPS}/nvidia" DESTINATION lib/trainer COMPONENT libtorch PATTERN include EXCLUDE)
if(TRAINER_CUDA)
  install(DIRECTORY "${cuda_root}/torch/lib" DESTINATION lib/trainer/torch COMPONENT libtorch)
  install(DIRECTORY "${cuda_root}/nvidia" DESTINATION lib/trainer COMPONENT libtorch PATTERN include EXCLUDE)
endif()

# trainer-worker as libraries: all that `worker` links.
set(waiting worker)
set(development trainer_flags)
while(waiting)
  list(POP_FRONT waiting library)
  if(TARGET ${library} AND NOT library IN_LIST development)
    get_target_property(is_imported ${library} IMPORTED)
    if(NOT is_imported)
      list(APPEND development ${library})
      get_target_property(linked ${library} INTERFACE_LINK_LIBRARIES)
      list(APPEND waiting ${linked})
    endif()
  endif()
endwhile()
install(TARGETS ${development} EXPORT trainer ARCHIVE DESTINATION lib/trainer/development COMPONENT development)
install(EXPORT trainer NAMESPACE trainer:: FILE trainer-targets.cmake DESTINATION lib/cmake/trainer COMPONENT development)
include(CMakePackageConfigHelpers)
configure_package_config_file(cmake/trainer-config.cmake.in "${CMAKE_BINARY_DIR}/trainer-config.cmake"
  INSTALL_DESTINATION lib/cmake/trainer)
write_basic_package_version_file("${CMAKE_BINARY_DIR}/trainer-config-version.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_BINARY_DIR}/trainer-config.cmake" "${CMAKE_BINARY_DIR}/trainer-config-version.cmake"
              cmake/Packages.cmake cmake/TorchTargets.cmake
        DESTINATION lib/cmake/trainer COMPONENT development)
# The public interface: what a model family is made of, how to add one and a metric, and the program. (library_test.py checks
# that these headers include no others.)
install(DIRECTORY models DESTINATION include/trainer COMPONENT development
        FILES_MATCHING PATTERN "*.h" PATTERN cuda EXCLUDE PATTERN reference EXCLUDE)
foreach(header IN ITEMS engine/base/errors.h engine/evaluation/predictions.h engine/evaluation/scores.h engine/worker/program.h)
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${header} DESTINATION include/trainer/${folder} COMPONENT development)
endforeach()
install(DIRECTORY tests/library_example DESTINATION share/trainer COMPONENT development)
