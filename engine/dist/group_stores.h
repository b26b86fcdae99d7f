#pragma once

#include <map>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace trainer::dist {

/// Gives each group that is made of some ranks a part of their store, in which it meets.
class GroupStores {
 public:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;
  explicit GroupStores(StorePtr store) : store_(std::move(store)) {}

  /// For a new group of `ranks`; all of them must have made the same ones of that name before.
  StorePtr next(const std::string& name, const std::vector<int>& ranks);

 private:
  StorePtr store_;
  std::map<std::string, int> groups_;  // made so far by each name: a later one must not find the keys of an earlier one
};

}  // namespace trainer::dist
