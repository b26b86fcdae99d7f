#include "tests/simulated/timeline.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>

namespace trainer::simulated {
namespace {

void merge(Clock& into, const Clock& from) {
  if (into.size() < from.size()) into.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) into[i] = std::max(into[i], from[i]);
}

uint64_t at(const Clock& clock, StreamNumber stream) {
  const auto i = static_cast<size_t>(stream);
  return i < clock.size() ? clock[i] : 0;
}

bool overlap(const Range& a, const Range& b) {
  return a.begin < b.end && b.begin < a.end;
}

bool contains(const Range& outer, const Range& inner) {
  return outer.begin <= inner.begin && inner.end <= outer.end;
}

}  // namespace

StreamNumber Timeline::add_stream(std::string name) {
  const std::lock_guard lock(mutex_);
  names_.push_back(std::move(name));
  last_.emplace_back("nothing");
  clocks_.emplace_back();
  return static_cast<StreamNumber>(names_.size()) - 1;
}

void Timeline::launch(StreamNumber stream, const std::string& what, const std::vector<Range>& reads,
                      const std::vector<Range>& writes) {
  throw_errors();
  const std::lock_guard lock(mutex_);
  Clock& clock = clocks_[static_cast<size_t>(stream)];
  merge(clock, host_);
  clock.resize(std::max(clock.size(), static_cast<size_t>(stream) + 1));
  ++clock[static_cast<size_t>(stream)];
  last_[static_cast<size_t>(stream)] = what;
  for (const Range& range : reads) access(range, stream, what, false);
  for (const Range& range : writes) access(range, stream, what, true);
}

Clock Timeline::clock_of(StreamNumber stream) {
  const std::lock_guard lock(mutex_);
  return clocks_[static_cast<size_t>(stream)];
}

void Timeline::wait(StreamNumber stream, const Clock& event) {
  const std::lock_guard lock(mutex_);
  if (stream == kHost) return wait_on_host(event);
  merge(clocks_[static_cast<size_t>(stream)], event);
}

void Timeline::synchronize(StreamNumber stream) {
  const std::lock_guard lock(mutex_);
  wait_on_host(clocks_[static_cast<size_t>(stream)]);
}

void Timeline::wait_on_host(const Clock& clock) {
  merge(host_, clock);
  std::erase_if(arrivals_, [&](const Arrival& one) {
    if (at(host_, one.stream) < one.time) return false;
    std::memcpy(one.at, one.bytes.data(), one.bytes.size());
    return true;
  });
  for (const uintptr_t begin : std::set(protected_)) protect(begin, blocks_.at(begin));
}

bool Timeline::host_knows(const Access& access) const {
  return at(host_, access.stream) >= access.time;
}

bool Timeline::host_knows(const Clock& event) {
  const std::lock_guard lock(mutex_);
  for (size_t stream = 0; stream < event.size(); ++stream)
    if (at(host_, static_cast<StreamNumber>(stream)) < event[stream]) return false;
  return true;
}

void Timeline::set_allowed(uintptr_t begin, Block& block, Allowed allowed) {
  if (protect_ == nullptr || allowed == block.allowed) return;
  block.allowed = allowed;
  if (allowed == Allowed::kAll)
    protected_.erase(begin);
  else
    protected_.insert(begin);
  protect_(begin, allowed);
}

/// Allows the host what no operator that it hasn't waited for forbids.
void Timeline::protect(uintptr_t begin, Block& block) {
  if (block.stream != kHost) return;
  Allowed allowed = Allowed::kAll;
  for (const Access& access : block.accesses)
    if (!host_knows(access)) allowed = std::min(allowed, access.writes ? Allowed::kNothing : Allowed::kReading);
  set_allowed(begin, block, allowed);
}

void Timeline::check_use_of_host(Block& block, const Range& range, const std::string& what, bool writes) {
  for (const Access& earlier : block.accesses)
    if ((earlier.writes || writes) && overlap(range, earlier.range) && !host_knows(earlier))
      errors_ += fmt::format("a race on the simulated device: {} and, before the host has waited for it, {} on the "
                             "host, which {} it\n",
                             text(earlier), what, writes ? "writes" : "reads");
}

void Timeline::host_touches(const std::string& where, uintptr_t address, bool writes) {
  const std::lock_guard lock(mutex_);
  const auto block = block_of({address, address + 1});
  if (block == blocks_.end()) return;
  check_use_of_host(block->second, {address, address + 1}, where, writes);
  set_allowed(block->first, block->second, Allowed::kAll);  // also if another part of its pages was meant
}

void Timeline::host_uses(const std::string& what, const std::vector<Range>& reads, const std::vector<Range>& writes) {
  const std::lock_guard lock(mutex_);
  for (const auto* list : {&reads, &writes})
    for (const Range& range : *list)
      if (const auto block = block_of(range); block != blocks_.end())
        check_use_of_host(block->second, range, what, list == &writes);
}

