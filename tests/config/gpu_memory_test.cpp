// GPU names as users write them.
#include "engine/config/machine/gpu_memory.h"

#include <gtest/gtest.h>

#include "engine/base/errors.h"

namespace trainer::config {
namespace {

std::string name_of_card(const std::string& text) {
  return gpu_memory_named(text).name;
}

double gib(const std::string& text) {
  return static_cast<double>(gpu_memory_named(text).bytes) / static_cast<double>(int64_t{1} << 30);
}

std::string problem(const std::string& text) {
  try {
    gpu_memory_named(text);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "none";
}

TEST(GpuMemory, AcceptsNamesOfVendorDriverAndUsers) {
  for (const char* name : {"H100", "h100", "H100 80GB", "NVIDIA H100 80GB HBM3", "h100-80g", "NVIDIA H100 PCIe"})
    EXPECT_EQ(name_of_card(name), "H100 80GB") << name;
  for (const char* name : {"A100-80GB", "NVIDIA A100-SXM4-80GB", "a100_80gb", "A100 80"})
    EXPECT_EQ(name_of_card(name), "A100 80GB") << name;
  EXPECT_EQ(name_of_card("A100-SXM4-40GB"), "A100 40GB");
  EXPECT_EQ(name_of_card("Tesla V100-SXM2-32GB"), "V100 32GB");
  EXPECT_EQ(name_of_card("Tesla T4"), "T4");
  EXPECT_EQ(name_of_card("H100 NVL"), "H100 NVL");
  EXPECT_EQ(name_of_card("NVIDIA GeForce RTX 4090"), "RTX 4090");
  EXPECT_EQ(name_of_card("4090"), "RTX 4090") << "not 4090 GiB";
  EXPECT_EQ(name_of_card("NVIDIA RTX 6000 Ada Generation"), "RTX 6000 Ada");
  EXPECT_EQ(name_of_card("L40S"), "L40S");
}

TEST(GpuMemory, IsLessThanTheVendorsNumber) {
  EXPECT_LT(gib("H100"), 80);
  EXPECT_GT(gib("H100"), 79);
  EXPECT_LT(gib("T4"), 15);
}

TEST(GpuMemory, NumbersAreInGibibytes) {
  for (const char* number : {"80", "80GB", "80 GiB", "80g", "8e1"}) EXPECT_EQ(gib(number), 80) << number;
  EXPECT_EQ(gib("23.5"), 23.5);
}

TEST(GpuMemory, RefusesAmbiguousAndUnknownNames) {
  EXPECT_EQ(problem("A100"), "--gpu_memory A100: there are A100 40GB and A100 80GB: specify one of them");
  EXPECT_EQ(problem("V100").find("--gpu_memory V100: there are V100 16GB"), 0U);
  for (const char* unknown : {"", "H900", "-3", "0", "1e9", "nan", "H100 40GB", "80 apples"}) {
    const std::string found = problem(unknown);
    EXPECT_EQ(found.find("--gpu_memory must be a number of GiB"), 0U) << unknown << ": " << found;
    EXPECT_NE(found.find("H200, B200"), std::string::npos) << found;
  }
}

}  // namespace
}  // namespace trainer::config
