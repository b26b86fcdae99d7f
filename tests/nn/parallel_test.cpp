// Loops on libtorch's threads.
#include "models/nn/parallel.h"

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

namespace trainer::nn {
namespace {

class Parallel : public ::testing::Test {
 protected:
  Parallel() { at::set_num_threads(2); }
  ~Parallel() override { at::set_num_threads(before_); }

 private:
  int before_ = at::get_num_threads();
};

TEST_F(Parallel, UsesEveryThread) {
  std::mutex mutex;
  std::set<std::thread::id> threads;
  parallel_for(0, 100, 1, [&](int64_t, int64_t) {
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2);
}

TEST_F(Parallel, PartsAreTheWholeRangeAndNotBelowTheGrain) {
  for (const int64_t grain : {1, 7, 50, 100, 1000}) {
    std::mutex mutex;
    std::vector<int> visits(103, 0);
    parallel_for(3, 103, grain, [&](int64_t first, int64_t last) {
      EXPECT_GE(last - first, std::min<int64_t>(grain, 50));
      const std::lock_guard lock(mutex);
      for (int64_t i = first; i < last; ++i) ++visits[i];
    });
    for (int i = 0; i < 103; ++i) EXPECT_EQ(visits[i], i < 3 ? 0 : 1) << i;
  }
}

TEST_F(Parallel, AnErrorOfAThreadIsThrown) {
  EXPECT_THROW(parallel_for(0, 100, 1,
                            [](int64_t, int64_t last) {
                              if (last == 100) throw std::runtime_error("the last part");
                            }),
               std::runtime_error);
}

}  // namespace
}  // namespace trainer::nn
