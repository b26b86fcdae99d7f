// c10d's collectives over MPI, for ranks on the CPU.
#pragma once

#include <mpi.h>

#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "engine/dist/mpi/mpi_thread.h"

namespace trainer::dist {

/// The ranks of one MPI communicator. Tensors must be contiguous, on the CPU, and of fewer than 2^31 elements.
class MpiBackend : public c10d::Backend {
 public:
  /// All ranks that MPI started. Errors: std::runtime_error.
  static c10::intrusive_ptr<MpiBackend> world();

  MpiBackend(MPI_Comm comm, int rank, int size) : Backend(rank, size), comm_(comm) {}
  ~MpiBackend() override;

  const std::string getBackendName() const override { return "mpi"; }
  bool supportsSplitting() const override { return true; }
  c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store>& store, const std::vector<int>& ranks,
                                    const c10::intrusive_ptr<Options>& options) override;

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>& tensors,
                                           const c10d::AllreduceOptions& options) override;
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>& tensors,
                                           const c10d::BroadcastOptions& options) override;
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override;
  c10::intrusive_ptr<c10d::Work> send(std::vector<at::Tensor>& tensors, int to, int tag) override;
  c10::intrusive_ptr<c10d::Work> recv(std::vector<at::Tensor>& tensors, int from, int tag) override;
  c10::intrusive_ptr<c10d::Work> barrier(const c10d::BarrierOptions& options) override;

 private:
  c10::intrusive_ptr<c10d::Work> start(c10d::OpType type, std::vector<at::Tensor> tensors,
                                       std::function<int(MPI_Request*)> call, const char* name);

  MPI_Comm comm_;
};

}  // namespace trainer::dist
