// The report of `trainer check`, compared with the objects that a run makes.
#include "engine/train/check/check_report.h"

#include <fstream>
#include <numeric>
#include <sstream>
#include <tuple>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "engine/base/terminal_text.h"
#include "engine/optim/schedule.h"
#include "engine/train/build.h"
#include "tests/support/source_dir.h"
#include "tests/support/temporary_folder.h"

namespace trainer::train {
namespace {

config::Plan plan_of(bool lora) {
  config::Plan plan;
  plan.source = "job.yaml";
  plan.warnings = {"something"};
  config::Config& c = plan.config;
  c.distributed_type = config::DistributedType::kFsdp;
  c.num_processes = 2;
  c.model.config =
      R"({"model_type": "t5", "vocab_size": 512, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2, "num_heads": 4})";
  c.tokenizer.path = source_dir() + "/tests/golden/tokenizer/unigram";
  c.data.train.path = {source_dir() + "/data/examples/reports.txt"};
  c.data.train.format = config::DataFormat::kDelimited;
  c.data.train.columns = {"sentence", "label"};
  c.data.source = "sentence";
  c.data.target = "label";
  c.data.max_source_length = 20;
  c.data.validation.fraction = 0.1;
  static const testing::TemporaryFolder cache;
  c.data.cache_dir = cache.path().string();
  c.training.per_device_train_batch_size = 4;
  c.training.gradient_accumulation_steps = 3;
  c.training.warmup_steps = 10;
  if (lora) c.lora.emplace();
  return plan;
}

/// Lines wider than 80 columns or with spaces at the end.
std::vector<std::string> unpleasant_lines(const std::string& text) {
  std::vector<std::string> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (display_width(line) > 80 || (!line.empty() && line.back() == ' ')) found.push_back(line);
  return found;
}

int64_t samples_of(const LengthReport& lengths) {
  return std::accumulate(lengths.histogram.begin(), lengths.histogram.end(), int64_t{0},
                         [](int64_t sum, const auto& bar) { return sum + bar.samples; });
}

TEST(CheckReport, CountsTheModelAndItsUnits) {
  const config::Plan plan = plan_of(false);
  const CheckReport report = check_report(plan);
  const auto model = std::move(train::make_blueprint(plan).model);
  int64_t parameters = 0, in_units = 0, bytes = 0;
  for (const nn::ParameterPtr& p : model->all_parameters()) parameters += p->numel();
  for (const UnitReport& unit : report.units) in_units += unit.parameters, bytes += unit.bytes;
  EXPECT_EQ(report.model.parameters, parameters);
  EXPECT_EQ(report.model.trained, parameters);
  EXPECT_EQ(in_units, parameters);
  EXPECT_EQ(bytes, 4 * parameters);
  ASSERT_EQ(report.units.size(), model->blocks().size() + 1);
  EXPECT_EQ(report.units.front().name, "encoder.block.0");
  EXPECT_EQ(report.units.back().name, "the root");
  ASSERT_EQ(report.model.tied.size(), 1U);
  EXPECT_EQ(report.model.tied[0].front(), "shared.weight");
  EXPECT_EQ(report.model.tied[0].size(), 4U);
}

TEST(CheckReport, PredictsTheSpeedOnOtherGpus) {
  config::Plan plan = plan_of(false);
  plan.config.num_processes = 16;
  plan.config.num_machines = 2;
  const Cluster cluster{config::card_named("--device", "H100"), 8};
  const CheckReport report = check_report(plan, config::gpu_memory_named("H100"), cluster);
  ASSERT_TRUE(report.roofline);
  const std::string text = to_text(report, plan);
  EXPECT_EQ(unpleasant_lines(text), std::vector<std::string>()) << text;
  EXPECT_NE(text.find("\nspeed         on 16 H100 80GB in 2 machines, a prediction"), std::string::npos) << text;
  const nlohmann::json speed = to_json(report, plan).at("speed");
  EXPECT_EQ(speed.at("gpus"), 16);
  EXPECT_EQ(speed.at("machines"), 2);
  EXPECT_EQ(speed.at("tokens"), report.roofline->tokens);
  EXPECT_EQ(speed.at("micro_batches"), 3);
  EXPECT_DOUBLE_EQ(speed.at("tokens_per_second_per_gpu").get<double>() * 16 * speed.at("seconds").get<double>(),
                   static_cast<double>(report.roofline->tokens));
  double launches = 0, gathered = 0;
  for (const auto& part : speed.at("parts")) launches += part.at("launches").get<double>();
  EXPECT_EQ(launches, speed.at("launches").get<double>());
  for (const auto& transfer : speed.at("communication"))
    if (transfer.at("kind") == "all-gather") gathered += transfer.at("count").get<double>();
  EXPECT_EQ(gathered, 3 * (2 * 4 + 1)) << "in each micro-batch, two of each block and one of the root";
  const CheckReport here = check_report(plan);
  EXPECT_FALSE(here.roofline);
  EXPECT_TRUE(to_json(here, plan).at("speed").is_null());
}

TEST(CheckReport, ReferenceOfPreferencesCostsOneForwardPassAndNoSecondModel) {
  const testing::TemporaryFolder folder;
  const std::string pairs = (folder.path() / "pairs.jsonl").string();
  std::ofstream file(pairs);
  for (int i = 0; i < 40; ++i)
    file << R"({"prompt": "how are the harvests in year )" << i
         << R"(?", "chosen": "good", "rejected": "bad and worse"})"
         << "\n";
  file.close();
  config::Plan plan = plan_of(true);
  config::Config& c = plan.config;
  c.model.config = R"({"model_type": "llama", "vocab_size": 512, "hidden_size": 32, "intermediate_size": 48,
                       "num_hidden_layers": 2, "num_attention_heads": 4})";
  c.data.task = config::Task::kCausalLm;
  c.data.train = {.path = {pairs}};
  std::tie(c.data.source, c.data.target, c.data.rejected) = std::tuple("prompt", "chosen", "rejected");
  EXPECT_FALSE(check_report(plan).reference);
  c.dpo.emplace();
  const CheckReport whole = check_report(plan);
  ASSERT_TRUE(whole.reference);
  EXPECT_EQ(whole.reference->pairs, 40) << "training and validation";
  EXPECT_EQ(whole.reference->bytes, 16 * 40);
  EXPECT_GT(whole.reference->tokens, whole.data.tokens);
  EXPECT_FALSE(whole.reference->seconds);
  EXPECT_NE(to_text(whole, plan).find("no second model in memory: 640 B"), std::string::npos) << to_text(whole, plan);
  c.training.max_steps = 1;
  const CheckReport begun =
      check_report(plan, config::gpu_memory_named("H100"), Cluster{config::card_named("--device", "H100"), 2});
  EXPECT_EQ(begun.reference->pairs, 2 * 4 * 3 + 4) << "the first update's, and validation's";
  ASSERT_TRUE(begun.reference->seconds);
  EXPECT_GT(*begun.reference->seconds, 0.1 * begun.roofline->speed.seconds);
  EXPECT_LT(*begun.reference->seconds, begun.roofline->speed.seconds) << "a forward pass of as many pairs";
  EXPECT_EQ(to_json(begun, plan)["reference"]["pairs"], begun.reference->pairs);
}

