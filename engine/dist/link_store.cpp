#include "engine/dist/link_store.h"

namespace trainer::dist {
namespace {

std::string text(const std::vector<uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}
std::vector<uint8_t> bytes(const std::string& text) {
  return {text.begin(), text.end()};
}

}  // namespace

void LinkStore::set(const std::string& key, const std::vector<uint8_t>& value) {
  link_.set(prefix_ + key, text(value));
}

std::vector<uint8_t> LinkStore::compareSet(const std::string& key, const std::vector<uint8_t>& expected,
                                           const std::vector<uint8_t>& desired) {
  return bytes(link_.compare_set(prefix_ + key, text(expected), text(desired)));
}

std::vector<uint8_t> LinkStore::get(const std::string& key) {
  return bytes(link_.get(prefix_ + key, getTimeout()));
}

std::vector<std::string> LinkStore::prefixed(std::vector<std::string> keys) const {
  for (std::string& key : keys) key.insert(0, prefix_);
  return keys;
}

}  // namespace trainer::dist
