#include "engine/operators/lazy_registration.h"

#include <string>
#include <thread>
#include <vector>

#include <ATen/ops/ones.h>
#include <gtest/gtest.h>
#include <torch/library.h>

#include "tests/operators/expect_eager.h"

namespace trainer {
namespace {

using c10::Dispatcher;

// First of all, as the others register operators.
TEST(ALazyRegistration, RegistersFewOperatorsWhenAProgramIsLoaded) {
  EXPECT_LT(Dispatcher::singleton().getAllOpNames().size(), 1000u);
}

TEST(LazyRegistration, GivesEachOperatorTheSameSchemaKernelsAndTable) {
  expect_eager_operators(EAGER_OPERATORS);
}

int64_t first(const at::Tensor&) {
  return 1;
}
int64_t second(const at::Tensor&) {
  return 2;
}

int64_t call(const char* name) {
  const auto op = Dispatcher::singleton().findSchemaOrThrow(name, "").typed<int64_t(const at::Tensor&)>();
  return op.call(at::ones({1}));
}

TEST(LazyRegistration, OfALibraryThatIsLoadedLater) {
  static torch::Library definitions(torch::Library::DEF, "lazy_test", std::nullopt, __FILE__, __LINE__);
  static torch::Library kernels(torch::Library::IMPL, "lazy_test", c10::DispatchKey::CPU, __FILE__, __LINE__);
  const c10::OperatorName kept{"lazy_test::kept", ""}, known{"lazy_test::known", ""};
  definitions.def("known(Tensor x) -> int");
  ASSERT_TRUE(Dispatcher::singleton().findSchema(known));
  {
    const operators::KeepRegistrations keep;
    kernels.impl("kept", first);  // a kernel may come before its operator
    definitions.def("kept(Tensor x) -> int");
    kernels.impl("known", first);  // an operator that is registered gets its kernels at once
  }
  EXPECT_EQ(call("lazy_test::known"), 1);
  EXPECT_FALSE(Dispatcher::singleton().findOp(kept));
  kernels.impl("kept", second);  // those that were kept come first, and this replaces theirs
  EXPECT_TRUE(Dispatcher::singleton().findOp(kept));
  EXPECT_EQ(call("lazy_test::kept"), 2);
  EXPECT_EQ(Dispatcher::singleton().findSchemaOrThrow("lazy_test::kept", "").schema().arguments().size(), 1u);
}

TEST(LazyRegistration, OfOneOperatorByManyThreads) {
  static torch::Library definitions(torch::Library::FRAGMENT, "lazy_threads", std::nullopt, __FILE__, __LINE__);
  static torch::Library kernels(torch::Library::IMPL, "lazy_threads", c10::DispatchKey::CPU, __FILE__, __LINE__);
  for (int round = 0; round < 50; ++round) {
    const std::string name = "lazy_threads::op" + std::to_string(round);
    {
      const operators::KeepRegistrations keep;
      definitions.def((name + "(Tensor x) -> int").c_str());
      kernels.impl(name.c_str(), first);
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i) threads.emplace_back([&name] { EXPECT_EQ(call(name.c_str()), 1); });
    for (auto& thread : threads) thread.join();
  }
}

TEST(LazyRegistration, UnknownOperatorsAreErrorsOfLibtorch) {
  EXPECT_THROW(Dispatcher::singleton().findSchemaOrThrow("aten::no_such_operator", ""), c10::Error);
  EXPECT_FALSE(Dispatcher::singleton().findSchema({"aten::no_such_operator", ""}));
}

}  // namespace
}  // namespace trainer
