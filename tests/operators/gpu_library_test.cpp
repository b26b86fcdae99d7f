// The operators of libtorch_cuda.so, without a GPU.
#include <dlfcn.h>

#include "engine/operators/lazy_registration.h"
#include "tests/operators/expect_eager.h"

namespace trainer {
namespace {

TEST(GpuLibrary, RegistersTheSameOperatorsLazily) {
  {
    const operators::KeepRegistrations keep;
    ASSERT_NE(dlopen(GPU_LIBRARY, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  }
  EXPECT_LT(c10::Dispatcher::singleton().getAllOpNames().size(), 1000u);
  expect_eager_operators(EAGER_OPERATORS " " GPU_LIBRARY);
}

}  // namespace
}  // namespace trainer
