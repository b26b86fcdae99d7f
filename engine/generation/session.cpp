#include "engine/generation/session.h"

#include <algorithm>
#include <filesystem>

#include "data/tokenizers/tokenizer_files.h"
#include "engine/base/errors.h"
#include "engine/batching/token_batch.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/dist/accelerator.h"
#include "engine/dist/device_comm.h"
#include "engine/generation/defaults.h"
#include "engine/generation/text_stream.h"
#include "engine/train/build.h"
#include "engine/train/device_layers.h"
#include "engine/train/model_plan.h"

#include <torch/csrc/autograd/grad_mode.h>

namespace trainer::generation {
namespace fs = std::filesystem;
namespace {

config::Plan plan_of(const config::GenerateRequest& request) {
  if (!request.adapter.empty()) return train::plan_of_adapter(request.adapter, request.model).plan;
  if (fs::exists(config::adapter_config_file(request.model))) return train::plan_of_adapter(request.model, "").plan;
  return train::plan_of_model(request.model);
}

/// Several replies are drawn, or found by a beam search.
void check_count(const config::GenerateRequest& request, const evaluation::Generation& options) {
  const int64_t wanted = request.num_return_sequences, beams = options.beams.count;
  if (wanted == 1 || options.sampling.temperature > 0) return;
  if (beams == 1)
    throw ConfigError(
        "--num_return_sequences {}: the most likely token at each step makes one reply; draw them with --temperature, "
        "for example 1, or search for the best ones with --num_beams {}.",
        wanted, wanted);
  if (wanted > beams)
    throw ConfigError(
        "--num_return_sequences {}, but num_beams is {}: a search finds at most as many texts as it follows; give "
        "--num_beams {} or more.",
        wanted, beams, wanted);
}

/// One rank on the device that was asked for.
std::unique_ptr<dist::Comm> comm_on(const std::string& device) {
  if (device == "cpu") return dist::solo_comm();
  const at::Device taken = dist::take_device(0, 1, /*shared=*/false);
  train::use_layers_of(*dist::find_accelerator(), taken);
  return dist::device_comm(dist::solo_comm(), nullptr, taken);
}

/// That of the model's matrices in its files. A GPU is several times as fast in 16 bits.
config::MixedPrecision precision_of(const train::Blueprint& blueprint) {
  for (const nn::ParameterPtr& p : blueprint.model->all_parameters()) {
    if (p->shape.size() < 2) continue;
    const nn::Storage storage = blueprint.source().storage(*p);
    if (storage == nn::Storage(at::kBFloat16)) return config::MixedPrecision::kBf16;
    if (storage == nn::Storage(at::kHalf)) return config::MixedPrecision::kFp16;
  }
  return config::MixedPrecision::kNo;
}

/// The folder of the tokenizer: the adapter's, if it has one.
std::string tokenizer_folder(const config::Config& config) {
  if (config.lora && !data::tokenizer_files_in(config.lora->path).empty()) return config.lora->path;
  return config.model.path;
}

}  // namespace

Session::Session(const config::GenerateRequest& request) : request_(request), comm_(comm_on(request.device)) {
  config::Plan plan = plan_of(request);
  const config::Config& config = plan.config;
  if (config.data.task != config::Task::kCausalLm && config.data.task != config::Task::kSeq2SeqLm)
    throw ConfigError(
        "{} is a classifier: it doesn't generate text. `trainer eval --data FILE --predictions OUTPUT.jsonl` with the "
        "run's configuration writes its predictions.",
        config.model.path);
  options_ = generation_for(config.model.path, request);
  check_count(request, options_);
  tokenizer_ = data::open_tokenizer({}, tokenizer_folder(config));
  train::Blueprint blueprint = train::make_blueprint(plan);
  data::check_fits(*tokenizer_, blueprint.model->vocabulary());
  for (const nn::ParameterPtr& p : blueprint.model->all_parameters()) p->trainable = false;  // in the file's dtype
  if (!comm_->device().is_cpu()) plan.config.mixed_precision = precision_of(blueprint);
  prompts_ = std::make_unique<Prompts>(request, *tokenizer_, blueprint.model->task());
  model_ = train::make_parallel(plan, blueprint, *comm_);
  if (options_.end_tokens.empty()) options_.end_tokens = model_->model().end_tokens();
  if (const auto end = prompts_->end_of_reply()) options_.end_tokens.push_back(*end);
}

/// The number of tokens that a reply to the prompt can have.
int64_t Session::room_after(const Prompt& prompt) const {
  const models::Model& model = model_->model();
  const auto length = static_cast<int64_t>(prompt.ids.size());
  if (model.max_positions() == 0 || model.task() != models::Task::kCausalLm) return options_.max_new_tokens;
  const int64_t room = model.max_positions() - model.virtual_tokens() - length;
  if (room < 1)
    throw InputError("a prompt has {} tokens, and {} has {} positions, which leaves no room for a reply: {}…", length,
                     model.class_name(), model.max_positions(), prompt.text.substr(0, 60));
  return std::min(room, options_.max_new_tokens);
}

namespace {

/// Texts of a beam search become known at its end, not token by token.
void add_whole(const std::vector<std::vector<int64_t>>& texts,
               const std::function<bool(size_t sample, int64_t token)>& proceeds) {
  for (size_t i = 0; i < texts.size(); ++i)
    for (const int64_t token : texts[i])
      if (!proceeds(i, token)) break;
}

}  // namespace

std::vector<Session::Reply> Session::reply(const std::vector<Prompt>& prompts, int64_t first, const OnText& on_text) {
  const at::NoGradGuard no_grad;
  const int64_t count = request_.num_return_sequences;
  const bool searches = options_.beams.count > 1;
  const bool continues = model_->model().task() == models::Task::kCausalLm;
  std::vector<std::vector<int32_t>> sources;
  std::vector<TextStream> texts;
  std::vector<int64_t> room;
  for (const Prompt& prompt : prompts)
    for (int64_t i = 0; i < count; ++i) {
      if (i == 0 || !searches) sources.push_back(prompt.ids);
      texts.emplace_back(*tokenizer_, continues ? prompt.ids : std::vector<int32_t>(), request_.stop);
      room.push_back(room_after(prompt));
    }
  const auto added = [&](size_t i, const std::string& text) { return text.empty() || !on_text || on_text(i, text); };
  evaluation::Generation options = options_;
  options.beams.returned = searches ? count : 1;
  std::vector<float> scores;
  options.scores = &scores;
  options.at_once = searches ? std::max<int64_t>(1, request_.batch_size / count) : std::max(request_.batch_size, count);
  options.max_new_tokens = *std::max_element(room.begin(), room.end());
  options.proceeds = [&](size_t i, int64_t token) {
    const std::string text = texts[i].add(static_cast<int32_t>(token));
    return added(i, text) && !texts[i].stopped() && --room[i] > 0;
  };
  const auto found = evaluation::generate(
      *model_, batching::token_batch(std::move(sources), {}, model_->model().task(), first * count), {}, options);
  if (searches) add_whole(found, options.proceeds);
  std::vector<Reply> replies;
  for (size_t i = 0; i < texts.size(); ++i) {
    added(i, texts[i].finish());
    replies.push_back({texts[i].text(), searches ? std::optional<double>(scores[i]) : std::nullopt});
  }
  return replies;
}

}  // namespace trainer::generation
