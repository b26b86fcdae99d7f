#include "engine/dist/mpi/mpi_thread.h"

#include <signal.h>

#include <chrono>
#include <cstdlib>
#include <future>
#include <set>
#include <stdexcept>
#include <string>

namespace trainer::dist {
namespace {

/// Tests without a pause at first, as small messages take microseconds; then pauses to leave the cores to computation.
constexpr int kEagerTests = 100;
constexpr std::chrono::microseconds kPause{30};

}  // namespace

void check_mpi(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  throw std::runtime_error(std::string(what) + ": " + std::string(text, static_cast<size_t>(length)));
}

MpiWork::MpiWork(int rank, c10d::OpType type, std::vector<at::Tensor> tensors)
    : Work(rank, type),
      tensors_(std::move(tensors)),
      future_(c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()))) {}

void MpiWork::complete(const std::exception_ptr& failure) {
  if (failure)
    future_->setError(failure);
  else
    future_->markCompleted(c10::IValue(tensors_));
  finish(failure);
}

MpiThread& MpiThread::instance() {
  static auto* const thread = new MpiThread();  // ends in finish(); never destroyed while its own thread may use it
  return *thread;
}

MpiThread::MpiThread() {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals belong to the rank's main thread
  thread_ = std::thread([this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  run([] {
    int level = 0;
    check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &level), "MPI_Init_thread");
    check_mpi(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  });
  std::atexit([] { instance().finish(); });
}

void MpiThread::finish() {
  run([] { MPI_Finalize(); });
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void MpiThread::run(const std::function<void()>& call) {
  std::promise<void> done;
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back([&] {
      try {
        call();
        done.set_value();
      } catch (...) {
        done.set_exception(std::current_exception());
      }
    });
  }
  changed_.notify_one();
  done.get_future().get();
}

void MpiThread::start(const MpiWorkPtr& work, std::vector<MpiStage> stages) {
  const auto operation = std::make_shared<Operation>(Operation{work, std::move(stages)});
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back([this, operation] { go_on(operation); });
  }
  changed_.notify_one();
}

/// Begins the next stages up to one that must wait for MPI; after the last one, completes the work.
void MpiThread::go_on(const std::shared_ptr<Operation>& operation) {
  try {
    while (operation->pending == 0 && operation->begun < operation->stages.size()) {
      const auto requests = operation->stages[operation->begun++]();
      operation->pending = requests.size();
      requests_.insert(requests_.end(), requests.begin(), requests.end());
      operations_.insert(operations_.end(), requests.size(), operation);
    }
  } catch (...) {
    return operation->work->complete(std::current_exception());
  }
  if (operation->pending == 0) operation->work->complete(nullptr);
}

void MpiThread::serve() {
  for (int idle = 0;;) {
    const auto jobs = take_jobs(idle);
    for (const auto& job : jobs) job();
    if (requests_.empty()) {
      const std::lock_guard lock(mutex_);
      if (ending_) return;
    }
    idle = complete_some() || !jobs.empty() ? 0 : idle + 1;
  }
}

/// Takes the jobs to start. Waits for one when nothing is in flight; pauses briefly when MPI has long reported nothing.
std::vector<std::function<void()>> MpiThread::take_jobs(int idle) {
  std::unique_lock lock(mutex_);
  const auto asked = [this] { return !jobs_.empty() || ending_; };
  if (requests_.empty())
    changed_.wait(lock, asked);
  else if (idle > kEagerTests)
    changed_.wait_for(lock, kPause, asked);
  return std::exchange(jobs_, {});
}

bool MpiThread::complete_some() {
  if (requests_.empty()) return false;
  std::vector<int> indices(requests_.size());
  std::vector<MPI_Status> statuses(requests_.size());
  int count = 0;
  const int code =
      MPI_Testsome(static_cast<int>(requests_.size()), requests_.data(), &count, indices.data(), statuses.data());
  try {
    if (code == MPI_ERR_IN_STATUS)
      for (int i = 0; i < count; ++i) check_mpi(statuses[static_cast<size_t>(i)].MPI_ERROR, "a transfer");
    check_mpi(code, "MPI_Testsome");
  } catch (...) {
    fail_all(std::current_exception());
    return true;
  }
  std::vector<std::shared_ptr<Operation>> ready;
  for (int i = 0; i < count; ++i) {
    auto operation = std::exchange(operations_[static_cast<size_t>(indices[i])], nullptr);
    if (--operation->pending == 0) ready.push_back(std::move(operation));
  }
  std::erase(operations_, nullptr);
  std::erase(requests_, MPI_REQUEST_NULL);
  for (const auto& operation : ready) go_on(operation);
  return count > 0;
}

void MpiThread::fail_all(const std::exception_ptr& failure) {
  requests_.clear();
  std::set<std::shared_ptr<Operation>> all(operations_.begin(), operations_.end());
  operations_.clear();
  for (const auto& operation : all) operation->work->complete(failure);
}

}  // namespace trainer::dist
