#include "engine/weights/foreign_checkpoint.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include <fmt/format.h>

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code none;
  for (fs::directory_iterator it(folder, none), end; !none && it != end; it.increment(none))
    names.push_back(it->path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

/// The first of `names` that begins with `begin` and ends with `end`; "" when none does.
std::string find(const std::vector<std::string>& names, std::string_view begin, std::string_view end = "") {
  const auto fits = [&](const std::string& name) { return name.starts_with(begin) && name.ends_with(end); };
  const auto found = std::find_if(names.begin(), names.end(), fits);
  return found == names.end() ? "" : *found;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

/// The file in which the Hugging Face Trainer or Accelerate saves an optimizer; "" when there is none.
std::string optimizer_of(const std::vector<std::string>& names) {
  for (const char* const name : {"optimizer.pt", "optimizer.bin", "optimizer_0"})
    if (has(names, name)) return name;
  return "";
}

/// For a Megatron-LM folder that has pickles.
constexpr const char* kMegatronPickles =
    "; it is a Megatron checkpoint, whose files are pickles, which are not read\n  Convert them once, in Python, in "
    "each mp_rank folder:\n  import torch, safetensors.torch; model = torch.load('model_optim_rng.pt', "
    "weights_only=False)['model']\n  safetensors.torch.save_file({k: v.contiguous() for k, v in model.items() if "
    "torch.is_tensor(v)}, 'model.safetensors')\n  Then put Hugging Face's config.json next to "
    "latest_checkpointed_iteration.txt, and give that folder as model.path.";

/// For a Megatron-LM checkpoint, one of its iterations, or a rank's folder; "" for any other folder.
std::string foreign_megatron(const fs::path& folder, const std::vector<std::string>& names) {
  if (folder.filename().string().starts_with("mp_rank_")) return find(names, "", ".pt").empty() ? "" : kMegatronPickles;
  const bool tracked = has(names, "latest_checkpointed_iteration.txt");
  std::string iteration = find(names, "iter_");
  if (iteration.empty() && has(names, "release")) iteration = "release";
  const fs::path inside = tracked && !iteration.empty() ? folder / iteration : folder;
  const std::vector<std::string> its = tracked ? names_in(inside) : names;
  if (has(its, "common.pt") || !find(its, "", ".distcp").empty())
    return "; it is a Megatron checkpoint in torch's distributed format, whose files are pickles, which are not read\n"
           "  Resume from it in Megatron and save with --ckpt-format torch; the result can be converted";
  const std::string rank = find(its, "mp_rank_");
  if (rank.empty()) return "";
  if (!fs::exists(inside / rank / "model.safetensors")) return foreign_megatron(inside / rank, names_in(inside / rank));
  return fmt::format(
      "; it is a folder in Megatron's layout, which has weights only\n  Start a new run from them with model.path: {} "
      "in another output_dir.",
      (tracked ? folder : folder.parent_path()).string());
}

}  // namespace

std::string foreign_checkpoint(const fs::path& folder) {
  const std::vector<std::string> names = names_in(folder);
  if (std::string megatron = foreign_megatron(folder, names); !megatron.empty()) return megatron;
  if (const std::string step = find(names, "global_step"); has(names, "zero_to_fp32.py") || !step.empty())
    return fmt::format(
        "; it is a DeepSpeed checkpoint, whose files are pickles, which are not read\n  `python3 {0}/zero_to_fp32.py "
        "{0} MODEL --safe_serialization` converts its weights: put them into a model folder with config.json, and "
        "start a new run with model.path: MODEL",
        folder.string());
  if (!find(names, "pytorch_model_fsdp_").empty() || has(names, ".metadata"))
    return fmt::format(
        "; it is a sharded checkpoint of torch's FSDP, whose files are pickles, which are not read\n  `accelerate "
        "merge-weights {} MODEL` converts its weights: put config.json next to them, and start a new run with "
        "model.path: MODEL",
        folder.string());
  const std::string optimizer = optimizer_of(names);
  const char* const key = has(names, "adapter_model.safetensors")         ? "lora.path"
                          : !find(names, "model", ".safetensors").empty() ? "model.path"
                                                                          : "";
  if (*key != '\0')
    return fmt::format(
        "; it is a folder of the Hugging Face Trainer or of Accelerate{}\n  Its weights can be read: start a new run "
        "from them with {}: {} in another output_dir.",
        optimizer.empty() ? "" : fmt::format(", whose optimizer ({}) is a pickle and not read", optimizer), key,
        folder.string());
  if (!optimizer.empty() || !find(names, "pytorch_model", ".bin").empty())
    return "; it is a checkpoint of the Hugging Face Trainer or of Accelerate, all of pickles, which are not read\n"
           "  Save its weights in Python with save_pretrained(MODEL), and start a new run with model.path: MODEL";
  return "";
}

}  // namespace trainer::checkpoint
