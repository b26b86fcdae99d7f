#include <filesystem>
#include <optional>

#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/temporary_folder.h"
#include "engine/train/estimate/estimate.h"
#include "engine/worker/commands.h"

namespace trainer::worker {

int estimate_memory_command(const std::vector<std::string>& args) {
  bool json = false, on_cpu = false;
  std::string config_json;
  train::EstimateRequest request;
  request.dtypes = train::estimate_dtypes();
  CLI::App app("Estimate memory.", "estimate-memory");
  app.add_option("--config_json", config_json)->required();
  app.add_option("--name", request.name)->required();
  app.add_option("--task", request.task);
  app.add_option("--dtype", request.dtypes);
  app.add_option("--lora", request.lora_rank);
  app.add_option("--target", request.targets);
  app.add_option("--num_processes", request.ranks);
  app.add_option("--batch_size", request.batch_size);
  app.add_option("--sequence_length", request.sequence_length);
  app.add_flag("--gradient_checkpointing", request.gradient_checkpointing);
  app.add_flag("--cpu", on_cpu);
  app.add_flag("--json", json);
  try {
    app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  } catch (const CLI::ParseError& error) {
    throw ConfigError("`trainer-worker estimate-memory`: {}", error.what());
  }
  request.on_gpus = !on_cpu;
  const std::filesystem::path file = config_json;
  std::optional<TemporaryFolder> copy;  // a model's folder has its configuration under this name
  if (file.filename() == "config.json") {
    request.folder = file.parent_path().empty() ? "." : file.parent_path().string();
  } else {
    copy.emplace("trainer-estimate");
    publish_file(copy->path() / "config.json", read_file(file, int64_t{1} << 20));
    request.folder = copy->path().string();
  }
  const train::Estimate estimate = train::estimate_memory(request);
  if (json)
    fmt::print("{}\n",
               train::to_json(estimate, request).dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  else
    fmt::print("{}", train::to_text(estimate, request));
  return kDone;
}

}  // namespace trainer::worker
