// Times all-reduces between two ranks over Gloo on the loopback interface: in clear, authenticated, and in TLS. The
// three take turns, so that a change of the machine's load meets all of them. Prints the median of each, the ratio to
// the first, round by round, and the processor time of both ranks. all_reduce [ROUNDS]
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>

#include "engine/base/temporary_folder.h"
#include "engine/dist/gloo_comm.h"
#include "engine/dist/tls/guard.h"

namespace {

using namespace trainer;
using Clock = std::chrono::steady_clock;

constexpr const char* kNames[] = {"in clear", "authenticated", "TLS 1.3"};
constexpr std::array<int64_t, 3> kBytes = {64 << 10, 4 << 20, 64 << 20};
constexpr std::array<int, 3> kRepeats = {50, 4, 1};

struct Spent {
  double seconds, processor;
};

double processor_seconds() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& time) { return double(time.tv_sec) + 1e-6 * double(time.tv_usec); };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

/// A process with one rank, which makes the all-reduces of a size when it is asked to.
struct Rank {
  int ask[2], answer[2];

  Rank(int transport, int rank, const std::string& store) {
    if (pipe(ask) != 0 || pipe(answer) != 0) std::abort();
    if (fork() == 0) {
      serve(transport, rank, store);
      std::_Exit(0);
    }
    close(ask[0]);
    close(answer[1]);
  }

  void serve(int transport, int rank, const std::string& store) const {
    close(ask[1]);
    at::set_num_threads(1);
    if (transport > 0) dist::tls::guard_connections({std::string(32, 'k'), /*encrypts=*/transport == 2});
    const auto comm = dist::gloo_comm(c10::make_intrusive<c10d::FileStore>(store, 2), rank, 2, /*share_memory=*/false);
    int size;
    while (read(ask[0], &size, sizeof(size)) == sizeof(size)) {
      const at::Tensor tensor = at::ones({kBytes[size] / 4});
      comm->all_reduce(tensor, dist::Reduce::kSum);
      const auto start = Clock::now();
      const double before = processor_seconds();
      for (int i = 0; i < kRepeats[size]; ++i) comm->all_reduce(tensor, dist::Reduce::kSum);
      const std::chrono::duration<double> wall = Clock::now() - start;
      const Spent spent{wall.count() / kRepeats[size], (processor_seconds() - before) / kRepeats[size]};
      if (write(answer[1], &spent, sizeof(spent)) != sizeof(spent)) std::abort();
    }
  }

  void start(int size) const {
    if (write(ask[1], &size, sizeof(size)) != sizeof(size)) std::abort();
  }
  Spent finish() const {
    Spent spent{};
    if (read(answer[0], &spent, sizeof(spent)) != sizeof(spent)) std::abort();
    return spent;
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
  const TemporaryFolder folder("all-reduce");
  std::vector<std::array<Rank, 2>> pairs;
  for (int transport = 0; transport < 3; ++transport) {
    const std::string store = (folder.path() / kNames[transport]).string();
    pairs.push_back({Rank(transport, 0, store), Rank(transport, 1, store)});
  }
  for (int size = 0; size < 3; ++size) {
    std::array<std::vector<double>, 3> seconds, ratios, processor;
    for (int round = 0; round < rounds; ++round) {
      std::array<double, 3> now;
      for (int turn = 0; turn < 3; ++turn) {
        const int transport = (turn + round) % 3;
        for (const Rank& rank : pairs[transport]) rank.start(size);
        double used = 0;
        for (const Rank& rank : pairs[transport]) {
          const Spent spent = rank.finish();
          now[transport] = spent.seconds;
          used += spent.processor;
        }
        processor[transport].push_back(used);
      }
      for (int transport = 0; transport < 3; ++transport) {
        seconds[transport].push_back(now[transport]);
        ratios[transport].push_back(now[transport] / now[0]);
      }
    }
    for (int transport = 0; transport < 3; ++transport)
      fmt::print("{:>6} KiB, {:<14} {:8.3f} ms  {:.2f}x ({:.2f} to {:.2f}); processor {:8.3f} ms\n", kBytes[size] >> 10,
                 kNames[transport], 1e3 * median(seconds[transport]), median(ratios[transport]),
                 *std::min_element(ratios[transport].begin(), ratios[transport].end()),
                 *std::max_element(ratios[transport].begin(), ratios[transport].end()),
                 1e3 * median(processor[transport]));
  }
  for (const auto& pair : pairs)
    for (const Rank& rank : pair) close(rank.ask[1]);
  while (wait(nullptr) > 0) {
  }
}
