#pragma once

#include <mutex>
#include <string>

#include "core/log/log.h"
#include "tests/support/eventually.h"

namespace weft::test {

/// Log whose lines a test can read.
class LogLines final {
 public:
  Log log() {
    return Log(LogLevel::kInfo, [this](LogLevel, const std::string& line) {
      const std::lock_guard lock(mutex_);
      text_ += line + "\n";
    });
  }
  bool has(const std::string& part) {
    return eventually([&] { return text().find(part) != std::string::npos; });
  }
  std::string text() const {
    const std::lock_guard lock(mutex_);
    return text_;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;  // guarded by mutex_
};

}  // namespace weft::test
