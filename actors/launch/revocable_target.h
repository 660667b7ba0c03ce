#pragma once

#include <memory>
#include <mutex>

#include "core/base/thread.h"

namespace weft::actors {

/// Revocable target of callbacks that cannot be unregistered: they do nothing while no Open exists.
/// Copies share the target. Any thread.
template <typename T>
class RevocableTarget final {
 public:
  /// Scope in which callbacks reach `listener`. The destructor waits for a running callback.
  class Open final {
   public:
    Open(const RevocableTarget& ear, T& listener) : ear_(ear) { set(&listener); }
    ~Open() { set(nullptr); }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;

   private:
    void set(T* listener) {
      const std::lock_guard lock(ear_.state_->mutex);
      ear_.state_->listener = listener;
    }
    const RevocableTarget ear_;
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
