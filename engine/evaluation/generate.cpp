#include "engine/evaluation/generate.h"

#include <algorithm>
#include <iterator>

#include <ATen/ops/cat.h>
#include <ATen/ops/index_select.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "engine/base/errors.h"
#include "models/decoding.h"

namespace trainer::evaluation {
namespace {

/// The texts generated so far.
class Texts {
 public:
  Texts(int64_t samples, const models::Model& model, const Generation& options)
      : options_(options),
        ends_(options.end_tokens.empty() ? model.end_tokens() : options.end_tokens),
        tokens_(static_cast<size_t>(samples)),
        seen_(options.sampling.repetition_penalty == 1 ? 0 : tokens_.size()) {}

  /// Notes the tokens that precede the texts of new samples, which a repetition penalty is about too: the prompt, where
  /// the model continues it, or a start token.
  void begin(const models::Decoding& decoding) {
    if (seen_.empty() || decoding.tokens().is_meta()) return;
    const auto* const tokens = decoding.tokens().const_data_ptr<int64_t>();
    const std::vector<int64_t> samples = decoding.samples();
    for (size_t row = 0; row < samples.size(); ++row) {
      const nn::Span span = decoding.step().spans[row];
      std::vector<int64_t>& seen = seen_[static_cast<size_t>(samples[row])];
      if (seen.empty())
        std::copy_if(tokens + span.begin, tokens + span.begin + span.length, std::back_inserter(seen),
                     [](int64_t token) { return token >= 0; });  // not a virtual one
    }
  }
  /// Whether the text of sample `s` goes on after the token.
  bool append(int64_t sample, int64_t token) {
    const auto s = static_cast<size_t>(sample);
    if (std::find(ends_.begin(), ends_.end(), token) != ends_.end()) return false;
    tokens_[s].push_back(token);
    if (!seen_.empty()) seen_[s].push_back(token);
    const bool proceeds = !options_.proceeds || options_.proceeds(s, token);
    return proceeds && length(sample) < options_.max_new_tokens;
  }
  int64_t length(int64_t sample) const { return std::ssize(tokens_[static_cast<size_t>(sample)]); }
  /// The tokens that a repetition penalty is about; nothing without one.
  std::vector<std::vector<int64_t>> seen(const std::vector<int64_t>& samples) const {
    std::vector<std::vector<int64_t>> seen;
    for (size_t row = 0; !seen_.empty() && row < samples.size(); ++row)
      seen.push_back(seen_[static_cast<size_t>(samples[row])]);
    return seen;
  }
  std::vector<std::vector<int64_t>> take() { return std::move(tokens_); }

