#include <stdexcept>

#include "models/nn/cuda/draws.h"
#include "models/nn/cuda/kernels.h"

namespace trainer::nn::cuda {
namespace {

struct Mask {
  bool* kept;

  template <int N>
  __device__ void visit(int64_t at, const Floats<N>& factor) const {
    for (int i = 0; i < N; ++i) kept[at + i] = factor.x[i] != 0;
  }
};

template <class T, class Out>
struct Dropout {
  const T* x;
  const Out* residual;
  Out* out;

  template <int N>
  __device__ void visit(int64_t at, Floats<N> factor) const {
    const Floats<N> from = load<N>(x + at);
    for (int i = 0; i < N; ++i) factor.x[i] *= from.x[i];
    if (residual != nullptr) {
      const Floats<N> base = load<N>(residual + at);
      for (int i = 0; i < N; ++i) factor.x[i] += base.x[i];
    }
    store<N>(out + at, factor);
  }
};

template <class T, class Out>
void dropout_of(const void* x, const void* residual, const RowDraws& draws, int64_t rows, int64_t width, void* out,
                void* stream) {
  const Dropout<T, Out> body{static_cast<const T*>(x), static_cast<const Out*>(residual), static_cast<Out*>(out)};
  visit(body, draws, rows, width, least_run(body.x, body.residual, body.out), stream);
}

}  // namespace

void draw_mask(const RowDraws& draws, int64_t rows, int64_t width, bool* kept, void* stream) {
  visit(Mask{kept}, draws, rows, width, kSeveral, stream);
}

void dropout(ElementType x_type, const void* x, ElementType out_type, const void* residual, const RowDraws& draws,
             int64_t rows, int64_t width, void* out, void* stream) {
  with_type(x_type, [&](auto from) {
    using T = typename decltype(from)::type;
    if (out_type == ElementType::kFloat)
      dropout_of<T, float>(x, residual, draws, rows, width, out, stream);
    else if (out_type == x_type)
      dropout_of<T, T>(x, residual, draws, rows, width, out, stream);
    else if (x_type != ElementType::kFloat)
      throw std::runtime_error("dropout does not convert between bf16 and fp16");
    else if (out_type == ElementType::kBfloat16)
      dropout_of<float, __nv_bfloat16>(x, residual, draws, rows, width, out, stream);
    else
      dropout_of<float, __half>(x, residual, draws, rows, width, out, stream);
  });
}

}  // namespace trainer::nn::cuda
