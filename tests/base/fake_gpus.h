// Machines with GPUs that aren't there: a root folder, and a libnvidia-ml.so.1 of ours (tests/support/fake_nvml.cpp).
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "engine/base/visible_gpus.h"

namespace trainer::testing {

constexpr int64_t kGiB = int64_t{1} << 30;

class FakeGpus : public ::testing::Test {
 protected:
  FakeGpus() : root_(std::filesystem::temp_directory_path() / fmt::format("gpus-{}", getpid())) {
    std::filesystem::create_directories(root_);
    for (const char* variable : {"CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "SLURM_JOB_ID", "SLURM_GPUS_ON_NODE"})
      unsetenv(variable);
  }
  ~FakeGpus() override {
    std::filesystem::remove_all(root_);
    unsetenv("FAKE_NVML");
  }

  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name) << text;
  }
  /// A folder of /proc/driver/nvidia/gpus.
  void describe(const std::string& bus, const std::string& model, const std::string& uuid, int minor) {
    put("proc/driver/nvidia/gpus/" + bus + "/information",
        fmt::format("Model: \t\t {}\nIRQ:   \t\t 45\nGPU UUID: \t {}\nBus Type: \t PCIe\nBus Location: \t {}\n"
                    "Device Minor: \t {}\n",
                    model, uuid, bus, minor));
  }
  GpuMachine without_nvml() const { return read_gpus(root_, "libnosuch.so.1"); }
  /// With NVML, which shows `lines`.
  GpuMachine with_nvml(const std::string& lines) {
    put("nvml.txt", lines);
    setenv("FAKE_NVML", (root_ / "nvml.txt").c_str(), 1);
    return read_gpus(root_, FAKE_NVML_LIBRARY);
  }
  /// A line for with_nvml(). Bus ids ascend with the minor number.
  static std::string gpu(int minor, const std::string& name = "NVIDIA H100 80GB HBM3", int64_t total = 80 * kGiB,
                         int64_t used = 0, const std::string& capability = "9.0") {
    return fmt::format("gpu|{}|GPU-{:08x}-1111|00000000:{:02X}:00.0|{}|{}|{}|{}\n", name, 0xaaa0 + minor, 0x18 + minor,
                       minor, capability, total, used);
  }

  const std::filesystem::path root_;
};

const std::string kDriver580 = "driver|580.65.06|13000\n";

}  // namespace trainer::testing
