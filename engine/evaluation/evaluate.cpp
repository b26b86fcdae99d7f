#include "engine/evaluation/evaluate.h"

#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "data/shares.h"
#include "engine/batching/collate.h"

namespace trainer::evaluation {
namespace {

int64_t same_index(int64_t position) {
  return position;
}

std::string trimmed(const std::string& text) {
  const auto first = text.find_first_not_of(" \t\r\n");
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(" \t\r\n") - first + 1);
}

/// This rank's generated texts, by sample.
nlohmann::json decode_batch(parallel::ParallelModel& model, const Request& request, data::Range samples,
                            const models::Batch& batch) {
  nlohmann::json found = nlohmann::json::array();
  const auto generated = model.generate(batch, request.max_new_tokens, {});
  for (int64_t i = 0; i < samples.size(); ++i) {
    const std::vector<int32_t> ids(generated[i].begin(), generated[i].end());
    found.push_back({samples.begin + i, trimmed(request.tokenizer.decode(ids))});
  }
  return found;
}

void merge_predictions(const std::vector<std::string>& by_rank, const Request& request, Result& result) {
  result.predictions.resize(request.samples.size());
  for (const std::string& text : by_rank)
    for (const auto& entry : nlohmann::json::parse(text)) {
      const int64_t index = entry[0];
      result.predictions[index] = {request.samples.source_text(index), entry[1],
                                   trimmed(request.samples.target_text(index))};
    }
}

}  // namespace

Result evaluate(parallel::ParallelModel& model, const Request& request) {
  dist::Comm& comm = model.comm();
  const data::Range all{0, request.samples.size()};
  const auto batches = data::micro_batches(all, comm.rank(), comm.size(), request.batch_size);
  double loss = 0;
  nlohmann::json decoded = nlohmann::json::array();
  for (size_t i = 0; i < batches.size(); ++i) {
    request.progress(fmt::format("evaluating {}/{}", i + 1, batches.size()));
    const models::Batch batch = batching::collate(request.samples, batches[i], same_index);
    loss += model.evaluate(batch, {});
    if (request.generate)
      for (auto& entry : decode_batch(model, request, batches[i], batch)) decoded.push_back(std::move(entry));
  }
  request.progress("");
  Result result;
  result.values["eval_loss"] =
      comm.sum(loss) / static_cast<double>(batching::count_tokens(request.samples, all, same_index).target);
  if (!request.generate) return result;
  merge_predictions(comm.gather_text(decoded.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)), request,
                    result);
  const auto correct =
      std::count_if(result.predictions.begin(), result.predictions.end(), [](const auto& p) { return p.correct(); });
  result.values["eval_accuracy"] = static_cast<double>(correct) / static_cast<double>(request.samples.size());
  return result;
}

}  // namespace trainer::evaluation
