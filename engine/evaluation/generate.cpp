#include "engine/evaluation/generate.h"

#include <algorithm>

#include <ATen/ops/zeros_like.h>

#include "models/virtual_tokens.h"

namespace trainer::evaluation {
namespace {

/// Whether `token` ends a text.
bool ends(const models::Model& model, int64_t token) {
  const std::vector<int64_t> ends = model.end_tokens();
  return std::find(ends.begin(), ends.end(), token) != ends.end();
}

/// Collective over the ranks of a replica. The next token [samples] after `tokens` [samples] of each sample, sampled as
/// generated token number `step`.
at::Tensor next_of(parallel::ParallelModel& model, const at::Tensor& tokens, const nn::Layout& samples,
                   const Sampling& sampling, int64_t step, nn::Pass& pass) {
  const at::Tensor logits = model.decode(tokens, pass);
  const at::Tensor next = logits.defined()
                              ? next_tokens(model.model().all_logits(logits), sampling, samples.sample_index, step)
                              : at::zeros_like(tokens);
  model.broadcast_from_last_stage(next);
  return next;
}

/// The texts generated so far.
struct Texts {
  std::vector<std::vector<int64_t>> tokens;
  std::vector<bool> ended;

  explicit Texts(size_t samples) : tokens(samples), ended(samples, false) {}

  /// Appends one token to each text that hasn't ended. Returns whether any continues. A dry run generates one token.
  bool append(const models::Model& model, const at::Tensor& next) {
    bool going = false;
    for (size_t s = 0; s < tokens.size() && !next.is_meta(); ++s) {
      const int64_t token = next.const_data_ptr<int64_t>()[s];
      if (ends(model, token)) ended[s] = true;
      if (!ended[s]) tokens[s].push_back(token);
      going = going || !ended[s];
    }
    return going;
  }
};

}  // namespace

std::vector<std::vector<int64_t>> generate(parallel::ParallelModel& model, const models::Batch& batch,
                                           int64_t max_new_tokens, const nn::Pass& pass, const Sampling& sampling) {
  Texts texts(static_cast<size_t>(batch.source->samples()));
  nn::DecodeCache cache;
  cache.capacity = max_new_tokens;
  model.run_forward(pass, [&](nn::Pass& decoding) {
    const models::Batch prompts = models::with_virtual_tokens(batch, model.model().virtual_tokens());
    at::Tensor tokens = model.model().begin_decoding(prompts, decoding, cache);
    for (int64_t step = 0; step < max_new_tokens; ++step) {
      tokens = next_of(model, tokens, *batch.source, sampling, step, decoding);
      const bool going = texts.append(model.model(), tokens);
      if (model.comm().max(going ? 1 : 0) == 0) break;
    }
  });
  return std::move(texts.tokens);
}

}  // namespace trainer::evaluation
