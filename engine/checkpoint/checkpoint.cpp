#include "engine/checkpoint/checkpoint.h"

#include <map>

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/tensorfile/safetensors_file.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

/// Calls f(place in part a, place in part b, elements) for every stretch of the whole that both have.
template <class F>
void for_each_common(const std::vector<nn::Run>& a, const std::vector<nn::Run>& b, const F& f) {
  for (size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    const int64_t begin = std::max(a[i].whole, b[j].whole);
    const int64_t a_end = a[i].whole + a[i].count, b_end = b[j].whole + b[j].count;
    const int64_t end = std::min(a_end, b_end);
    if (begin < end) f(a[i].part + begin - a[i].whole, b[j].part + begin - b[j].whole, end - begin);
    (a_end <= b_end ? i : j) += 1;
  }
}

/// Reads the saved pieces that overlap this rank's and copies them in.
class Loader {
 public:
  explicit Loader(const fs::path& folder) : folder_(folder) {}

  void fill(const LiveTensor& live, const SavedTensor& saved) {
    const parallel::LogicalTensor& t = live.tensor;
    const auto wanted = nn::runs_of(t.part, t.shape, t.begin, t.end);
    for (const SavedPiece& piece : saved.pieces) {
      const auto there = nn::runs_of(piece.part, t.shape, piece.begin, piece.end);
      at::Tensor stored;
      for_each_common(wanted, there, [&](int64_t mine, int64_t its, int64_t count) {
        if (!stored.defined()) stored = checked(piece);
        t.value.narrow(0, mine - t.begin, count).copy_(stored.narrow(0, its - piece.begin, count));
      });
    }
  }

 private:
  at::Tensor checked(const SavedPiece& piece) {
    auto& file = files_[piece.file];
    if (!file) file = std::make_unique<tensorfile::SafetensorsFile>(folder_ / piece.file);
    const int64_t there = file->info(piece.entry).numel(), wanted = piece.end - piece.begin;
    if (there != wanted)
      throw InputError("{}: {} has {} elements; the manifest says {}.", (folder_ / piece.file).string(), piece.entry,
                       there, wanted);
    const at::Tensor stored = file->read(piece.entry, 0, wanted);
    const uint32_t found = crc32c(stored.const_data_ptr(), stored.nbytes());
    if (found != piece.crc32c)
      throw InputError(
          "{}: {} is damaged (checksum {:08x}, written as {:08x}).\n  Resume from an earlier checkpoint: "
          "checkpoint.resume_from_checkpoint: FOLDER.",
          (folder_ / piece.file).string(), piece.entry, found, piece.crc32c);
    return stored;
  }

  fs::path folder_;
  std::map<std::string, std::unique_ptr<tensorfile::SafetensorsFile>> files_;
};

void check_same_optimizer(const fs::path& folder, const std::string& saved, const std::string& wanted) {
  if (saved == wanted) return;
  throw InputError(
      "{}: saved while training with the optimiser {}; the configuration says {} (training.optim).\n  What one has "
      "kept "
      "is of no use to the other: resume with the first, or start anew in another output_dir.",
      folder.string(), saved, wanted);
}

/// Errors: InputError that names the first differences.
void check_same_model(const fs::path& folder, const std::vector<LiveTensor>& tensors,
                      const std::map<std::string, const SavedTensor*>& saved) {
  std::vector<std::string> problems;
  for (const LiveTensor& live : tensors) {
    const auto found = saved.find(live.entry());
    if (found == saved.end())
      problems.push_back(fmt::format("{} is not in the checkpoint", live.entry()));
    else if (found->second->shape != live.tensor.shape)
      problems.push_back(fmt::format("{} has another shape there", live.entry()));
  }
  if (saved.size() > tensors.size() && problems.empty())
    problems.push_back(fmt::format("it holds {} tensors, this run trains {}", saved.size(), tensors.size()));
  if (problems.empty()) return;
  constexpr size_t kShown = 2;
  std::string text;
  for (size_t i = 0; i < std::min(kShown, problems.size()); ++i) text += "\n  " + problems[i];
  if (problems.size() > kShown) text += fmt::format(" … and {} more", problems.size() - kShown);
  throw InputError("{}: a checkpoint of another model or another kind of training:{}\n  Use another output_dir.",
                   folder.string(), text);
}

}  // namespace

void save(const fs::path& output_dir, Manifest about, const RunState& state, const Saver::Also& also) {
  Saver({.output_dir = output_dir}, state.model.comm()).begin(std::move(about), state, also);
}

namespace {

/// Collective. What keeps a checkpoint from being as it was written, every byte of it; "" when nothing does. Each rank
/// reads some of the files, and all are told.
std::string damage(const fs::path& folder, dist::Comm& comm) {
  std::string problem;
  try {
    verify_files(folder, read_contents(folder), comm.rank(), comm.size());
  } catch (const InputError& error) {
    problem = error.what();
  }
  for (const std::string& text : comm.gather_text(problem))
    if (!text.empty()) return text;
  return "";
}

Manifest fill(const fs::path& folder, const RunState& state) {
  const at::NoGradGuard no_grad;
  Manifest manifest = read_manifest(folder.string());
  check_same_optimizer(folder, manifest.optimizer, state.optimizer.name());
  const auto live = live_tensors(state);
  std::map<std::string, const SavedTensor*> saved;
  for (const SavedTensor& tensor : manifest.tensors) saved[tensor.kind + "/" + tensor.name] = &tensor;
  check_same_model(folder, live, saved);
  Loader loader(folder);
  for (const LiveTensor& tensor : live) loader.fill(tensor, *saved.at(tensor.entry()));
  state.optimizer.set_steps(manifest.progress.optimizer_steps);
  return manifest;
}

}  // namespace

Manifest load(const fs::path& folder, const RunState& state) {
  if (const std::string problem = damage(folder, state.model.comm()); !problem.empty())
    throw InputError("{}\n  Resume from an earlier checkpoint: checkpoint.resume_from_checkpoint: FOLDER.", problem);
  return fill(folder, state);
}

Loaded load_newest(const fs::path& output_dir, const RunState& state) {
  std::vector<Found> checkpoints = find_checkpoints(output_dir);
  Loaded loaded;
  for (const fs::path& unfinished : find_unfinished(output_dir))
    if (unfinished.extension() == ".partial")
      loaded.passed_over.push_back(unfinished.filename().string() + ": it was not finished");
  std::string first;
  for (; !checkpoints.empty(); checkpoints.pop_back()) {
    loaded.folder = checkpoints.back().folder;
    const std::string problem = damage(loaded.folder, state.model.comm());
    if (problem.empty()) {
      loaded.manifest = fill(loaded.folder, state);
      return loaded;
    }
    if (first.empty()) first = problem;
    loaded.passed_over.push_back(problem);
  }
  throw InputError("{}\n  No older checkpoint in {} is whole: start anew in another output_dir.", first,
                   output_dir.string());
}

}  // namespace trainer::checkpoint
