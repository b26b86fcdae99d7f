// Whose file it is: by keys that no other program's files have.
#pragma once

#include <string>
#include <vector>

#include "engine/config/convert/convert.h"

namespace trainer::config {

struct Recognized {
  const Dialect* dialect;
  std::vector<std::string> by;  // the keys that told; empty: --from, or the keys of TrainingArguments
};

/// The dialect of `document`, which `file` holds. `from`: its name; "" recognizes it.
/// Errors: ConfigError if `from` is no name, or if the keys don't tell whose file it is.
Recognized recognized(const Node& document, const std::string& from, const std::string& file);

}  // namespace trainer::config
