#include "data/readers/record.h"

#include <fmt/format.h>

namespace trainer::data {

const std::string* Record::find(std::string_view column) const {
  for (const auto& [name, text] : fields) {
    if (name == column) return &text;
  }
  return nullptr;
}

std::string Record::where() const {
  return fmt::format("{}:{}", file, line);
}

}  // namespace trainer::data
