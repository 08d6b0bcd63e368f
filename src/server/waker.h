// From the engine's thread to a connection that waits: an event is ready.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/post.hpp>
#include <functional>
#include <memory>
#include <mutex>
#include <utility>

namespace holdfast::server {

// The engine may hold on to it longer than the connection lives, and longer than its executor: after Close it
// does nothing.
class Waker : public std::enable_shared_from_this<Waker> {
 public:
  // wake: called on the executor's thread.
  Waker(boost::asio::any_io_executor executor, std::function<void()> wake)
      : executor_(std::move(executor)), wake_(std::move(wake)) {}

  // Thread-safe. However often it is called before the other thread comes to it, that is woken once.
  void Notify() {
    const std::lock_guard lock(mutex_);
    if (closed_ || posted_) return;
    posted_ = true;
    boost::asio::post(executor_, [self = shared_from_this()] { self->Wake(); });
  }

  // On the executor's thread: wake is not called any more.
  void Close() {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    executor_ = {};
    wake_ = nullptr;  // what it holds belongs to the executor's thread, and must not outlive it
  }

 private:
  void Wake() {
    {
      const std::lock_guard lock(mutex_);
      posted_ = false;
      if (closed_) return;
    }
    wake_();  // Close is called on this thread: not in between
  }

  std::mutex mutex_;
  boost::asio::any_io_executor executor_;
  std::function<void()> wake_;
  bool posted_ = false, closed_ = false;
};

// Closes the waker at the end of a scope, however it ends.
class WakerScope {
 public:
  explicit WakerScope(std::shared_ptr<Waker> waker) : waker_(std::move(waker)) {}
  ~WakerScope() { waker_->Close(); }
  WakerScope(const WakerScope&) = delete;
  WakerScope& operator=(const WakerScope&) = delete;

 private:
  std::shared_ptr<Waker> waker_;
};

}  // namespace holdfast::server
