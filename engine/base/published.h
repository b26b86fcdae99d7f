// A value that one process writes and another reads, in memory that both map.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace trainer {

/// Neither side ever blocks, and the reader never sees a mix of two values (a sequence lock). One writer at a time.
/// Zeroed memory holds a T of zeroes.
template <class T>
class Published {
  static_assert(std::is_trivially_copyable_v<T>);
  static_assert(std::atomic<uint64_t>::is_always_lock_free);  // required between processes

 public:
  void store(const T& value) {
    std::array<uint64_t, kWords> words{};
    std::memcpy(words.data(), &value, sizeof value);
    const uint64_t version = version_.load(std::memory_order_relaxed);
    version_.store(version + 1, std::memory_order_relaxed);  // odd: being written
    std::atomic_thread_fence(std::memory_order_release);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(words[i], std::memory_order_relaxed);
    version_.store(version + 2, std::memory_order_release);
  }

  /// Nothing when the writer was stopped in the middle of store().
  std::optional<T> load() const {
    constexpr int kTries = 1000;
    std::array<uint64_t, kWords> words;
    for (int i = 0; i < kTries; ++i) {
      const uint64_t version = version_.load(std::memory_order_acquire);
      for (size_t w = 0; w < kWords; ++w) words[w] = words_[w].load(std::memory_order_relaxed);
      std::atomic_thread_fence(std::memory_order_acquire);
      if (version % 2 != 0 || version_.load(std::memory_order_relaxed) != version) continue;
      T value;
      std::memcpy(static_cast<void*>(&value), words.data(), sizeof value);
      return value;
    }
    return std::nullopt;
  }

 private:
  static constexpr size_t kWords = (sizeof(T) + sizeof(uint64_t) - 1) / sizeof(uint64_t);

  std::atomic<uint64_t> version_{0};
  std::array<std::atomic<uint64_t>, kWords> words_{};
};

}  // namespace trainer
