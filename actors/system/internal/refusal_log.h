#pragma once

#include <functional>
#include <string>
#include <utility>

#include "actors/net/address.h"
#include "core/base/clock.h"
#include "core/log/log.h"
#include "core/log/log_limit.h"

namespace weft::actors {

/// Log of refused connections: at most one warning in 10 s, as any stranger can cause one. Loop's
/// thread only.
class RefusalLog final {
 public:
  explicit RefusalLog(const Log& log) : log_(log) {}

  /// Sets the callback that receives each warning; null: none.
  void set_callback(std::function<void(const std::string&)> callback) {
    callback_ = std::move(callback);
  }
  /// Warns of a connection from `from`, refused for the reason `why`.
  void refused(const Address& from, const std::string& why);
  void warn(const std::string& text);

 private:
  const Log& log_;
  const SteadyClock clock_;
  LogLimit limit_{clock_, std::chrono::seconds(10)};
  std::function<void(const std::string&)> callback_;
};

}  // namespace weft::actors
