#include "engine/checkpoint/folder_access.h"

#include <array>
#include <cstring>

#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include "engine/base/errors.h"
#include "engine/checkpoint/digest.h"
#include "engine/checkpoint/snapshot.h"

namespace trainer::checkpoint {
namespace fs = std::filesystem;
namespace {

constexpr int64_t kPartBytes = int64_t{4} << 20;
constexpr const char* kDigest = "xxh3";

/// Sent before each part of a file to describe it.
enum class Part : int64_t {
  kBegin,   // number: bytes of the file
  kBytes,   // number: bytes that follow
  kEnd,     // number: bytes that follow, of the file's digest
  kGivenUp  // the file won't be finished
};

using Head = std::array<int64_t, 2>;

at::Tensor tensor_of(const Head& head) {
  return at::tensor(c10::ArrayRef<int64_t>(head), at::kLong);
}

Head receive_head(dist::Comm& comm, int from) {
  const at::Tensor head = at::empty({2}, at::kLong);
  comm.receive(head, from)->wait();
  const auto* const values = head.const_data_ptr<int64_t>();
  return {values[0], values[1]};
}

at::Tensor receive_bytes(dist::Comm& comm, int from, int64_t count) {
  if (count < 0 || count > kPartBytes) throw PeerError("rank {} sent a part of {} bytes", from, count);
  at::Tensor bytes = at::empty({count}, at::kByte);
  if (count > 0) comm.receive(bytes, from)->wait();
  return bytes;
}

std::string_view view_of(const at::Tensor& bytes) {
  return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
}

/// A file that a keeper writes. While one part is in flight, the next one is filled.
class SendingSink : public ByteSink {
 public:
  SendingSink(std::shared_ptr<dist::Comm> comm, int keeper, std::string name)
      : comm_(std::move(comm)), keeper_(keeper), name_(std::move(name)) {}
  ~SendingSink() override {
    if (finished_) return;
    try {
      send(Part::kGivenUp, 0);
      wait();
    } catch (const std::exception&) {  // the keeper is lost, so it doesn't wait for us
    }
  }

  std::string name() const override { return name_; }

  void begin(int64_t bytes) override { send(Part::kBegin, bytes); }

  void write(std::string_view bytes) override {
    digest_.add(bytes);
    while (!bytes.empty()) {
      if (!part_.defined()) part_ = at::empty({kPartBytes}, at::kByte);
      const size_t count = std::min(bytes.size(), static_cast<size_t>(kPartBytes - filled_));
      std::memcpy(part_.data_ptr<uint8_t>() + filled_, bytes.data(), count);
      filled_ += static_cast<int64_t>(count);
      bytes.remove_prefix(count);
      if (filled_ == kPartBytes) send_part(Part::kBytes);
    }
  }

  void finish() override {
    if (filled_ > 0) send_part(Part::kBytes);
    const std::string digest = digest_.text();
    part_ = at::empty({static_cast<int64_t>(digest.size())}, at::kByte);
    std::memcpy(part_.data_ptr(), digest.data(), digest.size());
    filled_ = part_.numel();
    send_part(Part::kEnd);
    wait();
    finished_ = true;
  }

 private:
  void send_part(Part kind) {
    const at::Tensor bytes = part_.narrow(0, 0, filled_);
    send(kind, std::exchange(filled_, 0));
    sent_ = std::move(part_);
    pending_[1] = comm_->send(bytes, keeper_);
  }

  void send(Part kind, int64_t number) {
    wait();
    head_ = tensor_of({static_cast<int64_t>(kind), number});
    pending_[0] = comm_->send(head_, keeper_);
  }

  void wait() {
    for (auto& pending : pending_)
      if (pending) std::exchange(pending, nullptr)->wait();
  }

  std::shared_ptr<dist::Comm> comm_;
  const int keeper_;
  const std::string name_;
  Digest digest_{kDigest};
  at::Tensor part_, head_, sent_;  // part_ is being filled; the others are in flight
  int64_t filled_ = 0;
  std::array<std::unique_ptr<dist::Pending>, 2> pending_;
  bool finished_ = false;
};

/// Writes a file from the parts that `from` sends. After an error the rest is still received, but dropped.
void take_file(dist::Comm& comm, int from, const fs::path& path) {
  FileSink file(path);
  Digest digest(kDigest);
  std::exception_ptr trouble;
  const auto attempt = [&](const auto& work) {
    if (trouble) return;
    try {
      work();
    } catch (const MachineError&) {
      trouble = std::current_exception();
    }
  };
  for (;;) {
    const auto [kind, number] = receive_head(comm, from);
    if (kind == static_cast<int64_t>(Part::kGivenUp)) return;  // the sender reports why
    if (kind == static_cast<int64_t>(Part::kBegin)) {
      attempt([&, number = number] { file.begin(number); });
      continue;
    }
    const at::Tensor bytes = receive_bytes(comm, from, number);
    if (kind == static_cast<int64_t>(Part::kEnd)) {
      attempt([&] {
        if (view_of(bytes) != digest.text())
          throw MachineError("{}: the bytes received from rank {} differ from those it sent: the network corrupts data",
                             path.string(), from);
        file.finish();
      });
      break;
    }
    digest.add(view_of(bytes));
    attempt([&] { file.write(view_of(bytes)); });
  }
  if (trouble) std::rethrow_exception(trouble);
}

}  // namespace

FolderAccess::FolderAccess(std::shared_ptr<dist::Comm> comm, int keepers) : comm_(std::move(comm)), keepers_(keepers) {
  require(keepers_ >= 1 && keepers_ < comm_->size(), "{} of {} ranks see the checkpoints", keepers_, comm_->size());
}

bool FolderAccess::this_rank_sees() const {
  return all_see() || comm_->rank() < keepers_;
}

std::unique_ptr<ByteSink> FolderAccess::sink(const fs::path& path) const {
  if (this_rank_sees()) return std::make_unique<FileSink>(path);
  return std::make_unique<SendingSink>(comm_, keeper(), path.filename().string());
}

void FolderAccess::take_files(const fs::path& folder) const {
  if (all_see() || !this_rank_sees()) return;
  std::exception_ptr trouble;
  for (int rank = keepers_ + comm_->rank(); rank < comm_->size(); rank += keepers_) {
    try {
      take_file(*comm_, rank, folder / file_of(rank));
    } catch (const MachineError&) {  // continue: the next rank sends its file anyway
      if (!trouble) trouble = std::current_exception();
    }
  }
  if (trouble) std::rethrow_exception(trouble);
}

}  // namespace trainer::checkpoint
