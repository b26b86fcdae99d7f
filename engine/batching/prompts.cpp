#include "engine/batching/prompts.h"

#include <algorithm>

namespace trainer::batching {

int64_t prompt_length(const data::Sample& sample) {
  auto at = static_cast<int64_t>(sample.labels.size()) - 1;
  while (at >= 0 && sample.labels[static_cast<size_t>(at)] == -100) --at;  // skip what follows the reply
  while (at > 0 && sample.labels[static_cast<size_t>(at - 1)] != -100) --at;
  return std::max<int64_t>(at, 0) + 1;  // the token before the first learned one is part of the prompt
}

void Prompts::read(int64_t index, data::Sample& sample) const {
  samples_.read(index, sample);
  sample.source.resize(static_cast<size_t>(prompt_length(sample)));
  sample.labels.assign(sample.source.size(), -100);
  sample.parts.clear();
}

data::Lengths Prompts::lengths(int64_t index) const {
  data::Sample sample;
  samples_.read(index, sample);
  const int64_t length = prompt_length(sample);
  return {length, length, 0};
}

}  // namespace trainer::batching
