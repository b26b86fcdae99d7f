#include "engine/evaluation/evaluate.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/sampler/shares.h"
#include "engine/base/bounded_json.h"
#include "engine/batching/collate.h"
#include "engine/batching/prompts.h"
#include "engine/evaluation/classify.h"
#include "engine/evaluation/generate.h"
#include "engine/evaluation/scores.h"

namespace trainer::evaluation {
namespace {

int64_t same_index(int64_t position) {
  return position;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

std::vector<int64_t> positions_of(data::Range range) {
  std::vector<int64_t> positions(static_cast<size_t>(range.size()));
  std::iota(positions.begin(), positions.end(), range.begin);
  return positions;
}

/// The results of one rank: the sum of its losses, and [sample, predicted text] for its samples.
struct Found {
  double loss = 0;
  nlohmann::json predictions = nlohmann::json::array();
};

nn::Pass pass_of(const Request& request) {
  nn::Pass pass;
  pass.label_smoothing = request.label_smoothing;
  pass.preference = request.preference;
  if (request.samples.are_pairs()) pass.rewards = std::make_shared<nn::RewardSums>();
  return pass;
}

void predict_classes(parallel::ParallelModel& model, const Request& request, const std::vector<int64_t>& samples,
                     const nn::Pass& pass, Found& found) {
  const auto result = classify(model, batching::collate(request.samples, samples, same_index), pass);
  found.loss += result.loss;
  for (size_t i = 0; i < samples.size(); ++i) {
    const auto number = static_cast<size_t>(result.classes[i]);
    found.predictions.push_back(
        {samples[i], number < request.labels.size() ? request.labels[number] : std::to_string(number)});
  }
}

/// Generates replies to the samples' prompts, or whole targets.
void write_texts(parallel::ParallelModel& model, const Request& request, const std::vector<int64_t>& samples,
                 Found& found) {
  const batching::Prompts prompts(request.samples);
  const bool next = request.samples.label_kind() == data::LabelKind::kNext;
  const models::Batch batch = batching::collate(next ? prompts : request.samples, samples, same_index);
  const auto generated = generate(model, batch, {},
                                  {.max_new_tokens = request.max_new_tokens,
                                   .at_once = request.batch_size,
                                   .sampling = request.sampling,
                                   .beams = request.beams});
  for (size_t i = 0; i < samples.size(); ++i) {
    const std::vector<int32_t> ids(generated[i].begin(), generated[i].end());
    found.predictions.push_back({samples[i], trimmed(request.tokenizer->decode(ids))});
  }
}

/// The reply of a causal sample, decoded from its tokens.
std::string label_text(const Request& request, int64_t index, const std::string& kept) {
  if (request.samples.label_kind() != data::LabelKind::kNext) return trimmed(kept);
  data::Sample sample;
  request.samples.read(index, sample);
  std::vector<int32_t> reply;
  for (auto at = static_cast<size_t>(batching::prompt_length(sample)) - 1;
       at < sample.labels.size() && sample.labels[at] != -100; ++at)
    reply.push_back(sample.labels[at]);
  return trimmed(request.tokenizer->decode(reply));
}

void merge_predictions(const std::vector<std::string>& by_rank, const Request& request, Result& result) {
  result.predictions.resize(request.samples.size());
  for (const std::string& text : by_rank)
    for (const auto& entry : bounded_json(text)) {
      const int64_t index = entry[0];
      const data::SampleText kept = request.samples.text(index);
      result.predictions[index] = {kept.source, entry[1], label_text(request, index, kept.target)};
    }
}

int64_t count_loss_terms(const data::Samples& samples) {
  int64_t terms = 0;
  for (int64_t i = 0; i < samples.size(); ++i) terms += samples.loss_terms(i);
  return terms;
}

/// Collective. Adds the mean rewards of all ranks' pairs.
void add_rewards(const nn::RewardSums& mine, dist::Comm& comm, Result& result) {
  const at::Tensor sums = mine.sums().clone();
  comm.all_reduce(sums);
  result.values.merge(nn::reward_metrics(sums, "eval_"));
}

}  // namespace

Result evaluate(parallel::ParallelModel& model, const Request& request) {
  dist::Comm& comm = model.mesh().data();
  const data::Range all{0, request.samples.size()};
  const auto batches = data::micro_batches(all, comm.rank(), comm.size(), request.batch_size);
  const bool classifies = model.model().classifies(), predicts = classifies || request.generate;
  const nn::Pass pass = pass_of(request);
  Found found;
  std::vector<int64_t> without_text;
  for (size_t i = 0; i < batches.size(); ++i) {
    request.progress(fmt::format("evaluating {}/{}", i + 1, batches.size()));
    const std::vector<int64_t> samples = positions_of(batches[i]);
    if (classifies)
      predict_classes(model, request, samples, pass, found);
    else
      found.loss += model.evaluate(batching::collate(request.samples, samples, same_index), pass);
    if (!predicts || classifies) continue;
    without_text.insert(without_text.end(), samples.begin(), samples.end());
    if ((i + 1) % kBatchesTogether == 0 || i + 1 == batches.size())
      write_texts(model, request, std::exchange(without_text, {}), found);
  }
  request.progress("");
  Result result;
  result.values["eval_loss"] = comm.sum(found.loss) / static_cast<double>(count_loss_terms(request.samples));
  if (pass.rewards) add_rewards(*pass.rewards, comm, result);
  if (std::count(request.metrics.begin(), request.metrics.end(), "perplexity") > 0)
    result.values["eval_perplexity"] = std::exp(result.values["eval_loss"]);
  if (!predicts) return result;
  using Json = nlohmann::json;
  merge_predictions(comm.gather_text(found.predictions.dump(-1, ' ', false, Json::error_handler_t::replace)), request,
                    result);
  std::vector<std::string> metrics = request.metrics;
  if (classifies) metrics.emplace_back("accuracy");
  result.values.merge(scores(result.predictions, metrics));
  return result;
}

}  // namespace trainer::evaluation
