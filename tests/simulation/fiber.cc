#include "tests/simulation/fiber.h"

#include <cxxabi.h>
#include <sys/mman.h>

#include <cstdint>
#include <utility>

#include "core/base/check.h"

#ifdef WEFT_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

namespace weft::simulation {
namespace {

constexpr std::size_t kStackBytes = std::size_t{4} << 20;  // address space; only used pages take
                                                           // memory

/// First two members of the runtime's __cxa_eh_globals (Itanium C++ ABI, 2.2.2).
struct ExceptionState {
  void* caught;
  unsigned uncaught;
};
ExceptionState& exception_state() {
  return *reinterpret_cast<ExceptionState*>(abi::__cxa_get_globals());
}

}  // namespace

Fiber::Fiber(std::function<void()> run) : run_(std::move(run)) {
  stack_ = ::mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  WEFT_CHECK(stack_ != MAP_FAILED, "no memory for a simulated thread");
  ::mprotect(stack_, 4096, PROT_NONE);
  ::getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  ::makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
                static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
}

Fiber::~Fiber() { ::munmap(stack_, kStackBytes); }

void Fiber::enter(unsigned high, unsigned low) {
  auto* self = reinterpret_cast<Fiber*>(std::uintptr_t{high} << 32 | low);
#ifdef WEFT_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &self->outer_stack_, &self->outer_size_);
#endif
  self->run_();
  self->ended_ = true;
  self->yield();
}

void Fiber::resume() {
  ExceptionState& state = exception_state();
  std::swap(state.caught, caught_);
  std::swap(state.uncaught, uncaught_);
#ifdef WEFT_ADDRESS_SANITIZER
  void* own_fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&own_fake_stack, stack_, kStackBytes);
#endif
  ::swapcontext(&outside_, &inside_);
#ifdef WEFT_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(own_fake_stack, nullptr, nullptr);
#endif
  std::swap(state.caught, caught_);
  std::swap(state.uncaught, uncaught_);
}

void Fiber::yield() {
#ifdef WEFT_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(ended_ ? nullptr : &fake_stack_, outer_stack_, outer_size_);
#endif
  ::swapcontext(&inside_, &outside_);
#ifdef WEFT_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack_, &outer_stack_, &outer_size_);
#endif
}

}  // namespace weft::simulation