TEST(CheckReport, NamesTheAdaptedLayersWithTheirShapes) {
  const CheckReport report = check_report(plan_of(true));
  ASSERT_EQ(report.lora.size(), 12U);  // q and v of two encoder blocks, and twice those of two decoder blocks
  int64_t trained = 0;
  for (const LoraTarget& target : report.lora) {
    EXPECT_EQ(target.in, 32);
    EXPECT_EQ(target.out, 32);
    EXPECT_EQ(target.trained, 8 * (32 + 32));
    trained += target.trained;
  }
  EXPECT_EQ(report.lora[0].name, "encoder.block.0.layer.0.SelfAttention.q");
  EXPECT_EQ(report.model.trained, trained);
}

TEST(CheckReport, DescribesTheDataAndTheUpdates) {
  const config::Plan plan = plan_of(false);
  const CheckReport report = check_report(plan);
  const prepare::Inputs inputs = prepare::load_inputs(plan);
  EXPECT_EQ(report.data.samples, inputs.datasets.train->size());
  EXPECT_EQ(report.data.validation_samples, inputs.datasets.validation->size());
  EXPECT_EQ(report.data.cut_off, inputs.datasets.train->cut());
  EXPECT_GT(report.data.cut_off, 0);
  EXPECT_EQ(report.data.source.longest, 20);
  for (const LengthReport& lengths : {report.data.source, report.data.target}) {
    EXPECT_EQ(samples_of(lengths), report.data.samples);
    EXPECT_LE(lengths.histogram.front().from, lengths.shortest);
    EXPECT_GE(lengths.histogram.back().to, lengths.longest);
    for (size_t i = 1; i < lengths.histogram.size(); ++i)
      EXPECT_EQ(lengths.histogram[i].from, lengths.histogram[i - 1].to + 1);
  }
  const RunReport& run = report.run;
  EXPECT_EQ(run.length.global_batch, 4 * 3 * 2);
  EXPECT_EQ(run.accumulation, 3);
  EXPECT_EQ(run.length.updates_per_epoch, (report.data.samples + 23) / 24);
  EXPECT_EQ(run.length.updates, 3 * run.length.updates_per_epoch);
  const optim::LearningRate schedule(config::Schedule::kLinear, 5e-5, 10, run.length.updates);
  ASSERT_EQ(run.learning_rate.size(), 5U);
  EXPECT_EQ(run.learning_rate.front().value, 0);
  EXPECT_EQ(run.learning_rate.back().update, run.length.updates);
  for (const auto& rate : run.learning_rate) EXPECT_EQ(rate.value, schedule.at(rate.update - 1));
}

TEST(CheckReport, FitsIntoEightyColumnsAndSumsUp) {
  for (const bool lora : {false, true}) {
    const config::Plan plan = plan_of(lora);
    const CheckReport report = check_report(plan);
    const std::string text = to_text(report, plan);
    EXPECT_EQ(unpleasant_lines(text), std::vector<std::string>()) << text;
    EXPECT_EQ(text.find("LORA, r 8, alpha 8, dropout 0 on 12 layers") != std::string::npos, lora);
    const nlohmann::json json = to_json(report, plan);
    const auto& memory = json.at("memory");
    int64_t sum = 0;
    for (const char* part : {"weights", "gradients", "optimizer", "activations", "communication"}) {
      EXPECT_GE(memory.at(part).get<int64_t>(), 0) << part;
      sum += memory.at(part).get<int64_t>();
    }
    EXPECT_EQ(memory.at("training"), sum);
    EXPECT_EQ(memory.at("peak"),
              std::max({sum, memory.at("evaluation").get<int64_t>(), memory.at("saving").get<int64_t>()}));
    EXPECT_EQ(json.at("lora").is_null(), !lora);
    EXPECT_EQ(json.at("fsdp").at("units").size(), report.units.size());
    EXPECT_EQ(json.at("run").at("updates"), report.run.length.updates);
    EXPECT_EQ(json.at("warnings"), nlohmann::json({"something"}));
  }
}

}  // namespace
}  // namespace trainer::train
