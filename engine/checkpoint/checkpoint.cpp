#include "engine/checkpoint/checkpoint.h"

#include <cstring>
#include <map>
#include <sstream>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/base/first_problems.h"
#include "engine/tensorfile/safetensors_file.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

std::string entry_of(const SavedTensor& tensor) {
  return tensor.kind + "/" + tensor.name;
}

/// Calls f(offset in part a, offset in part b, elements) for every range of the whole tensor that both contain.
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

/// Copies a checkpoint into this rank's tensors.
class Loader {
 public:
  Loader(const fs::path& folder, const Manifest& manifest, const FolderAccess& access,
         const std::vector<LiveTensor>& live)
      : folder_(folder), access_(access) {
    for (const LiveTensor& one : live) {
      const parallel::LogicalTensor& t = one.tensor;
      targets_[one.entry()].push_back({t, nn::runs_of(t.part, t.shape, t.begin, t.end)});
    }
    for (const SavedTensor& saved : manifest.tensors)
      for (const SavedPiece& piece : saved.pieces)
        sources_.push_back(
            {piece, nn::runs_of(piece.part, saved.shape, piece.begin, piece.end), targets_[entry_of(saved)]});
  }

  /// Collective.
  void load() {
    std::vector<FolderAccess::Share> needed;
    for (size_t i = 0; i < sources_.size(); ++i) {
      const FolderAccess::Share share = share_of(static_cast<int64_t>(i));
      if (share.begin >= share.end) continue;
      if (access_.this_rank_sees())
        copy({share.piece, 0, sources_[i].elements()}, checked(sources_[i].piece));
      else
        needed.push_back(share);
    }
    access_.hand_out(
        needed, [this](int64_t piece) { return checked(sources_.at(static_cast<size_t>(piece)).piece); },
        [this](const FolderAccess::Share& share, const at::Tensor& values) { copy(share, values); });
  }

 private:
  /// A tensor of this rank, and its ranges in the whole tensor.
  struct Target {
    const parallel::LogicalTensor& tensor;
    std::vector<nn::Run> runs;
  };
  /// A saved shard, its ranges in the whole tensor, and this rank's tensors that may overlap it.
  struct Source {
    const SavedPiece& piece;
    std::vector<nn::Run> runs;
    const std::vector<Target>& targets;

    int64_t elements() const { return piece.end - piece.begin; }
  };

  /// The range that this rank needs of a shard, from the first element to the last.
  FolderAccess::Share share_of(int64_t number) const {
    const Source& source = sources_.at(static_cast<size_t>(number));
    FolderAccess::Share share{number, source.elements(), 0};
    for (const Target& target : source.targets)
      for_each_common(target.runs, source.runs, [&](int64_t, int64_t its, int64_t count) {
        share.begin = std::min(share.begin, its - source.piece.begin);
        share.end = std::max(share.end, its - source.piece.begin + count);
      });
    return share;
  }

  /// `values`: at least what this rank needs of the shard.
  void copy(const FolderAccess::Share& share, const at::Tensor& values) const {
    const Source& source = sources_.at(static_cast<size_t>(share.piece));
    const int64_t first = source.piece.begin + share.begin;
    for (const Target& target : source.targets)
      for_each_common(target.runs, source.runs, [&](int64_t mine, int64_t its, int64_t count) {
        const parallel::LogicalTensor& t = target.tensor;
        t.value.narrow(0, mine - t.begin, count).copy_(values.narrow(0, its - first, count));
      });
  }

  at::Tensor checked(const SavedPiece& piece) {
    const at::Tensor stored = read(piece);
    const int64_t wanted = piece.end - piece.begin;
    if (stored.numel() != wanted)
      throw InputError("{}: {} has {} elements; the manifest says {}.", (folder_ / piece.file).string(), piece.entry,
                       stored.numel(), wanted);
    const uint32_t found = crc32c(stored.const_data_ptr(), stored.nbytes());
    if (found != piece.crc32c)
      throw InputError(
          "{}: {} is damaged (checksum {:08x}, written as {:08x}).\n  Resume from an earlier checkpoint: "
          "checkpoint.resume_from_checkpoint: FOLDER.",
          (folder_ / piece.file).string(), piece.entry, found, piece.crc32c);
    return stored;
  }

  at::Tensor read(const SavedPiece& piece) {
    auto& file = files_[piece.file];
    if (!file) file = std::make_unique<tensorfile::SafetensorsFile>(folder_ / piece.file);
    return file->read(piece.entry, 0, file->info(piece.entry).numel());
  }

  fs::path folder_;
  const FolderAccess& access_;
  std::map<std::string, std::vector<Target>> targets_;
  std::vector<Source> sources_;
  std::map<std::string, std::unique_ptr<tensorfile::SafetensorsFile>> files_;
};

