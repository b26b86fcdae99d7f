#include "engine/evaluation/generate.h"

#include <algorithm>

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros_like.h>

#include "engine/base/errors.h"

#include "models/nn/cpu_products.h"
#include "models/virtual_tokens.h"

namespace trainer::evaluation {
namespace {

/// The texts generated so far.
class Texts {
 public:
  Texts(const models::Batch& batch, const models::Model& model, const Generation& options)
      : options_(options),
        ends_(options.end_tokens.empty() ? model.end_tokens() : options.end_tokens),
        tokens_(static_cast<size_t>(batch.source->samples())),
        ended_(tokens_.size(), false) {
    if (options.sampling.repetition_penalty == 1 || batch.source_ids.is_meta()) return;
    seen_.resize(tokens_.size());
    if (model.task() == models::Task::kCausalLm) read_prompts(batch);
  }

  /// Appends a token to each text that hasn't ended. Returns whether any continues. A dry run generates one token.
  bool append(const at::Tensor& next) {
    bool going = false;
    for (size_t s = 0; s < tokens_.size() && !next.is_meta(); ++s) {
      const int64_t token = next.const_data_ptr<int64_t>()[s];
      if (!ended_[s] && std::find(ends_.begin(), ends_.end(), token) != ends_.end()) ended_[s] = true;
      if (ended_[s]) continue;
      tokens_[s].push_back(token);
      if (!seen_.empty()) seen_[s].push_back(token);
      if (options_.proceeds && !options_.proceeds(s, token)) ended_[s] = true;
      going = going || !ended_[s];
    }
    return going;
  }

  /// The tokens that the repetition penalty is about: the prompt, where the model continues it, and the text.
  const std::vector<std::vector<int64_t>>& seen() const { return seen_; }
  /// Adds the token that decoding begins with, if it isn't the prompt's last one.
  void begin(const at::Tensor& first, const models::Model& model) {
    if (seen_.empty() || model.task() == models::Task::kCausalLm) return;
    for (size_t s = 0; s < seen_.size(); ++s) seen_[s].push_back(first[static_cast<int64_t>(s)].item<int64_t>());
  }
  std::vector<std::vector<int64_t>> take() { return std::move(tokens_); }

 private:
  void read_prompts(const models::Batch& batch) {
    const at::Tensor ids = batch.source_ids.to(at::kCPU).contiguous();
    for (size_t s = 0; s < seen_.size(); ++s) {
      const nn::Span span = batch.source->spans[s];
      const int64_t* const first = ids.const_data_ptr<int64_t>() + span.begin;
      seen_[s].assign(first, first + span.length);
    }
  }

