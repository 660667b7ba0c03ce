#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <ostream>
#include <string>

#include "core/base/error.h"

namespace weft::test {

/// Kind of runner: how to make one, and what it runs on.
template <typename Runner>
struct KindOf {
  std::string name;
  /// Throws Error(kFailedPrecondition), with the reason, if this machine has no such runner.
  std::function<std::unique_ptr<Runner>()> make;
  /// True if it uses the GPU of this process.
  bool on_gpu = false;

  friend void PrintTo(const KindOf& kind, std::ostream* out) { *out << kind.name; }
};

/// Runners of a test program, each made at its first use and destroyed after the last test.
///
/// Remembers that the process has lost its GPU: after an illegal memory access, for example, all
/// later calls fail. Tests on the GPU are then skipped, so that one defect fails one test. A script
/// finds their reason, "skipped: this process has lost its GPU: ...", and runs them once more in
/// processes of their own. Runner has a method probe(), which does a small piece of work.
template <typename Runner>
class SharedRunners final : public testing::Environment {
 public:
  /// Runner, or the reason why a test on it is skipped.
  struct Found {
    Runner* runner = nullptr;
    std::string skip_reason = {};
  };

  Found find(const KindOf<Runner>& kind) {
    if (kind.on_gpu && lost_) return {.skip_reason = *lost_};
    Slot& slot = slots_[kind.name];
    if (slot.runner == nullptr && slot.skip_reason.empty()) {
      try {
        slot.runner = kind.make();
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kFailedPrecondition) throw;
        slot.skip_reason = "skipped: " + error.message();
      }
    }
    return {slot.runner.get(), slot.skip_reason};
  }

  /// Calls work(), which uses the runner. If it throws because of a defect and the runner's probe
  /// throws afterwards too, the GPU is lost.
  void watch(const KindOf<Runner>& kind, const std::function<void()>& work) {
    try {
      work();
    } catch (const Error& error) {
      if (kind.on_gpu && !lost_ && error.code() == ErrorCode::kInternal && !works(kind))
        lost_ = "skipped: this process has lost its GPU: " + error.message();
      throw;
    }
  }

  void TearDown() override { slots_.clear(); }

 private:
  struct Slot {
    std::unique_ptr<Runner> runner;
    std::string skip_reason;
  };

  bool works(const KindOf<Runner>& kind) {
    try {
      slots_.at(kind.name).runner->probe();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  std::map<std::string, Slot> slots_;
  std::optional<std::string> lost_;  ///< Reason of all later skips.
};

/// Returns the program's runners. Calls AddGlobalTestEnvironment, so it must be the initial value
/// of a variable of namespace scope.
template <typename Runner>
SharedRunners<Runner>& add_shared_runners() {
  auto* const runners = new SharedRunners<Runner>;  // GoogleTest destroys it
  testing::AddGlobalTestEnvironment(runners);
  return *runners;
}

}  // namespace weft::test
