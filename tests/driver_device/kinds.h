#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "core/base/error.h"
#include "tests/contract/device/device_kinds.h"

namespace weft::test {

/// Runs tests on a device of each kind, including the CPU. Skips kinds that this machine lacks,
/// with the reason.
class EveryDevice : public testing::TestWithParam<KindOfDevice> {
 protected:
  void SetUp() override {
    try {
      device_ = GetParam().make();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kFailedPrecondition) throw;
      GTEST_SKIP() << "skipped: " << error.message();
    }
  }
  /// Returns true if the device uses the CPU's kernels, so that results are bit-identical.
  bool is_exact() const { return GetParam().name != "cuda"; }

  std::unique_ptr<Device> device_;
};

inline std::string name_of(const testing::TestParamInfo<KindOfDevice>& info) {
  return info.param.name;
}

}  // namespace weft::test
