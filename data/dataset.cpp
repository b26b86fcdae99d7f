#include "data/dataset.h"

#include <algorithm>
#include <map>

#include "engine/base/errors.h"

namespace trainer::data {

Sample Dataset::sample(int64_t index) const {
  require(index >= 0 && index < size(), "sample {} of {}", index, size());
  auto view = [&](int64_t part) {
    int64_t begin = part == 0 ? 0 : ends_[part - 1];
    return std::span(tokens_).subspan(begin, ends_[part] - begin);
  };
  return {view(2 * index), view(2 * index + 1), records_[index]};
}

void Dataset::add(std::span<const int32_t> source, std::span<const int32_t> target, int64_t record, bool truncated) {
  for (auto part : {source, target}) {
    tokens_.insert(tokens_.end(), part.begin(), part.end());
    ends_.push_back(tokens());
  }
  records_.push_back(record);
  longest_source_ = std::max(longest_source_, static_cast<int64_t>(source.size()));
  longest_target_ = std::max(longest_target_, static_cast<int64_t>(target.size()));
  truncated_ += truncated ? 1 : 0;
}

void Dataset::keep_texts(std::string source, std::string target) {
  source_texts_.push_back(std::move(source));
  target_texts_.push_back(std::move(target));
  require(source_texts_.size() == records_.size(), "texts of {} of {} samples", source_texts_.size(), records_.size());
}

const std::string& Dataset::text(const std::vector<std::string>& texts, int64_t index) const {
  static const std::string kNone;
  return texts.empty() ? kNone : texts.at(static_cast<size_t>(index));
}

MajorityClass majority_class(const Dataset& dataset) {
  std::map<std::string, int64_t> counts;
  for (int64_t i = 0; i < dataset.size(); ++i) ++counts[dataset.target_text(i)];
  if (counts.empty()) return {};
  auto most = std::max_element(counts.begin(), counts.end(), [](auto& a, auto& b) { return a.second < b.second; });
  require(!most->first.empty(), "the labels of the samples were not kept");
  return {most->first, static_cast<double>(most->second) / static_cast<double>(dataset.size())};
}

}  // namespace trainer::data
