#include "engine/checkpoint/whole_tensors.h"

#include <ATen/ops/empty.h>

namespace trainer::checkpoint {

WholeTensors::WholeTensors(std::filesystem::path folder)
    : folder_(std::move(folder)), manifest_(read_manifest(folder_.string())) {}

const tensorfile::SafetensorsFile& WholeTensors::opened(const std::string& name) {
  auto& file = files_[name];
  if (!file) file = std::make_unique<tensorfile::SafetensorsFile>(folder_ / name);
  return *file;
}

at::ScalarType WholeTensors::dtype(const SavedTensor& tensor) {
  const SavedPiece& first = tensor.pieces.at(0);
  return opened(first.file).info(first.entry).dtype->type;
}

at::Tensor WholeTensors::read(const SavedTensor& tensor) {
  at::Tensor whole;
  for (const SavedPiece& piece : tensor.pieces) {
    const at::Tensor stored = opened(piece.file).read(piece.entry, 0, piece.end - piece.begin);
    if (!whole.defined()) {
      int64_t numel = 1;
      for (const int64_t size : tensor.shape) numel *= size;
      whole = at::empty({numel}, stored.options());
    }
    for (const nn::Run& run : nn::runs_of(piece.part, tensor.shape, piece.begin, piece.end))
      whole.narrow(0, run.whole, run.count).copy_(stored.narrow(0, run.part - piece.begin, run.count));
  }
  return whole.view(tensor.shape);
}

}  // namespace trainer::checkpoint
