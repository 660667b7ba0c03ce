#pragma once

#include <utility>
#include <variant>

#include "core/base/error.h"

namespace weft {

/// Value of T, or the Error that occurred instead. For results collected per rank; other code
/// throws.
template <typename T>
class [[nodiscard]] Outcome {
 public:
  Outcome(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Outcome(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  /// Returns the value, or throws the error if there is none.
  const T& value() const& { return ok() ? std::get<0>(state_) : throw std::get<1>(state_); }
  T&& value() && { return ok() ? std::get<0>(std::move(state_)) : throw std::get<1>(state_); }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Outcome<void> {
 public:
  Outcome() = default;
  Outcome(Error error) : state_(std::move(error)) {}
  bool ok() const { return state_.index() == 0; }
  void value() const {
    if (!ok()) throw std::get<1>(state_);
  }
  const Error& error() const { return std::get<1>(state_); }

 private:
  std::variant<std::monostate, Error> state_;
};

}  // namespace weft