  const Generation& options_;
  std::vector<int64_t> ends_;
  std::vector<std::vector<int64_t>> tokens_, seen_;
  std::vector<bool> ended_;
};

/// Collective over the ranks of a replica. The next token [samples] after `tokens` [samples] of each sample, sampled as
/// generated token number `step`.
at::Tensor next_of(parallel::ParallelModel& model, const at::Tensor& tokens, const nn::Layout& samples,
                   const Sampling& sampling, const Texts& texts, int64_t step, nn::Pass& pass) {
  const at::Tensor logits = model.decode(tokens, pass);
  const at::Tensor next = logits.defined() ? next_tokens(model.model().all_logits(logits), sampling,
                                                         samples.sample_index, step, texts.seen())
                                           : at::zeros_like(tokens);
  model.broadcast_from_last_stage(next);
  return next;
}

/// Each sample's source `count` times in a row.
models::Batch repeated(const models::Batch& batch, int64_t count) {
  auto layout = std::make_shared<nn::Layout>();
  std::vector<at::Tensor> ids;
  for (int64_t s = 0; s < batch.source->samples(); ++s) {
    const nn::Span span = batch.source->spans[static_cast<size_t>(s)];
    for (int64_t i = 0; i < count; ++i) {
      layout->append(span.length, batch.source->sample_index[static_cast<size_t>(s)]);
      ids.push_back(batch.source_ids.narrow(0, span.begin, span.length));
    }
  }
  return {.source_ids = ids.empty() ? batch.source_ids : at::cat(ids), .source = layout};
}

/// The cache of the texts that continue: number i is that of text parents[i] so far.
void reorder(nn::DecodeCache& cache, const std::vector<int64_t>& parents) {
  bool is_same = true;
  for (size_t i = 0; i < parents.size(); ++i) is_same = is_same && parents[i] == static_cast<int64_t>(i);
  if (is_same) return;
  const at::Tensor index = at::tensor(parents, at::kLong);
  for (nn::DecodeCache::Block& block : cache.blocks)
    for (at::Tensor* const kept : {&block.self_k, &block.self_v})
      if (kept->defined()) *kept = at::index_select(*kept, 0, index.to(kept->device()));
}

struct NextBeams {
  std::vector<int64_t> tokens, parents;  // of each beam: its new token, and the beam that it continues
  bool going = false;
};
/// Continues the beams of all `searches` by `logits`. `prompts`: of each beam, for the repetition penalty.
NextBeams advance(std::vector<BeamSearch>& searches, const at::Tensor& logits, const Generation& options,
                  const Texts& prompts) {
  const int64_t count = options.beams.count, vocabulary = logits.size(1);
  const double penalty = options.sampling.repetition_penalty;
  const at::Tensor scores = at::log_softmax(logits.to(at::kCPU, at::kFloat), -1).contiguous();
  NextBeams next;
  for (size_t s = 0; s < searches.size(); ++s) {
    BeamSearch& one = searches[s];
    const int64_t first = static_cast<int64_t>(s) * count;
    float* const rows = scores.data_ptr<float>() + first * vocabulary;
    for (int64_t beam = 0; beam < count && penalty != 1; ++beam) {
      std::vector<int64_t> seen = prompts.seen().at(static_cast<size_t>(first + beam));
      seen.insert(seen.end(), one.tokens(beam).begin(), one.tokens(beam).end());
      penalize(rows + beam * vocabulary, seen, penalty);
    }
    for (const BeamSearch::Step& step : one.advance(rows, vocabulary)) {
      next.parents.push_back(first + step.beam);
      next.tokens.push_back(step.token);
    }
    next.going = next.going || !one.is_done();
  }
  return next;
}

/// As generate(), for several beams.
std::vector<std::vector<int64_t>> search(parallel::ParallelModel& model, const models::Batch& batch,
                                         const nn::Pass& pass, const Generation& options) {
  const BeamSearch fresh(options.beams, options.end_tokens.empty() ? model.model().end_tokens() : options.end_tokens,
                         options.max_new_tokens);
  std::vector<BeamSearch> searches(static_cast<size_t>(batch.source->samples()), fresh);
  const models::Batch each = repeated(batch, options.beams.count);
  Texts prompts(each, model.model(), options);
  nn::DecodeCache cache;
  cache.capacity = options.max_new_tokens;
  model.run_forward(pass, [&](nn::Pass& decoding) {
    at::Tensor tokens = model.model().begin_decoding(
        models::with_virtual_tokens(each, model.model().virtual_tokens()), decoding, cache);
    prompts.begin(tokens, model.model());
    for (bool going = options.max_new_tokens > 0; going;) {
      const at::Tensor logits = model.decode(tokens, decoding);
      require(logits.defined(), "beam search on a stage of a pipeline");
      const NextBeams next = advance(searches, model.model().all_logits(logits), options, prompts);
      reorder(cache, next.parents);
      tokens = at::tensor(next.tokens, at::kLong).to(tokens.device());
      going = model.comm().max(next.going ? 1 : 0) > 0;
    }
  });
  std::vector<std::vector<int64_t>> texts;
  for (const BeamSearch& one : searches)
    for (BeamSearch::Text& text : one.best()) {
      texts.push_back(std::move(text.tokens));
      if (options.scores != nullptr) options.scores->push_back(text.score);
    }
  return texts;
}

}  // namespace

std::vector<std::vector<int64_t>> generate(parallel::ParallelModel& model, const models::Batch& batch,
                                           const nn::Pass& pass, const Generation& options) {
  const nn::FewRowsByLibtorch few_rows;
  if (options.beams.count > 1) return search(model, batch, pass, options);
  Texts texts(batch, model.model(), options);
  nn::DecodeCache cache;
  cache.capacity = options.max_new_tokens;
  model.run_forward(pass, [&](nn::Pass& decoding) {
    const models::Batch prompts = models::with_virtual_tokens(batch, model.model().virtual_tokens());
    at::Tensor tokens = model.model().begin_decoding(prompts, decoding, cache);
    texts.begin(tokens, model.model());
    for (int64_t step = 0; step < options.max_new_tokens; ++step) {
      tokens = next_of(model, tokens, *batch.source, options.sampling, texts, step, decoding);
      if (model.comm().max(texts.append(tokens) ? 1 : 0) == 0) break;
    }
  });
  return texts.take();
}

}  // namespace trainer::evaluation
