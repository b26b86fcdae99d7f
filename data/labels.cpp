#include "data/labels.h"

#include <algorithm>
#include <set>

#include <fmt/ranges.h>

#include "engine/base/edit_distance.h"
#include "engine/base/errors.h"

namespace trainer::data {
namespace {

std::set<std::string> labels_in(const std::vector<const TokenStore*>& stores) {
  std::set<std::string> found;
  for (const TokenStore* store : stores)
    for (const StoredLabel& label : store->facts().labels) found.insert(label.text);
  return found;
}

/// "LABEL_0", "LABEL_1", …: what transformers writes where nobody gave names.
bool are_placeholders(const std::vector<std::string>& labels) {
  for (size_t i = 0; i < labels.size(); ++i)
    if (labels[i] != fmt::format("LABEL_{}", i)) return false;
  return true;
}

}  // namespace

std::vector<std::string> choose_labels(const std::vector<std::string>& configured,
                                       const std::vector<std::string>& of_model,
                                       const std::vector<const TokenStore*>& stores) {
  if (!configured.empty()) return configured;
  if (!of_model.empty() && !are_placeholders(of_model)) return of_model;
  const std::set<std::string> found = labels_in(stores);
  return {found.begin(), found.end()};
}

std::vector<int32_t> class_numbers(const std::vector<std::string>& labels, const TokenStore& store) {
  std::vector<int32_t> numbers;
  for (const StoredLabel& label : store.facts().labels) {
    const auto found = std::find(labels.begin(), labels.end(), label.text);
    if (found == labels.end())
      throw InputError("{}: the label '{}' is none of the classes: {}{}.", label.first, label.text,
                       fmt::join(labels, ", "), did_you_mean(label.text, labels));
    numbers.push_back(static_cast<int32_t>(found - labels.begin()));
  }
  return numbers;
}

std::string missing_labels(const std::vector<std::string>& labels, const TokenStore& store) {
  std::vector<std::string> missing;
  for (const std::string& label : labels)
    if (std::none_of(store.facts().labels.begin(), store.facts().labels.end(),
                     [&](const StoredLabel& stored) { return stored.text == label; }))
      missing.push_back(label);
  if (missing.empty()) return "";
  return fmt::format("no sample has the label {}: the model can't learn it", fmt::join(missing, " or "));
}

}  // namespace trainer::data
