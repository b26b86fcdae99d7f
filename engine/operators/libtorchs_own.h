// libtorch's own definitions of the functions that lazy_registration.cpp defines as well.
#pragma once

#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

namespace trainer::operators {

using Tags = std::vector<at::Tag>;

/// Ends the program. Most calls come before its main(), which could report an error.
[[noreturn]] inline void fail(const char* what, const std::string& which) {
  std::fprintf(stderr, "trainer: %s %s. Use the libtorch that trainer was built with.\n", what, which.c_str());
  std::abort();
}

namespace own {

template <typename Function>
Function find(const char* mangled) {
  void* const found = dlsym(RTLD_NEXT, mangled);
  if (found == nullptr) fail("this libtorch has no", mangled);
  return reinterpret_cast<Function>(found);
}

inline void define(torch::Library& library, c10::FunctionSchema&& schema, c10::OperatorName* name, const Tags& tags,
                   torch::_RegisterOrVerify mode) {
  static const auto function = find<torch::Library& (*)(torch::Library*, c10::FunctionSchema&&, c10::OperatorName*,
                                                        const Tags&, torch::_RegisterOrVerify)>(
      "_ZNR5torch7Library4_defEON3c1014FunctionSchemaEPNS1_12OperatorNameERKSt6vectorIN2at3TagESaIS8_EENS_"
      "17_RegisterOrVerifyE");
  function(&library, std::move(schema), name, tags, mode);
}

inline void implement(torch::Library& library, const char* name, torch::CppFunction&& kernel,
                      torch::_RegisterOrVerify mode) {
  static const auto function =
      find<torch::Library& (*)(torch::Library*, const char*, torch::CppFunction&&, torch::_RegisterOrVerify)>(
          "_ZNR5torch7Library5_implEPKcONS_11CppFunctionENS_17_RegisterOrVerifyE");
  function(&library, name, std::move(kernel), mode);
}

inline c10::FunctionSchema parse(const std::string& text, bool type_variables) {
  static const auto function = find<c10::FunctionSchema (*)(const std::string&, bool)>(
      "_ZN5torch3jit11parseSchemaERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEb");
  return function(text, type_variables);
}

inline std::optional<c10::OperatorHandle> find_schema(c10::Dispatcher& dispatcher, const c10::OperatorName& name) {
  static const auto function = find<std::optional<c10::OperatorHandle> (*)(c10::Dispatcher*, const c10::OperatorName&)>(
      "_ZN3c1010Dispatcher10findSchemaERKNS_12OperatorNameE");
  return function(&dispatcher, name);
}

inline c10::OperatorHandle find_schema_or_throw(c10::Dispatcher& dispatcher, const char* name, const char* overload) {
  static const auto function = find<c10::OperatorHandle (*)(c10::Dispatcher*, const char*, const char*)>(
      "_ZN3c1010Dispatcher17findSchemaOrThrowEPKcS2_");
  return function(&dispatcher, name, overload);
}

}  // namespace own
}  // namespace trainer::operators
