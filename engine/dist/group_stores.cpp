#include "engine/dist/group_stores.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

namespace trainer::dist {

GroupStores::StorePtr GroupStores::next(const std::string& name, const std::vector<int>& ranks) {
  return c10::make_intrusive<c10d::PrefixStore>(fmt::format("{}-{}-{}/", name, ranks.front(), groups_[name]++), store_);
}

}  // namespace trainer::dist
