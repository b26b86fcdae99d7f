#pragma once

#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace trainer::worker {

/// What a command reports on standard output: lines, or one JSON object for scripts.
class Output {
 public:
  explicit Output(bool json) : json_(json) {}

  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) const {
    if (!json_) fmt::print("{}\n", fmt::format(format, std::forward<Args>(args)...));
  }
  /// A member of the object.
  template <class Value>
  void fact(const char* name, const Value& value) {
    facts_[name] = value;
  }
  void finish() const {
    using Json = nlohmann::ordered_json;
    if (json_) fmt::print("{}\n", facts_.dump(1, ' ', false, Json::error_handler_t::replace));
  }

 private:
  bool json_;
  nlohmann::ordered_json facts_ = nlohmann::ordered_json::object();
};

}  // namespace trainer::worker
