#include <algorithm>

#include "data/chat/jinja/builtins.h"

namespace trainer::data::jinja {

std::optional<Value> Arguments::take(size_t place, std::string_view name) {
  taken_.resize(by_place_.size());
  if (place < by_place_.size()) {
    taken_[place] = true;
    return by_place_[place];
  }
  const auto found = std::find_if(by_name_.begin(), by_name_.end(), [&](const auto& a) { return a.first == name; });
  if (found == by_name_.end()) return {};
  Value value = found->second;
  by_name_.erase(found);
  return value;
}

std::optional<Value> Arguments::take_first() {
  if (by_place_.empty()) return {};
  Value value = by_place_.front();
  by_place_.erase(by_place_.begin());
  return value;
}

std::string Arguments::text(size_t place, std::string_view name, std::string fallback) {
  const auto given = take(place, name);
  if (!given) return fallback;
  if (!given->is<Text>()) throw BadOperation("`{}` is a {}, not a string", name, given->type());
  return given->text();
}

int64_t Arguments::whole(size_t place, std::string_view name, int64_t fallback) {
  const auto given = take(place, name);
  if (!given || given->is<None>()) return fallback;
  if (!given->is_whole()) throw BadOperation("`{}` is a {}, not an integer", name, given->type());
  return given->whole();
}

bool Arguments::flag(size_t place, std::string_view name, bool fallback) {
  const auto given = take(place, name);
  return given ? truth(*given) : fallback;
}

std::vector<Value> Arguments::placed_from(size_t place) {
  taken_.resize(by_place_.size());
  std::vector<Value> out;
  for (size_t i = place; i < by_place_.size(); ++i) {
    taken_[i] = true;
    out.push_back(by_place_[i]);
  }
  return out;
}

std::vector<std::pair<std::string, Value>> Arguments::named() {
  return std::exchange(by_name_, {});
}

void Arguments::finish() const {
  for (size_t i = 0; i < by_place_.size(); ++i)
    if (i >= taken_.size() || !taken_[i]) throw BadOperation("takes {} positional arguments, but more were given", i);
  if (!by_name_.empty()) throw BadOperation("unexpected keyword argument `{}`", by_name_.front().first);
}

}  // namespace trainer::data::jinja
