// Every kind of adapter under every strategy, from a configuration file: it trains as on one rank, or is refused
// before anything starts.
#include <algorithm>
#include <fstream>
#include <set>

#include <fmt/ranges.h>  // for engine/config/plan/resolve.h, together with torch
#include <gtest/gtest.h>

#include "engine/base/errors.h"
#include "engine/config/plan/resolve.h"
#include "engine/optim/optimizer.h"
#include "engine/selftest/matrix.h"
#include "engine/selftest/outcome.h"
#include "engine/selftest/random_samples.h"
#include "engine/train/batch_stream.h"
#include "engine/train/build.h"
#include "engine/train/save_model.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

using selftest::Outcome, selftest::TinyModel;

/// A kind of adapter, as the keys of `lora`.
struct Kind {
  std::string name, keys;
  bool continues = true;  // training can continue from its folder
};

struct Strategy {
  std::string name, keys;
  int ranks = 1;
};

/// Module names of a model.
struct Parts {
  std::string embedding, head, linear;
};

Parts parts_of(const TinyModel& model) {
  if (model.name == "GPT-2") return {"wte", "lm_head", "c_fc"};
  if (model.name == "LLaMA" || model.name.starts_with("Gemma")) return {"embed_tokens", "lm_head", "up_proj"};
  if (model.name == "BERT") return {"word_embeddings", "pooler", "query"};
  return {"shared", "lm_head", "wi"};
}

std::vector<Kind> kinds_for(const TinyModel& model) {
  const Parts parts = parts_of(model);
  std::vector<Kind> kinds{
      {"LoRA", "r: 3, lora_alpha: 6, lora_dropout: 0.2"},
      {"DoRA", "r: 3, use_dora: true"},
      {"bias", "r: 3, bias: all"},
      {"IA3", "peft_type: IA3, init_ia3_weights: false"},
      {"VeRA", "peft_type: VERA, r: 5, vera_dropout: 0.2, target_modules: all-linear"},
      {"prefix", "peft_type: PREFIX_TUNING, num_virtual_tokens: 3"},
      {"prefix of a network", "peft_type: PREFIX_TUNING, num_virtual_tokens: 3, prefix_projection: true", false},
      {"prompt", "peft_type: PROMPT_TUNING, num_virtual_tokens: 3"},
      {"p-tuning", "peft_type: P_TUNING, num_virtual_tokens: 3", false}};
  if (model.name != "GPT-2")  // whose layers are Conv1D
    kinds.push_back({"LoHa", "peft_type: LOHA, r: 2, init_weights: false, target_modules: all-linear"});
  if (model.name == "LLaMA") {  // what differs in values or in choice of layers only: in one family
    kinds.push_back({"rsLoRA", "r: 3, use_rslora: true, target_modules: all-linear"});
    kinds.push_back({"patterns", "r: 3, rank_pattern: {'" + parts.linear + "': 2}, alpha_pattern: {'" + parts.linear +
                                     "': 5}, target_modules: all-linear"});
    kinds.push_back({"one block", "r: 3, target_modules: [" + parts.linear + "], layers_to_transform: [1]"});
    kinds.push_back({"PiSSA", "r: 3, init_lora_weights: pissa"});
    kinds.push_back({"VeRA without projections", "peft_type: VERA, r: 5, save_projection: false"});
  }
  if (model.name == "T5") return kinds;
  kinds.push_back({"embedding", "r: 3, target_modules: [" + parts.embedding + "]"});
  kinds.push_back({"whole head", "r: 3, modules_to_save: [" + parts.head + "]"});
  kinds.push_back({"whole embedding", "r: 3, modules_to_save: [" + parts.embedding + "]"});
  return kinds;
}

std::string mesh(const std::string& size) {
  return "distributed_type: MULTI_CPU\nparallelism_config: {parallelism_config_" + size + "}\n";
}

std::vector<Strategy> strategies_for(const TinyModel& model) {
  std::vector<Strategy> all{
      {"DDP 2", "distributed_type: MULTI_CPU\n", 2},
      {"FSDP 2, recomputed", "distributed_type: FSDP\nfsdp_config: {fsdp_activation_checkpointing: true}\n", 2},
      {"DATA_PARALLEL 2", "distributed_type: DATA_PARALLEL\ndevices: [cpu, cpu]\n"}};
  if (model.splits) all.push_back({"TP 2", mesh("tp_size: 2"), 2});
  if (!model.stages) return all;
  all.push_back({"TP 2 by rows", mesh("tp_size: 2, parallelism_config_tp_sequence_parallel: true"), 2});
  all.push_back({"PP 2", mesh("pp_size: 2"), 2});
  all.push_back({"CP 2", mesh("cp_size: 2"), 2});
  return all;
}

