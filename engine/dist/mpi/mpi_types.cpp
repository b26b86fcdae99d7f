#include "engine/dist/mpi/mpi_types.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "engine/dist/mpi/mpi_thread.h"

namespace trainer::dist {
namespace {

struct Sum {
  static float of(float a, float b) { return a + b; }
};
struct Max {
  static float of(float a, float b) { return std::max(a, b); }
};
struct Min {
  static float of(float a, float b) { return std::min(a, b); }
};

/// MPI has no 16-bit floats: reduced in fp32, rounded at each step.
template <class T, class F>
void reduce(void* in, void* inout, int* count, MPI_Datatype*) {
  const auto* const a = static_cast<const T*>(in);
  auto* const b = static_cast<T*>(inout);
  for (int i = 0; i < *count; ++i) b[i] = T(F::of(static_cast<float>(a[i]), static_cast<float>(b[i])));
}

MPI_Op make_op(MPI_User_function* function) {
  MPI_Op op;
  check_mpi(MPI_Op_create(function, /*commute=*/1, &op), "MPI_Op_create");
  return op;
}

template <class T>
MPI_Op op_of_16_bits(c10d::ReduceOp op) {
  static const MPI_Op sum = make_op(reduce<T, Sum>), max = make_op(reduce<T, Max>), min = make_op(reduce<T, Min>);
  return op == c10d::ReduceOp::SUM ? sum : op == c10d::ReduceOp::MAX ? max : min;
}

MPI_Op built_in(c10d::ReduceOp op) {
  return op == c10d::ReduceOp::SUM ? MPI_SUM : op == c10d::ReduceOp::MAX ? MPI_MAX : MPI_MIN;
}

}  // namespace

MpiReduction mpi_reduction(c10::ScalarType type, c10d::ReduceOp op) {
  if (op != c10d::ReduceOp::SUM && op != c10d::ReduceOp::MAX && op != c10d::ReduceOp::MIN)
    throw std::runtime_error("the MPI backend reduces only by sum, maximum and minimum");
  switch (type) {
    case c10::kFloat:
      return {MPI_FLOAT, built_in(op)};
    case c10::kDouble:
      return {MPI_DOUBLE, built_in(op)};
    case c10::kHalf:
      return {MPI_UINT16_T, op_of_16_bits<c10::Half>(op)};
    case c10::kBFloat16:
      return {MPI_UINT16_T, op_of_16_bits<c10::BFloat16>(op)};
    case c10::kLong:
      return {MPI_INT64_T, built_in(op)};
    case c10::kInt:
      return {MPI_INT32_T, built_in(op)};
    case c10::kShort:
      return {MPI_INT16_T, built_in(op)};
    case c10::kChar:
      return {MPI_INT8_T, built_in(op)};
    case c10::kByte:
      return {MPI_UINT8_T, built_in(op)};
    case c10::kBool:  // a sum of booleans is "any"
      return {MPI_UINT8_T, op == c10d::ReduceOp::MIN ? MPI_MIN : MPI_MAX};
    default:
      throw std::runtime_error(std::string("the MPI backend cannot reduce tensors of type ") + c10::toString(type));
  }
}

MPI_Datatype mpi_word(size_t bytes) {
  switch (bytes) {
    case 1:
      return MPI_UINT8_T;
    case 2:
      return MPI_UINT16_T;
    case 4:
      return MPI_UINT32_T;
    case 8:
      return MPI_UINT64_T;
    default:
      throw std::runtime_error("the MPI backend cannot send elements of " + std::to_string(bytes) + " bytes");
  }
}

}  // namespace trainer::dist
