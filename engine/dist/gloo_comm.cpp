// c10d declares its Gloo backend only with this macro; torch's wheel is built with it.
#define USE_C10D_GLOO

#include "engine/dist/gloo_comm.h"

#include <cstdlib>
#include <optional>
#include <string>

#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "engine/dist/backend_comm.h"
#include "engine/dist/failures.h"
#include "engine/dist/group_stores.h"
#include "engine/dist/link_store.h"
#include "engine/dist/shared_memory.h"
#include "engine/dist/tls/guard.h"

namespace trainer::dist {
namespace {

using StorePtr = c10::intrusive_ptr<c10d::Store>;

/// The address at which the other ranks reach this one; the loopback address when all are on this machine.
std::string own_address() {
  const char* const among_machines = std::getenv(kAddressVariable);
  return among_machines != nullptr ? among_machines : "127.0.0.1";
}

c10::intrusive_ptr<c10d::ProcessGroupGloo::Options> options_for(const std::string& address,
                                                                std::chrono::seconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices.push_back(c10d::ProcessGroupGloo::createDeviceForHostname(address));
  options->timeout = timeout;
  options->threads = 1;  // collectives run in the order of their calls
  return options;
}

/// Disables the flight recorder of Gloo's groups: two groups of one process must not use its table at the same time. It
/// reads its variable when the first group is made. NCCL's recorder is another one, which reads the same variable when
/// NCCL starts: that one remains as the user has set it, and on by default.
void keep_no_history() {
  static const bool once = [] {
    const tls::Rendezvous rendezvous;
    constexpr const char* kVariable = "TORCH_FR_BUFFER_SIZE";
    const char* const set = std::getenv(kVariable);
    const std::optional<std::string> before = set != nullptr ? std::optional<std::string>(set) : std::nullopt;
    setenv(kVariable, "0", /*overwrite=*/1);
    c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::HashStore>(), 0, 1,
                                                options_for("127.0.0.1", kPeerTimeout));
    return before ? setenv(kVariable, before->c_str(), 1) == 0 : unsetenv(kVariable) == 0;
  }();
  static_cast<void>(once);
}

c10::intrusive_ptr<c10d::Backend> make_gloo(const StorePtr& store, int rank, int size, std::chrono::seconds timeout) {
  return translated("the rendezvous of the ranks", [&] {
    keep_no_history();
    const tls::Rendezvous rendezvous;
    const auto options = options_for(own_address(), timeout);
    rendezvous.check_guarded();
    return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
  });
}

class GlooComm : public BackendComm {
 public:
  GlooComm(const StorePtr& store, int rank, int size, bool share_memory, std::chrono::seconds timeout)
      : BackendComm(make_gloo(store, rank, size, timeout), c10d::ProcessGroup::BackendType::GLOO,
                    // It copies tensors on GPUs through the CPU.
                    {c10::DeviceType::CPU, c10::DeviceType::CUDA}, share_memory),
        stores_(store),
        timeout_(timeout) {}

 protected:
  std::unique_ptr<Comm> make_group(const std::string& name, const std::vector<int>& ranks, int mine) override {
    return gloo_comm(stores_.next(name, ranks), mine, static_cast<int>(ranks.size()), shares_memory(), timeout_);
  }

 private:
  GroupStores stores_;
  std::chrono::seconds timeout_;
};

}  // namespace

std::unique_ptr<Comm> gloo_comm(Link& link, int rank, int size, std::chrono::seconds timeout, const std::string& name) {
  return gloo_comm(c10::make_intrusive<LinkStore>(link, name + "/"), rank, size, ranks_share_a_machine(), timeout);
}

std::unique_ptr<Comm> gloo_comm(const StorePtr& store, int rank, int size, bool share_memory,
                                std::chrono::seconds timeout) {
  return std::make_unique<GlooComm>(store, rank, size, share_memory, timeout);
}

}  // namespace trainer::dist
