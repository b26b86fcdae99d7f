#pragma once

#include "engine/dist/forwarding_comm.h"

namespace trainer::dist {

/// Makes ranks of one machine behave as if they were on different ones: weights aren't shared, everything is sent.
class UnsharedComm : public ForwardingComm {
 public:
  using ForwardingComm::ForwardingComm;

  at::Tensor shared_memory(int64_t) override { return {}; }
  std::unique_ptr<Comm> group(const std::string& name, const std::vector<int>& ranks) override {
    return std::make_unique<UnsharedComm>(inner().group(name, ranks));
  }
};

}  // namespace trainer::dist
