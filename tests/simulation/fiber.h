#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace weft::simulation {

/// Simulated thread: a separate stack that runs until it yields. A single system thread creates,
/// resumes and destroys it. Destroying a fiber that has not ended runs no destructors of its stack.
class Fiber final {
 public:
  explicit Fiber(std::function<void()> run);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs the fiber until it yields or ends.
  void resume();
  /// Returns to the caller of resume(). Call from inside the fiber.
  void yield();
  bool ended() const { return ended_; }

 private:
  static void enter(unsigned high, unsigned low);

  std::function<void()> run_;
  void* stack_ = nullptr;
  ucontext_t inside_{};
  ucontext_t outside_{};
  bool ended_ = false;
  // State of the C++ runtime for this thread: exceptions being handled.
  void* caught_ = nullptr;
  unsigned uncaught_ = 0;
  // State of the address sanitizer.
  void* fake_stack_ = nullptr;
  const void* outer_stack_ = nullptr;
  std::size_t outer_size_ = 0;
};

}  // namespace weft::simulation
