// Ranks that don't see the folder of the checkpoints.
#include "engine/checkpoint/folder_access.h"

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

/// Changes a bit of the largest thing it sends.
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

/// Writes what a rank is to write, in parts of odd sizes.
void send_file(const FolderAccess& access, const fs::path& folder, int rank) {
  const auto sink = access.sink(folder / checkpoint::file_of(rank));
  const std::string content = content_of(rank);
  sink->begin(static_cast<int64_t>(content.size()));
  for (size_t at = 0, size = 1; at < content.size(); at += size, size = size * 3 + 1)
    sink->write(std::string_view(content).substr(at, size));
  sink->finish();
}

TEST(FolderAccess, FilesOfAllRanksComeWhole) {
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

TEST(FolderAccess, AFileThatIsGivenUpIsNotThere) {
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

TEST(FolderAccess, WhatCannotBeWrittenIsDropped) {
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

TEST(FolderAccess, DamageOnTheWayIsSeen) {
  const TemporaryFolder folder;
  run_ranks(kKeepers + 1, [&](dist::Comm& comm) {
    const FolderAccess access = access_of<DamagingComm>(comm);
    send_file(access, folder.path(), comm.rank());
    try {
      access.take_files(folder.path());
      EXPECT_NE(comm.rank(), 0);
    } catch (const MachineError& error) {
      EXPECT_NE(std::string(error.what()).find("the network damages data"), std::string::npos) << error.what();
    }
  });
  EXPECT_FALSE(fs::exists(folder.path() / checkpoint::file_of(kKeepers)));
}

TEST(FolderAccess, PiecesAreFetched) {
  run_ranks(kRanks, [](dist::Comm& comm) {
    const FolderAccess access = access_of(comm);
    const auto piece = [](FolderAccess::PieceNumber number) {
      return at::arange(number.tensor, at::kFloat).add_(static_cast<double>(number.piece));
    };
    if (access.this_rank_sees()) return access.serve(piece);
    for (int64_t i = 0; i < 3; ++i)
      EXPECT_TRUE(at::equal(access.fetch({i * comm.rank(), i}), piece({i * comm.rank(), i})));
    access.end_fetching();
  });
}

}  // namespace
}  // namespace trainer::testing
