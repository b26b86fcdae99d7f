#pragma once

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "engine/base/link.h"

namespace trainer::dist {

/// c10d's rendezvous store, held by the supervisor at the other end of the link: nothing listens on a port.
class LinkStore : public c10d::Store {
 public:
  LinkStore(Link& link, std::string prefix) : link_(link), prefix_(std::move(prefix)) {}

  c10::intrusive_ptr<Store> clone() override { return c10::make_intrusive<LinkStore>(link_, prefix_); }
  void set(const std::string& key, const std::vector<uint8_t>& value) override;
  std::vector<uint8_t> compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                  const std::vector<uint8_t>& desired) override;
  std::vector<uint8_t> get(const std::string& key) override;
  int64_t add(const std::string& key, int64_t value) override { return link_.add(prefix_ + key, value); }
  bool deleteKey(const std::string& key) override { return link_.erase(prefix_ + key); }
  bool check(const std::vector<std::string>& keys) override { return link_.check(prefixed(keys)); }
  int64_t getNumKeys() override { return link_.num_keys(); }
  void wait(const std::vector<std::string>& keys) override { wait(keys, getTimeout()); }
  void wait(const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) override {
    link_.wait(prefixed(keys), timeout);
  }

 private:
  std::vector<std::string> prefixed(std::vector<std::string> keys) const;

  Link& link_;
  std::string prefix_;
};

}  // namespace trainer::dist
