#include "engine/dist/mpi/mpi_backend.h"

#include <climits>
#include <stdexcept>

#include "engine/dist/mpi/exchange.h"
#include "engine/dist/mpi/mpi_types.h"

namespace trainer::dist {
namespace {

constexpr int64_t kLargeBytes = 64 << 10;  // from this size on, copying dominates message latency

int count_of(const at::Tensor& tensor) {
  if (!tensor.is_contiguous() || !tensor.is_cpu())
    throw std::runtime_error("the MPI backend sends only contiguous tensors on the CPU");
  if (tensor.numel() > INT_MAX)
    throw std::runtime_error("the MPI backend supports tensors of at most 2147483647 elements; one has " +
                             std::to_string(tensor.numel()));
  return static_cast<int>(tensor.numel());
}

const at::Tensor& only(const std::vector<at::Tensor>& tensors) {
  if (tensors.size() != 1) throw std::runtime_error("the MPI backend sends one tensor at a time");
  return tensors.front();
}

}  // namespace

c10::intrusive_ptr<MpiBackend> MpiBackend::world() {
  int rank = 0, size = 0;
  MpiThread::instance().run([&] {
    check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank), "MPI_Comm_rank");
    check_mpi(MPI_Comm_size(MPI_COMM_WORLD, &size), "MPI_Comm_size");
  });
  return c10::make_intrusive<MpiBackend>(MPI_COMM_WORLD, rank, size);
}

MpiBackend::~MpiBackend() = default;  // MPI frees its communicator at the end: freeing is a collective

c10::intrusive_ptr<c10d::Backend> MpiBackend::split(const c10::intrusive_ptr<c10d::Store>&,
                                                    const std::vector<int>& ranks, const c10::intrusive_ptr<Options>&) {
  MPI_Comm comm = MPI_COMM_NULL;
  int mine = 0;
  MpiThread::instance().run([&] {
    MPI_Group all, some;
    check_mpi(MPI_Comm_group(comm_, &all), "MPI_Comm_group");
    check_mpi(MPI_Group_incl(all, static_cast<int>(ranks.size()), ranks.data(), &some), "MPI_Group_incl");
    check_mpi(MPI_Comm_create_group(comm_, some, /*tag=*/0, &comm), "MPI_Comm_create_group");
    check_mpi(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check_mpi(MPI_Comm_rank(comm, &mine), "MPI_Comm_rank");
    MPI_Group_free(&some);
    MPI_Group_free(&all);
  });
  return c10::make_intrusive<MpiBackend>(comm, mine, static_cast<int>(ranks.size()));
}

c10::intrusive_ptr<c10d::Work> MpiBackend::start(c10d::OpType type, std::vector<at::Tensor> tensors,
                                                 std::function<int(MPI_Request*)> call, const char* name) {
  const auto work = c10::make_intrusive<MpiWork>(getRank(), type, std::move(tensors));
  MpiThread::instance().start(work, {[call = std::move(call), name] {
                                MPI_Request request = MPI_REQUEST_NULL;
                                check_mpi(call(&request), name);
                                return std::vector{request};
                              }});
  return work;
}

c10::intrusive_ptr<c10d::Work> MpiBackend::allreduce(std::vector<at::Tensor>& tensors,
                                                     const c10d::AllreduceOptions& options) {
  const at::Tensor tensor = only(tensors);
  if (static_cast<int64_t>(tensor.nbytes()) >= kLargeBytes) {
    count_of(tensor);
    const auto work = c10::make_intrusive<MpiWork>(getRank(), c10d::OpType::ALLREDUCE, tensors);
    MpiThread::instance().start(
        work, reduce_by_exchange({comm_, getRank(), getSize(), static_cast<char*>(tensor.data_ptr()), tensor.numel(),
                                  tensor.element_size(), tensor.scalar_type(), options.reduceOp}));
    return work;
  }
  return start(
      c10d::OpType::ALLREDUCE, tensors,
      [comm = comm_, at = tensor.data_ptr(), count = count_of(tensor), dtype = tensor.scalar_type(),
       op = options.reduceOp](MPI_Request* request) {
        const MpiReduction reduction = mpi_reduction(dtype, op);
        return MPI_Iallreduce(MPI_IN_PLACE, at, count, reduction.type, reduction.op, comm, request);
      },
      "MPI_Iallreduce");
}

c10::intrusive_ptr<c10d::Work> MpiBackend::broadcast(std::vector<at::Tensor>& tensors,
                                                     const c10d::BroadcastOptions& options) {
  const at::Tensor tensor = only(tensors);
  return start(
      c10d::OpType::BROADCAST, tensors,
      [comm = comm_, at = tensor.data_ptr(), count = count_of(tensor), type = mpi_word(tensor.element_size()),
       root = static_cast<int>(options.rootRank)](MPI_Request* request) {
        return MPI_Ibcast(at, count, type, root, comm, request);
      },
      "MPI_Ibcast");
}

c10::intrusive_ptr<c10d::Work> MpiBackend::_allgather_base(at::Tensor& output, at::Tensor& input,
                                                           const c10d::AllgatherOptions&) {
  if (output.numel() != input.numel() * getSize()) throw std::runtime_error("a gather's result has the wrong size");
  count_of(output);
  return start(
      c10d::OpType::_ALLGATHER_BASE, {output, input},
      [comm = comm_, from = input.data_ptr(), to = output.data_ptr(), count = count_of(input),
       type = mpi_word(input.element_size())](MPI_Request* request) {
        return MPI_Iallgather(from, count, type, to, count, type, comm, request);
      },
      "MPI_Iallgather");
}

c10::intrusive_ptr<c10d::Work> MpiBackend::send(std::vector<at::Tensor>& tensors, int to, int tag) {
  const at::Tensor tensor = only(tensors);
  return start(
      c10d::OpType::SEND, tensors,
      [comm = comm_, at = tensor.data_ptr(), count = count_of(tensor), type = mpi_word(tensor.element_size()), to,
       tag](MPI_Request* request) { return MPI_Isend(at, count, type, to, tag, comm, request); },
      "MPI_Isend");
}

c10::intrusive_ptr<c10d::Work> MpiBackend::recv(std::vector<at::Tensor>& tensors, int from, int tag) {
  const at::Tensor tensor = only(tensors);
  return start(
      c10d::OpType::RECV, tensors,
      [comm = comm_, at = tensor.data_ptr(), count = count_of(tensor), type = mpi_word(tensor.element_size()), from,
       tag](MPI_Request* request) { return MPI_Irecv(at, count, type, from, tag, comm, request); },
      "MPI_Irecv");
}

c10::intrusive_ptr<c10d::Work> MpiBackend::barrier(const c10d::BarrierOptions&) {
  return start(
      c10d::OpType::BARRIER, {}, [comm = comm_](MPI_Request* request) { return MPI_Ibarrier(comm, request); },
      "MPI_Ibarrier");
}

}  // namespace trainer::dist

extern "C" c10d::Backend* trainer_mpi_world() {
  return trainer::dist::MpiBackend::world().release();
}
