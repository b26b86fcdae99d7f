// Runs work on several threads and delivers the results in order.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

namespace trainer::data {

/// Calls `work` on other threads for each pushed item, and `take` on the caller's thread for each result, in the order
/// in which the items were pushed. push() or finish() rethrows an exception of `work` at its item's turn. At most a few
/// items per thread are queued.
template <class In, class Out>
class OrderedWorkers {
 public:
  OrderedWorkers(int threads, std::function<Out(In&&)> work, std::function<void(Out&&)> take)
      : work_(std::move(work)), take_(std::move(take)), most_waiting_(static_cast<size_t>(threads) * 4) {
    try {
      for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { run(); });
    } catch (const std::system_error&) {  // the limit of threads is reached: fewer do the same work
      if (threads_.empty()) throw;
    }
  }
  ~OrderedWorkers() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  OrderedWorkers(const OrderedWorkers&) = delete;
  OrderedWorkers& operator=(const OrderedWorkers&) = delete;

  void push(In&& item) {
    while (jobs_.size() >= most_waiting_) take_first();
    auto job = std::make_shared<Job>();
    job->in.emplace(std::move(item));
    {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(job);
    }
    jobs_.push_back(std::move(job));
    changed_.notify_one();
  }

  /// Takes all remaining results.
  void finish() {
    while (!jobs_.empty()) take_first();
  }

 private:
  struct Job {
    std::optional<In> in;
    std::optional<Out> out;
    std::exception_ptr error;
    bool done = false;
  };

  void run() {
    for (;;) {
      std::shared_ptr<Job> job;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return ended_ || !waiting_.empty(); });
        if (ended_) return;
        job = std::move(waiting_.front());
        waiting_.pop_front();
      }
      try {
        job->out.emplace(work_(std::move(*job->in)));
      } catch (...) {
        job->error = std::current_exception();
      }
      {
        const std::lock_guard lock(mutex_);
        job->done = true;
      }
      finished_.notify_one();
    }
  }

  void take_first() {
    const std::shared_ptr<Job> job = std::move(jobs_.front());
    jobs_.pop_front();
    {
      std::unique_lock lock(mutex_);
      finished_.wait(lock, [&] { return job->done; });
    }
    if (job->error) std::rethrow_exception(job->error);
    take_(std::move(*job->out));
  }

  std::function<Out(In&&)> work_;
  std::function<void(Out&&)> take_;
  size_t most_waiting_;
  std::deque<std::shared_ptr<Job>> jobs_;  // used by the caller: pushed and not taken
  std::mutex mutex_;
  std::condition_variable changed_, finished_;
  std::deque<std::shared_ptr<Job>> waiting_;  // pushed and not started
  bool ended_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace trainer::data
