// Times the head and its loss on the CPU, forward and backward, in chunks of several sizes and as separate layers, and
// prints the milliseconds of each and the largest tensor memory: what Note [Chunks of the loss] chooses by.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include "engine/dist/memory.h"
#include "models/nn/cross_entropy.h"
#include "models/nn/linear_cross_entropy.h"

namespace {

using namespace trainer;
using Clock = std::chrono::steady_clock;

struct Measured {
  std::string what;
  std::function<void()> round;
  double milliseconds = std::numeric_limits<double>::infinity();  // of the fastest round: others can only slow it down
  double mebibytes = 0;

  void run() {
    const int64_t before = dist::tensor_bytes();
    dist::reset_peak_tensor_bytes();
    const auto start = Clock::now();
    round();
    milliseconds = std::min(milliseconds, std::chrono::duration<double, std::milli>(Clock::now() - start).count());
    mebibytes = static_cast<double>(dist::peak_tensor_bytes() - before) / (1 << 20);
  }
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) {
    fmt::print(stderr, "usage: head_loss ROWS WIDTH VOCABULARY fp32|bf16 frozen|trained THREADS\n");
    return 2;
  }
  const int64_t rows = std::atoll(argv[1]), width = std::atoll(argv[2]), vocabulary = std::atoll(argv[3]);
  const auto dtype = std::string(argv[4]) == "bf16" ? at::kBFloat16 : at::kFloat;
  const bool trained = std::string(argv[5]) == "trained";
  at::set_num_threads(std::atoi(argv[6]));
  dist::count_tensor_memory();
  const at::Tensor x = at::randn({rows, width}).to(dtype).set_requires_grad(true),
                   labels = at::randint(vocabulary, {rows}, at::kLong);
  nn::Linear head(width, vocabulary, false, {});
  head.weight()->value = at::randn({vocabulary, width}).to(trained ? at::kFloat : dtype).set_requires_grad(trained);
  std::vector<at::Tensor> leaves{x};
  if (trained) leaves.push_back(head.weight()->value);
  nn::Pass pass;
  pass.compute = dtype;
  std::vector<Measured> all{{"separate", [&] {
                               const at::Tensor loss = nn::cross_entropy_sum(head({x}, pass).x, labels);
                               torch::autograd::grad({loss}, leaves, {});
                             }}};
  for (int64_t chunk = 16; chunk < 2 * rows; chunk *= 2)
    all.push_back({fmt::format("{} rows", chunk), [&, chunk] {
                     const at::Tensor loss =
                         nn::linear_cross_entropy_sum(head, {x}, labels, pass, {.rows_of_chunk = chunk});
                     torch::autograd::grad({loss}, leaves, {});
                   }});
  for (int i = 0; i < 5; ++i)
    for (Measured& one : all) one.run();
  for (const Measured& one : all)
    fmt::print("{:>12} {:9.1f} ms {:8.1f} MiB\n", one.what, one.milliseconds, one.mebibytes);
  return 0;
}
