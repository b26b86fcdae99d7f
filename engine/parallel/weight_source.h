#pragma once

#include <functional>
#include <memory>

#include <ATen/core/Tensor.h>

#include "engine/base/regular_file.h"
#include "models/nn/parameter.h"

namespace trainer::parallel {

/// The source of initial weights: a model folder, a seed, an adapter folder.
class WeightSource {
 public:
  virtual ~WeightSource() = default;
  /// How the source stores the weight.
  virtual nn::Storage storage(const nn::Parameter& parameter) const = 0;
  /// Writes elements [begin, end) of the whole flattened weight into `out` [end - begin], converting to its dtype.
  virtual void read(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const = 0;

  /// A weight's values where a file has them: reading them reads the file, writing to them ends the process.
  struct InPlace {
    at::Tensor value;                         // undefined if they can't be used there
    std::shared_ptr<const RegularFile> file;  // to be checked for changes before what was computed with them is used
  };
  /// This rank's slice, in the parameter's storage and shape, if a file of this machine has it so.
  virtual InPlace in_place(const nn::Parameter& parameter) const { return {}; }

  /// As read(), for elements [begin, end) of this rank's slice (parameter.part), in the parameter's storage and its
  /// order: `out` is [storage.elements(end - begin)]. A packed weight is encoded a few blocks at a time.
  void read_part(const nn::Parameter& parameter, int64_t begin, int64_t end, const at::Tensor& out) const;

  /// `storage` of the parameter, with what its groups of blocks share, on `device`: reads the whole weight if there are
  /// any (nn's Note [Groups of blocks]).
  nn::Storage with_groups(nn::Storage storage, const nn::Parameter& parameter, at::Device device) const;

 private:
  /// Returns `count` values from `begin` on, flat.
  using Reader = std::function<at::Tensor(int64_t begin, int64_t count)>;
  /// Reads the slice `part` in the order of `storage`, for encoding. Of a weight that is stored transposed, reads all
  /// of the slice at once.
  Reader in_order(const nn::Storage& storage, const nn::Parameter& parameter, const nn::Part& part,
                  at::Device device) const;
  /// Elements of the flattened slice from `begin` on.
  void read_slice(const nn::Parameter& parameter, const nn::Part& part, int64_t begin, const at::Tensor& out) const;
};

}  // namespace trainer::parallel