void Timeline::writes_later(StreamNumber stream, const Range& to, void* at, std::vector<char> bytes) {
  const std::lock_guard lock(mutex_);
  const uint64_t now = simulated::at(clocks_[static_cast<size_t>(stream)], stream);
  arrivals_.push_back({stream, now, to, at, std::move(bytes)});
}

void Timeline::allocated(const Range& block, StreamNumber stream) {
  const std::lock_guard lock(mutex_);
  std::vector<Access> accesses;  // of the freed block, which its next operators must not race with
  if (const auto earlier = freed_.find(block.begin); earlier != freed_.end()) {
    accesses = std::move(earlier->second.accesses);
    std::erase_if(accesses, [&](const Access& access) { return before(access, stream); });
    for (Access& access : accesses) access.freed = true;
    freed_.erase(earlier);
  }
  blocks_[block.begin] = {block.end, stream, {}, std::move(accesses)};
}

bool Timeline::may_reuse(uintptr_t block, StreamNumber stream) {
  const std::lock_guard lock(mutex_);
  const auto found = freed_.find(block);
  return found == freed_.end() || unfinished(found->second, stream) == nullptr;
}

void Timeline::returned(uintptr_t block) {
  const std::lock_guard lock(mutex_);
  freed_.erase(block);
}

/// A use of the block that may not be over when `stream` uses it next, or null.
const Timeline::Access* Timeline::unfinished(const Block& block, StreamNumber stream) const {
  for (const Access& access : block.accesses)
    if (!before(access, stream)) return &access;
  return nullptr;
}

void Timeline::used_on(uintptr_t block, StreamNumber stream) {
  const std::lock_guard lock(mutex_);
  if (const auto found = blocks_.find(block); found != blocks_.end()) found->second.also_used_on.insert(stream);
}

void Timeline::freed(uintptr_t block) {
  const std::lock_guard lock(mutex_);
  const auto found = blocks_.find(block);
  if (found == blocks_.end()) return;
  const Block& of = found->second;
  if (of.stream == kHost) {
    const Range all{block, of.end};
    std::erase_if(arrivals_, [&](const Arrival& one) { return overlap(one.to, all); });
    protected_.erase(block);
    blocks_.erase(found);
    return;
  }
  for (const Access& access : of.accesses)
    if (!access.freed && !before(access, of.stream) && !of.also_used_on.contains(access.stream))
      errors_ += fmt::format("memory of stream {} is freed, after {} there, while {} may still use it\n",
                             names_[static_cast<size_t>(of.stream)], last_[static_cast<size_t>(of.stream)], text(access));
  freed_.insert_or_assign(block, std::move(found->second));
  blocks_.erase(found);
}

std::string Timeline::errors() {
  const std::lock_guard lock(mutex_);
  return std::exchange(errors_, "");
}

void Timeline::throw_errors() {
  if (const std::string noted = errors(); !noted.empty()) throw std::runtime_error(noted);
}

std::map<uintptr_t, Timeline::Block>::iterator Timeline::block_of(const Range& range) {
  const auto after = blocks_.upper_bound(range.begin);
  if (after == blocks_.begin()) return blocks_.end();
  return range.begin < std::prev(after)->second.end ? std::prev(after) : blocks_.end();
}

/// Whether the access is complete before what `stream` does next, or before the host goes on.
bool Timeline::before(const Access& access, StreamNumber stream) const {
  return at(clocks_[static_cast<size_t>(stream)], access.stream) >= access.time || host_knows(access);
}

std::string Timeline::text(const Access& access) const {
  return fmt::format("{} on stream {}, which {} it{},", access.what, names_[static_cast<size_t>(access.stream)],
                     access.writes ? "writes" : "reads", access.freed ? " for a tensor freed since" : "");
}

void Timeline::access(const Range& range, StreamNumber stream, const std::string& what, bool writes) {
  const auto found = block_of(range);
  if (found == blocks_.end() || range.begin == range.end) return;
  Block& block = found->second;
  const Access now{range, stream, at(clocks_[static_cast<size_t>(stream)], stream), what, writes};
  for (const Access& earlier : block.accesses)
    if ((writes || earlier.writes) && overlap(range, earlier.range) && !before(earlier, stream))
      throw std::runtime_error(fmt::format("a race on the simulated device: {} and, not ordered after it, {}",
                                           text(earlier), text(now)));
  std::erase_if(arrivals_, [&](const Arrival& one) {
    if (!overlap(one.to, range)) return false;
    std::memcpy(one.at, one.bytes.data(), one.bytes.size());
    return true;
  });
  // A write supersedes everything before it in its range; a read, an earlier read of the same stream.
  std::erase_if(block.accesses, [&](const Access& earlier) {
    return contains(range, earlier.range) && (writes || (!earlier.writes && earlier.stream == stream));
  });
  block.accesses.push_back(now);
  protect(found->first, block);
}

}  // namespace trainer::simulated
