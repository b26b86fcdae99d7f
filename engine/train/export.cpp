#include "engine/train/export.h"

#include <memory>

#include <nlohmann/json.hpp>

#include "engine/base/bounded_json.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/growing_folder.h"
#include "engine/checkpoint/export_checkpoint.h"
#include "engine/config/plan/adapter_folder.h"
#include "engine/gguf/export_adapter.h"
#include "engine/gguf/export_model.h"
#include "engine/tensorfile/tensor_folder.h"
#include "engine/train/build.h"
#include "engine/train/merge_adapter.h"
#include "engine/train/model_plan.h"
#include "engine/weights/foreign_checkpoint.h"
#include "engine/weights/megatron_source.h"
#include "engine/weights/whole_weights.h"

namespace trainer::train {
namespace fs = std::filesystem;
namespace {

enum class Kind { kModel, kAdapter };

bool has_checkpoint_weights(const fs::path& folder) {
  return checkpoint::is_checkpoint(folder) || checkpoint::is_megatron(folder);
}

/// Errors: InputError.
Kind kind_of(const fs::path& source) {
  if (!fs::is_directory(source)) throw InputError("{} is not a folder.", source.string());
  if (fs::exists(config::adapter_config_file(source.string()))) return Kind::kAdapter;
  if (has_checkpoint_weights(source) || fs::exists(source / "config.json")) return Kind::kModel;
  throw InputError(
      "{} has neither config.json nor adapter_config.json nor manifest.json{}.\n  Give the output folder of a finished "
      "run, one of its checkpoint-N folders, or a model or adapter folder.",
      source.string(), checkpoint::foreign_checkpoint(source));
}

/// The folder's name; of a checkpoint, its run's.
std::string run_name(const fs::path& source) {
  fs::path folder = fs::weakly_canonical(source);
  if (folder.filename().string().starts_with("checkpoint-")) folder = folder.parent_path();
  return folder.filename().string();
}

/// 4-bit and 8-bit weights of other programs. Errors: ConfigError.
void check_unquantized(const fs::path& folder) {
  const fs::path file = folder / "config.json";
  const nlohmann::json config = fs::exists(file) ? bounded_json_or_none(read_file(file)) : nlohmann::json();
  if (!config.is_object() || !config.contains("quantization_config")) return;
  throw ConfigError(
      "{}: the weights are stored quantized (quantization_config), which can't be exported.\n  Export the model in its "
      "original precision.",
      file.string());
}

void copy_folder(const fs::path& source, const fs::path& output, bool adapter) {
  GrowingFolder folder(output);
  std::vector<std::string> names = checkpoint::files_beside(source);
  if (adapter) names.emplace_back("adapter_config.json");
  if (fs::is_regular_file(source / "README.md")) names.emplace_back("README.md");
  for (const auto& entry : fs::directory_iterator(source)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json")) names.push_back(name);
  }
  for (const std::string& name : names) {
    std::error_code error;
    if (fs::copy_file(source / name, folder.path() / name, error); error)
      throw machine_error("copy to " + folder.path().string(), source / name, error.value());
  }
  folder.publish();
}

void to_hugging_face(const ExportRequest& request, Kind kind) {
  if (kind == Kind::kAdapter && request.merge)
    merge_adapter({request.source, request.base, request.output, request.dtype});
  else if (has_checkpoint_weights(request.source))
    checkpoint::export_checkpoint(request.source, request.output);
  else if (kind == Kind::kAdapter)
    copy_folder(request.source, request.output, true);
  else if (tensorfile::TensorFolder(request.source).names().empty())
    throw InputError("{} has no weights.", request.source.string());
  else
    copy_folder(request.source, request.output, false);
}

gguf::Exported model_to_gguf(const ExportRequest& request, const fs::path& folder) {
  check_unquantized(folder);
  const Blueprint blueprint = make_blueprint(plan_of_model(folder.string()));
  return gguf::export_model(*blueprint.model, blueprint.source(), {folder, run_name(request.source)}, request.output,
                            *request.gguf);
}

gguf::Exported adapter_to_gguf(const ExportRequest& request) {
  const AdapterPlan of_adapter = plan_of_adapter(request.source, request.base);
  const Blueprint blueprint = make_blueprint(of_adapter.plan, of_adapter.labels);
  return gguf::export_adapter(*blueprint.model, blueprint.source(), blueprint.lora, run_name(request.source),
                              request.output, *request.gguf);
}

gguf::Exported to_gguf(const ExportRequest& request, Kind kind) {
  if (request.output.extension() != ".gguf")
    throw ConfigError("{}: a GGUF file's name ends in .gguf.", request.output.string());
  if (fs::exists(request.output))
    throw ConfigError("{} already exists: give another name, or remove it.", request.output.string());
  check_writable(fs::absolute(request.output).parent_path());
  if (kind == Kind::kAdapter && !request.merge) return adapter_to_gguf(request);
  if (kind == Kind::kModel && !has_checkpoint_weights(request.source)) return model_to_gguf(request, request.source);
  const GrowingFolder work(request.output.string() + ".model");  // never published: the model folder on the way
  ExportRequest model = request;
  model.output = work.path() / "model";
  to_hugging_face(model, kind);
  return model_to_gguf(request, model.output);
}

}  // namespace

ExportResult export_for_others(const ExportRequest& request) {
  const Kind kind = kind_of(request.source);
  if (kind == Kind::kModel && (request.merge || !request.base.empty()))
    throw ConfigError("{} is a model, not an adapter: {} has no meaning.", request.source.string(),
                      request.merge ? "--merge" : "--base");
  ExportResult result;
  result.what = fmt::format("{} {}",
                            kind == Kind::kModel ? "the model"
                            : request.merge      ? "the merged adapter"
                                                 : "the adapter",
                            request.source.string());
  if (request.gguf)
    result.warnings = to_gguf(request, kind).warnings;
  else
    to_hugging_face(request, kind);
  return result;
}

}  // namespace trainer::train
