#include "models/encoder_cache.h"

#include <memory>
#include <utility>
#include <vector>

#include <ATen/ops/cat.h>

namespace trainer::models {

nn::Rows EncoderCache::rows_of(const nn::Rows& ids, const Encode& encode) {
  const at::Tensor all = ids.x.contiguous();
  std::vector<at::Tensor> parts;
  for (size_t i = 0; i < ids.layout->spans.size(); ++i) {
    const nn::Span& span = ids.layout->spans[i];
    if (span.length == 0) continue;
    parts.push_back(encoded(all.narrow(0, span.begin, span.length), ids.layout->sample_index[i], encode));
  }
  return parts.empty() ? encode(ids) : ids.with(at::cat(parts));
}

at::Tensor EncoderCache::encoded(const at::Tensor& ids, int64_t sample_index, const Encode& encode) {
  std::string key(static_cast<const char*>(ids.const_data_ptr()), ids.nbytes());
  if (const auto found = outputs_.find(key); found != outputs_.end()) return found->second;
  auto alone = std::make_shared<nn::Layout>();
  alone->append(ids.numel(), sample_index);
  const at::Tensor output = encode({ids, std::move(alone)}).x;
  const auto bytes = static_cast<int64_t>(output.nbytes() + key.size());
  if (held_ + bytes <= bytes_) {
    held_ += bytes;
    outputs_.emplace(std::move(key), output);
  }
  return output;
}

}  // namespace trainer::models