class AdapterMatrix : public ::testing::TestWithParam<TinyModel> {
 protected:
  /// A configuration of `strategy` with `lora`, read like a user's file.
  config::Plan plan(const Strategy& strategy, const std::string& lora) {
    const TinyModel& model = GetParam();
    const std::string file = (folder_.path() / "job.yaml").string();
    std::ofstream(file) << strategy.keys << "num_processes: " << strategy.ranks << "\nuse_cpu: true\nseed: 3\n"
                        << "model: {config: " << model.config << "}\ntokenizer: {path: t}\n"
                        << "data: {task: " << name_of_task(model.task) << ", train: {path: a.txt}}\n"
                        << "training: {per_device_train_batch_size: 2}\nlora: {" << lora << "}\n";
    return config::resolve_plan({file, "", {}});
  }

  static std::string name_of_task(config::Task task) {
    return task == config::Task::kCausalLm    ? "causal_lm"
           : task == config::Task::kSeq2SeqLm ? "seq2seq_lm"
                                              : "sequence_classification";
  }

  Outcome train(const config::Plan& plan) {
    Outcome outcome;
    run_ranks(plan.world_size(), [&](dist::Comm& comm) {
      Outcome mine = selftest::train(plan, samples_, comm);
      if (comm.rank() == 0) outcome = std::move(mine);
    });
    return outcome;
  }

  /// Trains an adapter of that kind for one update and returns its folder.
  std::string folder_of(const Kind& kind) {
    const config::Plan alone = plan(kAlone, kind.keys);
    const auto comm = dist::solo_comm();
    train::Blueprint blueprint = train::make_blueprint(alone);
    const auto model = train::make_parallel(alone, blueprint, *comm);
    const auto optimizer = optim::make_optimizer(alone.config.training, model->logical_tensors(), *comm);
    const train::UpdateBatch batch = train::BatchStream(samples_, alone.config, selftest::kGlobalBatch, 0, 1).next(0);
    model->update(batch.micro_batches, batch.target_tokens, {});
    optimizer->step(model->logical_tensors(), 1e-2);
    const std::filesystem::path folder = folder_.path() / kind.name;
    std::filesystem::create_directory(folder);
    train::save_model(*model, alone, blueprint.lora, {}, folder);
    return folder.string();
  }

  /// Trains `lora` under every strategy and on one rank. Returns "KIND, STRATEGY" for each refused one.
  std::set<std::string> try_all(const Kind& kind, const std::string& lora) {
    const Outcome alone = train(plan(kAlone, lora));
    std::set<std::string> refused;
    for (const Strategy& strategy : strategies_for(GetParam())) {
      const std::string name = kind.name + ", " + strategy.name;
      SCOPED_TRACE(GetParam().name + ", " + name);
      try {
        const selftest::Difference apart = difference(train(plan(strategy, lora)), alone, false, 1e-5);
        EXPECT_TRUE(apart.fits()) << "first loss " << apart.first_loss << ", gradients " << apart.gradients << " ("
                                  << apart.worst_gradient << "), losses " << apart.losses;
      } catch (const ConfigError& error) {
        refused.insert(name);
        EXPECT_NE(std::string(error.what()).find("lora."), std::string::npos) << error.what();
        if (lora.starts_with("path:")) {
          EXPECT_NE(std::string(error.what()).find("adapter_config.json"), std::string::npos) << error.what();
        }
      } catch (const std::exception& error) {
        ADD_FAILURE() << error.what();
      }
    }
    return refused;
  }

  /// The strategies that don't support this kind of adapter.
  std::set<std::string> expected_refusals(const Kind& kind) {
    std::set<std::string> refused;
    const bool splits = (kind.keys.find("peft_type") == std::string::npos && kind.name != "DoRA") ||
                        kind.name.starts_with("VeRA") || kind.name == "LoHa";
    for (const Strategy& strategy : strategies_for(GetParam())) {
      const bool tensor = strategy.name.starts_with("TP"), stages = strategy.name == "PP 2";
      if ((tensor && !splits) || (stages && kind.name.starts_with("prefix")))
        refused.insert(kind.name + ", " + strategy.name);
    }
    return refused;
  }

  const Strategy kAlone{"one rank", "distributed_type: NO\n"};
  const TemporaryFolder folder_;
  const data::MemorySamples samples_ = selftest::random_samples(GetParam());
};

/// Gemma's layers are those of LLaMA to an adapter, except for the embedding, which has goldens (Peft).
std::vector<TinyModel> models_with_layers_of_their_own() {
  std::vector<TinyModel> models = selftest::tiny_models();
  std::erase_if(models, [](const TinyModel& model) { return model.name.starts_with("Gemma"); });
  return models;
}

TEST_P(AdapterMatrix, TrainsOrIsRefused) {
  for (const Kind& kind : kinds_for(GetParam())) {
    const std::string path = "path: '" + folder_of(kind) + "'";
    EXPECT_EQ(try_all(kind, kind.continues ? path : kind.keys), expected_refusals(kind));
    if (!kind.continues) {
      EXPECT_THROW(plan(kAlone, path), InputError) << kind.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Families, AdapterMatrix, ::testing::ValuesIn(models_with_layers_of_their_own()),
                         [](const auto& info) {
                           std::string name = info.param.name;
                           std::erase_if(name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; });
                           return name;
                         });

}  // namespace
}  // namespace trainer::testing
