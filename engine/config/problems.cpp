#include "engine/config/problems.h"

#include <algorithm>

#include "engine/base/errors.h"

namespace trainer::config {

void Problems::add(const Mark& mark, const std::string& path, const std::string& message) {
  found_.push_back({mark, message});
  paths_.insert(path);
}

bool Problems::about(const std::string& path) const {
  auto it = paths_.lower_bound(path);
  return it != paths_.end() && (*it == path || it->starts_with(path + "."));
}

std::string Problems::text() const {
  std::vector<std::string> sources;  // in the order of their first problem
  auto source_of = [](const Mark& mark) { return mark.source ? *mark.source : ""; };
  auto order_of = [&](const Mark& mark) {
    return std::find(sources.begin(), sources.end(), source_of(mark)) - sources.begin();
  };
  std::vector<const Problem*> sorted;
  for (const Problem& problem : found_) {
    if (order_of(problem.mark) == static_cast<long>(sources.size())) sources.push_back(source_of(problem.mark));
    sorted.push_back(&problem);
  }
  auto position = [&](const Problem* p) { return std::tuple(order_of(p->mark), p->mark.line, p->mark.column); };
  std::stable_sort(sorted.begin(), sorted.end(), [&](auto* a, auto* b) { return position(a) < position(b); });
  constexpr std::size_t kMost = 50;
  std::string out;
  for (const Problem* problem : sorted) {
    if (!out.empty()) out += '\n';
    if (problem == sorted[std::min(kMost, sorted.size() - 1)] && sorted.size() > kMost + 1) {
      return out + fmt::format("… and {} more", sorted.size() - kMost);
    }
    out += problem->mark.source ? to_string(problem->mark) + ": " + problem->message : problem->message;
  }
  return out;
}

void Problems::throw_if_any() const {
  if (!empty()) throw ConfigError(text());
}

std::string shown(const std::string& text, std::size_t longest) {
  std::string out;
  for (const char c : text.substr(0, longest)) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  // Not in the middle of a UTF-8 sequence.
  if (text.size() > longest) {
    while (!out.empty() && (static_cast<unsigned char>(out.back()) & 0xC0) == 0x80) out.pop_back();
    if (!out.empty() && static_cast<unsigned char>(out.back()) >= 0xC0) out.pop_back();
    out += "…";
  }
  return out;
}

}  // namespace trainer::config
