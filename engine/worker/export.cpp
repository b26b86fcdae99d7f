#include "engine/train/export.h"

#include <CLI/CLI.hpp>

#include "engine/base/errors.h"
#include "engine/base/human.h"
#include "engine/base/log.h"
#include "engine/report/model_card.h"
#include "engine/train/parallelism.h"
#include "engine/worker/commands.h"
#include "engine/worker/output.h"

namespace trainer::worker {
namespace {

namespace fs = std::filesystem;

/// The model card of a folder that comes from a run: the source, or the folder of a checkpoint-N.
void leave_model_card(const fs::path& source, const fs::path& folder) {
  const fs::path whole = fs::weakly_canonical(source);
  const std::string name = whole.filename().string(), of_checkpoint = "checkpoint-";
  const bool checkpoint = name.starts_with(of_checkpoint) &&
                          name.find_first_not_of("0123456789", of_checkpoint.size()) == std::string::npos;
  const fs::path run = checkpoint ? whole.parent_path() : whole;
  if (!fs::exists(run / "metrics.jsonl")) return;
  if (checkpoint)
    report::write_model_card(run, folder, std::stoll(name.substr(of_checkpoint.size())));
  else
    report::write_model_card(run, folder);
}

}  // namespace

int export_command(const std::vector<std::string>& args) {
  CLI::App app{"Export a model or adapter"};
  train::ExportRequest request;
  std::string source, output, type, dtype;
  app.add_option("SOURCE", source)->required();
  app.add_option("OUTPUT", output)->required();
  app.add_option("--gguf", type);
  app.add_option("--base", request.base);
  app.add_flag("--merge", request.merge);
  app.add_option("--dtype", dtype);
  bool json = false;
  app.add_flag("--json", json);
  app.parse(std::vector<std::string>(args.rbegin(), args.rend()));
  request.source = source;
  request.output = output;
  request.dtype = train::dtype_named(dtype);
  if (!type.empty()) request.gguf = gguf::tensor_type_named(type);
  const train::ExportResult result = train::export_for_others(request);
  for (const std::string& warning : result.warnings) log::warning("{}", warning);
  Output report(json);
  report.fact("exported", result.what);
  report.fact("output", output);
  report.fact("format", request.gguf ? "gguf" : "huggingface");
  if (request.gguf) {
    const auto bytes = static_cast<int64_t>(fs::file_size(output));
    report.fact("type", type);
    report.fact("bytes", bytes);
    report.line("exported {} to {} ({}, {})", result.what, output, type, human_bytes(bytes));
  } else {
    leave_model_card(source, output);
    report.line("exported {} to {}", result.what, output);
  }
  report.finish();
  return kDone;
}

}  // namespace trainer::worker
