// With TRAINER_EMULATED_KERNELS=1, the test device of other_device.cpp has the emulated CUDA kernels.
#include <cstdlib>

#include "models/nn/device/device_kernels.h"
#include "tests/support/emulated_kernels.h"
#include "tests/support/other_device.h"

namespace trainer::testing {
namespace {

const nn::DeviceKernels kKernels = emulated_kernels();

template <class T>
T on_host(T value) {
  return value;
}
template <class T>
T* on_host(T* address) {
  return static_cast<T*>(const_cast<void*>(host_address(address)));
}
nn::RowDraws on_host(nn::RowDraws draws) {
  draws.sample_index = on_host(draws.sample_index);
  draws.token = on_host(draws.token);
  return draws;
}

/// A kernel of the table, given the device's addresses.
template <auto member, class Function>
struct Kernel;
template <auto member, class... Parameters>
struct Kernel<member, void (*)(Parameters...)> {
  static void run(Parameters... parameters) { (kKernels.*member)(on_host(parameters)...); }
};

template <auto member>
void add(nn::DeviceKernels& kernels) {
  using Function = std::remove_reference_t<decltype(kernels.*member)>;
  kernels.*member = &Kernel<member, Function>::run;
}

[[maybe_unused]] const bool kRegistered = [] {
  static nn::DeviceKernels kernels = kKernels;
  add<&nn::DeviceKernels::draw_mask>(kernels);
  add<&nn::DeviceKernels::dropout>(kernels);
  add<&nn::DeviceKernels::rotate>(kernels);
  add<&nn::DeviceKernels::activate>(kernels);
  add<&nn::DeviceKernels::activate_backward>(kernels);
  add<&nn::DeviceKernels::cross_entropy_sums>(kernels);
  add<&nn::DeviceKernels::cross_entropy_gradient>(kernels);
  add<&nn::DeviceKernels::decode_four_bits>(kernels);
  if (std::getenv("TRAINER_EMULATED_KERNELS") != nullptr)
    nn::use_device_kernels(c10::DeviceType::PrivateUse1, &kernels);
  return true;
}();

}  // namespace
}  // namespace trainer::testing
