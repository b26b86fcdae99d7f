#include "engine/dist/shm/call_queue.h"

#include <algorithm>

namespace trainer::dist::shm {

class CallQueue::Call : public c10d::Work {
 public:
  Call(CallQueue& queue, c10d::OpType kind, std::vector<at::Tensor> results, std::function<void()> run)
      : Work(queue.rank_, kind), queue_(queue), results_(std::move(results)), run_(std::move(run)) {}

  void run() {
    std::exception_ptr error;
    try {
      run_();
    } catch (...) {
      error = std::current_exception();
    }
    run_ = nullptr;
    finish(error);
  }
  bool wait(std::chrono::milliseconds) override {
    queue_.run_until(*this);
    if (const auto error = exception()) std::rethrow_exception(error);
    return true;
  }
  std::vector<at::Tensor> result() override { return results_; }
  /// Runs it: c10d's Reducer waits for the future, which nobody else would complete.
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    wait(kNoTimeout);
    auto future = c10::make_intrusive<c10::ivalue::Future>(c10::ListType::create(c10::TensorType::get()));
    future->markCompleted(c10::IValue(results_));
    return future;
  }

 private:
  CallQueue& queue_;
  std::vector<at::Tensor> results_;
  std::function<void()> run_;
};

WorkPtr CallQueue::add(c10d::OpType kind, std::vector<at::Tensor> results, std::function<void()> run) {
  auto call = c10::make_intrusive<Call>(*this, kind, std::move(results), std::move(run));
  const std::lock_guard lock(mutex_);
  waiting_.push_back(call);
  return call;
}

void CallQueue::run_until(const Call& last) {
  const std::lock_guard lock(mutex_);
  const auto is_last = [&](const auto& call) { return call.get() == &last; };
  const auto found = std::find_if(waiting_.begin(), waiting_.end(), is_last);
  if (found == waiting_.end()) return;  // it has run
  for (auto left = found - waiting_.begin(); left >= 0; --left) {
    waiting_.front()->run();
    waiting_.pop_front();
  }
}

}  // namespace trainer::dist::shm
