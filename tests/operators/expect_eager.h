// Compares this program's operators with those of eager_operators.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tests/operators/describe_operator.h"

namespace trainer {

/// The output of `command`, split at nulls.
inline std::vector<std::string> fields_of(const std::string& command) {
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::vector<std::string> fields(1);
  for (int c; (c = std::fgetc(pipe.get())) != EOF;)
    if (c != 0)
      fields.back() += static_cast<char>(c);
    else
      fields.emplace_back();
  return fields;
}

/// Looks all operators up that the program `eager` has.
inline void expect_eager_operators(const std::string& eager) {
  const auto fields = fields_of(eager);
  ASSERT_GT(fields.size(), 3 * 3000u);
  int different = 0;
  for (size_t i = 0; i + 2 < fields.size(); i += 3) {
    const c10::OperatorName name{fields[i], fields[i + 1]};
    c10::Dispatcher::singleton().findSchema(name);  // finds none if there are only kernels
    const auto found = c10::Dispatcher::singleton().findOp(name);
    const std::string lazy = found ? describe_operator(*found) : "no such operator";
    if (lazy != fields[i + 2] && ++different <= 3)
      ADD_FAILURE() << name << "\n" << lazy.substr(0, 3000) << "\ninstead of\n" << fields[i + 2].substr(0, 3000);
  }
  EXPECT_EQ(different, 0) << "of " << fields.size() / 3;
}

}  // namespace trainer
