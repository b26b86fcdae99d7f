#include "data/samples/labels.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

std::set<std::string> labels_in(const std::vector<Labels>& caches) {
  std::set<std::string> found;
  for (const Labels& labels : caches)
    for (const CachedLabel& label : labels) found.insert(label.text);
  return found;
}

/// The number of a class, as a dataset's file has it; nothing for other texts.
std::optional<size_t> class_number(const std::string& text, size_t classes) {
  const bool is_short = !text.empty() && text.size() <= 6 && text.find_first_not_of("0123456789") == std::string::npos;
  const size_t number = is_short ? std::stoul(text) : classes;
  return number < classes ? std::optional(number) : std::nullopt;
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
                                       const std::vector<std::string>& declared, const std::vector<Labels>& caches,
                                       LabelOrder order) {
  if (!configured.empty()) return configured;
  if (!settled.empty() && !are_placeholders(settled)) return settled;
  const std::set<std::string> found = labels_in(caches);
  std::vector<std::string> labels(found.begin(), found.end());
  const auto is_declared = [&](const std::string& label) {
    return is_integer(label) || std::find(declared.begin(), declared.end(), label) != declared.end();
  };
  if (!declared.empty() && std::all_of(labels.begin(), labels.end(), is_declared)) return declared;
  if (order == LabelOrder::kIntegersAsNumbers && std::all_of(labels.begin(), labels.end(), is_integer))
    std::sort(labels.begin(), labels.end(), is_smaller_integer);
  return labels;
}

Labels named_labels(Labels labels, const std::vector<std::string>& declared, const std::vector<std::string>& chosen) {
  const auto is_chosen = [&](const CachedLabel& label) {
    return std::find(chosen.begin(), chosen.end(), label.text) != chosen.end();
  };
  const auto is_number = [](const CachedLabel& label) { return is_integer(label.text); };
  const bool keeps = chosen != declared && std::all_of(labels.begin(), labels.end(), is_chosen);
  if (keeps || !std::all_of(labels.begin(), labels.end(), is_number)) return labels;
  for (CachedLabel& label : labels)
    if (const auto number = class_number(label.text, declared.size())) label.text = declared[*number];
  return labels;
}

std::vector<int32_t> class_numbers(const std::vector<std::string>& classes, const Labels& labels) {
  std::vector<int32_t> numbers;
  for (const CachedLabel& label : labels) {
    const auto found = std::find(classes.begin(), classes.end(), label.text);
    if (found == classes.end())
      throw InputError("{}: the label '{}' is not one of the classes {}{}.", label.first, label.text,
                       fmt::join(classes, ", "), did_you_mean(label.text, classes));
    numbers.push_back(static_cast<int32_t>(found - classes.begin()));
  }
  return numbers;
}

std::string missing_labels(const std::vector<std::string>& classes, const Labels& labels) {
  std::vector<std::string> missing;
  for (const std::string& name : classes)
    if (std::none_of(labels.begin(), labels.end(), [&](const CachedLabel& stored) { return stored.text == name; }))
      missing.push_back(name);
  if (missing.empty()) return "";
  return fmt::format("no sample has the label {}: the model can't learn it", fmt::join(missing, " or "));
}

}  // namespace trainer::data
