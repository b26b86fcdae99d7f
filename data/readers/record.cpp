#include "data/readers/record.h"

#include <fmt/format.h>

namespace trainer::data {

const std::string* Record::find(std::string_view column) const {
  for (const auto& [name, text] : fields) {
    if (name == column) return &text;
  }
  return nullptr;
}

bool Record::is_json(std::string_view column) const {
  for (size_t i = 0; i < json.size(); ++i) {
    if (json[i] && fields[i].first == column) return true;
  }
  return false;
}

std::string Record::where() const {
  return file.empty() ? "the prompt" : fmt::format("{}:{}", file, line);
}

void Record::clear() {
  fields.clear();
  json.clear();
}

}  // namespace trainer::data
