#include "tests/simulated/kernels.h"

#include "tests/simulated/device.h"
#include "tests/simulated/memory.h"
#include "tests/support/emulated_kernels.h"

namespace trainer::simulated {
namespace {

using nn::ElementType;
using nn::RowDraws;

const nn::DeviceKernels& emulated() {
  static const nn::DeviceKernels table = testing::emulated_kernels();
  return table;
}

/// The memory that a launch uses.
class Launch {
 public:
  /// The valid address of `count` elements of `bytes` that the kernel reads, or writes; null stays null.
  template <class T>
  const T* reads(const T* address, int64_t count, int64_t bytes = sizeof(T)) {
    return static_cast<const T*>(noted(reads_, address, count * bytes));
  }
  template <class T>
  T* writes(T* address, int64_t count, int64_t bytes = sizeof(T)) {
    return static_cast<T*>(noted(writes_, address, count * bytes));
  }
  const void* reads(const void* address, int64_t count, ElementType type) {
    return noted(reads_, address, count * (type == ElementType::kFloat ? 4 : 2));
  }
  void* writes(void* address, int64_t count, ElementType type) {
    return noted(writes_, address, count * (type == ElementType::kFloat ? 4 : 2));
  }
  RowDraws reads(RowDraws draws, int64_t rows) {
    draws.sample_index = reads(draws.sample_index, rows);
    draws.token = reads(draws.token, rows);
    return draws;
  }
  template <class F>
  void run(const char* kernel, const F& work) const {
    launch_kernel(kernel, reads_, writes_, work);
  }

 private:
  static void* noted(std::vector<Range>& ranges, const void* address, int64_t bytes) {
    if (address == nullptr) return nullptr;
    const auto begin = reinterpret_cast<uintptr_t>(address);
    if (bytes > 0) ranges.push_back({begin, begin + static_cast<uintptr_t>(bytes)});
    return found(address);
  }

