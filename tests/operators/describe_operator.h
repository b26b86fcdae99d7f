// All that libtorch knows of an operator, as text.
#pragma once

#include <sstream>
#include <string>

#include <ATen/core/dispatch/Dispatcher.h>

namespace trainer {

/// Its schema, its kernels in their order, and the table that calls use. Without the schemas that libtorch infers from
/// the types of kernels, which are only compared when they are registered.
inline std::string describe_operator(const c10::OperatorHandle& op) {
  std::ostringstream text;
  if (op.hasSchema()) text << op.schema() << " aliases " << static_cast<int>(op.schema().aliasAnalysis()) << '\n';
  std::istringstream kernels(op.dumpState());
  for (std::string line; std::getline(kernels, line);) {
    const auto inferred = line.find(" :: "), flags = line.rfind(" [");
    if (inferred != line.npos && flags != line.npos && inferred < flags) line.erase(inferred, flags - inferred);
    text << line << '\n';
  }
  for (const auto tag : op.getTags()) text << "tag " << static_cast<int>(tag) << '\n';
  text << op.dumpComputedTable();
  return text.str();
}

}  // namespace trainer
