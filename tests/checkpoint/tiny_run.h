// Processes that save and load a tiny run whose values say of which step they are.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <torch/csrc/autograd/grad_mode.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "engine/base/errors.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/dist/shm_comm.h"
#include "tests/checkpoint/test_key.h"
#include "tests/support/golden_case.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {

/// Exit codes of the children.
enum Ending : int { kSaved = 0, kNotSaved = 4, kOtherRankLost = 6, kBroken = 9 };

/// Runs `body` in `ranks` processes that communicate over Gloo. Returns their exit codes, or minus the signal.
inline std::vector<int> run_processes(int ranks, const std::function<int(dist::Comm&)>& body) {
  const TemporaryFolder meeting;
  std::vector<pid_t> children;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t child = fork();
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    int code = kBroken;
    std::signal(SIGPIPE, SIG_IGN);  // as the launcher does for ranks
    try {
      const auto comm =
          ranks == 1 ? dist::solo_comm()
                     : dist::cpu_comm(c10::make_intrusive<c10d::FileStore>((meeting.path() / "store").string(), ranks),
                                      rank, ranks);
      code = body(*comm);
    } catch (const PeerError&) {
      code = kOtherRankLost;
    } catch (const std::exception& error) {
      fprintf(stderr, "rank %d: %s\n", rank, error.what());
    }
    _exit(code);
  }
  std::vector<int> codes;
  for (const pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    codes.push_back(WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
  }
  return codes;
}

/// A tiny model and its optimizer; every value encodes its step.
class TinyRun {
 public:
  TinyRun(bool sharded, dist::Comm& comm, checkpoint::FolderAccess access = {}, bool is_signed = false)
      : access_(std::move(access)) {
    if (is_signed) key_.emplace(signing_key("openssl.pem"));
    config::Plan plan;
    plan.config.model.config = R"({"model_type": "mlp", "input_size": 5, "hidden_sizes": [4], "num_labels": 3})";
    plan.config.data.task = config::Task::kImageClassification;
    plan.config.distributed_type = comm.size() == 1 ? config::DistributedType::kNo
                                   : sharded        ? config::DistributedType::kFsdp
                                                    : config::DistributedType::kMultiCpu;
    model_ = make_model(plan, comm);
    optimizer_ = optim::make_optimizer(plan.config.training, model_->logical_tensors(), comm);
  }

  void set(int64_t step) {
    const at::NoGradGuard no_grad;
    for (const checkpoint::LiveTensor& live : checkpoint::live_tensors(state()))
      for (int64_t i = 0; i < live.tensor.value.numel(); ++i)
        live.tensor.value.data_ptr<float>()[i] = value(step, live.kind, live.tensor.begin + i);
    optimizer_->set_steps(step);
  }

  /// Whether all values are those of `step`.
  bool is_at(int64_t step) {
    for (const checkpoint::LiveTensor& live : checkpoint::live_tensors(state()))
      for (int64_t i = 0; i < live.tensor.value.numel(); ++i)
        if (live.tensor.value.data_ptr<float>()[i] != value(step, live.kind, live.tensor.begin + i)) return false;
    return optimizer_->steps() == step;
  }

  void save(const std::filesystem::path& folder, int64_t step, bool async = false) {
    set(step);
    checkpoint::Manifest about;
    about.progress.step = step;
    checkpoint::Saver saver({folder, {.newest = 2}, key_ ? "sha256" : "xxh3", async, access_, key_}, model_->comm());
    saver.begin(about, state(), [](const std::filesystem::path&) {});
    saver.wait_for_copy();
    if (async) set(99);  // training continues, which must not affect what is written
    saver.finish();
    if (key_) saver.record(step, {{"eval_loss", 1.0}});  // signs again
  }

  checkpoint::Loaded load_newest(const std::filesystem::path& folder) {
    if (!key_) return checkpoint::load_newest(folder, state(), access_);
    const checkpoint::Trust trust{key_->public_key(), "run"};
    return checkpoint::load_newest(folder, state(), access_, &trust);
  }

  checkpoint::RunState state() { return {*model_, *optimizer_}; }

 private:
  static float value(int64_t step, const std::string& kind, int64_t place) {
    return static_cast<float>(step * 1000 + static_cast<int64_t>(kind.size()) * 100 + place);
  }

  checkpoint::FolderAccess access_;
  std::optional<checkpoint::SigningKey> key_;
  std::unique_ptr<parallel::ParallelModel> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

}  // namespace trainer::testing
