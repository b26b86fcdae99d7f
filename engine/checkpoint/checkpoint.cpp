#include "engine/checkpoint/checkpoint.h"

#include <map>

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/tensorfile/safetensors_file.h"
#include "engine/tensorfile/safetensors_writer.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr const char* kParameter = "parameter";

/// This rank's piece of a saved tensor, where it lives.
struct Live {
  std::string kind;
  parallel::LogicalTensor tensor;

  std::string entry() const { return kind + "/" + tensor.name; }
};

std::vector<Live> live_tensors(const std::vector<parallel::LogicalTensor>& tensors, optim::Optimizer& optimizer) {
  std::vector<Live> all;
  std::map<std::string, const parallel::LogicalTensor*> by_name;
  for (const auto& tensor : tensors) {
    if (!tensor.trainable) continue;  // frozen weights are where they came from
    by_name[tensor.name] = &tensor;
    all.push_back({kParameter, tensor});
  }
  for (const optim::StateTensor& state : optimizer.state())
    all.push_back({state.kind, state.logical(*by_name.at(state.parameter))});
  return all;
}

/// What this rank writes of its piece: all of it, or a share where several ranks have the same.
SavedPiece piece_to_write(const Live& live, const dist::Comm& comm) {
  const parallel::LogicalTensor& t = live.tensor;
  const int64_t length = t.end - t.begin;
  const int64_t copies = t.replicated ? comm.size() : t.copies, copy = t.replicated ? comm.rank() : t.copy;
  return {fmt::format("rank-{:05d}.safetensors", comm.rank()),
          live.entry(),
          t.part,
          t.begin + length * copy / copies,
          t.begin + length * (copy + 1) / copies,
          0};
}

std::vector<SavedTensor> write_pieces(const fs::path& folder, const std::vector<Live>& tensors,
                                      const dist::Comm& comm) {
  std::vector<SavedTensor> written;
  std::vector<tensorfile::TensorSpec> specs;
  std::map<std::string, at::Tensor> values;
  for (const Live& live : tensors) {
    SavedPiece piece = piece_to_write(live, comm);
    const at::Tensor value =
        live.tensor.value.narrow(0, piece.begin - live.tensor.begin, piece.end - piece.begin).contiguous();
    piece.crc32c = crc32c(value.const_data_ptr(), value.nbytes());
    SavedTensor saved{live.kind, live.tensor.name, live.tensor.shape, {}};
    if (piece.end > piece.begin) {
      specs.push_back({live.entry(), value.scalar_type(), {value.numel()}});
      values[live.entry()] = value;
      saved.pieces.push_back(std::move(piece));
    }
    written.push_back(std::move(saved));
  }
  tensorfile::SafetensorsWriter writer(folder / fmt::format("rank-{:05d}.safetensors", comm.rank()), specs);
  const auto order = writer.order();
  for (const auto& info : order) writer.write(info.name, values.at(info.name));
  writer.finish();
  return written;
}

/// Runs `work`; all ranks throw when any did, so that none waits for the others in a collective.
void together(dist::Comm& comm, const std::function<void()>& work) {
  std::string problem;
  try {
    work();
  } catch (const Error& error) {
    problem = error.what();
  }
  for (const std::string& text : comm.gather_text(problem))
    if (!text.empty()) throw MachineError("{}", text);
}

std::string trainer_state_json(const Manifest& m) {
  const nlohmann::json state = {
      {"global_step", m.progress.step},
      {"epoch", static_cast<double>(m.progress.consumed) / static_cast<double>(std::max<int64_t>(1, m.samples))},
      {"train_batch_size", m.progress.global_batch},
      {"num_input_tokens_seen", m.progress.tokens},
      {"is_local_process_zero", true},
      {"is_world_process_zero", true},
      {"log_history", nlohmann::json::array()}};
  return state.dump(2) + "\n";
}

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

  void fill(const Live& live, const SavedTensor& saved) {
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
void check_same_model(const fs::path& folder, const std::vector<Live>& tensors,
                      const std::map<std::string, const SavedTensor*>& saved) {
  std::vector<std::string> problems;
  for (const Live& live : tensors) {
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

void save(const fs::path& output_dir, Manifest about, const RunState& state,
          const std::function<void(const fs::path&)>& also) {
  dist::Comm& comm = state.model.comm();
  const fs::path partial = partial_path(output_dir, about.progress.step);
  about.world_size = comm.size();
  about.optimizer = state.optimizer.name();
  about.progress.optimizer_steps = state.optimizer.steps();
  together(comm, [&] {
    if (comm.rank() != 0) return;
    remove_partial(output_dir);
    std::error_code error;
    if (!fs::create_directory(partial, error)) throw machine_error("create", partial, error.value());
  });
  const auto tensors = state.model.logical_tensors();
  std::vector<SavedTensor> mine;
  together(comm, [&] { mine = write_pieces(partial, live_tensors(tensors, state.optimizer), comm); });
  for (const std::string& text : comm.gather_text(pieces_to_text(mine))) merge_pieces(text, about.tensors);
  also(partial);
  together(comm, [&] {
    if (comm.rank() != 0) return;
    publish_file(partial / "trainer_state.json", trainer_state_json(about));
    publish_file(partial / "manifest.json", to_json(about));
    publish_folder(partial, checkpoint_path(output_dir, about.progress.step));
  });
}

Manifest load(const fs::path& folder, const RunState& state) {
  const at::NoGradGuard no_grad;
  Manifest manifest = read_manifest(folder.string());
  check_same_optimizer(folder, manifest.optimizer, state.optimizer.name());
  const auto tensors = state.model.logical_tensors();
  const auto live = live_tensors(tensors, state.optimizer);
  std::map<std::string, const SavedTensor*> saved;
  for (const SavedTensor& tensor : manifest.tensors) saved[tensor.kind + "/" + tensor.name] = &tensor;
  check_same_model(folder, live, saved);
  Loader loader(folder);
  for (const Live& tensor : live) loader.fill(tensor, *saved.at(tensor.entry()));
  state.optimizer.set_steps(manifest.progress.optimizer_steps);
  return manifest;
}

}  // namespace trainer::checkpoint
