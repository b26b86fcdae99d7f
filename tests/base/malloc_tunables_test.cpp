#include "engine/base/malloc_tunables.h"

#include <gtest/gtest.h>

namespace trainer {
namespace {

TEST(MallocTunables, AreAddedToTheUsers) {
  const std::string ours = with_malloc_tunables("");
  EXPECT_EQ(ours, "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=134217728:glibc.malloc.trim_threshold=8589934592");
  EXPECT_EQ(with_malloc_tunables("glibc.malloc.perturb=0"), "glibc.malloc.perturb=0:" + ours);
}

TEST(MallocTunables, AUsersOwnChoiceStays) {
  EXPECT_EQ(with_malloc_tunables("glibc.malloc.trim_threshold=1:glibc.malloc.hugetlb=0"),
            "glibc.malloc.trim_threshold=1:glibc.malloc.hugetlb=0:glibc.malloc.mmap_threshold=134217728");
}

TEST(MallocTunables, AreTheSameForAProgramThatOursStarts) {
  const std::string once = with_malloc_tunables("");
  EXPECT_EQ(with_malloc_tunables(once), once);
}

}  // namespace
}  // namespace trainer
