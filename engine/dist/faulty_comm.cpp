#include "engine/dist/faulty_comm.h"

#include <signal.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <limits>
#include <map>
#include <sstream>
#include <string>
#include <thread>

#include <ATen/ops/zeros.h>

#include "engine/base/errors.h"
#include "engine/base/link_protocol.h"
#include "engine/dist/forwarding_comm.h"

namespace trainer::dist {
namespace {

const std::map<std::string, Fault::Kind> kKinds{{"skip", Fault::Kind::kSkip}, {"other", Fault::Kind::kOther},
                                                {"size", Fault::Kind::kSize}, {"stop", Fault::Kind::kStop},
                                                {"kill", Fault::Kind::kKill}, {"slow", Fault::Kind::kSlow},
                                                {"nan", Fault::Kind::kNan}};
const std::map<std::string, int> kFileErrors{{"enospc", ENOSPC}, {"eio", EIO}, {"edquot", EDQUOT}};

struct Nothing : Pending {
  void wait() override {}
};

enum class Call { kSum, kTransfer, kBarrier };

/// Strikes once, or once per step, in the first communicator that reaches it, of those that share it.
class Striker {
 public:
  Striker(const Fault& fault, std::function<int64_t()> step) : fault_(fault), step_(std::move(step)) {}

  /// The fault that strikes in this call, if any; performs kSlow and kStop itself.
  std::optional<Fault::Kind> strike(int rank, Call call) {
    const int64_t step = step_();
    if (struck_ == fault_.times || rank != fault_.rank || step < fault_.step || step == struck_in_) return std::nullopt;
    if (call == Call::kBarrier && (fault_.kind == Fault::Kind::kSize || fault_.kind == Fault::Kind::kOther))
      return std::nullopt;
    if (call != Call::kSum && fault_.kind == Fault::Kind::kNan) return std::nullopt;
    ++struck_;
    struck_in_ = step;
    if (fault_.kind == Fault::Kind::kStop) raise(SIGSTOP);
    if (fault_.kind == Fault::Kind::kSlow) std::this_thread::sleep_for(std::chrono::duration<double>(fault_.seconds));
    return fault_.kind;
  }

 private:
  const Fault fault_;
  const std::function<int64_t()> step_;
  int64_t struck_ = 0, struck_in_ = -1;  // how often it struck, and the step of the last strike
};

class FaultyComm : public ForwardingComm {
 public:
  /// `rank`: this rank's number in the world.
  FaultyComm(std::unique_ptr<Comm> inner, std::shared_ptr<Striker> striker, int rank)
      : ForwardingComm(std::move(inner)), striker_(std::move(striker)), rank_(rank) {}

  std::unique_ptr<Pending> all_gather(const at::Tensor& full, const at::Tensor& shard) override {
    const auto fault = strike(Call::kTransfer);
    if (fault == Fault::Kind::kSkip) return std::make_unique<Nothing>();
    if (fault == Fault::Kind::kOther) inner().barrier();
    if (fault == Fault::Kind::kSize)
      return inner().all_gather(at::zeros({full.numel() + size()}, full.options()),
                                at::zeros({shard.numel() + 1}, shard.options()));
    auto pending = inner().all_gather(full, shard);
    if (fault == Fault::Kind::kKill) raise(SIGKILL);  // in the middle of it
    return pending;
  }

  void all_reduce(const at::Tensor& tensor, Reduce op) override {
    const auto fault = strike(at::isFloatingType(tensor.scalar_type()) ? Call::kSum : Call::kTransfer);
    if (fault == Fault::Kind::kSkip) return;
    if (fault == Fault::Kind::kNan) tensor.view(-1).narrow(0, 0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    if (fault == Fault::Kind::kKill) raise(SIGKILL);
    if (fault == Fault::Kind::kOther) inner().barrier();
    inner().all_reduce(fault == Fault::Kind::kSize ? at::zeros({tensor.numel() + 1}, tensor.options()) : tensor, op);
  }

  std::unique_ptr<Pending> send(const at::Tensor& tensor, int to) override {
    const auto fault = strike(Call::kTransfer);
    if (fault == Fault::Kind::kSkip) return std::make_unique<Nothing>();
    if (fault == Fault::Kind::kKill) raise(SIGKILL);
    return inner().send(tensor, to);
  }

  void barrier() override {
    const auto fault = strike(Call::kBarrier);
    if (fault == Fault::Kind::kKill) raise(SIGKILL);
    if (fault != Fault::Kind::kSkip) inner().barrier();
  }

  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    return std::make_unique<FaultyComm>(inner().group(name, ranks), striker_, rank_);
  }

