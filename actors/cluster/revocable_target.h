#pragma once

#include <memory>
#include <mutex>

#include "core/base/thread.h"

namespace weft::actors {

/// Revocable target of callbacks that cannot be unregistered: they do nothing while no Binding
/// exists. Copies share the target. Any thread.
template <typename T>
class RevocableTarget final {
 public:
  /// Scope in which callbacks reach `listener`. The destructor waits for a running callback.
  class Binding final {
   public:
    Binding(const RevocableTarget& target, T& listener) : target_(target) { set(&listener); }
    ~Binding() { set(nullptr); }
    Binding(const Binding&) = delete;
    Binding& operator=(const Binding&) = delete;

   private:
    void set(T* listener) {
      const std::lock_guard lock(target_.state_->mutex);
      target_.state_->listener = listener;
    }
    const RevocableTarget target_;
  };

  template <typename F>
  void tell(F&& what) const {
    const std::lock_guard lock(state_->mutex);
    if (state_->listener != nullptr) what(*state_->listener);
  }

 private:
  struct State {
    Mutex mutex;
    T* listener = nullptr;  // guarded by mutex
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace weft::actors
