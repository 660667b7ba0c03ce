#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "apps/train/driver_device.h"
#include "core/base/error.h"
#include "core/cpu/cpu_device.h"
#include "core/cuda_support/cuda_support.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {
using testing::ElementsAre;
using testing::HasSubstr;

/// GPU whose memory is all in use by device processes.
class FullDevice final : public Device {
 public:
  std::string description() const override { return "full"; }
  DeviceMemory allocate(std::size_t bytes) override {
    throw_error(ErrorCode::kResourceExhausted, "full has no {} bytes left", bytes);
  }
  std::unique_ptr<Stream> create_stream() override { return cpu_.create_stream(); }
  bool is_host_memory() const override { return false; }

 private:
  void release(std::byte*, std::size_t) noexcept override {}
  CpuDevice cpu_;
};

const DriverDevice kCpu{"the CPU", [] { return std::make_unique<CpuDevice>(); }};
const DriverDevice kAbsent{"GPU 0", []() -> std::unique_ptr<Device> {
                             throw_error(ErrorCode::kFailedPrecondition, "there is no driver");
                           }};
const DriverDevice kFull{"GPU 1", [] { return std::make_unique<FullDevice>(); }};

FinalReport show_bytes(Device& device) {
  const DeviceMemory memory = device.allocate(64);
  return {.title = "bytes", .text = device.description() + " has 64"};
}

TEST(ShowOn, TheFirstWorkingDeviceIsUsedAndTheOthersErrorsAreReported) {
  std::vector<std::string> told;
  const auto tell = [&](const std::string& line) { told.push_back(line); };
  EXPECT_THAT(report_on_first_device({kCpu}, show_bytes, tell).text, HasSubstr("cpu"));
  EXPECT_TRUE(told.empty());
  EXPECT_THAT(report_on_first_device({kAbsent, kFull, kCpu}, show_bytes, tell).text,
              HasSubstr("cpu"));
  EXPECT_THAT(
      told,
      ElementsAre(
          "the final report is computed on GPU 1 instead of GPU 0: there is no driver",
          "computing the final report on full",
          "the final report is computed on the CPU instead of GPU 1: full has no 64 bytes left"));
}

TEST(ShowOn, TheErrorOfTheLastDeviceReachesTheCaller) {
  std::vector<std::string> told;
  EXPECT_THAT(
      [&] {
        report_on_first_device({kFull, kAbsent}, show_bytes,
                               [&](const std::string& line) { told.push_back(line); });
      },
      test::throws_error(ErrorCode::kFailedPrecondition, "there is no driver"));
  EXPECT_EQ(told.size(), 2u);
}

TEST(ShowOn, AnInterruptedReportIsNotRepeatedOnAnotherDevice) {
  std::vector<std::string> told;
  const auto interrupted = [](Device&) -> FinalReport {
    throw_error(ErrorCode::kCancelled, "interrupted");
  };
  EXPECT_THAT(
      [&] {
        report_on_first_device({kFull, kCpu}, interrupted,
                               [&](const std::string& line) { told.push_back(line); });
      },
      test::throws_error(ErrorCode::kCancelled, "interrupted"));
  EXPECT_THAT(told, ElementsAre("computing the final report on full"));
}

std::vector<std::string> names(DeviceKind kind) {
  std::vector<std::string> result;
  for (const DriverDevice& device : driver_devices({.kind = kind})) result.push_back(device.name);
  return result;
}

TEST(DriverDevices, AreGpusWhereTheRunsAreAndTheCpuLast) {
  EXPECT_THAT(names(DeviceKind::kCpu), ElementsAre("the CPU"));
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  EXPECT_EQ(names(DeviceKind::kAuto).size(), support.gpus.size() + 1);
  EXPECT_EQ(names(DeviceKind::kCuda).front(), "GPU 0");
  EXPECT_EQ(names(DeviceKind::kCuda).back(), "the CPU");
}

TEST(DriverDevices, AMachineWithoutAGpuSaysWhyAndShowsOnItsCpu) {
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  if (support.unavailable_reason.empty()) GTEST_SKIP() << "skipped: this machine has a GPU";
  std::vector<std::string> told;
  const FinalReport report =
      report_on_first_device(driver_devices({.kind = DeviceKind::kCuda}), show_bytes,
                             [&](const std::string& line) { told.push_back(line); });
  EXPECT_THAT(report.text, HasSubstr("cpu"));
  EXPECT_THAT(told, ElementsAre(HasSubstr(support.unavailable_reason)));
}

TEST(DriverDevices, AGpuThatIsThereShows) {
  const CudaSupport support = cuda_support(plugin_search(plugin_places()));
  if (!support.unavailable_reason.empty())
    GTEST_SKIP() << "skipped: " << support.unavailable_reason;
  std::vector<std::string> told;
  const FinalReport report =
      report_on_first_device(driver_devices({.kind = DeviceKind::kAuto}), show_bytes,
                             [&](const std::string& line) { told.push_back(line); });
  EXPECT_THAT(report.text, HasSubstr("cuda"));
  EXPECT_THAT(told, ElementsAre(HasSubstr("computing the final report on cuda")));
}

}  // namespace
}  // namespace weft::apps
