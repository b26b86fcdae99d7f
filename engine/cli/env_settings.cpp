#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "engine/base/beside_program.h"
#include "engine/base/errors.h"
#include "engine/base/human.h"
#include "engine/base/user_cache.h"
#include "engine/cli/env_facts.h"
#include "engine/cli/env_privacy.h"
#include "engine/cli/program.h"
#include "engine/config/machine/hub_folder.h"
#include "engine/config/machine/started_rank.h"
#include "engine/config/plan/files.h"

namespace trainer::cli {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefixes[] = {"TRAINER_", "ACCELERATE_", "FSDP_",   "PARALLELISM_CONFIG_",
                                          "CUDA_",    "NVIDIA_",     "NCCL_",   "TORCH_",
                                          "PYTORCH_", "GLOO_",       "HCCL_",   "UCX_",
                                          "FI_",      "OMP_",        "GOMP_",   "KMP_",
                                          "MKL_",     "DNNL_",       "ONEDNN_", "OPENBLAS_",
                                          "MALLOC_",  "HF_",         "PET_"};
constexpr std::string_view kNames[] = {"ATEN_CPU_CAPABILITY",
                                       "HUGGINGFACE_HUB_CACHE",
                                       "LD_LIBRARY_PATH",
                                       "LD_PRELOAD",
                                       "LOCAL_RANK",
                                       "LOCAL_WORLD_SIZE",
                                       "MASTER_ADDR",
                                       "MASTER_PORT",
                                       "NO_COLOR",
                                       "RANK",
                                       "TERM",
                                       "TMPDIR",
                                       "TOKENIZERS_PARALLELISM",
                                       "WORLD_SIZE",
                                       "XDG_CACHE_HOME"};
/// Not all of SLURM's and Open MPI's: many name users, accounts and hosts.
constexpr std::string_view kOfLaunchers[] = {"SLURM_CPUS_ON_NODE",
                                             "SLURM_CPUS_PER_TASK",
                                             "SLURM_GPUS",
                                             "SLURM_GPUS_ON_NODE",
                                             "SLURM_GPUS_PER_NODE",
                                             "SLURM_GPUS_PER_TASK",
                                             "SLURM_JOB_ID",
                                             "SLURM_JOB_NUM_NODES",
                                             "SLURM_LOCALID",
                                             "SLURM_MEM_PER_CPU",
                                             "SLURM_MEM_PER_NODE",
                                             "SLURM_NNODES",
                                             "SLURM_NODEID",
                                             "SLURM_NPROCS",
                                             "SLURM_NTASKS",
                                             "SLURM_NTASKS_PER_NODE",
                                             "SLURM_PROCID",
                                             "SLURM_RESTART_COUNT",
                                             "SLURM_STEP_ID",
                                             "SLURM_STEP_NUM_TASKS",
                                             "SLURM_STEP_TASKS_PER_NODE",
                                             "SLURM_TASKS_PER_NODE",
                                             "OMPI_COMM_WORLD_LOCAL_RANK",
                                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                                             "OMPI_COMM_WORLD_RANK",
                                             "OMPI_COMM_WORLD_SIZE",
                                             "PMI_RANK",
                                             "PMI_SIZE"};
/// Their values are addresses with passwords more often than not.
constexpr std::string_view kOnlySet[] = {"HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy"};

template <std::size_t kCount>
bool is_one_of(std::string_view name, const std::string_view (&names)[kCount]) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool is_relevant(std::string_view name) {
  return is_one_of(name, kNames) || is_one_of(name, kOfLaunchers) || is_one_of(name, kOnlySet) ||
         std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                     [&](std::string_view prefix) { return name.starts_with(prefix); });
}

struct Size {
  int64_t bytes = 0, files = 0;
  bool complete = true;
};

/// Of the files below a folder; links are not followed, so each of the hub's files counts once.
Size size_of(const fs::path& folder) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(15);
  Size size;
  std::error_code error;
  for (fs::recursive_directory_iterator it(folder, fs::directory_options::skip_permission_denied, error), last;
       !error && it != last; it.increment(error)) {
    if (Clock::now() > end) {
      size.complete = false;
      break;
    }
    std::error_code ignored;
    if (!it->is_regular_file(ignored) || it->is_symlink(ignored)) continue;
    const auto bytes = it->file_size(ignored);
    if (ignored) continue;
    size.bytes += static_cast<int64_t>(bytes);
    ++size.files;
  }
  return size;
}

Fact cache_fact(const std::string& name, const fs::path& folder) {
  const std::string shown = public_text(folder.string());
  std::error_code ignored;
  if (folder.empty() || !fs::is_directory(folder, ignored))
    return {name, {{"path", shown}, {"bytes", 0}, {"files", 0}, {"complete", true}}, shown + ": does not exist"};
  const Size size = size_of(folder);
  std::string text = fmt::format("{}: {}{} in {} files", shown, size.complete ? "" : "more than ",
                                 human_bytes(size.bytes), size.files);
  nlohmann::ordered_json value{
      {"path", shown}, {"bytes", size.bytes}, {"files", size.files}, {"complete", size.complete}};
  struct statvfs disk {};
  if (statvfs(folder.c_str(), &disk) == 0) {
    const auto left = static_cast<int64_t>(disk.f_bavail * disk.f_frsize);
    value["disk_free"] = left;
    text += fmt::format(", {} free on its disk", human_bytes(left));
  }
  return {name, value, text};
}

}  // namespace

FactSection program_facts() {
  FactSection section{"Program", {}};
  section.facts.push_back({"version", version_text(), version_text()});
  const std::string folder = public_text(beside_program("").parent_path().string());
  section.facts.push_back({"folder", folder, folder});
  for (const char* name : {"trainer-worker", "trainer-prepare", "libtrainer_cuda.so", "libtrainer_mpi.so"}) {
    const bool there = access(beside_program(name).c_str(), R_OK) == 0;
    section.facts.push_back({name, there, there ? "present" : "absent"});
  }
  return section;
}

FactSection variable_facts() {
  std::map<std::string, std::string> found;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::size_t equals = text.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string name(text.substr(0, equals));
    if (!is_relevant(name)) continue;
    found[public_text(name)] =
        is_one_of(name, kOnlySet) ? kSecretIsSet : public_value(name, std::string(text.substr(equals + 1)));
  }
  FactSection section{"Environment variables", {}, /*has_variables=*/true};
  for (const auto& [name, value] : found) section.facts.push_back({name, value, value});
  return section;
}

FactSection configuration_facts() {
  FactSection section{"Default configuration", {}};
  try {
    const config::DefaultFile file = config::find_default_file();
    const std::string shown = public_text(file.path);
    section.facts.push_back({"file", shown, file.path.empty() ? "none" : shown});
    if (file.path.empty()) return section;
    config::Problems problems;
    const std::string text = config::to_yaml(public_document(config::read_document(file.path, problems)));
    section.facts.push_back({"content", text, text});
  } catch (const std::exception& error) {  // it can't be read: this may be what the report is about
    const std::string why = public_text(error.what());
    section.facts.push_back({"problem", why, why});
  }
  return section;
}

FactSection cache_facts() {
  return {"Caches", {cache_fact("trainer", user_cache()), cache_fact("Hugging Face Hub", config::hub_cache())}};
}

std::vector<FactSection> all_facts() {
  return {program_facts(), system_facts(),    cpu_facts(),      memory_facts(),        gpu_facts(),
          network_facts(), scheduler_facts(), variable_facts(), configuration_facts(), cache_facts()};
}

}  // namespace trainer::cli
