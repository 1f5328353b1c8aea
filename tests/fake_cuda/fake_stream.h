// The fake's streams and events: a stream is a thread that does one piece of work after the other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace zero3::fake_cuda {

// Something that is over once, and that threads wait for.
class Occurrence {
 public:
  void happen() {
    const std::lock_guard lock(mutex_);
    happened_ = true;
    changed_.notify_all();
  }
  bool happened() {
    const std::lock_guard lock(mutex_);
    return happened_;
  }
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return happened_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
};

}  // namespace zero3::fake_cuda

// CUDA's own names of what its handles point to.
struct CUstream_st {
 public:
  CUstream_st() : thread_([this] { work(); }) {}
  ~CUstream_st() {
    enqueue(nullptr);
    thread_.join();
  }
  void enqueue(std::function<void()> piece) {
    const std::lock_guard lock(mutex_);
    pieces_.push_back(std::move(piece));
    changed_.notify_all();
  }

 private:
  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !pieces_.empty(); });
      const std::function<void()> piece = std::move(pieces_.front());
      pieces_.pop_front();
      lock.unlock();
      if (piece == nullptr) return;
      piece();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> pieces_;
  std::thread thread_;  // the last: it uses the others
};

struct CUevent_st {
  std::shared_ptr<zero3::fake_cuda::Occurrence> last_record;
};
