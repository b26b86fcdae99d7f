#pragma once

#include <memory>
#include <optional>

#include "engine/dist/side_stream.h"

namespace trainer::parallel {

/// A tensor of a forward pass that waits for its backward in the host's memory.
class OffloadedActivation {
 public:
  ~OffloadedActivation();

 private:
  friend class ActivationOffload;
  at::Tensor there, here;  // on the device and on the host; undefined where it isn't
  dist::Moment copied;     // the end of the last copy between them
  std::weak_ptr<OffloadedActivation> before;  // saved before this one, so that backward needs it after this one
};
using OffloadedActivationPtr = std::shared_ptr<OffloadedActivation>;

/// Copies tensors to pinned memory of the host in the forward pass, and back to the device one ahead of the backward
/// pass. Each direction has a stream of its own. The computing stream waits for a copy before its memory is reused, so
/// at most one tensor is on its way in either direction. (As in Note [Offload].)
class ActivationOffload {
 public:
  /// Whether `x` is on a device, or stands for such a tensor in a dry run, and can be copied as it is.
  static bool applies_to(const at::Tensor& x) { return !x.is_cpu() && x.is_contiguous(); }

  /// `x` must not change. Its memory is freed at the next save(), if nothing else holds it.
  OffloadedActivationPtr save(const at::Tensor& x);
  /// The saved tensor on the device, once.
  at::Tensor restore(OffloadedActivation& saved);

 private:
  void fetch(OffloadedActivation& saved);

  std::optional<dist::SideStream> to_host_, to_device_;  // made for the first tensor's device
  std::weak_ptr<OffloadedActivation> latest_;
};

}  // namespace trainer::parallel
