#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>

namespace weft::simulation {

/// A stack of its own, which runs until it gives back: a simulated thread. Made, resumed and
/// destroyed by one thread of the system. One that has not ended leaves what lies on its stack as
/// it is.
class Fiber final {
 public:
  explicit Fiber(std::function<void()> run);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Runs it until it yields or ends.
  void resume();
  /// From inside: back to who resumed it.
  void yield();
  bool ended() const { return ended_; }

 private:
  static void enter(unsigned high, unsigned low);

  std::function<void()> run_;
  void* stack_ = nullptr;
  ucontext_t inside_{};
  ucontext_t outside_{};
  bool ended_ = false;
  // What the C++ runtime keeps of a thread: exceptions that are being handled.
  void* caught_ = nullptr;
  unsigned uncaught_ = 0;
  // For the address sanitizer.
  void* fake_stack_ = nullptr;
  const void* outer_stack_ = nullptr;
  std::size_t outer_size_ = 0;
};

}  // namespace weft::simulation
