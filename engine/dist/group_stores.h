#pragma once

#include <map>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace trainer::dist {

/// Gives each new group of ranks a separate part of the store, through which it rendezvouses.
class GroupStores {
 public:
  using StorePtr = c10::intrusive_ptr<c10d::Store>;
  explicit GroupStores(StorePtr store) : store_(std::move(store)) {}

  /// For a new group of `ranks`; all of them must have created the same groups of that name before.
  StorePtr next(const std::string& name, const std::vector<int>& ranks);

 private:
  StorePtr store_;
  std::map<std::string, int> groups_;  // created so far, by name: a later one must not find an earlier one's keys
};

}  // namespace trainer::dist
