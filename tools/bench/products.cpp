// GFLOP/s of matrix products on this CPU: libtorch's, by tiles, of bf16 widened to fp32, and of bf16 numbers with the
// parts of each precision, in turns; then of weights that are stored in fewer bits.
//
//   products [THREADS] [M N K]...
//
// With COLD_MB=200, b is a different matrix in each product, 200 MB of them in turn: weights come from memory.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm_cpu_dispatch.h>
#include <ATen/ops/randn.h>
#include <fmt/core.h>

#include "models/nn/bf16_gemm.h"
#include "models/nn/bf16_products.h"
#include "models/nn/cpu_products.h"
#include "models/nn/four_bit.h"
#include "models/nn/fp32_products.h"
#include "models/nn/half_products.h"
#include "models/nn/stored_weight.h"
#include "models/nn/tiled_gemm.h"

namespace trainer::nn {
namespace {

constexpr int kTurns = 9;

struct Program {
  std::string name;
  std::function<void(const at::Tensor& a, const at::Tensor& b, at::Tensor& out)> multiply;
  double best = 1e9;  // seconds
};

std::vector<Program> programs(at::ScalarType type) {
  std::vector<Program> all{{"libtorch", [](const auto& a, const auto& b, auto& out) { at::cpu::mm_outf(a, b, out); }}};
  if (type == at::kFloat && tile_kernels() != nullptr)
    all.push_back({"tiles", [](const auto& a, const auto& b, auto& out) { fp32_product(a, b, {}, 0, 1, out); }});
  if (type != at::kFloat)
    all.push_back({"widened", [](const auto& a, const auto& b, auto& out) { half_product(a, b, {}, 0, 1, out); }});
  for (const auto& [name, parts] : {std::pair{"highest", 3}, {"high", 2}, {"medium", 1}}) {
    if ((type != at::kFloat && parts != 1) || bf16_multiply_for(parts) == nullptr) continue;
    all.push_back({name, [precision = name](const auto& a, const auto& b, auto& out) {
                     at::globalContext().setFloat32MatmulPrecision(precision);
                     bf16_product(a, b, {}, 0, 1, out);
                     at::globalContext().setFloat32MatmulPrecision("highest");
                   }});
  }
  return all;
}

/// b and copies of it, of as many bytes as COLD_MB says.
std::vector<at::Tensor> copies_of(const at::Tensor& b) {
  const char* const megabytes = std::getenv("COLD_MB");
  std::vector<at::Tensor> all{b};
  while (megabytes != nullptr && all.size() * b.nbytes() < static_cast<size_t>(std::atoll(megabytes)) << 20)
    all.push_back(b.clone());
  return all;
}

/// Lets all programs multiply in turns, and prints their best speeds.
void report(const std::string& type, const char* form, int64_t m, int64_t n, int64_t k, const at::Tensor& first,
            const std::vector<at::Tensor>& seconds, at::Tensor& out, std::vector<Program> all) {
  const double operations = 2.0 * static_cast<double>(m * n * k);
  const size_t times = std::max(seconds.size(), static_cast<size_t>(1e9 / operations));
  for (int turn = 0; turn < kTurns; ++turn)
    for (Program& program : all) {
      const auto start = std::chrono::steady_clock::now();
      for (size_t i = 0; i < times; ++i) program.multiply(first, seconds[i % seconds.size()], out);
      const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
      program.best = std::min(program.best, time.count() / static_cast<double>(times));
    }
  fmt::print("{:9} {:5} {:5} {:5}  {:6}", type, m, n, k, form);
  for (const Program& program : all) fmt::print("  {} {:5.0f}", program.name, operations / program.best / 1e9);
  fmt::print("\n");
}

/// x in fp32 with a weight that is stored in fewer bits: decoded first, and as it is read by products.
void measure_stored(int64_t m, int64_t n, int64_t k) {
  const at::Tensor values = at::randn({n, k});
  for (const Storage& storage : {Storage(at::kBFloat16), Storage(four_bits(FourBits::kNf4, false))}) {
    if (storage.packed && k % storage.packed->block != 0) continue;
    const std::vector<at::Tensor> weights = copies_of(storage.encode(values));
    for (const bool transposed : {true, false}) {
      const at::Tensor x = at::randn({m, transposed ? k : n});
      at::Tensor out = at::empty({m, transposed ? n : k});
      std::vector<Program> all{{"decoded",
                                [&](const auto& a, const auto& b, auto& to) {
                                  const at::Tensor wide = storage.decode(b, at::kFloat);
                                  fp32_product(a, transposed ? wide.t() : wide, {}, 0, 1, to);
                                }},
                               {"as stored", [&](const auto& a, const auto& b, auto& to) {
                                  StoredWeight(b, storage, a).multiply(a, transposed, to);
                                }}};
      report(storage.packed ? storage.packed->name : "bf16", transposed ? "x W^T" : "x W", m, n, k, x, weights, out,
             all);
    }
  }
}

void measure(int64_t m, int64_t n, int64_t k, at::ScalarType type) {
  for (const auto& [form, a, b] : {std::tuple{"x W^T", at::randn({m, k}), at::randn({n, k}).t()},
                                   std::tuple{"x W", at::randn({m, k}), at::randn({k, n})},
                                   std::tuple{"x^T y", at::randn({k, m}).t(), at::randn({k, n})}}) {
    const at::Tensor first = a.to(type);
    const std::vector<at::Tensor> seconds = copies_of(b.to(type));
    at::Tensor out = at::empty({m, n}, first.options());
    report(at::toString(type), form, m, n, k, first, seconds, out, programs(type));
  }
}

}  // namespace
}  // namespace trainer::nn

int main(int argc, char** argv) {
  at::set_num_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  std::vector<std::array<int64_t, 3>> sizes{{300, 512, 512},   {300, 2048, 512}, {300, 512, 2048}, {1024, 768, 768},
                                            {1024, 2048, 768}, {300, 8, 512},    {300, 512, 8},    {8, 512, 300},
                                            {64, 64, 64},      {32, 512, 512},   {16, 512, 512}};
  if (argc > 4) sizes.clear();
  for (int i = 2; i + 2 < argc; i += 3)
    sizes.push_back({std::atoll(argv[i]), std::atoll(argv[i + 1]), std::atoll(argv[i + 2])});
  for (const at::ScalarType type : {at::kFloat, at::kBFloat16})
    for (const auto& [m, n, k] : sizes) trainer::nn::measure(m, n, k, type);
  for (const auto& [m, n, k] : sizes) trainer::nn::measure_stored(m, n, k);
}
