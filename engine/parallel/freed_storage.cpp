#include "engine/parallel/freed_storage.h"

#include <c10/core/Allocator.h>

#include "engine/dist/dry_memory.h"

namespace trainer::parallel {

void free_storage(const at::Tensor& tensor) {
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  storage->set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(0));
  storage->set_nbytes(0);
}

void allocate_storage(const at::Tensor& tensor) {
  const dist::CommunicationMemory communication;
  auto* const storage = tensor.storage().unsafeGetStorageImpl();
  const size_t bytes = tensor.numel() * tensor.element_size();
  storage->set_data_ptr_noswap(c10::GetAllocator(tensor.device().type())->allocate(bytes));
  storage->set_nbytes(bytes);
}

void move_storage(const at::Tensor& tensor, c10::StorageImpl& to) {
  auto* const from = tensor.storage().unsafeGetStorageImpl();
  to.set_data_ptr_noswap(from->set_data_ptr(at::DataPtr(nullptr, tensor.device())));
  to.set_nbytes(from->nbytes());
  from->set_nbytes(0);
}

}  // namespace trainer::parallel
