#include "tests/simulated/device.h"
#include "tests/support/device.h"

namespace trainer::testing {

c10::Device device() {
  return simulated::current_device();
}

std::string why_no_device() {
  return "";
}

}  // namespace trainer::testing
