#include "apps/run_files/device_keys.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "core/config/config_document.h"
#include "tests/support/thrown_error.h"

namespace weft::apps {
namespace {

using ::testing::HasSubstr;

DeviceConfig read_device(const std::string& yaml) {
  const auto document = ConfigDocument::parse(yaml, "f", {});
  const ConfigNode cluster = document.root().at("cluster");
  DeviceConfig config;
  keys_into(config)(cluster);
  cluster.finish();
  return config;
}

std::string problem_of(const std::string& yaml) {
  return test::error_message(ErrorCode::kInvalidConfig, [&] { read_device(yaml); });
}

TEST(DeviceKeys, SayWhatDevicesComputeOn) {
  EXPECT_EQ(read_device("cluster: {}\n"), DeviceConfig());
  const DeviceConfig gpus = read_device("cluster: {device: auto, share_gpu: true}\n");
  EXPECT_EQ(gpus.kind, DeviceKind::kAuto);
  EXPECT_TRUE(gpus.share_gpu);
  EXPECT_TRUE(gpus.deterministic);
  EXPECT_FALSE(read_device("cluster: {deterministic: false, device: cuda}\n").deterministic);
}

TEST(DeviceKeys, AreReportedWithTheirPlaceIfWrong) {
  EXPECT_THAT(problem_of("cluster: {deterministic: false}\n"),
              HasSubstr("has no effect with `device: cpu`"));
  EXPECT_EQ(
      problem_of("cluster: {device: gpu}\n"),
      "f:1:19: cluster.device: expected one of cpu, cuda, auto, found 'gpu'; did you mean 'cuda'?");
}

}  // namespace
}  // namespace weft::apps