void check_same_optimizer(const fs::path& folder, const std::string& saved, const std::string& wanted) {
  if (saved == wanted) return;
  throw InputError(
      "{}: saved while training with the optimizer {}; the configuration says {} (training.optim).\n  Their states are "
      "not interchangeable: resume with the first, or start from scratch in another output_dir.",
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
      problems.push_back(fmt::format("{} has another shape in the checkpoint", live.entry()));
  }
  if (saved.size() > tensors.size() && problems.empty())
    problems.push_back(fmt::format("it has {} tensors, but this run trains {}", saved.size(), tensors.size()));
  if (problems.empty()) return;
  throw InputError("{}: a checkpoint of another model or another kind of training:{}\n  Use another output_dir.",
                   folder.string(), first_problems(problems));
}

}  // namespace

void save(const fs::path& output_dir, Manifest about, const RunState& state, const Saver::Also& also) {
  Saver({.output_dir = output_dir}, state.model.comm()).begin(std::move(about), state, also);
}

namespace {

/// Collective. Verifies every byte of a checkpoint; returns the damage, or "". Each rank that sees it reads some of the
/// files, and all ranks get the result.
std::string damage(const fs::path& folder, dist::Comm& comm, const FolderAccess& access, const Trust* trust) {
  std::string problem;
  try {
    if (access.this_rank_sees() && trust != nullptr) check_signature(folder, *trust);
    if (access.this_rank_sees()) verify_files(folder, read_contents(folder), comm.rank(), access.seeing(comm.size()));
  } catch (const InputError& error) {
    problem = error.what();
  }
  for (const std::string& text : comm.gather_text(problem))
    if (!text.empty()) return text;
  return "";
}

/// Collective. The manifest, which rank 0 broadcasts unless all ranks see it.
Manifest manifest_for_all(const fs::path& folder, dist::Comm& comm, const FolderAccess& access) {
  if (access.all_see()) return read_manifest(folder.string());
  std::string text = comm.rank() == 0 ? read_file(folder / kManifestFile) : "";
  const auto length = static_cast<int64_t>(comm.max(static_cast<double>(text.size())));
  const at::Tensor bytes = at::empty({length}, at::kByte);
  if (comm.rank() == 0) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  comm.broadcast(bytes, 0);
  text.assign(static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(length));
  return manifest_from(text, folder.string());
}

Manifest fill(const fs::path& folder, const RunState& state, const FolderAccess& access) {
  const at::NoGradGuard no_grad;
  Manifest manifest = manifest_for_all(folder, state.model.comm(), access);
  check_same_optimizer(folder, manifest.optimizer, state.optimizer.name());
  const auto live = live_tensors(state);
  std::map<std::string, const SavedTensor*> saved;
  for (const SavedTensor& tensor : manifest.tensors) saved[entry_of(tensor)] = &tensor;
  check_same_model(folder, live, saved);
  Loader(folder, manifest, access, live).load();
  state.optimizer.set_steps(manifest.progress.optimizer_steps);
  return manifest;
}

/// Collective. The checkpoints that rank 0 finds, oldest first.
std::vector<fs::path> found_by_first(const fs::path& output_dir, dist::Comm& comm) {
  std::string steps;
  if (comm.rank() == 0)
    for (const Found& one : find_checkpoints(output_dir)) steps += fmt::format("{} ", one.step);
  std::istringstream said(comm.gather_text(steps).front());
  std::vector<fs::path> folders;
  for (int64_t step = 0; said >> step;) folders.push_back(checkpoint_path(output_dir, step));
  return folders;
}

}  // namespace

Manifest load(const fs::path& folder, const RunState& state, const FolderAccess& access, const Trust* trust) {
  if (const std::string problem = damage(folder, state.model.comm(), access, trust); !problem.empty())
    throw InputError("{}\n  Resume from an earlier checkpoint: checkpoint.resume_from_checkpoint: FOLDER.", problem);
  return fill(folder, state, access);
}

Loaded load_newest(const fs::path& output_dir, const RunState& state, const FolderAccess& access, const Trust* trust) {
  std::vector<fs::path> checkpoints = found_by_first(output_dir, state.model.comm());
  Loaded loaded;
  for (const fs::path& unfinished : find_unfinished(output_dir))
    if (unfinished.extension() == ".partial")
      loaded.skipped.push_back(unfinished.filename().string() + ": the save was not finished");
  std::string first;
  for (; !checkpoints.empty(); checkpoints.pop_back()) {
    loaded.folder = checkpoints.back();
    const std::string problem = damage(loaded.folder, state.model.comm(), access, trust);
    if (problem.empty()) {
      loaded.manifest = fill(loaded.folder, state, access);
      return loaded;
    }
    if (first.empty()) first = problem;
    loaded.skipped.push_back(problem);
  }
  throw InputError(
      "{}\n  No older checkpoint in {} is intact. If the file system is at fault, try again later; else start from "
      "scratch in another output_dir.",
      first, output_dir.string());
}

}  // namespace trainer::checkpoint
