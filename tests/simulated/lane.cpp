#define USE_C10D_GLOO

#include "tests/simulated/lane.h"

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <utility>

#include <c10/core/StreamGuard.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "tests/simulated/device.h"

namespace trainer::simulated {
namespace {

/// Ends when the values have arrived, and then makes the caller's stream wait for the collective's.
class LaneWork : public c10d::Work {
 public:
  LaneWork(int rank, c10d::OpType kind, Clock end, c10::intrusive_ptr<c10::ivalue::Future> done,
           std::vector<at::Tensor> results)
      : Work(rank, kind), end_(std::move(end)), done_(std::move(done)), results_(std::move(results)) {}

  bool isCompleted() override { return done_->completed(); }
  bool isSuccess() const override { return done_->completed() && !done_->hasError(); }
  bool wait(std::chrono::milliseconds) override {
    done_->waitAndThrow();
    timeline().wait(current_stream(), end_);
    return true;
  }
  void synchronize() override { wait(std::chrono::milliseconds(0)); }
  std::vector<at::Tensor> result() override { return results_; }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return done_; }

 private:
  Clock end_;
  c10::intrusive_ptr<c10::ivalue::Future> done_;
  std::vector<at::Tensor> results_;
};

constexpr std::chrono::seconds kUntilWatchdog{3};

/// TRAINER_SIMULATED_STALL=RANK,NUMBER: this collective of a rank never runs, as when a link is down.
/// TRAINER_SIMULATED_CUT=RANK,NUMBER: at this one the rank's connections close, and it does nothing more.
bool is_at(const char* variable, int rank, uint64_t number) {
  const char* const where = std::getenv(variable);
  return where != nullptr && fmt::format("{},{}", rank, number) == where;
}

/// On the interface that NCCL would use: that of NCCL_SOCKET_IFNAME, or else within this machine.
Lane::Gloo make_gloo(const c10::intrusive_ptr<c10d::Store>& store, int rank, int size,
                     std::chrono::milliseconds timeout) {
  auto options = c10d::ProcessGroupGloo::Options::create();
  const char* const interface = std::getenv("NCCL_SOCKET_IFNAME");  // "=NAME" where the launcher has set it
  options->devices.push_back(interface != nullptr
                                 ? c10d::ProcessGroupGloo::createDeviceForInterface(interface + (*interface == '='))
                                 : c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1"));
  options->timeout = timeout;
  options->threads = 1;
  return c10::make_intrusive<c10d::ProcessGroupGloo>(store, rank, size, options);
}

/// As NCCL's watchdog, in whose thread nothing catches it. By one lane: a second one's would change its message.
[[noreturn]] void end_process(const std::string& text) {
  static std::mutex only_one;
  only_one.lock();
  throw std::runtime_error(text);
}

}  // namespace

Lane::Lane(std::string name, c10::intrusive_ptr<c10d::Store> store, int rank, int size, int device,
           std::chrono::milliseconds timeout)
    : name_(std::move(name)),
      store_(std::move(store)),
      rank_(rank),
      size_(size),
      device_(device),
      timeout_(timeout),
      stream_(communication_stream(name_)),
      thread_([this] { work_through(); }) {}

Lane::~Lane() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

c10::intrusive_ptr<c10d::Work> Lane::add(c10d::OpType kind, const std::vector<at::Tensor>& reads,
                                         const std::vector<at::Tensor>& writes, Transfer transfer) {
  timeline().wait(stream_, timeline().clock_of(current_stream()));
  const std::string what = fmt::format("{} number {}", c10d::opTypeToString(kind), ++number_);
  timeline().launch(stream_, what, ranges_of(reads), ranges_of(writes));
  auto done = c10::make_intrusive<c10::ivalue::Future>(
      c10::ListType::create(c10::TensorType::get()),
      std::vector<c10::Device>{c10::Device(kType, static_cast<c10::DeviceIndex>(device_))});
  auto work = c10::make_intrusive<LaneWork>(rank_, kind, timeline().clock_of(stream_), done, writes);
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back({std::move(done), writes, number_, what, std::move(transfer)});
  }
  changed_.notify_one();
  return work;
}

void Lane::work_through() {
  use(device_);
  const c10::StreamGuard on_its_stream(
      c10::Stream(c10::Stream::UNSAFE, c10::Device(kType, static_cast<c10::DeviceIndex>(device_)), stream_));
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return ends_ || !jobs_.empty(); });
    if (jobs_.empty()) return;
    Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    run(job);
  }
}

/// Whoever waits finds that the lane has let go of the tensors: when memory is freed is up to the caller alone.
void Lane::run(Job& job) {
  try {
    if (!gloo_) gloo_ = make_gloo(store_, rank_, size_, timeout_);
    const bool cut = is_at("TRAINER_SIMULATED_CUT", rank_, job.number);
    if (cut) gloo_.reset();
    if (cut || is_at("TRAINER_SIMULATED_STALL", rank_, job.number)) std::this_thread::sleep_for(std::chrono::hours(1));
    std::exchange(job.transfer, nullptr)(*gloo_);
    job.done->markCompleted(c10::IValue(std::move(job.results)));
  } catch (const std::exception& error) {
    fail(job, error.what());
  }
}

/// As NCCL's errors and its watchdog say it. A timeout ends the process; another failure ends whoever waits for the
/// collective, and, if nobody does within kUntilWatchdog, the process too.
void Lane::fail(Job& job, const std::string& reason) {
  if (reason.find("imed out") != std::string::npos)
    end_process(fmt::format("[Rank {}] Watchdog caught collective operation timeout: WorkNCCL({}, {}) ran for {} "
                            "milliseconds before timing out.",
                            rank_, name_, job.what, timeout_.count()));
  const std::string nccl = fmt::format("NCCL error in: ProcessGroupNCCL.cpp, remote process exited or there was a network error, "
                                       "NCCL version 2.27.5\nncclRemoteError: A call failed possibly due to a network error or a "
                                       "remote process exiting prematurely.\nLast error:\n{} of {}: {}",
                                       job.what, name_, reason);
  job.results.clear();
  job.done->setError(std::make_exception_ptr(std::runtime_error(nccl)));
  std::unique_lock lock(mutex_);
  if (changed_.wait_for(lock, kUntilWatchdog, [&] { return ends_ || aborted_; })) return;
  end_process(fmt::format("[Rank {}] Process group watchdog thread terminated with exception: {}", rank_, nccl));
}

void Lane::abort() {
  {
    const std::lock_guard lock(mutex_);
    aborted_ = true;
  }
  changed_.notify_one();
}

}  // namespace trainer::simulated