 protected:
  Scattered start_reduce_scatter(const at::Tensor& full) override {
    const auto fault = strike(Call::kSum);
    if (fault == Fault::Kind::kKill) raise(SIGKILL);
    if (fault == Fault::Kind::kNan) full.narrow(0, 0, 1).fill_(std::numeric_limits<double>::quiet_NaN());
    return inner().reduce_scatter(full);
  }

 private:
  /// Faults don't strike in a group of one rank.
  std::optional<Fault::Kind> strike(Call call) { return size() > 1 ? striker_->strike(rank_, call) : std::nullopt; }

  std::shared_ptr<Striker> striker_;
  int rank_;
};

int attempt_of_this_rank() {
  const char* const text = std::getenv(kAttemptVariable);
  return text != nullptr ? std::atoi(text) : 0;
}

}  // namespace

std::optional<Fault> fault_from_environment() {
  const char* const text = std::getenv("TRAINER_INJECT");
  if (text == nullptr || *text == '\0') return std::nullopt;
  const std::string whole = text;
  const auto bad = [&](const std::string& why) {
    return ConfigError(
        "TRAINER_INJECT={}: {}.\n  The format is KIND:rank=R,step=S, where KIND is skip, other, size, stop, kill, "
        "slow (also seconds=N, times=N) or nan, or, with file=N, kill, stop, enospc, eio or edquot: see "
        "docs/fault_injection.md.",
        whole, why);
  };
  const std::string kind = whole.substr(0, whole.find(':'));
  const auto known = kKinds.find(kind);
  const auto error = kFileErrors.find(kind);
  if (known == kKinds.end() && error == kFileErrors.end()) throw bad(fmt::format("'{}' is not a fault", kind));
  Fault fault{.kind = known == kKinds.end() ? Fault::Kind::kFileError : known->second};
  if (error != kFileErrors.end()) fault.error = error->second;
  std::istringstream rest(kind == whole ? "" : whole.substr(kind.size() + 1));
  for (std::string word; std::getline(rest, word, ',');) {
    const std::string name = word.substr(0, word.find('='));
    char* end = nullptr;
    const std::string value = name == word ? "" : word.substr(name.size() + 1);
    const double number = std::strtod(value.c_str(), &end);
    if (value.empty() || *end != '\0') throw bad(fmt::format("'{}' does not set a number", word));
    if (name == "life")
      fault.attempt = static_cast<int>(number);
    else if (name == "rank")
      fault.rank = static_cast<int>(number);
    else if (name == "step")
      fault.step = static_cast<int64_t>(number);
    else if (name == "seconds")
      fault.seconds = number;
    else if (name == "times")
      fault.times = static_cast<int64_t>(number);
    else if (name == "file")
      fault.file = static_cast<int64_t>(number);
    else
      throw bad(fmt::format("'{}' is not known", name));
  }
  const bool of_files = fault.kind == Fault::Kind::kFileError;
  if (of_files && fault.file < 1) throw bad("file=N, the operation of the save that fails, is missing");
  if (fault.times != 1 && fault.kind != Fault::Kind::kSlow) throw bad("times=N does not apply to this fault");
  const bool takes_files = of_files || fault.kind == Fault::Kind::kKill || fault.kind == Fault::Kind::kStop;
  if (fault.file > 0 && !takes_files) throw bad("file=N does not apply to this fault");
  return fault.attempt == attempt_of_this_rank() ? std::optional(fault) : std::nullopt;
}

std::optional<file_operations::Fault> file_fault(const Fault& fault, int rank) {
  if (fault.file == 0 || fault.rank != rank) return std::nullopt;
  // A full disk stays full.
  const bool lasting = fault.error == ENOSPC || fault.error == EDQUOT;
  return file_operations::Fault{.save = fault.step,
                                .operation = fault.file,
                                .error = fault.error,
                                .lasting = lasting,
                                .signal = fault.kind == Fault::Kind::kStop ? SIGSTOP : SIGKILL};
}

std::unique_ptr<Comm> faulty_comm(std::unique_ptr<Comm> comm, const Fault& fault, std::function<int64_t()> step) {
  const int rank = comm->rank();
  return std::make_unique<FaultyComm>(std::move(comm), std::make_shared<Striker>(fault, std::move(step)), rank);
}

}  // namespace trainer::dist
