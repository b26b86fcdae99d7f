// What exceptions of the collectives libraries mean.
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include "engine/base/errors.h"
#include "engine/dist/failures.h"

namespace trainer::testing {
namespace {

// As ProcessGroupNCCL throws it: the reason is in the last line.
constexpr const char* kNcclLines =
    "NCCL error in: ProcessGroupNCCL.cpp:3690, remote process exited or there was a network error, NCCL version "
    "2.27.5\n"
    "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n"
    "Last error:\n"
    "socketPollConnect: connect to 10.0.0.2<50000> returned Connection refused";

/// The message of the error of class E that a failing collective throws; "" and a failure if it is another one.
template <class E, class F>
std::string thrown_as(const F& fails) {
  try {
    dist::translated("a reduction", [&] { fails(); });
    ADD_FAILURE() << "nothing was thrown";
  } catch (const E& error) {
    return error.what();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "another error: " << error.what();
  }
  return "";
}

TEST(CollectiveFailures, ALostRankKeepsAllOfNcclsLines) {
  const std::string text = thrown_as<PeerError>([] { throw std::runtime_error(kNcclLines); });
  EXPECT_TRUE(text.starts_with("a reduction failed: another rank was lost.\n")) << text;
  for (const char* const part :
       {"NCCL error in", "ncclRemoteError",
        "\n  Last error: socketPollConnect: connect to 10.0.0.2<50000> returned Connection refused"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(CollectiveFailures, AReasonThatNcclDoesNotKnowHasNoLine) {
  const std::string text =
      thrown_as<PeerError>([] { throw std::runtime_error("NCCL error in: a.cpp:1\nncclRemoteError: it failed.\nLast error:\n\n"); });
  EXPECT_EQ(text, "a reduction failed: another rank was lost.\n  NCCL error in: a.cpp:1\n  ncclRemoteError: it failed.");
}

TEST(CollectiveFailures, TorchsErrorsLoseTheirBacktrace) {
  const std::string text = thrown_as<PeerError>([] { TORCH_CHECK(false, kNcclLines); });
  EXPECT_NE(text.find("Connection refused"), std::string::npos) << text;
  EXPECT_EQ(text.find("Exception raised from"), std::string::npos) << text;
}

TEST(CollectiveFailures, MisuseIsOurs) {
  for (const std::string& misuse : std::vector<std::string>{
           "Tensors must be CUDA and dense", "Invalid scalar type",
           "NCCL error in: NCCLUtils.cpp:1, invalid usage, ncclInvalidUsage: This usually reflects invalid usage",
           "NCCL error in: NCCLUtils.cpp:1, invalid argument, ncclInvalidArgument: Invalid value for an argument"}) {
    const std::string text = thrown_as<InternalError>([&] { throw std::runtime_error(misuse); });
    EXPECT_NE(text.find(misuse), std::string::npos) << text;
  }
  thrown_as<InternalError>([] { TORCH_CHECK_VALUE(false, "invalid tensor size"); });
  thrown_as<InternalError>([] { TORCH_CHECK_TYPE(false, "a tensor of another type"); });
  thrown_as<InternalError>([] { TORCH_CHECK_NOT_IMPLEMENTED(false, "Backend nccl does not support it"); });
}

TEST(CollectiveFailures, MissingMemoryStaysMissingMemory) {
  thrown_as<c10::OutOfMemoryError>([] { TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory"); });
}

TEST(CollectiveFailures, OurErrorsPassThrough) {
  EXPECT_EQ(thrown_as<MachineError>([] { throw MachineError("the disk is full"); }), "the disk is full");
}

/// As NCCL 2.27 and libtorch 2.11 write them: what failed, its name, and NCCL's last words.
std::string nccl(const std::string& what, const std::string& name, const std::string& last) {
  return "NCCL error in: /pytorch/torch/csrc/distributed/c10d/NCCLUtils.cpp:92, " + what +
         " (run with NCCL_DEBUG=INFO for details), NCCL version 2.27.5\n" + name + "\nLast error:\n" + last;
}
std::string system_error(const std::string& last) {
  return nccl("unhandled system error",
              "ncclSystemError: System call (e.g. socket, malloc) or external library call failed or device error. ",
              last);
}
std::string cuda_error_in_nccl(const std::string& last) {
  return nccl("unhandled cuda error", "ncclUnhandledCudaError: Call to CUDA function failed.", last);
}
std::string cuda_error(const std::string& text, const std::string& name) {
  return "CUDA error: " + text + "\nSearch for `" + name +
         "' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.\n"
         "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be "
         "incorrect.\nFor debugging consider passing CUDA_LAUNCH_BLOCKING=1\n";
}
std::string from_watchdog(const std::string& text) {
  return "[PG ID 0 PG GUID 0(default_pg) Rank 1] Process group watchdog thread terminated with exception: " + text;
}

// Last lines from the issues of NCCL, PyTorch, vLLM, sglang, Accelerate and transformers.
TEST(Failures, AreRecognizedByTheirMessages) {
  using enum dist::Failure;
  const std::vector<std::pair<std::string, dist::Failure>> messages{
      {kNcclLines, kLostRank},
      {"[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)", kLostRank},
      {"[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711", kLostRank},
      {system_error("socketProgress: Connection closed by remote peer node2<42830>"), kLostRank},
      {system_error("socketStartConnect: Connect to 10.1.1.2<57073> failed : No route to host"), kLostRank},
      {nccl("internal error - please report this issue to the NCCL developers",
            "ncclInternalError: Internal check failed.", "Socket recv failed while polling for opId=0x7f4774cc9620"),
       kLostRank},
      {nccl("remote process exited or there was a network error",
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "NET/IB : Got completion from peer 10.0.35.1<49189> with error 4, opcode 5327, len 5327, vendor err 81 "
            "(Send)"),
       kLostRank},
      {system_error("Error while creating shared memory segment /dev/shm/nccl-EoOvZr (size 7340384)"), kMachine},
      {system_error("Error while attaching to shared memory segment /dev/shm/nccl- (size 192814336), error: No such "
                    "file or directory (2)"),
       kMachine},
      {system_error("Error: failed to extend /dev/shm/nccl-fjwOOB to 5967876 bytes, error: No space left on device "
                    "(28)"),
       kMachine},
      {system_error("Call to ibv_reg_mr failed with error Cannot allocate memory"), kMachine},
      {system_error("Bootstrap : no socket interface found"), kMachine},
      {system_error("Call to socket failed: Too many open files"), kMachine},
      {cuda_error_in_nccl("Cuda failure 999 'unknown error'"), kMachine},
      {cuda_error_in_nccl("Cuda failure 'peer access is not supported between these two devices'"), kMachine},
      {cuda_error_in_nccl("Failed to CUDA calloc async 608 bytes\nCuda failure 2 'out of memory'"), kMemory},
      {nccl("invalid usage", "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
            "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 61000"),
       kMachine},
      {cuda_error("uncorrectable ECC error encountered", "cudaErrorECCUncorrectable"), kMachine},
      {from_watchdog(cuda_error("uncorrectable ECC error encountered", "cudaErrorECCUncorrectable")), kMachine},
      {cuda_error("uncorrectable NVLink error detected during the execution", "cudaErrorNvlinkUncorrectable"),
       kMachine},
      {cuda_error("CUDA-capable device(s) is/are busy or unavailable", "cudaErrorDevicesUnavailable"), kMachine},
      {cuda_error("no kernel image is available for execution on the device", "cudaErrorNoKernelImageForDevice"),
       kMachine},
      {cuda_error("out of memory", "cudaErrorMemoryAllocation"), kMemory},
      {"CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", kMemory},
      {"[enforce fail at alloc_cpu.cpp:121] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
       "allocate 8 bytes. Error code 12 (Cannot allocate memory)",
       kMemory},
      {"read: Bad message", kTamperedLink},
      {cuda_error("an illegal memory access was encountered", "cudaErrorIllegalAddress"), kUnknown},
      {from_watchdog(cuda_error("an illegal memory access was encountered", "cudaErrorIllegalAddress")), kUnknown},
      {"mat1 and mat2 shapes cannot be multiplied (4x3 and 4x3)", kUnknown},
      {"", kUnknown}};
  for (const auto& [message, failure] : messages) {
    EXPECT_EQ(static_cast<int>(dist::failure_of(message)), static_cast<int>(failure)) << message;
    EXPECT_EQ(dist::meaning_of(message).empty(), failure == kUnknown) << message;
  }
}

TEST(CollectiveFailures, AFaultOfThisMachineIsNotALostRank) {
  const std::string full = thrown_as<MachineError>([] {
    throw std::runtime_error(system_error("Error while creating shared memory segment /dev/shm/nccl-EoOvZr"));
  });
  EXPECT_TRUE(full.starts_with("a reduction failed: NCCL needs more shared memory")) << full;
  EXPECT_NE(full.find("--shm-size"), std::string::npos) << full;
  EXPECT_NE(full.find("/dev/shm/nccl-EoOvZr"), std::string::npos) << full;
  const std::string broken = thrown_as<MachineError>(
      [] { TORCH_CHECK(false, cuda_error("uncorrectable ECC error encountered", "cudaErrorECCUncorrectable")); });
  EXPECT_NE(broken.find("gpu_ids"), std::string::npos) << broken;
}

TEST(CollectiveFailures, AnIllegalAccessIsOurs) {
  thrown_as<InternalError>(
      [] { TORCH_CHECK(false, cuda_error("an illegal memory access was encountered", "cudaErrorIllegalAddress")); });
}

}  // namespace
}  // namespace trainer::testing
