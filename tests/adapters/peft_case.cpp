#include "tests/adapters/peft_case.h"

#include <fstream>

#include <gtest/gtest.h>

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/norm.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/adapters/inject.h"
#include "engine/base/files.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/parallel/activation_checkpoint.h"
#include "engine/parallel/parallelize.h"
#include "engine/weights/weight_sources.h"
#include "models/registry.h"
#include "models/virtual_tokens.h"
#include "tests/support/source_dir.h"

namespace trainer::testing {
namespace {

const std::string kGolden = source_dir() + "/tests/golden/";

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

/// Reads network weights of a prompt from expected.safetensors, because an adapter folder only has the computed prompt.
class EncoderSource : public parallel::WeightSource {
 public:
  EncoderSource(const tensorfile::SafetensorsFile& file, const parallel::WeightSource& base)
      : file_(file), base_(base) {}
  nn::Storage storage(const nn::Parameter& p) const override { return base_.storage(p); }
  void read(const nn::Parameter& p, int64_t begin, int64_t end, const at::Tensor& out) const override {
    const size_t at = p.name.find("prompt_encoder.");
    if (at == std::string::npos) return base_.read(p, begin, end, out);
    out.copy_(file_.read(p.name.substr(at), begin, end));
  }

 private:
  const tensorfile::SafetensorsFile& file_;
  const parallel::WeightSource& base_;
};

/// Weights have no values in a dry run.
class DrySource : public parallel::WeightSource {
 public:
  nn::Storage storage(const nn::Parameter&) const override { return at::kFloat; }
  void read(const nn::Parameter&, int64_t, int64_t, const at::Tensor&) const override {}
};

/// Whether the folder holds a network's output instead of the network.
bool comes_from_network(const nlohmann::json& file) {
  return file["peft_type"] == "P_TUNING" || file.value("prefix_projection", false);
}

/// Options that read_adapter_config() refuses for training.
config::LoraConfig network_options(const nlohmann::json& file) {
  config::LoraConfig options;
  options.peft_type = file["peft_type"];
  options.num_virtual_tokens = file["num_virtual_tokens"];
  options.encoder_hidden_size = file["encoder_hidden_size"];
  options.encoder_reparameterization_type = file.value("encoder_reparameterization_type", "MLP");
  options.prefix_projection = file.value("prefix_projection", false);
  return options;
}

at::Tensor as_tensor(const std::vector<int64_t>& values) {
  const at::Tensor tensor = at::empty({static_cast<int64_t>(values.size())}, at::kLong);
  std::copy(values.begin(), values.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

}  // namespace

PeftCase::PeftCase(const std::string& name)
    : expected(read_json(kGolden + "peft/" + name + "/expected.json")),
      tensors(kGolden + "peft/" + name + "/expected.safetensors"),
      folder_(kGolden + "peft/" + name) {
  base_ = kGolden + expected["base"].get<std::string>();
  const std::string task = expected["task"];
  task_ = task == "CAUSAL_LM"      ? models::Task::kCausalLm
          : task == "SEQ_2_SEQ_LM" ? models::Task::kSeq2SeqLm
                                   : models::Task::kSequenceClassification;
  const nlohmann::json file = read_json(folder_ + "/adapter_config.json");
  from_network_ = comes_from_network(file);
  options = from_network_ ? network_options(file) : config::read_adapter_config({.path = folder_});
  const nlohmann::json samples = task_ == models::Task::kSeq2SeqLm
                                     ? read_json(base_ + "/batches.json")["batches"][0]["samples"]
                                     : read_json(base_ + "/batch.json")["samples"];
  for (const auto& sample : samples) sources_.push_back(sample["source"]), labels_.push_back(sample["labels"]);
}

std::unique_ptr<models::Model> PeftCase::base() const {
  models::BuildRequest request;
  request.origin = base_ + "/config.json";
  request.config_json = read_file(request.origin, int64_t{1} << 20);
  request.head_is_separate = base_.ends_with("v1_1");
  request.task = task_;
  return models::build_model(request);
}

std::unique_ptr<parallel::ParallelModel> PeftCase::make(dist::Comm& comm, config::DistributedType type,
                                                        bool from_folder, bool checkpointed) {
  auto model = base();
  const checkpoint::FolderSource weights(base_, model->base_prefix(), 1);
  weights.check(*model);
  const adapters::Injected injected = adapters::inject(*model, options);
  const checkpoint::SeededAdapterSource seeded(1, weights);
  const checkpoint::DerivedSource derived(injected.starts, seeded);
  const EncoderSource network(tensors, derived);
  std::unique_ptr<checkpoint::AdapterSource> adapter;
  if (checkpointed) parallel::checkpoint_activations(*model, /*offload=*/false);
  if (from_folder && !from_network_) {
    adapter = std::make_unique<checkpoint::AdapterSource>(folder_, derived, adapters::adapter_names(*model, options));
    adapter->check(*model);
  }
  const bool sharded = type == config::DistributedType::kFsdp;
  parallel::Parallelism how{.exchange = {.bucket_megabytes = 0.01}};
  if (sharded) how.sharding.emplace();
  const dist::Degrees degrees{.replicate = sharded ? 1 : comm.size(), .shard = sharded ? comm.size() : 1};
  const DrySource dry;
  const parallel::WeightSource* source = &network;
  if (adapter) source = adapter.get();
  if (comm.device() == at::kMeta) source = &dry;
  return parallel::parallelize(std::move(model), std::make_shared<dist::Mesh>(comm, degrees), std::move(how), *source);
}

models::Batch PeftCase::batch(size_t first, size_t step) const {
  auto source = std::make_shared<nn::Layout>(), target = std::make_shared<nn::Layout>();
  std::vector<int64_t> ids, labels;
  models::Batch batch;
  for (size_t i = first; i < sources_.size(); i += step) {
    source->append(static_cast<int64_t>(sources_[i].size()), static_cast<int64_t>(i));
    target->append(static_cast<int64_t>(labels_[i].size()), static_cast<int64_t>(i));
    ids.insert(ids.end(), sources_[i].begin(), sources_[i].end());
    labels.insert(labels.end(), labels_[i].begin(), labels_[i].end());
  }
  batch.source_ids = as_tensor(ids);
  batch.labels = as_tensor(labels);
  batch.source = source;
  batch.target = causal() ? source : target;
  for (const int64_t label : labels) batch.target_tokens += label >= 0;
  return models::with_virtual_tokens(batch, adapters::virtual_tokens(options));
}

nn::Span PeftCase::rows_of(const models::Batch& batch, size_t sample) const {
  nn::Span span = batch.target->spans[sample];
  if (!causal()) return span;
  const int64_t front = adapters::virtual_tokens(options);
  return {span.begin + front, span.length - front};
}

void PeftCase::expect_logits(models::Model& model, double tolerance) const {
  const at::NoGradGuard no_grad;
  const models::Batch all = batch();
  const at::Tensor logits = model.logits(all, {});
  size_t compared = 0;
  for (size_t i = 0; i < all.source->spans.size(); ++i) {
    const std::string name = "logits_" + std::to_string(i);
    if (tensors.find(name) == nullptr) continue;  // omitted because large
    ++compared;
    const nn::Span span = rows_of(all, i);
    const at::Tensor values = tensors.tensor(name).to(at::kDouble);
    const at::Tensor found = logits.narrow(0, span.begin, span.length).to(at::kDouble);
    EXPECT_LT((found - values).norm().item<double>(), tolerance * values.norm().item<double>()) << "sample " << i;
  }
  EXPECT_GT(compared, 1U);
}

}  // namespace trainer::testing