  std::vector<Range> reads_, writes_;
};

void draw_mask(const RowDraws& given, int64_t rows, int64_t width, bool* kept, void* stream) {
  Launch launch;
  const RowDraws draws = launch.reads(given, rows);
  bool* const to = launch.writes(kept, rows * width);
  launch.run("draw_mask", [=] { emulated().draw_mask(draws, rows, width, to, stream); });
}

void dropout(ElementType x_type, const void* x, ElementType out_type, const void* residual, const RowDraws& given,
             int64_t rows, int64_t width, void* out, void* stream) {
  Launch launch;
  const void *const from = launch.reads(x, rows * width, x_type), *const base =
                                                                      launch.reads(residual, rows * width, out_type);
  const RowDraws draws = launch.reads(given, rows);
  void* const to = launch.writes(out, rows * width, out_type);
  launch.run("dropout", [=] { emulated().dropout(x_type, from, out_type, base, draws, rows, width, to, stream); });
}

void add_noise(const float* x, const float* magnitudes, const RowDraws& given, int64_t rows, int64_t width, float* out,
               void* stream) {
  Launch launch;
  const float *const from = launch.reads(x, rows * width), *const sizes = launch.reads(magnitudes, rows);
  const RowDraws draws = launch.reads(given, rows);
  float* const to = launch.writes(out, rows * width);
  launch.run("add_noise", [=] { emulated().add_noise(from, sizes, draws, rows, width, to, stream); });
}

void rotate(ElementType type, const void* x, const float* table, float direction, int64_t rows, int64_t heads,
            int64_t pairs, void* out, void* stream) {
  Launch launch;
  const void* const from = launch.reads(x, rows * heads * 2 * pairs, type);
  const float* const angles = launch.reads(table, rows * 2 * pairs);
  void* const to = launch.writes(out, rows * heads * 2 * pairs, type);
  launch.run("rotate", [=] { emulated().rotate(type, from, angles, direction, rows, heads, pairs, to, stream); });
}

void activate(ElementType type, nn::Activation activation, const void* gate, const void* up, const RowDraws& given,
              int64_t rows, int64_t width, void* out, void* stream) {
  Launch launch;
  const void *const g = launch.reads(gate, rows * width, type), *const u = launch.reads(up, rows * width, type);
  const RowDraws draws = launch.reads(given, rows);
  void* const to = launch.writes(out, rows * width, type);
  launch.run("activate", [=] { emulated().activate(type, activation, g, u, draws, rows, width, to, stream); });
}

void activate_backward(ElementType type, nn::Activation activation, const void* grad, const void* gate, const void* up,
                       const RowDraws& given, int64_t rows, int64_t width, void* gate_grad, void* up_grad,
                       void* stream) {
  Launch launch;
  const int64_t all = rows * width;
  const void *const d = launch.reads(grad, all, type), *const g = launch.reads(gate, all, type),
                    *const u = launch.reads(up, all, type);
  const RowDraws draws = launch.reads(given, rows);
  void *const dg = launch.writes(gate_grad, all, type), *const du = launch.writes(up_grad, all, type);
  launch.run("activate_backward",
             [=] { emulated().activate_backward(type, activation, d, g, u, draws, rows, width, dg, du, stream); });
}

void rms_norm(ElementType x_type, const void* x, const float* weight, float eps, bool twice, ElementType out_type,
              int64_t rows, int64_t width, void* out, void* normalized, float* scales, void* stream) {
  Launch launch;
  const void* const from = launch.reads(x, rows * width, x_type);
  const float* const w = launch.reads(weight, width);
  void *const to = launch.writes(out, rows * width, out_type), *const plain =
                                                                   launch.writes(normalized, rows * width, out_type);
  float* const s = launch.writes(scales, rows);
  launch.run("rms_norm",
             [=] { emulated().rms_norm(x_type, from, w, eps, twice, out_type, rows, width, to, plain, s, stream); });
}

void rms_norm_backward(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                       const void* normalized, const void* base, const float* weight, const float* scales, int64_t rows,
                       int64_t width, void* out, void* stream) {
  Launch launch;
  const int64_t all = rows * width;
  const void *const g = launch.reads(grad, all, grad_type), *const from = launch.reads(x, all, x_type),
                    *const plain = launch.reads(normalized, all, grad_type),
                    *const added = launch.reads(base, all, x_type);
  const float *const w = launch.reads(weight, width), *const s = launch.reads(scales, rows);
  void* const to = launch.writes(out, all, x_type);
  launch.run("rms_norm_backward", [=] {
    emulated().rms_norm_backward(grad_type, g, x_type, from, plain, added, w, s, rows, width, to, stream);
  });
}

void rms_norm_weight_gradient(ElementType grad_type, const void* grad, ElementType x_type, const void* x,
                              const float* scales, int64_t rows, int64_t width, int64_t per_part, float* parts,
                              void* stream) {
  Launch launch;
  const int64_t all = rows * width;
  const void *const g = launch.reads(grad, all, grad_type), *const from = launch.reads(x, all, x_type);
  const float* const s = launch.reads(scales, rows);
  float* const to = launch.writes(parts, (rows + per_part - 1) / per_part * width);
  launch.run("rms_norm_weight_gradient", [=] {
    emulated().rms_norm_weight_gradient(grad_type, g, x_type, from, s, rows, width, per_part, to, stream);
  });
}

void cross_entropy_sums(ElementType type, const void* logits, const int64_t* labels, int64_t begin, int64_t rows,
                        int64_t width, bool smooth, double* sums, void* stream) {
  Launch launch;
  const void* const x = launch.reads(logits, rows * width, type);
  const int64_t* const of = launch.reads(labels, rows);
  double* const to = launch.writes(sums, rows * 4);
  launch.run("cross_entropy_sums",
             [=] { emulated().cross_entropy_sums(type, x, of, begin, rows, width, smooth, to, stream); });
}

void cross_entropy_gradient(ElementType type, const void* logits, const int64_t* labels, const float* log_sum,
                            const float* grad, float own, float everywhere, int64_t begin, int64_t rows, int64_t width,
                            void* out, void* stream) {
  Launch launch;
  const void* const x = launch.reads(logits, rows * width, type);
  const int64_t* const of = launch.reads(labels, rows);
  const float *const sum = launch.reads(log_sum, rows), *const d = launch.reads(grad, 1);
  void* const to = launch.writes(out, rows * width, type);
  launch.run("cross_entropy_gradient", [=] {
    emulated().cross_entropy_gradient(type, x, of, sum, d, own, everywhere, begin, rows, width, to, stream);
  });
}

void decode_four_bits(const uint8_t* blocks, int64_t count, const nn::FourBitCode& code, const nn::FourBitScales& given,
                      ElementType type, void* out, void* stream) {
  Launch launch;
  const int64_t bytes = nn::kFourBitBytes + (given.shared != nullptr ? 1 : 4);
  const uint8_t* const from = launch.reads(blocks, count, bytes);
  nn::FourBitScales scales = given;
  scales.shared = launch.reads(given.shared, 2 * count);
  void* const to = launch.writes(out, count * nn::kFourBitBlock, type);
  launch.run("decode_four_bits", [=] { emulated().decode_four_bits(from, count, code, scales, type, to, stream); });
}

}  // namespace

const nn::DeviceKernels& kernels() {
  static const nn::DeviceKernels table{[](int) -> void* { return nullptr; },
                                       draw_mask,
                                       dropout,
                                       add_noise,
                                       rotate,
                                       activate,
                                       activate_backward,
                                       rms_norm,
                                       rms_norm_backward,
                                       rms_norm_weight_gradient,
                                       cross_entropy_sums,
                                       cross_entropy_gradient,
                                       decode_four_bits};
  return table;
}

}  // namespace trainer::simulated
