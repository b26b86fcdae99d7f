#include "engine/dist/mpi_comm.h"

#include <dlfcn.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

#include "engine/base/beside_program.h"
#include "engine/base/mpi_slot.h"
#include "engine/dist/backend_comm.h"
#include "engine/dist/failures.h"
#include "engine/dist/shared_memory.h"

namespace trainer::dist {
namespace {

class MpiComm : public BackendComm {
 public:
  MpiComm(c10::intrusive_ptr<c10d::Backend> backend, bool share_memory)
      : BackendComm(std::move(backend), c10d::ProcessGroup::BackendType::MPI,
                    {c10::DeviceType::CPU, c10::DeviceType::CUDA}, share_memory) {}

 protected:
  std::unique_ptr<Comm> make_group(const std::string&, const std::vector<int>& ranks, int) override {
    auto group = translated("a group", [&] { return backend().split(nullptr, ranks, nullptr); });
    return std::make_unique<MpiComm>(std::move(group), shares_memory());
  }
};

using World = c10d::Backend*();

World* load_mpi_library() {
  const auto path = beside_program("libtrainer_mpi.so");
  // Global: Open MPI loads plugins that resolve its symbols.
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  auto* const world = library != nullptr ? reinterpret_cast<World*>(dlsym(library, "trainer_mpi_world")) : nullptr;
  if (world == nullptr)
    throw MachineError(
        "training.ddp_backend is mpi, but {} cannot be loaded: {}\n  It is built when Open MPI is "
        "installed (apt-get install libopenmpi-dev openmpi-bin); gloo needs no library.",
        path.string(), dlerror());
  return world;
}

}  // namespace

std::unique_ptr<Comm> mpi_comm(int rank, int size) {
  static World* const world = load_mpi_library();
  take_mpi_slot(rank);
  return translated("MPI's initialization", [&]() -> std::unique_ptr<Comm> {
    const auto backend = c10::intrusive_ptr<c10d::Backend>::reclaim(world());
    if (backend->getRank() != rank || backend->getSize() != size)
      throw MachineError(
          "MPI started this process as rank {} of {}, but it is rank {} of {}.\n  Does mpirun belong to the Open MPI "
          "that libtrainer_mpi.so was built with?",
          backend->getRank(), backend->getSize(), rank, size);
    return std::make_unique<MpiComm>(backend, ranks_share_a_machine());
  });
}

}  // namespace trainer::dist
