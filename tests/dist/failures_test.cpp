// What exceptions of the collectives libraries mean.
#include <stdexcept>

#include <gtest/gtest.h>

#include <c10/util/Exception.h>

#include "engine/base/errors.h"
#include "engine/dist/backend_comm.h"

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
       {"NCCL error in", "ncclRemoteError", "Last error:", "10.0.0.2<50000> returned Connection refused"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
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

TEST(CollectiveFailures, LostRanksAreKnownByTheirMessages) {
  for (const char* const lost :
       {kNcclLines, "[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE)",
        "[../gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:4711"})
    EXPECT_TRUE(dist::tells_of_lost_rank(lost)) << lost;
  for (const char* const other : {"CUDA error: an illegal memory access was encountered", "CUDA out of memory", ""})
    EXPECT_FALSE(dist::tells_of_lost_rank(other)) << other;
}

}  // namespace
}  // namespace trainer::testing
