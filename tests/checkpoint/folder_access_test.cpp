// Ranks that don't see the checkpoint folder.
#include "engine/checkpoint/folder_access.h"

#include <atomic>
#include <map>
#include <numeric>

#include <gtest/gtest.h>

#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>

#include "engine/base/errors.h"
#include "engine/base/files.h"
#include "engine/checkpoint/snapshot.h"
#include "engine/dist/forwarding_comm.h"
#include "tests/support/ranks.h"
#include "tests/support/temporary_folder.h"

namespace trainer::testing {
namespace {

namespace fs = std::filesystem;
using checkpoint::FolderAccess;

constexpr int kRanks = 5, kKeepers = 2;
constexpr size_t kLong = (size_t{9} << 20) + 3;  // more than two parts

/// Flips a bit of the large tensors it sends.
class DamagingComm : public dist::ForwardingComm {
 public:
  using ForwardingComm::ForwardingComm;
  std::unique_ptr<dist::Pending> send(const at::Tensor& tensor, int to) override {
    if (tensor.numel() > 1000) tensor.data_ptr<uint8_t>()[tensor.numel() / 2] ^= 4;
    return ForwardingComm::send(tensor, to);
  }
};

template <class Comm = dist::ForwardingComm>
FolderAccess access_of(dist::Comm& comm) {
  std::vector<int> all(static_cast<size_t>(comm.size()));
  std::iota(all.begin(), all.end(), 0);
  return {std::make_shared<Comm>(comm.group("checkpoints", all)), kKeepers};
}

std::string content_of(int rank) {
  std::string content(kLong + static_cast<size_t>(rank), '\0');
  for (size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 + static_cast<size_t>(rank));
  return content;
}

/// Writes a rank's file in parts of odd sizes.
void send_file(const FolderAccess& access, const fs::path& folder, int rank) {
  const auto sink = access.sink(folder / checkpoint::file_of(rank));
  const std::string content = content_of(rank);
  sink->begin(static_cast<int64_t>(content.size()));
  for (size_t at = 0, size = 1; at < content.size(); at += size, size = size * 3 + 1)
    sink->write(std::string_view(content).substr(at, size));
  sink->finish();
}

TEST(FolderAccess, FilesOfAllRanksArriveIntact) {
  const TemporaryFolder folder;
  run_ranks(kRanks, [&](dist::Comm& comm) {
    const FolderAccess access = access_of(comm);
    EXPECT_EQ(access.this_rank_sees(), comm.rank() < kKeepers);
    EXPECT_EQ(access.seeing(kRanks), kKeepers);
    send_file(access, access.this_rank_sees() ? folder.path() : "/not there", comm.rank());
    access.take_files(folder.path());
  });
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_TRUE(read_file(folder.path() / checkpoint::file_of(rank)) == content_of(rank)) << rank;
}

TEST(FolderAccess, AnAbandonedFileIsRemoved) {
  const TemporaryFolder folder;
  run_ranks(kRanks, [&](dist::Comm& comm) {
    const FolderAccess access = access_of(comm);
    if (comm.rank() == kRanks - 1) {
      const auto sink = access.sink("/not there/file");
      sink->begin(100);
      sink->write("some");
    } else {
      send_file(access, folder.path(), comm.rank());
    }
    access.take_files(folder.path());
  });
  for (int rank = 0; rank < kRanks; ++rank)
    EXPECT_EQ(fs::exists(folder.path() / checkpoint::file_of(rank)), rank < kRanks - 1);
}

TEST(FolderAccess, DropsFilesThatCannotBeWritten) {
  const TemporaryFolder folder;
  run_ranks(kRanks, [&](dist::Comm& comm) {
    const FolderAccess access = access_of(comm);
    send_file(access, folder.path(), comm.rank());
    if (access.this_rank_sees())
      EXPECT_THROW(access.take_files(folder.path() / "not there"), MachineError);
    else
      access.take_files(folder.path());
  });
}

TEST(FolderAccess, DetectsCorruptionInTransit) {
  const TemporaryFolder folder;
  run_ranks(kKeepers + 1, [&](dist::Comm& comm) {
    const FolderAccess access = access_of<DamagingComm>(comm);
    send_file(access, folder.path(), comm.rank());
    try {
      access.take_files(folder.path());
      EXPECT_NE(comm.rank(), 0);
    } catch (const MachineError& error) {
      EXPECT_NE(std::string(error.what()).find("the network corrupts data"), std::string::npos) << error.what();
    }
  });
  EXPECT_FALSE(fs::exists(folder.path() / checkpoint::file_of(kKeepers)));
}

/// A shard of a checkpoint; every element encodes its position.
at::Tensor piece(int64_t number) {
  return at::arange(1000 + number, at::kFloat).add_(static_cast<double>(number << 12));
}

/// The values that arrive when a rank needs these ranges.
std::map<int64_t, std::pair<FolderAccess::Share, at::Tensor>> handed_out(
    const FolderAccess& access, const std::vector<FolderAccess::Share>& needed) {
  std::map<int64_t, std::pair<FolderAccess::Share, at::Tensor>> came;
  access.hand_out(needed, piece, [&](const FolderAccess::Share& share, const at::Tensor& values) {
    EXPECT_TRUE(came.emplace(share.piece, std::pair(share, values)).second) << "it arrived twice";
  });
  return came;
}

TEST(FolderAccess, EveryRankGetsWhatItNeeds) {
  run_ranks(kRanks, [](dist::Comm& comm) {
    const FolderAccess access = access_of(comm);
    std::vector<FolderAccess::Share> needed;
    if (comm.rank() >= kKeepers)
      for (int64_t i = comm.rank() % 2; i < 9; i += 1 + comm.rank() % 2)
        needed.push_back({i, 100 * comm.rank(), 100 * comm.rank() + 50 + i});
    const auto came = handed_out(access, needed);
    EXPECT_EQ(came.size(), needed.size());
    for (const FolderAccess::Share& share : needed) {
      const auto& [larger, values] = came.at(share.piece);
      ASSERT_TRUE(larger.begin <= share.begin && larger.end >= share.end);
      EXPECT_TRUE(at::equal(values, piece(share.piece).slice(0, larger.begin, larger.end)));
    }
  });
}

/// Counts the bytes of values that leave machine 0, and those that others forward.
class CountingComm : public dist::ForwardingComm {
 public:
  using ForwardingComm::ForwardingComm;
  static inline std::atomic<int64_t> sent{0}, passed_on{0};
  std::unique_ptr<dist::Pending> send(const at::Tensor& tensor, int to) override {
    if (tensor.scalar_type() == at::kByte) (rank() < kKeepers ? sent : passed_on) += tensor.numel();
    return ForwardingComm::send(tensor, to);
  }
};

TEST(FolderAccess, SendsEachMachineAShardOnce) {
  CountingComm::sent = CountingComm::passed_on = 0;
  run_ranks(3 * kKeepers, [](dist::Comm& comm) {
    const FolderAccess access = access_of<CountingComm>(comm);
    const bool sees = comm.rank() < kKeepers;
    // Replicas: all ranks need all of shards 0 and 1. Partitioned: each rank needs 100 elements of shard 2.
    const int64_t stretch = 100 * comm.rank();
    const std::vector<FolderAccess::Share> all{{0, 0, 1000}, {1, 0, 1001}, {2, stretch, stretch + 100}};
    const auto came = handed_out(access, sees ? std::vector<FolderAccess::Share>{} : all);
    EXPECT_EQ(came.size(), sees ? 0U : 3U);
  });
  constexpr int64_t kFloat = sizeof(float), kPieces = 1000 + 1001;
  EXPECT_EQ(CountingComm::sent, 2 * (kPieces + 200) * kFloat);
  EXPECT_EQ(CountingComm::passed_on, 2 * (kPieces + 200) * kFloat);
}

TEST(FolderAccess, RefusesValuesCorruptedInTransit) {
  run_ranks(kKeepers + 1, [](dist::Comm& comm) {
    const FolderAccess access = access_of<DamagingComm>(comm);
    const auto hand_out = [&](const std::vector<FolderAccess::Share>& needed) { handed_out(access, needed); };
    if (comm.rank() < kKeepers) return hand_out({});
    try {
      hand_out({{4, 0, 1004}});
      ADD_FAILURE() << "not detected";
    } catch (const MachineError& error) {
      EXPECT_NE(std::string(error.what()).find("the network corrupts data"), std::string::npos) << error.what();
    }
  });
}

}  // namespace
}  // namespace trainer::testing
