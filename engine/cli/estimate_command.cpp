#include <filesystem>
#include <map>

#include "engine/base/errors.h"
#include "engine/cli/flags.h"
#include "engine/cli/worker.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/plan/reader.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

/// The config.json of a folder, of a file, or of a name in the Hub's cache. Errors: InputError.
fs::path config_of(const std::string& model) {
  std::error_code ignored;
  if (fs::is_regular_file(model, ignored)) return model;
  const std::string folder = fs::is_directory(model) ? model : config::hub_folder(model);
  if (folder.empty())
    throw InputError(
        "{}: does not exist\n  It must be a folder with a config.json, such a file, or a name on the Hub.\n  {}", model,
        config::hub_hint(config::absolute_path(model, fs::current_path())));
  const fs::path file = fs::path(folder) / "config.json";
  if (!fs::exists(file, ignored)) throw InputError("{}: has no config.json, which describes a model", folder);
  return file;
}

}  // namespace

int run_estimate_memory(const Arguments& arguments) {
  CLI::App app(
      "Estimate the memory that loading and training a model takes, from its config.json alone: `accelerate "
      "estimate-memory`'s table, LoRA, and each rank's memory under DDP, FSDP and ZeRO. Training is planned with the "
      "program's own layers (docs/memory.md); `trainer check` plans a configuration with its samples.",
      "estimate-memory");
  app.footer(
      "Examples:\n  trainer estimate-memory models/t5-base\n"
      "  trainer estimate-memory meta-llama/Llama-2-7b-hf --num_processes 8 --sequence_length 4096\n"
      "  trainer estimate-memory config.json --dtypes bfloat16 int4 --lora 16 --json\n");
  std::string model, task;
  std::vector<std::string> dtypes, targets;
  int64_t lora = 0, ranks = 1, batch_size = 1, length = 0;
  bool checkpointing = false, on_cpu = false, json = false;
  app.add_option("MODEL", model, "a folder with a config.json, such a file, or a name in the Hub's cache")->required();
  app.add_option("--task", task, "what it is trained for, as data.task; default: the family's");
  const std::map<std::string, std::string> known{
      {"float32", "float32"},   {"fp32", "float32"},  {"float16", "float16"}, {"fp16", "float16"},
      {"bfloat16", "bfloat16"}, {"bf16", "bfloat16"}, {"int8", "int8"},       {"int4", "int4"}};
  app.add_option("--dtypes", dtypes, "float32, bfloat16, float16, int8, int4; default: all")
      ->delimiter(',')
      ->transform(CLI::Transformer(known).description(""))
      ->check(CLI::IsMember({"float32", "bfloat16", "float16", "int8", "int4"}).description(""));
  app.add_option("--lora", lora, "rank of LoRA; default: 8")->check(CLI::Range(1, 1 << 20));
  app.add_option("--target_modules", targets, "layers with LoRA, or all-linear; default: the family's")->delimiter(',');
  app.add_option("--num_processes", ranks, "ranks; with more than one, adds each rank's memory by strategy")
      ->check(CLI::Range(1, 1 << 16));
  app.add_option("--batch_size", batch_size, "samples of a rank at a time; default: 1")->check(CLI::Range(1, 1 << 16));
  app.add_option("--sequence_length", length, "tokens of a sample; default: 512, or the model's positions if fewer")
      ->check(CLI::Range(1, 1 << 24));
  app.add_flag("--gradient_checkpointing", checkpointing, "recompute activations");
  app.add_flag("--cpu", on_cpu, "the layers of the CPU instead of those of GPUs");
  app.add_flag("--json", json, "print one JSON object, sizes in bytes");
  if (!parse(app, arguments)) return 0;
  Arguments words{"estimate-memory", "--config_json", config_of(model).string(), "--name", model};
  const auto add = [&](const std::string& flag, const std::string& value) { words.insert(words.end(), {flag, value}); };
  if (!task.empty()) add("--task", task);
  for (const std::string& dtype : dtypes) add("--dtype", dtype);
  for (const std::string& target : targets) add("--target", target);
  if (lora > 0) add("--lora", std::to_string(lora));
  if (length > 0) add("--sequence_length", std::to_string(length));
  add("--num_processes", std::to_string(ranks));
  add("--batch_size", std::to_string(batch_size));
  if (checkpointing) words.emplace_back("--gradient_checkpointing");
  if (on_cpu) words.emplace_back("--cpu");
  if (json) words.emplace_back("--json");
  become_worker(words);
}

}  // namespace trainer::cli
