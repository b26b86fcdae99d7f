#include "engine/checkpoint/snapshot.h"

#include <future>
#include <map>

#include <torch/csrc/autograd/grad_mode.h>

#include "engine/base/crc32c.h"
#include "engine/base/errors.h"
#include "engine/base/stream_copy.h"
#include "engine/checkpoint/digest.h"
#include "engine/tensorfile/safetensors_writer.h"

namespace trainer::checkpoint {
namespace {

constexpr int64_t kAlignment = 64;  // of each shard in the buffer

}  // namespace

std::string file_of(int rank) {
  return fmt::format("rank-{:05d}.safetensors", rank);
}

Snapshot::Snapshot(const std::vector<LiveTensor>& tensors, int rank, int ranks) : file_(file_of(rank)) {
  const at::NoGradGuard no_grad;
  for (const LiveTensor& live : tensors) {
    const parallel::LogicalTensor& t = live.tensor;
    const int64_t length = t.end - t.begin;
    const int64_t copies = t.replicated ? ranks : t.copies, copy = t.replicated ? rank : t.copy;
    const int64_t begin = t.begin + length * copy / copies, end = t.begin + length * (copy + 1) / copies;
    Entry entry{{live.kind, t.name, t.shape, {}}, {}, bytes_};
    if (end > begin) {
      entry.saved.pieces.push_back({file_, live.entry(), t.part, begin, end, 0});
      entry.value = t.value.narrow(0, begin - t.begin, end - begin).contiguous();
      bytes_ += (static_cast<int64_t>(entry.value.nbytes()) + kAlignment - 1) / kAlignment * kAlignment;
    }
    entries_.push_back(std::move(entry));
  }
}

void Snapshot::copy_to(const at::Tensor& buffer) {
  const at::NoGradGuard no_grad;
  require(buffer.numel() >= bytes_, "a buffer of {} bytes is too small for {}", buffer.numel(), bytes_);
  for (Entry& entry : entries_) {
    if (!entry.value.defined()) continue;
    const auto size = static_cast<int64_t>(entry.value.nbytes());
    const at::Tensor place = buffer.narrow(0, entry.offset, size).view(entry.value.scalar_type());
    if (entry.value.is_cpu())  // not copy_: its threads would take the cores from the concurrent forward pass
      stream_copy(place.data_ptr(), entry.value.const_data_ptr(), static_cast<size_t>(size));
    else
      place.copy_(entry.value);
    entry.value = place;
  }
}

Snapshot::Written Snapshot::write(std::unique_ptr<ByteSink> sink, const std::string& digest_kind) const {
  const at::NoGradGuard no_grad;
  std::vector<tensorfile::TensorSpec> specs;
  std::map<std::string, std::pair<at::Tensor, SavedPiece*>> stored;  // by the name in the file
  Written written;
  written.tensors.reserve(entries_.size());
  for (const Entry& entry : entries_) {
    written.tensors.push_back(entry.saved);
    if (!entry.value.defined()) continue;
    SavedPiece& piece = written.tensors.back().pieces.front();
    specs.push_back({piece.entry, entry.value.scalar_type(), {entry.value.numel()}});
    stored[piece.entry] = {entry.value.cpu(), &piece};
  }
  Digest digest(digest_kind);
  bool in_header = true;
  tensorfile::SafetensorsWriter writer(std::move(sink), specs, {}, [&](std::string_view bytes) {
    if (in_header) digest.add(bytes);
  });
  in_header = false;
  const auto order = writer.order();
  // Concurrently with the writing, which mostly waits for the system.
  std::future<void> checksums = std::async(std::launch::async, [&] {
    for (const auto& info : order) {
      const auto& [value, piece] = stored.at(info.name);
      piece->crc32c = crc32c(value.const_data_ptr(), value.nbytes());
      digest.add({static_cast<const char*>(value.const_data_ptr()), value.nbytes()});
    }
  });
  for (const auto& info : order) writer.write(info.name, stored.at(info.name).first);
  checksums.get();
  writer.finish();
  written.file = {file_, writer.bytes(), digest.text()};
  return written;
}

}  // namespace trainer::checkpoint
