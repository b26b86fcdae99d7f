#include "data/samples/labels.h"

#include <algorithm>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

std::set<std::string> labels_in(const std::vector<const TokenCache*>& stores) {
  std::set<std::string> found;
  for (const TokenCache* store : stores)
    for (const CachedLabel& label : store->facts().labels) found.insert(label.text);
  return found;
}

/// Digits with an optional sign.
bool is_integer(std::string_view text) {
  if (text.starts_with('-') || text.starts_with('+')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// Compares integers of any length by value; equal values ("7", "07") as text.
bool is_smaller_integer(const std::string& a, const std::string& b) {
  const auto parts = [](std::string_view text) {
    const bool negative = text.starts_with('-');
    text.remove_prefix(std::min(text.find_first_not_of("+-0"), text.size()));
    return std::pair(negative && !text.empty(), text);  // "-0" is 0
  };
  const auto [a_negative, a_digits] = parts(a);
  const auto [b_negative, b_digits] = parts(b);
  if (a_negative != b_negative) return a_negative;
  const std::pair a_size(a_digits.size(), a_digits), b_size(b_digits.size(), b_digits);
  if (a_size == b_size) return a < b;
  return a_negative ? b_size < a_size : a_size < b_size;
}

}  // namespace

bool are_placeholders(const std::vector<std::string>& labels) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != fmt::format("LABEL_{}", i)) return false;
  return true;
}

std::vector<std::string> choose_labels(const std::vector<std::string>& configured,
                                       const std::vector<std::string>& settled,
                                       const std::vector<const TokenCache*>& stores, LabelOrder order) {
  if (!configured.empty()) return configured;
  if (!settled.empty() && !are_placeholders(settled)) return settled;
  const std::set<std::string> found = labels_in(stores);
  std::vector<std::string> labels(found.begin(), found.end());
  if (order == LabelOrder::kIntegersAsNumbers && std::all_of(labels.begin(), labels.end(), is_integer))
    std::sort(labels.begin(), labels.end(), is_smaller_integer);
  return labels;
}

std::vector<int32_t> class_numbers(const std::vector<std::string>& labels, const TokenCache& store) {
  std::vector<int32_t> numbers;
  for (const CachedLabel& label : store.facts().labels) {
    const auto found = std::find(labels.begin(), labels.end(), label.text);
    if (found == labels.end())
      throw InputError("{}: the label '{}' is not one of the classes {}{}.", label.first, label.text,
                       fmt::join(labels, ", "), did_you_mean(label.text, labels));
    numbers.push_back(static_cast<int32_t>(found - labels.begin()));
  }
  return numbers;
}

std::string missing_labels(const std::vector<std::string>& labels, const TokenCache& store) {
  std::vector<std::string> missing;
  for (const std::string& label : labels)
    if (std::none_of(store.facts().labels.begin(), store.facts().labels.end(),
                     [&](const CachedLabel& stored) { return stored.text == label; }))
      missing.push_back(label);
  if (missing.empty()) return "";
  return fmt::format("no sample has the label {}: the model can't learn it", fmt::join(missing, " or "));
}

}  // namespace trainer::data