 private:
  const Generation& options_;
  std::vector<int64_t> ends_;
  std::vector<std::vector<int64_t>> tokens_, seen_;
};

/// Collective over the ranks of a replica. The next token of each of the step's `samples`.
at::Tensor next_of(parallel::ParallelModel& model, const models::Decoding& decoding,
                   const std::vector<int64_t>& samples, const Sampling& sampling, const Texts& texts, nn::Pass& pass) {
  std::vector<int64_t> lengths;
  for (const int64_t sample : samples) lengths.push_back(texts.length(sample));
  const at::Tensor logits = model.decode(decoding.tokens(), pass);
  const at::Tensor next = logits.defined() ? next_tokens(model.model().all_logits(logits), sampling,
                                                         decoding.step().sample_index, lengths, texts.seen(samples))
                                           : at::zeros({std::ssize(samples)}, at::kLong);
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
                  const std::vector<std::vector<int64_t>>& prompts) {
  const int64_t count = options.beams.count, vocabulary = logits.size(1);
  const double penalty = options.sampling.repetition_penalty;
  const at::Tensor scores = at::log_softmax(logits.to(at::kCPU, at::kFloat), -1).contiguous();
  NextBeams next;
  for (size_t s = 0; s < searches.size(); ++s) {
    BeamSearch& one = searches[s];
    const int64_t first = static_cast<int64_t>(s) * count;
    float* const rows = scores.data_ptr<float>() + first * vocabulary;
    for (int64_t beam = 0; beam < count && penalty != 1; ++beam) {
      std::vector<int64_t> seen = prompts.at(static_cast<size_t>(first + beam));
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

/// As generate(), for several beams, whose texts are added to `texts`.
void search(parallel::ParallelModel& model, const models::Batch& batch, const nn::Pass& pass, const Generation& options,
            std::vector<std::vector<int64_t>>& texts) {
  const BeamSearch fresh(options.beams, options.end_tokens.empty() ? model.model().end_tokens() : options.end_tokens,
                         options.max_new_tokens);
  std::vector<BeamSearch> searches(static_cast<size_t>(batch.source->samples()), fresh);
  const models::Batch each = repeated(batch, options.beams.count);
  Texts prompts(each.source->samples(), model.model(), options);
  models::Decoding decoding(each, model.model(), 0, options.max_new_tokens);
  model.run_forward(pass, [&](nn::Pass& forward) {
    forward.cache = &decoding.cache();
    decoding.begin(model.model(), forward);
    prompts.begin(decoding);
    const std::vector<std::vector<int64_t>> seen = prompts.seen(decoding.samples());
    for (bool going = options.max_new_tokens > 0; going;) {
      const at::Tensor logits = model.decode(decoding.tokens(), forward);
      require(logits.defined(), "beam search on a stage of a pipeline");
      const NextBeams next = advance(searches, model.model().all_logits(logits), options, seen);
      reorder(decoding.cache(), next.parents);
      decoding.advance([&](size_t row) { return next.tokens[row]; });
      going = model.comm().max(next.going ? 1 : 0) > 0;
    }
  });
  for (const BeamSearch& one : searches)
    for (BeamSearch::Text& text : one.best()) {
      texts.push_back(std::move(text.tokens));
      if (options.scores != nullptr) options.scores->push_back(text.score);
    }
}

/// Collective. generate() for several beams: samples are searched for `at_once` at a time, one after the other.
std::vector<std::vector<int64_t>> search_all(parallel::ParallelModel& model, const models::Batch& batch,
                                             const nn::Pass& pass, const Generation& options) {
  std::vector<std::vector<int64_t>> texts;
  const int64_t samples = batch.source->samples(), at_once = options.at_once > 0 ? options.at_once : samples;
  const int64_t parts = at_once > 0 ? (samples + at_once - 1) / at_once : 0;
  for (int64_t part = 0, most = std::max<int64_t>(1, model.comm().max(parts)); part < most; ++part) {
    const int64_t first = std::min(part * at_once, samples);
    search(model, models::sources_of(batch, first, std::min(first + at_once, samples)), pass, options, texts);
  }
  return texts;
}

}  // namespace

std::vector<std::vector<int64_t>> generate(parallel::ParallelModel& model, const models::Batch& batch,
                                           const nn::Pass& pass, const Generation& options) {
  if (options.beams.count > 1) return search_all(model, batch, pass, options);
  Texts texts(batch.source->samples(), model.model(), options);
  if (options.max_new_tokens <= 0) return texts.take();
  models::Decoding decoding(batch, model.model(), options.at_once, options.max_new_tokens);
  enum Doing : int64_t { kNothing, kDecode, kBegin };
  model.run_forward(pass, [&](nn::Pass& forward) {
    forward.cache = &decoding.cache();
    for (;;) {
      const int64_t doing = model.comm().max(decoding.has_next() ? kBegin : decoding.is_active() ? kDecode : kNothing);
      if (doing == kNothing) break;
      if (doing == kBegin) {
        decoding.begin(model.model(), forward);
        texts.begin(decoding);
      }
      const std::vector<int64_t> samples = decoding.samples();
      const at::Tensor next = next_of(model, decoding, samples, options.sampling, texts, forward);
      decoding.advance([&](size_t row) {
        const int64_t token = next.is_meta() ? -1 : next.const_data_ptr<int64_t>()[row];  // a dry run: one token
        return token >= 0 && texts.append(samples[row], token) ? token : -1;
      });
    }
  });
  return texts.take();
}

}  // namespace trainer::evaluation
