#include "engine/train/build.h"

#include <algorithm>
#include <filesystem>

#include <fmt/ranges.h>
#include <nlohmann/json.hpp>
#include "engine/adapters/adapter_config.h"
#include "engine/adapters/inject.h"
#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/log.h"
#include "engine/checkpoint/checkpoint_weights.h"
#include "engine/config/adapters/adapter_kind.h"
#include "engine/config/machine/device.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/config/tables.h"
#include "engine/train/longest_batches.h"
#include "engine/train/parallelism.h"
#include "engine/train/quantization.h"
#include "engine/weights/foreign_checkpoint.h"
#include "engine/weights/megatron_source.h"
#include "engine/weights/weight_sources.h"
#include "models/registry.h"

namespace trainer::train {
namespace {

constexpr int64_t kMaxConfig = int64_t{1} << 20;

std::string origin_of(const config::Plan& plan, const std::string& option) {
  const auto found = plan.origins.find(option);
  return found == plan.origins.end() ? plan.source : found->second;
}

models::Task task_of(config::Task task) {
  switch (task) {
    case config::Task::kCausalLm:
      return models::Task::kCausalLm;
    case config::Task::kSequenceClassification:
      return models::Task::kSequenceClassification;
    case config::Task::kImageClassification:
      return models::Task::kImageClassification;
    case config::Task::kSeq2SeqLm:
      break;
  }
  return models::Task::kSeq2SeqLm;
}

/// ", FOLDER" with the model that an adapter names, or "".
std::string base_named_by(const std::string& adapter) {
  const std::string base = config::read_adapter_base(adapter).model;
  return base.empty() ? "" : ", " + base;
}

std::string config_file(const config::Plan& plan) {
  const std::string& path = plan.config.model.path;
  const std::string file = path + "/config.json";
  if (const std::string foreign = std::filesystem::exists(file) ? "" : checkpoint::foreign_checkpoint(path);
      !foreign.empty())
    throw InputError("{}: model.path: {} has no config.json{}", origin_of(plan, "model.path"), path, foreign);
  if (!std::filesystem::exists(file) && std::filesystem::exists(config::adapter_config_file(path)))
    throw InputError(
        "{}: model.path: {} is an adapter, not a model.\n  Set model.path to its base model{}, and lora.path to the "
        "adapter; or merge it first: trainer merge {} FOLDER",
        origin_of(plan, "model.path"), path, base_named_by(path), path);
  if (!std::filesystem::exists(file))
    throw InputError(
        "{}: model.path: {} {}.\n  It must be a Hugging Face model folder: config.json, model.safetensors and the "
        "tokenizer's files. To train from scratch, use model.config instead.\n  {}",
        origin_of(plan, "model.path"), path, std::filesystem::exists(path) ? "has no config.json" : "does not exist",
        config::hub_hint(path));
  return file;
}

/// The storage dtype of the weights, according to config.json.
at::ScalarType declared_dtype(const std::string& config_json) {
  const auto json = bounded_json(config_json);
  for (const char* key : {"dtype", "torch_dtype"})
    if (const auto found = json.find(key); found != json.end() && found->is_string())
      return dtype_named(found->get<std::string>()).value_or(at::kFloat);
  return at::kFloat;
}

/// Whether config.json says that the output head is not tied to the embedding. (The opposite proves little:
/// transformers 5 writes it for T5 v1.1 too, whose weights are untied.)
bool says_untied(const std::string& config_json) {
  const auto json = bounded_json(config_json);
  const auto found = json.find("tie_word_embeddings");
  return found != json.end() && found->is_boolean() && !found->get<bool>();
}

/// Errors: InputError for a folder of weights that are quantized already.
void check_unquantized(const std::string& config_json, const std::string& file) {
  const auto json = bounded_json_or_none(config_json);
  const auto found = json.is_object() ? json.find("quantization_config") : json.end();
  if (!json.is_object() || found == json.end() || !found->is_object()) return;
  throw InputError(
      "{}: quantization_config: the weights are quantized already ({}), and only unquantized ones can be read.\n  Use "
      "the original model; model.quantization_config quantizes it when it is loaded.",
      file, found->value("quant_method", nlohmann::json("an unnamed method")).dump());
}

/// Adds the base model and the source of its weights.
void add_base(const config::Plan& plan, const std::vector<std::string>& labels, Weights weights, Blueprint& blueprint) {
  const config::ModelConfig& options = plan.config.model;
  models::BuildRequest request;
  request.task = task_of(plan.config.data.task);
  request.labels = labels;
  if (options.path.empty()) {
    request.config_json = options.config;
    request.origin = plan.source + ": model.config";
    request.strict = true;
    blueprint.model = models::build_model(request);
    blueprint.sources.push_back(std::make_unique<checkpoint::SeedSource>(plan.config.seed));
    return;
  }
  request.origin = config_file(plan);
  request.config_json = read_file(request.origin, kMaxConfig);
  check_unquantized(request.config_json, request.origin);
  blueprint.model = models::build_model(request);
  if (checkpoint::is_checkpoint(options.path)) {
    auto saved = std::make_unique<checkpoint::CheckpointSource>(options.path);
    request.head_is_separate = saved->head_is_separate(*blueprint.model);
    if (request.head_is_separate) blueprint.model = models::build_model(request);
    saved->check(*blueprint.model);
    blueprint.sources.push_back(std::move(saved));
    return;
  }
  if (weights == Weights::kMayLack && !checkpoint::is_megatron(options.path) &&
      !tensorfile::TensorFolder::has_weights(options.path)) {
    blueprint.without_weights = true;
    request.head_is_separate = says_untied(request.config_json);
    if (request.head_is_separate) blueprint.model = models::build_model(request);
    blueprint.sources.push_back(std::make_unique<checkpoint::AbsentSource>(declared_dtype(request.config_json)));
    return;
  }
  if (checkpoint::is_megatron(options.path)) {
    auto ranks = std::make_unique<checkpoint::MegatronSource>(options.path, *blueprint.model, plan.config.seed);
    blueprint.started_from_scratch = ranks->check(*blueprint.model);
    blueprint.sources.push_back(std::move(ranks));
    return;
  }
  auto folder =
      std::make_unique<checkpoint::FolderSource>(options.path, blueprint.model->base_prefix(), plan.config.seed);
  request.head_is_separate = folder->head_is_separate(*blueprint.model);
  if (request.head_is_separate) blueprint.model = models::build_model(request);
  blueprint.started_from_scratch = folder->check(*blueprint.model);
  blueprint.sources.push_back(std::move(folder));
}

void add_adapters(const config::Plan& plan, Blueprint& blueprint) {
  if (!plan.config.lora) return;
  blueprint.lora = *plan.config.lora;
  const std::string& start = blueprint.lora.path;
  const adapters::Encode encode = [tokenizer = plan.config.tokenizer,
                                   path = plan.config.model.path](const std::string& text) {
    return data::open_tokenizer(tokenizer, path)->encode(text);
  };
  const adapters::Injected injected = adapters::inject(*blueprint.model, blueprint.lora, encode);
  blueprint.adapted_layers = injected.layers;
  blueprint.model->set_virtual_tokens(adapters::virtual_tokens(blueprint.lora));
  const auto add = [&](auto source) { blueprint.sources.push_back(std::move(source)); };
  add(std::make_unique<checkpoint::SeededAdapterSource>(plan.config.seed, blueprint.source()));
  if (!injected.starts.empty()) add(std::make_unique<checkpoint::DerivedSource>(injected.starts, blueprint.source()));
  if (start.empty()) return;
  auto adapter = std::make_unique<checkpoint::AdapterSource>(start, blueprint.source(),
                                                             adapters::adapter_names(*blueprint.model, blueprint.lora));
  adapter->check(*blueprint.model);
  add(std::move(adapter));
}

/// Every id needs a row of the embedding. A model built from model.config has `vocab_size` rows.
void check_vocabulary(const config::Plan& plan, const data::Tokenizer& tokenizer, int64_t rows) {
  if (!plan.config.model.config.empty() && tokenizer.size() > rows)
    throw ConfigError(
        "{}: model.config: vocab_size is {}, but the tokenizer {} has {} ids\n  set vocab_size to at least {}",
        origin_of(plan, "model.config"), rows, tokenizer.files().empty() ? "" : tokenizer.files().front().string(),
        tokenizer.size(), tokenizer.size());
  data::check_fits(tokenizer, rows);
}

ConfigError too_long(const config::Plan& plan, const models::Model& model, const std::string& what) {
  const LengthOption option = length_option(plan.config.data);
  const int64_t most = most_tokens(plan, model), positions = model.max_positions();
  const std::string prompt =
      positions > most ? fmt::format(", of which a learned prompt takes {}", positions - most) : "";
  return ConfigError(
      "{} is {}, and {}, but {} has {} positions{}\n  set {} to {} or less, or use a model with more positions",
      option.name, option.tokens, what, model.class_name(), positions, prompt, option.name, most);
}

}  // namespace

Blueprint make_blueprint(const config::Plan& plan, const std::vector<std::string>& labels, Weights weights) {
  Blueprint blueprint;
  add_base(plan, labels, weights, blueprint);
  skip_layers(*blueprint.model, plan.config.model.quantization_config);
  add_adapters(plan, blueprint);
  parallel::check_parallelism(*blueprint.model, degrees_of(plan), parallelism_of(plan));
  return blueprint;
}

void check_inputs(const config::Plan& plan, const models::Model& model, const prepare::Inputs& inputs) {
  if (inputs.tokenizer) check_vocabulary(plan, *inputs.tokenizer, model.vocabulary());
  const data::Samples& train = *inputs.datasets.train;
  if (train.features() != model.features())
    throw ConfigError("model: expects {}, but the samples of data.train.path are {}.",
                      model.features() > 0 ? fmt::format("images with {} values", model.features()) : "text",
                      train.features() > 0 ? fmt::format("images with {} values", train.features()) : "text");
  const int64_t most = most_tokens(plan, model);
  if (most == 0) return;
  const auto longest_text = [](const data::Samples& samples, int64_t i) {
    if (!samples.are_pairs()) return samples.source_length(i);
    const data::Lengths lengths = samples.lengths(i);
    return std::max(lengths.source - lengths.rejected, lengths.rejected);
  };
  for (const data::Samples* samples : {&train, &*inputs.datasets.validation})
    for (int64_t i = 0; i < samples->size(); ++i)
      if (const int64_t tokens = longest_text(*samples, i); tokens > most)
        throw too_long(plan, model, fmt::format("sample {} has {} tokens", i, tokens));
}

int64_t most_tokens(const config::Plan& plan, const models::Model& model) {
  if (model.max_positions() == 0) return 0;
  return model.max_positions() - (plan.config.lora ? config::virtual_tokens(*plan.config.lora) : 0);
}

void check_length_option(const config::Plan& plan, const models::Model& model) {
  const LengthOption option = length_option(plan.config.data);
  const auto origin = plan.origins.find(option.name);
  const bool asked = origin != plan.origins.end() && origin->second != "default";
  const int64_t most = most_tokens(plan, model);
  if (asked && most > 0 && option.tokens > most) throw too_long(plan, model, "samples can be that long");
}

Setup set_up(const config::Plan& plan, const std::function<void(const char*)>& doing) {
  Setup setup;
  doing("reading the data");
  setup.inputs = prepare::load_inputs(plan);
  doing("reading the model");  // after the data, whose classes may determine its head
  setup.blueprint = make_blueprint(plan, setup.inputs.datasets.labels);
  check_inputs(plan, *setup.blueprint.model, setup.inputs);
  return setup;
}

std::string keep_encoder_output(const config::Plan& plan, models::Model& model) {
  const config::TrainingConfig& t = plan.config.training;
  if (t.encoder_cache_mb == 0 || !config::may_keep_encoder_output(plan.config)) return "";
  if (config::trains_on_gpus(plan.config)) return "it is for runs on the CPU";
  return model.keep_encoder_output(t.encoder_cache_mb << 20, t.dropout);
}

std::unique_ptr<parallel::ParallelModel> make_parallel(const config::Plan& plan, Blueprint& blueprint,
                                                       dist::MeshPtr mesh) {
  if (!blueprint.started_from_scratch.empty())
    log::warning("{}: missing weights are initialized from the seed: {}", plan.config.model.path,
                 fmt::join(blueprint.started_from_scratch, ", "));
  keep_encoder_output(plan, *blueprint.model);
  parallel::Parallelism how = parallelism_of(plan);
  if (plan.config.distributed_type == config::DistributedType::kDataParallel)
    for (size_t i = 1; i < plan.config.devices.size(); ++i)
      how.replicas.push_back(make_blueprint(plan, blueprint.model->labels()).model);
  return parallel::parallelize(std::move(blueprint.model), std::move(mesh), std::move(how), blueprint.source());
}

std::unique_ptr<parallel::ParallelModel> make_parallel(const config::Plan& plan, Blueprint& blueprint,
                                                       dist::Comm& comm) {
  return make_parallel(plan, blueprint, mesh_of(plan, comm));
}

dist::MeshPtr mesh_of(const config::Plan& plan, dist::Comm& comm) {
  return std::make_shared<dist::Mesh>(comm, degrees_of(plan));
}

}  // namespace trainer::train
